// The part of inspect that AMD kernels have: the cycle model of the compiled main loop.
#pragma once

#include <kiln/source.hpp>

#include "cli/output.hpp"

namespace kiln::cli {

/// Compiles `source` through the cache and models its main loop. {"problem": why} where that needs a compiler
/// or a disassembler that is missing, or the kernel has no such loop.
Json amd_cycle_model(const KernelSource& source);
void print_amd_cycle_model(const Json& model);

}  // namespace kiln::cli
