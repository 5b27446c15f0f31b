// The scales of 8-bit keys and values in sm80_decode, one class for each kind; the plan chooses one (scales_of): none, one
// of a head, or one or several of each key, which come in stages beside those of K and V.
#pragma once

#include <memory>
#include <vector>

#include "generator/schedules/sm80_decode/plan.hpp"

namespace kiln::sm80 {

/// K or V as its copies name it. The scales of V's keys follow those of K's in a stage.
struct CachedTensor {
  const char* name;
  const DecodeStreamingKVBuffer& buffer;
  int scales_at;  ///< bytes in a stage of scales
};

class KeyScales {
 public:
  explicit KeyScales(const DecodePlan& plan) : p_(plan) {}
  virtual ~KeyScales() = default;
  KeyScales(const KeyScales&) = delete;
  KeyScales& operator=(const KeyScales&) = delete;

  virtual void add_params(std::vector<KernelParam>&) const {}
  /// Once a kernel: where this warp's stages are; this lane's column.
  virtual void emit_setup(Writer&) const {}
  virtual void emit_names(Writer&) const {}
  /// Scales of the tile's keys, one row a lane, beside the copies of K or V.
  virtual void emit_copy(Writer&, const CachedTensor&) const {}
  /// Once an item: those of its head.
  virtual void emit_item(Writer&) const {}
  /// Of each tile: where the products find theirs, and scores times the head's.
  virtual void emit_tile(Writer&) const {}
  virtual void emit_scores(Writer&) const {}

 protected:
  const DecodePlan& p_;
};

std::unique_ptr<const KeyScales> scales_of(const DecodePlan& plan);

}  // namespace kiln::sm80
