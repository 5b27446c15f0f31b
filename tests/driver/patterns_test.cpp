// Hand-written patterns of synchronisation under `kiln emulate --`: right and without a finding as they are, and each
// step that is left out is reported as what it is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/driver/compile.hpp"

namespace {

using kiln::test::CommandResult;

CommandResult emulate_pattern(const std::string& program, const std::string& policy,
                              const std::string& pattern, int step) {
  return kiln::test::run_kiln(
      fmt::format("emulate --gpu H100 --max-instructions 4000000 --json --policy {} -- {} {} {}", policy,
                  program, pattern, step));
}

}  // namespace

TEST_CASE("patterns by hand, and each of their steps left out" * doctest::test_suite("breadth")) {
  const std::string program =
      kiln::test::compile("programs/patterns", std::string("-lineinfo ") + kiln::test::kPtx90);
  if (program.empty()) return;
  struct Pattern {
    const char* name;
    std::vector<const char*> without;  ///< a finding for each step
  };
  const Pattern patterns[] = {
      {"ring", {"async-memory", "async-memory", "async-memory", "async-memory"}},
      {"stores",
       {"async-memory", "async-memory", "missing-proxy-fence", "async-memory", "async-memory",
        "async-memory"}},
      {"reload", {"missing-proxy-fence", "global-race", "async-memory"}},
      {"share", {"missing-mbarrier-fence", "invalid-mbarrier", "async-memory"}},
      {"pass_on", {"invalid-mbarrier", "async-memory"}},
      {"histogram", {"shared-race", "shared-race"}},
      {"in_turn", {"barrier-count", "shared-race"}},
      {"flag", {"global-race", "global-race", "global-race", "global-race"}},
      {"locked", {"global-race", "global-race"}},
      {"tiles", {"shared-race", "shared-race"}},
      {"last_block", {"global-race", "warp-race"}},
      {"look_back", {"global-race"}},
      {"counted", {"global-race", "global-race"}},
      {"lane_waits", {"global-race"}},
  };
  for (const Pattern& p : patterns) {
    for (const char* policy : {"eager", "lazy", "random"}) {
      const CommandResult r = emulate_pattern(program, policy, p.name, 0);
      INFO(p.name << " " << policy << " " << r.out << r.err);
      CHECK(r.status == 0);
      CHECK(r.err.find("right\n") != std::string::npos);
      CHECK(r.json().at("findings").empty());
    }
    for (std::size_t step = 1; step <= p.without.size(); ++step) {
      const CommandResult r = emulate_pattern(program, "lazy", p.name, static_cast<int>(step));
      INFO(p.name << " without step " << step);
      const std::string kind = fmt::format("\"{}\"", p.without[step - 1]);
      CHECK_MESSAGE(r.out.find(kind) != std::string::npos, r.out);
    }
  }
}
