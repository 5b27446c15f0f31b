// Where the scores of one lane stand: the only thing about a matrix instruction that masks and score
// modifiers need to know. Everything emitted from it is plain C++, the same on every target.
//
//   Mask, ScoreModifier       (mask.hpp, score_mod.hpp) take a ScoreLayout once, when the plan is made, and a
//   ScoreContext              with every emission: the names that hold b, h, q and the lengths at that place.
//
// A schedule calls, for each tile of keys whose scores lie in `layout.array`:
//   modifier.emit_apply(w, context, first_key)      then      mask.emit_apply(w, context, first_key, sides)
// and softmax's exponent uses modifier.scale_log2() instead of the parameter scale_log2.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kiln {

struct ScoreLayout {
  int registers = 0;                    ///< scores a lane holds of a tile
  int rows = 2;                         ///< different query rows among them
  int columns = 0;                      ///< keys of a tile
  std::string lane_column;              ///< emitted int expression: what the lane adds to every column
  std::function<int(int)> row, column;  ///< register -> which of the lane's rows; literal part of its column
  std::string array = "s_acc";
  int vector = 0;         ///< registers of one element of `array`, where that holds vectors; 0: scalars
  bool numbered = false;  ///< several arrays instead, array_0, array_1, ..., of `vector` registers each
  /// Scores past a row's end are hidden by hide_from() of the prelude, which no compiler makes branches of.
  bool without_branches = false;
  // Bits of a mask: a lane reads one 32-bit word for every `word_columns` columns.
  int word_columns = 32;
  std::string lane_word = {};  ///< emitted int expression: which word of several; empty: the first
  std::string lane_bit = {};   ///< what the lane adds to every bit; empty: lane_column

  std::string score(int i) const {
    if (numbered) return array + "_" + std::to_string(i / vector) + "[" + std::to_string(i % vector) + "]";
    if (vector == 0) return array + "[" + std::to_string(i) + "]";
    return array + "[" + std::to_string(i / vector) + "][" + std::to_string(i % vector) + "]";
  }
};

/// mma.sync and wgmma: register i holds column 8 * (i >> 2) + 2 * (lane & 3) + (i & 1) of row 0 (i & 2 == 0)
/// or row 1 of the lane's two rows, which are 8 apart.
inline ScoreLayout mma_score_layout(int registers) {
  return {registers,
          2,
          2 * registers,
          "2 * (lane & 3)",
          [](int i) { return (i >> 1) & 1; },
          [](int i) { return 8 * (i >> 2) + (i & 1); },
          "s_acc"};
}

/// Emitted int expressions at the place of use.
struct ScoreContext {
  struct Row {
    std::string query;  ///< index of the query row in its sequence; may lie past the end
    std::string head;   ///< query head (rows of a tile may differ in it where heads are packed)
  };
  std::vector<Row> rows;  ///< one per row of the layout
  std::string batch = "batch", heads_q = "heads_q", seqlen_q = "seqlen_q", seqlen_k = "seqlen_k";
};

}  // namespace kiln
