// A consumer warpgroup of sm90_prefill. Per work item:
//
//   tiles that other warpgroups' rows see, but none of this one's: released as they are
//   S(last) = Q K(last)'          softmax                                       peeled, always masked
//   S(n) = Q K(n)' | O += P V(n+1)    softmax(n) while P V runs                 masked tiles, clean ones,
//   masked ones O += P V(first)                                                             drained O /
//   row_sum -> shared memory -> TMA store; LSE
#include "generator/config/quantization.hpp"
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

// The scales of this lane's two keys of each eight, `NAME.x` and `NAME.y` of every group, of the slot in use.
void emit_scale_address(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline,
                        const char* name) {
  w.line("const u32 {0}_scale_at = smem_{0}_scales + {1} * {2} + 8 * (lane & 3);", name,
         pipeline.ring().stage(), name[0] == 'k' ? p.k_scale_bytes() : p.scale_bytes());
}

// S times those of the keys, which of several are the ones of the columns of `group`.
void emit_times_key_scales(Writer& w, const PrefillPlan& p, int group) {
  w.open("");
  emit_scale_address(w, p, *p.k, "k");
  for (int i = 0; i < p.BN / 2; i += 4) {
    w.line("const float2 k_scale_{} = {}(load_shared_float2(k_scale_at + {}){});", i / 4,
           p.fp8 ? "times" : "", group * p.scale_bytes() + 8 * i, p.fp8 ? ", query_scale" : "");
    w.line(
        "s_acc[{0}] *= k_scale_{4}.x; s_acc[{1}] *= k_scale_{4}.y; s_acc[{2}] *= k_scale_{4}.x; s_acc[{3}] "
        "*= k_scale_{4}.y;",
        i, i + 1, i + 2, i + 3, i / 4);
  }
  w.close();
}

// Between columns with units of their own: S(n) so far becomes one of the next.
void emit_next_unit(Writer& w, const PrefillPlan& p, int step) {
  if (p.k_groups() == 1 || step == 0) return;
  const int columns = step * p.step_elements(), block = p.config.operand->quantization->block;
  if (columns % block != 0) return;
  w.line("wgmma_commit();");
  w.line("WGMMA_WAIT(0);");
  emit_times_key_scales(w, p, columns / block - 1);
  w.line("wgmma_fence();");
}

// `here`: K is known to have come.
void emit_qk(Writer& w, const PrefillPlan& p, bool here) {
  const int steps_per_chunk = p.k_steps() / p.num_qk_stages;
  const auto q_high = fmt::format("{:#x}u", k_major_descriptor(p.q_tile()).high);
  for (int qk = 0; qk < p.num_qk_stages; ++qk) {
    if (!here) p.k->emit_wait(w, qk);
    if (qk == 0) {
      w.line("const u32 k_low = {};", p.k->get());
    }
    w.line("wgmma_fence();");
    for (int i = 0; i < steps_per_chunk; ++i) {
      const int step = qk * steps_per_chunk + i;
      emit_next_unit(w, p, step);
      w.line("{}(s_acc, descriptor(q_desc + {}, {}), descriptor(k_low + {}, {}));", p.qk->name(step == 0),
             k_major_step(p.q_tile(), step), q_high, p.k->step(step), p.k->descriptor_high());
    }
    w.line("wgmma_commit();");
  }
}

// Until S is there, with `later` products still running: each chunk of K but the last goes back as soon as
// its own products have ended, so that the producer refills it while the others are read.
void emit_await_qk(Writer& w, const PrefillPlan& p, int later) {
  const int chunks = p.num_qk_stages;
  for (int qk = 0; qk + 1 < chunks; ++qk) {
    w.line("WGMMA_WAIT({});", later + chunks - 1 - qk);
    p.k->emit_release(w, qk);
  }
  w.line("WGMMA_WAIT({});", later);
}

void emit_pv(Writer& w, const PrefillPlan& p) {
  if (!p.narrow_tokens()) p.v->emit_wait(w, 0);  // else P took V's scales
  w.line("const u32 v_low = {};", p.v->get());
  w.line("wgmma_fence();");
  for (int step = 0; step < p.v_steps(); ++step) {
    w.line("{}(o_acc, p[{}], p[{}], p[{}], p[{}], descriptor(v_low + {}, {}));", p.pv->name(false), 4 * step,
           4 * step + 1, 4 * step + 2, 4 * step + 3, p.v->step(step), p.v->descriptor_high());
  }
  w.line("wgmma_commit();");
}

// S times the scales of K that the factor does not hold. Those of keys are of K's slot.
void emit_key_scales(Writer& w, const PrefillPlan& p) {
  if (p.head_scale() && !p.scale_joins_factor()) {
    for (int i = 0; i < p.BN / 2; i += 4)
      w.line(
          "s_acc[{}] *= key_scale; s_acc[{}] *= key_scale; s_acc[{}] *= key_scale; s_acc[{}] *= key_scale;",
          i, i + 1, i + 2, i + 3);
  }
  if (!p.scales_by_token()) return;
  w.comment("scales of the keys");
  emit_times_key_scales(w, p, p.k_groups() - 1);
  if (p.narrow) w.line("__syncwarp();  // every lane has read its scales");
}

// The last chunk of K's slot goes back when S is there, or, with the scales of V that it holds in FP8, when P
// is.
void emit_release_k(Writer& w, const PrefillPlan& p, bool packed) {
  if (p.fp8_tokens() != packed) return;
  if (packed) w.line("__syncwarp();  // every lane has read its scales");
  p.k->emit_release(w, p.num_qk_stages - 1);
}

// S becomes what softmax takes: modified, and -inf where a row does not see the key.
void emit_visible(Writer& w, const PrefillPlan& p, Mask::Sides sides) {
  const ScoreContext context = p.score_context();
  const std::string first_key = fmt::format("n * {}", p.BN);
  p.modifier->emit_apply(w, context, first_key);
  p.mask->emit_apply(w, context, first_key, sides);
}

// P from registers `from` to the A operand of PV.
void emit_pack(Writer& w, const PrefillPlan& p, const char* from) {
  if (p.fp8) return OnlineSoftmax::emit_pack_e4m3(w, "p", from, 0, p.BN / 2);
  const char* pack = p.math == DType::bf16 ? "pack_bf16" : "pack_fp16";
  if (p.scales_by_token()) {
    w.comment("P times the scales of V");
    p.v->emit_wait(w, 0);
    emit_scale_address(w, p, *p.v, "v");
    for (int i = 0; i < p.BN / 4; i += 2) {
      w.line("const float2 v_scale_{} = load_shared_float2(v_scale_at + {});", i / 2, 16 * i);
      w.line(
          "p[{0}] = {2}({3}[{4}] * v_scale_{8}.x, {3}[{5}] * v_scale_{8}.y); p[{1}] = {2}({3}[{6}] * "
          "v_scale_{8}.x, {3}[{7}] * v_scale_{8}.y);",
          i, i + 1, pack, from, 2 * i, 2 * i + 1, 2 * i + 2, 2 * i + 3, i / 2);
    }
    return;
  }
  for (int i = 0; i < p.BN / 4; i += 2) {
    w.line("p[{0}] = {1}({7}[{2}], {7}[{3}]); p[{4}] = {1}({7}[{5}], {7}[{6}]);", i, pack, 2 * i, 2 * i + 1,
           i + 1, 2 * i + 2, 2 * i + 3, from);
  }
}

void emit_take_turn(Writer& w) {
  w.line("named_barrier_sync(1 + consumer, 256);");
}

void emit_pass_turn(Writer& w, const PrefillPlan& p) {
  w.line("named_barrier_arrive(1 + (consumer + 1) % {}, 256);", p.num_math_warpgroups);
}

// Tiles from n down that lie behind the keys of all rows of this warpgroup, but not of a later one. At least
// one tile stays, the peeled one.
//
// K is waited for all the same: a wait tells a tile only from the one before it in its slot, and would take
// the coming of a skipped tile for that of the next one there. In turns the last warpgroup, which skips
// nothing, has seen K before the next turn. And it waits for V before it releases the K whose slot the next
// V in that place comes after, so V's slots go back unseen.
// That may complete the phase of an earlier tile too soon, but the producer goes on to these tiles only once
// it has Q's rows of every warpgroup back, and by then each of them has released all V, but the last, of the
// item before.
void emit_skip(Writer& w, const PrefillPlan& p) {
  const int most = (p.BM - 64 + p.BN - 1) / p.BN;
  w.comment("tiles that only later warpgroups see");
  w.line("const int own_blocks = (max({}, 1) + {}) / {};",
         p.mask->end_key("(position + 63)", "work.seqlen_k", "work.batch"), p.BN - 1, p.BN);
  w.line("#pragma unroll 1");
  w.open("for (; n >= own_blocks; --n)");
  // Converters may be behind the producer and not have asked for the slots yet.
  const bool all = most >= p.num_kv_stages || p.narrow;
  for (int qk = 0; qk < p.num_qk_stages && (all || !p.ping_pong); ++qk) p.k->emit_wait(w, qk);
  if (all) p.v->emit_wait(w, 0);
  if (all || !p.ping_pong) w.line("__syncwarp();  // no lane waits for K after its slot has gone back");
  p.k->emit_release_all(w);
  p.v->emit_release_all(w);
  if (p.ping_pong) emit_take_turn(w), emit_pass_turn(w, p);
  w.close();
}

// P(n) from where emit_packed left it, P(n+1) V(n+1) having ended.
void emit_take_packed(Writer& w, const PrefillPlan& p) {
  for (int i = 0; i < p.p_registers(); i += 2)
    w.line("p[{0}] = own_register(next[{0}]); p[{1}] = own_register(next[{1}]);", i, i + 1);
}

// `sides`: ends of the rows' key ranges that may lie in this tile.
void emit_tile(Writer& w, const PrefillPlan& p, Mask::Sides sides) {
  const bool masked = sides.upper || sides.lower || p.hides_anywhere();
  p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.BN), false);
  if (p.ping_pong) emit_take_turn(w);
  w.comment("S(n) = Q K(n)'");
  // Where P(n+1) took V's scales, V(n+1) had come, which is converted after K(n).
  emit_qk(w, p, p.narrow_tokens());
  w.comment("O += P(n+1) V(n+1)");
  emit_pv(w, p);
  // Products of both warpgroups share the tensor pipe. Where softmax is the longer part and tiles differ, S
  // comes sooner when the other one waits for it, too (2 to 4 %; full attention loses as much).
  const bool late = p.mask->bounded_above() && !p.modifier->none();
  if (p.ping_pong && !late) emit_pass_turn(w, p);
  emit_await_qk(w, p, 1);
  if (p.ping_pong && late) emit_pass_turn(w, p);
  emit_key_scales(w, p);
  emit_release_k(w, p, false);
  emit_visible(w, p, sides);
  if (p.fp8_tokens()) emit_scale_address(w, p, *p.k, "v");
  w.comment("softmax(n), while P(n+1) V(n+1) runs");
  // Tiles at the ends of the rows' ranges are few, and the mask wants registers that watching needs.
  const bool inside = !sides.upper && !sides.lower;
  const bool watched = p.watched_parts > 0 && inside, packed = p.packed && inside;
  if (packed) {
    p.softmax->emit_packed(w);
  } else if (watched) {
    p.softmax->emit_watched(w);
  } else {
    p.softmax->emit_max(w, masked, false);
    p.softmax->emit_exp(w, 0, p.BN / 2, masked);
    if (p.fp8_tokens()) p.softmax->emit_weigh(w, false);
  }
  emit_release_k(w, p, true);
  w.line("WGMMA_WAIT(0);");
  p.v->emit_release_all(w);
  p.softmax->emit_rescale(w);
  if (packed) {
    emit_take_packed(w, p);
  } else {
    emit_pack(w, p, watched ? "e" : "s_acc");
  }
}

// Rows of V past a ragged sequence are those of the next one: P is 0 there, but 0 * NaN is NaN.
void emit_zero_tail(Writer& w, const PrefillPlan& p) {
  const int chunks = p.span_bytes / 16, threads = 128 * p.num_math_warpgroups;
  w.comment("rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN");
  w.line("const int v_rows = work.seqlen_k - n * {};", p.BN);
  w.open("if (v_rows < {})", p.BN);
  p.v->emit_wait(w, 0);
  w.open("for (int i = v_rows * {} + threadIdx.x - 128; i < {}; i += {})", chunks, p.BN * chunks, threads);
  for (int panel = 0; panel < p.v->num_panels(); ++panel) {
    w.line("zero_16_bytes(smem_v + {} * {} + {} + i * 16);", p.v->ring().stage(), p.v->slot_bytes(),
           panel * p.v->tile().panel_bytes());
  }
  w.close();
  if (!p.converts_q()) w.line("fence_proxy_async();");  // else there is one behind Q
  w.line("named_barrier_sync(7, {});  // every consumer reads these rows", threads);
  w.close();
}

// After the peeled first tile: tiles with an upper end of some row's keys, clean ones, tiles with a lower
// end.
void emit_remaining_tiles(Writer& w, const PrefillPlan& p) {
  const std::string first = p.first_block();
  if (!p.mask->bounded_above()) {
    w.banner("KV tiles");
    w.open("for (--n; n >= {}; --n)", first);
    emit_tile(w, p, {false, false});
    w.close();
    return;
  }
  const bool lower = p.mask->bounded_below();
  w.line("const int clean_end = max({}, 0) / {};  // tiles that the first row sees to their end",
         p.mask->end_key("position", "work.seqlen_k", "work.batch"), p.BN);
  if (lower && p.whole_tiles()) {
    w.line("const int clean_begin = ({} + {}) / {};  // tiles that the last row sees from their start",
           p.mask->first_key("(position + 63)", "work.batch"), p.BN - 1, p.BN);
  }
  w.banner("KV tiles in which the keys of some row of this warpgroup end");
  w.open("for (--n; n >= {}; --n)", lower ? "max(clean_end, work.first_block)" : "clean_end");
  emit_tile(w, p, {true, true});
  w.close();
  if (p.whole_tiles()) {
    w.banner("KV tiles that every row sees whole");
    w.open("for (; n >= {}; --n)", lower ? "clean_begin" : "0");
    emit_tile(w, p, {false, false});
    w.close();
  }
  if (!lower) return;
  w.banner("KV tiles in which the keys of some row begin");
  w.open("for (; n >= {}; --n)", first);
  emit_tile(w, p, {false, true});
  w.close();
}

/// The one scale of the scores of a head.
void emit_head_scale(Writer& w, const PrefillPlan& p) {
  const std::string query = scale_of_query(*p.config.operand->quantization, "work.batch", "work.kv_head");
  w.line("const float key_scale = {}k_scale[{}];", p.fp8 ? "q_scale[" + query + "] * " : "",
         p.head_of_scales());
  if (p.scale_joins_factor())
    w.line("const float factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
}

// Of the warpgroup's first row among the keys.
void emit_position(Writer& w, const PrefillPlan& p) {
  w.line("const int position = work.m_start + 64 * consumer + work.seqlen_k - {};  // of the first row",
         p.aligned_rows());
}

// What lasts over all items.
void emit_consumer_state(Writer& w, const PrefillPlan& p) {
  if (p.moves_registers()) w.line("SETMAXNREG_INC({});", p.math_registers);
  w.line("const int consumer = warpgroup - 1;");
  w.line("const int warp = (threadIdx.x / 32) % 4, lane = threadIdx.x % 32;");
  w.line("const u32 q_desc = {} | {:#x}u;",
         descriptor_base(fmt::format("smem_q + consumer * {}", p.q_stride()), p.cluster),
         k_major_descriptor(p.q_tile()).low);
  p.k->emit_construct(w);
  p.v->emit_construct(w);
  emit_output_addresses(w, p);
  p.k->ring().emit_state(w, false);
  p.v->ring().emit_state(w, false);
  w.line("u32 q_phase = 0;");
  if (p.ping_pong) w.line("if (consumer == 0) named_barrier_arrive(1, 256);  // the first turn is free");
  w.blank();
  w.line("float s_acc[{}];  // S: 64 x {} scores", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 64 x {}", p.ov_depth / 2, p.ov_depth);
  w.line("u32 p[{}];  // P: 64 x {} as the A operand of P V", p.p_registers(), p.BN);
  w.blank();
}

// Rows, scales and sums of an item.
void emit_item_state(Writer& w, const PrefillPlan& p) {
  if (p.needs_rows()) {
    w.line(
        "const int row_0 = work.m_start + 64 * consumer + 16 * warp + (lane >> 2);  // this lane's rows: "
        "row_0, row_0 + 8");
  }
  if (p.head_scale()) emit_head_scale(w, p);
  if (p.fp8_tokens()) w.line("const float query_scale = q_scale[0];");
  p.mask->emit_rows(w, p.score_context());
  p.modifier->emit_rows(w, p.score_context());
  p.softmax->emit_reset(w);
  emit_clear_output(w, p.ov_depth / 2);
}

void emit_await_q(Writer& w) {
  w.line("mbarrier_wait(mbar_q_full + 8 * consumer, q_phase);");
  w.line("q_phase ^= 1;");
}

void emit_first_tile(Writer& w, const PrefillPlan& p) {
  w.banner("first KV tile (the last keys)");
  w.open("");
  p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.BN), true);
  w.comment("S(n) = Q K(n)'");
  emit_qk(w, p, false);
  emit_await_qk(w, p, 0);
  emit_key_scales(w, p);
  emit_release_k(w, p, false);
  emit_visible(w, p, {});
  if (p.fp8_tokens()) emit_scale_address(w, p, *p.k, "v");
  if (p.fp8_tokens() && p.scale_tiles()) {
    w.comment("keys that have a scale of V, from this lane's first on: others have anything");
    w.line("const int scaled_keys = work.seqlen_k - n * {} - 2 * (lane & 3);", p.BN);
  }
  p.softmax->emit_max(w, true, true);
  p.softmax->emit_exp(w, 0, p.BN / 2, true);
  if (p.fp8_tokens()) p.softmax->emit_weigh(w, true);
  emit_release_k(w, p, true);
  emit_pack(w, p, "s_acc");
  w.close();
}

void emit_last_product(Writer& w, const PrefillPlan& p) {
  if (p.separate_o) w.line("if (lane == 0) mbarrier_arrive(mbar_q_empty + 8 * consumer);");
  w.banner("O += P V of the last tile");
  w.open("");
  emit_pv(w, p);
  w.line("WGMMA_WAIT(0);");
  // Of the tiles before they have been, before the scales of K. Where O takes Q's place the slot is not
  // filled again before the next Q is sent for, which is after the warps have met.
  if (p.narrow_tokens() && p.separate_o) w.line("__syncwarp();  // every lane has read its scales of V");
  p.v->emit_release_all(w);
  w.close();
}

}  // namespace

void emit_consumer(Writer& w, const PrefillPlan& p) {
  w.banner("consumers: 64 query rows each");
  emit_consumer_state(w, p);
  emit_open_items(w, p, ItemReader::consumer);
  emit_item_state(w, p);
  w.open("if (work.num_blocks > 0)");
  w.line("int n = work.num_blocks - 1;");
  if (p.ragged && !p.fp8) emit_zero_tail(w, p);
  emit_await_q(w);
  emit_widen_q(w, p);
  if (p.mask->bounded_above()) emit_position(w, p);
  if (p.skips_tiles) emit_skip(w, p);
  emit_first_tile(w, p);
  emit_remaining_tiles(w, p);
  emit_last_product(w, p);
  if (p.hands_over_empty()) {
    w.reopen("else");
    w.comment("no keys, but O takes Q's place: it must be free");
    emit_await_q(w);
  }
  w.close();
  emit_epilogue(w, p);
  emit_close_items(w, p, ItemReader::consumer);
  if (p.stages_o()) w.line("if (lane == 0) bulk_wait_read();");
}

}  // namespace kiln::sm90
