#include "tests/schema/accepted.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <kiln/error.hpp>
#include <kiln/generator.hpp>

#include "generator/plan/draw.hpp"
#include "generator/schedules/schedule.hpp"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

constexpr std::array kIntegers{0,   1,   2,   3,   4,   5,   6,   8,   12,  16,  24,  32,
                               48,  64,  72,  80,  96,  112, 128, 160, 176, 192, 208, 224,
                               240, 256, 320, 384, 448, 512, 576, 640, 768, 1024};
constexpr std::array kNumbers{0.0, 0.125, 0.25, 0.5, 1.0, 20.0, 50.0};
const Json kShapes = Json::parse(
    R"([[16,8,8],[16,8,16],[16,8,32],[64,64,16],[64,128,16],[64,128,32],[64,256,16],[128,128,16],[16,16,8],
  [16,16,16],[16,16,32],[16,16,128],[32,32,4],[32,32,8],[32,32,16],[32,32,64]])");
const Json kSwizzles = Json::parse(R"([{"bits": 3, "base": 0, "shift": 3, "domain": "vector"},
  {"bits": 2, "base": 0, "shift": 3, "domain": "vector"}, {"bits": 1, "base": 0, "shift": 3, "domain": "vector"},
  {"bits": 3, "base": 0, "shift": 4, "domain": "vector"}, {"bits": 3, "base": 2, "shift": 3, "domain": "element"}])");

void add_values(const Json& schema, const std::string& pointer, Target target,
                std::vector<SchemaValue>& out) {
  const auto add = [&](const Json& value, bool sample = false) { out.push_back({pointer, value, sample}); };
  const auto add_all = [&](const Json& values) {
    for (const Json& value : values) add(value, true);
  };
  const std::string type = schema.value("type", "");
  const std::string name = pointer.substr(pointer.rfind('/') + 1);
  if (name == "schedule") {
    for (const ScheduleEntry& entry : schedules())
      if (entry.target == target) add(entry.name);
  } else if (name == "mma_shape") {
    add_all(kShapes);
  } else if (name == "expr") {
    add("score - 0.125 * h", true);
  } else if (name == "tensors") {
    for (const char* dtype : {"f32", "bf16", "fp16"}) add({{"bias", dtype}}, true);
  } else if (schema.contains("enum")) {
    for (const Json& value : schema["enum"]) add(value);
  } else if (schema.contains("const")) {
    add(schema["const"]);
  } else if (schema.contains("anyOf")) {
    for (const Json& part : schema["anyOf"]) add_values(part, pointer, target, out);
  } else if (type == "boolean") {
    add(true), add(false);
  } else if (type == "integer") {
    const int step = schema.value("multipleOf", 1);
    for (const int value : kIntegers)
      if (value >= schema["minimum"] && value <= schema["maximum"] && value % step == 0) add(value, true);
  } else if (type == "number") {
    for (const double value : kNumbers) {
      const bool above = !schema.contains("exclusiveMinimum") || value > schema["exclusiveMinimum"];
      if (above && value >= schema.value("minimum", 0.0) && value <= schema.value("maximum", 1e9))
        add(value, true);
    }
  } else if (type == "object" && name.starts_with("swizzle")) {
    add_all(kSwizzles);
  } else if (type == "object") {
    for (const auto& [member, part] : schema["properties"].items())
      add_values(part, child_pointer(pointer, member), target, out);
  }
}

/// `config` with a value at a pointer; what is no object on the way becomes one.
Json with(Json config, const std::string& pointer, const Json& value) {
  Json* at = &config;
  for (std::size_t from = 1; from <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', from), pointer.size());
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[pointer.substr(from, end - from)];
    from = end + 1;
  }
  *at = value;
  if (pointer == "/score_mod/tensors") config["score_mod"]["expr"] = "score + bias[h, q, k]";
  return config;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return "`" + value.get<std::string>() + "`";
  if (value.is_array()) {
    std::string text;
    for (const Json& part : value) text += (text.empty() ? "" : "x") + part.dump();
    return text;
  }
  if (value.is_object() && value.contains("bits"))
    return "(" + value["bits"].dump() + "," + value["base"].dump() + "," + value["shift"].dump() + ")";
  return value.dump();
}

}  // namespace

bool is_tried(const KeySpec& key, Target target) {
  return (key.targets & only(target)) != 0 && key.name != "name" && key.name != "target" &&
         key.name != "operation";
}

std::vector<SchemaValue> values_of(const KeySpec& key, Target target) {
  std::vector<SchemaValue> out;
  add_values(key.schema, child_pointer("", key.name), target, out);
  return out;
}

std::vector<Json> bases_of(Target target, const std::string& operation) {
  std::vector<Json> bases;
  for (const char* dtype : {"bf16", "fp16", "fp8_e4m3", "fp8_e4m3fnuz"}) {
    for (const int depth : {64, 128, 256}) {
      const Json config{
          {"target", to_string(target)}, {"operation", operation}, {"dtype", dtype}, {"depth", depth}};
      if (plans(config)) bases.push_back(config);
    }
  }
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(fs::path(KILN_SOURCE_DIR) / "configs" / to_string(target)))
    files.push_back(item.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file);
    Json config = Json::parse(in);
    config.erase("name"), config.erase("$schema");
    if (config["operation"] == operation) bases.push_back(config);
  }
  return bases;
}

std::map<std::string, std::vector<Accepted>> accepted_values(Target target, const std::string& operation) {
  const std::vector<Json> bases = bases_of(target, operation);
  std::map<std::string, std::vector<Accepted>> out;
  for (const KeySpec& key : config_keys()) {
    if (!is_tried(key, target)) continue;
    std::size_t first = 0;  // where the value before was taken is where the next one is most likely to be
    for (const SchemaValue& value : values_of(key, target)) {
      for (std::size_t i = 0; i < bases.size(); ++i) {
        const std::size_t at = (first + i) % bases.size();
        Json config = with(bases[at], value.pointer, value.value);
        if (!plans(config)) continue;
        out[std::string(key.name)].push_back({value, std::move(config)});
        first = at;
        break;
      }
    }
  }
  return out;
}

namespace {

/// "16..256, 384": runs of four and more of the samples that are multiples of the same number.
std::string runs(const std::vector<int>& taken, const std::vector<int>& samples) {
  if (taken == samples && taken.size() > 4) return "any";
  int step = 0;
  for (const int value : taken) step = std::gcd(step, value);
  std::vector<int> known;
  for (const int value : samples)
    if (step == 0 || value % step == 0) known.push_back(value);
  std::string text;
  for (std::size_t i = 0; i < taken.size();) {
    const auto at = std::find(known.begin(), known.end(), taken[i]) - known.begin();
    std::size_t length = 1;
    while (i + length < taken.size() && taken[i + length] == known[static_cast<std::size_t>(at) + length])
      ++length;
    if (length < 4) length = 1;
    text += (text.empty() ? "" : ", ") + std::to_string(taken[i]);
    if (length > 1) text += ".." + std::to_string(taken[i + length - 1]);
    i += length;
  }
  return text;
}

std::string cell(const std::string& name, const std::vector<SchemaValue>& all,
                 const std::vector<Json>& taken) {
  std::vector<int> samples, numbers;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const SchemaValue& value : all)
    if (value.sample && value.value.is_number_integer()) samples.push_back(value.value.get<int>());
  bool yes = false, no = false, fraction = false;
  for (const Json& value : taken) {
    if (value.is_number_integer() && !samples.empty()) {
      numbers.push_back(value.get<int>());
    } else if (value.is_boolean()) {
      (value.get<bool>() ? yes : no) = true;
    } else if (value.is_number_float()) {
      if (!fraction) add("any");
      fraction = true;
    } else {
      add(name == "expr" ? "any" : text_of(value));
    }
  }
  if (yes || no) add(yes && no ? "yes, no" : yes ? "yes" : "no");
  if (!numbers.empty()) add(runs(numbers, samples));
  return text;
}

}  // namespace

std::string summary(const std::vector<SchemaValue>& all, const std::vector<Accepted>& accepted) {
  // By pointer, in the order of the schema.
  std::vector<std::string> pointers;
  for (const SchemaValue& value : all)
    if (std::find(pointers.begin(), pointers.end(), value.pointer) == pointers.end())
      pointers.push_back(value.pointer);
  std::string text;
  for (const std::string& pointer : pointers) {
    std::vector<Json> taken;
    std::vector<SchemaValue> here;
    for (const SchemaValue& value : all)
      if (value.pointer == pointer) here.push_back(value);
    for (const Accepted& a : accepted)
      if (a.value.pointer == pointer) taken.push_back(a.value.value);
    if (taken.empty()) continue;
    const std::size_t member = pointer.find('/', 1);
    const std::string name = member == std::string::npos ? "" : pointer.substr(member + 1);
    text += (text.empty() ? "" : "; ") + (name.empty() ? "" : name + ": ") + cell(name, here, taken);
  }
  return text;
}

}  // namespace kiln::test
