// The scales of 8-bit keys and values in sm80_decode: none, one of a head, or one or several of each key, which come in
// stages beside those of K and V. What a kernel does not have emits nothing.
#pragma once

#include <vector>

#include "generator/schedules/sm80_decode/plan.hpp"

namespace kiln::sm80 {

class KeyScales {
 public:
  explicit KeyScales(const DecodePlan& plan) : p_(plan) {}

  void add_params(std::vector<KernelParam>& params) const;
  /// Once a kernel: where this warp's stages are; this lane's column.
  void emit_setup(Writer& w) const;
  void emit_names(Writer& w) const;
  /// Scales of the tile's keys, one row a lane, beside the copies of K or V.
  void emit_copy(Writer& w, const char* name) const;
  /// Once an item: those of its head.
  void emit_item(Writer& w) const;
  /// Of each tile: where the products find theirs, and scores times the head's.
  void emit_tile(Writer& w) const;
  void emit_scores(Writer& w) const;

 private:
  bool by_key() const { return p_.scale_group > 0; }

  const DecodePlan& p_;
};

}  // namespace kiln::sm80
