// PTX text -> ptx::Module.
#pragma once

#include <string_view>

#include "emulator/ptx/parse/ast.hpp"

namespace kiln::emulator::ptx {

/// Parses a whole module. Throws Error with the line for anything that is not PTX.
Module parse(std::string_view text);

}  // namespace kiln::emulator::ptx
