// The objects of a plan.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {

Part::Part(const Parts& parts) : parts_(parts), p_(parts.plan) {}

Parts::Parts(const PrefillPlan& its_plan)
    : plan(its_plan),
      tiles(tiles_of(*this)),
      blocks(blocks_of(*this)),
      items(items_of(*this)),
      copies(copies_of(*this)),
      elements(elements_of(*this)),
      scales(scales_of(*this)),
      scores(scores_of(*this)),
      pieces(pieces_of(*this)),
      row_end(row_end_of(*this)),
      hidden(hidden_of(*this)) {}

Lines section(const char* name, const Holes& holes) {
  return fill_section("sm100_prefill.cuh", name, holes);
}

}  // namespace kiln::sm100::prefill
