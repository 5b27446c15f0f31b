// The producers of sm90_decode: one warp that keeps the rings of K and V full, or one for each.
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_decode/key_scales.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

void emit_load_chunk(Writer& w, const DecodePlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                     int qk) {
  const auto& ring = pipeline.ring();
  const auto& operand = *p.operand;
  const bool keys = name[0] == 'k';
  const KeyScales scales(p);
  const int fold = keys ? p.k_fold : p.v_fold, panels = pipeline.panels_per_chunk();
  ring.emit_wait_empty_by_warp(w, qk);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(qk), p.copied_bytes(pipeline, qk));
  // Bytes of other lanes may land before they are expected: the phase waits for lane 0's arrival in any case.
  scales.emit_load(w, name, ring);
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    // A panel of the tile, `offset` bytes from the slot's start: columns of `map` from `column` on.
    const auto load = [&](const std::string& map, int offset, int row_bytes, const std::string& coordinates) {
      const int piece_bytes = operand.eff_page() * row_bytes;
      std::string dst = fmt::format("{} + {}", pipeline.slot(), offset + round * 32 * piece_bytes);
      if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", piece_bytes);
      w.line("tma_load({}, &{}_map, {}, {}, 0x12F0000000000000ull);", dst, map, ring.full(qk), coordinates);
    };
    const int span = pipeline.tile().span_bytes;
    for (int panel = qk * panels; panel < (qk + 1) * panels; panel += fold)
      load(name, panel * p.BN * span, span * operand.inner(fold),
           operand.box_coordinates(name, "n", round, panel, pipeline.panel_columns(), fold));
    const bool last = qk + 1 == pipeline.num_qk_stages_effective();
    for (int panel = 0; keys && last && panel < p.rope_panels(); ++panel)
      load("k_rope", pipeline.rope_offset() + panel * p.rope_tile().panel_bytes(), 128,
           operand.box_coordinates("k_rope", "n", round, panel, 64, 1));
    scales.emit_copy(w, name, ring);
    if (!condition.empty()) w.close();
  }
}

void emit_load(Writer& w, const DecodePlan& p, const TMAConsumerPipeline& pipeline, const char* name) {
  w.comment("{}(n) into the next slot", name[0] == 'k' ? "K" : "V");
  for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) emit_load_chunk(w, p, pipeline, name, qk);
  pipeline.ring().emit_step(w);
}

/// The block's first tile to L2 while the launch before may still run, where lengths and tables are known by
/// then. A hint, so what that launch yet writes is seen all the same.
void emit_prefetch(Writer& w, const DecodePlan& p, bool k, bool v) {
  const auto& operand = *p.operand;
  const bool no_lengths = operand_form(p.config.operand->kind).batch_keys() && !p.mask->left_padding();
  w.open("if (launch_before == 1{})", no_lengths ? " || seqlens_k == nullptr" : "");
  w.line("Range ahead = range;");
  w.line("Segment s;");
  w.open("if (next_segment(problem, ahead, s))");
  operand.emit_populate_first(w, "s.tile_begin");  // what the loop looks up first is in L1 then
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    for (const auto* pipeline : {&*p.k, &*p.v}) {
      const bool keys = pipeline == &*p.k;
      if (keys ? !k : !v) continue;
      const int fold = keys ? p.k_fold : p.v_fold;
      for (int panel = 0; panel < pipeline->num_panels(); panel += fold)
        w.line("tma_prefetch(&{}_map, {});", keys ? "k" : "v",
               operand.box_coordinates(keys ? "k" : "v", "s.tile_begin", round, panel,
                                       pipeline->panel_columns(), fold));
      KeyScales(p).emit_prefetch(w, keys ? "k" : "v", "s.tile_begin", round);
      for (int panel = 0; keys && panel < p.rope_panels(); ++panel)
        w.line("tma_prefetch(&k_rope_map, {}, {});", 64 * panel, operand.coordinates("s.tile_begin", round));
    }
    if (!condition.empty()) w.close();
  }
  w.close();
  w.close();
}

}  // namespace

void emit_decode_producer(Writer& w, const DecodePlan& p, bool k, bool v) {
  w.banner("producer warp of {}: tiles are read once, so first out of L2", k && v ? "K and V"
                                                                           : k    ? "K"
                                                                                  : "V");
  if (k) p.k->ring().emit_state(w, true);
  if (v) p.v->ring().emit_state(w, true);
  if (p.stream->dynamic()) p.cells.emit_state(w, k);
  w.open("if (launch_before != 2)");
  emit_prefetch(w, p, k, v);
  w.line("wait_for_launch_before();");
  w.close();
  w.comment("not earlier: what the launch after this one is promised counts from here");
  w.line("let_next_launch_begin();");
  p.stream->emit_loop_open(w);
  p.operand->emit_lookup(w, "s.tile_begin");
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p.operand->emit_populate_ahead(w, "n", "s.tile_begin");
  if (k) emit_load(w, p, *p.k, "k");
  if (v) emit_load(w, p, *p.v, "v");
  w.close();
  p.stream->emit_loop_close(w, p.cells, k, p.cell_slots_free());
  if (!(k && p.producer_warps == 2)) {
    w.comment("who waits for this launch has waited for the one before it, too");
    w.line("wait_for_launch_before();");
  }
}

}  // namespace kiln::sm90
