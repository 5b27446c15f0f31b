// The combinations of a sweep file: {"base": {...}, "grids": [{key: [values...]}]}; null leaves the key out.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kiln::cli {

struct Combination {
  nlohmann::ordered_json config;
  std::vector<std::size_t> choice;  ///< index of each key's value; the first entry is the grid's own number
};

/// Every combination, in the order written. Throws Error (bad_input): malformed file, more than 10^6
/// combinations.
std::vector<Combination> expand_sweep(const std::string& text, const std::string& source_name);

}  // namespace kiln::cli
