// The main loops of cdna_prefill with `dma` reg_staged: what is on its way waits in
// registers, which the compiler waits for, and is written to LDS where the direct loops wait for copies. The
// next rows are asked for right after that, so a stage is only taken while it is read: with one stage of K
// and of V each, a barrier before and one after the softmax keep readers and writers apart; with two of each
// one barrier a tile does.
#include "generator/schedules/cdna_prefill/loops.hpp"

namespace kiln::cdna {
namespace {

/// Stages of K and, where there is a tensor of rotary columns, of that.
std::vector<std::pair<const KVBuffer*, int>> k_stores(const PrefillPlan& p, int stage) {
  std::vector<std::pair<const KVBuffer*, int>> out{{&*p.k, stage}};
  if (p.k_rope) out.emplace_back(&*p.k_rope, stage);
  return out;
}

/// What was loaded for `buffers` becomes their stages.
void emit_stores(Writer& w, const PrefillPlan& p,
                 const std::vector<std::pair<const KVBuffer*, int>>& buffers) {
  if (!p.counted) w.line("WAIT_LOADS(0);");
  for (const auto& [buffer, stage] : buffers) buffer->emit_store(w, stage);
  w.line("SYNC();");
}

/// One stage of each, or two.
class StagedTileLoop : public KvLoop {
 public:
  using KvLoop::KvLoop;
  void use(Prelude& prelude) const override {
    if (!p_.counted) prelude.use("wait_loads");
  }
  std::string fact() const override {
    return "K and V by way of registers: loads of the next rows are under way while these are multiplied.\n";
  }
  void emit_first_loads(Writer& w) const override { emit_load_k(w, p_, 0); }

 protected:
  void emit_tile(Writer& w, int stage) const override {
    w.banner("KV tile n in stage {}", stage);
    w.comment("every wave has finished the K tile that lay here; after the barrier also tile n - 1");
    emit_stores(w, p_, k_stores(p_, stage));
    emit_key_scales(w, p_);
    p_.v->emit_load_from_dram(w, 0);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 0);
    w.close();
    emit_scores(w, stage);
    emit_stores(w, p_, {{&*p_.v, 0}});
    emit_products(w, 0);
    emit_break(w);
  }
};

/// Two stages of V beside those of K.
class StagedTwoStageLoop final : public StagedTileLoop {
 public:
  using StagedTileLoop::StagedTileLoop;
  void emit_first_loads(Writer& w) const override {
    StagedTileLoop::emit_first_loads(w);
    p_.v->emit_load_from_dram(w, 0);
  }

 protected:
  void emit_tile(Writer& w, int stage) const override {
    w.banner("KV tile n in stage {}", stage);
    w.comment("every wave has finished tile n - 2, whose stages these were");
    auto stores = k_stores(p_, stage);
    stores.emplace_back(&*p_.v, stage);
    emit_stores(w, p_, stores);
    emit_key_scales(w, p_);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 0);
    p_.v->emit_load_from_dram(w, 0);
    w.close();
    emit_scores(w, stage);
    emit_products(w, stage * p_.v->stage_bytes());
    emit_break(w);
  }
};

/// K(n) serves both products.
class StagedVInKLoop final : public StagedTileLoop {
 public:
  using StagedTileLoop::StagedTileLoop;

 protected:
  void emit_values(Writer& w, const std::string&, const std::string&) const override {
    emit_values_of_k(w, p_);
  }
  void emit_tile(Writer& w, int stage) const override {
    w.banner("KV tile n in stage {}", stage);
    emit_stores(w, p_, k_stores(p_, stage));
    emit_key_scales(w, p_);
    w.open("if (n + 1 < num_tiles)");
    emit_load_k(w, p_, 0);
    w.close();
    open_if_visible(w, *p_.mask, p_.BN);
    emit_qk(w, p_, stage);
    emit_softmax(w, p_);
    emit_pv(w, p_, stage * p_.k->stage_bytes());
    w.close();
    emit_break(w);
    if (p_.k_stages == 1) w.line("SYNC();  // every wave has finished K(n - 1)");
  }
};

/// Blocks through a ring of two stages: one is read while the next block is on its way.
class StagedBlockLoop final : public StagedTileLoop {
 public:
  using StagedTileLoop::StagedTileLoop;
  void emit_first_loads(Writer& w) const override { emit_block_load(w, p_, 0, 0); }

 protected:
  void emit_tile(Writer& w, int tile) const override {
    const int blocks = p_.tile_blocks(), k_blocks = p_.k->blocks();
    for (int i = 0; i < blocks; ++i) {
      const int stage = (tile * blocks + i) % 2;
      w.banner("block {} of tile n, in stage {}", i, stage);
      emit_stores(w, p_, {{i < k_blocks ? &*p_.k : &*p_.v, stage}});
      if (i == 0) emit_key_scales(w, p_);
      if (i + 1 < blocks) {
        emit_block_load(w, p_, i + 1, 0);
      } else {
        w.open("if (n + 1 < num_tiles)");
        emit_block_load(w, p_, 0, 0);
        w.close();
      }
      emit_block(w, p_, i, stage);
    }
    emit_break(w);
  }
};

}  // namespace

std::unique_ptr<const KvLoop> staged_loop(const PrefillPlan& p) {
  if (p.loop == PrefillLoop::blocks) return std::make_unique<StagedBlockLoop>(p);
  if (p.loop == PrefillLoop::v_in_k) return std::make_unique<StagedVInKLoop>(p);
  if (p.v_stages == 2) return std::make_unique<StagedTwoStageLoop>(p);
  return std::make_unique<StagedTileLoop>(p);
}

}  // namespace kiln::cdna
