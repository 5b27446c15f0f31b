// Instructions that move values between lanes within the vector unit.
#include <algorithm>
#include <bit>

#include "emulator/amdgcn/ops/ops.hpp"

namespace kiln::emulator::amdgcn {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

void readlane(Wave& w, const Inst& in) {
  Lanes b;
  const View v = w.raw(in.ops[1], 0, b);
  const u32 lane = w.scalar32(in.ops[2]) & 63;
  w.set_scalar32(in.ops[0], v.l[lane]);
  if (!(v.defined >> lane & 1)) w.s_defined[in.ops[0].reg >> 6] &= ~(u64{1} << (in.ops[0].reg & 63));
}
void readfirstlane(Wave& w, const Inst& in) {
  Lanes b;
  const View v = w.raw(in.ops[1], 0, b);
  const u64 exec = w.exec();
  const int lane = exec == 0 ? 0 : std::countr_zero(exec);
  w.set_scalar32(in.ops[0], v.l[lane]);
  if (!(v.defined >> lane & 1)) w.s_defined[in.ops[0].reg >> 6] &= ~(u64{1} << (in.ops[0].reg & 63));
}
void writelane(Wave& w, const Inst& in) {  // regardless of EXEC
  const u32 lane = w.scalar32(in.ops[2]) & 63;
  const int reg = in.ops[0].reg;
  w.v[static_cast<std::size_t>(reg)].l[lane] = w.scalar32(in.ops[1]);
  w.defined[reg] |= u64{1} << lane;
}

/// v_permlane32_swap: upper half of the first register <-> lower half of the second; v_permlane16_swap: the
/// odd rows of 16 of the first <-> the even rows of the second.
template <int Width>
void permlane_swap(Wave& w, const Inst& in) {
  const int ra = in.ops[0].reg, rb = in.ops[1].reg;
  Lanes& a = w.v[static_cast<std::size_t>(ra)];
  Lanes& b = w.v[static_cast<std::size_t>(rb)];
  const u64 exec = w.exec();
  for (int row = 0; row < kLanes; row += 2 * Width) {
    for (int i = 0; i < Width; ++i) {
      const int high = row + Width + i, low = row + i;
      const u32 from_a = a.l[high], from_b = b.l[low];
      const u64 da = w.defined[ra] >> high & 1, db = w.defined[rb] >> low & 1;
      if (exec >> high & 1) {
        a.l[high] = from_b;
        w.defined[ra] = (w.defined[ra] & ~(u64{1} << high)) | db << high;
      }
      if (exec >> low & 1) {
        b.l[low] = from_a;
        w.defined[rb] = (w.defined[rb] & ~(u64{1} << low)) | da << low;
      }
    }
  }
}
void swap(Wave& w, const Inst& in) {
  const int ra = in.ops[0].reg, rb = in.ops[1].reg;
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; ++l) {
    if (exec >> l & 1)
      std::swap(w.v[static_cast<std::size_t>(ra)].l[l], w.v[static_cast<std::size_t>(rb)].l[l]);
  }
  const u64 da = w.defined[ra], db = w.defined[rb];
  w.defined[ra] = (da & ~exec) | (db & exec);
  w.defined[rb] = (db & ~exec) | (da & exec);
}

}  // namespace

void add_lane_ops(OpTable& t) {
  t["v_readlane_b32"] = {.exec = readlane};
  t["v_readfirstlane_b32"] = {.exec = readfirstlane};
  t["v_writelane_b32"] = {.exec = writelane, .reads_dst = true};
  t["v_permlane16_swap_b32"] = {.exec = permlane_swap<16>, .dsts = 2, .reads_dst = true};
  t["v_permlane32_swap_b32"] = {.exec = permlane_swap<32>, .dsts = 2, .reads_dst = true};
  t["v_swap_b32"] = {.exec = swap, .dsts = 2, .reads_dst = true};
  const auto nothing = [](Wave&, const Inst&) {};
  t["v_nop"] = {.exec = nothing, .dsts = 0};
}

}  // namespace kiln::emulator::amdgcn
