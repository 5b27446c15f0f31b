// The KV tiles of cdna_decode: whole tiles of K and V in LDS (KVBuffer), or of K alone, whose first columns
// are V (MLA). A wave reads its keys of K, then its output columns of V.
#include <memory>

#include "generator/emit/terms.hpp"
#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/systems/cdna/product.hpp"

namespace kiln::cdna {
namespace {

/// Where a wave's columns of V begin: bytes of whole blocks, and columns within one that waves share.
struct FirstColumn {
  std::string bytes, column;
};
FirstColumn first_column_of_v(const DecodePlan& p) {
  const LdsTile& stage = p.v_tile->stage();
  if (p.waves_in_block == 1)
    return {fmt::format(" + {} * {}", p.warp_n(), p.wave_step / stage.block_cols * stage.block_bytes()), ""};
  return {fmt::format(" + {} / {} * {}", p.warp_n(), p.waves_in_block, stage.block_bytes()),
          fmt::format("{} % {} * {}", p.warp_n(), p.waves_in_block, p.wave_step)};
}

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
  virtual void emit_qk(Writer& w, int stage) const {
    w.comment("S' = K(n) Q'");
    p_.k_op().emit_registers(w);
    emit_scores_product(w, {*p_.k_tile, stage * p_.k_tile->stage_bytes(), "q_reg", "s_acc", true},
                        p_.row_scales, p_.scores());
  }

 protected:
  const DecodePlan& p_;
};

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

std::unique_ptr<const Keys> keys_of(const DecodePlan& p) {
  if (p.k_rope) return std::make_unique<KeysWithRotary>(p);
  return std::make_unique<Keys>(p);
}

void emit_pv(Writer& w, const DecodePlan& p, int lds_offset) {
  w.comment("O' += V(n)' P'");
  const int columns = p.wave_columns / p.v_slices;
  const LdsTile& stage = p.v_tile->stage();
  for (int i = 0; i < p.v_slices; ++i) {
    w.open("");
    p.v_op().emit_registers(w);
    emit_product(w, {*p.v_tile, lds_offset + i * (columns / stage.block_cols) * stage.block_bytes(), "p",
                     "o_acc", false, 0, i * columns / p.mfma.shape.m});
    w.close();
    if (i + 1 < p.v_slices) w.line("SCHEDULE_FENCE();");
  }
}

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

std::unique_ptr<const Values> values_of(const DecodePlan& p) {
  if (p.v_in_k) return std::make_unique<ValuesInK>(p);
  if (p.late_v() && p.staged()) return std::make_unique<LateStagedValues>(p);
  if (p.late_v()) return std::make_unique<LateValues>(p);
  if (p.v_tile->own_columns(p.wave_columns)) return std::make_unique<OwnValues>(p);
  return std::make_unique<Values>(p);
}

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

std::unique_ptr<const Copies> copies_of(const DecodePlan& p, const Keys& keys, const Values& values) {
  const bool one = p.k_stages == 1;
  if (p.staged() && one) return std::make_unique<OneStageStagedCopies>(keys, values);
  if (p.staged()) return std::make_unique<StagedCopies>(keys, values);
  if (one) return std::make_unique<OneStageCopies>(keys, values);
  return std::make_unique<Copies>(keys, values);
}

/// What the loop over tiles is made of.
struct TileParts {
  explicit TileParts(const DecodePlan& p)
      : plan(p), keys(keys_of(p)), values(values_of(p)), copies(copies_of(p, *keys, *values)) {}
  const DecodePlan& plan;
  std::unique_ptr<const Keys> keys;
  std::unique_ptr<const Values> values;
  std::unique_ptr<const Copies> copies;
};

void emit_tile(Writer& w, const TileParts& parts, int stage) {
  const DecodePlan& p = parts.plan;
  w.banner("KV tile n in stage {}", stage);
  parts.copies->emit_landed(w, stage);
  emit_key_scales(w, p);
  parts.values->emit_load_late(w);
  parts.copies->emit_next(w, stage);
  w.open("");
  parts.keys->emit_qk(w, stage);
  emit_decode_softmax(w, p);
  parts.values->emit_landed(w);
  emit_read_p(w, p);
  emit_pv(w, p, parts.values->offset(stage));
  w.close();
  parts.copies->emit_free(w);
  w.line("if (++n == tile_end) break;");
}

/// K and V in turn in one place. Copies of V start when every wave has read K.
void emit_shared_tile(Writer& w, const DecodePlan& p, const Keys& keys) {
  w.banner("KV tile n: K, then V in its place");
  w.line("WAIT_LOADS_AND_SYNC(0);  // K(n) has landed");
  emit_key_scales(w, p);
  w.open("");
  keys.emit_qk(w, 0);
  w.line("SYNC();  // every wave has read K(n)");
  p.v_tile->emit_load_from_dram(w, 0);
  emit_decode_softmax(w, p);
  w.line("WAIT_LOADS_AND_SYNC(0);  // V(n) has landed, and P");
  emit_read_p(w, p);
  emit_pv(w, p, 0);
  w.close();
  w.open("if (n + 1 < tile_end)");
  w.line("SYNC();  // every wave has finished V(n)");
  keys.emit_load(w, 0);
  w.close();
  w.line("if (++n == tile_end) break;");
}

/// The same by way of registers.
void emit_shared_staged_tile(Writer& w, const DecodePlan& p, const Keys& keys) {
  w.banner("KV tile n: K, then V in its place");
  keys.emit_store(w, 0);
  w.line("SYNC();");
  emit_key_scales(w, p);
  p.v_tile->emit_load_from_dram(w, 0);
  w.open("");
  keys.emit_qk(w, 0);
  emit_decode_softmax(w, p);
  w.comment("every wave had read K(n) before the maxima were exchanged");
  p.v_tile->emit_store(w, 0);
  w.line("SYNC();");
  w.open("if (n + 1 < tile_end)");
  keys.emit_load(w, 0);
  w.close();
  emit_read_p(w, p);
  emit_pv(w, p, 0);
  w.close();
  w.open("if (n + 1 < tile_end)");
  w.line("SYNC();  // every wave has finished V(n)");
  w.close();
  w.line("if (++n == tile_end) break;");
}

}  // namespace

void emit_tile_buffers(Writer& w, const DecodePlan& p, const std::string& rows) {
  const int size = static_cast<int>(size_of(*p.config.kv_dtype));
  const int key_bytes = p.WN * p.k_tile->stage().row_bytes();
  p.k_tile->emit_construct(w, 0, "k_head", times("k_stride_seq", size), rows, "first_key",
                           fmt::format(" + {} * {}", p.warp_n(), key_bytes));
  if (p.k_rope)
    p.k_rope->emit_construct(w, p.smem_rope, "k_rope_head", "k_rope_stride_seq * 2", rows, "first_key",
                             fmt::format(" + {} * {}", p.warp_n(), p.WN * p.k_rope->stage().row_bytes()));
  const FirstColumn v = first_column_of_v(p);
  if (p.v_in_k) {
    w.comment("V: the first {} columns of K", p.ov_depth);
    p.v_op().emit_construct(w, "0" + v.bytes, v.column);
  } else {
    p.v_tile->emit_construct(w, p.smem_v, "v_head", times("v_stride_seq", size), rows, "first_key", v.bytes,
                             v.column);
  }
}

void emit_decode_tiles(Writer& w, const DecodePlan& p) {
  const TileParts parts(p);
  w.banner("KV tiles: at least one");
  parts.keys->emit_load(w, 0);
  parts.values->emit_load(w, 0);
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  for (int stage = 0; stage < p.k_stages; ++stage) emit_tile(w, parts, stage);
  w.close();
}

void emit_shared_tiles(Writer& w, const DecodePlan& p) {
  const std::unique_ptr<const Keys> keys = keys_of(p);
  const auto emit_tile_of = p.staged() ? emit_shared_staged_tile : emit_shared_tile;
  w.banner("KV tiles: at least one");
  keys->emit_load(w, 0);
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  emit_tile_of(w, p, *keys);
  w.close();
}

}  // namespace kiln::cdna
