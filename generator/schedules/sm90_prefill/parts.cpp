// The objects of a plan.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {

Part::Part(const Parts& parts) : parts_(parts), p_(parts.plan) {}

Parts::Parts(const PrefillPlan& its_plan)
    : plan(its_plan),
      items(items_of(*this)),
      issuer(issuer_of(*this)),
      copies(copies_of(*this)),
      tiles(tiles_of(*this)),
      scales(scales_of(*this)),
      query(query_of(*this)),
      output(output_of(*this)),
      blocks(blocks_of(*this)),
      registers(registers_of(*this)),
      waits(*this),
      loop_waits(loop_waits_of(*this)) {}

}  // namespace kiln::sm90::prefill
