// The scales of 8-bit keys and values in sm90_decode, one class for each kind; the plan's config chooses one (scales_of).
//
//   KeyScales         none
//     HeadScales      one of a head: scores are multiplied by it
//       FactorScales  where nothing stands between products and exponent: the factor holds it, Q its sign
//     TokenScales     one or several of each key, which the lanes of the producer copy
//       TileScales    the same by a tensor copy
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"

namespace kiln::sm90 {

struct Tensor;
class ValueSlots;

class KeyScales {
 public:
  KeyScales(const DecodePlan& plan, const ValueSlots& values) : p_(plan), values_(values) {}
  virtual ~KeyScales() = default;
  KeyScales(const KeyScales&) = delete;
  KeyScales& operator=(const KeyScales&) = delete;

  virtual void add_params(std::vector<KernelParam>&) const {}
  virtual void use(Prelude&) const {}
  virtual void emit_prefetch_maps(Writer&) const {}
  /// Arrivals that fill a slot: one lane's bytes, and the lanes' own copies of scales.
  virtual int full_arrivals() const { return 1; }

  // The producer.
  /// Scales of the tile's keys, four bytes each: the copies' arrivals count in the slot's full barrier.
  virtual void emit_load(Writer&, const Tensor&) const {}
  /// The piece of the tile's scales that this lane copies.
  virtual void emit_copy(Writer&, const Tensor&) const {}
  /// That piece of tile `n` to L2.
  virtual void emit_prefetch(Writer&, const Tensor&, const std::string& /*n*/, int /*round*/) const {}

  // The consumer.
  /// Once a kernel: the scale of Q, where all heads have one.
  virtual void emit_query_scale(Writer&) const {}
  /// Once an item: the scales of its head, and the softmax's factor.
  virtual void emit_item(Writer&) const {}
  /// What the factor leaves to Q, of chunk `x`: `bits` are those of the signs.
  virtual void emit_sign(Writer&, const char* /*bits*/) const {}
  /// Scales of K's keys, k_scale_<block>_<half>, of the slot in use: of one block of 64 keys, or of all and then a
  /// meeting of the warp's lanes.
  virtual void emit_of_block(Writer&, int /*block*/) const {}
  virtual void emit_of_tile(Writer&) const {}
  /// Scores times them; and plus what rotary columns apart add.
  virtual void emit_scores(Writer&) const {}
  virtual void emit_scores_with_rotary(Writer& w) const;
  /// Until V's scales are there, where keys have some; and until V is, where that has not said so.
  virtual void emit_wait_values(Writer&) const {}
  virtual void emit_wait_v(Writer& w) const;
  /// Of each tile, before P is scaled.
  virtual void emit_real_keys(Writer&) const {}
  /// P of a block of keys times the scales of V's.
  virtual void emit_probabilities(Writer&, int /*block*/) const {}
  /// What O is multiplied by beside `own`, a factor or empty.
  virtual std::string output_factor(const std::string& own) const { return own.empty() ? "1.0f" : own; }
  /// Address of this lane's first scale of a group, of the slot in use, K's (`k`) or V's.
  virtual std::string address(bool /*k*/, int /*group*/) const { return ""; }

 protected:
  /// Q's, where Q is FP8.
  void add_query(std::vector<KernelParam>& params) const;
  std::vector<const char*> tensors() const;

  const DecodePlan& p_;
  const ValueSlots& values_;
};

std::unique_ptr<const KeyScales> scales_of(const DecodePlan& plan, const ValueSlots& values);

}  // namespace kiln::sm90
