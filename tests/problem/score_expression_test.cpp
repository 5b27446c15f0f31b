// The expression language: what it takes, what it refuses and where, its values, and that emitted text keeps
// the tree's meaning (the text is compiled by this test as C++ through a table of the same expressions).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "generator/expression/emit.hpp"
#include "workbench/reference/score_expression.hpp"

using namespace kiln;
using namespace kiln::expression;

namespace {

Expression parsed(std::string_view text) {
  auto result = parse(text);
  if (const auto* error = std::get_if<ParseError>(&result)) FAIL(describe(*error, text));
  return std::get<Expression>(std::move(result));
}

double value(std::string_view text, double score = 0, const ScorePlace& place = {}) {
  return evaluate(parsed(text), score, place);
}

std::string expression_refusal(std::string_view text) {
  const auto result = parse(text);
  const auto* error = std::get_if<ParseError>(&result);
  return error == nullptr ? "accepted" : describe(*error, text);
}

// What the emitted text may call, for the table below.
[[maybe_unused]] float exp2_approx(float x) {
  return std::exp2(x);
}
[[maybe_unused]] float log2_approx(float x) {
  return std::log2(x);
}
[[maybe_unused]] float rcp_approx(float x) {
  return 1 / x;
}
[[maybe_unused]] int min(int a, int b) {
  return a < b ? a : b;
}
[[maybe_unused]] int max(int a, int b) {
  return a > b ? a : b;
}

}  // namespace

TEST_CASE("precedence and associativity") {
  CHECK(value("1 + 2 * 3") == 7);
  CHECK(value("(1 + 2) * 3") == 9);
  CHECK(value("10 - 4 - 3") == 3);
  CHECK(value("8 / 4 / 2") == 1);
  CHECK(value("-2 * -3") == 6);
  CHECK(value("1 < 2 && 3 < 2 || 1 == 1 ? 5 : 6") == 5);
  CHECK(value("0 > 1 ? 1 : 0 > 1 ? 2 : 3") == 3);
  CHECK(value("!(1 > 2) ? 1 : 0") == 1);
  CHECK(value("2 - -2") == 4);
}

TEST_CASE("variables, functions, integers") {
  const ScorePlace place{3, 7, 100, 40, 128, 256};
  CHECK(value("score + b + h + q + k + seqlen_q + seqlen_k", 0.5, place) ==
        0.5 + 3 + 7 + 100 + 40 + 128 + 256);
  CHECK(value("(k - q) % 7", 0, place) == 3);  // -60 = -9 * 7 + 3
  CHECK(value("idiv(k - q, 7)", 0, place) == -9);
  CHECK(value("q / 8", 0, place) == 12.5);
  CHECK(value("min(q, k, 12)", 0, place) == 12);
  CHECK(value("max(score, 1)", 0.5) == 1);
  CHECK(value("abs(k - q)", 0, place) == 60);
  CHECK(value("where(k > q, score, -inf)", 1, place) == -std::numeric_limits<double>::infinity());
  CHECK(value("pow(2, 10) + sqrt(16) + exp(0) + exp2(3) + log(1) + log2(8) + tanh(0) + floor(-0.5)") ==
        1024 + 4 + 1 + 8 + 3 - 1);
}

TEST_CASE("integers never overflow: what could leave 32 bits is real") {
  const Expression product = parsed("q * k");
  CHECK(product.nodes.back().op == Op::multiply);
  CHECK(product.nodes.back().type == Type::real);
  CHECK(to_cpp(product, {}) == "return ((float)q * (float)k);");
  CHECK(to_cpp(parsed("q * 2 + k"), {}) == "return (float)((q * 2) + k);");
}

TEST_CASE("refusals say where and why") {
  CHECK(expression_refusal("score +") == "at column 8 (the end): an operand is missing at the end");
  CHECK(expression_refusal("") == "at column 1 (the end): the expression is empty");
  CHECK(expression_refusal("score; asm(1)") == "at column 6 (';'): the expression should end here");
  CHECK(expression_refusal("score + foo") ==
        "at column 9 ('foo'): nothing is called 'foo'; there are score, b, h, q, k, seqlen_q, seqlen_k, inf "
        "and the "
        "functions where, min, max, abs, floor, exp, exp2, log, log2, sqrt, tanh, pow, idiv");
  CHECK(expression_refusal("q > k") ==
        "at column 1 ('q'): a number is wanted here, not true or false: where(condition, a, b) makes one of "
        "it");
  CHECK(expression_refusal("score ? 1 : 2") ==
        "at column 1 ('score'): a condition is wanted here, not a real number");
  CHECK(expression_refusal("score % 2") ==
        "at column 1 ('score'): an integer is wanted here, not a real number: floor(x / y) divides reals");
  CHECK(expression_refusal("q % k") ==
        "at column 5 ('k'): the divisor of an integer division is a positive integer literal");
  CHECK(expression_refusal("q % 0") ==
        "at column 5 ('0'): the divisor of an integer division is a positive integer literal");
  CHECK(expression_refusal("1 < 2 < 3") == "at column 7 ('<'): comparisons do not chain: join them with &&");
  CHECK(expression_refusal("min(1)") == "at column 6 (')'): min takes 2 or more arguments, not 1");
  CHECK(expression_refusal("tanh(1, 2)") == "at column 10 (')'): tanh takes 1 argument, not 2");
  CHECK(expression_refusal("(score") == "at column 7 (the end): ')' is missing after the parenthesis");
  CHECK(expression_refusal("2score") ==
        "at column 2 ('score'): a number ends before this character: an operator is missing");
  CHECK(expression_refusal("1e999") ==
        "at column 1 ('1e999'): the number is larger than a float holds; infinity is written inf");
  CHECK(expression_refusal("score // 2") ==
        "at column 8 ('/'): an operand is wanted here: a number, a name or a parenthesis");
  CHECK(expression_refusal("exp") == "at column 4 (the end): '(' is missing after the function exp");
  CHECK(expression_refusal("where(score, 1, 2)") ==
        "at column 7 ('score'): a condition is wanted here, not a real number");
  CHECK(expression_refusal("(1 > 0) + 1") ==
        "at column 1 ('('): a number is wanted here, not true or false: where(condition, a, b) makes one of "
        "it");
}

TEST_CASE("length and depth have limits") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '(') + "score" + std::string(depth, ')');
  };
  CHECK(value(nested(60), 2) == 2);
  const std::string deep = "operands are nested more than 64 deep";
  CHECK(expression_refusal(nested(65)).find(deep) != std::string::npos);
  CHECK(expression_refusal(std::string(1000, '(')).find(deep) != std::string::npos);
  CHECK(expression_refusal(std::string(1000, '-') + "score").find(deep) != std::string::npos);
  const std::string longest = "score" + std::string(kMaxLength - 5, ' ');
  CHECK(value(longest, 2) == 2);
  CHECK(expression_refusal(longest + " ") ==
        "at column 1025 (' '): an expression has at most 1024 characters");
}

TEST_CASE("text is one line of printable characters, in messages, too") {
  const std::string line = ": an expression is one line of printable ASCII characters";
  CHECK(expression_refusal("score +\n 1") == "at column 8 ('\\x0a')" + line);
  CHECK(expression_refusal("score\t") == "at column 6 ('\\x09')" + line);
  CHECK(expression_refusal("\x1b[31m") == "at column 1 ('\\x1b')" + line);
  CHECK(expression_refusal("score + \xc3\xa9") == "at column 9 ('\\xc3')" + line);
  CHECK(expression_refusal(std::string_view("score\0 + 1", 10)) == "at column 6 ('\\x00')" + line);
}

TEST_CASE("emitted text grows as the expression does") {
  std::string nested = "k - q", sum = "score";
  for (int i = 0; i < 40; ++i) nested = "idiv(" + nested + ", 3)";
  while (sum.size() < 1000) sum += "+k*q";
  for (const std::string& text : {nested, sum}) {
    const std::string body = to_cpp(parsed(text), {});
    CHECK(body.size() < 60 * text.size());
    for (std::size_t at = 0; at < body.size();) {  // and no line is long
      const std::size_t end = std::min(body.find('\n', at), body.size());
      CHECK(end - at < 300);
      at = end + 1;
    }
  }
}

TEST_CASE("equal parts are computed once") {
  const Expression tree = parsed("exp(score - 1) * exp(score - 1) + exp(score - 1)");
  CHECK(tree.nodes.size() == 7);  // score, 1, to_real, -, exp, *, +
  CHECK(to_cpp(tree, {}) ==
        "const float x_0 = exp2_approx((score - 1.0f) * 1.44269504f);\nreturn ((x_0 * x_0) + x_0);");
}

TEST_CASE("integer powers are products") {
  CHECK(value("pow(score, 2)", -3) == 9);
  CHECK(value("pow(score, 3)", -3) == -27);
  CHECK(value("pow(score, 13)", -1.5) == std::pow(-1.5, 13));
  CHECK(value("pow(score, -3)", -2) == -0.125);
  CHECK(value("pow(score, 0)", -2) == 1);
  CHECK(value("pow(score, 2.0)", -3) == 9);
  CHECK(to_cpp(parsed("pow(score, 2)"), {}) == "return (score * score);");
  for (const Node& node : parsed("pow(score, 1023)").nodes) CHECK(node.op != Op::pow);
  CHECK(std::isnan(value("pow(score, 0.5)", -4)));
  CHECK(value("pow(score, 0.5)", 4) == 2);
}

TEST_CASE("integer division at the ends of 32 bits") {
  const ScorePlace place{0, 0, 16777215, 0, 16777215, 1};
  CHECK(value("(k - q) % 2147483647", 0, place) == 2147483647 - 16777215);
  CHECK(to_cpp(parsed("(k - q) % 2147483647"), {}) ==
        "const int x_0 = ((k - q) % 2147483647);\nreturn (float)(x_0 < 0 ? x_0 + 2147483647 : x_0);");
  CHECK(value("idiv(k - q, 2147483647)", 0, place) == -1);
}

// Each row holds an expression and the text that is emitted for it, as code.
TEST_CASE("emitted text means what the tree means") {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  struct Case {
    const char* text;
    const char* emitted;
    float (*run)(float, int, int, int, int, int, int);
  };
#define CASE(text, ...)                                                                                    \
  Case {                                                                                                   \
    text, #__VA_ARGS__, [](float score, int b, int h, int q, int k, int seqlen_q, int seqlen_k) -> float { \
      (void)score, (void)b, (void)h, (void)q, (void)k, (void)seqlen_q, (void)seqlen_k, (void)kInfinity;    \
      __VA_ARGS__                                                                                          \
    }                                                                                                      \
  }
  const Case cases[] = {
    CASE("where(q % 3 == k % 3, -inf, score)", return (((q % 3) == (k % 3)) ? (-kInfinity) : score);),
    CASE("score + 0.01 * (k - q)", return (score + (0.01f * (float)(k - q)));),
    CASE("(k - q) % 7 + idiv(k - q, 7)", const int x_0 = (k - q); const int x_1 = (x_0 % 7);
         return (float)((x_1 < 0 ? x_1 + 7 : x_1) + (x_0 / 7 - (x_0 % 7 < 0 ? 1 : 0)));),
    CASE("(k - q) % 8 + idiv(k - q, 16)", const int x_0 = (k - q); return (float)((x_0 & 7) + (x_0 >> 4));),
    CASE("tanh(score) * min(h, 3)",
         return ((1.0f - 2.0f * rcp_approx(1.0f + exp2_approx(score * 2.88539008f))) * (float)min(h, 3));),
    CASE("score / 4 + log(exp(score))",
         return ((score * 0.25f) + (log2_approx(exp2_approx(score * 1.44269504f)) * 0.693147181f));),
    CASE("pow(score, 3) + pow(score, -2)", const float x_0 = (score * score);
         return ((score * x_0) + (1.0f * rcp_approx(x_0)));),
  };
#undef CASE
  for (const Case& c : cases) {
    const Expression tree = parsed(c.text);
    std::string body = to_cpp(tree, {});
    std::replace(body.begin(), body.end(), '\n', ' ');
    CHECK(body == c.emitted);
    for (int i = 0; i < 200; ++i) {
      const float score = 0.05F * static_cast<float>(i - 100);
      const ScorePlace at{i % 3, i % 5, (i * 37) % 101, (i * 53) % 97, 101, 97};
      const auto n = [](std::int64_t x) { return static_cast<int>(x); };
      const double got = c.run(score, n(at.b), n(at.h), n(at.q), n(at.k), n(at.seqlen_q), n(at.seqlen_k));
      const double wanted = evaluate(tree, score, at);
      CAPTURE(c.text);
      if (std::isinf(wanted)) {
        CHECK(got == wanted);
      } else {
        CHECK(got == doctest::Approx(wanted).epsilon(1e-5));
      }
    }
  }
}
