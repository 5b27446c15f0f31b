// Programs that nvcc compiles, for `kiln emulate -- PROGRAM`.
#pragma once

#include <string>

#include "tests/cli/command.hpp"

namespace kiln::test {

inline constexpr const char* kPtx90 = "-gencode arch=compute_90,code=compute_90";

/// The program of tests/driver/NAME.cu; empty (with a note) where there is no nvcc.
std::string compile(const std::string& name, const std::string& options = kPtx90);

}  // namespace kiln::test
