// A kernel's CUDA C++ for `kiln emulate`: compiled to PTX first, as a runtime would.
#pragma once

#include <string>

namespace kiln::cli {

/// Whether a file is compiled before it is run: its name ends in .cu.
bool is_cuda_source(const std::string& path);

/// The PTX that NVRTC makes of the text of `path`, with line tables. `architecture` is "sm_80", ..., empty for sm_90a;
/// of one with instructions of its own (sm_90, sm_100, sm_103) those are taken in. Throws Error: environment without NVRTC,
/// compile when it refuses the text.
std::string ptx_of_source(const std::string& path, const std::string& text, const std::string& architecture);

}  // namespace kiln::cli
