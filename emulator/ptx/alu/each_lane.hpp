// The loop of every instruction that works lane by lane.
#pragma once

#include <bit>
#include <cstdint>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator::ptx {

/// Calls `f` with each executing lane of `w`, in order.
template <class F>
void each_lane(Warp& w, F f) {
  for (std::uint32_t m = w.exec; m != 0; m &= m - 1) f(std::countr_zero(m));
}

}  // namespace kiln::emulator::ptx
