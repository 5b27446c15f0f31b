// The launch file of `kiln emulate`: modules, arrays, tensor maps, initial values, and launches in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "cli/output.hpp"

namespace kiln::cli {

/// "8", "8,2" or "8,2,1"; `what` names it in messages.
emulator::Dim3 parse_dim(const std::string& text, const std::string& what);

/// One launch; what the command line says about a single one.
struct LaunchPlan {
  std::string module, kernel;
  emulator::Dim3 grid, block, cluster;
  std::uint32_t shared = 0;
  bool programmatic = false;
  std::vector<std::string> args;
};

struct LaunchFile {
  std::uint32_t sms = 132;
  std::vector<std::pair<std::string, std::string>> buffers;  ///< name, text as of --arg
  std::vector<std::pair<std::string, Json>> tensor_maps;
  struct Variable {
    std::string module, name, file;
  };
  std::vector<Variable> variables;
  std::vector<LaunchPlan> launches;
};

/// Reads and checks a launch file. Throws Error (bad_input): one line with the key. Names of files are as the
/// file has them, relative to the working directory.
LaunchFile read_launch_file(const std::string& path);
/// The same of its text; `path` names it in messages.
LaunchFile parse_launch_file(std::string_view text, const std::string& path);

}  // namespace kiln::cli
