// What the planner chose, and the kernels next to it: which other values plan, what they take, and why the rest do not.
#include <algorithm>

#include "cli/inspect/report_json.hpp"
#include "generator/config/keys.hpp"
#include "generator/plan/neighbours.hpp"

namespace kiln::cli {
namespace {

/// Values beside the planner's, as the schema lists them or next to a number, for the reasons why they do not plan.
Json values_nearby(const Json& value) {
  if (!value.is_number_integer()) return Json::array();
  const int number = value.get<int>();
  return {number / 2, number * 2};
}

Json refused_json(const Config& user, const std::string& key, const Json& chosen) {
  Json out = Json::array();
  for (const Json& value : values_nearby(chosen)) {
    if (value == chosen || value == 0) continue;
    const std::optional<Config> changed = with_value(user, "/" + key, value);
    if (!changed) continue;
    try {
      static_cast<void>(make_plan(*changed));
    } catch (const Error& error) {
      if (error.violations().empty()) continue;
      out.push_back({{"value", value}, {"why", error.violations().front().rule}});
    }
  }
  return out;
}

}  // namespace

Json choices_json(const Config& user, const Plan& plan) {
  const Json resolved = config_to_dom(plan.resolved());
  Json out = Json::array();
  for (const std::string_view name : tunable_keys()) {
    const std::string key(name);
    if (!resolved.contains(key)) continue;
    Json others = Json::array();
    for (const Neighbour& neighbour : neighbours(user, name)) {
      if (neighbour.value == resolved[key]) continue;
      const Resources r = neighbour.plan.resources();
      others.push_back({{"value", neighbour.value},
                        {"smem_bytes", r.smem_bytes},
                        {"num_threads", r.num_threads},
                        {"max_registers", r.max_registers}});
    }
    const KeySpec* spec = find_key(name);
    out.push_back({{"key", key},
                   {"value", resolved[key]},
                   {"from", is_set(user, "/" + key) ? "config" : "planner"},
                   {"doc", spec != nullptr ? std::string(spec->doc) : ""},
                   {"others", others},
                   {"refused", refused_json(user, key, resolved[key])}});
  }
  return out;
}

}  // namespace kiln::cli
