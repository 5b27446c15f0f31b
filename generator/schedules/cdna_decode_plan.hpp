// Every constant of a cdna_decode_streaming kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/schedules/schedule.hpp"
#include "generator/systems/cdna/decode_streaming.hpp"
#include "generator/systems/cdna/q_tile.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::cdna {

struct DecodePlan {
  Config config;  ///< resolved

  Mfma mfma;
  int depth = 0, ov_depth = 0, BM = 0, BN = 0, WN = 0, BK = 0;
  int num_warps = 0, num_threads = 0, ctas_per_cu = 1;
  bool causal = false, lse = false, sink = false;
  int window = 0;      ///< sliding window in keys, 0: none
  double softcap = 0;  ///< 0: none
  OperandKind kind = OperandKind::contiguous;
  int max_registers = 0;
  /// LDS: K strip at 0, V strip, P, then one float per wave and row, then a flag.
  int smem_v = 0, smem_p = 0, smem_exchange = 0, smem_flag = 0, smem_bytes = 0;

  std::optional<QTile> q;
  std::optional<DecodeStreamingKVBuffer> k, v;
  std::optional<StreamK> stream;

  bool ragged_q() const { return kind != OperandKind::contiguous; }
  bool table() const { return kind == OperandKind::paged || kind == OperandKind::continuous; }
  int score_tiles() const { return WN / mfma.shape.m; }  ///< of one wave
  int output_tiles() const { return v->wave_columns() / mfma.shape.m; }
  /// A partial result: O' not divided by the sum, [BM][ov_depth], then (maximum, sum) of each row.
  int partial_floats() const { return BM * ov_depth + 2 * BM; }
  /// Rows of P are BN elements, whose 16-byte vectors are XORed with the row.
  int p_row_bytes() const { return BN * 2; }
  int p_vector_mask() const { return std::min(8, p_row_bytes() / 16) - 1; }
  std::string pack() const { return config.dtype == DType::bf16 ? "pack_bf16" : "pack_fp16"; }
  std::string pack_out() const { return *config.out_dtype == DType::bf16 ? "pack_bf16" : "pack_fp16"; }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(const Config& user, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);
/// The end of a segment (cdna_decode_epilogue.cpp).
void emit_decode_epilogue(Writer& w, const DecodePlan& plan);

}  // namespace kiln::cdna
