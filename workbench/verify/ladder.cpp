// All cases of a config are one workload of requests with different lengths.
#include "workbench/verify/ladder.hpp"

#include <algorithm>
#include <limits>

#include "generator/operands/operand_form.hpp"
#include "runtime/compiler/compiler.hpp"
#include "workbench/analysis/amd_checks.hpp"
#include "workbench/problem/heads.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln {

std::string_view to_string(EmulatorOptions::Policy policy) {
  switch (policy) {
    case EmulatorOptions::Policy::eager:
      return "eager";
    case EmulatorOptions::Policy::lazy:
      return "lazy";
    case EmulatorOptions::Policy::random:
      break;
  }
  return "random";
}

std::vector<std::string> static_failures(const Plan& plan, const Manifest& manifest, const Binary& binary) {
  std::vector<std::string> failures = binary.warnings;
  for (std::string& warning : compiler_warnings(binary.log)) failures.push_back(std::move(warning));
  for (std::string& broken : amd_static_checks(plan, manifest, binary)) failures.push_back(std::move(broken));
  return failures;
}

std::vector<LadderCase> boundary_cases(const Config& resolved, bool small) {
  const std::int64_t bn = resolved.BN.value_or(64), bm = resolved.BM.value_or(64);
  const std::int64_t longest = 3 * bn + 7;
  std::vector<LadderCase> cases{{1, 1},        {bn - 1, bn - 1}, {bn, bn}, {bn + 1, bn + 1},
                                {33, longest}, {bm + 1, 5},      {7, 0}};
  if (resolved.operation == Operation::decode) {
    // Few queries, also several for speculative decoding and none at all.
    cases = {{1, 1}, {1, bn - 1}, {1, bn}, {2, bn + 1},    {16, longest},
             {1, 0}, {4, 3},      {0, 5},  {3, 6 * bn + 1}};
  }
  const OperandConfig operand = resolved.operand.value_or(OperandConfig{});
  if (operand_form(operand.kind).pages()) {
    // Where pages end; pages longer than several tiles are met by the others.
    const std::int64_t page = operand.page_size.value_or(1);
    for (const std::int64_t keys : {page - 1, page, page + 1, 2 * page}) {
      if (keys > 0 && keys <= 4 * bn) cases.push_back({std::min<std::int64_t>(keys, 3), keys});
    }
  }
  if (resolved.operation == Operation::prefill) {
    // Whole tiles of rows before a sequence's first key need many keys; of every other request most may be padding.
    const bool padded = resolved.mask.value_or(MaskConfig{}).left_padding;
    cases.insert(cases.end(), padded ? 2 : small ? 0 : 1, {longest, longest});
  }
  return cases;
}

std::vector<LadderCase> divided_case(const Config& resolved) {
  return {{8, kDividedSms * resolved.BN.value_or(64) + 3}};
}

namespace {

ProblemShape shape_of(const Config& resolved, const std::vector<LadderCase>& cases, std::int64_t heads_q) {
  HeadCounts usual{heads_q, std::max<std::int64_t>(1, heads_q / 2)};
  // Groups are rows of the matrix instruction there: a larger one.
  if (resolved.operation == Operation::decode) usual = {heads_q * resolved.group.value_or(4), heads_q};
  const HeadCounts heads = head_counts(resolved, {}, {}, usual);
  ProblemShape shape;
  shape.heads_q = heads.q;
  shape.heads_kv = heads.kv;
  shape.depth = resolved.depth;
  shape.ov_depth = resolved.ov_depth.value_or(resolved.depth);
  shape.ragged = true;
  for (const LadderCase& c : cases) {
    shape.lengths_q.push_back(c.q);
    shape.lengths_k.push_back(c.k);
  }
  return shape;
}

PosedCases posed_with(const Config& resolved, Workload work, const Tolerance& tolerance) {
  PosedCases posed{std::move(work), {}, tolerance};
  const Semantics semantics = semantics_of(resolved, posed.work);
  posed.reference = reference_attention(
      posed.work, semantics, choose_rows(posed.work.shape, semantics.mask, 1e300, posed.work.seed));
  return posed;
}

}  // namespace

PosedCases pose_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                      std::int64_t heads_q) {
  return posed_with(resolved, random_workload(shape_of(resolved, cases, heads_q), resolved, seed),
                    tolerance_of(resolved));
}

PosedCases pose_hidden_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                             std::int64_t heads_q) {
  Workload work = random_workload(shape_of(resolved, cases, heads_q), resolved, seed);
  auto& values = work.v.empty() ? work.k : work.v;  // V may be the first columns of K's rows
  const std::int64_t width = work.shape.heads_kv * (work.v.empty() ? work.shape.depth : work.shape.ov_depth);
  // Of types without NaN a scale of the row is one.
  const DType type = resolved.kv_dtype.value_or(resolved.dtype);
  const bool by_scale = type == DType::int8 || type == DType::fp4_e2m1;
  auto& scales = work.v.empty() ? work.k_scale : work.v_scale;
  std::int64_t rows = 0;
  for (const std::int64_t keys : work.shape.lengths_k) {
    rows += keys;
    if (keys == 0) continue;
    float& value = by_scale && scales && scales->by_token()
                       ? scales->values[scales->index(rows - 1, 0, 0)]
                       : values[static_cast<std::size_t>((rows - 1) * width)];
    value = std::numeric_limits<float>::quiet_NaN();
  }
  return posed_with(resolved, std::move(work), tolerance_of(resolved));
}

bool has_exact_cases(const Config& resolved) {
  return is_fp8(resolved.dtype) && !is_fp8(resolved.out_dtype.value_or(resolved.dtype)) &&
         resolved.score_mod.value_or(ScoreMod{}).kind == ScoreMod::Kind::none;
}

PosedCases pose_exact_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                            std::int64_t heads_q) {
  Config wide = resolved;  // no error but O's rounding
  wide.dtype = *resolved.out_dtype;
  return posed_with(resolved, exact_workload(shape_of(resolved, cases, heads_q), resolved, seed),
                    tolerance_of(wide));
}

Residency residency_of(std::uint64_t seed) {
  return seed % 2 == 0 ? Residency::shared : Residency::alone;
}

LadderRun run_cases(Runtime& runtime, const Plan& plan, const KernelSource& source,
                    const std::vector<LadderCase>& cases, const EmulatorOptions& emulator,
                    std::int64_t heads_q, LaunchBefore before) {
  return run_posed(runtime, source, pose_cases(plan.resolved(), cases, emulator.seed, heads_q), emulator,
                   before);
}

LadderRun run_posed(Runtime& runtime, const KernelSource& source, const PosedCases& posed,
                    const EmulatorOptions& emulator, LaunchBefore before) {
  const std::shared_ptr<Kernel> kernel = runtime.load(source);
  RunOptions options;
  options.emulator = &emulator;
  options.before = before;
  options.residency = residency_of(emulator.seed);
  const RunResult result = run_workload(runtime, *kernel, posed.work, options);
  return {posed.work.shape.text(), std::string(to_string(emulator.policy)),
          check_output(posed.work, result.output, posed.reference, posed.tolerance), result.findings};
}

}  // namespace kiln
