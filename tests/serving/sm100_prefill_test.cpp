// sm100_prefill on the emulated device: operand kinds, page sizes, masks and modifiers at the lengths where tiles end,
// and items without keys between others.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::emulated;

namespace {

Plan plan_of(const std::string& keys) {
  nlohmann::ordered_json config = {
      {"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}};
  config.update(nlohmann::ordered_json::parse("{" + keys + "}"));
  return make_plan(parse_config(config.dump(), "test"));
}

void check_up_the_ladder(const std::vector<std::string>& configs) {
  std::uint64_t seed = 0;
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan = plan_of(keys);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    check_at_tile_ends(plan, ++seed);
  }
}

}  // namespace

TEST_CASE("sm100_prefill: operands of sequences of different lengths") {
  check_up_the_ladder({
      R"("operand": {"kind": "ragged"}, "depth": 128, "mask": "causal")",
      R"("operand": {"kind": "ragged"}, "sink": true)",
      R"("operand": {"kind": "continuous"}, "mask": {"sliding_window": 70})",
      R"("operand": {"kind": "paged", "page_size": 256}, "mask": {"chunked": 100})",
      R"("operand": {"kind": "paged", "page_size": 48}, "depth": 96, "mask": "causal")",
      R"("operand": {"kind": "paged", "page_size": 16}, "depth": 128, "mask": "causal", "score_mod": {"softcap": 20})",
      R"("operand": {"kind": "paged", "page_size": 2}, "mask": "causal")",
      R"("operand": {"kind": "paged", "page_size": 1}, "mask": "custom", "BN": 64)",
  });
}

// The copies tell the correction at such an item that they saw Q's place free: else the correction could empty it twice
// before they look, which reads as once less.
TEST_CASE("sm100_prefill: items without keys, before, between and after others") {
  const std::vector<LadderCase> cases{{1, 400}, {255, 300}, {5, 0},  {400, 129}, {700, 127},
                                      {127, 0}, {64, 0},    {3, 40}, {300, 1}};
  for (const char* operand : {R"("kind": "ragged")", R"("kind": "paged", "page_size": 32)"}) {
    CAPTURE(operand);
    const Plan plan = plan_of(std::string(R"("mask": "causal", "operand": {)") + operand + "}");
    const KernelSource source = generate(plan);
    EmulatorOptions how;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      how.seed = seed;
      how.policy = seed == 0   ? EmulatorOptions::Policy::lazy
                   : seed == 1 ? EmulatorOptions::Policy::eager
                               : EmulatorOptions::Policy::random;
      how.num_sms = 1 + static_cast<int>(seed % 2);
      const LadderRun run = run_cases(emulated(), plan, source, cases, how, 2);
      for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
      for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    }
  }
}
