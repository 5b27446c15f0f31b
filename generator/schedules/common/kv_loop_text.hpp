// Text that the KV loops of several schedules have in common.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/systems/mask.hpp"

namespace kiln {

/// A block of code that warps run whose rows see some key of tile `n`, of `BN` keys.
void open_if_visible(Writer& w, const Mask& mask, int BN);
/// `o_acc` starts at zero, eight registers a line.
void emit_clear_output(Writer& w, int registers);

}  // namespace kiln
