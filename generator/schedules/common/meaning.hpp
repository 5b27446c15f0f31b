// What schedules compute and what not: anything a schedule does not do is refused, never ignored. The lines
// that several schedules share are methods here; a schedule that learns to do more leaves that call out.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "generator/schedules/schedule.hpp"

namespace kiln {

/// Scales that a schedule takes: f32, or also those of a byte within a row.
enum class ScaleTypes { f32, bytes };

class MeaningCheck {
 public:
  /// `user` is what messages quote, `filled` the same config with its defaults. All three outlive the check.
  MeaningCheck(const Config& user, const Config& filled, std::string_view schedule, Violations& out);

  /// Refuses every set key but those that all schedules take (types, shapes, operand, mask, tiles) and
  /// `own_keys`, and scales of other types than `scales`.
  void keys(std::initializer_list<std::string_view> own_keys, ScaleTypes scales = ScaleTypes::f32) const;
  /// Refuses the value at `pointer` unless it `fits`: "SCHEDULE WHAT", with `legal` as the way out.
  void takes(bool fits, std::string_view pointer, std::string_view what, const std::string& legal) const;

  /// Q and O are bf16 or fp16.
  void takes_16_bit() const;
  /// Q, K and V are bf16, fp16, or FP8 with a scale for a tensor or a head, or K and V are FP8 or int8 under
  /// a 16-bit Q with any scales; O is bf16 or fp16.
  void takes_16_bit_or_bytes() const;
  /// K and V are of Q's type, or fp8_e4m3 or int8, which may have scales.
  void takes_kv_of_dtype_or_bytes() const;
  /// Q being FP8, K and V are, too, with scales of a tensor or a head; O is bf16 or fp16.
  void takes_fp8() const;
  /// Rows of Q are `depth` columns, and what is read of those of K and V too, all of them multiplied, V in
  /// its own tensor: no rope columns, no latent cache.
  void takes_plain_rows() const;
  void takes_own_v() const;
  /// Rows of Q are `depth` columns, and what is read of K's too, rope columns among them; V may lie in K's.
  void takes_rows_of_depth() const;
  void takes_ov_depth_of_depth() const;
  /// Rotary columns of K in a tensor of their own are of Q's type, as the others are, in whole strips of BK.
  void takes_rope_tensor_of_strips() const;
  /// The same in multiples of `unit` columns, which are called `units`; `beside_bytes`: the others may be of 8 bits.
  void takes_rope_tensor(int unit, const std::string& units, bool beside_bytes = false) const;
  /// Rotary columns that lie apart are multiplied as they are stored, in whole swizzle spans: a tail behind bytes where
  /// `beside_bytes`, or a tensor of their own. V ends before them.
  void takes_rope_of_spans(bool beside_bytes) const;
  /// With full_kv false: blocks of one strip, in a ring of their own and no stages of whole tiles.
  void takes_ring_of_strips() const;
  /// Scales of a tensor, a head or a key; one of n elements where that is the whole row, or of a byte.
  void takes_one_scale_a_row() const;
  /// One pass over the keys, one query head a row.
  void takes_whole_prefill() const;
  /// Tiles of as many rows, whatever `queries` says.
  void takes_any_queries() const;
  void takes_positive_scale() const;

  /// Nothing was refused since the check was made.
  bool passed() const { return out_.size() == before_; }

 private:
  const Config &user_, &filled_;
  std::string_view schedule_;
  Violations& out_;
  std::size_t before_;
};

/// What of 8 bits a prefill schedule takes, beside K and V of bytes with a scale for a tensor, a head or a
/// key.
enum class PrefillBytes {
  fp8,                   ///< Q, K and V of FP8, with a scale for a tensor or a head
  scales_in_rows,        ///< a scale for n elements
  fp8_or_scales_in_rows  ///< either: scales for n elements where Q is wider
};

/// Checks the keys that sm80_prefill and sm90_prefill share; `own_keys` are those that only `schedule` takes.
/// False when something was refused.
bool check_prefill_meaning(const Config& config, std::string_view schedule,
                           std::initializer_list<std::string_view> own_keys, PrefillBytes bytes,
                           Violations& out);

}  // namespace kiln
