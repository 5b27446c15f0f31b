#include "cli/sweep/shrink.hpp"

#include <fmt/format.h>

#include "generator/config/keys.hpp"

namespace kiln::cli {

Json shrunk(Json config, int trials, const std::function<bool(const Json& without)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    std::vector<std::string> keys;
    for (const auto& [name, value] : config.items()) keys.push_back(name);
    for (const std::string& name : keys) {
      const KeySpec* key = find_key(name);
      if (key == nullptr || key->required || trials <= 0) continue;
      Json without = config;
      without.erase(name);
      --trials;
      progress(fmt::format("a failure's keys: {} left out", name));
      if (!fails(without)) continue;
      config = std::move(without);
      smaller = true;
    }
  }
  return config;
}

}  // namespace kiln::cli
