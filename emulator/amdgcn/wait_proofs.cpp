#include "emulator/amdgcn/wait_proofs.hpp"

#include <algorithm>
#include <map>

namespace kiln::emulator::amdgcn {
namespace {

constexpr int kMost = 1000;  // more can never be told apart by a wait

bool counts_vm(const Inst& in) {
  return in.cls == Class::vmem_load || in.cls == Class::vmem_store || in.cls == Class::vmem_atomic ||
         in.cls == Class::dma;
}
bool is_lds(const Inst& in) {
  return in.cls == Class::lds_read || in.cls == Class::lds_write || in.cls == Class::lds_atomic ||
         in.cls == Class::lds_permute;
}
bool is_flat(const Inst& in) {
  return counts_vm(in) && in.text.starts_with("flat_");
}
bool counts_lgkm(const Inst& in) {
  return is_lds(in) || in.cls == Class::smem || is_flat(in);
}
template <class Visit>
void each_register(const Inst& in, bool reads, Visit visit) {
  const auto& ranges = reads ? in.reads : in.writes;
  for (int i = 0; i < (reads ? in.read_count : in.write_count); ++i) {
    for (int r = 0; r < ranges[static_cast<std::size_t>(i)].count; ++r)
      visit(static_cast<std::size_t>(ranges[static_cast<std::size_t>(i)].first + r));
  }
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
    if (before.vm == 0) before.vm_into.reset(), before.memory = false;
    // Scalar loads come back in any order: only a wait for all of them says which are over.
    if (in.mod.lgkmcnt == 0) before.lgkm = 0, before.lgkm_into.reset(), before.lds = false;
    return before;
  }
  // The program is right, so what it touches has arrived.
  for (const bool reads : {true, false})
    each_register(in, reads, [&](std::size_t r) { before.vm_into.reset(r), before.lgkm_into.reset(r); });
  if (counts_vm(in)) {
    before.vm = std::min(before.vm + 1, kMost);
    before.memory |= in.cls != Class::vmem_load;
    each_register(in, false, [&](std::size_t r) { before.vm_into.set(r); });
  }
  if (counts_lgkm(in)) {
    before.lgkm = std::min(before.lgkm + 1, kMost);
    before.lds |= in.cls != Class::smem;
    each_register(in, false, [&](std::size_t r) { before.lgkm_into.set(r); });
  }
  return before;
}

WaitProofs::WaitProofs(const Program& program, std::size_t first, std::size_t last)
    : program_(program), first_(first), last_(last), before_(last - first) {
  std::vector<std::size_t> open;
  const auto reach = [&](std::size_t to, const Under& state) {
    if (to < first_ || to >= last_) return;
    Under& known = before_[to - first_];
    const Under joined{std::max(known.vm, state.vm),  std::max(known.lgkm, state.lgkm),
                       known.memory || state.memory,  known.lds || state.lds,
                       known.vm_into | state.vm_into, known.lgkm_into | state.lgkm_into};
    if (joined == known) return;
    known = joined;
    open.push_back(to);
  };
  Under nothing;
  nothing.vm = nothing.lgkm = 0;
  reach(first, nothing);
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
  return covered(at, vm) ? "on every path a later wait covers it before anything depends on it" : "";
}

/// On every path from `at`, a wait that leaves no more of these operations under way comes before the first
/// instruction that could tell whether they are over.
bool WaitProofs::covered(std::size_t at, bool vm) const {
  const Inst& wait = program_.code[at];
  const Under& before = before_[at - first_];
  const Registers& into = vm ? before.vm_into : before.lgkm_into;
  const auto tells = [&](const Inst& in) {
    bool touches = false;
    for (const bool reads : {true, false})
      each_register(in, reads, [&](std::size_t r) { touches |= into.test(r); });
    if (touches || in.cls == Class::message || in.text.starts_with("s_setpc") ||
        in.text.starts_with("s_swappc"))
      return true;
    // Memory and LDS are what other waves, and this one's other counter, see.
    if (vm && before.memory)
      return in.cls == Class::barrier || is_lds(in) || in.cls == Class::end || is_flat(in) ||
             in.cls == Class::vmem_atomic || in.cls == Class::smem || in.cls == Class::vmem_load;
    if (!vm && before.lds) return in.cls == Class::barrier || in.cls == Class::dma || is_flat(in);
    return false;
  };
  // Loads return in order: a wait covers them that leaves no more than `wait` did and what came since. Fewest
  // such operations on a way to an instruction.
  std::map<std::size_t, int> fewest;
  std::vector<std::pair<std::size_t, int>> open{{at + 1, 0}};
  while (!open.empty()) {
    auto [i, issued] = open.back();
    open.pop_back();
    if (i < first_ || i >= last_) return false;
    const auto [known, fresh] = fewest.try_emplace(i, issued);
    if (!fresh && known->second <= issued) continue;
    known->second = issued;
    const Inst& in = program_.code[i];
    if (is_wait(in) && (vm ? in.mod.vmcnt <= wait.mod.vmcnt + issued : in.mod.lgkmcnt == 0)) continue;
    if (tells(in)) return false;
    if (in.cls == Class::end) continue;
    issued = std::min(issued + (counts_vm(in) ? 1 : 0), kMost);
    if (!leaves(in)) open.emplace_back(i + 1, issued);
    if (in.target >= 0) open.emplace_back(static_cast<std::size_t>(in.target), issued);
  }
  return true;
}

}  // namespace kiln::emulator::amdgcn
