#include "generator/layout/fragment.hpp"

#include "generator/layout/layout.hpp"

namespace kiln::layout {

bool FragmentMap::is_bijection() const {
  if (lanes * elements != rows * cols) return false;
  std::vector<int> offsets;
  offsets.reserve(static_cast<std::size_t>(rows * cols));
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      const Coord c = at(lane, e);
      if (c.row < 0 || c.row >= rows || c.col < 0 || c.col >= cols) return false;
      offsets.push_back(c.row * cols + c.col);
    }
  }
  return is_permutation(offsets);
}

std::optional<Slot> FragmentMap::slot(int row, int col) const {
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      if (at(lane, e) == Coord{row, col}) return Slot{lane, e};
    }
  }
  return std::nullopt;
}

}  // namespace kiln::layout
