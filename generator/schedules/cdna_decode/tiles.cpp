// The KV tiles of cdna_decode: whole tiles of K and V in LDS (KVBuffer), or of K alone, whose first columns
// are V (MLA). A wave reads its keys of K, then its output columns of V.
#include "generator/emit/terms.hpp"
#include "generator/schedules/cdna_decode/tile_parts.hpp"
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
