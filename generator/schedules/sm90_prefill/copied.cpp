// Tiles of K and V in sm90_prefill as the copies leave them, and what all kinds of tiles share.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

/// K and V in slots of one ring.
class SharedRing final : public KeyTiles {
 public:
  using KeyTiles::KeyTiles;
  void emit_init(Writer& w) const override { p_.k->ring().emit_init(w, 1, p_.k->empty_arrivals()); }
};

}  // namespace

void KeyTiles::use(Prelude& prelude) const {
  prelude.use(pack_name(p_.math));
}

void KeyTiles::emit_init(Writer& w) const {
  p_.k->ring().emit_init(w, 1, p_.k->empty_arrivals());
  p_.v->ring().emit_init(w, 1, p_.v->empty_arrivals());
}

void KeyTiles::emit_producer_state(Writer& w) const {
  p_.k->ring().emit_state(w, true);
  p_.v->ring().emit_state(w, true);
}

Landing KeyTiles::landing(const Tensor& of) const {
  const TMAConsumerPipeline& to = of.pipeline;
  return {
      to.ring(),       fmt::format("smem_{}", of.name), to.slot_bytes(),     p_.span_bytes,
      to.num_panels(), to.panels_per_chunk(),           to.staged_k_bytes(), of.k ? p_.k_fold : p_.v_fold};
}

Landing KeyTiles::rope_landing() const {
  const TMAConsumerPipeline& to = *p_.k;
  const int panels = to.num_panels() - p_.k_panels();
  Landing landing{to.ring(),
                  "smem_k",
                  to.slot_bytes(),
                  p_.span_bytes,
                  panels,
                  panels,
                  p_.BN * p_.rope * p_.element_bytes};
  landing.first_panel = p_.k_panels();
  return landing;
}

void KeyTiles::emit_turn(Writer& w) const {
  parts_.copies->emit_tile(w, parts_.k(), "n", *parts_.loop_waits);
  parts_.copies->emit_tile(w, parts_.v(), "n + 1", *parts_.loop_waits);
}

void KeyTiles::emit_pack(Writer& w, const char* from) const {
  const char* pack = pack_name(p_.math);
  for (int i = 0; i < p_.BN / 4; i += 2) {
    w.line("p[{0}] = {1}({7}[{2}], {7}[{3}]); p[{4}] = {1}({7}[{5}], {7}[{6}]);", i, pack, 2 * i, 2 * i + 1,
           i + 1, 2 * i + 2, 2 * i + 3, from);
  }
}

// Rows of V past a ragged sequence are those of the next one: P is 0 there, but 0 * NaN is NaN.
void KeyTiles::emit_zero_tail(Writer& w) const {
  const int threads = 128 * p_.num_math_warpgroups;
  w.comment("rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN");
  w.line("const int v_rows = work.seqlen_k - n * {};", p_.BN);
  w.open("if (v_rows < {})", p_.BN);
  p_.v->emit_wait(w, 0);
  p_.v->emit_zero_rows(w, "threadIdx.x - 128", threads);
  parts_.query->emit_fence_before(w);
  w.line("named_barrier_sync(7, {});  // every consumer reads these rows", threads);
  w.close();
}

std::vector<layout::Proof> KeyTiles::proofs() const {
  return operand_proofs("V", p_.v->tile(), p_.padded_ov, true);
}

std::unique_ptr<const KeyTiles> tiles_of(const Parts& parts) {
  if (parts.plan.fp8) return transposed_tiles(parts);
  if (parts.plan.narrow) return widened_tiles(parts);
  if (parts.plan.shared_ring) return std::make_unique<SharedRing>(parts);
  return std::make_unique<KeyTiles>(parts);
}

}  // namespace kiln::sm90::prefill
