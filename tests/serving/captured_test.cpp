// Tensors that a score expression names: every schedule of every target, every operand kind, all element types,
// dimensions that are broadcast, and a document mask. Random problems against the float64 reference.
#include <doctest/doctest.h>

#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/systems/score_mod.hpp"
#include "tests/emulated_options.hpp"
#include "tests/serving/plans.hpp"
#include "workbench/reference/check.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::emulated;
using kiln::test::plan_of;

namespace {

constexpr const char* kBias =
    R"x({"expr": "score + bias[h, q, k] - slope[h] * (q - k)", "tensors": {"bias": "bf16", "slope": "f32"}})x";
constexpr const char* kDocuments =
    R"x({"expr": "where(of[b, q] == of[b, k] || k == 0, score, -inf)", "tensors": {"of": "i32"}})x";
constexpr const char* kMask =
    R"x({"expr": "where(seen[b, h, q, k] != 0, score * scales[k % 7], -inf)", "tensors": {"seen": "int8", "scales": "fp16"}})x";
constexpr const char* kRelative =
    R"x({"expr": "score + at[h, max(min(k - q + 16, 32), 0)] + float[idiv(k, 8) - 3]", "tensors": {"at": "f32", "float": "f32"}})x";

struct Case {
  const char *target, *operation, *keys, *mod;
};
const Case kCases[] = {
    {"sm_80", "prefill", R"("mask": "causal")", kBias},
    {"sm_80", "prefill", R"("operand": {"kind": "paged", "page_size": 16})", kMask},
    {"sm_80", "decode", R"("operand": {"kind": "ragged"})", kDocuments},
    {"sm_80", "decode", R"("operand": {"kind": "paged", "page_size": 16}, "mask": "causal")", kRelative},
    {"sm_90a", "prefill", R"("mask": "causal")", kRelative},
    {"sm_90a", "prefill", R"("operand": {"kind": "ragged"}, "depth": 128, "dtype": "fp16")", kDocuments},
    {"sm_90a", "prefill", R"("dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 128)", kBias},
    {"sm_90a", "decode", R"("mask": "causal")", kBias},
    {"sm_90a", "decode", R"("operand": {"kind": "paged", "page_size": 16}, "split_kv": 3)", kMask},
    {"gfx90a", "prefill", R"("mask": {"sliding_window": 40})", kBias},
    {"gfx942", "prefill", R"("operand": {"kind": "ragged"})", kMask},
    {"gfx942", "decode", R"("operand": {"kind": "paged", "page_size": 16}, "mask": "causal")", kRelative},
    {"gfx950", "decode", R"("operand": {"kind": "ragged"})", kDocuments},
};

Plan captured_plan(const Case& c) {
  nlohmann::ordered_json config = {
      {"target", c.target}, {"operation", c.operation}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}};
  config.update(json_of(std::string("{") + c.keys + "}"));
  config["score_mod"] = json_of(c.mod);
  return plan_of(config);
}

void check_captured(const Case& c) {
  CAPTURE(c.target);
  CAPTURE(c.operation);
  CAPTURE(c.keys);
  CAPTURE(c.mod);
  const Plan plan = captured_plan(c);
  const Config& config = plan.resolved();
  const bool ragged = config.operand->kind != OperandKind::contiguous;
  const std::shared_ptr<Kernel> kernel = emulated().load(generate(plan));
  const std::int64_t rows = config.operation == Operation::decode ? 3 : 90;
  std::size_t changes = 0;
  for (const std::uint64_t seed : {1, 2}) {
    ProblemShape shape;
    shape.heads_q = 4, shape.heads_kv = 2, shape.depth = config.depth, shape.ov_depth = *config.ov_depth;
    shape.ragged = ragged;
    shape.lengths_q = {rows, ragged ? 1 : rows}, shape.lengths_k = {150, ragged ? 77 : 150};
    const Workload work = random_workload(shape, config, seed);
    REQUIRE(work.captured.size() == config.score_mod->tensors.size());
    EmulatorOptions emulator;
    emulator.num_sms = 5;
    RunOptions options;
    options.emulator = &emulator;
    const RunResult result = run_workload(emulated(), *kernel, work, options);
    for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
    const Semantics semantics = semantics_of(config, work);
    const Reference reference =
        reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
    const CheckReport report = check_output(work, result.output, reference, tolerance_of(config));
    for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    // The tensors count: with others the result is another one, unless a dimension of one element hides them.
    Workload other = work;
    for (CapturedValues& tensor : other.captured)
      for (float& value : tensor.values) value = value + 1 == 2 ? 2 : 1;
    const RunResult changed = run_workload(emulated(), *kernel, other, options);
    if (changed.output.o != result.output.o) ++changes;
  }
  CHECK(changes > 0);
}

}  // namespace

TEST_CASE("captured tensors: prefill and decode against the reference") {
  check_captured(kCases[0]);
  check_captured(kCases[7]);
}

TEST_CASE("captured tensors: every schedule against the reference" * doctest::test_suite("breadth")) {
  for (const Case& c : kCases) check_captured(c);
}

TEST_CASE("captured tensors in the manifest, and back") {
  const KernelSource source = generate(captured_plan(kCases[4]));
  REQUIRE(source.manifest.captured.size() == 2);
  CHECK(source.manifest.captured[0].indices == std::vector<std::string>{"h", ""});
  CHECK(source.manifest.captured[1].name == "float");
  CHECK(source.manifest.takes("captured", KernelParam::Kind::captured));
  const Manifest back = manifest_from_json(to_json(source.manifest));
  REQUIRE(back.captured.size() == 2);
  CHECK(back.captured[1].dtype == DType::f32);
  CHECK(back.captured[0].indices == source.manifest.captured[0].indices);
  CHECK(to_json(back) == to_json(source.manifest));
}
