// sliding_window: a row sees the last N keys, its own included.
#include <fmt/format.h>

#include <algorithm>

#include "generator/masks/sized.hpp"

namespace kiln {

const SizedMask& sliding_window_mask() {
  static const SizedMask mask{
      "sliding_window",
      MaskConfig::Kind::sliding_window,
      "window",
      [](const std::string& position, int size) {
        return fmt::format("max({} - {}, 0)", position, size - 1);
      },
      [](std::int64_t position, std::int64_t size) { return position - size + 1; },
      [](int rows, int size) { return std::max(size - rows + 1, 0); },
  };
  return mask;
}

}  // namespace kiln
