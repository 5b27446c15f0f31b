// Small tensors on the emulated device of a test program.
#pragma once

#include <cstdint>
#include <kiln/kiln.hpp>
#include <span>
#include <vector>

#include "tests/emulated_options.hpp"

namespace kiln::test {

inline DeviceBuffer upload(std::span<const std::byte> bytes) {
  DeviceBuffer buffer = emulated().allocate(bytes.size());
  buffer.write(bytes);
  return buffer;
}
inline DeviceBuffer ints(const std::vector<std::int32_t>& values) {
  return upload(std::as_bytes(std::span(values)));
}

}  // namespace kiln::test
