// The cycle model of sm_90a and Blackwell kernels: what an item, a tile of keys and a launch cost, from small runs
// on the emulated device that cycle_replay.hpp puts on a machine with throughputs and latencies. For ranking configs; what
// its word is worth on hardware: bench/RESULTS.md, "Cycle model".
#pragma once

#include <memory>

#include <kiln/generator.hpp>
#include <kiln/runtime.hpp>

#include "workbench/analysis/cycle_replay.hpp"
#include "workbench/problem/workload.hpp"

namespace kiln {

/// A multiprocessor's time is start + sum over its items of (item + tiles * tile). Clocks.
struct CycleModel {
  const CycleMachine* machine = nullptr;
  int rows = 0, keys = 0;  ///< queries of a block's item, keys of a tile
  int cluster = 1;         ///< blocks that share an item's rows, and the bytes of its tiles
  double start = 0, item = 0, tile = 0;
  CycleCounts busy{};     ///< clocks of each resource for one tile
  CycleResource bound{};  ///< the one with the most
  double exposed = 0;     ///< of `tile`, what no resource explains: hand-overs that nothing hides
  double tile_flop = 0;   ///< of an item's rows and a tile's keys
  double tile_bytes =
      0;  ///< of K and V, in decode, where they come from memory; 0: prefill, where they come from L2
  /// TFLOP/s of the device while all multiprocessors work on tiles, at `ghz`.
  double steady_tflops(double ghz) const;
  /// Decode: the share of a pure read of the memory that is reached while all multiprocessors work on tiles.
  double read_share() const;
};

/// What three small runs did: two items of few tiles, the same of many tiles, and more items of few tiles.
struct CycleRuns {
  Config resolved;
  int rows = 0, keys = 0, resident = 1;
  int cluster = 1;  ///< blocks that share the rows of an item
  std::unique_ptr<emulator::Trace> few, long_items, many;
};
/// Runs `source` on the emulated device, under a second. Throws Error (environment) without a compiler.
CycleRuns record_cycles(Runtime& runtime, const Plan& plan, const KernelSource& source);
CycleModel model_cycles(const CycleRuns& runs, const CycleMachine& machine);
/// Both, on the target's machine. Throws Error (bad_input) for a target without one.
CycleModel model_cycles(Runtime& runtime, const Plan& plan, const KernelSource& source);

/// Microseconds of one launch. Prefill: items over multiprocessors, the longest first. Decode: all tiles in equal ranges,
/// every key read once. `ghz` 0: the machine's.
double predicted_us(const CycleModel& model, const Config& resolved, const ProblemShape& shape,
                    double ghz = 0);
/// Bytes of keys and values that a decode problem reads.
double counted_bytes(const Config& resolved, const ProblemShape& shape);
/// FLOP of a problem, masked scores left out, as benchmarks count them.
double counted_flop(const Config& resolved, const ProblemShape& shape);

}  // namespace kiln
