// What the DS instructions are told apart by (Inst::sub beside the atomics). Internal.
#pragma once

#include "emulator/amdgcn/load/isa.hpp"

namespace kiln::emulator::amdgcn {

enum class LdsOp : std::uint8_t { none = 0x80, pair, pair64, tr_b16, tr_b8, tr_b4, tr_b6 };

/// Two locations per lane: ds_read2, ds_write2 and their st64 forms.
inline bool is_lds_pair(const Inst& in) {
  return (in.cls == Class::lds_read || in.cls == Class::lds_write) &&
         (in.sub == static_cast<std::uint8_t>(LdsOp::pair) ||
          in.sub == static_cast<std::uint8_t>(LdsOp::pair64));
}
inline bool is_transposed(const Inst& in) {
  return in.cls == Class::lds_read && in.sub >= static_cast<std::uint8_t>(LdsOp::tr_b16);
}

}  // namespace kiln::emulator::amdgcn
