// The parts of an sm90_prefill kernel body, one file each.
#pragma once

#include <string>

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_prefill_plan.hpp"

namespace kiln::sm90 {

/// Call of the emitted decode_work() for `tile`.
std::string decode_call(const PrefillPlan& p);

/// Body of warpgroup 0: one thread issues every copy.
void emit_producer(Writer& w, const PrefillPlan& p);
/// Body of warpgroups 1..n: 64 query rows each.
void emit_consumer(Writer& w, const PrefillPlan& p);

}  // namespace kiln::sm90
