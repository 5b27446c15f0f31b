#include "generator/config/rules/rule_sets.hpp"

namespace kiln::rules {

std::vector<Rule> memory_rules() {
  return {};
}

}  // namespace kiln::rules
