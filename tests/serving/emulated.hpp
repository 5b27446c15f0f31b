// Small tensors on the emulated device of a test program.
#pragma once

#include <cstdint>
#include <kiln/kiln.hpp>
#include <span>
#include <vector>

#include "tests/emulated_options.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

namespace kiln::test {

inline DeviceBuffer upload(std::span<const std::byte> bytes) {
  DeviceBuffer buffer = emulated().allocate(bytes.size());
  buffer.write(bytes);
  return buffer;
}
inline std::vector<std::byte> download(const DeviceBuffer& buffer) {
  std::vector<std::byte> bytes(buffer.size());
  buffer.read(bytes);
  return bytes;
}
template <class T>
std::vector<T> download(const DeviceBuffer& buffer, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  buffer.read(std::as_writable_bytes(std::span(values)));
  return values;
}
inline DeviceBuffer ints(const std::vector<std::int32_t>& values) {
  return upload(std::as_bytes(std::span(values)));
}

/// Random numbers that BF16 holds.
inline std::vector<float> bf16_values(std::int64_t count, std::uint64_t stream) {
  std::vector<float> x = random_normal(static_cast<std::size_t>(count), 9, stream);
  round_to(DType::bf16, x);
  return x;
}

}  // namespace kiln::test
