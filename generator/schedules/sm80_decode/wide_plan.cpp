// What sm80_decode and sm80_wide_prefill take of wide rows, and what unset keys become.
#include <fmt/format.h>

#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/common/meaning.hpp"
#include "generator/schedules/sm80_decode/wide.hpp"
#include "generator/systems/kv_buffer_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::sm80 {
namespace {

/// Measured with latent rows ("Prefill over 8-bit caches on sm_80" in bench/NOTES.md): 32 keys are faster where they do
/// not spill, which most masks and modifiers make them, and 32 rows are slower.
struct WideLimits {
  static constexpr int kRows = 64, kKeys = 16, kStages = 4;
};

const char* name_of(const Config& c) {
  return c.operation == Operation::prefill ? "sm80_wide_prefill" : "sm80_decode";
}

bool check_wide_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, name_of(c), out);
  const bool alias = *m.v_from_k;
  check.keys({"num_kv_stages"});
  check.takes_16_bit();
  check.takes(*m.kv_dtype == c.dtype, "/kv_dtype",
              alias ? "takes kv_dtype equal to dtype where V lies in K's rows"
                    : "takes kv_dtype equal to dtype over rows of more than 256 columns",
              std::string(to_string(c.dtype)));
  check.takes(!m.operand->quantization, "/operand/quantization", "takes no scales for 16-bit keys",
              "leave it out");
  if (c.operation == Operation::prefill)
    check.takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  check.takes_positive_scale();
  check.takes_any_queries();
  if (!alias) {
    check.takes_plain_rows();
    check.takes_ov_depth_of_depth();
    if (c.depth != 256 && c.depth != 384 && c.depth != 512)
      break_rule(c, name_of(c), {"/depth"}, "depth over 256 is 384 or 512 here",
                 c.depth <= 384 ? "384" : "512", out);
    return check.passed();
  }
  check.takes_rows_of_depth();
  if (c.depth % 16 != 0 || c.depth > 576) {
    break_rule(c, name_of(c), {"/depth"}, "depth is a multiple of 16, at most 576, where V lies in K's rows",
               std::to_string(std::min((c.depth + 15) / 16 * 16, 576)), out);
  }
  // Warps of a pair take whole blocks of shared memory each.
  if (const int n = *m.ov_depth; n % 128 != 0 || n > 512) {
    break_rule(c, name_of(c), {c.ov_depth ? "/ov_depth" : "/depth"},
               "ov_depth is 128, 256, 384 or 512 where V lies in K's rows",
               std::to_string(std::clamp((n + 127) / 128 * 128, 128, 512)), out);
  }
  return check.passed();
}

int smem_bytes(const WidePlan& p, int stages) {
  return p.BM * p.depth * 2 + stages * p.stage_bytes() + 16;
}

/// The instruction, and rows and keys of a tile.
bool choose_tile(WidePlan& p, Config& c, const Refusals& refuse) {
  const char* const name = name_of(c);
  const std::array<int, 3> shape{KVMmaOp::MMA_M, KVMmaOp::MMA_N, KVMmaOp::MMA_K};
  if (c.mma_shape.value_or(shape) != shape)
    refuse("V10", {"/mma_shape"}, "the instruction is m16n8k16", "[16, 8, 16]");
  c.mma_shape = shape;
  if (!c.BM) c.BM = c.num_threads ? *c.num_threads / 4 : WideLimits::kRows;
  if (*c.BM != 16 && *c.BM != 32 && *c.BM != 64) {
    refuse(name, {"/BM", "/num_threads"}, "16 packed rows for each of 1, 2 or 4 pairs of warps",
           "16, 32, 64");
    return false;
  }
  if (c.num_threads.value_or(4 * *c.BM) != 4 * *c.BM)
    refuse(name, {"/num_threads", "/BM"}, "64 threads for 16 rows of BM", std::to_string(4 * *c.BM));
  c.num_threads = 4 * *c.BM;
  if (!c.BN) c.BN = WideLimits::kKeys;
  if (*c.BN != 16 && *c.BN != 32) {
    refuse("V3", {"/BN"}, "BN is 16 or 32 over wide rows: beside half of O there is no room for more",
           "16, 32");
    return false;
  }
  p.BM = *c.BM, p.BN = *c.BN, p.num_threads = *c.num_threads;
  p.tile = {p.BN, p.depth, WidePlan::kBlockColumns, layout::Swizzle{3, 0, 3}};
  return true;
}

bool choose_stages(WidePlan& p, Config& c, const Refusals& refuse) {
  const int most = target_info(Target::sm_80).smem_bytes;
  const int fitting = (most - smem_bytes(p, 0)) / p.stage_bytes();
  if (!c.num_kv_stages) c.num_kv_stages = std::clamp(fitting, 2, WideLimits::kStages);
  p.num_stages = *c.num_kv_stages;
  if (p.num_stages < 2 || p.num_stages > std::min(fitting, 16)) {
    refuse("V15", {"/num_kv_stages", "/BM", "/BN", "/depth"},
           fmt::format("{} stages of {} bytes do not fit the {} of a block beside Q, or are less than 2",
                       p.num_stages, p.stage_bytes(), most),
           std::to_string(std::clamp(fitting, 2, 16)));
    return false;
  }
  p.smem_k = p.BM * p.depth * 2;
  p.smem_bytes = smem_bytes(p, p.num_stages);
  return true;
}

void set_systems(WidePlan& p, const Config& c) {
  p.set_row_systems(c, p.BN, p.half());
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), 1);
  p.copy.emplace("k", p.tile, p.num_threads);
  // One step's fragments at a time: other warps' products hide their way, and no registers are left for two.
  p.k.emplace(KVMmaOp::Shape{c.dtype, p.BN / KVMmaOp::MMA_N, 1, 1, p.BN, KVMmaOp::MMA_K, true}, p.tile);
  p.v.emplace(
      KVMmaOp::Shape{c.dtype, WidePlan::kBlockColumns / KVMmaOp::MMA_N, 1, 1, p.BN, KVMmaOp::MMA_K, false},
      p.tile);
}

}  // namespace

std::optional<WidePlan> plan_wide(Config c, Violations& out) {
  const Config user = c;
  if (!check_wide_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const auto before = out.size();
  const Refusals refuse(user, out);
  WidePlan p;
  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.results = RowResults(c);
  p.v_in_k = *c.v_from_k;
  c.schedule = name_of(c);
  if (!choose_tile(p, c, refuse) || !choose_stages(p, c, refuse)) return std::nullopt;
  set_systems(p, c);
  if (out.size() != before) return std::nullopt;
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm80
