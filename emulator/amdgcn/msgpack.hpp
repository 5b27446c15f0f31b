// MessagePack, as far as AMDGPU metadata notes use it: a small tree of maps, arrays, strings and integers.
// Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kiln::emulator::amdgcn {

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

}  // namespace kiln::emulator::amdgcn
