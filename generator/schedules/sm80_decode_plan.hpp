// Every constant of an sm80_decode kernel, derived once from the resolved config.
#pragma once

#include <optional>

#include "generator/schedules/schedule.hpp"
#include "generator/schedules/sm80_decode_output.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/mha_operand.hpp"
#include "generator/systems/online_softmax.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/sm80/decode_kv_buffer.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm80 {

struct DecodePlan {
  Config config;  ///< resolved

  static constexpr int BM = 16;  ///< packed query rows: those of the matrix instruction
  static constexpr int kExchangeColumns = 64, kExchangeStride = 72;  ///< floats; no bank conflicts
  int depth = 0, BN = 0, WN = 0, num_warps = 0, num_threads = 0, num_stages = 0, ctas_per_sm = 1;
  bool lse = false, sink = false;
  std::optional<Quantization> quantization;
  int scale_group = 0;  ///< elements of depth with a scale for each token; 0: none

  // Shared memory, in bytes. K, V and scale stages of warp w follow each other.
  bool q_in_registers = true;  ///< else Q's fragments lie in shared memory, one copy for all warps
  int smem_v = 0, smem_scales = 0, smem_q = 0, smem_exchange = 0, smem_rows = 0, smem_bytes = 0;

  std::optional<MHAOperand> operand;
  std::optional<DecodeStreamingKVBuffer> k, v;
  std::optional<OnlineSoftmax> softmax;
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;

  /// The emitted names that masks and score modifiers read: packed rows differ in position and head.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"position_0", "(s.kv_head * group + packed_0 % group)"},
                    {"position_1", "(s.kv_head * group + packed_1 % group)"}};
    context.batch = "s.batch";
    context.seqlen_q = "s.sequence.seqlen_q";
    context.seqlen_k = "s.sequence.seqlen_k";
    return context;
  }

  bool ragged() const { return config.operand->kind != OperandKind::contiguous; }
  /// One scale for a head, or for all.
  bool head_scale() const { return quantization && scale_group == 0; }
  int scale_stage_floats() const { return scale_group == 0 ? 0 : WN * k->groups(); }
  DecodeOutput output() const {
    return {
        BM,       depth,          num_threads,  ragged(),
        lse,      sink,           head_scale(), *config.out_dtype == DType::bf16 ? "pack_bf16" : "pack_fp16",
        &*stream, smem_bytes - 16};
  }
  int partial_floats() const { return output().partial_floats(); }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken.
std::optional<DecodePlan> plan_decode(Config config, Violations& out);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);

/// End of a segment: warps to one result, partial results, combination, output (sm80_decode_epilogue.cpp).
void emit_decode_epilogue(Writer& w, const DecodePlan& plan);

}  // namespace kiln::sm80
