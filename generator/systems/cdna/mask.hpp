// Masks over the accumulators of K Q^T on CDNA: register e of tile t holds key M * t + row(e) + 4 * (lane /
// M) of the lane's one query.
//
// A row sees keys [0, key_limit). Subtracting the tile's first key and the lane's part from the limit once
// leaves a compare with a literal per element.
#pragma once

#include <string>

#include "generator/emit/writer.hpp"
#include "generator/systems/cdna/mfma.hpp"

namespace kiln::cdna {

class KeyLimitMask {
 public:
  KeyLimitMask(const Mfma& mfma, int tiles, bool causal) : mfma_(mfma), tiles_(tiles), causal_(causal) {}

  /// Declares key_limit: keys that row `row` sees. Bottom-right aligned: query row i stands at key position
  /// i + seqlen_k - seqlen_q. The limit may be negative: such a row sees nothing.
  void emit_limits(Writer& w, const std::string& row) const {
    w.line("const int key_limit = {};",
           causal_ ? fmt::format("min_of(seqlen_k, {} + 1 + seqlen_k - seqlen_q)", row) : "seqlen_k");
  }
  /// s_acc = -inf where the key is not visible; `first_key`: expression of the tile's first key.
  void emit_apply(Writer& w, const std::string& first_key) const {
    w.line("const int limit = key_limit - {} - lane / {} * 4;", first_key, mfma_.shape.m);
    for (int t = 0; t < tiles_; ++t) {
      for (int e = 0; e < mfma_.accum(); e += 2) {
        const int key = t * mfma_.shape.m + mfma_.row(e);
        w.line(
            "if ({1} >= limit) s_acc[{0}][{2}] = -kInfinity; if ({3} >= limit) s_acc[{0}][{4}] = -kInfinity;",
            t, key, e, key + 1, e + 1);
      }
    }
  }

 private:
  Mfma mfma_;
  int tiles_;
  bool causal_;
};

}  // namespace kiln::cdna
