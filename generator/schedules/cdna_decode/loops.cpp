#include "generator/schedules/cdna_decode/loops.hpp"
#include "generator/emit/terms.hpp"

namespace kiln::cdna {
namespace {

/// One strip of K or V at a time (strips.cpp).
class StripLoop final : public DecodeLoop {
 public:
  void use(Prelude& prelude, const DecodePlan& p) const override {
    p.k->use(prelude);
    p.v->use(prelude);
  }
  void emit_buffers(Writer& w, const DecodePlan& p, const std::string& rows) const override {
    const int size = p.kv_bytes() ? 1 : 2;
    p.k->emit_construct(w, 0, "k_head", times("k_stride_seq", size), rows, "first_key");
    p.v->emit_construct(w, p.smem_v, "v_head", times("v_stride_seq", size), rows, "first_key");
  }
  void emit(Writer& w, const DecodePlan& p) const override { emit_decode_strips(w, p); }
  int tiles(const DecodePlan&) const override { return 1; }
};

/// Whole tiles in stages (tiles.cpp).
class TileLoop : public DecodeLoop {
 public:
  void use(Prelude& prelude, const DecodePlan& p) const override {
    p.k_tile->use(prelude);
    p.v_tile->use(prelude);
    if (p.k_rope) p.k_rope->use(prelude);
  }
  void emit_buffers(Writer& w, const DecodePlan& p, const std::string& rows) const override {
    emit_tile_buffers(w, p, rows);
  }
  void emit(Writer& w, const DecodePlan& p) const override { emit_decode_tiles(w, p); }
  int tiles(const DecodePlan& p) const override { return p.loop_tiles(); }
};

/// K and V in turn in one stage (tiles.cpp).
class SharedTileLoop final : public TileLoop {
 public:
  void emit(Writer& w, const DecodePlan& p) const override { emit_shared_tiles(w, p); }
};

/// Blocks through a ring (blocks.cpp).
class BlockLoop final : public TileLoop {
 public:
  void use(Prelude& prelude, const DecodePlan& p) const override {
    TileLoop::use(prelude, p);
    prelude.use("wait_loads");
  }
  void emit(Writer& w, const DecodePlan& p) const override { emit_decode_blocks(w, p); }
};

}  // namespace

const DecodeLoop& loop_of(const DecodePlan& p) {
  static const StripLoop strips;
  static const TileLoop tiles;
  static const SharedTileLoop shared;
  static const BlockLoop blocks;
  if (p.streaming) return strips;
  if (p.blocks) return blocks;
  if (p.shared) return shared;
  return tiles;
}

}  // namespace kiln::cdna
