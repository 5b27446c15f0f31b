// The key table: the one list of all config keys, from which parsing, writing, the JSON Schema, "which keys
// are set", and applicability per target all follow.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <kiln/config.hpp>

#include "generator/config/report.hpp"

namespace kiln {

/// Where one value is being read, and the list its mistakes go to.
struct ReadContext {
  std::string pointer;
  Violations& out;

  void fail(const Json& value, std::string_view what, std::string suggestion = "") const {
    out.push_back({pointer, value_text(value), "schema: " + std::string(what), std::move(suggestion)});
  }
  /// Reports a member that is not there, at the pointer it would have.
  void missing(std::string_view key, std::string_view what, std::string suggestion = "") const {
    out.push_back({child_pointer(pointer, key), "", "schema: " + std::string(what), std::move(suggestion)});
  }
  ReadContext at(std::string_view key) const { return {child_pointer(pointer, key), out}; }
};

/// Bit set of targets.
using TargetSet = unsigned;
constexpr TargetSet only(Target target) {
  return 1u << static_cast<unsigned>(target);
}
constexpr TargetSet kAmd = only(Target::gfx90a) | only(Target::gfx942) | only(Target::gfx950);
constexpr TargetSet kBlackwell = only(Target::sm_100a) | only(Target::sm_103a);
constexpr TargetSet kTma = only(Target::sm_90a) | kBlackwell;
constexpr TargetSet kNvidia = only(Target::sm_80) | kTma;
constexpr TargetSet kAllTargets = kAmd | kNvidia;

struct KeySpec {
  std::string_view name;
  std::string_view
      doc;  ///< one line, for the JSON Schema and the tests that hold docs/config.md to this table
  TargetSet targets = kAllTargets;
  bool required = false;
  Json schema;  ///< JSON Schema of the value
  /// Reads a value into the config; reports mistakes and leaves the config unchanged on any.
  std::function<void(const Json& value, Config& config, const ReadContext& context)> read;
  /// The value if set.
  std::function<std::optional<Json>(const Config& config)> write;
};

/// Every key in the order they are documented and written.
std::span<const KeySpec> config_keys();
const KeySpec* find_key(std::string_view name);

/// The config as a JSON object of its set keys.
Json config_to_dom(const Config& config);

/// The inverse for a single place: a copy of `config` with the value at `pointer` ("/BK",
/// "/operand/page_size") replaced, or nothing when that value is not legal for its key.
std::optional<Config> with_value(const Config& config, std::string_view pointer, const Json& value);

/// Reads an object into a config. Reports every mistake at its pointer.
Config config_from_dom(const Json& document, Violations& out);

/// True when the user set the value at this pointer.
bool is_set(const Config& config, std::string_view pointer);

/// "gfx90a, gfx942, gfx950"
std::string target_names(TargetSet targets);

}  // namespace kiln
