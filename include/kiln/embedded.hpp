// Kernels that kiln_add_kernels() put into a program at build time.
#pragma once

#include <string_view>

#include <kiln/source.hpp>

namespace kiln {

struct EmbeddedKernel {
  std::string_view name;
  std::string_view source;    ///< emitted text
  std::string_view manifest;  ///< its manifest as JSON
  std::string_view image;     ///< cubin or code object; empty with EMIT source
};

/// The kernel as generate() gave it. Throws Error (bad_input) when the manifest is malformed.
KernelSource to_source(const EmbeddedKernel& kernel);

}  // namespace kiln
