// The manual page kiln(1), made from the options that the commands declare.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kiln::cli {

/// A page for man(1): every command with its arguments and options.
std::string manual_page(const CLI::App& app, std::string_view version);

}  // namespace kiln::cli
