// Plans of configs with further keys, and where configs are refused.
#pragma once

#include <string>
#include <utility>

#include "generator/config/report.hpp"
#include "tests/plans.hpp"

namespace kiln::test {

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

}  // namespace kiln::test
