#include "cli/execute/emulate_program_mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <kiln/error.hpp>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <kiln/emulator/emulator.hpp>
#include "base/plural.hpp"
#include "driver/change.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/process.hpp"
#include "runtime/support/scratch.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

constexpr std::size_t kProgramRuns = 3;  // of kRunWays: a program takes longer than a kernel

/// A finding is known again by its kind. Where the unchanged program has one, its places, and what follows from it in other
/// kernels, may depend on addresses and on what was in memory.
using Key = std::string;

struct Ended {
  ProcessResult process;
  std::vector<std::string> lines;                         ///< of standard output
  std::vector<std::pair<Key, bool>> findings;             ///< and whether it is a note
  std::set<std::string> refused;                          ///< kernels and modules that cannot be run
  std::map<std::string, std::set<std::string>> launched;  ///< kernels, by the text of their module
  std::map<std::string, std::string> names;               ///< of modules, by their text
  std::uint64_t longest = 0;                              ///< launch, in warp instructions
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

void read_report(const std::string& path, Ended& out) {
  std::map<std::pair<int, std::uint64_t>, std::string> texts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json j = json_of(line);
    if (j.is_discarded()) continue;  // cut off where the program ended
    const std::string type = j.at("type");
    if (type == "unsupported") out.refused.insert(j.at("what"));
    if (!j.contains("module")) continue;
    const std::pair module(j.at("process").get<int>(), j.at("module").get<std::uint64_t>());
    if (type == "module") {
      texts[module] = j.at("ptx");
      out.names[texts[module]] = j.at("name");
    } else if (type == "launch") {
      out.launched[texts[module]].insert(j.at("kernel"));
      out.longest = std::max(out.longest, j.at("instructions").get<std::uint64_t>());
    } else if (type == "finding") {
      const Json& f = j.at("finding");
      out.findings.emplace_back(f.at("kind"), f.at("severity") == static_cast<int>(em::Severity::note));
    }
  }
}

/// Runs the program in one way after another.
class Runner {
 public:
  Runner(ProgramOptions options, const std::vector<std::string>& program)
      : options_(std::move(options)), gpu_(chosen_gpu(options_)), program_(program) {
    options_.threads = 1;
    options_.findings = true;
  }
  Ended run(std::size_t way, const driver::Change* change = nullptr) {
    const std::string name = fmt::format("{}/{}", scratch_.path(), next_++);
    ProgramOptions o = options_;
    kRunWays[way].set(o);
    o.tell_launches = change == nullptr;
    o.end_at_finding = change != nullptr && end_at_finding;
    if (change != nullptr) {
      o.change = name + ".change";
      change->write(o.change);
      o.budget = budget;
    }
    std::ofstream(name).close();  // the program's processes append to it
    ProcessRequest request;
    request.arguments = program_;
    request.environment = program_environment(o, gpu_, name);
    request.timeout_s = change == nullptr ? 3600 : timeout_s;
    Ended out;
    out.process = run_process(request);
    out.lines = lines_of(out.process.output);
    read_report(name, out);
    std::error_code ignored;
    std::filesystem::remove(name, ignored);
    if (change != nullptr) std::filesystem::remove(o.change, ignored);
    return out;
  }
  // Of mutants.
  std::uint64_t budget = 0;
  int timeout_s = 0;
  bool end_at_finding = false;

 private:
  ProgramOptions options_;
  const driver::Gpu& gpu_;
  const std::vector<std::string>& program_;
  const ScratchFolder scratch_;
  std::atomic<std::size_t> next_{0};
};

/// The unchanged program, in all ways.
class ProgramBaseline {
 public:
  explicit ProgramBaseline(Runner& runner) {
    double longest_ms = 0;
    for (std::size_t way = 0; way < kProgramRuns; ++way) {
      progress(fmt::format("the unchanged program, run {} of {}", way + 1, kProgramRuns));
      const Stopwatch watch;
      runs_.push_back(runner.run(way));
      longest_ms = std::max(longest_ms, watch.ms());
      add(runs_.back());
    }
    runner.budget = 4 * longest_ + 100'000;
    // Mutants run beside each other.
    runner.timeout_s = 20 + static_cast<int>(longest_ms / 1000 * 10);
    runner.end_at_finding = known_.empty();
  }
  /// Why the run is not one of the unchanged program; empty: it may be.
  std::string difference(const Ended& run) const {
    for (const auto& [key, note] : run.findings)
      if (!note && !known_.contains(key)) return key;
    if (run.process.timed_out) return "hang";
    if (!std::ranges::includes(refused_, run.refused)) return "refused";
    if (run.process.signal != 0) return "signal";
    const auto alike = [&](const auto& part) {
      return std::ranges::all_of(runs_, [&](const Ended& r) { return part(r) == part(runs_[0]); });
    };
    const auto status = [](const Ended& r) { return r.process.status; };
    if (alike(status) && status(run) != status(runs_[0])) return "exit-status";
    if (alike([](const Ended& r) { return r.lines.size(); })) {
      if (run.lines.size() != runs_[0].lines.size()) return "wrong-output";
      for (std::size_t i = 0; i < run.lines.size(); ++i)
        if (alike([&](const Ended& r) { return r.lines[i]; }) && run.lines[i] != runs_[0].lines[i])
          return "wrong-output";
    }
    for (const auto& [key, note] : run.findings)
      if (note && !notes_.contains(key)) return key;
    return {};
  }
  /// Whether output or exit status can tell anything.
  bool comparable() const {
    return std::ranges::all_of(runs_,
                               [&](const Ended& r) { return r.lines.size() == runs_[0].lines.size(); });
  }
  std::size_t findings() const { return known_.size(); }
  std::map<std::string, std::set<std::string>> launched;
  std::map<std::string, std::string> names;

 private:
  void add(const Ended& run) {
    if (!run.process.started || run.process.signal != 0 || run.process.timed_out)
      throw Error(ErrorCode::bad_input,
                  "--mutate needs a program that runs to its end; unchanged: " + run.process.end());
    for (const auto& [key, note] : run.findings) {
      if (note)
        notes_.insert(key);
      else
        known_.insert(key);
    }
    refused_.insert(run.refused.begin(), run.refused.end());
    for (const auto& [text, kernels] : run.launched) launched[text].insert(kernels.begin(), kernels.end());
    names.insert(run.names.begin(), run.names.end());
    longest_ = std::max(longest_, run.longest);
  }

  std::vector<Ended> runs_;
  std::set<Key> known_;
  std::set<std::string> notes_, refused_;
  std::uint64_t longest_ = 0;
};

/// What notices the mutant: "shared-race (lazy)"; empty: nothing does.
std::string killer(Runner& runner, const ProgramBaseline& baseline, const std::string& text,
                   const Candidate& c) {
  const driver::Change change{text.size(), driver::Change::hash_of(text), c.ptx->begin, c.ptx->end,
                              c.ptx->replacement};
  for (std::size_t way = 0; way < kProgramRuns; ++way)
    if (const std::string why = baseline.difference(runner.run(way, &change)); !why.empty())
      return fmt::format("{} ({})", why, kRunWays[way].policy);
  return {};
}

std::string remark(const ProgramBaseline& baseline) {
  std::string out;
  if (baseline.findings() > 0)
    out = fmt::format("the unchanged program has {} of its own, which kill{} no mutant",
                      number_of(static_cast<int>(baseline.findings()), "finding"),
                      baseline.findings() == 1 ? "s" : "");
  if (!baseline.comparable())
    out += std::string(out.empty() ? "" : "; ") +
           "its runs print differently many lines: output was not compared";
  return out;
}

}  // namespace

int mutate_program(const ProgramOptions& options, const MutantOptions& mutants,
                   const std::vector<std::string>& program, bool json) {
  const Stopwatch watch;
  if (program[0].empty()) throw Error(ErrorCode::bad_input, "no program after --");
  Runner runner(options, program);
  const ProgramBaseline baseline(runner);
  if (baseline.launched.empty())
    throw Error(ErrorCode::bad_input, "--mutate: the program launches no kernel");
  std::vector<Candidate> all;
  std::vector<const std::string*> texts;
  for (const auto& [text, kernels] : baseline.launched) {
    for (Candidate& c : kernel_candidates(text, kernels, mutants)) {
      c.owner = static_cast<int>(texts.size());
      c.module = baseline.names.at(text);
      all.push_back(std::move(c));
    }
    texts.push_back(&text);
  }
  choose(all, mutants);
  const auto told = [&watch](std::size_t done, std::size_t total, std::size_t survivors) {
    const auto part = static_cast<double>(done);
    progress(fmt::format("mutant {} of {}, {} survive, {} left", done, total, survivors,
                         time_text(watch.ms() * 1e3 / part * (static_cast<double>(total) - part))));
  };
  const auto judged = [&](const Candidate& c) {
    return killer(runner, baseline, *texts[static_cast<std::size_t>(c.owner)], c);
  };
  judge(all, [&] { return judged; }, {.threads = options.threads, .progress = told, .reach_first = true});
  progress("");
  return print_mutants(all, mutants, json, remark(baseline), watch.ms());
}

}  // namespace kiln::cli
