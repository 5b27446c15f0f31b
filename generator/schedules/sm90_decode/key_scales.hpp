// The scales of 8-bit keys and values in sm90_decode: none, one of a head, one or several of each key that the lanes of
// the producer copy, or those of a tile by a tensor copy.
#pragma once

#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"

namespace kiln::sm90 {

class KeyScales {
 public:
  explicit KeyScales(const DecodePlan& plan) : p_(plan) {}

  void add_params(std::vector<KernelParam>& params) const;
  void use(Prelude& prelude) const;
  void emit_prefetch_maps(Writer& w) const;
  /// Arrivals that fill a slot: one lane's bytes, and the lanes' own copies of scales.
  int full_arrivals() const { return by_lanes() ? 33 : 1; }

  // The producer, of K (`name` "k") or V.
  /// Scales of the tile's keys, four bytes each: the copies' arrivals count in the slot's full barrier.
  void emit_load(Writer& w, const char* name, const StagedPipeline& ring) const;
  /// The piece of the tile's scales that this lane copies.
  void emit_copy(Writer& w, const char* name, const StagedPipeline& ring) const;
  /// That piece of tile `n` to L2.
  void emit_prefetch(Writer& w, const char* name, const std::string& n, int round) const;

  // The consumer.
  /// Once a kernel: the scale of Q, where all heads have one.
  void emit_query_scale(Writer& w) const;
  /// Once an item: the scales of its head, and the softmax's factor.
  void emit_item(Writer& w) const;
  /// What the factor leaves to Q, of chunk `x`: `bits` are those of the signs.
  void emit_sign(Writer& w, const char* bits) const;
  /// Scales of K's keys, k_scale_<block>_<half>, of the slot in use: of one block of 64 keys, or of all and then a
  /// meeting of the warp's lanes.
  void emit_of_block(Writer& w, int block) const;
  void emit_of_tile(Writer& w) const;
  /// Scores times them, and what rotary columns apart add.
  void emit_scores(Writer& w) const;
  /// Until V's scales are there, where keys have some; and until V is, where that has not said so.
  void emit_wait_values(Writer& w) const;
  void emit_wait_v(Writer& w) const;
  /// Of each tile, before P is scaled.
  void emit_real_keys(Writer& w) const;
  /// P of a block of keys times the scales of V's.
  void emit_probabilities(Writer& w, int block) const;
  /// What O is multiplied by beside `own`, a factor or empty.
  std::string output_factor(const std::string& own) const;
  /// Address of this lane's first scale of a group, of the slot in use, K's (`k`) or V's.
  std::string address(bool k, int group) const;

 private:
  /// Each key has some; the lanes copy them.
  bool by_lanes() const { return p_.scales_by_token() && !p_.scale_tiles(); }
  /// Bytes from the scale of this lane's key to that of its key 64 keys on.
  int block_bytes() const { return p_.scale_tiles() ? p_.operand->scale_byte(64) : 256; }
  /// Of slot 0.
  int at(bool k) const { return p_.smem_scales + (k ? 0 : p_.scale_bytes(true) * p_.num_kv_stages); }
  std::vector<const char*> tensors() const;

  const DecodePlan& p_;
};

}  // namespace kiln::sm90
