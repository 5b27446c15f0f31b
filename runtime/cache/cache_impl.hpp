// The look-up behind Runtime::compile: memory, then disk, then the compiler, once per key among threads and
// processes.
#pragma once

#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <set>
#include <unordered_map>

#include "runtime/cache/entry.hpp"
#include "runtime/cache/store.hpp"

namespace kiln {

using BinaryPtr = std::shared_ptr<const Binary>;

class Cache::Impl {
 public:
  explicit Impl(std::string directory);

  /// The binary of `key`, made by `compile` when nobody has it. Exceptions of `compile` reach every waiter.
  BinaryPtr get(const Hash128& key, const std::function<Binary()>& compile);
  /// Forgets one key everywhere: the driver refused what the checks let through.
  void evict(const Hash128& key);
  /// Where one-line warnings go; each cause is told once. Set before first use.
  void on_warning(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }

  Store store;
  CacheStats stats() const;

  BinaryPtr remember(const Hash128& key, Binary binary);
  void forget_memory();
  std::string publish(const Hash128& key, const Binary& binary);
  std::uint64_t prune(std::uint64_t max_bytes, std::int64_t spare_seconds);

 private:
  BinaryPtr look_in_memory(const Hash128& key);
  BinaryPtr look_on_disk(const Hash128& key);
  BinaryPtr find_or_compile(const Hash128& key, const std::function<Binary()>& compile);
  void warn_once(const std::string& text);

  // Never held while compiling, reading or writing.
  mutable std::mutex mutex_;
  struct Remembered {
    std::string key;
    BinaryPtr binary;
  };
  std::list<Remembered> recent_;  // most recent first
  std::unordered_map<std::string, std::list<Remembered>::iterator> by_key_;
  std::size_t memory_bytes_ = 0;
  std::unordered_map<std::string, std::shared_future<BinaryPtr>> in_flight_;
  std::set<std::string> warned_;
  CacheStats counters_;
  std::uint64_t writes_ = 0;
  std::function<void(const std::string&)> warn_;
};

/// $KILN_CACHE_MAX_SIZE in bytes; default 1 GiB; 0 is unlimited. Throws Error (bad_input) when it cannot be
/// read.
std::uint64_t cache_max_bytes();
/// Throws Error (bad_input) when a setting of the cache cannot be read.
void check_cache_settings();

}  // namespace kiln
