// The instructions by which lanes of a warp meet and exchange values: shfl, vote, match, redux, elect,
// bar.warp.sync. Each lane brings its own member mask: lanes with one mask are one group, and groups that
// meet in one instruction do not see each other.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

std::string show(std::uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

/// The lanes of a warp instruction that gave the same member mask.
struct Members {
  std::uint32_t lanes, mask;
};

/// The executing lanes by member mask. Those whose groups are complete stay in w.exec and are listed; the
/// others wait here. Without a mask operand the executing lanes are one group.
class Groups {
 public:
  Groups(Warp& w, const Op& op, Ref mask, WaitKind wait) {
    if (mask == kNoRef) {
      groups_[count_++] = {w.exec, w.exec};
      return;
    }
    for (std::uint32_t left = w.exec; left != 0;) {
      Members m{left, static_cast<std::uint32_t>(w.value(mask, 4, std::countr_zero(left)))};
      if ((mask & 3) != kConstant)
        for (std::uint32_t k = left; k != 0; k &= k - 1)
          if (w.value(mask, 4, std::countr_zero(k)) != m.mask) m.lanes &= ~(k & (0 - k));
      left &= ~m.lanes;
      groups_[count_++] = m;
    }
    if (w.block->cluster->findings) check(w, op);
    keep_complete(w, wait);
  }
  const Members* begin() const { return groups_; }
  const Members* end() const { return groups_ + count_; }
  /// No group can go on: the instruction runs again.
  bool blocked() const { return count_ == 0; }

 private:
  void check(Warp& w, const Op& op) const {
    for (const Members& m : *this) {
      if (const std::uint32_t unnamed = m.lanes & ~m.mask; unnamed != 0) {
        const int lane = std::countr_zero(unnamed);
        report(w, op, lane, "warp-mask",
               "lane " + std::to_string(lane) + " executes this with member mask " + show(m.mask) +
                   ", which does not name it");
      } else if (const std::uint32_t others = m.mask & w.exec & ~m.lanes; others != 0) {
        const int lane = std::countr_zero(m.lanes), other = std::countr_zero(others);
        report(w, op, lane, "warp-mask",
               "member mask " + show(m.mask) + " of lane " + std::to_string(lane) + " names lane " +
                   std::to_string(other) + ", which comes with another mask");
      }
    }
  }
  void keep_complete(Warp& w, WaitKind kind) {
    const std::uint32_t here = w.exec;
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      const Members m = groups_[i];
      if ((m.mask & w.live & ~here) == 0) {
        groups_[kept++] = m;
        continue;
      }
      Wait t;
      t.kind = kind;
      t.id = m.mask;
      w.others.push_back({w.pc - 1, m.lanes, w.frame, t, false, false});
      w.active &= ~m.lanes;
      w.exec &= ~m.lanes;
    }
    count_ = kept;
    if (w.exec != here) restore_unknown_inputs(w, here & ~w.exec);
    for (const Members& m : *this) note_met(w, m.lanes);
    if (w.active == 0) w.stop = true;
  }
  Members groups_[32];
  int count_ = 0;
};

/// Notes which lanes of `d` hold nothing known: lanes of `bad` because of an operand.
void mark_result(Warp& w, Ref d, std::uint32_t bad, std::uint32_t origin) {
  if (bad != 0 && d != kNoRef) mark_unknown(w, origin, d, bad);
}

// --- shfl ---
/// Lane that `lane` reads; `valid` as the instruction's predicate has it.
int shfl_source(const Warp& w, const Op& op, int lane, bool& valid) {
  const auto b = static_cast<int>(w.value(op.b, 4, lane) & 31), c = static_cast<int>(w.value(op.c, 4, lane));
  const int clamp = c & 31, segment = (c >> 8) & 31;
  const int top = (lane & segment) | (clamp & ~segment);
  int j = 0;
  switch (op.flags) {
    case 0:  // up
      j = lane - b;
      valid = j >= top;
      break;
    case 1:  // down
      j = lane + b;
      valid = j <= top;
      break;
    case 2:  // bfly
      j = lane ^ b;
      valid = j <= top;
      break;
    default:  // idx
      j = (lane & segment) | (b & ~segment);
      valid = j <= top;
      break;
  }
  return valid ? j & 31 : lane;
}

void run_shfl(Warp& w, const Op& op) {
  const Groups groups(w, op, op.target, WaitKind::converge);
  if (groups.blocked()) return;
  std::uint32_t value[32], result[32], valid = 0, outside = 0, unknown = 0;
  std::memcpy(value, w.in<std::uint32_t>(op.a), sizeof value);
  const std::uint32_t unknown_a = unknown_input(w, op.a);
  for (const Members& g : groups)
    for (std::uint32_t m = g.lanes; m != 0; m &= m - 1) {
      const int l = std::countr_zero(m);
      bool p = false;
      const int j = shfl_source(w, op, l, p);
      result[l] = value[j];
      valid |= p ? 1u << l : 0;
      if (j != l && ((g.mask & w.exec) >> j & 1) == 0)
        outside |= 1u << l;
      else
        unknown |= (unknown_a >> j & 1) << l;
    }
  unknown |= (unknown_input(w, op.b) | unknown_input(w, op.c)) & w.exec;
  std::uint32_t* const d = w.out<std::uint32_t>(op.d);
  each_lane(w, [&](int l) { d[l] = result[l]; });
  if (op.e != kNoRef) {
    std::uint32_t& e = *w.out<std::uint32_t>(op.e);
    e = (e & ~w.exec) | (valid & w.exec);
  }
  if ((outside | unknown) == 0 || !w.block->cluster->findings) return;
  mark_result(w, op.d, unknown, unknown_origin(w));
  mark_result(w, op.d, outside, origin_of(w, op));
  w.unknown_inputs.clear();
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
  if (!d.has("sync") && d.operands() > 4) d.unsupported();
  Op& op = d.emit(run_shfl, Kind::shuffle);
  op.d = r, op.e = e, op.a = a, op.b = b, op.c = c, op.target = members,
  op.flags = static_cast<std::uint16_t>(mode);
}

// --- vote, match, redux: one result a group ---
/// Calls `f` with each complete group; a group with an unknown operand gets an unknown result.
template <class F>
void each_group(Warp& w, const Op& op, Ref mask, Ref result, F f) {
  const Groups groups(w, op, mask, WaitKind::converge);
  if (groups.blocked()) return;
  for (const Members& g : groups) f(g.lanes & g.mask, g.lanes);
  if (w.unknown_inputs.empty()) return;
  const std::uint32_t unknown = unknown_input(w, op.a);
  for (const Members& g : groups)
    if ((unknown & g.lanes) != 0) mark_result(w, result, g.lanes, unknown_origin(w));
  w.unknown_inputs.clear();
}

void set_predicate(Warp& w, Ref r, std::uint32_t lanes, bool value) {
  std::uint32_t& d = *w.out<std::uint32_t>(r);
  d = (d & ~lanes) | (value ? lanes : 0);
}

void run_vote(Warp& w, const Op& op) {
  std::uint32_t p = *w.in<std::uint32_t>(op.a);
  if (op.imm != 0) p = ~p;
  const auto vote = [&](std::uint32_t group, std::uint32_t lanes) {
    const std::uint32_t yes = p & group;
    switch (op.flags) {
      case 0:
        return set_predicate(w, op.d, lanes, yes == group);
      case 1:
        return set_predicate(w, op.d, lanes, yes != 0);
      case 2:
        return set_predicate(w, op.d, lanes, yes == 0 || yes == group);
      default:
        for (std::uint32_t m = lanes; m != 0; m &= m - 1)
          w.out<std::uint32_t>(op.d)[std::countr_zero(m)] = yes;
    }
  };
  each_group(w, op, op.b, op.d, vote);
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
  each_group(w, op, op.b, op.d, [&](std::uint32_t group, std::uint32_t lanes) {
    std::uint32_t result[32] = {}, all = 0;
    for (std::uint32_t k = lanes; k != 0; k &= k - 1) {
      const int l = std::countr_zero(k);
      for (std::uint32_t m = group; m != 0; m &= m - 1)
        if (w.value(op.a, op.asize, std::countr_zero(m)) == w.value(op.a, op.asize, l))
          result[l] |= m & (~m + 1);
      if (result[l] == group)
        all |= 1u << l;
      else if (op.flags != 0)
        result[l] = 0;
    }
    for (std::uint32_t k = lanes; k != 0; k &= k - 1)
      w.out<std::uint32_t>(op.d)[std::countr_zero(k)] = result[std::countr_zero(k)];
    if (op.e == kNoRef) return;
    std::uint32_t& e = *w.out<std::uint32_t>(op.e);
    e = (e & ~lanes) | (all & lanes);
  });
}
void decode_match(Decoder& d) {
  const int size = size_of(d.type());
  const Operand& out = d.operand(0);
  const Ref r = d.dst(out, 4), e = out.items.empty() ? kNoRef : d.dst(out.items[0], 3),
            a = d.src(d.operand(1), size), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_match, Kind::shuffle);
  op.d = r, op.e = e, op.a = a, op.b = b, op.asize = static_cast<std::uint8_t>(size), op.flags = d.has("all");
}

enum class Redux : std::uint16_t { add, min, max, and_, or_, xor_ };
std::uint32_t reduce(Redux op, bool is_signed, std::uint32_t a, std::uint32_t b) {
  const auto sa = static_cast<std::int32_t>(a), sb = static_cast<std::int32_t>(b);
  switch (op) {
    case Redux::add:
      return a + b;
    case Redux::min:
      return is_signed ? static_cast<std::uint32_t>(std::min(sa, sb)) : std::min(a, b);
    case Redux::max:
      return is_signed ? static_cast<std::uint32_t>(std::max(sa, sb)) : std::max(a, b);
    case Redux::and_:
      return a & b;
    case Redux::or_:
      return a | b;
    case Redux::xor_:
      break;
  }
  return a ^ b;
}
void run_redux(Warp& w, const Op& op) {
  each_group(w, op, op.b, op.d, [&](std::uint32_t group, std::uint32_t lanes) {
    const std::uint32_t* const a = w.in<std::uint32_t>(op.a);
    std::uint32_t r = a[std::countr_zero(group != 0 ? group : lanes)];
    for (std::uint32_t m = group & (group - 1); m != 0; m &= m - 1)
      r = reduce(static_cast<Redux>(op.flags), op.imm != 0, r, a[std::countr_zero(m)]);
    for (std::uint32_t m = lanes; m != 0; m &= m - 1) w.out<std::uint32_t>(op.d)[std::countr_zero(m)] = r;
  });
}
/// Minima and maxima of f32: `imm` 1 .NaN, 2 .abs.
void run_redux_float(Warp& w, const Op& op) {
  each_group(w, op, op.b, op.d, [&](std::uint32_t group, std::uint32_t lanes) {
    const std::uint32_t* const a = w.in<std::uint32_t>(op.a);
    const auto operand = [&](int l) { return (op.imm & 2) != 0 ? a[l] & 0x7fffffffu : a[l]; };
    const MinMaxOptions options{.nan = (op.imm & 1) != 0};
    u64 r = operand(std::countr_zero(group != 0 ? group : lanes));
    // One lane alone is compared with itself, which makes its NaN canonical.
    for (std::uint32_t m = group; m != 0; m &= m - 1)
      r = float_extreme(FloatFormat::f32, op.flags != 0, r, operand(std::countr_zero(m)), options);
    for (std::uint32_t m = lanes; m != 0; m &= m - 1)
      w.out<std::uint32_t>(op.d)[std::countr_zero(m)] = static_cast<std::uint32_t>(r);
  });
}
void decode_redux_float(Decoder& d) {
  const int mode = d.which({"min", "max"});
  if (mode < 0) d.unsupported();
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_redux_float, Kind::shuffle);
  op.d = r, op.a = a, op.b = b, op.flags = static_cast<std::uint16_t>(mode);
  op.imm = (d.has("NaN") ? 1 : 0) | (d.has("abs") ? 2 : 0);
}
void decode_redux(Decoder& d) {
  if (d.has("f32")) return decode_redux_float(d);
  const int mode = d.which({"add", "min", "max", "and", "or", "xor"});
  if (mode < 0 || size_of(d.type()) != 4) d.unsupported();
  const Ref r = d.dst(d.operand(0), 4), a = d.src(d.operand(1), 4), b = d.src(d.operand(2), 4);
  Op& op = d.emit(run_redux, Kind::shuffle);
  op.d = r, op.a = a, op.b = b, op.flags = static_cast<std::uint16_t>(mode), op.imm = d.type() == Type::s32;
}

// --- activemask, elect ---
void run_activemask(Warp& w, const Op& op) {
  const std::uint32_t mask = w.exec;
  each_lane(w, [&](int l) { w.out<std::uint32_t>(op.d)[l] = mask; });
}
void decode_activemask(Decoder& d) {
  const Ref r = d.dst(d.operand(0), 4);
  Op& op = d.emit(run_activemask, Kind::shuffle);
  op.use = Use::known, op.d = r;
}
void run_elect(Warp& w, const Op& op) {
  const Groups groups(w, op, op.a, WaitKind::converge);
  for (const Members& g : groups) {
    const int leader = std::countr_zero((g.lanes & g.mask) != 0 ? g.lanes & g.mask : g.lanes);
    for (std::uint32_t m = op.d == kNoRef ? 0 : g.lanes; m != 0; m &= m - 1)
      w.out<std::uint32_t>(op.d)[std::countr_zero(m)] = static_cast<std::uint32_t>(leader);
    std::uint32_t& e = *w.out<std::uint32_t>(op.e);
    e = (e & ~g.lanes) | 1u << leader;
  }
}
void decode_elect(Decoder& d) {
  const Operand& out = d.operand(0);
  if (out.items.empty()) d.fail("expected a predicate in");
  const Ref r = d.dst(out, out.kind == Operand::Kind::sink ? 0 : 4), e = d.dst(out.items[0], 3),
            a = d.src(d.operand(1), 4);
  Op& op = d.emit(run_elect, Kind::shuffle);
  op.use = Use::known, op.d = r, op.e = e, op.a = a;
}

// --- bar.warp.sync ---
void run_warp_barrier(Warp& w, const Op& op) {
  if (w.resumed) return;  // lanes that waited were synchronised when their barrier was complete
  const Groups groups(w, op, op.a, WaitKind::warp_barrier);
  if (RaceTracker* r = w.block->cluster->races.get())
    for (const Members& g : groups) r->synchronize_lanes(w, (g.mask | g.lanes) & w.live);
}

}  // namespace

bool converge(Warp& w, const Op&, std::uint32_t members) {
  if ((members & w.live & ~w.active) == 0) {
    note_met(w, w.active);
    return true;
  }
  Wait t;
  t.kind = WaitKind::converge;
  t.id = members;
  restore_unknown_inputs(w, w.exec);
  w.block_on(t);
  return false;
}

void decode_warp_barrier(Decoder& d) {
  const Ref a = d.src(d.operand(0), 4);
  d.emit(run_warp_barrier, Kind::barrier).a = a;
}

std::vector<DecodeEntry> exchange_table() {
  return {{"shfl", decode_shfl},
          {"vote", decode_vote},
          {"match", decode_match},
          {"redux", decode_redux},
          {"activemask", decode_activemask},
          {"elect", decode_elect}};
}

}  // namespace kiln::emulator::ptx
