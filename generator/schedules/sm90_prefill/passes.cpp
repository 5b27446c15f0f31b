// The softmax of a tile of sm90_prefill: with the tile's own maximum; by parts whose sums are watched; or, of FP8,
// packed at once and watched by what does not fit.
#include "generator/schedules/sm90_prefill/consumer.hpp"

namespace kiln::sm90::prefill {
namespace {

/// `masked`: rows may be without a visible key so far.
class PlainPass final : public TilePass {
 public:
  PlainPass(const Parts& parts, bool masked) : TilePass(parts), masked_(masked) {}
  void emit(Writer& w) const override {
    p_.softmax->emit_max(w, masked_, false);
    p_.softmax->emit_exp(w, 0, p_.BN / 2, masked_);
    parts_.scales->emit_weigh(w, false);
  }
  void emit_take(Writer& w) const override { parts_.scales->emit_pack(w, "s_acc"); }

 private:
  bool masked_;
};

class WatchedPass final : public TilePass {
 public:
  using TilePass::TilePass;
  void emit(Writer& w) const override { p_.softmax->emit_watched(w); }
  void emit_take(Writer& w) const override { parts_.scales->emit_pack(w, "e"); }
};

class PackedPass final : public TilePass {
 public:
  using TilePass::TilePass;
  void emit(Writer& w) const override { p_.softmax->emit_packed(w); }
  void emit_take(Writer& w) const override {
    for (int i = 0; i < p_.p_registers(); i += 2)
      w.line("p[{0}] = own_register(next[{0}]); p[{1}] = own_register(next[{1}]);", i, i + 1);
  }
};

}  // namespace

std::unique_ptr<const TilePass> inside_pass_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (p.packed) return std::make_unique<PackedPass>(parts);
  if (p.watched_parts > 0) return std::make_unique<WatchedPass>(parts);
  return std::make_unique<PlainPass>(parts, p.hides_anywhere());
}

// Tiles at the ends of the rows' ranges are few, and the mask wants registers that watching needs.
std::unique_ptr<const TilePass> edge_pass_of(const Parts& parts) {
  return std::make_unique<PlainPass>(parts, true);
}

}  // namespace kiln::sm90::prefill
