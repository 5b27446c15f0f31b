#include "generator/config/unsupported.hpp"

#include <algorithm>

#include "generator/config/rules.hpp"

namespace kiln {

bool is_neutral(std::string_view key, const Json& value, int depth) {
  if (key == "scale_placement") return value == "post";
  if (key == "tma_fold") return value == "none" || value == "auto";
  if (key == "fp8_flush_interval" || key == "exp_offload") return value == 0;
  if (key == "cluster") return value == 1;
  if (key == "pair_cta" || key == "single_o") return value == false;
  return key == "reg_chunk_depth" && value >= depth;  // no chunk but the whole
}

void refuse_unsupported(const Config& config, std::string_view schedule,
                        std::span<const std::string_view> supported, Violations& out) {
  for (const KeySpec& key : config_keys()) {
    if (key.required || key.name == "name" || key.name == "schedule" || key.name == "source_style") continue;
    if (std::find(supported.begin(), supported.end(), key.name) != supported.end()) continue;
    const std::optional<Json> value = key.write(config);
    if (!value || is_neutral(key.name, *value, config.depth)) continue;
    // What nothing could be done with says so.
    const std::string_view end =
        key.name == "base_alignment"
            ? ": tiles begin at multiples of BN, and lanes look their pages up side by side, one each"
            : " yet";
    out.push_back({child_pointer("", key.name), value_text(*value),
                   "not-yet: schedule " + std::string(schedule) + " does not take " + std::string(key.name) +
                       std::string(end),
                   "leave it out"});
  }
}

void refuse_value(const Config& config, std::string_view pointer, std::string_view what,
                  const std::string& legal, Violations& out) {
  break_rule(config, "not-yet", {pointer}, what, legal, out);
}

void break_rule(const Config& user, std::string_view id, std::initializer_list<std::string_view> keys,
                std::string_view what, const std::string& legal, Violations& out) {
  const std::vector<std::string_view> list(keys);
  std::vector<std::string> blamed = set_sources(user, list);
  if (blamed.empty()) blamed.emplace_back(list.front());
  for (const std::string& pointer : blamed) {
    Violation violation{pointer, key_value_text(user, pointer), std::string(id) + ": " + std::string(what),
                        legal};
    // Keys that follow from one another are checked each: what the user set is blamed once.
    const auto said = [&](const Violation& v) {
      return v.pointer == violation.pointer && v.rule == violation.rule &&
             v.suggestion == violation.suggestion;
    };
    if (std::none_of(out.begin(), out.end(), said)) out.push_back(std::move(violation));
  }
}

}  // namespace kiln
