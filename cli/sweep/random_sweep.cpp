#include "cli/sweep/random_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <kiln/kiln.hpp>
#include <map>
#include <random>

#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "cli/sweep/shrink.hpp"
#include "generator/config/json_text.hpp"
#include "generator/plan/draw.hpp"
#include "generator/schedules/schedule.hpp"
#include "workbench/verify/ladder.hpp"

namespace kiln::cli {
namespace {

/// A drawn config is right or not for a reason of few keys: those that can go without it passing.

std::vector<Json> shipped_documents() {
  std::vector<Json> out;
  for (const ShippedConfig& shipped : shipped_configs()) {
    Json config = json_of(shipped.text);
    if (!config.is_object()) continue;
    config.erase("$schema");
    out.push_back(std::move(config));
  }
  return out;
}

struct Failure {
  std::string level, what;
};

class RandomTrials {
 public:
  RandomTrials(const RandomSweep& options, bool json)
      : options_(options),
        json_(json),
        random_(options.seed + 1),
        draw_(options.seed, options.targets, shipped_documents()),
        runtime_([] {
          RuntimeOptions out;
          out.device = "emulated";
          return out;
        }()) {}

  int run() {
    if (!json_) fmt::print("seed {}\n", options_.seed);
    std::fflush(stdout);
    ProgressDeadline count(options_.minutes * 60);
    while (watch_.ms() < options_.minutes * 60e3 && (options_.trials == 0 || trials_ < options_.trials)) {
      const Json config = draw_.next();
      ++trials_;
      count.show(fmt::format("config {}: {}", trials_, write_json(config).substr(0, 80)));
      const std::uint64_t seed = random_();
      if (const auto failure = trial(config, seed, true)) report_failure(config, seed, *failure);
      covered_.add(config);
      ++by_target_[config["target"].get<std::string>()];
    }
    progress("");
    report();
    return failed_.empty() ? 0 : 1;
  }

 private:
  std::optional<Failure> trial(const Json& config, std::uint64_t seed, bool count) {
    try {
      return climb(config, seed, count);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::environment)
        throw Error(ErrorCode::environment, fmt::format("{}; drawn: {}", error.what(), write_json(config)));
      return Failure{"error", error.what()};
    } catch (const std::exception& error) {
      return Failure{"error", std::string("not a kiln error: ") + error.what()};
    }
  }

  std::optional<Failure> climb(const Json& config, std::uint64_t seed, bool count) {
    Json named = config;
    named["name"] = "drawn";
    const Plan plan = make_plan(parse_config(write_json(named), "drawn"));
    const KernelSource source = generate(plan);
    for (const layout::Proof& proof : plan.schedule().layout_proofs()) {
      if (count) ++proofs_;
      if (!proof.holds) return Failure{"L1", proof.what + " does not hold"};
    }
    if (kernel_of(make_plan(plan.resolved())) != kernel_of(plan))
      return Failure{"L0", "the resolved config is another kernel"};
    if (const auto idle = idle_keys(config); !idle.empty())
      return Failure{"L0", fmt::format("changes nothing: {}", fmt::join(idle, ", "))};
    const auto binary = runtime_.compile(source);
    const std::vector<std::string> broken = static_failures(plan, source.manifest, *binary);
    if (!broken.empty()) return Failure{"L2", fmt::format("{}", fmt::join(broken, "; "))};
    std::mt19937_64 random(seed);
    std::vector<LadderCase> cases = boundary_cases(plan.resolved(), true);
    std::shuffle(cases.begin(), cases.end(), random);
    cases.resize(std::min<std::size_t>(cases.size(), 4));
    constexpr EmulatorOptions::Policy kPolicies[] = {
        EmulatorOptions::Policy::random, EmulatorOptions::Policy::lazy, EmulatorOptions::Policy::eager};
    const PosedCases posed = pose_cases(plan.resolved(), cases, seed, 2);
    EmulatorOptions emulator;
    emulator.seed = seed;
    for (const EmulatorOptions::Policy policy : kPolicies) {
      emulator.policy = policy;
      if (count) ++runs_;
      const auto before = static_cast<LaunchBefore>(random() % 3);
      const LadderRun result = run_posed(runtime_, source, posed, emulator, before);
      if (auto failure = failure_of(result)) return failure;
    }
    if (!has_exact_cases(plan.resolved())) return std::nullopt;
    return failure_of(
        run_posed(runtime_, source, pose_exact_cases(plan.resolved(), cases, seed, 2), emulator));
  }

  static std::optional<Failure> failure_of(const LadderRun& run) {
    if (run.passed()) return std::nullopt;
    const std::string why = !run.check.failures.empty()
                                ? run.check.failures.front()
                                : run.findings.front().kind + ": " + run.findings.front().message;
    return Failure{"L3", fmt::format("{} completion, {}: {}", run.policy, run.problem, why)};
  }

  void report_failure(const Json& config, std::uint64_t seed, const Failure& failure) {
    const Json small = shrunk(config, kShrinkTrials, [&](const Json& without) {
      if (!plans(without)) return false;
      const auto same = trial(without, seed, false);
      return same && same->level == failure.level;
    });
    progress("");
    failed_.push_back({{"level", failure.level},
                       {"error", failure.what},
                       {"config", small},
                       {"drawn", config},
                       {"case_seed", seed}});
    if (!json_)
      fmt::print("{} {}: {}\n  config {}\n  drawn as {}\n", bad("failed"), failure.level,
                 failure.what.substr(0, 2000), write_json(small), write_json(config));
    std::fflush(stdout);
  }

  void report() const {
    TargetSet targets = 0;
    for (const Target target : options_.targets) targets |= only(target);
    if (json_) {
      print_json({{"seed", options_.seed},
                  {"trials", trials_},
                  {"runs", runs_},
                  {"proofs", proofs_},
                  {"changes", {{"tried", draw_.tried()}, {"accepted", draw_.accepted()}}},
                  {"targets", by_target_},
                  {"failed", failed_},
                  {"covered", covered_.covered()},
                  {"never", covered_.never(targets)}});
      return;
    }
    fmt::print("{} configs (of {} changes {} planned): {} proofs, {} emulated runs, {} failed; seed {}\n",
               trials_, draw_.tried(), draw_.accepted(), proofs_, runs_, failed_.size(), options_.seed);
    const Json never = covered_.never(targets);
    for (const auto& [pointer, values] : never.items())
      fmt::print("never: {} {}\n", pointer, write_json(values));
  }

  const RandomSweep& options_;
  bool json_;
  std::mt19937_64 random_;
  ConfigDraw draw_;
  Runtime runtime_;
  Stopwatch watch_;
  KeyCoverage covered_;
  std::map<std::string, std::size_t> by_target_;
  std::size_t trials_ = 0, runs_ = 0, proofs_ = 0;
  Json failed_ = Json::array();
};

}  // namespace

int run_random_sweep(const RandomSweep& options, bool json) {
  return RandomTrials(options, json).run();
}

}  // namespace kiln::cli
