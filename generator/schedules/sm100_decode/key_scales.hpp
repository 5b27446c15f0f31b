// The scales of 8-bit keys and values in sm100_decode, one class for each kind; the plan chooses one (scales_of): none,
// one of a head, one of each key, which come beside the bytes and go on with what they become, or bytes within a row,
// which go into that (block_scales.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/schedules/sm100_decode/plan.hpp"

namespace kiln::sm100 {

/// K or V as it comes in bytes.
struct RawTensor {
  const char* name;
  const StagedPipeline& from;     ///< of bytes
  const StagedPipeline& to;       ///< of 16 bits
  int columns, bytes, scales_at;  ///< of a row; of a tile; scales of slot 0
  std::string rows;               ///< emitted: those that are converted, the others become zeros
  std::string converted_scales;   ///< emitted: where the scales of what was converted go
};

class KeyScales {
 public:
  explicit KeyScales(const DecodePlan& plan) : p_(plan) {}
  virtual ~KeyScales() = default;
  KeyScales(const KeyScales&) = delete;
  KeyScales& operator=(const KeyScales&) = delete;

  virtual void add_params(std::vector<KernelParam>&) const {}
  virtual void use(Prelude&) const;
  /// Section of the template that converts a tile, and what it is given of scales.
  virtual const char* convert_function() const { return "convert"; }
  virtual std::string convert_argument(const RawTensor&) const { return ""; }
  /// What that section leaves open beside what all kernels have.
  virtual void add_texts(Holes&) const {}
  virtual void emit_places(Writer&) const {}
  /// Arrivals that fill a slot: one lane's bytes, and the lanes' own copies of scales.
  virtual int full_arrivals() const { return 1; }
  // Copies: those of a tile's keys. Conversion: state, those of a tile on their way, the next tile.
  virtual void emit_load(Writer&, const RawTensor&) const {}
  /// Into a slot that has no scales.
  virtual void emit_load_none(Writer&, const RawTensor&) const {}
  virtual void emit_turn(Writer&) const {}
  virtual void emit_convert(Writer&, const RawTensor&) const {}
  virtual void emit_next_turn(Writer&) const {}
  // Conversion: scales that its warps load themselves, at the start of an item and of a tile.
  virtual bool read_by_converters() const { return false; }
  virtual void emit_load_first(Writer&) const {}
  virtual void emit_load_ahead(Writer&) const {}
  // Softmax: state, scales of a head; sections of the template for scores times K's and P times V's, empty where there
  // is none; the next tile.
  virtual void emit_state(Writer&) const {}
  virtual void emit_item(Writer&) const {}
  virtual const char* scores() const { return ""; }
  virtual const char* values() const { return ""; }
  virtual void emit_step(Writer&) const {}
  /// What O is multiplied by: before another factor, and alone.
  virtual const char* value_factor() const { return ""; }
  virtual const char* value_scale() const { return "1.0f"; }

 protected:
  const DecodePlan& p_;
};

std::unique_ptr<const KeyScales> block_scales(const DecodePlan& plan);
std::unique_ptr<const KeyScales> scales_of(const DecodePlan& plan);

}  // namespace kiln::sm100
