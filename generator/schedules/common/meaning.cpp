#include "generator/schedules/common/meaning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/unsupported.hpp"

namespace kiln {
namespace {

bool is_16_bit(DType type) {
  return type == DType::bf16 || type == DType::fp16;
}

}  // namespace

MeaningCheck::MeaningCheck(const Config& user, const Config& filled, std::string_view schedule,
                           Violations& out)
    : user_(user), filled_(filled), schedule_(schedule), out_(out), before_(out.size()) {}

void MeaningCheck::keys(std::initializer_list<std::string_view> own_keys, ScaleTypes scales) const {
  std::vector<std::string_view> keys{
      "kv_dtype",    "out_dtype",   "ov_depth",    "mma_shape",    "BM",       "BN",
      "num_threads", "operand",     "mask",        "score_mod",    "sink",     "lse",
      "scale",       "split_kv",    "num_q_heads", "kv_num_heads", "group",    "queries",
      "q_depth",     "cache_depth", "nope_depth",  "rope_depth",   "v_from_k", "head_dim_offset"};
  keys.insert(keys.end(), own_keys);
  refuse_unsupported(user_, schedule_, keys, out_);
  takes(scales == ScaleTypes::bytes || !has_block_scales(filled_.operand->quantization),
        "/operand/quantization/scale_dtype", "takes scales of f32", "f32");
}

void MeaningCheck::takes(bool fits, std::string_view pointer, std::string_view what,
                         const std::string& legal) const {
  if (!fits) refuse_value(user_, pointer, std::string(schedule_) + " " + std::string(what), legal, out_);
}

void MeaningCheck::takes_16_bit() const {
  takes(is_16_bit(user_.dtype), "/dtype", "takes bf16 and fp16", "bf16, fp16");
}

void MeaningCheck::takes_16_bit_or_bytes() const {
  if (is_fp8(user_.dtype)) {
    takes_fp8();
    takes_one_scale_a_row();
    return;
  }
  const DType kv = *filled_.kv_dtype;
  const bool bytes = size_of(kv) == 1;
  takes(is_16_bit(user_.dtype), "/dtype", "takes bf16, fp16 and FP8", "bf16, fp16");
  takes(kv == user_.dtype || bytes, "/kv_dtype", "takes kv_dtype equal to dtype, FP8 or int8",
        std::string(to_string(user_.dtype)));
  const auto& scales = filled_.operand->quantization;
  takes(!scales || bytes, "/operand/quantization", "takes no scales for 16-bit keys", "leave it out");
  if (!scales || !bytes) return;
  takes(scales->granularity != Quantization::Granularity::per_block || scales->block % 16 == 0 ||
            scales->block >= std::max(user_.depth, *filled_.ov_depth),
        "/operand/quantization/granularity", "takes a scale for a multiple of 16 elements, or for a row",
        "16, 32, 64, 128");
}

void MeaningCheck::takes_kv_of_dtype_or_bytes() const {
  const DType kv = *filled_.kv_dtype;
  const bool bytes =
      kv == DType::fp8_e4m3 || kv == DType::int8 || kv == DType::fp4_e2m1;  // by its scales, if at all
  takes(kv == user_.dtype || bytes, "/kv_dtype", "takes kv_dtype equal to dtype, fp8_e4m3 and int8",
        std::string(to_string(user_.dtype)) + ", fp8_e4m3, int8");
  takes(!filled_.operand->quantization || bytes, "/operand/quantization", "takes no scales for 16-bit keys",
        "leave it out");
}

void MeaningCheck::takes_fp8() const {
  const std::string name(to_string(user_.dtype));
  takes(*filled_.kv_dtype == user_.dtype, "/kv_dtype", "takes kv_dtype equal to dtype where Q is FP8", name);
}

void MeaningCheck::takes_own_v() const {
  takes(!*filled_.v_from_k, "/v_from_k", "reads V from its own tensor", "false");
}

void MeaningCheck::takes_plain_rows() const {
  takes_own_v();
  takes(user_.nope_depth.value_or(user_.depth) == user_.depth, "/nope_depth", "has no rope columns",
        std::to_string(user_.depth));
  takes(*filled_.rope_depth == 0, "/rope_depth", "has no rope columns", "0");
  takes_rows_of_depth();
}

void MeaningCheck::takes_rows_of_depth() const {
  const std::string depth = std::to_string(user_.depth);
  takes(*filled_.q_depth == user_.depth, "/q_depth", "takes q_depth equal to depth", depth);
  const int rope = *filled_.rope_depth, nope = *filled_.nope_depth;
  if (rope != 0) {
    takes(nope + rope == user_.depth, "/nope_depth", "has rows of nope_depth, then rope_depth columns",
          std::to_string(user_.depth - rope));
  }
}

void MeaningCheck::takes_ov_depth_of_depth() const {
  takes(*filled_.ov_depth == user_.depth, "/ov_depth", "takes ov_depth equal to depth",
        std::to_string(user_.depth));
}

void MeaningCheck::takes_rope_tensor_of_strips() const {
  const int strip = std::max(1, filled_.BK.value_or(1));
  takes_rope_tensor(strip, fmt::format("whole strips of BK ({})", strip));
}

void MeaningCheck::takes_rope_tensor(int unit, const std::string& units, bool beside_bytes) const {
  if (!filled_.rope) return;
  const std::string type(to_string(user_.dtype));
  takes(filled_.rope->layout == "separate", "/rope/layout", "has rotary columns in a tensor of their own",
        "separate");
  takes(is_16_bit(user_.dtype) && *filled_.rope->dtype == user_.dtype, "/rope/dtype",
        "has them in Q's 16-bit type", type);
  takes(beside_bytes || *filled_.kv_dtype == user_.dtype, "/kv_dtype",
        "takes kv_dtype equal to dtype beside a tensor of them", type);
  takes(*filled_.head_dim_offset == 0, "/head_dim_offset",
        "reads rows beside a tensor of rotary columns from their start", "0");
  for (const auto& [pointer, columns] :
       {std::pair{"/rope_depth", *filled_.rope_depth}, std::pair{"/nope_depth", *filled_.nope_depth}})
    takes(columns % unit == 0, pointer, fmt::format("has both parts of a row in {}", units),
          std::to_string(align_up(columns, unit)));
}

void MeaningCheck::takes_rope_of_spans(bool beside_bytes) const {
  takes(!has_rope_tail(user_) || beside_bytes, user_.kv_dtype ? "/kv_dtype" : "/rope",
        "takes a tail of 16-bit columns behind 8-bit ones", "fp8_e4m3, int8");
  takes(*filled_.rope->dtype == user_.dtype, "/rope/dtype",
        "multiplies rotary columns as they are: of Q's type", std::string(to_string(user_.dtype)));
  takes(*filled_.head_dim_offset == 0, "/head_dim_offset", "reads rows with rotary columns from their start",
        "0");
  const int nope = k_columns(filled_), spans = std::max(nope / 64 * 64, 64);
  takes(nope % 64 == 0 && nope > 0, user_.nope_depth ? "/nope_depth" : "/rope_depth",
        "takes multiples of 64 columns before rotary ones that lie apart",
        std::to_string(user_.nope_depth ? spans : user_.depth - spans));
  takes(*filled_.ov_depth <= nope, "/ov_depth", "finds V before the rotary columns",
        "at most " + std::to_string(nope));
}

void MeaningCheck::takes_ring_of_strips() const {
  takes(!user_.reg_chunk_depth || *user_.reg_chunk_depth == *filled_.BK, "/reg_chunk_depth",
        "holds fragments of one strip of a block at a time", std::to_string(*filled_.BK));
  const bool staged = *filled_.dma == "reg_staged";
  takes(*filled_.num_smem_stages >= 2 && *filled_.num_smem_stages <= (staged ? 2 : 4), "/num_smem_stages",
        staged ? "sends blocks by way of registers through a ring of 2 stages"
               : "sends blocks through a ring of 2 to 4 stages",
        staged ? "2" : "2, 3, 4");
  takes(*filled_.bk_smem == *filled_.BK, "/bk_smem", "has blocks of one strip", std::to_string(*filled_.BK));
  for (const auto& [pointer, set] : {std::pair{"/double_buffer", user_.double_buffer},
                                     std::pair{"/double_buffer_k_only", user_.double_buffer_k_only}})
    takes(!set.value_or(false), pointer, "sends blocks through a ring of num_smem_stages", "false");
}

void MeaningCheck::takes_one_scale_a_row() const {
  const auto& scales = filled_.operand->quantization;
  if (!scales || scales->granularity != Quantization::Granularity::per_block) return;
  if (has_block_scales(scales)) return;
  takes(scales->block >= std::max(user_.depth, *filled_.ov_depth), "/operand/quantization/granularity",
        "has one scale a row", "per_tensor, per_head, per_token");
}

void MeaningCheck::takes_whole_prefill() const {
  takes(user_.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  takes(user_.group.value_or(1) == 1, "/group", "packs no heads", "1");
  takes(user_.queries.value_or(1) == 1, "/queries", "packs no heads", "1");
}

void MeaningCheck::takes_any_queries() const {
  takes(user_.queries.value_or(1) == 1, "/queries",
        "has tiles of the same rows, however many the queries are", "1");
}

void MeaningCheck::takes_positive_scale() const {
  if (!(*filled_.scale > 0)) {
    break_rule(user_, "scale", {"/scale"}, "the maximum is taken before scaling, so scale is positive", "",
               out_);
  }
}

bool check_prefill_meaning(const Config& c, std::string_view schedule,
                           std::initializer_list<std::string_view> own_keys, PrefillBytes bytes,
                           Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, schedule, out);
  check.keys(own_keys);
  const bool fp8 = bytes != PrefillBytes::scales_in_rows && is_fp8(c.dtype);
  if (fp8) {
    check.takes_fp8();
    check.takes_one_scale_a_row();
  } else {
    check.takes_16_bit();
    check.takes_kv_of_dtype_or_bytes();
    if (bytes == PrefillBytes::fp8) check.takes_one_scale_a_row();
  }
  check.takes_whole_prefill();
  if (m.rope) {
    check.takes_own_v();
    check.takes_rows_of_depth();
  } else {
    check.takes_plain_rows();
  }
  check.takes_positive_scale();
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    const int step = product_columns(fp8);
    if (value % step != 0 || value < step || value > 256) {
      break_rule(c, schedule, {pointer},
                 fmt::format("depth is a multiple of {0} between {0} and 256{1}", step, fp8 ? " in FP8" : ""),
                 std::to_string(std::clamp((value + step - 1) / step * step, step, 256)), out);
    }
  }
  return check.passed();
}

}  // namespace kiln
