// What is known of every register: which lanes were ever written, and (for wgmma) whether it was touched
// since the last wgmma.fence. Unknown values travel through moves and arithmetic and are reported where they
// matter, as a load of unwritten shared memory whose value is thrown away harms nobody.
#pragma once

#include <cstdint>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

struct Warp;

struct RegisterState {
  std::uint32_t known = 0;  ///< lanes written
  std::uint32_t stamp = 0;  ///< Warp::fence_epoch of the last access
};

/// Before an instruction: reports unknown operands that matter and registers that wgmma owns, and notes what
/// it writes.
void track_registers(Warp& w, const Op& op, const Program& p);
/// Before a predicated instruction: an unknown predicate may not decide about what matters.
void check_guard(Warp& w, const Op& op, const Program& p);
/// Lanes `lanes` of the register row `r` hold what nobody wrote.
void mark_unknown(Warp& w, const Op& op, Ref r, std::uint32_t lanes);
/// Lanes of `lanes` whose value in row `r` is unknown.
std::uint32_t unknown_lanes(const Warp& w, Ref r, std::uint32_t lanes);

/// Reports that `op` uses row `r`, unknown in `lanes`, where that matters.
void report_unknown(Warp& w, const Op& op, Ref r, std::uint32_t lanes);

/// wgmma reads or writes row `r`: it must not have been touched since the last wgmma.fence. `accumulator`:
/// that of a chain of wgmmas needs none.
void check_wgmma_register(Warp& w, const Op& op, Ref r, bool accumulator);
/// After a wait_group: ownership is that of the wgmmas still in flight.
void release_owned(Warp& w);

}  // namespace kiln::emulator
