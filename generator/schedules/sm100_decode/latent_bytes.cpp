// Latent rows of bytes in sm100_decode: chunks of K come through a ring of their own, four warps turn them into FP16 in one
// or two places of a tile, whose first columns are V. Rotary columns that lie apart are not converted: they have a small
// ring, and a product in Q's type.
#include "generator/config/rope.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/sm100_decode/rings.hpp"

namespace kiln::sm100 {
namespace {

/// Two places: S' of a tile is there while softmax has the one before, and V's products free the place.
class LatentByteRings : public WidenedRings {
 public:
  using WidenedRings::WidenedRings;
  void emit_places(Writer& w) const override {
    w.line("const u32 smem_raw_k = smem + {};  // chunks as they come, rows of bytes", p_.smem_raw_k);
    if (p_.rope_apart()) w.line("const u32 smem_rope = smem + {};  // rotary columns of K", p_.smem_rope);
  }
  const char* prefetch_v() const override {
    return p_.rope_apart() ? "prefetch_tensor_map(&k_rope_map);" : "";
  }
  void emit_addresses(Writer& w) const override {
    const auto& k = p_.k->ring();
    k.emit_addresses(w, first_barrier());
    p_.v->ring().emit_addresses(w, first_barrier(), StagedPipeline::Named::empty);
    const int raw = first_barrier() + k.barrier_bytes();
    p_.raw_k->emit_addresses(w, raw);
    if (p_.rope_apart()) p_.rope_ring->emit_addresses(w, raw + p_.raw_k->barrier_bytes());
  }
  void emit_init(Writer& w) const override {
    p_.k->ring().emit_init(w, kConverters, 1);
    p_.raw_k->emit_init(w, scales_.full_arrivals(), kConverters);
    if (p_.rope_apart()) p_.rope_ring->emit_init(w, 1, 1);
  }
  void emit_producer_states(Writer& w) const override {
    p_.raw_k->emit_state(w, true);
    if (p_.rope_apart()) p_.rope_ring->emit_state(w, true);
  }
  void emit_converter_states(Writer& w) const override {
    p_.raw_k->emit_state(w, false), p_.k->ring().emit_state(w, true);
  }
  void emit_convert_k(Writer& w) const override;
  void emit_load_k(Writer& w) const override;
  void emit_load_v(Writer&) const override {}
  void emit_functions(Writer& w) const override;
  void emit_scores(Writer& w) const override;
  void emit_v_state(Writer& w) const override {
    if (p_.places > 1) w.line("u32 {} = 0;  // K's place of the tile whose V is next", p_.v->ring().stage());
    if (!p_.rope_apart()) return;
    p_.rope_ring->emit_state(w, false);
    const MMASmemDescriptor rotary{p_.rope_tile(), true};
    w.line("const u32 rope_desc = (smem_rope >> 4) | {:#x}u;", rotary.low());
  }
  void emit_wait_v(Writer&) const override {}
  void emit_step_v(Writer& w) const override { w.line("{} ^= 1;", p_.v->ring().stage()); }
  const char* converters_note() const override {
    return "// ---- bytes to FP16, a chunk of K's columns after the other, into a place that the products free. Rows past "
           "this\n// sequence belong to others: zeros, since 0 * NaN is NaN.";
  }
  const char* convert_function() const override { return "convert_chunk"; }

 private:
  int handed_over_at(int chunk) const { return p_.k->num_qk_stages_effective() > 1 ? chunk : 0; }
  void emit_issue_rotary(Writer& w) const;
};

/// A tile into its place, chunk by chunk.
void LatentByteRings::emit_convert_k(Writer& w) const {
  const auto& k = p_.k->ring();
  const int chunks = p_.num_qk_stages, own = p_.k->num_qk_stages_effective();
  const std::string place = p_.places > 1 ? fmt::format(" + {} * {}", k.stage(), p_.k->slot_bytes()) : "";
  const RawTensor of{"k",
                     *p_.raw_k,
                     k,
                     p_.k_columns,
                     p_.slot_bytes(),
                     p_.smem_raw_scales,
                     "",
                     "smem_key_scales + turn * 256"};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    p_.raw_k->emit_wait_full(w, 0);
    if (chunk < own) k.emit_wait_empty(w, chunk);
    for (int column = 0; column < p_.columns_of_chunk(chunk); column += 128)
      w.line(
          "convert_chunk<{}>(smem_k{} + {}, smem_raw_k + {} * {}{}, s.sequence.seqlen_k - n * {}, thread);",
          std::min(128, p_.columns_of_chunk(chunk) - column) / 16, place,
          (chunk * p_.chunk_columns() + column) / 64 * p_.k->descriptor().tile().panel_bytes(),
          p_.raw_k->stage(), p_.slot_bytes(), column > 0 ? fmt::format(" + {}", column) : "", p_.BN);
    if (chunk == 0) scales_.emit_convert(w, of);
    const bool there = chunk + own >= chunks;  // of one chunk the last hands over
    if (there) w.line("fence_proxy_async();");
    w.line("__syncwarp();");
    w.line("if (lane == 0) mbarrier_arrive({}){};", p_.raw_k->empty(0),
           there ? fmt::format(", mbarrier_arrive({})", k.full(handed_over_at(chunk))) : "");
    p_.raw_k->emit_step(w);
  }
  k.emit_step(w);
}

/// K of tile n as bytes, a chunk a slot, the scales of its keys with the first; then the rotary columns.
void LatentByteRings::emit_load_k(Writer& w) const {
  const StagedPipeline& ring = *p_.raw_k;
  const auto& operand = *p_.operand;
  const RawTensor of{"k", ring, p_.k->ring(), p_.k_columns, p_.slot_bytes(), p_.smem_raw_scales, "", ""};
  const int piece = operand.eff_page() * p_.chunk_columns();
  operand.emit_rows(w, "k");
  for (int chunk = 0; chunk < p_.num_qk_stages; ++chunk) {
    ring.emit_wait_empty_by_warp(w, 0);
    w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(0), of.bytes);
    chunk == 0 ? scales_.emit_load(w, of) : scales_.emit_load_none(w, of);
    for (int round = 0; round < operand.rounds(); ++round)
      operand.emit_boxes(
          w, round,
          {operand.copy(fmt::format("smem_raw_k + {} * {} + {}{}", ring.stage(), of.bytes, round * 32 * piece,
                                    operand.own_piece(piece)),
                        "k", ring.full(0), chunk * p_.chunk_columns(), "n", round, kEvictFirst)});
    ring.emit_step(w);
  }
  if (!p_.rope_apart()) return;
  const StagedPipeline& rope = *p_.rope_ring;
  const int rope_piece = operand.eff_page() * p_.span_bytes();
  const bool tail = has_rope_tail(p_.config);
  operand.emit_rows(w, "k_rope", tail ? 1 : 0, tail ? 2 : 0);
  rope.emit_wait_empty_by_warp(w, 0);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", rope.full(0), p_.rope_bytes());
  for (int round = 0; round < operand.rounds(); ++round) {
    std::vector<std::string> lines;
    lines.reserve(static_cast<std::size_t>(p_.rope_panels()));
    for (int panel = 0; panel < p_.rope_panels(); ++panel)
      lines.push_back(operand.copy(fmt::format("smem_rope + {} * {} + {}{}", rope.stage(), p_.rope_bytes(),
                                               panel * p_.rope_tile().panel_bytes() + round * 32 * rope_piece,
                                               operand.own_piece(rope_piece)),
                                   "k_rope", rope.full(0), panel * 64, "n", round, kEvictFirst));
    operand.emit_boxes(w, round, lines);
  }
  rope.emit_step(w);
}

/// The product of rotary columns, in Q's type: to what the others add up to, or apart.
void LatentByteRings::emit_functions(Writer& w) const {
  if (!p_.rope_apart()) return;
  const MMASmemDescriptor rotary{p_.rope_tile(), true};
  w.line("constexpr u32 kRotaryKind = {:#x}u;",
         layout::tcgen05_instruction(p_.config.dtype, p_.BN, p_.BM, false));
  w.open("__device__ __forceinline__ void issue_rotary(u32 s, u32 k, u32 q)");
  for (int step = 0; step < p_.rope / 16; ++step)
    w.line("mma_smem(s, descriptor(k + {}, kKHigh), descriptor(q + {}, kQHigh), kRotaryKind, {});",
           rotary.step(step), p_.q_descriptor().step(p_.k_steps() + step), step > 0 || !p_.rope_sums());
  w.close();
}

void LatentByteRings::emit_issue_rotary(Writer& w) const {
  if (!p_.rope_apart()) return;
  w.line("issue_rotary(tmem + {}s_buffer * {}, rope_desc + {} * {}, q_desc);",
         p_.rope_sums() ? fmt::format("{} + ", 2 * p_.BM) : "", p_.BM, p_.rope_ring->stage(),
         p_.rope_bytes() >> 4);
  w.line("tcgen05_commit({});", p_.rope_ring->empty(0));
}

void LatentByteRings::emit_scores(Writer& w) const {
  const int own = p_.k->num_qk_stages_effective();
  for (int chunk = 0; chunk < own; ++chunk) {
    const bool last = chunk + 1 == own;
    p_.k->emit_wait(w, chunk);
    if (last && p_.rope_apart()) p_.rope_ring->emit_wait_full(w, 0);
    w.open("if (elect_one())");
    w.line("{}", issue_scores(chunk));
    if (last) emit_issue_rotary(w);
    if (last) w.line("tcgen05_commit(mbar_s_full + 8 * s_buffer);");
    w.close();
  }
  if (p_.rope_apart()) p_.rope_ring->emit_step(w);
}

/// One place: a tile's products are issued before S' of the next, and free it chunk by chunk.
class OnePlaceRings final : public LatentByteRings {
 public:
  using LatentByteRings::LatentByteRings;
  void emit_step_v(Writer&) const override {}
  void emit_release_chunks(Writer& w, int j) const override {
    for (int chunk = 0; chunk < p_.k->num_qk_stages_effective(); ++chunk)
      if (p_.last_reader(chunk) == j) w.line("tcgen05_commit(empty + {});", 8 * chunk);
  }
  const char* await_output() const override { return ""; }
  const char* products() const override { return "latent_products"; }
  const char* output_note() const override {
    return "// Chunks of the place come free with the last block that reads them, at barriers from `empty` on.";
  }
  const char* output_more() const override { return ", u32 empty"; }
  std::string output_arguments() const override { return p_.v->ring().empty(0); }
};

}  // namespace

std::unique_ptr<const Rings> latent_byte_rings(const DecodePlan& p, const KeyScales& scales) {
  if (p.places > 1) return std::make_unique<LatentByteRings>(p, scales);
  return std::make_unique<OnePlaceRings>(p, scales);
}

}  // namespace kiln::sm100
