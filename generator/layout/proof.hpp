// What a layout proof (level L1 of the verification ladder) says about one memory access or register map of a
// plan.
#pragma once

#include <string>

namespace kiln::layout {

struct Proof {
  std::string what;  ///< "K fragments: ldmatrix"
  bool holds =
      false;  ///< the map is a bijection and emitted addresses are where the layout puts the elements
  int bank_conflicts = 0;  ///< extra cycles of the worst warp-wide access, by the model of banks.hpp
};

}  // namespace kiln::layout
