// Branches, calls, exits, and the instructions by which lanes of a warp talk: shfl, vote, match, redux,
// elect.
#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decoder.hpp"
#include "emulator/ptx/each_lane.hpp"

namespace kiln::emulator::ptx {

bool converge(Warp& w, const Op& op, std::uint32_t members) {
  (void)op;
  if ((members & w.live & ~w.active) == 0) return true;
  Wait t;
  t.kind = WaitKind::converge;
  t.id = members;
  w.block_on(t);
  return false;
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

void grow_local(Warp& w, std::uint32_t bytes) {
  if (bytes <= w.local_bytes) return;
  std::vector<std::uint8_t> data(std::size_t{32} * bytes, kPoison),
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

void copy_local(Warp& w, int lane, std::uint32_t to, std::uint32_t from, std::uint32_t bytes) {
  const std::size_t base = static_cast<std::size_t>(lane) * w.local_bytes;
  std::memmove(w.local.data() + base + to, w.local.data() + base + from, bytes);
  std::memmove(w.local_shadow.data() + base + to, w.local_shadow.data() + base + from, bytes);
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
  std::uint32_t top = w.frame->window_end;
  for (const Group& g : w.others) top = std::max(top, g.frame->window_end);
  frame->window = top;
  frame->window_end = top + f.register_bytes;
  frame->state = w.frame->state_end;
  for (const Group& g : w.others) frame->state = std::max(frame->state, g.frame->state_end);
  frame->state_end = frame->state + f.state_count;
  frame->local = w.frame->local + site.caller_local;
  for (const Group& g : w.others)
    frame->local = std::max(frame->local, g.frame->local + p.functions[g.frame->function].local_bytes);
  if (frame->depth > 1000 || frame->local + f.local_bytes > (1u << 19))
    throw Error("stack overflow", p.sources[op.source].in->line);
  if (w.registers.size() < frame->window_end + 64u) {
    w.registers.resize(frame->window_end * 2u + 64u, 0);
  }
  if (w.owned.size() < frame->state_end) {
    w.owned.resize(frame->state_end * 2u, 0);
    if (!w.state.empty()) w.state.resize(frame->state_end * 2u);
  }
  // The callee's registers start unknown, whoever used the place before.
  if (!w.state.empty())
    std::fill(w.state.begin() + frame->state, w.state.begin() + frame->state_end, RegisterState{});
  grow_local(w, frame->local + f.local_bytes);
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
void decode_call(Decoder& d) {
  CallSite site;
  std::size_t i = 0;
  const auto offsets = [&](const Operand& list) {
    std::vector<std::uint32_t> out;
    for (const Operand& o : list.items) {
      if (o.kind != Operand::Kind::symbol || d.module.variables[o.id].space != Space::param)
        d.fail("expected .param variables in");
      out.push_back(d.local_offset(o.id));
    }
    return out;
  };
  if (d.operand(0).kind == Operand::Kind::list) site.returns = offsets(d.operand(i++));
  const Operand& target = d.operand(i++);
  Ref indirect = kNoRef;
  site.function = kNoRef;
  if (target.kind == Operand::Kind::function)
    site.function = target.id;
  else if (target.kind == Operand::Kind::reg)
    indirect = d.src(target, 8);
  else
    d.fail("expected a function in");
  if (i < d.operands() && d.operand(i).kind == Operand::Kind::list) site.args = offsets(d.operand(i++));
  if (site.function != kNoRef && !d.module.functions[site.function].defined) {
    const std::string& name = d.module.functions[site.function].name;
    if (name == "vprintf" && site.args.size() == 2) {
      Op& op = d.emit(run_vprintf, Kind::other);
      op.a = site.args[0];
      op.b = site.args[1];
      op.c = site.returns.empty() ? kNoRef : site.returns[0];
      return;
    }
    if (name == "__assertfail") {
      d.emit(run_trap, Kind::control);
      return;
    }
    d.fail("call of undefined function '" + name + "' in");
  }
  // The caller's frame: parameters and locals of this function.
  const int self = static_cast<int>(d.fn - d.module.functions.data());
  site.caller_local = d.program.functions[static_cast<std::size_t>(self)].local_bytes;
  Op& op = d.emit(run_call, Kind::control);
  op.a = indirect;
  op.aux = d.own(site);
}

// --- lanes of a warp ---
std::uint32_t members_of(Warp& w, const Op& op, Ref mask) {
  return static_cast<std::uint32_t>(w.value(mask, 4, std::countr_zero(w.exec)) | 0u * op.flags);
}

void run_shfl(Warp& w, const Op& op) {
  const std::uint32_t members = op.dsize != 0 ? members_of(w, op, op.target) : w.exec;
  if (op.dsize != 0 && !converge(w, op, members)) return;
  std::uint32_t value[32], result[32], valid = 0;
  std::memcpy(value, w.in<std::uint32_t>(op.a), sizeof value);
  each_lane(w, [&](int l) {
    const auto b = static_cast<int>(w.value(op.b, 4, l) & 31), c = static_cast<int>(w.value(op.c, 4, l));
    const int clamp = c & 31, seg = (c >> 8) & 31;
    const int top = (l & seg) | (clamp & ~seg), low = l & seg;
    int j = 0;
    bool p = false;
    switch (op.flags) {
      case 0:
        j = l - b;
        p = j >= top;
        break;  // up
      case 1:
        j = l + b;
        p = j <= top;
        break;  // down
      case 2:
        j = l ^ b;
        p = j <= top;
        break;  // bfly
      default:
        j = low | (b & ~seg);
        p = j <= top;
        break;  // idx
    }
    if (!p) j = l;
    result[l] = value[j & 31];
    valid |= p ? 1u << l : 0;
  });
  std::uint32_t* d = w.out<std::uint32_t>(op.d);
  each_lane(w, [&](int l) { d[l] = result[l]; });
  if (op.e != kNoRef) {
    std::uint32_t& e = *w.out<std::uint32_t>(op.e);
    e = (e & ~w.exec) | (valid & w.exec);
  }
}
void decode_shfl(Decoder& d) {
  const int mode = d.which({"up", "down", "bfly", "idx"});
  if (mode < 0) d.unsupported();
  const Operand& out = d.operand(0);
  const Ref r = d.dst(out, out.kind == Operand::Kind::sink ? 0 : 4),
            e = out.items.empty() ? kNoRef
                                  : d.dst(out.items[0], out.items[0].kind == Operand::Kind::sink ? 0 : 3);
  const Ref a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4), c = d.src(d.operand(3), 4);
  const Ref members = d.has("sync") ? d.src(d.operand(4), 4) : kNoRef;
  Op& op = d.emit(run_shfl, Kind::shuffle);
  op.use = Use::known;
  op.d = r, op.e = e, op.a = a, op.b = b, op.c = c, op.target = members,
  op.flags = static_cast<std::uint16_t>(mode);
  op.dsize = d.has("sync") ? 4 : 0;
}

void run_vote(Warp& w, const Op& op) {
  const std::uint32_t members = op.b == kNoRef ? w.exec : members_of(w, op, op.b);
  if (op.b != kNoRef && !converge(w, op, members)) return;
  std::uint32_t p = *w.in<std::uint32_t>(op.a);
  if (op.imm != 0) p = ~p;
  const std::uint32_t group = members & w.exec, yes = p & group;
  bool r = false;
  switch (op.flags) {
    case 0:
      r = yes == group;
      break;
    case 1:
      r = yes != 0;
      break;
    case 2:
      r = yes == 0 || yes == group;
      break;
    default:
      each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = yes; });
      return;
  }
  std::uint32_t& d = *w.out<std::uint32_t>(op.d);
  d = (d & ~w.exec) | (r ? w.exec : 0);
}
void decode_vote(Decoder& d) {
  const int mode = d.which({"all", "any", "uni", "ballot"});
  if (mode < 0) d.unsupported();
  Operand p = d.operand(1);
  const bool negated = p.negated;
  p.negated = false;
  const Ref r = d.dst(d.operand(0), mode == 3 ? 4 : 3), a = d.src(p, 3),
            m = d.has("sync") ? d.src(d.operand(2), 4) : kNoRef;
  Op& op = d.emit(run_vote, Kind::shuffle);
  op.d = r, op.a = a, op.b = m, op.flags = static_cast<std::uint16_t>(mode), op.imm = negated;
}
void run_match(Warp& w, const Op& op) {
  const std::uint32_t members = members_of(w, op, op.b);
  if (!converge(w, op, members)) return;
  const std::uint32_t group = members & w.exec;
  std::uint32_t result[32] = {}, all = 0;
  each_lane(w, [&](int l) {
    for (std::uint32_t m = group; m != 0; m &= m - 1)
      if (w.value(op.a, op.asize, std::countr_zero(m)) == w.value(op.a, op.asize, l))
        result[l] |= m & (~m + 1);
    if (result[l] == group)
      all |= 1u << l;
    else if (op.flags != 0)
      result[l] = 0;
  });
  each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = result[l]; });
  if (op.e != kNoRef) {
    std::uint32_t& e = *w.out<std::uint32_t>(op.e);
    e = (e & ~w.exec) | (all & w.exec);
  }
}
void decode_match(Decoder& d) {
  const int size = size_of(d.type());
  const Operand& out = d.operand(0);
  const Ref r = d.dst(out, 4), e = out.items.empty() ? kNoRef : d.dst(out.items[0], 3),
            a = d.src(d.operand(1), size), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_match, Kind::shuffle);
  op.d = r, op.e = e, op.a = a, op.b = b, op.asize = static_cast<std::uint8_t>(size), op.flags = d.has("all");
}
void run_redux(Warp& w, const Op& op) {
  const std::uint32_t members = members_of(w, op, op.b);
  if (!converge(w, op, members)) return;
  const std::uint32_t group = members & w.exec;
  bool first = true;
  std::uint32_t r = 0;
  for (std::uint32_t m = group; m != 0; m &= m - 1) {
    const std::uint32_t v = w.in<std::uint32_t>(op.a)[std::countr_zero(m)];
    const auto sv = static_cast<std::int32_t>(v), sr = static_cast<std::int32_t>(r);
    if (first)
      r = v;
    else
      switch (op.flags) {
        case 0:
          r += v;
          break;
        case 1:
          r = op.imm ? static_cast<std::uint32_t>(std::min(sr, sv)) : std::min(r, v);
          break;
        case 2:
          r = op.imm ? static_cast<std::uint32_t>(std::max(sr, sv)) : std::max(r, v);
          break;
        case 3:
          r &= v;
          break;
        case 4:
          r |= v;
          break;
        default:
          r ^= v;
          break;
      }
    first = false;
  }
  each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = r; });
}
void decode_redux(Decoder& d) {
  const int mode = d.which({"add", "min", "max", "and", "or", "xor"});
  if (mode < 0 || size_of(d.type()) != 4 || d.type() == Type::f32) d.unsupported();
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_redux, Kind::shuffle);
  op.d = r, op.a = a, op.b = b, op.flags = static_cast<std::uint16_t>(mode), op.imm = d.type() == Type::s32;
}
void run_activemask(Warp& w, const Op& op) {
  const std::uint32_t mask = w.exec;
  each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = mask; });
}
void decode_activemask(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4);
  d.emit(run_activemask, Kind::shuffle).d = r;
}
void run_elect(Warp& w, const Op& op) {
  const std::uint32_t members = members_of(w, op, op.a);
  if (!converge(w, op, members)) return;
  const int leader = std::countr_zero(members & w.exec);
  if (op.d != kNoRef)
    each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = static_cast<std::uint32_t>(leader); });
  std::uint32_t& e = *w.out<std::uint32_t>(op.e);
  e = (e & ~w.exec) | (leader < 32 ? 1u << leader : 0);
}
void decode_elect(Decoder& d) {
  const Operand& out = d.operand(0);
  if (out.items.empty()) d.fail("expected a predicate in");
  const Ref r = d.dst(out, out.kind == Operand::Kind::sink ? 0 : 4), e = d.dst(out.items[0], 3),
            a = d.src(d.operand(1), 4);
  Op& op = d.emit(run_elect, Kind::shuffle);
  op.d = r, op.e = e, op.a = a;
}

}  // namespace

std::vector<DecodeEntry> control_table() {
  return {{"bra", decode_bra},     {"brx", decode_brx},     {"ret", decode_ret},
          {"exit", decode_exit},   {"trap", decode_trap},   {"brkpt", decode_trap},
          {"call", decode_call},   {"shfl", decode_shfl},   {"vote", decode_vote},
          {"match", decode_match}, {"redux", decode_redux}, {"activemask", decode_activemask},
          {"elect", decode_elect}};
}

}  // namespace kiln::emulator::ptx
