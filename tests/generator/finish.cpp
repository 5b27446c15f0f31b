// The last steps of emission: loops of one round go, and no line is longer than 140 characters.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include <kiln/kiln.hpp>
#include "generator/emit/finish.hpp"
#include "generator/emit/lines.hpp"
#include "generator/emit/terms.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string wrapped(const std::string& text) {
  Lines lines;
  lines.add(text, {"file", 7});
  KernelSource source;
  source.text = lines.text();
  source.origins = lines.origins();
  wrap_lines(source);
  CHECK(source.origins.size() == static_cast<std::size_t>(std::ranges::count(source.text, '\n')));
  CHECK(source.origins.back().line == 7);
  return source.text;
}

std::string repeated(std::string_view text, int times, std::string_view between = " ") {
  std::string out;
  for (int i = 0; i < times; ++i) out += (i == 0 ? "" : std::string(between)) + std::string(text);
  return out;
}

std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    longest = std::max(longest, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

}  // namespace

TEST_CASE("a line that is too long is divided where it holds together least") {
  const std::string statement = "max_0a = fmaxf(max_0a, s_acc[100]);";
  SUBCASE("in the middle, between statements") {
    CHECK(wrapped("  " + repeated(statement, 4)) ==
          "  " + repeated(statement, 2) + "\n  " + repeated(statement, 2) + "\n");
  }
  SUBCASE("behind a comma of few parentheses, deeper") {
    const std::string argument = "f(" + repeated("a[10]", 5, ", ") + ")";
    CHECK(wrapped("  call(" + repeated(argument, 4, ", ") + ");") ==
          "  call(" + repeated(argument, 3, ", ") + ",\n      " + argument + ");\n");
  }
  SUBCASE("before an operator") {
    const std::string term = "row_exchange[16 + 2 * (lane & 3)]";
    CHECK(wrapped("  sum = " + repeated(term, 4, " + ") + ";") ==
          "  sum = " + repeated(term, 3, " + ") + "\n      + " + term + ";\n");
  }
  SUBCASE("in a string literal") {
    const std::string text = wrapped("  asm(\"" + repeated("%10", 60, ", ") + ";\");");
    CHECK(longest_line(text) <= 140);
    CHECK(text.starts_with("  asm(\"%10, %10,"));
    CHECK(text.find("%10, \"\n      \"%10, ") != std::string::npos);
  }
  SUBCASE("a comment at its end goes before it") {
    CHECK(wrapped("  " + repeated(statement, 3) + "  // what these three statements do") ==
          "  // what these three statements do\n  " + repeated(statement, 3) + "\n");
  }
  SUBCASE("a comment between words") {
    const std::string text = wrapped("  // " + repeated("word", 50));
    CHECK(text == "  // " + repeated("word", 27) + "\n  // " + repeated("word", 23) + "\n");
  }
}

TEST_CASE("a loop of one round is written as its body") {
  const auto rounds = [](const std::string& text) {
    Lines lines;
    lines.add(text, {"file", 7});
    KernelSource source;
    source.text = lines.text();
    source.origins = lines.origins();
    write_single_rounds(source);
    CHECK(source.origins.size() == static_cast<std::size_t>(std::ranges::count(source.text, '\n')));
    return source.text;
  };
  CHECK(rounds("  #pragma unroll 4\n  for (int i = 0; i < 1; ++i) row_max[i] = -1.0f;\n") ==
        "  row_max[0] = -1.0f;\n");
  CHECK(rounds("for (int i = 0; i < 1; ++i)\n  if (a) b[16 * i + c] = d + 16 * i;\nnext();\n") ==
        "if (a) b[c] = d;\nnext();\n");
  CHECK(
      rounds(
          "for (int u = 0; u < 1; ++u) {\n  const int at = 128 * u + lane;\n  for (int j = 0; j < 1; ++j) {\n"
          "    f(u, j, umin);\n  }\n}\n") == "{\n  const int at = lane;\n  {\n    f(0, 0, umin);\n  }\n}\n");
  for (const char* text :
       {"for (int i = 0; i < 2; ++i) f(i);\n", "for (int i = 0; i < 1; ++i) {\n  if (a) continue;\n}\n",
        "for (int i = 0; i < 1; ++i) {\n  const int i = 0;\n}\n"})
    CHECK(rounds(text) == text);
}

TEST_CASE("short lines, directives and lines of macros stay as they are") {
  const std::string text = "  short(a, b);\n#error " + repeated("a,", 100) + "\n  part(" +
                           repeated("a,", 100) + ") \\\n  \"" + repeated("nowhere-to-divide", 20, "-") +
                           "\";\n";
  CHECK(wrapped(text) == text);
}

TEST_CASE("factors have parentheses where they need them, and an offset of nothing is left out") {
  CHECK(factor("n") == "n");
  CHECK(factor("work.head") == "work.head");
  CHECK(factor("n + 1") == "(n + 1)");
  CHECK(plus("smem", 0) == "smem");
  CHECK(plus("smem", 1024) == "smem + 1024");
  CHECK(times("stride", 1) == "stride");
  CHECK(times("stride", 2) == "stride * 2");
}

TEST_CASE("no line of a shipped kernel is longer than 140 characters") {
  for (const auto& file : fs::recursive_directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs")) {
    const std::string folder = file.path().parent_path().filename();
    if (file.is_directory() || (!folder.starts_with("sm_") && !folder.starts_with("gfx"))) continue;
    CAPTURE(file.path());
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const KernelSource source = generate(make_plan(parse_config(text.str(), "test")));
    // The head comment has the config as one line.
    CHECK(longest_line(std::string_view(source.text).substr(source.head_bytes)) <= 140);
    static const std::regex loose("#pragma unroll[^\n]*\n *[^ f/w#][^\n]*");  // a pragma without its loop
    CHECK(!std::regex_search(source.text, loose));
    for (const char* idle : {"smem + 0", "(n) * ", "_stride_seq * 1)"}) {
      CAPTURE(idle);
      CHECK(source.text.find(idle) == std::string::npos);
    }
    CHECK(source.origins.size() == static_cast<std::size_t>(std::ranges::count(source.text, '\n')));
  }
}

}  // namespace kiln
