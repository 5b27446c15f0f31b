// Recursive descent over an expression's text; the nodes that it makes are right when they are made (nodes.hpp).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/ascii.hpp"
#include "base/plural.hpp"
#include "generator/expression/names.hpp"
#include "generator/expression/nodes.hpp"

namespace kiln::expression {
namespace {

constexpr int kDeepest = 64;  ///< operands within operands

class Parser final : Nodes {
 public:
  Parser(std::string_view text, const std::vector<CapturedTensor>& tensors) : text_(text) {
    for (const CapturedTensor& tensor : tensors) tensors_.push_back({tensor, {}});
  }

  Expression run() {
    if (text_.size() > kMaxLength)
      fail(kMaxLength, fmt::format("an expression has at most {} characters", kMaxLength));
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] < ' ' || text_[i] > '~')
        fail(i, "an expression is one line of printable ASCII characters");
    }
    if (ended()) fail(at_, "the expression is empty");
    const int root = to_real(expression(), 0);
    if (!ended()) fail(at_, "the expression should end here");
    for (const UsedTensor& tensor : tensors_) {
      if (tensor.indices.empty())
        fail(text_.size(), fmt::format("the tensor '{}' is not used: it is written {}[h, q, k]",
                                       tensor.tensor.name, tensor.tensor.name));
    }
    return used(root, tensors_);
  }

 private:
  // ---- characters
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool ended() {
    next();
    return at_ == text_.size();
  }
  /// One level deeper while it lives.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > 2 * kDeepest)  // a parenthesis is two: its operand, and what is inside
        parser_.fail(parser_.start(), fmt::format("operands are nested more than {} deep", kDeepest));
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.depth_; }

   private:
    Parser& parser_;
  };
  bool accept(std::string_view token) {
    next();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token, std::string_view after) {
    if (!accept(token)) fail(at_, fmt::format("'{}' is missing after {}", token, after));
  }

  // ---- grammar
  int expression() {
    const Level level(*this);
    const std::size_t at_condition = start();
    const int condition = disjunction();
    if (!accept("?")) return condition;
    want_boolean(condition, at_condition);
    const std::size_t at_a = start();
    const int a = expression();
    expect(":", "the first branch of '?'");
    const std::size_t at_b = start();
    const int b = expression();
    return select(condition, a, b, at_condition, at_a, at_b);
  }
  int disjunction() {
    const std::size_t first = start();
    int left = conjunction();
    while (accept("||")) left = logical(Op::logical_or, left, first, [this] { return conjunction(); });
    return left;
  }
  int conjunction() {
    const std::size_t first = start();
    int left = comparison();
    while (accept("&&")) left = logical(Op::logical_and, left, first, [this] { return comparison(); });
    return left;
  }
  template <class Right>
  int logical(Op op, int left, std::size_t at_left, Right right) {
    want_boolean(left, at_left);
    const std::size_t at = start();
    const int other = right();
    want_boolean(other, at);
    return make(op, Type::boolean, {left, other});
  }
  std::optional<Op> comparison_operator() {
    constexpr std::pair<std::string_view, Op> kOperators[] = {
        {"<=", Op::less_equal}, {">=", Op::greater_equal}, {"==", Op::equal},
        {"!=", Op::not_equal},  {"<", Op::less},           {">", Op::greater}};
    for (const auto& [token, op] : kOperators) {
      if (accept(token)) return op;
    }
    return std::nullopt;
  }
  int comparison() {
    const std::size_t at_left = start();
    const int left = sum();
    const auto op = comparison_operator();
    if (!op) return left;
    const std::size_t at_right = start();
    const int result = compare(*op, left, sum(), at_left, at_right);
    const std::size_t after = start();
    if (comparison_operator()) fail(after, "comparisons do not chain: join them with &&");
    return result;
  }
  int sum() {
    const std::size_t at_left = start();
    int left = product();
    while (true) {
      const Op op = accept("+") ? Op::add : accept("-") ? Op::subtract : Op::literal;
      if (op == Op::literal) return left;
      const std::size_t at_right = start();
      const int right = product();
      left = arithmetic(op, left, right, at_left, at_right);
    }
  }
  int product() {
    const std::size_t at_left = start();
    int left = unary();
    while (true) {
      const Op op = accept("*")   ? Op::multiply
                    : accept("/") ? Op::divide
                    : accept("%") ? Op::modulo
                                  : Op::literal;
      if (op == Op::literal) return left;
      const std::size_t at_right = start();
      const int right = unary();
      left = op == Op::modulo ? integer_division(op, left, right, at_left, at_right)
                              : arithmetic(op, left, right, at_left, at_right);
    }
  }
  int unary() {
    const Level level(*this);
    if (accept("-")) {
      const std::size_t at = start();
      const int operand = unary();
      const Node x = node(operand);
      if (x.type == Type::integer && x.lowest >= -kInt32Max)
        return make(Op::negate, Type::integer, {operand}, -x.highest, -x.lowest);
      return make(Op::negate, Type::real, {to_real(operand, at)});
    }
    if (accept("+")) {
      const std::size_t at = start();
      const int operand = unary();
      if (node(operand).type == Type::boolean) to_real(operand, at);
      return operand;
    }
    if (next() == '!' && text_.substr(at_, 2) != "!=") {
      ++at_;
      const std::size_t at = start();
      const int operand = unary();
      want_boolean(operand, at);
      return make(Op::logical_not, Type::boolean, {operand});
    }
    return primary();
  }
  int primary() {
    const char c = next();
    const std::size_t begin = at_;
    if (accept("(")) {
      const int inside = expression();
      expect(")", "the parenthesis");
      return inside;
    }
    if (is_ascii_digit(c) || c == '.') return number();
    if (is_ascii_word(c)) return named();
    if (c == '\0') fail(begin, "an operand is missing at the end");
    fail(begin, fmt::format("an operand is wanted here: a number, a name or a parenthesis"));
  }
  bool skip_digits() {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_ascii_digit(text_[at_])) ++at_;
    return at_ > from;
  }
  bool skip_one_of(std::string_view characters) {
    const bool found = at_ < text_.size() && characters.find(text_[at_]) != std::string_view::npos;
    at_ += found ? 1 : 0;
    return found;
  }
  /// Goes past a number; returns whether it has a point or an exponent.
  bool skip_number() {
    const std::size_t begin = at_;
    bool good = skip_digits();
    const bool point = skip_one_of(".");
    if (point) good = skip_digits() || good;
    if (!good) fail(begin, "a number has at least one digit");
    const bool exponent = skip_one_of("eE");
    if (exponent) {
      skip_one_of("+-");
      if (!skip_digits()) fail(begin, "the exponent of the number has no digits");
    }
    if (at_ < text_.size() && (is_ascii_word(text_[at_]) || text_[at_] == '.'))
      fail(at_, "a number ends before this character: an operator is missing");
    return point || exponent;
  }
  int number() {
    const std::size_t begin = at_;
    const bool real = skip_number();
    const std::string_view text = text_.substr(begin, at_ - begin);
    Node literal;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), literal.value);
    // Beyond a double: too large, or nothing.
    if (read.ec == std::errc::result_out_of_range) {
      const bool small =
          text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
      literal.value = small ? 0.0 : HUGE_VAL;
    }
    if (!(std::fabs(literal.value) <= static_cast<double>(std::numeric_limits<float>::max())))
      fail(begin, "the number is larger than a float holds; infinity is written inf");
    if (!real && literal.value <= static_cast<double>(kInt32Max)) {
      literal.type = Type::integer;
      literal.lowest = literal.highest = static_cast<std::int64_t>(literal.value);
    }
    return add(std::move(literal));
  }
  int named() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_ascii_word(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    for (const VariableInfo& info : variables()) {
      if (info.name != name) continue;
      Node leaf;
      leaf.op = Op::variable, leaf.variable = info.variable, leaf.type = info.type,
      leaf.highest = info.highest;
      return add(std::move(leaf));
    }
    if (name == "inf") {
      Node literal;
      literal.value = std::numeric_limits<double>::infinity();
      return add(std::move(literal));
    }
    for (const FunctionInfo& info : functions()) {
      if (info.name == name) return call(info);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].tensor.name == name) return element(static_cast<int>(i));
    }
    if (next() == '[')
      fail(begin,
           fmt::format("no tensor is called '{}': declare it in score_mod.tensors, {{\"{}\": \"f32\"}}", name,
                       name));
    fail(begin, fmt::format("nothing is called '{}'; there are {}, inf and the functions {}", name,
                            variable_names(), function_names()));
  }
  bool has_wide_elements() const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [](const UsedTensor& used) { return used.tensor.dtype == DType::i32; });
  }
  /// name[i, j, ...]
  int element(int index) {
    UsedTensor& tensor = tensors_[static_cast<std::size_t>(index)];
    const std::string name = tensor.tensor.name;
    expect("[", fmt::format("the tensor {}", name));
    std::vector<int> args;
    std::vector<std::optional<Variable>> indices;
    const std::size_t begin = at_;
    do {
      const std::size_t at = start();
      args.push_back(expression());
      const Node& i = node(args.back());
      if (i.type != Type::integer)
        fail(at, fmt::format("an index of {} is an integer, not {}{}", name, type_text(i.type),
                             has_wide_elements()
                                 ? "; sums and products of int32 elements are real numbers: bound "
                                   "the elements first, max(min(x, 1000), 0)"
                                 : ""));
      indices.push_back(i.op == Op::variable ? std::optional(i.variable) : std::nullopt);
    } while (accept(","));
    const std::size_t end = start();
    expect("]", fmt::format("the indices of {}", name));
    if (args.size() > kMaxRank) fail(end, fmt::format("a tensor has at most {} dimensions", kMaxRank));
    if (tensor.indices.empty()) tensor.indices = indices;
    if (tensor.indices.size() != indices.size()) {
      fail(begin,
           fmt::format("{} has {} in one place and {} here", name,
                       number_of(static_cast<int>(tensor.indices.size()), "dimension"), indices.size()));
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (tensor.indices[i] != indices[i]) tensor.indices[i].reset();
    }
    Node load;
    load.op = Op::load, load.args = std::move(args), load.tensor = index;
    if (holds_integers(tensor.tensor.dtype)) {
      const std::int64_t lowest = tensor.tensor.dtype == DType::int8 ? -128 : -kInt32Max - 1;
      load.type = Type::integer, load.lowest = lowest, load.highest = -(lowest + 1);
    }
    return add(std::move(load));
  }
  int call(const FunctionInfo& info) {
    expect("(", fmt::format("the function {}", info.name));
    std::vector<int> args;
    std::vector<std::size_t> at;
    do {
      at.push_back(start());
      args.push_back(expression());
    } while (accept(","));
    const std::size_t end = start();
    expect(")", fmt::format("the arguments of {}", info.name));
    const bool variadic = info.op == Op::min || info.op == Op::max;
    const auto count = static_cast<int>(args.size());
    if (variadic ? count < 2 : count != info.arguments) {
      fail(end, fmt::format("{} takes {}{} argument{}, not {}", info.name, info.arguments,
                            variadic ? " or more" : "", info.arguments == 1 ? "" : "s", count));
    }
    switch (info.op) {
      case Op::select:
        return select(args[0], args[1], args[2], at[0], at[1], at[2]);
      case Op::idiv:
        return integer_division(info.op, args[0], args[1], at[0], at[1]);
      case Op::min:
      case Op::max: {
        int result = args[0];
        for (std::size_t i = 1; i < args.size(); ++i)
          result = arithmetic(info.op, result, args[i], at[0], at[i]);
        return result;
      }
      case Op::abs:
        if (node(args[0]).type == Type::integer && node(args[0]).lowest >= -kInt32Max) {
          const Node x = node(args[0]);
          const std::int64_t high = std::max(std::abs(x.lowest), std::abs(x.highest));
          return make(Op::abs, Type::integer, {args[0]}, x.lowest > 0 ? x.lowest : 0, high);
        }
        break;
      default:
        break;
    }
    for (std::size_t i = 0; i < args.size(); ++i) args[i] = to_real(args[i], at[i]);
    if (info.op == Op::pow) {
      if (const auto n = integer_of(args[1])) return power(args[0], *n);
    }
    return make(info.op, Type::real, std::move(args));
  }

  std::size_t start() {
    next();
    return at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<UsedTensor> tensors_;
};

}  // namespace

bool Expression::uses(Variable variable) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const Node& n) { return n.op == Op::variable && n.variable == variable; });
}

std::variant<Expression, ParseError> parse(std::string_view text,
                                           const std::vector<CapturedTensor>& tensors) {
  try {
    return Parser(text, tensors).run();
  } catch (const Failure& failure) {
    return failure.error;
  }
}

std::string describe(const ParseError& error, std::string_view text) {
  std::string_view rest = text.substr(std::min(error.position, text.size()));
  std::size_t length = 0;
  while (length < rest.size() && is_ascii_word(rest[length])) ++length;
  rest = rest.substr(0, std::max<std::size_t>(length, 1));
  std::string word = rest.empty() ? "the end" : fmt::format("'{}'", rest);
  // No character that a terminal obeys leaves here.
  if (!rest.empty() && (rest[0] < ' ' || rest[0] > '~'))
    word = fmt::format("'\\x{:02x}'", static_cast<unsigned char>(rest[0]));
  return fmt::format("at column {} ({}): {}", error.position + 1, word, error.reason);
}

bool holds_integers(DType dtype) {
  return dtype == DType::i32 || dtype == DType::int8;
}

}  // namespace kiln::expression
