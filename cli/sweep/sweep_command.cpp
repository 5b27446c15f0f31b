// sweep: every combination of a grid up the ladder: validate, generate twice, compile, and with --run check
// on the emulated device. --shard takes one of n parts, so that n processes share the work.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <kiln/kiln.hpp>
#include <map>
#include <numeric>
#include <random>
#include <span>

#include "cli/above_zero.hpp"
#include "cli/commands.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "cli/sweep/ahead.hpp"
#include "cli/sweep/random_sweep.hpp"
#include "cli/sweep/shrink.hpp"
#include "cli/sweep/sweep_cover.hpp"
#include "cli/sweep/sweep_generate.hpp"
#include "cli/sweep/sweep_grid.hpp"
#include "cli/sweep/sweep_log.hpp"
#include "generator/config/json_text.hpp"
#include "generator/plan/draw.hpp"
#include "generator/schedules/schedule.hpp"
#include "runtime/support/files.hpp"
#include "workbench/verify/ladder.hpp"

namespace kiln::cli {
namespace {

constexpr std::size_t kRefusedOnPage = 5000;

struct SweepOptions {
  std::string file, shard, log, html;
  std::vector<std::string> targets;
  bool random = false, run = false, cover = false, list = false, no_compile = false, square = false;
  std::optional<std::uint64_t> given_seed;
  std::uint64_t seed = 0;
  std::size_t limit = 0, sample = 0, strength = 2;
  double minutes = 0;
};

// One of `parts` equal parts of a list: every entry whose position leaves `part` (from 0).
struct Shard {
  std::size_t part = 0, parts = 1;
  bool has(std::size_t position) const { return position % parts == part; }
};

// "3/8", from 1; empty text is all.
Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  Shard shard;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [slash, first] = std::from_chars(begin, end, shard.part);
  bool right = first == std::errc() && slash != end && *slash == '/';
  if (right) {
    const auto [rest, second] = std::from_chars(slash + 1, end, shard.parts);
    right = second == std::errc() && rest == end && shard.part >= 1 && shard.part <= shard.parts;
  }
  if (!right)
    throw Error(ErrorCode::bad_input, fmt::format("--shard: '{}' is not i/n with i of 1 to n", text));
  --shard.part;
  return shard;
}

// What is compiled: entries of the valid combinations, those that --run runs first.
struct Selection {
  std::vector<std::size_t> order;
  std::size_t run = 0;
};

// A member and how far it came: its entry of the log, and what runs where it has compiled and passed L2.
// Moving a Json does not throw, but clang-tidy looks into what it asserts.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct Member {
  Json entry;
  std::optional<Plan> plan;
  KernelSource source;
};

class Sweep {
 public:
  Sweep(const SweepOptions& options, bool json)
      : options_(options), json_(json), shard_(parse_shard(options.shard)) {}

  int run() {
    const ConfigText text = read_config_text(options_.file);
    const std::vector<Combination> combinations = expand_sweep(text.text, text.source_name);
    total_ = combinations.size();
    if (!options_.log.empty())
      log_ =
          SweepLog(options_.log, {{"text", text.text}, {"seed", options_.seed}, {"long", options_.square}});
    validate(combinations);
    const Selection selection = select();
    if (options_.list) {
      list(selection);
      return failed_.empty() ? 0 : 1;
    }
    if (!options_.no_compile) compile_and_run(selection);
    if (!options_.html.empty())
      write_atomically(options_.html, sweep_page(text.source_name, entries_, refused_, invalid_));
    report();
    return failed_.empty() ? 0 : 1;
  }

 private:
  void fail(const std::string& name, const char* level, const std::string& error) {
    failed_.push_back({{"name", name}, {"level", level}, {"error", error}});
    progress("");
    if (!json_) fmt::print("{} {} {}: {}\n", bad("failed"), level, name, error.substr(0, 2000));
  }

  // L0 for all; this shard's part of the valid ones must also generate, and the same bytes twice.
  void validate(std::span<const Combination> combinations) {
    constexpr std::size_t kAtATime = 512;
    ProgressCount count(total_);
    for (std::size_t begin = 0; begin < combinations.size(); begin += kAtATime) {
      count.show(begin, "generating");
      const auto some = combinations.subspan(begin, std::min(kAtATime, combinations.size() - begin));
      std::size_t position = valid_.size();
      const std::vector<Generated> results =
          generate_all(some, [&] { return shard_.has(position++) && !options_.list; });
      for (std::size_t i = 0; i < some.size(); ++i) note(some[i], results[i]);
    }
  }

  void note(const Combination& combination, const Generated& result) {
    if (result.refused) {
      ++invalid_;
      if (!options_.html.empty() && refused_.size() < kRefusedOnPage)
        refused_.push_back({{"config", combination.config}, {"error", result.error}});
      return;
    }
    if (result.plan) valid_.push_back(&combination);
    if (!result.error.empty()) return fail(write_json(combination.config), "generate", result.error);
    if (result.name.empty()) return;  // of another shard
    note_proofs(result);
    covered_.add(combination.config);
    targets_ |= only(result.plan->resolved().target);
    if (!result.same_twice) fail(result.name, "generate", "two generations differ");
    ++generated_;
  }

  // L1 of a combination, and how often each proof was made and held.
  void note_proofs(const Generated& result) {
    for (const layout::Proof& proof : result.proofs) {
      auto& [held, made] = proofs_[proof.what];
      ++made;
      held += proof.holds ? 1 : 0;
      if (!proof.holds) fail(result.name, "L1", proof.what + " does not hold");
    }
  }

  Json proofs() const {
    Json out = Json::object();
    for (const auto& [what, counts] : proofs_) out[what] = {{"held", counts.first}, {"made", counts.second}};
    return out;
  }

  // Combinations that no pairing rule chose.
  std::vector<std::size_t> random_subset() const {
    std::vector<std::size_t> all(valid_.size()), drawn;
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::mt19937_64 random(options_.seed);
    std::sample(all.begin(), all.end(), std::back_inserter(drawn), options_.sample, random);
    std::shuffle(drawn.begin(), drawn.end(), random);
    return drawn;
  }

  // Covering members first, so that a bounded sweep spends its time where values meet.
  Selection select() {
    Selection selection;
    std::vector<std::size_t>& order = selection.order;
    order = options_.sample > 0 ? random_subset() : covering_subset(valid_, options_.strength);
    covering_ = order.size();
    if (!options_.cover && options_.sample == 0) {
      std::vector<bool> taken(valid_.size());
      for (const std::size_t i : order) taken[i] = true;
      for (std::size_t i = 0; i < valid_.size(); ++i) {
        if (!taken[i]) order.push_back(i);
      }
    }
    if (options_.limit > 0 && order.size() > options_.limit) order.resize(options_.limit);
    selection.run = options_.run ? std::min(covering_, order.size()) : 0;
    return selection;
  }

  void list(const Selection& selection) const {
    progress("");
    Json configs = Json::array();
    for (std::size_t i = 0; i < selection.order.size(); ++i) {
      if (shard_.has(i)) configs.push_back(valid_[selection.order[i]]->config);
    }
    if (json_) return print_json(configs);
    for (const Json& config : configs) fmt::print("{}\n", write_json(config));
  }

  bool out_of_time() {
    if (options_.minutes <= 0 || watch_.ms() < options_.minutes * 60e3) return false;
    ++skipped_;
    return true;
  }

  // Members of this shard that are not in the log.
  std::vector<std::size_t> to_compile(const Selection& selection) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < selection.order.size(); ++i) {
      if (shard_.has(i) && log_.find(config_of(selection, i), i < selection.run) == nullptr) out.push_back(i);
    }
    return out;
  }
  const Json& config_of(const Selection& selection, std::size_t i) const {
    return valid_[selection.order[i]]->config;
  }

  // Members are compiled on all cores ahead of those that run.
  void compile_and_run(const Selection& selection) {
    RuntimeOptions runtime_options;
    runtime_options.device = "emulated";
    Runtime runtime(runtime_options);
    const std::vector<std::size_t> members = to_compile(selection);
    ProgressCount count(members.size());
    Ahead<Member> ahead(members.size(), [&](std::size_t n) {
      return compiled_member(runtime, config_of(selection, members[n]));
    });
    auto next = members.begin();
    for (std::size_t i = 0; i < selection.order.size(); ++i) {
      if (!shard_.has(i)) continue;
      const bool run = i < selection.run;
      if (next == members.end() || *next != i) {
        account(*log_.find(config_of(selection, i), run));
        ++resumed_;
        continue;
      }
      const auto done = static_cast<std::size_t>(next++ - members.begin());
      if (out_of_time()) continue;
      count.show(done, write_json(config_of(selection, i)));
      Json entry = climbed(runtime, ahead.take(), i, run);
      if (entry["level"] != "passed") shrink(runtime, entry, i);
      log_.add(entry);
      account(entry);
    }
  }

  // What became of a member counts the same now and from the log.
  void account(const Json& entry) {
    const std::string level = entry["level"].get<std::string>();
    compiled_ += level == "compile" ? 0 : 1;
    run_ += entry["ran"].get<bool>() ? 1 : 0;
    passed_ += level == "passed" && entry["ran"].get<bool>() ? 1 : 0;
    entries_.push_back(entry);
    if (level == "passed") return;
    fail(write_json(entry["config"]), level.c_str(), entry["error"].get<std::string>());
    failed_.back()["smallest"] = entry["smallest"];
    if (!json_ && entry["smallest"] != entry["config"])
      fmt::print("  smallest: {}\n", write_json(entry["smallest"]));
  }

  // The fewest keys that fail at the same level.
  void shrink(Runtime& runtime, Json& entry, std::size_t position) {
    const bool run = entry["ran"].get<bool>();
    entry["smallest"] = shrunk(entry["config"], kShrinkTrials, [&](const Json& without) {
      return plans(without) && climb(runtime, without, position, run)["level"] == entry["level"];
    });
  }
  static bool plans(const Json& config) {
    try {
      static_cast<void>(make_plan(parse_config(write_json(config), "sweep")));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  Json climb(Runtime& runtime, const Json& config, std::size_t position, bool run) const {
    return climbed(runtime, compiled_member(runtime, config), position, run);
  }

  // An error of the environment ends the sweep; any other is what became of the member.
  template <class Step>
  static void take_step(Json& entry, const Step& step) {
    try {
      step();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::environment) throw;
      entry["level"] = "compile";
      entry["error"] = error.what();
    }
  }

  // Generated, compiled and held to L2. Called from several threads.
  static Member compiled_member(Runtime& runtime, const Json& config) {
    Member member;
    member.entry = {{"config", config}, {"level", "passed"}, {"error", ""}, {"ran", false}};
    take_step(member.entry, [&] {
      member.plan = make_plan(parse_config(write_json(config), "sweep"));
      member.source = generate(*member.plan);
      const auto binary = runtime.compile(member.source);
      const std::vector<std::string> broken = static_failures(*member.plan, member.source.manifest, *binary);
      if (broken.empty()) return;
      member.entry["level"] = "L2";
      member.entry["error"] = fmt::format("{}: {}", member.source.manifest.name, fmt::join(broken, "; "));
    });
    return member;
  }

  // The entry of a compiled member, which was run if that is asked for.
  Json climbed(Runtime& runtime, Member member, std::size_t position, bool run) const {
    if (run && member.entry["level"] == "passed")
      take_step(member.entry, [&] { run_member(runtime, member, position); });
    return std::move(member.entry);
  }

  void run_member(Runtime& runtime, Member& member, std::size_t position) const {
    EmulatorOptions emulator;
    // The policy changes from member to member, so that a sweep meets all three; whoever runs a member, it
    // is the same.
    constexpr EmulatorOptions::Policy kPolicies[] = {
        EmulatorOptions::Policy::random, EmulatorOptions::Policy::lazy, EmulatorOptions::Policy::eager};
    emulator.policy = kPolicies[position % 3];
    emulator.seed = options_.seed + position;
    member.entry["ran"] = true;
    const Manifest& manifest = member.source.manifest;
    const LadderRun result =
        run_cases(runtime, *member.plan, member.source,
                  boundary_cases(member.plan->resolved(), !options_.square), emulator, 2);
    if (result.passed()) return;
    const std::string why = !result.check.failures.empty()
                                ? result.check.failures.front()
                                : result.findings.front().kind + ": " + result.findings.front().message;
    member.entry["level"] = "L3";
    member.entry["error"] = fmt::format("{}: {} completion, seed {}: {} (config {})", manifest.name,
                                        result.policy, emulator.seed, why, manifest.config_json);
  }

  void report() const {
    progress("");
    if (json_) {
      print_json({{"total", total_},
                  {"valid", valid_.size()},
                  {"invalid", invalid_},
                  {"generated", generated_},
                  {"compiled", compiled_},
                  {"passed", passed_},
                  {"failed", failed_},
                  {"run", run_},
                  {"covering", covering_},
                  {"skipped", skipped_},
                  {"resumed", resumed_},
                  {"proofs", proofs()},
                  {"covered", covered_.covered()},
                  {"never", covered_.never(targets_)}});
      return;
    }
    fmt::print(
        "{} combinations: {} valid, {} refused; {} generated, {} compiled, {} of {} runs passed, {} "
        "failed{}\n",
        total_, valid_.size(), invalid_, generated_, compiled_, passed_, run_, failed_.size(),
        (skipped_ > 0 ? fmt::format("; {} not reached in the time given", skipped_) : "") +
            (resumed_ > 0 ? fmt::format("; {} were in the log", resumed_) : ""));
    for (const auto& [what, counts] : proofs_)
      fmt::print("L1 {}: {} of {} hold\n", what, counts.first, counts.second);
    const Json covered = covered_.covered(), never = covered_.never(targets_);
    for (const auto& [pointer, values] : covered.items()) {
      std::string list;
      for (const auto& [value, times] : values.items())
        list += fmt::format(" {} ({})", value, write_json(times));
      fmt::print("covered: {}{}\n", pointer, list);
    }
    std::string unset;
    for (const auto& [pointer, values] : never.items()) {
      if (values == "never set")
        unset += " " + pointer;
      else
        fmt::print("never: {} {}\n", pointer, write_json(values));
    }
    if (!unset.empty()) fmt::print("never set:{}\n", unset);
  }

  const SweepOptions& options_;
  bool json_;
  Shard shard_;
  Stopwatch watch_;
  std::vector<const Combination*> valid_;
  std::size_t total_ = 0, invalid_ = 0, generated_ = 0, covering_ = 0, compiled_ = 0, run_ = 0, passed_ = 0,
              skipped_ = 0;
  std::map<std::string, std::pair<std::size_t, std::size_t>> proofs_;  // held, made
  KeyCoverage covered_;                                                // of what was generated
  TargetSet targets_ = 0;
  Json failed_ = Json::array(), entries_ = Json::array(), refused_ = Json::array();
  SweepLog log_;
  std::size_t resumed_ = 0;
};

/// What sweep --random is asked for; by default every target that can be compiled for here.
RandomSweep random_sweep_of(const SweepOptions& options) {
  RandomSweep out;
  out.minutes = options.minutes > 0 ? options.minutes : out.minutes;
  out.trials = options.limit;
  out.seed = options.given_seed.value_or(std::random_device()());
  for (const std::string& name : options.targets) {
    const auto target = target_from(name);
    if (!target) throw Error(ErrorCode::bad_input, fmt::format("--targets: '{}' is not a target", name));
    out.targets.push_back(*target);
  }
  if (out.targets.empty()) out.targets.assign(kTargetList.begin(), kTargetList.end());
  return out;
}

}  // namespace

Action add_sweep(CLI::App& command, Common& common) {
  auto options = std::make_shared<SweepOptions>();
  CLI::Option* file = command.add_option("SWEEP", options->file, "Sweep file");
  CLI::Option* random = command.add_flag(
      "--random", options->random,
      "Instead of a file's combinations: configs drawn from the schema, each compiled and run under every "
      "completion policy for --minutes (default 1), at most --limit of them. Prints its seed");
  command.add_option("--targets", options->targets, "With --random: targets to draw for")
      ->delimiter(',')
      ->needs(random);
  file->excludes(random);
  command.add_flag("--run", options->run, "Run a covering subset on the emulated device and check it");
  command.add_flag("--cover", options->cover, "Compile only the covering subset");
  command
      .add_option("--strength", options->strength,
                  "How many keys' values meet in the covering subset: 1 to 4, default 2, every pair")
      ->check(CLI::Range(1, 4));
  command.add_option(
      "--sample", options->sample,
      "Compile, and with --run check, this many drawn at random (--seed) instead of the covering subset");
  command.add_option("--shard", options->shard,
                     "i/n: compile and run only the i-th of n equal parts of what is selected");
  command.add_flag("--list", options->list, "Print the selected configs and stop");
  command.add_flag("--no-compile", options->no_compile, "Stop after generating");
  command.add_flag("--long", options->square, "With --run: the longest problems too");
  command.add_option(
      "--log", options->log,
      "JSON lines, one for each member that was compiled; what is there already is not done again");
  command.add_option("--html", options->html, "Write a page with a matrix of what passed and failed by key");
  command.add_option("--limit", options->limit, "Compile at most this many");
  command
      .add_option("--minutes", options->minutes,
                  "Start nothing new after this time; what is left is counted as skipped")
      ->check(above_zero());
  command.add_option(
      "--seed", options->given_seed,
      "Seed of tensors and random completion (default 0), and of --random's configs (default: a "
      "fresh one)");
  return [options, &common] {
    if (options->random) return run_random_sweep(random_sweep_of(*options), common.json);
    if (options->file.empty())
      throw Error(ErrorCode::bad_input, "sweep: a sweep file or --random is required");
    options->seed = options->given_seed.value_or(0);
    return Sweep(*options, common.json).run();
  };
}

}  // namespace kiln::cli
