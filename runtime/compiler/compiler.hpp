// A kernel compiler: emitted text in, Binary out. NVRTC is one; others (HIPRTC, clang) implement the same
// interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kiln/runtime.hpp>

#include "runtime/support/hash.hpp"

namespace kiln {

/// One compile: the source and the exact target id, which may be newer than the manifest's (sm_80 source on
/// an sm_90).
struct CompileJob {
  const KernelSource& source;
  std::string target;
  bool ptx_only = false;  ///< of NVIDIA targets
};

/// Where several compilers serve a target, the one of the lowest rank makes the kernel.
struct Offer {
  int rank = 0;
  std::string obstacle;  ///< one line: why it cannot, and what to do; empty when it can
};

class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;

  /// True when targets of this family are its business, found or not.
  virtual bool serves(std::string_view target) const = 0;
  /// Whether it is there and new enough for a target it serves, as far as that is known without compiling.
  /// Never throws.
  virtual Offer offer(std::string_view target) = 0;
  /// "nvrtc 13.0 <content id>": what made an artefact, with no path in it. Throws Error (environment) when
  /// absent.
  virtual std::string identity() = 0;
  /// The canonical option list of a job, without names that depend on the machine.
  virtual std::vector<std::string> options(const CompileJob& job) const = 0;
  /// Throws Error: environment, compile.
  virtual Binary compile(const CompileJob& job) = 0;
  /// For doctor: never throws for what is missing.
  virtual DoctorReport::Compiler probe() = 0;
};

/// Key of a job: schema, target, options, compiler identity, code after the head comment, and what is checked
/// in it. Name, config and kiln version enter only through the code.
Hash128 cache_key(const CompileJob& job, const std::string& compiler,
                  const std::vector<std::string>& options);

/// Reads registers, spills, stack and static shared memory of `binary.entry` out of a ptxas -v log, and
/// appends to binary.warnings what no kernel of kiln may have: spills and advisories of the C75xx family
/// (serialised wgmma).
void read_ptxas_log(Binary& binary);

/// The lines of a compiler's log that warn of something in the source or the program. A compile does not
/// fail by them, since another version of a compiler warns of other things.
std::vector<std::string> compiler_warnings(std::string_view log);

/// Appends a warning for every expectation of the manifest that the PTX does not meet.
void check_expectations(Binary& binary, const Manifest& manifest);

/// The first line of a compiler's log that states an error, for the one-line summary; empty when there is
/// none.
std::string first_error(const std::string& log);

/// Occurrences of instructions whose mnemonic starts with `prefix`, as opcodes or inside larger statements.
int count_instructions(std::string_view ptx, std::string_view prefix);

}  // namespace kiln
