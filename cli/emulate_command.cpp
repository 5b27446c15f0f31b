// emulate: any PTX kernel on the emulated device, arguments from the command line, arrays from and to .npy.
#include <fmt/format.h>

#include <charconv>
#include <kiln/error.hpp>

#include "cli/commands.hpp"
#include "cli/emulate_args.hpp"
#include "cli/output.hpp"
#include "emulator/emulator.hpp"
#include "runtime/problem/files.hpp"

namespace kiln::cli {
namespace {

namespace em = kiln::emulator;

struct Options {
  std::string file, kernel, grid = "1,1,1", block = "1,1,1", cluster = "1,1,1", policy = "eager";
  std::uint32_t shared = 0;
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
          {"ptx", s.ptx_text},
          {"source_file", s.source_file},
          {"source_line", s.source_line}};
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

void print(const em::Report& report, double ms) {
  const em::Counters& c = report.counters;
  if (!report.output.empty()) fmt::print("{}", report.output);
  fmt::print(
      "{} warp instructions in {:.0f} ms, {} shared accesses with {} bank conflicts, {} global sectors\n",
      c.warp_instructions, ms, c.shared_accesses, c.shared_bank_conflicts, c.global_sectors);
  for (const em::Finding& f : report.findings) fmt::print("{} {}: {}\n", bad("finding"), f.kind, f.message);
  if (!report.completed) fmt::print("{}\n", bad("stopped before its end"));
}

int emulate(const Options& options, bool json) {
  const std::string text = read_text(options.file, std::size_t{256} << 20);
  if (text.starts_with("\x7f"
                       "ELF")) {
    throw Error(ErrorCode::bad_input,
                options.file + ": this version emulates PTX text, not compiled code objects");
  }
  em::Launch launch;
  launch.grid = parse_dim(options.grid, "--grid");
  launch.block = parse_dim(options.block, "--block");
  launch.cluster = parse_dim(options.cluster, "--cluster");
  launch.policy = parse_policy(options.policy);
  launch.seed = options.seed;
  launch.dynamic_smem_bytes = options.shared;
  launch.instruction_budget = options.budget;
  try {
    const em::Module module = em::Module::from_ptx(text, options.file);
    launch.kernel = choose_kernel(module, options.kernel);
    em::GlobalMemory memory;
    const EmulateArgs args(options.args, module.params(launch.kernel), memory);
    launch.args = args.packed();
    const Stopwatch watch;
    const em::Report report = em::launch(memory, module, launch);
    // What a stopped kernel left behind is not a result.
    if (report.completed) args.write_outputs(memory);
    if (json) {
      print_json(document(report));
    } else {
      print(report, watch.ms());
    }
    return report.completed && report.findings.empty() ? 0 : 1;
  } catch (const em::Error& error) {
    throw Error(ErrorCode::bad_input, error.line() > 0
                                          ? fmt::format("{}:{}: {}", options.file, error.line(), error.what())
                                          : fmt::format("{}: {}", options.file, error.what()));
  }
}

}  // namespace

Action add_emulate(CLI::App& command, Common& common) {
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "PTX text")->required();
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
  command.add_option("--max-instructions", options->budget, "Stop after this many warp instructions");
  return [options, &common] { return emulate(*options, common.json); };
}

}  // namespace kiln::cli
