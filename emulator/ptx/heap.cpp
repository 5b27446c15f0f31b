// malloc and free of kernels. The heap is one allocation of the device's memory, of the runtime's default size, and
// stays from launch to launch. Blocks follow one another, each behind a header that a kernel may not touch; the search
// goes round, so that memory is used again as late as possible.
#include "emulator/ptx/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/memory.hpp"

namespace kiln::emulator {
namespace {

using u64 = std::uint64_t;

constexpr u64 kHeapBytes = u64{8} << 20, kMark = 0x6865'6170'626c'6f63ull;
struct Header {
  u64 mark = kMark;
  u64 bytes = 0;  ///< of the block with its header; odd: in use
};
static_assert(sizeof(Header) == 16);
/// At the heap's begin: where the next search starts.
struct Start {
  u64 next = 0;
  u64 unused = 0;
};

std::mutex& heap_mutex() {
  static std::mutex m;
  return m;
}

Header header_at(const GlobalMemory::Impl& m, u64 address) {
  Header h;
  std::memcpy(&h, m.at(address), sizeof h);
  return h;
}
void put(const GlobalMemory::Impl& m, u64 address, const Header& h) {
  std::memcpy(m.at(address), &h, sizeof h);
}

/// 0: no heap, or none left.
u64 take(GlobalMemory::Impl& m, u64 heap, u64 bytes) {
  if (bytes > kHeapBytes) return 0;
  const u64 wanted = (std::max<u64>(bytes, 1) + 15) / 16 * 16 + sizeof(Header);
  const u64 first = heap + sizeof(Start), end = heap + kHeapBytes;
  Start start;
  std::memcpy(&start, m.at(heap), sizeof start);
  u64 at = start.next;
  for (u64 seen = 0; seen < end - first;) {
    if (at >= end) at = first;
    Header h = header_at(m, at);
    if ((h.bytes & 1) == 0) {
      while (at + h.bytes < end && (header_at(m, at + h.bytes).bytes & 1) == 0)
        h.bytes += header_at(m, at + h.bytes).bytes;
      put(m, at, h);
      if (h.bytes >= wanted) {
        if (h.bytes > wanted) put(m, at + wanted, {kMark, h.bytes - wanted});
        put(m, at, {kMark, wanted | 1});
        start.next = at + wanted;
        std::memcpy(m.at(heap), &start, sizeof start);
        std::memset(m.shadow_at(at + sizeof(Header)), kAllocated, bytes);
        std::memset(m.at(at + sizeof(Header)), kPoison, bytes);
        return at + sizeof(Header);
      }
    }
    seen += h.bytes & ~u64{1};
    at += h.bytes & ~u64{1};
  }
  return 0;
}

bool give_back(GlobalMemory::Impl& m, u64 heap, u64 address) {
  const u64 at = address - sizeof(Header);
  if (address < heap + sizeof(Start) + sizeof(Header) || address >= heap + kHeapBytes || address % 16 != 0)
    return false;
  const Header h = header_at(m, at);
  if (h.mark != kMark || (h.bytes & 1) == 0 || *m.shadow_at(at) != kUnallocated) return false;
  put(m, at, {kMark, h.bytes - 1});
  std::memset(m.shadow_at(address), kUnallocated, h.bytes - 1 - sizeof(Header));
  return true;
}

u64& heap_of(GlobalMemory::Impl& m) {
  return m.module_variables[nullptr]["heap"];
}

u64* frame_word(Warp& w, int lane, std::uint32_t at) {
  return reinterpret_cast<u64*>(w.local.data() + static_cast<std::size_t>(lane) * w.local_bytes +
                                w.frame->local + at);
}

/// Who gets memory comes after who gave it back.
void synchronise(Warp& w, const Op& op, int lane, u64 heap, bool before) {
  if (!w.block->cluster->findings) return;
  if (before)
    ptx::publish_global(w, op, lane, heap, true);
  else
    ptx::observe_global(w, op, 1u << lane, heap);
}

void run_malloc(Warp& w, const Op& op) {
  GlobalMemory::Impl& m = *w.block->cluster->launch->memory;
  ptx::each_lane(w, [&](int l) {
    u64 bytes = 0, address = 0;
    std::memcpy(&bytes, frame_word(w, l, op.a), 8);
    const std::lock_guard lock(heap_mutex());
    const u64 heap = heap_of(m);
    if (heap != 0) address = take(m, heap, bytes);
    synchronise(w, op, l, heap, false);
    std::memcpy(frame_word(w, l, op.b), &address, 8);
    std::memset(w.local_shadow.data() + static_cast<std::size_t>(l) * w.local_bytes + w.frame->local + op.b,
                kWritten, 8);
  });
  ++w.block->cluster->progress;
}

void run_free(Warp& w, const Op& op) {
  GlobalMemory::Impl& m = *w.block->cluster->launch->memory;
  ptx::each_lane(w, [&](int l) {
    u64 address = 0;
    std::memcpy(&address, frame_word(w, l, op.a), 8);
    if (address == 0) return;
    const std::lock_guard lock(heap_mutex());
    const u64 heap = heap_of(m);
    synchronise(w, op, l, heap, true);
    if (heap == 0 || !give_back(m, heap, address))
      report(w, op, l, "out-of-bounds",
             "free of " + std::to_string(address) + ", which malloc has not returned or which was freed");
  });
  ++w.block->cluster->progress;
}

}  // namespace

void prepare_heap(GlobalMemory& memory, const ptx::Module& module) {
  const bool used = std::any_of(module.functions.begin(), module.functions.end(), [](const ptx::Function& f) {
    return !f.defined && (f.name == "malloc" || f.name == "free");
  });
  GlobalMemory::Impl& m = memory.impl();
  const std::lock_guard lock(heap_mutex());
  if (!used || heap_of(m) != 0) return;
  const u64 heap = memory.allocate(kHeapBytes, "the heap of malloc");
  std::memset(m.shadow_at(heap), kUnallocated, kHeapBytes);
  const Start start{heap + sizeof(Start), 0};
  std::memcpy(m.at(heap), &start, sizeof start);
  put(m, heap + sizeof(Start), {kMark, kHeapBytes - sizeof(Start)});
  heap_of(m) = heap;
}

bool decode_heap_call(ptx::Decoder& d, std::string_view name, const std::vector<std::uint32_t>& args,
                      const std::vector<std::uint32_t>& returns) {
  const bool take_memory = name == "malloc" && args.size() == 1 && returns.size() == 1;
  if (!take_memory && (name != "free" || args.size() != 1)) return false;
  Op& op = d.emit(take_memory ? run_malloc : run_free, Kind::other);
  op.a = args[0];
  if (take_memory) op.b = returns[0];
  op.flags = static_cast<std::uint16_t>(static_cast<unsigned>(Order::acq_rel) << 9);
  return true;
}

}  // namespace kiln::emulator
