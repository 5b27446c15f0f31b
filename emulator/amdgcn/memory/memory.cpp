// See memory.hpp.
#include "emulator/amdgcn/memory/memory.hpp"

#include <cstdio>

#include "emulator/amdgcn/load/module.hpp"

namespace kiln::emulator::amdgcn {

Memory::Ref Memory::at(std::uint64_t address, std::size_t bytes, bool write) const {
  if (global_.contains(address, bytes)) {
    std::uint8_t* shadow = global_.shadow_at(address);
    for (std::size_t i = 0; i < bytes; ++i) {
      if (shadow[i] == kUnallocated) return {};
    }
    return {global_.at(address), shadow};
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
    if (ref.shadow[i] != kWritten) return false;
  }
  return true;
}

std::string Memory::describe(std::uint64_t address) const {
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
  return std::string(hex) + ", " + global_.describe(address);
}

}  // namespace kiln::emulator::amdgcn
