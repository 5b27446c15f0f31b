// The CONFIG argument: a path, the name of a shipped config, "-" for standard input, or the config itself (text that begins with a brace).
#pragma once

#include <kiln/config.hpp>
#include <kiln/error.hpp>
#include <string>
#include <vector>

namespace kiln::cli {

struct ShippedConfig {
  std::string name;  ///< its `name` key, else the file's name without extension
  std::string path;  ///< the file beside this binary's source tree, or "configs/..." where there is none
  std::string text;
};

/// Every config built into the binary, sorted by name.
const std::vector<ShippedConfig>& shipped_configs();

/// Text of a config argument and how messages call it.
struct ConfigText {
  std::string source_name, text;
};

/// Throws Error (bad_input) when there is no such file and no such shipped config.
ConfigText read_config_text(const std::string& argument);

/// For each broken rule of `error` the place in the text that was read last (excerpt.hpp); where several rules break
/// at one key, it is shown once.
std::vector<std::string> excerpts(const Error& error);

/// read_config_text + parse_config.
Config load_config(const std::string& argument);

}  // namespace kiln::cli
