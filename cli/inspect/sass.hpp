// SASS of a compiled kernel, where NVIDIA's disassembler is installed.
#pragma once

#include <kiln/cache.hpp>
#include <string>
#include <vector>

#include "cli/output.hpp"

namespace kiln::cli {

/// {kind, lines, source_lines} as of program_json, of a cubin; {problem} without nvdisasm. Looked for: $KILN_NVDISASM alone
/// when set; else PATH, $CUDA_HOME, the folder of NVRTC, the wheel nvidia-cuda-nvdisasm of a nearby .venv.
Json sass_json(const Binary& binary);

/// What nvdisasm prints of a cubin with these options, or why it does not.
struct SassListing {
  std::string text, problem;
};
SassListing sass_listing(const Binary& binary, const std::vector<std::string>& options);

}  // namespace kiln::cli
