#include "tests/expressions/random_expression.hpp"

#include <fmt/format.h>

#include <initializer_list>

namespace kiln::test {
namespace {

class Writer {
 public:
  explicit Writer(std::mt19937_64& random) : random_(random) {}

  std::string real(int depth) {
    if (depth <= 0) return real_leaf();
    const auto a = [&] { return real(depth - 1); };
    switch (below(18)) {
      case 0:
      case 1:
        return infix(a(), pick({" + ", "+", " - "}), a());
      case 2:
      case 3:
        return infix(a(), pick({" * ", "*"}), a());
      case 4:
        return infix(a(), " / ", below(3) == 0 ? real_literal() : a());
      case 5:
        return infix(a(), pick({" + ", " - ", " * ", " / "}), integer(depth - 1));
      case 6:
        return fmt::format("where({}, {}, {})", condition(depth - 1), a(), a());
      case 7:
        return fmt::format("({} ? {} : {})", condition(depth - 1), a(), a());
      case 8:
        return fmt::format("{}({}, {})", pick({"min", "max"}), a(), a());
      case 9:
        return fmt::format("max({}, min({}, {}), {})", a(), a(), a(), a());
      case 10:
        return fmt::format("pow({}, {})", a(),
                           pick({"2", "3", "-1", "-2", "7", "0", "0.5", "1.5", "-0.5", "+2", "-3"}));
      case 11:
        return fmt::format("pow({}, {})", a(), a());
      case 12:
        return fmt::format("{}({})", pick({"exp", "exp2", "tanh"}), a());
      case 13:
        return fmt::format("{}({})", pick({"log", "log2", "sqrt"}), a());
      case 14:
        return fmt::format("{}({})", pick({"abs", "floor"}), a());
      case 15:
        return pick({"-", "- ", "+", "--"}) + ("(" + a() + ")");
      case 16:
        return fmt::format("(exp({}) * {})", a(), real_literal());
      default:
        return real_leaf();
    }
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::string pick(std::initializer_list<const char*> choices) {
    return choices.begin()[below(choices.size())];
  }
  static std::string infix(const std::string& a, const std::string& op, const std::string& b) {
    return "(" + a + op + b + ")";
  }

  std::string real_literal() {
    switch (below(6)) {
      case 0:
        return fmt::format("{}.{}", below(100), below(1000));
      case 1:
        return fmt::format(".{}e{}", 1 + below(999), static_cast<int>(below(40)) - 30);
      case 2:
        // None below the least normal float: LLVM 22 loses the abs of a product with the reciprocal of one.
        return pick({"1e30", "3.4028234e38", "1e-30", "1.17549435e-38", "1e10", "65536.0", "16777217.0"});
      case 3:
        return pick({"0.5", "0.25", "2.0", "1.0", "0.0", "1.44269504"});
      case 4:
        return fmt::format("{}", below(1000000));
      default:
        return fmt::format("{:.3g}", static_cast<double>(1 + below(100000)) / 1000);
    }
  }
  std::string real_leaf() {
    if (below(12) == 0) return pick({"inf", "-inf"});
    return below(5) < 3 ? "score" : real_literal();
  }

  std::string integer_literal() {
    if (below(6) == 0) return pick({"0", "1", "2147483647", "16777215", "65536", "46341"});
    return fmt::format("{}", below(3000));
  }
  std::string integer(int depth) {
    if (depth <= 0) {
      if (below(3) == 0) return integer_literal();
      return pick({"q", "k", "h", "b", "seqlen_q", "seqlen_k"});
    }
    const auto a = [&] { return integer(depth - 1); };
    const auto divisor = [&] {
      return below(4) == 0 ? pick({"1", "2147483647", "16777216", "2"}) : fmt::format("{}", 1 + below(300));
    };
    switch (below(9)) {
      case 0:
        return infix(a(), " + ", a());
      case 1:
      case 2:
        return infix(a(), " - ", a());
      case 3:
        return infix(a(), " * ", below(2) == 0 ? integer_literal() : a());
      case 4:
        // Of products that do not fit an integer there is no remainder.
        return infix(integer(0), " % ", divisor());
      case 5:
        return fmt::format("idiv({} - {}, {})", integer(0), integer(0), divisor());
      case 6:
        return fmt::format("{}({}, {})", pick({"min", "max"}), a(), a());
      case 7:
        return fmt::format("where({}, {}, {})", condition(depth - 1), a(), a());
      default:
        return fmt::format("{}({})", pick({"abs", "-", "+"}), a());
    }
  }

  std::string condition(int depth) {
    const std::string op = pick({" < ", " <= ", " > ", " >= ", " == ", " != ", "<", "=="});
    if (depth > 0 && below(3) == 0) {
      switch (below(3)) {
        case 0:
          return infix(condition(depth - 1), " && ", condition(depth - 1));
        case 1:
          return infix(condition(depth - 1), " || ", condition(depth - 1));
        default:
          return "!(" + condition(depth - 1) + ")";
      }
    }
    if (below(2) == 0) return infix(integer(depth - 1), op, integer(depth - 1));
    return infix(real(depth - 1), op, below(2) == 0 ? real_literal() : real(depth - 1));
  }

  std::mt19937_64& random_;
};

}  // namespace

std::string random_expression(std::mt19937_64& random, int depth) {
  return Writer(random).real(depth);
}

}  // namespace kiln::test
