// Names of what may be the mistake behind a finding, for Mistakes.
#pragma once

#include <string>
#include <vector>

#include "emulator/machine/module.hpp"

namespace kiln::emulator {

/// What lies between the same barriers, waits and fences lacks the same one. Neither that nor PTX lines survive the
/// unrolling of a loop: there the pairs of source lines are the same, or, where the PTX has none, the instructions
/// around both parties.
std::vector<std::string> causes_of(const Module::Impl& m, const Finding& f);

}  // namespace kiln::emulator
