#include "generator/plan/choose.hpp"

#include <string>

namespace kiln {
namespace {

std::string json_text(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

}  // namespace

const ScheduleEntry* choose_schedule(const Config& config, std::span<const ScheduleEntry> entries,
                                     Violations& out) {
  std::string combinations, operations, targets, names;
  for (const ScheduleEntry& entry : entries) {
    const bool target_fits = entry.target == config.target,
               operation_fits = entry.operation == config.operation;
    const std::string combination =
        std::string(to_string(entry.target)) + " " + std::string(to_string(entry.operation));
    if (combinations.find(combination) == std::string::npos)
      combinations += (combinations.empty() ? "" : ", ") + combination;
    if (operation_fits && targets.find(to_string(entry.target)) == std::string::npos) {
      targets += (targets.empty() ? "" : ", ") + std::string(to_string(entry.target));
    }
    if (target_fits && operations.find(to_string(entry.operation)) == std::string::npos) {
      operations += (operations.empty() ? "" : ", ") + std::string(to_string(entry.operation));
    }
    if (!target_fits || !operation_fits) continue;
    const bool chosen = config.schedule ? *config.schedule == entry.name
                                        : entry.is_default == nullptr || entry.is_default(config);
    if (chosen) return &entry;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (!names.empty()) {
    out.push_back({"/schedule", json_text(*config.schedule),
                   "not-yet: " + std::string(to_string(config.target)) + " has no such " +
                       std::string(to_string(config.operation)) + " schedule",
                   names});
    return nullptr;
  }
  const std::string what = "not-yet: no schedule implements " + std::string(to_string(config.operation)) +
                           " on " + std::string(to_string(config.target)) + " yet; this version has " +
                           (combinations.empty() ? "none" : combinations);
  out.push_back({"/target", json_text(to_string(config.target)), what, targets});
  out.push_back({"/operation", json_text(to_string(config.operation)), what, operations});
  return nullptr;
}

}  // namespace kiln
