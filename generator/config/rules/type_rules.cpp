#include "generator/config/rules/rule_sets.hpp"

namespace kiln::rules {

std::vector<Rule> type_rules() {
  return {};
}

}  // namespace kiln::rules
