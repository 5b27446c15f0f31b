// Embedded kernels back to the form that generate() gives.
#include <kiln/embedded.hpp>

namespace kiln {

KernelSource to_source(const EmbeddedKernel& kernel) {
  KernelSource source;
  source.text = kernel.source;
  source.manifest = manifest_from_json(kernel.manifest);
  // The head comment ends with the first blank line.
  const std::size_t blank = source.text.find("\n\n");
  source.head_bytes = blank == std::string::npos ? 0 : blank + 2;
  return source;
}

}  // namespace kiln
