// Parts of the text of an sm100_latent_pair kernel.
#pragma once

#include "generator/emit/writer.hpp"
#include "generator/schedules/sm100_latent_pair/plan.hpp"

namespace kiln::sm100 {

/// By all lanes of the copying warp: this block's rows of K of tile `n`, counted by the first block; its columns of V of
/// the tile before.
void emit_copy_k(Writer& w, const PairPlan& p);
void emit_copy_v(Writer& w, const PairPlan& p);

}  // namespace kiln::sm100
