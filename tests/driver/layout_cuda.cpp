// Layouts of NVIDIA's headers, where they are installed.
#include <cstddef>
#include <utility>
#include <vector>

#if __has_include(<cuda.h>) && __has_include(<cuda_runtime_api.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <cuda.h>
#include <cuda_runtime_api.h>
#pragma GCC diagnostic pop
#if CUDART_VERSION >= 13000
#define KILN_HAS_CUDA
#endif
#endif

std::vector<std::pair<const char*, std::size_t>> cuda_layout();

std::vector<std::pair<const char*, std::size_t>> cuda_layout() {
  return {
#ifdef KILN_HAS_CUDA
#define SIZE(type) {#type, sizeof(type)},
#define OFFSET(type, member) {#type "::" #member, offsetof(type, member)},
#include "tests/driver/layout.inc"
#endif
  };
}
