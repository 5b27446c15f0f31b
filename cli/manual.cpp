#include "cli/manual.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace kiln::cli {
namespace {

/// Text as roff takes it: backslashes and hyphens as they are, no line that begins with a control character.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string option_head(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name();
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const std::string head = fmt::format("{}", fmt::join(names, ", "));
  return option.get_type_size() == 0 ? head : head + " " + option.get_type_name();
}

void add_command(std::string& out, const CLI::App& command, const std::string& name) {
  std::string positional;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional())
      positional += " " + option->get_name() + (option->get_expected_max() > 1 ? "..." : "");
  }
  out += fmt::format(".SS {}\n{}\n", roff(name + positional), roff(command.get_description()));
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_description().empty() || option->get_name() == "--help") continue;
    out += fmt::format(".TP\n.B {}\n{}\n", roff(option_head(*option)), roff(option->get_description()));
  }
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; }))
    add_command(out, *inner, name + " " + inner->get_name());
}

}  // namespace

std::string manual_page(const CLI::App& app, std::string_view version) {
  std::string out = fmt::format(
      ".TH KILN 1 \"\" \"kiln {}\" \"User Commands\"\n.SH NAME\nkiln \\- attention kernels from JSON configs\n"
      ".SH SYNOPSIS\n.B kiln\n.I COMMAND\n[CONFIG...] [OPTIONS]\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      roff(version), roff(app.get_footer()));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    add_command(out, *command, command->get_name());
  out += ".SH EXIT STATUS\n";
  static constexpr const char* kStatuses[][2] = {
      {"0", "done, and every check passed"},
      {"1", "a check failed: a wrong result, a finding of the emulated device, a spill"},
      {"2", "bad usage, config, file or problem"},
      {"3", "the environment lacks something; the line says what and how to get it"}};
  for (const auto& [status, meaning] : kStatuses)
    out += fmt::format(".TP\n.B {}\n{}\n", status, roff(meaning));
  out += ".SH ENVIRONMENT\n";
  static constexpr const char* kVariables[][2] = {
      {"KILN_DEVICE", "the default of --device"},
      {"KILN_CACHE_DIR", "where compiled kernels are kept; else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln"},
      {"KILN_CACHE_MAX_SIZE", "bytes of the cache, with K, M, G or T (1G)"},
      {"KILN_LOG", "error, warn, info or debug"},
      {"KILN_NVRTC, KILN_HIPRTC, KILN_CLANG", "the compilers to use"},
      {"NO_COLOR", "no colour on a terminal"}};
  for (const auto& [name, meaning] : kVariables) out += fmt::format(".TP\n.B {}\n{}\n", name, roff(meaning));
  return out;
}

}  // namespace kiln::cli
