#include "generator/config/defaults.hpp"
#include "base/integers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "generator/config/rope.hpp"
#include "generator/operands/operand_form.hpp"

namespace kiln {
namespace {

/// Tiles of AMD kernels. No such GPU measured them: they follow from LDS, registers and the cycle model (bench/NOTES.md
/// 174).
struct AmdTiles {
  static constexpr int kDeepestOf32 =
      256;  ///< columns of O and Q that 32x32 instructions leave registers beside
  static constexpr int kMostWaves = 8,
                       kFewWaves = 4;  ///< of prefill; few where O takes half of the registers:
  static constexpr int kWideRows = 128, kWideStaged = 64;  ///< rows longer than that, and by way of registers
  static constexpr int kKeys = 64, kKeysOfWideRows = 32;   ///< of a prefill tile of 16 bits
  static constexpr int kKeysOfBytes = 128;                 ///< under instructions of 128 elements
  static constexpr int kDecodeKeys = 128, kFewDecodeKeys = 64, kLeastDecodeKeys = 32;
  static constexpr int kDeepestOf64Keys = 224;  ///< of 16-bit decode in 64 KiB of LDS
  static constexpr int kSharedStages = 256;     ///< depth past which K and V of decode take turns in a stage
};

template <class T, class U>
void fill(std::optional<T>& key, U value) {
  if (!key) key = T(value);
}

/// Output columns that instructions of `m` rows read together: bytes are turned four at a time, 16 bits two.
int columns_together(const Config& c, int m) {
  return m * (c.target == Target::gfx950 ? 1 : is_fp8(c.dtype) ? 4 : 2);
}

/// Waves of streaming decode by 32x32 instructions: the most, up to four, that share the columns of V in whole reads,
/// of rows that are no power of two in whole blocks of BK; 0 where none do.
int waves_of_32(const Config& c) {
  const int block = is_fp8(c.dtype) ? 64 : 32, columns = *c.ov_depth;
  const bool flat = std::has_single_bit(static_cast<unsigned>(columns));
  for (const int waves : {4, 2, 1}) {
    const int share = ceil_div(columns, waves), own = flat ? share : align_up(share, block);
    if (own % columns_together(c, 32) == 0) return waves;
  }
  return 0;
}

/// Streaming decode by tiles of 32 packed rows: as asked, or where a config names more than 16 of them, for which tiles
/// of 16 would read K and V twice, and leaves the tiles open.
bool packs_32_rows(const Config& c) {
  if (c.operation != Operation::decode || !streams_decode(c)) return false;
  if (c.BM || c.WM) return c.BM.value_or(32) == 32 && c.WM.value_or(32) == 32;
  const bool open = !c.BN && !c.WN && !c.BK && !c.num_threads && !c.v_load;
  return open && packed_rows(c, 1) > 16 && waves_of_32(c) > 0;
}

/// Matrix instruction of the reference kernels: large tiles for prefill, small ones for
/// decode of few rows and where the output would not fit the registers.
std::array<int, 3> amd_shape(const Config& c) {
  const bool prefill = c.operation == Operation::prefill && c.depth <= AmdTiles::kDeepestOf32 &&
                       *c.ov_depth <= AmdTiles::kDeepestOf32;
  const bool rows = packs_32_rows(c), wide = prefill || rows;
  const bool fp8 = is_fp8(c.dtype);
  if (c.target != Target::gfx950) {
    // Bytes of V are turned four columns at a time, so four instructions wide.
    if (fp8)
      return rows || (prefill && *c.ov_depth % 128 == 0) ? std::array{32, 32, 16} : std::array{16, 16, 32};
    return wide ? std::array{32, 32, 8} : std::array{16, 16, 16};
  }
  if (!fp8) return wide ? std::array{32, 32, 16} : std::array{16, 16, 32};
  if (!wide && (c.depth % 128 == 0 || *c.v_from_k)) return {16, 16, 128};
  if (c.operation == Operation::decode && !rows) return {16, 16, 32};
  return {32, 32, 64};
}

/// Waves along the keys of decode: four, or two where V's rows would leave a wave fewer columns than its loads
/// transpose at once.
int decode_waves(const Config& c) {
  const bool gfx950 = c.target == Target::gfx950, alias = *c.v_from_k;
  if ((*c.mma_shape)[0] == 32) return std::max(1, waves_of_32(c));
  // Without full_kv they share each block of V, in units of what a load transposes.
  if (!*c.full_kv) return std::clamp(*c.bk_smem / columns_together(c, 16), 1, 4);
  const bool odd_share = *c.ov_depth > 128 && *c.ov_depth % 128 != 0;    // 192: whole blocks for two waves
  const bool tiles = alias || *c.ov_depth != c.depth || c.depth == 192;  // cdna_decode: whole blocks of V
  if (is_fp8(c.dtype) && (!gfx950 || tiles)) return std::clamp(*c.ov_depth / 64, 1, 4);
  return alias || odd_share || (!gfx950 && *c.ov_depth < 128) ? 2 : 4;
}

/// Tiles of the reference kernels, with the smaller ones that the 64 KiB of LDS of gfx90a and gfx942 take.
/// Widest rows: O takes registers, and V LDS, as Q and K do.
int widest(const Config& c) {
  return std::max(c.depth, *c.ov_depth);
}
bool fp8_wide_k(const Config& c) {
  return is_fp8(c.dtype) && (*c.mma_shape)[2] == 128;
}

/// Strips and blocks of LDS, and the way there.
void fill_amd_blocks(Config& c) {
  const bool prefill = c.operation == Operation::prefill, gfx950 = c.target == Target::gfx950;
  const bool alias = *c.v_from_k;
  // 512 columns of K and of V do not fit 64 KiB beside each other: they pass in blocks.
  fill(c.full_kv, !prefill || gfx950 || c.depth <= 256 || alias);
  const bool blocks = !*c.full_kv;
  // gfx90a and gfx942 read V by whole rows: 128 bytes of one row fill the banks.
  const bool wide_rows =
      c.depth % 64 == 0 && c.BN.value_or(64) % 64 == 0 &&
      (gfx950 ? blocks || (alias && !prefill) : blocks || (prefill && widest(c) <= 128 && !alias));
  const int mma_k = (*c.mma_shape)[2];
  fill(c.BK, fp8_wide_k(c) ? 128 : std::max(is_fp8(c.dtype) || wide_rows ? 64 : 32, mma_k));
  const bool halves = *c.BK == 128 && c.depth % *c.BK != 0 && c.depth % 64 == 0;
  fill(c.bk_smem, halves ? 64 : *c.BK);
  // FP8 under a wider Q passes through registers, and so do pages with fewer rows than a direct copy's.
  const int page_bytes = page_rows(*c.operand) * *c.bk_smem * static_cast<int>(size_of(c.dtype));
  const bool scattered = page_bytes % 256 != 0;
  fill(c.dma, size_of(*c.kv_dtype) < size_of(c.dtype) || scattered ? "reg_staged" : "lds_direct");
}

void fill_amd_prefill_tiles(Config& c) {
  const int columns = widest(c);
  const bool staged = *c.dma == "reg_staged";
  fill(c.WM, (*c.mma_shape)[0]);
  // Two waves a SIMD hide each other's softmax where O leaves them half the registers.
  const int along_keys = c.BN && c.WN && *c.WN > 0 ? std::max(1, *c.BN / *c.WN) : 1;
  const bool few = c.target == Target::gfx90a || columns > AmdTiles::kWideRows ||
                   (staged && columns > AmdTiles::kWideStaged);
  const int waves = c.num_threads ? *c.num_threads / 64 : few ? AmdTiles::kFewWaves : AmdTiles::kMostWaves;
  fill(c.BM, std::max(1, waves / along_keys) * *c.WM);
  const bool wide = columns > AmdTiles::kWideRows && *c.full_kv && !is_fp8(c.dtype);
  const int fitting = wide ? AmdTiles::kKeysOfWideRows : AmdTiles::kKeys;
  fill(c.BN, fp8_wide_k(c) ? AmdTiles::kKeysOfBytes : std::max(c.WN.value_or(0), fitting));
  fill(c.WN, *c.BN);
}

/// Keys of a tile of AMD decode, before those that its waves ask for.
int amd_decode_keys(const Config& c) {
  const bool alias = *c.v_from_k, wide = widest(c) > 256, bytes = is_fp8(c.dtype);
  // Whole tiles of K and V side by side: streaming takes 512 columns, other wide rows do not stream.
  if (wide && !alias && *c.full_kv && !bytes && (c.depth != 512 || *c.ov_depth != 512))
    return AmdTiles::kLeastDecodeKeys;
  if (c.target != Target::gfx950) {
    const bool deep = c.depth > AmdTiles::kDeepestOf64Keys && !bytes;
    return deep ? AmdTiles::kLeastDecodeKeys : AmdTiles::kFewDecodeKeys;
  }
  const bool streams = widest(c) <= 128 || std::has_single_bit(static_cast<unsigned>(widest(c)));
  const bool few = alias || (*c.dma == "reg_staged" && !streams && !bytes);
  return few ? AmdTiles::kFewDecodeKeys : AmdTiles::kDecodeKeys;
}

void fill_amd_decode_tiles(Config& c) {
  const int mma_n = (*c.mma_shape)[1];
  fill(c.WM, (*c.mma_shape)[0]);
  // Latent rows serve many heads: two row tiles of waves share them. Four waves share the copies of wide rows by way of
  // registers.
  const bool two = *c.v_from_k || (*c.dma == "reg_staged" && widest(c) > 512);
  fill(c.BM, two ? 2 * *c.WM : *c.WM);
  const int waves = decode_waves(c), few = amd_decode_keys(c);
  const int keys = mma_n == 32 ? std::max(few, mma_n * waves) : few;
  fill(c.BN, std::max({keys, *c.BK, c.WN.value_or(0)}));
  const int share = *c.BN / waves;
  fill(c.WN, *c.BN % waves == 0 && share % mma_n == 0 ? share : *c.BN % mma_n == 0 ? mma_n : *c.BN);
}

/// Whether K and V, or K alone, have two stages each, and whether they share them.
void fill_amd_buffering(Config& c) {
  const bool prefill = c.operation == Operation::prefill, gfx950 = c.target == Target::gfx950;
  const bool alias = *c.v_from_k, blocks = !*c.full_kv;
  const bool staged = *c.dma == "reg_staged";  // tiles under way are in registers: one stage serves
  const bool tight = !gfx950 && prefill && widest(c) > 64;
  // V that lies in K's stages has as many: there is nothing between one of each and two of each.
  const bool two = !blocks && !staged && (prefill ? !tight || c.depth <= 256 : *c.BN <= 64 && gfx950);
  const bool of_both = alias || (prefill && !tight);
  fill(c.double_buffer, two && of_both && !c.double_buffer_k_only.value_or(false));
  fill(c.double_buffer_k_only, two && !of_both && !*c.double_buffer);
  fill(c.shared_kv, alias || blocks || (!prefill && c.depth > AmdTiles::kSharedStages));
}

/// Stages of LDS, and registers for the fragments of a few strips of K at a time.
void fill_amd_stages(Config& c) {
  // A ring of blocks is as deep as repeats soonest, and looks no further ahead than the next tile.
  const bool blocks = !*c.full_kv, staged = *c.dma == "reg_staged";
  const int tile_blocks = ceil_div(c.depth, *c.bk_smem) + ceil_div(*c.ov_depth, *c.bk_smem);
  const int ring = staged ? 2 : tile_blocks % 2 == 0 && tile_blocks > 2 ? 4 : tile_blocks % 3 == 0 ? 3 : 2;
  fill(c.num_smem_stages, blocks ? ring : *c.double_buffer || *c.double_buffer_k_only ? 2 : 1);
  if (c.operation == Operation::prefill && c.depth > 256)
    fill(c.reg_chunk_depth, blocks ? *c.BK : 4 * *c.BK <= 128 ? 4 * *c.BK : 2 * *c.BK);
}

void fill_amd(Config& c) {
  fill(c.mma_shape, amd_shape(c));
  fill_amd_blocks(c);
  c.operation == Operation::prefill ? fill_amd_prefill_tiles(c) : fill_amd_decode_tiles(c);
  if (*c.WM > 0 && *c.WN > 0)
    fill(c.num_threads, 64 * std::max(1, *c.BM / *c.WM) * std::max(1, *c.BN / *c.WN));
  fill(c.smem_depth, ceil_div(c.depth, *c.bk_smem) * *c.bk_smem);
  fill_amd_buffering(c);
  fill_amd_stages(c);
}

void fill_sm100(Config& c) {
  fill(c.swizzle, is_fp8(c.dtype) ? SwizzleMode::b64 : SwizzleMode::b128);
  if (pairs_latent_rows(c)) {
    fill(c.pair_cta, true), fill(c.BM, 128), fill(c.BN, 128);
    return;
  }
  if (c.operation == Operation::prefill && has_decode_tiles(c)) {
    fill(c.BM, 64);
    return;
  }
  const bool wide = *c.rope_depth == 0 && is_wide_for_two_tiles(c);
  fill(c.pair_cta, false);
  fill(c.BM, c.single_o.value_or(wide && !*c.pair_cta) ? 128 : 256);
  fill(c.single_o, *c.BM == 128 && !*c.pair_cta);
}

}  // namespace

bool has_wide_rows(const Config& c) {
  return c.depth > 256 || c.ov_depth.value_or(c.depth) > 256;
}

bool pairs_latent_rows(const Config& c) {
  if (!is_blackwell(c.target)) return false;
  if (c.schedule) return c.schedule->starts_with("sm100_latent_pair");
  if (!c.v_from_k.value_or(false)) return false;
  if (c.pair_cta) return *c.pair_cta;
  const bool as_stored =
      (size_of(c.dtype) == 2 || is_fp8(c.dtype)) && c.kv_dtype.value_or(c.dtype) == c.dtype;
  // Of up to 64 rows the second block would have none.
  const bool many = c.operation == Operation::prefill || packed_rows(c, 64) > 64;
  const bool few_tensors = !c.score_mod || c.score_mod->tensors.size() <= (is_fp8(c.dtype) ? 0u : 1u);
  return as_stored && many && few_tensors && !c.BM && !c.BN && !c.num_threads;
}

bool has_decode_tiles(const Config& c) {
  return pairs_latent_rows(c) || c.operation == Operation::decode ||
         (c.schedule ? *c.schedule == "sm100_wide_prefill" : has_wide_rows(c));
}

bool is_wide_for_128_keys(const Config& c) {
  // as many bytes as 16 bits take
  const auto [depth, ov_depth] = is_fp8(c.dtype) ? std::pair{256, 256} : std::pair{192, 128};
  return !c.v_from_k.value_or(false) && (c.depth > depth || c.ov_depth.value_or(c.depth) > ov_depth);
}

bool has_one_query_tile(const Config& c) {
  return c.BM.value_or(256) == 128 || c.pair_cta.value_or(false);
}

bool is_wide_for_two_tiles(const Config& c) {
  return std::max(c.depth, c.ov_depth.value_or(c.depth)) > 192;
}

Config with_shared_defaults(Config c) {
  const bool fp8 = is_fp8(c.dtype);
  fill(c.kv_dtype, c.dtype);
  fill(c.out_dtype, fp8 ? DType::bf16 : c.dtype);
  fill(c.ov_depth, c.depth);
  fill(c.rope_depth, c.nope_depth ? std::max(0, c.depth - *c.nope_depth) : 0);
  fill(c.nope_depth, c.depth - *c.rope_depth);
  fill(c.q_depth, c.depth);
  fill(c.head_dim_offset, 0);
  if (has_rope_tail(c))
    fill(c.rope->padded_depth, ceil_div(*c.nope_depth * static_cast<int>(size_of(*c.kv_dtype)), 16) * 16);
  if (c.rope) fill(c.rope->dtype, c.dtype);
  fill(c.cache_depth, *c.head_dim_offset + row_elements(c));
  fill(c.v_from_k, false);
  fill(c.operand, OperandConfig{});
  if (const OperandForm& form = operand_form(c.operand->kind); form.pages())
    fill(c.operand->page_size, form.fixed_page > 0 ? form.fixed_page : 128);
  fill(c.mask, MaskConfig{});
  fill(c.score_mod, ScoreMod{});
  fill(c.sink, false);
  fill(c.lse, false);
  fill(c.scale, 1.0 / std::sqrt(static_cast<double>(std::max(1, c.depth))));
  return c;
}

int packed_rows(const Config& c, int unnamed) {
  const bool counted = c.num_q_heads && c.kv_num_heads;
  const int heads = c.group.value_or(counted ? *c.num_q_heads / *c.kv_num_heads : unnamed);
  return heads * c.queries.value_or(1);
}

bool streams_decode(const Config& c) {
  if (c.schedule) return *c.schedule == "cdna_decode_streaming";
  return c.full_kv.value_or(true) && !c.rope && !c.v_from_k.value_or(false) &&
         c.ov_depth.value_or(c.depth) == c.depth &&
         (c.depth == 64 || c.depth == 128 || c.depth == 256 || c.depth == 512);
}

Config with_rule_defaults(Config c) {
  c = with_shared_defaults(std::move(c));
  if (is_amd(c.target)) fill_amd(c);
  if (is_blackwell(c.target)) fill_sm100(c);
  return c;
}

SwizzleKey swizzle_or(const Config& config, const XorSwizzle& own) {
  if (config.swizzle) return *config.swizzle;
  return own.bits == 0 ? SwizzleKey(SwizzleMode::none) : SwizzleKey(own);
}

XorSwizzle xor_swizzle(const SwizzleKey& key) {
  if (const auto* swizzle = std::get_if<XorSwizzle>(&key)) return *swizzle;
  switch (std::get<SwizzleMode>(key)) {
    case SwizzleMode::none:
      return {0, 0, 3, false};
    case SwizzleMode::b32:
      return {1, 0, 3, false};
    case SwizzleMode::b64:
      return {2, 0, 3, false};
    case SwizzleMode::b128:
      return {3, 0, 3, false};
  }
  return {};
}

int swizzle_bytes(const Config& config) {
  if (!config.swizzle) return is_blackwell(config.target) && is_fp8(config.dtype) ? 64 : 128;
  const XorSwizzle s = xor_swizzle(*config.swizzle);
  return s.bits == 0 ? 0 : 16 << s.bits;
}

}  // namespace kiln
