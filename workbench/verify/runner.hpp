// Takes a workload through a device: upload, poisoned outputs, launch by the manifest, timing, download.
#pragma once

#include <memory>
#include <vector>

#include <kiln/runtime.hpp>

#include "workbench/problem/workload.hpp"
#include "workbench/reference/check.hpp"

namespace kiln {

struct RunOptions {
  std::optional<double> scale;     ///< softmax scale; unset: the manifest's
  bool want_lse = true;            ///< fetch the LSE when the kernel writes one
  int warmup = 0, iterations = 0;  ///< timed launches after the first; 0: the first launch is the measurement
  const EmulatorOptions* emulator = nullptr;  ///< instead of the runtime's, on the emulated device
  LaunchBefore before = LaunchBefore::any;    ///< as LaunchOptions has it, with
  int max_blocks = 0;                         ///< this
  Residency residency = Residency::by_work;   ///< and this
};

struct RunResult {
  Output output;
  double launch_us = 0;  ///< median over the timed launches, summed over requests when each has its own
  std::vector<double> samples_us;  ///< of which it is the median, in the order they were taken
  std::int64_t launches = 0;       ///< launches that the problem takes
  std::vector<EmulationReport::Finding> findings;
  std::vector<std::pair<std::string, std::uint64_t>> counters;  ///< of the emulated device, summed
  bool emulated = false;
};

/// Runs `kernel` on `work`. A contiguous kernel takes requests of different lengths one launch each, on its
/// own slice of the tensors; everything else is one launch. Throws what launches throw.
RunResult run_workload(Runtime& runtime, Kernel& kernel, const Workload& work,
                       const RunOptions& options = {});

}  // namespace kiln
