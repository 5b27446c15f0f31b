// Memory operations under way: queues behind vmcnt and lgkmcnt, completion by policy, what a wait guarantees,
// and registers that an operation still owns.
#include <algorithm>

#include "emulator/amdgcn/load/module.hpp"
#include "emulator/amdgcn/machine/machine.hpp"
#include "emulator/machine/trace.hpp"

namespace kiln::emulator::amdgcn {
namespace {

bool is_scalar(const Pending& op) {
  return op.inst->cls == Class::smem || (op.vm && op.lgkm);
}

}  // namespace

Pending& Wave::issue(const Inst& in) {
  Pending* op;
  if (free_ops.empty()) {
    pool.push_back(std::make_unique<Pending>());
    op = pool.back().get();
  } else {
    op = free_ops.back();
    free_ops.pop_back();
  }
  op->inst = &in;
  op->done = op->vm = op->lgkm = op->lds_lanes = op->lds_write = op->global_write = false;
  op->exec = exec();
  op->zero = 0;
  op->partial = 0;
  op->dst = {};
  op->sequence = ++issued;
  op->clock = clocks();
  return *op;
}

void Wave::enqueue(Pending& op) {
  if (op.vm) vm.push_back(&op);
  if (op.lgkm) lgkm.push_back(&op);
  for (int r = op.dst.first; r < op.dst.first + op.dst.count; ++r) {
    if (op.vm) ++busy_vm[r];
    if (op.lgkm) ++busy_lgkm[r];
  }
  // Everything before it in its queue goes first, so eager completion is in order.
  if (grid.launch.policy == Policy::eager) finish_op(op);
}

void Wave::finish_op(Pending& op) {
  if (op.done) return;
  op.done = true;
  op.inst->complete(*this, op);
}

/// Releases an operation from one counter; true when no counter holds it any more.
static bool release(Wave& w, Pending& op, bool from_vm) {
  (from_vm ? op.vm : op.lgkm) = false;
  auto& busy = from_vm ? w.busy_vm : w.busy_lgkm;
  for (int r = op.dst.first; r < op.dst.first + op.dst.count; ++r) --busy[r];
  return !op.vm && !op.lgkm;
}

void Wave::wait(int vmcnt, int lgkmcnt) {
  bool wrote = false;
  while (static_cast<int>(vm.size()) > vmcnt) {
    Pending& op = *vm.front();
    finish_op(op);
    vm.pop_front();
    wrote |= op.global_write;
    if (release(*this, op, true)) free_ops.push_back(&op);
  }
  if (wrote) ++clock.epoch;  // what comes now is not among what is over
  // Scalar loads (and flat accesses, which count on both) return in any order: none is sure to be over before
  // the count is 0, and an LDS operation only when even all of them cannot make up the count.
  const auto unordered =
      static_cast<int>(std::ranges::count_if(lgkm, [](const Pending* p) { return is_scalar(*p); }));
  int sure =
      lgkmcnt == 0 ? static_cast<int>(lgkm.size()) : static_cast<int>(lgkm.size()) - unordered - lgkmcnt;
  if (sure <= 0) {
    return;
  }
  for (auto it = lgkm.begin(); it != lgkm.end() && sure > 0;) {
    Pending& op = **it;
    if (lgkmcnt != 0 && is_scalar(op)) {
      ++it;
      continue;
    }
    finish_op(op);
    it = lgkm.erase(it);
    if (release(*this, op, false)) free_ops.push_back(&op);
    --sure;
  }
}

void Wave::trace_wait(int vmcnt, int lgkmcnt) const {
  Trace* const trace = traced(wg.id);
  if (trace == nullptr) return;
  const auto note = [&](const std::deque<Pending*>& queue, int keep, std::uint32_t counter) {
    if (static_cast<int>(queue.size()) <= keep) return;
    const Pending& youngest = *queue[queue.size() - 1 - static_cast<std::size_t>(keep)];
    TraceEvent event;
    event.what = TraceEvent::What::memory_wait;
    event.warp = index;
    event.line = grid.program.code[static_cast<std::size_t>(pc - 1)].source_line;
    event.instructions = clocks();
    event.id = counter;
    event.phase = youngest.clock;
    event.count = youngest.vm ? 0 : youngest.lds_lanes ? 1 : is_scalar(youngest) ? 2 : 1;
    trace->add(event);
  };
  note(vm, vmcnt, 0);
  note(lgkm, lgkmcnt, 1);
}

void Wave::trace_barrier(bool passed) const {
  Trace* const trace = traced(wg.id);
  if (trace == nullptr) return;
  TraceEvent event;
  event.what = passed ? TraceEvent::What::bar_wait : TraceEvent::What::bar_arrive;
  event.warp = index;
  event.line = grid.program.code[static_cast<std::size_t>(pc - 1)].source_line;
  event.instructions = clocks();
  event.phase = passed ? barriers : barriers + 1;
  trace->add(event);
}

void Wave::drain() {
  wait(0, 0);
}

void Wave::complete_some() {
  const std::uint64_t dice = random();
  if (!vm.empty() && (dice & 7) == 0) {
    for (Pending* op : vm) {
      if (op->done) continue;
      finish_op(*op);
      break;
    }
  }
  if (!lgkm.empty() && (dice >> 8 & 7) == 0) {
    // In order among the LDS operations; scalar ones at random.
    for (Pending* op : lgkm) {
      if (op->done || (is_scalar(*op) && (dice >> 16 & 1))) continue;
      if (!op->vm) finish_op(*op);
      break;
    }
  }
}

void Wave::perform_accesses() {
  for (Pending* op : vm) {
    // What reaches LDS, too, has an order of its own there.
    if (op->inst->cls != Class::dma && !op->lgkm) finish_op(*op);
  }
}

namespace {

/// "v17", "s4", "a0"
std::string register_name(int reg) {
  const int vector = reg - kScalarRegisters;
  const char kind = vector < 0 ? 's' : vector < kAccBase ? 'v' : 'a';
  return std::string(1, kind) + std::to_string(vector < 0 ? reg : vector % kAccBase);
}

}  // namespace

void Wave::report_under_way(const Inst& in, int reg, const char* what) {
  const Pending* owner = nullptr;
  for (const auto* queue : {&vm, &lgkm}) {
    for (const Pending* op : *queue) {
      if (owner == nullptr && reg >= op->dst.first && reg < op->dst.first + op->dst.count) owner = op;
    }
  }
  const bool read = std::string_view(what) == "register-not-waited";
  report(what, in, -1,
         register_name(reg) + (read ? " is read" : " is overwritten") + " before a wait for " +
             (busy_vm[reg] ? "vmcnt" : "lgkmcnt") + " covers the load that writes it",
         owner == nullptr ? nullptr : owner->inst, index);
}

void Wave::check_hazards(const Inst& in) {
  const auto first_of = [](const RegRange& range, auto&& test) {
    for (int r = range.first; r < range.first + range.count; ++r) {
      if (test(r)) return r;
    }
    return -1;
  };
  for (int i = 0; i < in.read_count; ++i) {
    const int reg = first_of(in.reads[i], [&](int r) {
      // d16 loads merge with what earlier loads of the same kind bring, in order.
      const bool merges = in.writes[0].count != 0 && in.writes[0].first == r && i == 0 &&
                          in.complete != nullptr && in.cls != Class::vmem_atomic;
      return (busy_vm[r] | busy_lgkm[r]) && !merges;
    });
    if (reg >= 0) report_under_way(in, reg, "register-not-waited");
  }
  // Loads of one kind return in order, so a later one may overwrite an earlier one's registers.
  const bool vm_load = in.complete != nullptr && (in.cls == Class::vmem_load || in.cls == Class::vmem_atomic);
  const bool lds_load = in.complete != nullptr && (in.cls == Class::lds_read || in.cls == Class::lds_atomic ||
                                                   in.cls == Class::lds_permute);
  for (int i = 0; i < in.write_count; ++i) {
    const int reg = first_of(in.writes[i],
                             [&](int r) { return (busy_vm[r] && !vm_load) || (busy_lgkm[r] && !lds_load); });
    if (reg >= 0) report_under_way(in, reg, "register-overwritten");
  }
}

}  // namespace kiln::emulator::amdgcn
