// verify: the ladder for one config. L0 the rules, L1 the layout proofs, L2 the compiler's resources and
// expected instructions, L3 emulated runs.
#include <fmt/format.h>

#include <kiln/kiln.hpp>
#include <optional>

#include "cli/commands.hpp"
#include "cli/execute/verify_quickly.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/generate/edited_source.hpp"
#include "cli/inspect/edited_changes.hpp"
#include "cli/inspect/sass.hpp"
#include "cli/output.hpp"
#include "generator/schedules/schedule.hpp"
#include "workbench/analysis/scoreboards.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/mutation_test.hpp"

namespace kiln::cli {
namespace {

struct VerifyOptions {
  std::string config, source;
  bool mutate = false, quick = false, verbose = false;
  std::string only;
  int threads = 0;
  std::uint64_t seed = 0;
  std::optional<int> random_runs;
};

// What the levels found, in the form of the document.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}
  void add(const std::string& level, const std::string& kind, const std::string& message) {
    list_.push_back({{"level", level}, {"kind", kind}, {"message", message}});
    if (!json_) fmt::print("{} {} {}: {}\n", bad("finding"), level, kind, message);
  }
  void level(const char* name, const std::string& text) const {
    if (!json_) fmt::print("{}  {}\n", name, text);
  }
  const Json& list() const { return list_; }

 private:
  bool json_;
  Json list_ = Json::array();
};

void record_run(const LadderRun& run, const std::string& what, Findings& findings) {
  for (const std::string& failure : run.check.failures)
    findings.add("L3", "wrong-result", run.policy + ": " + failure);
  for (const auto& f : run.findings) findings.add("L3", f.kind, run.policy + ": " + f.message);
  findings.level(
      "L3", fmt::format("{} completion, {}: {}, relative error {}", run.policy, what,
                        run.passed() ? good("passed") : bad("failed"), short_number(run.check.all.rel_err)));
}

void climb_emulated(const VerifyOptions& options, const Plan& plan, const KernelSource& source,
                    Runtime& runtime, Findings& findings) {
  const std::vector<LadderCase> cases = boundary_cases(plan.resolved(), options.quick);
  std::vector<EmulatorOptions> runs(2 + static_cast<std::size_t>(options.random_runs.value_or(2)));
  runs[1].policy = EmulatorOptions::Policy::lazy;
  for (std::size_t i = 2; i < runs.size(); ++i) runs[i].policy = EmulatorOptions::Policy::random;
  const bool has_exact = has_exact_cases(plan.resolved());
  const bool divides = source.manifest.takes("item_counters");
  ProgressCount count(runs.size() + (has_exact ? 1 : 0) + (divides ? 1 : 0));
  std::size_t done = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].seed = options.seed + i;
    count.show(done++, "emulated run");
    // Each promise about the launch before in turn, where the kernel knows of any.
    const auto before = static_cast<LaunchBefore>(i % 3);
    const LadderRun run = run_cases(runtime, plan, source, cases, runs[i], 2, before);
    progress("");
    record_run(run, fmt::format("seed {}", runs[i].seed), findings);
  }
  if (divides) {
    EmulatorOptions many = runs[1];
    many.num_sms = kDividedSms;
    count.show(done++, "emulated run of many parts");
    const LadderRun run = run_cases(runtime, plan, source, divided_case(plan.resolved()), many, 1);
    progress("");
    record_run(run, "many parts", findings);
  }
  if (!has_exact) return;
  count.show(done, "emulated run with exact products");
  const PosedCases exact = pose_exact_cases(plan.resolved(), cases, options.seed, 2);
  const LadderRun run = run_posed(runtime, source, exact, runs[1]);
  progress("");
  record_run(run, "exact products", findings);
}

// Every proof with its result; the list is the document's.
Json climb_layouts(const Plan& plan, Findings& findings) {
  Json list = Json::array();
  for (const auto& proof : plan.schedule().layout_proofs()) {
    list.push_back({{"what", proof.what}, {"holds", proof.holds}, {"bank_conflicts", proof.bank_conflicts}});
    if (!proof.holds) findings.add("L1", "layout", proof.what + " does not hold");
    findings.level(
        "L1", fmt::format("{}: {}{}", proof.what, proof.holds ? good("holds") : bad("fails"),
                          proof.bank_conflicts == 0 ? ""
                                                    : fmt::format(", {} bank conflicts in its worst access",
                                                                  proof.bank_conflicts)));
  }
  return list;
}

std::string file_of(const Manifest& manifest) {
  return manifest.name + (manifest.target.starts_with("gfx") ? ".hip" : ".cu");
}

std::string describe(const Mutant& m, const std::string& name) {
  std::string text = m.change + ": " + m.statement;
  if (m.ptx_line > 0) text += fmt::format(" (line {} of the program", m.ptx_line);
  if (m.source_line > 0) text += fmt::format(", {}:{}", name, m.source_line);
  return m.ptx_line > 0 ? text + ")" : text;
}

Json mutant_json(const Mutant& m, const std::string& name) {
  return {{"change", m.change},           {"statement", m.statement},
          {"ptx_line", m.ptx_line},       {"source_file", m.source_line > 0 ? name : ""},
          {"source_line", m.source_line}, {"killed_by", m.by}};
}

// Every synchronisation removed in turn, after the ladder itself has passed.
MutationReport mutate(const VerifyOptions& options, const Plan& plan, const KernelSource& source,
                      const Binary& binary, Findings& findings) {
  MutationOptions how;
  how.seed = options.seed;
  how.threads = options.threads;
  how.only = options.only;
  how.random_runs = options.random_runs.value_or(how.random_runs);
  const Stopwatch watch;
  how.progress = [&](std::size_t done, std::size_t total, std::size_t survivors) {
    progress(fmt::format(
        "mutant {} of {}, {} survive, {} left", done, total, survivors,
        time_text(watch.ms() * 1e3 / static_cast<double>(done) * static_cast<double>(total - done))));
  };
  MutationReport report = test_mutants(plan, source, binary, how);
  progress("");
  if (!options.only.empty() && report.findings.empty() && report.mutants.empty() && report.equivalent.empty())
    throw Error(
        ErrorCode::bad_input,
        fmt::format("--only '{}': no statement of the compiled program that mutation changes has this text; "
                    "kiln compile CONFIG --emit ptx --out FILE shows the program",
                    options.only));
  for (const std::string& finding : report.findings) findings.add("L3", "unchanged", finding);
  if (!report.findings.empty()) return report;
  for (const Mutant& m : report.mutants) {
    if (!m.killed)
      findings.level("mutants", bad("survives ") + describe(m, file_of(source.manifest)) +
                                    (m.reached ? "" : ", which no problem reaches"));
    else if (options.verbose)
      findings.level("mutants", m.by + ": " + describe(m, file_of(source.manifest)));
  }
  for (const Mutant& m : report.equivalent)
    findings.level("mutants", m.equivalent + ": " + describe(m, file_of(source.manifest)));
  findings.level("mutants", fmt::format("{} of {} killed in {}", report.killed(), report.mutants.size(),
                                        time_text(watch.ms() * 1e3)));
  return report;
}

// Waits that the compiler left out, which no run of the program on the emulated device can show.
void check_machine_code(const Manifest& manifest, const Binary& binary, Findings& findings) {
  if (!manifest.target.starts_with("sm_")) return;
  // Without analysis of the branch stack, which these targets do not have: a fourth less time.
  const SassListing listing = sass_listing(binary, {"-c", "-hex", "-ndf"});
  if (!listing.problem.empty()) return findings.level("L2", "machine code not looked at: " + listing.problem);
  const WaitReport report = check_waits(listing.text);
  if (report.instructions == 0)
    return findings.level("L2", "machine code not looked at: nvdisasm's listing has no instructions");
  for (const std::string& line : report.missing) findings.add("L2", "missing-wait", line);
  findings.level("L2", fmt::format("machine code, {} instructions: {}", report.instructions,
                                   report.missing.empty()
                                       ? "every result is waited for before its use"
                                       : "the compiler left out a wait; another version of it may not"));
}

int verify(const VerifyOptions& options, bool json) {
  const Plan plan = make_plan(load_config(options.config));
  const KernelSource source = source_of(plan, options.source);
  Findings findings(json);
  findings.level("L0", source.manifest.name + ": every rule holds");
  const Json proofs = climb_layouts(plan, findings);

  RuntimeOptions runtime_options;
  runtime_options.device = "emulated";
  Runtime runtime(runtime_options);
  std::optional<ProgressClock> clock(std::in_place, "compiling " + source.manifest.name);
  const std::shared_ptr<const Binary> binary = compiled(runtime, source);
  clock.reset();
  const std::vector<std::string> broken = static_failures(plan, source.manifest, *binary);
  for (const std::string& line : broken) findings.add("L2", "static-check", line);
  findings.level("L2", fmt::format("compiled by {}: {} registers, {} bytes spilled, {} static checks failed",
                                   binary->compiler, binary->registers, binary->spill_bytes, broken.size()));
  check_machine_code(source.manifest, *binary, findings);
  const Json changes =
      source.file.empty() ? Json() : changes_json(source, *runtime.compile(generate(plan)), *binary);
  if (!changes.is_null() && !json) print_changes(changes);
  MutationReport mutation;
  if (options.mutate)
    mutation = mutate(options, plan, source, *binary, findings);
  else
    climb_emulated(options, plan, source, runtime, findings);

  Json survivors = Json::array(), killed = Json::array(), equivalent = Json::array();
  for (const Mutant& m : mutation.equivalent) equivalent.push_back(mutant_json(m, file_of(source.manifest)));
  for (const Mutant& m : mutation.mutants)
    (m.killed ? killed : survivors).push_back(mutant_json(m, file_of(source.manifest)));
  if (json) {
    Json document{{"findings", findings.list()},
                  {"proofs", proofs},
                  // Without --mutate null says that no mutants were made.
                  {"mutants", options.mutate ? Json(mutation.mutants.size()) : Json()},
                  {"killed", options.mutate ? Json(mutation.killed()) : Json()},
                  {"survivors", survivors},
                  {"equivalent", equivalent},
                  {"name", source.manifest.name}};
    if (!changes.is_null()) document["edited"] = changes;
    if (options.verbose) document["killed_mutants"] = killed;
    print_json(document);
  }
  return findings.list().empty() && survivors.empty() ? 0 : 1;
}

}  // namespace

int verify_quickly(const std::string& config) {
  VerifyOptions options;
  options.config = config;
  options.quick = true;
  return verify(options, false);
}

Action add_verify(CLI::App& command, Common& common) {
  auto options = std::make_shared<VerifyOptions>();
  command.add_option("CONFIG", options->config, "Config to verify")->required();
  command.add_option("--source", options->source, kSourceHelp);
  command.add_flag("--quick", options->quick, "Leave out the longest problem");
  command.add_flag("--mutate", options->mutate,
                   "Instead of the emulated runs: remove or weaken each synchronisation of the compiled "
                   "program in turn and count what is caught");
  command.add_flag("--all-mutants", options->verbose, "With --mutate: list the killed ones too, and by what");
  command.add_option("--only", options->only, "With --mutate: only statements that contain this text");
  command.add_option("--threads", options->threads, "With --mutate: host threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--seed", options->seed, "Seed of tensors and random completion");
  command
      .add_option("--random-runs", options->random_runs,
                  "Runs with random completion (default 2, with --mutate 3)")
      ->check(CLI::Range(0, 1000));
  return [options, &common] { return verify(*options, common.json); };
}

}  // namespace kiln::cli
