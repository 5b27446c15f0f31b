// Makers of key table rows for the common kinds of values. A row states range, documentation and member once.
#pragma once

#include <initializer_list>
#include <limits>
#include <vector>

#include "generator/config/keys.hpp"

namespace kiln::keys {

/// Integers lo..hi that are multiples of `step`.
struct IntRange {
  int lo = 1, hi = 1, step = 1;
};

/// The legal values of `range` on both sides of `value`, or the one that it is nearest to: "16, 32".
std::string nearest_ints(double value, IntRange range);
/// Reads an integer, reporting anything else with the nearest legal one.
std::optional<int> read_int(const Json& value, IntRange range, const ReadContext& context);
std::optional<bool> read_bool(const Json& value, const ReadContext& context);
/// Reads one of `names`; `list` keeps the JSON Schema and the messages in one order. `also`: what else the key takes,
/// read by the caller.
std::optional<std::string_view> read_name(const Json& value, std::span<const std::string_view> names,
                                          const ReadContext& context, std::string_view also = {});
/// Reads a finite number greater than zero that a float holds.
std::optional<double> read_positive(const Json& value, const ReadContext& context);
/// Reports members of `object` that are not in `known`. False when the value is no object at all.
bool check_members(const Json& object, std::span<const std::string_view> known, const ReadContext& context);

Json int_schema(IntRange range);
Json enum_schema(std::span<const std::string_view> names);
Json object_schema(Json properties, const std::vector<std::string>& required = {});

KeySpec int_key(std::string_view name, std::optional<int> Config::*member, IntRange range, TargetSet targets,
                std::string_view doc);
/// Like int_key, and also takes "auto" for "let the planner choose".
KeySpec auto_int_key(std::string_view name, std::optional<int> Config::*member, IntRange range,
                     TargetSet targets, std::string_view doc);
KeySpec bool_key(std::string_view name, std::optional<bool> Config::*member, TargetSet targets,
                 std::string_view doc);
KeySpec name_key(std::string_view name, std::optional<std::string> Config::*member,
                 std::initializer_list<std::string_view> names, TargetSet targets, std::string_view doc);
KeySpec dtype_key(std::string_view name, std::optional<DType> Config::*member,
                  std::initializer_list<DType> types, TargetSet targets, std::string_view doc);
KeySpec swizzle_key(std::string_view name, std::optional<SwizzleKey> Config::*member, TargetSet targets,
                    std::string_view doc);

/// The rows, by topic, in the order of docs/config.md.
std::vector<KeySpec> shape_keys();     ///< what is computed: target, operation, types, depths
std::vector<KeySpec> semantic_keys();  ///< operand, mask, score modifier and other meaning
std::vector<KeySpec> tile_keys();      ///< tiles, threads, swizzles
std::vector<KeySpec> memory_keys();    ///< staging of K and V, pipelines, tensor maps
std::vector<KeySpec> schedule_keys();  ///< schedule and tuning knobs

}  // namespace kiln::keys
