// V11: swizzles that are bijective and agree on both sides. V13: key orders of P and V that match.
#include <fmt/format.h>
#include <algorithm>
#include <bit>

#include "generator/config/defaults.hpp"
#include "generator/config/rules/amd_tiles.hpp"
#include "generator/config/rules/rule_sets.hpp"
#include "generator/systems/kv_mma_op_constants.hpp"
#include "generator/targets/target.hpp"

namespace kiln::rules {
namespace {

using SwizzleMember = std::optional<SwizzleKey> Config::*;

/// The rule over one of the swizzle keys, as the key's own value or the general `swizzle`.
const std::optional<SwizzleKey>& value_of(const Config& c, SwizzleMember key) {
  return c.*key ? c.*key : c.swizzle;
}

std::string shape_problem(const XorSwizzle& s) {
  if (s.bits == 0 || s.shift >= s.bits) return "";
  return fmt::format("a swizzle needs shift ({}) of at least bits ({}), else its fields overlap", s.shift,
                     s.bits);
}

/// log2 of the elements of a 16-byte vector.
int log2_simd(const Config& c) {
  return std::bit_width(16 / static_cast<unsigned>(size_of(staged_dtype(c)))) - 1;
}

/// S1: lanes are permuted inside one 64-lane copy. What a thread stores stays together; what a lane copies is
/// no more than a fragment.
std::string copy_problem(const Config& c, const XorSwizzle& s) {
  if (s.bits == 0) return "";
  const bool staged = c.dma == "reg_staged";
  if (s.element_domain && s.base < log2_simd(c) && staged) {
    return fmt::format(
        "a copy by way of registers moves whole 16-byte vectors: an element-space swizzle needs base ({}) of "
        "at "
        "least {}",
        s.base, log2_simd(c));
  }
  const int limit = s.element_domain ? 6 + log2_simd(c) : 6;
  if (staged || s.base + s.bits <= limit) return "";
  return fmt::format("S1: base + bits ({}) must be at most {}, the lanes of one copy", s.base + s.bits,
                     limit);
}

/// S2 with block-relative indices: the source field lies inside a 32-row tile.
std::string tile_problem(const Config& c, const XorSwizzle& s, int bk_smem) {
  if (s.bits == 0) return "";
  const int simd = s.element_domain ? 1 : 16 / static_cast<int>(size_of(staged_dtype(c)));
  const int limit = static_cast<int>(std::bit_width(static_cast<unsigned>(32 * bk_smem / simd))) - 1;
  const int top = s.bits + s.base + s.shift;
  return top <= limit ? ""
                      : fmt::format("S2: bits + base + shift ({}) must be at most log2(32*bk_smem{}) = {}",
                                    top, s.element_domain ? "" : "/simd", limit);
}

std::string fragment_problem(const Config& c, const XorSwizzle& s) {
  if (s.bits == 0 || !s.element_domain || !c.mma_shape) return "";
  const int fragment = (*c.mma_shape)[1] * (*c.mma_shape)[2] / target_info(c.target).wave_size;
  const int needed = static_cast<int>(std::bit_width(static_cast<unsigned>(fragment))) - 1;
  return s.base >= needed
             ? ""
             : fmt::format("an element-space swizzle needs base ({}) of at least log2(fragment) = {}", s.base,
                           needed);
}

/// Columns of a block: streaming decode keeps V in flat rows.
std::optional<int> block_width(const Config& c, bool of_v) {
  const bool streaming = c.schedule && c.schedule->find("streaming") != std::string::npos;
  if (of_v && streaming && c.v_layout != "blocked") return c.ov_depth.value_or(c.depth);
  return c.bk_smem ? c.bk_smem : c.BK;
}

template <SwizzleMember Key>
std::string v11(const Config& c) {
  const auto& key = value_of(c, Key);
  if (!key) return "";
  const XorSwizzle s = xor_swizzle(*key);
  std::string problem = shape_problem(s);
  if (problem.empty()) problem = fragment_problem(c, s);
  if (problem.empty() && is_amd(c.target)) problem = copy_problem(c, s);
  const std::optional<int> width = block_width(c, Key == &Config::swizzle_v);
  if (problem.empty() && width) problem = tile_problem(c, s, *width);
  return problem;
}

std::string v13_shape(const Config& c) {
  if (!c.v_load || !c.mma_shape) return "";
  const auto legal = v_loads_of(c);
  if (std::find(legal.begin(), legal.end(), *c.v_load) != legal.end()) return "";
  const auto& [m, n, k] = *c.mma_shape;
  return fmt::format("v_load {} does not give the key order of {}x{}x{} on {}", *c.v_load, m, n, k,
                     to_string(c.target));
}
std::string v13_p(const Config& c) {
  if (!c.v_load || !c.BN || !c.WN || *c.BN != *c.WN) return "";
  if (*c.v_load != "block") return "";
  return fmt::format(
      "with BN == WN P stays in registers in accumulator order, which v_load {} does not match", *c.v_load);
}

}  // namespace

std::vector<Rule> swizzle_rules() {
  return {
      {"V11", "9.2 V11, 1.1", kBuffered, {"/swizzle_k", "/bk_smem"}, v11<&Config::swizzle_k>},
      {"V11", "9.2 V11, 1.1", kBuffered, {"/swizzle_v", "/bk_smem"}, v11<&Config::swizzle_v>},
      {"V13", "9.2 V13, 1.2", kAmd, {"/v_load", "/mma_shape", "/dtype"}, v13_shape},
      {"V13", "9.2 V13, 11.5", kAmd, {"/v_load", "/BN", "/WN"}, v13_p},
  };
}

}  // namespace kiln::rules
