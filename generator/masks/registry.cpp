// Every mask with one length. A new one is one line here.
#include <algorithm>
#include <array>

#include "generator/masks/sized.hpp"

namespace kiln {

std::span<const SizedMask> sized_masks() {
  static const std::array masks{
      sliding_window_mask(),
      chunked_mask(),
  };
  return masks;
}

const SizedMask* sized_mask(MaskConfig::Kind kind) {
  const auto all = sized_masks();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SizedMask& m) { return m.kind == kind; });
  return found == all.end() ? nullptr : &*found;
}

const SizedMask* sized_mask(std::string_view name) {
  const auto all = sized_masks();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SizedMask& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace kiln
