// emulate --mutate: does a program's result, or a finding, tell of each synchronisation that is taken away?
#pragma once

#include "cli/execute/emulate_session.hpp"

namespace kiln::cli {

/// Runs the launches unchanged, eagerly, lazily and at random, then every mutant of their kernels the same ways.
/// A mutant is killed by a finding, by a run that does not end, or by other bytes in an array that has a file;
/// of a floating-point array that differs between the unchanged runs, by more than 1e-3 of its norm. Prints the
/// survivors; exit status 0: none.
int emulate_mutants(const EmulateOptions& options, const LaunchFile& file, bool json);

}  // namespace kiln::cli
