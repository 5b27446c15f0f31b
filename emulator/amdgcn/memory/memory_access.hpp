// Steps shared by the handlers of vector memory and LDS instructions. Internal.
#pragma once

#include "emulator/amdgcn/machine/machine.hpp"
#include "emulator/amdgcn/memory/lds.hpp"

namespace kiln::emulator::amdgcn {

/// Detail of a load or store narrower than a register (Inst::sub).
enum Narrow : std::uint8_t { kPlain = 0, kSigned = 1, kLow16 = 2, kHigh16 = 4 };

/// Value of a narrow load, merged into `old` where the instruction writes only half of a register.
std::uint32_t widen_loaded(std::uint32_t value, int bytes, std::uint8_t narrow, std::uint32_t old);

/// Copies the data registers of a store (first dword: `operand`) into the operation.
void capture(Wave& w, Pending& op, int operand, int dwords, int at = 0);

/// The private memory of a lane: host bytes of the dword that holds `offset`, or null outside of the
/// allocation.
std::byte* scratch_at(Wave& w, int lane, std::uint32_t offset);

/// Records the LDS bytes that an outstanding operation touches in the wave's present epoch and reports
/// conflicts. Called when it is issued, and again after every barrier that it outlives.
void stamp_lds(Wave& w, Pending& op);

/// Lane mask of `bits` as a loop: calls f(lane) for every set bit.
template <class F>
void for_lanes(std::uint64_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace kiln::emulator::amdgcn
