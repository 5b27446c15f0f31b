// The steps between a config and the plan of an sm90_decode kernel: what only they share.
#pragma once

#include "generator/config/unsupported.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"

namespace kiln::sm90 {

/// Long queries of wide rows are packed as those of decode are.
bool is_prefill(const Config& c);
/// The schedule's name: sm90_decode or sm90_wide_prefill.
const char* name_of(const Config& c);
/// What the schedule supports; violations otherwise.
bool check_meaning(const Config& c, Violations& out);

}  // namespace kiln::sm90
