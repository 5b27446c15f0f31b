// Cross products of the grids of a sweep file.
#include "cli/sweep/sweep_grid.hpp"

#include <kiln/error.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/config/report.hpp"
#include "runtime/support/memory.hpp"

namespace kiln::cli {
namespace {

constexpr std::size_t kMaxCombinations = 1000000;

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw Error(ErrorCode::bad_input, source + ": " + what);
}

// A misspelt key would be refused in every combination, and the sweep would be an empty success.
void require_keys(const Json& object, const std::string& source) {
  for (const auto& [key, value] : object.items()) {
    if (find_key(key) != nullptr || key == "$schema") continue;
    std::vector<std::string_view> names;
    for (const KeySpec& known : config_keys()) names.push_back(known.name);
    const std::string_view near = nearest(key, names);
    fail(source, "no config key is called " + value_text(key) +
                     (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
  }
}

void expand_grid(const Json& base, const Json& grid, std::size_t number, const std::string& source,
                 std::vector<Combination>& out) {
  if (!grid.is_object()) fail(source, "each grid is an object of key: [values]");
  require_keys(grid, source);
  std::size_t total = 1;
  for (const auto& [key, values] : grid.items()) {
    if (!values.is_array() || values.empty()) fail(source, "grid key '" + key + "' needs a list of values");
    total *= values.size();
    if (total + out.size() > kMaxCombinations) fail(source, "more than 1000000 combinations");
  }
  // A combination is a JSON object of its own: a tree node and some strings for each key.
  require_memory(total * (512 + 192 * (base.size() + grid.size())),
                 source + ": " + std::to_string(total) + " combinations");
  for (std::size_t index = 0; index < total; ++index) {
    Combination combination{base, {number}};
    std::size_t rest = index;
    for (const auto& [key, values] : grid.items()) {
      const std::size_t pick = rest % values.size();
      rest /= values.size();
      combination.choice.push_back(pick);
      if (!values[pick].is_null()) combination.config[key] = values[pick];
    }
    out.push_back(std::move(combination));
  }
}

}  // namespace

std::vector<Combination> expand_sweep(const std::string& text, const std::string& source_name) {
  Violations violations;
  const Json sweep = read_json(text, violations);
  throw_if_any(source_name, violations);
  if (!sweep.is_object() || !sweep.contains("grids") || !sweep["grids"].is_array() ||
      sweep["grids"].empty()) {
    fail(source_name, "not a sweep: {\"base\": {...}, \"grids\": [{\"key\": [values]}]} is wanted");
  }
  const Json base = sweep.value("base", Json::object());
  if (!base.is_object()) fail(source_name, "\"base\" is an object");
  require_keys(base, source_name);
  for (const auto& [key, value] : sweep.items()) {
    if (key != "base" && key != "grids")
      fail(source_name, value_text(key) + " is neither \"base\" nor \"grids\"");
  }
  std::vector<Combination> combinations;
  for (std::size_t i = 0; i < sweep["grids"].size(); ++i)
    expand_grid(base, sweep["grids"][i], i, source_name, combinations);
  return combinations;
}

}  // namespace kiln::cli
