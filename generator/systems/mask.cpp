#include "generator/systems/mask.hpp"

namespace kiln {
namespace {

std::string position_of(const ScoreContext::Row& row, const ScoreContext& c) {
  return fmt::format("{} + {} - {}", row.query, c.seqlen_k, c.seqlen_q);
}

}  // namespace

std::string Mask::first_key(const std::string& position) const {
  switch (config_.kind) {
    case MaskConfig::Kind::sliding_window:
      return fmt::format("max({} - {}, 0)", position, config_.size - 1);
    case MaskConfig::Kind::chunked:
      return fmt::format("max({0}, 0) / {1} * {1}", position, config_.size);
    default:
      return "0";
  }
}

std::string Mask::end_key(const std::string& position, const std::string& seqlen_k) const {
  return bounded_above() ? fmt::format("min({}, {} + 1)", seqlen_k, position) : seqlen_k;
}

std::vector<KernelParam> Mask::params() const {
  if (!has_bits()) return {};
  using Kind = KernelParam::Kind;
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
        "(long long)({2}) * mask_stride_head + (long long)max(min({3}, {4} - 1), 0) * mask_words;",
        r, c.batch, c.rows[r].head, c.rows[r].query, c.seqlen_q);
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
  const bool lower = sides.lower && bounded_below();
  if (!sides.upper && !lower) return;
  w.comment("keys {} do not count", !bounded_above()       ? "past the end of the sequence"
                                    : lower && sides.upper ? "outside the row's range"
                                    : lower                ? "before the row's first one"
                                            : "past the row's own position or the end of the sequence");
  const std::string shift =
      fmt::format("({}){}", first_key, layout_.lane_column.empty() ? "" : " - " + layout_.lane_column);
  for (int r = 0; r < layout_.rows; ++r) {
    const std::string position = position_of(c.rows[static_cast<std::size_t>(r)], c);
    if (sides.upper) w.line("const int end_{} = {} - {};", r, end_key(position, c.seqlen_k), shift);
    if (lower) w.line("const int first_{} = {} - {};", r, this->first_key(position), shift);
  }
  std::string line;
  for (int i = 0; i < layout_.registers; ++i) {
    const int r = layout_.row(i), column = layout_.column(i);
    std::string condition = sides.upper ? fmt::format("{} >= end_{}", column, r) : "";
    if (lower) condition += fmt::format("{}{} < first_{}", sides.upper ? " || " : "", column, r);
    line += fmt::format("{}if ({}) {} = -kInfinity;", line.empty() ? "" : " ", condition, layout_.score(i));
    if (i % 2 == 1 || i + 1 == layout_.registers) w.line("{}", line), line.clear();
  }
}

void Mask::emit_apply_where_cut(Writer& w, const ScoreContext& context, int keys) const {
  const std::string first_key = fmt::format("n * {}", keys);
  if (has_bits()) {
    emit_load(w, context, first_key, true);
    emit_apply(w, context, first_key, {});
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
  w.close();
}

}  // namespace kiln
