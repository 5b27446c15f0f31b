// Sweeps: a file that stands for many configs, every combination of some values.
//
//   {"base": {"operation": "prefill"},
//    "grids": [{"target": ["sm_80"], "depth": [64, 128], "BN": [null, 64]}, ...]}
//
// A config is `base` plus one value per key of one grid; null leaves the key out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The configs of a sweep as JSON texts, grids in order, the last key of a grid varying fastest. They are not
/// checked: a sweep may hold combinations that a rule refuses. Throws Error (bad_config) for a malformed
/// sweep or one of more than a million configs.
std::vector<std::string> expand_sweep(std::string_view json_text, std::string_view source_name);

}  // namespace kiln
