// What `emulate --mutate` of kernels and of programs have in common: which mutants are tried, and what is printed of
// them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.hpp"
#include "workbench/verify/mutants.hpp"

namespace kiln::cli {

inline constexpr std::string_view kAllKinds = "all";

struct MutantOptions {
  bool mutate = false, all = false;  ///< all: the killed ones are listed, too
  std::string only;                  ///< statements that contain this
  std::vector<std::string> kinds;    ///< names, or kAllKinds; empty: those of synchronisation
  int sample = 0;                    ///< at most so many of each kind, spread over the program; 0: all
};

/// How what is tried runs, one way after another: a completion policy, and what is added to the seed.
struct RunWay {
  const char* policy;
  std::uint64_t seed;
  /// Sets `policy` and `seed` of options that have the caller's seed.
  template <class Options>
  void set(Options& options) const {
    options.policy = policy;
    options.seed += seed;
  }
};
inline constexpr RunWay kRunWays[] = {{"lazy", 1}, {"eager", 2}, {"random", 3}, {"random", 4}, {"random", 5}};

/// Mutants of `kernels` and of functions, which any kernel may call.
std::vector<Candidate> kernel_candidates(const std::string& ptx, const std::set<std::string>& kernels,
                                         const MutantOptions& options);
/// Removes what the options do not want, of several programs together.
void choose(std::vector<Candidate>& candidates, const MutantOptions& options);

/// Prints what became of them, with `remark` before the last line; exit status 0: none survives.
int print_mutants(const std::vector<Candidate>& mutants, const MutantOptions& options, bool json,
                  const std::string& remark, double ms);

}  // namespace kiln::cli
