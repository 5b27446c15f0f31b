#include "generator/config/keys.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "generator/config/key_makers.hpp"

namespace kiln {
namespace {

std::vector<KeySpec> all_keys() {
  std::vector<KeySpec> out = keys::shape_keys();
  for (auto* part : {keys::semantic_keys, keys::tile_keys, keys::memory_keys, keys::schedule_keys}) {
    std::vector<KeySpec> rows = part();
    std::move(rows.begin(), rows.end(), std::back_inserter(out));
  }
  return out;
}

std::vector<std::string_view> key_names() {
  std::vector<std::string_view> names;
  for (const KeySpec& key : config_keys()) names.push_back(key.name);
  return names;
}

/// kiln's key for a name that other libraries have; nothing for names nobody has.
std::string_view name_elsewhere(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"head_dim", "depth"},
      {"headdim", "depth"},
      {"head_size", "depth"},
      {"head_dim_v", "ov_depth"},
      {"v_head_dim", "ov_depth"},
      {"num_heads", "num_q_heads"},
      {"num_attention_heads", "num_q_heads"},
      {"heads_q", "num_q_heads"},
      {"num_key_value_heads", "kv_num_heads"},
      {"num_kv_heads", "kv_num_heads"},
      {"heads_kv", "kv_num_heads"},
      {"gqa_ratio", "group"},
      {"block_m", "BM"},
      {"block_n", "BN"},
      {"block_k", "BK"},
      {"arch", "target"},
      {"softmax_scale", "scale"},
      {"sm_scale", "scale"},
      {"kv_cache_dtype", "kv_dtype"},
      {"causal", "mask: \"causal\""},
      {"is_causal", "mask: \"causal\""},
      {"window", "mask: {\"sliding_window\": N}"},
      {"window_size", "mask: {\"sliding_window\": N}"},
      {"sliding_window", "mask: {\"sliding_window\": N}"},
      {"attention_chunk", "mask: {\"chunked\": N}"},
      {"alibi", "score_mod: \"alibi\""},
      {"alibi_slopes", "score_mod: \"alibi\""},
      {"softcap", "score_mod: {\"softcap\": X}"},
      {"logits_soft_cap", "score_mod: {\"softcap\": X}"},
      {"page_size", "operand: {\"kind\": \"paged\", \"page_size\": N}"},
      {"block_size", "operand: {\"kind\": \"paged\", \"page_size\": N}"},
      {"page_block_size", "operand: {\"kind\": \"paged\", \"page_size\": N}"},
      {"return_lse", "lse"},
      {"num_splits", "split_kv"},
      {"num_stages", "num_kv_stages"}};
  for (const auto& [theirs, ours] : kNames) {
    if (theirs == name) return ours;
  }
  return {};
}

/// "/operand/page_size" -> "operand"
std::string_view top_key(std::string_view pointer) {
  if (!pointer.empty()) pointer.remove_prefix(1);
  return pointer.substr(0, pointer.find('/'));
}

}  // namespace

std::span<const KeySpec> config_keys() {
  static const std::vector<KeySpec> table = all_keys();
  return table;
}

const KeySpec* find_key(std::string_view name) {
  static const std::map<std::string_view, const KeySpec*> index = [] {
    std::map<std::string_view, const KeySpec*> out;
    for (const KeySpec& key : config_keys()) out.emplace(key.name, &key);
    return out;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

Json config_to_dom(const Config& config) {
  Json out = Json::object();
  for (const KeySpec& key : config_keys()) {
    if (std::optional<Json> value = key.write(config)) out[std::string(key.name)] = std::move(*value);
  }
  return out;
}

Config config_from_dom(const Json& document, Violations& out) {
  Config config;
  std::vector<const KeySpec*> unset;
  if (!document.is_object()) {
    out.push_back({"", value_text(document), "schema: a config is one JSON object", ""});
    return config;
  }
  for (const auto& [name, value] : document.items()) {
    const ReadContext context{child_pointer("", name), out};
    if (const KeySpec* key = find_key(name)) {
      const auto before = out.size();
      key->read(value, config, context);
      // "auto" and null leave a key unset, where the check of keys that were set cannot see it.
      if (out.size() == before && !key->write(config)) unset.push_back(key);
    } else if (name == "$schema") {
      if (!value.is_string()) context.fail(value, "wants the address of the JSON Schema");
    } else {
      const std::string_view known = name_elsewhere(name);
      context.fail(value, "unknown key", std::string(known.empty() ? nearest(name, key_names()) : known));
    }
  }
  const bool target_read = document.contains("target") && document["target"] == to_string(config.target);
  for (const KeySpec* key : unset) {
    // As check_rules says it of keys that are set.
    if (target_read && (key->targets & only(config.target)) == 0)
      ReadContext{child_pointer("", key->name), out}.fail(
          document[key->name], "this key belongs to " + target_names(key->targets) + ", not to " +
                                   std::string(to_string(config.target)));
  }
  for (const KeySpec& key : config_keys()) {
    if (!key.required || document.contains(key.name)) continue;
    std::string legal;
    if (key.schema.contains("enum")) {
      for (const Json& value : key.schema["enum"])
        legal += (legal.empty() ? "" : ", ") + value.get<std::string>();
    }
    ReadContext{"", out}.missing(key.name, "required key: " + std::string(key.doc), legal);
  }
  return config;
}

std::optional<Config> with_value(const Config& config, std::string_view pointer, const Json& value) {
  const KeySpec* key = find_key(top_key(pointer));
  if (key == nullptr) return std::nullopt;
  const std::string prefix = "/" + std::string(key->name);
  Json document = value;
  if (pointer.size() > prefix.size()) {
    document = key->write(config).value_or(Json::object());
    if (!document.is_object()) return std::nullopt;
    document[Json::json_pointer(std::string(pointer.substr(prefix.size())))] = value;
  }
  Violations mistakes;
  Config out = config;
  key->read(document, out, {prefix, mistakes});
  if (!mistakes.empty()) return std::nullopt;
  return out;
}

bool is_set(const Config& config, std::string_view pointer) {
  const KeySpec* key = find_key(top_key(pointer));
  if (key == nullptr) return false;
  const std::optional<Json> value = key->write(config);
  if (!value) return false;
  const std::string_view rest = pointer.substr(key->name.size() + 1);
  return rest.empty() || value->contains(Json::json_pointer(std::string(rest)));
}

std::string target_names(TargetSet targets) {
  std::string out;
  for (const Target target : kTargetList) {
    if ((targets & only(target)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += to_string(target);
  }
  return out;
}

}  // namespace kiln
