// Rows upright in sm90_decode: with 64 packed query rows (large groups, speculation, the queries of all
// sequences that share a prefix) they fill the M side of wgmma themselves, as in prefill. Per KV tile:
//
//   S = Q K'         a lane holds rows lane >> 2 and + 8 of its warp's 16, keys 2 (lane & 3) + {0, 1} + 8 j
//   maximum of each row   over the lane's keys and its quad: no other warp has any of the row
//   P = exp2(S - max)     stays in registers, the A operand of O += P V
//
// Of V's columns a warpgroup's registers hold 256. The 512 of a latent cache take two warpgroups, each with
// all scores for itself: the products of S are done twice, which costs less than handing P over would, and
// one's softmax runs beside the other's products.
#include "generator/schedules/sm90_decode/parts.hpp"
#include "generator/systems/online_softmax.hpp"

namespace kiln::sm90 {
namespace {

/// Row of half `h` of a lane's registers, an expression.
std::string row_of_half(int h) {
  return fmt::format("16 * warp + {}(lane >> 2)", h == 0 ? "" : "8 + ");
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

void emit_upright_state(Writer& w, const DecodePlan& p) {
  w.line("float s_acc[{}];  // S: 64 rows, {} keys", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 64 rows, {} columns", p.ov_columns() / 2, p.ov_columns());
  w.line("u32 p[{}];  // P as the A operand of O += P V", p.BN / 4);
}

void emit_upright_reset(Writer& w, const DecodePlan& p) {
  softmax_of(p).emit_reset(w);
  for (int i = 0; i < p.ov_columns() / 2; i += 4)
    w.line("o_acc[{0}] = o_acc[{1}] = o_acc[{2}] = o_acc[{3}] = 0.0f;", i, i + 1, i + 2, i + 3);
}

void emit_upright_qk(Writer& w, const DecodePlan& p, int qk) {
  const std::string q_high = fmt::format("{:#x}u", k_major_descriptor(p.q_tile()).high);
  for (int step = p.qk_step(qk); step < p.qk_step(qk + 1); ++step)
    w.line("{}(s_acc, descriptor(q_desc + {}, {}), descriptor(k_low + {}, {}));", p.qk->name(step == 0),
           k_major_step(p.q_tile(), step), q_high, p.k->step(step), p.k->descriptor_high());
}

void emit_upright_probabilities(Writer& w, const DecodePlan& p) {
  emit_scores(w, p);
  w.comment("P(n) = exp2(S - max), O follows the maximum");
  const OnlineSoftmax softmax = softmax_of(p);
  softmax.emit_max(w, true, false);
  softmax.emit_rescale(w);
  softmax.emit_exp(w, 0, p.BN / 2, true);
  for (int i = 0; i < p.BN / 2; i += 2)
    w.line("p[{}] = {}(s_acc[{}], s_acc[{}]);", i / 2, pack_of(p.math), i, i + 1);
}

void emit_upright_pv(Writer& w, const DecodePlan& p) {
  for (int step = 0; step < p.BN / 16; ++step)
    w.line("{}(o_acc, p[{}], p[{}], p[{}], p[{}], descriptor(v_low + {}, {}));", p.pv->name(false), 4 * step,
           4 * step + 1, 4 * step + 2, 4 * step + 3, p.v->step(step), p.v->descriptor_high());
}

void emit_upright_sums(Writer& w) {
  for (int step : {1, 2})
    for (int h = 0; h < 2; ++h)
      w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, {1});", h, step);
}

void emit_upright_output(Writer& w, const DecodePlan& p) {
  const char* pack = pack_of(*p.config.out_dtype);
  w.line("const u32 o_row = smem_o + {}(16 * warp + (lane & 15)) * 128;",
         p.warpgroups > 1 ? fmt::format("half * {} + ", p.ov_columns() / 64 * p.BM * 128) : "");
  for (int step = 0; step < p.ov_columns() / 16; ++step) {
    const int i = 8 * step;
    const auto pair = [&](int r) {
      return fmt::format("{0}(o_acc[{1}] * inv_sum[{3}], o_acc[{2}] * inv_sum[{3}])", pack, i + r, i + r + 1,
                         half_of(r));
    };
    w.line("stmatrix_x4(o_row + {} + ((({} + (lane >> 4)) ^ (lane & 7)) << 4), {}, {}, {}, {});",
           step / 4 * p.BM * 128, 2 * step % 8, pair(0), pair(2), pair(4), pair(6));
  }
}

void emit_upright_part(Writer& w, const DecodePlan& p) {
  for (int h = 0; h < 2; ++h) {
    w.open("if ({} < rows)", row_of_half(h));
    w.line("float* const at = part + ({}) * {} + 2 * (lane & 3);", row_of_half(h), p.padded_ov());
    for (int i = 2 * h; i < p.ov_columns() / 2; i += 4)
      w.line("*(float2*)(at + {}) = make_float2(o_acc[{}], o_acc[{}]);", 2 * (i - 2 * h), i, i + 1);
    w.line("if ((lane & 3) == 0) *(float2*)(part + {} + 2 * ({})) = make_float2(row_max_{}, row_sum_{});",
           p.BM * p.padded_ov(), row_of_half(h), h, h);
    w.close();
  }
}

}  // namespace kiln::sm90
