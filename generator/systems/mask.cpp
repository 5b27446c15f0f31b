#include "generator/systems/mask.hpp"

#include <algorithm>

#include "generator/emit/terms.hpp"
#include "generator/masks/sized.hpp"

namespace kiln {
namespace {

std::string position_of(const ScoreContext::Row& row, const ScoreContext& c) {
  return fmt::format("{} + {} - {}", row.query, c.seqlen_k, c.seqlen_q);
}

void emit_choices_in_range(Writer& w, const ScoreLayout& layout) {
  for (int i = 0; i < layout.registers; ++i)
    w.line("{0} = hide_outside<{1}>({0}, first_{2}, end_{2});", layout.score(i), layout.column(i),
           layout.row(i));
}

}  // namespace

std::string Mask::padding(const std::string& batch, const std::string& scope) const {
  return config_.left_padding ? fmt::format("max({}first_keys[{}], 0)", scope, batch) : "";
}

std::string Mask::chunk_start(const std::string& position, const std::string& pad,
                              const std::string& scope) const {
  const std::string size =
      config_.chunk == MaskConfig::kAtLaunch ? scope + "window_chunk" : std::to_string(config_.chunk);
  if (pad.empty()) return fmt::format("max({0}, 0) / {1} * {1}", position, size);
  return fmt::format("(max({0} - {2}, 0) / {1} * {1} + {2})", position, size, pad);
}

std::string Mask::first_key(const std::string& position, const std::string& batch,
                            const std::string& scope) const {
  if (const SizedMask* sized = sized_mask(config_.kind)) return sized->emit_first(position, config_.size);
  if (config_.kind != MaskConfig::Kind::window) return "0";
  const std::string pad = padding(batch, scope);
  std::string first = pad.empty() ? "0" : pad;
  if (config_.left == MaskConfig::kAtLaunch)
    first = fmt::format("max({} - {}window_left, {})", position, scope, first);
  else if (config_.left >= 0)
    first = fmt::format("max({} - {}, {})", position, config_.left, first);
  if (config_.chunk == MaskConfig::kUnbounded) return first;
  std::string start = chunk_start(position, pad, scope);
  if (config_.chunk == MaskConfig::kAtLaunch)
    start = fmt::format("({}window_chunk == 0 ? 0 : {})", scope, start);
  return first == "0" ? start : fmt::format("max({}, {})", start, first);
}

std::string Mask::end_key(const std::string& position, const std::string& seqlen_k, const std::string& batch,
                          const std::string& scope) const {
  if (!bounded_above()) return seqlen_k;
  if (config_.kind != MaskConfig::Kind::window) return fmt::format("min({}, {} + 1)", seqlen_k, position);
  std::string end = seqlen_k;
  if (config_.right == MaskConfig::kAtLaunch)
    end = fmt::format("min({}, {} + {}window_right + 1)", end, position, scope);
  else if (config_.right >= 0)
    end = fmt::format("min({}, {} + {})", end, position, config_.right + 1);
  if (config_.chunk == MaskConfig::kUnbounded || config_.right == 0) return end;
  // A row before the first key has a chunk of its own, which no key is in.
  const std::string pad = padding(batch, scope), start = chunk_start(position, pad, scope);
  std::string chunk_end =
      config_.chunk == MaskConfig::kAtLaunch
          ? fmt::format("{0} < {1} ? 0 : {2} + {3}window_chunk", position, pad.empty() ? "0" : pad, start,
                        scope)
          : fmt::format("{0} < {1} ? 0 : {2} + {3}", position, pad.empty() ? "0" : pad, start, config_.chunk);
  if (config_.chunk == MaskConfig::kAtLaunch)
    chunk_end = fmt::format("{}window_chunk == 0 ? {} : {}", scope, seqlen_k, chunk_end);
  return fmt::format("min({}, {})", end, chunk_end);
}

std::string Mask::first_read(const std::string& position, const std::string& seqlen_k,
                             const std::string& batch, const std::string& scope) const {
  const std::string first = first_key(position, batch, scope);
  return config_.left_padding ? fmt::format("min({}, max({} - 1, 0))", first, seqlen_k) : first;
}

int Mask::most_common_keys(int rows) const {
  const int window = window_keys(config_);
  if (const SizedMask* sized = sized_mask(config_.kind)) return sized->most_common(rows, config_.size);
  if (config_.kind != MaskConfig::Kind::window) return 0;
  constexpr int kMany = 1 << 30;
  const int common = window > 0 ? std::max(window - rows + 1, 0) : kMany;
  return config_.chunk > 0 ? std::min(common, config_.chunk) : common;
}

std::vector<const char*> Mask::launch_sides() const {
  std::vector<const char*> names;
  if (config_.left == MaskConfig::kAtLaunch) names.push_back("window_left");
  if (config_.right == MaskConfig::kAtLaunch) names.push_back("window_right");
  if (config_.chunk == MaskConfig::kAtLaunch) names.push_back("window_chunk");
  return names;
}

std::string Mask::function_parameters() const {
  std::string text = config_.left_padding ? ", const int* first_keys" : "";
  for (const char* name : launch_sides()) text += fmt::format(", int {}", name);
  return text;
}

std::string Mask::function_arguments() const {
  std::string text = config_.left_padding ? ", first_keys" : "";
  for (const char* name : launch_sides()) text += fmt::format(", {}", name);
  return text;
}

std::vector<KernelParam> Mask::params() const {
  using Kind = KernelParam::Kind;
  if (!has_bits()) {
    std::vector<KernelParam> params;
    if (config_.left_padding) params.push_back({Kind::pointer, "first_keys", {}});
    for (const char* name : launch_sides()) params.push_back({Kind::i32, name, {}});
    return params;
  }
  return {{Kind::pointer, "mask_bits", {}},
          {Kind::i32, "mask_stride_batch", {}},
          {Kind::i32, "mask_stride_head", {}},
          {Kind::i32, "mask_words", {}}};
}

void Mask::emit_rows(Writer& w, const ScoreContext& c) const {
  if (!has_bits()) return;
  w.comment("rows of the bitmask; a query row past the end reads the last one");
  for (std::size_t r = 0; r < c.rows.size(); ++r) {
    w.line(
        "const u32* const mask_row_{0} = mask_bits + (long long){1} * mask_stride_batch + "
        "(long long){2} * mask_stride_head + (long long)max(min({3}, {4} - 1), 0) * mask_words;",
        r, c.batch, factor(c.rows[r].head), c.rows[r].query, c.seqlen_q);
  }
}

void Mask::emit_load(Writer& w, const ScoreContext& c, const std::string& first_key, bool upper) const {
  if (!has_bits()) return;
  w.comment("bits of {} keys for each row{}", layout_.columns,
            upper ? "; none at or past the end of the sequence" : "");
  w.line("const int mask_word = ({}) / 32;", first_key);
  const int words = (layout_.columns + layout_.word_columns - 1) / layout_.word_columns;
  for (int word = 0; word < words; ++word) {
    const std::string at = fmt::format("mask_word + {}{}", word * layout_.word_columns / 32,
                                       layout_.lane_word.empty() ? "" : " + " + layout_.lane_word);
    if (upper) {
      w.line("const int keys_left_{0} = {1} - 32 * ({2});", word, c.seqlen_k, at);
      w.line(
          "const u32 inside_{0} = keys_left_{0} >= 32 ? ~0u : keys_left_{0} > 0 ? (1u << keys_left_{0}) - 1 "
          ": 0u;",
          word);
    }
    for (int r = 0; r < layout_.rows; ++r) {
      if (upper) {
        w.line("const u32 visible_{0}_{1} = inside_{1} == 0 ? 0u : mask_row_{0}[{2}] & inside_{1};", r, word,
               at);
      } else {
        w.line("const u32 visible_{0}_{1} = mask_row_{0}[{2}];", r, word, at);
      }
    }
  }
}

void Mask::emit_bits(Writer& w) const {
  w.comment("keys whose bit is not set do not count");
  const int words = (layout_.columns + layout_.word_columns - 1) / layout_.word_columns;
  const std::string& shift = layout_.lane_bit.empty() ? layout_.lane_column : layout_.lane_bit;
  for (int word = 0; word < words; ++word) {
    for (int r = 0; r < layout_.rows; ++r)
      w.line("const u32 bits_{0}_{1} = visible_{0}_{1} >> ({2});", r, word, shift);
  }
  for (int i = 0; i < layout_.registers; ++i) {
    const int column = layout_.column(i);
    w.line("if ((bits_{}_{} & {:#x}u) == 0) {} = -kInfinity;", layout_.row(i), column / layout_.word_columns,
           1u << (column % layout_.word_columns), layout_.score(i));
  }
}

void Mask::emit_apply(Writer& w, const ScoreContext& c, const std::string& first_key, Sides sides) const {
  if (has_bits()) return emit_bits(w);
  // Of a window with no bound on the left first_key() is 0.
  const bool lower = sides.lower && bounded_below() && this->first_key("", c.batch) != "0";
  if (!sides.upper && !lower) return;
  w.comment("keys {} do not count", !bounded_above()       ? "past the end of the sequence"
                                    : lower && sides.upper ? "outside the row's range"
                                    : lower                ? "before the row's first one"
                                            : "past the row's own position or the end of the sequence");
  const std::string shift =
      fmt::format("({}){}", first_key, layout_.lane_column.empty() ? "" : " - " + layout_.lane_column);
  for (int r = 0; r < layout_.rows; ++r) {
    const std::string position = position_of(c.rows[static_cast<std::size_t>(r)], c);
    if (sides.upper) w.line("const int end_{} = {} - {};", r, end_key(position, c.seqlen_k, c.batch), shift);
    if (lower) w.line("const int first_{} = {} - {};", r, this->first_key(position, c.batch), shift);
  }
  if (layout_.without_branches && sides.upper)
    return lower ? emit_choices_in_range(w, layout_) : emit_choices(w);
  emit_branches(w, sides.upper, lower);
}

void Mask::emit_choices(Writer& w) const {
  for (int i = 0; i < layout_.registers; ++i)
    w.line("{0} = hide_from<{1}>({0}, end_{2});", layout_.score(i), layout_.column(i), layout_.row(i));
}

void Mask::emit_branches(Writer& w, bool upper, bool lower) const {
  std::string line;
  for (int i = 0; i < layout_.registers; ++i) {
    const int r = layout_.row(i), column = layout_.column(i);
    std::string condition = upper ? fmt::format("{} >= end_{}", column, r) : "";
    if (lower) condition += fmt::format("{}{} < first_{}", upper ? " || " : "", column, r);
    line += fmt::format("{}if ({}) {} = -kInfinity;", line.empty() ? "" : " ", condition, layout_.score(i));
    if (i % 2 == 1 || i + 1 == layout_.registers) w.line("{}", line), line.clear();
  }
}

void Mask::emit_apply_where_cut(Writer& w, const ScoreContext& context, int keys,
                                const std::function<void(Writer&)>& then) const {
  const std::string first_key = fmt::format("n * {}", keys);
  if (has_bits()) {
    emit_load(w, context, first_key, true);
    emit_apply(w, context, first_key, {});
    if (then) then(w);
    return;
  }
  if (bounded_below()) {
    w.comment("an end of some row's keys lies in this tile");
    w.open("if ((n + 1) * {0} > clean_end || n * {0} < clean_begin)", keys);
  } else if (bounded_above()) {
    w.comment("the end of some row's keys lies in this tile");
    w.open("if ((n + 1) * {} > clean_end)", keys);
  } else {
    w.comment("the sequence ends in this tile");
    w.open("if ((n + 1) * {} > {})", keys, context.seqlen_k);
  }
  emit_apply(w, context, first_key, {});
  if (then) then(w);
  w.close();
}

}  // namespace kiln
