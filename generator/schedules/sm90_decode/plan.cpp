#include "generator/schedules/sm90_decode/planning.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm90 {

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
  context.seqlen_q = stream->aligned_rows();
  context.seqlen_k = "s.sequence.seqlen_k";
  return context;
}

namespace {

/// Keys of a sequence are contiguous, `keys` of them at least.
bool contiguous_keys(const Config& c, int keys) {
  return !operand_form(c.operand->kind).pages() || c.operand->page_size.value_or(0) >= keys;
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

namespace {

/// Where a config's keys are counted in bytes and panels.
void set_shape(DecodePlan& p, const Config& c) {
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
    p.k_groups = ceil_div(p.k_depth, q->block);
    p.v_groups = ceil_div(p.ov_depth, q->block);
  }
  p.results = RowResults(c);
}

void set_panels(DecodePlan& p, const Config& c) {
  const auto span = [&](int depth) {
    return single_rows(c) ? 128 : std::min(128, (depth * p.kv_bytes + 63) / 64 * 64);
  };
  p.k_span = p.narrow ? span(p.k_depth) : 128;
  p.v_span = p.v_in_k ? p.k_span : p.narrow ? span(p.ov_depth) : 128;
  p.k_panels = (p.k_depth * p.kv_bytes + p.k_span - 1) / p.k_span;
  p.v_panels = (p.ov_depth * p.kv_bytes + p.v_span - 1) / p.v_span;
}

/// Parts that are results of their own have no second way, and two warpgroups that share latent rows no registers for
/// one beside pages and the two ends of a window, where items are split.
void set_hidden(DecodePlan& p, const Config& c) {
  const bool crowded =
      p.v_in_k && p.warpgroups > 1 && p.mask->bounded_below() && operand_form(c.operand->kind).table();
  if (p.separate || (crowded && !p.stream->by_rows())) return;
  ScoreDialect dialect;
  dialect.tanh = "";
  p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype), dialect);
  if (p.v_in_k || p.narrow) p.hidden.set_apart();
}

/// Warps that copy, and threads.
void fill_threads(DecodePlan& p, Config& c, const Refusals& refuse) {
  const int page = page_rows(*c.operand);
  // Products of wide tiles last long enough for one warp.
  const bool many_copies = !p.v_in_k && p.warpgroups == 1 && MHAOperand::piece_rows(p.BN, page) < p.BN;
  p.producer_warps = many_copies ? 2 : 1;
  if (c.num_threads && *c.num_threads != p.num_threads())
    refuse(name_of(c), {"/num_threads"},
           p.warpgroups == 2       ? "two consumer warpgroups and one producer warp"
           : p.producer_warps == 1 ? "one consumer warpgroup and one producer warp"
                                   : "one consumer warpgroup, a producer warp for K and one for V",
           std::to_string(p.num_threads()));
  c.num_threads = p.num_threads();
}

/// Chunks of K, whole panels (V26), and whether K and V share a ring.
void choose_rings(DecodePlan& p, Config& c, const Refusals& refuse) {
  p.shared_ring = c.shared_ring.value_or(false) && !p.v_in_k;
  if (p.v_in_k && c.shared_ring == false)
    refuse(name_of(c), {"/shared_ring", "/v_from_k"}, "V lies in K's stages", "true");
  c.shared_ring = p.one_ring();
  p.num_qk_stages = c.num_qk_stages.value_or(!p.seesaw             ? 1
                                             : p.k_panels % 3 == 0 ? 3
                                             : p.k_panels % 2 == 0 ? 2
                                                                   : 1);
  if (p.num_qk_stages > 1 && p.shared_ring) {
    refuse("V26", {"/num_qk_stages", "/shared_ring"},
           "slots that K and V take in turns have one barrier each", "1");
    p.num_qk_stages = 1;
  }
  if (p.num_qk_stages > 1 && p.narrow) {
    refuse(name_of(c), {"/num_qk_stages", "/kv_dtype"}, "K of bytes comes at once", "1");
    p.num_qk_stages = 1;
  }
  c.num_qk_stages = p.num_qk_stages;
}

/// Panels of one tensor copy. Threads that read a tile know it by panels one after the other.
void set_folds(DecodePlan& p, Config& c, const Refusals& refuse) {
  const bool inner = c.tma_fold == "chunk_inner";
  if (inner) p.operand->set_chunk_inner();
  if (!inner || (!p.k_in_registers() && !p.v_in_k))
    p.k_fold = p.operand->fold(c, p.kv_bytes, p.k_span, *c.BK, p.k_depth);
  if (!p.v_in_k && (!inner || !p.narrow))
    p.v_fold = p.operand->fold(c, p.kv_bytes, p.v_span, p.padded_ov(), p.ov_depth);
  resolve_fold(c, p.k_fold, p.v_fold,
               p.v_in_k             ? "V lies in K's stages, some panels of a row, which are side by side"
               : p.k_in_registers() ? "threads widen the 8-bit rows, and read them panel by panel"
                                    : nullptr,
               refuse);
}

/// Keys with one legal value each, once rows and keys are known.
void fill_layout(DecodePlan& p, Config& c, const Refusals& refuse) {
  const SwizzleMode swizzle = p.k_span == 128 ? SwizzleMode::b128 : SwizzleMode::b64;
  const auto* asked = c.swizzle ? std::get_if<SwizzleMode>(&*c.swizzle) : nullptr;
  if (c.swizzle && (!asked || *asked != swizzle)) {
    refuse("V20", {"/swizzle"}, fmt::format("rows are cut into panels of {} bytes", p.k_span),
           p.k_span == 128 ? "128B" : "64B");
  }
  c.swizzle = swizzle;
  choose_rings(p, c, refuse);
  const int bk = p.padded_depth() / p.num_qk_stages;
  if (c.BK && *c.BK != bk)
    refuse("V8", {"/BK"}, "BK is the depth in whole panels over num_qk_stages", std::to_string(bk));
  c.BK = bk;
  const std::array<int, 3> shape{64, p.upright ? p.BN : p.BM, p.fp8_q ? 32 : 16};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(name_of(c), {"/mma_shape"},
           p.upright ? "the matrix instruction is m64 n(BN) k16, 64 query rows on the M side"
                     : "the matrix instruction is m64 n(BM), keys on the M side",
           fmt::format("[64, {}, {}]", shape[1], shape[2]));
  c.mma_shape = shape;
  fill_threads(p, c, refuse);
  p.config = c;  // what the sizes below ask about
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.BN);
  set_folds(p, c, refuse);
}

/// Bytes of shared memory, but for the rings.
struct Storage {
  int scales = 0;  ///< of one stage of K and of V
  int per_stage = 0;
  int q = 0, o = 0, p = 0;
  int other = 0;  ///< all that is no stage
  /// Stages of each of `blocks` a multiprocessor.
  int fitting(int blocks) const {
    const TargetInfo& target = target_info(Target::sm_90a);
    return (target.processor_smem() / blocks - target.smem_reserved - other) / per_stage;
  }
};

Storage storage_of(const DecodePlan& p) {
  Storage s;
  s.scales = p.scale_bytes(true) + (p.v_in_k ? 0 : p.scale_bytes(false));
  const int row_bytes =
      p.k_panels * p.k_span + 128 * p.rope_panels() + (p.v_in_k ? 0 : p.v_panels * p.v_span);
  s.per_stage = p.BN * row_bytes + s.scales;
  if (p.shared_ring) {
    const int k_bytes = p.k_panels * p.k_span + 128 * p.rope_panels();
    s.per_stage = p.BN * std::max(k_bytes, p.v_panels * p.v_span) + s.scales;
  }
  s.p = p.upright ? 0 : 128 * p.BM * p.key_blocks() * p.v_groups;  // where P goes through memory
  s.o = p.o_in_q() || p.o_floats() ? 0 : 128 * p.BM * p.out_blocks();
  s.q = p.o_in_q() ? std::max(p.q_bytes(), 128 * p.BM * p.out_blocks()) : p.q_bytes();
  s.other = s.q + s.o + s.p + 16 * p.BM + 2048;
  return s;
}

/// Blocks of a multiprocessor: two where three stages fit and registers allow, 168 a thread, which query rows on
/// the M side exceed, and products of many groups of columns.
int blocks_of(const DecodePlan& p, const Storage& s, int registers) {
  const int busy = registers + (p.grouped() ? DecodeRegisters::kGroup * std::max(p.k_groups, p.v_groups) : 0);
  const int limit = p.narrow ? DecodeRegisters::kTwoBlocksBytes : DecodeRegisters::kTwoBlocks;
  return s.fitting(2) >= (p.shared_ring ? 4 : 2) && !p.upright && busy <= limit && !p.separate ? 2 : 1;
}

/// What keeps the memory busy.
struct StageLimits {
  /// Bytes on their way of each block (bench/NOTES.md 53, 113), and with query rows on the M side (118).
  static constexpr int kInFlight = 48 << 10, kInFlightRowsOnM = 128 << 10;
  static constexpr int kLatentStages = 8;  ///< of latent rows, which serve both products (118)
  /// Of a block that stands alone, over contiguous keys and over pages (113).
  static constexpr int kAlone = 64 << 10, kAloneOverPages = 96 << 10;
  /// Of a stage, at least, where the launch chooses between one block and two: what two stages of 8-bit tiles, or
  /// more of small ones, feed is a second warpgroup's work, so one block is slower at any length (78).
  static constexpr int kLeastOfChoice = 24 << 10;
  /// Keys and values in MB a multiprocessor, up to which one block does better (73, 78).
  static constexpr int kAloneMegabytes = 8, kAloneMegabytesOverPages = 2;
};

/// The launch may choose between one block and two.
bool choosable(const DecodePlan& p, const Storage& s) {
  return p.ctas_per_sm == 2 && !p.narrow && s.per_stage >= StageLimits::kLeastOfChoice;
}

/// Stages unless asked. Two blocks with two stages each keep the memory busy; more only queue, and blocks get less
/// equal shares. A block alone needs no more either, but for page lookups and a tile in many copies
/// (bench/NOTES.md 113).
int default_stages(const DecodePlan& p, const Config& c, const Storage& s) {
  const int bytes = p.upright ? StageLimits::kInFlightRowsOnM : StageLimits::kInFlight;
  const int enough = p.v_in_k ? StageLimits::kLatentStages : std::max(bytes / s.per_stage, 2);
  if (p.shared_ring) return std::clamp(s.fitting(p.ctas_per_sm), 3, std::max(2 * enough, 3));
  const int each = std::clamp(s.fitting(p.ctas_per_sm), 1, enough);
  const int alone_bytes = contiguous_keys(c, p.BN) ? StageLimits::kAlone : StageLimits::kAloneOverPages;
  return choosable(p, s) ? std::clamp(ceil_div(alone_bytes, s.per_stage), each, s.fitting(1)) : each;
}

/// Stages and blocks. K and V have rings of their own, so a stage of each is enough: one is on its way while the
/// other is read. V in K's slot is still read when K of the next tile is multiplied.
bool choose_pipeline(DecodePlan& p, Config& c, const Storage& s, int registers, const Refusals& refuse) {
  p.ctas_per_sm = blocks_of(p, s, registers);
  p.room_beside = p.separate && p.upright && registers <= DecodeRegisters::kRoomBeside;
  const int fewest = p.shared_ring ? 3 : p.v_in_k ? 2 : 1;  // of a ring: K(n), V(n - 1) and what comes
  if (!c.num_kv_stages && s.fitting(1) < fewest) {
    refuse("V15", {"/BN", "/depth", "/ov_depth"},
           fmt::format("{} of K and V take{} {} bytes of shared memory beside {} of Q and O, at most {}",
                       fewest == 1   ? "a stage"
                       : fewest == 2 ? "two stages"
                                     : "three slots",
                       fewest == 1 ? "s" : "", fewest * s.per_stage, s.other,
                       target_info(Target::sm_90a).smem_bytes),
           "");
    return false;
  }
  if (!c.num_kv_stages) c.num_kv_stages = default_stages(p, c, s);
  p.num_kv_stages = *c.num_kv_stages;
  // Short launches do better with one block a multiprocessor: half the parts to add up, and one ring for all
  // that is on its way (bench/NOTES.md 73, 78). Where keys of a sequence are contiguous, longer ones, too.
  p.residency_at_launch =
      !p.shared_ring && choosable(p, s) && p.num_kv_stages >= 2 && p.num_kv_stages <= s.fitting(1);
  p.shared_stages = p.residency_at_launch
                        ? std::clamp((p.num_kv_stages + 1) / 2, 2, std::min(p.num_kv_stages, s.fitting(2)))
                        : p.num_kv_stages;
  p.alone_megabytes =
      contiguous_keys(c, 256) ? StageLimits::kAloneMegabytes : StageLimits::kAloneMegabytesOverPages;
  if (p.num_kv_stages >= fewest && p.num_kv_stages <= 16) return true;
  refuse("V25", {"/num_kv_stages"}, fmt::format("num_kv_stages is {} to 16 here", fewest),
         std::to_string(p.num_kv_stages < fewest ? fewest : 16));
  return false;
}

void set_rings(DecodePlan& p) {
  const int warps = 4 * p.warpgroups;
  TMAConsumerPipeline::Shape k{true,       p.BN, p.padded_depth(), p.num_kv_stages, p.num_qk_stages, p.k_span,
                               p.kv_bytes, warps};
  TMAConsumerPipeline::Shape v{false, p.BN, p.padded_ov(), p.num_kv_stages, 1, p.v_span, p.kv_bytes, warps};
  k.rope_bytes = 128 * p.rope_panels();
  k.fold = p.operand->inner(p.k_fold), v.fold = p.operand->inner(p.v_fold);
  k.stages_at_launch = v.stages_at_launch = p.stages_at_launch();
  k.shared_ring = v.shared_ring = p.shared_ring;
  if (p.shared_ring)
    k.slot_bytes = v.slot_bytes =
        p.BN * std::max(p.k_panels * p.k_span + 128 * p.rope_panels(), p.v_panels * p.v_span);
  p.k.emplace(k);
  if (p.v_in_k) v.slot_bytes = p.k->full_kv_bytes(), v.in_k_slots = true, v.num_qk_stages = p.num_qk_stages;
  p.v.emplace(v);
}

void set_work(DecodePlan& p, const Config& c) {
  // 8-bit caches keep the warps busy, so blocks drift apart; 16-bit ones only wait for memory and lose by
  // more parts.
  const bool dynamic = p.narrow && !c.split_kv;
  StreamK::Shape work{c.operand->kind,
                      p.BM,
                      p.BN,
                      *c.mask,
                      !c.split_kv,
                      c.split_kv.value_or(1),
                      "wait_for_launch_before();",
                      dynamic,
                      p.separate};
  if (is_prefill(c)) work.split = false, work.by_rows = true;
  p.stream.emplace(work);
}

bool set_memory(DecodePlan& p, const Storage& s, const Refusals& refuse) {
  const auto add_rings = [&p] {
    p.smem_k =
        p.smem.add("k", p.k->ring_bytes(), 1024, p.shared_ring ? "slots of K and V in turns" : "K stages");
    p.smem_v = p.one_ring() ? p.smem_k : p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  };
  if (!p.stages_at_launch()) add_rings();
  p.smem_q = p.smem.add("q", s.q, 1024, "Q: the packed query rows");
  if (!p.upright) p.smem_p = p.smem.add("p", s.p, 1024, "P, rows = query rows");
  p.smem_o = s.o == 0 ? p.smem_q : p.smem.add("o", s.o, 1024, "O on its way out");
  if (s.scales > 0)
    p.smem_scales = p.smem.add("scales", s.scales * p.num_kv_stages, p.scale_tiles() ? 128 : 16,
                               "scales of each key: K stages, V stages");
  if (p.seesaw) {
    p.smem_max = p.smem.add("rows", 4 * 4 * p.BM, 16, "bases and sums of each row, of each warpgroup");
    p.smem_kept =
        p.smem.add("kept", 8 * 4 * DecodePlan::kKept, 16, "numbers of the item at hand, each warp's");
  }
  if (!p.upright) p.smem_max = p.smem.add("max", 4 * 4 * p.BM, 16, "maximum of each row, of each warp");
  const int rings = p.k->ring().barrier_bytes() + p.v->ring().barrier_bytes() + p.cells.barrier_bytes();
  p.smem_barriers = p.smem.add("mbar", rings, 8, "K, V and cell rings");
  p.smem_cells = p.smem.add("cells", 8, 8, "cells handed to the consumers");
  p.smem_flag = p.smem.add("flag", 16, 8, "this block's share of an item's parts");
  if (p.stages_at_launch()) add_rings();  // last: fewer stages leave the end out
  const int most = target_info(Target::sm_90a).smem_bytes;
  if (p.smem.bytes() <= most) return true;
  refuse("V15", {"/BN", "/num_kv_stages", "/BM"},
         fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), most),
         fmt::format("num_kv_stages {}", std::max(1, s.fitting(1))));
  return false;
}

void set_products(DecodePlan& p, const Config& c) {
  const auto a = p.narrow ? Wgmma::A::registers : Wgmma::A::smem;
  if (p.upright) {
    p.qk.emplace(p.math, p.BN, Wgmma::A::smem, false);
    p.pv.emplace(p.math, p.ov_columns(), Wgmma::A::registers, true);
    if (p.seesaw) p.pv_shared.emplace(p.math, p.ov_columns(), Wgmma::A::smem, true);
    return;
  }
  p.qk.emplace(p.fp8_q ? c.dtype : p.math, p.BM, p.k_in_registers() ? a : Wgmma::A::smem, false);
  p.pv.emplace(p.math, p.BM, a, false, !p.narrow);
  if (p.rope_apart()) p.qk_rope.emplace(c.dtype, p.BM, Wgmma::A::smem, false);
}

}  // namespace

std::optional<DecodePlan> plan_decode(Config c, Violations& out, bool separate) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  c.schedule = name_of(c);
  const auto before = out.size();
  const Refusals refuse(user, out);
  DecodePlan p;
  p.separate = separate;
  set_shape(p, c);
  set_panels(p, c);
  if (!choose_rows(p, c, refuse) || !choose_keys(p, c, refuse)) return std::nullopt;
  set_scores(p, c);
  const int registers = registers_of(p);
  if (!check_registers(p, c, registers, refuse)) return std::nullopt;
  fill_layout(p, c, refuse);
  const Storage storage = storage_of(p);
  if (!choose_pipeline(p, c, storage, registers, refuse)) return std::nullopt;
  set_rings(p);
  set_work(p, c);
  set_hidden(p, c);
  if (!set_memory(p, storage, refuse) || out.size() != before) return std::nullopt;
  const TargetInfo& target = target_info(Target::sm_90a);
  p.ctas_per_sm =
      std::clamp(target.processor_smem() / (p.shared_smem_used() + target.smem_reserved), 1, p.ctas_per_sm);
  set_products(p, c);
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm90
