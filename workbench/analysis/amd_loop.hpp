// The main loop of a compiled AMD kernel and what it costs on paper: instructions by pipe, cycles by the
// published tables, the pipe that bounds it, and the speed that follows. Nothing here was measured on AMD
// hardware.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <kiln/cache.hpp>
#include <kiln/source.hpp>

namespace kiln {

/// The machine as the model sees it.
struct AmdMachine {
  std::string_view target, device;
  int compute_units;
  double ghz;
  int lds_bytes;       ///< of a compute unit
  int transcendental;  ///< cycles of one on a SIMD; other vector instructions take 4
  int lds_read_bytes;  ///< per cycle of a compute unit, for 8- and 16-byte reads; everything else 128
  double peak_16bit, peak_8bit;  ///< TFLOP/s
  double memory_tbs;             ///< TB/s of the device's memory
};
/// A speed that others measured and published, of the kernel most like one's own.
struct AmdPublished {
  double tflops = 0;  ///< 0: nothing was published for the device
  std::string_view as;
};
AmdPublished amd_published(const Manifest& manifest);
/// Throws Error (bad_input) for a target that is not AMD's.
const AmdMachine& amd_machine(std::string_view target);

/// Cycles that one matrix instruction keeps its SIMD's matrix unit; 0 when the model does not know it.
int mfma_cycles(std::string_view target, std::string_view text);
/// Multiply-adds, times two, of one matrix instruction of a wave.
std::int64_t mfma_flops(std::string_view text);

struct AmdLoopModel {
  // The instructions of one iteration, of one wave; see control_flow.hpp.
  std::uint64_t first_address = 0;
  int instructions = 0, mfma = 0, valu = 0, transcendental = 0, scalar = 0, lds_reads = 0, lds_writes = 0,
      lds_permutes = 0, memory_loads = 0, dma = 0, waits = 0, barriers = 0;
  int narrow_lds = 0;    ///< LDS accesses of less than 4 bytes a lane
  int narrow_dma = 0;    ///< copies to LDS of less than 16 bytes a lane
  int narrow_loads = 0;  ///< memory loads of less than 4 bytes a lane
  int scratch = 0;       ///< accesses of private memory
  // Residence.
  int blocks_per_cu = 0, waves_per_simd = 0;
  // Cycles of one iteration of all resident waves, by pipe; `wave` is one wave that overlaps nothing with
  // itself.
  double matrix = 0, vector = 0, lds = 0, memory = 0, issue = 0, wave = 0;
  std::string bound;           ///< the pipe with the most cycles
  double cycles = 0;           ///< of that pipe
  std::int64_t flops = 0;      ///< of one iteration of all waves of a compute unit
  double tflops_bound = 0;     ///< when pipes overlap perfectly
  double tflops_in_order = 0;  ///< when a wave overlaps nothing with itself, but waves overlap perfectly
  double tflops_lockstep = 0;  ///< when barriers hold the waves of a block in step: only blocks overlap, or
                               ///< the two groups of waves of a ping-pong schedule, slot by slot
  bool two_groups = false;     ///< the kernel is of a ping-pong schedule
  /// Bytes that the loop brings from memory in one iteration of all waves of a compute unit, and TB/s of the
  /// device when the loop takes as long as `tflops_lockstep` says: what decode needs beside the memory's
  /// rate.
  double bytes = 0, read_tbs = 0;
};

/// Throws Error: environment (no disassembler), bad_input (the program has no loop with matrix instructions).
AmdLoopModel model_amd_loop(const Binary& binary, const Manifest& manifest);

}  // namespace kiln
