// Functions of a tile of sm100_decode: products as one thread issues them, and a row's scores over the lanes of a warp.
#include "generator/schedules/sm100_decode/rings.hpp"

namespace kiln::sm100 {

void emit_issue_scores(Writer& w, const DecodePlan& p) {
  const int chunks = p.k->num_qk_stages_effective(),
            steps = p.k->panels_per_chunk() * kSpanColumns / p.step_columns();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    w.open("__device__ __forceinline__ void issue_scores{}(u32 s, u32 k, u32 q)",
           chunks > 1 ? fmt::format("_{}", chunk) : "");
    for (int step = steps * chunk; step < std::min(steps * (chunk + 1), p.k_steps()); ++step)
      w.line("mma_smem(s, descriptor(k + {}, kKHigh), descriptor(q + {}, kQHigh), kScoresKind, {});",
             p.k->descriptor().step(step), p.q_descriptor().step(step), step > 0);
    w.close();
  }
}

void emit_issue_output(Writer& w, const DecodePlan& p, const Rings& rings) {
  const auto& v = p.v->descriptor();
  for (int j = 0; j < p.out_blocks(); ++j) {
    const int panels = p.MV() / 64 * j;
    rings.emit_await_block(w, j);
    for (int step = 0; step < p.v_steps(); ++step)
      w.line("mma_smem(o + {}, descriptor(v + {}, kVHigh), descriptor(p + {}, kPHigh), kOutputKind, {});",
             j * p.BM, (panels * v.tile().panel_bytes() >> 4) + v.step(step), p.p_descriptor().step(step),
             step == 0 ? "add" : "true");
    rings.emit_release_chunks(w, j);
  }
}

void emit_over_lanes(Writer& w, const DecodePlan& p) {
  int rows = p.fold_rows();
  for (int step = p.key_lanes() / 2; step > 0; step /= 2) {
    if (rows == 1) {
      w.line("x[0] = op(x[0], __shfl_xor_sync(0xffffffffu, x[0], {}));", step);
      continue;
    }
    rows /= 2;
    w.line("#pragma unroll");
    w.open("for (int i = 0; i < {}; ++i)", rows);
    w.line(
        "const float keep = (lane & {0}) != 0 ? x[i + {1}] : x[i], send = (lane & {0}) != 0 ? x[i] : x[i + {1}];",
        step, rows);
    w.line("x[i] = op(keep, __shfl_xor_sync(0xffffffffu, send, {}));", step);
    w.close();
  }
}

}  // namespace kiln::sm100
