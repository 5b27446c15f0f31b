// sweep: every combination of a grid up the ladder: validate, generate twice, compile, and with --run check
// on the emulated device.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <kiln/kiln.hpp>
#include <map>
#include <numeric>
#include <random>

#include "cli/commands.hpp"
#include "cli/config_source.hpp"
#include "cli/output.hpp"
#include "cli/sweep_grid.hpp"
#include "runtime/analysis/amd_checks.hpp"
#include "runtime/problem/ladder.hpp"

namespace kiln::cli {
namespace {

struct Options {
  std::string file;
  bool run = false, cover = false, no_compile = false, square = false;
  std::uint64_t seed = 0;
  std::size_t limit = 0, sample = 0;
  double minutes = 0;
};

struct Member {
  const Combination* combination;
  Plan plan;
  KernelSource source;
};

class Sweep {
 public:
  Sweep(const Options& options, bool json) : options_(options), json_(json) {}

  int run() {
    const ConfigText text = read_config_text(options_.file);
    const std::vector<Combination> combinations = expand_sweep(text.text, text.source_name);
    total_ = combinations.size();
    validate(combinations);
    std::vector<const Combination*> valid;
    for (const Member& member : members_) valid.push_back(member.combination);
    cover_ = options_.sample > 0 ? random_subset() : covering_subset(valid);
    if (!options_.no_compile) compile_and_run();
    report();
    return failed_.empty() ? 0 : 1;
  }

 private:
  void fail(const std::string& name, const char* level, const std::string& error) {
    failed_.push_back({{"name", name}, {"level", level}, {"error", error}});
    progress("");
    if (!json_) fmt::print("{} {} {}: {}\n", bad("failed"), level, name, error.substr(0, 2000));
  }

  // L0 for all; a valid config must also generate, and the same bytes twice.
  void validate(const std::vector<Combination>& combinations) {
    for (const Combination& combination : combinations) {
      progress(fmt::format("generating {} of {}", valid_ + invalid_, total_));
      const std::string text = combination.config.dump();
      try {
        Plan plan = make_plan(parse_config(text, "sweep"));
        ++valid_;
        KernelSource source = generate(plan);
        if (generate(make_plan(parse_config(text, "sweep"))).text != source.text) {
          fail(source.manifest.name, "generate", "two generations differ");
        }
        ++generated_;
        members_.push_back({&combination, std::move(plan), std::move(source)});
      } catch (const Error& error) {
        if (error.code() == ErrorCode::bad_config) {
          ++invalid_;
        } else {
          fail(text, "generate", error.what());
        }
      }
    }
  }

  // Combinations that no pairing rule chose.
  std::vector<std::size_t> random_subset() const {
    std::vector<std::size_t> all(members_.size()), drawn;
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::mt19937_64 random(options_.seed);
    std::sample(all.begin(), all.end(), std::back_inserter(drawn), options_.sample, random);
    std::shuffle(drawn.begin(), drawn.end(), random);
    return drawn;
  }

  bool out_of_time() {
    if (options_.minutes <= 0 || watch_.ms() < options_.minutes * 60e3) return false;
    ++skipped_;
    return true;
  }

  // Covering members first, so that a bounded sweep spends its time where values meet.
  void compile_and_run() {
    RuntimeOptions runtime_options;
    runtime_options.device = "emulated";
    Runtime runtime(runtime_options);
    std::vector<std::size_t> order = cover_;
    if (options_.limit > 0 && order.size() > options_.limit) order.resize(options_.limit);
    const std::size_t covering = order.size();
    if (!options_.cover && options_.sample == 0) {
      for (std::size_t i = 0; i < members_.size(); ++i) {
        if (std::find(cover_.begin(), cover_.end(), i) == cover_.end()) order.push_back(i);
      }
      if (options_.limit > 0 && order.size() > options_.limit) order.resize(options_.limit);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (out_of_time()) continue;
      const Member& member = members_[order[i]];
      progress(fmt::format("[{}/{}] {}", i + 1, order.size(), member.source.manifest.name));
      try {
        climb(runtime, member, options_.run && i < covering);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::environment) throw;
        fail(member.source.manifest.name, "compile", error.what());
      }
    }
  }

  void climb(Runtime& runtime, const Member& member, bool run) {
    const std::string& name = member.source.manifest.name;
    const auto binary = runtime.compile(member.source);
    ++compiled_;
    std::vector<std::string> broken = binary->warnings;
    for (std::string& line : amd_static_checks(member.plan, member.source.manifest, *binary))
      broken.push_back(std::move(line));
    if (!broken.empty()) return fail(name, "L2", fmt::format("{}", fmt::join(broken, "; ")));
    if (!run) return;
    EmulatorOptions emulator;
    // The policy changes from member to member, so that a sweep meets all three.
    constexpr EmulatorOptions::Policy kPolicies[] = {
        EmulatorOptions::Policy::random, EmulatorOptions::Policy::lazy, EmulatorOptions::Policy::eager};
    emulator.policy = kPolicies[run_ % 3];
    emulator.seed = options_.seed + run_;
    ++run_;
    const LadderRun result = run_cases(runtime, member.plan, member.source,
                                       boundary_cases(member.plan.resolved(), !options_.square), emulator, 2);
    if (result.passed()) {
      ++passed_;
      return;
    }
    const std::string why = !result.check.failures.empty()
                                ? result.check.failures.front()
                                : result.findings.front().kind + ": " + result.findings.front().message;
    fail(name, "L3",
         fmt::format("{} completion, seed {}: {} (config {})", result.policy, emulator.seed, why,
                     member.source.manifest.config_json));
  }

  void report() const {
    progress("");
    if (json_) {
      print_json({{"total", total_},
                  {"valid", valid_},
                  {"invalid", invalid_},
                  {"generated", generated_},
                  {"compiled", compiled_},
                  {"passed", passed_},
                  {"failed", failed_},
                  {"run", run_},
                  {"covering", cover_.size()},
                  {"skipped", skipped_}});
      return;
    }
    fmt::print(
        "{} combinations: {} valid, {} refused; {} generated, {} compiled, {} of {} runs passed, {} "
        "failed{}\n",
        total_, valid_, invalid_, generated_, compiled_, passed_, run_, failed_.size(),
        skipped_ > 0 ? fmt::format("; {} not reached in the time given", skipped_) : "");
  }

  const Options& options_;
  bool json_;
  Stopwatch watch_;
  std::vector<Member> members_;
  std::vector<std::size_t> cover_;
  std::size_t total_ = 0, valid_ = 0, invalid_ = 0, generated_ = 0, compiled_ = 0, run_ = 0, passed_ = 0,
              skipped_ = 0;
  Json failed_ = Json::array();
};

}  // namespace

Action add_sweep(CLI::App& command, Common& common) {
  auto options = std::make_shared<Options>();
  command.add_option("SWEEP", options->file, "Sweep file")->required();
  command.add_flag("--run", options->run, "Run a covering subset on the emulated device and check it");
  command.add_flag("--cover", options->cover, "Compile only the covering subset: every pair of values once");
  command.add_option(
      "--sample", options->sample,
      "Compile, and with --run check, this many drawn at random (--seed) instead of the covering subset");
  command.add_flag("--no-compile", options->no_compile, "Stop after generating");
  command.add_flag("--long", options->square, "With --run: the longest problems too");
  command.add_option("--limit", options->limit, "Compile at most this many");
  command
      .add_option("--minutes", options->minutes,
                  "Start nothing new after this time; what is left is counted as skipped")
      ->check(CLI::PositiveNumber);
  command.add_option("--seed", options->seed, "Seed of tensors and random completion");
  return [options, &common] { return Sweep(*options, common.json).run(); };
}

}  // namespace kiln::cli
