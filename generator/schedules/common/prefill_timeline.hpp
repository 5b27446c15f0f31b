// Timelines of the prefill schedules of NVIDIA targets.
#pragma once

#include "generator/schedules/common/timeline.hpp"

namespace kiln {

/// Sizes and rates of a main loop. Rates are per clock of one multiprocessor.
struct LoopModel {
  int consumers = 1;  ///< groups of warps with query rows of their own
  int rows = 64;      ///< query rows of one
  int BN = 0, depth = 0, ov_depth = 0, stages = 2, tiles = 6;
  double element_bytes = 2;
  double mma = 2048;  ///< multiply-adds of the tensor cores
  double exponentials = 16, lanes = 128;
  double copy_bytes = 64;             ///< from L2 to shared memory
  double instructions_per_score = 6;  ///< of softmax, beside the exponential
  double exp_offload = 0;             ///< share of exponentials that are among those instructions
  double instructions_per_byte = 0;   ///< of widening K and V, before they are used; 0: they need none
};

/// sm90_prefill: S(n) and O += P V(n+1) are issued together, softmax(n) runs beside the products of P V and
/// of the other consumers; a producer fills the rings.
Timeline overlapped_timeline(const LoopModel& model);
/// sm80_prefill: S, softmax and P V of a tile follow each other; copies run ahead by stages - 1 tiles, of
/// bytes that are widened by all stages.
Timeline sequential_timeline(const LoopModel& model);

}  // namespace kiln
