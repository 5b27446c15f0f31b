// The producers of sm90_decode: one warp that keeps the rings of K and V full, or one for each.
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"

namespace kiln::sm90 {
namespace {

/// Columns of a tile that one tensor copy brings.
struct Panel {
  std::string map;
  int offset;     ///< bytes from the slot's start
  int row_bytes;  ///< of a row in all of its panels that lie side by side
  int index, columns, fold;
};

/// Those of chunk `qk`: rotary columns come with the last one.
std::vector<Panel> panels_of(const DecodePlan& p, const Tensor& of, int qk) {
  const TMAConsumerPipeline& pipeline = of.pipeline;
  const int span = pipeline.tile().span_bytes, panels = pipeline.panels_per_chunk();
  std::vector<Panel> out;
  for (int panel = qk * panels; panel < (qk + 1) * panels; panel += of.fold)
    out.push_back({of.name, panel * p.BN * span, span * p.operand->inner(of.fold), panel,
                   pipeline.panel_columns(), of.fold});
  if (qk + 1 < pipeline.num_qk_stages_effective()) return out;
  for (int panel = 0; panel < of.rope_panels; ++panel)
    out.push_back(
        {"k_rope", pipeline.rope_offset() + panel * p.rope_tile().panel_bytes(), 128, panel, 64, 1});
  return out;
}

/// `emit` where this lane has a piece of round `round`.
template <class Emit>
void emit_issued(Writer& w, const MHAOperand& operand, int round, const Emit& emit) {
  const std::string condition = operand.issues(round);
  if (!condition.empty()) w.open("if ({})", condition);
  emit();
  if (!condition.empty()) w.close();
}

void emit_panel(Writer& w, const DecodePlan& p, const Tensor& of, const Panel& panel, int qk, int round) {
  const MHAOperand& operand = *p.operand;
  const int piece_bytes = operand.eff_page() * panel.row_bytes;
  std::string dst = fmt::format("{} + {}", of.pipeline.slot(), panel.offset + round * 32 * piece_bytes);
  if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", piece_bytes);
  w.line("tma_load({}, &{}_map, {}, {}, {});", dst, panel.map, of.pipeline.ring().full(qk),
         operand.box_coordinates(panel.map.c_str(), "n", round, panel.index, panel.columns, panel.fold),
         kEvictFirst);
}

void emit_load_chunk(Writer& w, const Parts& parts, const Tensor& of, int qk) {
  const DecodePlan& p = parts.plan;
  const StagedPipeline& ring = of.pipeline.ring();
  ring.emit_wait_empty_by_warp(w, qk);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(qk), p.copied_bytes(of.pipeline, qk));
  // Bytes of other lanes may land before they are expected: the phase waits for lane 0's arrival in any case.
  parts.scales->emit_load(w, of);
  for (int round = 0; round < p.operand->rounds(); ++round) {
    emit_issued(w, *p.operand, round, [&] {
      for (const Panel& panel : panels_of(p, of, qk)) emit_panel(w, p, of, panel, qk, round);
      parts.scales->emit_copy(w, of);
    });
  }
}

void emit_load(Writer& w, const Parts& parts, const Tensor& of) {
  w.comment("{}(n) into the next slot", of.title);
  for (int qk = 0; qk < of.pipeline.num_qk_stages_effective(); ++qk) emit_load_chunk(w, parts, of, qk);
  of.pipeline.ring().emit_step(w);
}

/// A tensor's part of the block's first tile to L2.
void emit_prefetch_tensor(Writer& w, const Parts& parts, const Tensor& of, int round) {
  const MHAOperand& operand = *parts.plan.operand;
  for (int panel = 0; panel < of.pipeline.num_panels(); panel += of.fold)
    w.line(
        "tma_prefetch(&{}_map, {});", of.name,
        operand.box_coordinates(of.name, "s.tile_begin", round, panel, of.pipeline.panel_columns(), of.fold));
  parts.scales->emit_prefetch(w, of, "s.tile_begin", round);
  for (int panel = 0; panel < of.rope_panels; ++panel)
    w.line("tma_prefetch(&k_rope_map, {}, {});", 64 * panel, operand.coordinates("s.tile_begin", round));
}

/// The block's first tile to L2 while the launch before may still run, where lengths and tables are known by
/// then. A hint, so what that launch yet writes is seen all the same.
void emit_prefetch(Writer& w, const Parts& parts, const std::vector<Tensor>& tensors) {
  const DecodePlan& p = parts.plan;
  const bool no_lengths = operand_form(p.config.operand->kind).batch_keys() && !p.mask->left_padding();
  w.open("if (launch_before == 1{})", no_lengths ? " || seqlens_k == nullptr" : "");
  w.line("Range ahead = range;");
  w.line("Segment s;");
  w.open("if (next_segment(problem, ahead, s))");
  p.operand->emit_populate_first(w, "s.tile_begin");  // what the loop looks up first is in L1 then
  for (int round = 0; round < p.operand->rounds(); ++round) {
    emit_issued(w, *p.operand, round, [&] {
      for (const Tensor& of : tensors) emit_prefetch_tensor(w, parts, of, round);
    });
  }
  w.close();
  w.close();
}

}  // namespace

void emit_decode_producer(Writer& w, const Parts& parts, std::size_t number) {
  const DecodePlan& p = parts.plan;
  const std::vector<Tensor>& tensors = parts.producers[number];
  const bool first = number == 0;
  std::string titles;
  for (const Tensor& of : tensors) titles += (titles.empty() ? "" : " and ") + std::string(of.title);
  w.banner("producer warp of {}: tiles are read once, so first out of L2", titles);
  for (const Tensor& of : tensors) of.pipeline.ring().emit_state(w, true);
  if (p.stream->dynamic()) p.cells.emit_state(w, first);
  w.open("if (launch_before != 2)");
  emit_prefetch(w, parts, tensors);
  w.line("wait_for_launch_before();");
  w.close();
  w.comment("not earlier: what the launch after this one is promised counts from here");
  w.line("let_next_launch_begin();");
  p.stream->emit_loop_open(w);
  p.operand->emit_lookup(w, "s.tile_begin");
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p.operand->emit_populate_ahead(w, "n", "s.tile_begin");
  for (const Tensor& of : tensors) emit_load(w, parts, of);
  w.close();
  p.stream->emit_loop_close(w, p.cells, first, p.cell_slots_free());
  if (number + 1 < parts.producers.size()) return;
  w.comment("who waits for this launch has waited for the one before it, too");
  w.line("wait_for_launch_before();");
}

}  // namespace kiln::sm90
