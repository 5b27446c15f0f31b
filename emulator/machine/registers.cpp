#include "emulator/machine/registers.hpp"

#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/tcgen05/hooks.hpp"
#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {
namespace {

/// "%r17", as the program calls the register that `op` has there.
std::string name_of_state(const Warp& w, const Op& op, std::uint32_t state) {
  const Program& p = *w.block->cluster->program;
  const FunctionInfo& f = p.functions[w.frame->function];
  const auto number = static_cast<std::size_t>(&op - p.ops.data());
  const auto touch =
      std::find_if(p.touches.begin() + p.touch_begin[number], p.touches.begin() + p.touch_begin[number + 1],
                   [&](const Touch& t) { return t.state == state; });
  std::size_t id = touch != p.touches.begin() + p.touch_begin[number + 1] ? touch->reg : kNoRef;
  if (id == kNoRef)
    id = static_cast<std::size_t>(std::find(f.states.begin(), f.states.end(), state) - f.states.begin());
  if (id >= f.states.size()) return "a register";
  const std::string_view name = f.ast->register_names[id];
  std::size_t first = id;
  while (first > 0 && f.ast->register_names[first - 1] == name) --first;
  const bool range = first != id || (id + 1 < f.states.size() && f.ast->register_names[id + 1] == name);
  return std::string(name) + (range ? std::to_string(id - first) : "");
}

void report_state(Warp& w, const Op& op, std::uint32_t state, std::uint32_t lanes) {
  const int lane = std::countr_zero(lanes);
  const std::uint32_t at = w.frame->state + state;
  const std::uint32_t origin = at < w.origin.size() ? w.origin[at] : 0;
  const std::string name = name_of_state(w, op, state);
  if (origin == 0) {
    report(w, op, lane, "uninitialized-register", name + " was never written in this lane");
  } else {
    const Op& from = w.block->cluster->program->ops[origin - 1];
    const bool exchange = from.kind == Kind::shuffle, tensor = from.kind == Kind::tensor;
    report(w, op, lane,
           exchange ? "warp-mask"
           : tensor ? "tmem-uninitialized"
                    : "uninitialized-read",
           name + (exchange ? " holds what shfl read from a lane that does not take part in it"
                            : " holds what was loaded from memory never written"),
           site_of(w, from, -1));
  }
  // Once is enough.
  w.state[at].known |= lanes;
}

bool mask_bit(const Warp& w, Ref r, int lane) {
  return (*w.in<std::uint32_t>(r) >> lane & 1) != 0;
}

std::uint32_t state_of(const Warp& w, Ref r) {
  const FunctionInfo& f = w.block->cluster->program->functions[w.frame->function];
  return w.frame->state + (r < f.predicates ? r / 64 : f.predicates / 64 + (r - f.predicates) / 4);
}

/// Lanes of which half `h` of a 64-bit register is unknown.
std::uint32_t unknown_half(const Warp& w, Ref r, std::size_t h) {
  if (r == kNoRef || (r & 3) != kRegister) return 0;
  const std::uint32_t at = state_of(w, r), unknown = w.exec & ~w.state[at].known;
  const auto it = w.halves.find(at);
  return it == w.halves.end() ? unknown : unknown & it->second[h];
}

/// Pairs of values in 64-bit registers (the compiler packs two f32, or one and nothing): each half is known by itself.
/// Returns the lanes whose whole result is unknown.
std::uint32_t unknown_pairs(Warp& w, const Op& op, const Touch* t, const Touch* end, std::uint32_t origin) {
  HalvesUnknown unknown{};
  for (std::size_t h = 0; h < 2; ++h)
    if (op.use == Use::pack) {
      const Ref r = h == 0 ? op.a : op.b;
      unknown[h] = (r & 3) == kRegister ? w.exec & ~w.state[state_of(w, r)].known : 0;
    } else {
      unknown[h] = unknown_half(w, op.a, h);
      if (op.use == Use::halves) unknown[h] |= unknown_half(w, op.b, h) | unknown_half(w, op.c, h);
    }
  if (op.use != Use::unpack) {
    w.halves[state_of(w, op.d)] = unknown;
    return unknown[0] | unknown[1];
  }
  for (std::size_t h = end - t == 1 && op.imm != 0 ? 1 : 0; t != end; ++t, ++h)
    if (h < 2 && unknown[h] != 0) w.unknown_parts.push_back({w.frame->state + t->state, unknown[h], origin});
  return 0;
}

/// Of lanes `bad` with an unknown operand those whose result depends on it.
std::uint32_t unknown_choices(const Warp& w, const Op& op, std::uint32_t bad) {
  for (std::uint32_t m = bad; m != 0; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t bit = 1u << l;
    const auto unknown = [&](Ref r) { return r != kNoRef && unknown_lanes(w, r, bit) != 0; };
    if (op.use == Use::select) {
      if (!unknown(op.c) && !unknown(mask_bit(w, op.c, l) ? op.a : op.b)) bad &= ~bit;
      continue;
    }
    const bool decisive = op.use == Use::logic_or;
    for (const Ref r : {op.a, op.b})
      if (r != kNoRef && !unknown(r) && mask_bit(w, r, l) == decisive) bad &= ~bit;
  }
  return bad;
}

/// Lanes whose result is unknown because of an unknown operand; reports what may not be unknown.
std::uint32_t unknown_result(Warp& w, const Op& op, const Touch* t, const Touch* end) {
  const RegisterState* const s = w.state.data() + w.frame->state;
  std::uint32_t bad = 0, origin = 0;
  for (; t != end && !t->write; ++t) {
    const std::uint32_t lanes = w.exec & ~s[t->state].known;
    if (lanes == 0) continue;
    if (op.use == Use::strict || (t->address && op.use != Use::known)) {
      report_state(w, op, t->state, lanes);
      continue;
    }
    bad |= lanes;
    const std::uint32_t at = w.frame->state + t->state;
    const std::uint32_t from = at < w.origin.size() ? w.origin[at] : 0;
    if (from != 0) origin = from;
    if (op.use == Use::handled) w.unknown_inputs.push_back({at, lanes, from});
  }
  switch (op.use) {
    case Use::known:
    case Use::handled:
    case Use::load:
    case Use::store:
      return 0;
    case Use::select:
    case Use::logic_and:
    case Use::logic_or:
      bad = unknown_choices(w, op, bad);
      break;
    case Use::pack:
    case Use::unpack:
    case Use::halves:
      bad = unknown_pairs(w, op, t, end, origin);
      break;
    default:
      for (const Touch* r = t; r != end && !w.halves.empty(); ++r) w.halves.erase(w.frame->state + r->state);
      break;
  }
  if (bad != 0) {
    if (w.origin.size() < w.state.size()) w.origin.resize(w.state.size(), 0);
    for (; t != end; ++t) w.origin[w.frame->state + t->state] = origin;
  }
  return bad;
}

/// Registers that belong to a wgmma under way. ptxas inserts the missing wait where it sees the access (its
/// advisory C7517), so the wgmmas are complete before the instruction goes on.
void check_owned(Warp& w, const Op& op, const Touch* t, const Touch* end) {
  for (; t != end; ++t) {
    std::uint8_t owner = w.owned[w.frame->state + t->state];
    if ((owner & 4) != 0) {  // the first use completes the load
      tcgen05::complete_load_of(w, w.frame->state + t->state);
      owner = w.owned[w.frame->state + t->state];
    }
    if (owner == 0 || (!t->write && (owner & 1) == 0)) continue;
    report(
        w, op, -1, "async-register",
        std::string(t->write ? "writes " : "reads ") + name_of_state(w, op, t->state) +
            ((owner & 1) != 0 ? ", an accumulator" : ", an A operand") +
            " of a wgmma that no wait_group has retired; undefined in PTX, ptxas inserts the wait (advisory "
            "C7517)",
        (owner & 1) != 0 && !t->write ? Severity::note : Severity::undefined);
    Block& b = *w.block;
    if (complete_wgmma(b, b.warpgroups[static_cast<std::size_t>(w.index) / 4], w.wgmma_issued)) return;
    Wait wait;
    wait.kind = WaitKind::wgmma;
    wait.value = w.wgmma_issued;
    return w.block_on(wait);
  }
}

/// Where registers become unknown more often than this, nothing is remembered.
constexpr std::uint32_t kOften = 64;

void forget_clean(Warp& w) {
  if (w.times_unknown <= kOften && ++w.times_unknown != 0) std::fill(w.clean.begin(), w.clean.end(), 0);
}

/// All operands were known. Only the kernel's own registers stay where they are.
void note_clean(Warp& w, std::size_t op) {
  if (w.times_unknown <= kOften && w.frame->parent == nullptr) w.clean[op] |= w.exec;
}

}  // namespace

void report_unknown(Warp& w, const Op& op, Ref r, std::uint32_t lanes) {
  report_state(w, op, state_of(w, r) - w.frame->state, lanes);
}

std::uint32_t unknown_lanes(const Warp& w, Ref r, std::uint32_t lanes) {
  return (r & 3) == kRegister ? lanes & ~w.state[state_of(w, r)].known : 0;
}

void mark_unknown(Warp& w, std::uint32_t origin, Ref r, std::uint32_t lanes) {
  if ((r & 3) != kRegister) return;
  const std::uint32_t at = state_of(w, r);
  forget_clean(w);
  w.state[at].known &= ~lanes;
  w.halves.erase(at);
  if (w.origin.size() < w.state.size()) w.origin.resize(w.state.size(), 0);
  w.origin[at] = origin;
}

std::uint32_t origin_of(const Warp& w, const Op& op) {
  return static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data()) + 1;
}

std::uint32_t unknown_input(const Warp& w, Ref r) {
  if (w.unknown_inputs.empty() || r == kNoRef || (r & 3) != kRegister) return 0;
  const std::uint32_t at = state_of(w, r);
  std::uint32_t lanes = 0;
  for (const UnknownInput& u : w.unknown_inputs) lanes |= u.state == at ? u.lanes : 0;
  return lanes;
}

std::uint32_t unknown_origin(const Warp& w) {
  for (const UnknownInput& u : w.unknown_inputs)
    if (u.origin != 0) return u.origin;
  return 0;
}

void restore_unknown_inputs(Warp& w, std::uint32_t lanes) {
  if (!w.unknown_inputs.empty()) forget_clean(w);
  for (UnknownInput& u : w.unknown_inputs) {
    w.state[u.state].known &= ~(u.lanes & lanes);
    u.lanes &= ~lanes;
  }
  std::erase_if(w.unknown_inputs, [](const UnknownInput& u) { return u.lanes == 0; });
}

void check_guard(Warp& w, const Op& op, const Program& p) {
  if (op.use == Use::propagate || op.use == Use::known || op.kind == Kind::shuffle) return;
  const auto at = static_cast<std::size_t>(&op - p.ops.data());
  if (p.touch_begin[at] == p.touch_begin[at + 1]) return;
  const std::uint32_t state = p.touches[p.touch_begin[at]].state;
  if (const std::uint32_t lanes = w.active & ~w.state[w.frame->state + state].known; lanes != 0) [[unlikely]]
    report_state(w, op, state, lanes);
}

namespace {
void settle_parts(Warp& w) {
  if (w.origin.size() < w.state.size()) w.origin.resize(w.state.size(), 0);
  for (const UnknownInput& u : w.unknown_parts) {
    w.state[u.state].known &= ~u.lanes;
    w.origin[u.state] = u.origin;
  }
  w.unknown_parts.clear();
}
}  // namespace

void track_registers(Warp& w, const Op& op, const Program& p) {
  const auto at = static_cast<std::size_t>(&op - p.ops.data());
  const Touch* t = p.touches.data() + p.touch_begin[at];
  const Touch* const end = p.touches.data() + p.touch_begin[at + 1];
  if (w.checked && op.stamps) [[unlikely]] {
    check_owned(w, op, t, end);
    if (w.stop) return;  // it runs again
  }
  RegisterState* const s = w.state.data() + w.frame->state;
  const std::uint32_t exec = w.exec;
  if (op.stamps && op.kind != Kind::wgmma) {
    // A copy carries the stamp on: the compiler gives an accumulator several names.
    const bool move = op.kind == Kind::move, copy = move && end - t == 2 && !t->write;
    const bool constant = move && end - t == 1 && t->write;
    const std::uint32_t stamp =
        copy ? s[t->state].stamp : w.fence_epoch | (constant ? RegisterState::kConstant : 0);
    for (const Touch* r = t; r != end; ++r) s[r->state].stamp = stamp;
  }
  if ((exec & ~w.clean[at]) == 0) return;
  std::uint32_t bad = 0;
  const Touch* const first = t;
  for (; t != end && !t->write; ++t) bad |= exec & ~s[t->state].known;
  if (bad == 0) {
    note_clean(w, at);
  } else [[unlikely]] {
    bad = unknown_result(w, op, first, end);
    forget_clean(w);
  }
  for (; t != end; ++t) {
    std::uint32_t& known = s[t->state].known;
    known = (known | exec) & ~bad;
  }
  if (!w.unknown_parts.empty()) [[unlikely]]
    settle_parts(w);
}

void check_wgmma_register(Warp& w, const Op& op, Ref r, bool accumulator) {
  if ((r & 3) != kRegister) return;
  const std::uint32_t at = w.frame->state + r / 64;  // no predicate
  RegisterState& s = w.state[at];
  if ((s.stamp & ~RegisterState::kConstant) == w.fence_epoch) [[unlikely]] {
    const std::string what =
        name_of_state(w, op, at - w.frame->state) + (accumulator ? ", an accumulator," : ", an A operand,");
    // nvcc moves initialisations across the fence of the source.
    if ((s.stamp & RegisterState::kConstant) != 0)
      report(w, op, -1, "missing-wgmma-fence",
             what +
                 " was set to a constant after the latest wgmma.fence, be it where the compiler moved it; "
                 "ptxas inserts another fence (advisory C7519)",
             Severity::note);
    else
      report(w, op, -1, "missing-wgmma-fence",
             what +
                 " was accessed by the warp with no wgmma.fence between; undefined in PTX, ptxas inserts it "
                 "(advisory C7519)",
             Severity::undefined);
    s.stamp = 0;
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
      if ((r & 3) == kRegister) w.owned[w.frame->state + r / 64] |= i < count ? 1 : 2;
    }
  }
  w.checked = b.cluster->findings;
}

}  // namespace kiln::emulator
