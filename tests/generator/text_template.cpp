// Text of templates/ with named holes and conditions.
#include <doctest/doctest.h>

#include <string>

#include <kiln/error.hpp>
#include "generator/emit/text_template.hpp"

namespace kiln {
namespace {

TEST_CASE("a hole is replaced wherever it stands, a hole of many lines keeps its indent") {
  Holes holes;
  holes.number("BM", 16).text("lines", "int a;\nint b;\n").text("none", "");
  CHECK(fill_text("f(${BM}, ${BM-1});\n", holes).text() == "f(16, 15);\n");
  CHECK(fill_text("{\n  ${lines}\n  ${none}\n}\n", holes).text() == "{\n  int a;\n  int b;\n}\n");
}

TEST_CASE("conditions choose lines, also inside one another") {
  const std::string text =
      "//@ if outer\nA\n//@ if inner\nB\n//@ else\nC\n//@ end\n//@ else\nD\n//@ if inner\nE\n//@ end\n//@ end\nF\n";
  const auto shown = [&](bool outer, bool inner) {
    return fill_text(text, Holes().when("outer", outer).when("inner", inner)).text();
  };
  CHECK(shown(true, true) == "A\nB\nF\n");
  CHECK(shown(true, false) == "A\nC\nF\n");
  CHECK(shown(false, true) == "D\nE\nF\n");
  CHECK(shown(false, false) == "D\nF\n");
  CHECK(fill_text("//@ if !outer\nA\n//@ end\n", Holes().when("outer", false)).text() == "A\n");
}

TEST_CASE("a name that was not given is an error, also in text that is left out") {
  const Holes none;
  CHECK_THROWS_AS(fill_text("${typo}\n", none), Error);
  CHECK_THROWS_AS(fill_text("x ${typo} y\n", none), Error);
  CHECK_THROWS_AS(fill_text("//@ if typo\n//@ end\n", none), Error);
  CHECK_THROWS_AS(fill_text("//@ if no\nx ${typo}\n//@ end\n", Holes().when("no", false)), Error);
}

TEST_CASE("conditions and holes are closed") {
  const Holes holes = Holes().when("yes", true);
  CHECK_THROWS_AS(fill_text("//@ if yes\n", holes), Error);
  CHECK_THROWS_AS(fill_text("//@ end\n", holes), Error);
  CHECK_THROWS_AS(fill_text("//@ else\n", holes), Error);
  CHECK_THROWS_AS(fill_text("a ${yes\n", holes), Error);
  CHECK_THROWS_AS(fill_template("stream_k.cuh", "no such section", holes), Error);
}

}  // namespace
}  // namespace kiln
