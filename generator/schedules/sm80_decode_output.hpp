// What the decode kernels of sm_80 do alike with the result of a packed row: its factor, log-sum-exp and
// place, and the combination of an item's parts.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm80 {

struct DecodeOutput {
  int BM = 0, ov_depth = 0, num_threads = 0;
  bool ragged = false, lse = false, sink = false;
  bool scaled = false;  ///< `v_factor` multiplies O
  const char* pack = "";
  const StreamK* stream = nullptr;
  int smem_flag = 0;  ///< an int of shared memory, at this byte

  /// A partial result: O, then maximum and sum of each row.
  int partial_floats() const { return BM * ov_depth + 2 * BM; }
};

/// Lambdas finish(row, maximum, sum, first), the factor that makes O of a packed row its output (`first`
/// stores the LSE), and output_row(row), its first element.
void emit_finish(Writer& w, const DecodeOutput& out);
/// Of a segment that is a part, whose result is in the workspace: counts its arrival; the last combines.
void emit_arrival(Writer& w, const DecodeOutput& out);

}  // namespace kiln::sm80
