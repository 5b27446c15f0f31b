// See memory.hpp.
#include "emulator/amdgcn/memory/memory.hpp"

#include <atomic>
#include <cstdio>

#include "emulator/amdgcn/load/module.hpp"

namespace kiln::emulator::amdgcn {
namespace {

/// Blocks of a program may write what others read, on other threads of the host.
std::uint8_t shadow_of(const Memory::Ref& ref, std::size_t i) {
  return std::atomic_ref(ref.shadow[i]).load(std::memory_order_relaxed);
}

}  // namespace

Memory::Ref Memory::at(std::uint64_t address, std::size_t bytes, bool write) const {
  if (global_.contains(address, bytes)) {
    const Ref ref{global_.at(address), global_.shadow_at(address)};
    for (std::size_t i = 0; i < bytes; ++i) {
      if (shadow_of(ref, i) == kUnallocated) return {};
    }
    return ref;
  }
  const auto inside = [&](const std::vector<std::byte>& block, std::uint64_t base) {
    return address >= base && address - base <= block.size() && block.size() - (address - base) >= bytes;
  };
  if (inside(image_, kImageBase))
    return {reinterpret_cast<std::uint8_t*>(image_.data()) + (address - kImageBase), nullptr};
  if (!write && inside(kernarg_, kKernargBase)) {
    return {
        reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(kernarg_.data())) + (address - kKernargBase),
        nullptr};
  }
  return {};
}

bool Memory::initialized(const Ref& ref, std::size_t bytes) const {
  if (ref.shadow == nullptr) return true;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (shadow_of(ref, i) != kWritten) return false;
  }
  return true;
}

void Memory::mark_written(const Ref& ref, std::size_t bytes) const {
  if (ref.shadow == nullptr) return;
  for (std::size_t i = 0; i < bytes; ++i)
    std::atomic_ref(ref.shadow[i]).store(kWritten, std::memory_order_relaxed);
}

std::string Memory::describe(std::uint64_t address) const {
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
  return std::string(hex) + ", " + global_.describe(address);
}

}  // namespace kiln::emulator::amdgcn
