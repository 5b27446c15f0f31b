#include "emulator/machine/recycled.hpp"

#include <array>
#include <bit>

namespace kiln::emulator {
namespace {

/// Smaller ones are left to the C library.
constexpr std::size_t kSmallest = 4096;
/// What a thread keeps at most. The address sanitizer wants to see all of it freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMostKept = 0;
#else
constexpr std::size_t kMostKept = std::size_t{64} << 20;
#endif
/// Four sizes between two powers of two.
constexpr std::size_t kSizes = 128;

struct Size {
  std::size_t index, bytes;
};
Size size_of(std::size_t bytes) {
  const auto shift = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 3;
  const std::size_t quarters = ((bytes - 1) >> shift) + 1;  // 5 to 8
  return {4 * shift + quarters - 5, quarters << shift};
}

class Store {
 public:
  ~Store() {
    for (auto& list : lists_)
      for (void* p : list) ::operator delete(p);
  }
  void* take(Size size) {
    auto& list = lists_[size.index];
    if (list.empty()) return nullptr;
    void* const p = list.back();
    list.pop_back();
    kept_ -= size.bytes;
    return p;
  }
  bool give(void* p, Size size) {
    if (kept_ + size.bytes > kMostKept) return false;
    lists_[size.index].push_back(p);
    kept_ += size.bytes;
    return true;
  }

 private:
  std::array<std::vector<void*>, kSizes> lists_;
  std::size_t kept_ = 0;
};

Store& store() {
  thread_local Store own;
  return own;
}

}  // namespace

void* take_recycled(std::size_t bytes) {
  if (bytes < kSmallest || bytes > kMostKept) return ::operator new(bytes);
  const Size size = size_of(bytes);
  void* const p = store().take(size);
  return p != nullptr ? p : ::operator new(size.bytes);
}

void give_recycled(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return;
  if (bytes < kSmallest || bytes > kMostKept || !store().give(p, size_of(bytes))) ::operator delete(p);
}

}  // namespace kiln::emulator
