// The rule table in parts, one file per topic.
#pragma once

#include <array>
#include <vector>

#include "generator/config/rules.hpp"

namespace kiln::rules {

std::vector<Rule> tile_rules();      ///< warp grid, strips, matrix shapes: V1 V2 V3 V8 V9 V10 V22
std::vector<Rule> memory_rules();    ///< LDS and KVBuffer: V4 V5 V6 V7 V12 V14 V15 V21
std::vector<Rule> swizzle_rules();   ///< V11 V13
std::vector<Rule> tma_rules();       ///< V18 V19 V20 V24 V25 V26 V27 V30
std::vector<Rule> type_rules();      ///< V28 V29 V31 and consistency of types and depths
std::vector<Rule> register_rules();  ///< V32

/// Legal [M, N, K] of the config's target and type, for suggestions.
std::vector<std::array<int, 3>> matrix_shapes(const Config& config);

}  // namespace kiln::rules
