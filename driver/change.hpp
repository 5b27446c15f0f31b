// A change of one module's PTX before it is loaded: what `kiln emulate --mutate -- PROGRAM` asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::driver {

/// Bytes [begin, end) of the module with that length and hash become `replacement`; other modules stay as they are.
struct Change {
  std::size_t length = 0;
  std::uint64_t hash = 0;
  std::size_t begin = 0, end = 0;
  std::string replacement;

  static std::uint64_t hash_of(std::string_view ptx);  ///< FNV-1a
  /// Changes nothing if there is no such file or it is something else.
  static Change read(const std::string& path);
  void write(const std::string& path) const;
  void apply(std::string& ptx) const;
};

}  // namespace kiln::driver
