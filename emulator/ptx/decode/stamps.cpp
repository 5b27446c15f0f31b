// Which instructions have to do with registers of wgmma and tcgen05, which work in the background, which with registers
// that are surely assigned only, and which atomics with registers that nobody reads.
#include <algorithm>
#include <span>
#include <vector>

#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {
namespace {

void collect(const Operand& operand, std::vector<bool>& registers) {
  if (operand.kind == Operand::Kind::reg) registers[operand.id] = true;
  for (const Operand& item : operand.items) collect(item, registers);
}

/// The operands of an op.
std::span<const Touch> touches_of(const Program& p, std::size_t op) {
  const std::size_t end = op + 1 < p.touch_begin.size() ? p.touch_begin[op + 1] : p.touches.size();
  return std::span(p.touches).subspan(p.touch_begin[op], end - p.touch_begin[op]);
}

}  // namespace

void mark_stamped(Program& p, const Function& f, const FunctionInfo& info) {
  std::vector<bool> registers(f.registers.size());
  bool any = false;
  for (const Instruction& in : f.body)
    if (in.opcode == "wgmma" || in.opcode == "tcgen05") {
      any = true;
      for (const Operand& operand : in.operands) collect(operand, registers);
    }
  // A copy carries the stamp of its source.
  for (bool more = any; more;) {
    more = false;
    for (std::size_t op = info.entry; op < p.ops.size(); ++op) {
      const auto touches = touches_of(p, op);
      if (p.ops[op].kind != Kind::move || touches.size() != 2 || touches[0].write) continue;
      if (!registers[touches[1].reg] || registers[touches[0].reg]) continue;
      registers[touches[0].reg] = more = true;
    }
  }
  for (std::size_t op = info.entry; any && op < p.ops.size(); ++op) {
    const auto touches = touches_of(p, op);
    p.ops[op].stamps = std::any_of(touches.begin(), touches.end(),
                                   [&](const Touch& t) { return t.reg != kNoRef && registers[t.reg]; });
  }
}

void mark_assigned(Program& p, const FunctionInfo& info) {
  p.assigned_ops.resize(p.ops.size());
  for (std::size_t op = info.entry; op < p.ops.size(); ++op) {
    const auto touches = touches_of(p, op);
    const bool all = std::all_of(touches.begin(), touches.end(),
                                 [&](const Touch& t) { return p.assigned_states[t.state]; });
    p.assigned_ops[op] = all ? ~0u : 0;
  }
}

void mark_unread(Program& p, const FunctionInfo& info) {
  std::vector<bool> read(info.states.size());
  for (std::size_t op = info.entry; op < p.ops.size(); ++op)
    for (const Touch& t : touches_of(p, op))
      if (!t.write) read[t.reg] = true;
  for (std::size_t op = info.entry; op < p.ops.size(); ++op) {
    if (p.ops[op].kind != Kind::atomic) continue;
    const auto touches = touches_of(p, op);
    if (std::none_of(touches.begin(), touches.end(), [&](const Touch& t) { return t.write && read[t.reg]; }))
      p.ops[op].flags |= kUnread;
  }
}

}  // namespace kiln::emulator::ptx
