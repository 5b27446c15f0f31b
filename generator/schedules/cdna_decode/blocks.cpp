// The KV tiles of cdna_decode with full_kv false: a tile passes through LDS as blocks of bk_smem columns, first
// those of K, then those of V, all the same size, in one ring of stages. Block i computes while the next
// k_stages - 1 blocks are on their way. A wave has its own keys of a block of K, and its share of the columns of
// a block of V.
#include <memory>

#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/systems/cdna/product.hpp"

namespace kiln::cdna {
namespace {

/// Starts the copies of block `i` of the tile that K's (or V's) iterator points to.
void emit_load(Writer& w, const DecodePlan& p, int i, int stage) {
  const int k_blocks = p.k_tile->blocks();
  i < k_blocks ? p.k_tile->emit_load_from_dram(w, stage, i)
               : p.v_tile->emit_load_from_dram(w, stage, i - k_blocks);
}

/// The same of block `i` counted on into the next tile, if there is one.
void emit_load_ahead(Writer& w, const DecodePlan& p, int i, int stage) {
  if (i < p.tile_blocks()) return emit_load(w, p, i, stage);
  w.open("if (n + 1 < tile_end)");
  emit_load(w, p, i - p.tile_blocks(), stage);
  w.close();
}

/// Loads of a wave that may fly while `blocks` blocks are on their way; 0 where waves differ.
int in_flight(const DecodePlan& p, int blocks) {
  const int loads = p.k_tile->vm_exact() == p.v_tile->vm_exact() ? blocks * p.k_tile->vm_exact() : 0;
  return (p.k_stages - 1) * p.k_tile->vm_exact() <= 63 ? loads : 0;
}

/// How blocks come to their stages: straight.
class Turns {
 public:
  explicit Turns(const DecodePlan& plan) : p_(plan) {}
  virtual ~Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Blocks that are asked for before the loop.
  virtual int blocks_before() const { return p_.k_stages - 1; }
  /// Block `i` is there, and every wave has finished the one before, whose stage the next copies may have.
  virtual void emit(Writer& w, int i, int stage) const {
    const int ahead = p_.k_stages - 1, left = p_.tile_blocks() - 1 - i;  // blocks of this tile after this one
    const int loads = in_flight(p_, ahead - 1), last = in_flight(p_, left);
    const char* const call = wait(i);
    if (left >= ahead - 1 || loads == last) {
      w.line("{}({});", call, loads);
    } else {
      w.line("if (n + 1 < tile_end) {0}({1}); else {0}({2});", call, loads, last);
    }
    emit_load_ahead(w, p_, i + ahead, (stage + ahead) % p_.k_stages);
  }
  /// A block of K before the last has been read.
  virtual void emit_k_read(Writer&) const {}

 protected:
  virtual const char* wait(int /*i*/) const { return "WAIT_LOADS_AND_SYNC"; }

  const DecodePlan& p_;
};

/// Of a block of K each wave copies the very keys that it reads: nobody waits for the others, and the next copies to
/// its place are the same wave's.
class OwnRowTurns final : public Turns {
 public:
  using Turns::Turns;
  /// Copies to its place may start.
  void emit_k_read(Writer& w) const override { p_.k_op().emit_arrived(w); }

 protected:
  const char* wait(int i) const override {
    return i > 0 && i < p_.k_tile->blocks() ? "WAIT_LOADS" : "WAIT_LOADS_AND_SYNC";
  }
};

/// By way of registers: the block is written, and the next one asked for.
class StagedTurns final : public Turns {
 public:
  using Turns::Turns;
  int blocks_before() const override { return 1; }
  void emit(Writer& w, int i, int stage) const override {
    (i < p_.k_tile->blocks() ? *p_.k_tile : *p_.v_tile).emit_store(w, stage);
    w.line("SYNC();");
    emit_load_ahead(w, p_, i + 1, 0);
  }
};

std::unique_ptr<const Turns> turns_of(const DecodePlan& p) {
  if (p.staged()) return std::make_unique<StagedTurns>(p);
  if (p.k_tile->own_rows()) return std::make_unique<OwnRowTurns>(p);
  return std::make_unique<Turns>(p);
}

void emit_k_block(Writer& w, const DecodePlan& p, const Turns& turns, int block, int stage) {
  const int columns = p.k_tile->stage().block_cols, last = p.k_tile->blocks() - 1;
  if (block == 0) emit_key_scales(w, p);
  w.open("");
  w.comment("S' += K(n) Q', columns {} .. {}", block * columns, (block + 1) * columns - 1);
  p.k_op().emit_registers(w);
  emit_product(w, {*p.k_tile, stage * p.k_tile->stage_bytes(), "q_reg", p.row_scales.target(),
                   p.row_scales.begins_sum(block * columns), block * p.k_op().steps()});
  p.row_scales.emit_columns_end(w, p.scores(), (block + 1) * columns, (last + 1) * columns);
  if (block < last) turns.emit_k_read(w);
  w.close();
  if (block == last) emit_decode_softmax(w, p);
}

void emit_v_block(Writer& w, const DecodePlan& p, int block, int stage) {
  const int columns = p.v_tile->stage().block_cols;
  if (block == 0) emit_read_p(w, p);
  w.open("");
  w.comment("O' += V(n)' P', columns {} .. {}", block * columns, (block + 1) * columns - 1);
  p.v_op().emit_registers(w);
  emit_product(w, {*p.v_tile, stage * p.v_tile->stage_bytes(), "p", "o_acc", false, 0,
                   block * p.wave_step / p.mfma.shape.m});
  w.close();
}

}  // namespace

void emit_decode_blocks(Writer& w, const DecodePlan& p) {
  const std::unique_ptr<const Turns> turns = turns_of(p);
  w.banner("KV tiles: at least one");
  for (int i = 0; i < turns->blocks_before(); ++i) emit_load(w, p, i, i);
  const int blocks = p.tile_blocks(), k_blocks = p.k_tile->blocks();
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  for (int tile = 0; tile < p.loop_tiles(); ++tile) {
    w.open("");
    for (int i = 0; i < blocks; ++i) {
      const int stage = (tile * blocks + i) % p.k_stages;
      w.banner("block {} of tile n, in stage {}", i, stage);
      turns->emit(w, i, stage);
      i < k_blocks ? emit_k_block(w, p, *turns, i, stage) : emit_v_block(w, p, i - k_blocks, stage);
    }
    w.close();
    w.line("if (++n == tile_end) break;");
  }
  w.close();
}

}  // namespace kiln::cdna
