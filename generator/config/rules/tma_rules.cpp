// Rules of tensor copies, pipelines and tensor memory: V18 V19 V20 V24 V25 V26 V27 V30. V16 and V17 refuse
// nothing: every page size has a path (8.6).
#include <fmt/format.h>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/rules/rule_sets.hpp"
#include "generator/systems/fa4_config.hpp"
#include "generator/systems/mha_operand_constants.hpp"

namespace kiln::rules {
namespace {

int page_size(const Config& c) {
  return c.operand ? c.operand->page_size.value_or(0) : 0;
}
int element_bytes(const Config& c) {
  return static_cast<int>(size_of(kv_dtype(c)));
}
int padded_qk(const Config& c) {
  return padded_depth(element_bytes(c), std::max(16, swizzle_bytes(c)), tile_columns(c));
}
/// Columns of one K chunk: BK, else the padded depth over the stages.
int chunk_columns(const Config& c) {
  return c.BK.value_or(padded_qk(c) / c.num_qk_stages.value_or(1));
}
int granularity(const Config& c) {
  return swizzle_granularity(element_bytes(c), std::max(16, swizzle_bytes(c)));
}

std::string fold_problem(const Config& c) {
  const int gran = granularity(c), columns = chunk_columns(c);
  if (columns % gran != 0 || columns / gran < 2)
    return fmt::format("a fold needs at least two chunks of {} columns in {}", gran, columns);
  if (c.depth % columns != 0)
    return fmt::format("a fold needs depth ({}) a multiple of the chunk columns ({})", c.depth, columns);
  return "";
}

std::string v18(const Config& c) {
  if (c.tma_fold != "chunk_inner") return "";
  if (swizzle_bytes(c) != 128) return "tma_fold chunk_inner needs the 128B swizzle";
  if (c.pair_cta.value_or(false)) return "tma_fold chunk_inner does not go with pair_cta";
  const int P = page_size(c);
  if (P <= 0 || P % 8 != 0)
    return fmt::format("tma_fold chunk_inner needs pages of a multiple of 8 tokens, not {}", P);
  if (c.BN && P >= *c.BN)
    return fmt::format("tma_fold chunk_inner needs pages ({}) smaller than BN ({})", P, *c.BN);
  return fold_problem(c);
}
std::string v19(const Config& c) {
  if (c.tma_fold != "chunk_outer") return "";
  const int P = page_size(c);
  if (P > 0 && c.BN && P < *c.BN)
    return fmt::format("tma_fold chunk_outer needs a tile of one page: page_size ({}) >= BN ({})", P, *c.BN);
  return fold_problem(c);
}

std::string v20_chunk(const Config& c) {
  if (!c.BK || *c.BK % granularity(c) == 0) return "";
  return fmt::format("BK ({}) must be a multiple of the swizzle span, {} elements", *c.BK, granularity(c));
}
std::string v20_box(const Config& c) {
  return c.BN && *c.BN > 256
             ? fmt::format("BN ({}) must be at most 256, the rows of a tensor-copy box", *c.BN)
             : "";
}
std::string v20_stride(const Config& c) {
  const int columns = c.cache_depth.value_or(k_columns(c)), size = element_bytes(c);
  if (columns * size % 16 != 0)
    return fmt::format("rows of {} elements are {} bytes: a tensor copy needs a multiple of 16", columns,
                       columns * size);
  return "";
}
std::string v20_value_stride(const Config& c) {
  // V's rows have the columns around those read that K's have.
  const int around = c.cache_depth.value_or(k_columns(c)) - k_columns(c);
  const int columns = c.ov_depth.value_or(c.depth) + around, size = element_bytes(c);
  if (c.v_from_k.value_or(false) || columns * size % 16 == 0) return "";
  return fmt::format("rows of {} elements are {} bytes: a tensor copy needs a multiple of 16", columns,
                     columns * size);
}
/// Whole products of Q K' or P V. Of rows that no copy could bring, v20_stride speaks.
std::string v20_products(const Config& c, int columns) {
  if (c.operation != Operation::prefill && c.operation != Operation::decode) return "";
  const int step = product_columns(is_fp8(c.dtype) && c.operation == Operation::prefill);
  if (columns % step == 0 || columns * element_bytes(c) % 16 != 0) return "";
  return fmt::format("{} columns are no whole products of {}", columns, step);
}
std::string v20_depth(const Config& c) {
  return v20_products(c, c.depth);
}
std::string v20_value_columns(const Config& c) {
  return c.ov_depth ? v20_products(c, *c.ov_depth) : "";
}
std::string v20_swizzle(const Config& c) {
  if (!c.swizzle || !std::holds_alternative<XorSwizzle>(*c.swizzle)) return "";
  return "tensor copies have the swizzles none, 32B, 64B and 128B only";
}

/// FA4's numbers for the config, or nothing where it does not apply.
std::optional<FA4Config> fa4(const Config& c) {
  const bool applies = c.operation == Operation::prefill && c.BM && !has_decode_tiles(c);
  if (!applies || is_fp8(c.dtype) != is_fp8(kv_dtype(c))) return std::nullopt;
  FA4Params p;
  p.dtype = c.dtype;
  p.pair_cta = c.pair_cta.value_or(false);
  p.BM = p.pair_cta ? 128 : *c.BM;  // BM counts the rows of both blocks of a pair, a tile each
  p.qk_depth = c.depth;
  p.ov_depth = c.ov_depth.value_or(c.depth);
  p.nope_depth = c.nope_depth.value_or(-1);
  if (c.rope_depth.value_or(0) > 0) p.rope_dtype = c.rope && c.rope->dtype ? *c.rope->dtype : c.dtype;
  p.page_size = page_size(c);
  p.single_o = p.pair_cta || c.single_o.value_or(false);
  p.bn_cap = c.BN.value_or(c.bn_cap.value_or(0));
  return fa4_config(p);
}

std::string v24(const Config& c) {
  const int keys = c.v_from_k.value_or(false) && is_fp8(c.dtype) ? 128 : 64;
  if (c.operation == Operation::prefill && has_wide_rows(c) && !pairs_latent_rows(c) &&
      (c.BM.value_or(64) > 64 || c.BN.value_or(keys) > keys))
    return fmt::format("rows of over 256 columns have tiles of up to 64 packed rows, and of {} keys", keys);
  const auto config = fa4(c);
  if (!config) return "";
  const int BN = c.BN.value_or(config->BN), outputs = config->params.single_o ? 1 : 2;
  const int columns = 2 * BN / config->m_pack + outputs * config->padded_ov;
  if (columns > 512) {
    return fmt::format("tensor memory: 2*BN/m_pack + {}*padded ov_depth = {} columns exceed 512", outputs,
                       columns);
  }
  return BN >= 64 ? "" : fmt::format("BN ({}) must be at least 64, what tensor memory leaves for it", BN);
}
/// Two stages of wide rows do not fit; where K and V have rings of their own, one of each will do.
bool has_single_slots(const Config& c) {
  if (c.target == Target::sm_90a) return c.depth > 256 && !c.v_from_k.value_or(false);
  if (pairs_latent_rows(c)) return true;
  return is_blackwell(c.target) && has_decode_tiles(c) && element_bytes(c) == 2 && is_wide_for_128_keys(c);
}
std::string v25(const Config& c) {
  const bool packed = is_blackwell(c.target) && c.operation == Operation::prefill && c.BM && *c.BM <= 64 &&
                      !c.pair_cta.value_or(false) && !has_decode_tiles(c);
  const int least = packed ? 4 : has_single_slots(c) ? 1 : 2;
  if (!c.num_kv_stages || *c.num_kv_stages >= least) return "";
  return fmt::format("num_kv_stages ({}) must be at least {}: a held V stage and a K stage in flight",
                     *c.num_kv_stages, least);
}
std::string v26_chunks(const Config& c) {
  if (!c.num_qk_stages) return "";
  const int padded = padded_qk(c), gran = granularity(c);
  if (padded % *c.num_qk_stages == 0 && padded / *c.num_qk_stages % gran == 0) return "";
  return fmt::format("num_qk_stages ({}) must cut the padded depth ({}) into multiples of {} columns",
                     *c.num_qk_stages, padded, gran);
}
std::string v26_p(const Config& c) {
  const int step = size_of(c.dtype) == 1 ? 64 : 32;
  if (!c.BN || *c.BN % step == 0) return "";
  return fmt::format("BN ({}) must be a multiple of {} so that P splits into two pieces of whole MMA steps",
                     *c.BN, step);
}
std::string v27_shape(const Config& c) {
  if (!c.pair_cta.value_or(false) || pairs_latent_rows(c)) return "";
  if (c.BM.value_or(256) != 256) return fmt::format("pair_cta wants BM 256, not {}", *c.BM);
  return c.depth > 64 && c.depth <= 256 ? ""
                                        : fmt::format("pair_cta wants 64 < depth <= 256, not {}", c.depth);
}
std::string v27_features(const Config& c) {
  if (!c.pair_cta.value_or(false) || pairs_latent_rows(c)) return "";
  if (c.single_o.value_or(false)) return "pair_cta and single_o exclude each other";
  return c.split_kv.value_or(1) > 1 ? "pair_cta does not split the keys" : "";
}

std::string v30(const Config& c) {
  const int P = page_size(c);
  if (!c.base_alignment || P <= 0 || (c.BN && P >= *c.BN) || *c.base_alignment % P == 0) return "";
  return fmt::format("base_alignment ({}) must be a multiple of page_size ({})", *c.base_alignment, P);
}

}  // namespace

std::vector<Rule> tma_rules() {
  return {
      {"V18",
       "9.2 V18, 5.7",
       kTma,
       {"/tma_fold", "/swizzle", "/operand/page_size", "/BN", "/pair_cta", "/depth", "/BK"},
       v18},
      {"V19", "9.2 V19, 5.7", kTma, {"/tma_fold", "/operand/page_size", "/BN", "/depth", "/BK"}, v19},
      {"V20", "9.2 V20", kTma, {"/BK", "/swizzle", "/dtype"}, v20_chunk},
      {"V20", "9.2 V20", kBlackwell, {"/BN"}, v20_box},
      {"V20", "9.2 V20", kTma, {"/depth", "/cache_depth", "/kv_dtype"}, v20_stride},
      {"V20", "9.2 V20", kTma, {"/ov_depth", "/cache_depth", "/kv_dtype"}, v20_value_stride},
      {"V20", "9.2 V20", kTma, {"/depth"}, v20_depth},
      {"V20", "9.2 V20", kTma, {"/ov_depth"}, v20_value_columns},
      {"V20", "1.1", kTma, {"/swizzle"}, v20_swizzle},
      {"V24", "9.2 V24, 6.3", kBlackwell, {"/BN", "/BM", "/depth", "/ov_depth", "/single_o"}, v24},
      {"V25", "9.2 V25", kTma, {"/num_kv_stages", "/BM"}, v25},
      {"V26", "9.2 V26", kTma, {"/num_qk_stages", "/depth", "/swizzle"}, v26_chunks},
      {"V26", "9.2 V26, 6.6", kBlackwell, {"/BN", "/dtype"}, v26_p},
      {"V27", "9.2 V27", kBlackwell, {"/pair_cta", "/BM", "/depth"}, v27_shape},
      {"V27", "9.2 V27", kBlackwell, {"/pair_cta", "/single_o", "/split_kv"}, v27_features},
      {"V30", "9.2 V30, 5.4", kTma, {"/base_alignment", "/operand/page_size"}, v30},
  };
}

}  // namespace kiln::rules
