// Names of NVIDIA architectures on the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kiln::cli {

/// 90 of "sm_90", "sm_90a" and "sm_100f"; 0 where the name is none of these.
int architecture_number(std::string_view name);

/// "--arch: no 'sm_77'; did you mean 'sm_75'? there are sm_75, sm_80, ...", of numbers in ascending order. The nearest is
/// by the digits in the name; without digits nothing is near.
std::string no_architecture(const std::string& name, std::span<const int> known);

}  // namespace kiln::cli
