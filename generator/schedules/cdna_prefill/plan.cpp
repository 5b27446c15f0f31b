#include "generator/schedules/cdna_prefill/planning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/cdna_pages.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/systems/cdna/product.hpp"
#include "generator/systems/cdna/score_dialect.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::cdna {
namespace {

/// The conflict-free swizzle of K: rows of 64 and 128 bytes, by the phases of each LDS.
XorSwizzle default_swizzle_k(const Config& c) {
  return c.target == Target::gfx950 && (*c.mma_shape)[0] == 32 ? XorSwizzle{3, 0, 4, false}
                                                               : XorSwizzle{3, 0, 3, false};
}
/// V: rows are read as they lie; transposing reads want the rows of one phase apart: neighbouring ones of 128
/// bytes, every fourth one of 64 bytes where a phase has eight rows, and bytes those that are 8 apart.
XorSwizzle default_swizzle_v(const Config& c) {
  if (c.target == Target::gfx950 && is_fp8(c.dtype))
    return (*c.mma_shape)[0] == 16 ? XorSwizzle{2, 0, 4, false} : XorSwizzle{1, 1, 4, false};
  // 16 lanes of 4 bytes take half of the banks: lanes 16 to 31, four rows on, the other half.
  if (is_fp8(c.dtype) && (*c.mma_shape)[0] == 16 && *c.bk_smem == 64) return {1, 2, 2, false};
  if (c.target != Target::gfx950) return {};
  if (*c.bk_smem * size_of(c.dtype) >= 128) return {2, 1, 2, false};
  return (*c.mma_shape)[0] == 16 ? XorSwizzle{1, 1, 3, false} : XorSwizzle{};
}

/// Rotary columns in a tensor of their own have stages of whole tiles.
void check_rope(const MeaningCheck& check, const Config& filled, bool pingpong) {
  check.takes_rope_tensor_of_strips();
  check.takes(!filled.rope || (!pingpong && *filled.full_kv), "/rope", "keeps all columns of K in one tensor",
              "leave it out");
}

/// What the kernel computes: anything it does not is refused here, never ignored.
/// Blocks of K and V in one ring (`full_kv` false), or whole tiles of each.
void check_stages(const MeaningCheck& check, const Config& m) {
  if (*m.full_kv) {
    const int stages = *m.double_buffer || *m.double_buffer_k_only ? 2 : 1;
    check.takes(*m.num_smem_stages == stages, "/num_smem_stages",
                "has as many stages as double_buffer and double_buffer_k_only say", std::to_string(stages));
    return;
  }
  check.takes_ring_of_strips();
  check.takes(*m.ov_depth % *m.bk_smem == 0, "/ov_depth",
              fmt::format("takes whole blocks of {} columns", *m.bk_smem),
              std::to_string(align_up(*m.ov_depth, *m.bk_smem)));
}

/// Columns of rows, and the rows and keys of a wave.
void check_shape(const MeaningCheck& check, const Config& c, const Config& m) {
  const int smem_depth = align_up(c.depth, *m.bk_smem);
  check.takes(*m.smem_depth == smem_depth, "/smem_depth", "keeps depth columns, whole blocks of bk_smem",
              std::to_string(smem_depth));
  check.takes(*m.BN == *m.WN, "/WN", "gives every wave all keys of a tile", std::to_string(*m.BN));
  check.takes(*m.WM == (*m.mma_shape)[0], "/WM", "gives a wave the rows of one instruction",
              std::to_string((*m.mma_shape)[0]));
  check.takes_rows_of_depth();
  // Rows come in 16-byte pieces; columns past the last strip's end are zeros.
  const int piece = 16 / static_cast<int>(size_of(*m.kv_dtype));
  for (const auto& [pointer, columns] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    check.takes(columns % piece == 0, pointer, fmt::format("takes rows of whole 16 bytes"),
                std::to_string(align_up(columns, piece)));
  }
  check.takes(*m.full_kv || c.depth % *m.BK == 0, "/depth",
              fmt::format("takes whole blocks of BK ({}) columns", *m.BK),
              std::to_string(align_up(c.depth, *m.BK)));
  check.takes(c.depth <= 576, "/depth", "takes depth up to 576", "64, 128, 192, 256, 512, 576");
}

void check_pingpong(const MeaningCheck& check, const Config& c, const Config& m) {
  const bool blocks = !*m.full_kv, alias = *m.v_from_k;
  check.takes(*m.num_threads == 512, "/num_threads", "has two groups of four waves", "512");
  check.takes(*m.double_buffer, "/double_buffer", "keeps two stages of K and of V", "true");
  check.takes(!blocks && !alias, blocks ? "/full_kv" : "/v_from_k", "keeps whole tiles of K and V",
              blocks ? "true" : "false");
  check.takes(c.depth <= 128 && *m.ov_depth <= 128, "/depth", "takes depth up to 128", "64, 128");
}

bool check_meaning(const Config& c, const Config& m, Violations& out) {
  const bool pingpong = c.schedule == "cdna_prefill_pingpong";
  const MeaningCheck check(c, m, pingpong ? "cdna_prefill_pingpong" : "cdna_prefill", out);
  check.keys({"BK",
              "WM",
              "WN",
              "swizzle",
              "swizzle_k",
              "swizzle_v",
              "full_kv",
              "bk_smem",
              "smem_depth",
              "num_smem_stages",
              "dma",
              "v_load",
              "wait_policy",
              "double_buffer",
              "double_buffer_k_only",
              "shared_kv",
              "reg_chunk_depth",
              "reg_chunk_keys",
              "scale_placement",
              "rope"});
  check.takes_16_bit_or_bytes();
  check.takes_whole_prefill();
  const bool blocks = !*m.full_kv, alias = *m.v_from_k;
  check.takes(!(blocks && alias), "/full_kv", "keeps whole rows in a stage where V lies in them", "true");
  check.takes(!c.shared_kv || *c.shared_kv == (blocks || alias), "/shared_kv",
              alias    ? "reads V where K lies"
              : blocks ? "sends K and V through the same stages"
                       : "keeps K and V apart",
              blocks || alias ? "true" : "false");
  const bool staged = *m.dma == "reg_staged";
  const bool widens = *m.kv_dtype != c.dtype;
  check.takes(!(pingpong && widens), "/kv_dtype", "takes kv_dtype equal to dtype",
              std::string(to_string(c.dtype)));
  check.takes(!(pingpong && scales_by_row(m.operand->quantization)), "/operand/quantization/granularity",
              "takes a scale for a tensor or a head", "per_tensor, per_head");
  check.takes(!(pingpong && staged) || widens, "/dma", "copies to LDS directly", "lds_direct");
  check.takes(pingpong || !widens || !c.dma || staged, "/dma", "widens bytes in registers", "reg_staged");
  check.takes(c.scale_placement.value_or("post") == "post", "/scale_placement", "scales scores", "post");
  check_stages(check, m);
  check_shape(check, c, m);
  check_rope(check, m, pingpong);
  check.takes_positive_scale();
  if (pingpong) check_pingpong(check, c, m);
  return check.passed();
}

/// Keys that follow from others once the tiles are known.
void resolve_rest(Config& c) {
  if (!c.swizzle_k) c.swizzle_k = swizzle_or(c, default_swizzle_k(c));
  if (!c.swizzle_v)
    c.swizzle_v = swizzle_or(c, *c.v_from_k ? xor_swizzle(*c.swizzle_k) : default_swizzle_v(c));
  if (!c.v_load) c.v_load = v_loads_of(c).front();
  if (!c.schedule) c.schedule = "cdna_prefill";
}

std::optional<LdsSwizzle> lds_swizzle(const Config& user, const SwizzleKey& key, std::string_view pointer,
                                      Violations& out) {
  const LdsSwizzle s(xor_swizzle(key));
  if (s.map.is_valid()) return s;
  break_rule(user, "V11", {pointer, "/swizzle"}, "the swizzle's fields overlap", "auto", out);
  return std::nullopt;
}

/// Two stages of K and V each, which 64 KiB of LDS hold at depth 128 for 32 keys of 16 bits.
Config with_pingpong_defaults(Config c) {
  if (!c.num_threads && !c.BM) c.num_threads = 512;
  if (!c.BN && !c.WN) c.BN = c.target == Target::gfx950 || c.depth <= 64 || is_fp8(c.dtype) ? 64 : 32;
  if (!c.double_buffer) c.double_buffer = true;
  if (!c.double_buffer_k_only) c.double_buffer_k_only = false;
  return c;
}

/// What becomes of scores, and of V of keys that a mask hides.
void set_scores(PrefillPlan& p, const Config& c) {
  const ScoreLayout scores = p.scores();
  p.mask.emplace(*c.mask, scores);
  p.modifier.emplace(*c.score_mod, scores, score_dialect());
  p.hidden = HiddenValues::of(c, QTile::pack_of(*c.out_dtype), score_dialect());
}

/// Whether LDS holds the tiles, and registers O.
bool check_memory(const PrefillPlan& p, const Config& user, const Config& c, Violations& out) {
  const TargetInfo& target = target_info(c.target);
  if (p.smem_bytes > target.smem_bytes) {
    break_rule(user, "V15", {"/num_smem_stages", "/BN", "/bk_smem", "/depth"},
               fmt::format("LDS of {} bytes exceeds the {} of {}", p.smem_bytes, target.smem_bytes,
                           to_string(c.target)),
               "", out);
    return false;
  }
  const int widest =
      p.mask->bounded_above() ? RegisterLimits::kWideColumns : RegisterLimits::kWideColumnsTwice;
  if (p.mfma.shape.m != 32 || p.ov_columns <= widest) return true;
  break_rule(user, "V32", {"/mma_shape"},
             fmt::format("32x32 instructions keep up to {} columns of O in registers without a spill, not {}",
                         widest, p.ov_columns),
             c.target == Target::gfx950 || is_fp8(c.dtype) ? "[16, 16, 32]" : "[16, 16, 16]", out);
  return false;
}

/// Where a config's tiles, loop and stages are counted.
void set_shape(PrefillPlan& p, const Config& c, bool pingpong) {
  p.mfma = Mfma::of(c);
  p.depth = c.depth, p.ov_depth = *c.ov_depth;
  p.BM = *c.BM, p.BN = *c.BN, p.BK = *c.BK;
  p.num_threads = *c.num_threads;
  p.num_warps = p.num_threads / 64;
  p.loop = pingpong      ? PrefillLoop::pingpong
           : *c.v_from_k ? PrefillLoop::v_in_k
           : *c.full_kv  ? PrefillLoop::tiles
                         : PrefillLoop::blocks;
  p.k_stages = p.loop == PrefillLoop::blocks                 ? *c.num_smem_stages
               : *c.double_buffer || *c.double_buffer_k_only ? 2
                                                             : 1;
  p.v_stages = p.loop == PrefillLoop::tiles ? *c.double_buffer ? 2 : 1 : p.k_stages;
  p.kind = c.operand->kind;
  p.results = RowResults(c);
  p.row_scales = RowScales(c);
  if (c.operand->quantization && !p.row_scales.any()) p.scales = c.operand->quantization->granularity;
}

/// Groups of columns whose fragments of V are turned together; none where they do not divide the output.
std::vector<ColumnGroup> slice_output(PrefillPlan& p, const Config& user, const Config& c, Violations& out) {
  const bool blocks = p.loop == PrefillLoop::blocks;
  // Columns of V that only fill a group of fragments are read as they come and their O is not written.
  p.ov_columns = p.own_stages() ? align_up(p.ov_depth, KVMmaOp::column_unit(p.mfma)) : p.ov_depth;
  p.v_slice_columns = blocks ? *c.bk_smem : slice_columns(p.mfma, p.ov_columns);
  p.v_slices = blocks ? 1 : p.ov_columns / p.v_slice_columns;
  std::vector<ColumnGroup> columns = sliced_columns(p.mfma, p.ov_columns, p.v_slice_columns);
  if (!columns.empty()) return columns;
  const int together = is_fp8(c.dtype) ? 4 : 2;
  const char* const number = together == 2 ? "pairs" : "fours";
  if (blocks) {
    break_rule(user, "cdna_prefill", {"/full_kv", "/bk_smem"},
               fmt::format("columns of V are turned in {} of fragments: without full_kv a block of bk_smem "
                           "({}) columns must hold whole ones, of {}",
                           number, *c.bk_smem, together * p.mfma.shape.m),
               "", out);
  } else {
    break_rule(user, "cdna_prefill", {"/ov_depth", "/depth"},
               fmt::format("columns of V are turned in {} of fragments: ov_depth is a multiple of {}", number,
                           together * p.mfma.shape.m),
               std::to_string(align_up(p.ov_depth, together * p.mfma.shape.m)), out);
  }
  return columns;
}

bool check_ring(const PrefillPlan& p, const Config& user, const Config& c, Violations& out) {
  const int blocks = ceil_div(p.depth, *c.bk_smem) + p.ov_depth / *c.bk_smem;
  if (p.loop != PrefillLoop::blocks || p.ring_stages() <= blocks + 1) return true;
  refuse_value(
      user, "/num_smem_stages",
      fmt::format("cdna_prefill looks one tile ahead at most: {} blocks, and the one at work", blocks),
      std::to_string(blocks + 1), out);
  return false;
}

/// More offsets of copies than have room in registers.
bool wants_fresh_offsets(const PrefillPlan& p, const KVBuffer& k) {
  const int room = p.num_warps > 4                           ? RegisterLimits::kOffsetsOfTwo
                   : p.num_warps < 4 || p.mfma.shape.m == 32 ? RegisterLimits::kOffsetsUnequal
                                                             : RegisterLimits::kOffsets;
  return !p.staged && k.copies() * k.blocks() > room;
}

/// How tiles come to LDS, and the buffers of K and V.
bool set_buffers(PrefillPlan& p, const Config& user, const Config& c, const LdsSwizzle& swizzle_k,
                 const LdsSwizzle& swizzle_v, Violations& out) {
  const int page_size = page_rows(*c.operand);
  const int row_bytes = *c.bk_smem * static_cast<int>(size_of(c.dtype));
  const int dma_bytes = KVBuffer::dma_bytes_for(target_info(c.target).lds_dma_bytes, row_bytes, page_size);
  p.staged = *c.dma == "reg_staged";
  if (dma_bytes == 0 && !p.staged) {
    refuse_pages(user, c, "cdna_prefill", row_bytes, out);
    return false;
  }
  KVBuffer::Shape kv{true,     p.mfma,     p.BN,          *c.WN,      p.BK,
                     p.depth,  *c.bk_smem, p.num_threads, p.k_stages, std::max(4, dma_bytes),
                     swizzle_k};
  kv.reg_staged = p.staged;
  kv.widens = *c.kv_dtype != c.dtype;
  kv.stored = *c.kv_dtype;
  kv.page_size = page_size;
  kv.full_kv = *c.full_kv;
  kv.reg_chunk = c.reg_chunk_depth.value_or(0);
  kv.v_in_rows = p.loop == PrefillLoop::v_in_k;
  kv.depth = k_columns(c);
  kv.fresh_offsets = wants_fresh_offsets(p, KVBuffer(kv));
  p.k.emplace(kv);
  if (has_rope_tensor(c)) {
    KVBuffer::Shape rope = kv;
    rope.depth = *c.rope_depth, rope.reg_chunk = 0, rope.v_in_rows = false, rope.tensor = "k_rope";
    p.k_rope.emplace(rope);
  }
  kv.scale_columns = p.row_scales.v_columns();
  kv.transpose = false, kv.depth = p.ov_columns, kv.row_columns = p.ov_columns == p.ov_depth ? 0 : p.ov_depth;
  kv.num_smem_stages = p.v_stages, kv.swizzle = swizzle_v;
  kv.reg_chunk = c.reg_chunk_keys.value_or(0);
  if (p.loop != PrefillLoop::blocks) kv.read_columns = p.v_slice_columns;
  if (p.loop == PrefillLoop::v_in_k) kv.reads = p.k->stage();
  p.v.emplace(kv);
  return true;
}

/// Waits count loads where every wave issues the same number of them, and no more than the counter holds.
bool choose_waits(PrefillPlan& p, const Config& user, Config& c, Violations& out) {
  const bool uniform = p.k_loads() > 0 && (p.loop == PrefillLoop::v_in_k || p.v->derived().uniform_split());
  const int in_flight = p.own_stages()                  ? p.k_loads() + p.v->vm_exact()
                        : p.loop == PrefillLoop::blocks ? (p.ring_stages() - 1) * p.k->vm_exact()
                                                        : p.k_loads();
  // By way of registers the compiler counts them. Loops that start loads only after they waited for all
  // those before have nothing to leave in flight.
  const bool ahead = p.staged || (p.loop == PrefillLoop::tiles && p.k_stages == 2) ||
                     (p.loop == PrefillLoop::blocks && p.ring_stages() > 2);
  const bool countable = ahead && (p.staged || (uniform && in_flight <= 63));
  if (c.wait_policy == "counted" && !countable) {
    refuse_value(user, "/wait_policy",
                 ahead ? "cdna_prefill counts loads that every wave issues as many of, up to 63"
                       : "each wait of this loop is for all loads before it",
                 "drain", out);
    return false;
  }
  if (!c.wait_policy) c.wait_policy = countable ? "counted" : "drain";
  p.counted = *c.wait_policy == "counted";
  return true;
}

const char* pack_of(DType type) {
  return is_fp8(type) ? "pack_fp8" : type == DType::bf16 ? "pack_bf16" : "pack_fp16";
}

void set_softmax(PrefillPlan& p, const Config& c) {
  OnlineSoftmax::Shape softmax;
  softmax.qk = softmax.pv = p.mfma;
  softmax.score_tiles = p.BN / p.mfma.shape.m;
  softmax.output_tiles = p.ov_columns / p.mfma.shape.m;
  softmax.pack = pack_of(c.dtype);
  if (is_fp8(c.dtype)) {
    // P of at most 2^7 (FNUZ, whose largest is 240) or 2^8 (448), growth before the next rescale included.
    softmax.rescale_threshold = 3;
    softmax.p_shift = c.dtype == DType::fp8_e4m3fnuz ? 4 : 5;
  }
  softmax.scale_log2 = p.modifier->scale_log2();
  softmax.scale = p.modifier->scale();
  if (p.row_scales.weighs()) {
    softmax.scale_log2 = "1.0f", softmax.scale = "0.693147181f";
    for (int i = 0; i < p.scores().registers; ++i)
      softmax.in_sum.push_back(p.row_scales.unweighed(p.scores(), i));
  }
  if (p.results.sink()) softmax.sink = "sink[head]";
  p.softmax.emplace(softmax);
}

}  // namespace

std::optional<PrefillPlan> plan_prefill(const Config& user, Violations& out) {
  const bool pingpong = user.schedule == "cdna_prefill_pingpong";
  Config c = with_rule_defaults(pingpong ? with_pingpong_defaults(user) : user);
  if (!check_meaning(user, c, out)) return std::nullopt;
  resolve_rest(c);
  const auto swizzle_k = lds_swizzle(user, *c.swizzle_k, "/swizzle_k", out);
  const auto swizzle_v = lds_swizzle(user, *c.swizzle_v, "/swizzle_v", out);
  if (!swizzle_k || !swizzle_v) return std::nullopt;

  PrefillPlan p;
  set_shape(p, c, pingpong);
  if (!check_row_scales(user, p.row_scales, c, out)) return std::nullopt;
  const std::vector<ColumnGroup> columns = slice_output(p, user, c, out);
  if (columns.empty() || !check_ring(p, user, c, out)) return std::nullopt;
  if (!set_buffers(p, user, c, *swizzle_k, *swizzle_v, out)) return std::nullopt;
  if (!choose_waits(p, user, c, out)) return std::nullopt;
  p.q.emplace(QTile::Shape{p.mfma, p.depth, p.ov_depth, columns, QTile::pack_of(*c.out_dtype),
                           p.scales ? "out_factor" : "inv_sum"});
  set_scores(p, c);
  set_softmax(p, c);
  p.smem_rope = p.k->bytes();
  const int k_bytes = p.smem_rope + (p.k_rope ? p.k_rope->bytes() : 0);
  p.smem_v = p.own_stages() ? k_bytes : 0;
  p.smem_bytes = p.own_stages() ? p.smem_v + p.v->bytes() : k_bytes;
  if (!check_memory(p, user, c, out)) return std::nullopt;
  p.max_registers = std::min(target_info(c.target).max_registers, 512 / ((p.num_warps + 3) / 4));
  if (!check_registers(p, user, out)) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::cdna
