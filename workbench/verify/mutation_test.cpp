#include "workbench/verify/mutation_test.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <kiln/emulator/emulator.hpp>
#include "generator/config/masks.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/targets/target.hpp"
#include "workbench/verify/ladder.hpp"
#include "workbench/verify/mutants.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln {
namespace {

/// A problem and how it is run.
struct Exercise {
  PosedCases posed;
  std::vector<EmulatorOptions> runs;
  LaunchBefore before = LaunchBefore::any;
};

std::vector<EmulatorOptions> make_policies(const MutationOptions& options, const Manifest& manifest,
                                           int parts) {
  const bool split = manifest.takes("item_counters");
  std::vector<EmulatorOptions> runs(2 + static_cast<std::size_t>(std::max(0, options.random_runs)));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].policy = i == 0   ? EmulatorOptions::Policy::lazy
                     : i == 1 ? EmulatorOptions::Policy::eager
                              : EmulatorOptions::Policy::random;
    runs[i].seed = options.seed + i;
    runs[i].host_threads = 1;
    // Blocks that work on several items; of kernels that split their keys, also several blocks on one item,
    // and of fixed splits a block for each part.
    const int blocks = i % 3 == 0 ? 6 : i % 3 == 2 ? 2 : parts > 1 ? 4 * parts : 4;
    runs[i].num_sms = split ? std::max(1, blocks / manifest.grid.ctas_per_sm) : 1;
    runs[i].max_findings = 4;
    runs[i].stop_at_finding = true;
  }
  return runs;
}

/// Problems that between them enter every loop and pass every barrier of a kernel, cheap ones first: one head
/// (most mutants die there, under one policy), many short work items (blocks run ahead of each other as far
/// as their queues let them), longer ones that wrap every pipeline, the lengths at which tiles begin and end,
/// for long windows and chunks keys beyond them, and for decode kernels that deal out the end of long work
/// enough of it.
class ExerciseList {
 public:
  ExerciseList(const Plan& plan, const Manifest& manifest, const MutationOptions& options)
      : plan_(plan),
        manifest_(manifest),
        seed_(options.seed),
        policies_(make_policies(options, manifest, parts_)) {}

  std::vector<Exercise> make() {
    choose_cases();
    add_first();
    add(items_, 2);
    add(wrap_, 2);
    add(boundary_cases(config_, true), 2);
    add_exact();
    add_tensor_copies();
    add_window_edges();
    if (decode_) add_stream_k();
    return std::move(out_);
  }

 private:
  std::int64_t up(std::int64_t n) const { return (n + bn_ - 1) / bn_ * bn_; }
  std::int64_t rows(std::int64_t least, std::int64_t decoded = 1) const {
    return decode_ ? decoded : up(least + 7) - 7;
  }
  void add(const std::vector<LadderCase>& cases, std::int64_t heads) {
    out_.push_back({pose_cases(config_, cases, seed_, heads), policies_});
  }

  /// Full and clipped tiles of queries. The last tile of keys is nearly full, and some queries stand just
  /// before the end of a tile of keys: or most steps of the masked tiles would multiply by zeros.
  void choose_cases() {
    const bool contiguous = !operand_form(manifest_.operand).ragged_q;
    // Four queries of a decode kernel: rows for all of its warps.
    items_ = {{rows(2 * bm_ + 8), 2 * bn_ - 9}};
    wrap_ = {{rows(bm_ + 8, 4), wrapped_}};
    if (!contiguous)
      for (auto* cases : {&items_, &wrap_}) cases->push_back({decode_ ? 1 : 17, bn_ + 5});
    // Decode of contiguous keys: with lengths on the device, which the first problem has not.
    if (contiguous && decode_) items_.push_back({1, bn_ + 5});
    // Items of one tile, so that the next begin in other stages.
    if (!contiguous && !decode_) wrap_.push_back({5, std::max<std::int64_t>(1, bn_ - 20)});
    // In turn with items of as many tiles as a window lets one have, so that these begin in every stage.
    if (mask_.kind == MaskConfig::Kind::sliding_window && mask_.size < wrapped_ && wrap_.size() > 2)
      for (std::int64_t i = 0; i < stages_; ++i)
        wrap_.insert(wrap_.end(), {{bm_, mask_.size + bm_ + 2 * bn_ - 2}, wrap_[2]});
  }

  void add_first() {
    add({{rows(8), 2 * bn_ - 9}}, 1);
    out_.back().runs.resize(1);
    if (!manifest_.takes("launch_before")) return;
    // Each promise has waits of its own.
    for (const LaunchBefore before : {LaunchBefore::keeps_tables, LaunchBefore::unrelated}) {
      out_.push_back(out_.front());
      out_.back().before = before;
    }
  }

  /// What the tolerance of FP8 would hide: a few rows with a few wrong keys.
  void add_exact() {
    if (!has_exact_cases(config_)) return;
    std::vector<LadderCase> exact = wrap_;
    exact.insert(exact.end(), items_.begin(), items_.end());
    out_.push_back({pose_exact_cases(config_, exact, seed_, 2), policies_});
    out_.back().runs.resize(2);
  }

  void add_tensor_copies() {
    if (!target_info(config_.target).tensor_copies || decode_) return;
    const bool bounded = is_bounded(mask_);
    // The keys of the first 64 rows end with a tile: the warpgroup of the rows after them has one more.
    if (bounded && bm_ > 64) add({{bm_, bn_ + bm_ - 64}}, 2);
    // Items of as many tiles as there are stages, and, where rows stand before the first key, some of none.
    add({{bm_, stages_ * bn_ - 9}}, 3);
    if (bounded) add({{3 * bm_, bm_ / 2}}, 2);
  }

  void add_window_edges() {
    if (mask_.kind == MaskConfig::Kind::sliding_window && mask_.size + bm_ > wrapped_ - bn_)
      // The window's start and its end, with whole tiles between.
      add({{rows(bm_ + 8), up(mask_.size + rows(bm_ + 8)) + bn_ - 9}}, 1);
    if (mask_.kind == MaskConfig::Kind::chunked)
      // Rows on either side of a chunk's start, in one warpgroup, one block and blocks of their own.
      add({{rows(2 * bm_ + 2 * bn_), mask_.size + rows(2 * bm_ + 2 * bn_) - bm_ / 2 - 24}}, 1);
  }

  void add_stream_k() {
    if (manifest_.grid.kind == GridRule::Kind::stream_k) {
      // More sequences than one step of the search for a block's first looks through, and than the unrolled
      // loop over their lengths takes at once.
      std::vector<LadderCase> many(140, {1, 5});
      many.push_back({1, bn_ + 5});
      add(many, 1);
      out_.back().runs.resize(1);
      add(divided_case(config_), 1);
      for (EmulatorOptions& run : out_.back().runs) run.num_sms = kDividedSms;
    }
    const auto tiles = plan_.schedule().dealt_from_tiles();
    if (tiles <= 0) return;
    // Long, so by two policies only; on one multiprocessor, whose first block then takes the most of the work itself.
    add({{1, tiles * manifest_.grid.ctas_per_sm * bn_ - 9}}, 1);
    out_.back().runs = {policies_[0], policies_.back()};
    for (EmulatorOptions& run : out_.back().runs) run.num_sms = 1;
  }

  const Plan& plan_;
  const Manifest& manifest_;
  const Config& config_ = plan_.resolved();
  const std::uint64_t seed_;
  const std::int64_t bn_ = config_.BN.value_or(64), bm_ = config_.BM.value_or(64);
  const std::int64_t stages_ = config_.num_kv_stages.value_or(2);
  const bool decode_ = config_.operation == Operation::decode;
  const MaskConfig mask_ = config_.mask.value_or(MaskConfig{});
  // A fixed split cuts every sequence into parts, which have to be of several tiles, too.
  const int parts_ = decode_ ? std::max(1, config_.split_kv.value_or(1)) : 1;
  const std::int64_t wrapped_ = std::max<std::int64_t>(2 * stages_ + 1, 3 * parts_) * bn_ - 9;
  const std::vector<EmulatorOptions> policies_;
  std::vector<LadderCase> items_, wrap_;
  std::vector<Exercise> out_;
};

/// NaN in V of keys that the mask hides from rows of their tile, under every policy: what an item does about it.
void add_hidden_values(std::vector<Exercise>& exercises, const Plan& plan, const MutationOptions& options) {
  if (!plan.schedule().guards_hidden_values()) return;
  const Config& c = plan.resolved();
  const std::int64_t bn = c.BN.value_or(64),
                     rows = c.operation == Operation::decode ? 4 : c.BM.value_or(64) + 8;
  const auto most =
      std::max_element(exercises.begin(), exercises.end(),
                       [](const Exercise& a, const Exercise& b) { return a.runs.size() < b.runs.size(); });
  exercises.push_back({pose_hidden_cases(c, {{rows, 3 * bn - 9}}, options.seed, 2), most->runs});
}

/// What a run has against the kernel; empty: nothing.
struct Verdict {
  std::string kind, message;
};
Verdict run_once(Runtime& runtime, Kernel& kernel, const Exercise& exercise, const EmulatorOptions& how,
                 std::uint64_t* instructions) {
  RunOptions options;
  options.emulator = &how;
  options.before = exercise.before;
  options.residency = residency_of(how.seed);
  const auto& [work, reference, tolerance] = exercise.posed;
  RunResult result;
  try {
    result = run_workload(runtime, kernel, work, options);
  } catch (const Error& error) {
    return {"refused", error.what()};  // the emulated device names what it cannot go on with
  }
  if (instructions != nullptr)
    for (const auto& [name, value] : result.counters)
      if (name == "instructions") *instructions = std::max(*instructions, value);
  if (!result.findings.empty()) return {result.findings[0].kind, result.findings[0].message};
  const CheckReport check = check_output(work, result.output, reference, tolerance);
  if (!check.passed()) return {"wrong-result", check.failures[0]};
  return {};
}

/// What kills a program under one of the problems and policies: "deadlock (lazy)"; empty: nothing.
std::string run_all(Runtime& runtime, const std::shared_ptr<const Binary>& binary, const Manifest& manifest,
                    const std::vector<Exercise>& exercises) {
  try {
    const auto kernel = runtime.load(binary, manifest);
    for (const Exercise& e : exercises)
      for (const EmulatorOptions& how : e.runs)
        if (const Verdict v = run_once(runtime, *kernel, e, how, nullptr); !v.kind.empty())
          return fmt::format("{} ({})", v.kind, to_string(how.policy));
  } catch (const Error& error) {
    return std::string("refused: ") + error.what();
  }
  return {};
}

RuntimeOptions emulated() {
  RuntimeOptions options;
  options.device = "emulated";
  options.cache_dir = "";
  return options;
}

/// The changed program; of a changed manifest the program as it is.
std::shared_ptr<const Binary> changed_binary(const Binary& binary, const Candidate& c) {
  auto changed = std::make_shared<Binary>(binary);
  if (c.patch)
    changed->image = changed_program(binary.image, c);
  else
    changed->ptx = changed_program(binary.ptx, c);
  return changed;
}

/// A box of one row encodes under either.
int other_swizzle(const KernelParam& map) {
  return map.map.swizzle_bytes == 128 ? 64 : 128;
}

/// The statements of the program, and the swizzles of its tensor maps (`owner`: the parameter).
std::vector<Candidate> make_candidates(const Binary& binary, const Manifest& manifest,
                                       const std::string& only) {
  std::vector<Candidate> out = binary.target.starts_with("gfx")
                                   ? code_object_candidates(binary.image, binary.name, binary.entry)
                                   : ptx_candidates(binary.ptx);
  for (std::size_t i = 0; i < manifest.params.size(); ++i) {
    const KernelParam& param = manifest.params[i];
    if (param.kind != KernelParam::Kind::tensor_map || param.map.swizzle_bytes == 0) continue;
    Candidate c;
    c.owner = static_cast<int>(i);
    c.change = fmt::format("swizzle {} B made {} B", param.map.swizzle_bytes, other_swizzle(param));
    c.statement = "tensor map of " + param.role;
    out.push_back(std::move(c));
  }
  if (!only.empty())
    std::erase_if(out, [&](const Candidate& c) { return c.statement.find(only) == std::string::npos; });
  return out;
}

/// What notices a candidate, by a runtime of the calling thread.
Killer make_killer(const Binary& binary, const Manifest& unchanged, const std::vector<Exercise>& exercises) {
  return [&, runtime = std::make_shared<Runtime>(emulated())](const Candidate& c) {
    Manifest manifest = unchanged;
    if (c.owner >= 0) {
      KernelParam& param = manifest.params[static_cast<std::size_t>(c.owner)];
      param.map.swizzle_bytes = other_swizzle(param);
    }
    return run_all(*runtime, changed_binary(binary, c), manifest, exercises);
  };
}

Mutant to_mutant(const Candidate& c) {
  return {.change = c.change,
          .statement = c.statement,
          .ptx_line = c.line,
          .source_line = c.source_line,
          .killed = !c.killed_by.empty(),
          .equivalent = c.equivalent,
          .reached = c.reached,
          .by = c.killed_by};
}

}  // namespace

std::size_t MutationReport::killed() const {
  return static_cast<std::size_t>(
      std::count_if(mutants.begin(), mutants.end(), [](const Mutant& m) { return m.killed; }));
}

MutationReport test_mutants(const Plan& plan, const KernelSource& source, const Binary& binary,
                            const MutationOptions& options) {
  std::vector<Exercise> exercises = ExerciseList(plan, source.manifest, options).make();
  add_hidden_values(exercises, plan, options);
  MutationReport report;

  // The unchanged kernel first: it must be clean, and its length bounds what a mutant may take.
  {
    Runtime runtime(emulated());
    const auto kernel = runtime.load(std::make_shared<Binary>(binary), source.manifest);
    for (Exercise& e : exercises) {
      std::uint64_t longest = 0;
      for (EmulatorOptions how : e.runs) {
        how.host_threads = 0;
        if (const Verdict v = run_once(runtime, *kernel, e, how, &longest); !v.kind.empty())
          report.findings.push_back(fmt::format("{} ({}): {}", v.kind, to_string(how.policy), v.message));
      }
      for (EmulatorOptions& how : e.runs) how.instruction_budget = 4 * longest + 100'000;
    }
    if (!report.findings.empty()) return report;
  }

  std::vector<Candidate> candidates = make_candidates(binary, source.manifest, options.only);
  judge(candidates, [&] { return make_killer(binary, source.manifest, exercises); },
        {.threads = options.threads, .progress = options.progress});
  for (const Candidate& c : candidates)
    (c.equivalent.empty() ? report.mutants : report.equivalent).push_back(to_mutant(c));
  return report;
}

}  // namespace kiln
