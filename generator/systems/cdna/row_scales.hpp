// Scales of an 8-bit cache under a 16-bit Q that differ from row to row: one for a token's row of a head, or
// for every `columns` elements of it, f32 [.., heads_kv, groups] in the order of the rows.
//
// K's multiply scores, whose keys' scales a wave has one to a lane; rounding K itself would show in the large
// scores. V's are multiplied in where its bytes are widened (RegStagedCopy), which rounds V as P is rounded; where V
// lies in K's rows they are K's, and multiply P.
//
// Under an FP8 Q bytes stay bytes, and P is rounded to one with the scale of its key in it: that joins the exponent
// (emit_weigh), so that the largest product of a row is the largest FP8 number whatever the scales are, and leaves the
// row's sum again (`unweighed`). A scale of 0 counts as 2^-64 there, which P rounds to 0.
#pragma once

#include <string>
#include <vector>

#include "generator/config/rules.hpp"
#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/systems/score_layout.hpp"

#include <kiln/config.hpp>
#include <kiln/source.hpp>

namespace kiln::cdna {

class RowScales {
 public:
  RowScales() = default;
  explicit RowScales(const Config& resolved);

  bool any() const { return columns_ > 0; }
  /// Elements of a row that one scale covers; 0: there are no scales by row.
  int columns() const { return columns_; }
  /// Elements of V that one scale covers where it multiplies them; 0: it does not.
  int v_columns() const { return weighs() ? 0 : columns_; }
  int groups(int row_columns) const { return (row_columns + columns_ - 1) / columns_; }

  /// Where V lies in K's rows: emit_apply once more, to P.
  bool in_p() const { return any() && !own_v_ && !weighs_; }
  /// FP8: scales of V join the exponent of P.
  bool weighs() const { return any() && weighs_; }
  /// Scales of a row of K.
  int key_groups() const { return any() ? groups(k_columns_) : 1; }

  /// Scores, and with several scales a row the scores of one of them.
  int score_arrays() const { return key_groups() > 1 ? 2 : 1; }

  void use(Prelude& prelude) const;

  // What follows emits nothing where there are no scales by row.

  /// Distances of the pages' or sequences' scales, of K and (`own_v`) V.
  void add_params(std::vector<KernelParam>& params, bool own_v) const;
  /// k_scale_head and v_scale_head, the first scale of the head, NAME_scale_step, from one row's to the next
  /// one's, and k_unit, where emit_keys puts the scales of the keys that `layout` has. `batch`: expression of
  /// the sequence. Paged: of page 0.
  void emit_heads(Writer& w, const ScoreLayout& layout, const std::string& batch) const;
  /// k_unit from key `first_key` on, of `rows` keys in all: asked for where the loads that stand before are
  /// no longer waited for.
  void emit_keys(Writer& w, const ScoreLayout& layout, const std::string& first_key,
                 const std::string& rows) const;
  /// Register `i` of the scores' factor, for columns of group `group`.
  std::string factor(const ScoreLayout& layout, int i, int group) const;
  /// The factors of whole rows; of groups of columns emit_group_end has applied them.
  void emit_apply(Writer& w, const ScoreLayout& layout, const char* what = "scores") const;
  /// The same of P, where V's scales are those of K's rows.
  void emit_apply_to_p(Writer& w, const ScoreLayout& layout) const {
    if (in_p()) emit_apply(w, layout, "P");
  }
  /// FP8: scores of the factor `to_log2` become logits in log2 units of P times the scale of V.
  void emit_weigh(Writer& w, const ScoreLayout& layout, const std::string& to_log2) const;
  /// What takes the scale of V out of register `i` of P, for the row's sum.
  std::string unweighed(const ScoreLayout& layout, int i) const;
  /// The same as what follows an operand, empty where P holds no scale.
  std::string times_unweighed(const ScoreLayout& layout, int i) const {
    return weighs() ? " * " + unweighed(layout, i) : "";
  }
  /// FP8, once the sum has P: the signs of the scales.
  void emit_signs(Writer& w, const ScoreLayout& layout) const;
  /// Several scales for a row of K: `part`, which has the scores of one group's columns. `type`: of an element of
  /// the array of scores.
  void emit_part(Writer& w, const ScoreLayout& layout, const std::string& type) const;
  /// The products of group `group` are in `part`: they join the scores of the others.
  void emit_group_end(Writer& w, const ScoreLayout& layout, int group) const;

  // Where a row's columns are multiplied a block after the other, of any number of scales.
  /// The array that products go to.
  const char* target() const { return key_groups() > 1 ? "part" : "s_acc"; }
  /// Whether products of the columns from `column` on begin a sum.
  bool begins_sum(int column) const { return key_groups() > 1 ? column % columns_ == 0 : column == 0; }
  /// Products up to column `end` of `depth` are done: the group that ends there joins the scores.
  void emit_columns_end(Writer& w, const ScoreLayout& layout, int end, int depth) const {
    if (key_groups() > 1 && (end % columns_ == 0 || end == depth))
      emit_group_end(w, layout, (end - 1) / columns_);
  }

 private:
  void emit_head(Writer& w, const std::string& name, int row_columns, const std::string& batch) const;
  /// Register `i`'s key's element of `array`, whose lanes have a key each.
  static std::string of_key(const ScoreLayout& layout, int i, const char* array, int groups, int group);
  /// Keys of a tile, 64 at a time.
  static int units(const ScoreLayout& layout) { return (layout.columns + 63) / 64; }
  OperandConfig operand_;
  OperandKind kind_ = OperandKind::contiguous;
  int columns_ = 0, page_size_ = 0, k_columns_ = 0, v_columns_ = 0;
  bool own_v_ = true, weighs_ = false;
};

/// Parameters of quantised operands: the scales of Q (where it is FP8), of K and (`own_v`) of V, and their
/// distances.
void add_scale_params(std::vector<KernelParam>& params, const Config& resolved, const RowScales& rows,
                      bool own_v);

/// Refuses several scales for a row of K where V lies in it, and those that do not cover whole strips.
bool check_row_scales(const Config& user, const RowScales& scales, const Config& resolved, Violations& out);

}  // namespace kiln::cdna
