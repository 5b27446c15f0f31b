// Prefill with Q, K and V of FP8 on sm_90a, on the emulated device: operand kinds, page sizes, masks,
// modifiers and scales at the lengths where tiles end, in every tile width; P where a row's maximum grows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/schedules/schedule.hpp"
#include "tests/serving/emulated.hpp"
#include "tests/serving/ladder_check.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::check_at_tile_ends;
using kiln::test::check_output_of;
using kiln::test::emulated;
using kiln::test::plan_with;

namespace {

Plan fp8_plan(const std::string& keys) {
  return plan_with({{"target", "sm_90a"},
                    {"operation", "prefill"},
                    {"dtype", "fp8_e4m3"},
                    {"depth", 64},
                    {"mask", "causal"},
                    {"lse", true}},
                   keys);
}

std::string fp8_operand(const char* kind, const char* granularity) {
  return fmt::format(R"("operand": {{{}, "quantization": {{"granularity": "{}"}}}})", kind, granularity);
}

RunResult run_lazily(const Plan& plan, const Workload& work) {
  const auto kernel = emulated().load(generate(plan));
  EmulatorOptions how;
  how.policy = EmulatorOptions::Policy::lazy;
  RunOptions options;
  options.emulator = &how;
  return run_workload(emulated(), *kernel, work, options);
}

}  // namespace

TEST_CASE("FP8 prefill up the ladder" * doctest::test_suite("breadth")) {
  const std::string paged_16 = R"("kind": "paged", "page_size": 16)";
  const std::vector<std::string> configs{
      R"("mask": "none", "depth": 128)",
      R"("depth": 256)",
      R"("operand": {"kind": "ragged"}, "depth": 128, "out_dtype": "fp16")",
      R"("operand": {"kind": "continuous"}, "depth": 192, "ov_depth": 128)",
      R"("operand": {"kind": "paged", "page_size": 64}, "depth": 256, "mask": "none")",
      R"("operand": {"kind": "paged", "page_size": 256}, "mask": "custom")",
      R"("operand": {"kind": "paged", "page_size": 2}, "depth": 64)",
      R"("operand": {"kind": "paged", "page_size": 1}, "depth": 128, "sink": true)",
      fp8_operand(R"("kind": "contiguous")", "per_tensor") +
          R"(, "depth": 96, "mask": {"sliding_window": 70})",
      fp8_operand(R"("kind": "ragged")", "per_head") + R"(, "mask": {"chunked": 100})",
      fp8_operand(paged_16.c_str(), "per_head") + R"(, "depth": 128, "sink": true)",
      fp8_operand(paged_16.c_str(), "per_head") + R"(, "depth": 128, "score_mod": {"softcap": 20})",
      fp8_operand(paged_16.c_str(), "per_tensor") + R"(, "score_mod": "alibi")",
      fp8_operand(R"("kind": "contiguous")", "per_token") + R"(, "mask": "none", "depth": 128)",
      fp8_operand(R"("kind": "ragged")", "per_token") + R"(, "depth": 128, "sink": true)",
      fp8_operand(R"("kind": "continuous")", "per_token"),
      fp8_operand(paged_16.c_str(), "per_token") + R"(, "depth": 256)",
      fp8_operand(paged_16.c_str(), "per_token") + R"(, "depth": 128, "mask": {"sliding_window": 70})",
      fp8_operand(paged_16.c_str(), "per_token") + R"(, "mask": "custom")",
      fp8_operand(R"("kind": "paged", "page_size": 2)", "per_token") + R"(, "score_mod": {"softcap": 20})",
      R"x("score_mod": {"expr": "score + 0.01 * (k - q)"}, "depth": 128)x",
      R"("depth": 32, "mask": "none")",
      R"("depth": 160, "swizzle": "32B")",
      // Rows of V in spans of 32, 64 and 128 bytes; Q in registers and in shared memory; P packed and not.
      R"("depth": 128, "BN": 32, "mask": "none")",
      R"("depth": 128, "BN": 64, "num_kv_stages": 2)",
      R"("depth": 128, "BM": 128, "BN": 160, "mask": "none")",
      R"("depth": 128, "BM": 128, "BN": 192, "mask": "none")",
      R"("depth": 64, "BN": 256, "BM": 64, "mask": "none")",
      R"("depth": 128, "BM": 192, "BN": 64, "schedule": "sm90_prefill_pingpong")",
      R"("depth": 128, "BM": 64, "BN": 128, "schedule": "sm90_prefill", "mask": {"sliding_window": 300})",
      R"("depth": 128, "mask": "none", "exp_offload": 0.25)",
      R"("depth": 128, "BM": 128, "BN": 192, "mask": "none", "exp_offload": 0.5)",
  };
  std::uint64_t seed = 0;
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan = fp8_plan(keys);
    for (const auto& proof : plan.schedule().layout_proofs()) {
      CHECK_MESSAGE(proof.holds, proof.what);
      CHECK_MESSAGE(proof.bank_conflicts == 0, proof.what);
    }
    check_at_tile_ends(plan, ++seed);
  }
}

TEST_CASE("FP8 prefill: chunks and single tokens at the ends of longer contexts, scales of zero and below") {
  for (const char* keys : {R"("depth": 128)", R"("depth": 64)", R"("score_mod": {"softcap": 30})"}) {
    CAPTURE(keys);
    const Plan plan = fp8_plan(fp8_operand(R"("kind": "paged", "page_size": 16)", "per_head") + ", " + keys);
    ProblemShape shape;
    shape.heads_q = 6, shape.heads_kv = 3;
    shape.depth = shape.ov_depth = plan.resolved().depth;
    shape.ragged = true;
    shape.lengths_q = {70, 1, 0, 130, 3, 1};
    shape.lengths_k = {300, 197, 40, 130, 1, 0};
    Workload work = random_workload(shape, plan.resolved(), 5);
    work.k_scale->values = {0.0F, -work.k_scale->values[1], work.k_scale->values[2]};
    check_output_of(work, plan.resolved(), run_lazily(plan, work));
  }
}

TEST_CASE("FP8 prefill: maxima that grow by little and by much from tile to tile") {
  // Keys come from the last to the first: scores that fall with the key's index grow tile by tile.
  for (const char* keys :
       {R"("depth": 128, "mask": "none")", R"("depth": 128, "mask": "none", "exp_offload": 0.25)",
        R"("depth": 64)", R"("depth": 256, "BN": 96)"}) {
    for (const double step : {-0.02, 0.002, 0.03, 0.3}) {
      CAPTURE(keys);
      CAPTURE(step);
      const Plan plan = fp8_plan(keys);
      ProblemShape shape;
      shape.heads_q = 2, shape.heads_kv = 1;
      shape.depth = shape.ov_depth = plan.resolved().depth;
      shape.lengths_q = {70};
      shape.lengths_k = {700};
      Workload work = random_workload(shape, plan.resolved(), 9);
      // Column 0 of Q is 8, of K a multiple of 1/4 that makes scores grow by `step` a key.
      const auto depth = static_cast<std::size_t>(shape.depth);
      for (std::size_t i = 0; i < work.q.size(); i += depth) work.q[i] = 8;
      const double factor = *plan.resolved().scale * 8;
      for (std::size_t key = 0; key < 700; ++key) {
        const double wanted = (350.0 - static_cast<double>(key)) * step / factor;
        std::vector<float> one{static_cast<float>(wanted)};
        round_to(DType::fp8_e4m3, one);
        work.k[key * depth] = one[0];
      }
      check_output_of(work, plan.resolved(), run_lazily(plan, work));
    }
  }
}

TEST_CASE("FP8 prefill: what it has not is refused at its key") {
  const auto pointer_of = [](const std::string& keys) {
    try {
      fp8_plan(keys);
    } catch (const Error& error) {
      return error.violations().empty() ? std::string() : error.violations()[0].pointer;
    }
    return std::string("none");
  };
  const char* const paged = R"("kind": "paged", "page_size": 16)";
  CHECK(pointer_of(R"("operand": {"kind": "ragged", "quantization": {"granularity": 32}})") ==
        "/operand/quantization/granularity");
  CHECK(pointer_of(fp8_operand(paged, "per_token") + R"(, "depth": 256, "num_qk_stages": 2)") ==
        "/num_qk_stages");
  CHECK(pointer_of(R"("kv_dtype": "int8")") == "/kv_dtype");
  CHECK(pointer_of(R"("kv_dtype": "bf16")") == "/kv_dtype");
  CHECK(pointer_of(R"("out_dtype": "f32")") == "none");
  CHECK(pointer_of(R"("depth": 80)") == "/depth");
  try {
    fp8_plan(R"("depth": 80)");
  } catch (const Error& error) {
    CHECK(error.violations().size() == 1);  // ov_depth follows from depth
  }
  CHECK(pointer_of(R"("depth": 128, "ov_depth": 48)") == "/ov_depth");
  CHECK(pointer_of(R"("BN": 80)") == "/BN");
  CHECK(pointer_of(R"("cluster": 2, "mask": "none")") == "/cluster");
  CHECK(pointer_of(R"("fp8_flush_interval": 4)") == "/fp8_flush_interval");
  CHECK(pointer_of(R"("depth": 128, "BN": 256)") == "/BN");
  CHECK(pointer_of(R"("operand": {"kind": "paged", "page_size": 1})") == "none");
  CHECK(pointer_of(R"("target": "sm_80")") == "/dtype");
}
