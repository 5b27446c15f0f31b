// Kernels on the emulated device at the lengths where tiles end.
#pragma once

#include <doctest/doctest.h>

#include "tests/serving/emulated.hpp"
#include "workbench/verify/ladder.hpp"

namespace kiln::test {

/// Compiles without spills or warnings, and runs right without findings; one seed completes copies late, the
/// next at random.
inline void check_at_tile_ends(const Plan& plan, std::uint64_t seed,
                               int num_sms = EmulatorOptions{}.num_sms) {
  const KernelSource source = generate(plan);
  const auto compiled = emulated().compile(source);
  CHECK(compiled->spill_bytes == 0);
  for (const std::string& warning : compiled->warnings) FAIL_CHECK(warning);
  EmulatorOptions how;
  how.seed = seed;
  how.policy = seed % 2 == 0 ? EmulatorOptions::Policy::lazy : EmulatorOptions::Policy::random;
  how.num_sms = num_sms;
  const LadderRun run = run_cases(emulated(), plan, source, boundary_cases(plan.resolved(), true), how, 2);
  for (const std::string& failure : run.check.failures) FAIL_CHECK(failure);
  for (const auto& finding : run.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
}

}  // namespace kiln::test
