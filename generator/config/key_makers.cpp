#include "generator/config/key_makers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kiln::keys {
namespace {

std::string range_text(IntRange range) {
  std::string text = std::to_string(range.lo) + ".." + std::to_string(range.hi);
  if (range.step > 1) text += ", a multiple of " + std::to_string(range.step);
  return text;
}

/// The one of `names` that `text` means: what other libraries and people call it, else the nearest spelling.
std::string_view meant(std::string_view text, std::span<const std::string_view> names) {
  static constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"half", "fp16"},     {"float16", "fp16"}, {"bfloat16", "bf16"},
      {"float32", "f32"},   {"fp8", "fp8_e4m3"}, {"float8_e4m3fn", "fp8_e4m3"},
      {"ampere", "sm_80"},  {"a100", "sm_80"},   {"hopper", "sm_90a"},
      {"h100", "sm_90a"},   {"h200", "sm_90a"},  {"blackwell", "sm_100a"},
      {"b200", "sm_100a"},  {"b300", "sm_103a"}, {"mi250x", "gfx90a"},
      {"mi300x", "gfx942"}, {"mi355x", "gfx950"}};
  for (const auto& [theirs, ours] : kElsewhere) {
    if (theirs == text && std::find(names.begin(), names.end(), ours) != names.end()) return ours;
  }
  return nearest(text, names);
}

bool is_auto(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>() == "auto";
}

constexpr std::string_view kSwizzleModes[] = {"none", "32B", "64B", "128B"};

std::optional<SwizzleKey> read_xor_swizzle(const Json& value, const ReadContext& context) {
  static constexpr std::string_view known[] = {"bits", "base", "shift", "domain"};
  static constexpr std::string_view domains[] = {"vector", "element"};
  if (!check_members(value, known, context)) return std::nullopt;
  XorSwizzle swizzle;
  bool good = true;
  const auto field = [&](const char* name, int& target, IntRange range) {
    if (!value.contains(name)) {
      context.missing(name, std::string("a swizzle needs ") + name);
      good = false;
      return;
    }
    const std::optional<int> read = read_int(value[name], range, context.at(name));
    if (read) target = *read;
    good = good && read.has_value();
  };
  // Wide enough for every legal swizzle; V11 says which combinations are.
  field("bits", swizzle.bits, {1, 8});
  field("base", swizzle.base, {0, 12});
  field("shift", swizzle.shift, {1, 12});
  if (value.contains("domain")) {
    const auto domain = read_name(value["domain"], domains, context.at("domain"));
    swizzle.element_domain = domain == "element";
    good = good && domain.has_value();
  }
  if (!good) return std::nullopt;
  return swizzle;
}

Json swizzle_json(const SwizzleKey& key) {
  if (const auto* mode = std::get_if<SwizzleMode>(&key))
    return kSwizzleModes[static_cast<std::size_t>(*mode)];
  const XorSwizzle& s = std::get<XorSwizzle>(key);
  return {{"bits", s.bits},
          {"base", s.base},
          {"shift", s.shift},
          {"domain", s.element_domain ? "element" : "vector"}};
}

}  // namespace

std::string nearest_ints(double value, IntRange range) {
  const double lo = range.lo, hi = range.hi, step = range.step;
  const double down =
      std::clamp(std::floor(value / step) * step, std::ceil(lo / step) * step, std::floor(hi / step) * step);
  const double up =
      std::clamp(std::ceil(value / step) * step, std::ceil(lo / step) * step, std::floor(hi / step) * step);
  std::string text = std::to_string(static_cast<int>(down));
  if (up != down) text += ", " + std::to_string(static_cast<int>(up));
  return text;
}

std::optional<int> read_int(const Json& value, IntRange range, const ReadContext& context) {
  if (!value.is_number()) {
    context.fail(value, "wants an integer, " + range_text(range));
    return std::nullopt;
  }
  const double number = value.get<double>();
  const bool whole = value.is_number_integer() || std::floor(number) == number;
  if (!whole || number < range.lo || number > range.hi || std::fmod(number, range.step) != 0) {
    context.fail(value, "wants an integer, " + range_text(range), nearest_ints(number, range));
    return std::nullopt;
  }
  return static_cast<int>(number);
}

std::optional<bool> read_bool(const Json& value, const ReadContext& context) {
  if (value.is_boolean()) return value.get<bool>();
  context.fail(value, "wants true or false");
  return std::nullopt;
}

std::optional<std::string_view> read_name(const Json& value, std::span<const std::string_view> names,
                                          const ReadContext& context, std::string_view also) {
  const std::string all = join(names) + (also.empty() ? "" : " or ") + std::string(also);
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) return *found;
    const std::string_view close = meant(text, names);
    context.fail(value, "wants one of " + all, close.empty() ? all : std::string(close));
  } else {
    context.fail(value, "wants one of the names " + all);
  }
  return std::nullopt;
}

std::optional<double> read_positive(const Json& value, const ReadContext& context) {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number >= static_cast<double>(std::numeric_limits<float>::min()) &&
        number <= static_cast<double>(std::numeric_limits<float>::max())) {
      return number;
    }
  }
  context.fail(value, "wants a number greater than 0 that fits 32-bit floating point");
  return std::nullopt;
}

bool check_members(const Json& object, std::span<const std::string_view> known, const ReadContext& context) {
  if (!object.is_object()) {
    context.fail(object, "wants an object with " + join(known));
    return false;
  }
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string_view close = nearest(name, known);
    context.at(name).fail(value, "unknown key, this object takes " + join(known), std::string(close));
  }
  return true;
}

Json int_schema(IntRange range) {
  Json schema{{"type", "integer"}, {"minimum", range.lo}, {"maximum", range.hi}};
  if (range.step > 1) schema["multipleOf"] = range.step;
  return schema;
}

Json enum_schema(std::span<const std::string_view> names) {
  Json list = Json::array();
  for (const std::string_view name : names) list.push_back(name);
  return {{"enum", list}};
}

Json object_schema(Json properties, const std::vector<std::string>& required) {
  Json schema{{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

KeySpec int_key(std::string_view name, std::optional<int> Config::*member, IntRange range, TargetSet targets,
                std::string_view doc) {
  return {name,
          doc,
          targets,
          false,
          int_schema(range),
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_int(value, range, context)) config.*member = *read;
          },
          [=](const Config& config) -> std::optional<Json> {
            if (config.*member) return Json(*(config.*member));
            return std::nullopt;
          }};
}

KeySpec auto_int_key(std::string_view name, std::optional<int> Config::*member, IntRange range,
                     TargetSet targets, std::string_view doc) {
  KeySpec key = int_key(name, member, range, targets, doc);
  key.schema = {{"anyOf", Json::array({Json{{"const", "auto"}}, int_schema(range)})}};
  key.read = [=, read_number = key.read](const Json& value, Config& config, const ReadContext& context) {
    if (is_auto(value)) {
      config.*member = std::nullopt;
    } else if (value.is_string()) {
      context.fail(value, "wants \"auto\" or an integer, " + range_text(range), "auto");
    } else {
      read_number(value, config, context);
    }
  };
  return key;
}

KeySpec bool_key(std::string_view name, std::optional<bool> Config::*member, TargetSet targets,
                 std::string_view doc) {
  return {name,
          doc,
          targets,
          false,
          {{"type", "boolean"}},
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_bool(value, context)) config.*member = *read;
          },
          [=](const Config& config) -> std::optional<Json> {
            if (config.*member) return Json(*(config.*member));
            return std::nullopt;
          }};
}

KeySpec name_key(std::string_view name, std::optional<std::string> Config::*member,
                 std::initializer_list<std::string_view> names, TargetSet targets, std::string_view doc) {
  const std::vector<std::string_view> list(names);
  return {name,
          doc,
          targets,
          false,
          enum_schema(list),
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_name(value, list, context)) config.*member = std::string(*read);
          },
          [=](const Config& config) -> std::optional<Json> {
            if (config.*member) return Json(*(config.*member));
            return std::nullopt;
          }};
}

KeySpec dtype_key(std::string_view name, std::optional<DType> Config::*member,
                  std::initializer_list<DType> types, TargetSet targets, std::string_view doc) {
  std::vector<std::string_view> list;
  for (const DType type : types) list.push_back(to_string(type));
  return {name,
          doc,
          targets,
          false,
          enum_schema(list),
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_name(value, list, context)) config.*member = *dtype_from(*read);
          },
          [=](const Config& config) -> std::optional<Json> {
            if (config.*member) return Json(to_string(*(config.*member)));
            return std::nullopt;
          }};
}

KeySpec swizzle_key(std::string_view name, std::optional<SwizzleKey> Config::*member, TargetSet targets,
                    std::string_view doc) {
  const Json object = object_schema({{"bits", int_schema({1, 8})},
                                     {"base", int_schema({0, 12})},
                                     {"shift", int_schema({1, 12})},
                                     {"domain", {{"enum", {"vector", "element"}}}}},
                                    {"bits", "base", "shift"});
  const Json names{{"enum", {"auto", "none", "32B", "64B", "128B", nullptr}}};
  return {name,
          doc,
          targets,
          false,
          {{"anyOf", Json::array({names, object})}},
          [=](const Json& value, Config& config, const ReadContext& context) {
            static constexpr std::string_view list[] = {"auto", "none", "32B", "64B", "128B"};
            if (value.is_null()) {
              config.*member = SwizzleMode::none;
            } else if (value.is_object()) {
              if (const auto read = read_xor_swizzle(value, context)) config.*member = *read;
            } else if (const auto read = read_name(value, list, context)) {
              const auto mode = std::find(std::begin(kSwizzleModes), std::end(kSwizzleModes), *read);
              if (*read == "auto") {
                config.*member = std::nullopt;
              } else {
                config.*member = static_cast<SwizzleMode>(mode - std::begin(kSwizzleModes));
              }
            }
          },
          [=](const Config& config) -> std::optional<Json> {
            if (config.*member) return swizzle_json(*(config.*member));
            return std::nullopt;
          }};
}

}  // namespace kiln::keys
