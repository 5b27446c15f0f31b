// The commands of kiln. Each add_* declares one command's options on `command` and returns what runs it; the
// returned value of a run is the exit status. Errors are thrown as kiln::Error and mapped in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace kiln::cli {

/// What every command has.
struct Common {
  bool json = false;                 ///< one JSON document on standard output and nothing else
  std::vector<std::string> program;  ///< what stands after `--`: a program with its arguments
};

using Action = std::function<int()>;

Action add_list(CLI::App& command, Common& common);
Action add_keys(CLI::App& command, Common& common);
Action add_validate(CLI::App& command, Common& common);
Action add_plan(CLI::App& command, Common& common);
Action add_watch(CLI::App& command, Common& common);
Action add_generate(CLI::App& command, Common& common);
Action add_compile(CLI::App& command, Common& common);
Action add_run(CLI::App& command, Common& common);
Action add_inspect(CLI::App& command, Common& common);
Action add_verify(CLI::App& command, Common& common);
Action add_sweep(CLI::App& command, Common& common);
Action add_tune(CLI::App& command, Common& common);
Action add_bench(CLI::App& command, Common& common);
Action add_emulate(CLI::App& command, Common& common);
Action add_cache(CLI::App& command, Common& common);
Action add_doctor(CLI::App& command, Common& common);

}  // namespace kiln::cli
