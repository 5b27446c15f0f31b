// Parts of the text of an sm100_decode kernel: functions of a tile, O on its way out.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm100_decode/plan.hpp"

namespace kiln::sm100 {

/// A function for each chunk of K.
void emit_issue_scores(Writer& w, const DecodePlan& p);
/// Half of the rows goes to the lanes beyond in exchange for half of theirs, until one is left.
void emit_over_lanes(Writer& w, const DecodePlan& p);
/// O' times what follows the rows' maxima.
void emit_rescale(Writer& w, const DecodePlan& p);
/// A whole item, divided by the rows' sums, to O. `odd` becomes true where a column of this lane is not finite.
void emit_whole(Writer& w, const DecodePlan& p);
/// O' as it is, to this block's part.
void emit_store_part(Writer& w, const DecodePlan& p);
/// Rows that V of keys has reached which the mask hides from them, once O was stored.
void emit_repair(Writer& w, const DecodePlan& p);

}  // namespace kiln::sm100
