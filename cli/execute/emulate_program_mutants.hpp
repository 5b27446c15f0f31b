// `kiln emulate --mutate -- PROGRAM`: does the program, or a finding, tell of each change of its kernels?
#pragma once

#include <string>
#include <vector>

#include "cli/execute/mutant_report.hpp"
#include "cli/execute/program_environment.hpp"

namespace kiln::cli {

/// Runs the program unchanged, lazily, eagerly and at random, and then once more for each mutant of the kernels that it
/// launches, the same ways. A mutant is killed by a finding or a note that the unchanged program has not, by another
/// exit status or a signal, by other lines of standard output than those that the unchanged runs agree on, and by a run
/// that does not end. Standard input is empty. Prints the survivors; exit status 0: none.
int mutate_program(const ProgramOptions& options, const MutantOptions& mutants,
                   const std::vector<std::string>& program, bool json);

}  // namespace kiln::cli
