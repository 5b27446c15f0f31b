// The control flow of a compiled AMD kernel, as far as finding its main loop takes. Compilers move blocks out
// of line and rotate loops, so loops are found in the graph of blocks and not by the distance of branches.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>

namespace kiln {

/// One iteration of a loop: the way through it with the most matrix instructions, of equals the one with the
/// most copies, loads and exponentials (lanes without a row skip theirs), then the shortest.
/// What is skipped on that way (masks at the edge, tiles that a wave does not see) is not part of it.
struct AmdLoop {
  std::vector<std::size_t> path;  ///< indices of instructions, in the order of execution
  int mfma = 0;
};

/// The innermost loop with the most matrix instructions. Nothing when no loop has any.
std::optional<AmdLoop> main_loop(const std::vector<emulator::amdgcn::InstructionView>& code);

}  // namespace kiln
