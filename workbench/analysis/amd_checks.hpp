// What every AMD kernel of kiln is held to in its compiled program, beside what the compiler layer checks at
// each compile (spills, scratch, expected instructions): the plan's registers and the form of memory accesses
// in the main loop.
#pragma once

#include <string>
#include <vector>

#include <kiln/generator.hpp>

#include "workbench/analysis/amd_loop.hpp"

namespace kiln {

/// One line per broken rule; empty when all hold, and for targets that are not AMD's.
///   registers, accumulators included, within the plan's
///   LDS of the program as the plan has it
///   no scratch, no LDS or memory access of less than 4 bytes in the main loop (elements of captured tensors
///   aside)
///   on gfx950, copies to LDS of 16 bytes a lane
///   a multiple of the expected matrix instructions in the main loop: work is never half duplicated
/// Throws Error (environment) when nothing can disassemble the program.
std::vector<std::string> amd_static_checks(const Plan& plan, const Manifest& manifest, const Binary& binary);

}  // namespace kiln
