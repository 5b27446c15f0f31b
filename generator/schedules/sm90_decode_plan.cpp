#include "generator/schedules/sm90_decode_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/meaning.hpp"

namespace kiln::sm90 {
namespace {

constexpr int kSmemPerSm = 233472, kSmemPerBlock = 232448;  // bytes; 1024 of each block are the system's
constexpr const char* kName = "sm90_decode";

bool check_meaning(const Config& c, Violations& out) {
  const Config m = with_shared_defaults(c);
  const MeaningCheck check(c, m, kName, out);
  check.keys({"BK", "swizzle", "num_kv_stages"});
  check.takes_16_bit();
  check.takes_kv_of_dtype_or_bytes();
  const auto& quantization = m.operand->quantization;
  check.takes(!quantization || quantization->granularity != Quantization::Granularity::per_block,
              "/operand/quantization/granularity", "takes scales per tensor, head and token",
              "per_tensor, per_head, per_token");
  check.takes_stream_k();
  check.takes_simple_masks();
  check.takes_plain_rows();
  check.takes_positive_scale();
  for (const auto& [pointer, value] : {std::pair{"/depth", c.depth}, std::pair{"/ov_depth", *m.ov_depth}}) {
    if (value % 16 != 0 || value < 16 || value > 512) {
      break_rule(c, kName, {pointer}, "depth is a multiple of 16 between 16 and 512",
                 std::to_string(std::clamp((value + 15) / 16 * 16, 16, 512)), out);
    }
  }
  return check.passed();
}

}  // namespace

std::optional<DecodePlan> plan_decode(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  const auto before = out.size();
  const auto refuse = [&](std::string_view id, std::initializer_list<std::string_view> keys,
                          std::string_view what,
                          const std::string& legal) { break_rule(user, id, keys, what, legal, out); };
  DecodePlan p;
  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.kv_bytes = static_cast<int>(size_of(*c.kv_dtype));
  p.narrow = p.kv_bytes == 1;
  p.math = p.narrow ? DType::fp16 : c.dtype;
  const auto span = [&](int depth) { return std::min(128, (depth * p.kv_bytes + 63) / 64 * 64); };
  p.k_span = p.narrow ? span(p.depth) : 128;
  p.v_span = p.narrow ? span(p.ov_depth) : 128;
  p.k_panels = (p.depth * p.kv_bytes + p.k_span - 1) / p.k_span;
  p.v_panels = (p.ov_depth * p.kv_bytes + p.v_span - 1) / p.v_span;
  p.causal = c.mask->kind != MaskConfig::Kind::none;
  p.window = c.mask->kind == MaskConfig::Kind::sliding_window ? c.mask->size : 0;
  p.softcap = c.score_mod->kind == ScoreMod::Kind::softcap ? c.score_mod->softcap : 0;
  p.lse = *c.lse;
  p.sink = *c.sink;
  c.schedule = kName;

  // 16 rows hold the usual groups (4 to 8 query heads a KV head, up to 16) and cost no more copies than 8.
  if (!c.BM) c.BM = c.group ? std::clamp((*c.group + 15) / 16 * 16, 16, 64) : 16;
  p.BM = *c.BM;
  if (p.BM % 16 != 0 || p.BM < 16 || p.BM > 128) {
    refuse(kName, {"/BM"}, "BM, the packed query rows, is a multiple of 16 up to 128",
           std::to_string(std::clamp((p.BM + 15) / 16 * 16, 16, 128)));
    return std::nullopt;
  }
  if (!c.BN) c.BN = p.narrow && std::max(p.depth, p.ov_depth) <= 128 ? 128 : 64;
  p.BN = *c.BN;
  if (p.BN % 64 != 0 || p.BN < 64 || p.BN > 256) {
    refuse("V3", {"/BN"}, "BN is a multiple of 64, the rows of wgmma, up to 256",
           std::to_string(std::clamp((p.BN + 63) / 64 * 64, 64, 256)));
    return std::nullopt;
  }
  const int fragments = p.narrow ? std::max(p.padded_depth() / 4, p.BN / 4 * p.out_blocks()) : 0;
  p.upright = !p.narrow && p.BM == 64 && p.padded_ov() <= 256;
  const int registers = p.upright
                            ? (p.BN / 2 + p.BN / 4 + p.padded_ov() / 2)
                            : (p.key_blocks() + p.out_blocks()) * p.s_regs() + 3 * p.columns() + fragments;
  if (registers > 200) {
    refuse(kName, {"/BM", "/BN"}, fmt::format("S' and O' take {} registers a thread, at most 200", registers),
           fmt::format("BM {}", std::max(16, p.BM / 2 / 16 * 16)));
    return std::nullopt;
  }
  if (c.operand->kind == OperandKind::paged) {
    const int page = *c.operand->page_size;
    if (page < 1 || (p.BN % page != 0 && page % p.BN != 0)) {
      int legal = p.BN;
      while (legal > 1 && legal > page) legal /= 2;
      refuse("V16", {"/operand/page_size", "/BN"},
             fmt::format("a page is a divisor or a multiple of the {} keys of a tile", p.BN),
             std::to_string(legal));
      return std::nullopt;
    }
  }
  const SwizzleMode swizzle = p.k_span == 128 ? SwizzleMode::b128 : SwizzleMode::b64;
  const auto* asked = c.swizzle ? std::get_if<SwizzleMode>(&*c.swizzle) : nullptr;
  if (c.swizzle && (!asked || *asked != swizzle)) {
    refuse("V20", {"/swizzle"}, fmt::format("rows are cut into panels of {} bytes", p.k_span),
           p.k_span == 128 ? "128B" : "64B");
  }
  c.swizzle = swizzle;
  const int bk = p.padded_depth();
  if (c.BK && *c.BK != bk)
    refuse("V8", {"/BK"}, "BK is the depth in whole panels: K is loaded at once", std::to_string(bk));
  c.BK = bk;
  const std::array<int, 3> shape{64, p.upright ? p.BN : p.BM, 16};
  if (c.mma_shape && *c.mma_shape != shape)
    refuse(kName, {"/mma_shape"},
           p.upright ? "the matrix instruction is m64 n(BN) k16, 64 query rows on the M side"
                     : "the matrix instruction is m64 n(BM) k16, keys on the M side",
           fmt::format("[64, {}, 16]", shape[1]));
  c.mma_shape = shape;
  p.producer_warps = kv_num_sub_tiles(p.BN, c.operand->page_size.value_or(0)) > 1 ? 2 : 1;
  if (c.num_threads && *c.num_threads != p.num_threads())
    refuse(kName, {"/num_threads"},
           p.producer_warps == 1 ? "one consumer warpgroup and one producer warp"
                                 : "one consumer warpgroup, a producer warp for K and one for V",
           std::to_string(p.num_threads()));
  c.num_threads = p.num_threads();

  // Two blocks to a multiprocessor where three stages fit, else as many stages as fit one block.
  p.config = c;                                                // what the sizes below ask about
  const int scale_bytes = p.scales_by_token() ? 4 * p.BN : 0;  // of one stage of K or V
  const int per_stage = p.BN * (p.k_panels * p.k_span + p.v_panels * p.v_span) + 2 * scale_bytes;
  const int p_bytes = p.upright ? 0 : 128 * p.BM * p.key_blocks();  // of P, where it goes through memory
  const int other = 128 * p.BM * (p.q_panels() + p.out_blocks()) + p_bytes + 16 * p.BM + 2048;
  const auto fitting = [&](int blocks) { return (kSmemPerSm / blocks - 1024 - other) / per_stage; };
  // Two have 168 registers a thread, which upright rows exceed.
  p.ctas_per_sm = fitting(2) >= 2 && !p.upright && registers <= 108 ? 2 : 1;
  if (!c.num_kv_stages) c.num_kv_stages = std::clamp(fitting(p.ctas_per_sm), 1, p.upright ? 4 : 8);
  p.num_kv_stages = *c.num_kv_stages;
  if (p.num_kv_stages < 1 || p.num_kv_stages > 16) {
    refuse("V25", {"/num_kv_stages"}, "num_kv_stages is 1 to 16 here", p.num_kv_stages < 1 ? "1" : "16");
    return std::nullopt;
  }

  p.k.emplace(TMAConsumerPipeline::Shape{true, p.BN, p.padded_depth(), p.num_kv_stages, 1, p.k_span,
                                         p.kv_bytes, 4, 1});
  p.v.emplace(
      TMAConsumerPipeline::Shape{false, p.BN, p.padded_ov(), p.num_kv_stages, 1, p.v_span, p.kv_bytes, 4, 1});
  p.operand.emplace(c.operand->kind, c.operand->page_size.value_or(0), p.BN);
  // Narrow caches keep the warps busy, so blocks drift apart; 16-bit ones only wait for memory and lose by
  // more parts.
  const bool dynamic = p.narrow && !c.split_kv;
  p.stream.emplace(StreamK::Shape{c.operand->kind, p.BM, p.BN, p.window, !c.split_kv, dynamic});

  p.smem_k = p.smem.add("k", p.k->ring_bytes(), 1024, "K stages");
  p.smem_v = p.smem.add("v", p.v->ring_bytes(), 1024, "V stages");
  p.smem_q = p.smem.add("q", 128 * p.BM * p.q_panels(), 1024, "Q: the packed query rows");
  if (!p.upright) p.smem_p = p.smem.add("p", p_bytes, 1024, "P, rows = query rows");
  p.smem_o = p.smem.add("o", 128 * p.BM * p.out_blocks(), 1024, "O on its way out");
  if (scale_bytes > 0)
    p.smem_scales =
        p.smem.add("scales", 2 * scale_bytes * p.num_kv_stages, 16, "scales of each key: K stages, V stages");
  if (!p.upright) p.smem_max = p.smem.add("max", 4 * 4 * p.BM, 16, "maximum of each row, of each warp");
  const int rings = p.k->ring().barrier_bytes() + p.v->ring().barrier_bytes() + p.cells.barrier_bytes();
  p.smem_barriers = p.smem.add("mbar", rings, 8, "K, V and cell rings");
  p.smem_cells = p.smem.add("cells", 8, 8, "cells handed to the consumers");
  p.smem_flag = p.smem.add("flag", 8, 8, "arrivals at the item before this block");
  if (p.smem.bytes() > kSmemPerBlock) {
    refuse("V15", {"/BN", "/num_kv_stages", "/BM"},
           fmt::format("shared memory is {} bytes, at most {}", p.smem.bytes(), kSmemPerBlock),
           fmt::format("num_kv_stages {}", std::max(1, fitting(1))));
  }
  if (out.size() != before) return std::nullopt;
  p.ctas_per_sm = std::clamp(kSmemPerSm / (p.smem.bytes() + 1024), 1, p.ctas_per_sm);

  const auto a = p.narrow ? Wgmma::A::registers : Wgmma::A::smem;
  if (p.upright) {
    p.qk.emplace(p.math, p.BN, Wgmma::A::smem, false);
    p.pv.emplace(p.math, p.padded_ov(), Wgmma::A::registers, true);
  } else {
    p.qk.emplace(p.math, p.BM, a, false);
    p.pv.emplace(p.math, p.BM, a, false, !p.narrow);
  }
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm90
