// What an instruction of PTX costs the machine, for the cycle model: the pipe it goes to and the bytes it moves.
// Throughputs of pipes are the model's (workbench/analysis/cycle_machine.hpp), not here.
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/trace.hpp"

namespace kiln::emulator {
namespace {

using Names = std::initializer_list<std::string_view>;
bool is_one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_packed(const ptx::Instruction& in) {
  return in.has("f32x2");
}
bool is_float(const ptx::Instruction& in) {
  return std::any_of(in.modifiers.begin(), in.modifiers.end(), [](std::string_view m) {
    return is_one_of(m, {"f32", "f32x2", "f16", "f16x2", "bf16", "bf16x2"});
  });
}

/// Registers of the vector operand that is moved, at least one.
std::uint32_t vector_length(const ptx::Instruction& in) {
  std::size_t most = 1;
  for (const ptx::Operand& o : in.operands) most = std::max(most, o.items.size());
  return static_cast<std::uint32_t>(most);
}

/// Bytes of an element by the type among the modifiers.
std::uint32_t element_bytes(const ptx::Instruction& in) {
  for (const auto m : in.modifiers) {
    if (m.size() < 2 || !is_one_of(m.substr(0, 1), {"b", "u", "s", "f"})) continue;
    for (const auto& [digits, bytes] :
         {std::pair{"128", 16u}, std::pair{"64", 8u}, std::pair{"32", 4u}, std::pair{"16", 2u}})
      if (m.substr(1) == digits) return bytes;
    if (m.substr(1) == "8") return 1;
  }
  return 4;
}

TraceWork transcendental(const ptx::Instruction& in) {
  const bool pair = in.has("f16x2") || in.has("bf16x2");
  TraceWork w{.issue = pair ? 2u : 1u, .mufu = pair ? 2u : 1u};
  // Subnormals of f32 are scaled in and out.
  if (in.has("f32") && !in.has("ftz")) w.add({.issue = 3, .fma = 2, .alu = 1});
  return w;
}

TraceWork conversion(const ptx::Instruction& in) {
  const auto is_integer = [](std::string_view m) {
    return is_one_of(m, {"s32", "u32", "s64", "u64", "s8", "u8", "s16", "u16"});
  };
  const auto integers = std::count_if(in.modifiers.begin(), in.modifiers.end(), is_integer);
  // Its machine instruction is an addition to 0, HADD2.F32.
  if (in.modifiers.size() == 2 && in.modifiers[0] == "f32" && in.modifiers[1] == "f16")
    return {.issue = 1, .fma = 1};
  const std::uint32_t free = in.has("s64") || in.has("u64") ? 0 : 1;  // a pair of registers, one of them zero
  if (integers >= 2) return {.issue = free, .alu = free};
  if (integers == 1) return {.issue = 1, .mufu = 1};
  return {.issue = 1, .alu = 1};
}

TraceWork memory(const ptx::Instruction& in) {
  if (in.has("param") || in.has("const")) return {};
  const std::uint32_t bytes = 32 * vector_length(in) * element_bytes(in);
  const bool shared = std::any_of(in.modifiers.begin(), in.modifiers.end(),
                                  [](std::string_view m) { return m.starts_with("shared"); });
  return shared ? TraceWork{.issue = 1, .shared = bytes} : TraceWork{.issue = 1, .global = bytes};
}

TraceWork tensor(const ptx::Instruction& in) {
  if (!in.has("ld") && !in.has("st")) return {.issue = 1};
  return {.issue = 1, .tensor = 128 * vector_length(in)};
}

TraceWork compute(const ptx::Instruction& in) {
  const std::string_view op = in.opcode;
  if (is_one_of(op, {"ldmatrix", "stmatrix"})) return {.issue = 1, .shared = 128 * vector_length(in)};
  if (is_one_of(op, {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"})) return transcendental(in);
  if (is_one_of(op, {"fma", "add", "sub", "mul"}) && is_float(in))
    return {.issue = 1, .fma = is_packed(in) ? 2u : 1u};
  if (is_one_of(op, {"mad", "mul"})) return {.issue = 1, .fma = 2};
  if (op == "cvt") return conversion(in);
  if (op == "div") return {.issue = 8, .fma = 6, .mufu = 1};
  if (op == "shfl") return {.issue = 1, .shared = 128};
  if (is_one_of(op, {"bra", "bar", "barrier", "mbarrier", "fence", "ret", "exit", "setmaxnreg", "cp",
                     "prefetch", "wgmma", "elect"}))
    return {.issue = 1};
  return {.issue = 1, .alu = 1};
}

}  // namespace

void TraceWork::add(const TraceWork& o) {
  issue += o.issue, fma += o.fma, alu += o.alu, mufu += o.mufu;
  shared += o.shared, tensor += o.tensor, global += o.global;
}

TraceWork work_of(const Warp& w, const Op& op) {
  const Program& p = *w.block->cluster->program;
  const ptx::Instruction* const in = p.sources[op.source].in;
  if (in == nullptr || is_one_of(in->opcode, {"mov", "cvta", "isspacep", "griddepcontrol"})) return {};
  if (is_one_of(in->opcode, {"ld", "st", "ldu", "red", "atom"})) return memory(*in);
  return in->opcode == "tcgen05" ? tensor(*in) : compute(*in);
}

}  // namespace kiln::emulator
