// The main loops of cdna_decode_streaming and cdna_decode: how a segment's keys and values pass through LDS.
#pragma once

#include <string>

#include "generator/schedules/cdna_decode/plan.hpp"

namespace kiln::cdna {

class DecodeLoop {
 public:
  virtual ~DecodeLoop() = default;
  DecodeLoop(const DecodeLoop&) = delete;
  DecodeLoop& operator=(const DecodeLoop&) = delete;

  virtual void use(Prelude& prelude, const DecodePlan& plan) const = 0;
  /// K and V of a segment, `rows` rows of them.
  virtual void emit_buffers(Writer& w, const DecodePlan& plan, const std::string& rows) const = 0;
  /// All KV tiles of a segment.
  virtual void emit(Writer& w, const DecodePlan& plan) const = 0;
  /// Tiles in the text of the loop body.
  virtual int tiles(const DecodePlan& plan) const = 0;

 protected:
  DecodeLoop() = default;
};

/// Strips, whole tiles in stages, K and V in turn in one stage, or blocks of columns through a ring.
const DecodeLoop& loop_of(const DecodePlan& plan);

}  // namespace kiln::cdna
