// Which instructions have to do with registers of wgmma and tcgen05, which work in the background, and which atomics
// with registers that nobody reads.
#include <algorithm>
#include <span>
#include <vector>

#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

void collect(const FunctionInfo& info, const Operand& operand, std::vector<bool>& states) {
  if (operand.kind == Operand::Kind::reg) states[info.states[operand.id]] = true;
  for (const Operand& item : operand.items) collect(info, item, states);
}

/// The operands of an op.
std::span<const Touch> touches_of(const Program& p, std::size_t op) {
  const std::size_t end = op + 1 < p.touch_begin.size() ? p.touch_begin[op + 1] : p.touches.size();
  return std::span(p.touches).subspan(p.touch_begin[op], end - p.touch_begin[op]);
}

}  // namespace

void mark_stamped(Program& p, const Function& f, const FunctionInfo& info) {
  std::vector<bool> states(info.state_count);
  bool any = false;
  for (const Instruction& in : f.body)
    if (in.opcode == "wgmma" || in.opcode == "tcgen05") {
      any = true;
      for (const Operand& operand : in.operands) collect(info, operand, states);
    }
  // A copy carries the stamp of its source.
  for (bool more = any; more;) {
    more = false;
    for (std::size_t op = info.entry; op < p.ops.size(); ++op) {
      const auto touches = touches_of(p, op);
      if (p.ops[op].kind != Kind::move || touches.size() != 2 || touches[0].write) continue;
      if (!states[touches[1].state] || states[touches[0].state]) continue;
      states[touches[0].state] = more = true;
    }
  }
  for (std::size_t op = info.entry; any && op < p.ops.size(); ++op) {
    const auto touches = touches_of(p, op);
    p.ops[op].stamps =
        std::any_of(touches.begin(), touches.end(), [&](const Touch& t) { return states[t.state]; });
  }
}

void mark_unread(Program& p, const FunctionInfo& info) {
  std::vector<bool> read(info.state_count);
  for (std::size_t op = info.entry; op < p.ops.size(); ++op)
    for (const Touch& t : touches_of(p, op))
      if (!t.write) read[t.state] = true;
  for (std::size_t op = info.entry; op < p.ops.size(); ++op) {
    const auto touches = touches_of(p, op);
    const bool unread = std::none_of(touches.begin(), touches.end(),
                                     [&](const Touch& t) { return t.write && read[t.state]; });
    if (p.ops[op].kind == Kind::atomic && unread) p.ops[op].flags |= kUnread;
  }
}

}  // namespace kiln::emulator::ptx
