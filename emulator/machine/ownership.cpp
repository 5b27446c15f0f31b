// Registers that wgmma in flight owns: accumulators may not be touched, register A operands not be
// overwritten, until wait_group has retired the instruction.
#include "emulator/machine/machine.hpp"
#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {

void check_owned_registers(Warp& w, const Op& op) {
  const Program& p = *w.block->cluster->program;
  const auto at = static_cast<std::size_t>(&op - p.ops.data());
  const std::uint32_t window = w.frame->window / 64;
  for (std::uint32_t i = p.touch_begin[at]; i < p.touch_begin[at + 1]; ++i) {
    const Touch& t = p.touches[i];
    const std::uint8_t state = w.owned[window + t.ref / 64];
    if (state == 0 || (!t.write && (state & 1) == 0)) continue;
    report(w, op, -1, "async-register",
           std::string(t.write ? "writes" : "reads") +
               ((state & 1) != 0 ? " an accumulator" : " an A operand") +
               " of a wgmma that no wait_group has retired");
    return;
  }
}

void release_owned(Warp& w) {
  std::fill(w.owned.begin(), w.owned.end(), std::uint8_t{0});
  w.checked = false;
  if (w.wgmma_issued == w.wgmma_retired) return;
  // Groups still in flight keep theirs.
  const Block& b = *w.block;
  const WgmmaQueue& q = b.warpgroups[static_cast<std::size_t>(w.index) / 4];
  const Program& p = *b.cluster->program;
  for (std::uint64_t n = w.wgmma_retired; n < w.wgmma_issued; ++n) {
    const Op* op = n >= q.completed    ? q.pending[n - q.completed].op
                   : n >= q.first_done ? q.done[n - q.first_done]
                                       : nullptr;
    if (op == nullptr) continue;
    const auto& g = *static_cast<const WgmmaOp*>(op->aux);
    const int count = wgmma_d_registers(g);
    for (int i = 0; i < count + (g.a_in_registers ? 4 : 0); ++i) {
      const Ref r = p.lists[op->target + static_cast<std::size_t>(i)];
      if ((r & 3) != kRegister) continue;
      for (std::uint32_t k = 0; k < 2; ++k) w.owned[w.frame->window / 64 + r / 64 + k] |= i < count ? 1 : 2;
    }
  }
  w.checked = b.cluster->findings;
}

}  // namespace kiln::emulator
