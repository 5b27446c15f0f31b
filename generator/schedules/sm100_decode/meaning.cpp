// What an sm100_decode kernel takes of a config.
#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/schedules/sm100_decode/planning.hpp"

namespace kiln::sm100 {

bool is_prefill(const Config& c) {
  return c.operation == Operation::prefill;
}
std::string_view name_of(const Config& c) {
  return is_prefill(c) ? "sm100_wide_prefill" : "sm100_decode";
}

/// Bytes that become 16 bits on their way.
bool widens_bytes(const Config& m) {
  return size_of(*m.kv_dtype) == 1 && !is_fp8(m.dtype);
}

namespace {

/// What a thread that has 168 registers takes.
void check_bytes(const Config& m, const MeaningCheck& check) {
  const bool blocks = has_block_scales(m.operand->quantization);
  check.takes(!blocks || !*m.v_from_k, "/operand/quantization/scale_dtype",
              "takes scales of f32 where V lies in K's rows", "f32");
  check.takes(!blocks || !is_wide_for_128_keys(m), "/operand/quantization/scale_dtype",
              "takes scales of f32 over depth 192 and over 128 columns of V", "f32");
  check.takes(!has_powers(m.operand->quantization) || m.dtype == DType::bf16, "/dtype",
              "multiplies in bf16 where scales are powers of two", "bf16");
  const int numbers = numbers_of(*m.kv_dtype);
  check.takes(numbers == 1 || *m.v_from_k || (m.depth % 32 == 0 && *m.ov_depth % 32 == 0), "/depth",
              "takes rows of whole 16 bytes", std::to_string(align_up(m.depth, 32)));
  check.takes(numbers == 1 || (*m.head_dim_offset == 0 && *m.cache_depth == m.depth), "/cache_depth",
              "reads whole rows where a byte has two numbers", "leave it out");
  check.takes(m.score_mod->tensors.size() <= 2, "/score_mod",
              "has registers for two tensors of a score_mod where keys are bytes", "none");
  check.takes(m.mask->kind != MaskConfig::Kind::custom || !modifier_kind(*m.score_mod).by_place, "/score_mod",
              "has no registers for alibi or expr beside bits of a mask where keys are bytes", "none");
}

/// Bytes of K and V apart come by tensor copies of whole rows, whose pieces begin at 128 bytes of shared memory.
void check_pieces(const Config& m, const MeaningCheck& check) {
  if (!operand_form(m.operand->kind).pages()) return;
  const int keys = keys_of_tile(m);
  const bool gathered = gathers(m, keys);
  const int piece =
      gathered ? sm90::MHAOperand::kGathered : sm90::MHAOperand::piece_rows(keys, *m.operand->page_size);
  const int numbers = numbers_of(*m.kv_dtype);
  check.takes(piece * m.depth / numbers % 128 == 0 && piece * *m.ov_depth / numbers % 128 == 0,
              m.gather4 ? "/gather4" : "/operand/page_size",
              gathered ? fmt::format("gathers rows of bytes whose depths are multiples of {}", 32 * numbers)
                       : std::string("takes pages of bytes whose rows in a tile are a multiple of 128 bytes"),
              m.gather4 ? "leave it out" : "8, 16");
}

/// Rows of a latent cache: V is their first columns, and of the rest a span becomes P's place.
void check_latent(const Config& c, const Config& m, const MeaningCheck& check) {
  check.takes(*m.ov_depth <= 512, "/ov_depth", "takes rows of V of up to 512 columns", "512");
  if (widens_bytes(m)) return check_bytes(m, check);
  const char* const place = "puts P into 64 columns of K behind V's";
  check.takes(m.depth > 64, "/depth", place, "80");
  const int most = std::max(whole_spans(m.depth) - 64, 64);  // columns of V
  check.takes(m.depth <= 64 || *m.ov_depth <= most, c.ov_depth ? "/ov_depth" : "/v_from_k", place,
              (c.ov_depth ? "" : "true with ov_depth ") + std::to_string(most));
}

/// Keys of the kernel, and types that go together.
void check_types(const Config& c, const Config& m, const MeaningCheck& check) {
  const bool fp8 = is_fp8(c.dtype);
  if (*m.v_from_k && !fp8)
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4", "rope"}, ScaleTypes::bytes);
  else if (*m.v_from_k || (is_wide_for_128_keys(m) && size_of(*m.kv_dtype) == 2))
    check.keys({"BK", "swizzle", "num_kv_stages", "num_qk_stages", "gather4"});
  else
    check.keys({"BK", "swizzle", "num_kv_stages", "gather4"}, ScaleTypes::bytes);
  if (!fp8) {
    check.takes_16_bit();
    check.takes_kv_of_dtype_or_bytes();
    check.takes_one_scale_a_row();
    return;
  }
  check.takes_fp8();
  check.takes(!scales_by_row(m.operand->quantization), "/operand/quantization/granularity",
              "takes a scale for a tensor, a head or a sequence where Q is FP8", "per_tensor, per_head");
}

}  // namespace

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, name_of(c), out);
  check_types(c, m, check);
  check.takes_positive_scale();
  if (is_prefill(c)) check.takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  // A tensor copy brings at most 256 columns of bytes.
  const bool bytes_apart = widens_bytes(m) && !*m.v_from_k;
  const int most = *m.v_from_k ? 576 : bytes_apart ? 256 : 512;
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    if (value % 16 == 0 && value >= 16 && value <= most) continue;
    break_rule(c, name_of(c), {pointer},
               fmt::format("depth is a multiple of 16 between 16 and {}{}", most,
                           bytes_apart ? " where keys are bytes" : ""),
               std::to_string(std::clamp((value + 15) / 16 * 16, 16, most)), out);
  }
  if (*m.v_from_k) {
    check_latent(c, m, check);
    if (c.rope) check.takes_rope_of_spans(widens_bytes(m));
    check.takes_rows_of_depth();
    return check.passed();
  }
  if (widens_bytes(m)) check_bytes(m, check), check_pieces(m, check);
  check.takes_plain_rows();
  return check.passed();
}

}  // namespace kiln::sm100
