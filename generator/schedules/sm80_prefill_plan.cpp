#include "generator/schedules/sm80_prefill_plan.hpp"

#include <algorithm>

#include "generator/config/defaults.hpp"
#include "generator/config/unsupported.hpp"

namespace kiln::sm80 {
namespace {

constexpr int kSmemLimit = 166912;  // 163 KiB of a block on sm_80

struct Tiles {
  int BM, BN, stages;
};
/// Small blocks, several to an SM, hide each other's barriers; wide heads need the rows of more warps to pay
/// for the copies of K and V, and have room for one stage of each only. Measured on an H200 running this
/// code.
Tiles default_tiles(int depth) {
  if (depth <= 128) return {64, 64, 2};
  return {128, 64, 1};
}

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

/// What the kernel computes: anything it does not is refused here, never ignored.
bool check_meaning(const Config& c, Violations& out) {
  const auto before = out.size();
  refuse_unsupported(c, "sm80_prefill",
                     {"kv_dtype",
                      "out_dtype",
                      "ov_depth",
                      "mma_shape",
                      "BM",
                      "BN",
                      "BK",
                      "WM",
                      "WN",
                      "num_threads",
                      "swizzle",
                      "full_kv",
                      "bk_smem",
                      "smem_depth",
                      "num_smem_stages",
                      "operand",
                      "num_kv_stages",
                      "mask",
                      "score_mod",
                      "sink",
                      "lse",
                      "scale",
                      "split_kv",
                      "group",
                      "rope_depth",
                      "q_depth",
                      "head_dim_offset",
                      "cache_depth",
                      "nope_depth",
                      "v_from_k"},
                     out);
  const Config m = with_shared_defaults(c);
  const auto takes = [&](bool fits, std::string_view pointer, std::string_view what,
                         const std::string& legal) {
    if (!fits) refuse_value(c, pointer, "sm80_prefill " + std::string(what), legal, out);
  };
  const auto is_16_bit = [](DType type) { return type == DType::bf16 || type == DType::fp16; };
  const std::string depth = std::to_string(c.depth);
  takes(is_16_bit(c.dtype), "/dtype", "takes bf16 and fp16", "bf16, fp16");
  takes(*m.kv_dtype == c.dtype, "/kv_dtype", "takes kv_dtype equal to dtype",
        std::string(to_string(c.dtype)));
  takes(is_16_bit(*m.out_dtype), "/out_dtype", "writes bf16 and fp16", "bf16, fp16");
  takes(m.operand->kind == OperandKind::contiguous || m.operand->kind == OperandKind::ragged, "/operand/kind",
        "takes contiguous and ragged operands", "contiguous, ragged");
  takes(!m.operand->quantization, "/operand/quantization", "takes no scales", "leave it out");
  takes(m.mask->kind == MaskConfig::Kind::none || m.mask->kind == MaskConfig::Kind::causal, "/mask",
        "takes none and causal", "none, causal");
  takes(m.score_mod->kind == ScoreMod::Kind::none, "/score_mod", "has no score modifiers", "none");
  takes(!*m.sink, "/sink", "has no sink", "false");
  takes(!*m.v_from_k, "/v_from_k", "reads V from its own tensor", "false");
  takes(c.split_kv.value_or(1) == 1, "/split_kv", "does not split the keys", "1");
  takes(c.group.value_or(1) == 1, "/group", "packs no heads", "1");
  takes(c.full_kv.value_or(true), "/full_kv", "keeps whole rows in a stage", "true");
  takes(*m.ov_depth == c.depth, "/ov_depth", "takes ov_depth equal to depth", depth);
  takes(*m.q_depth == c.depth, "/q_depth", "takes q_depth equal to depth", depth);
  takes(*m.cache_depth == c.depth, "/cache_depth", "takes cache_depth equal to depth", depth);
  takes(*m.nope_depth == c.depth, "/nope_depth", "has no rope columns", depth);
  takes(*m.rope_depth == 0, "/rope_depth", "has no rope columns", "0");
  takes(*m.head_dim_offset == 0, "/head_dim_offset", "reads rows from their first column", "0");
  if (!(*m.scale > 0)) {
    break_rule(c, "scale", {"/scale"}, "the maximum is taken before scaling, so scale is positive", "", out);
  }
  if (c.depth % 16 != 0 || c.depth < 16 || c.depth > 256) {
    break_rule(c, "sm80_prefill", {"/depth"}, "depth is a multiple of 16 between 16 and 256",
               std::to_string(std::clamp((c.depth + 15) / 16 * 16, 16, 256)), out);
  }
  return out.size() == before;
}

/// Fills and checks tiles and threads.
bool resolve_tiles(Config& c, const Config& user, Violations& out) {
  const auto before = out.size();
  const auto fill = [](std::optional<int>& key, int value) {
    if (!key) key = value;
  };
  const auto must = [&](std::string_view key, const std::optional<int>& value, int want, const char* id,
                        const char* what) {
    if (*value != want) break_rule(user, id, {key}, what, std::to_string(want), out);
  };
  Tiles tiles = default_tiles(c.depth);
  if (!c.BK) {
    c.BK = c.depth % 64 == 0 ? 64 : c.depth % 32 == 0 ? 32 : 16;
    while (*c.BK > 16 && (c.BN.value_or(tiles.BN) % *c.BK != 0)) *c.BK /= 2;
  }
  if (!is_power_of_two(*c.BK) || *c.BK < 16 || *c.BK > 128 ||
      (c.depth % *c.BK != 0 && c.depth % *c.BK > *c.BK / 2)) {
    break_rule(user, "V8", {"/BK", "/depth"},
               "BK is a power of two from 16 to 128 that divides depth, or leaves at most BK/2", "", out);
    return false;
  }
  fill(c.BN, std::max(tiles.BN, *c.BK));
  if (*c.BN % 16 != 0 || *c.BN < 16 || *c.BN > 256) {
    break_rule(user, "V3", {"/BN"}, "BN is a multiple of 16 from 16 to 256 here",
               std::to_string(std::clamp((*c.BN + 15) / 16 * 16, 16, 256)), out);
    return false;
  }
  if (*c.BN % *c.BK != 0) break_rule(user, "V9", {"/BN", "/BK"}, "BN % BK == 0", "", out);

  fill(c.WM, 16);
  must("/WM", c.WM, 16, "sm80_prefill", "a warp owns the 16 rows of one mma.sync");
  if (!c.BM) c.BM = c.num_threads ? *c.num_threads / 2 : tiles.BM;
  if (!is_power_of_two(*c.BM) || *c.BM < 16 || *c.BM > 256) {
    break_rule(user, "sm80_prefill", {"/BM", "/num_threads"},
               "BM is 16 rows for each of 1, 2, 4, 8 or 16 warps", "16, 32, 64, 128, 256", out);
    return false;
  }
  fill(c.num_threads, 2 * *c.BM);
  if (*c.num_threads != 2 * *c.BM)
    break_rule(user, "sm80_prefill", {"/num_threads", "/BM"}, "num_threads == 32 * BM / 16", "", out);
  fill(c.WN, *c.BN);
  must("/WN", c.WN, *c.BN, "sm80_prefill", "every warp sees all keys of a tile");
  fill(c.bk_smem, *c.BK);
  must("/bk_smem", c.bk_smem, *c.BK, "V6", "bk_smem == BK");
  const int smem_depth = (c.depth + *c.BK - 1) / *c.BK * *c.BK;
  fill(c.smem_depth, smem_depth);
  must("/smem_depth", c.smem_depth, smem_depth, "V7", "smem_depth is depth rounded up to bk_smem");
  c.full_kv = true;
  const std::array<int, 3> shape{KVMmaOp::MMA_M, KVMmaOp::MMA_N, KVMmaOp::MMA_K};
  if (c.mma_shape && *c.mma_shape != shape)
    break_rule(user, "V10", {"/mma_shape"}, "the instruction is m16n8k16", "[16, 8, 16]", out);
  c.mma_shape = shape;
  return out.size() == before;
}

/// Registers that live through a tile; the rest of 255 is for fragments in flight and addresses.
int live_registers(const PrefillPlan& p, bool with_q) {
  return p.depth / 2 + p.BN / 2 + p.BN / 4 + (with_q ? p.depth / 4 : 0);
}

}  // namespace

std::optional<PrefillPlan> plan_prefill(Config c, Violations& out) {
  const Config user = c;
  if (!check_meaning(user, out)) return std::nullopt;
  c = with_shared_defaults(std::move(c));
  if (!resolve_tiles(c, user, out)) return std::nullopt;

  PrefillPlan p;
  p.depth = c.depth;
  p.BM = *c.BM, p.BN = *c.BN, p.BK = *c.BK;
  p.num_threads = *c.num_threads;
  p.num_warps = p.num_threads / 32;
  p.causal = c.mask->kind == MaskConfig::Kind::causal;
  p.ragged = c.operand->kind == OperandKind::ragged;
  p.lse = *c.lse;

  if (!c.swizzle) c.swizzle = default_swizzle(p.BK);
  const auto swizzle = vector_swizzle(*c.swizzle);
  const int block_vectors = std::min({16, p.BM, p.BN}) * p.BK / 8;
  if (!swizzle ||
      (!swizzle->is_identity() && (1 << (swizzle->bits + swizzle->base + swizzle->shift)) > block_vectors)) {
    break_rule(user, "V11", {"/swizzle", "/BK"},
               fmt::format("the swizzle permutes 16-byte vectors within 16 rows of BK columns ({} vectors)",
                           block_vectors),
               "auto", out);
    return std::nullopt;
  }

  // Stages: num_smem_stages is KVBuffer's name, num_kv_stages the pipeline's; here they are one thing.
  const int base_bytes = p.BM * *c.smem_depth * 2, stage_bytes = 2 * p.BN * *c.smem_depth * 2;
  const int fitting = (kSmemLimit - base_bytes) / stage_bytes;
  if (!c.num_kv_stages)
    c.num_kv_stages = c.num_smem_stages.value_or(std::clamp(fitting, 1, default_tiles(p.depth).stages));
  if (!c.num_smem_stages) c.num_smem_stages = c.num_kv_stages;
  p.num_stages = *c.num_kv_stages;
  if (*c.num_smem_stages != p.num_stages) {
    break_rule(user, "sm80_prefill", {"/num_kv_stages", "/num_smem_stages"},
               "num_kv_stages == num_smem_stages", std::to_string(p.num_stages), out);
    return std::nullopt;
  }
  if (p.num_stages < 1 || p.num_stages > 4) {
    break_rule(user, "sm80_prefill", {"/num_kv_stages", "/num_smem_stages"}, "1 to 4 stages", "1, 2, 3, 4",
               out);
    return std::nullopt;
  }
  p.smem_k = base_bytes;
  p.smem_v = p.smem_k + p.num_stages * stage_bytes / 2;
  p.smem_bytes = base_bytes + p.num_stages * stage_bytes;
  if (p.smem_bytes > kSmemLimit) {
    break_rule(user, "V15", {"/BM", "/BN", "/num_kv_stages", "/num_smem_stages", "/depth"},
               fmt::format("shared memory is {} bytes, at most {}", p.smem_bytes, kSmemLimit),
               fitting >= 1 ? fmt::format("num_kv_stages {}", fitting) : "a smaller BN or BM", out);
    return std::nullopt;
  }
  const int registers = std::min(255, 65536 / p.num_threads / 8 * 8);
  if (live_registers(p, false) > registers - 56) {
    break_rule(
        user, "V32", {"/BN", "/BM", "/num_threads", "/depth"},
        fmt::format("O, S and P take {} registers a thread of {}", live_registers(p, false), registers),
        "a smaller BN", out);
    return std::nullopt;
  }
  p.q_in_registers = live_registers(p, true) <= registers - 80;

  p.q.emplace(QTile::Shape{p.BM, p.depth, p.BK, p.num_threads, *swizzle});
  KVBuffer::Shape kv{true,    c.dtype,    p.BN,          *c.WN,        p.BK,
                     p.depth, *c.bk_smem, p.num_threads, p.num_stages, *swizzle};
  p.k.emplace(kv);
  kv.transpose = false;
  p.v.emplace(kv);
  OnlineSoftmax::Shape softmax;
  softmax.score_regs = p.BN / 2;
  softmax.output_regs = p.depth / 2;
  softmax.fp16 = c.dtype == DType::fp16;
  p.softmax.emplace(softmax);
  p.mask.emplace(p.BN / 2, p.causal);
  if (!c.schedule) c.schedule = "sm80_prefill";
  p.config = std::move(c);
  return p;
}

}  // namespace kiln::sm80
