// One run of the launches that `kiln emulate` was given: programs, memory and arguments.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "cli/execute/emulate_args.hpp"
#include "cli/execute/emulate_launches.hpp"
#include "cli/execute/mutant_report.hpp"

namespace kiln::cli {

struct EmulateOptions {
  std::string architecture;  ///< of CUDA C++ that is compiled first: "sm_80", ...; empty: sm_90a
  std::string file, kernel, grid = "1,1,1", block = "1,1,1", cluster = "1,1,1", policy = "eager";
  std::uint32_t shared = 0, sms = 0;
  bool findings = true;
  int threads = 0;
  std::uint64_t seed = 0, budget = std::uint64_t{1} << 36;
  std::vector<std::string> args;
  MutantOptions mutants;
  bool stop_at_finding = false;  ///< a mutant is dead at its first
};

/// PTX, AMD assembly text or an AMD code object, by what the text is.
enum class ProgramKind : std::uint8_t { ptx, amd_assembly, amd_code_object };
ProgramKind program_kind(const std::string& text);

class EmulateSession {
 public:
  /// Makes the arrays. A program in `changed` is run as that text instead of its file's.
  EmulateSession(const EmulateOptions& options, const LaunchFile& file,
                 std::map<std::string, std::string> changed = {});
  ~EmulateSession();
  emulator::Report run(const LaunchPlan& plan);
  /// The file of a program, as it is run.
  const std::string& text(const std::string& path);
  void write_outputs() const { args_.write_outputs(); }
  std::vector<EmulateOutput> outputs() const { return args_.outputs(); }
  /// The name of the kernel that a launch runs.
  std::string kernel_of(const LaunchPlan& plan);

 private:
  struct Program;
  Program& program(const std::string& path);
  void initialise(const LaunchFile::Variable& v);
  emulator::Report run_ptx(const LaunchPlan& plan, const Program& program);
  emulator::Report run_gcn(const LaunchPlan& plan, const Program& program);
  template <class Launch>
  Launch common(const LaunchPlan& plan, const std::vector<std::string>& kernels) const;

  const EmulateOptions& options_;
  const LaunchFile& file_;
  std::map<std::string, std::string> changed_;
  emulator::GlobalMemory memory_;
  EmulateArgs args_;
  bool released_dependents_ = true;  ///< the launch before let the next one begin; not known of the first's
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

}  // namespace kiln::cli
