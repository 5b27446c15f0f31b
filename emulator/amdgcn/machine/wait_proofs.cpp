#include "emulator/amdgcn/machine/wait_proofs.hpp"

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
/// A store that no atomic, flag or scalar load of another block or wave looks for.
bool is_plain_store(const Inst& in) {
  return in.cls == Class::vmem_store && !is_flat(in) && in.text.find(" glc") == std::string::npos &&
         in.text.find(" sc") == std::string::npos;
}
/// By itself: an atomic that returns a value is over when that has arrived.
bool changes_memory(const Inst& in) {
  return counts_vm(in) && in.cls != Class::vmem_load && (in.cls != Class::vmem_atomic || in.write_count == 0);
}
/// Tells other blocks of what was stored before.
bool publishes(const Inst& in) {
  return in.cls == Class::vmem_atomic || is_flat(in) || (in.cls == Class::vmem_store && !is_plain_store(in));
}
bool is_wait(const Inst& in) {
  return in.cls == Class::wait && in.text.starts_with("s_waitcnt");
}
bool leaves(const Inst& in) {
  return in.cls == Class::end || in.text.starts_with("s_branch") || in.text.starts_with("s_setpc");
}

}  // namespace

/// Joins what other paths leave under way; whether that is more.
bool WaitProofs::Under::join(const Under& other) {
  const Under was = *this;
  const Registers known = vm_into | lgkm_into, theirs = other.vm_into | other.lgkm_into;
  // Where nothing is written any read is after it.
  const Registers own = lds_writes ? after_write : Registers().set();
  after_write = own & (other.lds_writes ? other.after_write : Registers().set());
  vm = std::max(vm, other.vm), lgkm = std::max(lgkm, other.lgkm);
  plain = (!memory || plain) && (!other.memory || other.plain);
  memory |= other.memory, lds_writes |= other.lds_writes, any_order |= other.any_order;
  vm_into |= other.vm_into, lgkm_into |= other.lgkm_into, lds_into |= other.lds_into;
  for (std::size_t r = 0; r < kRegisters; ++r) {
    if (!theirs.test(r)) continue;
    if (!known.test(r)) {
      loader[r] = other.loader[r];
    } else if (loader[r] != other.loader[r]) {
      loader[r] = -1;
    }
  }
  return vm != was.vm || lgkm != was.lgkm || memory != was.memory || lds_writes != was.lds_writes ||
         any_order != was.any_order || plain != was.plain || vm_into != was.vm_into ||
         lgkm_into != was.lgkm_into || lds_into != was.lds_into ||
         (lds_writes && after_write != was.after_write) || loader != was.loader;
}

/// What the program touches has arrived, since it is right, and so has all that the same load brought.
void WaitProofs::Under::arrived(std::size_t reg) {
  if (!vm_into.test(reg) && !lgkm_into.test(reg)) return;
  if (lds_writes && lds_into.test(reg) && after_write.test(reg)) lds_writes = false;
  const std::int32_t load = loader[reg];
  for (std::size_t r = 0; r < kRegisters; ++r) {
    if (r == reg || (load >= 0 && loader[r] == load)) vm_into.reset(r), lgkm_into.reset(r), lds_into.reset(r);
  }
  if (vm_into.none() && !memory) vm = 0;
  if (lgkm_into.none() && !lds_writes) lgkm = 0, any_order = false;
}

void WaitProofs::Under::issued(const Inst& in, std::int32_t index) {
  const bool from_lds = is_lds(in) || is_flat(in);
  const bool returns = in.cls == Class::smem || in.cls == Class::lds_read || in.cls == Class::lds_permute ||
                       in.cls == Class::vmem_load || in.write_count > 0;
  if (counts_vm(in)) {
    vm = std::min(vm + 1, kMost);
    plain = (!memory || plain) && (!changes_memory(in) || is_plain_store(in));
    memory |= changes_memory(in);
  }
  if (counts_lgkm(in)) {
    lgkm = std::min(lgkm + 1, kMost);
    if (from_lds && !returns) lds_writes = true, after_write.reset();
    any_order |= !is_lds(in);
  }
  each_register(in, false, [&](std::size_t r) {
    loader[r] = index;
    if (counts_vm(in)) vm_into.set(r);
    if (counts_lgkm(in)) lgkm_into.set(r);
    if (counts_lgkm(in) && from_lds) lds_into.set(r), after_write.set(r);
  });
}

WaitProofs::Under WaitProofs::after(std::size_t at, Under before) const {
  const Inst& in = program_.code[at];
  if (is_wait(in)) {
    before.vm = std::min<int>(before.vm, in.mod.vmcnt);
    if (before.vm == 0) before.vm_into.reset(), before.memory = false, before.plain = true;
    // Scalar loads come back in any order: only a wait for all of them says which are over.
    if (in.mod.lgkmcnt == 0) {
      before.lgkm = 0, before.lgkm_into.reset(), before.lds_into.reset();
      before.lds_writes = before.any_order = false;
    } else if (!before.any_order) {
      before.lgkm = std::min<int>(before.lgkm, in.mod.lgkmcnt);
    }
    return before;
  }
  for (const bool reads : {true, false}) each_register(in, reads, [&](std::size_t r) { before.arrived(r); });
  if (counts_vm(in) || counts_lgkm(in)) before.issued(in, static_cast<std::int32_t>(at - first_));
  return before;
}

WaitProofs::WaitProofs(const Program& program, const KernelCode& kernel, std::size_t first, std::size_t last)
    : program_(program),
      one_wave_(kernel.one_wave()),
      in_order_(!kernel.abi.split_block),
      first_(first),
      last_(last),
      before_(last - first),
      entered_(last - first) {
  for (std::size_t i = first; i < last; ++i) {
    const auto target = static_cast<std::size_t>(program.code[i].target);
    if (program.code[i].target >= 0 && target >= first && target < last) entered_[target - first] = true;
  }
  std::vector<std::size_t> open;
  const auto reach = [&](std::size_t to, const Under& state) {
    if (to < first_ || to >= last_) return;
    if (before_[to - first_].join(state)) open.push_back(to);
  };
  Under nothing;
  nothing.vm = nothing.lgkm = 0;
  reach(first, nothing);
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    const Inst& in = program.code[at];
    const Under state = after(at, before_[at - first_]);
    if (!leaves(in)) reach(at + 1, state);
    if (in.target >= 0) reach(static_cast<std::size_t>(in.target), state);
  }
}

std::string WaitProofs::barrier_idle() const {
  return one_wave_ ? "a block is one wave" : "";
}

/// An atomic may be among what writes these registers.
bool WaitProofs::atomic_into(const Under& before, const Registers& registers) const {
  for (std::size_t r = 0; r < kRegisters; ++r) {
    if (!registers.test(r)) continue;
    const std::int32_t load = before.loader[r];
    if (load < 0 || program_.code[first_ + static_cast<std::size_t>(load)].cls == Class::vmem_atomic)
      return true;
  }
  return false;
}

std::string WaitProofs::idle(std::size_t at, bool vm, bool one_more) const {
  const Inst& in = program_.code[at];
  const Under& before = before_[at - first_];
  const int under_way = vm ? before.vm : before.lgkm, allowed = vm ? in.mod.vmcnt : in.mod.lgkmcnt;
  if (under_way < 0) return "no path leads here";
  if (under_way <= allowed) return "on every path all it waits for is over";
  Left left{vm ? before.vm_into : before.lgkm_into, vm && before.memory, !vm && before.lds(), before.plain};
  // In order, one more is the youngest of those that the wait is for, and no other.
  const bool youngest = (one_more || under_way == allowed + 1) && (vm || !before.any_order);
  if (const Inst* last = youngest ? issued_before(at, vm, allowed) : nullptr) {
    left = {{}, vm && changes_memory(*last), !vm, is_plain_store(*last)};
    each_register(*last, false, [&](std::size_t r) { left.into.set(r); });
  }
  if (vm && atomic_into(before, left.into)) left.memory = true, left.stores = false;
  left.stores &= left.memory && in_order_;
  return covered(at, vm, left) ? "on every path a later wait covers it before anything depends on it" : "";
}

/// The youngest operation before `at` but for `others`, if all of them are in its straight piece of program.
const Inst* WaitProofs::issued_before(std::size_t at, bool vm, int others) const {
  while (at > first_ && !entered_[at - first_]) {
    const Inst& in = program_.code[--at];
    if (in.target >= 0 || leaves(in) || is_flat(in) || (!vm && in.cls == Class::smem)) return nullptr;
    if ((vm ? counts_vm(in) : is_lds(in)) && others-- == 0) return &in;
  }
  return nullptr;
}

namespace {

bool calls(const Inst& in) {
  return in.text.starts_with("s_setpc") || in.text.starts_with("s_swappc");
}
/// A message to nobody. Which caches are written back or read anew is no matter of `stores` that nobody was
/// told of.
bool no_matter(const Inst& in, bool stores) {
  const auto is = [&](std::string_view name) { return in.text.starts_with(name); };
  return is("s_nop") || is("s_setprio") || is("s_sleep") ||
         (stores && (is("buffer_wbl2") || is("buffer_inv")));
}

}  // namespace

/// On every path from `at`, a wait that leaves no more of these operations under way comes before the first
/// instruction that could tell whether they are over.
bool WaitProofs::Left::told_by(const Inst& in, bool one_wave) const {
  bool touches = false;
  for (const bool reads : {true, false})
    each_register(in, reads, [&](std::size_t r) { touches |= into.test(r); });
  if (touches || calls(in) || (in.cls == Class::message && !no_matter(in, stores))) return true;
  const bool meets = in.cls == Class::barrier && !one_wave;
  // Memory and LDS are what other waves, and this one's other counter, see.
  if (stores) return publishes(in) || in.cls == Class::smem;
  if (memory)
    return meets || is_lds(in) || in.cls == Class::end || is_flat(in) || in.cls == Class::vmem_atomic ||
           in.cls == Class::smem || in.cls == Class::vmem_load;
  return lds && (meets || in.cls == Class::dma || is_flat(in));
}

namespace {

/// `in` leaves no more under way than `wait` did, `issued` operations ago.
bool waits_enough(const Inst& in, const Inst& wait, bool vm, int issued) {
  if (vm) return in.mod.vmcnt <= wait.mod.vmcnt + issued;
  return in.mod.lgkmcnt == 0 || in.mod.lgkmcnt <= wait.mod.lgkmcnt + issued;
}

}  // namespace

/// On some path from `at` other blocks are told of what was stored before there is a barrier. The block's other
/// waves may be ahead of this one by as much.
bool WaitProofs::publishes_before_barrier(std::size_t at) const {
  if (one_wave_) return false;
  std::vector<bool> seen(last_ - first_);
  std::vector<std::size_t> open{at};
  while (!open.empty()) {
    const std::size_t i = open.back();
    open.pop_back();
    if (i < first_ || i >= last_) return true;
    if (seen[i - first_]) continue;
    seen[i - first_] = true;
    const Inst& in = program_.code[i];
    if (publishes(in) || calls(in)) return true;
    if (in.cls == Class::barrier || in.cls == Class::end) continue;
    if (!leaves(in)) open.push_back(i + 1);
    if (in.target >= 0) open.push_back(static_cast<std::size_t>(in.target));
  }
  return false;
}

bool WaitProofs::covered(std::size_t at, bool vm, const Left& left) const {
  const Inst& wait = program_.code[at];
  // Loads return in order, and LDS operations among themselves: a wait covers them that leaves no more than
  // `wait` did and what came since. Fewest such operations on a way to an instruction; far below none where
  // some of lgkmcnt may overtake others, and only a wait for all tells.
  const int start = !vm && before_[at - first_].any_order ? -kMost : 0;
  std::map<std::size_t, int> fewest;
  std::vector<std::pair<std::size_t, int>> open{{at + 1, start}};
  while (!open.empty()) {
    auto [i, issued] = open.back();
    open.pop_back();
    if (i < first_ || i >= last_) return false;
    const auto [known, fresh] = fewest.try_emplace(i, issued);
    if (!fresh && known->second <= issued) continue;
    known->second = issued;
    const Inst& in = program_.code[i];
    if (is_wait(in) && waits_enough(in, wait, vm, issued)) {
      if (left.stores && publishes_before_barrier(i + 1)) return false;
      continue;
    }
    if (left.told_by(in, one_wave_)) return false;
    if (!vm && counts_lgkm(in) && !is_lds(in)) issued = -kMost;
    issued = std::min(issued + ((vm ? counts_vm(in) : is_lds(in)) ? 1 : 0), issued < 0 ? -kMost : kMost);
    if (!leaves(in)) open.emplace_back(i + 1, issued);
    if (in.target >= 0) open.emplace_back(static_cast<std::size_t>(in.target), issued);
  }
  return true;
}

}  // namespace kiln::emulator::amdgcn
