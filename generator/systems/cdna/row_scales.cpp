#include "generator/systems/cdna/row_scales.hpp"

#include <algorithm>

#include "base/integers.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::cdna {

RowScales::RowScales(const Config& resolved) : operand_(*resolved.operand), kind_(operand_.kind) {
  using Granularity = Quantization::Granularity;
  const auto& quantization = resolved.operand->quantization;
  if (!quantization) return;
  page_size_ = page_rows(*resolved.operand);
  k_columns_ = resolved.depth, v_columns_ = *resolved.ov_depth;
  const int row = std::max(k_columns_, v_columns_);
  if (quantization->granularity == Granularity::per_token) columns_ = row;
  if (quantization->granularity == Granularity::per_block) columns_ = std::min(quantization->block, row);
  own_v_ = !*resolved.v_from_k;
  weighs_ = is_fp8(resolved.dtype);
}

void RowScales::use(Prelude& prelude) const {
  if (any()) prelude.use("from_lane");
  if (weighs()) prelude.use("log2_approx"), prelude.use("exp2_approx");
}

void RowScales::add_params(std::vector<KernelParam>& params, bool own_v) const {
  if (any()) add_scale_strides(params, operand_, own_v);
}

void add_scale_params(std::vector<KernelParam>& params, const Config& resolved, const RowScales& rows,
                      bool own_v) {
  if (!resolved.operand->quantization) return;
  if (is_fp8(resolved.dtype)) params.push_back({KernelParam::Kind::pointer, "q_scale", {}});
  add_scale_pointers(params, own_v);
  rows.add_params(params, own_v);
}

void RowScales::emit_heads(Writer& w, const ScoreLayout& layout, const std::string& batch) const {
  if (!any()) return;
  emit_head(w, "k", k_columns_, batch);
  if (own_v_) emit_head(w, "v", v_columns_, batch);
  w.line("float k_unit[{}];  // scales of the tile's keys, a key a lane", units(layout) * key_groups());
  if (!weighs()) return;
  w.line("float v_log2[{0}], v_over[{0}];  // log2 of those of V, and their inverses", units(layout));
  w.line("const float query_scale = q_scale[0];");
}

void RowScales::emit_head(Writer& w, const std::string& name, int row_columns,
                          const std::string& batch) const {
  const int in_row = groups(row_columns);
  const std::string times = in_row == 1 ? "" : fmt::format(" * {}", in_row);
  std::string start;
  if (operand_form(kind_).batch_keys()) start = fmt::format(" + {} * {}_scale_stride_batch", batch, name);
  const std::string step = scale_row_stride(operand_, "heads_kv");
  if (operand_form(kind_).ragged_k())
    start = " + (long long)k_start" + (step == "1" ? "" : " * " + step) + times;
  if (operand_form(kind_).block()) start = fmt::format(" + block * {}_scale_stride_page", name);
  w.line("const float* const {0}_scale_head = {0}_scale{1} + {3}{2};", name, start, times,
         scale_of_head(operand_, name, "kv_head"));
  w.line("const int {}_scale_step = {}{};", name, step, times);
}

void RowScales::emit_keys(Writer& w, const ScoreLayout& layout, const std::string& first_key,
                          const std::string& rows) const {
  if (!any()) return;
  for (int i = 0; i < units(layout); ++i) {
    const std::string lane = layout.columns < 64 ? fmt::format("lane % {}", layout.columns) : "lane";
    w.open("");
    w.line("const int key = {}{} + {};", first_key, i == 0 ? "" : fmt::format(" + {}", 64 * i), lane);
    const auto at = [&](const char* name) {
      if (page_size_ == 0) return fmt::format("key * (long long){}_scale_step", name);
      return fmt::format("page * {0}_scale_stride_page + (u32)key % {1}u * {0}_scale_step", name, page_size_);
    };
    std::string there = "key < " + rows;
    if (page_size_ > 0) {
      w.line("const int page = {} ? pages[(u32)key / {}u] : num_pages;", there, page_size_);
      there = "(u32)page < (u32)num_pages";
    }
    for (int group = 0; group < key_groups(); ++group) {
      w.line("k_unit[{}] = {} ? k_scale_head[{}{}] : 0.0f;", i * key_groups() + group, there, at("k"),
             group == 0 ? "" : fmt::format(" + {}", group));
    }
    if (weighs()) {
      const std::string own = fmt::format("{} ? v_scale_head[{}] : 0.0f", there, at("v"));
      w.line("const float v_unit = {};", own_v_ ? own : fmt::format("k_unit[{}]", i));
      w.line("v_log2[{}] = v_unit == 0.0f ? -64.0f : log2_approx(__builtin_fabsf(v_unit));", i);
      w.line("v_over[{0}] = __builtin_copysignf(exp2_approx(-v_log2[{0}]), v_unit);", i);
      for (int group = 0; group < key_groups(); ++group)
        w.line("k_unit[{}] *= query_scale;", i * key_groups() + group);
    }
    w.close();
  }
}

std::string RowScales::of_key(const ScoreLayout& layout, int i, const char* array, int groups, int group) {
  const int column = layout.column(i);
  return fmt::format("from_lane(({} + {}) * 4, {}[{}])", layout.lane_column, column % 64, array,
                     column / 64 * groups + group);
}

std::string RowScales::factor(const ScoreLayout& layout, int i, int group) const {
  return of_key(layout, i, "k_unit", key_groups(), group);
}

void RowScales::emit_weigh(Writer& w, const ScoreLayout& layout, const std::string& to_log2) const {
  if (!weighs()) return;
  w.comment("logits of P times the scales of V");
  for (int i = 0; i < layout.registers; ++i)
    w.line("{0} = __builtin_fmaf({0}, {1}, {2});", layout.score(i), to_log2,
           of_key(layout, i, "v_log2", 1, 0));
}

std::string RowScales::unweighed(const ScoreLayout& layout, int i) const {
  return fmt::format("__builtin_fabsf({})", of_key(layout, i, "v_over", 1, 0));
}

void RowScales::emit_signs(Writer& w, const ScoreLayout& layout) const {
  if (!weighs()) return;
  for (int i = 0; i < layout.registers; ++i)
    w.line("{0} = __builtin_copysignf({0}, {1});", layout.score(i), of_key(layout, i, "v_over", 1, 0));
}

void RowScales::emit_apply(Writer& w, const ScoreLayout& layout, const char* what) const {
  if (!any() || key_groups() > 1) return;
  w.comment("{} in units of their keys", what);
  for (int i = 0; i < layout.registers; ++i) w.line("{} *= {};", layout.score(i), factor(layout, i, 0));
}

void RowScales::emit_part(Writer& w, const ScoreLayout& layout, const std::string& type) const {
  if (key_groups() > 1)
    w.line("{} part[{}];  // scores of the columns of one scale", type, layout.registers / layout.vector);
}

void RowScales::emit_group_end(Writer& w, const ScoreLayout& layout, int group) const {
  ScoreLayout part = layout;
  part.array = "part";
  for (int i = 0; i < layout.registers; ++i) {
    const std::string by = factor(layout, i, group);
    group == 0 ? w.line("{} = {} * {};", layout.score(i), part.score(i), by)
               : w.line("{0} = __builtin_fmaf({1}, {2}, {0});", layout.score(i), part.score(i), by);
  }
}

bool check_row_scales(const Config& user, const RowScales& scales, const Config& resolved, Violations& out) {
  if (scales.key_groups() == 1) return true;
  const std::string_view pointer = "/operand/quantization/granularity";
  const std::string schedule = *resolved.schedule;
  if (*resolved.v_from_k) {
    refuse_value(user, pointer, schedule + " takes one scale for a row of K where V lies in it",
                 "per_tensor, per_head, per_token", out);
    return false;
  }
  if (scales.columns() % *resolved.BK == 0) return true;
  refuse_value(user, pointer,
               fmt::format("{} takes a scale for whole strips of BK ({}) columns, or for a row", schedule,
                           *resolved.BK),
               std::to_string(align_up(scales.columns(), *resolved.BK)), out);
  return false;
}

}  // namespace kiln::cdna
