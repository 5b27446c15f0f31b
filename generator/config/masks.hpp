// What kinds of masks have in common.
#pragma once

#include <kiln/config.hpp>

namespace kiln {

/// Every row sees no key past its own position, so its keys end (and perhaps begin) by a rule.
inline bool is_bounded(const MaskConfig& mask) {
  return mask.kind != MaskConfig::Kind::none && mask.kind != MaskConfig::Kind::custom;
}

}  // namespace kiln
