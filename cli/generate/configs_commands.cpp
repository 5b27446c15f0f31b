// validate, plan, generate: what needs neither compiler nor device.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <kiln/kiln.hpp>
#include <set>

#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/output.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

Json violations_json(const Error& error) {
  Json list = Json::array();
  for (const Violation& v : error.violations()) {
    list.push_back(
        {{"pointer", v.pointer}, {"value", v.value}, {"rule", v.rule}, {"suggestion", v.suggestion}});
  }
  // A file that cannot even be read is an error about the whole document.
  if (list.empty())
    list.push_back({{"pointer", ""}, {"value", ""}, {"rule", error.what()}, {"suggestion", ""}});
  return list;
}

int validate(const std::vector<std::string>& configs, bool json) {
  Json document = Json::array();
  int status = 0;
  for (const std::string& argument : configs) {
    Json entry{{"config", argument}, {"ok", true}, {"errors", Json::array()}};
    try {
      const Plan plan = make_plan(load_config(argument));
      if (!json) fmt::print("{} {} ({})\n", good("ok"), shortened(argument), config_name(plan.resolved()));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_config && error.code() != ErrorCode::bad_input) throw;
      entry["ok"] = false;
      entry["errors"] = violations_json(error);
      status = 2;
      if (!json) fmt::print("{} {}\n{}\n", bad("refused"), shortened(argument), shortened(error.what()));
      if (!json && isatty(STDOUT_FILENO) != 0) {
        for (const std::string& excerpt : excerpts(error)) fmt::print("{}", excerpt);
      }
    }
    document.push_back(std::move(entry));
  }
  if (json) print_json(document);
  return status;
}

// One generated config, before anything is written.
struct Emitted {
  KernelSource source;
  std::string manifest;
  double microseconds = 0;
};

std::string source_extension(const KernelSource& source) {
  return source.manifest.target.starts_with("gfx") ? ".hip" : ".cu";
}

// Every config is generated before the first file is written: one bad config leaves the folder as it was.
int generate_all(const std::vector<std::string>& configs, const std::filesystem::path& out, bool json) {
  std::vector<Emitted> emitted;
  std::set<std::string> names;
  for (const std::string& argument : configs) {
    const Config config = load_config(argument);
    const Stopwatch watch;
    KernelSource source = generate(make_plan(config));
    const double us = watch.ms() * 1e3;
    if (!names.insert(source.manifest.name).second) {
      throw Error(ErrorCode::bad_input,
                  "two of the configs are called '" + source.manifest.name + "'; set \"name\" in one");
    }
    std::error_code ignored;
    const std::filesystem::path written = out / (source.manifest.name + ".json");
    if (std::filesystem::equivalent(written, argument, ignored)) {
      throw Error(ErrorCode::bad_input,
                  "the manifest '" + written.string() +
                      "' would take the place of its config; choose another folder for --out");
    }
    std::string manifest = to_json(source.manifest) + "\n";
    emitted.push_back({std::move(source), std::move(manifest), us});
  }
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error)
    throw Error(ErrorCode::bad_input, "cannot create folder '" + out.string() + "': " + error.message());
  Json document = Json::array();
  for (const Emitted& e : emitted) {
    const std::string& name = e.source.manifest.name;
    const std::filesystem::path source = out / (name + source_extension(e.source)),
                                manifest = out / (name + ".json");
    write_atomically(source, e.source.text);
    write_atomically(manifest, e.manifest);
    document.push_back({{"name", name},
                        {"source", source.string()},
                        {"manifest", manifest.string()},
                        {"bytes", e.source.text.size()},
                        {"microseconds", e.microseconds}});
    if (!json)
      fmt::print("{}  {} in {}\n", source.string(), bytes_text(e.source.text.size()),
                 time_text(e.microseconds));
  }
  if (json) print_json(document);
  return 0;
}

}  // namespace

Action add_validate(CLI::App& command, Common& common) {
  auto configs = std::make_shared<std::vector<std::string>>();
  command.add_option("CONFIG", *configs, "Configs to check")->required();
  return [configs, &common] { return validate(*configs, common.json); };
}

Action add_plan(CLI::App& command, Common&) {
  auto config = std::make_shared<std::string>();
  command.add_option("CONFIG", *config, "Config to plan")->required();
  // The plan is a document in itself: people and programs read the same JSON.
  return [config] {
    fmt::print("{}\n", make_plan(load_config(*config)).to_json());
    return 0;
  };
}

Action add_generate(CLI::App& command, Common& common) {
  struct Options {
    std::vector<std::string> configs;
    std::string out;
  };
  auto options = std::make_shared<Options>();
  command.add_option("CONFIG", options->configs, "Configs to generate")->required();
  command.add_option("--out", options->out, "Folder for NAME.cu or NAME.hip and NAME.json")->required();
  return [options, &common] { return generate_all(options->configs, options->out, common.json); };
}

}  // namespace kiln::cli
