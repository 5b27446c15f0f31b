#include "generator/schedules/sm90_prefill/plan.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/masks.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm90 {
namespace {

constexpr int kSpare = 1024;  // of shared memory, for barriers and alignment

int most_smem() {
  return target_info(Target::sm_90a).smem_bytes;
}

/// Fewer registers for a consumer thread, where the producer's warpgroup has converters and copies scales, or
/// transposes V, or looks up pages with what the consumers would leave it: of a few rows, of a number of
/// rows that no tile is a multiple of, or beside three warpgroups. Found by compiling (ptxas 13.0).
int lent_registers(const Config& c, int num_math_warpgroups) {
  const bool pages = c.operand->kind == OperandKind::paged || c.operand->kind == OperandKind::continuous;
  const unsigned rows = static_cast<unsigned>(c.operand->page_size.value_or(0));
  if (is_narrow(c)) return pages && rows < 16 ? 24 : 16;
  return is_fp8(c.dtype) || (pages && (num_math_warpgroups == 3 || !std::has_single_bit(rows))) ? 8 : 0;
}

// Fastest tiles measured on H200 (bench/NOTES.md); depths in between take the next larger entry.
/// More work a score makes softmax the longer part of the loop: more warpgroups, in turns, hide it better.
bool has_fixed_modifier(const Config& c) {
  return c.score_mod->kind == ScoreMod::Kind::softcap || c.score_mod->kind == ScoreMod::Kind::alibi;
}

/// A soft cap inside softmax's exponent adds less than one before it.
bool has_curve(const Config& c) {
  return ScoreModifier(*c.score_mod, {}).enter_exponent().has_value();
}

int default_bm(const Config& c) {
  if (is_narrow(c)) return 128;  // converters need registers that three warpgroups leave nobody
  const int wide = std::max(c.depth, *c.ov_depth);
  if (is_fp8(c.dtype)) return wide <= 128 ? 192 : 128;
  return wide <= 64 || (wide <= 128 && has_fixed_modifier(c) && !has_curve(c)) ? 192 : 128;
}

bool default_ping_pong(const Config& c) {
  return std::max(c.depth, *c.ov_depth) <= 64 || c.score_mod->kind != ScoreMod::Kind::none ||
         c.mask->kind == MaskConfig::Kind::custom;
}

/// O, S and P of a lane.
int live_registers(const Config& c, int BN) {
  return *c.ov_depth / 2 + BN / 2 + BN / 8 * static_cast<int>(is_fp8(c.dtype) ? 1 : 2);
}

/// What a consumer warpgroup has for them; bounds of a ragged item live through its loops.
int register_limit(const Config& c, int num_math_warpgroups, bool ragged) {
  return (num_math_warpgroups == 3 ? (ragged ? 120 : 128) : 200) - lent_registers(c, num_math_warpgroups);
}

/// Shared memory of narrow K and V: two stages of 16 bits and two tiles of bytes, beside Q (or O in its
/// place).
int narrow_bytes(const Config& c, int BM, int BN) {
  const int wide = std::max(c.depth, *c.ov_depth), scales = 6 * 4 * BN;
  return kSpare + 2 * BM * wide + 4 * BN * (c.depth + *c.ov_depth) + 2 * BN * wide + scales;
}

/// How many parts S is watched in (OnlineSoftmax::emit_watched): as few as the registers allow, since each
/// ends in a vote that nothing overlaps; 0 where not even small ones fit. What fits was tried with
/// ptxas 13.0. exp2_fma wraps where exp2 overflows, which the watch must see.
int watched_parts(const PrefillPlan& p, const Config& c) {
  if (c.exp_offload.value_or(0.0) > 0) return 0;
  const bool three = p.num_math_warpgroups == 3;
  if (p.narrow && p.ov_depth > 192) return 0;
  if (three && p.ragged && !p.modifier->none()) return 0;
  const int limit = three ? (p.mask->bounded_below()   ? 132
                             : p.mask->bounded_above() ? 140
                                                       : 144)
                          : (p.ragged ? 180 : 196) - (p.narrow ? 24 : 0);
  for (int parts = 1; parts <= 5; ++parts) {
    const int part = (p.BN / 2 / parts + 3) / 4 * 4;
    if (three && part > 16) continue;
    if (live_registers(c, p.BN) + part <= limit) return parts;
  }
  return 0;
}

/// What becomes of scores, once the width of a tile stands.
void set_scores(PrefillPlan& p, const Config& c) {
  p.mask.emplace(*c.mask, mma_score_layout(p.BN / 2));
  p.modifier.emplace(*c.score_mod, mma_score_layout(p.BN / 2));
  // O of more columns leaves no registers for a second way.
  if (std::max(p.depth, p.ov_depth) <= 128) p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype));
}

/// The measured width, narrowed until mask and score modifier find registers beside O, S and P.
int default_bn(const Config& c, int num_math_warpgroups, bool ragged) {
  const int wide = std::max(c.depth, *c.ov_depth);
  const bool fp8 = is_fp8(c.dtype);
  // Found by compiling: past depth 128 an FP8 tile of 128 keys spills, past 192 one of 96 beside the loops of
  // a window or the pages of a few rows.
  const bool crowded =
      is_window(*c.mask) || (c.operand->kind == OperandKind::paged && c.operand->page_size.value_or(96) < 96);
  int BN = num_math_warpgroups == 3 ? (wide > 64 || has_curve(c) ? 96 : 128)
           : fp8                    ? (wide <= 128             ? 128
                                       : wide > 192 && crowded ? 64
                                                               : 96)
           : wide <= 64             ? 192
           : wide <= 128            ? 128
           : wide <= 192            ? 112
           : has_fixed_modifier(c)  ? 80
                                    : 64;
  // With scales of keys wider ones spill, and past depth 192 over pages these do, too, unless a bounded mask
  // has ends of its own.
  if (fp8 && scales_by_row(c.operand->quantization)) {
    const bool bounded = c.mask->kind != MaskConfig::Kind::none && c.mask->kind != MaskConfig::Kind::custom;
    BN = wide > 192 && c.operand->kind == OperandKind::paged && !bounded ? 32 : 64;
  }
  const int step =
      fp8 || c.mask->kind == MaskConfig::Kind::custom || scales_by_row(c.operand->quantization) ? 32 : 16;
  if (is_narrow(c)) BN = std::min(BN, 128);
  BN -= BN % step;
  const auto fits = [&] {
    if (is_narrow(c) && narrow_bytes(c, 64 * num_math_warpgroups, BN) > most_smem()) return false;
    const ScoreLayout layout = mma_score_layout(BN / 2);
    const int mask = Mask(*c.mask, layout).live_registers();
    int modifier = ScoreModifier(*c.score_mod, layout).live_registers();
    // Three warpgroups leave the compiler less to spend on what it could compute again.
    if (num_math_warpgroups == 3) modifier = std::min(modifier, 8 + modifier / 2);
    const int lent = is_narrow(c) ? lent_registers(c, num_math_warpgroups)
                                  : 0;  // again: what is kept or loaded ahead for scales
    return live_registers(c, BN) + mask + modifier + lent <= register_limit(c, num_math_warpgroups, ragged);
  };
  const int page = c.operand->kind == OperandKind::paged ? *c.operand->page_size : 0;
  while (BN > step && !fits()) BN -= step;
  // Rather a narrower tile of whole pages, or whole tiles a page; of others each piece is a copy.
  const int widest = BN;
  const auto cuts = [&] { return page == 0 || BN % page == 0 || page % BN == 0; };
  while (BN > step && !cuts()) BN -= step;
  return cuts() ? BN : widest;
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

bool check_meaning(const Config& c, Violations& out) {
  const auto before = out.size();
  check_prefill_meaning(c, "sm90_prefill",
                        {"BK", "swizzle", "num_kv_stages", "num_qk_stages", "cluster", "exp_offload",
                         "pv_operand", "tma_fold", "shared_ring"},
                        PrefillBytes::fp8, out);
  if (c.pv_operand.value_or("registers") != "registers")
    refuse_value(c, "/pv_operand", "sm90_prefill keeps P in registers", "registers", out);
  return out.size() == before;
}

/// Panels of a copy, and whether K and V share a ring.
bool choose_rings(PrefillPlan& p, Config& c, const Refusals& refuse) {
  if (p.cluster == 1 && !p.narrow) {
    p.k_fold = p.operand->fold(c, p.element_bytes, p.span_bytes, *c.BK, p.depth);
    p.v_fold = p.operand->fold(c, p.element_bytes, p.span_bytes, p.ov_depth, p.ov_depth);
  }
  resolve_fold(c, p.k_fold, p.v_fold, refuse);

  p.shared_ring = c.shared_ring.value_or(false);
  if (p.shared_ring && (p.converts() || p.cluster > 1 || p.num_qk_stages > 1)) {
    refuse("sm90_prefill", {"/shared_ring", "/kv_dtype", "/cluster", "/num_qk_stages"},
           "K and V share a ring where both come by copies of one block, each at once", "false");
    return false;
  }
  c.shared_ring = p.shared_ring;
  return true;
}

/// Stages unless asked: as many as fit.
bool choose_stages(PrefillPlan& p, Config& c, int q, int o, int per_stage, const Refusals& refuse) {
  const int fewest = p.shared_ring ? 3 : 2;  // slots: K(n), V(n + 1) and what comes
  if (!c.num_kv_stages) {
    const int raw = p.fp8 ? 2 * p.raw_slot_bytes() : 0;  // at least
    const int with_o = (most_smem() - kSpare - raw - q - o) / per_stage;
    const int without = (most_smem() - kSpare - raw - std::max(q, o)) / per_stage;
    c.num_kv_stages =
        p.narrow ? 2 : std::clamp(with_o >= fewest ? with_o : without, fewest, p.shared_ring ? 8 : 4);
  }
  p.num_kv_stages = *c.num_kv_stages;
  if (p.num_kv_stages < fewest || p.num_kv_stages > 8) {
    refuse("V25", {"/num_kv_stages"}, fmt::format("num_kv_stages is {} to 8 here", fewest),
           std::to_string(p.num_kv_stages < fewest ? fewest : 8));
    return false;
  }
  return true;
}

/// `columns`: of a stage.
void set_rings(PrefillPlan& p, int columns) {
  TMAConsumerPipeline::Shape k{
      true,           p.BN,     p.depth, p.num_kv_stages, p.num_qk_stages, p.span_bytes, p.element_bytes,
      p.math_warps(), p.cluster};
  TMAConsumerPipeline::Shape v{false,           p.BN,           p.ov_depth, p.num_kv_stages, 1, p.v_span,
                               p.element_bytes, p.math_warps(), p.cluster};
  v.transposed = p.fp8;
  k.shared_ring = v.shared_ring = p.shared_ring;
  if (p.shared_ring) k.slot_bytes = v.slot_bytes = p.BN * columns * p.element_bytes;
  p.k.emplace(k);
  p.v.emplace(v);
}

void set_scale(const PrefillPlan& p, OnlineSoftmax::Shape& softmax) {
  softmax.scale_log2 = p.scale_joins_factor() ? "factor" : p.modifier->scale_log2();
  softmax.scale = p.scale_joins_factor() ? "(factor * 0.693147181f)" : p.modifier->scale();
}

}  // namespace

std::optional<PrefillPlan> plan_prefill(Config c, bool ping_pong, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const auto before = out.size();
  const Refusals refuse(user, out);
  PrefillPlan p;
  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.ragged = c.operand->kind != OperandKind::contiguous;
  p.lse = *c.lse;
  p.sink = *c.sink;
  p.o_floats = *c.out_dtype == DType::f32;
  p.narrow = is_narrow(c);
  p.fp8 = is_fp8(c.dtype);
  if (p.fp8) p.element_bytes = 1;
  p.math = p.narrow ? DType::fp16 : c.dtype;  // one instruction widens two bytes to FP16, five to BF16
  p.config = c;                               // what the sizes below ask about

  if (!c.BM) c.BM = default_bm(c);
  p.BM = *c.BM;
  if (p.BM != 64 && p.BM != 128 && p.BM != 192) {
    refuse("sm90_prefill", {"/BM"}, "BM is 64 rows for each of 1 to 3 consumer warpgroups", "64, 128, 192");
    return std::nullopt;
  }
  p.num_math_warpgroups = p.BM / 64;
  // Three short-rowed warpgroups collide in the tensor cores unless they take turns; two leave gaps when they
  // do. One has nobody to take turns with.
  p.ping_pong = c.schedule ? ping_pong : default_ping_pong(c) && p.num_math_warpgroups > 1;
  if (p.ping_pong && p.num_math_warpgroups == 1) {
    refuse("sm90_prefill_pingpong", {"/schedule", "/BM"}, "two or three consumer warpgroups take turns",
           "128, 192");
    return std::nullopt;
  }
  c.schedule = p.ping_pong ? "sm90_prefill_pingpong" : "sm90_prefill";
  const bool bits = c.mask->kind == MaskConfig::Kind::custom;
  if (!c.BN) c.BN = default_bn(c, p.num_math_warpgroups, p.ragged);
  p.BN = *c.BN;
  if (bits && p.BN % 32 != 0) {
    refuse("sm90_prefill", {"/BN", "/mask"}, "tiles of a custom mask begin at whole 32-bit words of it",
           fmt::format("{}", std::clamp((p.BN + 16) / 32 * 32, 32, 256)));
    return std::nullopt;
  }

  if (p.scales_by_token() && p.BN % 32 != 0) {
    refuse("sm90_prefill", {"/BN", "/operand/quantization"}, "a warp copies the scales of 32 keys at a time",
           fmt::format("{}", std::clamp((p.BN + 16) / 32 * 32, 32, 256)));
    return std::nullopt;
  }

  const auto span_of = [](int row_bytes) {
    return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32;
  };
  const int row_bytes_gcd = std::gcd(p.depth, p.ov_depth) * p.element_bytes;
  const int natural_span = span_of(row_bytes_gcd);
  p.span_bytes = natural_span;
  if (c.swizzle && p.narrow) {
    const auto* mode = std::get_if<SwizzleMode>(&*c.swizzle);
    if (!mode || *mode != SwizzleMode::none) {
      refuse("V20", {"/swizzle"}, "sm90_prefill copies bytes as they are and swizzles what it widens",
             "none");
      return std::nullopt;
    }
  } else if (c.swizzle) {
    const auto* mode = std::get_if<SwizzleMode>(&*c.swizzle);
    p.span_bytes = mode ? swizzle_span(*mode) : 0;
    if (p.span_bytes == 0 || p.span_bytes > natural_span) {
      refuse("V20", {"/swizzle"},
             fmt::format("sm90_prefill tiles rows of {} bytes into swizzle spans of 32, 64 or 128 bytes",
                         row_bytes_gcd),
             natural_span == 128  ? "128B, 64B, 32B"
             : natural_span == 64 ? "64B, 32B"
                                  : "32B");
      return std::nullopt;
    }
  }
  p.o_span = p.fp8 ? span_of(2 * p.ov_depth) : p.span_bytes;
  p.v_span = p.fp8 ? span_of(p.BN) : p.span_bytes;
  c.swizzle = p.narrow              ? SwizzleMode::none
              : p.span_bytes == 128 ? SwizzleMode::b128
              : p.span_bytes == 64  ? SwizzleMode::b64
                                    : SwizzleMode::b32;

  if (!c.num_qk_stages) c.num_qk_stages = 1;
  p.num_qk_stages = *c.num_qk_stages;
  const int panels = p.depth / p.panel_columns();
  if (p.narrow && p.num_qk_stages != 1) {
    refuse("sm90_prefill", {"/num_qk_stages", "/kv_dtype"}, "K of bytes is widened at once", "1");
    return std::nullopt;
  }
  if (p.fp8_tokens() && p.num_qk_stages != 1) {
    refuse("sm90_prefill", {"/num_qk_stages", "/operand/quantization"}, "scales of keys come with a whole K",
           "1");
    return std::nullopt;
  }
  if (panels % p.num_qk_stages != 0) {
    refuse("V26", {"/num_qk_stages"},
           fmt::format("num_qk_stages divides the {} swizzle panels of a K row", panels),
           fmt::format("1, {}", panels));
    return std::nullopt;
  }
  const int bk0 = p.depth / p.num_qk_stages;
  if (c.BK && *c.BK != bk0) {
    refuse("V8", {"/BK"}, "BK == depth / num_qk_stages on sm_90a", fmt::format("{}", bk0));
  }
  c.BK = bk0;
  const int step = p.step_elements();
  const std::array<int, 3> shape{64, p.BN, step};
  if (c.mma_shape && *c.mma_shape != shape) {
    refuse("sm90_prefill", {"/mma_shape"}, fmt::format("the matrix instruction of QK is m64 n(BN) k{}", step),
           fmt::format("[64, {}, {}]", p.BN, step));
  }
  c.mma_shape = shape;
  if (p.BN % step != 0 || p.BN < step || p.BN > 256) {
    refuse("V3", {"/BN"}, fmt::format("BN is a multiple of {} and at most 256 on sm_90a", step),
           fmt::format("{}", std::clamp((p.BN + step / 2) / step * step, step, 256)));
    return std::nullopt;
  }

  // Blocks of a cluster walk the same KV tiles in step, so their query tiles must see the same keys.
  p.cluster = c.cluster.value_or(1);
  set_scores(p, c);
  const bool own_tiles = p.mask->bounded_above() || p.ragged;
  if (p.cluster != 1 && (p.cluster != 2 || own_tiles || p.converts())) {
    refuse("sm90_prefill", {"/cluster"},
           "clusters of 2 blocks share K and V tiles of 16 bits, without bounded masks and ragged operands",
           own_tiles || p.converts() ? "1" : "1, 2");
    return std::nullopt;
  }

  const int limit = register_limit(c, p.num_math_warpgroups, p.ragged);
  const int live = live_registers(c, p.BN);
  // The next P beside this one: with three warpgroups the compiler finds room for eight more without a mask.
  const int most = p.num_math_warpgroups == 3 && !own_tiles ? limit + 8 : limit;
  // Scales of keys beside looked-up pages leave it none (ptxas 13.0).
  const bool crowded = p.fp8_tokens() && p.ragged && c.operand->kind != OperandKind::ragged;
  p.packed = p.fp8 && !crowded && c.exp_offload.value_or(0.0) == 0 && live + p.BN / 8 <= most;
  // Tiles of keys that hold whole tiles of queries have none at equal lengths, and few otherwise. The widest
  // two-warpgroup kernels over ragged rows spill with it (ptxas 13.0).
  p.skips_tiles = p.mask->bounded_above() && p.num_math_warpgroups > 1 && p.BN % p.BM != 0 &&
                  (p.num_math_warpgroups == 3 ||
                   live <= (p.ragged ? 180 : 196) - lent_registers(c, p.num_math_warpgroups));
  // setmaxnreg moves registers within what the launch allocated: 65536 / num_threads rounded down to 8, times
  // num_threads. A request beyond that never returns.
  p.math_registers = p.num_math_warpgroups == 3 ? 160 : 232;
  p.producer_registers = p.num_math_warpgroups == 3 ? 32 : 40;
  p.math_registers -= lent_registers(c, p.num_math_warpgroups);
  p.producer_registers += lent_registers(c, p.num_math_warpgroups) * p.num_math_warpgroups;
  if (live > limit) {
    const int bn = (limit - p.ov_depth / 2) * 4 / 3 / step * step;
    refuse("sm90_prefill", {"/BN", "/BM"},
           fmt::format("O, S and P take {} registers a thread; {} consumer warpgroups leave {}", live,
                       p.num_math_warpgroups, limit),
           user.BN && bn >= step ? fmt::format("BN {}", bn) : "fewer BM rows");
    return std::nullopt;
  }

  const int threads = p.num_threads();
  if (c.num_threads && *c.num_threads != threads) {
    refuse("sm90_prefill", {"/num_threads"}, "one producer warpgroup and BM/64 consumers",
           fmt::format("{}", threads));
  }
  c.num_threads = threads;

  p.operand.emplace(
      c.operand->kind, c.operand->page_size.value_or(0), p.BN,
      OperandNames{p.late("batch"), "work.kv_head", p.late("k_start"), p.late("seqlen_k"), "heads_kv"});

  if (!choose_rings(p, c, refuse)) return std::nullopt;

  // Shared memory: as many stages as fit, at least two, unless told.
  const int q = p.q_bytes() * p.num_math_warpgroups, o = p.o_bytes() * p.num_math_warpgroups;
  const int columns = p.shared_ring ? std::max(p.depth, p.ov_depth) : p.depth + p.ov_depth;  // of a stage
  const int per_stage = p.BN * columns * p.element_bytes + (p.fp8_tokens() ? 2 * p.scale_bytes() : 0);
  if (!choose_stages(p, c, q, o, per_stage, refuse)) return std::nullopt;
  // Tiles of bytes: those on their way and the one that is widened. More than four need not be.
  int tiles = p.num_kv_stages * (per_stage + (p.narrow ? 2 * p.scale_bytes() : 0));
  if (p.converts()) {
    const int tile = p.raw_slot_bytes() + (p.narrow ? p.scale_bytes() : 0),
              room = most_smem() - kSpare - tiles;
    const int with_o = (room - q - o) / tile;
    const int enough = p.fp8 ? 2 : 4;
    p.num_raw_stages = std::clamp(with_o >= enough ? with_o : (room - std::max(q, o)) / tile, 2, 4);
    tiles += p.num_raw_stages * tile;
  }
  p.separate_o = q + o + tiles + kSpare <= most_smem();

  const int row_bytes = p.narrow ? p.raw_span() : p.span_bytes;
  if (p.operand->num_pages() > 1 && p.operand->eff_page() * row_bytes % 128 != 0) {
    refuse("V16", {"/operand/page_size"},
           fmt::format(
               "rows of a tensor copy are {} bytes here, and it begins at whole 128 bytes of shared memory",
               row_bytes),
           std::to_string(128 / row_bytes));
    return std::nullopt;
  }
  set_rings(p, columns);
  p.dynamic = own_tiles;
  if (p.dynamic) p.work.emplace("work", p.ragged ? 1 : 2, 1);
  if (p.converts()) p.raw.emplace("raw", p.num_raw_stages, 1);

  p.smem_q = p.smem.add("q", p.q_stride() * p.num_math_warpgroups, 1024, "Q, 64 rows per consumer warpgroup");
  p.smem_k =
      p.smem.add("k", p.k->ring_bytes(), 1024, p.shared_ring ? "slots of K and V in turns" : "K stages");
  p.smem_v = p.shared_ring ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  if (p.converts())
    p.smem_raw = p.smem.add("raw", p.num_raw_stages * p.raw_slot_bytes(), 1024,
                            p.fp8 ? "V as copied" : "K and V in turn, as copied");
  p.smem_o = p.separate_o && o > 0
                 ? p.smem.add("o", o, 1024, "O on its way out, 64 rows per consumer warpgroup")
                 : p.smem_q;
  if (p.scales_by_token()) {
    const int alignment = p.scale_tiles() ? 128 : 16;
    p.smem_scales = p.smem.add("scales", 2 * p.num_kv_stages * p.scale_bytes(), alignment,
                               "scales of each key: K stages, V stages");
    if (p.narrow)
      p.smem_raw_scales = p.smem.add("raw_scales", p.num_raw_stages * p.scale_bytes(), alignment,
                                     "the same of tiles as copied");
  }
  p.smem_q_barriers =
      p.smem.add("mbar_q", 16 * p.num_math_warpgroups, 8, "Q full/empty per consumer warpgroup");
  p.smem_k_barriers = p.smem.add("mbar_k", p.k->ring().barrier_bytes(), 8, "K ring full/empty");
  p.smem_v_barriers = p.shared_ring
                          ? p.smem_k_barriers
                          : p.smem.add("mbar_v", p.v->ring().barrier_bytes(), 8, "V ring full/empty");
  if (p.converts())
    p.smem_raw_barriers =
        p.smem.add("mbar_raw", p.raw->barrier_bytes(), 8, "ring of copied tiles full/empty");
  p.smem_work_barriers =
      p.dynamic ? p.smem.add("mbar_work", p.work->barrier_bytes(), 8, "work ring full/empty") : 0;
  p.smem_work = !p.dynamic ? 0
                : p.ragged ? p.smem.add("work", 64, 16,
                                        "work items, this one and the next: place, rows of the sequence")
                           : p.smem.add("work", 8, 8, "work items handed to the consumers");
  if (p.ragged && !p.own_item_warp())
    p.smem_items =
        p.smem.add("items", 6 * 4 * 32, 8, "where the batch is: the producer's lanes, between items");
  if (p.smem.bytes() > most_smem()) {
    const int stages = (most_smem() - kSpare - std::max(q, o)) / per_stage;
    const int of_key = 2 * (p.depth + p.ov_depth) * p.element_bytes + (p.fp8 ? 2 * p.ov_depth : 0);
    int bn = p.narrow ? p.BN : (most_smem() - kSpare - std::max(q, o)) / of_key / step * step;
    while (p.narrow && bn > 16 && narrow_bytes(c, p.BM, bn) > most_smem()) bn -= 16;
    refuse("V15", {"/BN", "/num_kv_stages", "/BM"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most_smem()),
           stages >= 2 && !p.converts() ? fmt::format("num_kv_stages {}", stages) : fmt::format("BN {}", bn));
  }

  if (out.size() != before) return std::nullopt;

  p.qk.emplace(p.math, p.BN, Wgmma::A::smem, false);
  p.pv.emplace(p.math, p.ov_depth, Wgmma::A::registers, !p.fp8);
  OnlineSoftmax::Shape softmax;
  softmax.score_regs = p.BN / 2;
  softmax.output_regs = p.ov_depth / 2;
  softmax.exp_offload = c.exp_offload.value_or(0.0);
  p.watched_parts = p.fp8 ? 0 : watched_parts(p, c);
  // P up to 2^5 leaves what grows a factor of 14 before 448 is passed, and what is small 2^11 above the least
  // of full precision.
  if (p.fp8) softmax.top = 5, softmax.rescale_threshold = 3;
  softmax.watched_parts = p.watched_parts;
  softmax.hides = (p.watched_parts > 0 || p.packed) && p.hides_anywhere();
  softmax.weighted = p.fp8_tokens();
  softmax.weights_end = p.fp8_tokens() && p.scale_tiles();
  if (p.watched_parts > 0) softmax.curve = p.modifier->enter_exponent();
  set_scale(p, softmax);
  if (p.sink) softmax.sink = {"sink[work.head]", "sink[work.head]"};
  p.softmax.emplace(softmax);
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm90
