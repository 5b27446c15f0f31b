// Text that CUDA and HIP kernels share is written with CUDA's names; this gives it those of
// templates/cdna.hip.
#pragma once

#include <string>

namespace kiln {

/// `threads`: lanes of a block. Only whole words are replaced.
std::string to_cdna(std::string text, int threads);

}  // namespace kiln
