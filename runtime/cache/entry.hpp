// One cache file: a fixed header, JSON metadata, zstd payload. Self-describing, checked by hash,
// little-endian.
//   0  magic "kilnkern"   8 u32 format   12 u32 zero      16 key (16 bytes)       32 u64 metadata bytes
//  40  u64 packed bytes  48 u64 raw bytes  56 u64 zero    64 XXH3-128 of everything else (16 bytes)   80
//  metadata...
// The raw payload is image, PTX and log one after the other; their lengths stand in the metadata.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <kiln/cache.hpp>

#include "runtime/support/hash.hpp"

namespace kiln {

inline constexpr std::size_t kEntryHeaderBytes = 80;
inline constexpr std::uint32_t kEntryFormat = 1;

/// The file of a binary. `created`: seconds since the epoch.
std::string write_entry(const Binary& binary, const Hash128& key, std::int64_t created);

struct EntryInfo {
  Hash128 key;
  CacheEntryInfo info;
};

/// What a reader got: a value, or the reason why the bytes are no entry. Never throws for any input.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string problem;
};

/// Reads everything; checks the hash.
Parsed<Binary> read_entry(std::string_view bytes);
/// Reads header and metadata of a file of which `bytes` is a beginning; checks no hash.
Parsed<EntryInfo> read_entry_info(std::string_view bytes);
/// Bytes of the whole entry that starts with this header, for entries in a row; nothing when it is no header.
std::optional<std::uint64_t> entry_bytes(std::string_view header);
/// Writes the right hash into an entry whose other bytes were changed (for tests of what lies behind the
/// hash).
void reseal_entry(std::string& bytes);

}  // namespace kiln
