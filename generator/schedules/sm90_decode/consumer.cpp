// The consumer of sm90_decode: its main loop and what all of its kinds share.
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {

std::unique_ptr<const Consumer> consumer_of(const Parts& parts) {
  const DecodePlan& p = parts.plan;
  if (p.seesaw) return std::make_unique<Seesaw>(parts);
  if (p.warpgroups > 1) return std::make_unique<TwoWarpgroups>(parts);
  if (p.upright) return std::make_unique<RowsOnM>(parts);
  if (p.fp8_q) return std::make_unique<BytesOfQ>(parts);
  if (p.grouped()) return std::make_unique<GroupedKeys>(parts);
  if (p.narrow) return std::make_unique<WidenedKeys>(parts);
  return std::make_unique<KeysOnM>(parts);
}

void Consumer::emit(Writer& w) const {
  emit_head(w);
  w.line("const int group = heads_q / heads_kv;  // query heads of a KV head");
  w.line("{}float factor = {};  // from scores to log2 units", p_.scale_in_factor() ? "" : "const ",
         p_.modifier->scale_log2());
  emit_names(w);
  if (p_.stream->splits()) w.line("int* const own_share = (int*)(smem_bytes + {});", p_.smem_flag);
  p_.k->ring().emit_state(w, false);
  p_.v->ring().emit_state(w, false);
  emit_state(w);
  if (p_.stream->dynamic()) p_.cells.emit_state(w, false);
  p_.stream->emit_loop_open(w);
  emit_item(w);
  emit_tiles(w);
  emit_last_release(w);
  emit_epilogue(w);
  p_.stream->emit_loop_close(w, p_.cells, false, p_.cell_slots_free());
}

void Consumer::emit_tiles(Writer& w) const {
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p_.mask->emit_load(w, p_.score_context(), fmt::format("n * {}", p_.BN), true);
  emit_qk(w);
  emit_probabilities(w);
  emit_pv(w);
  w.close();
}

void Consumer::emit_head(Writer& w) const {
  w.banner("consumer warpgroup");
  w.line("if (launch_before != 2) wait_for_launch_before();");
  w.line("const int warp = threadIdx.x / 32;");
}

void Consumer::emit_item(Writer& w) const {
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p_.BM);
  scales_.emit_item(w);
  emit_store_q(w);
  emit_reset(w);
  emit_limits(w, p_);
}

void Consumer::emit_k(Writer& w, const char* title) const {
  w.comment("{}", title);
  p_.k->emit_wait(w, 0);
  w.line("const u32 k_low = {};", p_.k->get());
}

void Consumer::emit_chunks(Writer& w) const {
  w.line("wgmma_fence();");
  for (int qk = 0; qk < p_.num_qk_stages; ++qk) {
    if (qk > 0) {
      p_.k->emit_wait(w, qk);
      w.line("wgmma_fence();  // the wait branched: the registers are ordered anew");
    }
    emit_chunk(w, qk);
    w.line("wgmma_commit();");
  }
}

void Consumer::emit_wait_chunks(Writer& w) const {
  // Not chunk by chunk: ptxas serialises products whose accumulators others of the group still write (C7514).
  w.line("WGMMA_WAIT(0);");
  for (int qk = 0; qk + 1 < p_.num_qk_stages; ++qk) parts_.values->emit_release_k(w, qk);
  scales_.emit_of_tile(w);
  parts_.values->emit_release_k(w, p_.num_qk_stages - 1);
  p_.k->ring().emit_step(w);
}

void Consumer::emit_release_before(Writer& w) const {
  w.open("if (n > s.tile_begin)");
  p_.v->emit_arrivals(w, "  // V(n - 1)");
  p_.v->ring().emit_step(w);
  w.close();
}

void Consumer::emit_release_v(Writer& w) const {
  w.line("WGMMA_WAIT(0);");
  parts_.segments->open_if_tiles(w);
  p_.v->emit_arrivals(w);
  p_.v->ring().emit_step(w);
  parts_.segments->close_if_tiles(w);
}

void Consumer::emit_zero_tail(Writer& w) const {
  w.comment("rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN");
  w.line("const int v_rows = max(s.sequence.seqlen_k - n * {}, 0);", p_.BN);
  w.open("if (v_rows < {})", p_.BN);
  scales_.emit_wait_v(w);
  emit_before_zeros(w);
  p_.v->emit_zero_rows(w, "threadIdx.x", p_.consumer_threads());
  // wgmma reads the slot, and the next copy writes it. Where P comes next its fence serves both.
  emit_after_zeros(w);
  w.close();
}

void Consumer::expect_wgmma(Manifest& manifest, int n, int k, int count) const {
  manifest.expectations.push_back({fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}", n, k), count});
}

}  // namespace kiln::sm90
