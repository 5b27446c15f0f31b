// The key gather4 (sm_100a): when rows of pages come by their numbers, four an instruction, and what its members may say.
#pragma once

#include "generator/config/unsupported.hpp"

namespace kiln {

/// Rows come by gather4: the config says so, or pages leave boxes of fewer than four rows of a tile of `BN` keys.
bool gathers(const Config& config, int BN);

/// What a schedule's copies of K are.
struct GatherTile {
  int keys, columns;  ///< of K, those of its own tensor
  int swizzle_bytes;
};

/// Fills the members of gather4 in where rows are gathered. One refusal for each that is not what the copies are.
void resolve_gather4(Config& config, const GatherTile& tile, const Refusals& refuse);

/// Bytes that the L2 cache fetches at once for a map: what gather4 says, else `usual`.
int gather4_l2_promotion(const Config& resolved, int usual);

}  // namespace kiln
