#include "generator/schedules/sm100_decode/rings.hpp"

#include "generator/config/quantization.hpp"

namespace kiln::sm100 {
namespace {

/// L2 policy of K and V: evict first.
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

/// Bytes, and FP16 that four warps make of them.
class ByteRings final : public Rings {
 public:
  using Rings::Rings;
  void use(Prelude& prelude) const override {
    prelude.use("shared_words");
    prelude.use(*p_.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
    if (p_.config.dtype == DType::bf16) prelude.use("bf16_to_fp16");
  }
  void emit_addresses(Writer& w) const override {
    Rings::emit_addresses(w);
    const int raw = first_barrier() + p_.k->ring().barrier_bytes() + p_.v->ring().barrier_bytes();
    p_.raw_k->emit_addresses(w, raw);
    p_.raw_v->emit_addresses(w, raw + p_.raw_k->barrier_bytes());
  }
  void emit_init(Writer& w) const override {
    p_.k->ring().emit_init(w, kConverters, 1);
    p_.v->ring().emit_init(w, kConverters, 1);
    // One lane's bytes, and the lanes' own copies of scales.
    const int arrivals = p_.token_scale ? 33 : 1;
    p_.raw_k->emit_init(w, arrivals, kConverters), p_.raw_v->emit_init(w, arrivals, kConverters);
  }
  void emit_producer_states(Writer& w) const override {
    p_.raw_k->emit_state(w, true), p_.raw_v->emit_state(w, true);
  }
  void emit_converter_states(Writer& w) const override {
    p_.raw_k->emit_state(w, false), p_.raw_v->emit_state(w, false);
    p_.k->ring().emit_state(w, true), p_.v->ring().emit_state(w, true);
  }
  void emit_convert(Writer& w, bool k) const override;
  void emit_load_k(Writer& w) const override { emit_load_bytes(w, true); }
  void emit_load_v(Writer& w) const override { emit_load_bytes(w, false); }
  std::string k_get() const override { return "k_desc"; }
  std::string v_get() const override { return "v_desc"; }
  int launch_waits() const override { return p_.stream->range_reads_lengths() ? 4 : 5; }

 private:
  static constexpr int kConverters = 4;  ///< warps
  void emit_load_bytes(Writer& w, bool k) const;
};

/// The tile that has come to FP16.
void ByteRings::emit_convert(Writer& w, bool k) const {
  const StagedPipeline& from = k ? *p_.raw_k : *p_.raw_v;
  const StagedPipeline& to = k ? p_.k->ring() : p_.v->ring();
  const char* const name = k ? "k" : "v";
  from.emit_wait_full(w, 0);
  to.emit_wait_empty(w, 0);
  w.line("convert_tile<{}>(smem_{}, smem_raw_{} + {} * {}, {}, thread);", (k ? p_.depth : p_.ov_depth) / 16,
         name, name, from.stage(), p_.raw_bytes(k),
         k ? "128" : fmt::format("s.sequence.seqlen_k - n * {}", p_.BN));
  if (p_.token_scale)
    w.line("store_shared_float({} + 4 * thread, load_shared_float(smem + {} + {} * {} + 4 * thread));",
           k ? "smem_key_scales + turn * 512" : "smem_value_scales", p_.raw_scales_at(k), from.stage(),
           4 * p_.BN);
  w.line("fence_proxy_async();");
  w.line("__syncwarp();");
  w.line("if (lane == 0) mbarrier_arrive({}), mbarrier_arrive({});", from.empty(0), to.full(0));
  from.emit_step(w);
  to.emit_step(w);
}

/// K or V of tile n as bytes into the next slot, with the scales of its keys.
void ByteRings::emit_load_bytes(Writer& w, bool k) const {
  const StagedPipeline& ring = k ? *p_.raw_k : *p_.raw_v;
  const auto& operand = *p_.operand;
  const char* const name = k ? "k" : "v";
  ring.emit_wait_empty_by_warp(w, 0);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(0), p_.raw_bytes(k));
  if (p_.token_scale) {
    operand.emit_load_scales(
        w, "n",
        {name, 1, p_.raw_scales_at(k), ring.stage(), scales_by_head(p_.config.operand->quantization)});
    w.line("copy_async_arrive({});", ring.full(0));
  }
  const int piece = operand.eff_page() * (k ? p_.depth : p_.ov_depth);
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    w.line("tma_load(smem_raw_{0} + {1} * {2} + {3}{4}, &{0}_map, {5}, 0, {6}, {7});", name, ring.stage(),
           p_.raw_bytes(k), round * 32 * piece,
           operand.num_pages() > 1 ? fmt::format(" + lane * {}", piece) : "", ring.full(0),
           operand.coordinates("n", round), kEvictFirst);
    if (!condition.empty()) w.close();
  }
  ring.emit_step(w);
}

/// Latent rows. Nobody waits for V: S' of the tile, which was waited for, had all of K.
class LatentRings final : public Rings {
 public:
  using Rings::Rings;
  void emit_addresses(Writer& w) const override {
    p_.k->ring().emit_addresses(w, first_barrier());
    p_.v->ring().emit_addresses(w, first_barrier(), StagedPipeline::Named::empty);
  }
  void emit_init(Writer& w) const override { p_.k->ring().emit_init(w, 1, 1); }
  void emit_producer_states(Writer& w) const override { p_.k->ring().emit_state(w, true); }
  void emit_load_v(Writer&) const override {}
  void emit_scores_by_chunk(Writer& w) const override;
  void emit_v_state(Writer& w) const override {
    w.line("u32 {} = 0;  // K's slot of the tile whose V is next", p_.v->ring().stage());
  }
  void emit_wait_v(Writer&) const override {}
  void emit_step_v(Writer& w) const override {
    w.line("if (++{0} == {1}) {0} = 0;", p_.v->ring().stage(), p_.num_kv_stages);
  }
  void emit_release_chunks(Writer& w, int j) const override {
    for (int chunk = 0; chunk < p_.k->num_qk_stages_effective(); ++chunk)
      if (p_.last_reader(chunk) == j) w.line("tcgen05_commit(empty + {});", 8 * chunk);
  }
  std::string p_get() const override { return fmt::format("p_desc + v_stage * {}", p_.k->slot_bytes() >> 4); }
  const char* p_address() const override { return "p_of_tile"; }
};

/// Of each chunk of K when it has come.
void LatentRings::emit_scores_by_chunk(Writer& w) const {
  const int chunks = p_.k->num_qk_stages_effective();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    p_.k->emit_wait(w, chunk);
    w.open("if (elect_one())");
    w.line("issue_scores{}(tmem + s_buffer * {}, {}, q_desc);", chunks > 1 ? fmt::format("_{}", chunk) : "",
           p_.BM, p_.k->get());
    if (chunk + 1 == chunks) w.line("tcgen05_commit(mbar_s_full + 8 * s_buffer);");
    w.close();
  }
}

}  // namespace

void Rings::emit_addresses(Writer& w) const {
  p_.k->ring().emit_addresses(w, first_barrier());
  p_.v->ring().emit_addresses(w, first_barrier() + p_.k->ring().barrier_bytes());
}

void Rings::emit_init(Writer& w) const {
  p_.k->ring().emit_init(w, 1, 1);
  p_.v->ring().emit_init(w, 1, 1);
}

void Rings::emit_producer_states(Writer& w) const {
  p_.k->ring().emit_state(w, true), p_.v->ring().emit_state(w, true);
}

/// K or V of tile n into the next slot, chunk by chunk.
void Rings::emit_load(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const {
  const auto& ring = pipeline.ring();
  const auto& operand = *p_.operand;
  const int piece = operand.eff_page() * p_.kRowBytes, panels = pipeline.panels_per_chunk();
  const int chunks = pipeline.num_qk_stages_effective();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // Once a slot the lanes meet, at its last chunk.
    if (chunk + 1 < chunks)
      ring.emit_wait_empty(w, chunk);
    else
      ring.emit_wait_empty_by_warp(w, chunk);
    // Bytes of other lanes may land before they are expected: the phase waits for lane 0's arrival in any case.
    w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(chunk), pipeline.barrier_bytes());
    for (int round = 0; round < operand.rounds(); ++round) {
      const std::string condition = operand.issues(round);
      if (!condition.empty()) w.open("if ({})", condition);
      for (int panel = panels * chunk; panel < panels * (chunk + 1); ++panel)
        w.line("tma_load(smem_{0} + {1} * {2} + {3}{4}, &{0}_map, {5}, {6}, {7}, {8});", name, ring.stage(),
               pipeline.slot_bytes(), panel * pipeline.descriptor().tile().panel_bytes() + round * 32 * piece,
               operand.num_pages() > 1 ? fmt::format(" + lane * {}", piece) : "", ring.full(chunk),
               panel * 64, operand.coordinates("n", round), kEvictFirst);
      if (!condition.empty()) w.close();
    }
  }
  ring.emit_step(w);
}

std::unique_ptr<const Rings> rings_of(const DecodePlan& p) {
  if (p.narrow) return std::make_unique<ByteRings>(p);
  if (p.v_in_k) return std::make_unique<LatentRings>(p);
  return std::make_unique<Rings>(p);
}

}  // namespace kiln::sm100
