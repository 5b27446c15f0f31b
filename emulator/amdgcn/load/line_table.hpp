// Source lines of a code object: the rows of its DWARF line table (.debug_line, versions 3 to 5). Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::emulator::amdgcn {

struct LineRow {
  std::uint64_t address;
  std::size_t file;  ///< index into LineTable::files
  int line;
};
struct LineTable {
  std::vector<std::string> files;
  std::vector<LineRow> rows;  ///< by address; each holds up to the next one's
};

/// Decodes all units. `line_str` and `str` are .debug_line_str and .debug_str. A table that cannot be read
/// ends the decoding silently: lines are a comfort, not a condition.
LineTable read_line_table(std::span<const std::byte> debug_line, std::span<const std::byte> line_str,
                          std::span<const std::byte> str);

}  // namespace kiln::emulator::amdgcn
