#include "cli/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <kiln/error.hpp>

namespace kiln::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// "eager lazy random" of an option that takes one of a set; empty: any value.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find(":{"), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return "";
  std::string out = type.substr(begin + 2, end - begin - 2);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

/// "--seed --check": the long options of a command, what its arguments may be, its own commands ("cache prune").
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    if (option->get_positional() && !values_of(*option).empty()) out.push_back(values_of(*option));
  }
  for (const CLI::App* inner : commands_of(command)) out.push_back(inner->get_name());
  return out;
}

/// A case for each option with a set of values, after the word before the cursor.
std::string bash_values(const std::vector<const CLI::App*>& commands) {
  std::string out;
  for (const CLI::App* command : commands) {
    for (const CLI::Option* option : command->get_options()) {
      const std::string values = values_of(*option);
      for (const std::string& name : option->get_lnames())
        if (!values.empty())
          out += fmt::format("    {}:--{}) words=\"{}\" files= ;;\n", command->get_name(), name, values);
    }
  }
  return out;
}

bool takes_configs(const CLI::App& command) {
  return command.get_option_no_throw("CONFIG") != nullptr;
}

std::string names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> out;
  out.reserve(commands.size());
  for (const CLI::App* command : commands) out.push_back(command->get_name());
  return fmt::format("{}", fmt::join(out, " "));
}

/// In zsh through its emulation of bash's completion.
std::string bash_script(const CLI::App& app, const std::vector<std::string>& configs, bool zsh) {
  std::string out = "# Completion of kiln: source this file.\n";
  if (zsh) out += "autoload -Uz bashcompinit compinit && compinit && bashcompinit\n";
  out +=
      "_kiln() {\n  local word=${COMP_WORDS[COMP_CWORD]} words files=-f\n  case ${COMP_CWORD}:${COMP_WORDS[1]} in\n";
  out += fmt::format("    1:*) words=\"{} --help --version\" files= ;;\n", names_of(commands_of(app)));
  for (const CLI::App* command : commands_of(app)) {
    out += fmt::format("    *:{}) words=\"{}{}\" ;;\n", command->get_name(),
                       fmt::join(words_of(*command), " "), takes_configs(*command) ? " $_kiln_configs" : "");
  }
  out += "  esac\n  case ${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]} in\n" + bash_values(commands_of(app));
  out += "  esac\n  COMPREPLY=($(compgen $files -W \"$words\" -- \"$word\"))\n}\n";
  out += fmt::format("_kiln_configs=\"{}\"\n", fmt::join(configs, " "));
  return out + "complete -o filenames -F _kiln kiln\n";
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("\\'") : std::string(1, c);
  return out + "'";
}

std::string fish_script(const CLI::App& app, const std::vector<std::string>& configs) {
  std::string out = "# Completion of kiln: source this file.\n";
  for (const CLI::App* command : commands_of(app)) {
    out += fmt::format("complete -c kiln -n __fish_use_subcommand -f -a {} -d {}\n", command->get_name(),
                       in_quotes(command->get_description()));
    const std::string chosen = fmt::format("-n '__fish_seen_subcommand_from {}'", command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      const std::string values = values_of(*option);
      for (const std::string& name : option->get_lnames())
        out += fmt::format("complete -c kiln {} -l {} -d {}{}\n", chosen, name,
                           in_quotes(option->get_description()),
                           values.empty() ? "" : " -x -a '" + values + "'");
    }
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() && !values_of(*option).empty())
        out += fmt::format("complete -c kiln {} -f -a '{}'\n", chosen, values_of(*option));
    }
    if (takes_configs(*command))
      out += fmt::format("complete -c kiln {} -a '{}'\n", chosen, fmt::join(configs, " "));
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::vector<std::string>& configs,
                              std::string_view shell) {
  if (shell == "bash" || shell == "zsh") return bash_script(app, configs, shell == "zsh");
  if (shell == "fish") return fish_script(app, configs);
  throw Error(ErrorCode::bad_input,
              fmt::format("completion: no shell '{}'; bash, zsh and fish are known", shell));
}

}  // namespace kiln::cli
