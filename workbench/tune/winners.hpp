// Where the tuner's winners lie: beside the kernel cache, one ordinary config file for each (config, device,
// problem).
#pragma once

#include <optional>
#include <string>

#include <kiln/config.hpp>
#include <kiln/runtime.hpp>

#include "workbench/problem/workload.hpp"

namespace kiln {

/// The file of the winner, whether it is there or not; empty when this process has no cache directory.
/// "DIR/tuned/NAME-HASH.json", the hash over the config's keys, the device's name and all lengths and heads.
std::string winner_path(const Config& config, const DeviceInfo& device, const ProblemShape& shape);

/// Makes the folder, so that a search need not end with nowhere to go. Throws Error (environment).
void prepare_winners();

/// Stores it, complete or not at all; returns the path. Throws Error: bad_input when it cannot be written,
/// environment as prepare_winners.
std::string store_winner(const Config& config, const DeviceInfo& device, const ProblemShape& shape,
                         const Config& winner);

/// The stored winner. Throws Error (bad_input) when there is none, bad_config when the file is none of ours.
Config load_winner(const Config& config, const DeviceInfo& device, const ProblemShape& shape);

}  // namespace kiln
