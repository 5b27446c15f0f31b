// sm100_prefill by pairs of blocks: 128 query rows a block, half of K's rows and of V's columns in each.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::compiler;
using kiln::test::count;
using kiln::test::plan_with;

namespace {

Plan pair_plan(const std::string& keys) {
  return plan_with({{"target", "sm_100a"},
                    {"operation", "prefill"},
                    {"dtype", "bf16"},
                    {"depth", 256},
                    {"lse", true},
                    {"pair_cta", true}},
                   keys);
}

}  // namespace

TEST_CASE("sm100_prefill, pairs of blocks: static counts") {
  struct Counts {
    const char *keys, *kind;
    int k_steps, v_steps, BN, stages, elected;
  };
  const Counts table[] = {
      {R"("depth": 256)", "kind::f16", 16, 8, 128, 5, 2},
      {R"("depth": 128, "mask": "causal")", "kind::f16", 8, 8, 128, 6, 3},
      {R"("depth": 224, "dtype": "fp8_e4m3")", "kind::f8f6f4", 7, 4, 128, 5, 2},
  };
  for (const Counts& c : table) {
    CAPTURE(c.keys);
    const Plan plan = pair_plan(c.keys);
    CHECK(plan.resolved().BM == 256);
    CHECK(plan.resolved().BN == c.BN);
    CHECK(plan.resolved().num_kv_stages == c.stages);
    CHECK(plan.resolved().num_threads == 384);
    for (const auto& proof : plan.schedule().layout_proofs()) CHECK_MESSAGE(proof.holds, proof.what);
    const KernelSource source = generate(plan);
    CHECK(source.manifest.cluster == std::array<int, 3>{2, 1, 1});
    const auto compiled = compiler().compile(source);
    const std::string& ptx = compiled->ptx;
    CHECK(count(ptx, std::string("tcgen05.mma.cta_group::2.") + c.kind) == 2 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "tcgen05.mma.") == 2 * (c.k_steps + c.v_steps));
    CHECK(count(ptx, "cta_group::1") == 0);
    CHECK(count(ptx, "elect.sync") == c.elected);
    CHECK(count(ptx, "tcgen05.alloc.cta_group::2") == 1);
    CHECK(count(ptx, "tcgen05.dealloc.cta_group::2") == 1);
    CHECK(compiled->registers == 168);  // at launch, of 384 threads
    CHECK(compiled->spill_bytes == 0);
    CHECK(source.manifest.smem_bytes <= 232448);
  }
}

TEST_CASE("sm100_prefill, pairs of blocks: masks and modifiers where tiles end" *
          doctest::test_suite("breadth")) {
  std::uint64_t seed = 0;
  for (const char* keys : {
           R"("mask": "none")",
           R"("mask": "causal", "sink": true)",
           R"("depth": 128, "mask": "causal", "dtype": "fp16")",
           R"("depth": 208, "mask": {"sliding_window": 70}, "score_mod": {"softcap": 20})",
           R"("depth": 240, "ov_depth": 128, "mask": {"chunked": 100}, "score_mod": "alibi")",
           R"("depth": 80, "mask": "custom", "num_pv_stages": 1)",
           R"("depth": 256, "dtype": "fp8_e4m3", "mask": "causal")",
           R"("mask": {"window": {"left": "launch", "right": "launch"}}, "BN": 64)",
           R"("depth": 128, "num_qk_stages": 2, "exp_offload": 0.25)",
           R"("target": "sm_103a", "mask": "causal")",
       }) {
    CAPTURE(keys);
    check_at_tile_ends(pair_plan(keys), ++seed);
  }
}

// A pair has one block beside the other for each item; an odd one more would have no partner.
TEST_CASE("sm100_prefill, pairs of blocks: on multiprocessors that make no pairs, and one pair") {
  for (const int num_sms : {1, 3}) {
    CAPTURE(num_sms);
    check_at_tile_ends(pair_plan(R"("depth": 128, "mask": "causal")"), 7, num_sms);
  }
}

TEST_CASE("sm100_prefill, pairs of blocks: what they do not take is refused") {
  const std::pair<const char*, const char*> refused[] = {
      {R"("depth": 128, "operand": {"kind": "ragged"})", "nearest legal: contiguous"},
      {R"("operand": {"kind": "paged", "page_size": 64})", "nearest legal: contiguous"},
      {R"("depth": 192)", "/pair_cta"},
      {R"("depth": 128, "ov_depth": 64)", "/ov_depth"},
      {R"("mask": "causal", "scheduler": "counter")", "/scheduler"},
      {R"("depth": 64)", "V27"},
      {R"("depth": 128, "BM": 128)", "V27"},
      {R"("depth": 128, "single_o": true)", "V27"},
  };
  for (const auto& [keys, part] : refused) {
    CAPTURE(keys);
    CHECK_THROWS_WITH(pair_plan(keys), doctest::Contains(part));
  }
  const Plan plan = pair_plan(R"("mask": "causal")");
  CHECK(generate(make_plan(plan.resolved())).text == generate(plan).text);
}
