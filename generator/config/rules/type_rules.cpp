// Rules of element types, depths and scales: V28 V29 V31, and what contract.md says about which keys go
// together. V23 refuses nothing: a partial strip is masked.
#include <fmt/format.h>

#include "base/grid.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/rules/rule_sets.hpp"

namespace kiln::rules {
namespace {

/// The FP8 encoding a target computes in, if any.
std::optional<DType> fp8_of(Target target) {
  switch (target) {
    case Target::gfx942:
      return DType::fp8_e4m3fnuz;
    case Target::gfx950:
    case Target::sm_90a:
    case Target::sm_100a:
    case Target::sm_103a:
      return DType::fp8_e4m3;
    default:
      return std::nullopt;
  }
}

std::string encoding_problem(Target target, DType type) {
  const std::optional<DType> legal = fp8_of(target);
  if (!is_fp8(type) || type == legal) return "";
  if (legal)
    return fmt::format("{} takes FP8 as {} only, not {}", to_string(target), to_string(*legal),
                       to_string(type));
  return fmt::format("{} does not compute in FP8 ({})", to_string(target), to_string(type));
}

std::string v31(const Config& c) {
  return encoding_problem(c.target, c.dtype);
}
std::string v31_kv(const Config& c) {
  const DType type = kv_dtype(c);
  // No FP8 arithmetic, or another encoding's, but a cache that is dequantised by hand.
  const bool by_hand = c.target == Target::sm_80 || c.target == Target::gfx90a || c.target == Target::gfx942;
  if (by_hand && type == DType::fp8_e4m3 && !is_fp8(c.dtype)) return "";
  return type == c.dtype ? "" : encoding_problem(c.target, type);
}

std::string kv_pair(const Config& c) {
  const DType type = kv_dtype(c);
  if (type == c.dtype || size_of(type) == 1) return "";
  return fmt::format("kv_dtype is dtype ({}) or an 8-bit type that is dequantised, not {}",
                     to_string(c.dtype), to_string(type));
}

std::string v28(const Config& c) {
  if (c.rope_depth.value_or(0) >= c.depth)
    return fmt::format("rope_depth ({}) leaves none of the {} columns of a row for the others", *c.rope_depth,
                       c.depth);
  if (!c.rope_depth || !c.nope_depth || *c.rope_depth + *c.nope_depth == c.depth) return "";
  return fmt::format("rope_depth ({}) + nope_depth ({}) must be depth ({})", *c.rope_depth, *c.nope_depth,
                     c.depth);
}
std::string v28_rope(const Config& c) {
  if (!c.rope || c.rope_depth.value_or(0) > 0) return "";
  return "rope describes rotary columns, of which rope_depth has none";
}
/// A tail has a tensor map of its own: its first byte and the next row's stand at multiples of 16.
std::string v28_tail(const Config& c) {
  if (!has_rope_tail(c) || !c.nope_depth) return "";
  const int bytes = *c.nope_depth * static_cast<int>(size_of(kv_dtype(c))), begin = *c.rope->padded_depth;
  if (begin < bytes)
    return fmt::format("padded_depth ({}) must hold the {} bytes of the columns before the rotary ones",
                       begin, bytes);
  return begin % 16 == 0 ? "" : fmt::format("padded_depth ({}) must be a multiple of 16 bytes", begin);
}

std::string v28_padded(const Config& c) {
  if (!has_rope_tensor(c) || !c.rope->padded_depth) return "";
  return "padded_depth says where in the rows of K a tail begins, not of rotary columns in their own tensor";
}

std::string cache_row(const Config& c) {
  const int used = row_elements(c);
  if (!c.cache_depth || *c.cache_depth >= c.head_dim_offset.value_or(0) + used) return "";
  return fmt::format("cache_depth ({}) must hold head_dim_offset ({}) and the {} columns read",
                     *c.cache_depth, c.head_dim_offset.value_or(0), used);
}

/// Every copy that kiln emits brings pieces of 16 bytes. Tensor copies say so of the row's length (V20).
std::string aligned(const Config& c, std::string_view what, int elements) {
  const int bytes = elements * static_cast<int>(size_of(kv_dtype(c)));
  if (bytes % 16 == 0) return "";
  return fmt::format("{} ({}) is {} bytes: copies take multiples of 16", what, elements, bytes);
}
std::string first_column_aligned(const Config& c) {
  return aligned(c, "head_dim_offset", c.head_dim_offset.value_or(0));
}
std::string cache_row_aligned(const Config& c) {
  const int row = c.cache_depth.value_or(c.depth);
  if (row == c.depth || !first_column_aligned(c).empty()) return "";
  const std::string problem = aligned(c, "cache_depth", row);
  const int v_row = row - c.depth + c.ov_depth.value_or(c.depth);
  return problem.empty() && !c.v_from_k.value_or(false) ? aligned(c, "a row of V", v_row) : problem;
}

std::string v29(const Config& c) {
  if (!c.operand || !c.operand->quantization) return "";
  const Quantization& q = *c.operand->quantization;
  if (q.granularity != Quantization::Granularity::per_block || q.block >= 1) return "";
  return fmt::format("a scale covers at least one element, not {}", q.block);
}

std::string scale_layout(const Config& c) {
  if (!c.operand || !c.operand->quantization) return "";
  const Quantization& q = *c.operand->quantization;
  if (q.layout == Quantization::Layout::token_major || q.granularity == Quantization::Granularity::per_token)
    return "";
  return "layout head_major orders scales per token, and there are none";
}

/// Numbers of four bits, and scales of a byte, are those of a format of blocks.
std::string scale_type(const Config& c) {
  const Quantization q = c.operand.value_or(OperandConfig{}).quantization.value_or(Quantization{});
  const bool named = kv_dtype(c) == DType::fp4_e2m1 || q.scale_dtype != DType::f32;
  std::string formats;
  for (const BlockFormat& format : kBlockFormats) {
    const bool blocks = q.granularity == Quantization::Granularity::per_block && q.block == format.block;
    if (kv_dtype(c) == format.element && q.scale_dtype == format.scale && blocks) return "";
    if (kv_dtype(c) != format.element && q.scale_dtype != format.scale) continue;
    formats +=
        fmt::format("{}{} is kv_dtype {} with granularity {} and scale_dtype {}", formats.empty() ? "" : ", ",
                    format.name, to_string(format.element), format.block, to_string(format.scale));
  }
  return named ? formats : "";
}

std::string heads(const Config& c) {
  if (!c.num_q_heads || !c.kv_num_heads || *c.num_q_heads % *c.kv_num_heads == 0) return "";
  return fmt::format("num_q_heads ({}) must be a multiple of kv_num_heads ({})", *c.num_q_heads,
                     *c.kv_num_heads);
}

/// Of a grid's y, and of `h` in expressions.
std::string most_heads(const Config& c) {
  if (!c.group || !c.kv_num_heads || *c.group * *c.kv_num_heads <= kMostOfGridAxis) return "";
  return fmt::format("group ({}) x kv_num_heads ({}) are {} query heads, at most {}", *c.group,
                     *c.kv_num_heads, *c.group * *c.kv_num_heads, kMostOfGridAxis);
}

std::string block_rows_tma(const Config& c) {
  // Decode on sm_90a packs query rows along N.
  if (c.target == Target::sm_90a && c.operation == Operation::decode) return "";
  return c.BM && *c.BM % 64 != 0
             ? fmt::format("BM ({}) must be a multiple of 64, the rows of a warpgroup", *c.BM)
             : "";
}
std::string block_rows_sm100(const Config& c) {
  const bool legal =
      c.operation == Operation::decode || !c.BM || *c.BM == 32 || *c.BM == 64 || *c.BM == 128 || *c.BM == 256;
  return legal ? "" : fmt::format("BM ({}) must be 32, 64, 128 or 256", *c.BM);
}
std::string threads_sm90(const Config& c) {
  if (c.operation == Operation::decode) return "";
  if (!c.num_threads || (*c.num_threads % 128 == 0 && *c.num_threads >= 256)) return "";
  return fmt::format("num_threads ({}) must be 128 for the producer and 128 for each consumer",
                     *c.num_threads);
}
std::string threads_sm100(const Config& c) {
  if (has_decode_tiles(c)) return "";
  const int threads = has_one_query_tile(c) ? 384 : 512;
  return c.num_threads && *c.num_threads != threads
             ? fmt::format("num_threads ({}) must be {}", *c.num_threads, threads)
             : "";
}
std::string threads_amd(const Config& c) {
  return c.num_threads && *c.num_threads % 64 != 0
             ? fmt::format("num_threads ({}) must be whole waves of 64", *c.num_threads)
             : "";
}

}  // namespace

std::vector<Rule> type_rules() {
  return {
      {"V31", "9.2 V31", kAllTargets, {"/dtype", "/target"}, v31},
      {"V31", "9.2 V31", kAllTargets, {"/kv_dtype", "/target"}, v31_kv},
      {"schema", "contract: kv_dtype", kAllTargets, {"/kv_dtype", "/dtype"}, kv_pair},
      {"V28", "9.2 V28", kAllTargets, {"/rope_depth", "/nope_depth", "/depth"}, v28},
      {"V28", "9.1 rope", kAllTargets, {"/rope", "/rope_depth"}, v28_rope},
      {"V28", "5.7", kAllTargets, {"/rope/padded_depth"}, v28_tail},
      {"V28", "9.1 rope", kAllTargets, {"/rope/padded_depth"}, v28_padded},
      {"V29", "9.2 V29", kAllTargets, {"/operand/quantization/granularity"}, v29},
      {"schema",
       "5.6",
       kAllTargets,
       {"/operand/quantization/layout", "/operand/quantization/granularity"},
       scale_layout},
      {"schema",
       "OCP MX 1.0",
       kAllTargets,
       {"/operand/quantization/scale_dtype", "/operand/quantization/granularity", "/kv_dtype"},
       scale_type},
      {"schema", "2.2", kAllTargets, {"/cache_depth", "/head_dim_offset", "/depth"}, cache_row},
      {"schema", "2.2, 1.3", kAllTargets, {"/head_dim_offset"}, first_column_aligned},
      {"schema", "2.2, 1.3", kAllTargets & ~kTma, {"/cache_depth"}, cache_row_aligned},
      {"schema", "contract: KV head of a query head", kAllTargets, {"/num_q_heads", "/kv_num_heads"}, heads},
      {"schema", "contract: query heads", kAllTargets, {"/group", "/kv_num_heads"}, most_heads},
      {"schema", "9.1", only(Target::sm_90a), {"/BM"}, block_rows_tma},
      {"schema", "9.1", kBlackwell, {"/BM"}, block_rows_sm100},
      {"schema", "9.1", only(Target::sm_90a), {"/num_threads"}, threads_sm90},
      {"schema", "9.1", kBlackwell, {"/num_threads"}, threads_sm100},
      {"schema", "9.1", kAmd, {"/num_threads"}, threads_amd},
  };
}

}  // namespace kiln::rules
