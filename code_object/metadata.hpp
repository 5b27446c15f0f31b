// The metadata of a code object: MessagePack, as far as AMDGPU notes use it, as a small tree of maps, arrays,
// strings and integers. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <kiln/code_object.hpp>

namespace kiln::code_object {

struct MsgValue {
  enum class Kind : std::uint8_t { nil, integer, string, array, map };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;
  std::string string;
  std::vector<MsgValue> array;
  std::map<std::string, MsgValue> map;

  /// Member of a map; a nil value when absent.
  const MsgValue& operator[](const std::string& key) const;
};

/// Throws Error when the bytes end early, nest too deep or hold a type that metadata does not use.
MsgValue parse_msgpack(std::span<const std::byte> bytes);

/// One entry of amdhsa.kernels. Throws Error for sizes that no device has.
KernelInfo read_kernel_info(const MsgValue& entry);

}  // namespace kiln::code_object
