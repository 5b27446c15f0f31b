// Plans of configs that are written as JSON, and what is counted in their kernels.
#pragma once

#include <string>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"

namespace kiln::test {

inline Plan plan_of(const nlohmann::ordered_json& config) {
  return make_plan(parse_config(write_json(config), "test"));
}

/// How often `word` occurs.
inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}

}  // namespace kiln::test
