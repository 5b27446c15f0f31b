#include "generator/schedules/sm80_prefill/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/quantization.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/systems/sm80/kv_mma_op.hpp"
#include "generator/systems/sm80/token_scales.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm80 {
namespace {

/// `suggest`: look for the nearest legal values of a broken limit (which resolves many configs).
std::optional<Resolved> resolve(const Config& user, bool suggest, Violations& out);

/// Tiles of heads up to a depth.
struct Tiles {
  int deepest;
  int BM, BN, stages;
};
/// Small blocks, several to an SM, hide each other's barriers; wide heads need the rows of more warps to pay
/// for the copies of K and V, and have room for one stage of each only (bench/NOTES.md 174).
constexpr Tiles kTiles[] = {{128, 64, 64, 2}, {512, 128, 64, 1}};

const Tiles& default_tiles(int depth) {
  return depth <= kTiles[0].deepest ? kTiles[0] : kTiles[1];
}

/// Registers of a thread beside those that live through a tile (ptxas 13.0; bench/NOTES.md 174).
struct RegisterLimits {
  static constexpr int kSpare = 56;       ///< fragments in flight and addresses
  static constexpr int kSpareWithQ = 80;  ///< the same where Q stays in registers
  static constexpr int kCaptured = 28;  ///< addresses of captured tensors, beside half of a tile's keys (146)
};

/// Swizzle without bank conflicts: the 16-byte chunk within a line of 128 bytes ^= the row.
SwizzleKey default_swizzle(int BK) {
  switch (BK) {
    case 16:
      return SwizzleMode::b32;
    case 32:
      return SwizzleMode::b64;
    case 64:
      return SwizzleMode::b128;
    default:
      return XorSwizzle{3, 0, 4, false};
  }
}

/// The vector-space swizzle of the key; nullopt when it splits a 16-byte vector or is not its own inverse.
std::optional<layout::Swizzle> vector_swizzle(const SwizzleKey& key) {
  XorSwizzle x = xor_swizzle(key);
  if (x.element_domain) {
    if (x.bits > 0 && x.base < 3) return std::nullopt;
    x.base -= 3;
  }
  if (x.bits == 0) return layout::Swizzle{};
  const layout::Swizzle s{x.bits, x.base, x.shift};
  return s.is_valid() ? std::optional(s) : std::nullopt;
}

bool is_power_of_two(int x) {
  return x > 0 && (x & (x - 1)) == 0;
}

bool check_scales(const Config& c, Violations& out) {
  if (!c.operand || !c.operand->quantization) return true;
  const auto before = out.size();
  const Quantization& q = *c.operand->quantization;
  for (const int depth : {c.depth, c.ov_depth.value_or(c.depth)}) {
    const bool in_row = q.granularity == Quantization::Granularity::per_block && q.block < depth;
    if (in_row && depth > 192) {
      refuse_value(c, "/operand/quantization/granularity",
                   "sm80_prefill has no registers for scales within a row over depth 192",
                   "per_tensor, per_head, per_token", out);
      break;
    }
    if (!in_row || q.block % 32 == 0) continue;
    refuse_value(c, "/operand/quantization/granularity",
                 "sm80_prefill takes a scale for a multiple of 32 elements",
                 std::to_string(align_up(q.block, 32)), out);
    break;
  }
  return out.size() == before;
}

bool check_meaning(const Config& c, Violations& out) {
  const auto before = out.size();
  check_prefill_meaning(
      c, "sm80_prefill",
      {"BK", "swizzle", "num_kv_stages", "WM", "WN", "full_kv", "bk_smem", "smem_depth", "num_smem_stages"},
      PrefillBytes::scales_in_rows, out);
  if (!c.full_kv.value_or(true))
    refuse_value(c, "/full_kv", "sm80_prefill keeps whole rows in a stage", "true", out);
  check_scales(c, out);
  return out.size() == before;
}

/// Registers that live through a tile: O, S and P; where keys have scales those, too, and where they have
/// several each the products of one group of columns and the scales on their way; addresses of captured tensors and
/// what is loaded of them (tried with ptxas 13.0). The rest is for fragments in flight and addresses.
int live_registers(const Config& c, int BN) {
  const TokenScales scales(c, BN, 32);
  const int times_s = scales.k_groups() > 1 ? 4 : scales.any() ? 2 : 1;
  const int captured = c.score_mod->tensors.empty() ? 0 : RegisterLimits::kCaptured + BN / 2;
  return *c.ov_depth / 2 + times_s * BN / 2 + BN / 4 + captured;
}

int registers_of(int num_threads) {
  return std::min(255, 65536 / num_threads / 8 * 8);
}

int widest(const Config& c) {
  return std::max(c.depth, *c.ov_depth);
}

/// Q, the tiles that fragments are read from, and the stages of copies: these tiles themselves, or bytes.
int smem_bytes(const Config& c, int BM, int BN, int BK, int stages) {
  const int depth = align_up(c.depth, BK), ov_depth = align_up(*c.ov_depth, BK);
  const int q = BM * std::max(depth, ov_depth) * 2, tile = BN * (depth + ov_depth) * 2;
  if (!is_narrow(c)) return q + stages * tile;
  return q + tile + TokenScales(c, BN, 2 * BM).tile_bytes() + stages * tile / 2;
}

/// The default BN, halved until accumulators and one stage fit beside what the user chose.
int default_bn(const Config& c, int BM) {
  int BN = default_tiles(widest(c)).BN;
  const auto fits = [&] {
    return live_registers(c, BN) <= registers_of(2 * BM) - RegisterLimits::kSpare &&
           smem_bytes(c, BM, BN, c.BK.value_or(16), 1) <= target_info(Target::sm_80).smem_bytes;
  };
  while (BN > c.BK.value_or(16) && !fits()) BN /= 2;
  return std::max(BN, c.BK.value_or(16));
}

int default_bk(const Config& c, int BN) {
  int BK = 64;
  while (BK > 16 && (c.depth % BK != 0 || *c.ov_depth % BK != 0 || BN % BK != 0)) BK /= 2;
  return BK;
}

/// Keys whose value follows from others.
void follow(const Config& user, std::optional<int>& key, std::string_view pointer, int value,
            std::string_view id, std::string_view what, Violations& out) {
  if (!key) key = value;
  if (*key != value) break_rule(user, id, {pointer}, what, std::to_string(value), out);
}

bool choose_rows(Config& c, const Config& user, Violations& out) {
  if (!c.BM) c.BM = c.num_threads ? *c.num_threads / 2 : default_tiles(widest(c)).BM;
  if (is_power_of_two(*c.BM) && *c.BM >= 16 && *c.BM <= 256) return true;
  break_rule(user, "sm80_prefill", {"/BM", "/num_threads"},
             "BM is 16 rows for each of 1, 2, 4, 8 or 16 warps", "16, 32, 64, 128, 256", out);
  return false;
}

/// A strip's columns, where they are asked for.
bool check_strip(const Config& c, const Config& user, Violations& out) {
  if (!c.BK) return true;
  const auto leaves = [&](int depth) { return depth % *c.BK > *c.BK / 2; };
  if (!is_power_of_two(*c.BK) || *c.BK < 16 || *c.BK > 128 || leaves(c.depth) || leaves(*c.ov_depth)) {
    break_rule(user, "V8", {"/BK", "/depth", "/ov_depth"},
               "BK is a power of two from 16 to 128 that divides depth, or leaves at most BK/2",
               std::to_string(default_bk(c, 128)), out);
    return false;
  }
  if (is_narrow(c) && *c.BK > 64) {
    break_rule(user, "sm80_prefill", {"/BK", "/kv_dtype"},
               "strips of 8-bit keys are at most 64 columns, which are widened without bank conflicts", "64",
               out);
    return false;
  }
  return true;
}

bool choose_keys(Config& c, const Config& user, Violations& out) {
  if (!c.BN) c.BN = default_bn(c, *c.BM);
  if (*c.BN % 16 != 0 || *c.BN < 16 || *c.BN > 256) {
    break_rule(user, "V3", {"/BN"}, "BN is a multiple of 16 from 16 to 256 here",
               std::to_string(std::clamp((*c.BN + 15) / 16 * 16, 16, 256)), out);
    return false;
  }
  if (c.mask->kind == MaskConfig::Kind::custom && *c.BN % 32 != 0) {
    break_rule(user, "sm80_prefill", {"/BN", "/mask"},
               "tiles of a custom mask begin at whole 32-bit words of it",
               std::to_string(std::clamp((*c.BN + 16) / 32 * 32, 32, 256)), out);
    return false;
  }
  if (scales_by_row(c.operand->quantization) && !is_power_of_two(*c.BN)) {
    break_rule(user, "sm80_prefill", {"/BN", "/operand/quantization"},
               "the scales of a tile's keys are copied by whole blocks of threads: BN is a power of two",
               "32, 64, 128", out);
    return false;
  }
  return true;
}

bool resolve_tiles(Config& c, const Config& user, Violations& out) {
  const auto before = out.size();
  if (!choose_rows(c, user, out) || !check_strip(c, user, out) || !choose_keys(c, user, out)) return false;
  if (!c.BK) c.BK = default_bk(c, *c.BN);
  if (*c.BN % *c.BK != 0) {
    break_rule(user, "V9", {"/BN", "/BK"}, "BN % BK == 0", std::to_string(align_up(*c.BN, *c.BK)), out);
  }
  follow(user, c.WM, "/WM", 16, "sm80_prefill", "a warp owns the 16 rows of one mma.sync", out);
  follow(user, c.WN, "/WN", *c.BN, "sm80_prefill", "every warp sees all keys of a tile", out);
  follow(user, c.num_threads, "/num_threads", 2 * *c.BM, "sm80_prefill", "32 threads for 16 rows of BM", out);
  follow(user, c.bk_smem, "/bk_smem", *c.BK, "V6", "bk_smem == BK", out);
  follow(user, c.smem_depth, "/smem_depth", align_up(c.depth, *c.BK), "V7",
         "smem_depth is depth rounded up to bk_smem", out);
  c.full_kv = true;
  const std::array<int, 3> shape{KVMmaOp::MMA_M, KVMmaOp::MMA_N, KVMmaOp::MMA_K};
  if (c.mma_shape && *c.mma_shape != shape) {
    break_rule(user, "V10", {"/mma_shape"}, "the instruction is m16n8k16", "[16, 8, 16]", out);
  }
  c.mma_shape = shape;
  return out.size() == before;
}

bool resolve_swizzle(Resolved& r, const Config& user, Violations& out) {
  Config& c = r.config;
  if (!c.swizzle) c.swizzle = default_swizzle(*c.BK);
  const auto swizzle = vector_swizzle(*c.swizzle);
  const int vectors = 16 * *c.BK / 8;
  const int period =
      swizzle && !swizzle->is_identity() ? 1 << (swizzle->bits + swizzle->base + swizzle->shift) : 1;
  if (!swizzle || period > vectors) {
    break_rule(user, "V11", {"/swizzle", "/BK"},
               fmt::format("the swizzle permutes 16-byte vectors within 16 rows of BK columns ({} vectors)",
                           vectors),
               "auto", out);
    return false;
  }
  r.swizzle = *swizzle;
  return true;
}

/// Reports a limit that several keys share: each key the user set, with its own nearest values.
void exceed(const Config& user, std::string_view id, std::initializer_list<std::string_view> keys,
            const std::string& what, bool suggest, Violations& out) {
  const auto works = [](const Config& changed) {
    Violations ignored;
    return resolve(changed, false, ignored).has_value();
  };
  bool any = false;
  for (const auto key : keys) {
    if (key_value_text(user, key).empty()) continue;
    any = true;
    break_rule(user, id, {key}, what, suggest ? nearest_legal(user, key, works) : "", out);
  }
  if (!any) break_rule(user, id, {*keys.begin()}, what, "", out);
}

/// Stages, shared memory and registers. num_smem_stages is KVBuffer's name, num_kv_stages the pipeline's;
/// here they are one thing.
bool resolve_memory(Resolved& r, const Config& user, bool suggest, Violations& out) {
  Config& c = r.config;
  const int v_columns = align_up(*c.ov_depth, *c.BK);
  r.smem_q_bytes = *c.BM * std::max(*c.smem_depth, v_columns) * 2;
  const auto with_stages = [&](int stages) { return smem_bytes(c, *c.BM, *c.BN, *c.BK, stages); };
  const int stage_bytes = with_stages(1) - with_stages(0);
  const int fitting = (target_info(Target::sm_80).smem_bytes - with_stages(0)) / stage_bytes;
  // A stage of bytes is free once they are widened: the copies of the next tile fly during the products of
  // one.
  const int wanted = is_narrow(c) ? 1 : default_tiles(widest(c)).stages;
  if (!c.num_kv_stages) c.num_kv_stages = c.num_smem_stages.value_or(std::clamp(fitting, 1, wanted));
  if (!c.num_smem_stages) c.num_smem_stages = c.num_kv_stages;
  if (*c.num_smem_stages != *c.num_kv_stages || *c.num_kv_stages < 1 || *c.num_kv_stages > 4) {
    break_rule(user, "sm80_prefill", {"/num_kv_stages", "/num_smem_stages"},
               "num_kv_stages and num_smem_stages are the same number from 1 to 4", "1, 2, 3, 4", out);
    return false;
  }
  r.smem_bytes = with_stages(*c.num_kv_stages);
  if (r.smem_bytes > target_info(Target::sm_80).smem_bytes) {
    exceed(user, "V15", {"/BN", "/BM", "/num_kv_stages", "/num_smem_stages", "/depth", "/ov_depth"},
           fmt::format("shared memory is {} bytes, at most {}", r.smem_bytes,
                       target_info(Target::sm_80).smem_bytes),
           suggest, out);
    return false;
  }
  r.registers = registers_of(*c.num_threads);
  const int live = live_registers(c, *c.BN);
  if (live > r.registers - RegisterLimits::kSpare) {
    exceed(user, "V32", {"/BN", "/BM", "/num_threads", "/depth", "/ov_depth"},
           fmt::format("O, S and P{}{} take {} registers a thread, at most {} of {}",
                       TokenScales(c, *c.BN, *c.num_threads).any() ? " with scales of keys" : "",
                       c.score_mod->tensors.empty() ? "" : " with tensors of score_mod", live,
                       r.registers - RegisterLimits::kSpare, r.registers),
           suggest, out);
    return false;
  }
  r.q_in_registers = live + c.depth / 4 <= r.registers - RegisterLimits::kSpareWithQ;
  return true;
}

std::optional<Resolved> resolve(const Config& user, bool suggest, Violations& out) {
  if (!check_meaning(user, out)) return std::nullopt;
  Resolved r;
  r.config = with_shared_defaults(user);
  if (!resolve_tiles(r.config, user, out) || !resolve_swizzle(r, user, out) ||
      !resolve_memory(r, user, suggest, out)) {
    return std::nullopt;
  }
  if (!r.config.schedule) r.config.schedule = "sm80_prefill";
  return r;
}

}  // namespace

std::optional<Resolved> resolve_prefill(const Config& user, Violations& out) {
  return resolve(user, true, out);
}

}  // namespace kiln::sm80
