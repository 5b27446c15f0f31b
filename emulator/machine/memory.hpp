// Global memory: one reserved arena of host pages with a parallel arena of shadow bytes, so that an access is
// checked by comparing shadow bytes. Untouched pages of both cost nothing.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include <kiln/emulator/emulator.hpp>
#include "emulator/machine/textures.hpp"

namespace kiln::emulator {

/// Generic address windows. Global addresses are their own generic addresses. Where the host has room at kGlobalBase,
/// the first memory of a process has its pages there: then they are addresses of the host, too.
inline constexpr std::uint64_t kGlobalBase = 0x6800'0000'0000;
inline constexpr std::uint64_t kSharedWindow = 0x7000'0000'0000;
inline constexpr std::uint64_t kLocalWindow = 0x7100'0000'0000;
inline constexpr std::uint64_t kParamWindow = 0x7200'0000'0000;
inline constexpr std::uint64_t kWindowBytes = 0x0000'ffff'ffff;

/// Shadow byte of every byte of memory.
enum Shadow : std::uint8_t {
  kUnallocated = 0,
  kAllocated = 1,
  kWrittenBit = 2,
  kWritten = 3,
  kMbarrier = 7  ///< shared memory only: written, and an mbarrier lies here
};
/// What unwritten memory reads as: a NaN in f64, f32, f16 and bf16.
inline constexpr std::uint8_t kPoison = 0xff;

struct GlobalMemory::Impl {
  struct Allocation {
    std::size_t bytes = 0;
    std::string name;
    bool freed = false;
  };
  explicit Impl(std::size_t capacity);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// True if [address, address + bytes) lies in the arena (not: is allocated).
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t at = address - kGlobalBase;
    return at < capacity && bytes <= capacity - at;
  }
  std::uint8_t* at(std::uint64_t address) const { return data + (address - kGlobalBase); }
  std::uint8_t* shadow_at(std::uint64_t address) const { return shadow + (address - kGlobalBase); }
  /// "12 bytes past the end of 'k' (4096 bytes)" and the like.
  std::string describe(std::uint64_t address) const;
  void check(std::uint64_t address, std::size_t bytes, const char* what) const;

  std::uint8_t* data = nullptr;
  std::uint8_t* shadow = nullptr;
  std::size_t capacity = 0;
  std::size_t next = 0, live_bytes = 0, live = 0;
  std::map<std::uint64_t, Allocation> allocations;
  std::map<const void*, std::map<std::string, std::uint64_t>> module_variables;
  TextureTable images;
  /// Addresses of multicast objects, which are no memory themselves, and the memory bound there.
  struct Bound {
    std::size_t bytes = 0;
    std::uint64_t memory = 0;
  };
  std::map<std::uint64_t, Bound> multicast;
  /// The address of what is bound at [address, address + bytes) of a multicast object; 0: nothing is.
  std::uint64_t bound_at(std::uint64_t address, std::size_t bytes) const;
  mutable std::mutex mutex;
};

}  // namespace kiln::emulator
