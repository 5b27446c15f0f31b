// Multiprocessors of the cycle model. Rates are published (CUDA C++ Programming Guide, data sheets, measurements of
// others for sm_100a); latencies of sm_90a are fitted to kiln's kernels on an H200 (bench/RESULTS.md, "Cycle model"),
// those of sm_100a are taken over where nothing else is known. Of the memory's rate (4.8 and 8 TB/s) a pure read reaches
// 0.92 on the H200; the same is taken for the B200.
#include <fmt/format.h>

#include <algorithm>
#include <kiln/error.hpp>

#include "workbench/analysis/cycle_replay.hpp"

namespace kiln {
namespace {

constexpr CycleMachine kMachines[] = {
    {.target = "sm_90a",
     .device = "H200",
     .multiprocessors = 132,
     .ghz = 1.6,
     .tensor_flop_16bit = 4096,
     .issue = 1.3,
     .fma = 1,
     .alu = 2,
     .mufu = 9.6,
     .shared_bytes = 128,
     .tensor_memory_bytes = 1,
     .copy_bytes = 36,
     .memory_gbps = 4400,
     .copy_latency = 700,
     .wait_latency = 28,
     .matrix_latency = 40,
     .load_latency = 0,
     .item_latency = 3000,
     .launch_us = 4},
    {.target = "sm_100a",
     .device = "B200",
     .multiprocessors = 148,
     .ghz = 1.855,
     .tensor_flop_16bit = 8192,
     .issue = 1.3,
     .fma = 1,
     .alu = 2,
     .mufu = 8,
     .shared_bytes = 128,
     .tensor_memory_bytes = 640,
     .copy_bytes = 64,
     .memory_gbps = 7300,
     .copy_latency = 700,
     .wait_latency = 28,
     .matrix_latency = 150,
     .load_latency = 40,
     .item_latency = 3000,
     .launch_us = 4},
};

}  // namespace

const CycleMachine& cycle_machine(std::string_view target) {
  const auto* const found = std::find_if(std::begin(kMachines), std::end(kMachines),
                                         [&](const CycleMachine& m) { return m.target == target; });
  if (found == std::end(kMachines))
    throw Error(ErrorCode::bad_input,
                fmt::format("the cycle model knows sm_90a and sm_100a, not {}", target));
  return *found;
}

std::string_view name_of(CycleResource resource) {
  static constexpr std::string_view kNames[] = {"issue",  "fma",           "alu",           "mufu",
                                                "matrix", "shared_memory", "tensor_memory", "copy"};
  return kNames[static_cast<std::size_t>(resource)];
}

}  // namespace kiln
