// Constant expressions: integer literals with C's operators and precedence.
#include <kiln/emulator/emulator.hpp>
#include "emulator/ptx/parse/parser_impl.hpp"

namespace kiln::emulator::ptx {
namespace {

struct Operator {
  std::string_view text;
  int level;
};
/// Longer ones first.
constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7},
                                   {"<<", 8}, {">>", 8}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                                   {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}};
constexpr int kMaxNesting = 64;

std::int64_t apply(std::string_view op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  if (op == "||") return a != 0 || b != 0;
  if (op == "&&") return a != 0 && b != 0;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<<") return static_cast<std::int64_t>(y < 64 ? x << y : 0);
  if (op == ">>") return a >> (y < 64 ? y : 63);
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "&") return a & b;
  if (op == "+") return static_cast<std::int64_t>(x + y);
  if (op == "-") return static_cast<std::int64_t>(x - y);
  return static_cast<std::int64_t>(x * y);
}

}  // namespace

/// The operator that comes next, if it binds as tightly as `level`; consumed then.
std::string_view Parser::binary_operator(int level, int& own) {
  for (const Operator& o : kOperators) {
    const Lexer before = lex_;
    bool here = true;
    for (std::size_t i = 0; here && i < o.text.size(); ++i) here = accept(o.text.substr(i, 1));
    if (here && o.level >= level) {
      own = o.level;
      return o.text;
    }
    lex_ = before;
    if (here) return {};
  }
  return {};
}

std::int64_t Parser::primary_constant(int depth) {
  if (depth > kMaxNesting) fail("constant expression nested too deeply");
  if (accept("(")) {
    const std::int64_t v = constant(0, depth + 1);
    expect(")");
    return v;
  }
  if (accept("-"))
    return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(primary_constant(depth + 1)));
  if (accept("+")) return primary_constant(depth + 1);
  if (accept("~")) return ~primary_constant(depth + 1);
  if (accept("!")) return primary_constant(depth + 1) == 0 ? 1 : 0;
  return static_cast<std::int64_t>(integer("a constant"));
}

/// Operators that bind less tightly than `level` are left: 0 takes all.
std::int64_t Parser::constant(int level, int depth) {
  return more_constant(primary_constant(depth), level, depth);
}

std::int64_t Parser::more_constant(std::int64_t v, int level, int depth) {
  if (depth > kMaxNesting) fail("constant expression nested too deeply");
  int own = 0;
  for (std::string_view op; !(op = binary_operator(level, own)).empty();) {
    const std::int64_t right = constant(own + 1, depth + 1);
    if (op == "/" && (right == 0 || right == -1)) {
      if (right == 0) fail("division by zero in a constant");
      v = apply("-", 0, v);
    } else {
      v = op == "/" ? v / right : apply(op, v, right);
    }
  }
  if (level > 0 || !accept("?")) return v;
  const std::int64_t yes = constant(0, depth + 1);
  expect(":");
  const std::int64_t no = constant(0, depth + 1);
  return v != 0 ? yes : no;
}

/// An operand that only an expression can begin like: (1<<4)|3, ~0, -(2), !1.
bool Parser::constant_operand(Operand& o) {
  const Lexer before = lex_;
  const bool sign = accept("-") || accept("!");
  const bool begins = lex_.peek().is("~") || (lex_.peek().is("(") && !call_) ||
                      (sign && before.peek().is("!") && lex_.peek().kind == Token::Kind::integer);
  lex_ = before;
  if (!begins) return false;
  o.kind = Operand::Kind::integer;
  o.value = constant();
  return true;
}

}  // namespace kiln::emulator::ptx
