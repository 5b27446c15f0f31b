#include "runtime/cache/cache_impl.hpp"

#include <algorithm>
#include <ctime>

#include "runtime/support/settings.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxRememberedBytes = std::size_t{256} << 20;
constexpr std::int64_t kYoungSeconds =
    600;  // automatic pruning spares what another process may be about to read
constexpr std::uint64_t kWritesBetweenPrunes = 64;

std::size_t memory_of(const Binary& binary) {
  return binary.image.size() + binary.ptx.size() + binary.log.size() + sizeof(Binary);
}

int lock_timeout_ms() {
  return static_cast<int>(integer_setting("KILN_LOCK_TIMEOUT", 30, 0, 3600)) * 1000;
}

}  // namespace

std::uint64_t cache_max_bytes() {
  return size_setting("KILN_CACHE_MAX_SIZE", std::uint64_t{1} << 30);
}

void check_cache_settings() {
  cache_max_bytes();
  lock_timeout_ms();
}

Cache::Impl::Impl(std::string directory) : store(directory) {
  check_cache_settings();  // at once, not at the first kernel that is written
  if (directory.empty()) return;
  store.sweep();
}

void Cache::Impl::warn_once(const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    if (!warned_.insert(text).second) return;
  }
  if (warn_) warn_(text);
}

BinaryPtr Cache::Impl::remember(const Hash128& key, Binary binary) {
  binary.cache = CacheState::memory;
  auto shared = std::make_shared<const Binary>(std::move(binary));
  std::lock_guard lock(mutex_);
  const std::string hex = key.hex();
  if (const auto found = by_key_.find(hex); found != by_key_.end()) return found->second->binary;
  recent_.push_front({hex, shared});
  by_key_[hex] = recent_.begin();
  memory_bytes_ += memory_of(*shared);
  while (memory_bytes_ > kMaxRememberedBytes && recent_.size() > 1) {
    memory_bytes_ -= memory_of(*recent_.back().binary);
    by_key_.erase(recent_.back().key);
    recent_.pop_back();
  }
  return shared;
}

void Cache::Impl::forget_memory() {
  std::lock_guard lock(mutex_);
  recent_.clear();
  by_key_.clear();
  memory_bytes_ = 0;
}

void Cache::Impl::evict(const Hash128& key) {
  store.quarantine(key);
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key.hex());
  if (found == by_key_.end()) return;
  memory_bytes_ -= memory_of(*found->second->binary);
  recent_.erase(found->second);
  by_key_.erase(found);
}

BinaryPtr Cache::Impl::look_in_memory(const Hash128& key) {
  const auto found = by_key_.find(key.hex());
  if (found == by_key_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->binary;
}

BinaryPtr Cache::Impl::look_on_disk(const Hash128& key) {
  const auto bytes = store.read(key);
  if (!bytes) {
    // Most often there is none. Of a folder that is not believed, publish() will tell.
    const std::string doubt = store.suspicion(key);
    if (!doubt.empty() && store.remove(key)) warn_once(doubt + "; it was removed and is made anew");
    return nullptr;
  }
  Parsed<Binary> parsed = read_entry(*bytes);
  if (parsed.value && parsed.value->key != key.hex()) parsed = {{}, "another kernel's entry under this name"};
  if (parsed.value) return std::make_shared<const Binary>(std::move(*parsed.value));
  store.quarantine(key);
  {
    std::lock_guard lock(mutex_);
    ++counters_.corrupt;
  }
  warn_once("cache entry " + key.hex() + " is " + parsed.problem + "; moved to quarantine/ and made anew");
  return nullptr;
}

std::string Cache::Impl::publish(const Hash128& key, const Binary& binary) {
  std::string problem = store.write(key, write_entry(binary, key, std::time(nullptr)));
  std::uint64_t writes = 0;
  {
    std::lock_guard lock(mutex_);
    problem.empty() ? ++writes_ : ++counters_.write_failures;
    writes = writes_;
  }
  const std::uint64_t limit = cache_max_bytes();
  if (problem.empty() && writes % kWritesBetweenPrunes == 1 && limit > 0) prune(limit, kYoungSeconds);
  return problem;
}

std::uint64_t Cache::Impl::prune(std::uint64_t max_bytes, std::int64_t spare_seconds) {
  std::vector<Store::File> files = store.files();
  std::uint64_t total = 0;
  for (const Store::File& file : files) total += file.bytes;
  if (total <= max_bytes) return 0;
  // A time in the future was written before the clock was set back, and says nothing: such entries go first,
  // or none would.
  const std::int64_t now = std::time(nullptr);
  for (Store::File& file : files) {
    if (file.used > now + kYoungSeconds) file.used = 0;
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  // Automatic pruning goes to 80 % of the limit, so that the next write does not prune again.
  const std::uint64_t goal = spare_seconds > 0 ? max_bytes / 5 * 4 : max_bytes;
  std::uint64_t removed = 0;
  for (const Store::File& file : files) {
    if (total <= goal || (spare_seconds > 0 && now - file.used < spare_seconds)) break;
    if (!store.remove(file.key)) continue;
    total -= std::min(total, file.bytes);
    ++removed;
  }
  return removed;
}

BinaryPtr Cache::Impl::find_or_compile(const Hash128& key, const std::function<Binary()>& compile) {
  Store::Lock lock;
  if (store.usable()) {
    if (BinaryPtr found = look_on_disk(key)) {
      std::lock_guard guard(mutex_);
      ++counters_.disk_hits;
      return found;
    }
    lock = store.lock(key, lock_timeout_ms());
    // Whoever held the lock probably made this very kernel.
    if (BinaryPtr found = look_on_disk(key)) {
      std::lock_guard guard(mutex_);
      ++counters_.disk_hits;
      return found;
    }
  } else if (!store.directory().empty()) {
    warn_once(store.problem() + "; kernels are kept in memory only");
  }
  Binary binary = compile();
  {
    std::lock_guard guard(mutex_);
    ++counters_.misses;
    ++counters_.compiles;
    counters_.lock_timeouts += lock.timed_out ? 1 : 0;
  }
  binary.key = key.hex();
  binary.cache = CacheState::miss;
  if (store.usable()) {
    // The kernel is in hand: a full or read-only disk costs the next process a compile, and this one nothing.
    if (const std::string problem = publish(key, binary); !problem.empty()) {
      warn_once(problem + "; the kernel is kept in memory only");
    }
  }
  return std::make_shared<const Binary>(std::move(binary));
}

BinaryPtr Cache::Impl::get(const Hash128& key, const std::function<Binary()>& compile) {
  std::promise<BinaryPtr> promise;
  std::shared_future<BinaryPtr> other;
  {
    std::lock_guard lock(mutex_);
    if (BinaryPtr found = look_in_memory(key)) {
      ++counters_.memory_hits;
      return found;
    }
    if (const auto flight = in_flight_.find(key.hex()); flight != in_flight_.end()) {
      other = flight->second;
      ++counters_.coalesced;
    } else {
      in_flight_.emplace(key.hex(), promise.get_future().share());
    }
  }
  if (other.valid()) return other.get();

  const auto land = [&] {
    std::lock_guard lock(mutex_);
    in_flight_.erase(key.hex());
  };
  try {
    BinaryPtr made = find_or_compile(key, compile);
    remember(key, *made);
    land();
    promise.set_value(made);
    return made;
  } catch (...) {
    land();
    promise.set_exception(std::current_exception());
    throw;
  }
}

CacheStats Cache::Impl::stats() const {
  CacheStats stats;
  {
    std::lock_guard lock(mutex_);
    stats = counters_;
  }
  stats.directory = store.usable() ? store.directory() : "";
  stats.problem = store.problem();
  stats.max_bytes = cache_max_bytes();
  for (const Store::File& file : store.files()) {
    ++stats.entries;
    stats.bytes += file.bytes;
  }
  stats.quarantined = store.quarantined();
  return stats;
}

}  // namespace kiln
