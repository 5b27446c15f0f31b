// "source_style": "compact": the same lines in the same order, strips of them in loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/kiln.hpp>
#include "generator/emit/fold.hpp"
#include "generator/emit/lines.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln {
namespace {

std::string folded(const std::string& text) {
  Lines lines;
  lines.add(text, {"file", 7});
  KernelSource source;
  source.text = lines.text();
  source.origins = lines.origins();
  fold_strips(source);
  CHECK(source.origins.size() ==
        static_cast<std::size_t>(std::count(source.text.begin(), source.text.end(), '\n')));
  return source.text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// `line` in round `round` of a loop over `i`: "s[2 * i + 1]" of round 3 is "s[7]".
std::string in_round(std::string line, const std::string& i, long round) {
  const auto replace = [&line](const std::regex& form, auto value) {
    for (std::smatch found; std::regex_search(line, found, form);)
      line = found.prefix().str() + std::to_string(value(found)) + found.suffix().str();
  };
  const auto number = [](const std::string& text) { return text.empty() ? 0L : std::stol(text); };
  replace(std::regex("\\(?\\b(\\d+) - (\\d+) \\* " + i + "\\b\\)?"),
          [&](const std::smatch& m) { return number(m[1]) - number(m[2]) * round; });
  const auto with_rest = [&](const std::smatch& m, long step) {
    const std::string rest = m[m.size() - 1];
    return step * round + (rest.empty() ? 0 : (rest[1] == '-' ? -1 : 1) * number(rest.substr(3)));
  };
  // Brackets only where both stand.
  for (const char* form : {"\\((\\d+) \\* I( [+-] \\d+)?\\)", "\\b(\\d+) \\* I\\b( [+-] \\d+)?"})
    replace(std::regex(std::regex_replace(form, std::regex("I"), i)),
            [&](const std::smatch& m) { return with_rest(m, number(m[1])); });
  for (const char* form : {"\\(I( [+-] \\d+)\\)", "\\bI\\b( [+-] \\d+)?"})
    replace(std::regex(std::regex_replace(form, std::regex("I"), i)),
            [&](const std::smatch& m) { return with_rest(m, 1); });
  return line;
}

/// Expands the loop at `at` of `compact`, which moves behind it.
std::vector<std::string> expand(const std::vector<std::string>& compact, std::size_t& at) {
  static const std::regex head(" *for \\(int (\\w+) = (\\d+); \\w+ < (\\d+); \\+\\+\\w+\\) \\{");
  std::smatch loop;
  REQUIRE(std::regex_match(compact.at(at + 1), loop, head));
  std::size_t end = at + 3;
  while (compact.at(end).find_first_not_of(' ') != compact.at(at).find_first_not_of(' ')) ++end;
  std::vector<std::string> out;
  for (long round = std::stol(loop[2]); round < std::stol(loop[3]); ++round)
    for (std::size_t line = at + 2; line < end; ++line)
      out.push_back(in_round(compact[line].substr(2), loop[1], round));
  at = end + 1;
  return out;
}

}  // namespace

TEST_CASE("strips become loops over the same names") {
  CHECK(folded("  s[0] -= b; s[1] -= b;\n  s[2] -= b; s[3] -= b;\n  s[4] -= b; s[5] -= b;\n"
               "  s[6] -= b; s[7] -= b;\n  s[8] -= b; s[9] -= b;\n  s[10] -= b; s[11] -= b;\n"
               "  s[12] -= b; s[13] -= b;\n") ==
        "  #pragma unroll\n  for (int i = 0; i < 7; ++i) {\n    s[2 * i] -= b; s[2 * i + 1] -= b;\n  }\n");
  // The loop begins where what is added is least.
  CHECK(
      folded(
          "m = max(m, s[4]); n = max(n, s[5]);\nm = max(m, s[6]); n = max(n, s[7]);\nm = max(m, s[8]); n = max(n, s[9]);\n"
          "m = max(m, s[10]); n = max(n, s[11]);\nm = max(m, s[12]); n = max(n, s[13]);\n"
          "m = max(m, s[14]); n = max(n, s[15]);\nm = max(m, s[16]); n = max(n, s[17]);\n") ==
      "#pragma unroll\nfor (int i = 2; i < 9; ++i) {\n  m = max(m, s[2 * i]); n = max(n, s[2 * i + 1]);\n}\n");
}

TEST_CASE("what has to stay a constant, a declaration or a comment stays a line") {
  for (const char* line : {"  WAIT(%);\n", "  // row %\n", "  f<%>(x);\n", "  __builtin_f(%);\n",
                           "  x%y = 1;\n", "  asm volatile(\"a %;\");\n", "  const float x = 1.%f;\n"}) {
    std::string text;
    for (int i = 0; i < 8; ++i)
      text += std::string(line).replace(std::string(line).find('%'), 1, std::to_string(i));
    CHECK(folded(text) == text);
  }
}

TEST_CASE("a compact kernel's loops, written out, are the unrolled kernel") {
  for (
      const char* config : {
          R"({"target": "sm_80", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "causal"})",
          R"({"target": "sm_80", "operation": "decode", "dtype": "fp16", "depth": 64, "operand": {"kind": "paged", "page_size": 16}})",
          R"({"target": "sm_90a", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": "causal"})",
          R"({"target": "sm_90a", "operation": "prefill", "dtype": "fp8_e4m3", "depth": 64, "score_mod": {"softcap": 30}})",
          R"({"target": "sm_90a", "operation": "decode", "dtype": "bf16", "depth": 576, "ov_depth": 512, "v_from_k": true})",
          R"({"target": "sm_100a", "operation": "prefill", "dtype": "bf16", "depth": 128})",
          R"({"target": "gfx942", "operation": "prefill", "dtype": "bf16", "depth": 128, "mask": {"sliding_window": 1000}})",
          R"({"target": "gfx950", "operation": "prefill", "dtype": "fp8_e4m3", "depth": 128})",
      }) {
    CAPTURE(config);
    Config c = parse_config(config, "test");
    const KernelSource unrolled = make_plan(c).schedule().emit();  // before its lines are wrapped
    c.name = unrolled.manifest.name;
    c.source_style = "compact";
    const KernelSource compact = make_plan(c).schedule().emit();
    CHECK(compact.origins.size() < unrolled.origins.size());
    const auto wanted = lines_of(unrolled.text.substr(unrolled.head_bytes));
    const auto have = lines_of(compact.text.substr(compact.head_bytes));
    std::size_t w = 0, at = 0, loops = 0;
    while (at < have.size() && w < wanted.size()) {
      if (have[at] == wanted[w]) {
        ++at, ++w;
        continue;
      }
      ++loops;
      for (const std::string& line : expand(have, at)) REQUIRE(line == wanted.at(w++));
    }
    CHECK(at == have.size());
    CHECK(w == wanted.size());
    CHECK(loops > 0);
  }
}

TEST_CASE("loops over strips are refused where they were seen to spill, next to those that leave registers") {
  struct Case {
    const char *spills, *fits;
  };
  for (
      const Case& c :
      {Case{
           R"({"target": "gfx950", "dtype": "fp8_e4m3", "depth": 256, "num_threads": 384, "mma_shape": [16, 16, 128], "v_from_k": true)",
           R"({"target": "gfx950", "dtype": "fp8_e4m3", "depth": 128, "num_threads": 384, "mma_shape": [16, 16, 128], "v_from_k": true)"},
       Case{
           R"({"target": "gfx942", "dtype": "bf16", "depth": 256, "ov_depth": 384, "mma_shape": [32, 32, 8], "mask": "causal", "full_kv": false)",
           R"({"target": "gfx942", "dtype": "bf16", "depth": 256, "mma_shape": [32, 32, 8], "mask": "causal", "full_kv": false)"},
       Case{
           R"({"target": "gfx942", "dtype": "bf16", "depth": 80, "num_threads": 384, "score_mod": "alibi")",
           R"({"target": "gfx942", "dtype": "bf16", "depth": 128, "num_threads": 512, "score_mod": "alibi")"}}) {
    const auto plan = [](const std::string& config, const char* style) {
      make_plan(
          parse_config(config + R"(, "operation": "prefill", "source_style": ")" + style + "\"}", "test"));
    };
    CAPTURE(c.spills);
    CHECK_NOTHROW(plan(c.spills, "unrolled"));
    CHECK_NOTHROW(plan(c.fits, "compact"));
    CHECK_THROWS_WITH_AS(plan(c.spills, "compact"), doctest::Contains("(nearest legal: unrolled)"), Error);
  }
}

}  // namespace kiln
