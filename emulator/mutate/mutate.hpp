// Mutants of a PTX program: every synchronisation in it removed or weakened, one at a time. What a test of
// the program (or of the emulated device) must notice.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/mutate/kinds.hpp"

namespace kiln::emulator {

/// One change of the text: bytes [begin, end) become `replacement`. Line numbers stay as they are.
struct Mutation {
  MutationKind kind = MutationKind::barrier_removed;
  std::string change;  ///< what is done: "removed", "count + 1", "parity flipped", ...
  int ptx_line = 0;
  std::string ptx_text;  ///< the statement, one line
  std::string source_file;
  int source_line = 0;  ///< of `.loc`; 0 without
  int caller_line = 0;  ///< where that was inlined; 0: it was not
  std::size_t begin = 0, end = 0;
  std::string replacement;
  /// Of a wgmma's descriptor B with A in registers: the statement with zeros for A. If that changes no result
  /// either, the instruction multiplies by zeros only and the mutant is equivalent to the program.
  std::string with_zeros;
};

enum class MutationSet : std::uint8_t {
  synchronisation,  ///< synchronisation and operands of matrix instructions
  all,              ///< and mistakes in indices, bounds, guards, masks, scopes and atomics
};

/// All mutants of the defined functions of a module, in the order of the text; mutation_kinds() says which there are.
/// Throws Error for text that is no PTX.
std::vector<Mutation> mutations(std::string_view ptx, MutationSet set = MutationSet::synchronisation);

/// The text with one mutation applied.
std::string apply_mutation(std::string_view ptx, const Mutation& mutation);

/// Why a mutant that no run notices changes nothing; empty: no such reason. `kills(replacement)` tells whether a
/// run notices that text in the statement's place.
std::string equivalent_reason(const Mutation& mutation,
                              const std::function<bool(const std::string& replacement)>& kills);

}  // namespace kiln::emulator
