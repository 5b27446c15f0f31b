#include "generator/schedules/cdna_decode/tile_parts.hpp"

#include "generator/systems/cdna/product.hpp"

namespace kiln::cdna {
namespace {

/// The last columns have a tensor of their own.
class KeysWithRotary final : public Keys {
 public:
  using Keys::Keys;
  void emit_load(Writer& w, int stage) const override {
    Keys::emit_load(w, stage);
    p_.k_rope->emit_load_from_dram(w, stage);
  }
  void emit_store(Writer& w, int stage) const override {
    Keys::emit_store(w, stage);
    p_.k_rope->emit_store(w, stage);
  }
  void emit_qk(Writer& w, int stage) const override {
    Keys::emit_qk(w, stage);
    emit_rope_product(w, *p_.k_rope, stage * p_.k_rope->stage_bytes(), p_.k_tile->num_k_tiles());
  }
};

/// Each wave copies the very columns that it reads.
class OwnValues final : public Values {
 public:
  using Values::Values;
  void emit_free(Writer& w) const override {
    w.comment(
        "K was read before the maxima were exchanged, and each wave copies the columns of V that it reads");
  }
};

/// In the columns of K.
class ValuesInK final : public Values {
 public:
  using Values::Values;
  void emit_load(Writer&, int) const override {}
  void emit_store(Writer&, int) const override {}
  int offset(int stage) const override { return stage * p_.k_tile->stage_bytes(); }
};

/// One stage beside two of K.
class LateValues : public Values {
 public:
  using Values::Values;
  void emit_load(Writer&, int) const override {}
  void emit_store(Writer&, int) const override {}
  void emit_load_late(Writer& w) const override { p_.v_tile->emit_load_from_dram(w, 0); }
  void emit_landed(Writer& w) const override {
    w.comment("V(n) has landed; K(n + 1) may still fly");
    w.line("if (n + 1 < tile_end) WAIT_LOADS_AND_SYNC({}); else WAIT_LOADS_AND_SYNC(0);", p_.k_loads());
  }
  int offset(int) const override { return 0; }
};

/// The same by way of registers.
class LateStagedValues final : public LateValues {
 public:
  using LateValues::LateValues;
  void emit_landed(Writer& w) const override {
    p_.v_tile->emit_store(w, 0);
    w.line("SYNC();");
  }
};

/// Into the only stage, when the tile before is done.
class OneStageCopies final : public Copies {
 public:
  using Copies::Copies;
  void emit_next(Writer&, int) const override {}
  void emit_free(Writer& w) const override {
    w.open("if (n + 1 < tile_end)");
    values_.emit_free(w);
    keys_.emit_load(w, 0);
    values_.emit_load(w, 0);
    w.close();
  }
};

/// By way of registers.
class StagedCopies : public Copies {
 public:
  using Copies::Copies;
  void emit_landed(Writer& w, int stage) const override {
    w.comment("what was loaded goes where every wave has finished reading; K last, which is read first");
    values_.emit_store(w, stage);
    keys_.emit_store(w, stage);
    w.line("SYNC();");
  }
};

class OneStageStagedCopies final : public StagedCopies {
 public:
  using StagedCopies::StagedCopies;
  void emit_free(Writer& w) const override {
    w.open("if (n + 1 < tile_end)");
    values_.emit_free(w);
    w.close();
  }
};

std::unique_ptr<const Values> values_of(const DecodePlan& p) {
  if (p.v_in_k) return std::make_unique<ValuesInK>(p);
  if (p.late_v() && p.staged()) return std::make_unique<LateStagedValues>(p);
  if (p.late_v()) return std::make_unique<LateValues>(p);
  if (p.v_tile->own_columns(p.wave_columns)) return std::make_unique<OwnValues>(p);
  return std::make_unique<Values>(p);
}

std::unique_ptr<const Copies> copies_of(const DecodePlan& p, const Keys& keys, const Values& values) {
  const bool one = p.k_stages == 1;
  if (p.staged() && one) return std::make_unique<OneStageStagedCopies>(keys, values);
  if (p.staged()) return std::make_unique<StagedCopies>(keys, values);
  if (one) return std::make_unique<OneStageCopies>(keys, values);
  return std::make_unique<Copies>(keys, values);
}

}  // namespace

void Keys::emit_qk(Writer& w, int stage) const {
  w.comment("S' = K(n) Q'");
  p_.k_op().emit_registers(w);
  emit_scores_product(w, {*p_.k_tile, stage * p_.k_tile->stage_bytes(), "q_reg", "s_acc", true},
                      p_.row_scales, p_.scores());
}

std::unique_ptr<const Keys> keys_of(const DecodePlan& p) {
  if (p.k_rope) return std::make_unique<KeysWithRotary>(p);
  return std::make_unique<Keys>(p);
}

TileParts::TileParts(const DecodePlan& p)
    : plan(p), keys(keys_of(p)), values(values_of(p)), copies(copies_of(p, *keys, *values)) {}

}  // namespace kiln::cdna
