// What is known of every register: which lanes were ever written, and (for wgmma) whether it was touched
// since the last wgmma.fence. Unknown values travel through moves and arithmetic and are reported where they
// matter, as a load of unwritten shared memory whose value is thrown away harms nobody.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

struct Warp;

struct RegisterState {
  std::uint32_t known = 0;  ///< lanes written
  static constexpr std::uint32_t kConstant = 1u << 31;
  std::uint32_t stamp = 0;  ///< Warp::fence_epoch of the last access, with kConstant if that wrote a constant
};

/// Of a 64-bit register that is a pair of values: lanes whose lower and upper half are unknown.
using HalvesUnknown = std::array<std::uint32_t, 2>;

/// Before an instruction: reports unknown operands that matter and registers that wgmma owns, and notes what
/// it writes. Needless where `Warp::clean` has all executing lanes of an op without `stamps`: those have executed it
/// with known operands, which stay known until some register becomes unknown.
void track_registers(Warp& w, const Op& op, const Program& p);
/// Before a predicated instruction: an unknown predicate may not decide about what matters.
void check_guard(Warp& w, const Op& op, const Program& p);
/// Lanes `lanes` of the register row `r` hold what nobody knows; `origin`: see origin_of.
void mark_unknown(Warp& w, std::uint32_t origin, Ref r, std::uint32_t lanes);
/// Names the instruction where an unknown value came from.
std::uint32_t origin_of(const Warp& w, const Op& op);
/// Lanes of `lanes` whose value in row `r` is unknown.
std::uint32_t unknown_lanes(const Warp& w, Ref r, std::uint32_t lanes);

/// A register that an instruction of Use::handled reads, as it was before the instruction.
struct UnknownInput {
  std::uint32_t state = 0, lanes = 0, origin = 0;
};
/// Lanes of row `r` that were unknown before the running instruction, and where some unknown operand of it
/// came from. The handler clears Warp::unknown_inputs when it has done its work.
std::uint32_t unknown_input(const Warp& w, Ref r);
std::uint32_t unknown_origin(const Warp& w);
/// The running instruction will run again for `lanes`: their operands are as unknown as before.
void restore_unknown_inputs(Warp& w, std::uint32_t lanes);

/// Reports that `op` uses row `r`, unknown in `lanes`, where that matters.
void report_unknown(Warp& w, const Op& op, Ref r, std::uint32_t lanes);

/// wgmma reads or writes row `r`: it must not have been touched since the last wgmma.fence. `accumulator`:
/// that of a chain of wgmmas needs none.
void check_wgmma_register(Warp& w, const Op& op, Ref r, bool accumulator);
/// After a wait_group: ownership is that of the wgmmas still in flight.
void release_owned(Warp& w);

}  // namespace kiln::emulator
