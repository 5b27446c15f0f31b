// Data flow over the statements of a kernel: where registers are assigned for certain, and where they are live. Lanes go
// their own ways, and each way is one through the text.
#include <algorithm>
#include <string_view>

#include "emulator/ptx/decode/register_use.hpp"

namespace kiln::emulator::ptx {

std::size_t results_of(const Instruction& in) {
  static constexpr std::string_view kNone[] = {"st",        "red",   "bra",          "brx",  "call",
                                               "nanosleep", "wgmma", "stackrestore", "sust", "sured"};
  const auto o = in.opcode;
  if (o == "bar" || o == "barrier") return in.has("red") ? 1 : 0;
  if (o == "tcgen05") return !in.has("ld") ? 0 : in.has("red") ? 2 : 1;
  return std::find(std::begin(kNone), std::end(kNone), o) == std::end(kNone) ? 1 : 0;
}

namespace {

/// A set of registers.
class RegisterSet {
 public:
  RegisterSet(std::size_t size, bool full) : words_((size + 63) / 64, full ? ~std::uint64_t{0} : 0) {}
  bool has(std::uint32_t r) const { return (words_[r / 64] >> r % 64 & 1) != 0; }
  void add(std::uint32_t r) { words_[r / 64] |= std::uint64_t{1} << r % 64; }
  void remove(std::uint32_t r) { words_[r / 64] &= ~(std::uint64_t{1} << r % 64); }
  void keep(const RegisterSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  }
  void join(const RegisterSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  /// Takes `more` and not `less` in; whether that is news.
  bool join_without(const RegisterSet& more, const RegisterSet& less) {
    std::uint64_t news = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t now = words_[i] | (more.words_[i] & ~less.words_[i]);
      news |= now ^ words_[i];
      words_[i] = now;
    }
    return news != 0;
  }
  bool operator==(const RegisterSet&) const = default;
  template <class F>
  void each(F f) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t m = words_[i]; m != 0; m &= m - 1)
        f(static_cast<std::uint32_t>(64 * i + static_cast<std::size_t>(__builtin_ctzll(m))));
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// Statements that run one after another.
struct Stretch {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::size_t> next;
  RegisterSet written, live;   ///< for certain in this part; before its first statement
  RegisterSet assigned_after;  ///< for certain
};

bool leaves(const Instruction& in) {
  return in.opcode == "ret" || in.opcode == "exit" || in.opcode == "trap";
}
/// Where a statement branches to; statements, of which one may be past the last.
std::vector<std::uint32_t> targets_of(const Function& f, const Instruction& in) {
  if (in.opcode == "bra" && !in.operands.empty()) return {in.operands[0].id};
  if (in.opcode == "brx" && in.operands.size() > 1 && in.operands[1].id < f.tables.size())
    return f.tables[in.operands[1].id];
  return {};
}
bool branches(const Instruction& in) {
  return in.opcode == "bra" || in.opcode == "brx";
}

class Flow {
 public:
  explicit Flow(const Function& f) : f_(f), registers_(f.registers.size()) {
    split();
    for (Stretch& p : parts_) summarize(p);
    find_assigned();
    find_live();
  }
  RegisterLives result() {
    RegisterLives r;
    r.assigned.assign(registers_, true);
    r.lives.resize(registers_);
    RegisterSet assigned(registers_, false);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      assigned = before(i);
      for (std::uint32_t s = parts_[i].begin; s < parts_[i].end; ++s) take(s, assigned, r);
      parts_[i].live.each([&](std::uint32_t reg) { r.lives[reg].include(parts_[i].begin); });
      for (const std::size_t n : parts_[i].next)
        parts_[n].live.each([&](std::uint32_t reg) { r.lives[reg].include(parts_[i].end - 1); });
    }
    return r;
  }

 private:
  void split() {
    const auto count = static_cast<std::uint32_t>(f_.body.size());
    std::vector<bool> starts(count + 1, false);
    starts[0] = true;
    for (std::uint32_t s = 0; s < count; ++s) {
      const Instruction& in = f_.body[s];
      if (!branches(in) && !leaves(in)) continue;
      starts[s + 1] = true;
      for (const std::uint32_t t : targets_of(f_, in)) starts[std::min(t, count)] = true;
    }
    std::vector<std::size_t> part_at(count + 1, 0);
    for (std::uint32_t s = 0; s < count; ++s) {
      if (starts[s]) parts_.push_back({s, s, {}, none(), none(), RegisterSet(registers_, true)});
      part_at[s] = parts_.size() - 1;
      parts_.back().end = s + 1;
    }
    for (Stretch& p : parts_) {
      const Instruction& last = f_.body[p.end - 1];
      for (const std::uint32_t t : targets_of(f_, last))
        if (t < count) p.next.push_back(part_at[t]);
      if (p.end < count && (last.predicated || (!branches(last) && !leaves(last))))
        p.next.push_back(part_at[p.end]);
    }
    previous_.resize(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i)
      for (const std::size_t n : parts_[i].next) previous_[n].push_back(i);
  }
  RegisterSet none() const { return RegisterSet(registers_, false); }

  /// What a part writes for certain, and what it reads before.
  void summarize(Stretch& p) const {
    for (std::uint32_t s = p.begin; s < p.end; ++s) {
      const Instruction& in = f_.body[s];
      each_register(in, [&](std::uint32_t reg, std::size_t, bool write, bool) {
        if (!write && !p.written.has(reg)) p.live.add(reg);
      });
      each_register(in, [&](std::uint32_t reg, std::size_t, bool write, bool) {
        if (write && !in.predicated) p.written.add(reg);
      });
    }
  }

  /// Registers assigned for certain before a part.
  RegisterSet before(std::size_t part) const {
    if (part == 0) return none();
    RegisterSet assigned(registers_, true);
    for (const std::size_t p : previous_[part]) assigned.keep(parts_[p].assigned_after);
    return assigned;
  }
  void find_assigned() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        RegisterSet after = before(i);
        after.join(parts_[i].written);
        if (after == parts_[i].assigned_after) continue;
        parts_[i].assigned_after = std::move(after);
        more = true;
      }
    }
  }
  void find_live() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = parts_.size(); i-- > 0;)
        for (const std::size_t n : parts_[i].next)
          more = parts_[i].live.join_without(parts_[n].live, parts_[i].written) || more;
    }
  }

  void take(std::uint32_t statement, RegisterSet& assigned, RegisterLives& r) const {
    const Instruction& in = f_.body[statement];
    const bool elsewhere = in.opcode == "wgmma" || in.opcode == "tcgen05" || in.opcode == "call";
    each_register(in, [&](std::uint32_t reg, std::size_t, bool write, bool) {
      r.lives[reg].include(statement);
      if (elsewhere || (!write && !assigned.has(reg))) r.assigned[reg] = false;
    });
    each_register(in, [&](std::uint32_t reg, std::size_t, bool write, bool) {
      if (write && !in.predicated) assigned.add(reg);
    });
  }

  const Function& f_;
  std::size_t registers_;
  std::vector<Stretch> parts_;
  std::vector<std::vector<std::size_t>> previous_;
};

}  // namespace

RegisterLives register_lives(const Function& f) {
  if (f.body.empty()) return {std::vector<bool>(f.registers.size(), false), {}};
  return Flow(f).result();
}

}  // namespace kiln::emulator::ptx
