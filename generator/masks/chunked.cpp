// chunked: a row sees the keys of its own chunk of N, up to its own.
#include <fmt/format.h>

#include "generator/masks/sized.hpp"

namespace kiln {

const SizedMask& chunked_mask() {
  static const SizedMask mask{
      "chunked",
      MaskConfig::Kind::chunked,
      "chunk",
      [](const std::string& position, int size) {
        return fmt::format("max({0}, 0) / {1} * {1}", position, size);
      },
      [](std::int64_t position, std::int64_t size) {
        const std::int64_t rest = position % size;  // of a position before the first key it is negative
        return position - (rest < 0 ? rest + size : rest);
      },
      [](int /*rows*/, int size) { return size; },
  };
  return mask;
}

}  // namespace kiln
