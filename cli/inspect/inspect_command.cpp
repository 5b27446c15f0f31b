// inspect: one config as people look at it: resources, derived constants, manifest, source outline; for AMD
// targets a cycle model as well. Needs a compiler only for that model, and does without.
#include <fmt/format.h>

#include <algorithm>
#include <kiln/kiln.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/generate/edited_source.hpp"
#include "cli/inspect/edited_changes.hpp"
#include "cli/inspect/inspect_amd.hpp"
#include "cli/inspect/inspect_cycles.hpp"
#include "cli/inspect/inspect_html.hpp"
#include "cli/inspect/report_json.hpp"
#include "cli/output.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

// The comment lines that open a phase, with their line numbers: the map of the source.
Json outline(const std::string& text) {
  Json lines = Json::array();
  std::istringstream in(text);
  std::string line;
  bool in_kernel = false;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos) continue;
    if (line.starts_with("extern \"C\"")) in_kernel = true;
    if (in_kernel && line.compare(start, 3, "// ") == 0) {
      lines.push_back({{"line", number}, {"depth", start / 2}, {"text", line.substr(start + 3)}});
    }
  }
  return lines;
}

void print_values(const Json& value, const std::string& indent) {
  for (const auto& [key, item] : value.items()) {
    if (item.is_object()) {
      fmt::print("{}{}\n", indent, key);
      print_values(item, indent + "  ");
    } else {
      fmt::print("{}{:<28} {}\n", indent, key, write_json(item));
    }
  }
}

struct InspectOptions {
  std::string config, html, timeline, diff, measured, edited;
  bool source = false, origins = false, cycles = false;
};

Json report_of(const Config& config, const Plan& plan, const KernelSource& source, const Json& measured) {
  const ProgressClock clock("compiling and running " + source.manifest.name);
  return report_json(config, plan, source, measured);
}

/// Rows of a file that `kiln bench --json` wrote; null without a file.
Json measured_rows(const std::string& path) {
  if (path.empty()) return nullptr;
  Json rows = json_of(read_text(path));
  const auto right = [](const Json& row) {
    return row.is_object() && row.contains("problem") && row["problem"].is_string() &&
           row.contains("tflops") && row["tflops"].is_number() && row.contains("gbps") &&
           row["gbps"].is_number();
  };
  if (!rows.is_array() || !std::all_of(rows.begin(), rows.end(), right))
    throw Error(ErrorCode::bad_input, "--measured: '" + path + "' is no document of `kiln bench --json`");
  for (Json& row : rows) row["note"] = path;
  return rows;
}

std::string timeline_picture(const Plan& plan, const KernelSource& source) {
  const ProgressClock clock("compiling and running " + source.manifest.name);
  RuntimeOptions runtime_options;
  runtime_options.device = "emulated";
  Runtime runtime(runtime_options);
  const TracedRun run = traced_run(runtime, plan, source);
  return replay_svg(run.replay, *plan.resolved().schedule + ": " + config_name(plan.resolved()), run.problem);
}

void write_files(const InspectOptions& options, const Config& config, const Plan& plan,
                 const KernelSource& source, const Json& changes) {
  if (!options.html.empty()) {
    Json other;
    if (!options.diff.empty()) {
      const Config second = load_config(options.diff);
      const Plan second_plan = make_plan(second);
      other = report_of(second, second_plan, generate(second_plan), nullptr);
    }
    Json report = report_of(config, plan, source, measured_rows(options.measured));
    if (!changes.is_null()) {
      report["edited"] = changes;
      report["emitted"] = source_lines(generate(plan));
    }
    write_atomically(options.html, html_page(report, other));
  }
  if (!options.timeline.empty()) write_atomically(options.timeline, timeline_picture(plan, source));
}

/// Which files of kiln wrote the source, and for each line the file's index and the line there.
Json origins_json(const KernelSource& source) {
  std::vector<std::string_view> files;
  Json lines = Json::array();
  for (const LineOrigin& origin : source.origins) {
    const auto found = std::find(files.begin(), files.end(), origin.file);
    lines.push_back({found - files.begin(), origin.line});
    if (found == files.end()) files.push_back(origin.file);
  }
  return {{"files", files}, {"lines", std::move(lines)}};
}

/// The source, each line behind the place in kiln that wrote it.
void print_with_origins(const KernelSource& source) {
  std::size_t width = 0;
  std::vector<std::string> places;
  for (const LineOrigin& origin : source.origins) {
    places.push_back(fmt::format("{}:{}", origin.file, origin.line));
    width = std::max(width, places.back().size());
  }
  std::istringstream in(source.text);
  std::string line;
  for (const std::string& place : places) {
    std::getline(in, line);
    fmt::print("{:<{}} | {}\n", place, width, line);
  }
}

/// Values of two plans that differ, by pointer: {pointer: [one, other]}.
Json difference(const Json& one, const Json& other) {
  const Json a = one.flatten(), b = other.flatten();
  Json out = Json::object();
  for (const auto& [pointer, value] : a.items()) {
    const Json there = b.contains(pointer) ? b[pointer] : Json();
    if (there != value) out[pointer] = {value, there};
  }
  for (const auto& [pointer, value] : b.items())
    if (!a.contains(pointer)) out[pointer] = {nullptr, value};
  return out;
}

void print_difference(const Plan& one, const Plan& other, bool json) {
  const Json values = difference(json_of(one.to_json()), json_of(other.to_json()));
  if (json) return print_json(values);
  std::vector<std::vector<std::string>> rows{
      {"value", config_name(one.resolved()), config_name(other.resolved())}};
  for (const auto& [pointer, pair] : values.items())
    rows.push_back({pointer, write_json(pair[0]), write_json(pair[1])});
  fmt::print("{}", table(rows, true));
}

/// Null unless there is one and it is wanted: AMD's takes no run and is always shown.
Json cycle_model(const InspectOptions& options, const Plan& plan, const KernelSource& source) {
  if (is_amd(plan.resolved().target)) return amd_cycle_model(source);
  return options.cycles ? cycle_model_json(plan, source) : Json();
}

/// What the edit did to the compiled program; null without one.
Json changes_of(const InspectOptions& options, const Plan& plan, const KernelSource& source) {
  if (options.edited.empty()) return nullptr;
  if (!options.diff.empty() && options.html.empty())
    throw Error(ErrorCode::bad_input,
                "--diff compares values of plans, which an edited source does not change; --html shows both");
  const ProgressClock clock("compiling " + source.manifest.name);
  Runtime runtime;
  return changes_json(runtime, plan, source);
}

int inspect(const InspectOptions& options, bool json) {
  const Config config = load_config(options.config);
  const Plan plan = make_plan(config);
  const KernelSource source = source_of(plan, options.edited);
  const Json changes = changes_of(options, plan, source);
  write_files(options, config, plan, source, changes);
  if (!options.diff.empty() && options.html.empty()) {
    print_difference(plan, make_plan(load_config(options.diff)), json);
    return 0;
  }
  if (!json && (!options.html.empty() || !options.timeline.empty())) {
    for (const std::string& path : {options.html, options.timeline})
      if (!path.empty()) fmt::print("wrote {}\n", path);
    return 0;
  }
  if (!json && options.origins) {
    print_with_origins(source);
    return 0;
  }
  const Json planned = json_of(plan.to_json());
  const Json map = outline(source.text);
  if (json) {
    Json document = planned;
    document["manifest"] = json_of(to_json(source.manifest));
    document["source_bytes"] = source.text.size();
    document["source_map"] = map;
    if (const Json model = cycle_model(options, plan, source); !model.is_null())
      document["cycle_model"] = model;
    if (!changes.is_null()) document["edited"] = changes;
    if (options.source) document["source"] = source.text;
    if (options.origins) document["origins"] = origins_json(source);
    print_json(document);
    return 0;
  }
  fmt::print("{}\n\n", bold(source.manifest.name));
  if (!changes.is_null()) print_changes(changes), fmt::print("\n");
  fmt::print("{}\n", bold("resources"));
  print_values(planned["resources"], "  ");
  fmt::print("\n{}\n", bold("config"));
  print_values(planned["resolved"], "  ");
  fmt::print("\n{}\n", bold("systems"));
  print_values(planned["systems"], "  ");
  fmt::print("\n{} {}\n", bold("kernel"), source.manifest.entry);
  for (const KernelParam& param : source.manifest.params)
    fmt::print("  {:<12} {}\n", kind_text(param.kind), param.role);
  if (const Json model = cycle_model(options, plan, source); !model.is_null())
    is_amd(plan.resolved().target) ? print_amd_cycle_model(model) : print_cycle_model(model);
  fmt::print("\n{} ({}; `kiln generate` writes it)\n", bold("source"), bytes_text(source.text.size()));
  for (const Json& line : map) {
    fmt::print("{:>6}  {}{}\n", line["line"].get<int>(),
               std::string(line["depth"].get<std::size_t>() * 2, ' '), line["text"].get<std::string>());
  }
  if (options.source) fmt::print("\n{}", source.text);
  return 0;
}

/// `--source` without a file is a switch, also where CONFIG follows it.
void settle_source(InspectOptions& options, bool given) {
  if (options.config.empty()) options.config.swap(options.edited);
  options.source = given && options.edited.empty();
  if (options.config.empty()) throw Error(ErrorCode::bad_input, "CONFIG is required");
}

}  // namespace

Action add_inspect(CLI::App& command, Common& common) {
  auto options = std::make_shared<InspectOptions>();
  command.add_option("CONFIG", options->config, "Config to look at");
  const CLI::Option* source =
      command
          .add_option(
              "--source", options->edited,
              "The source as well; with a FILE instead: that edited source in place of the emitted one, "
              "and what the edit changed in the compiled program")
          ->expected(0, 1)
          ->type_name("[FILE]");
  command.add_flag("--origins", options->origins,
                   "The source alone, each line behind the line of kiln that wrote it");
  command.add_flag(
      "--cycles", options->cycles,
      "Also what a tile costs on the hardware, predicted from a run on the emulated device (sm_90a, "
      "sm_100a and sm_103a; of AMD targets always there)");
  command.add_option("--html", options->html, "Write everything as one self-contained page");
  command.add_option("--diff", options->diff, "Another config: what differs; with --html both on one page");
  command.add_option("--timeline", options->timeline,
                     "Write the waits of a run on the emulated device as an SVG picture");
  command.add_option(
      "--measured", options->measured,
      "With --html: a file of `kiln bench --json`, for the roofline (default: bench/RESULTS.md)");
  return [options, source, &common] {
    settle_source(*options, source->count() > 0);
    return inspect(*options, common.json);
  };
}

}  // namespace kiln::cli
