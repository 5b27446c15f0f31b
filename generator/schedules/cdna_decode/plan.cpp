#include "generator/schedules/cdna_decode/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_decode/limits.hpp"
#include "generator/schedules/common/cdna_pages.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/systems/cdna/score_dialect.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::cdna {
namespace {

constexpr const char* kStreaming = "cdna_decode_streaming";

/// What the kernel computes: anything it does not is refused here, never ignored.
bool check_streaming_meaning(const Config& c, const Config& m, Violations& out) {
  const MeaningCheck check(c, m, kStreaming, out);
  check.keys({"BK", "WM", "WN", "swizzle", "swizzle_k", "swizzle_v", "dma", "v_load", "v_layout", "full_kv",
              "bk_smem", "smem_depth", "num_smem_stages", "double_buffer", "double_buffer_k_only",
              "shared_kv"});
  check.takes_16_bit_or_bytes();
  check.takes_ov_depth_of_depth();
  check.takes_plain_rows();
  check.takes_positive_scale();
  const bool widens = *m.kv_dtype != c.dtype;
  check.takes(!widens || !c.dma || *m.dma == "reg_staged", "/dma", "widens bytes in registers", "reg_staged");
  check.takes(c.full_kv.value_or(true), "/full_kv", "has no stages", "leave it out");
  check.takes(!c.bk_smem || *c.bk_smem == *m.BK, "/bk_smem", "keeps strips of BK", std::to_string(*m.BK));
  const int strips = align_up(c.depth, *m.bk_smem), piece = 16 / static_cast<int>(size_of(*m.kv_dtype));
  check.takes(*m.smem_depth == strips, "/smem_depth", "keeps strips only", std::to_string(strips));
  check.takes(c.depth % piece == 0, "/depth", "takes rows of whole 16 bytes",
              std::to_string(align_up(c.depth, piece)));
  check.takes(c.num_smem_stages.value_or(1) == 1, "/num_smem_stages", "has one strip in LDS", "1");
  check.takes(!c.double_buffer.value_or(false), "/double_buffer", "has one strip in LDS", "false");
  check.takes(!c.double_buffer_k_only.value_or(false), "/double_buffer_k_only", "has one strip in LDS",
              "false");
  check.takes(c.depth <= 512, "/depth", "takes depth up to 512", "64, 128, 256, 512");
  return check.passed();
}

/// Transposing reads of 32x32 instructions touch 64 bytes of 4 rows in one phase (of bytes: 32 of 8).
layout::Swizzle v_swizzle_of_32(bool bytes, int log2) {
  if (bytes) return {std::clamp(log2 - 1, 1, 3), 1, std::max(log2 - 1, 3)};
  if (log2 <= 2) return {};  // which lie side by side
  return log2 == 3 ? layout::Swizzle{1, 2, 2} : layout::Swizzle{2, 2, log2 - 2};
}

/// Transposing reads touch 32 bytes of 8 rows in one phase (of bytes: 16 of 16): each goes to another part of
/// the 256 bytes of all banks, 16 vectors, the row being what a vector's number holds above those of a row.
/// Other reads take whole rows, or half the banks from rows 4 (bytes: 8) apart.
layout::Swizzle v_swizzle(const Mfma& mfma, int vectors_per_row, int wave_columns) {
  int log2 = 0;
  while (1 << log2 < vectors_per_row) ++log2;
  const bool bytes = is_fp8(mfma.type);
  if (mfma.target != Target::gfx950) {
    if (bytes) return {1, 2, log2 + 1};
    return wave_columns % 64 == 0 ? layout::Swizzle{} : layout::Swizzle{1, 2, log2};
  }
  if (mfma.shape.m == 32) return v_swizzle_of_32(bytes, log2);
  if (bytes) return {std::min(log2, 4), 0, std::max(log2, 4)};
  return vectors_per_row <= 8 ? layout::Swizzle{2, 1, 3} : layout::Swizzle{3, 1, log2 - 1};
}

}  // namespace

layout::Swizzle block_swizzle(const Mfma& mfma, int vectors_per_row) {
  // From the number of the lane group in a vector's number to the part of 32 (of 32 columns: 64) bytes.
  const int group =
      static_cast<int>(std::bit_width(static_cast<unsigned>(vectors_per_row * mfma.frag()))) - 1;
  return mfma.shape.m == 32 ? layout::Swizzle{1, 2, group - 2} : layout::Swizzle{2, 1, group - 1};
}

std::optional<LdsSwizzle> wave_swizzle(const Config& user, const SwizzleKey& key, std::string_view pointer,
                                       int wave_vectors, Violations& out) {
  const LdsSwizzle s(xor_swizzle(key));
  if (s.map.is_valid() && wave_vectors % s.period_vectors(static_cast<int>(size_of(user.dtype))) == 0)
    return s;
  // The default fits all tiles but few: then it is the tile that does not.
  const bool chosen = user.swizzle || (pointer == "/swizzle_k" ? user.swizzle_k : user.swizzle_v);
  break_rule(user, "V11", {chosen ? pointer : "/WN", chosen ? "/swizzle" : "/BK"},
             "the swizzle permutes inside the WN keys of a wave", chosen ? "auto" : "", out);
  return std::nullopt;
}

QTile::Shape DecodePlan::q_shape() const {
  // A wave's columns follow each other, but for its shares of blocks.
  QTile::Shape rows{mfma, depth, blocks ? ov_depth : wave_columns, columns,
                    QTile::pack_of(*config.out_dtype)};
  if (ov_columns != ov_depth) {
    rows.ov_depth = ov_depth;
    rows.first_column = fmt::format("{} * {}", warp_n(), wave_step);
  }
  return rows;
}

DecodePlan decode_plan_of(const Config& c) {
  DecodePlan p;
  p.mfma = Mfma::of(c);
  p.depth = c.depth, p.ov_depth = p.ov_columns = *c.ov_depth;
  p.BM = *c.BM, p.BN = *c.BN, p.WN = *c.WN, p.BK = *c.BK;
  p.num_threads = *c.num_threads;
  p.num_warps = p.num_threads / 64;
  p.v_block = c.v_load == "block";
  p.results = RowResults(c);
  p.kind = c.operand->kind;
  p.row_scales = RowScales(c);
  if (c.operand->quantization && !p.row_scales.any()) p.scales = c.operand->quantization->granularity;
  StreamK::Shape stream{p.kind, p.BM, p.BN, *c.mask, !c.split_kv, c.split_kv.value_or(1)};
  stream.uniform = "uniform";  // else the search for work is in vector registers and branches lane by lane
  p.stream.emplace(stream);
  ScoreLayout scores = p.mfma.score_layout(p.WN / p.mfma.shape.m);
  if (p.WN % 32 != 0) scores.lane_bit = "(first_key & 16) + " + scores.lane_column;  // half a word of a mask
  p.mask.emplace(*c.mask, scores);
  p.modifier.emplace(*c.score_mod, scores, score_dialect());
  p.hidden = HiddenValues::of(c, QTile::pack_of(*c.out_dtype), score_dialect());
  return p;
}

void place_in_lds(DecodePlan& p, int k_bytes, int v_bytes) {
  const TargetInfo& target = target_info(p.mfma.target);
  p.smem_v = p.shared ? 0 : k_bytes;
  p.smem_p = p.shared ? std::max(k_bytes, v_bytes) : k_bytes + v_bytes;
  p.smem_exchange = p.smem_p + p.BM * p.p_row_bytes();
  p.smem_flag = p.smem_exchange + 4 * std::max(2, p.warps_n()) * p.BM;
  p.smem_bytes = p.smem_flag + 16;
  // As many blocks as the LDS holds, at most two waves a SIMD's worth of registers each; wide rows take more.
  const int most = p.depth > kDeepestOfTwo ? 1 : 2;
  p.share_compute_unit(std::clamp(target.smem_bytes / std::max(1, p.smem_bytes), 1, most));
}

void DecodePlan::share_compute_unit(int ctas) {
  ctas_per_cu = ctas;
  max_registers = std::min(target_info(mfma.target).max_registers, 512 / ceil_div(num_warps * ctas, 4));
}

namespace {

/// Shares V's columns out among the waves. Its strips are flat rows where those are a power of two, else blocks:
/// shares of whole ones, and columns past the last are read as they come and their O is not written.
bool share_columns(DecodePlan& p, Config& c, const Refusals& refuse) {
  const bool flat = std::has_single_bit(static_cast<unsigned>(p.ov_depth));
  if (!c.v_layout && !flat) c.v_layout = "blocked";
  const bool blocked = c.v_layout == "blocked";
  const int share = ceil_div(p.ov_depth, p.num_warps), columns = flat ? share : align_up(share, p.BK);
  p.wave_columns = p.wave_step = columns;
  p.ov_columns = columns * p.num_warps;
  if (!blocked && !flat) {
    refuse(kStreaming, {"/v_layout", "/depth"}, "flat rows of V are a power of two columns", "blocked");
    return false;
  }
  if (blocked && p.ov_depth <= p.BK) {
    refuse(kStreaming, {"/v_layout"},
           fmt::format("a row of V is one block of BK ({}), as flat rows are", p.BK), "flat");
    return false;
  }
  if (p.num_warps != p.BN / p.WN) {
    refuse("V22", {"/num_threads", "/BN", "/WN"}, "streaming decode has one wave for each WN keys",
           std::to_string(64 * p.BN / p.WN));
    return false;
  }
  if (KVMmaOp::column_groups(p.mfma, columns, p.v_block).empty() || (flat && p.ov_depth % p.num_warps != 0)) {
    const int unit = p.v_block ? p.mfma.shape.m : KVMmaOp::column_unit(p.mfma);
    const std::string what = fmt::format(
        "each of {} waves has {} output columns, which must be a multiple of {}", p.num_warps, columns, unit);
    // Fewer waves have more of them; below one wave's the rows of the other instruction are left.
    if (p.mfma.shape.m == 32 && align_up(p.ov_depth, p.BK) < unit) {
      refuse(kStreaming, {"/BM", "/WM"}, what, "16");
    } else {
      refuse(kStreaming, {"/WN", "/depth"}, what,
             p.mfma.shape.m == 32 ? std::to_string(p.BN / std::max(1, p.ov_depth / unit)) : "");
    }
    return false;
  }
  if (!blocked || columns % p.BK == 0) return true;
  refuse(kStreaming, {"/v_layout"},
         fmt::format("each of {} waves reads {} output columns, no whole blocks of BK ({})", p.num_warps,
                     columns, p.BK),
         "flat");
  return false;
}

/// Bytes of one copy of K's strips and of V's rows to LDS, 0 where a page does not hold what one copies.
struct CopyBytes {
  int k = 0, v = 0;
};
CopyBytes copy_bytes(const DecodePlan& p, const Config& c) {
  const int page_size = page_rows(*c.operand);
  const int size = static_cast<int>(size_of(c.dtype)), limit = target_info(c.target).lds_dma_bytes;
  const int v_columns = c.v_layout == "blocked" ? p.BK : p.ov_depth;
  return {KVBuffer::dma_bytes_for(limit, p.BK * size, page_size),
          KVBuffer::dma_bytes_for(limit, v_columns * size, page_size)};
}

/// V's swizzle, unless asked, and its place in LDS.
std::optional<LdsSwizzle> swizzle_of_v(const DecodePlan& p, const Config& user, Config& c, Violations& out) {
  const int row_vectors =
      (c.v_layout == "blocked" ? p.BK : p.ov_depth) * static_cast<int>(size_of(c.dtype)) / 16;
  if (!c.swizzle_v) {
    const layout::Swizzle s =
        p.v_block ? block_swizzle(p.mfma, row_vectors) : v_swizzle(p.mfma, row_vectors, p.wave_columns);
    c.swizzle_v = swizzle_or(c, {s.bits, s.base, s.shift, false});
  }
  return wave_swizzle(user, *c.swizzle_v, "/swizzle_v", p.BK * row_vectors, out);
}

/// The buffers of K and V.
bool set_buffers(DecodePlan& p, const Config& user, Config& c, Violations& out) {
  const int size = static_cast<int>(size_of(c.dtype));
  const auto swizzle_k = wave_swizzle(user, *c.swizzle_k, "/swizzle_k", p.WN * p.BK * size / 16, out);
  if (!swizzle_k) return false;
  const CopyBytes bytes = copy_bytes(p, c);
  const bool staged = *c.dma == "reg_staged";
  if (!staged && (bytes.k == 0 || bytes.v == 0)) {
    refuse_pages(user, c, kStreaming, p.BK * size, out);
    return false;
  }
  DecodeStreamingKVBuffer::Shape kv{true, p.mfma, p.BN, p.WN, p.BK, p.num_threads, p.depth};
  kv.page_size = page_rows(*c.operand);
  kv.widens = *c.kv_dtype != c.dtype;
  kv.stored = *c.kv_dtype;
  kv.reg_staged = staged;
  kv.dma_bytes = kv.reg_staged ? 4 : bytes.k;  // 4: of copies that are not made
  kv.swizzle = *swizzle_k;
  kv.shared = p.shared;
  p.k.emplace(kv);
  kv.scale_columns = p.row_scales.v_columns();
  kv.transpose = false, kv.depth = p.ov_columns;
  kv.row_columns = p.ov_columns == p.ov_depth ? 0 : p.ov_depth;
  kv.dma_bytes = kv.reg_staged ? 4 : bytes.v;
  kv.blocked = c.v_layout == "blocked";
  const auto swizzle_v = swizzle_of_v(p, user, c, out);
  if (!swizzle_v) return false;
  kv.swizzle = *swizzle_v;
  kv.block_form = p.v_block;
  p.v.emplace(kv);
  return true;
}

/// Of 32 rows: registers of a lane through the loop, and in the larger half of a tile.
int registers_of_32(const DecodePlan& p) {
  const auto fragments = [](const KVMmaOp& op) { return op.steps() * op.registers_per_step(); };
  const int scores = p.score_tiles() * p.row_scales.score_arrays() * p.mfma.accum() + fragments(p.k_op());
  const int outputs = p.BN / p.mfma.shape.k * p.mfma.frag_regs() + fragments(p.v_op());
  return 4 * p.q->num_vectors() + p.output_tiles() * p.mfma.accum() + p.k->staging_registers() +
         p.v->staging_registers() + std::max(scores, outputs);
}

/// 32 rows take twice the registers of 16: two blocks share a compute unit where those of both fit.
bool settle_registers_of_32(DecodePlan& p, const Refusals& refuse) {
  constexpr int kLoop = LoopRegisters::kOf32;
  const int wanted = registers_of_32(p) + kLoop;
  if (wanted + LoopRegisters::kSpareOf32 > p.max_registers) p.share_compute_unit(1);
  if (wanted <= p.max_registers) return true;
  refuse(
      "V32", {"/WN", "/BN", "/BM", "/depth"},
      fmt::format("32 packed rows take {} registers of a lane and the loop about {} more; {} waves leave {}",
                  wanted - kLoop, kLoop, p.num_warps, p.max_registers),
      "32");
  return false;
}

/// Keys of a wave past kLongKeys come by way of many registers beside their scores and fragments, each with addresses
/// of its own where rows are looked up.
bool check_registers(const DecodePlan& p, const Refusals& refuse) {
  if (p.WN <= kLongKeys || !p.k->staged()) return true;
  constexpr int kLoop = LoopRegisters::kLongWave;
  const int places = std::has_single_bit(static_cast<unsigned>(p.WN)) ? 0 : p.score_tiles();  // of P in LDS
  const int lasting = 4 * p.q->num_vectors() +
                      (p.output_tiles() + p.score_tiles() * p.row_scales.score_arrays()) * p.mfma.accum() +
                      p.k_op().steps() * p.k_op().registers_per_step() + p.k->staging_registers() +
                      p.v->staging_registers() + places;
  if (lasting + kLoop <= p.max_registers) return true;
  refuse("V32", {"/WN", "/BN", "/depth"},
         fmt::format(
             "Q, O, S, fragments of K and rows on their way take {} registers of a lane and the loop about "
             "{} more; {} waves leave {}",
             lasting, kLoop, p.num_warps, p.max_registers),
         "256");
  return false;
}

}  // namespace

std::optional<DecodePlan> plan_decode(const Config& user, Violations& out) {
  Config named = user;
  named.schedule = kStreaming;  // its rules (V22) hold whether it was named or chosen
  Config c = with_rule_defaults(named);
  if (!check_streaming_meaning(user, c, out)) return std::nullopt;
  c.num_smem_stages = 1, c.double_buffer = c.double_buffer_k_only = false;
  c.shared_kv = user.shared_kv.value_or(false);
  const int spread = c.target == Target::gfx950 && (*c.mma_shape)[0] == 32 ? 4 : 3;  // as cdna_prefill
  if (!c.swizzle_k) c.swizzle_k = swizzle_or(c, {3, 0, spread, false});
  if (!c.v_load) c.v_load = v_loads_of(c).front();

  DecodePlan p = decode_plan_of(c);
  p.shared = *c.shared_kv;
  if (!check_row_scales(user, p.row_scales, c, out)) return std::nullopt;
  if (!share_columns(p, c, Refusals(user, out)) || !set_buffers(p, user, c, out)) return std::nullopt;
  p.columns = p.v->kv_mma_op().groups();
  place_in_lds(p, p.k->bytes(), p.v->bytes());
  p.config = std::move(c);
  p.q.emplace(p.q_shape());
  if (p.mfma.shape.m == 32 && !settle_registers_of_32(p, Refusals(user, out))) return std::nullopt;
  if (!check_registers(p, Refusals(user, out))) return std::nullopt;
  return p;
}

}  // namespace kiln::cdna
