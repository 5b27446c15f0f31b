// Atomic writes: temporary name in the same folder, write, rename.
#include "runtime/support/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <kiln/error.hpp>

#include "runtime/support/memory.hpp"
#include "runtime/support/unfinished.hpp"

namespace kiln {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  throw Error(ErrorCode::bad_input, what + " '" + path.string() + "': " + std::strerror(errno));
}

struct Descriptor {
  int value;
  explicit Descriptor(int fd) : value(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

/// False, with errno, when something could not be written.
bool write_all(int file, std::span<const std::byte> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

// The folder a file goes to, "." when the path names none.
std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& path) : path_(path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value < 0) fail("cannot read", path);
  struct stat info {};
  if (::fstat(file.value, &info) != 0) fail("cannot read", path);
  if (S_ISDIR(info.st_mode)) {
    throw Error(ErrorCode::bad_input,
                "cannot read '" + path.string() + "': it is a folder, a file is wanted");
  }
  if (S_ISREG(info.st_mode)) size_ = static_cast<std::uint64_t>(info.st_size);
  file_ = std::exchange(file.value, -1);
}

FileReader::~FileReader() {
  if (file_ >= 0) ::close(file_);
}

std::size_t FileReader::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file_, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read", path_);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path, std::size_t limit) {
  FileReader file(path);
  const std::string what = "reading '" + path.string() + "'";
  std::vector<std::byte> bytes;
  const auto room = [&](std::size_t size) {
    require_memory(size, what);
    bytes.reserve(size);
  };
  if (file.size()) room(std::min<std::uint64_t>(limit, *file.size()));
  // Pipes have no size, and files of /proc the wrong one: read until the end, whatever it is.
  std::array<std::byte, 1 << 16> chunk;
  while (const std::size_t got = file.read(chunk)) {
    if (bytes.size() + got > limit) {
      throw Error(ErrorCode::bad_input,
                  "cannot read '" + path.string() + "': longer than " + std::to_string(limit) + " bytes");
    }
    if (bytes.size() + got > bytes.capacity()) room(2 * bytes.capacity() + chunk.size());
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return bytes;
}

std::string read_text(const std::filesystem::path& path, std::size_t limit) {
  const std::vector<std::byte> bytes = read_bytes(path, limit);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_atomically(const std::filesystem::path& name, std::span<const std::byte> bytes) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(name, ignored);
  if (std::filesystem::is_directory(status))
    throw Error(ErrorCode::bad_input, "cannot write '" + name.string() + "': it is a folder");
  const bool stream = name.string().starts_with("/dev/") || name.string().starts_with("/proc/");
  if (std::filesystem::exists(status) && (stream || !std::filesystem::is_regular_file(status))) {
    // Renaming would put a file in the place of the device, or of what standard output goes to.
    // Opened anew, a file that standard output goes to would be written from its start.
    const Descriptor device(name == "/dev/stdout"
                                ? ::dup(STDOUT_FILENO)
                                : ::open(name.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
    if (device.value < 0 || !write_all(device.value, bytes)) fail("cannot write", name);
    return;
  }
  std::filesystem::path path = name;
  if (std::filesystem::is_symlink(name, ignored)) path = std::filesystem::weakly_canonical(name, ignored);
  // Renaming asks for the folder's permission alone; a file that was made read-only shall stay as it is, for
  // root too.
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) {
    if ((old.st_mode & 0222u) == 0) errno = EACCES;
    if ((old.st_mode & 0222u) == 0 || ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
      fail("cannot write", path);
  }
  std::string temporary = (folder_of(path) / ("." + path.filename().string() + ".XXXXXX")).string();
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.value < 0) fail("cannot write", path);
  const Unfinished remembered(Unfinished::Kind::file, temporary);
  const auto abandon = [&] {
    const int cause = errno;
    ::unlink(temporary.c_str());
    errno = cause;
    fail("cannot write", path);
  };
  if (!write_all(file.value, bytes)) abandon();
  // mkostemp makes files private; outputs get what a plain open would have given them.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.value, 0666 & ~mask) != 0) abandon();
  if (::rename(temporary.c_str(), path.c_str()) != 0) abandon();
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace kiln
