// What code of a launch can address: global memory, the code object's image, the kernel arguments and the
// dispatch packet. Internal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/machine/memory.hpp"

namespace kiln::emulator::amdgcn {

/// Address windows of this device. Flat addresses in the two apertures are LDS offsets and private offsets;
/// code may learn their upper 16 bits from the SH_MEM_BASES register.
inline constexpr std::uint64_t kSharedAperture = 0x0001'0000'0000'0000,
                               kPrivateAperture = 0x0002'0000'0000'0000;
inline constexpr std::uint64_t kKernargBase = 0x0000'6000'0000'0000, kScratchBase = 0x0000'6800'0000'0000;
inline constexpr std::uint64_t kApertureMask = 0xffff'ffff'0000'0000;

class Memory {
 public:
  Memory(GlobalMemory& global, std::vector<std::byte>& image, std::vector<std::byte> kernarg)
      : global_(global.impl()), image_(image), kernarg_(std::move(kernarg)) {}

  struct Ref {
    std::uint8_t* data = nullptr;    ///< null: not all of the bytes may be accessed
    std::uint8_t* shadow = nullptr;  ///< of global memory: Shadow values
  };
  /// Where `bytes` bytes at `address` lie on the host.
  Ref at(std::uint64_t address, std::size_t bytes, bool write) const;
  bool initialized(const Ref& ref, std::size_t bytes) const;
  void mark_written(const Ref& ref, std::size_t bytes) const;
  std::string describe(std::uint64_t address) const;
  /// Serialises the atomics of one address.
  std::mutex& lock_of(std::uint64_t address) { return locks_[address / 64 % locks_.size()]; }

 private:
  GlobalMemory::Impl& global_;
  std::vector<std::byte>& image_;
  std::vector<std::byte> kernarg_;
  std::array<std::mutex, 64> locks_;
};

}  // namespace kiln::emulator::amdgcn
