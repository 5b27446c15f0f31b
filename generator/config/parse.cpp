// The public functions of <kiln/config.hpp>.
#include <kiln/config.hpp>

#include <algorithm>

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/rules.hpp"

namespace kiln {
namespace {

bool broken_at(const Violations& violations, std::string_view pointer) {
  return std::any_of(violations.begin(), violations.end(),
                     [&](const Violation& v) { return v.pointer == pointer; });
}

/// Without its required keys a config has no target to check rules for.
bool can_check_rules(const Violations& violations) {
  return std::none_of(config_keys().begin(), config_keys().end(), [&](const KeySpec& key) {
    return key.required && broken_at(violations, child_pointer("", key.name));
  });
}

}  // namespace

Config parse_config(std::string_view json_text, std::string_view source_name) {
  Violations violations;
  const Json document = read_json(json_text, violations);
  if (document.is_null() && !violations.empty()) throw_if_any(source_name, violations);

  Violations mistakes;
  Config config = config_from_dom(document, mistakes);
  for (Violation& mistake : mistakes) {
    // A number out of range was read as null: it has been reported already.
    if (!broken_at(violations, mistake.pointer)) violations.push_back(std::move(mistake));
  }
  if (document.is_object() && can_check_rules(violations)) {
    std::vector<std::string> skip;
    for (const Violation& violation : violations) skip.push_back(violation.pointer);
    check_rules(config, violations, skip);
  }
  throw_if_any(source_name, violations);
  return config;
}

std::string to_json(const Config& config, int indent) {
  return write_json(config_to_dom(config), indent);
}

}  // namespace kiln
