// What `kiln plan` says of the operand whatever the schedule: every kernel reads
// K and V through one.
#pragma once

#include <kiln/config.hpp>
#include <nlohmann/json.hpp>

namespace kiln {

/// `systems` with `mha_operand` first: for K and V the interface constants and the page splitting of a tile
/// of `BN` keys, then what the schedule's own operand derives.
nlohmann::ordered_json with_operand(const Config& resolved, const nlohmann::ordered_json& systems);

}  // namespace kiln
