// Every constant of a cdna_decode_streaming or cdna_decode kernel, derived once from the resolved config.
#pragma once

#include <bit>
#include <optional>
#include <vector>

#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/cdna_tensors.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/systems/cdna/decode_streaming.hpp"
#include "generator/systems/cdna/q_tile.hpp"
#include "generator/systems/cdna/row_scales.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::cdna {

struct DecodePlan {
  Config config;  ///< resolved
  /// cdna_decode_streaming: a strip of K or V in LDS at a time; cdna_decode: whole tiles, in stages.
  bool streaming = true;
  bool v_in_k = false;   ///< V is read from the columns of K's tile (cdna_decode)
  bool shared = false;   ///< V takes K's place in LDS, and K of the next tile V's
  bool blocks = false;   ///< blocks of bk_smem columns of K, then of V, through one ring (full_kv false)
  bool v_block = false;  ///< V is read element by element, and P by whole runs of a lane's keys

  Mfma mfma;
  int depth = 0, ov_depth = 0, BM = 0, BN = 0, WN = 0, BK = 0;
  int num_warps = 0, num_threads = 0, ctas_per_cu = 1;
  RowResults results;
  std::optional<Quantization::Granularity> scales;  ///< of 8-bit operands: per tensor, or per KV head
  RowScales row_scales;                             ///< of 8-bit K and V under a 16-bit Q: by row
  OperandKind kind = OperandKind::contiguous;
  int max_registers = 0;
  int k_stages = 1, v_stages = 1;  ///< cdna_decode; the ring's stages where blocks pass through one
  int wave_columns = 0;            ///< output columns of one wave
  int wave_step = 0;               ///< from a wave's first output column to the next wave's
  int waves_in_block = 1;          ///< cdna_decode: waves whose columns make up one block of bk_smem
  int ov_columns = 0;  ///< of all waves: ov_depth, and columns that only fill the last one's share
  int v_slices = 1;    ///< parts of them whose fragments are read one after the other
  std::vector<ColumnGroup> columns;
  /// LDS: K at 0, V, P, then one float per wave and row, then a flag.
  int smem_v = 0, smem_p = 0, smem_exchange = 0, smem_flag = 0, smem_bytes = 0;

  std::optional<QTile> q;
  std::optional<DecodeStreamingKVBuffer> k, v;  ///< streaming
  std::optional<KVBuffer> k_tile, v_tile;       ///< cdna_decode
  std::optional<KVBuffer> k_rope;               ///< K's last columns where they have a tensor of their own
  int smem_rope = 0;
  std::optional<StreamK> stream;
  std::optional<Mask> mask;
  std::optional<ScoreModifier> modifier;
  HiddenGuard hidden;  ///< of masks that hide keys from some rows of a tile

  /// The emitted names that masks and score modifiers read: a lane's packed row has its position and head.
  ScoreContext score_context() const {
    ScoreContext context;
    context.rows = {{"position", "(kv_head * group + packed % group)"}};
    context.batch = "batch_index";
    context.seqlen_q = aligned_rows();
    context.seqlen_k = "keys";
    return context;
  }
  /// Emitted: row i has key position i + keys less this.
  const char* aligned_rows() const { return stream->takes_positions() ? "aligned_rows" : "queries"; }
  /// Parameters of the kernel that scores are scaled by.
  std::vector<const char*> factors() const { return modifier->factors(); }
  /// Whether some column of O is not finite, emitted.
  std::string odd_flag() const { return fmt::format("*(LDS int*)(lds + {})", smem_flag + 4); }

  bool ragged_q() const { return operand_form(kind).ragged_q; }
  bool table() const { return operand_form(kind).table(); }
  int score_tiles() const { return WN / mfma.shape.m; }  ///< of one wave
  ScoreLayout scores() const { return mfma.score_layout(score_tiles()); }
  int output_tiles() const { return wave_columns / mfma.shape.m; }
  int k_loads() const { return loads_of(*k_tile, k_rope); }  ///< of cdna_decode
  int tile_blocks() const { return k_tile->blocks() + v_tile->blocks(); }
  /// cdna_decode: tiles in the text of the loop body, until stages repeat.
  int loop_tiles() const { return blocks ? tiles_of_ring(k_stages, tile_blocks()) : k_stages; }
  /// cdna_decode: K and V pass through registers on their way to LDS.
  bool staged() const { return k_tile->staged(); }
  /// cdna_decode with two stages of K and one of V: V(n) starts when everyone has finished tile n - 1.
  bool late_v() const { return !v_in_k && !shared && k_stages == 2 && v_stages == 1; }
  /// So many blocks run on a compute unit and share its registers.
  void share_compute_unit(int ctas);
  /// Waves form a grid: the packed rows of an instruction each one way, WN keys (then a share of the output
  /// columns) the other.
  int warps_m() const { return BM / mfma.shape.m; }
  int warps_n() const { return BN / WN; }
  /// Emitted: the wave's place along the keys, and this lane's row of the block's.
  const char* warp_n() const { return warps_m() == 1 ? "warp" : "warp_n"; }
  std::string tile_row() const { return warps_m() == 1 ? lane_row() : "tile_row"; }
  /// The same of a lane that holds a wave's row once (first_group).
  const char* lane_tile_row() const { return warps_m() == 1 ? "lane" : "tile_row"; }
  /// Emitted: this lane's row of the wave's.
  std::string lane_row() const { return fmt::format("(lane & {})", mfma.shape.m - 1); }
  /// Emitted: the lanes that hold a wave's rows once.
  std::string first_group() const { return fmt::format("lane < {}", mfma.shape.m); }
  std::vector<const char*> tensors() const { return tensor_names(v_in_k, k_rope.has_value()); }
  const KVMmaOp& k_op() const { return streaming ? k->kv_mma_op() : k_tile->kv_mma_op(); }
  const KVMmaOp& v_op() const { return streaming ? v->kv_mma_op() : v_tile->kv_mma_op(); }
  /// A partial result: O' not divided by the sum, [BM][ov_columns], then (maximum, sum) of each row.
  int partial_floats() const { return BM * ov_columns + 2 * BM; }
  /// Rows of P are BN elements, whose 16-byte vectors are XORed with the row, in the next power of two: the
  /// place of a lane and the place of a literal then share no bits (LaneAddress).
  int p_row_columns() const { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(BN))); }
  int p_row_bytes() const { return p_row_columns() * p_bytes(); }
  int p_bytes() const { return q_bytes() ? 1 : 2; }
  /// Keys of P that one lane reads at once: 8 bytes of one instruction's slots, or all of them.
  int keys_per_read() const { return v_block ? mfma.frag() : q_bytes() ? 8 : 4; }
  /// log2 of the factor of P: the largest P is near the largest FP8 number (240 or 448).
  int p_shift() const { return !q_bytes() ? 0 : mfma.type == DType::fp8_e4m3fnuz ? 7 : 8; }
  bool q_bytes() const { return is_fp8(mfma.type); }
  bool kv_bytes() const { return size_of(*config.kv_dtype) == 1; }
  std::string pack() const { return config.dtype == DType::bf16 ? "pack_bf16" : "pack_fp16"; }
  /// Of Q and O, once the columns of the waves stand.
  QTile::Shape q_shape() const;
  bool o_floats() const { return *config.out_dtype == DType::f32; }
  int o_bytes() const { return static_cast<int>(size_of(*config.out_dtype)); }
};

/// Fills defaults and checks; nullopt with violations when a rule is broken. plan_decode is that of
/// cdna_decode_streaming, plan_tile_decode that of cdna_decode.
std::optional<DecodePlan> plan_decode(const Config& user, Violations& out);
std::optional<DecodePlan> plan_tile_decode(const Config& user, Violations& out);

/// Of V's block form: 16 lanes touch 32 bytes of a row; the four rows of a read go to four parts of 128
/// bytes.
layout::Swizzle block_swizzle(const Mfma& mfma, int vectors_per_row);
/// A swizzle of the config, or nothing and a violation at `pointer` where it moves anything out of the
/// `wave_vectors` 16-byte vectors that one wave has of a tile.
std::optional<LdsSwizzle> wave_swizzle(const Config& user, const SwizzleKey& key, std::string_view pointer,
                                       int wave_vectors, Violations& out);
/// The parts of a plan that both schedules take from the config as it is.
DecodePlan decode_plan_of(const Config& config);
/// Places of everything in LDS, blocks a CU and registers a lane, from the bytes of K and V (0: V lies in K's).
void place_in_lds(DecodePlan& plan, int k_bytes, int v_bytes);

/// The kernel's text.
KernelSource emit_decode(const DecodePlan& plan);
/// Once K(n) has landed: the scales of the wave's keys, where they differ from row to row.
void emit_key_scales(Writer& w, const DecodePlan& plan);
/// Scores of the tile in s_acc become P, written to LDS.
void emit_decode_softmax(Writer& w, const DecodePlan& plan);
/// A value of each row to the other waves, and the barrier.
void emit_to_waves(Writer& w, const DecodePlan& plan, const char* value);
/// This lane's addresses of P, in `rows`, an emitted address of the wave's rows.
void emit_p_addresses(Writer& w, const DecodePlan& plan, const std::string& rows);
/// The places in LDS that P is written to and read from.
std::vector<layout::Proof> p_proofs(const DecodePlan& plan);
/// After a barrier: P of all waves' keys in registers, as the B operand of V' P'.
void emit_read_p(Writer& w, const DecodePlan& plan);
/// K and V of a segment of cdna_decode, `rows` rows of them.
void emit_tile_buffers(Writer& w, const DecodePlan& plan, const std::string& rows);
// The main loops, all KV tiles of a segment: whole tiles in stages, or K and V in turn in one (tiles.cpp), blocks
// through a ring (blocks.cpp), strips of cdna_decode_streaming (strips.cpp).
void emit_decode_tiles(Writer& w, const DecodePlan& plan);
void emit_shared_tiles(Writer& w, const DecodePlan& plan);
void emit_decode_blocks(Writer& w, const DecodePlan& plan);
void emit_decode_strips(Writer& w, const DecodePlan& plan);
/// The end of a segment (epilogue.cpp).
void emit_decode_epilogue(Writer& w, const DecodePlan& plan);

}  // namespace kiln::cdna
