// The emulated device of a test program, and small tensors on it.
#pragma once

#include <cstdint>
#include <kiln/kiln.hpp>
#include <span>
#include <vector>

#include "tests/emulated_options.hpp"

namespace kiln::test {

inline Runtime& emulated() {
  static Runtime runtime(emulated_options());
  return runtime;
}

/// Compiles to machine code in any case.
inline Runtime& compiler() {
  static Runtime runtime([] {
    RuntimeOptions options = emulated_options();
    options.ptx_only = false;
    return options;
  }());
  return runtime;
}

inline DeviceBuffer upload(std::span<const std::byte> bytes) {
  DeviceBuffer buffer = emulated().allocate(bytes.size());
  buffer.write(bytes);
  return buffer;
}
inline DeviceBuffer ints(const std::vector<std::int32_t>& values) {
  return upload(std::as_bytes(std::span(values)));
}

}  // namespace kiln::test
