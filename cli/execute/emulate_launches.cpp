// Checks every key: what is misspelt must not be ignored.
#include "cli/execute/emulate_launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <kiln/error.hpp>

#include "generator/config/json_text.hpp"
#include "runtime/support/files.hpp"

namespace kiln::cli {
namespace {

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& where, const std::string& what) const {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}: {}", path_, where.empty() ? "/" : where, what));
  }
  void check_keys(const Json& object, const std::string& where,
                  std::initializer_list<std::string_view> known) const {
    if (!object.is_object()) fail(where, "must be an object");
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(fmt::format("{}/{}", where, key),
             fmt::format("unknown key; there is {}", fmt::join(known, ", ")));
  }
  std::string text(const Json& object, const std::string& where, const char* key,
                   const std::string& other) const {
    if (!object.contains(key)) return other;
    if (!object[key].is_string()) fail(where + "/" + key, "must be a string");
    return object[key].get<std::string>();
  }
  std::uint32_t number(const Json& object, const std::string& where, const char* key,
                       std::uint32_t other) const {
    if (!object.contains(key)) return other;
    if (!object[key].is_number_unsigned() || object[key].get<std::uint64_t>() > 0xffffffffu)
      fail(where + "/" + key, "must be a number from 0");
    return object[key].get<std::uint32_t>();
  }
  emulator::Dim3 dim(const Json& object, const std::string& where, const char* key) const {
    if (!object.contains(key)) return {};
    const Json& value = object[key];
    const Json list = value.is_array() ? value : Json::array({value});
    std::uint32_t v[3] = {1, 1, 1};
    if (list.empty() || list.size() > 3) fail(where + "/" + key, "must be 1 to 3 numbers");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_number_unsigned() || list[i] == 0 || list[i].get<std::uint64_t>() > 0xffffffffu)
        fail(where + "/" + key, "each must be 1 or more");
      v[i] = list[i].get<std::uint32_t>();
    }
    return {v[0], v[1], v[2]};
  }
  /// Members of an object of strings.
  std::vector<std::pair<std::string, std::string>> strings(const Json& root, const char* key) const {
    std::vector<std::pair<std::string, std::string>> out;
    if (!root.contains(key)) return out;
    const std::string where = std::string("/") + key;
    if (!root[key].is_object()) fail(where, "must be an object");
    for (const auto& [name, value] : root[key].items())
      out.emplace_back(name, text(root[key], where, name.c_str(), ""));
    return out;
  }
  LaunchPlan launch(const Json& json, const std::string& where, const std::string& module) const {
    check_keys(json, where,
               {"module", "kernel", "grid", "block", "cluster", "shared", "programmatic", "args"});
    LaunchPlan l;
    l.module = text(json, where, "module", module);
    if (l.module.empty()) fail(where, "names no module, and the file has none for all");
    l.kernel = text(json, where, "kernel", "");
    l.grid = dim(json, where, "grid");
    l.block = dim(json, where, "block");
    l.cluster = dim(json, where, "cluster");
    l.shared = number(json, where, "shared", 0);
    if (json.contains("programmatic")) {
      if (!json["programmatic"].is_boolean()) fail(where + "/programmatic", "must be true or false");
      l.programmatic = json["programmatic"].get<bool>();
    }
    if (!json.contains("args")) return l;
    if (!json["args"].is_array()) fail(where + "/args", "must be an array of strings");
    for (const Json& arg : json["args"]) {
      if (!arg.is_string()) fail(where + "/args", fmt::format("{} is no string", write_json(arg)));
      l.args.push_back(arg.get<std::string>());
    }
    return l;
  }

 private:
  std::string path_;
};

}  // namespace

emulator::Dim3 parse_dim(const std::string& text, const std::string& what) {
  std::uint32_t values[3] = {1, 1, 1};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto parsed = std::from_chars(at, end, values[i]);
    if (parsed.ec != std::errc() || values[i] == 0) break;
    if (parsed.ptr == end) return {values[0], values[1], values[2]};
    if (*parsed.ptr != ',') break;
    at = parsed.ptr + 1;
  }
  throw Error(ErrorCode::bad_input, fmt::format("{}: '{}' is not x,y,z with each 1 or more", what, text));
}

LaunchFile parse_launch_file(std::string_view text, const std::string& path) {
  const Reader r(path);
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception& e) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: {}", path, e.what()));
  }
  r.check_keys(root, "", {"module", "sms", "buffers", "tensor_maps", "variables", "launches"});
  LaunchFile file;
  const std::string module = r.text(root, "", "module", "");
  file.sms = r.number(root, "", "sms", file.sms);
  if (file.sms == 0) r.fail("/sms", "must be 1 or more");
  file.buffers = r.strings(root, "buffers");
  if (root.contains("tensor_maps")) {
    if (!root["tensor_maps"].is_object()) r.fail("/tensor_maps", "must be an object");
    for (const auto& [name, map] : root["tensor_maps"].items()) file.tensor_maps.emplace_back(name, map);
  }
  // "MODULE:NAME", or NAME in the module of all launches.
  for (const auto& [name, values] : r.strings(root, "variables")) {
    const std::size_t colon = name.rfind(':');
    const bool named = colon != std::string::npos;
    file.variables.push_back(
        {named ? name.substr(0, colon) : module, named ? name.substr(colon + 1) : name, values});
    if (file.variables.back().module.empty()) r.fail("/variables/" + name, "written as MODULE:NAME");
  }
  if (!root.contains("launches") || !root["launches"].is_array() || root["launches"].empty())
    r.fail("/launches", "must be an array of at least one launch");
  for (std::size_t i = 0; i < root["launches"].size(); ++i)
    file.launches.push_back(r.launch(root["launches"][i], fmt::format("/launches/{}", i), module));
  return file;
}

LaunchFile read_launch_file(const std::string& path) {
  return parse_launch_file(read_text(path), path);
}

}  // namespace kiln::cli
