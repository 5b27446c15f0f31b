// Which schedule plans a config.
#pragma once

#include <span>

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// The schedule named by `schedule`, or the first one of the config's target and operation. nullptr with a
/// violation that names what exists when there is none.
const ScheduleEntry* choose_schedule(const Config& config, std::span<const ScheduleEntry> entries,
                                     Violations& out);

}  // namespace kiln
