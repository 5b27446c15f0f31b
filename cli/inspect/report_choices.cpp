// What the planner chose, and the kernels next to it: which other values plan, what they take, how the model of the main
// loop compares them, and why the rest do not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/inspect/report_json.hpp"
#include "generator/config/keys.hpp"
#include "generator/plan/neighbours.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/targets/target.hpp"

namespace kiln::cli {
namespace {

/// Blocks of a multiprocessor at a time, by shared memory, registers and threads; AMD's are in its cycle model.
int blocks_at_a_time(const Config& resolved, const Resources& r) {
  if (is_amd(resolved.target)) return 1;
  constexpr int kThreads = 2048;
  const TargetInfo& target = target_info(resolved.target);
  const int by_shared = target.processor_smem() / (r.smem_bytes + target.smem_reserved),
            by_threads = kThreads / std::max(1, r.num_threads),
            by_registers = target.registers / std::max(1, r.num_threads * r.max_registers);
  return std::max(1, std::min({by_shared, by_threads, by_registers}));
}

/// Clocks for 64 x 64 scores by the schedule's model of its main loop, other blocks filling its gaps; null without one.
Json model_clocks(const Plan& plan) {
  const Timeline timeline = plan.schedule().timeline();
  const Config& resolved = plan.resolved();
  if (timeline.empty() || !resolved.BM || !resolved.BN) return nullptr;
  std::vector<double> busy(timeline.lanes.size(), 0);
  std::vector<int> tiles(timeline.lanes.size(), 0);
  double end = 0;
  for (const TimelineSpan& span : timeline.spans) {
    const auto lane = static_cast<std::size_t>(span.lane);
    busy[lane] += span.end - span.begin;
    tiles[lane] += static_cast<int>(span.kind == TimelineSpan::Kind::softmax);
    end = std::max(end, span.end);
  }
  const int count = *std::max_element(tiles.begin(), tiles.end());
  if (count == 0) return nullptr;
  const double blocks = blocks_at_a_time(resolved, plan.resources());
  const double clocks = std::max(end / blocks, *std::max_element(busy.begin(), busy.end()));
  return clocks * 4096 / (static_cast<double>(count) * *resolved.BM * *resolved.BN);
}

Json cost_json(const Json& value, const Plan& plan) {
  const Resources r = plan.resources();
  return {{"value", value},
          {"smem_bytes", r.smem_bytes},
          {"num_threads", r.num_threads},
          {"max_registers", r.max_registers},
          {"blocks", is_amd(plan.resolved().target) ? Json() : Json(blocks_at_a_time(plan.resolved(), r))},
          {"clocks", model_clocks(plan)}};
}

double clocks_of(const Json& cost) {
  return cost["clocks"].is_null() ? 0 : cost["clocks"].get<double>();
}

/// The fastest of `others` by the model; of those it sees no difference between, the nearest to `mine`.
Json& next_best(const Json& mine, Json& others) {
  const auto order = [&](const Json& each) {
    const bool numbers = each["value"].is_number() && mine["value"].is_number();
    const double distance = numbers ? std::abs(each["value"].get<double>() - mine["value"].get<double>()) : 0;
    return std::pair(std::round(200 * clocks_of(each) / std::max(clocks_of(mine), 1e-9)), distance);
  };
  return *std::min_element(others.begin(), others.end(),
                           [&](const Json& a, const Json& b) { return order(a) < order(b); });
}

/// Why the planner's value, as far as its limits and the model say it; and marks the next best of `others`.
/// `measured`: kernels of this target were timed on hardware.
std::string reason(bool given, const Json& mine, Json& others, bool measured) {
  if (others.empty()) return given ? "given in the config" : "no other value plans";
  Json& best = next_best(mine, others);
  best["next"] = true;
  if (given) return "given in the config";
  if (mine["clocks"].is_null())
    return "the planner's rule for this schedule; there is no model of its main loop to compare with";
  const double ratio = clocks_of(best) / clocks_of(mine);
  if (ratio >= 1.005)
    return fmt::format("fastest by the model; the next best is {:.0f} % slower", 100 * (ratio - 1));
  if (ratio > 0.995) return "the model sees no difference to the next best; the planner's rule decides";
  return fmt::format("the planner's rule{}; the model alone has another {:.0f} % faster",
                     measured ? ", which measurements set" : "", 100 * (1 / ratio - 1));
}

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
  const bool measured = user.target == Target::sm_80 || user.target == Target::sm_90a;
  Json out = Json::array();
  for (const std::string_view name : tunable_keys()) {
    const std::string key(name);
    if (!resolved.contains(key)) continue;
    Json others = Json::array();
    for (const Neighbour& neighbour : neighbours(user, name)) {
      if (neighbour.value == resolved[key]) continue;
      others.push_back(cost_json(neighbour.value, neighbour.plan));
    }
    const KeySpec* spec = find_key(name);
    const bool given = is_set(user, "/" + key);
    const Json mine = cost_json(resolved[key], plan);
    const std::string why = reason(given, mine, others, measured);
    out.push_back({{"key", key},
                   {"value", resolved[key]},
                   {"from", given ? "config" : "planner"},
                   {"why", why},
                   {"cost", mine},
                   {"doc", spec != nullptr ? std::string(spec->doc) : ""},
                   {"others", others},
                   {"refused", refused_json(user, key, resolved[key])}});
  }
  return out;
}

}  // namespace kiln::cli
