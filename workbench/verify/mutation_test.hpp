// Mutation testing of a kernel: every synchronisation of the compiled program (and every swizzle of its
// tensor maps) is removed or weakened, one at a time, and the mutant runs on the emulated device under
// several completion policies. A mutant is killed by a finding, a wrong result or a run that does not end;
// one that survives is a synchronisation nobody needs, or a hazard that no run notices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <kiln/generator.hpp>
#include <kiln/runtime.hpp>

namespace kiln {

struct MutationOptions {
  std::uint64_t seed = 0;
  int threads = 0;      ///< 0: as many as the host has
  std::string only;     ///< statements that contain this; empty: all
  int random_runs = 3;  ///< seeds of random completion after eager and lazy
  /// Told after each mutant, from any thread, one call at a time.
  std::function<void(std::size_t done, std::size_t total, std::size_t survivors)> progress;
};

/// A mutant and what became of it.
struct Mutant {
  std::string change;     ///< "removed", "parity flipped", ...
  std::string statement;  ///< the PTX statement, or "tensor map of K"
  int ptx_line = 0;       ///< 0: not a statement
  int source_line = 0;    ///< in NAME.cu, of the call where a helper was inlined; 0: unknown
  bool killed = false;
  /// Why it survived with reason, not for want of a test: the wgmma multiplies by zeros (with zeros in A's
  /// place every result stays), an earlier wgmma.fence covers all registers, or a wgmma wait or commit is
  /// reached (a trap in its place kills) and a later wait covers it. Of code objects what the patch says of
  /// itself. Empty: no such reason.
  std::string equivalent = {};
  bool reached = true;  ///< of a survivor: some problem runs the statement
  std::string by = {};  ///< finding kind or "wrong-result", with the policy: "deadlock (lazy)"
};

struct MutationReport {
  std::vector<std::string> findings;  ///< of the unchanged kernel: must be empty, else nothing is proven
  std::vector<Mutant> mutants;
  std::vector<Mutant> equivalent;  ///< not among `mutants`
  std::size_t killed() const;
};

/// Runs all mutants of `binary`, the compiled form of `source`. Throws what launches of the unchanged kernel
/// throw.
MutationReport test_mutants(const Plan& plan, const KernelSource& source, const Binary& binary,
                            const MutationOptions& options = {});

}  // namespace kiln
