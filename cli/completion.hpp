// completion: what a shell needs to complete the command line of kiln.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace kiln::cli {

/// A script for `shell` ("bash", "zsh", "fish") that completes commands, their options and `configs` (names of shipped
/// configs). Throws Error (bad_input) for another shell.
std::string completion_script(const CLI::App& app, const std::vector<std::string>& configs,
                              std::string_view shell);

}  // namespace kiln::cli
