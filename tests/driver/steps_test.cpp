// Whole programs with their steps of synchronisation numbered: right and clean as they are under every policy of
// completion, and wrong without any one of the steps, as the device says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "tests/driver/compile.hpp"

TEST_CASE("every step of synchronisation that whole programs leave out is found" *
          doctest::test_suite("breadth")) {
  struct Program {
    const char* name;
    int steps;
    std::set<int> left_out;  ///< not found, or not in every run
  };
  const Program programs[] = {
      {"attention", 4, {}},
      // An initialised mbarrier that a cluster barrier publishes, and a barrier between rounds that the data order.
      {"clusters", 15, {7, 9}},
      // A fence between a volatile load and one that depends on it by a branch (9: a note); what no block looks at when
      // it comes late.
      {"grid_wide", 10, {8, 9}},
      {"pipelines", 10, {}},
      {"products", 13, {}},
      {"quantized", 9, {}},
      {"queues", 15, {}},
  };
  for (const Program& p : programs) {
    const std::string program =
        kiln::test::compile(std::string("steps/") + p.name,
                            "-lineinfo -gencode arch=compute_90a,code=compute_90a -I" KILN_SOURCE_DIR);
    if (program.empty()) return;
    const auto emulate = [&](const char* policy, int step) {
      return kiln::test::run_kiln(fmt::format(
          "emulate --gpu H100 --max-instructions 20000000 --policy {} -- {} {}", policy, program, step));
    };
    for (const char* policy : {"eager", "lazy", "random"}) {
      const auto r = emulate(policy, 0);
      INFO(p.name << ' ' << policy << ": " << r.out << r.err);
      CHECK(r.status == 0);
      CHECK(r.out.ends_with("right\n"));
    }
    for (int step = 1; step <= p.steps; ++step) {
      if (p.left_out.contains(step)) continue;
      const auto r = emulate("lazy", step);
      INFO(p.name << " without step " << step << ": " << r.out << r.err);
      CHECK(r.status != 0);
    }
  }
}
