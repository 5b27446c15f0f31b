// Names for configs that have none: readable, unique per set of keys, legal as an identifier and as a file
// name.
#include <cstdint>

#include <kiln/config.hpp>

#include "base/ascii.hpp"
#include "generator/config/json_text.hpp"
#include "generator/config/keys.hpp"
#include "generator/masks/sized.hpp"

namespace kiln {
namespace {

constexpr std::size_t kMaxDerived = 100;  ///< longer names are cut and closed with a hash

/// Letters and digits only: "sm_90a" -> "sm90a", "0.5" -> "0p5".
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_ascii_alnum(c)) out += c;
    if (c == '.') out += 'p';
    if (c == '-') out += 'm';
  }
  return out;
}

/// FNV-1a: the name must be the same on every machine and in every version.
std::string hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(hash >> shift) & 15];
  return out;
}

/// The part of the name that a set key contributes, e.g. "BN64", "causal", "window4096".
std::string part_of(const std::string& key, const Json& value, const Config& config) {
  if (key == "ov_depth") return "o" + plain(write_json(value));
  if (key == "kv_dtype") return "kv" + plain(value.get<std::string>());
  if (key == "out_dtype") return "out" + plain(value.get<std::string>());
  if (key == "mask") {
    if (const SizedMask* sized = sized_mask(config.mask->kind))
      return std::string(sized->short_name) + std::to_string(config.mask->size);
    switch (config.mask->kind) {
      case MaskConfig::Kind::none:
        return "";
      case MaskConfig::Kind::window:
        return "window" + hash_of(write_json(value));
      default:
        return value.get<std::string>();
    }
  }
  if (key == "operand") {
    if (value.contains("quantization"))
      return plain(value["kind"].get<std::string>()) + hash_of(write_json(value));
    std::string out = config.operand->kind == OperandKind::contiguous ? "" : value["kind"].get<std::string>();
    if (config.operand->page_size) out += std::to_string(*config.operand->page_size);
    return out;
  }
  if (value == true) return key;
  if (value == false) return "no_" + key;
  if (value.is_string()) return plain(key) + "_" + plain(value.get<std::string>());
  if (value.is_number()) return key + plain(write_json(value));
  return key + hash_of(write_json(value));
}

}  // namespace

std::string config_name(const Config& config) {
  if (config.name) return *config.name;
  std::string out = std::string(to_string(config.operation)) + "_" + plain(to_string(config.dtype)) + "_d" +
                    std::to_string(config.depth);
  const Json document = config_to_dom(config);
  for (const auto& [key, value] : document.items()) {
    const KeySpec* spec = find_key(key);
    if (spec->required || key == "name") continue;
    const std::string part = part_of(key, value, config);
    if (!part.empty()) out += "_" + part;
  }
  const std::string target = "_" + plain(to_string(config.target));
  if (out.size() + target.size() > kMaxDerived) {
    out = out.substr(0, kMaxDerived - target.size() - 9) + "_" + hash_of(write_json(document));
  }
  return out + target;
}

}  // namespace kiln
