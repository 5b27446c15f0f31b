// Fragment maps as values: which element of a tile each register element of each lane holds.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace kiln::layout {

struct Coord {
  int row = 0, col = 0;
  bool operator==(const Coord&) const = default;
};
/// Place of an element in registers; `element` counts packed values from the low bits of the first register.
struct Slot {
  int lane = 0, element = 0;
  bool operator==(const Slot&) const = default;
};

/// (lane, element) -> (row, col) of a rows x cols tile.
struct FragmentMap {
  int rows = 0, cols = 0;
  int lanes = 32, elements = 0;
  std::function<Coord(int lane, int element)> at;

  Coord operator()(int lane, int element) const { return at(lane, element); }
  /// Every tile element is held by exactly one (lane, element).
  bool is_bijection() const;
  /// Where (row, col) is held; nothing if nowhere.
  std::optional<Slot> slot(int row, int col) const;
};

}  // namespace kiln::layout
