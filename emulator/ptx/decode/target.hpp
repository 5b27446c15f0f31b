// What a module's target has.
#pragma once

#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

/// Whether the target came before sm_100; false for text without one.
inline bool before_sm100(const Decoder& d) {
  const std::string& target = d.module.target;
  return target.starts_with("sm_") && !target.starts_with("sm_1");
}

}  // namespace kiln::emulator::ptx
