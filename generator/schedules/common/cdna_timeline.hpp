// Timelines of the prefill schedules of CDNA targets: one SIMD, its matrix unit and the softmax of its waves.
#pragma once

#include "generator/schedules/cdna_prefill/plan.hpp"
#include "generator/schedules/common/timeline.hpp"

namespace kiln::cdna {

/// cdna_prefill: barriers keep the waves of a SIMD in the same part of a tile.
/// cdna_prefill_pingpong: in every slot between two barriers one multiplies and the other has its softmax.
/// Empty for blocks through a ring and for V in K's rows.
Timeline prefill_timeline(const PrefillPlan& plan);

}  // namespace kiln::cdna
