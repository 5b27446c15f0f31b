// What the prefill schedules of NVIDIA targets compute and what not, said once: anything a schedule does not
// do is refused here, never ignored.
#pragma once

#include <initializer_list>
#include <string_view>

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// Checks the keys that sm80_prefill and sm90_prefill share; `own_keys` are those that only `schedule` takes.
/// False when something was refused.
bool check_prefill_meaning(const Config& config, std::string_view schedule,
                           std::initializer_list<std::string_view> own_keys, Violations& out);

}  // namespace kiln
