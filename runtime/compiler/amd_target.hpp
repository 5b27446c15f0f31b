// Which compilers know which AMD target, so that none is asked for what it cannot do: HIPRTC 5.2 aborts when
// asked.
#pragma once

#include <array>
#include <string_view>

namespace kiln {

struct AmdTarget {
  std::string_view name;
  int rocm_major, rocm_minor;  ///< first ROCm release whose HIPRTC compiles it
  int llvm_major;              ///< first clang that does, with every builtin that kiln emits
};
inline constexpr std::array<AmdTarget, 3> kAmdTargets{
    {{"gfx90a", 5, 0, 17}, {"gfx942", 6, 0, 19}, {"gfx950", 7, 0, 20}}};

/// The row of a target; null for one that kiln does not know.
constexpr const AmdTarget* amd_target(std::string_view name) {
  for (const AmdTarget& target : kAmdTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

}  // namespace kiln
