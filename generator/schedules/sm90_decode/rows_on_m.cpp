// Query rows on the M side of sm90_decode: with 64 packed query rows (large groups, speculation, the queries of all
// sequences that share a prefix) they fill the M side of wgmma themselves, as in prefill. Per KV tile:
//
//   S = Q K'         a lane holds rows lane >> 2 and + 8 of its warp's 16, keys 2 (lane & 3) + {0, 1} + 8 j
//   maximum of each row   over the lane's keys and its quad: no other warp has any of the row
//   P = exp2(S - max)     stays in registers, the A operand of O += P V
//
// Of V's columns a warpgroup's registers hold 256. The 512 of a latent cache take two warpgroups, each with
// all scores for itself: the products of S are done twice, which costs less than handing P over would, and
// one's softmax runs beside the other's products.
#include "generator/emit/output_elements.hpp"
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {
namespace {

/// Row of half `h` of a lane's registers, an expression.
std::string row_of_half(int h) {
  return fmt::format("16 * warp + {}(lane >> 2)", h == 0 ? "" : "8 + ");
}
/// The same as an operand.
std::string whole_row_of_half(int h) {
  return fmt::format("(16 * warp + {} + (lane >> 2))", 8 * h);
}
constexpr int half_of(int reg) {
  return reg / 2 % 2;
}

}  // namespace

OnlineSoftmax softmax_of(const DecodePlan& p) {
  OnlineSoftmax::Shape shape;
  shape.score_regs = p.BN / 2;
  shape.output_regs = p.ov_columns() / 2;
  shape.scale_log2 = "factor";
  return OnlineSoftmax(shape);
}

void emit_upright_qk(Writer& w, const DecodePlan& p, int qk) {
  for (int step = p.qk_step(qk); step < p.qk_step(qk + 1); ++step)
    w.line("{}(s_acc, descriptor(q_desc + {}, {}), descriptor(k_low + {}, {}));", p.qk->name(step == 0),
           k_major_step(p.q_tile(), step), p.q_high(), p.k->step(step), p.k->descriptor_high());
}

void emit_upright_pv(Writer& w, const DecodePlan& p) {
  for (int step = 0; step < p.BN / 16; ++step)
    w.line("{}(o_acc, p[{}], p[{}], p[{}], p[{}], descriptor(v_low + {}, {}));", p.pv->name(false), 4 * step,
           4 * step + 1, 4 * step + 2, 4 * step + 3, p.v->step(step), p.v->descriptor_high());
}

void RowsOnM::emit_names(Writer& w) const {
  w.line("const u32 q_desc = (smem_q >> 4) | {:#x}u;", k_major_descriptor(p_.q_tile()).low);
  p_.k->emit_construct(w);
  p_.v->emit_construct(w);
}

void RowsOnM::emit_state(Writer& w) const {
  w.line("float s_acc[{}];  // S: 64 rows, {} keys", p_.BN / 2, p_.BN);
  w.line("float o_acc[{}];  // O: 64 rows, {} columns", p_.ov_columns() / 2, p_.ov_columns());
  w.line("u32 p[{}];  // P as the A operand of O += P V", p_.BN / 4);
}

void RowsOnM::emit_store_q(Writer& w) const {
  emit_copy_q(w, p_);
  emit_query_there(w, p_);
}

void RowsOnM::emit_reset(Writer& w) const {
  softmax_of(p_).emit_reset(w);
  for (int i = 0; i < p_.ov_columns() / 2; i += 4)
    w.line("o_acc[{0}] = o_acc[{1}] = o_acc[{2}] = o_acc[{3}] = 0.0f;", i, i + 1, i + 2, i + 3);
}

void RowsOnM::emit_chunk(Writer& w, int qk) const {
  emit_upright_qk(w, p_, qk);
}

void RowsOnM::emit_qk(Writer& w) const {
  emit_k(w, "S = Q K(n)'");
  emit_chunks(w);
  emit_wait_chunks(w);
  emit_release_before(w);
}

void RowsOnM::emit_probabilities(Writer& w) const {
  emit_scores(w, parts_);
  w.comment("P(n) = exp2(S - max), O follows the maximum");
  const OnlineSoftmax softmax = softmax_of(p_);
  softmax.emit_max(w, true, false);
  softmax.emit_rescale(w);
  softmax.emit_exp(w, 0, p_.BN / 2, true);
  for (int i = 0; i < p_.BN / 2; i += 2)
    w.line("p[{}] = {}(s_acc[{}], s_acc[{}]);", i / 2, pack_name(p_.math), i, i + 1);
  emit_zero_tail(w);
}

void RowsOnM::emit_before_zeros(Writer& w) const {
  parts_.values->emit_before_zeros(w);
}

void RowsOnM::emit_after_zeros(Writer& w) const {
  w.line("fence_proxy_async();");
  sync(w);
}

void RowsOnM::emit_pv(Writer& w) const {
  w.comment("O += P(n) V(n)");
  scales_.emit_wait_v(w);
  w.line("const u32 v_low = {}{};", p_.v->get(), v_columns());
  w.line("wgmma_fence();");
  emit_upright_pv(w, p_);
  w.line("wgmma_commit();");
}

std::vector<std::string> RowsOnM::first_rows() const {
  return HiddenValues::first_rows("o_acc", p_.ov_columns() / 2);
}

void RowsOnM::emit_row_sums(Writer& w) const {
  for (int step : {1, 2})
    for (int h = 0; h < 2; ++h)
      w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, {1});", h, step);
}

void RowsOnM::emit_finish_rows(Writer& w) const {
  w.line("float inv_sum[2];");
  for (int h = 0; h < 2; ++h)
    emit_finish_row(w, parts_, whole_row_of_half(h), fmt::format("row_max_{}", h),
                    fmt::format("row_sum_{}", h), fmt::format("inv_sum[{}]", h), writer());
}

void RowsOnM::emit_floats(Writer& w) const {
  for (int h = 0; h < 2; ++h) {
    w.open("if ({} < rows)", whole_row_of_half(h));
    w.line("const int packed = s.m_block * {} + {};", p_.BM, whole_row_of_half(h));
    w.line("float* const at = {} + {}2 * (lane & 3);", output_address(p_), first_column());
    for (int i = 2 * h; i < p_.ov_columns() / 2; i += 4) {
      const int column = 2 * (i - 2 * h);
      w.line(
          "{}{}",
          p_.padded_ov() == p_.ov_depth ? ""
                                        : fmt::format("if ({}{} < {}) ", first_column(), column, p_.ov_depth),
          store_two(DType::f32, fmt::format("at + {}", column), fmt::format("o_acc[{}] * inv_sum[{}]", i, h),
                    fmt::format("o_acc[{}] * inv_sum[{}]", i + 1, h)));
    }
    w.close();
  }
}

void RowsOnM::emit_staged(Writer& w) const {
  const char* pack = pack_name(*p_.config.out_dtype);
  w.line("const u32 o_row = smem_o + {}(16 * warp + (lane & 15)) * 128;", staged_columns());
  for (int step = 0; step < p_.ov_columns() / 16; ++step) {
    const int i = 8 * step;
    const auto pair = [&](int r) {
      return fmt::format("{0}(o_acc[{1}] * inv_sum[{3}], o_acc[{2}] * inv_sum[{3}])", pack, i + r, i + r + 1,
                         half_of(r));
    };
    w.line("stmatrix_x4(o_row + {} + ((({} + (lane >> 4)) ^ (lane & 7)) << 4), {}, {}, {}, {});",
           step / 4 * p_.BM * 128, 2 * step % 8, pair(0), pair(2), pair(4), pair(6));
  }
}

void RowsOnM::emit_part(Writer& w) const {
  for (int h = 0; h < 2; ++h) {
    w.open("if ({} < rows)", row_of_half(h));
    w.line("float* const at = part + {} * {} + 2 * (lane & 3);", factor(row_of_half(h)), p_.padded_ov());
    for (int i = 2 * h; i < p_.ov_columns() / 2; i += 4)
      w.line("*(float2*)(at + {}) = make_float2(o_acc[{}], o_acc[{}]);", 2 * (i - 2 * h), i, i + 1);
    w.line("if ((lane & 3) == 0) *(float2*)(part + {} + 2 * ({})) = make_float2(row_max_{}, row_sum_{});",
           p_.BM * p_.padded_ov(), row_of_half(h), h, h);
    w.close();
  }
}

void RowsOnM::use(Prelude& prelude) const {
  prelude.use("stmatrix"), prelude.use("copy_async_16");
  if (p_.q_by_rows()) prelude.use("thread_here");
  p_.qk->add_to(prelude, true), p_.qk->add_to(prelude, false);
  p_.pv->add_to(prelude, false);
}

void RowsOnM::expect(Manifest& manifest) const {
  const int qk = p_.depth / 16, pv = p_.BN / 16, columns = p_.ov_columns();
  if (p_.BN == columns) return expect_wgmma(manifest, p_.BN, 16, qk + pv);
  expect_wgmma(manifest, p_.BN, 16, qk), expect_wgmma(manifest, columns, 16, pv);
}

void TwoWarpgroups::emit_producer_head(Writer& w) const {
  w.line("SETMAXNREG_DEC({});", DecodePlan::kProducerRegisters);
  w.line("if (threadIdx.x >= {}) return;", p_.consumer_threads() + 32);
  p_.stream->emit_range(w);
}

void TwoWarpgroups::emit_head(Writer& w) const {
  w.banner("consumer warpgroups, one for each half of V's columns");
  w.line("SETMAXNREG_INC({});", DecodePlan::kConsumerRegisters);
  p_.stream->emit_range(w);
  w.line("if (launch_before != 2) wait_for_launch_before();");
  w.line("const int warp = threadIdx.x / 32 % 4, half = threadIdx.x / 128;");
  emit_first_turn(w);
}

void TwoWarpgroups::emit_first_turn(Writer& w) const {
  w.line("if (half == 1) named_barrier_arrive(2, {});  // the first turn", p_.consumer_threads());
}

void TwoWarpgroups::emit_qk(Writer& w) const {
  emit_k(w, "S = Q K(n)'");
  w.line("named_barrier_sync(2 + half, {});  // in turns: one's softmax beside the other's products",
         p_.consumer_threads());
  emit_chunks(w);
  w.line("named_barrier_arrive(3 - half, {});", p_.consumer_threads());
  emit_wait_chunks(w);
}

void TwoWarpgroups::emit_pv(Writer& w) const {
  RowsOnM::emit_pv(w);
  w.comment("back at once: the slot is the next tile's, and the other warpgroup has products to do");
  emit_release_v(w);
}

void TwoWarpgroups::emit_staged(Writer& w) const {
  sync(w);  // all products with Q are done
  RowsOnM::emit_staged(w);
}

void TwoWarpgroups::emit_staging_free(Writer& w) const {
  if (!p_.keeps_chunks()) sync(w);  // Q's rows are free
}

void TwoWarpgroups::use(Prelude& prelude) const {
  RowsOnM::use(prelude);
  prelude.use("setmaxnreg");
  if (p_.stream->splits()) prelude.use("thread_here");
}

void Seesaw::emit_state(Writer& w) const {
  RowsOnM::emit_state(w);
  emit_seesaw_state(w, p_);
}

void Seesaw::emit_row_sums(Writer& w) const {
  RowsOnM::emit_row_sums(w);
  emit_seesaw_sums(w, p_);
}

void Seesaw::use(Prelude& prelude) const {
  TwoWarpgroups::use(prelude);
  prelude.use("hidden");
  if (p_.hidden.on()) prelude.use("thread_here");
  p_.pv_shared->add_to(prelude, false);
}

void Seesaw::expect(Manifest& manifest) const {
  // Two loops, what comes before and after.
  expect_wgmma(manifest, p_.BN, 16, 4 * (p_.depth / 16));
  expect_wgmma(manifest, p_.ov_columns(), 16, 10 * (p_.BN / 16));
}

}  // namespace kiln::sm90
