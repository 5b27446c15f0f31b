// alloca, stacksave, stackrestore: memory of a lane that lives until its function returns. Each lane has a stack
// pointer of its own, above the frames of all its functions (Warp::stack).
#include <algorithm>
#include <bit>

#include <kiln/emulator/emulator.hpp>
#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

/// The end of what a lane of the running function uses.
std::uint32_t top_of(const Warp& w, int lane) {
  const std::uint32_t frame =
      w.frame->local + w.block->cluster->program->functions[w.frame->function].local_bytes;
  return std::max(frame, w.stack[static_cast<std::size_t>(lane)]);
}

void run_alloca(Warp& w, const Op& op) {
  const auto align = static_cast<u64>(op.imm);
  std::uint32_t end = 0;
  each_lane(w, [&](int l) {
    const u64 size = w.value(op.a, op.asize, l), at = (top_of(w, l) + align - 1) / align * align;
    if (size > kMaxLocalBytes || at + size > kMaxLocalBytes)
      throw Error("alloca of " + std::to_string(size) + " bytes: stack overflow",
                  w.block->cluster->program->sources[op.source].in->line);
    w.set(op.d, op.dsize, l, at);
    w.stack[static_cast<std::size_t>(l)] = static_cast<std::uint32_t>(at + size);
    end = std::max(end, static_cast<std::uint32_t>(at + size));
  });
  grow_local(w, end);
  // What was there before is gone.
  each_lane(w, [&](int l) {
    const u64 at = w.value(op.d, op.dsize, l);
    const std::size_t base = static_cast<std::size_t>(l) * w.local_bytes;
    const std::uint32_t last = w.stack[static_cast<std::size_t>(l)];
    std::fill(w.local_shadow.begin() + static_cast<std::ptrdiff_t>(base + at),
              w.local_shadow.begin() + static_cast<std::ptrdiff_t>(base + last), std::uint8_t{kAllocated});
  });
}
void run_stacksave(Warp& w, const Op& op) {
  each_lane(w, [&](int l) { w.set(op.d, op.dsize, l, top_of(w, l)); });
}
void run_stackrestore(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const u64 to = w.value(op.a, op.asize, l);
    if (to > top_of(w, l))
      return report(w, op, l, "out-of-bounds",
                    "stackrestore to " + std::to_string(to) + ", above the stack's end");
    w.stack[static_cast<std::size_t>(l)] = static_cast<std::uint32_t>(to);
  });
}

void decode_alloca(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size), a = d.src(d.operand(1), size);
  const std::int64_t align = d.operands() > 2 ? d.operand(2).value : 8;
  if (align < 1 || align > 65536 || !std::has_single_bit(static_cast<u64>(align)))
    d.fail("the alignment must be a power of two in");
  Op& op = d.emit(run_alloca, Kind::local);
  op.d = r, op.a = a, op.imm = align;
  op.dsize = op.asize = static_cast<std::uint8_t>(size);
}
void decode_stacksave(Decoder& d) {
  const int size = size_of(d.type());
  const Ref r = d.dst(d.operand(0), size);
  Op& op = d.emit(run_stacksave, Kind::local);
  op.d = r, op.dsize = static_cast<std::uint8_t>(size);
}
void decode_stackrestore(Decoder& d) {
  const int size = size_of(d.type());
  const Ref a = d.src(d.operand(0), size);
  Op& op = d.emit(run_stackrestore, Kind::local);
  op.a = a, op.asize = static_cast<std::uint8_t>(size);
}

}  // namespace

std::vector<DecodeEntry> stack_table() {
  return {{"alloca", decode_alloca}, {"stacksave", decode_stacksave}, {"stackrestore", decode_stackrestore}};
}

}  // namespace kiln::emulator::ptx
