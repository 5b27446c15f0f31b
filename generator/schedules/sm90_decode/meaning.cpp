// What sm90_decode supports of a config's meaning, before any tile is chosen.
#include "generator/schedules/sm90_decode/planning.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/meaning.hpp"

namespace kiln::sm90 {

bool is_prefill(const Config& c) {
  return c.operation == Operation::prefill;
}
const char* name_of(const Config& c) {
  return is_prefill(c) ? "sm90_wide_prefill" : "sm90_decode";
}

namespace {

/// What prefill takes: rows for which no warpgroup has registers alone.
void check_prefill(const Config& c, const Config& m, const MeaningCheck& check) {
  check.takes(c.dtype != DType::fp8_e4m3, "/dtype", "takes bf16 and fp16", "bf16, fp16");
  check.takes(*m.kv_dtype == c.dtype, "/kv_dtype", "takes kv_dtype equal to dtype",
              std::string(to_string(c.dtype)));
  check.takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  check.takes(*m.ov_depth == 384 || *m.ov_depth == 512, c.ov_depth ? "/ov_depth" : "/depth",
              "takes 384 or 512 columns of V, half of them for each warpgroup", "384, 512");
  const bool paged = operand_form(m.operand->kind).pages();
  check.takes(!paged || *m.operand->page_size % 2 == 0 || *m.operand->page_size == 1, "/operand/page_size",
              "takes pages of one row or an even number of them",
              std::to_string(m.operand->page_size.value_or(0) + 1));
}

/// Rotary columns that lie apart are multiplied as they are stored: a tail of rows of bytes, or a tensor of
/// their own beside rows of either size.
void check_rope(const Config& c, const Config& m, const MeaningCheck& check) {
  const bool tail = has_rope_tail(c), bytes = size_of(*m.kv_dtype) == 1;
  if (tail) {
    check.takes(bytes && size_of(c.dtype) == 2, c.kv_dtype ? "/kv_dtype" : "/rope",
                "takes a tail of 16-bit columns behind 8-bit ones, under a 16-bit Q", "fp8_e4m3, int8");
  } else {
    check.takes(size_of(c.dtype) == 2, "/dtype", "takes a tensor of rotary columns under a 16-bit Q",
                "bf16, fp16");
  }
  check.takes(*m.rope->dtype == c.dtype, "/rope/dtype", "multiplies rotary columns as they are: of Q's type",
              std::string(to_string(c.dtype)));
  check.takes(*m.v_from_k, c.v_from_k ? "/v_from_k" : "/rope",
              tail ? "takes a tail where V lies in K" : "takes a tensor of rotary columns where V lies in K",
              "v_from_k true");
  check.takes(*m.head_dim_offset == 0, "/head_dim_offset",
              tail ? "reads rows with a tail from their start"
                   : "reads rows beside a tensor of rotary columns from their start",
              "0");
  // Beside 16-bit columns the rotary ones are the panel after theirs.
  const int nope = k_columns(m), step = bytes ? 16 : 64;
  check.takes(nope % step == 0 && nope > 0, c.nope_depth ? "/nope_depth" : "/rope_depth",
              tail ? "takes multiples of 16 columns before a tail"
                   : fmt::format("takes multiples of {} columns beside a tensor of rotary ones", step),
              std::to_string(std::max(nope / step * step, step)));
  check.takes(*m.ov_depth <= nope, "/ov_depth",
              tail ? "finds V before the tail" : "finds V before the rotary columns",
              "at most " + std::to_string(nope));
}

/// Scales for groups of a row's elements.
void check_scale_groups(const Config& c, const Config& m, const MeaningCheck& check) {
  const auto& quantization = m.operand->quantization;
  if (!quantization || quantization->granularity != Quantization::Granularity::per_block) return;
  const bool fp8 = c.dtype == DType::fp8_e4m3;
  const int n = quantization->block, longest = std::max(k_columns(m), *m.ov_depth);
  const char* pointer = "/operand/quantization/granularity";
  check.takes(n >= longest || n % 16 == 0, pointer, "takes a scale for a multiple of 16 elements",
              std::to_string(align_up(n, 16)));
  check.takes(n >= longest || (!fp8 && !*m.v_from_k), pointer,
              fp8 ? "has one scale a row of K where Q is FP8" : "has one scale a row where V lies in K",
              "per_tensor, per_head, per_token");
}

}  // namespace

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, name_of(c), out);
  check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "shared_ring", "tma_fold", "rope"});
  const bool fp8 = c.dtype == DType::fp8_e4m3;
  check.takes(fp8 || c.dtype == DType::bf16 || c.dtype == DType::fp16, "/dtype",
              "takes bf16, fp16 and fp8_e4m3", "bf16, fp16, fp8_e4m3");
  check.takes_kv_of_dtype_or_bytes();
  check.takes(!fp8 || *m.kv_dtype == c.dtype, "/kv_dtype",
              "multiplies Q of fp8_e4m3 with keys of the same type", "fp8_e4m3");
  check_scale_groups(c, m, check);
  check.takes_rows_of_depth();
  if (c.rope) check_rope(c, m, check);
  if (is_prefill(c)) check_prefill(c, m, check);
  check.takes_positive_scale();
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    const int most = *m.v_from_k && std::string_view(pointer) == "/depth" ? 576 : 512;
    if (value % 16 != 0 || value < 16 || value > most) {
      break_rule(c, name_of(c), {pointer}, fmt::format("depth is a multiple of 16 between 16 and {}", most),
                 std::to_string(std::clamp((value + 15) / 16 * 16, 16, most)), out);
    }
  }
  return check.passed();
}

}  // namespace kiln::sm90
