// Read-modify-write operations, the same for global memory and LDS. Internal.
#pragma once

#include <cstdint>

namespace kiln::emulator::amdgcn {

enum class Atomic : std::uint8_t {
  swap,
  cmpswap,
  add,
  sub,
  rsub,
  smin,
  umin,
  smax,
  umax,
  and_,
  or_,
  xor_,
  inc,
  dec,
  mskor,
  fadd,
  fmin,
  fmax,
  fcmpswap,
  pk_add_f16,
  pk_add_bf16,
  wrap
};

/// New value of a location of `bytes` (4 or 8) bytes. `data` is the operand; `other` the second one: the
/// value to store for cmpswap (whose `data` is what is compared), or the mask's companion for mskor.
std::uint64_t apply(Atomic op, int bytes, std::uint64_t old, std::uint64_t data, std::uint64_t other);

}  // namespace kiln::emulator::amdgcn
