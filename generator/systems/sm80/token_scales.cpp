#include "generator/systems/sm80/token_scales.hpp"

#include <algorithm>

#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm80 {

TokenScales::TokenScales(const Config& resolved, int BN, int num_threads)
    : config_(*resolved.operand),
      kind_(config_.kind),
      page_size_(page_rows(*resolved.operand)),
      operand_(kind_, page_size_, 1),
      BN_(BN),
      num_threads_(num_threads) {
  using Granularity = Quantization::Granularity;
  const auto& quantization = resolved.operand->quantization;
  if (!quantization) return;
  const int widest = std::max(resolved.depth, *resolved.ov_depth);
  if (quantization->granularity == Granularity::per_token) columns_ = widest;
  if (quantization->granularity == Granularity::per_block) columns_ = std::min(quantization->block, widest);
  if (!any()) return;
  k_groups_ = ceil_div(resolved.depth, columns_);
  v_groups_ = ceil_div(*resolved.ov_depth, columns_);
}

void TokenScales::add_params(std::vector<KernelParam>& params) const {
  if (any()) add_scale_strides(params, config_, true);
}

std::string TokenScales::row(int i) const {
  return i == 0 ? "scale_row" : fmt::format("scale_row + {}", i * num_threads_);
}

std::string TokenScales::scale(int group, int eight) const {
  return fmt::format("scales[{}]", (group * BN_ + 8 * eight) / 2);
}

void TokenScales::emit_construct(Writer& w, int tile, const std::string& first_key,
                                 const std::string& length) const {
  if (!any()) return;
  w.comment("scales: this thread's of the tile to load next, and those of this lane's keys");
  w.line("int scale_row = {}{};", first_key == "0" ? "" : first_key + " + ",
         num_threads_ > BN_ ? fmt::format("thread % {}", BN_) : "thread");
  w.line("const int scale_end = {};", length);
  w.line("float* const scale_tile = (float*)(smem_bytes + {}) + thread;", tile);
  w.line("const float2* const scales = (const float2*)(smem_bytes + {}) + (lane & 3);", tile);
  for (const char* name : {"k", "v"}) {
    const int groups = *name == 'k' ? k_groups_ : v_groups_;
    const std::string times = groups == 1 ? "" : fmt::format(" * {}", groups);
    std::string start;
    if (operand_form(kind_).batch_keys()) start = fmt::format(" + batch * {}_scale_stride_batch", name);
    const std::string step = scale_row_stride(config_, "heads_kv");
    if (operand_form(kind_).ragged_k())
      start = " + (long long)k_start" + (step == "1" ? "" : " * " + step) + times;
    if (operand_form(kind_).block()) start = fmt::format(" + block * {}_scale_stride_page", name);
    w.line("const float* const {0}_scale_head = {0}_scale{1} + {3}{2};", name, start, times,
           scale_of_head(config_, name, "kv_head"));
    // A page of one row has its scales at the page's start.
    if (page_size_ != 1) w.line("const long long {}_scale_stride_seq = {}{};", name, step, times);
    w.line("float {}_scale_next[{}];", name, loads(groups));
  }
  if (page_size_ == 0) return;
  for (int i = 0; i < rows(); ++i) w.line("int scale_page_{} = -1;", i);
  emit_populate(w);
}

void TokenScales::emit_populate(Writer& w) const {
  for (int i = 0; i < rows(); ++i)
    w.line("scale_page_{} = {};", i, operand_.populate("batch", row(i), "0", "scale_end"));
}

std::string TokenScales::guard(int groups, int load) const {
  const int left = groups * BN_ - load * num_threads_;
  return left < num_threads_ ? fmt::format("thread < {}", left) : "";
}

// A thread's loads go through its rows of a group, then through the groups.
void TokenScales::emit_loads(Writer& w, const std::string& name, int groups) const {
  for (int load = 0; load < loads(groups); ++load) {
    const int i = load % rows(), group = load / rows() * groups_at_once();
    std::string at = fmt::format("{} * {}_scale_stride_seq", factor(row(i)), name),
                valid = row(i) + " < scale_end";
    if (page_size_ > 0) {
      const std::string page = fmt::format("scale_page_{}", i), in_page = operand_.row_in_page(row(i));
      at = fmt::format("{} * {}_scale_stride_page", page, name);
      if (in_page != "0") at += fmt::format(" + {} * {}_scale_stride_seq", factor(in_page), name);
      valid = page + " >= 0";
    }
    if (group > 0) at += fmt::format(" + {}", group);
    if (groups > 1 && groups_at_once() > 1) at += fmt::format(" + thread / {}", BN_);
    const std::string mine = guard(groups, load);
    w.line("{0}_scale_next[{1}] = {2}{3} ? {0}_scale_head[{4}] : 0.0f;", name, load,
           mine.empty() ? "" : mine + " && ", valid, at);
  }
}

void TokenScales::emit_load(Writer& w) const {
  if (!any()) return;
  w.comment("scales of the next tile");
  emit_loads(w, "k", k_groups_);
  emit_loads(w, "v", v_groups_);
  w.line("scale_row += {};", BN_);
  if (page_size_ > 0) emit_populate(w);
}

void TokenScales::emit_stores(Writer& w, const std::string& name, int groups, int first) const {
  for (int load = 0; load < loads(groups); ++load) {
    const std::string mine = guard(groups, load);
    w.line("{}scale_tile[{}] = {}_scale_next[{}];", mine.empty() ? "" : "if (" + mine + ") ",
           first + load * num_threads_, name, load);
  }
}

void TokenScales::emit_store(Writer& w) const {
  if (!any()) return;
  w.comment("scales of this tile");
  emit_stores(w, "k", k_groups_, 0);
  emit_stores(w, "v", v_groups_, k_groups_ * BN_);
}

}  // namespace kiln::sm80
