// Mutants of a code object: every wait and barrier removed or weakened and every LDS address changed, one at
// a time. What a test of the program (or of the emulated device) must notice. Instructions are patched in
// place, so no assembler is needed and nothing else of the program moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/emulator/amdgcn.hpp>
#include "emulator/mutate/kinds.hpp"

namespace kiln::emulator::amdgcn {

/// One change: the 32-bit word at `offset` of the file becomes `word`.
struct Mutation {
  MutationKind kind = MutationKind::barrier_removed;
  std::string change;   ///< "removed", "vmcnt + 1", "offset ^ 16", ...
  int line = 0;         ///< of Module::disassembly(), from 1
  std::string text;     ///< the instruction as it was
  int source_line = 0;  ///< of the line table; 0 without
  std::size_t offset = 0;
  std::uint32_t word = 0;
  /// Why no run can notice it, where that follows from the program: what the wait waits for is over on every
  /// path, a later wait covers it before anything depends on it, or the barrier has one wave to wait for.
  /// Empty: no such reason.
  std::string equivalent;
};

/// s_trap 2: ends any run that comes by.
inline constexpr std::uint32_t kTrap = 0xbf920002;

/// All mutants of a kernel, in the order of its code. Throws Error when the module is no code object. What is
/// changed:
///   s_barrier                           removed
///   s_waitcnt                           each count it waits for: not waited; one more left under way
///   LDS reads and writes of 8 and 16 bytes   offset ^ 16 (which 16-byte chunk: a swizzle gone wrong)
///   M0 made from a literal              + 256 (where a copy to LDS lands)
std::vector<Mutation> mutations(const Module& module, std::string_view kernel);

/// The code object with one mutation applied.
std::string apply(std::string code_object, const Mutation& mutation);

}  // namespace kiln::emulator::amdgcn
