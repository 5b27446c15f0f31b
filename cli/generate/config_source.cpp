// Text that begins with a brace is a config, a name with a slash or an extension a path; anything else is looked up
// among files first, then shipped configs.
#include "cli/generate/config_source.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/generate/excerpt.hpp"
#include "cli/generate/shipped.hpp"
#include "generator/config/json_text.hpp"
#include "generator/config/report.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;

// configs/ of the checkout this binary was built in, if it still is beside it.
fs::path config_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = self.parent_path().parent_path() / "configs";
  return !error && fs::is_directory(folder, error) ? folder : fs::path();
}

std::vector<ShippedConfig> collect() {
  const fs::path folder = config_folder();
  std::vector<ShippedConfig> configs;
  for (const EmbeddedText& file : embedded_configs()) {
    const auto object = json_of(file.text);
    // The schema, sweep grids and keys.json lie in the same folder.
    if (!object.is_object() || !object.contains("target") || !object.contains("operation")) continue;
    ShippedConfig config;
    config.name = object.contains("name") && object["name"].is_string() ? object["name"].get<std::string>()
                                                                        : fs::path(file.name).stem().string();
    std::error_code error;
    const fs::path path = folder / file.name;
    config.path =
        !folder.empty() && fs::exists(path, error) ? path.string() : "configs/" + std::string(file.name);
    config.text = file.text;
    configs.push_back(std::move(config));
  }
  std::sort(configs.begin(), configs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return configs;
}

/// Messages about a config come one after another, each about the one that was read last.
ConfigText& last_read() {
  static ConfigText text;
  return text;
}

}  // namespace

const std::vector<ShippedConfig>& shipped_configs() {
  static const std::vector<ShippedConfig> configs = collect();
  return configs;
}

ConfigText read_config_text(const std::string& argument) {
  if (argument == "-") return {"standard input", read_text("/dev/stdin", kMaxConfigBytes)};
  if (argument.starts_with('{')) return {"command line", argument};
  std::error_code ignored;
  const bool path_like = argument.find('/') != std::string::npos || argument.ends_with(".json");
  if (path_like || fs::is_regular_file(argument, ignored))
    return {argument, read_text(argument, kMaxConfigBytes)};
  if (fs::is_directory(argument, ignored))
    throw Error(ErrorCode::bad_input, "'" + argument + "' is a folder, a config file is wanted");
  std::vector<std::string_view> names;
  for (const ShippedConfig& config : shipped_configs()) {
    if (config.name == argument) return {config.name, config.text};
    names.push_back(config.name);
  }
  const std::string_view near = nearest(argument, names);
  throw Error(ErrorCode::bad_input, "no file and no shipped config is called '" + argument + "'; " +
                                        (near.empty() ? "`kiln list` shows the shipped ones"
                                                      : "did you mean '" + std::string(near) + "'?"));
}

std::vector<std::string> excerpts(const Error& error) {
  std::vector<std::string> out;
  for (const Violation& violation : error.violations()) {
    std::string excerpt = config_excerpt(last_read().source_name, last_read().text, violation.pointer);
    if (!excerpt.empty() && std::find(out.begin(), out.end(), excerpt) == out.end())
      out.push_back(std::move(excerpt));
  }
  return out;
}

Config load_config(const std::string& argument) {
  const ConfigText& text = last_read() = read_config_text(argument);
  return parse_config(text.text, text.source_name);
}

}  // namespace kiln::cli
