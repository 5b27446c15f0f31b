// Memory of blocks that have ended for blocks that come. A block needs some megabytes, mostly in large pieces, which
// the C library returns to the system at once; touching fresh pages then costs more than many a block.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace kiln::emulator {

/// At least `bytes` bytes, aligned like those of operator new, with what was there before; of the calling thread's own
/// store, which also takes them back.
void* take_recycled(std::size_t bytes);
void give_recycled(void* p, std::size_t bytes) noexcept;

/// An allocator.
template <class T>
struct Recycled {
  using value_type = T;
  Recycled() = default;
  template <class U>
  Recycled(const Recycled<U>& /*other*/) noexcept {
  }  // NOLINT(google-explicit-constructor): as allocators are
  T* allocate(std::size_t n) { return static_cast<T*>(take_recycled(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { give_recycled(p, n * sizeof(T)); }
  template <class U>
  bool operator==(const Recycled<U>& /*other*/) const {
    return true;
  }
};
template <class T>
using RecycledVector = std::vector<T, Recycled<T>>;

/// Base of classes that are made with new for each block.
struct RecycledObject {
  static void* operator new(std::size_t bytes) { return take_recycled(bytes); }
  static void operator delete(void* p, std::size_t bytes) noexcept { give_recycled(p, bytes); }
};

}  // namespace kiln::emulator
