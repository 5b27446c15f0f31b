// Rules of the tiles: warp grid, strips, matrix instructions. V1 V2 V3 V8 V9 V10 V22.
#include <fmt/format.h>

#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/rules/rule_sets.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"
#include "generator/systems/mha_operand_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::rules {
namespace {

constexpr TargetSet kWarpTiled = kAmd | only(Target::sm_80);

/// "BN (96) must be a multiple of WN (64)", or empty when it is or either is unknown.
std::string not_multiple(std::string_view name, std::optional<int> value, std::string_view of,
                         std::optional<int> divisor) {
  if (!value || !divisor || *divisor <= 0 || *value % *divisor == 0) return "";
  return fmt::format("{} ({}) must be a multiple of {} ({})", name, *value, of, *divisor);
}

std::optional<int> mma(const Config& c, std::size_t axis) {
  if (!c.mma_shape) return std::nullopt;
  return (*c.mma_shape)[axis];
}

std::string v1_bn(const Config& c) {
  return not_multiple("BN", c.BN, "WN", c.WN);
}
std::string v1_bm(const Config& c) {
  return not_multiple("BM", c.BM, "WM", c.WM);
}
std::string v1_wn(const Config& c) {
  return not_multiple("WN", c.WN, "MMA_N", mma(c, 1));
}
std::string v1_wm(const Config& c) {
  return not_multiple("WM", c.WM, "MMA_M", mma(c, 0));
}

std::string v2(const Config& c) {
  if (!c.BM || !c.BN || !c.WM || !c.WN || !c.num_threads || *c.BM % *c.WM != 0 || *c.BN % *c.WN != 0)
    return "";
  const int warps = (*c.BM / *c.WM) * (*c.BN / *c.WN);
  if (*c.num_threads == 64 * warps && warps <= 16) return "";
  return fmt::format("num_threads ({}) must be 64 * (BM/WM) * (BN/WN) = {}, at most 1024", *c.num_threads,
                     64 * warps);
}

std::string v3_amd(const Config& c) {
  return c.BN && *c.BN % 32 != 0 ? fmt::format("BN ({}) must be a multiple of 32", *c.BN) : "";
}
std::string v3_sm80(const Config& c) {
  return c.BN && *c.BN % 16 != 0 ? fmt::format("BN ({}) must be a multiple of 16", *c.BN) : "";
}
std::string v3_sm90(const Config& c) {
  const int step = product_columns(is_fp8(c.dtype));
  if (!c.BN || (*c.BN % step == 0 && *c.BN <= 256)) return "";
  return fmt::format("BN ({}) must be a multiple of {} and at most 256", *c.BN, step);
}

std::string v8_power(const Config& c) {
  if (!c.BK || (*c.BK & (*c.BK - 1)) == 0) return "";
  return fmt::format("BK ({}) must be a power of two", *c.BK);
}
std::string v8_at_least(const Config& c) {
  const auto k = mma(c, 2);
  if (!c.BK || !k || *c.BK >= *k) return "";
  return fmt::format("BK ({}) must be at least MMA_K ({})", *c.BK, *k);
}
std::string v8_partial(const Config& c) {
  if (!c.BK || *c.BK <= 0) return "";
  const int rest = c.depth % *c.BK;
  if (rest <= *c.BK / 2) return "";
  return fmt::format("depth ({}) modulo BK ({}) is {}: it must be 0 or at most BK/2", c.depth, *c.BK, rest);
}
std::string v8_tma(const Config& c) {
  // Padded as K lies in shared memory.
  const int bytes = swizzle_bytes(c), size = static_cast<int>(size_of(c.kv_dtype.value_or(c.dtype)));
  if (!c.BK || bytes < 16) return "";
  const int padded = padded_depth(size, bytes, tile_columns(c));
  if (c.num_qk_stages) {
    if (*c.BK * *c.num_qk_stages == padded) return "";
    return fmt::format("BK ({}) must be padded depth / num_qk_stages = {} / {}", *c.BK, padded,
                       *c.num_qk_stages);
  }
  return padded % *c.BK == 0 ? "" : fmt::format("BK ({}) must divide the padded depth ({})", *c.BK, padded);
}

std::string v9(const Config& c) {
  return not_multiple("BN", c.BN, "BK", c.BK);
}

std::string v10_strip(const Config& c) {
  return not_multiple("BK", c.BK, "MMA_K", mma(c, 2));
}
/// K is read 16 bytes a lane, whatever one instruction takes of them: half a read has no registers.
std::string v10_read(const Config& c) {
  const std::optional<int> m = mma(c, 0);
  if (!m || *m <= 0 || !c.BK) return "";
  const int columns = 64 / *m * (16 / static_cast<int>(size_of(c.dtype)));
  if (*c.BK % std::max(columns, 1) == 0) return "";
  return fmt::format("BK ({}) must be a multiple of the {} columns that one 16-byte read of K covers", *c.BK,
                     columns);
}
std::string v10_shape(const Config& c) {
  if (!c.mma_shape || find_matrix_instruction(c.target, c.dtype, *c.mma_shape) != nullptr) return "";
  if (target_info(c.target).matrix.empty()) return "";
  const auto& [m, n, k] = *c.mma_shape;
  const bool any = !matrix_shapes(c).empty();
  // A type the target has no instruction for at all is V31's matter.
  return any ? fmt::format("{} has no matrix instruction {}x{}x{} for {}", to_string(c.target), m, n, k,
                           to_string(c.dtype))
             : "";
}
std::string v10_value(const Config& c) {
  if (!c.mma_shape || !c.BN || !c.BK) return "";
  return v_loader_problem(c.dtype, *c.mma_shape, *c.BN, *c.BK);
}

bool streaming(const Config& c) {
  return c.schedule && c.schedule->find("streaming") != std::string::npos;
}

/// The rows of a tile of streaming decode are those of one instruction.
std::string v22_rows(const Config& c) {
  const auto m = mma(c, 0);
  if (c.operation != Operation::decode || !streams_decode(c) || !m || !c.BM || !c.WM) return "";
  if (*c.BM == *m && *c.WM == *m) return "";
  if (*c.WM <= 0 || *c.BM % *c.WM != 0 || *c.WM % *m != 0) return "";  // V1
  return fmt::format(
      "streaming decode packs the {} query rows of an instruction: BM ({}) == WM ({}) == MMA_M ({})", *m,
      *c.BM, *c.WM, *m);
}
std::string v22_warps(const Config& c) {
  if (!streaming(c) || !c.num_threads || !c.BN || !c.WN || *c.WN <= 0) return "";
  if (*c.num_threads / 64 == *c.BN / *c.WN) return "";
  return fmt::format("streaming decode needs one warp per WN: num_threads/64 ({}) == BN/WN ({})",
                     *c.num_threads / 64, *c.BN / *c.WN);
}
std::string v22_strip(const Config& c) {
  if (!streaming(c) || !c.BK) return "";
  // Rows of up to 128 bytes.
  if (*c.BK != 32 && *c.BK != 64 && !(*c.BK == 128 && is_fp8(c.dtype)))
    return fmt::format("streaming decode takes BK 32 or 64, not {}", *c.BK);
  return "";  // of a row's last strip V8
}

}  // namespace

std::vector<std::array<int, 3>> matrix_shapes(const Config& config) {
  std::vector<std::array<int, 3>> out;
  for (const MatrixInstruction& i : target_info(config.target).matrix) {
    if (i.dtype != config.dtype) continue;
    // Of a family over N, the N of the tile.
    const int n = i.n_step == 0 ? i.n : config.BN.value_or(i.n_max);
    if (i.covers(i.dtype, {i.m, n, i.k})) out.push_back({i.m, n, i.k});
  }
  return out;
}

std::vector<Rule> tile_rules() {
  return {
      {"V1", "9.2 V1", kWarpTiled, {"/BN", "/WN"}, v1_bn},
      {"V1", "9.2 V1", kWarpTiled, {"/BM", "/WM"}, v1_bm},
      {"V1", "9.2 V1", kWarpTiled, {"/WN", "/mma_shape"}, v1_wn},
      {"V1", "9.2 V1", kWarpTiled, {"/WM", "/mma_shape"}, v1_wm},
      {"V2", "9.2 V2", kAmd, {"/num_threads", "/BM", "/WM", "/BN", "/WN"}, v2},
      {"V3", "9.2 V3", kAmd, {"/BN"}, v3_amd},
      {"V3", "9.2 V3", only(Target::sm_80), {"/BN"}, v3_sm80},
      {"V3", "9.2 V3", only(Target::sm_90a), {"/BN", "/dtype"}, v3_sm90},
      {"V8", "9.2 V8", kWarpTiled, {"/BK"}, v8_power},
      {"V8", "9.2 V8", kWarpTiled, {"/BK", "/mma_shape"}, v8_at_least},
      {"V8", "9.2 V8, 8.1", kWarpTiled, {"/BK", "/depth"}, v8_partial},
      {"V8", "9.2 V8, 6.2", kTma, {"/BK", "/depth", "/num_qk_stages"}, v8_tma},
      {"V9", "9.2 V9", kWarpTiled, {"/BN", "/BK"}, v9},
      {"V10", "9.2 V10", kWarpTiled, {"/BK", "/mma_shape"}, v10_strip},
      {"V10", "1.2, 4.4", kAmd, {"/BK", "/mma_shape"}, v10_read},
      {"V10", "1.2", kAllTargets, {"/mma_shape"}, v10_shape},
      {"V10", "4.4", kAmd, {"/BK", "/BN", "/mma_shape"}, v10_value},
      {"V22", "9.2 V22", kAmd, {"/BM", "/WM", "/mma_shape"}, v22_rows},
      {"V22", "9.2 V22", kAmd, {"/num_threads", "/BN", "/WN"}, v22_warps},
      {"V22", "9.2 V22", kAmd, {"/BK", "/depth"}, v22_strip},
  };
}

}  // namespace kiln::rules
