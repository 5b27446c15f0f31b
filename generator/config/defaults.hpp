// Defaults that do not depend on a schedule. A schedule's make() starts from with_shared_defaults and adds
// its tiles.
#pragma once

#include <kiln/config.hpp>

namespace kiln {

/// Fills meaning: types, depths, operand, mask, score modifier, sink, lse, scale. Set keys stay as they are.
/// Reads `target` to `depth` only; legal for configs that break rules.
Config with_shared_defaults(Config config);

/// with_shared_defaults plus the reference's tiles for targets whose tiles follow from formulas alone (AMD,
/// sm_100a), so that rules over several keys can be checked before, and without, a schedule. On sm_80 and
/// sm_90a tiles are the schedule's choice and stay unset.
Config with_rule_defaults(Config config);

/// Columns that one product of NVIDIA's tensor cores takes, of 16-bit elements or where both operands are bytes.
constexpr int product_columns(bool bytes) {
  return bytes ? 32 : 16;
}
/// Rows over 256 columns, for which the prefill schedules of NVIDIA targets have no registers or no tensor memory: the wide
/// prefill schedules'.
bool has_wide_rows(const Config& config);
/// Latent rows on Blackwell by pairs of blocks: `v_from_k` with `pair_cta`, unless another schedule is named. By default
/// those of 16 bits where more than 64 packed query rows are there to share them.
bool pairs_latent_rows(const Config& config);
/// Blackwell kernels with tiles of packed rows: decode, and prefill of rows over 256 columns.
bool has_decode_tiles(const Config& config);
/// Blackwell prefill whose blocks have one tile of 128 query rows, with one O: by `BM`, or in a pair, whose `BM` counts both.
bool has_one_query_tile(const Config& config);
/// Blackwell decode over rows of which two tiles of 128 keys do not fit beside 64 rows of Q (depth 256, 128 columns of V), or
/// whose O is in several blocks: where V has a tensor of its own, tiles have 64 keys.
bool is_wide_for_128_keys(const Config& config);
/// Rows of which two O, or two tiles of Q beside two stages of K and V, are too many columns there.
bool is_wide_for_two_tiles(const Config& config);

/// Query rows of one KV head that a config names: query tokens times query heads of a KV head, `unnamed` heads where
/// it names none.
int packed_rows(const Config& config, int unnamed);

/// A decode config on AMD whose rows pass through LDS strip by strip, by name or because nothing keeps them from it.
/// Rules, defaults and the registry of schedules ask here.
bool streams_decode(const Config& config);

/// The general `swizzle`, else `own`, of 16-byte vectors: none where that moves nothing.
SwizzleKey swizzle_or(const Config& config, const XorSwizzle& own);

/// The vector-space form of a named swizzle: 32B, 64B, 128B are (1,0,3), (2,0,3), (3,0,3) on 16-byte vectors.
XorSwizzle xor_swizzle(const SwizzleKey& key);

/// Bytes over which a named swizzle permutes (0 for none); the natural one of the target when `swizzle` is
/// unset.
int swizzle_bytes(const Config& config);

/// Element type of K and V in memory.
inline DType kv_dtype(const Config& config) {
  return config.kv_dtype.value_or(config.dtype);
}

/// K and V of 8 bits under a query of 16: bytes that are widened on their way to the products.
inline bool is_narrow(const Config& config) {
  return size_of(kv_dtype(config)) == 1 && !is_fp8(config.dtype);
}

}  // namespace kiln
