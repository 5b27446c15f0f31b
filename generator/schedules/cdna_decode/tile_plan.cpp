// The plan of cdna_decode: whole tiles of K and V in LDS, waves in a grid of row tiles and key shares.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_decode/limits.hpp"
#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/schedules/common/cdna_pages.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/systems/cdna/product.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::cdna {
namespace {

constexpr const char* kTiles = "cdna_decode";

bool two_stages(const Config& c) {
  return *c.double_buffer || *c.double_buffer_k_only;
}

/// A tile in blocks: whole ones.
void check_blocks(const MeaningCheck& check, const Config& filled) {
  check.takes_ring_of_strips();
  for (const auto& [pointer, columns] :
       {std::pair{"/depth", filled.depth}, std::pair{"/ov_depth", *filled.ov_depth}})
    check.takes(columns % *filled.BK == 0, pointer,
                fmt::format("takes whole blocks of BK ({}) columns", *filled.BK),
                std::to_string(align_up(columns, *filled.BK)));
}

/// What the kernel computes: anything it does not is refused here, never ignored.
bool check_tile_meaning(const Config& c, const Config& m, Violations& out) {
  const MeaningCheck check(c, m, kTiles, out);
  check.keys({"BK", "WM", "WN", "swizzle", "swizzle_k", "swizzle_v", "dma", "v_load", "full_kv", "bk_smem",
              "smem_depth", "num_smem_stages", "double_buffer", "double_buffer_k_only", "shared_kv",
              "reg_chunk_depth", "rope"});
  check.takes_16_bit_or_bytes();
  check.takes(*m.kv_dtype == c.dtype || !c.dma || *m.dma == "reg_staged", "/dma", "widens bytes in registers",
              "reg_staged");
  check.takes_rows_of_depth();
  check.takes_rope_tensor_of_strips();
  check.takes(!m.rope || *m.full_kv, "/rope",
              "keeps all columns of K in one tensor where blocks pass through a ring", "leave it out");
  check.takes_positive_scale();
  check.takes_any_queries();
  const bool blocks = !*m.full_kv;
  check.takes(!(blocks && *m.v_from_k), "/full_kv", "keeps whole rows in a stage where V lies in them",
              "true");
  check.takes(!blocks || c.shared_kv.value_or(true), "/shared_kv", "sends K and V through the same stages",
              "true");
  check.takes(c.shared_kv.value_or(false) <= (*m.v_from_k || blocks || !two_stages(m)), "/shared_kv",
              "has K and V in turn in one stage", "false");
  check.takes(*m.smem_depth == align_up(c.depth, *m.bk_smem), "/smem_depth", "keeps depth columns",
              std::to_string(align_up(c.depth, *m.bk_smem)));
  if (blocks) {
    check_blocks(check, m);
  } else {
    const int stages = two_stages(m) ? 2 : 1;
    check.takes(!c.num_smem_stages || *c.num_smem_stages == stages, "/num_smem_stages",
                "has as many stages as double_buffer and double_buffer_k_only say", std::to_string(stages));
  }
  check.takes((*m.mma_shape)[0] == 16, "/mma_shape", "takes 16x16 instructions",
              c.target == Target::gfx950 || is_fp8(c.dtype) ? "[16, 16, 32]" : "[16, 16, 16]");
  check.takes(*m.WM == 16, "/WM", "gives a wave 16 packed query rows", "16");
  const int piece = 16 / static_cast<int>(size_of(*m.kv_dtype));
  check.takes(c.depth % piece == 0, "/depth", "takes rows of whole 16 bytes",
              std::to_string(align_up(c.depth, piece)));
  check.takes(*m.ov_depth % piece == 0, "/ov_depth", "takes rows of whole 16 bytes",
              std::to_string(align_up(*m.ov_depth, piece)));
  check.takes(c.depth <= 576, "/depth", "takes depth up to 576", "64, 128, 192, 256, 512, 576");
  return check.passed();
}

/// Shares V's columns out among the waves, in groups of fragments: whole blocks, or where a wave has less than
/// one, equal parts of a block (2.7, smem_depth wider than a reader's depth). Of V in its own stage, columns past
/// the last are read as they come and their O is not written.
void share_columns(DecodePlan& p, int bk_smem, bool block) {
  const int group = block ? p.mfma.shape.m : KVMmaOp::column_unit(p.mfma);
  const int share = ceil_div(p.ov_depth, p.warps_n());
  int part = group;  // a power of two, as bk_smem is
  while (part < share) part *= 2;
  if (part < bk_smem && part * p.warps_n() % bk_smem == 0) {
    p.wave_columns = part;
    p.waves_in_block = bk_smem / part;
  } else {
    p.wave_columns = p.v_in_k ? share : align_up(share, std::max(bk_smem, group));
  }
  p.wave_step = p.wave_columns;
  p.ov_columns = p.wave_columns * p.warps_n();
}

/// V comes beside K where both fit: only then is it on its way while K is multiplied.
bool place_tiles(DecodePlan& p, const Config& user, Violations& out) {
  const TargetInfo& target = target_info(p.mfma.target);
  const int v_bytes = p.v_in_k || p.blocks ? 0 : p.v_tile->bytes();
  p.shared = p.blocks || (!p.v_in_k && user.shared_kv.value_or(false));
  p.smem_rope = p.k_tile->bytes();
  const int k_bytes = p.smem_rope + (p.k_rope ? p.k_rope->bytes() : 0);
  place_in_lds(p, k_bytes, v_bytes);
  if (!user.shared_kv && !p.v_in_k && p.k_stages == 1 && p.smem_bytes > target.smem_bytes) {
    p.shared = true;
    place_in_lds(p, k_bytes, v_bytes);
  }
  if (p.smem_bytes <= target.smem_bytes) return true;
  break_rule(user, "V15", {"/BN", "/depth", "/ov_depth", "/double_buffer", "/double_buffer_k_only"},
             fmt::format("LDS of {} bytes exceeds the {} of {}", p.smem_bytes, target.smem_bytes,
                         to_string(p.mfma.target)),
             "", out);
  return false;
}

/// 16-byte vectors of a row of a strip.
int row_vectors_of(const Config& c) {
  return *c.bk_smem * static_cast<int>(size_of(c.dtype)) / 16;
}

/// V's swizzle unless asked. Transposing reads want the eight rows of a phase apart; 16 lanes of 4 bytes take half of
/// the banks, lanes 16 to 31, four rows on, the other half.
SwizzleKey default_swizzle_v(const Config& c) {
  if (*c.v_from_k) return *c.swizzle_k;
  if (c.swizzle) return *c.swizzle;
  if (c.v_load == "block") {
    const layout::Swizzle s = block_swizzle(Mfma::of(c), row_vectors_of(c));
    return XorSwizzle{s.bits, s.base, s.shift, false};
  }
  const bool cdna4 = c.target == Target::gfx950, wide = *c.bk_smem * size_of(c.dtype) >= 128;
  if (is_fp8(c.dtype)) return cdna4 ? XorSwizzle{2, 0, 4, false} : XorSwizzle{1, 2, 2, false};
  if (!cdna4) return XorSwizzle{1, 2, wide ? 3 : 2, false};
  return wide ? XorSwizzle{2, 1, 2, false} : XorSwizzle{1, 1, 3, false};
}

/// Every wave has an equal part of each block of V.
bool share_blocks(DecodePlan& p, const Config& user, const Config& c, Violations& out) {
  const int unit = c.v_load == "block" ? p.mfma.shape.m : KVMmaOp::column_unit(p.mfma), block = *c.bk_smem;
  const int part = block / p.warps_n();
  if (block % p.warps_n() != 0 || part % unit != 0) {
    break_rule(
        user, kTiles, {"/WN", "/BN", "/num_threads"},
        fmt::format("without full_kv {} waves share each block of bk_smem ({}) columns of V, of which a "
                    "wave has a multiple of {}",
                    p.warps_n(), block, unit),
        block >= unit ? std::to_string(p.BN / (block / unit)) : "", out);
    return false;
  }
  p.wave_step = part, p.waves_in_block = p.warps_n();
  p.wave_columns = p.ov_depth / p.warps_n(), p.ov_columns = p.ov_depth;
  for (int b = 0; b < p.ov_depth / block; ++b) {
    for (ColumnGroup group : KVMmaOp::column_groups(p.mfma, part, c.v_load == "block")) {
      group.first += b * block, group.mma += b * part / p.mfma.shape.m;
      p.columns.push_back(group);
    }
  }
  return true;
}

/// Which output columns a wave has, in slices.
bool set_columns(DecodePlan& p, const Config& user, const Config& c, Violations& out) {
  if (p.blocks) return share_blocks(p, user, c, out);
  const bool block = c.v_load == "block";
  share_columns(p, *c.bk_smem, block);
  const int slice = slice_columns(p.mfma, p.wave_columns);
  p.v_slices = p.wave_columns / std::max(1, slice);
  p.columns = sliced_columns(p.mfma, p.wave_columns, slice, block);
  const bool whole = !p.v_in_k || p.ov_columns == p.ov_depth;
  if (whole && p.wave_columns * p.waves_in_block % *c.bk_smem == 0 && !p.columns.empty()) return true;
  break_rule(user, kTiles, {"/WN", "/ov_depth", "/bk_smem"},
             fmt::format("each of {} waves has {} output columns, which must be a multiple of bk_smem ({})",
                         p.warps_n(), p.wave_columns, *c.bk_smem),
             "", out);
  return false;
}

/// The tiles of K and V.
bool set_tiles(DecodePlan& p, const Config& user, const Config& c, const LdsSwizzle& swizzle_k,
               const LdsSwizzle& swizzle_v, Violations& out) {
  const int page_size = page_rows(*c.operand);
  const int row_bytes = 16 * row_vectors_of(c);
  const int dma_bytes = KVBuffer::dma_bytes_for(target_info(c.target).lds_dma_bytes, row_bytes, page_size);
  const bool staged = *c.dma == "reg_staged";
  if (dma_bytes == 0 && !staged) {
    refuse_pages(user, c, kTiles, row_bytes, out);
    return false;
  }
  KVBuffer::Shape kv{true,     p.mfma,     p.BN,          p.WN,       p.BK,
                     p.depth,  *c.bk_smem, p.num_threads, p.k_stages, std::max(4, dma_bytes),
                     swizzle_k};
  kv.reg_staged = staged;
  kv.widens = *c.kv_dtype != c.dtype;
  kv.stored = *c.kv_dtype;
  kv.page_size = page_size;
  kv.keys_in_order = true;  // P comes from LDS
  kv.reg_chunk = c.reg_chunk_depth.value_or(0);
  kv.full_kv = !p.blocks;
  kv.depth = k_columns(c);
  p.k_tile.emplace(kv);
  if (has_rope_tensor(c)) {
    KVBuffer::Shape rope = kv;
    rope.depth = *c.rope_depth, rope.reg_chunk = 0, rope.tensor = "k_rope";
    p.k_rope.emplace(rope);
  }
  kv.scale_columns = p.row_scales.v_columns();
  kv.transpose = false, kv.WN = p.BN, kv.depth = p.ov_columns, kv.num_smem_stages = p.v_stages;
  kv.row_columns = p.ov_columns == p.ov_depth ? 0 : p.ov_depth;
  kv.swizzle = swizzle_v, kv.reg_chunk = 0,
  kv.read_columns = p.blocks ? p.wave_step : slice_columns(p.mfma, p.wave_columns);
  kv.block = c.v_load == "block";
  kv.read_waves = p.waves_in_block;
  if (p.v_in_k) kv.reads = p.k_tile->stage();
  p.v_tile.emplace(kv);
  return true;
}

/// A ring looks no further ahead than the next tile.
bool check_ring(const DecodePlan& p, const Config& user, Violations& out) {
  if (!p.blocks || p.k_stages <= p.tile_blocks() + 1) return true;
  refuse_value(user, "/num_smem_stages",
               fmt::format("cdna_decode looks one tile ahead at most: {} blocks, and the one at work",
                           p.tile_blocks()),
               std::to_string(p.tile_blocks() + 1), out);
  return false;
}

/// Registers of a lane that live through the loop.
int lasting_registers(const DecodePlan& p) {
  return 4 * p.q->num_vectors() +
         (p.output_tiles() + p.score_tiles() * p.row_scales.score_arrays()) * p.mfma.accum() +
         p.k_tile->staging_registers() + p.v_tile->staging_registers() +
         (p.k_rope ? p.k_rope->staging_registers() : 0);
}

/// What the loop takes at least: fragments of one step, or where the compiler asks for all of a row at once, all.
int least_loop_registers(const DecodePlan& p) {
  const KVMmaOp& op = p.k_op();
  const int row = op.steps() * op.registers_per_step() * p.k_tile->num_k_tiles();
  const bool few = p.max_registers <= kFewRegisters;
  if (few && !std::has_single_bit(static_cast<unsigned>(p.num_warps))) return LoopRegisters::kUneven;
  return few ? LoopRegisters::kLeast : std::max(LoopRegisters::kLeast, row + LoopRegisters::kBesideFragments);
}

/// Two blocks a compute unit where registers hold them, as LDS does.
void settle_residency(DecodePlan& p) {
  const int loop = p.blocks ? LoopRegisters::kMost : least_loop_registers(p);
  if (lasting_registers(p) + loop > p.max_registers) p.share_compute_unit(1);
}

/// What lives through the loop, and the least around it.
bool check_registers(const DecodePlan& p, const Config& user, Violations& out) {
  const int lasting = lasting_registers(p), loop = least_loop_registers(p);
  if (lasting + loop <= p.max_registers) return true;
  break_rule(
      user, "V32", {"/num_threads", "/BM", "/BN", "/depth", "/ov_depth"},
      fmt::format("Q, O and S take {} registers of a lane and the loop about {} more; {} waves leave {}",
                  lasting, loop, p.num_warps, p.max_registers),
      "", out);
  return false;
}

}  // namespace

std::optional<DecodePlan> plan_tile_decode(const Config& user, Violations& out) {
  Config c = with_rule_defaults(user);
  c.schedule = kTiles;
  if (!check_tile_meaning(user, c, out)) return std::nullopt;
  if (!c.v_load) c.v_load = v_loads_of(c).front();
  if (!c.swizzle_k) c.swizzle_k = swizzle_or(c, {3, 0, 3, false});
  if (!c.swizzle_v) c.swizzle_v = default_swizzle_v(c);
  const auto swizzle_k = wave_swizzle(user, *c.swizzle_k, "/swizzle_k", *c.WN * row_vectors_of(c), out);
  const auto swizzle_v = wave_swizzle(user, *c.swizzle_v, "/swizzle_v", *c.BN * row_vectors_of(c), out);
  if (!swizzle_k || !swizzle_v) return std::nullopt;

  DecodePlan p = decode_plan_of(c);
  if (!check_row_scales(user, p.row_scales, c, out)) return std::nullopt;
  p.streaming = false;
  p.v_in_k = *c.v_from_k;
  p.blocks = !*c.full_kv;
  p.k_stages = p.blocks ? *c.num_smem_stages : two_stages(c) ? 2 : 1;
  p.v_stages = *c.double_buffer || p.v_in_k || p.blocks ? p.k_stages : 1;
  if (!set_columns(p, user, c, out) || !set_tiles(p, user, c, *swizzle_k, *swizzle_v, out))
    return std::nullopt;
  if (!check_ring(p, user, out) || !place_tiles(p, user, out)) return std::nullopt;
  c.shared_kv = p.v_in_k || p.shared;
  p.config = std::move(c);
  p.q.emplace(p.q_shape());
  settle_residency(p);
  if (!check_registers(p, user, out)) return std::nullopt;
  return p;
}

}  // namespace kiln::cdna
