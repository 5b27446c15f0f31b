// Branches, calls, exits.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/assert.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/ptx/heap.hpp"

namespace kiln::emulator::ptx {

void grow_local(Warp& w, std::uint32_t bytes) {
  if (bytes <= w.local_bytes) return;
  RecycledVector<std::uint8_t> data(std::size_t{32} * bytes, kPoison),
      shadow(std::size_t{32} * bytes, kAllocated);
  for (std::size_t l = 0; l < 32; ++l) {
    std::copy_n(w.local.begin() + static_cast<std::ptrdiff_t>(l * w.local_bytes), w.local_bytes,
                data.begin() + static_cast<std::ptrdiff_t>(l * bytes));
    std::copy_n(w.local_shadow.begin() + static_cast<std::ptrdiff_t>(l * w.local_bytes), w.local_bytes,
                shadow.begin() + static_cast<std::ptrdiff_t>(l * bytes));
  }
  w.local = std::move(data);
  w.local_shadow = std::move(shadow);
  w.local_bytes = bytes;
}

namespace {

using u64 = std::uint64_t;

void run_bra(Warp& w, const Op& op) {
  const std::uint32_t taken = w.exec, stay = w.active & ~taken;
  if (stay == 0) {
    w.pc = op.target;
    // A jump forward may pass a group that waits in between: only lower ones matter, so look at the place
    // reached.
    if (!w.others.empty()) {
      w.stop_pc = 0xffffffffu;
      for (const Group& o : w.others)
        if (o.frame == w.frame) {
          if (o.pc >= w.pc)
            w.stop_pc = std::min(w.stop_pc, o.pc);
          else if (o.wait.kind == WaitKind::none)
            w.stop_pc = 0;
        }
    }
    return;
  }
  w.others.push_back({op.target, taken, w.frame, {}, false, false});
  w.others.push_back({w.pc, stay, w.frame, {}, false, false});
  w.active = 0;
  w.stop = true;
}
void decode_bra(Decoder& d) {
  const Operand& o = d.operand(0);
  if (o.kind != Operand::Kind::label) d.fail("expected a label in");
  Op& op = d.emit(run_bra, Kind::control);
  op.target = o.id;
  op.flags = 0x8000;  // patched to an op index when the function is complete
}

struct BranchTable {
  std::vector<std::uint32_t> targets;
};
void run_brx(Warp& w, const Op& op) {
  const auto& t = *static_cast<const BranchTable*>(op.aux);
  const std::uint32_t stay = w.active & ~w.exec;
  for (std::uint32_t m = w.exec; m != 0;) {
    const u64 index = w.value(op.a, 4, std::countr_zero(m));
    std::uint32_t same = 0;
    for (std::uint32_t k = m; k != 0; k &= k - 1)
      if (w.value(op.a, 4, std::countr_zero(k)) == index) same |= k & (~k + 1);
    m &= ~same;
    if (index >= t.targets.size()) {
      report(w, op, std::countr_zero(same), "out-of-bounds",
             "branch index " + std::to_string(index) + " of a table of " + std::to_string(t.targets.size()));
      abort_cluster(*w.block->cluster);
      return;
    }
    w.others.push_back({t.targets[index], same, w.frame, {}, false, false});
  }
  if (stay != 0) w.others.push_back({w.pc, stay, w.frame, {}, false, false});
  w.active = 0;
  w.stop = true;
}
void decode_brx(Decoder& d) {
  const Operand& table = d.operand(1);
  if (table.kind != Operand::Kind::table || table.id >= d.fn->tables.size())
    d.fail("expected a branch table in");
  const Ref a = d.src(d.operand(0), 4);
  Op& op = d.emit(run_brx, Kind::control);
  op.a = a;
  op.aux = d.own(BranchTable{d.fn->tables[table.id]});
  d.pending_tables.push_back(
      const_cast<std::vector<std::uint32_t>*>(&static_cast<const BranchTable*>(op.aux)->targets));
}

// --- calls ---
struct CallSite {
  std::uint32_t function = 0;                ///< kNoRef: indirect
  std::vector<std::uint32_t> args, returns;  ///< frame offsets in the caller
  std::uint32_t caller_local = 0, caller_registers = 0;
};

void copy_local(Warp& w, int lane, std::uint32_t to, std::uint32_t from, std::uint32_t bytes) {
  const std::size_t base = static_cast<std::size_t>(lane) * w.local_bytes;
  std::memmove(w.local.data() + base + to, w.local.data() + base + from, bytes);
  std::memmove(w.local_shadow.data() + base + to, w.local_shadow.data() + base + from, bytes);
}

/// Registers that a frame has; or their states.
struct Extent {
  std::uint32_t begin, end;
};
/// The lowest place for `size` that meets none of `taken`.
std::uint32_t first_fit(std::vector<Extent>& taken, std::uint32_t size) {
  std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint32_t at = 0;
  for (const Extent& e : taken) {
    if (at + size <= e.begin) break;
    at = std::max(at, e.end);
  }
  return at;
}

/// Rows of registers are all lanes' together, with a layout of the function's: the frame lies beside those of its
/// callers and of other lanes. Above them all would not do: lanes that call in turn would climb over each other.
void place_registers(const Warp& w, const FunctionInfo& f, Frame& frame) {
  std::vector<Extent> rows, states;
  const auto take = [&](const Frame* other) {
    for (; other != nullptr; other = other->parent.get()) {
      rows.push_back({other->window, other->window_end});
      states.push_back({other->state, other->state_end});
    }
  };
  take(w.frame.get());
  for (const Group& g : w.others)
    if (g.frame != w.frame && g.frame != w.frame->parent) take(g.frame.get());
  frame.window = first_fit(rows, f.register_bytes);
  frame.window_end = frame.window + f.register_bytes;
  frame.state = first_fit(states, f.state_count);
  frame.state_end = frame.state + f.state_count;
}

void call(Warp& w, const Op& op, const CallSite& site, std::uint32_t function, std::uint32_t mask) {
  const Program& p = *w.block->cluster->program;
  if (function >= p.functions.size() || p.functions[function].entry == kNoRef)
    throw Error("call of an undefined function", p.sources[op.source].in->line);
  const FunctionInfo& f = p.functions[function];
  auto frame = std::make_shared<Frame>();
  frame->parent = w.frame;
  frame->return_pc = w.pc;
  frame->depth = w.frame->depth + 1;
  frame->function = function;
  place_registers(w, f, *frame);
  // Local memory is each lane's own: frames of other lanes are not in the way.
  frame->local = w.frame->local + site.caller_local;
  for (std::uint32_t k = mask; k != 0; k &= k - 1)
    frame->local =
        std::max(frame->local, (w.stack[static_cast<std::size_t>(std::countr_zero(k))] + 15u) & ~15u);
  if (frame->depth > 1000 || frame->local + f.local_bytes > kMaxLocalBytes)
    throw Error("stack overflow", p.sources[op.source].in->line);
  if (w.registers.size() < frame->window_end + 64u) {
    w.registers.resize(frame->window_end * 2u + 64u, 0);
  }
  if (w.owned.size() < frame->state_end) {
    w.owned.resize(std::size_t{frame->state_end} * 2, 0);
    if (!w.state.empty()) w.state.resize(std::size_t{frame->state_end} * 2);
  }
  // The callee's registers start unknown, whoever used the place before.
  if (!w.state.empty())
    std::fill(w.state.begin() + frame->state, w.state.begin() + frame->state_end, RegisterState{});
  grow_local(w, frame->local + f.local_bytes);
  // Its locals are as unwritten as its registers.
  if (!w.state.empty() && f.local_bytes != 0)
    for (std::uint32_t k = mask; k != 0; k &= k - 1)
      std::fill_n(w.local_shadow.begin() +
                      static_cast<std::ptrdiff_t>(
                          static_cast<std::size_t>(std::countr_zero(k)) * w.local_bytes + frame->local),
                  f.local_bytes, std::uint8_t{kAllocated});
  frame->site = &site;
  for (std::size_t i = 0; i < f.params.size() && i < site.args.size(); ++i)
    for (std::uint32_t k = mask; k != 0; k &= k - 1)
      copy_local(w, std::countr_zero(k), frame->local + f.params[i].offset, w.frame->local + site.args[i],
                 f.params[i].bytes);
  w.others.push_back({f.entry, mask, std::move(frame), {}, false, false});
}

void run_exit(Warp& w, const Op&) {
  exit_lanes(w, w.exec);
}
void run_ret(Warp& w, const Op& op) {
  if (w.frame->parent == nullptr) return run_exit(w, op);
  const auto& site = *static_cast<const CallSite*>(w.frame->site);
  const FunctionInfo& f = w.block->cluster->program->functions[w.frame->function];
  for (std::size_t i = 0; i < f.returns.size() && i < site.returns.size(); ++i)
    for (std::uint32_t k = w.exec; k != 0; k &= k - 1)
      copy_local(w, std::countr_zero(k), w.frame->parent->local + site.returns[i],
                 w.frame->local + f.returns[i].offset, f.returns[i].bytes);
  for (std::uint32_t k = w.exec; k != 0; k &= k - 1) {
    std::uint32_t& stack = w.stack[static_cast<std::size_t>(std::countr_zero(k))];
    stack = std::min(stack, w.frame->local);
  }
  const std::uint32_t stay = w.active & ~w.exec;
  w.others.push_back({w.frame->return_pc, w.exec, w.frame->parent, {}, false, false});
  if (stay != 0) w.others.push_back({w.pc, stay, w.frame, {}, false, false});
  w.active = 0;
  w.stop = true;
}
void run_trap(Warp& w, const Op& op) {
  report(w, op, std::countr_zero(w.exec), "trap", "the kernel executed trap");
  abort_cluster(*w.block->cluster);
}
void decode_ret(Decoder& d) {
  for (const RegisterParameter& r : d.fn->register_returns)
    d.frame_access(false, r.id, d.local_offset(r.variable));
  d.touched = !d.fn->register_returns.empty();
  d.emit(run_ret, Kind::control);
}
void decode_exit(Decoder& d) {
  d.emit(run_exit, Kind::control);
}
void decode_trap(Decoder& d) {
  d.emit(run_trap, Kind::control);
}

void run_call(Warp& w, const Op& op) {
  const auto& site = *static_cast<const CallSite*>(op.aux);
  const std::uint32_t stay = w.active & ~w.exec;
  std::uint32_t m = w.exec;
  while (m != 0) {
    std::uint32_t function = site.function, same = m;
    if (function == kNoRef) {
      const u64 target = w.value(op.a, 8, std::countr_zero(m));
      function = static_cast<std::uint32_t>(target - 1);
      same = 0;
      for (std::uint32_t k = m; k != 0; k &= k - 1)
        if (w.value(op.a, 8, std::countr_zero(k)) == target) same |= k & (~k + 1);
    }
    m &= ~same;
    call(w, op, site, function, same);
  }
  if (stay != 0) w.others.push_back({w.pc, stay, w.frame, {}, false, false});
  w.active = 0;
  w.stop = true;
}
/// Frame offsets of what a call passes or gets: .param variables, or slots for registers and constants. The slots of
/// arguments are filled here.
struct CallValues {
  std::vector<std::uint32_t> offsets;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> registers;  ///< register, its slot
};
CallValues call_values(Decoder& d, const Operand& list, std::size_t first, bool returns) {
  CallValues v;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Operand& o = list.items[i];
    const std::uint32_t slot = d.call_slot(first + i);
    const bool symbol = o.kind == Operand::Kind::symbol && d.module.variables[o.id].space == Space::param;
    v.offsets.push_back(symbol ? d.local_offset(o.id) : slot);
    if (symbol || o.kind == Operand::Kind::sink) continue;
    d.touched = true;
    if (o.kind == Operand::Kind::reg) {
      if (returns)
        v.registers.emplace_back(o.id, slot);
      else
        d.frame_access(false, o.id, slot);
    } else if (returns) {
      d.fail("expected a register or .param variable in");
    } else {
      emit_frame_access(d, false, d.src(o, o.kind == Operand::Kind::f32 ? 4 : 8),
                        o.kind == Operand::Kind::f32 ? 4 : 8, slot);
    }
  }
  return v;
}

/// printf, assert and the like, which the driver supplies.
void decode_system_call(Decoder& d, const std::string& name, const CallSite& site) {
  if (name == "vprintf" && site.args.size() == 2) {
    Op& op = d.emit(run_vprintf, Kind::other);
    op.a = site.args[0];
    op.b = site.args[1];
    op.c = site.returns.empty() ? kNoRef : site.returns[0];
  } else if (name == "__assertfail" && site.args.size() >= 3) {
    Op& op = d.emit(run_assertfail, Kind::control);
    op.a = site.args[0];
    op.b = site.args[1];
    op.c = site.args[2];
  } else if (decode_heap_call(d, name, site.args, site.returns)) {
    return;
  } else if (name.starts_with("__cudaCDP") || name.starts_with("cudaLaunchDevice") ||
             name.starts_with("cudaGetParameterBuffer")) {
    d.fail("kernels do not launch kernels (dynamic parallelism) on the emulated device: '" + name + "' in");
  } else {
    d.fail("call of undefined function '" + name + "' in");
  }
}

void decode_call(Decoder& d) {
  CallSite site;
  std::size_t i = 0;
  CallValues returns, args;
  if (d.operand(0).kind == Operand::Kind::list) returns = call_values(d, d.operand(i++), 0, true);
  const Operand& target = d.operand(i++);
  Ref indirect = kNoRef;
  site.function = kNoRef;
  if (target.kind == Operand::Kind::function)
    site.function = d.resolve(target.id);
  else if (target.kind == Operand::Kind::reg)
    indirect = d.src(target, 8);
  else
    d.fail("expected a function in");
  if (i < d.operands() && d.operand(i).kind == Operand::Kind::list)
    args = call_values(d, d.operand(i++), returns.offsets.size(), false);
  site.args = args.offsets;
  site.returns = returns.offsets;
  if (site.function != kNoRef && !d.module.functions[site.function].defined)
    return decode_system_call(d, d.module.functions[site.function].name, site);
  // The caller's frame: parameters and locals of this function.
  const auto self = static_cast<std::size_t>(d.fn - d.module.functions.data());
  site.caller_local = d.program.functions[self].local_bytes;
  Op& op = d.emit(run_call, Kind::control);
  op.a = indirect;
  op.aux = d.own(site);
  d.touched |= !returns.registers.empty();
  if (indirect != kNoRef && d.touched) d.touch(target.id, false, true);
  for (const auto& [reg, slot] : returns.registers) d.frame_access(true, reg, slot);
}

}  // namespace

std::vector<DecodeEntry> control_table() {
  return {{"bra", decode_bra},   {"brx", decode_brx},    {"ret", decode_ret},  {"exit", decode_exit},
          {"trap", decode_trap}, {"brkpt", decode_trap}, {"call", decode_call}};
}

}  // namespace kiln::emulator::ptx
