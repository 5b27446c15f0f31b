// Kernels on the emulated device at the lengths where tiles end.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/serving/emulated.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::test {

/// Compiles without spills or warnings, and runs right without findings.
inline void check_cases(const Plan& plan, const std::vector<LadderCase>& cases, const EmulatorOptions& how,
                        std::int64_t heads) {
  const KernelSource source = generate(plan);
  const auto compiled = emulated().compile(source);
  CHECK(compiled->spill_bytes == 0);
  for (const std::string& warning : compiled->warnings) FAIL_CHECK(warning);
  const LadderRun run = run_cases(emulated(), plan, source, cases, how, heads);
  for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
  for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
}

/// That, where one seed completes copies late, the next at random.
inline void check_at_tile_ends(const Plan& plan, std::uint64_t seed,
                               int num_sms = EmulatorOptions{}.num_sms) {
  EmulatorOptions how;
  how.seed = seed;
  how.policy = seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
  how.num_sms = num_sms;
  check_cases(plan, boundary_cases(plan.resolved(), true), how, 2);
}

/// Each config at the ends of tiles, under a seed of its own; `plan_of` plans what is said of one.
template <class PlanOf>
void check_up_the_ladder(const std::vector<std::string>& configs, const PlanOf& plan_of,
                         int num_sms = EmulatorOptions{}.num_sms) {
  std::uint64_t seed = 0;
  for (const std::string& keys : configs) {
    CAPTURE(keys);
    const Plan plan = plan_of(keys);
    check_at_tile_ends(plan, ++seed, num_sms);
  }
}

/// The output of a launch against the reference, and no findings.
inline void check_output_of(const Workload& work, const Config& resolved, const RunResult& result) {
  const Semantics semantics = semantics_of(resolved, work);
  const Reference reference =
      reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
  const CheckReport report = check_output(work, result.output, reference, tolerance_of(resolved));
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
}

}  // namespace kiln::test
