// Maintenance of a cache: listing, checking, pruning, and packs (all entries in one file, to carry
// elsewhere).
#include <kiln/cache.hpp>

#include <algorithm>
#include <cstdio>

#include <pwd.h>
#include <unistd.h>

#include <kiln/error.hpp>

#include "runtime/cache/cache_impl.hpp"
#include "runtime/support/environment.hpp"
#include "runtime/support/files.hpp"
#include "runtime/support/memory.hpp"

namespace kiln {
namespace {

// A pack: this line, then entries in the order of their keys.
constexpr std::string_view kPackMagic = "kilnpack 1\n";
constexpr std::size_t kHeadBytes = std::size_t{1} << 16;

}  // namespace

std::string_view to_string(CacheState state) {
  switch (state) {
    case CacheState::miss:
      return "miss";
    case CacheState::memory:
      return "memory";
    case CacheState::disk:
      return "disk";
  }
  return "?";
}

Cache::Cache(std::string directory) : impl_(std::make_unique<Impl>(std::move(directory))) {}
Cache::~Cache() = default;

std::string Cache::default_directory() {
  // A relative KILN_CACHE_DIR is returned as it is, to be refused with its name rather than replaced in
  // silence.
  if (std::string own = environment("KILN_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/kiln";
  std::string home = environment("HOME");
  if (!home.starts_with('/')) {
    const passwd* user = getpwuid(geteuid());
    home = user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
  }
  return home.starts_with('/') ? home + "/.cache/kiln" : std::string();
}

CacheStats Cache::stats() const {
  return impl_->stats();
}

std::vector<CacheEntryInfo> Cache::list() const {
  std::vector<CacheEntryInfo> entries;
  for (const Store::File& file : impl_->store.files()) {
    const auto head = impl_->store.read_head(file.key, kHeadBytes);
    if (!head) continue;
    const auto parsed = read_entry_info(*head);
    if (!parsed.value || !(parsed.value->key == file.key)) continue;
    entries.push_back(parsed.value->info);
    entries.back().bytes = file.bytes;
    entries.back().used = file.used;
  }
  std::sort(entries.begin(), entries.end(), [](const CacheEntryInfo& a, const CacheEntryInfo& b) {
    return a.used != b.used ? a.used > b.used : a.key < b.key;
  });
  return entries;
}

CacheVerifyResult Cache::verify() {
  CacheVerifyResult result;
  for (const Store::File& file : impl_->store.files()) {
    const auto bytes = impl_->store.read(file.key);
    if (!bytes) {
      if (std::string doubt = impl_->store.suspicion(file.key); !doubt.empty()) {
        ++result.checked;
        result.bad.push_back(file.key.hex() + ": " + doubt);
      }
      continue;
    }
    ++result.checked;
    const auto parsed = read_entry(*bytes);
    if (parsed.value && parsed.value->key == file.key.hex()) continue;
    result.bad.push_back(file.key.hex() + ": " +
                         (parsed.value ? "another kernel's entry under this name" : parsed.problem));
    impl_->store.quarantine(file.key);
  }
  std::sort(result.bad.begin(), result.bad.end());
  return result;
}

std::uint64_t Cache::clear() {
  impl_->forget_memory();
  std::uint64_t removed = 0;
  for (const Store::File& file : impl_->store.files()) removed += impl_->store.remove(file.key) ? 1 : 0;
  return removed;
}

std::uint64_t Cache::prune(std::uint64_t max_bytes) {
  return impl_->prune(max_bytes, 0);
}

std::uint64_t Cache::export_to(const std::string& path, const std::vector<std::string>& keys) const {
  std::vector<Store::File> files = impl_->store.files();
  if (!keys.empty()) {
    for (const std::string& key : keys) {
      if (std::none_of(files.begin(), files.end(), [&](const auto& file) { return file.key.hex() == key; })) {
        throw Error(ErrorCode::bad_input, "no cache entry " + key + " to export");
      }
    }
    std::erase_if(files, [&](const auto& file) {
      return std::find(keys.begin(), keys.end(), file.key.hex()) == keys.end();
    });
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.key.bytes < b.key.bytes; });
  std::string pack(kPackMagic);
  std::uint64_t written = 0;
  for (const Store::File& file : files) {
    const auto bytes = impl_->store.read(file.key);
    if (!bytes || !read_entry(*bytes).value) continue;
    pack += *bytes;
    ++written;
  }
  write_atomically(path, pack);
  return written;
}

std::uint64_t Cache::import_from(const std::string& path) {
  if (!impl_->store.usable()) throw Error(ErrorCode::environment, impl_->store.problem());
  FileReader file(path);
  const auto next = [&](std::string& bytes, std::size_t count) {
    const std::size_t had = bytes.size();
    bytes.resize(had + count);
    bytes.resize(had + file.read(std::as_writable_bytes(std::span(bytes)).subspan(had)));
    return bytes.size() - had;
  };
  std::string magic;
  next(magic, kPackMagic.size());
  if (magic != kPackMagic) throw Error(ErrorCode::bad_input, path + " is not a kiln pack");

  // All of it is checked before any of it is taken; what is no entry ends it where it stands, however long
  // the file is.
  struct Item {
    Hash128 key;
    std::string bytes;
  };
  std::vector<Item> items;
  for (;;) {
    std::string bytes;
    if (next(bytes, kEntryHeaderBytes) == 0) break;
    const std::string where = path + ", entry " + std::to_string(items.size() + 1) + ": ";
    const auto size = entry_bytes(bytes);
    if (!size) throw Error(ErrorCode::bad_input, where + "cut off or not an entry");
    require_memory(*size, "importing " + path);
    if (next(bytes, *size - kEntryHeaderBytes) != *size - kEntryHeaderBytes)
      throw Error(ErrorCode::bad_input, where + "cut off or not an entry");
    const auto info = read_entry_info(bytes);
    const auto entry = read_entry(bytes);
    if (!info.value || !entry.value) throw Error(ErrorCode::bad_input, where + entry.problem);
    items.push_back({info.value->key, std::move(bytes)});
  }
  std::uint64_t added = 0;
  for (const Item& item : items) {
    if (impl_->store.read_head(item.key, 1)) continue;
    if (const std::string problem = impl_->store.write(item.key, item.bytes); !problem.empty()) {
      throw Error(ErrorCode::environment, problem);
    }
    ++added;
  }
  return added;
}

}  // namespace kiln
