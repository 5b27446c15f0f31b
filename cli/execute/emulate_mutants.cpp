#include "cli/execute/emulate_mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <kiln/error.hpp>
#include <set>

#include "workbench/verify/mutants.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

constexpr double kTolerance = 1e-3;  ///< of arrays whose bytes depend on the order of warps

constexpr std::size_t kLaunchRuns = std::size(kRunWays);

EmulateOptions run_options(const EmulateOptions& given, std::size_t way) {
  EmulateOptions o = given;
  kRunWays[way].set(o);
  o.findings = true;
  return o;
}

struct LaunchOutcome {
  std::string failure;  ///< "shared-race", "wrong-result", ...; empty: ran to its end with no finding
  std::string message;
  std::set<std::string> notes;
  std::vector<EmulateOutput> outputs;
  std::uint64_t instructions = 0;
};

LaunchOutcome run_once(const EmulateOptions& options, const LaunchFile& file,
                       const std::map<std::string, std::string>& changed) {
  LaunchOutcome out;
  try {
    EmulateSession session(options, file, changed);
    for (const LaunchPlan& plan : file.launches) {
      const em::Report report = session.run(plan);
      out.instructions = std::max(out.instructions, report.counters.warp_instructions);
      for (const em::Finding& f : report.findings) {
        if (f.severity == em::Severity::note) out.notes.insert(f.kind);
        if (out.failure.empty() && f.severity != em::Severity::note)
          out.failure = f.kind, out.message = f.message;
      }
      if (out.failure.empty() && !report.completed) out.failure = "stopped";
      if (!out.failure.empty()) return out;
    }
    out.outputs = session.outputs();
  } catch (const Error& error) {
    out.failure = "refused";
    out.message = error.what();
  }
  return out;
}

bool is_float(NpyType t) {
  return t == NpyType::f16 || t == NpyType::f32 || t == NpyType::f64;
}

/// || a - b || / || b ||; infinite where either has what is no number and the other has not.
double distance(const NpyArray& a, const NpyArray& b) {
  const std::vector<float> x = to_floats(a), y = to_floats(b);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    difference += (double{x[i]} - double{y[i]}) * (double{x[i]} - double{y[i]});
  }
  for (const float v : y) norm += std::isfinite(v) ? double{v} * double{v} : 0;
  return std::isfinite(difference) ? std::sqrt(difference / std::max(norm, 1e-300)) : INFINITY;
}

/// The unchanged program's results, by run.
class LaunchBaseline {
 public:
  LaunchBaseline(const EmulateOptions& options, const LaunchFile& file) {
    for (std::size_t w = 0; w < kLaunchRuns; ++w) {
      EmulateOptions o = run_options(options, w);
      runs_.push_back(run_once(o, file, {}));
      const LaunchOutcome& run = runs_.back();
      budget = std::max(budget, 4 * run.instructions + 100'000);
      if (failure.empty() && !run.failure.empty())
        failure = fmt::format("{} ({}): {}", run.failure, kRunWays[w].policy, run.message);
    }
    for (std::size_t i = 0; failure.empty() && i < runs_[0].outputs.size(); ++i)
      if (std::ranges::any_of(runs_, [&](const LaunchOutcome& r) { return !same_bytes(r, i); }))
        loose_.insert(i);
  }
  /// Whether results of run `way` are those of the unchanged program.
  bool accepts(const LaunchOutcome& run) const {
    for (std::size_t i = 0; i < run.outputs.size(); ++i) {
      if (same_bytes(run, i)) continue;
      const NpyArray &got = run.outputs[i].array, &want = runs_[0].outputs[i].array;
      if (!loose_.contains(i) || (is_float(want.type) && !(distance(got, want) <= kTolerance))) return false;
    }
    return true;
  }
  /// A note that the unchanged program has not; empty: none.
  std::string new_note(const LaunchOutcome& run) const {
    const auto it = std::ranges::find_if(
        run.notes, [&](const std::string& kind) { return !runs_[0].notes.contains(kind); });
    return it == run.notes.end() ? "" : *it;
  }
  bool has_outputs() const { return !runs_[0].outputs.empty(); }
  std::string failure;       ///< what is wrong with the program itself
  std::uint64_t budget = 0;  ///< of instructions, for a mutant

 private:
  bool same_bytes(const LaunchOutcome& run, std::size_t i) const {
    return run.outputs[i].array.data == runs_[0].outputs[i].array.data;
  }
  std::vector<LaunchOutcome> runs_;
  std::set<std::size_t> loose_;
};

/// A module of the launch file, by the number that its candidates have as owner.
struct Program {
  std::string module, text;
};

std::vector<Candidate> candidates_of(const Program& program, const std::set<std::string>& kernels,
                                     const MutantOptions& options) {
  const ProgramKind kind = program_kind(program.text);
  if (kind == ProgramKind::amd_assembly)
    throw Error(ErrorCode::bad_input, program.module + ": --mutate needs the code object, not assembly text");
  if (kind == ProgramKind::ptx) return kernel_candidates(program.text, kernels, options);
  std::vector<Candidate> out;
  for (const std::string& kernel : kernels)
    std::ranges::move(code_object_candidates(program.text, program.module, kernel), std::back_inserter(out));
  return out;
}

class Mutants {
 public:
  Mutants(const EmulateOptions& options, const LaunchFile& file, const LaunchBaseline& baseline)
      : options_(options), file_(file), baseline_(baseline) {
    EmulateSession session(options, file);
    std::map<std::string, std::set<std::string>> kernels;
    for (const LaunchPlan& plan : file.launches) kernels[plan.module].insert(session.kernel_of(plan));
    for (const auto& [module, names] : kernels) {
      programs_.push_back({module, session.text(module)});
      for (Candidate& c : candidates_of(programs_.back(), names, options.mutants)) {
        c.owner = static_cast<int>(programs_.size()) - 1;
        c.module = module;
        all.push_back(std::move(c));
      }
    }
    choose(all, options.mutants);
  }

  /// Judges every mutant, on as many host threads as are allowed.
  void run() {
    const Stopwatch watch;
    const auto told = [&watch](std::size_t done, std::size_t total, std::size_t survivors) {
      const auto part = static_cast<double>(done);
      progress(fmt::format("mutant {} of {}, {} survive, {} left", done, total, survivors,
                           time_text(watch.ms() * 1e3 / part * (static_cast<double>(total) - part))));
    };
    judge(all, [this] { return [this](const Candidate& c) { return killer(c); }; },
          {.threads = options_.threads, .progress = told, .reach_first = true});
  }
  std::vector<Candidate> all;

 private:
  /// What notices the mutant, "shared-race (lazy)"; empty: nothing does.
  std::string killer(const Candidate& c) const {
    const Program& program = programs_[static_cast<std::size_t>(c.owner)];
    const std::map<std::string, std::string> changed = {{program.module, changed_program(program.text, c)}};
    for (std::size_t w = 0; w < kLaunchRuns; ++w) {
      EmulateOptions o = run_options(options_, w);
      o.budget = baseline_.budget;
      o.threads = 1;
      o.stop_at_finding = true;
      const LaunchOutcome run = run_once(o, file_, changed);
      if (!run.failure.empty()) return fmt::format("{} ({})", run.failure, kRunWays[w].policy);
      if (const std::string note = baseline_.new_note(run); !note.empty())
        return fmt::format("{} ({})", note, kRunWays[w].policy);
      if (!baseline_.accepts(run)) return fmt::format("wrong-result ({})", kRunWays[w].policy);
    }
    return {};
  }

  const EmulateOptions& options_;
  const LaunchFile& file_;
  const LaunchBaseline& baseline_;
  std::vector<Program> programs_;
};

}  // namespace

int emulate_mutants(const EmulateOptions& options, const LaunchFile& file, bool json) {
  const Stopwatch watch;
  const LaunchBaseline baseline(options, file);
  if (!baseline.failure.empty())
    throw Error(ErrorCode::bad_input,
                "--mutate needs a program with no finding; unchanged: " + baseline.failure);
  Mutants mutants(options, file, baseline);
  mutants.run();
  progress("");
  return print_mutants(mutants.all, options.mutants, json,
                       baseline.has_outputs() ? "" : "no array has a file: results were not compared",
                       watch.ms());
}

}  // namespace kiln::cli
