// Masks with one length, {"NAME": N}: a row at key position p sees [first(p, N), p]. One file a mask, and one line in
// registry.cpp: the config's reader, writer and schema, names of kernels, emitted code and the float64 reference follow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <kiln/config.hpp>

namespace kiln {

struct SizedMask {
  std::string_view name;  ///< of the config's form
  MaskConfig::Kind kind;
  std::string_view short_name;  ///< in names of kernels, before the length
  /// Emitted int expression of the first key of the row at `position`, 0 or more; it must grow with the position.
  std::string (*emit_first)(const std::string& position, int size);
  /// The same in plain arithmetic, written from the definition: of the reference. May be negative.
  std::int64_t (*first)(std::int64_t position, std::int64_t size);
  /// Keys that `rows` rows in sequence have in common at most.
  int (*most_common)(int rows, int size);
};

/// All of them, in the order of messages.
std::span<const SizedMask> sized_masks();
/// The one of a kind or of a name, or null.
const SizedMask* sized_mask(MaskConfig::Kind kind);
const SizedMask* sized_mask(std::string_view name);

const SizedMask& sliding_window_mask();
const SizedMask& chunked_mask();

}  // namespace kiln
