// One mistake is one finding: small programs with one mistake each, in loops that nvcc unrolls, with neighbours in
// other warps, in functions that are inlined at several places.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

#include "tests/driver/compile.hpp"

using kiln::test::compile;

TEST_CASE("programs with one mistake have one finding" * doctest::test_suite("breadth")) {
  for (const bool lines : {true, false}) {
    const std::string program =
        compile("mistakes/all", std::string(kiln::test::kPtx90) + (lines ? " -lineinfo" : ""));
    if (program.empty()) return;
    std::istringstream names(kiln::test::run_kiln("emulate -- " + program).out);
    int programs = 0;
    for (std::string name; std::getline(names, name); ++programs)
      for (const char* policy : {"eager", "lazy", "random"}) {
        const auto json = kiln::test::run_kiln(fmt::format("emulate --gpu H100 --policy {} --json -- {} {}",
                                                           policy, program, name))
                              .json();
        // Without source lines two instances of a template are two programs.
        const std::size_t want = name == "helper" && !lines ? 2 : 1;
        CHECK_MESSAGE(json.at("findings").size() == want, name, " ", policy, lines ? " with lines" : "");
        for (const auto& f : json.at("findings")) CHECK(f.at("severity") == "error");
      }
    CHECK(programs >= 14);
  }
}
