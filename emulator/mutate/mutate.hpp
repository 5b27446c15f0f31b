// Mutants of a PTX program: every synchronisation in it removed or weakened, one at a time. What a test of
// the program (or of the emulated device) must notice.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::emulator {

/// One change of the text: bytes [begin, end) become `replacement`. Line numbers stay as they are.
struct Mutation {
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

/// All mutants of the defined functions of a module, in the order of the text. Throws Error for text that is
/// no PTX. What is changed:
///   barriers, bar.warp.sync, cluster barriers   removed
///   mbarrier.init                               arrival count + 1 and - 1
///   mbarrier.arrive, expect_tx                  removed; done twice; bytes + 16 and - 16
///   mbarrier waits                              not waited; parity flipped
///   fences, griddepcontrol.wait                 removed
///   commit groups                               removed
///   wait groups                                 removed; N + 1
///   wgmma descriptors                           one swizzle bit; start address + 32 bytes
///   tcgen05.mma                                 descriptors 32 bytes on, a swizzle bit, a sign, accumulation flipped, scales
///   tcgen05.commit, wait, dealloc, cp, alloc    removed; another multicast mask; half the columns
///   ldmatrix, stmatrix, shared addresses of cp.async    bit 4 (which 16-byte chunk) flipped
///   acquire, release, acq_rel of atomics        relaxed
std::vector<Mutation> mutations(std::string_view ptx);

/// The text with one mutation applied.
std::string apply_mutation(std::string_view ptx, const Mutation& mutation);

/// Why a mutant that no run notices changes nothing; empty: no such reason. `kills(replacement)` tells whether a
/// run notices that text in the statement's place.
std::string equivalent_reason(const Mutation& mutation,
                              const std::function<bool(const std::string& replacement)>& kills);

}  // namespace kiln::emulator
