// Where Q's fragments of sm80_decode are: in every warp's registers, or in shared memory, one copy for all warps.
#pragma once

#include "generator/schedules/sm80_decode/plan.hpp"

namespace kiln::sm80 {

class Query {
 public:
  virtual ~Query() = default;
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  virtual void emit_setup(Writer&, const DecodePlan&) const {}
  virtual void emit_registers(Writer& w, const DecodePlan& plan) const = 0;
  /// Q as A fragments, of the lane's rows that emit_query_rows has named.
  virtual void emit_load(Writer& w, const DecodePlan& plan) const = 0;

 protected:
  Query() = default;
};

const Query& query_of(const DecodePlan& plan);

}  // namespace kiln::sm80
