// emulate: any PTX kernel or AMD code object on the emulated device, arguments from the command line, arrays
// from and to .npy.
#include <fmt/format.h>

#include <charconv>
#include <kiln/error.hpp>
#include <optional>
#include <span>

#include "cli/commands.hpp"
#include "cli/diagnostics.hpp"
#include "cli/emulate_args.hpp"
#include "cli/output.hpp"
#include "emulator/amdgcn/amdgcn.hpp"
#include "emulator/emulator.hpp"
#include "runtime/problem/files.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;
namespace gcn = kiln::emulator::amdgcn;

struct Options {
  std::string file, kernel, grid = "1,1,1", block = "1,1,1", cluster = "1,1,1", policy = "eager";
  std::uint32_t shared = 0;
  bool findings = true;
  int threads = 0;
  std::uint64_t seed = 0, budget = std::uint64_t{1} << 36;
  std::vector<std::string> args;
};

// "8", "8,2" or "8,2,1".
em::Dim3 parse_dim(const std::string& text, const char* option) {
  std::uint32_t values[3] = {1, 1, 1};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto parsed = std::from_chars(at, end, values[i]);
    if (parsed.ec != std::errc() || values[i] == 0) break;
    if (parsed.ptr == end) return {values[0], values[1], values[2]};
    if (*parsed.ptr != ',') break;
    at = parsed.ptr + 1;
  }
  throw Error(ErrorCode::bad_input, fmt::format("{}: '{}' is not x,y,z with each 1 or more", option, text));
}

em::Policy parse_policy(const std::string& text) {
  return text == "lazy" ? em::Policy::lazy : text == "random" ? em::Policy::random : em::Policy::eager;
}

Json site_json(const em::Site& s) {
  return {{"kernel", s.kernel},
          {"block", {s.block.x, s.block.y, s.block.z}},
          {"warp", s.warp},
          {"lane", s.lane},
          {"ptx_line", s.ptx_line},
          {"ptx_column", s.ptx_column},
          {"ptx", s.ptx_text},
          {"source_file", s.source_file},
          {"source_line", s.source_line},
          {"source_column", s.source_column},
          {"caller_file", s.caller_file},
          {"caller_line", s.caller_line},
          {"caller_column", s.caller_column}};
}

Json document(const em::Report& report) {
  const em::Counters& c = report.counters;
  Json findings = Json::array();
  for (const em::Finding& f : report.findings) {
    Json entry{{"kind", f.kind}, {"message", f.message}, {"count", f.count}, {"site", site_json(f.site)}};
    if (f.has_other) entry["other"] = site_json(f.other);
    findings.push_back(std::move(entry));
  }
  Json kinds = Json::object();
  for (const auto& [kind, number] : c.by_kind) kinds[kind] = number;
  return {{"instructions", c.warp_instructions},
          {"bank_conflicts", c.shared_bank_conflicts},
          {"findings", std::move(findings)},
          {"completed", report.completed},
          {"by_kind", std::move(kinds)},
          {"shared_accesses", c.shared_accesses},
          {"global_accesses", c.global_accesses},
          {"global_sectors", c.global_sectors},
          {"global_bytes_read", c.global_bytes_read},
          {"global_bytes_written", c.global_bytes_written},
          {"async_bytes", c.async_bytes},
          {"matrix_flops", c.matrix_flops},
          {"output", report.output}};
}

void print(const em::Report& report, double ms, Diagnostics& diagnostics) {
  const em::Counters& c = report.counters;
  if (!report.output.empty()) fmt::print("{}", report.output);
  for (const em::Finding& f : report.findings) fmt::print("{}\n", diagnostics.text(f));
  fmt::print(
      "{} warp instructions in {:.0f} ms, {} shared accesses with {} bank conflicts, {} global sectors\n",
      c.warp_instructions, ms, c.shared_accesses, c.shared_bank_conflicts, c.global_sectors);
  if (!report.findings.empty())
    fmt::print("{}\n", bad(fmt::format("{} finding{}", report.findings.size(),
                                       report.findings.size() == 1 ? "" : "s")));
  if (!report.completed) fmt::print("{}\n", bad("stopped before its end"));
}

// What the two kinds of launch share; the emulators name these alike.
template <class Launch>
Launch common_launch(const Options& options, const std::string& kernel) {
  Launch launch;
  launch.kernel = kernel;
  launch.grid = parse_dim(options.grid, "--grid");
  launch.block = parse_dim(options.block, "--block");
  launch.policy = parse_policy(options.policy);
  launch.seed = options.seed;
  launch.instruction_budget = options.budget;
  launch.findings = options.findings;
  launch.host_threads = options.threads;
  return launch;
}

em::Report run_ptx(const Options& options, const std::string& text, em::GlobalMemory& memory,
                   std::optional<EmulateArgs>& args) {
  const em::Module module = em::Module::from_ptx(text, options.file);
  auto launch =
      common_launch<em::Launch>(options, choose_kernel(options.file, module.kernels(), options.kernel));
  launch.cluster = parse_dim(options.cluster, "--cluster");
  launch.dynamic_smem_bytes = options.shared;
  args.emplace(options.args, module.params(launch.kernel), memory);
  launch.args = args->packed();
  return em::launch(memory, module, launch);
}

em::Report run_gcn(const Options& options, const gcn::Module& module, em::GlobalMemory& memory,
                   std::optional<EmulateArgs>& args) {
  auto launch =
      common_launch<gcn::Launch>(options, choose_kernel(options.file, module.kernels(), options.kernel));
  if (parse_dim(options.cluster, "--cluster").count() > 1)
    throw Error(ErrorCode::bad_input, "--cluster: AMD devices have no clusters");
  launch.dynamic_lds_bytes = options.shared;
  std::vector<em::Parameter> params;
  for (const gcn::Argument& arg : module.kernel(launch.kernel).args) {
    if (!arg.hidden()) params.push_back({arg.name, arg.bytes, arg.bytes, arg.offset});
  }
  args.emplace(options.args, params, memory);
  launch.args = args->packed();
  return gcn::launch(memory, module, launch);
}

// By what the file is: a code object, AMD assembly text, else PTX.
em::Report run_file(const Options& options, const std::string& text, em::GlobalMemory& memory,
                    std::optional<EmulateArgs>& args) {
  if (text.starts_with("\x7f"
                       "ELF")) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return run_gcn(options, gcn::Module::from_code_object(bytes, options.file), memory, args);
  }
  if (text.find(".amdgcn_target") != std::string::npos)
    return run_gcn(options, gcn::Module::from_assembly(text, options.file), memory, args);
  return run_ptx(options, text, memory, args);
}

int emulate(const Options& options, bool json) {
  const std::string text = read_text(options.file, std::size_t{256} << 20);
  try {
    em::GlobalMemory memory;
    std::optional<EmulateArgs> args;
    const Stopwatch watch;
    const em::Report report = run_file(options, text, memory, args);
    // What a stopped kernel left behind is not a result.
    if (report.completed) args->write_outputs(memory);
    if (json) {
      print_json(document(report));
    } else {
      Diagnostics diagnostics(options.file, text);
      print(report, watch.ms(), diagnostics);
    }
    return report.completed && report.findings.empty() ? 0 : 1;
  } catch (const em::MissingLibrary& error) {
    throw Error(ErrorCode::environment, fmt::format("{}: {}", options.file, error.what()));
  } catch (const em::Error& error) {
    throw Error(ErrorCode::bad_input, error.line() > 0
                                          ? fmt::format("{}:{}: {}", options.file, error.line(), error.what())
                                          : fmt::format("{}: {}", options.file, error.what()));
  }
}

}  // namespace

Action add_emulate(CLI::App& command, Common& common) {
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "PTX text, or an AMD code object or assembly text")->required();
  command.add_option("--kernel", options->kernel, "Kernel to run; may be left out when there is only one");
  command.add_option("--grid", options->grid, "Blocks: x,y,z")->expected(1);
  command.add_option("--block", options->block, "Threads of a block: x,y,z")->expected(1);
  command.add_option("--cluster", options->cluster, "Blocks of a cluster: x,y,z")->expected(1);
  command.add_option("--shared", options->shared, "Dynamic shared memory in bytes");
  command
      .add_option(
          "--arg", options->args,
          "One kernel argument, in order: u32:5, u64:7, f32:0.5, in:FILE.npy, out:DTYPE[SHAPE]:FILE.npy")
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
  command.add_option("--max-instructions", options->budget, "Stop after this many warp instructions");
  return [options, &common] { return emulate(*options, common.json); };
}

}  // namespace kiln::cli
