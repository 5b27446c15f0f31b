// The cache directory: one file per kernel, published atomically, believed only after checks. All work is
// done relative to an opened directory whose owner and mode were verified, so nobody can swap it under us.
//   v1/ab/cdef....kiln   entries      tmp/   being written      locks/ab   one writer per stripe, never
//   unlinked quarantine/          damaged entries, for a look            failed/    sources that a compiler
//   refused
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <kiln/cache.hpp>

#include "runtime/support/hash.hpp"

namespace kiln {

/// A closed-on-destruction file descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

class Store {
 public:
  /// Opens or creates `directory`. On failure the store is unusable and problem() says why.
  explicit Store(const std::string& directory);

  bool usable() const { return static_cast<bool>(root_); }
  const std::string& directory() const { return directory_; }
  const std::string& problem() const { return problem_; }

  /// Bytes of an entry, unchecked; nothing when there is none. Refreshes its time of use, at most hourly.
  std::optional<std::string> read(const Hash128& key);
  /// Why an entry that is there is not read: it, or its folder, belongs to somebody else or others may write
  /// it.
  std::string suspicion(const Hash128& key) const;
  /// Publishes an entry: temporary file, fsync, rename. Returns what went wrong, or nothing.
  std::string write(const Hash128& key, std::string_view bytes);
  /// Moves a bad entry out of the way.
  void quarantine(const Hash128& key);
  bool remove(const Hash128& key);
  /// Keeps a refused source for the user; returns its path, or nothing.
  std::string keep_failed(const std::string& name, std::string_view text);

  struct File {
    Hash128 key;
    std::uint64_t bytes = 0;  ///< on disk, by blocks
    std::int64_t used = 0;
  };
  std::vector<File> files() const;
  std::uint64_t quarantined() const;
  /// First `limit` bytes of an entry.
  std::optional<std::string> read_head(const Hash128& key, std::size_t limit) const;
  /// Removes temporary files that a killed writer left, older than an hour.
  void sweep();

  /// Holds the process-wide lock of a key's stripe. `acquired` is false after `timeout_ms`, or without locks.
  class Lock {
   public:
    bool acquired = false, timed_out = false;

   private:
    friend class Store;
    Fd fd_;
  };
  Lock lock(const Hash128& key, int timeout_ms) const;

 private:
  Fd below(const Fd& parent, const std::string& name, bool create) const;
  Fd folder(const char* name, bool create) const;
  Fd shard(const Hash128& key, bool create) const;

  std::string directory_, problem_;
  Fd root_;
  mutable std::atomic<std::uint64_t> serial_{0};
};

}  // namespace kiln
