// Whole files in and out, with errors of one line. Output appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// All bytes of a regular file. Throws Error (bad_input): missing, a folder, unreadable, longer than `limit`
/// bytes.
std::vector<std::byte> read_bytes(const std::filesystem::path& path,
                                  std::size_t limit = std::size_t{1} << 40);
std::string read_text(const std::filesystem::path& path, std::size_t limit = std::size_t{64} << 20);

/// Writes to a temporary file in the same folder, then renames; a link stays and what it points at is
/// replaced; devices and pipes (anything in /dev) are written to. Throws Error (bad_input) and leaves nothing
/// behind.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace kiln
