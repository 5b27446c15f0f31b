// What the loops over whole tiles of cdna_decode are made of: K and V of a tile, and how they come to LDS. The plan chooses
// one class of each (tile_parts.cpp).
#pragma once

#include <memory>

#include "generator/schedules/cdna_decode/plan.hpp"

namespace kiln::cdna {

/// K of a tile: asked for, of what comes by way of registers written, and multiplied.
class Keys {
 public:
  explicit Keys(const DecodePlan& plan) : p_(plan) {}
  virtual ~Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  virtual void emit_load(Writer& w, int stage) const { p_.k_tile->emit_load_from_dram(w, stage); }
  virtual void emit_store(Writer& w, int stage) const { p_.k_tile->emit_store(w, stage); }
  /// S' = K(n) Q'
  virtual void emit_qk(Writer& w, int stage) const;

 protected:
  const DecodePlan& p_;
};

/// Where V of a tile is. Beside K: in stages of its own, as many as K has.
class Values {
 public:
  explicit Values(const DecodePlan& plan) : p_(plan) {}
  virtual ~Values() = default;
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  /// With K's rows: asked for, and of those by way of registers written.
  virtual void emit_load(Writer& w, int stage) const { p_.v_tile->emit_load_from_dram(w, stage); }
  virtual void emit_store(Writer& w, int stage) const { p_.v_tile->emit_store(w, stage); }
  /// Once every wave has finished the tile before.
  virtual void emit_load_late(Writer&) const {}
  /// P is in LDS, and V is.
  virtual void emit_landed(Writer& w) const { w.line("SYNC();"); }
  /// The only stage may be written again.
  virtual void emit_free(Writer& w) const { w.line("SYNC();  // every wave has finished tile n"); }
  virtual int offset(int stage) const { return stage * p_.v_tile->stage_bytes(); }

 protected:
  const DecodePlan& p_;
};

/// How tiles come to LDS: straight, into two stages in turns.
class Copies {
 public:
  Copies(const Keys& keys, const Values& values) : keys_(keys), values_(values) {}
  virtual ~Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// The tile is in its stage, and every wave has finished the one before.
  virtual void emit_landed(Writer& w, int) const {
    w.comment("what is on its way has landed, and every wave has finished tile n - 1");
    w.line("WAIT_LOADS_AND_SYNC(0);");
  }
  /// The next one, on its way while this one is multiplied.
  virtual void emit_next(Writer& w, int stage) const {
    w.open("if (n + 1 < tile_end)");
    keys_.emit_load(w, 1 - stage);
    values_.emit_load(w, 1 - stage);
    w.close();
  }
  /// The next one into the only stage.
  virtual void emit_free(Writer&) const {}

 protected:
  const Keys& keys_;
  const Values& values_;
};

/// What the loop over tiles is made of.
struct TileParts {
  explicit TileParts(const DecodePlan& plan);
  const DecodePlan& plan;
  std::unique_ptr<const Keys> keys;
  std::unique_ptr<const Values> values;
  std::unique_ptr<const Copies> copies;
};

/// K alone, of loops that have no stages of V.
std::unique_ptr<const Keys> keys_of(const DecodePlan& plan);

}  // namespace kiln::cdna
