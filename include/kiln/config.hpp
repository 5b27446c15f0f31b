// The config a user writes, as a value. Every key but the four required ones is optional: the planner fills
// the rest. Key names and meanings are those of docs/config.md; the JSON Schema is
// configs/kiln-config.schema.json.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <kiln/error.hpp>
#include <kiln/types.hpp>

namespace kiln {

/// XOR swizzle Swizzle(bits, base, shift) on 16-byte vector indices or on element offsets.
struct XorSwizzle {
  int bits = 0, base = 0, shift = 0;
  bool element_domain = false;
};
enum class SwizzleMode { none, b32, b64, b128 };
/// `swizzle`: absent means "auto".
using SwizzleKey = std::variant<SwizzleMode, XorSwizzle>;

struct Quantization {
  enum class Granularity { per_tensor, per_head, per_sequence, per_token, per_block };
  Granularity granularity = Granularity::per_tensor;
  int block = 0;  ///< elements of one scale, for per_block
  DType scale_dtype = DType::f32;
  /// Of scales per token: [.., tokens, heads], or [.., heads, tokens], where those of a head are contiguous.
  enum class Layout { token_major, head_major };
  Layout layout = Layout::token_major;
};
struct OperandConfig {
  OperandKind kind = OperandKind::contiguous;
  std::optional<int> page_size;
  std::optional<Quantization> quantization;
};
struct MaskConfig {
  enum class Kind { none, causal, sliding_window, chunked, window, custom };
  Kind kind = Kind::none;
  int size = 0;  ///< window or chunk length in keys
  /// Of `window`: keys before and after the row's own position that it sees, and the length of chunks. Beside a
  /// number from 0 (chunks: 1) on: no bound, or what AttentionArgs::window says at each launch.
  static constexpr int kUnbounded = -1, kAtLaunch = -2;
  int left = kUnbounded, right = kUnbounded, chunk = kUnbounded;
  bool left_padding = false;  ///< of `window`: AttentionArgs::first_keys has each sequence's first key
};
/// A tensor that a score expression names, given at each launch (AttentionArgs::captured).
struct CapturedTensor {
  std::string name;
  DType dtype = DType::f32;  ///< f32, bf16, fp16; i32, int8: integers
};
struct ScoreMod {
  enum class Kind { none, softcap, alibi, expr };
  Kind kind = Kind::none;
  double value = 0;  ///< of a kind with a number: the cap of softcap
  std::string expr;
  std::vector<CapturedTensor> tensors = {};  ///< of expr
};
struct Gather4 {
  int tile_height = 4;
  std::optional<int> tile_width, tile_stride;
  std::string tma_dtype, swizzle, l2_promotion;
};
struct RopeConfig {
  std::string layout;               ///< "separate" (a tensor of their own) or "tail" (in K's rows)
  std::optional<int> padded_depth;  ///< of a tail: bytes of a head row before it
  std::optional<DType> dtype;
};

struct Config {
  // Required.
  Target target = Target::sm_90a;
  Operation operation = Operation::prefill;
  DType dtype = DType::bf16;
  int depth = 0;

  std::optional<std::string> name;
  std::optional<DType> kv_dtype, out_dtype;
  std::optional<int> ov_depth, rope_depth, nope_depth, q_depth, cache_depth, head_dim_offset;
  std::optional<bool> v_from_k;
  std::optional<std::array<int, 3>> mma_shape;
  std::optional<int> BM, BN, BK, WM, WN, num_threads;
  std::optional<SwizzleKey> swizzle, swizzle_k, swizzle_v, swizzle_p;
  std::optional<bool> full_kv;
  std::optional<int> bk_smem, smem_depth, reg_chunk_depth, reg_chunk_keys, num_smem_stages;
  std::optional<int> num_kv_stages, num_qk_stages, num_pv_stages;
  std::optional<OperandConfig> operand;
  std::optional<MaskConfig> mask;
  std::optional<ScoreMod> score_mod;
  std::optional<bool> sink;
  std::optional<int> group;     ///< absent means "auto"
  std::optional<int> queries;   ///< of a sequence in decode, at most; absent means "auto"
  std::optional<int> split_kv;  ///< absent means "auto"
  std::optional<bool> lse;
  std::optional<double> scale;
  std::optional<std::string> schedule;  ///< absent means "auto"

  // Further knobs, under the names of the systems' documentation (docs/systems.md).
  std::optional<std::string> v_load, v_layout, dma, wait_policy, tma_fold, scale_placement, pv_operand,
      scheduler;
  std::optional<bool> double_buffer, double_buffer_k_only, shared_kv, pair_cta, single_o, shared_ring;
  std::optional<int> bn_cap, base_alignment, kv_num_heads, num_q_heads;
  std::optional<Gather4> gather4;
  std::optional<RopeConfig> rope;
  std::optional<int> cluster, fp8_flush_interval;
  std::optional<std::string> source_style;  ///< absent means "unrolled"
  std::optional<double> exp_offload;        ///< fraction of exponentials computed on the FMA pipe
};

/// Parses one config object and checks everything that can be checked without a plan.
/// `source_name` names the text in messages. Throws Error (bad_config) carrying all violations at once.
Config parse_config(std::string_view json_text, std::string_view source_name);

/// The config as JSON text: set keys only, in the documented order, two-space indent unless `indent` < 0.
std::string to_json(const Config& config, int indent = 2);

/// The config's name: its `name`, else one derived from its other keys, a legal C identifier.
std::string config_name(const Config& config);

}  // namespace kiln
