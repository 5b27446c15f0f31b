// Multiprocessors of the cycle model. Rates are published (CUDA C++ Programming Guide, data sheets, measurements of
// others for sm_100a); latencies of sm_90a are fitted to kiln's kernels on an H200 (bench/RESULTS.md, "Cycle model"),
// those of sm_100a are taken over where nothing else is known. Of the memory's rate (4.8 and 8 TB/s) a pure read reaches
// 0.92 on the H200; the same is taken for the B200. The B300 is a B200 with the constants of its target, at the same
// clock: in 16 bits and FP8 it is sold with the same rates.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <kiln/error.hpp>

#include "generator/targets/target.hpp"

#include "workbench/analysis/cycle_replay.hpp"

namespace kiln {
namespace {

constexpr CycleMachine kH200{.target = "sm_90a",
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
                             .launch_us = 4};
constexpr CycleMachine kB200{.target = "sm_100a",
                             .device = "B200",
                             .multiprocessors = 148,
                             .ghz = 1.855,
                             .tensor_flop_16bit = 8192,
                             .issue = 1.3,
                             .fma = 1,
                             .alu = 2,
                             .shared_bytes = 128,
                             .tensor_memory_bytes = 640,
                             .copy_bytes = 64,
                             .memory_gbps = 7300,
                             .copy_latency = 700,
                             .wait_latency = 28,
                             .matrix_latency = 150,
                             .load_latency = 40,
                             .item_latency = 3000,
                             .launch_us = 4};

/// The B200 with another target's name and special-function units, of which a sub-partition has a quarter.
CycleMachine blackwell(Target target, std::string_view device) {
  CycleMachine machine = kB200;
  machine.target = to_string(target);
  machine.device = device;
  machine.mufu = 4.0 * 32 / target_info(target).ex2_per_clock;
  return machine;
}

}  // namespace

const CycleMachine& cycle_machine(std::string_view target) {
  static const std::array machines{kH200, blackwell(Target::sm_100a, "B200"),
                                   blackwell(Target::sm_103a, "B300")};
  const auto found = std::ranges::find(machines, target, &CycleMachine::target);
  if (found == machines.end())
    throw Error(ErrorCode::bad_input,
                fmt::format("the cycle model knows sm_90a, sm_100a and sm_103a, not {}", target));
  return *found;
}

std::string_view name_of(CycleResource resource) {
  static constexpr std::string_view kNames[] = {"issue",  "fma",           "alu",           "mufu",
                                                "matrix", "shared_memory", "tensor_memory", "copy"};
  return kNames[static_cast<std::size_t>(resource)];
}

}  // namespace kiln
