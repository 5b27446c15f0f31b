// Every constant of an sm80_decode kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/schedules/sm80_decode/base.hpp"
#include "generator/systems/sm80/decode_kv_buffer.hpp"

namespace kiln::sm80 {

struct DecodePlan : DecodeBase {
  static constexpr int kExchangeColumns = 64, kExchangeStride = 72;  ///< floats; no bank conflicts
  int WN = 0, num_warps = 0;
  std::optional<Quantization> quantization;
  int scale_group = 0;  ///< elements of depth with a scale for each token; 0: none

  // Shared memory, in bytes. K, V and scale stages of warp w follow each other.
  bool q_in_registers = true;  ///< else Q's fragments lie in shared memory, one copy for all warps
  int smem_v = 0, smem_scales = 0, smem_q = 0, smem_exchange = 0, smem_rows = 0;

  std::optional<DecodeStreamingKVBuffer> k, v;

  /// One scale for a head, or for all.
  bool head_scale() const { return quantization && scale_group == 0; }
  int scale_stage_floats() const { return scale_group == 0 ? 0 : WN * k->groups(); }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

/// End of a segment: warps to one result, partial results, combination, output (epilogue.cpp).
void emit_decode_epilogue(Writer& w, const DecodePlan& plan);

}  // namespace kiln::sm80
