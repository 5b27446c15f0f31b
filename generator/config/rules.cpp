#include "generator/config/rules.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "generator/config/defaults.hpp"
#include "generator/config/json_text.hpp"
#include "generator/config/rules/rule_sets.hpp"

namespace kiln {
namespace {

/// Which keys the default of a key follows from: who to point at when the user set only the source.
constexpr std::pair<std::string_view, std::string_view> kDefaultSources[] = {
    {"/WN", "/BN"},
    {"/WM", "/BM"},
    {"/BM", "/WM"},
    {"/BM", "/mma_shape"},
    {"/WM", "/mma_shape"},
    {"/BK", "/mma_shape"},
    {"/bk_smem", "/BK"},
    {"/smem_depth", "/depth"},
    {"/ov_depth", "/depth"},
    {"/nope_depth", "/depth"},
    {"/cache_depth", "/depth"},
    {"/kv_dtype", "/dtype"},
    {"/swizzle_k", "/swizzle"},
    {"/swizzle_v", "/swizzle"},
    {"/swizzle_p", "/swizzle"},
    {"/operand/page_size", "/operand/kind"},
};

constexpr int kWalkLimit = 1024;  ///< how far from the user's value a legal one is looked for

/// JSON Schema of the value at a pointer: the row's own, or that of a member of an object.
const Json* schema_of(std::string_view pointer) {
  const std::size_t slash = pointer.find('/', 1);
  const KeySpec* key = find_key(pointer.substr(1, slash == std::string_view::npos ? slash : slash - 1));
  if (key == nullptr) return nullptr;
  if (slash == std::string_view::npos) return &key->schema;
  const Json::json_pointer member("/properties" + std::string(pointer.substr(slash)));
  return key->schema.contains(member) ? &key->schema[member] : nullptr;
}

/// The integer part of a schema, also inside {"anyOf": ["auto", integer]}.
const Json* integer_schema(const Json& schema) {
  if (schema.value("type", "") == "integer") return &schema;
  if (!schema.contains("anyOf")) return nullptr;
  for (const Json& part : schema["anyOf"]) {
    if (part.value("type", "") == "integer") return &part;
  }
  return nullptr;
}

std::string nearest_integers(const Config& user, std::string_view pointer, const Json& schema, int value,
                             const std::function<bool(const Config&)>& accepts) {
  const int lo = schema["minimum"].get<int>(), hi = schema["maximum"].get<int>();
  // Head dimensions are legal one by one, but nobody means 97 when 96 does not fit.
  const int step = schema.value("multipleOf", pointer.ends_with("depth") && value % 8 == 0 ? 8 : 1);
  const auto legal = [&](int candidate) {
    const std::optional<Config> changed = with_value(user, pointer, candidate);
    return changed && accepts(*changed);
  };
  std::string out;
  int candidate = (value - 1) / step * step;
  for (int i = 0; i < kWalkLimit && candidate >= lo; ++i, candidate -= step) {
    if (!legal(candidate)) continue;
    out = std::to_string(candidate);
    break;
  }
  candidate = (value / step + 1) * step;
  for (int i = 0; i < kWalkLimit && candidate <= hi; ++i, candidate += step) {
    if (!legal(candidate)) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(candidate);
    break;
  }
  return out;
}

bool concerns(const Rule& rule, std::string_view pointer) {
  return std::find(rule.keys.begin(), rule.keys.end(), pointer) != rule.keys.end();
}

/// Whether a changed value of `pointer` is worth suggesting: the rule holds, every other rule over that key
/// holds, and nothing breaks that held before.
bool fixes(const Rule& rule, std::string_view pointer, const Config& before, const Config& changed) {
  const Config after = with_rule_defaults(changed);
  if (!rule.broken(after).empty()) return false;
  return std::all_of(config_rules().begin(), config_rules().end(), [&](const Rule& other) {
    if ((other.targets & only(changed.target)) == 0 || other.broken(after).empty()) return true;
    return !concerns(other, pointer) && !other.broken(before).empty();
  });
}

void report(const Rule& rule, const std::string& what, const Config& user, const Config& values,
            Violations& out) {
  std::vector<std::string> blamed = set_sources(user, rule.keys);
  if (blamed.empty()) blamed.emplace_back(rule.keys.front());
  for (const std::string& pointer : blamed) {
    std::string value = key_value_text(user, pointer);
    if (value.empty()) value = key_value_text(values, pointer);
    const auto accepts = [&](const Config& changed) { return fixes(rule, pointer, values, changed); };
    Violation violation{pointer, std::move(value), std::string(rule.id) + ": " + what,
                        nearest_legal(user, pointer, accepts)};
    // One value may stand behind two keys of a rule, as `swizzle` behind swizzle_k and swizzle_v.
    const bool again = std::any_of(out.begin(), out.end(), [&](const Violation& known) {
      return known.pointer == violation.pointer && known.rule == violation.rule;
    });
    if (!again) out.push_back(std::move(violation));
  }
}

void check(const Config& user, const Config& values, std::span<const std::string> skip, Violations& out) {
  for (const Rule& rule : config_rules()) {
    if ((rule.targets & only(user.target)) == 0) continue;
    const auto skipped = [&](std::string_view key) {
      return std::any_of(skip.begin(), skip.end(), [&](const std::string& s) {
        return s == key || s.starts_with(std::string(key) + "/");
      });
    };
    if (std::any_of(rule.keys.begin(), rule.keys.end(), skipped)) continue;
    const std::string what = rule.broken(values);
    if (!what.empty()) report(rule, what, user, values, out);
  }
}

/// Keys that mean nothing on the target: never ignored, always refused.
void check_applicable(const Config& user, Violations& out) {
  for (const KeySpec& key : config_keys()) {
    if ((key.targets & only(user.target)) != 0) continue;
    const std::optional<Json> value = key.write(user);
    if (!value) continue;
    out.push_back({child_pointer("", key.name), value_text(*value),
                   "schema: this key belongs to " + target_names(key.targets) + ", not to " +
                       std::string(to_string(user.target)),
                   ""});
  }
}

}  // namespace

std::span<const Rule> config_rules() {
  static const std::vector<Rule> table = [] {
    std::vector<Rule> out;
    for (auto* part : {rules::tile_rules, rules::memory_rules, rules::swizzle_rules, rules::tma_rules,
                       rules::type_rules, rules::register_rules}) {
      std::vector<Rule> rows = part();
      std::move(rows.begin(), rows.end(), std::back_inserter(out));
    }
    return out;
  }();
  return table;
}

void check_rules(const Config& user, Violations& out, std::span<const std::string> skip) {
  check_applicable(user, out);
  check(user, with_rule_defaults(user), skip, out);
}

void check_resolved_rules(const Config& user, const Config& resolved, Violations& out) {
  check(user, resolved, {}, out);
}

std::vector<std::string> set_sources(const Config& user, std::span<const std::string_view> keys) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view key) {
    if (std::find(out.begin(), out.end(), key) == out.end()) out.emplace_back(key);
  };
  for (std::string_view key : keys) {
    if (is_set(user, key)) {
      add(key);
      continue;
    }
    for (const auto& [unset, source] : kDefaultSources) {
      if (unset == key && is_set(user, source)) add(source);
    }
  }
  return out;
}

std::string nearest_legal(const Config& user, std::string_view pointer,
                          const std::function<bool(const Config&)>& accepts) {
  const Json* schema = schema_of(pointer);
  if (schema == nullptr) return "";
  const std::string text = key_value_text(user, pointer);
  if (const Json* integers = integer_schema(*schema)) {
    const Json value = json_of(text);
    return value.is_number_integer() ? nearest_integers(user, pointer, *integers, value.get<int>(), accepts)
                                     : "";
  }
  Json candidates = Json::array();
  if (schema->contains("enum")) {
    candidates = (*schema)["enum"];
  } else if (schema->value("type", "") == "boolean") {
    candidates = {true, false};
  } else if (pointer == "/mma_shape") {
    for (const auto& shape : rules::matrix_shapes(user)) candidates.push_back(shape);
  } else if (schema->contains("anyOf") && schema->at("anyOf")[0].contains("enum")) {
    candidates = (*schema)["anyOf"][0]["enum"];
  }
  std::string out;
  for (const Json& candidate : candidates) {
    if (candidate.is_null()) continue;
    const std::optional<Config> changed = with_value(user, pointer, candidate);
    if (!changed || !accepts(*changed)) continue;
    out += (out.empty() ? "" : ", ") +
           (candidate.is_string() ? candidate.get<std::string>() : value_text(candidate));
  }
  return out;
}

std::string key_value_text(const Config& config, std::string_view pointer) {
  const std::size_t slash = pointer.find('/', 1);
  const KeySpec* key = find_key(pointer.substr(1, slash == std::string_view::npos ? slash : slash - 1));
  if (key == nullptr) return "";
  const std::optional<Json> value = key->write(config);
  if (!value) return "";
  if (slash == std::string_view::npos) return value_text(*value);
  const Json::json_pointer member{std::string(pointer.substr(slash))};
  return value->contains(member) ? value_text((*value)[member]) : "";
}

}  // namespace kiln
