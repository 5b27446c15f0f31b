// Replays what the warps of one block did on the emulated device (emulator/machine/trace.hpp) on a machine with
// throughputs and latencies: who waits for whom is the run's own, how long things take is the machine's. A list schedule,
// not a simulation of instructions: the work between two events of a warp is spread evenly, pipes take it in order.
#pragma once

#include <array>
#include <string_view>

#include "emulator/machine/trace.hpp"

namespace kiln {

/// A multiprocessor. Rates are of one sub-partition where it says so, else of the whole multiprocessor.
struct CycleMachine {
  std::string_view target, device;
  int multiprocessors = 0;
  double ghz = 0;                ///< that predictions of time take
  double tensor_flop_16bit = 0;  ///< dense FLOP a clock; half for 32 bits, twice for 8, four times for 4
  double issue = 0;              ///< slots that an instruction of PTX takes, those that ptxas adds among them
  double fma = 0, alu = 0, mufu = 0;  ///< clocks that one warp instruction takes of a sub-partition's pipe
  double shared_bytes = 0;            ///< a clock
  double tensor_memory_bytes = 0;     ///< a clock of a sub-partition
  double copy_bytes = 0;              ///< a clock, of copies from L2 to shared memory
  double again_bytes = 0;  ///< the same of what the launch has copied before, where others come from memory
  double memory_gbps = 0;  ///< of the device: what a pure read of its memory reaches
  // Latencies, clocks.
  double copy_latency = 0;    ///< from the issue of a bulk copy to its arrival
  double wait_latency = 0;    ///< from a complete barrier to the waiter's next instruction
  double matrix_latency = 0;  ///< from the end of a product in the pipe to its waiter or its commit's arrival
  double load_latency = 0;    ///< of tensor memory
  double item_latency =
      0;                 ///< of an item besides what a run shows: its operands come from memory, not from L2
  double launch_us = 0;  ///< microseconds of a launch besides
};
/// Of sm_90a, sm_100a and sm_103a; throws Error (bad_input) for others.
const CycleMachine& cycle_machine(std::string_view target);

/// Resources by which clocks are counted.
enum class CycleResource : unsigned char {
  issue,
  fma,
  alu,
  mufu,
  matrix,
  shared,
  tensor_memory,
  copy,
  count
};
std::string_view name_of(CycleResource resource);
using CycleCounts = std::array<double, static_cast<std::size_t>(CycleResource::count)>;

struct CycleReplay {
  double clocks = 0;   ///< until the last warp has ended
  CycleCounts busy{};  ///< clocks that each resource works; of sub-partitions those of the busiest
};
/// `trace` has costs. `resident`: blocks like it that share the multiprocessor.
CycleReplay replay_cycles(const emulator::Trace& trace, const CycleMachine& machine, int resident = 1);

}  // namespace kiln
