// The verification ladder's upper levels as functions: L2 (the compiler's verdict) and L3 (emulated runs at
// the lengths where tiles end). The command line, the sweeps and the tests climb it by the same calls.
#pragma once

#include <string>
#include <vector>

#include <kiln/generator.hpp>
#include <kiln/runtime.hpp>

#include "workbench/problem/workload.hpp"
#include "workbench/reference/check.hpp"

namespace kiln {

/// L2: a line for each thing that a compiled kernel is held to and fails: warnings of the binary and of the
/// compiler, and amd_static_checks.
std::vector<std::string> static_failures(const Plan& plan, const Manifest& manifest, const Binary& binary);

/// One request: q rows against k keys.
struct LadderCase {
  std::int64_t q = 0, k = 0;
};

/// The lengths at which a kernel's tiles start, end and overlap: 1, BN-1, BN, BN+1, 3*BN+7 keys, with as many
/// or with fewer query rows; some with more queries than keys, and empty ones. `small` leaves out the largest
/// square, but under left padding.
std::vector<LadderCase> boundary_cases(const Config& resolved, bool small);

/// One request whose keys are split among many blocks, for kernels that split them: several rows, so that blocks share the
/// sum of the parts. Multiprocessors for a block a tile.
std::vector<LadderCase> divided_case(const Config& resolved);
inline constexpr int kDividedSms = 18;

/// Cases as one problem with its reference, made once and run any number of times.
struct PosedCases {
  Workload work;
  Reference reference;
  Tolerance tolerance;
};
/// `heads_q` query heads over half as many KV heads; of decode kernels as many KV heads, in groups.
PosedCases pose_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                      std::int64_t heads_q);

/// NaN in V of each sequence's last key, which a kernel that guards hidden values keeps from the rows before.
PosedCases pose_hidden_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                             std::int64_t heads_q);

/// FP8 products leave a result that is off by up to 4 %, and so is one that took a few keys' rows of V for
/// others'. Of exact_workload a right kernel is off by O's rounding only. For configs that have it.
bool has_exact_cases(const Config& resolved);
PosedCases pose_exact_cases(const Config& resolved, const std::vector<LadderCase>& cases, std::uint64_t seed,
                            std::int64_t heads_q);

/// Kernels whose launch chooses the stages meet both choices under runs of even and odd seeds.
Residency residency_of(std::uint64_t seed);

/// One emulated run that was checked.
struct LadderRun {
  std::string problem, policy;
  CheckReport check;
  std::vector<EmulationReport::Finding> findings;
  bool passed() const { return check.passed() && findings.empty(); }
};

/// L3: runs the kernel on the runtime's device for all cases under `emulator` (ragged kernels take all of
/// them in one launch) with `heads_q` query heads over half as many KV heads. `runtime` must drive the
/// emulated device.
LadderRun run_cases(Runtime& runtime, const Plan& plan, const KernelSource& source,
                    const std::vector<LadderCase>& cases, const EmulatorOptions& emulator,
                    std::int64_t heads_q, LaunchBefore before = LaunchBefore::any);

/// One run of cases that were posed before.
LadderRun run_posed(Runtime& runtime, const KernelSource& source, const PosedCases& posed,
                    const EmulatorOptions& emulator, LaunchBefore before = LaunchBefore::any);

std::string_view to_string(EmulatorOptions::Policy policy);

}  // namespace kiln
