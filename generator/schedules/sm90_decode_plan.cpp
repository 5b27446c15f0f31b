#include "generator/schedules/sm90_decode_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/meaning.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm90 {
namespace {

constexpr const char* kName = "sm90_decode";

/// Rotary columns that lie apart are multiplied as they are stored: a tail of rows of bytes, or a tensor of
/// their own beside rows of either size.
void check_rope(const Config& c, const Config& m, const MeaningCheck& check) {
  const bool tail = has_rope_tail(c), bytes = size_of(*m.kv_dtype) == 1;
  if (tail) {
    check.takes(bytes && size_of(c.dtype) == 2, c.kv_dtype ? "/kv_dtype" : "/rope",
                "takes a tail of 16-bit columns behind 8-bit ones, under a 16-bit Q", "fp8_e4m3, int8");
  } else {
    check.takes(size_of(c.dtype) == 2, "/dtype", "takes a tensor of rotary columns under a 16-bit Q",
                "bf16, fp16");
  }
  check.takes(*m.rope->dtype == c.dtype, "/rope/dtype", "multiplies rotary columns as they are: of Q's type",
              std::string(to_string(c.dtype)));
  check.takes(*m.v_from_k, c.v_from_k ? "/v_from_k" : "/rope",
              tail ? "takes a tail where V lies in K" : "takes a tensor of rotary columns where V lies in K",
              "v_from_k true");
  check.takes(*m.head_dim_offset == 0, "/head_dim_offset",
              tail ? "reads rows with a tail from their start"
                   : "reads rows beside a tensor of rotary columns from their start",
              "0");
  // Beside 16-bit columns the rotary ones are the panel after theirs.
  const int nope = k_columns(m), step = bytes ? 16 : 64;
  check.takes(nope % step == 0 && nope > 0, c.nope_depth ? "/nope_depth" : "/rope_depth",
              tail ? "takes multiples of 16 columns before a tail"
                   : fmt::format("takes multiples of {} columns beside a tensor of rotary ones", step),
              std::to_string(std::max(nope / step * step, step)));
  check.takes(*m.ov_depth <= nope, "/ov_depth",
              tail ? "finds V before the tail" : "finds V before the rotary columns",
              "at most " + std::to_string(nope));
}

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, kName, out);
  check.keys({"BK", "swizzle", "num_kv_stages", "rope"});
  const bool fp8 = c.dtype == DType::fp8_e4m3;
  check.takes(fp8 || c.dtype == DType::bf16 || c.dtype == DType::fp16, "/dtype",
              "takes bf16, fp16 and fp8_e4m3", "bf16, fp16, fp8_e4m3");
  check.takes(*m.out_dtype == DType::bf16 || *m.out_dtype == DType::fp16, "/out_dtype",
              "writes bf16 and fp16", "bf16, fp16");
  check.takes_kv_of_dtype_or_bytes();
  check.takes(!fp8 || *m.kv_dtype == c.dtype, "/kv_dtype",
              "multiplies Q of fp8_e4m3 with keys of the same type", "fp8_e4m3");
  const auto& quantization = m.operand->quantization;
  if (quantization && quantization->granularity == Quantization::Granularity::per_block) {
    const int n = quantization->block, longest = std::max(k_columns(m), *m.ov_depth);
    const char* pointer = "/operand/quantization/granularity";
    check.takes(n >= longest || (n % 16 == 0 && c.depth % n == 0 && *m.ov_depth % n == 0), pointer,
                "takes a scale for a multiple of 16 elements that divides the depth",
                c.depth % 64 == 0 ? "16, 32, 64" : "16");
    check.takes(n >= longest || (!fp8 && !*m.v_from_k), pointer,
                fp8 ? "has one scale a row of K where Q is FP8" : "has one scale a row where V lies in K",
                "per_tensor, per_head, per_token");
  }
  check.takes_rows_of_depth();
  if (c.rope) check_rope(c, m, check);
  check.takes_positive_scale();
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    const int most = *m.v_from_k && std::string_view(pointer) == "/depth" ? 576 : 512;
    if (value % 16 != 0 || value < 16 || value > most) {
      break_rule(c, kName, {pointer}, fmt::format("depth is a multiple of 16 between 16 and {}", most),
                 std::to_string(std::clamp((value + 15) / 16 * 16, 16, most)), out);
    }
  }
  return check.passed();
}

/// S' of a lane: row index c (a query row) in registers 4 * (c / 2) + c % 2 + {0, 2} of each block of 64
/// keys, at keys 16 * warp + (lane >> 2) + {0, 8}.
ScoreLayout transposed_layout(const DecodePlan& p) {
  const int regs = p.s_regs();
  ScoreLayout layout{p.key_blocks() * regs,
                     p.columns(),
                     p.BN,
                     "(16 * warp + (lane >> 2))",
                     [regs](int i) { return i % regs / 4 * 2 + i % 2; },
                     [regs](int i) { return 64 * (i / regs) + i % 4 / 2 * 8; }};
  layout.vector = regs;
  layout.numbered = true;
  layout.word_columns = 64;
  layout.lane_word = "warp / 2";
  layout.lane_bit = "16 * (warp & 1) + (lane >> 2)";
  return layout;
}

}  // namespace

std::string DecodePlan::lane_row(int c) const {
  return upright ? fmt::format("16 * warp + {} + (lane >> 2)", 8 * c)
                 : fmt::format("{} + 2 * (lane & 3)", 8 * (c / 2) + c % 2);
}

ScoreContext DecodePlan::score_context() const {
  ScoreContext context;
  for (int c = 0; c < lane_rows(); ++c) {
    if (names_rows()) {
      context.rows.push_back({fmt::format("query_{}", c), fmt::format("head_{}", c)});
    } else {
      context.rows.push_back({fmt::format("(s.m_block * {} + {}) / group", BM, lane_row(c)), ""});
    }
  }
  context.batch = "s.batch";
  context.seqlen_q = "s.sequence.seqlen_q";
  context.seqlen_k = "s.sequence.seqlen_k";
  return context;
}

namespace {

/// Keys of a sequence lie together, `keys` of them at least.
bool lie_together(const Config& c, int keys) {
  return c.operand->kind != OperandKind::paged || c.operand->page_size.value_or(0) >= keys;
}

/// What masks and modifiers keep in registers where rows stand upright.
int registers_beside_scores(const Config& c) {
  const ScoreLayout layout = mma_score_layout(32);
  return Mask(*c.mask, layout).live_registers() + ScoreModifier(*c.score_mod, layout, {}).live_registers();
}

/// `bytes`, or as many more as keep a multiprocessor from taking more than `blocks`.
int keeping_out_others(int bytes, int blocks) {
  const TargetInfo& target = target_info(Target::sm_90a);
  return std::max(bytes, align_up(target.processor_smem() / (blocks + 1) - target.smem_reserved + 1, 16));
}

}  // namespace

int DecodePlan::smem_bytes() const {
  return keeping_out_others(smem.bytes(), room_beside || residency_at_launch ? 1 : ctas_per_sm);
}

int DecodePlan::shared_smem_bytes() const {
  return keeping_out_others(shared_smem_used(), ctas_per_sm);
}

std::optional<DecodePlan> plan_decode(Config c, Violations& out, bool separate) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const auto before = out.size();
  const Refusals refuse(user, out);
  DecodePlan p;
  p.depth = c.depth;
  p.k_depth = k_columns(c);
  p.rope = p.depth - p.k_depth;
  p.ov_depth = *c.ov_depth;
  p.kv_bytes = static_cast<int>(size_of(*c.kv_dtype));
  p.narrow = p.kv_bytes == 1;
  p.math = p.narrow ? DType::fp16 : c.dtype;
  p.fp8_q = c.dtype == DType::fp8_e4m3;
  p.v_in_k = *c.v_from_k;
  if (const auto& q = c.operand->quantization; q && q->granularity == Quantization::Granularity::per_block) {
    p.k_groups = std::max(p.k_depth / q->block, 1);
    p.v_groups = std::max(p.ov_depth / q->block, 1);
  }
  // Rows of panels; pieces of one row, as those of pages of an odd number of rows are, have to be 128 bytes:
  // a tensor copy begins at whole 128 bytes of shared memory.
  const bool single_rows = c.operand->kind == OperandKind::paged && *c.operand->page_size % 2 == 1;
  const auto span = [&](int depth) {
    return single_rows ? 128 : std::min(128, (depth * p.kv_bytes + 63) / 64 * 64);
  };
  p.k_span = p.narrow ? span(p.k_depth) : 128;
  p.v_span = p.v_in_k ? p.k_span : p.narrow ? span(p.ov_depth) : 128;
  p.k_panels = (p.k_depth * p.kv_bytes + p.k_span - 1) / p.k_span;
  p.v_panels = (p.ov_depth * p.kv_bytes + p.v_span - 1) / p.v_span;
  p.lse = *c.lse;
  p.sink = *c.sink;
  p.separate = separate;
  c.schedule = kName;

  // 16 rows hold the usual groups with a few drafted tokens. A group that is known, by name or by head
  // counts, and has at most 8 heads takes 8: half of the exponentials (bench/NOTES.md 106). All heads read
  // the same rows of a latent cache, many as a rule: 64 (118). Wide outputs otherwise leave registers for 16.
  const bool odd_pages = single_rows && *c.operand->page_size > 1;  // more than a lean producer can look up
  const bool latent = p.v_in_k && !p.narrow && p.v_panels % 2 == 0 && !odd_pages;
  const int most = p.ov_depth <= 256 ? 64 : 16;
  if (!c.BM) {
    const bool counted = c.num_q_heads && c.kv_num_heads;
    const int heads = c.group.value_or(counted ? *c.num_q_heads / *c.kv_num_heads : 16);
    const bool many = latent && p.ov_depth > 256 && registers_beside_scores(c) <= 24;
    c.BM = heads <= 8 && !p.grouped() ? 8 : many ? 64 : std::min(most, (heads + 15) / 16 * 16);
  }
  p.BM = *c.BM;
  const bool eight = p.BM == 8 && !p.grouped();
  if (!eight && (p.BM % 16 != 0 || p.BM < 16 || p.BM > 128)) {
    refuse(kName, {"/BM"},
           p.grouped() ? "BM, the packed query rows, is a multiple of 16 up to 128"
                       : "BM, the packed query rows, is 8 or a multiple of 16 up to 128",
           std::to_string(std::clamp((p.BM + 15) / 16 * 16, 16, 128)));
    return std::nullopt;
  }
  // Past depth 64 products of groups of columns leave two blocks of 128 keys no registers, but for two groups
  // of E4M3 with nothing to mask (tried with ptxas 13.0).
  const bool lean = *c.kv_dtype == DType::fp8_e4m3 && std::max(p.k_groups, p.v_groups) <= 2 &&
                    c.mask->kind == MaskConfig::Kind::none && c.score_mod->kind == ScoreMod::Kind::none;
  const int widest = p.grouped() && !lean ? 64 : 128;
  if (!c.BN) c.BN = p.narrow && p.rope == 0 && std::max(p.depth, p.ov_depth) <= widest ? 128 : 64;
  p.BN = *c.BN;
  if (p.BN % 64 != 0 || p.BN < 64 || p.BN > 256) {
    refuse("V3", {"/BN"}, "BN is a multiple of 64, the rows of wgmma, up to 256",
           std::to_string(std::clamp((p.BN + 63) / 64 * 64, 64, 256)));
    return std::nullopt;
  }
  const int v_fragments = p.BN / 4 * (p.v_in_k ? 1 : p.out_blocks());
  const int in_registers = std::max(p.fp8_q ? 0 : p.k_fragment_registers(), v_fragments);
  const int fragments = p.grouped() ? 16 + p.s_regs() : p.narrow ? in_registers : 0;
  p.upright = !p.narrow && p.BM == 64 && (p.padded_ov() <= 256 || latent);
  p.warpgroups = p.upright && p.padded_ov() > 256 ? 2 : 1;
  ScoreModifier::Dialect dialect;
  dialect.tanh = "";  // decode has time for the exact one
  const ScoreLayout layout = p.upright ? mma_score_layout(p.BN / 2) : transposed_layout(p);
  p.mask.emplace(*c.mask, layout);
  p.modifier.emplace(*c.score_mod, layout, dialect);
  const int tiles = p.upright ? (p.BN / 2 + p.BN / 4 + p.ov_columns() / 2)
                              : (p.key_blocks() + p.out_blocks()) * p.s_regs() + 3 * p.columns() + fragments;
  // A tail's part of S' lives as long as K's fragments do.
  const int tail = p.rope_apart() ? p.key_blocks() * p.s_regs() + 32 : 0;
  const int registers = tiles + tail + p.mask->live_registers() + p.modifier->live_registers();
  if (registers > 200) {
    refuse(kName, {"/BM", "/BN", "/depth", "/ov_depth"},
           fmt::format("S' and O' take {} registers a thread, at most 200", registers),
           p.BM > 16 ? fmt::format("BM {}", std::max(16, p.BM / 2 / 16 * 16)) : "");
    return std::nullopt;
  }
  const SwizzleMode swizzle = p.k_span == 128 ? SwizzleMode::b128 : SwizzleMode::b64;
  const auto* asked = c.swizzle ? std::get_if<SwizzleMode>(&*c.swizzle) : nullptr;
  if (c.swizzle && (!asked || *asked != swizzle)) {
    refuse("V20", {"/swizzle"}, fmt::format("rows are cut into panels of {} bytes", p.k_span),
           p.k_span == 128 ? "128B" : "64B");
  }
  c.swizzle = swizzle;
  const int bk = p.padded_depth();
  if (c.BK && *c.BK != bk)
    refuse("V8", {"/BK"}, "BK is the depth in whole panels: K is loaded at once", std::to_string(bk));
  c.BK = bk;
  const std::array<int, 3> shape{64, p.upright ? p.BN : p.BM, p.fp8_q ? 32 : 16};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(kName, {"/mma_shape"},
           p.upright ? "the matrix instruction is m64 n(BN) k16, 64 query rows on the M side"
                     : "the matrix instruction is m64 n(BM), keys on the M side",
           fmt::format("[64, {}, {}]", shape[1], shape[2]));
  c.mma_shape = shape;
  const int page = c.operand->kind == OperandKind::paged ? *c.operand->page_size : 0;
  p.producer_warps = !p.v_in_k && MHAOperand::piece_rows(p.BN, page) < p.BN ? 2 : 1;
  if (c.num_threads && *c.num_threads != p.num_threads())
    refuse(kName, {"/num_threads"},
           p.warpgroups == 2       ? "two consumer warpgroups and one producer warp"
           : p.producer_warps == 1 ? "one consumer warpgroup and one producer warp"
                                   : "one consumer warpgroup, a producer warp for K and one for V",
           std::to_string(p.num_threads()));
  c.num_threads = p.num_threads();

  // Two blocks to a multiprocessor where three stages fit, else as many stages as fit one block.
  p.config = c;  // what the sizes below ask about
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.BN);
  const int scale_bytes = p.scale_bytes(true) + (p.v_in_k ? 0 : p.scale_bytes(false));  // of one stage
  const int row_bytes =
      p.k_panels * p.k_span + 128 * p.rope_panels() + (p.v_in_k ? 0 : p.v_panels * p.v_span);
  const int per_stage = p.BN * row_bytes + scale_bytes;
  const int p_bytes =
      p.upright ? 0 : 128 * p.BM * p.key_blocks() * p.v_groups;  // where P goes through memory
  const int o_bytes = p.o_in_q() ? 0 : 128 * p.BM * p.out_blocks();
  const int other = p.q_bytes() + o_bytes + p_bytes + 16 * p.BM + 2048;
  const TargetInfo& target = target_info(Target::sm_90a);
  const auto fitting = [&](int blocks) {
    return (target.processor_smem() / blocks - target.smem_reserved - other) / per_stage;
  };
  // Two have 168 registers a thread, which upright rows exceed, and products of many groups of columns.
  const int busy = registers + (p.grouped() ? 5 * std::max(p.k_groups, p.v_groups) : 0);
  p.ctas_per_sm = fitting(2) >= 2 && !p.upright && busy <= 108 && !separate ? 2 : 1;
  p.room_beside = separate && p.upright && registers <= 112;  // of 168
  // What two stages of 8-bit tiles, or more of small ones, feed is a second warpgroup's work: one block alone
  // is slower at any length (bench/NOTES.md 78).
  const bool choosable = p.ctas_per_sm == 2 && !p.narrow && per_stage >= 24 << 10;
  if (!c.num_kv_stages && fitting(1) < 2) {
    refuse(
        "V15", {"/BN", "/depth", "/ov_depth"},
        fmt::format("two stages of K and V take {} bytes of shared memory beside {} of Q and O, at most {}",
                    2 * per_stage, other, target.smem_bytes),
        "");
    return std::nullopt;
  }
  if (!c.num_kv_stages) {
    // Two blocks with two stages each keep the memory busy; more only queue, and blocks get less equal
    // shares.
    const int bytes = (p.upright ? 8 : 3) << 14;
    const int enough = p.v_in_k ? 8 : std::max(bytes / per_stage, 2);
    const int each = std::clamp(fitting(p.ctas_per_sm), 1, enough);
    // A block alone needs no more either, but for page lookups and a tile in many copies (bench/NOTES.md
    // 113).
    const int alone_bytes = (lie_together(c, p.BN) ? 64 : 96) << 10;
    c.num_kv_stages = choosable ? std::clamp(ceil_div(alone_bytes, per_stage), each, fitting(1)) : each;
  }
  p.num_kv_stages = *c.num_kv_stages;
  // Short launches do better with one block a multiprocessor: half the parts to add up, and one ring for all
  // that is on its way (bench/NOTES.md 73, 78). Where keys of a sequence lie together, longer ones, too.
  p.residency_at_launch = choosable && p.num_kv_stages >= 2 && p.num_kv_stages <= fitting(1);
  p.shared_stages = p.residency_at_launch
                        ? std::clamp((p.num_kv_stages + 1) / 2, 2, std::min(p.num_kv_stages, fitting(2)))
                        : p.num_kv_stages;
  p.alone_megabytes = lie_together(c, 256) ? 8 : 2;
  // V of one tile is still read when K of the next is multiplied.
  const int fewest = p.v_in_k ? 2 : 1;
  if (p.num_kv_stages < fewest || p.num_kv_stages > 16) {
    refuse("V25", {"/num_kv_stages"}, fmt::format("num_kv_stages is {} to 16 here", fewest),
           std::to_string(p.num_kv_stages < fewest ? fewest : 16));
    return std::nullopt;
  }

  const int warps = 4 * p.warpgroups;
  TMAConsumerPipeline::Shape k{true, p.BN, p.padded_depth(), p.num_kv_stages, 1, p.k_span, p.kv_bytes, warps};
  TMAConsumerPipeline::Shape v{false, p.BN, p.padded_ov(), p.num_kv_stages, 1, p.v_span, p.kv_bytes, warps};
  k.rope_bytes = 128 * p.rope_panels();
  k.stages_at_launch = v.stages_at_launch = p.stages_at_launch();
  p.k.emplace(k);
  if (p.v_in_k) v.slot_bytes = p.k->full_kv_bytes();
  p.v.emplace(v);
  // Narrow caches keep the warps busy, so blocks drift apart; 16-bit ones only wait for memory and lose by
  // more parts.
  const bool dynamic = p.narrow && !c.split_kv;
  p.stream.emplace(StreamK::Shape{c.operand->kind, p.BM, p.BN, *c.mask, !c.split_kv, c.split_kv.value_or(1),
                                  "wait_for_launch_before();", dynamic, separate});

  const auto add_rings = [&p] {
    p.smem_k = p.smem.add("k", p.k->ring_bytes(), 1024, "K stages");
    p.smem_v = p.v_in_k ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  };
  if (!p.stages_at_launch()) add_rings();
  p.smem_q = p.smem.add("q", p.q_bytes(), 1024, "Q: the packed query rows");
  if (!p.upright) p.smem_p = p.smem.add("p", p_bytes, 1024, "P, rows = query rows");
  p.smem_o = p.o_in_q() ? p.smem_q : p.smem.add("o", o_bytes, 1024, "O on its way out");
  if (scale_bytes > 0)
    p.smem_scales = p.smem.add("scales", scale_bytes * p.num_kv_stages, p.scale_tiles() ? 128 : 16,
                               "scales of each key: K stages, V stages");
  if (!p.upright) p.smem_max = p.smem.add("max", 4 * 4 * p.BM, 16, "maximum of each row, of each warp");
  const int rings = p.k->ring().barrier_bytes() + p.v->ring().barrier_bytes() + p.cells.barrier_bytes();
  p.smem_barriers = p.smem.add("mbar", rings, 8, "K, V and cell rings");
  p.smem_cells = p.smem.add("cells", 8, 8, "cells handed to the consumers");
  p.smem_flag = p.smem.add("flag", 8, 8, "arrivals at the item before this block");
  if (p.stages_at_launch()) add_rings();  // last: fewer stages leave the end out
  if (p.smem.bytes() > target.smem_bytes) {
    refuse("V15", {"/BN", "/num_kv_stages", "/BM"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), target.smem_bytes),
           fmt::format("num_kv_stages {}", std::max(1, fitting(1))));
  }
  if (out.size() != before) return std::nullopt;
  p.ctas_per_sm =
      std::clamp(target.processor_smem() / (p.shared_smem_used() + target.smem_reserved), 1, p.ctas_per_sm);

  const auto a = p.narrow ? Wgmma::A::registers : Wgmma::A::smem;
  if (p.upright) {
    p.qk.emplace(p.math, p.BN, Wgmma::A::smem, false);
    p.pv.emplace(p.math, p.ov_columns(), Wgmma::A::registers, true);
  } else {
    p.qk.emplace(p.fp8_q ? c.dtype : p.math, p.BM, p.k_in_registers() ? a : Wgmma::A::smem, false);
    p.pv.emplace(p.math, p.BM, a, false, !p.narrow);
    if (p.rope_apart()) p.qk_rope.emplace(c.dtype, p.BM, Wgmma::A::smem, false);
  }
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm90
