#include "generator/schedules/sm90_prefill_plan.hpp"

#include <algorithm>

#include "generator/schedules/checks.hpp"

namespace kiln::sm90 {
namespace {

// Fastest tiles measured on H200 (bench/NOTES.md); depths in between take the next larger entry's BN.
int default_bm(int depth, int ov_depth) {
  return std::max(depth, ov_depth) <= 64 ? 192 : 128;
}

int default_bn(int depth, int ov_depth, bool causal, int num_math_warpgroups) {
  const int wide = std::max(depth, ov_depth);
  if (num_math_warpgroups == 3) return wide <= 64 ? 128 : 96;
  if (wide <= 64) return 192;
  if (wide <= 128) return causal ? 128 : 160;
  if (wide <= 192) return 112;
  return 80;
}

int swizzle_span(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::b128:
      return 128;
    case SwizzleMode::b64:
      return 64;
    case SwizzleMode::b32:
      return 32;
    case SwizzleMode::none:
      return 0;
  }
  return 0;
}

}  // namespace

std::optional<PrefillPlan> plan_prefill(Config c, bool ping_pong, Violations& out) {
  const auto before = out.size();
  Checks check(c, out);
  PrefillPlan p;
  p.ping_pong = ping_pong;

  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.causal = c.mask->kind == MaskConfig::Kind::causal;
  p.ragged = c.operand->kind == OperandKind::ragged;
  p.lse = *c.lse;

  // Depths: whole swizzle spans of at least 32 bytes, accumulators in the register file.
  for (const auto& [pointer, depth] : {std::pair{"/depth", p.depth}, std::pair{"/ov_depth", p.ov_depth}}) {
    if (depth % 16 != 0 || depth < 16 || depth > 256) {
      check.violate(pointer, depth, "sm90_prefill: depth is a multiple of 16 between 16 and 256",
                    fmt::format("{}", std::clamp((depth + 15) / 16 * 16, 16, 256)));
    }
  }
  if (out.size() != before) return std::nullopt;

  if (!c.BM) c.BM = default_bm(p.depth, p.ov_depth);
  p.BM = *c.BM;
  if (p.BM != 64 && p.BM != 128 && p.BM != 192) {
    check.violate("/BM", p.BM, "sm90_prefill: BM is 64 rows for each of 1 to 3 consumer warpgroups",
                  "64, 128, 192");
    return std::nullopt;
  }
  p.num_math_warpgroups = p.BM / 64;
  if (!c.BN) c.BN = default_bn(p.depth, p.ov_depth, p.causal, p.num_math_warpgroups);
  p.BN = *c.BN;

  const int row_bytes_gcd = std::gcd(p.depth * 2, p.ov_depth * 2);
  const int natural_span = row_bytes_gcd % 128 == 0 ? 128 : row_bytes_gcd % 64 == 0 ? 64 : 32;
  p.span_bytes = natural_span;
  if (c.swizzle) {
    const auto* mode = std::get_if<SwizzleMode>(&*c.swizzle);
    p.span_bytes = mode ? swizzle_span(*mode) : 0;
    if (p.span_bytes == 0 || p.span_bytes > natural_span) {
      check.violate(
          "/swizzle", check.text("/swizzle"),
          fmt::format("V20: sm90_prefill tiles rows of {} bytes into swizzle spans of 32, 64 or 128 bytes",
                      row_bytes_gcd),
          natural_span == 128  ? "128B, 64B, 32B"
          : natural_span == 64 ? "64B, 32B"
                               : "32B");
      return std::nullopt;
    }
  }
  c.swizzle = p.span_bytes == 128  ? SwizzleMode::b128
              : p.span_bytes == 64 ? SwizzleMode::b64
                                   : SwizzleMode::b32;

  if (!c.num_qk_stages) c.num_qk_stages = 1;
  p.num_qk_stages = *c.num_qk_stages;
  const int panels = p.depth / p.panel_columns();
  if (panels % p.num_qk_stages != 0) {
    check.violate("/num_qk_stages", p.num_qk_stages,
                  fmt::format("V26: num_qk_stages divides the {} swizzle panels of a K row", panels),
                  fmt::format("1, {}", panels));
    return std::nullopt;
  }
  const int bk0 = p.depth / p.num_qk_stages;
  if (c.BK && *c.BK != bk0) {
    check.violate("/BK", *c.BK, "V8: BK == depth / num_qk_stages on sm_90a", fmt::format("{}", bk0));
  }
  c.BK = bk0;
  const std::array<int, 3> shape{64, p.BN, 16};
  if (c.mma_shape && *c.mma_shape != shape) {
    check.violate("/mma_shape", check.text("/mma_shape"),
                  "sm90_prefill: the matrix instruction of QK is m64 n(BN) k16",
                  fmt::format("[64, {}, 16]", p.BN));
  }
  c.mma_shape = shape;
  if (p.BN % 16 != 0 || p.BN < 16 || p.BN > 256) {
    check.violate("/BN", p.BN, "V3: BN is a multiple of 16 and at most 256 on sm_90a",
                  fmt::format("{}", std::clamp((p.BN + 8) / 16 * 16, 16, 256)));
    return std::nullopt;
  }

  // Registers: O, S and P of a lane within what the warpgroup's share leaves (hopper.md 4.2).
  const int live = p.ov_depth / 2 + p.BN / 2 + p.BN / 4;
  p.math_registers = p.num_math_warpgroups == 3 ? 160 : 240;
  p.producer_registers = p.num_math_warpgroups == 3 ? 32 : 24;
  const int limit = p.num_math_warpgroups == 3 ? 132 : 212;
  if (live > limit) {
    const int bn = (limit - p.ov_depth / 2) * 4 / 3 / 16 * 16;
    check.violate(
        "/BN", p.BN,
        fmt::format("sm90_prefill: O, S and P take {} registers a thread; {} consumer warpgroups leave {}",
                    live, p.num_math_warpgroups, limit),
        bn >= 16 ? fmt::format("{}", bn) : "fewer BM rows");
    return std::nullopt;
  }

  const int threads = p.num_threads();
  if (c.num_threads && *c.num_threads != threads) {
    check.violate("/num_threads", *c.num_threads, "sm90_prefill: one producer warpgroup and BM/64 consumers",
                  fmt::format("{}", threads));
  }
  c.num_threads = threads;

  // Shared memory: as many stages as fit, at least two, unless told.
  const int q = p.q_bytes() * p.num_math_warpgroups, o = p.o_bytes() * p.num_math_warpgroups;
  const int per_stage = p.BN * (p.depth + p.ov_depth) * 2;
  const int spare = 1024;  // barriers and alignment
  if (!c.num_kv_stages) {
    const int with_o = (232448 - spare - q - o) / per_stage;
    c.num_kv_stages = std::clamp(with_o >= 2 ? with_o : (232448 - spare - q) / per_stage, 2, 4);
  }
  p.num_kv_stages = *c.num_kv_stages;
  if (p.num_kv_stages < 2 || p.num_kv_stages > 8) {
    check.violate("/num_kv_stages", p.num_kv_stages, "V25: num_kv_stages is 2 to 8 here",
                  p.num_kv_stages < 2 ? "2" : "8");
    return std::nullopt;
  }
  p.separate_o = q + o + p.num_kv_stages * per_stage + spare <= 232448;

  p.k.emplace(TMAConsumerPipeline::Shape{true, p.BN, p.depth, p.num_kv_stages, p.num_qk_stages, p.span_bytes,
                                         2, p.math_warps()});
  p.v.emplace(TMAConsumerPipeline::Shape{false, p.BN, p.ov_depth, p.num_kv_stages, 1, p.span_bytes, 2,
                                         p.math_warps()});
  p.dynamic = p.causal || p.ragged;
  if (p.dynamic) p.work.emplace("work", 2, 1);

  p.smem_q = p.smem.add("q", p.q_stride() * p.num_math_warpgroups, 1024, "Q, 64 rows per consumer warpgroup");
  p.smem_k = p.smem.add("k", p.k->ring_bytes(), 1024, "K stages");
  p.smem_v = p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  p.smem_o =
      p.separate_o ? p.smem.add("o", o, 1024, "O on its way out, 64 rows per consumer warpgroup") : p.smem_q;
  p.smem_q_barriers =
      p.smem.add("mbar_q", 16 * p.num_math_warpgroups, 8, "Q full/empty per consumer warpgroup");
  p.smem_k_barriers = p.smem.add("mbar_k", p.k->ring().barrier_bytes(), 8, "K ring full/empty");
  p.smem_v_barriers = p.smem.add("mbar_v", p.v->ring().barrier_bytes(), 8, "V ring full/empty");
  p.smem_work_barriers =
      p.dynamic ? p.smem.add("mbar_work", p.work->barrier_bytes(), 8, "work ring full/empty") : 0;
  p.smem_work = p.dynamic ? p.smem.add("work", 8, 8, "work items handed to the consumers") : 0;
  if (p.smem.bytes() > 232448) {
    const int stages = (232448 - spare - std::max(q, o)) / per_stage;
    check.violate_all({"/BN", "/num_kv_stages", "/BM"},
                      fmt::format("V15: shared memory is {} bytes, at most 232448", p.smem.bytes()),
                      stages >= 2 ? fmt::format("num_kv_stages {}", stages)
                                  : fmt::format("BN {}", (232448 - spare - std::max(q, o)) /
                                                             (4 * (p.depth + p.ov_depth)) / 16 * 16));
  }

  if (out.size() != before) return std::nullopt;

  p.qk.emplace(c.dtype, p.BN, Wgmma::A::smem, false);
  p.pv.emplace(c.dtype, p.ov_depth, Wgmma::A::registers, true);
  OnlineSoftmax::Shape softmax;
  softmax.score_regs = p.BN / 2;
  softmax.output_regs = p.ov_depth / 2;
  softmax.exp_offload = c.exp_offload.value_or(0.0);
  p.softmax.emplace(softmax);
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm90
