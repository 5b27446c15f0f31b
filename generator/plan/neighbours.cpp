#include "generator/plan/neighbours.hpp"

#include <array>

#include "generator/config/keys.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 21> kTunable{"schedule",
                                                    "BN",
                                                    "BM",
                                                    "num_kv_stages",
                                                    "num_qk_stages",
                                                    "num_threads",
                                                    "mma_shape",
                                                    "BK",
                                                    "WN",
                                                    "WM",
                                                    "double_buffer",
                                                    "double_buffer_k_only",
                                                    "wait_policy",
                                                    "v_load",
                                                    "cluster",
                                                    "exp_offload",
                                                    "pv_operand",
                                                    "tma_fold",
                                                    "scale_placement",
                                                    "scheduler",
                                                    "split_kv"};

/// Integers and shapes worth trying; keys with a list of names or a yes and no have their values in the
/// schema.
Json listed_values(std::string_view key) {
  if (key == "BM") return {8, 16, 32, 64, 128, 192, 256};
  if (key == "BN") return {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256};
  if (key == "BK") return {16, 32, 64, 128, 256};
  if (key == "WM") return {16, 32, 64};
  if (key == "WN") return {16, 32, 64, 128};
  if (key == "num_threads") return {64, 128, 256, 384, 512};
  if (key == "num_kv_stages") return {1, 2, 3, 4, 6, 8};
  if (key == "num_qk_stages") return {1, 2, 4};
  if (key == "cluster") return {1, 2};
  if (key == "exp_offload") return {0, 0.125, 0.25, 0.375, 0.5};
  if (key == "split_kv") return Json::array({1});
  if (key == "mma_shape") return {{16, 16, 16}, {16, 16, 32}, {32, 32, 8}, {32, 32, 16}};
  return Json::array();
}

Json values_of(const KeySpec& key, const Config& config) {
  if (key.name == "schedule") {
    Json names = Json::array();
    for (const ScheduleEntry& entry : schedules()) {
      if (entry.target == config.target && entry.operation == config.operation) names.push_back(entry.name);
    }
    return names;
  }
  if (key.schema.contains("enum")) return key.schema.at("enum");
  if (key.schema.value("type", "") == "boolean") return {false, true};
  return listed_values(key.name);
}

}  // namespace

std::span<const std::string_view> tunable_keys() {
  return kTunable;
}

std::vector<Neighbour> neighbours(const Config& config, std::string_view key) {
  std::vector<Neighbour> found;
  const KeySpec* spec = find_key(key);
  if (spec == nullptr || (spec->targets & only(config.target)) == 0) return found;
  for (const Json& value : values_of(*spec, config)) {
    if (value == "auto") continue;  // one of the others
    std::optional<Config> changed = with_value(config, "/" + std::string(key), value);
    if (!changed) continue;
    try {
      Plan plan = make_plan(*changed);
      found.push_back({value, std::move(*changed), std::move(plan)});
    } catch (const Error&) {
      // No kernel there: nothing to try.
    }
  }
  return found;
}

}  // namespace kiln
