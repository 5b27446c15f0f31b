// Lengths of real requests out of serving traces: CSV with a `ContextTokens` column, or JSON lines with
// `input_length`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string_view>
#include <vector>

namespace kiln {

/// The first `requests` lengths of a trace (0: all), each cut to `max_length` (0: as they are). Reads no
/// further than it needs. Which of the two forms it is shows in the first line. Errors (bad_input) name the
/// file, line and defect.
std::vector<std::int64_t> read_trace(std::istream& in, std::string_view name, std::size_t requests,
                                     std::int64_t max_length);
std::vector<std::int64_t> read_trace(const std::filesystem::path& path, std::size_t requests,
                                     std::int64_t max_length);

}  // namespace kiln
