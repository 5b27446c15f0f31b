// Latent rows under 64 query rows: scores once, in a seesaw of two warpgroups. Each holds half of V's columns of O,
// and tiles of keys are theirs in turns: the owner of a tile multiplies S = Q K', takes the maxima, and hands P to the
// other through the rotary panel of the tile's slot, which nobody needs after S. Both add P V to their columns, tile
// after tile:
//
//   first     P(0) ....... > O += P(0) V(0) | O += P(1) V(1) | S(2) ... | P(2) ....... > ...
//   second    S(1) ... | O += P(0) V(0), P(1) beside it > O += P(1) V(1) | | S(3) ... | ...
//
// so that one's softmax runs beside the other's products. S of the second begins when S of the first is done: both at
// once would be done late, and the tensor cores idle in the first's softmax. The base of a row's exponentials goes along with P: who
// takes P over scales O to it, rarely. Sums are of a warpgroup's own tiles, and added up after the last.
//
// A slot goes back in chunks, those of a half's columns as soon as that warpgroup is done with them.
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"
#include "generator/systems/online_softmax.hpp"

namespace kiln::sm90 {
namespace {

/// Named barriers: the first has its S; P of a tile of warpgroup `half` is there; all warps of
/// it are done with products.
constexpr int kTurn = 2;
constexpr int handed_over(int half) {
  return 4 + half;
}
constexpr int together(int half) {
  return 6 + half;
}

/// Bytes of a slot before P.
int p_offset(const DecodePlan& p) {
  return p.v_panels * p.BN * 128;
}

/// The slot of K's or V's state.
std::string slot_at(const DecodePlan& p, const TMAConsumerPipeline& pipeline) {
  return fmt::format("smem_k + {} * {}", pipeline.ring().stage(), p.k->slot_bytes());
}

/// The tile at hand goes back, chunk by chunk: whoever reads its columns as V arrives, for both where the other does
/// not. P lies past V's columns.
void emit_release(Writer& w, const DecodePlan& p, int half) {
  const int chunk_panels = p.k_panels / p.num_qk_stages;
  for (int qk = 0; qk < p.num_qk_stages; ++qk) {
    const int begin = qk * chunk_panels, end = begin + chunk_panels;
    const bool alone =
        qk + 1 < p.num_qk_stages && end <= p.v_panels && (end <= p.v_panels / 2 || begin >= p.v_panels / 2);
    if (alone && half != (begin >= p.v_panels / 2 ? 1 : 0)) continue;
    w.line("if (lane {}) mbarrier_arrive({});", alone ? "< 2" : "== 0", p.v->ring().empty(qk));
  }
  p.v->ring().emit_step(w);
}

/// S of the tile of K's state.
void emit_products(Writer& w, const DecodePlan& p) {
  w.comment("S = Q K'");
  for (int qk = 0; qk < p.num_qk_stages; ++qk) {
    p.k->emit_wait(w, qk);
    w.open("");
    // After the wait: what is computed before it has no registers to stay in but those of S.
    w.line("const u32 k_low = hidden({}), q_low = hidden(q_desc);", p.k->get());
    w.open("");
    w.line("const u32 q_desc = q_low;");
    w.line("wgmma_fence();");
    emit_upright_qk(w, p, qk);
    w.line("wgmma_commit();");
    w.close();
    w.close();
  }
  w.line("WGMMA_WAIT(0);");
}

/// Rows of V past this sequence, in the slot of K's state.
void emit_zero_tail(Writer& w, const DecodePlan& p, int half) {
  w.comment("rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN");
  w.line("const int v_rows = max(s.sequence.seqlen_k - n * {}, 0);", p.BN);
  w.open("if (v_rows < {})", p.BN);
  w.line("named_barrier_sync({}, 128);  // all products with K are done", together(half));
  w.open("for (int i = v_rows * 8 + threadIdx.x % 128; i < {}; i += 128)", p.BN * 8);
  for (int panel = 0; panel < p.v_panels; ++panel)
    w.line("zero_16_bytes({} + {} + i * 16);", slot_at(p, *p.k), panel * p.BN * 128);
  w.close();
  w.line("fence_proxy_async();");
  w.close();
}

/// P, and the base it is relative to, to where the other warpgroup finds them.
void emit_hand_over(Writer& w, const DecodePlan& p, int half) {
  w.comment("P and its base, for the other warpgroup");
  w.open("if ((lane & 3) == 0)");
  w.line(
      "row_bases[{0} + 16 * warp + (lane >> 2)] = row_max_0; row_bases[{1} + 16 * warp + (lane >> 2)] = "
      "row_max_1;",
      half * p.BM, half * p.BM + 8);
  w.close();
  w.line("named_barrier_sync({}, 128);  // all products with K are done: P takes the place of a panel",
         together(half));
  w.line("const u32 p_row = {} + {} + (16 * warp + (lane & 15)) * 128;", slot_at(p, *p.k), p_offset(p));
  for (int step = 0; step < p.BN / 16; ++step)
    w.line("stmatrix_x4(p_row + ((({} + (lane >> 4)) ^ (lane & 7)) << 4), p[{}], p[{}], p[{}], p[{}]);",
           2 * step, 4 * step, 4 * step + 1, 4 * step + 2, 4 * step + 3);
  w.line("fence_proxy_async();");
  w.line("named_barrier_arrive({}, {});", handed_over(half), p.consumer_threads());
}

/// P of the warpgroup's own tile n, handed over. The first scales O at once, the second when what it has taken over
/// is done.
void emit_own_probabilities(Writer& w, const Parts& parts, int half) {
  const DecodePlan& p = parts.plan;
  p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.BN), true);
  emit_zero_tail(w, p, half);
  emit_scores(w, parts);
  const OnlineSoftmax softmax = softmax_of(p);
  softmax.emit_max(w, true, false);
  if (half == 0) softmax.emit_rescale(w);
  softmax.emit_exp(w, 0, p.BN / 2, true);
  for (int i = 0; i < p.BN / 2; i += 2)
    w.line("p[{}] = {}(s_acc[{}], s_acc[{}]);", i / 2, pack_name(p.math), i, i + 1);
  emit_hand_over(w, p, half);
  if (half == 0) return;
  w.line("WGMMA_WAIT(0);");
  emit_release(w, p, half);
  softmax.emit_rescale(w);
}

void emit_v_low(Writer& w, const DecodePlan& p, int half) {
  w.line("const u32 v_low = hidden({} + {});", p.v->get(), half * (p.ov_columns() / 64 * p.BN * 128 >> 4));
}

/// O += P V of the tile of V's state: with P as this warpgroup has it.
void emit_own_pv(Writer& w, const DecodePlan& p, int half) {
  w.open("");
  emit_v_low(w, p, half);
  w.line("wgmma_fence();");
  emit_upright_pv(w, p);
  w.line("wgmma_commit();");
  w.close();
}

/// With P of the other one, once it is there; no products are under way.
void emit_others_pv(Writer& w, const DecodePlan& p, int half) {
  w.open("");
  w.line("named_barrier_sync({}, {});", handed_over(1 - half), p.consumer_threads());
  w.line(
      "const float top_0 = row_bases[{0} + 16 * warp + (lane >> 2)], top_1 = row_bases[{1} + 16 * warp + "
      "(lane >> 2)];",
      (1 - half) * p.BM, (1 - half) * p.BM + 8);
  w.open("if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1))");
  for (int r = 0; r < 2; ++r)
    w.line(
        "const float alpha_{0} = rescale_factor(row_max_{0}, top_{0}, factor); row_sum_{0} *= alpha_{0}; "
        "row_max_{0} = top_{0};",
        r);
  for (int i = 0; i < p.ov_columns() / 2; i += 4)
    w.line("o_acc[{}] *= alpha_0; o_acc[{}] *= alpha_0; o_acc[{}] *= alpha_1; o_acc[{}] *= alpha_1;", i,
           i + 1, i + 2, i + 3);
  w.close();
  emit_v_low(w, p, half);
  w.line("const u32 p_low = hidden((({} + {}) >> 4) | {:#x}u);", slot_at(p, *p.v), p_offset(p),
         k_major_descriptor(p.p_tile()).low);
  w.line("wgmma_fence();");
  for (int step = 0; step < p.BN / 16; ++step)
    w.line("{}(o_acc, descriptor(p_low + {}, {}), descriptor(v_low + {}, {}));", p.pv_shared->name(false),
           k_major_step(p.p_tile(), step), p.p_high(), p.v->step(step), p.v->descriptor_high());
  w.line("wgmma_commit();");
  w.close();
}

/// All products are done, and the tile goes back.
void emit_done(Writer& w, const DecodePlan& p, int half) {
  w.line("WGMMA_WAIT(0);");
  emit_release(w, p, half);
}

/// S of tile `n`, all of it, and then the second's turn.
void emit_first_products(Writer& w, const DecodePlan& p, const char* seconds) {
  emit_products(w, p);
  w.line("if ({} < s.tile_end) named_barrier_arrive({}, {});", seconds, kTurn, p.consumer_threads());
}

/// S of the second's tile, when the first has its own.
void emit_second_products(Writer& w, const DecodePlan& p) {
  w.line("named_barrier_sync({}, {});", kTurn, p.consumer_threads());
  emit_products(w, p);
}

/// The tile goes back before S waits for the next: its copy is under way meanwhile.
void emit_next_products(Writer& w, const DecodePlan& p, int half) {
  emit_done(w, p, half);
  p.k->ring().emit_step(w);
  p.k->ring().emit_step(w);
  half == 0 ? emit_first_products(w, p, "n + 3") : emit_second_products(w, p);
}

/// Tiles n, the first's, and n + 1, the second's; and S of two tiles on, if there is one.
void emit_pair(Writer& w, const Parts& parts, int half, bool next) {
  const DecodePlan& p = parts.plan;
  if (half == 0) {
    w.open("");
    emit_own_probabilities(w, parts, half);
    emit_own_pv(w, p, half);
    w.close();
    emit_done(w, p, half);
    emit_others_pv(w, p, half);
  } else {
    emit_others_pv(w, p, half);
    w.line("const int own = n + 1;");
    w.open("");
    w.line("const int n = own;");
    emit_own_probabilities(w, parts, half);
    emit_own_pv(w, p, half);
    w.close();
  }
  next ? emit_next_products(w, p, half) : emit_done(w, p, half);
}

void emit_first(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  emit_first_products(w, p, "n + 1");
  w.line("#pragma unroll 1");
  w.open("for (; n + 2 < s.tile_end; n += 2)");
  emit_pair(w, parts, 0, true);
  w.close();
  w.open("if (n + 1 < s.tile_end)");
  emit_pair(w, parts, 0, false);
  w.reopen("else");
  emit_own_probabilities(w, parts, 0);
  emit_own_pv(w, p, 0);
  emit_done(w, p, 0);
  w.close();
}

void emit_second(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  w.open("if (n + 1 < s.tile_end)");
  p.k->ring().emit_step(w);
  emit_second_products(w, p);
  w.close();
  w.line("#pragma unroll 1");
  w.open("for (; n + 3 < s.tile_end; n += 2)");
  emit_pair(w, parts, 1, true);
  w.close();
  w.open("if (n + 1 < s.tile_end)");
  emit_pair(w, parts, 1, false);
  w.line("n += 2;");
  w.close();
  w.open("if (n < s.tile_end)");
  emit_others_pv(w, p, 1);
  emit_done(w, p, 1);
  w.close();
}

}  // namespace

void emit_seesaw_state(Writer& w, const DecodePlan& p) {
  w.line("float* const row_bases = (float*)(smem_bytes + {});  // of each warpgroup's rows; then sums",
         p.smem_max);
}

void emit_seesaw(Writer& w, const Parts& parts) {
  const DecodePlan& p = parts.plan;
  w.comment("what only the item's end asks for waits in shared memory: products take all registers");
  w.line("volatile int* const kept = (volatile int*)(smem_bytes + {}) + threadIdx.x / 32 * {};", p.smem_kept,
         DecodePlan::kKept);
  std::vector<StreamK::Member> members = p.stream->of_segments();
  if (p.hidden.on()) members.push_back({"int", "s.m_block"});
  w.open("if (lane == 0)");
  for (std::size_t i = 0; i < members.size(); ++i) w.line("kept[{}] = (int){};", i, members[i].role);
  w.close();
  w.line("__syncwarp();");
  w.line("int n = s.tile_begin;");
  w.line("{} = {}; {} = {};", p.k->ring().stage(), p.v->ring().stage(), p.k->ring().phase(),
         p.v->ring().phase());
  w.open("if (half == 0)");
  emit_first(w, parts);
  w.reopen("else");
  emit_second(w, parts);
  w.close();
  for (std::size_t i = 0; i < members.size(); ++i)
    w.line("{} = ({})kept[{}];", members[i].role, members[i].type, i);
  // Beside the repair the lane has no register to wait in (bench/NOTES.md 157).
  if (p.hidden.on()) w.line("const int lane = thread_here() % 32;");
}

void emit_seesaw_sums(Writer& w, const DecodePlan& p) {
  w.comment("each warpgroup has the sums of its own tiles");
  w.line("float* const row_sums = row_bases + {};", 2 * p.BM);
  w.open("if ((lane & 3) == 0)");
  for (int r = 0; r < 2; ++r)
    w.line("row_sums[half * {} + 16 * warp + (lane >> 2) + {}] = row_sum_{};", p.BM, 8 * r, r);
  w.close();
  w.line("named_barrier_sync(1, {});", p.consumer_threads());
  for (int r = 0; r < 2; ++r)
    w.line(
        "row_sum_{0} = row_sums[16 * warp + (lane >> 2) + {1}] + row_sums[{2} + 16 * warp + (lane >> 2) + {1}];",
        r, 8 * r, p.BM);
}

}  // namespace kiln::sm90
