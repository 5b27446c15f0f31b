// Addresses of vector memory instructions: how each family forms them, what bounds them, what is checked when
// they are issued. Internal.
#pragma once

#include "emulator/amdgcn/machine/machine.hpp"

namespace kiln::emulator::amdgcn {

enum class Space { flat, global, scratch, buffer };

inline bool in_shared(std::uint64_t address) {
  return (address & kApertureMask) == kSharedAperture;
}
inline bool in_private(std::uint64_t address) {
  return (address & kApertureMask) == kPrivateAperture;
}

/// Addresses of a flat, global or scratch instruction whose vector address is operand `at` and whose scalar
/// base, if it has one, operand `base_at` (-1: none).
void flat_addresses(Wave& w, const Inst& in, Pending& op, Space space, int at, int base_at);
/// Addresses of a buffer instruction whose vector address is operand `at`, followed by descriptor and
/// soffset; lanes outside of the buffer are noted in `op`.
void buffer_addresses(Wave& w, const Inst& in, Pending& op, int at);
/// Checks each active lane's location, counts traffic, and decides on which counters the operation waits.
void check_access(Wave& w, const Inst& in, Pending& op, bool write);
/// Destination of a load to LDS: M0 + offset + lane * step.
void aim_at_lds(Wave& w, const Inst& in, Pending& op);

}  // namespace kiln::emulator::amdgcn
