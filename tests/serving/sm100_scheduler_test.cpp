// Where the work items of sm100_prefill come from: every source gives each item to one block, whatever the number of
// multiprocessors and of blocks, and as the hardware may refuse to cancel a block.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_output_of;
using kiln::test::compiler;
using kiln::test::count;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan scheduler_plan(const std::string& keys) {
  return plan_with({{"target", "sm_100a"}, {"operation", "prefill"}, {"dtype", "bf16"}, {"depth", 128}},
                   keys);
}

/// Three heads in two sequences of `rows` rows, on `num_sms` multiprocessors, by at most `max_blocks` blocks.
void check_launch(const Plan& plan, std::int64_t rows, int num_sms, int max_blocks, std::uint64_t seed) {
  CAPTURE(num_sms);
  CAPTURE(max_blocks);
  ProblemShape shape;
  shape.heads_q = shape.heads_kv = 3;
  shape.depth = shape.ov_depth = plan.resolved().depth;
  shape.lengths_q = shape.lengths_k = {rows, rows};
  EmulatorOptions how;
  how.seed = seed, how.num_sms = num_sms;
  how.policy = seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
  RunOptions options;
  options.emulator = &how, options.max_blocks = max_blocks;
  const Workload work = random_workload(shape, plan.resolved(), seed);
  check_output_of(work, plan.resolved(),
                  run_workload(emulated(), *emulated().load(generate(plan)), work, options));
}

}  // namespace

TEST_CASE("sm100_prefill: the source of work items is what the mask and the operand need") {
  const std::pair<const char*, const char*> defaults[] = {
      {R"("mask": "none")", "static"},
      {R"("mask": "custom")", "static"},
      {R"("mask": "causal")", "launch_control"},
      {R"("mask": {"sliding_window": 100})", "launch_control"},
      {R"("mask": "causal", "pair_cta": true)", "launch_control"},
      {R"("operand": {"kind": "ragged"})", "counter"},
      {R"("mask": "causal", "operand": {"kind": "paged", "page_size": 64})", "counter"},
  };
  for (const auto& [keys, scheduler] : defaults) {
    CAPTURE(keys);
    const Plan plan = scheduler_plan(keys);
    CHECK(plan.resolved().scheduler == scheduler);
    const KernelSource source = generate(plan);
    const bool cancels = std::string(scheduler) == "launch_control";
    CHECK((source.manifest.grid.kind == GridRule::Kind::items) == cancels);
    CHECK(source.manifest.takes("tile_counter") == (std::string(scheduler) == "counter"));
    const std::string ptx = compiler().compile(source)->ptx;
    CHECK(count(ptx, "clusterlaunchcontrol.try_cancel") == (cancels ? 1 : 0));
    CHECK(generate(make_plan(plan.resolved())).text == source.text);
  }
  for (const char* refused : {"static", "launch_control"})
    CHECK_THROWS_WITH(
        scheduler_plan(R"("operand": {"kind": "ragged"}, "scheduler": ")" + std::string(refused) + "\""),
        doctest::Contains("nearest legal: counter"));
  CHECK_THROWS_WITH(
      plan_with({{"target", "sm_100a"}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 128}},
                R"("scheduler": "static")"),
      doctest::Contains("/scheduler"));
}

TEST_CASE("sm100_prefill: every source of work items at the ends of tiles" * doctest::test_suite("breadth")) {
  std::uint64_t seed = 40;
  for (const char* keys : {
           R"("mask": "none", "scheduler": "launch_control")",
           R"("mask": "none", "scheduler": "counter")",
           R"("mask": "causal", "scheduler": "counter")",
           R"("mask": "causal", "scheduler": "static")",
           R"("mask": "causal", "pair_cta": true, "scheduler": "static")",
           R"("mask": "none", "pair_cta": true, "scheduler": "launch_control")",
           R"("depth": 256, "mask": "causal", "scheduler": "launch_control", "target": "sm_103a")",
       }) {
    CAPTURE(keys);
    check_at_tile_ends(scheduler_plan(keys), ++seed, 2);
  }
}

TEST_CASE("sm100_prefill: blocks that have not started are taken over, by any number of blocks" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 60;
  for (const char* keys : {R"("depth": 64, "mask": "causal")", R"("mask": "causal", "pair_cta": true)",
                           R"("depth": 64, "mask": "causal", "scheduler": "counter")"}) {
    CAPTURE(keys);
    const Plan plan = scheduler_plan(keys);
    for (const int num_sms : {1, 2, 5, 64})
      for (const int max_blocks : {0, 1, 5}) check_launch(plan, 700, num_sms, max_blocks, ++seed);
  }
}
