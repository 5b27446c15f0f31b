#include "emulator/machine/dependence.hpp"

#include <algorithm>

namespace kiln::emulator {

/// A search through the ops [first, last) of one function.
struct Dependence::Search {
  Flow& flow;
  std::uint32_t first, last;
  const std::vector<std::vector<std::uint32_t>>& readers;  ///< ops by register
  std::vector<std::uint32_t> todo = {};
  std::vector<bool> registers = {}, after_store = {};  ///< taken; ops that may run after a store of the value

  void reach(std::uint32_t op) {
    if (flow.reached[op]) return;
    flow.reached[op] = true;
    todo.push_back(op);
  }
};

std::uint32_t Dependence::function_of(std::uint32_t op) const {
  std::uint32_t first = 0;
  for (const FunctionInfo& f : program_.functions)
    if (f.entry != kNoRef && f.entry <= op) first = std::max(first, f.entry);
  return first;
}

/// Shared, local and generic memory, in which a value goes on its way from thread to thread.
bool Dependence::uses_block_memory(std::uint32_t op, bool writes) const {
  const ptx::Instruction& in = *program_.sources[program_.ops[op].source].in;
  if (in.has("global") || in.has("param") || in.has("const")) return writes && in.opcode == "cp";
  if (in.opcode == "atom" || in.opcode == "red" || in.opcode == "cp") return true;
  if (in.opcode == "st" || in.opcode == "stmatrix") return writes;
  return !writes && (in.opcode == "ld" || in.opcode == "ldmatrix");
}

void Dependence::take_registers(Search& s, std::uint32_t op) const {
  for (std::uint32_t i = program_.touch_begin[op]; i < program_.touch_begin[op + 1]; ++i) {
    const Touch& t = program_.touches[i];
    if (!t.write || t.reg == kNoRef || s.registers[t.reg]) continue;
    s.registers[t.reg] = true;
    for (const std::uint32_t reader : s.readers[t.reg]) s.reach(reader);
  }
}

/// A branch decides what is assigned between it and its target.
void Dependence::take_branch(Search& s, std::uint32_t op) const {
  s.flow.branches = true;
  const std::uint32_t target = program_.ops[op].target;
  if (target < s.first || target >= s.last) return;
  for (std::uint32_t i = std::min(op, target); i < std::max(op, target); ++i) s.reach(i);
}

/// What is stored may be loaded by whatever can run afterwards.
void Dependence::take_memory(Search& s, std::uint32_t op) const {
  std::vector<std::uint32_t> next{op + 1};
  while (!next.empty()) {
    const std::uint32_t at = next.back();
    next.pop_back();
    if (at < s.first || at >= s.last || s.after_store[at]) continue;
    s.after_store[at] = true;
    if (uses_block_memory(at, false)) s.reach(at);
    const Op& o = program_.ops[at];
    const std::string_view opcode = program_.sources[o.source].in->opcode;
    const bool ends =
        opcode == "bra" || opcode == "brx" || opcode == "ret" || opcode == "exit" || opcode == "trap";
    if (opcode == "bra") next.push_back(o.target);
    if (!ends || o.predicate != kNoRef) next.push_back(at + 1);
  }
}

void Dependence::take(Search& s, std::uint32_t op) const {
  if (program_.sources[program_.ops[op].source].in->opcode == "bra") return take_branch(s, op);
  take_registers(s, op);
  if (uses_block_memory(op, true)) take_memory(s, op);
}

const Dependence::Flow& Dependence::of(std::uint32_t load) {
  const auto [it, added] = flows_.try_emplace(load);
  Flow& flow = it->second;
  if (!added) return flow;
  flow.reached.resize(program_.ops.size());
  const std::uint32_t first = function_of(load);
  auto last = static_cast<std::uint32_t>(program_.ops.size());
  std::size_t registers = 0;
  for (const FunctionInfo& f : program_.functions) {
    if (f.entry == kNoRef) continue;
    if (f.entry > first) last = std::min(last, f.entry);
    if (f.entry == first) registers = f.states.size();
  }
  auto& readers = readers_[first];
  if (readers.empty()) {
    readers.resize(registers);
    for (std::uint32_t op = first; op < last; ++op)
      for (std::uint32_t i = program_.touch_begin[op]; i < program_.touch_begin[op + 1]; ++i)
        if (!program_.touches[i].write) readers[program_.touches[i].reg].push_back(op);
  }
  Search s{flow, first, last, readers};
  s.registers.resize(registers);
  s.after_store.resize(program_.ops.size());
  take(s, load);
  while (!s.todo.empty()) {
    const std::uint32_t op = s.todo.back();
    s.todo.pop_back();
    take(s, op);
  }
  return flow;
}

}  // namespace kiln::emulator
