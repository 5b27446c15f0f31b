// Fragments and swizzles of a plan, from the maps that its layout proofs are made of.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "cli/inspect/report_json.hpp"
#include "generator/config/defaults.hpp"
#include "generator/layout/mfma.hpp"
#include "generator/layout/mma_sync.hpp"
#include "generator/layout/swizzle.hpp"
#include "generator/layout/wgmma.hpp"

namespace kiln::cli {
namespace {

Json fragment(const std::string& title, const std::string& instruction, const layout::FragmentMap& map) {
  Json at = Json::array();
  for (int lane = 0; lane < map.lanes; ++lane) {
    for (int element = 0; element < map.elements; ++element) {
      const layout::Coord c = map(lane, element);
      at.push_back(c.row);
      at.push_back(c.col);
    }
  }
  return {{"title", title},     {"instruction", instruction}, {"rows", map.rows}, {"cols", map.cols},
          {"lanes", map.lanes}, {"elements", map.elements},   {"at", at}};
}

Json mma_sync_fragments() {
  constexpr const char* kName = "mma.sync.m16n8k16";
  return {fragment("A: Q, and P of the second product", kName, layout::mma_a(16)),
          fragment("B: K, and V of the second product", kName, layout::mma_b(16)),
          fragment("C and D: S, and O", kName, layout::mma_c())};
}

Json wgmma_fragments(const Config& resolved) {
  const int k = size_of(resolved.dtype) == 1 ? 32 : 16;
  const int n = resolved.mma_shape ? std::min(resolved.mma_shape->at(1), 64) : 64;
  const std::string name = fmt::format("wgmma.m64nNk{}", k);
  return {fragment("A from registers: P of the second product", name, layout::wgmma_a(k)),
          fragment(fmt::format("C and D: S, and O; the first {} columns", n), name, layout::wgmma_c(n))};
}

/// D and A of tcgen05.mma in tensor memory, 128 lanes of 32-bit columns, and what tcgen05.ld.32x32b gives a thread of four
/// warps: its lane's columns.
Json tcgen05_fragments() {
  const layout::FragmentMap d{128, 16, 128, 16, [](int lane, int e) { return layout::Coord{lane, e}; }};
  return {
      fragment(
          "D in tensor memory: S, and O; the first 16 columns. Threads of four warps by tcgen05.ld.32x32b.x16",
          "tcgen05.mma m128", d),
      fragment("A in tensor memory: P of the second product, two values a column, one K step",
               "tcgen05.mma m128k16", d)};
}

struct VLoader {
  std::string_view name;
  layout::VForm form;
};
constexpr std::array kVLoaders{VLoader{"tr32", layout::VForm::tr32}, VLoader{"tr16", layout::VForm::tr16},
                               VLoader{"tr8_32", layout::VForm::tr8_32},
                               VLoader{"tr8_16", layout::VForm::tr8_16}};

Json mfma_fragments(const Config& resolved) {
  const std::array<int, 3> s = resolved.mma_shape.value_or(std::array<int, 3>{32, 32, 8});
  const layout::MfmaShape shape{s[0], s[1], s[2]};
  const std::string name = fmt::format("MFMA {}x{}x{}", s[0], s[1], s[2]);
  const bool two_half = size_of(resolved.dtype) == 1 && shape.m * shape.k / 64 > 16;
  Json out{fragment("A: rows of K; B is the same of Q", name,
                    two_half ? layout::mfma_a_two_half(shape) : layout::mfma_a(shape)),
           fragment("C and D: S transposed, and O transposed", name, layout::mfma_c(shape))};
  for (const VLoader& loader : kVLoaders) {
    if (resolved.v_load == loader.name)
      out.push_back(fragment("V as loaded by " + *resolved.v_load + ": keys by columns", name,
                             layout::v_fragment(loader.form)));
  }
  return out;
}

Json swizzle(const std::string& operand, const std::optional<SwizzleKey>& key, int row_bytes) {
  if (!key) return nullptr;
  XorSwizzle s = xor_swizzle(*key);
  if (s.element_domain) s.base -= 3;
  const layout::Swizzle map = layout::swizzle_of(s);
  const int per_row = std::max(1, row_bytes / 16);
  constexpr int kVectors = 64;  // 1 KiB
  std::vector<int> logical(kVectors, -1);
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    if (const std::uint32_t at = map(v); at < kVectors) logical[at] = static_cast<int>(v);
  }
  Json chunks = Json::array();
  for (const int v : logical) {
    chunks.push_back(v < 0 ? -1 : v / per_row);
    chunks.push_back(v < 0 ? -1 : v % per_row);
  }
  return {{"operand", operand},        {"bits", s.bits},  {"base", s.base}, {"shift", s.shift},
          {"row_bytes", 16 * per_row}, {"chunks", chunks}};
}

}  // namespace

Json fragments_json(const Config& resolved) {
  if (is_blackwell(resolved.target)) return tcgen05_fragments();
  if (is_amd(resolved.target)) return mfma_fragments(resolved);
  return resolved.target == Target::sm_80 ? mma_sync_fragments() : wgmma_fragments(resolved);
}

Json swizzles_json(const Config& resolved) {
  const auto bytes = static_cast<int>(size_of(kv_dtype(resolved)));
  const int block = resolved.bk_smem.value_or(resolved.depth) * bytes;
  Json out = Json::array();
  const auto add = [&](Json each) {
    if (!each.is_null()) out.push_back(std::move(each));
  };
  if (resolved.swizzle) {
    // A tensor copy's rows are one swizzle span; those of cp.async a row of a block.
    const int span = swizzle_bytes(resolved);
    add(swizzle("K and V", resolved.swizzle, resolved.bk_smem || span == 0 ? block : span));
  }
  add(swizzle("K", resolved.swizzle_k, block));
  add(swizzle("V", resolved.swizzle_v, block));
  add(swizzle("P", resolved.swizzle_p, block));
  return out;
}

}  // namespace kiln::cli
