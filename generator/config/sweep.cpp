#include "generator/config/sweep.hpp"

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxConfigs = 1'000'000;

/// Reports anything but an object of known keys.
bool check_keys(const Json& object, const ReadContext& context) {
  if (!object.is_object()) {
    context.fail(object, "wants an object of config keys");
    return false;
  }
  for (const auto& [name, value] : object.items()) {
    if (find_key(name) == nullptr) context.at(name).fail(value, "unknown config key");
  }
  return true;
}

/// Number of configs of a grid; 0 after reporting a mistake.
std::size_t count(const Json& grid, const ReadContext& context) {
  if (!check_keys(grid, context)) return 0;
  std::size_t total = 1;
  for (const auto& [name, values] : grid.items()) {
    if (!values.is_array() || values.empty()) {
      context.at(name).fail(values, "wants an array of values");
      return 0;
    }
    total = total > kMaxConfigs ? total : total * values.size();
  }
  return total;
}

Json combination(const Json& base, const Json& grid, std::size_t index) {
  Json config = base;
  std::vector<std::pair<std::string, const Json*>> keys;
  for (const auto& [name, values] : grid.items()) keys.emplace_back(name, &values);
  std::vector<const Json*> chosen(keys.size());
  for (std::size_t i = keys.size(); i-- > 0;) {
    chosen[i] = &(*keys[i].second)[index % keys[i].second->size()];
    index /= keys[i].second->size();
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!chosen[i]->is_null()) config[keys[i].first] = *chosen[i];
  }
  return config;
}

}  // namespace

std::vector<std::string> expand_sweep(std::string_view json_text, std::string_view source_name) {
  Violations violations;
  const Json document = read_json(json_text, violations);
  throw_if_any(source_name, violations);
  const ReadContext root{"", violations};
  const bool shaped = document.is_object() && document.contains("grids") && document["grids"].is_array();
  if (!shaped) root.fail(document, "a sweep is an object with grids, an array");
  const Json base = shaped ? document.value("base", Json::object()) : Json::object();
  check_keys(base, root.at("base"));
  std::size_t total = 0;
  std::vector<std::size_t> sizes;
  if (shaped) {
    for (const auto& [name, value] : document.items()) {
      if (name != "base" && name != "grids" && name != "$schema")
        root.at(name).fail(value, "unknown key of a sweep");
    }
    for (const Json& grid : document["grids"]) {
      sizes.push_back(count(grid, root.at("grids").at(std::to_string(sizes.size()))));
      total += sizes.back();
    }
  }
  if (total > kMaxConfigs) root.fail(total, "a sweep has at most a million configs");
  throw_if_any(source_name, violations);

  std::vector<std::string> out;
  out.reserve(total);
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    for (std::size_t i = 0; i < sizes[g]; ++i)
      out.push_back(combination(base, document["grids"][g], i).dump());
  }
  return out;
}

}  // namespace kiln
