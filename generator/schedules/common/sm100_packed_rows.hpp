// Text that the kernels over packed rows of sm_100a have in common (templates/sm100_packed_rows.cuh): Q and O by packed
// rows, the end of a row, the sum of an item's parts; and the parameters of their items.
#pragma once

#include <string>
#include <vector>

#include <kiln/source.hpp>

#include "generator/emit/text_template.hpp"
#include "generator/systems/hidden_values.hpp"
#include "generator/systems/mask.hpp"
#include "generator/systems/row_results.hpp"
#include "generator/systems/score_mod.hpp"
#include "generator/systems/stream_k.hpp"

namespace kiln::sm100 {

/// Of a kernel: its systems, and what a block leaves of an item.
struct PackedRows {
  const Config& config;  ///< resolved
  const StreamK& stream;
  const RowResults& results;
  const HiddenGuard& hidden;
  int rows = 0;         ///< packed query rows of a block
  int part_floats = 0;  ///< of a part of an item, of all blocks that take it together
  /// Emitted: what a block adds to the address of such a part, and factors of O beside the row's sum, with a sink and
  /// without.
  std::string own_part = {}, value_factor = {}, value_scale = "1.0f";
  int q_chunk = 8;             ///< elements of Q in 16 bytes
  std::string top_shift = {};  ///< emitted: off the maximum of a row in natural units, where sums are larger

  /// Parameters from the problem on: lengths, strides, masks and modifiers.
  void add_params(std::vector<KernelParam>& params, const Mask& mask, const ScoreModifier& modifier) const;
  /// The holes `members`, `q_at`, `part`, `part_rows`, `finish_row` and `sum_of_parts`, and conditions `splits`, `sink`,
  /// `lse` and `hidden`.
  void add_holes(Holes& holes) const;
};

}  // namespace kiln::sm100
