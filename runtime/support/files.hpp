// Whole files in and out, with errors of one line. Output appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// A file, pipe or device that is read from its beginning to its end. Throws Error (bad_input): missing, a
/// folder, unreadable.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// Of a regular file.
  std::optional<std::uint64_t> size() const { return size_; }
  /// The next bytes, fewer only at the end.
  std::size_t read(std::span<std::byte> bytes);

 private:
  std::filesystem::path path_;
  int file_ = -1;
  std::optional<std::uint64_t> size_;
};

/// All bytes of a file. Throws Error: what FileReader throws, bad_input when it is longer than `limit` bytes,
/// environment when memory does not hold it.
std::vector<std::byte> read_bytes(const std::filesystem::path& path,
                                  std::size_t limit = std::size_t{1} << 40);
std::string read_text(const std::filesystem::path& path, std::size_t limit = std::size_t{64} << 20);

/// Writes to a temporary file in the same folder, then renames; a link stays and what it points at is
/// replaced; devices and pipes (anything in /dev) are written to. Throws Error (bad_input) and leaves nothing
/// behind.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace kiln
