// emulate: any PTX kernel or AMD code object on the emulated device, one launch from the command line or
// several from a launch file, arrays from and to .npy.
#include <fmt/format.h>

#include <algorithm>
#include <kiln/error.hpp>
#include <memory>
#include <tuple>

#include <kiln/emulator/emulator.hpp>
#include "cli/commands.hpp"
#include "cli/execute/emulate_launches.hpp"
#include "cli/execute/emulate_mutants.hpp"
#include "cli/execute/emulate_program.hpp"
#include "cli/execute/emulate_program_mutants.hpp"
#include "cli/execute/emulate_report.hpp"
#include "cli/execute/emulate_session.hpp"
#include "cli/generate/diagnostics.hpp"
#include "cli/output.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

struct CommandOptions : EmulateOptions {
  ProgramOptions program;
};

// One launch from the command line, or those of a launch file.
LaunchFile launches_of(const EmulateOptions& options) {
  if (options.file.ends_with(".json")) {
    if (!options.args.empty() || !options.kernel.empty() || options.shared != 0)
      throw Error(ErrorCode::bad_input,
                  options.file + ": --kernel, --arg and --shared belong in the launch file");
    LaunchFile file = read_launch_file(options.file);
    if (options.sms != 0) file.sms = options.sms;
    return file;
  }
  LaunchFile file;
  if (options.sms != 0) file.sms = options.sms;
  LaunchPlan plan;
  plan.module = options.file;
  plan.kernel = options.kernel;
  plan.grid = parse_dim(options.grid, "--grid");
  plan.block = parse_dim(options.block, "--block");
  plan.cluster = parse_dim(options.cluster, "--cluster");
  plan.shared = options.shared;
  plan.args = options.args;
  file.launches.push_back(std::move(plan));
  return file;
}

int emulate(const EmulateOptions& options, bool json) {
  const LaunchFile file = launches_of(options);
  if (options.mutants.mutate) return emulate_mutants(options, file, json);
  EmulateSession session(options, file);
  const bool several = file.launches.size() > 1;
  bool good = true, completed = true;
  Json documents = Json::array();
  ProgressCount count(file.launches.size());
  for (std::size_t i = 0; i < file.launches.size() && completed; ++i) {
    const LaunchPlan& plan = file.launches[i];
    const Stopwatch watch;
    count.show(i, "running " + demangled(plan.kernel));
    const em::Report report = session.run(plan);
    progress("");
    completed = report.completed;
    good &= completed && std::none_of(report.findings.begin(), report.findings.end(),
                                      [](const em::Finding& f) { return f.severity != em::Severity::note; });
    if (json) {
      documents.push_back(report_json(report));
      continue;
    }
    if (several) fmt::print("launch {}: {}\n", i, demangled(plan.kernel));
    Diagnostics diagnostics(plan.module, session.text(plan.module));
    print_report(report, watch.ms(), diagnostics);
  }
  // What a stopped kernel left behind is not a result.
  if (completed) session.write_outputs();
  if (json) print_json(several ? Json{{"launches", documents}, {"completed", completed}} : documents[0]);
  return good ? 0 : 1;
}

void add_mutants(CLI::App& command, MutantOptions& options) {
  command.add_flag(
      "--mutate", options.mutate,
      "Remove or weaken each synchronisation in turn and count what findings and results tell of");
  command.add_flag("--all-mutants", options.all, "With --mutate: list the killed ones too, and by what");
  command.add_option("--only", options.only, "With --mutate: only statements that contain this text");
  std::vector<std::string> kinds{std::string(kAllKinds)};
  for (const auto& kind : emulator::mutation_kinds()) kinds.emplace_back(kind.name);
  command
      .add_option("--kinds", options.kinds,
                  "With --mutate: kinds of mutants, with commas between, or all (default: synchronisation)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(std::move(kinds)));
  command
      .add_option("--sample", options.sample,
                  "With --mutate: at most so many of each kind, spread over the program")
      ->check(CLI::Range(1, 1000000));
}

void add_program_options(CLI::App& command, ProgramOptions& program) {
  command.add_option("--gpu", program.gpu, "Which GPU a program sees: " + gpu_names() + " (default: H200)");
  command.add_option(
      "--arch", program.arch,
      "The same by architecture: sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_103; also what a .cu file "
      "is compiled for");
  command.add_option("--error-exitcode", program.error_status, "Exit status of a program with findings (1)")
      ->check(CLI::Range(0, 255));
}

}  // namespace

Action add_emulate(CLI::App& command, Common& common) {
  auto options = std::make_shared<CommandOptions>();
  command.add_option(
      "FILE", options->file,
      "PTX text, CUDA C++ (.cu, compiled with NVRTC first), an AMD code object or assembly text, or a "
      "launch file (.json)");
  command.add_option("--kernel", options->kernel, "Kernel to run; may be left out when there is only one");
  command.add_option("--grid", options->grid, "Blocks: x,y,z")->expected(1);
  command.add_option("--block", options->block, "Threads of a block: x,y,z")->expected(1);
  command.add_option("--cluster", options->cluster, "Blocks of a cluster: x,y,z")->expected(1);
  command.add_option("--sms", options->sms, "Multiprocessors of the device (default: 132)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--shared", options->shared, "Dynamic shared memory in bytes");
  command
      .add_option("--arg", options->args,
                  "One kernel argument, in order: u32:5, u64:7, f32:0.5, in:FILE.npy, inout:FILE.npy, "
                  "out:DTYPE[SHAPE]:FILE.npy, zeros:DTYPE[SHAPE]:FILE.npy, bytes:FILE@OFFSET=ARRAY")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--policy", options->policy, "When asynchronous work completes: eager, lazy or random")
      ->check(CLI::IsMember({"eager", "lazy", "random"}));
  command.add_option("--seed", options->seed, "Seed of the warp order and of random completion");
  command
      .add_option_function<std::string>(
          "--findings", [options](const std::string& v) { options->findings = v == "on"; },
          "Look for mistakes (on, the default) or only run (off, faster)")
      ->check(CLI::IsMember({"on", "off"}));
  command.add_option("--threads", options->threads, "Host threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  add_mutants(command, options->mutants);
  command.add_option("--max-instructions", options->budget, "Stop after this many warp instructions");
  add_program_options(command, options->program);
  command.footer(
      "`kiln emulate -- PROGRAM ARGUMENTS` runs a CUDA program whose fat binary has PTX, on a machine without a GPU. "
      "Findings come at the end, on standard error. The exit status is the program's, or --error-exitcode if there "
      "are findings.");
  return [options, &common] {
    if (common.program.empty()) {
      if (options->file.empty())
        throw Error(ErrorCode::bad_input, "no FILE and no program; see `kiln emulate --help`");
      options->architecture = options->program.arch;
      return emulate(*options, common.json);
    }
    if (!options->file.empty())
      throw Error(
          ErrorCode::bad_input,
          fmt::format("'{}': options of kiln go before --, FILE is for kernels alone", options->file));
    ProgramOptions& program = options->program;
    program.sms = options->sms;
    program.policy = options->policy;
    program.seed = options->seed;
    program.budget = options->budget;
    program.findings = options->findings;
    program.threads = options->threads;
    if (options->mutants.mutate)
      return mutate_program(program, options->mutants, common.program, common.json);
    return emulate_program(program, common.program, common.json);
  };
}

}  // namespace kiln::cli
