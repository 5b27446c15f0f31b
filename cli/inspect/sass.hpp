// SASS of a compiled kernel, where NVIDIA's disassembler is installed.
#pragma once

#include <kiln/cache.hpp>

#include "cli/output.hpp"

namespace kiln::cli {

/// {kind, lines, source_lines} as of program_json, of a cubin; {problem} without nvdisasm. Looked for: $KILN_NVDISASM alone
/// when set; else PATH, $CUDA_HOME, the folder of NVRTC, the wheel nvidia-cuda-nvdisasm of a nearby .venv.
Json sass_json(const Binary& binary);

}  // namespace kiln::cli
