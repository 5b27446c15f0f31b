// Masks, score modifiers and sinks on the emulated device: results against the float64 reference, no
// findings, no bank conflicts, and exactly the tiles that the mask leaves: what is skipped costs nothing.
#include <doctest/doctest.h>

#include <algorithm>

#include <kiln/generator.hpp>

#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;

namespace {

struct Outcome {
  CheckReport check;
  std::size_t findings = 0;
  std::uint64_t matrix_flops = 0, bank_conflicts = 0;
};

Outcome run(Runtime& runtime, const std::string& config, std::int64_t queries, std::int64_t keys) {
  const Plan plan = make_plan(parse_config(config, "test"));
  ProblemShape shape;
  shape.heads_q = 2, shape.heads_kv = 1;
  shape.depth = plan.resolved().depth, shape.ov_depth = *plan.resolved().ov_depth;
  shape.lengths_q = {queries}, shape.lengths_k = {keys};
  const Workload work = random_workload(shape, plan.resolved(), 7);
  const auto kernel = runtime.load(generate(plan));
  const RunResult result = run_workload(runtime, *kernel, work);
  const Semantics semantics = semantics_of(plan.resolved(), work);
  const Reference reference =
      reference_attention(work, semantics, choose_rows(shape, semantics.mask, 1e300, 0));
  Outcome out;
  out.check = check_output(work, result.output, reference, tolerance_of(plan.resolved()));
  out.findings = result.findings.size();
  for (const auto& [name, value] : result.counters) {
    if (name == "matrix_flops") out.matrix_flops = value;
    if (name == "bank_conflicts") out.bank_conflicts = value;
  }
  return out;
}

RuntimeOptions emulated() {
  RuntimeOptions options;
  options.device = "emulated";
  options.cache_dir = "";
  options.emulator.policy = EmulatorOptions::Policy::lazy;
  return options;
}

}  // namespace

TEST_CASE("a mask's kernel computes the tiles it leaves and no others") {
  Runtime runtime(emulated());
  // 512 rows and keys in tiles of 64: causal leaves 36 of 64, a window of 64 the diagonal and the one below
  // it, chunks of 64 the diagonal; two heads.
  struct Case {
    const char* mask;
    std::uint64_t tiles;
  };
  for (const Case& c :
       {Case{R"("causal")", 36}, Case{R"({"sliding_window": 64})", 15}, Case{R"({"chunked": 64})", 8}}) {
    for (const char* target : {"sm_80", "sm_90a"}) {
      CAPTURE(c.mask);
      CAPTURE(target);
      const Outcome out =
          run(runtime,
              std::string(R"({"operation": "prefill", "dtype": "bf16", "depth": 64, "BM": 64, "BN": 64, )") +
                  R"("target": ")" + target + R"(", "mask": )" + c.mask + "}",
              512, 512);
      CHECK_MESSAGE(out.check.passed(), (out.check.failures.empty() ? "" : out.check.failures[0]));
      CHECK(out.findings == 0);
      CHECK(out.bank_conflicts == 0);
      // sm_80 warps own 16 rows each: those of a window's lower tile see it all the same.
      CHECK(out.matrix_flops == 2 * c.tiles * 4 * 64 * 64 * 64);
    }
  }
}

TEST_CASE("modifiers, sinks and bitmasks agree with the reference where rows see nothing, too") {
  Runtime runtime(emulated());
  constexpr const char* kMeanings[] = {
      R"x("mask": "custom", "sink": true, "score_mod": {"softcap": 5})x",
      R"x("mask": {"sliding_window": 9}, "score_mod": "alibi", "sink": true)x",
      R"x("score_mod": {"expr": "where(q % 7 == 3 || k < 20, -inf, score / (1 + h) - tanh(k - q))"})x"};
  for (const std::string target : {"sm_80", "sm_90a"}) {
    for (const char* meaning : kMeanings) {
      CAPTURE(target);
      CAPTURE(meaning);
      const std::string config =
          R"x({"operation": "prefill", "dtype": "bf16", "depth": 64, "lse": true, "target": ")x" + target +
          "\", " + meaning + "}";
      const Outcome out = run(runtime, config, 150, 130);
      CHECK_MESSAGE(out.check.passed(), (out.check.failures.empty() ? "" : out.check.failures[0]));
      CHECK(out.findings == 0);
    }
  }
}
