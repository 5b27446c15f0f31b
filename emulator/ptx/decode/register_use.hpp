// Which registers an instruction reads and writes, and what that says of a kernel's registers.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/parse/ast.hpp"

namespace kiln::emulator::ptx {

/// How many operands are results, from the first on: none, one, or two.
std::size_t results_of(const Instruction& in);

/// Calls f(register, operand, write, address) for the guard of an instruction (as of its first operand) and for what its
/// operands name. `address`: inside [ ], or the guard.
template <class F>
void each_register(const Instruction& in, F f) {
  if (in.predicated) f(in.predicate, std::size_t{0}, false, true);
  const std::size_t results = results_of(in);
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const Operand& operand = in.operands[i];
    const bool address = operand.kind == Operand::Kind::address, write = i < results && !address;
    const auto visit = [&](const Operand& o) {
      if (o.kind == Operand::Kind::reg) f(o.id, i, write, address);
    };
    visit(operand);
    for (const Operand& item : operand.items) {
      visit(item);
      for (const Operand& inner : item.items) visit(inner);
    }
  }
}

/// What the text of a kernel says of its registers.
struct RegisterLives {
  /// By register: it is written on every way to where it is read, and by nothing that works in the background or is done
  /// elsewhere.
  std::vector<bool> assigned;
  /// Statements from the first to the last that may run while the register's value is needed; `last` < `first`: none.
  struct Life {
    std::uint32_t first = ~0u, last = 0;
    void include(std::uint32_t statement) {
      first = first < statement ? first : statement;
      last = last > statement ? last : statement;
    }
  };
  std::vector<Life> lives;
};
RegisterLives register_lives(const Function& f);

}  // namespace kiln::emulator::ptx
