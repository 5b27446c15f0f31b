// What every device's grids share.
#pragma once

namespace kiln {

inline constexpr int kMostOfGridAxis = 65535;  ///< blocks of a grid's y and of its z

}  // namespace kiln
