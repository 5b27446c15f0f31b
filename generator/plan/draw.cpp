#include "generator/plan/draw.hpp"

#include <algorithm>
#include <array>

#include <kiln/source.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/unsupported.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln {
namespace {

/// Integers at which kernels change: small ones, powers of two, their neighbours and multiples, odd depths.
constexpr std::array kIntegers{0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   12,  16,  17,
                               24,  31,  32,  33,  40,  48,  56,  63,  64,  65,  72,  80,  96,
                               100, 112, 127, 128, 129, 144, 160, 176, 192, 208, 224, 240, 255,
                               256, 257, 272, 288, 320, 384, 448, 512, 576, 640, 768, 1024};
/// A problem has as many heads as its config says, of which more add nothing but time and memory: 384 KV heads took
/// gigabytes and minutes.
constexpr int kMostHeads = 64;
constexpr std::array kNumbers{0.0, 0.0625, 0.125, 0.25, 0.3, 0.5, 0.75, 1.0, 5.0, 15.0, 30.0, 50.0, 1000.0};
constexpr std::array<const char*, 9> kExpressions{
    "score",
    "score * 0.5",
    "score + 0.01 * (k - q)",
    "where(k > q + seqlen_k - seqlen_q, -inf, score)",
    "min(score, 2.0)",
    "tanh(score)",
    "score - 0.125 * h",
    "where((k + q) % 3 == 1, -inf, score)",
    "score + exp2(0.0 - abs(k - q)) + b",
};
constexpr std::array<const char*, 3> kCaptured{
    R"x({"expr": "score + bias[h, q, k]", "tensors": {"bias": "bf16"}})x",
    R"x({"expr": "where(of[b, q] == of[b, k] || k == 0, score, -inf)", "tensors": {"of": "i32"}})x",
    R"x({"expr": "score * (1 + 0.5 * at[h, (k - q) % 8]) + slope[h]", "tensors": {"at": "fp16", "slope": "f32"}})x",
};
constexpr std::array<std::array<int, 3>, 8> kShapes{{{16, 16, 16},
                                                     {16, 16, 32},
                                                     {32, 32, 8},
                                                     {32, 32, 16},
                                                     {16, 16, 128},
                                                     {32, 32, 64},
                                                     {16, 8, 16},
                                                     {64, 128, 16}}};

/// Defaults that plans leave out of what they resolve (docs/config.md), by operation where that decides.
bool is_written_out_default(const Json& config, const std::string& name, const Json& resolved) {
  const Json& value = config[name];
  const bool prefill = config["operation"] == "prefill";
  if (is_neutral(name, value, config["depth"].get<int>())) return true;
  if (name == "pv_operand") return value == "registers";
  if (name == "v_layout") return value == "flat";
  if (name == "split_kv" || name == "group" || name == "queries") return prefill && value == 1;
  if (name == "operand") return value == Json{{"page_size", 0}};
  if (name == "reg_chunk_keys") return resolved.contains("WN") && value >= resolved["WN"];
  return name == "swizzle" && resolved.contains("swizzle_k");  // the same value for each of two keys
}

/// A swizzle by its name is the object of that name.
Json spelled_out(const Json& value) {
  constexpr std::array<std::string_view, 3> kNames{"32B", "64B", "128B"};
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (value == kNames[i]) return {{"bits", i + 1}, {"base", 0}, {"shift", 3}, {"domain", "vector"}};
  return value;
}

/// What a config says of its rows and heads, from which a kernel that is right for all of them need not
/// differ.
bool is_statement(std::string_view name) {
  return name == "group" || name == "queries" || name == "rope_depth" || name == "nope_depth";
}

/// Lists, true and false: the values of a schema that can all be named.
void named_values(const Json& schema, const std::string& pointer,
                  std::vector<std::pair<std::string, std::string>>& out) {
  if (schema.contains("enum")) {
    for (const Json& value : schema["enum"]) out.emplace_back(pointer, value_text(value));
  } else if (schema.contains("const")) {
    out.emplace_back(pointer, value_text(schema["const"]));
  } else if (schema.value("type", "") == "boolean") {
    out.emplace_back(pointer, "true"), out.emplace_back(pointer, "false");
  } else if (schema.contains("anyOf")) {
    for (const Json& part : schema["anyOf"]) named_values(part, pointer, out);
  } else if (schema.contains("properties")) {
    for (const auto& [name, part] : schema["properties"].items()) {
      const std::string member = child_pointer(pointer, name);
      const auto before = out.size();
      named_values(part, member, out);
      if (out.size() == before) out.emplace_back(member, "");
    }
  }
}

void add_values(const Json& value, const std::string& pointer,
                std::map<std::string, std::map<std::string, std::size_t>>& seen) {
  if (value.is_object()) {
    ++seen[pointer]["(object)"];
    for (const auto& [name, member] : value.items()) add_values(member, child_pointer(pointer, name), seen);
  } else {
    ++seen[pointer][value_text(value)];
  }
}

}  // namespace

void KeyCoverage::add(const Json& config) {
  for (const auto& [name, value] : config.items()) add_values(value, child_pointer("", name), seen_);
}

Json KeyCoverage::covered() const {
  Json out = Json::object();
  for (const auto& [pointer, values] : seen_) {
    for (const auto& [value, times] : values) out[pointer][value] = times;
  }
  return out;
}

Json KeyCoverage::never(TargetSet targets) const {
  Json out = Json::object();
  for (const KeySpec& key : config_keys()) {
    if ((key.targets & targets) == 0) continue;
    const std::string pointer = child_pointer("", key.name);
    if (!seen_.contains(pointer)) {
      out[pointer] = "never set";
      continue;
    }
    std::vector<std::pair<std::string, std::string>> named;
    named_values(key.schema, pointer, named);
    for (const auto& [at, value] : named) {
      const auto values = seen_.find(at);
      const bool met = values != seen_.end() && (value.empty() || values->second.contains(value));
      if (!met) out[at].push_back(value.empty() ? Json("never set") : json_of(value));
    }
  }
  return out;
}

std::string kernel_of(const Plan& plan) {
  const KernelSource source = generate(plan);
  const auto head = source.text.find("\n\n");
  Json manifest = json_of(to_json(source.manifest));
  manifest.erase("config");
  manifest.erase("name");
  return source.text.substr(head == std::string::npos ? 0 : head) + write_json(manifest);
}

namespace {

Plan plan_of(Json document) {
  document["name"] = "drawn";
  return make_plan(parse_config(write_json(document), "drawn"));
}

/// A config with its plan and kernel, to compare with the same without one key.
struct Whole {
  explicit Whole(const Json& document)
      : config(document),
        plan(plan_of(document)),
        kernel(kernel_of(plan)),
        resolved(config_to_dom(plan.resolved())) {}

  bool is_idle(const std::string& name) const {
    const KeySpec* key = find_key(name);
    if (key == nullptr || key->required || name == "name" || is_statement(name)) return false;
    if (is_written_out_default(config, name, resolved)) return false;
    Json without = config;
    without.erase(name);
    if (!plans(without)) return false;
    const Plan other = plan_of(without);
    const Json defaults = config_to_dom(other.resolved());
    const bool same_value =
        resolved.contains(name) == defaults.contains(name) &&
        (!resolved.contains(name) || spelled_out(resolved[name]) == spelled_out(defaults[name]));
    return !same_value && kernel_of(other) == kernel;
  }

  const Json& config;
  Plan plan;
  std::string kernel;
  Json resolved;
};

}  // namespace

std::vector<std::string> idle_keys(const Json& config) {
  const Whole whole(config);
  std::vector<std::string> out;
  for (const auto& [name, value] : config.items())
    if (whole.is_idle(name)) out.push_back(name);
  return out;
}

bool is_idle_key(const Json& config, const std::string& name) {
  return Whole(config).is_idle(name);
}

bool plans(const Json& config) {
  try {
    make_plan(parse_config(write_json(config), "drawn"));
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_config) return false;
    throw;
  }
}

ConfigDraw::ConfigDraw(std::uint64_t seed, std::vector<Target> targets, std::vector<Json> starts)
    : random_(seed), targets_(std::move(targets)), starts_(std::move(starts)) {
  std::erase_if(starts_, [&](const Json& config) {
    const auto target = target_from(config.value("target", ""));
    return !target || std::find(targets_.begin(), targets_.end(), *target) == targets_.end();
  });
}

Json ConfigDraw::consistent(Json members) {
  // A length of pages says that there are some; tensors are those of their expression.
  if (members.contains("page_size")) members["kind"] = "paged";
  if (members.contains("tensors")) return json_of(kCaptured[below(kCaptured.size())]);
  return members;
}

Json ConfigDraw::drawn_schedule(Target target) {
  std::vector<std::string_view> names;
  for (const ScheduleEntry& entry : schedules()) {
    if (entry.target == target) names.push_back(entry.name);
  }
  return names.empty() ? Json("auto") : Json(names[below(names.size())]);
}

Json ConfigDraw::drawn_integer(const Json& schema) {
  std::vector<int> fitting;
  const int step = schema.value("multipleOf", 1);
  for (const int value : kIntegers) {
    if (value >= schema["minimum"] && value <= schema["maximum"] && value % step == 0)
      fitting.push_back(value);
  }
  return fitting[below(fitting.size())];
}

Json ConfigDraw::drawn_number(const Json& schema) {
  std::vector<double> fitting;
  for (const double value : kNumbers) {
    const bool above = !schema.contains("exclusiveMinimum") || value > schema["exclusiveMinimum"];
    if (above && value >= schema.value("minimum", 0.0) && value <= schema.value("maximum", 1e9))
      fitting.push_back(value);
  }
  return fitting[below(fitting.size())];
}

Json ConfigDraw::drawn_object(const Json& schema, Target target) {
  Json out = Json::object();
  const Json required = schema.value("required", Json::array()),
             properties = schema.value("properties", Json::object());
  for (const auto& [name, part] : properties.items()) {
    const bool needed = std::find(required.begin(), required.end(), name) != required.end();
    if (needed || one_in(2)) out[name] = drawn(part, name, target);
  }
  return consistent(std::move(out));
}

Json ConfigDraw::drawn(const Json& schema, std::string_view key, Target target) {
  if (key == "schedule") return drawn_schedule(target);
  if (key == "mma_shape") return kShapes[below(kShapes.size())];
  if (key == "expr") return kExpressions[below(kExpressions.size())];
  if (schema.contains("enum")) return schema["enum"][below(schema["enum"].size())];
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("anyOf")) return drawn(schema["anyOf"][below(schema["anyOf"].size())], key, target);
  const std::string type = schema.value("type", "");
  if (type == "boolean") return one_in(2);
  if (type == "null") return nullptr;
  if (type == "integer" && (key == "num_q_heads" || key == "kv_num_heads")) {
    Json few = schema;
    few["maximum"] = kMostHeads;
    return drawn_integer(few);
  }
  if (type == "integer") return drawn_integer(schema);
  if (type == "number") return drawn_number(schema);
  if (type == "object") return drawn_object(schema, target);
  return "drawn";
}

Json ConfigDraw::value(const KeySpec& key, Target target) {
  return drawn(key.schema, key.name, target);
}

Json ConfigDraw::start() {
  if (!starts_.empty() && one_in(3)) {
    Json config = starts_[below(starts_.size())];
    config.erase("name");
    if (plans(config)) return config;
  }
  for (;;) {
    const Target target = targets_[below(targets_.size())];
    Json config{{"target", to_string(target)}};
    for (const char* name : {"operation", "dtype"}) config[name] = value(*find_key(name), target);
    config["depth"] = one_in(2) ? Json(64) : one_in(2) ? Json(128) : value(*find_key("depth"), target);
    if (plans(config)) return config;
  }
}

Json ConfigDraw::next() {
  Json config = start();
  const Target target = *target_from(config["target"].get<std::string>());
  const std::span<const KeySpec> keys = config_keys();
  const std::size_t rounds = 4 + below(24);
  for (std::size_t round = 0; round < rounds; ++round) {
    // Some keys only work together: up to three at once.
    Json changed = config;
    const std::size_t count = one_in(2) ? 1 : 2 + below(2);
    for (std::size_t i = 0; i < count; ++i) {
      const KeySpec& key = keys[below(keys.size())];
      if (key.name == "name" || key.name == "target" || (key.targets & only(target)) == 0) continue;
      changed[std::string(key.name)] = value(key, target);
    }
    if (changed == config) continue;
    ++tried_;
    if (!plans(changed)) continue;
    ++accepted_;
    config = std::move(changed);
  }
  return config;
}

}  // namespace kiln
