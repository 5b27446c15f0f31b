// The kernels next to a config: what a tuner may try. Keys that say how a kernel works, never what it
// computes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <kiln/generator.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

/// Keys a tuner may set, those that change most first.
std::span<const std::string_view> tunable_keys();

struct Neighbour {
  nlohmann::ordered_json value;  ///< of the key
  Config config;
  Plan plan;
};

/// `config` with every value worth trying of a tunable key, where that plans. The key need not be unset.
std::vector<Neighbour> neighbours(const Config& config, std::string_view key);

}  // namespace kiln
