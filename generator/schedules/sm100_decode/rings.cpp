#include "generator/schedules/sm100_decode/rings.hpp"

namespace kiln::sm100 {
namespace {

/// K and V of a tile, each in one place.
class ByteRings : public WidenedRings {
 public:
  using WidenedRings::WidenedRings;
  void emit_places(Writer& w) const override {
    w.line("const u32 smem_raw_k = smem + {}, smem_raw_v = smem + {};  // as they come, rows of bytes",
           p_.smem_raw_k, p_.smem_raw_v);
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
    const int arrivals = scales_.full_arrivals();
    p_.raw_k->emit_init(w, arrivals, kConverters), p_.raw_v->emit_init(w, arrivals, kConverters);
  }
  void emit_producer_states(Writer& w) const override {
    p_.raw_k->emit_state(w, true), p_.raw_v->emit_state(w, true);
  }
  void emit_converter_states(Writer& w) const override {
    p_.raw_k->emit_state(w, false), p_.raw_v->emit_state(w, false);
    p_.k->ring().emit_state(w, true), p_.v->ring().emit_state(w, true);
  }
  void emit_convert_k(Writer& w) const override { emit_convert(w, k()); }
  void emit_convert_v(Writer& w) const override {
    w.comment("rows of V past this sequence belong to others: zeros, since 0 * NaN is NaN");
    emit_convert(w, v());
  }
  void emit_load_k(Writer& w) const override { emit_load_bytes(w, k()); }
  void emit_load_v(Writer& w) const override { emit_load_bytes(w, v()); }
  const char* converters_note() const override {
    return p_.block > 0
               ? "// ---- bytes and their scales to 16 bits: K and V of a tile, each into one place that the products free"
               : "// ---- bytes to FP16: K and V of a tile, each into one place that the products free";
  }
  const char* convert_function() const override { return scales_.convert_function(); }

 protected:
  /// The tile that has come, into its place.
  virtual void emit_convert_tile(Writer& w, const RawTensor& of) const;

 private:
  RawTensor k() const {
    return {"k",
            *p_.raw_k,
            p_.k->ring(),
            p_.depth,
            p_.raw_bytes(true),
            p_.raw_scales_at(true),
            std::to_string(p_.BN),
            fmt::format("smem_key_scales + turn * {}", 4 * p_.BN)};
  }
  RawTensor v() const {
    return {"v",
            *p_.raw_v,
            p_.v->ring(),
            p_.ov_depth,
            p_.raw_bytes(false),
            p_.raw_scales_at(false),
            fmt::format("s.sequence.seqlen_k - n * {}", p_.BN),
            "smem_value_scales"};
  }
  void emit_convert(Writer& w, const RawTensor& of) const;
  void emit_load_bytes(Writer& w, const RawTensor& of) const;
};

void ByteRings::emit_convert_tile(Writer& w, const RawTensor& of) const {
  w.line("convert_tile<{}>(smem_{}, smem_raw_{} + {} * {}, {}{}, thread);", of.columns / 16, of.name, of.name,
         of.from.stage(), of.bytes, of.rows, scales_.convert_argument(of));
}

/// The tile that has come to 16 bits.
void ByteRings::emit_convert(Writer& w, const RawTensor& of) const {
  of.from.emit_wait_full(w, 0);
  of.to.emit_wait_empty(w, 0);
  emit_convert_tile(w, of);
  scales_.emit_convert(w, of);
  w.line("fence_proxy_async();");
  w.line("__syncwarp();");
  w.line("if (lane == 0) mbarrier_arrive({}), mbarrier_arrive({});", of.from.empty(0), of.to.full(0));
  of.from.emit_step(w);
  of.to.emit_step(w);
}

/// K or V of tile n as bytes into the next slot, with the scales of its keys.
void ByteRings::emit_load_bytes(Writer& w, const RawTensor& of) const {
  const StagedPipeline& ring = of.from;
  const auto& operand = *p_.operand;
  ring.emit_wait_empty_by_warp(w, 0);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(0), of.bytes);
  scales_.emit_load(w, of);
  const int piece = operand.eff_page() * p_.row_bytes(of.columns);
  operand.emit_rows(w, of.name);
  for (int round = 0; round < operand.rounds(); ++round)
    operand.emit_boxes(w, round,
                       {operand.copy(fmt::format("smem_raw_{} + {} * {} + {}{}", of.name, ring.stage(),
                                                 of.bytes, round * 32 * piece, operand.own_piece(piece)),
                                     of.name, ring.full(0), 0, "n", round, kEvictFirst)});
  ring.emit_step(w);
}

/// Wide rows of 64 keys, 128 columns after the other.
class WideByteRings final : public ByteRings {
 public:
  using ByteRings::ByteRings;
  const char* convert_function() const override { return "convert_chunk"; }

 private:
  void emit_convert_tile(Writer& w, const RawTensor& of) const override {
    const int panel = p_.k->descriptor().tile().panel_bytes();
    for (int column = 0; column < of.columns; column += 128)
      w.line("convert_chunk<{}, {}>(smem_{} + {}, smem_raw_{} + {} * {} + {}, {}, thread);",
             std::min(128, of.columns - column) / 16, of.columns, of.name, column / 64 * panel, of.name,
             of.from.stage(), of.bytes, column, of.rows);
  }
};

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
  void emit_await_slot(Writer& w, const TMAConsumerPipeline& pipeline, int chunk) const override;
  void emit_release_k(Writer&, int) const override {}
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
  const char* prefetch_v() const override { return p_.rope > 0 ? "prefetch_tensor_map(&k_rope_map);" : ""; }
  const char* await_output() const override { return ""; }
  const char* products() const override { return "latent_products"; }
  void emit_p_place(Writer& w) const override {
    w.line("const u32 p_of_tile = p_at + v_stage * {};  // over columns of K that S' was the last to read",
           p_.k->slot_bytes());
  }
  const char* output_note() const override {
    return "// Chunks of the slot come free with the last block that reads them, at barriers from `empty` on; P's with the last of all.";
  }
  const char* output_more() const override { return ", u32 empty"; }
  std::string output_arguments() const override { return p_.v->ring().empty(0); }
  std::string p_get() const override { return fmt::format("p_desc + v_stage * {}", p_.k->slot_bytes() >> 4); }
  const char* p_address() const override { return "p_of_tile"; }
};

/// No chunk comes free before all of the slot are there: once a slot the lanes meet, at its last chunk.
void LatentRings::emit_await_slot(Writer& w, const TMAConsumerPipeline& pipeline, int chunk) const {
  if (chunk + 1 == pipeline.num_qk_stages_effective()) return Rings::emit_await_slot(w, pipeline, chunk);
  pipeline.ring().emit_wait_empty(w, chunk);
}

/// A slot of K and one of V, in chunks: each is on its way again as soon as its product has ended. O' of a tile is
/// issued before S' of the next, so V of one comes while K of the other is read.
class SingleRings final : public Rings {
 public:
  using Rings::Rings;
  const char* await_output() const override { return ""; }
  const char* products() const override { return "latent_products"; }
  void emit_await_block(Writer& w, int j) const override {
    w.line("mbarrier_wait(full + {}, phase);", 8 * j);
  }
  void emit_release_chunks(Writer& w, int j) const override { w.line("tcgen05_commit(empty + {});", 8 * j); }
  const char* output_note() const override {
    return "// Each block of V's columns when it has come, at barriers from `full` on; it comes free at one from `empty` on.";
  }
  const char* output_more() const override { return ", u32 full, u32 phase, u32 empty"; }
  std::string output_arguments() const override {
    const StagedPipeline& v = p_.v->ring();
    return fmt::format("{}, {}, {}", v.full(0), v.phase(), v.empty(0));
  }
};

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

/// Of each chunk of K when it has come.
void Rings::emit_scores(Writer& w) const {
  const int chunks = p_.k->num_qk_stages_effective();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    p_.k->emit_wait(w, chunk);
    w.open("if (elect_one())");
    w.line("{}", issue_scores(chunk));
    if (chunk + 1 == chunks) w.line("tcgen05_commit(mbar_s_full + 8 * s_buffer);");
    emit_release_k(w, chunk);
    w.close();
  }
}

void Rings::emit_release_k(Writer& w, int chunk) const {
  w.line("tcgen05_commit({});", p_.k->ring().empty(chunk));
}

void Rings::emit_wait_v(Writer& w) const {
  for (int chunk = 0; chunk < p_.v->num_qk_stages_effective(); ++chunk) p_.v->emit_wait(w, chunk);
}

void Rings::emit_await_slot(Writer& w, const TMAConsumerPipeline& pipeline, int chunk) const {
  pipeline.ring().emit_wait_empty_by_warp(w, chunk);
}

std::string Rings::issue_scores(int chunk) const {
  return fmt::format("issue_scores{}(tmem + s_buffer * {}, {}, q_desc);",
                     p_.k->num_qk_stages_effective() > 1 ? fmt::format("_{}", chunk) : "", p_.BM,
                     p_.k->get());
}

/// K or V of tile n into the next slot, chunk by chunk. Rotary columns of a tensor of their own are the last panels.
void Rings::emit_load(Writer& w, const TMAConsumerPipeline& pipeline, const char* name) const {
  const auto& ring = pipeline.ring();
  const auto& operand = *p_.operand;
  const int piece = operand.eff_page() * p_.span_bytes(), panels = pipeline.panels_per_chunk();
  const int chunks = pipeline.num_qk_stages_effective();
  operand.emit_rows(w, name);
  if (p_.rope > 0 && *name == 'k') operand.emit_rows(w, "k_rope");
  for (int chunk = 0; chunk < chunks; ++chunk) {
    emit_await_slot(w, pipeline, chunk);
    // Bytes of other lanes may land before they are expected: the phase waits for lane 0's arrival in any case.
    w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(chunk), pipeline.barrier_bytes());
    for (int round = 0; round < operand.rounds(); ++round) {
      std::vector<std::string> lines;
      for (int panel = panels * chunk; panel < panels * (chunk + 1); ++panel) {
        const bool rotary = p_.rope > 0 && panel * 64 >= p_.k_columns;
        const std::string to =
            fmt::format("{} + {}{}", pipeline.address(),
                        panel * pipeline.descriptor().tile().panel_bytes() + round * 32 * piece,
                        operand.own_piece(piece));
        lines.push_back(operand.copy(to, rotary ? "k_rope" : name, ring.full(chunk),
                                     panel * 64 - (rotary ? p_.k_columns : 0), "n", round, kEvictFirst));
      }
      operand.emit_boxes(w, round, lines);
    }
  }
  ring.emit_step(w);
}

std::unique_ptr<const Rings> rings_of(const DecodePlan& p, const KeyScales& scales) {
  if (p.latent_bytes()) return latent_byte_rings(p, scales);
  if (p.narrow && p.wide) return std::make_unique<WideByteRings>(p, scales);
  if (p.narrow) return std::make_unique<ByteRings>(p, scales);
  if (p.v_in_k) return std::make_unique<LatentRings>(p, scales);
  if (p.num_kv_stages == 1) return std::make_unique<SingleRings>(p, scales);
  return std::make_unique<Rings>(p, scales);
}

}  // namespace kiln::sm100
