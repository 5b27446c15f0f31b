// run, the main job: config -> source -> kernel -> launch -> result, compared with a float64 reference on
// demand.
#include <fmt/format.h>
#include <filesystem>

#include <kiln/kiln.hpp>

#include "cli/commands.hpp"
#include "cli/execute/problem_options.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/generate/edited_source.hpp"
#include "cli/output.hpp"
#include "runtime/support/files.hpp"
#include "workbench/files/npy.hpp"
#include "workbench/tune/winners.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln::cli {
namespace {

// Multiply-adds of the reference beyond which a sample of rows is checked: some seconds on two cores.
constexpr double kReferenceBudget = 1e10;

struct RunCommandOptions {
  std::string config, out, lse, source;
  bool check = false, check_all = false, tuned = false;
  std::optional<double> scale;
  int iterations = 0;
  ProblemOptions problem;
  DeviceOptions device;
};

// All that one run produced, for both forms of output.
struct RunOutcome {
  const KernelSource& source;
  const Kernel& kernel;
  const DeviceInfo& device;
  const Workload& work;
  const RunResult& result;
  const std::optional<CheckReport>& check;
  const Tolerance tolerance;
  double generate_ms, compile_ms;
};

Json request_json(const RunOutcome& o) {
  Json list = Json::array();
  for (std::size_t b = 0; b < o.work.shape.lengths_q.size(); ++b) {
    Json entry{{"seqlen_q", o.work.shape.lengths_q[b]}, {"seqlen_k", o.work.shape.lengths_k[b]}};
    if (o.check) {
      const Errors& errors = o.check->requests[b];
      entry["rel_err"] = errors.rel_err;
      entry["max_abs_err"] = errors.max_abs_err;
      entry["lse_err"] = o.result.output.lse.empty() ? Json() : Json(errors.lse_err);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json findings_json(const std::vector<EmulationReport::Finding>& findings) {
  Json list = Json::array();
  for (const auto& f : findings) {
    list.push_back({{"kind", f.kind},
                    {"message", f.message},
                    {"ptx_line", f.ptx_line},
                    {"ptx", f.ptx_text},
                    {"source_file", f.source_file},
                    {"source_line", f.source_line}});
  }
  return list;
}

Json document(const RunOutcome& o) {
  const auto checked = [&](double value) { return o.check ? Json(value) : Json(); };
  const Errors all = o.check ? o.check->all : Errors{};
  Json json{{"name", o.source.manifest.name},
            {"device", o.device.selector},
            {"cache", to_string(o.kernel.binary().cache)},
            {"compile_ms", o.compile_ms},
            {"launch_us", o.result.launch_us},
            {"max_abs_err", checked(all.max_abs_err)},
            {"rel_err", checked(all.rel_err)},
            {"lse_err", o.result.output.lse.empty() ? Json() : checked(all.lse_err)},
            {"check", o.check ? Json(o.check->passed()) : Json()},
            {"problem", o.work.shape.text()},
            {"launches", o.result.launches},
            {"requests", request_json(o)}};
  if (o.check) {
    json["rows_checked"] = all.rows;
    json["rows_total"] = o.check->rows_total;
    json["failures"] = o.check->failures;
  }
  if (o.result.emulated) {
    json["findings"] = findings_json(o.result.findings);
    for (const auto& [name, value] : o.result.counters) json["counters"][name] = value;
  }
  return json;
}

void print_requests(const RunOutcome& o) {
  std::vector<std::vector<std::string>> rows{{"request", "q", "k", "rel_err", "max_abs", "lse_err"}};
  for (std::size_t b = 0; b < o.check->requests.size(); ++b) {
    const Errors& errors = o.check->requests[b];
    rows.push_back({std::to_string(b), std::to_string(o.work.shape.lengths_q[b]),
                    std::to_string(o.work.shape.lengths_k[b]), short_number(errors.rel_err),
                    short_number(errors.max_abs_err),
                    o.result.output.lse.empty() ? "-" : short_number(errors.lse_err)});
  }
  fmt::print("\n{}", table(rows));
}

void print(const RunOutcome& o) {
  const Binary& binary = o.kernel.binary();
  fmt::print("{} on {} ({})\n", bold(o.source.manifest.name), o.device.selector, o.device.name);
  fmt::print("problem  {}\n", o.work.shape.text());
  fmt::print("source   {}, generated in {}\n", bytes_text(o.source.text.size()),
             time_text(o.generate_ms * 1e3));
  fmt::print("kernel   cache {}, {}, {} registers, {} bytes spilled, {} shared\n", to_string(binary.cache),
             time_text(o.compile_ms * 1e3), binary.registers, binary.spill_bytes,
             bytes_text(static_cast<std::uint64_t>(o.source.manifest.smem_bytes)));
  fmt::print("launch   {}{}{}\n", time_text(o.result.launch_us),
             o.result.emulated ? " on the emulated device (not a speed)" : "",
             o.result.launches > 1 ? fmt::format(", one launch per request ({})", o.result.launches) : "");
  if (o.check) {
    const CheckReport& check = *o.check;
    if (check.requests.size() > 1) print_requests(o);
    const std::string rows = check.all.rows == check.rows_total
                                 ? "every row"
                                 : fmt::format("a sample of {} of {} rows", check.all.rows, check.rows_total);
    fmt::print("check    {} against float64, {}: relative error {} (limit {}), largest {}{}\n",
               check.passed() ? good("passed") : bad("FAILED"), rows, short_number(check.all.rel_err),
               short_number(o.tolerance.rel), short_number(check.all.max_abs_err),
               o.result.output.lse.empty() ? "" : ", LSE " + short_number(check.all.lse_err));
    for (const std::string& failure : check.failures) fmt::print("         {}\n", failure);
  }
  for (const auto& finding : o.result.findings)
    fmt::print("{} {}: {}\n", bad("finding"), finding.kind, finding.message);
}

std::vector<std::int64_t> tensor_shape(const ProblemShape& shape, std::int64_t depth) {
  if (shape.ragged) return {shape.total_q(), shape.heads_q, depth};
  return {shape.batch(), shape.lengths_q.front(), shape.heads_q, depth};
}

// LSE rows [total, heads] as [batch, heads, q], ragged [heads, total].
NpyArray lse_array(const ProblemShape& shape, const std::vector<float>& rows) {
  const std::int64_t sections = shape.ragged ? 1 : shape.batch();
  const std::int64_t length = shape.ragged ? shape.total_q() : shape.lengths_q.front();
  std::vector<float> values;
  values.reserve(rows.size());
  for (std::int64_t b = 0; b < sections; ++b) {
    for (std::int64_t h = 0; h < shape.heads_q; ++h) {
      for (std::int64_t i = 0; i < length; ++i) {
        values.push_back(rows[static_cast<std::size_t>((b * length + i) * shape.heads_q + h)]);
      }
    }
  }
  if (shape.ragged) return npy_from_floats({shape.heads_q, length}, values);
  return npy_from_floats({sections, shape.heads_q, length}, values);
}

// The stored winner of the same config, device and problem.
Config tuned_config(const RunCommandOptions& options, const Config& config) {
  Runtime runtime(options.device.runtime_options(options.problem.seed));
  return load_winner(config, runtime.device(), options.problem.workload(make_plan(config).resolved()).shape);
}

/// The one name of a file that need not exist.
std::filesystem::path real_path(const std::string& name) {
  return std::filesystem::weakly_canonical(std::filesystem::absolute(name));
}

int run(const RunCommandOptions& options, bool json) {
  Config config = load_config(options.config);
  if (options.tuned) config = tuned_config(options, config);
  if (!options.lse.empty()) {
    if (!options.out.empty() && real_path(options.lse) == real_path(options.out))
      throw Error(ErrorCode::bad_input, "--out and --lse name the same file");
    if (config.lse == false)
      throw Error(ErrorCode::bad_input,
                  "--lse needs a kernel that writes it, but the config says \"lse\": false");
    config.lse = true;
  }
  const Stopwatch generating;
  const Plan plan = make_plan(config);
  const KernelSource source = source_of(plan, options.source);
  const double generate_ms = generating.ms();
  const Workload work = options.problem.workload(plan.resolved());
  const Semantics semantics = semantics_of(plan.resolved(), work, options.scale);

  Runtime runtime(options.device.runtime_options(options.problem.seed));
  const DeviceInfo& device = runtime.device();
  std::optional<ProgressClock> clock(std::in_place, "compiling " + source.manifest.name);
  const Stopwatch compiling;
  const std::shared_ptr<Kernel> kernel = loaded(runtime, source);
  const double compile_ms = compiling.ms();

  clock.emplace("running on " + device.selector);
  RunOptions run_options;
  run_options.scale = options.scale;
  // The first launch on hardware pays for loading; the emulated device has no such thing, and its time means
  // nothing.
  run_options.iterations = options.iterations > 0          ? options.iterations
                           : device.selector == "emulated" ? 0
                                                           : 5;
  const RunResult result = run_workload(runtime, *kernel, work, run_options);

  std::optional<CheckReport> check;
  if (options.check) {
    clock.emplace("computing the float64 reference");
    const double budget = options.check_all ? 1e300 : kReferenceBudget;
    const Reference reference = reference_attention(
        work, semantics, choose_rows(work.shape, semantics.mask, budget, options.problem.seed));
    check = check_output(work, result.output, reference, tolerance_of(plan.resolved()));
  }
  clock.reset();

  if (!options.out.empty()) {
    write_npy(options.out, npy_from_floats(tensor_shape(work.shape, work.shape.ov_depth), result.output.o));
  }
  if (!options.lse.empty()) write_npy(options.lse, lse_array(work.shape, result.output.lse));
  const RunOutcome outcome{source,      *kernel,   device, work, result, check, tolerance_of(plan.resolved()),
                           generate_ms, compile_ms};
  if (json) {
    print_json(document(outcome));
  } else {
    print(outcome);
  }
  return (check && !check->passed()) || !result.findings.empty() ? 1 : 0;
}

}  // namespace

Action add_run(CLI::App& command, Common& common) {
  auto options = std::make_shared<RunCommandOptions>();
  command.add_option("CONFIG", options->config, "Config to run")->required();
  command.add_option("--source", options->source, kSourceHelp);
  options->problem.declare(command, true);
  options->device.declare(command);
  command.add_flag("--check", options->check,
                   "Compare with a float64 reference (of large problems, a sample of rows)");
  command.add_flag("--check-all", options->check_all, "With --check: every row, however long it takes")
      ->needs("--check");
  command.add_option("--scale", options->scale, "Softmax scale instead of the config's");
  command
      .add_option("--iterations", options->iterations,
                  "Timed launches (default 5; on the emulated device one)")
      ->check(CLI::Range(1, 100000));
  command.add_option("--out", options->out, "Write O as float32 .npy");
  command.add_option("--lse", options->lse, "Write the log-sum-exp as float32 .npy");
  command.add_flag("--tuned", options->tuned, "Take the winner that `kiln tune` stored for this problem");
  return [options, &common] { return run(*options, common.json); };
}

}  // namespace kiln::cli
