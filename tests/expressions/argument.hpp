// Arguments of kernels on the emulated device.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace kiln::test {

/// A parameter's bytes.
template <class T>
std::vector<std::byte> argument(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

}  // namespace kiln::test
