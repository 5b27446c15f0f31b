// What kinds of masks have in common.
#pragma once

#include <kiln/config.hpp>

namespace kiln {

/// A row's keys end (and perhaps begin) by a rule of its position.
inline bool is_bounded(const MaskConfig& mask) {
  return mask.kind != MaskConfig::Kind::none && mask.kind != MaskConfig::Kind::custom;
}

/// A window has an end or chunks, not left padding alone.
inline bool has_sides(const MaskConfig& mask) {
  constexpr int kNone = MaskConfig::kUnbounded;
  return mask.left != kNone || mask.right != kNone || mask.chunk != kNone;
}

/// Some side is known at each launch alone.
inline bool has_launch_sides(const MaskConfig& mask) {
  return mask.left == MaskConfig::kAtLaunch || mask.right == MaskConfig::kAtLaunch ||
         mask.chunk == MaskConfig::kAtLaunch;
}
inline bool is_window(const MaskConfig& mask) {
  return mask.kind == MaskConfig::Kind::sliding_window || mask.kind == MaskConfig::Kind::window;
}
/// Length of the window of keys that a row sees, where the config says it; 0: no such bound.
inline int window_keys(const MaskConfig& mask) {
  if (mask.kind == MaskConfig::Kind::sliding_window) return mask.size;
  return mask.kind == MaskConfig::Kind::window && mask.left >= 0 && mask.right >= 0
             ? mask.left + mask.right + 1
             : 0;
}

}  // namespace kiln
