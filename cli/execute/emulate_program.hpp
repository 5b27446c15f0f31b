// `kiln emulate -- PROGRAM`: an ordinary CUDA program, with the stand-ins for NVIDIA's libraries in place of them.
#pragma once

#include <string>
#include <vector>

#include "cli/execute/program_environment.hpp"

namespace kiln::cli {

/// Runs the program and prints what was found; the exit status.
int emulate_program(const ProgramOptions& options, const std::vector<std::string>& program, bool json);

}  // namespace kiln::cli
