// keys: what each key of a config may be, by target, as found by trying (tests/schema, configs/keys.json).
#include <fmt/format.h>

#include <algorithm>

#include <kiln/kiln.hpp>

#include "cli/commands.hpp"
#include "cli/generate/shipped.hpp"
#include "cli/output.hpp"
#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/report.hpp"

namespace kiln::cli {
namespace {

Json document() {
  for (const EmbeddedText& file : embedded_configs())
    if (file.name == "keys.json") return json_of(file.text)["keys"];
  throw Error(ErrorCode::internal, "configs/keys.json is not built in");
}

/// `text` in lines of at most `width`, cut at blanks.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::size_t from = 0;
  while (text.size() - from > width) {
    const std::size_t blank = text.rfind(' ', from + width);
    const std::size_t end = blank == std::string::npos || blank <= from ? from + width : blank;
    lines.push_back(text.substr(from, end - from));
    from = end + (end == blank ? 1 : 0);
  }
  lines.push_back(text.substr(from));
  return lines;
}

void print_key(const std::string& name, const Json& entry) {
  fmt::print("{}\n  {}\n", bold(name), entry["doc"].get<std::string>());
  for (const auto& [target, by_operation] : entry.items()) {
    if (target == "doc") continue;
    for (const auto& [operation, cell] : by_operation.items()) {
      std::string text = cell.get<std::string>();
      std::erase(text, '`');  // the page's mark of a name
      std::string head = fmt::format("  {:<7} {:<8} ", target, operation);
      for (const std::string& line : wrapped(text.empty() ? "-" : text, 80)) {
        fmt::print("{}{}\n", head, line);
        head = std::string(head.size(), ' ');
      }
    }
  }
}

/// The keys asked for, or all; of one target if one is named.
Json chosen(const std::vector<std::string>& names, const std::string& target) {
  const Json all = document();
  std::vector<std::string_view> known;
  for (const auto& [name, entry] : all.items()) known.push_back(name);
  Json out = Json::object();
  for (const std::string& name : names) {
    if (all.contains(name)) continue;
    const std::string_view near = nearest(name, known);
    throw Error(ErrorCode::bad_input,
                fmt::format("no key is called '{}'{}", name,
                            near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  for (const auto& [name, entry] : all.items()) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    Json kept{{"doc", entry["doc"]}};
    for (const auto& [member, value] : entry.items())
      if (member != "doc" && (target.empty() || member == target)) kept[member] = value;
    const bool other_target = !target.empty() && entry.size() > 1 && kept.size() == 1;
    if (!other_target || !names.empty()) out[name] = std::move(kept);
  }
  return out;
}

}  // namespace

Action add_keys(CLI::App& command, Common& common) {
  struct Options {
    std::vector<std::string> keys;
    std::string target;
  };
  auto options = std::make_shared<Options>();
  command.add_option("KEY", options->keys, "Keys to show; all of them without any");
  command.add_option("--target", options->target, "Only what this target takes")
      ->type_name("TEXT:{" + target_names(kAllTargets) + "}");
  return [options, &common] {
    if (!options->target.empty() && !target_from(options->target))
      throw Error(ErrorCode::bad_input, "--target: there is no target '" + options->target +
                                            "'; use one of " + target_names(kAllTargets));
    const Json keys = chosen(options->keys, options->target);
    if (common.json) {
      print_json(keys);
    } else {
      for (const auto& [name, entry] : keys.items()) print_key(name, entry);
    }
    return 0;
  };
}

}  // namespace kiln::cli
