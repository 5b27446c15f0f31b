#include "generator/schedules/sm80_decode/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/integers.hpp"
#include "generator/config/defaults.hpp"
#include "generator/config/rules.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm80 {
namespace {

constexpr const char* kName = "sm80_decode";

/// What leaves a thread registers beside O, and what keeps the memory busy (bench/NOTES.md 174).
struct TileLimits {
  static constexpr int kQInRegisters = 128;  ///< depth up to which Q's fragments stay in registers
  static constexpr int kWideKeys = 32,
                       kKeys = 16;  ///< keys of a warp: of bytes up to kWideDepth, and of others
  static constexpr int kWideDepth = 128;
  static constexpr int kDeepest = 224;  ///< with scales within a row, or three tensors of a score_mod (146)
  static constexpr int kStages = 4;     ///< tiles on their way
};

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, kName, out);
  check.keys({"WN", "num_kv_stages"});
  check.takes_16_bit();
  check.takes_kv_of_dtype_or_bytes();
  if (m.operand->quantization) {
    const Quantization& q = *m.operand->quantization;
    const bool grouped = q.granularity == Quantization::Granularity::per_block && q.block < c.depth;
    const char* granularity = "/operand/quantization/granularity";
    check.takes(!grouped || q.block % 32 == 0, granularity, "takes a scale for a multiple of 32 elements",
                std::to_string(align_up(q.block, 32)));
    check.takes(!grouped || c.depth <= TileLimits::kDeepest, granularity,
                "has no registers for scales within a row over depth 224", "per_tensor, per_head, per_token");
  }
  check.takes(m.score_mod->tensors.size() <= 2 || c.depth <= TileLimits::kDeepest, "/score_mod",
              "has registers for two tensors of a score_mod over depth 224", "none");
  check.takes_ov_depth_of_depth();
  check.takes_plain_rows();
  check.takes_positive_scale();
  check.takes_any_queries();
  const int step = size_of(*m.kv_dtype) == 1 ? 32 : 16;
  if (c.depth % step != 0 || c.depth < step || c.depth > 256) {
    break_rule(c, kName, {"/depth"}, fmt::format("depth is a multiple of {} between {} and 256", step, step),
               std::to_string(std::clamp((c.depth + step - 1) / step * step, step, 256)), out);
  }
  return check.passed();
}

/// The XOR that spreads rows of `columns` 16-bit units over the banks.
layout::Swizzle swizzle_of(int columns) {
  return columns >= 64   ? layout::Swizzle{3, 0, 3}
         : columns == 32 ? layout::Swizzle{2, 0, 3}
                         : layout::Swizzle{1, 0, 3};
}

/// Blocks of shared memory: 128-byte rows, or the largest power of two that a short row fills.
int block_columns(int columns) {
  int block = 64;
  while (block > 16 && block > columns) block /= 2;
  return block;
}

void set_memory(DecodePlan& p) {
  p.smem_v = p.num_warps * p.num_stages * p.k->stage_bytes();
  p.smem_scales = p.smem_v + p.num_warps * p.num_stages * p.v->stage_bytes();
  p.smem_q = p.smem_scales + p.num_warps * p.num_stages * 2 * 4 * p.scale_stage_floats();
  p.smem_exchange = p.smem_q + (p.q_in_registers ? 0 : p.BM * p.depth * 2);
  p.smem_rows = p.smem_exchange + p.num_warps * p.BM * p.kExchangeStride * 4;
  p.smem_bytes = p.smem_rows + p.num_warps * p.BM * 8 + 16;
}

/// Keys with one legal value.
void fill_instruction(const DecodePlan& p, Config& c, const Refusals& refuse) {
  if (c.BM.value_or(p.BM) != p.BM)
    refuse(kName, {"/BM"}, "BM is the 16 rows of the matrix instruction", "16");
  c.BM = p.BM;
  const std::array<int, 3> shape{16, 8, 16};
  if (c.mma_shape.value_or(shape) != shape)
    refuse("V10", {"/mma_shape"}, "the instruction is m16n8k16", "[16, 8, 16]");
  c.mma_shape = shape;
}

/// Warps, and keys of a tile.
bool choose_tile(DecodePlan& p, Config& c, const Refusals& refuse) {
  const bool bytes = size_of(*c.kv_dtype) == 1;
  if (!c.num_threads) c.num_threads = c.BN && c.WN && *c.WN > 0 ? *c.BN / *c.WN * 32 : 128;
  if (*c.num_threads != 64 && *c.num_threads != 128 && *c.num_threads != 256) {
    refuse(kName, {"/num_threads", "/BN", "/WN"}, "2, 4 or 8 warps, each with WN keys of a tile",
           "64, 128, 256");
    return false;
  }
  p.num_threads = *c.num_threads;
  p.num_warps = p.num_threads / 32;
  // 8-bit rows are half as long: twice the keys keep the copies in flight.
  // Beside the accumulators of wide outputs there is no room for 32 keys.
  const bool wide = bytes && p.depth <= TileLimits::kWideDepth;
  if (!c.WN) c.WN = c.BN ? *c.BN / p.num_warps : wide ? TileLimits::kWideKeys : TileLimits::kKeys;
  if (!c.BN) c.BN = *c.WN * p.num_warps;
  p.BN = *c.BN;
  p.WN = *c.WN;
  if ((p.WN == 16 || p.WN == 32) && p.BN == p.WN * p.num_warps) return true;
  refuse("V3", {"/BN", "/WN"}, "a warp takes WN keys of a tile, 16 or 32, and BN is WN for each warp",
         std::to_string(16 * p.num_warps));
  return false;
}

/// Where keys come from, and the buffers of K and V.
void set_buffers(DecodePlan& p, const Config& c) {
  p.quantization = c.operand->quantization;
  if (p.quantization) {
    if (p.quantization->granularity == Quantization::Granularity::per_token) p.scale_group = p.depth;
    if (p.quantization->granularity == Quantization::Granularity::per_block)
      p.scale_group = std::min(p.quantization->block, p.depth);
  }
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.WN);
  p.q_in_registers = p.depth <= TileLimits::kQInRegisters;
  DecodeStreamingKVBuffer::Shape kv{true, c.dtype,       *c.kv_dtype,      p.WN, p.depth,
                                    0,    p.scale_group, p.q_in_registers, {}};
  kv.columns = block_columns(p.depth * (size_of(*c.kv_dtype) == 1 ? 1 : 2) / 2);
  kv.swizzle = swizzle_of(kv.columns);
  p.k.emplace(kv, *p.operand);
  kv.transpose = false;
  p.v.emplace(kv, *p.operand);
}

/// As many stages as fit one block, up to four tiles on their way.
bool choose_stages(DecodePlan& p, Config& c, const Refusals& refuse) {
  const int most = target_info(Target::sm_80).smem_bytes;
  p.num_stages = 1;
  set_memory(p);
  const int stage_bytes = p.smem_q, fitting = (most - (p.smem_bytes - stage_bytes)) / stage_bytes;
  if (!c.num_kv_stages) c.num_kv_stages = std::clamp(fitting, 1, TileLimits::kStages);
  p.num_stages = *c.num_kv_stages;
  if (p.num_stages < 1 || p.num_stages > std::min(fitting, 16)) {
    refuse("V15", {"/num_kv_stages", "/BN", "/WN", "/depth"},
           fmt::format("{} stages of {} bytes do not fit the {} of a block", p.num_stages, stage_bytes, most),
           std::to_string(std::clamp(fitting, 1, 16)));
    return false;
  }
  set_memory(p);
  return true;
}

}  // namespace

std::optional<DecodePlan> plan_decode(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const auto before = out.size();
  const Refusals refuse(user, out);
  DecodePlan p;
  p.depth = p.ov_depth = c.depth;
  p.results = RowResults(c);
  c.schedule = kName;
  fill_instruction(p, c, refuse);
  if (!choose_tile(p, c, refuse)) return std::nullopt;
  set_buffers(p, c);
  if (!choose_stages(p, c, refuse)) return std::nullopt;
  p.set_row_systems(c, p.WN, p.depth);
  if (out.size() != before) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm80
