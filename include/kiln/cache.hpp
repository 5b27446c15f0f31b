// The kernel cache: memory and one private directory of self-describing files, content-addressed, shared by
// processes. A damaged, foreign or unreadable entry is a miss, never an error; a directory that cannot be
// trusted is not used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kiln/source.hpp>

namespace kiln {

/// Where a compiled kernel came from.
enum class CacheState { miss, memory, disk };
std::string_view to_string(CacheState state);

/// A compiled kernel with all the compiler said about it. Immutable.
struct Binary {
  std::string name;    ///< config name it was compiled under
  std::string entry;   ///< kernel symbol
  std::string target;  ///< "sm_90a", "gfx942", ...
  std::string ptx;     ///< PTX text with .loc lines into NAME.cu; empty for AMD targets
  std::string image;   ///< cubin or AMD code object: what the driver loads

  std::string log;  ///< the compiler's whole log
  std::vector<std::string>
      warnings;       ///< spills, serialised wgmma (C75xx), missing instructions: each fails a check
  int registers = 0;  ///< per thread; on AMD vector registers in all, accumulators included
  int accumulators = 0, scalar_registers = 0;  ///< AMD: AGPRs of those, and SGPRs of a wave
  int spill_bytes = 0;                         ///< spill stores + loads
  int stack_bytes = 0;
  int static_smem_bytes = 0;  ///< beside the manifest's dynamic shared memory
  double compile_ms = 0;      ///< time of the compile that made it, also when served from the cache

  std::string key;                      ///< 32 hex digits
  std::string compiler;                 ///< "nvrtc 13.0 <build id>", "clang ...", "hiprtc ..."
  CacheState cache = CacheState::miss;  ///< how this call got it
};

struct CacheEntryInfo {
  std::string key, name, entry, target, compiler, kiln_version;
  std::uint64_t bytes = 0;  ///< of the file
  double compile_ms = 0;
  std::int64_t created = 0, used = 0;  ///< seconds since the epoch; `used` is kept to the hour
};

/// Counters of this process, and the state of the directory.
struct CacheStats {
  std::string directory;  ///< empty: memory only
  std::string problem;    ///< why there is no directory, one line
  std::uint64_t entries = 0, bytes = 0, max_bytes = 0, quarantined = 0;
  std::uint64_t memory_hits = 0, disk_hits = 0, misses = 0, compiles = 0, coalesced = 0;
  std::uint64_t corrupt = 0, write_failures = 0, lock_timeouts = 0;
};

struct CacheVerifyResult {
  std::uint64_t checked = 0;
  std::vector<std::string> bad;  ///< "KEY: what is wrong"; each was moved to quarantine/
};

/// Maintenance of one cache. Thread-safe. Made by Runtime, or alone for a directory.
class Cache {
 public:
  /// `directory`: absolute; empty for memory only. Never throws for a directory it cannot use: see
  /// stats().problem.
  explicit Cache(std::string directory);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// $KILN_CACHE_DIR, $XDG_CACHE_HOME/kiln or ~/.cache/kiln; empty when there is none.
  static std::string default_directory();

  CacheStats stats() const;
  std::vector<CacheEntryInfo> list() const;  ///< most recently used first
  CacheVerifyResult verify();
  std::uint64_t clear();                         ///< returns entries removed
  std::uint64_t prune(std::uint64_t max_bytes);  ///< oldest use first; returns entries removed
  /// Writes every entry into one file (byte-identical for the same entries), or those of `keys`. Throws
  /// Error.
  std::uint64_t export_to(const std::string& path, const std::vector<std::string>& keys = {}) const;
  /// Adds every entry of such a file; returns how many were new. Throws Error (bad_input) on a damaged file.
  std::uint64_t import_from(const std::string& path);

  class Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
