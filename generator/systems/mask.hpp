// Masks over the accumulator layout that mma.sync and wgmma share: register i of a lane holds column
// 8 * (i >> 2) + 2 * (lane & 3) + (i & 1) of row 0 (i & 2 == 0) or row 1 of the lane's two rows.
//
// A row sees keys [0, key_limit). Subtracting the tile's first key and the lane's column from the limit once
// leaves a compare with a literal per element.
#pragma once

#include "generator/emit/writer.hpp"

namespace kiln {

class KeyLimitMask {
 public:
  KeyLimitMask(int score_regs, bool causal) : score_regs_(score_regs), causal_(causal) {}
  bool causal() const { return causal_; }

  /// Declares key_limit_{0,1}: keys that rows `row` and `row` + 8 see. Bottom-right aligned: query row i
  /// stands at key position i + seqlen_k - seqlen_q. The limit may be negative: such a row sees nothing.
  void emit_limits(Writer& w, const std::string& row, const std::string& seqlen_q,
                   const std::string& seqlen_k) const {
    if (causal_) {
      w.line("const int key_limit_0 = min({1}, {0} + 1 + {1} - {2});", row, seqlen_k, seqlen_q);
      w.line("const int key_limit_1 = min({1}, {0} + 9 + {1} - {2});", row, seqlen_k, seqlen_q);
    } else {
      w.line("const int key_limit_0 = {0}, key_limit_1 = {0};", seqlen_k);
    }
  }
  /// s_acc = -inf where the key is not visible; `first_key`: expression of the tile's first key.
  void emit_apply(Writer& w, const std::string& first_key) const {
    w.line(
        "const int limit_0 = key_limit_0 - {0} - 2 * (lane & 3), limit_1 = key_limit_1 - {0} - 2 * (lane & "
        "3);",
        first_key);
    for (int i = 0; i < score_regs_; i += 4) {
      const int column = 8 * (i >> 2);
      w.line("if ({0} >= limit_0) s_acc[{1}] = -kInfinity; if ({2} >= limit_0) s_acc[{3}] = -kInfinity;",
             column, i, column + 1, i + 1);
      w.line("if ({0} >= limit_1) s_acc[{1}] = -kInfinity; if ({2} >= limit_1) s_acc[{3}] = -kInfinity;",
             column, i + 2, column + 1, i + 3);
    }
  }

 private:
  int score_regs_;
  bool causal_;
};

}  // namespace kiln
