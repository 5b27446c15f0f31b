// st.bulk: zeros over a region of the block's own shared memory. A weak store of the generic proxy by each executing
// lane, done when the instruction is.
#include <algorithm>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/decode/target.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

constexpr u64 kMostBytes = 16777216;  // PTX ISA, st.bulk
constexpr u64 kFillBytes = 8;         // the hardware fills 64 bits at a time

/// What is wrong with the region of a lane: the finding's kind and text; both empty: nothing.
struct Complaint {
  const char* kind = "";
  std::string text;
};
Complaint complaint_of(const Block* b, u64 address, u64 bytes) {
  if (bytes % kFillBytes != 0)
    return {"misaligned", "st.bulk of " + std::to_string(bytes) + " bytes: must be a multiple of 8"};
  if (bytes > kMostBytes)
    return {"out-of-bounds",
            "st.bulk of " + std::to_string(bytes) + " bytes: at most " + std::to_string(kMostBytes)};
  const u64 offset = address & 0xffffffu;
  if (b == nullptr || offset < kSharedBase || offset + bytes > b->smem.size() - 64)
    return {"out-of-bounds", "st.bulk of " + std::to_string(bytes) + " bytes at shared address " +
                                 std::to_string(address) + ", outside the block's shared memory"};
  if (offset % kFillBytes != 0)
    return {"misaligned",
            "st.bulk at shared address " + std::to_string(address) + ": must be a multiple of 8"};
  return {};
}

void fill(Warp& w, const Op& op, int lane, Block& b, std::uint32_t offset, std::uint32_t bytes) {
  std::uint8_t* const data = b.smem.data() + offset;
  std::uint8_t* const shadow = b.shadow.data() + offset;
  Cluster& c = *w.block->cluster;
  if (c.races) {
    const bool same = std::all_of(data, data + bytes, [](std::uint8_t v) { return v == 0; });
    c.races->access({w, op, lane, b, offset, bytes, true, 0, 0, same});
  }
  if (c.findings && std::memchr(shadow, kMbarrier, bytes) != nullptr)
    check_mbarriers_kept(w, op, lane, b, offset, bytes);
  std::memset(data, 0, bytes);
  std::memset(shadow, kWritten, bytes);
}

void run_zero_fill(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  ++w.lanes.issue;
  each_lane(w, [&](int lane) {
    if (c.aborted) return;
    u64 address = w.value(op.a, op.asize, lane) + static_cast<u64>(op.imm);
    if (op.flags != 0) address -= kSharedWindow;
    const u64 bytes = w.value(op.b, op.bsize, lane);
    Block* const b = address <= 0xffffffffu ? shared_block(w, address, false) : nullptr;
    if (const Complaint bad = complaint_of(b, address, bytes); !bad.text.empty()) {
      report(w, op, lane, bad.kind, bad.text);
      return abort_cluster(c);
    }
    if (bytes != 0)
      fill(w, op, lane, *b, static_cast<std::uint32_t>(address) & 0xffffffu,
           static_cast<std::uint32_t>(bytes));
  });
  ++c.progress;
}

}  // namespace

void decode_zero_fill(Decoder& d) {
  if (before_sm100(d)) d.fail("target " + d.module.target + " has no");
  for (const auto m : d.in->modifiers)
    if (m != "bulk" && m != "weak" && m != "shared::cta") d.unsupported();
  if (d.in->modifiers[0] != "bulk" || d.operands() != 3) d.unsupported();
  const Operand &size = d.operand(1), &value = d.operand(2);
  if (value.kind != Operand::Kind::integer || value.value != 0) d.fail("the value must be 0 in");
  if (size.kind == Operand::Kind::integer) {
    if (size.value < 0 || static_cast<u64>(size.value) > kMostBytes ||
        size.value % std::int64_t{kFillBytes} != 0)
      d.fail("the size must be a multiple of 8 up to 16777216 in");
  } else if (d.size_of_register(size, 8) != 8) {
    d.fail("the size must have 64 bits in");
  }
  const bool generic = !d.has("shared::cta");
  const bool symbol = !d.operand(0).items.empty() && d.operand(0).items[0].kind == Operand::Kind::symbol;
  const auto a = d.address(d.operand(0), Space::shared);
  const Ref bytes = d.src(size, 8);
  Op& op = d.emit(run_zero_fill, Kind::store_shared);
  op.a = a.ref, op.asize = static_cast<std::uint8_t>(a.size), op.imm = a.offset;
  op.b = bytes, op.bsize = 8;
  op.flags = generic && !symbol && a.size == 8;
}

}  // namespace kiln::emulator::ptx
