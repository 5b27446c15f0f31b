#include "runtime/cache/store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace kiln {
namespace {

constexpr const char* kVersionFolder = "v1";
constexpr std::string_view kSuffix = ".kiln";
constexpr std::size_t kMaxEntryBytes = std::size_t{1} << 29;

std::string error_text(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

/// Names in a directory, without . and ..
std::vector<std::string> names_in(const Fd& folder) {
  std::vector<std::string> names;
  if (!folder) return names;
  const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Dir dir(copy < 0 ? nullptr : fdopendir(copy));
  if (!dir) return names;
  while (const dirent* entry = readdir(dir.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  }
  return names;
}

/// mkdir -p with private modes for what it creates.
bool make_directories(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat info {};
      if (stat(path.substr(0, at).c_str(), &info) != 0) return false;
    }
  }
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

/// Code will be loaded from here: only its owner (or root) may be able to put any there.
std::string distrust(int fd, const std::string& what) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return error_text(what);
  if (info.st_uid != geteuid() && info.st_uid != 0) return what + " belongs to another user";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("{} is writable by others (mode {:o}); chmod go-w it", what, info.st_mode & 0777u);
  }
  return {};
}

std::string shard_of(const Hash128& key) {
  return key.hex().substr(0, 2);
}
std::string file_of(const Hash128& key) {
  return key.hex().substr(2) + std::string(kSuffix);
}

std::optional<Hash128> key_from(const std::string& hex) {
  Hash128 key;
  if (hex.size() != 32) return std::nullopt;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    key.bytes[i / 2] = static_cast<std::uint8_t>(key.bytes[i / 2] << 4 | digit);
  }
  return key;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// A regular file that only we (or root) can have written, or an invalid descriptor.
Fd open_entry(const Fd& folder, const std::string& name, struct stat& info) {
  if (!folder) return Fd();
  Fd fd(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Fd();
  return distrust(fd.get(), name).empty() ? std::move(fd) : Fd();
}

std::optional<std::string> read_up_to(const Fd& fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Store::Store(const std::string& directory) : directory_(directory) {
  if (directory.empty()) {
    problem_ = "no cache directory: neither KILN_CACHE_DIR, XDG_CACHE_HOME nor HOME is an absolute path";
    return;
  }
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  if (directory_[0] != '/') {
    problem_ = "cache directory " + directory_ + " is not an absolute path";
    return;
  }
  if (!make_directories(directory_)) {
    problem_ = error_text("cannot create cache directory " + directory_);
    return;
  }
  root_ = Fd(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root_) {
    problem_ = error_text("cannot open cache directory " + directory_ + " (a symbolic link is not followed)");
    return;
  }
  problem_ = distrust(root_.get(), "cache directory " + directory_);
  if (problem_.empty()) {
    if (const Fd entries = folder(kVersionFolder, true)) {
      problem_ = distrust(entries.get(), "cache directory " + directory_ + "/" + kVersionFolder);
    }  // else read-only and empty, which still is a cache that misses
  }
  if (!problem_.empty()) root_ = Fd();
}

/// The folder `name` of `parent`, or an invalid descriptor with errno. One that others may write is as good
/// as none.
Fd Store::below(const Fd& parent, const std::string& name, bool create) const {
  if (!parent) return Fd();
  if (create) mkdirat(parent.get(), name.c_str(), 0700);
  Fd fd(openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd || distrust(fd.get(), name).empty()) return fd;
  errno = EPERM;
  return Fd();
}

Fd Store::folder(const char* name, bool create) const {
  if (root_ && distrust(root_.get(), "").empty()) return below(root_, name, create);
  errno = EPERM;
  return Fd();
}

Fd Store::shard(const Hash128& key, bool create) const {
  return below(folder(kVersionFolder, create), shard_of(key), create);
}

std::string Store::suspicion(const Hash128& key) const {
  const Fd entries(openat(root_.get(), kVersionFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const auto doubt = [&](const Fd& parent, const std::string& name, const std::string& path) {
    const Fd fd(parent ? openat(parent.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                       : -1);
    return fd ? distrust(fd.get(), path) : std::string();
  };
  if (std::string problem = distrust(root_.get(), "cache directory " + directory_); !problem.empty())
    return problem;
  if (!entries) return {};
  if (std::string problem = distrust(entries.get(), "cache folder " + directory_ + "/" + kVersionFolder);
      !problem.empty())
    return problem;
  const std::string prefix = shard_of(key), path = directory_ + "/" + kVersionFolder + "/" + prefix;
  if (std::string problem = doubt(entries, prefix, "cache folder " + path); !problem.empty()) return problem;
  const Fd shard(
      entries ? openat(entries.get(), prefix.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1);
  return doubt(shard, file_of(key), "cache entry " + path + "/" + file_of(key));
}

std::optional<std::string> Store::read(const Hash128& key) {
  struct stat info {};
  const Fd fd = open_entry(shard(key, false), file_of(key), info);
  if (!fd) return std::nullopt;
  if (static_cast<std::size_t>(info.st_size) > kMaxEntryBytes) return std::string();  // damaged by size alone
  auto bytes = read_up_to(fd, static_cast<std::size_t>(info.st_size));
  // Either way: a clock that was set back leaves times in the future.
  if (std::abs(std::time(nullptr) - info.st_atim.tv_sec) > 3600) {
    // Our own record of use: mount options make the kernel's useless. The modification time stays the birth
    // time.
    const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    futimens(fd.get(), times);
  }
  return bytes;
}

std::optional<std::string> Store::read_head(const Hash128& key, std::size_t limit) const {
  struct stat info {};
  const Fd fd = open_entry(shard(key, false), file_of(key), info);
  if (!fd) return std::nullopt;
  return read_up_to(fd, std::min(limit, static_cast<std::size_t>(info.st_size)));
}

std::string Store::write(const Hash128& key, std::string_view bytes) {
  const Fd temporary = folder("tmp", true);
  const Fd target = shard(key, true);
  if (!temporary || !target) {
    std::string problem = error_text("cannot write in " + directory_);
    const std::string doubt = suspicion(key);
    return doubt.empty() ? problem : doubt;
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string name = fmt::format("{}.{}.{:x}", getpid(), serial_++, now);
  Fd fd(openat(temporary.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return error_text("cannot write in " + directory_);
  flock(fd.get(), LOCK_SH | LOCK_NB);  // for sweep(): somebody is writing it
  const bool written = write_all(fd.get(), bytes) && fsync(fd.get()) == 0 && ::close(fd.release()) == 0;
  if (!written || renameat(temporary.get(), name.c_str(), target.get(), file_of(key).c_str()) != 0) {
    const std::string problem = error_text("cannot write in " + directory_);
    unlinkat(temporary.get(), name.c_str(), 0);
    return problem;
  }
  fsync(target.get());
  return {};
}

void Store::quarantine(const Hash128& key) {
  const Fd from = shard(key, false);
  const Fd to = folder("quarantine", true);
  if (!from) return;
  if (!to || renameat(from.get(), file_of(key).c_str(), to.get(), (key.hex() + ".bad").c_str()) != 0) {
    unlinkat(from.get(), file_of(key).c_str(), 0);
  }
}

bool Store::remove(const Hash128& key) {
  const Fd from = shard(key, false);
  return from && unlinkat(from.get(), file_of(key).c_str(), 0) == 0;
}

std::string Store::keep_failed(const std::string& name, std::string_view text) {
  const Fd to = folder("failed", true);
  if (!to) return {};
  Fd fd(openat(to.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd || !write_all(fd.get(), text)) return {};
  return directory_ + "/failed/" + name;
}

std::vector<Store::File> Store::files() const {
  std::vector<File> files;
  const Fd entries = folder(kVersionFolder, false);
  for (const std::string& prefix : names_in(entries)) {
    const Fd shard_folder(
        openat(entries.get(), prefix.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    for (const std::string& name : names_in(shard_folder)) {
      if (!name.ends_with(kSuffix)) continue;
      const auto key = key_from(prefix + name.substr(0, name.size() - kSuffix.size()));
      struct stat info {};
      if (!key || fstatat(shard_folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      files.push_back({*key, static_cast<std::uint64_t>(info.st_blocks) * 512,
                       std::max<std::int64_t>(info.st_atim.tv_sec, info.st_mtim.tv_sec)});
    }
  }
  return files;
}

std::uint64_t Store::quarantined() const {
  return names_in(folder("quarantine", false)).size();
}

void Store::sweep() {
  const Fd temporary = folder("tmp", false);
  for (const std::string& name : names_in(temporary)) {
    // By the clock, which may have been set, and by the lock that a living writer holds, where there are
    // locks.
    struct stat info {};
    const Fd fd(openat(temporary.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd || fstat(fd.get(), &info) != 0 || std::abs(std::time(nullptr) - info.st_mtim.tv_sec) <= 3600)
      continue;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      unlinkat(temporary.get(), name.c_str(), 0);
  }
}

Store::Lock Store::lock(const Hash128& key, int timeout_ms) const {
  Lock lock;
  const Fd locks = folder("locks", true);
  if (!locks) return lock;
  Fd fd(openat(locks.get(), shard_of(key).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return lock;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (auto pause = std::chrono::milliseconds(1);;
       pause = std::min(pause * 2, std::chrono::milliseconds(20))) {
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      lock.acquired = true;
      lock.fd_ = std::move(fd);
      return lock;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return lock;  // a file system without locks
    if (Clock::now() >= deadline) {
      lock.timed_out = true;
      return lock;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace kiln
