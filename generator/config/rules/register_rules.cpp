#include "generator/config/rules/rule_sets.hpp"

namespace kiln::rules {

std::vector<Rule> register_rules() {
  return {};
}

}  // namespace kiln::rules
