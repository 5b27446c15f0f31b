// The main loop of cdna_prefill with full_kv false: a tile passes through LDS as blocks
// of bk_smem columns, first those of K, then those of V, all the same size, in one ring of stages. Block i
// computes while the next ring_stages - 1 blocks are on their way; S' sums over the blocks of K, and a block
// of V updates its own columns of O'.
#include "generator/schedules/cdna_prefill/loops.hpp"

namespace kiln::cdna {

/// Starts the copies of block `i` of the tile that K's (or V's) iterator stands at.
void emit_block_load(Writer& w, const PrefillPlan& p, int i, int stage) {
  const int k_blocks = p.k->blocks();
  i < k_blocks ? p.k->emit_load_from_dram(w, stage, i) : p.v->emit_load_from_dram(w, stage, i - k_blocks);
}

void emit_block(Writer& w, const PrefillPlan& p, int i, int stage) {
  const int k_blocks = p.k->blocks(), block = i < k_blocks ? i : i - k_blocks;
  const KVBuffer& buffer = i < k_blocks ? *p.k : *p.v;
  const int columns = buffer.stage().block_cols;
  open_if_visible(w, *p.mask, p.BN);
  w.comment("{} {}: columns {} .. {}", i < k_blocks ? "S' += K(n) Q', block" : "O' += V(n)' P', block", block,
            block * columns, (block + 1) * columns - 1);
  const KVMmaOp& op = buffer.kv_mma_op();
  op.emit_registers(w);
  const int offset = stage * buffer.stage_bytes();
  if (i < k_blocks) {
    emit_product(w, {buffer, offset, "q_reg", p.row_scales.target(), p.row_scales.begins_sum(block * columns),
                     block * op.steps()});
    p.row_scales.emit_columns_end(w, p.scores(), (block + 1) * columns, k_blocks * columns);
    if (block + 1 == k_blocks) emit_softmax(w, p);
  } else {
    emit_product(w, {buffer, offset, "p", "o_acc", false, 0, block * columns / p.mfma.shape.m});
  }
  w.close();
}

namespace {

/// Block `i` has landed, and every wave has finished the one before, whose stage the next copies may have.
void emit_turn(Writer& w, const PrefillPlan& p, int i, int stage) {
  const int blocks = p.tile_blocks(), ahead = p.ring_stages() - 1, loads = p.k->vm_exact();
  const int left = blocks - 1 - i;  // blocks of this tile after this one
  w.banner("block {} of tile n, in stage {}", i, stage);
  if (left >= ahead - 1) {
    emit_wait(w, p, (ahead - 1) * loads);
  } else {
    w.open("if (n + 1 < num_tiles)");
    emit_wait(w, p, (ahead - 1) * loads);
    w.reopen("else");
    emit_wait(w, p, left * loads);
    w.close();
  }
  if (i == 0) emit_key_scales(w, p);
  const int next_stage = (stage + ahead) % p.ring_stages();
  if (left >= ahead) {
    emit_block_load(w, p, i + ahead, next_stage);
  } else {
    w.open("if (n + 1 < num_tiles)");
    emit_block_load(w, p, i + ahead - blocks, next_stage);
    w.close();
  }
}

class BlockLoop final : public KvLoop {
 public:
  using KvLoop::KvLoop;
  std::string fact() const override {
    return fmt::format("Loads of one wave in flight: {} of a block; waits {}.\n", p_.k->copies(),
                       waits_of(p_));
  }
  void emit_first_loads(Writer& w) const override {
    for (int i = 0; i + 1 < p_.ring_stages(); ++i) emit_block_load(w, p_, i, i);
  }

 protected:
  void emit_tile(Writer& w, int tile) const override {
    const int blocks = p_.tile_blocks();
    for (int i = 0; i < blocks; ++i) {
      const int stage = (tile * blocks + i) % p_.ring_stages();
      emit_turn(w, p_, i, stage);
      emit_block(w, p_, i, stage);
    }
    emit_break(w);
  }
};

}  // namespace

std::unique_ptr<const KvLoop> block_loop(const PrefillPlan& p) {
  return std::make_unique<BlockLoop>(p);
}

}  // namespace kiln::cdna
