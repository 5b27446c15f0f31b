#include "emulator/machine/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/host.hpp"

namespace kiln::emulator {
namespace {

constexpr std::size_t kGuard = 4096;

/// Bytes from which on an allocation gets large pages of the host.
constexpr std::size_t kLarge = std::size_t{4} << 20;

/// It is no error where the host has none.
void prefer_large_pages(std::uint8_t* begin, std::size_t bytes) {
  const std::size_t into_page = reinterpret_cast<std::uintptr_t>(begin) & 4095;
  madvise(begin - into_page, bytes + into_page, MADV_HUGEPAGE);
}

#if defined(__SANITIZE_THREAD__)
#define KILN_SANITIZED_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KILN_SANITIZED_THREADS 1
#endif
#endif
#ifdef KILN_SANITIZED_THREADS
/// The sanitizer asks for address 0 in place of one that is not a program's, and some hosts grant that.
constexpr bool kMayChoose = false;
#else
constexpr bool kMayChoose = true;
#endif

/// At `address` if nothing else is there.
std::uint8_t* reserve(std::size_t bytes, std::uint64_t address = 0) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* p = MAP_FAILED;
  if (kMayChoose && address != 0)
    p = mmap(reinterpret_cast<void*>(address), bytes, kAccess, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) p = mmap(nullptr, bytes, kAccess, kFlags, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(p);
}

}  // namespace

GlobalMemory::Impl::Impl(std::size_t bytes) {
  // Some hosts bound the address space: take what they give, down to a useful minimum.
  for (capacity = std::max<std::size_t>(bytes, 1u << 20) & ~std::size_t{4095}; capacity >= (1u << 20);
       capacity /= 2) {
    data = reserve(capacity, kGlobalBase);
    shadow = data == nullptr ? nullptr : reserve(capacity);
    // As much again, and more, for who accessed what, and room for everything else that the program does.
    std::uint8_t* rest = shadow == nullptr ? nullptr : reserve(4 * capacity);
    if (rest != nullptr) munmap(rest, 4 * capacity);
    if (rest != nullptr) break;
    if (data != nullptr) munmap(data, capacity);
    if (shadow != nullptr) munmap(shadow, capacity);
    shadow = nullptr;
  }
  if (shadow == nullptr) refuse_for_memory("the emulated device", 6u << 20);
  next = kGuard;
}

GlobalMemory::Impl::~Impl() {
  munmap(data, capacity);
  munmap(shadow, capacity);
}

std::string GlobalMemory::Impl::describe(std::uint64_t address) const {
  const std::lock_guard lock(mutex);
  auto it = allocations.upper_bound(address);
  const auto label = [](const Allocation& a) {
    return (a.name.empty() ? std::string("an allocation") : "'" + a.name + "'") + " (" +
           std::to_string(a.bytes) + " bytes)" + (a.freed ? ", which was freed" : "");
  };
  std::string before, after;
  if (it != allocations.begin()) {
    const auto& [base, a] = *std::prev(it);
    if (address == base) return "at the start of " + label(a);
    if (address < base + a.bytes) return std::to_string(address - base) + " bytes into " + label(a);
    before = std::to_string(address - base - a.bytes) + " bytes past the end of " + label(a);
    if (it == allocations.end() || address - base - a.bytes <= it->first - address) return before;
  }
  if (it != allocations.end())
    return std::to_string(it->first - address) + " bytes before " + label(it->second);
  return "in no allocation";
}

std::uint64_t GlobalMemory::Impl::bound_at(std::uint64_t address, std::size_t bytes) const {
  auto it = multicast.upper_bound(address);
  if (it == multicast.begin()) return 0;
  const auto& [begin, bound] = *--it;
  const std::uint64_t at = address - begin;
  return at < bound.bytes && bytes <= bound.bytes - at ? bound.memory + at : 0;
}

void GlobalMemory::Impl::check(std::uint64_t address, std::size_t bytes, const char* what) const {
  if (contains(address, bytes)) {
    const std::uint8_t* s = shadow_at(address);
    if (std::find(s, s + bytes, kUnallocated) == s + bytes) return;
  }
  throw Error(std::string(what) + " of " + std::to_string(bytes) + " bytes at " + std::to_string(address) +
              " leaves device memory: " + describe(address));
}

GlobalMemory::GlobalMemory(std::size_t capacity) : impl_(std::make_unique<Impl>(capacity)) {}
GlobalMemory::~GlobalMemory() = default;
GlobalMemory::GlobalMemory(GlobalMemory&&) noexcept = default;
GlobalMemory& GlobalMemory::operator=(GlobalMemory&&) noexcept = default;

std::uint64_t GlobalMemory::allocate(std::size_t bytes, std::string name, std::size_t align) {
  Impl& m = *impl_;
  if (!std::has_single_bit(align)) throw Error("alignment must be a power of two");
  const std::lock_guard lock(m.mutex);
  align = std::max<std::size_t>(align, 16);
  const std::size_t at = (m.next + align - 1) & ~(align - 1);
  const std::size_t room = std::max<std::size_t>(bytes, 1);
  if (at < m.next || room > m.capacity || at > m.capacity - room || m.capacity - room - at < kGuard)
    throw Error("out of emulated device memory: " + std::to_string(bytes) + " bytes asked, " +
                std::to_string(m.capacity - std::min(at, m.capacity)) + " of " + std::to_string(m.capacity) +
                " are left");
  m.next = (at + room + kGuard + 255) & ~std::size_t{255};
  if (room >= kLarge) {
    prefer_large_pages(m.data + at, room);
    prefer_large_pages(m.shadow + at, room);
  }
  std::memset(m.shadow + at, kAllocated, bytes);
  std::memset(m.data + at, kPoison, bytes);
  m.allocations[kGlobalBase + at] = {bytes, std::move(name), false};
  m.live_bytes += bytes;
  ++m.live;
  return kGlobalBase + at;
}

void GlobalMemory::free(std::uint64_t address) {
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  const auto it = m.allocations.find(address);
  if (it == m.allocations.end() || it->second.freed)
    throw Error("free of " + std::to_string(address) + ", which is no live allocation");
  it->second.freed = true;
  const std::size_t bytes = it->second.bytes;
  std::memset(m.shadow_at(address), kUnallocated, bytes);
  // Whole pages go back to the host; the edges belong to neighbours as well.
  const auto first = (reinterpret_cast<std::uintptr_t>(m.at(address)) + 4095) & ~std::uintptr_t{4095};
  const auto last = reinterpret_cast<std::uintptr_t>(m.at(address) + bytes) & ~std::uintptr_t{4095};
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  m.live_bytes -= bytes;
  // With nothing left the address space starts over, so long test runs never exhaust it.
  if (--m.live == 0) {
    m.allocations.clear();
    m.module_variables.clear();
    m.next = kGuard;
  }
}

void GlobalMemory::write(std::uint64_t address, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  impl_->check(address, bytes.size(), "write");
  std::memcpy(impl_->at(address), bytes.data(), bytes.size());
  std::memset(impl_->shadow_at(address), kWritten, bytes.size());
}

void GlobalMemory::read(std::uint64_t address, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  impl_->check(address, bytes.size(), "read");
  std::memcpy(bytes.data(), impl_->at(address), bytes.size());
}

void GlobalMemory::fill(std::uint64_t address, std::byte value, std::size_t bytes) {
  if (bytes == 0) return;
  impl_->check(address, bytes, "fill");
  std::memset(impl_->at(address), std::to_integer<int>(value), bytes);
  std::memset(impl_->shadow_at(address), kWritten, bytes);
}

void GlobalMemory::mark_initialized(std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return;
  impl_->check(address, bytes, "mark");
  std::memset(impl_->shadow_at(address), kWritten, bytes);
}

void GlobalMemory::poison(std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return;
  impl_->check(address, bytes, "poison");
  std::memset(impl_->at(address), kPoison, bytes);
  std::memset(impl_->shadow_at(address), kAllocated, bytes);
}

bool GlobalMemory::is_initialized(std::uint64_t address, std::size_t bytes) const {
  if (bytes == 0) return true;
  impl_->check(address, bytes, "query");
  const std::uint8_t* s = impl_->shadow_at(address);
  return std::all_of(s, s + bytes, [](std::uint8_t v) { return v == kWritten; });
}

std::size_t GlobalMemory::allocated_bytes() const {
  return impl_->live_bytes;
}

}  // namespace kiln::emulator
