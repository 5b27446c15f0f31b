#include "emulator/amdgcn/wait_proofs.hpp"

#include <algorithm>

namespace kiln::emulator::amdgcn {
namespace {

constexpr int kMost = 1000;  // more can never be told apart by a wait

bool counts_vm(const Inst& in) {
  return in.cls == Class::vmem_load || in.cls == Class::vmem_store || in.cls == Class::vmem_atomic ||
         in.cls == Class::dma;
}
bool counts_lgkm(const Inst& in) {
  const bool lds = in.cls == Class::lds_read || in.cls == Class::lds_write || in.cls == Class::lds_atomic ||
                   in.cls == Class::lds_permute;
  return lds || in.cls == Class::smem || (counts_vm(in) && in.text.starts_with("flat_"));
}
bool is_wait(const Inst& in) {
  return in.cls == Class::wait && in.text.starts_with("s_waitcnt");
}
bool leaves(const Inst& in) {
  return in.cls == Class::end || in.text.starts_with("s_branch") || in.text.starts_with("s_setpc");
}

}  // namespace

WaitProofs::Under WaitProofs::after(const Inst& in, Under before) const {
  if (is_wait(in)) {
    before.vm = std::min<int>(before.vm, in.mod.vmcnt);
    // Scalar loads come back in any order: only a wait for all of them says which are over.
    if (in.mod.lgkmcnt == 0) before.lgkm = 0;
    return before;
  }
  if (counts_vm(in)) before.vm = std::min(before.vm + 1, kMost);
  if (counts_lgkm(in)) before.lgkm = std::min(before.lgkm + 1, kMost);
  return before;
}

WaitProofs::WaitProofs(const Program& program, std::size_t first, std::size_t last)
    : program_(program),
      first_(first),
      last_(last),
      before_(last - first, Under{-1, -1}),
      loaded_(kScalarRegisters + kVectorRegisters) {
  for (std::size_t i = first; i < last; ++i) {
    const Inst& in = program.code[i];
    if (!counts_vm(in)) continue;
    for (int w = 0; w < in.write_count; ++w) {
      for (int r = 0; r < in.writes[w].count; ++r)
        loaded_[static_cast<std::size_t>(in.writes[w].first + r)] = true;
    }
  }
  std::vector<std::size_t> open;
  const auto reach = [&](std::size_t to, Under state) {
    if (to < first_ || to >= last_) return;
    Under& known = before_[to - first_];
    const Under joined{std::max(known.vm, state.vm), std::max(known.lgkm, state.lgkm)};
    if (joined == known) return;
    known = joined;
    open.push_back(to);
  };
  reach(first, {0, 0});
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    const Inst& in = program.code[at];
    const Under state = after(in, before_[at - first_]);
    if (!leaves(in)) reach(at + 1, state);
    if (in.target >= 0) reach(static_cast<std::size_t>(in.target), state);
  }
}

std::string WaitProofs::idle(std::size_t at, bool vm) const {
  const Inst& in = program_.code[at];
  const Under& before = before_[at - first_];
  const int under_way = vm ? before.vm : before.lgkm, allowed = vm ? in.mod.vmcnt : in.mod.lgkmcnt;
  if (under_way < 0) return "no path leads here";
  if (under_way <= allowed) return "on every path all it waits for is over";
  return vm ? covered(at) : "";
}

std::string WaitProofs::covered(std::size_t at) const {
  int issued = 0;
  const int allowed = program_.code[at].mod.vmcnt;
  for (std::size_t i = at + 1; i < last_; ++i) {
    const Inst& in = program_.code[i];
    // Loads return in order, so a later wait that leaves no more than these and the newer ones under way
    // covers them.
    if (is_wait(in) && in.mod.vmcnt <= allowed + issued)
      return "a later wait covers it before anything depends on it";
    const bool stays = in.cls == Class::valu || in.cls == Class::transcendental || in.cls == Class::mfma ||
                       in.cls == Class::salu || in.cls == Class::wait || counts_vm(in);
    if (!stays || in.target >= 0) return "";
    const auto touches = [&](const RegRange& range) {
      for (int r = 0; r < range.count; ++r) {
        if (loaded_[static_cast<std::size_t>(range.first + r)]) return true;
      }
      return false;
    };
    if (std::any_of(in.reads.begin(), in.reads.begin() + in.read_count, touches) ||
        std::any_of(in.writes.begin(), in.writes.begin() + in.write_count, touches))
      return "";
    issued += counts_vm(in) ? 1 : 0;
  }
  return "";
}

}  // namespace kiln::emulator::amdgcn
