#include "generator/schedules/sm100_decode/plan.hpp"

#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/sm100_decode/planning.hpp"

namespace kiln::sm100 {
namespace {

/// One key a thread, all packed rows in its registers; or one of 64, and half of the rows.
ScoreLayout key_layout(const DecodePlan& p) {
  ScoreLayout layout;
  layout.registers = layout.rows = p.score_rows();
  layout.columns = p.BN;
  layout.lane_column = p.halves() ? "(16 * warp + lane % 16)" : "(int)threadIdx.x";
  layout.row = [](int i) { return i; };
  layout.column = [](int) { return 0; };
  layout.word_columns = p.BN;
  layout.lane_word = p.halves() ? "warp / 2" : "warp";
  layout.lane_bit = p.halves() ? "16 * (warp % 2) + lane % 16" : "lane";
  return layout;
}

ScoreDialect score_dialect() {
  ScoreDialect dialect;
  dialect.tanh = "";  // decode has time for the exact one
  return dialect;
}

void set_systems(DecodePlan& p, const Config& c) {
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.BN);
  if (c.gather4) {
    std::vector<std::string> tensors{"k"};
    if (!p.v_in_k) tensors.emplace_back("v");
    if (has_rope_tensor(c)) tensors.emplace_back("k_rope");
    p.operand->set_gather4(std::move(tensors));
  }
  StreamK::Shape work{
      c.operand->kind, p.BM, p.BN, *c.mask, !c.split_kv, c.split_kv.value_or(1), "wait_for_launch_before();"};
  if (is_prefill(c)) work.split = false, work.by_rows = true;
  p.stream.emplace(work);
  p.mask.emplace(*c.mask, key_layout(p));
  p.modifier.emplace(*c.score_mod, key_layout(p), score_dialect());
}

}  // namespace

std::optional<DecodePlan> plan_decode(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const Refusals refuse(user, out);
  const auto before = out.size();
  DecodePlan p;
  p.depth = c.depth;
  p.k_columns = k_columns(c);
  p.rope = p.depth - p.k_columns;
  p.ov_depth = *c.ov_depth;
  p.results = RowResults(c);
  p.fp8 = is_fp8(c.dtype);
  p.narrow = widens_bytes(c);
  p.v_in_k = *c.v_from_k;
  p.wide = is_wide_for_128_keys(c);
  p.BN = keys_of_tile(c);
  const auto& scales = c.operand->quantization;
  p.block = has_block_scales(scales) ? scales->block : 0;
  // BF16 has the range of scales that are powers of two, and holds E4M3 times one exactly; FP16 holds E2M1 times E4M3.
  p.numbers = numbers_of(*c.kv_dtype);
  p.math = !p.narrow ? c.dtype : has_powers(scales) ? DType::bf16 : DType::fp16;
  p.token_scale = scales_by_row(scales) && p.block == 0;
  p.head_scale = scales.has_value() && !scales_by_row(scales);
  p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype), score_dialect());
  resolve_gather4(c, {p.BN, p.k_columns, p.narrow ? 0 : p.span_bytes()}, refuse);
  if (!choose_tile(p, c, refuse) || !choose_stages(p, c, refuse)) return std::nullopt;
  const std::array<int, 3> shape{p.BN, p.BM, p.step_columns()};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(name_of(c), {"/mma_shape"},
           fmt::format("the matrix instruction of K Q' is m{} n(BM) k{}", p.BN, p.step_columns()),
           fmt::format("[{}, {}, {}]", p.BN, p.BM, p.step_columns()));
  c.mma_shape = shape;
  c.schedule = std::string(name_of(c));
  set_systems(p, c);
  if (out.size() != before) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm100
