// Entry point: declares the commands, parses, runs one, and turns errors into one line and an exit status.
//   0 done and checks passed, 1 a check failed, 2 bad usage or config, 3 the environment lacks something
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <kiln/emulator/emulator.hpp>
#include <kiln/kiln.hpp>
#include <new>
#include <system_error>

#include "base/decimal.hpp"
#include "base/printable.hpp"
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/generate/config_source.hpp"
#include "cli/manual.hpp"
#include "cli/output.hpp"
#include "cli/signals.hpp"
#include "generator/config/report.hpp"
#include "runtime/support/memory.hpp"
#include "runtime/support/settings.hpp"

namespace kiln::cli {
namespace {

struct CommandRow {
  const char *name, *help;
  Action (*add)(CLI::App&, Common&);
};
constexpr CommandRow kCommands[] = {
    {"list", "Shipped configs", add_list},
    {"keys", "What the keys of a config may be, by target", add_keys},
    {"validate", "Parse and check configs", add_validate},
    {"plan", "Every derived value of a config", add_plan},
    {"generate", "Emit source and manifest; needs no compiler and no GPU", add_generate},
    {"watch", "Regenerate, compare and verify on each save of a config", add_watch},
    {"compile", "JIT-compile a config through the cache", add_compile},
    {"run", "Run a config on one problem and check the result", add_run},
    {"inspect", "Readable report: layouts, bank conflicts, resources, source", add_inspect},
    {"verify", "Static checks and emulated runs under adversarial schedules", add_verify},
    {"sweep", "Validate, generate, compile and check every combination of a config grid", add_sweep},
    {"tune", "Search a config's free keys on the device", add_tune},
    {"bench", "Time configs on the device", add_bench},
    {"emulate", "Run any PTX kernel or AMD code object on the emulated device", add_emulate},
    {"cache", "The kernel cache", add_cache},
    {"doctor", "What was found: compilers, drivers, devices, cache", add_doctor},
};

constexpr const char* kConfigHelp =
    "CONFIG is a path, the name of a shipped config (`kiln list`), - for standard input, or the JSON itself.";

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_config:
    case ErrorCode::bad_input:
      return 2;
    case ErrorCode::environment:
      return 3;
    case ErrorCode::compile:
    case ErrorCode::device:
    case ErrorCode::internal:
      break;
  }
  return 1;
}

int complain(const std::string& text, int status) {
  progress("");
  std::fflush(stdout);
  fmt::print(stderr, "kiln: {}\n", printable(shortened(text)));
  return status;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// The command that was chosen, "kiln cache prune".
std::string chosen(const CLI::App& app) {
  std::string where = "kiln";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    where += " " + at->get_name();
  }
  return where;
}

// "unknown option '--sed' of kiln run; did you mean '--seed'?"
std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> names;
  const std::string where = chosen(app);
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const bool option = argument.starts_with("-");
  if (option) {
    for (const CLI::Option* o : at->get_options()) {
      for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
    }
  } else {
    for (const CLI::App* command : at->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
    }
  }
  if (option && std::find(names.begin(), names.end(), argument) != names.end())
    return fmt::format("{0} stands after the command: {1} {0}", argument, where);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = nearest(argument.substr(0, argument.find('=')), views);
  const char* kind = option ? "option" : names.empty() ? "argument" : "command";
  return fmt::format("unknown {} '{}' of {}; {}", kind, argument, where,
                     near.empty() ? "see `" + where + " --help`" : fmt::format("did you mean '{}'?", near));
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) return complain(unknown_argument(app, extras.front()), 2);
  const std::string text = first_line(error.what());
  if (text == "A subcommand is required")
    return complain(fmt::format("no command; see `{} --help`", chosen(app)), 2);
  // "Could not convert: --seed = x"; nothing but numbers is converted.
  constexpr std::string_view kConvert = "Could not convert: ";
  if (const std::size_t equal = text.find(" = "); text.starts_with(kConvert) && equal != std::string::npos) {
    return complain(
        fmt::format("{}: '{}' is not a number that fits",
                    text.substr(kConvert.size(), equal - kConvert.size()), text.substr(equal + 3)),
        2);
  }
  return complain(text, 2);
}

/// Whether a number of an option is beyond what its type holds: the parser would take the largest that fits.
bool beyond_type(const std::string& type, const std::string& value) {
  errno = 0;
  if (type.starts_with("INT")) {
    (void)std::strtoll(value.c_str(), nullptr, 0);
  } else if (type.starts_with("UINT")) {
    (void)std::strtoull(value.c_str(), nullptr, 0);
  } else if (type.starts_with("FLOAT")) {
    const double number = read_decimal(value).value;
    const std::size_t digit = value.find_first_of("123456789");  // "inf" has none
    return (number == 0 || std::isinf(number)) && digit < std::min(value.find_first_of("eE"), value.size());
  }
  return errno == ERANGE;
}

// What the parser lets through: empty values, which would count as not given, control characters, numbers that do not
// fit, negative ones where there are none, and files called "-".
std::string value_problem(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    for (const std::string& value : option->results()) {
      if (value.empty() && option->get_items_expected_min() > 0) return name + " is empty";
      if (value.empty()) continue;  // an option whose value may be left out
      // It would be printed in messages, and terminals obey such characters.
      const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
      if (std::any_of(value.begin(), value.end(), control)) return name + " has a control character in it";
      const std::string type = option->get_type_name();
      if (value[0] == '-' && type.starts_with("UINT"))
        return fmt::format("{} must be 0 or more, not {}", name, value);
      if (beyond_type(type, value)) return fmt::format("{}: '{}' is not a number that fits", name, value);
      if (value == "-" &&
          (name == "--out" || name == "--html" || name == "--log" || name == "--timeline" || name == "--lse"))
        return name + " wants a file, not '-'; /dev/stdout is one";
    }
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (std::string problem = value_problem(*command); !problem.empty()) return problem;
  }
  return {};
}

/// `kiln emulate OPTIONS -- PROGRAM ARGUMENTS`: what follows is the program's. Returns where kiln's own end.
int split_program(int argc, char** argv, std::vector<std::string>& program) {
  if (argc < 2 || std::string_view(argv[1]) != "emulate") return argc;
  char** const dashes =
      std::find_if(argv, argv + argc, [](const char* a) { return std::string_view(a) == "--"; });
  if (dashes == argv + argc) return argc;
  program.assign(dashes + 1, argv + argc);
  // Nothing after them is as good as a program that is not there.
  if (program.empty()) program.emplace_back();
  return static_cast<int>(dashes - argv);
}

int print_completion(const CLI::App& app, const std::string& shell) {
  std::vector<std::string> configs;
  for (const ShippedConfig& config : shipped_configs()) configs.push_back(config.name);
  fmt::print("{}", completion_script(app, configs, shell));
  return 0;
}

// `kiln help`, `kiln help cache prune`: what `--help` prints after those words.
int print_help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string where;
  for (const std::string& word : words) {
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    where += (where.empty() ? "" : " ") + at->get_name();
    const auto named = [&](const CLI::App* command) { return command->get_name() == word; };
    const auto found = std::find_if(commands.begin(), commands.end(), named);
    if (found == commands.end()) {
      std::vector<std::string_view> names;
      names.reserve(commands.size());
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      const std::string_view near = nearest(word, names);
      return complain(
          fmt::format("{} has no command '{}'; {}", where, word,
                      near.empty() ? "see `" + where + " --help`" : fmt::format("did you mean '{}'?", near)),
          2);
    }
    at = *found;
  }
  // Not help(): that of the whole program is about the command that was given, which is this one.
  where += (where.empty() ? "" : " ") + at->get_name();
  fmt::print("{}", at->get_formatter()->make_help(at, where, CLI::AppFormatMode::Normal));
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("kiln: attention kernels from JSON configs", "kiln");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(0, 1);
  Common common;
  argc = split_program(argc, argv, common.program);
  std::vector<std::pair<CLI::App*, Action>> commands;
  for (const CommandRow& row : kCommands) {
    CLI::App* command = app.add_subcommand(row.name, row.help);
    command->add_flag("--json", common.json, "One JSON document on standard output");
    commands.emplace_back(command, row.add(*command, common));
    if (command->get_option_no_throw("CONFIG") != nullptr) command->footer(kConfigHelp);
  }
  std::string shell;
  CLI::App* completion =
      app.add_subcommand("completion", "Completion of commands, options and configs for a shell");
  completion->add_option("SHELL", shell, "bash, zsh or fish: `source <(kiln completion bash)`")
      ->required()
      ->type_name("TEXT:{bash,zsh,fish}");
  commands.emplace_back(completion, [&] { return print_completion(app, shell); });
  commands.emplace_back(app.add_subcommand("man", "The manual page: `kiln man | man -l -`"), [&] {
    fmt::print("{}", manual_page(app, version()));
    return 0;
  });
  std::vector<std::string> words;
  CLI::App* help = app.add_subcommand("help", "What a command does: `kiln help run` is `kiln run --help`");
  help->add_option("COMMAND", words, "The command, and its own command: `kiln help cache prune`");
  commands.emplace_back(help, [&] { return print_help(app, words); });
  app.footer(std::string("`kiln COMMAND --help` explains a command. ") + kConfigHelp);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  if (const std::string problem = value_problem(app); !problem.empty()) return complain(problem, 2);
  for (const auto& [command, action] : commands) {
    if (!*command) continue;
    check_settings();
    return action();
  }
  fmt::print("{}", app.help());
  return 0;
}

int guarded(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    const int status = complain(error.what(), status_of(error.code()));
    // In a pipe a line for each broken rule and nothing else.
    if (isatty(STDERR_FILENO) != 0) {
      for (const std::string& excerpt : excerpts(error)) fmt::print(stderr, "{}", excerpt);
    }
    return status;
  } catch (const std::bad_alloc&) {
    const MemoryLimit left = available_memory();
    return complain(
        fmt::format("not enough memory for this problem: {} {}", left.where, size_text(left.bytes)), 3);
  } catch (const emulator::MissingLibrary& error) {
    return complain(error.what(), 3);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return 1;  // main() says so
    return complain(fmt::format("internal error: {}", error.what()), 1);
  } catch (const std::exception& error) {
    return complain(fmt::format("internal error: {}", error.what()), 1);
  }
}

}  // namespace
}  // namespace kiln::cli

// Only printing could still throw here, and then nobody is reading.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  // The parser of options reads numbers by the locale, which something loaded before may have set.
  std::setlocale(LC_ALL, "C");
  kiln::cli::end_on_signals();
  const int status = kiln::cli::guarded(argc, argv);
  kiln::cli::progress("");
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("kiln: cannot write to standard output\n", stderr);
    return status == 0 ? 1 : status;
  }
  return status;
}
