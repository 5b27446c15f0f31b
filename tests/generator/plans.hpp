// Where configs that are written as JSON are refused.
#pragma once

#include <string>
#include <vector>

#include "tests/plans.hpp"

namespace kiln::test {

/// Violations of a config, none when it is legal.
inline std::vector<Violation> violations(const nlohmann::ordered_json& config) {
  try {
    plan_of(config);
    return {};
  } catch (const Error& error) {
    return error.violations();
  }
}
inline bool refused_at(const nlohmann::ordered_json& config, const std::string& pointer,
                       const std::string& rule) {
  for (const Violation& v : violations(config)) {
    if (v.pointer == pointer && v.rule.rfind(rule, 0) == 0) return true;
  }
  return false;
}

}  // namespace kiln::test
