// The main loop of cdna_prefill over whole tiles: K and V in stages of their own, or V in the columns of K.
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_prefill/loops.hpp"

namespace kiln::cdna {

// S' = K(n) Q'
void emit_qk(Writer& w, const PrefillPlan& p, int stage) {
  w.comment("S' = K(n) Q'");
  p.k->kv_mma_op().emit_registers(w);
  emit_scores_product(w, {*p.k, stage * p.k->stage_bytes(), "q_reg", "s_acc", true}, p.row_scales,
                      p.scores());
  if (p.k_rope) emit_rope_product(w, *p.k_rope, stage * p.k_rope->stage_bytes(), p.k->num_k_tiles());
}

void emit_load_k(Writer& w, const PrefillPlan& p, int stage) {
  p.k->emit_load_from_dram(w, stage);
  if (p.k_rope) p.k_rope->emit_load_from_dram(w, stage);
}

void emit_key_scales(Writer& w, const PrefillPlan& p) {
  p.row_scales.emit_keys(w, p.scores(), fmt::format("n * {}", p.BN),
                         operand_form(p.kind).block() ? "block_rows" : "seqlen_k");
}

void emit_softmax(Writer& w, const PrefillPlan& p) {
  p.row_scales.emit_apply(w, p.scores());
  p.modifier->emit_apply(w, p.score_context(), fmt::format("n * {}", p.BN));
  p.mask->emit_apply_where_cut(w, p.score_context(), p.BN);
  p.row_scales.emit_weigh(w, p.scores(), p.modifier->scale_log2());
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w);
  p.row_scales.emit_signs(w, p.scores());
  p.row_scales.emit_apply_to_p(w, p.scores());
  p.softmax->emit_pack(w);
}

void emit_pv(Writer& w, const PrefillPlan& p, int lds_offset) {
  w.comment("O' += V(n)' P'");
  const KVBuffer& v = *p.v;
  const int slice_bytes = p.v_slice_columns / v.stage().block_cols * v.stage().block_bytes();
  for (int i = 0; i < p.v_slices; ++i) {
    if (p.v_slices > 1) {
      w.open("");
      w.comment("columns {} .. {}", i * p.v_slice_columns, (i + 1) * p.v_slice_columns - 1);
    }
    v.kv_mma_op().emit_registers(w);
    emit_product(
        w, {v, lds_offset + i * slice_bytes, "p", "o_acc", false, 0, i * p.v_slice_columns / p.mfma.shape.m});
    if (p.v_slices > 1) w.close();
    if (i + 1 < p.v_slices) w.line("SCHEDULE_FENCE();");
  }
}

void emit_wait(Writer& w, const PrefillPlan& p, int loads) {
  w.line("WAIT_LOADS_AND_SYNC({});", p.counted ? loads : 0);
}

namespace {

/// K and V tiles in stages of their own. What of a tile is waited for when is the derived classes'.
class TileLoop : public KvLoop {
 public:
  using KvLoop::KvLoop;
  std::string fact() const override {
    return fmt::format("Loads of one wave in flight: {} of a K tile, {} of a V tile; waits {}.\n",
                       p_.k->copies(), p_.v->copies(), waits_of(p_));
  }
  void emit_first_loads(Writer& w) const override { emit_load_k(w, p_, 0); }

 protected:
  void emit_tile(Writer& w, int stage) const override {
    w.banner("KV tile n in stage {}", stage);
    emit_landed(w);
    emit_key_scales(w, p_);
    emit_starts(w, stage);
    emit_scores(w, stage);
    emit_values_landed(w);
    emit_products(w, stage % p_.v_stages * p_.v->stage_bytes());
    emit_break(w);
  }
  /// K(n) is there, and every wave has finished tile n - 1.
  virtual void emit_landed(Writer& w) const {
    w.comment("K(n) has landed, and every wave has finished tile n - 1");
    emit_wait(w, p_, 0);
  }
  /// Loads that may start now.
  virtual void emit_starts(Writer& w, int stage) const = 0;
  virtual void emit_values_landed(Writer& w) const = 0;
  /// All but `loads` of the youngest, those of the next tile where there is one.
  void emit_counted(Writer& w, int loads) const {
    w.comment("V(n) has landed; what was started after it may still fly");
    w.open("if (n + 1 < num_tiles)");
    emit_wait(w, p_, loads);
    w.reopen("else");
    emit_wait(w, p_, 0);
    w.close();
  }
};

/// One stage of each.
class OneStageLoop final : public TileLoop {
 public:
  using TileLoop::TileLoop;

 protected:
  void emit_starts(Writer& w, int) const override { p_.v->emit_load_from_dram(w, 0); }
  void emit_values_landed(Writer& w) const override {
    w.comment("V(n) has landed, and every wave has finished K(n)");
    emit_wait(w, p_, 0);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 0);
    w.close();
  }
};

/// Two stages of K and one of V.
class LateValueLoop : public TileLoop {
 public:
  using TileLoop::TileLoop;

 protected:
  void emit_starts(Writer& w, int stage) const override {
    p_.v->emit_load_from_dram(w, 0);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 1 - stage);
    w.close();
  }
  void emit_values_landed(Writer& w) const override { emit_counted(w, p_.k_loads()); }
};

/// The same with waits that drain: that for V(n) is that for K(n + 1), too.
class DrainedLateValueLoop final : public LateValueLoop {
 public:
  using LateValueLoop::LateValueLoop;
  void use(Prelude& prelude) const override { prelude.use("wait_loads"); }

 protected:
  void emit_before_loop(Writer& w) const override { w.line("WAIT_LOADS(0);"); }
  void emit_landed(Writer& w) const override {
    w.line("SYNC();  // every wave has finished tile n - 1, and before its last product it waited for K(n)");
  }
  void emit_values_landed(Writer& w) const override {
    w.comment("V(n) has landed, and K(n + 1)");
    emit_wait(w, p_, 0);
  }
};

/// Two stages of both.
class TwoStageLoop : public TileLoop {
 public:
  using TileLoop::TileLoop;
  void emit_first_loads(Writer& w) const override {
    TileLoop::emit_first_loads(w);
    p_.v->emit_load_from_dram(w, 0);
  }

 protected:
  void emit_landed(Writer& w) const override {
    w.comment("K(n) has landed, and every wave has finished tile n - 1");
    emit_wait(w, p_, p_.v->vm_exact());
  }
  void emit_starts(Writer& w, int stage) const override {
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 1 - stage);
    p_.v->emit_load_from_dram(w, 1 - stage);
    w.close();
  }
  void emit_values_landed(Writer& w) const override { emit_counted(w, p_.k_loads() + p_.v->vm_exact()); }
};

/// The same with waits that drain: V(n) comes with K(n).
class DrainedTwoStageLoop final : public TwoStageLoop {
 public:
  using TwoStageLoop::TwoStageLoop;

 protected:
  void emit_landed(Writer& w) const override {
    w.comment("K(n) and V(n) have landed, and every wave has finished tile n - 1");
    emit_wait(w, p_, 0);
  }
  void emit_values_landed(Writer&) const override {}
};

/// K(n) serves both products.
class VInKLoop final : public KvLoop {
 public:
  using KvLoop::KvLoop;
  std::string fact() const override {
    return fmt::format("Loads of one wave in flight: {} of a K tile; waits {}.\n", p_.k->copies(),
                       waits_of(p_));
  }
  void emit_first_loads(Writer& w) const override { emit_load_k(w, p_, 0); }

 protected:
  void emit_values(Writer& w, const std::string&, const std::string&) const override {
    emit_values_of_k(w, p_);
  }
  void emit_tile(Writer& w, int stage) const override {
    w.banner("KV tile n in stage {}", stage);
    w.comment("K(n) has landed, and every wave has finished tile n - 1");
    emit_wait(w, p_, 0);
    emit_key_scales(w, p_);
    if (p_.k_stages == 2) {
      w.open("if (n + 1 < num_tiles)");
      emit_load_k(w, p_, 1 - stage);
      w.close();
    }
    open_if_visible(w, *p_.mask, p_.BN);
    emit_qk(w, p_, stage);
    emit_softmax(w, p_);
    emit_pv(w, p_, stage * p_.k->stage_bytes());
    w.close();
    if (p_.k_stages == 1) {
      w.open("if (n + 1 < num_tiles)");
      w.line("SYNC();  // every wave has finished K(n)");
      emit_load_k(w, p_, 0);
      w.close();
    }
    emit_break(w);
  }
};

}  // namespace

const char* waits_of(const PrefillPlan& p) {
  return p.counted ? "count them" : "drain them all";
}

void emit_values_of_k(Writer& w, const PrefillPlan& p) {
  w.comment("V: the first {} columns of K", p.ov_depth);
  p.v->emit_construct_reader(w, 0);
}

std::unique_ptr<const KvLoop> tile_loop(const PrefillPlan& p) {
  if (p.k_stages == 1) return std::make_unique<OneStageLoop>(p);
  if (p.drains_ahead()) return std::make_unique<DrainedLateValueLoop>(p);
  if (p.v_stages == 1) return std::make_unique<LateValueLoop>(p);
  if (p.counted) return std::make_unique<TwoStageLoop>(p);
  return std::make_unique<DrainedTwoStageLoop>(p);
}

std::unique_ptr<const KvLoop> v_in_k_loop(const PrefillPlan& p) {
  return std::make_unique<VInKLoop>(p);
}

}  // namespace kiln::cdna
