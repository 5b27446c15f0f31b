// A consumer warpgroup of sm90_prefill. Per work item:
//
//   tiles that other warpgroups' rows see, but none of this one's: released as they are
//   S(last) = Q K(last)'          softmax                                       peeled, always masked
//   S(n) = Q K(n)' | O += P V(n+1)    softmax(n) while P V runs                 masked tiles, clean ones,
//   masked ones O += P V(first)                                                             drained O /
//   row_sum -> shared memory -> TMA store; LSE
#include "generator/schedules/sm90_prefill/consumer.hpp"

#include "generator/schedules/common/kv_loop_text.hpp"

namespace kiln::sm90::prefill {

void emit_consumer(Writer& w, const Parts& parts) {
  Consumer(parts).emit(w);
}

void Consumer::emit(Writer& w) const {
  w.banner("consumers: 64 query rows each");
  emit_state(w);
  parts_.items->emit_open(w, ItemReader::consumer);
  emit_item(w);
  w.open("if (work.num_blocks > 0)");
  w.line("int n = work.num_blocks - 1;");
  parts_.items->emit_zero_tail(w);
  emit_await_q(w);
  parts_.query->emit_convert(w);
  range_->emit_position(w);
  skipped_->emit(w, *turns_);
  emit_first_tile(w);
  range_->emit(w, *this);
  emit_last_product(w);
  parts_.output->emit_empty_consumer(w);
  w.close();
  emit_epilogue(w, parts_);
  parts_.items->emit_close(w, ItemReader::consumer);
  parts_.output->emit_end(w);
}

void Consumer::emit_tile(Writer& w, Mask::Sides sides) const {
  const TilePass& pass = sides.upper || sides.lower ? *edge_ : *inside_;
  p_.mask->emit_load(w, p_.score_context(), first_key(), false);
  turns_->emit_take(w);
  w.comment("S(n) = Q K(n)'");
  for (int qk = 0; qk < p_.num_qk_stages; ++qk) {
    parts_.scales->emit_wait_k(w, qk);
    emit_qk_chunk(w, qk);
  }
  w.comment("O += P(n+1) V(n+1)");
  parts_.scales->emit_wait_v(w);
  emit_pv(w);
  turns_->emit_pass_early(w);
  emit_await_qk(w, 1);
  turns_->emit_pass_late(w);
  parts_.scales->emit_scores(w);
  parts_.scales->emit_release_after_scores(w);
  emit_visible(w, sides);
  parts_.scales->emit_weights(w);
  w.comment("softmax(n), while P(n+1) V(n+1) runs");
  pass.emit(w);
  parts_.scales->emit_release_after_p(w);
  w.line("WGMMA_WAIT(0);");
  p_.v->emit_release_all(w);
  p_.softmax->emit_rescale(w);
  pass.emit_take(w);
}

void Consumer::emit_first_tile(Writer& w) const {
  w.banner("first KV tile (the last keys)");
  w.open("");
  p_.mask->emit_load(w, p_.score_context(), first_key(), true);
  w.comment("S(n) = Q K(n)'");
  for (int qk = 0; qk < p_.num_qk_stages; ++qk) {
    p_.k->emit_wait(w, qk);
    emit_qk_chunk(w, qk);
  }
  emit_await_qk(w, 0);
  parts_.scales->emit_scores(w);
  parts_.scales->emit_release_after_scores(w);
  emit_visible(w, {});
  parts_.scales->emit_weights(w);
  parts_.scales->emit_first_weights(w);
  p_.softmax->emit_max(w, true, true);
  p_.softmax->emit_exp(w, 0, p_.BN / 2, true);
  parts_.scales->emit_weigh(w, true);
  parts_.scales->emit_release_after_p(w);
  parts_.scales->emit_pack(w, "s_acc");
  w.close();
}

void Consumer::emit_last_product(Writer& w) const {
  parts_.output->emit_q_read(w);
  w.banner("O += P V of the last tile");
  w.open("");
  parts_.scales->emit_wait_v(w);
  emit_pv(w);
  w.line("WGMMA_WAIT(0);");
  parts_.scales->emit_last_read(w);
  p_.v->emit_release_all(w);
  w.close();
}

/// The products of S with chunk `qk` of K, which is there.
void Consumer::emit_qk_chunk(Writer& w, int qk) const {
  const int steps = p_.k_steps() / p_.num_qk_stages;
  const auto q_high = fmt::format("{:#x}u", k_major_descriptor(p_.q_tile()).high);
  if (qk == 0) w.line("const u32 k_low = {};", p_.k->get());
  w.line("wgmma_fence();");
  for (int step = qk * steps; step < (qk + 1) * steps; ++step) {
    parts_.scales->emit_next_unit(w, step);
    const Wgmma& product = p_.is_rope_step(step) ? *p_.qk_rope : *p_.qk;
    w.line("{}(s_acc, descriptor(q_desc + {}, {}), descriptor(k_low + {}, {}));", product.name(step == 0),
           k_major_step(p_.q_tile(), step), q_high, p_.k->step(step), p_.k->descriptor_high());
  }
  w.line("wgmma_commit();");
}

// Until S is there, with `later` products still running: each chunk of K but the last is released as soon as
// its own products have ended, so that the producer refills it while the others are read.
void Consumer::emit_await_qk(Writer& w, int later) const {
  const int chunks = p_.num_qk_stages;
  for (int qk = 0; qk + 1 < chunks; ++qk) {
    w.line("WGMMA_WAIT({});", later + chunks - 1 - qk);
    p_.k->emit_release(w, qk);
  }
  w.line("WGMMA_WAIT({});", later);
}

void Consumer::emit_pv(Writer& w) const {
  w.line("const u32 v_low = {};", p_.v->get());
  w.line("wgmma_fence();");
  for (int step = 0; step < p_.v_steps(); ++step) {
    w.line("{}(o_acc, p[{}], p[{}], p[{}], p[{}], descriptor(v_low + {}, {}));", p_.pv->name(false), 4 * step,
           4 * step + 1, 4 * step + 2, 4 * step + 3, p_.v->step(step), p_.v->descriptor_high());
  }
  w.line("wgmma_commit();");
}

// S becomes what softmax takes: modified, and -inf where a row does not see the key.
void Consumer::emit_visible(Writer& w, Mask::Sides sides) const {
  const ScoreContext context = p_.score_context();
  p_.modifier->emit_apply(w, context, first_key());
  p_.mask->emit_apply(w, context, first_key(), sides);
}

// What lasts over all items.
void Consumer::emit_state(Writer& w) const {
  parts_.registers->emit_borrow(w);
  w.line("const int consumer = warpgroup - 1;");
  w.line("const int warp = (threadIdx.x / 32) % 4, lane = threadIdx.x % 32;");
  w.line("const u32 q_desc = {} | {:#x}u;",
         descriptor_base(fmt::format("smem_q + consumer * {}", p_.q_stride()), p_.cluster),
         k_major_descriptor(p_.q_tile()).low);
  p_.k->emit_construct(w);
  p_.v->emit_construct(w);
  parts_.output->emit_addresses(w);
  p_.k->ring().emit_state(w, false);
  p_.v->ring().emit_state(w, false);
  w.line("u32 q_phase = 0;");
  turns_->emit_first(w);
  w.blank();
  w.line("float s_acc[{}];  // S: 64 x {} scores", p_.BN / 2, p_.BN);
  w.line("float o_acc[{}];  // O: 64 x {}", p_.ov_depth / 2, p_.ov_depth);
  w.line("u32 p[{}];  // P: 64 x {} as the A operand of P V", p_.p_registers(), p_.BN);
  w.blank();
}

// Rows, scales and sums of an item.
void Consumer::emit_item(Writer& w) const {
  if (p_.needs_rows()) {
    w.line(
        "const int row_0 = work.m_start + 64 * consumer + 16 * warp + (lane >> 2);  // this lane's rows: "
        "row_0, row_0 + 8");
  }
  parts_.scales->emit_item(w);
  p_.mask->emit_rows(w, p_.score_context());
  p_.modifier->emit_rows(w, p_.score_context());
  p_.softmax->emit_reset(w);
  emit_clear_output(w, p_.ov_depth / 2);
}

}  // namespace kiln::sm90::prefill
