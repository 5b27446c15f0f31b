// Plans of configs that are written as JSON, where they are refused, and what is counted in their kernels.
#pragma once

#include <string>
#include <utility>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/report.hpp"

namespace kiln::test {

inline Plan plan_of(const nlohmann::ordered_json& config) {
  return make_plan(parse_config(write_json(config), "test"));
}
/// With further keys: `keys` is JSON text without the braces.
inline Plan plan_with(nlohmann::ordered_json config, const std::string& keys) {
  config.update(json_of("{" + keys + "}"));
  return plan_of(config);
}

/// The first violation, as "pointer: rule"; nothing when the config is legal.
inline std::string refusal(const nlohmann::ordered_json& config) {
  try {
    plan_of(config);
  } catch (const Error& error) {
    return error.violations().empty() ? error.what() : violation_line(error.violations().front());
  }
  return "";
}

struct Built {
  Plan plan;
  KernelSource source;
};
/// Decode of BF16 with 64 columns, and `keys`.
inline Built build_decode(const std::string& target, const std::string& keys) {
  Plan plan =
      plan_with({{"target", target}, {"operation", "decode"}, {"dtype", "bf16"}, {"depth", 64}}, keys);
  KernelSource source = generate(plan);
  return {std::move(plan), std::move(source)};
}

/// How often `word` occurs.
inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}

}  // namespace kiln::test
