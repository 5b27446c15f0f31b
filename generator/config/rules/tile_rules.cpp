#include "generator/config/rules/rule_sets.hpp"

namespace kiln::rules {

std::vector<Rule> tile_rules() {
  return {};
}

}  // namespace kiln::rules
namespace kiln::rules {
std::vector<std::array<int, 3>> matrix_shapes(const Config&) {
  return {};
}
}  // namespace kiln::rules
