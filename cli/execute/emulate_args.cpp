// An argument must be as wide as the kernel's parameter: a wrong width is a typing mistake, never a
// conversion.
#include "cli/execute/emulate_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <kiln/error.hpp>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "cli/generate/diagnostics.hpp"
#include "generator/config/json_text.hpp"
#include "runtime/support/files.hpp"
#include "runtime/support/memory.hpp"
#include "workbench/problem/rounding.hpp"

namespace kiln::cli {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
std::optional<std::vector<std::byte>> number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result parsed{};
  if constexpr (std::is_integral_v<T>) {
    const bool hex = text.starts_with("0x");
    parsed = std::from_chars(text.data() + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  } else {
    parsed = std::from_chars(text.data(), end, value);
  }
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return bytes_of(value);
}

struct ScalarType {
  std::string_view name;
  std::optional<std::vector<std::byte>> (*parse)(const std::string&);
};
constexpr ScalarType kScalars[] = {
    {"u8", number<std::uint8_t>},   {"i8", number<std::int8_t>},    {"u16", number<std::uint16_t>},
    {"i16", number<std::int16_t>},  {"u32", number<std::uint32_t>}, {"i32", number<std::int32_t>},
    {"u64", number<std::uint64_t>}, {"i64", number<std::int64_t>},  {"f32", number<float>},
    {"f64", number<double>},
};

struct ArrayType {
  std::string_view name;
  NpyType type;
  bool bf16 = false;
};
constexpr ArrayType kArrays[] = {
    {"bf16", NpyType::u16, true}, {"f16", NpyType::f16}, {"fp16", NpyType::f16}, {"f32", NpyType::f32},
    {"f64", NpyType::f64},        {"u8", NpyType::u8},   {"i8", NpyType::i8},    {"u16", NpyType::u16},
    {"i16", NpyType::i16},        {"u32", NpyType::u32}, {"i32", NpyType::i32},  {"u64", NpyType::u64},
    {"i64", NpyType::i64},
};

/// PTX's names of signed integers are taken, too.
std::string type_name(std::string name) {
  if (name.size() > 1 && name.front() == 's' && name.find_first_not_of("0123456789", 1) == std::string::npos)
    name.front() = 'i';
  return name;
}

/// Outputs are written at the end of the run: a mistake in the path should show before it.
void require_folder(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    fail(fmt::format("cannot write '{}': no folder '{}'", file, folder.string()));
}

std::vector<std::int64_t> parse_shape(const std::string& text, const std::string& argument) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find_first_of(",x", at), text.size());
    std::int64_t extent = -1;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, extent);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || extent < 0 || extent > (1LL << 32)) {
      fail(fmt::format("--arg {}: '[{}]' is not a shape", argument, text));
    }
    if (extent > 0 && elements > (1LL << 32) / extent)
      fail(fmt::format("--arg {}: more than 2^32 elements", argument));
    elements *= extent;
    shape.push_back(extent);
    at = end + 1;
  }
  return shape;
}

}  // namespace

std::string choose_kernel(const std::string& file, const std::vector<std::string>& kernels,
                          const std::string& name) {
  std::vector<std::string> shown;
  std::transform(kernels.begin(), kernels.end(), std::back_inserter(shown), demangled);
  const std::string known = fmt::format("{}", fmt::join(shown, ", "));
  if (kernels.empty()) fail(file + ": holds no kernel");
  if (name.empty() && kernels.size() > 1) fail(fmt::format("{}: choose one with --kernel: {}", file, known));
  if (name.empty()) return kernels.front();
  if (std::find(kernels.begin(), kernels.end(), name) != kernels.end()) return name;
  // The name in the source, with its parameters or without.
  std::vector<std::string> found;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (shown[i] == name || shown[i].substr(0, shown[i].find('(')) == name) found.push_back(kernels[i]);
  if (found.size() > 1) fail(fmt::format("{}: several kernels '{}': {}", file, name, fmt::join(found, ", ")));
  if (found.empty()) fail(fmt::format("{}: no kernel '{}'; there is {}", file, name, known));
  return found.front();
}

std::vector<std::vector<std::byte>> EmulateArgs::pack(const std::vector<std::string>& args,
                                                      std::span<const emulator::Parameter> params) {
  if (args.size() != params.size())
    fail(fmt::format("the kernel takes {} arguments, {} given", params.size(), args.size()));
  std::vector<std::vector<std::byte>> packed;
  for (std::size_t i = 0; i < args.size(); ++i) {
    packed.push_back(argument(args[i]));
    if (packed.back().size() != params[i].bytes)
      fail(fmt::format("--arg {}: {} bytes, but parameter {} ({}) has {}", args[i], packed.back().size(), i,
                       params[i].name, params[i].bytes));
  }
  return packed;
}

std::vector<std::byte> EmulateArgs::argument(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string type = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (const std::uint64_t address = array(text); address != 0) return bytes_of(address);
  if (type == "bytes") return structure(text);
  if (type == "map") {
    const auto map = maps_.find(value);
    if (map == maps_.end()) fail(fmt::format("--arg {}: no tensor map '{}'", text, value));
    return {map->second.begin(), map->second.end()};
  }
  const auto scalar = std::find_if(std::begin(kScalars), std::end(kScalars),
                                   [&](const auto& s) { return s.name == type_name(type); });
  if (scalar == std::end(kScalars))
    fail(
        fmt::format("--arg {}: unknown type '{}'; use u8 to u64, i8 to i64, f32, f64, in, inout, out, zeros, "
                    "bytes, buffer or map",
                    text, type));
  const auto bytes = scalar->parse(value);
  if (!bytes) fail(fmt::format("--arg {}: '{}' is not a {}", text, value, type));
  return *bytes;
}

std::uint64_t EmulateArgs::array(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return 0;
  const std::string type = text.substr(0, colon), value = text.substr(colon + 1);
  if (type == "in") return input(value, "");
  if (type == "inout") {
    const std::size_t second = value.find(':');
    const std::string file = value.substr(0, second);
    return input(file, second == std::string::npos ? file : value.substr(second + 1));
  }
  if (type == "out" || type == "zeros") return output(text, type == "zeros");
  return type == "buffer" ? named(value) : 0;
}

std::uint64_t EmulateArgs::named(const std::string& text) const {
  const std::size_t plus = text.find('+');
  const auto found = buffers_.find(text.substr(0, plus));
  if (found == buffers_.end()) fail(fmt::format("buffer:{}: no buffer '{}'", text, text.substr(0, plus)));
  std::uint64_t offset = 0;
  const char* const end = text.data() + text.size();
  if (plus != std::string::npos)
    if (const auto parsed = std::from_chars(text.data() + plus + 1, end, offset);
        parsed.ec != std::errc() || parsed.ptr != end)
      fail(fmt::format("buffer:{}: '{}' is not a number of bytes", text, text.substr(plus + 1)));
  return found->second + offset;
}

// FILE[@OFFSET=ARRAY]...
std::vector<std::byte> EmulateArgs::structure(const std::string& text) {
  std::size_t at = text.find('@');
  const std::string raw =
      read_text(text.substr(6, at == std::string::npos ? at : at - 6), std::size_t{1} << 20);
  std::vector<std::byte> bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  std::set<std::size_t> taken;
  while (at != std::string::npos) {
    const std::size_t next = text.find('@', at + 1);
    const std::string slot = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    std::size_t offset = 0;
    const auto parsed = std::from_chars(slot.data(), slot.data() + slot.size(), offset);
    if (parsed.ec != std::errc() || parsed.ptr == slot.data() + slot.size() || *parsed.ptr != '=')
      fail(fmt::format("--arg {}: '{}' is not OFFSET=ARRAY", text, slot));
    if (offset % 8 != 0 || bytes.size() < 8 || offset > bytes.size() - 8)
      fail(fmt::format("--arg {}: no pointer at byte {} of {}", text, offset, bytes.size()));
    if (!taken.insert(offset).second) fail(fmt::format("--arg {}: byte {} is given twice", text, offset));
    const std::uint64_t address = array(slot.substr(static_cast<std::size_t>(parsed.ptr - slot.data()) + 1));
    if (address == 0) fail(fmt::format("--arg {}: '{}' names no array", text, slot));
    std::memcpy(bytes.data() + offset, &address, 8);
    at = next;
  }
  return bytes;
}

std::uint64_t EmulateArgs::input(const std::string& file, const std::string& back) {
  NpyArray array = read_npy(file);
  if (!back.empty()) require_folder(back);
  const std::uint64_t address = memory_.allocate(std::max<std::size_t>(array.data.size(), 1), file);
  if (!array.data.empty()) memory_.write(address, array.data);
  array.data.clear();
  if (!back.empty()) outputs_.push_back({address, std::move(array), false, back});
  return address;
}

// out:DTYPE[SHAPE][:FILE]
std::uint64_t EmulateArgs::output(const std::string& text, bool zeros) {
  const std::size_t colon = text.find(':'), open = text.find('['), close = text.find(']', open);
  const bool named = close + 1 < text.size();
  if (open == std::string::npos || close == std::string::npos || (named && text[close + 1] != ':') ||
      text.size() == close + 2)
    fail(fmt::format("--arg {}: written as {}:DTYPE[SHAPE]:FILE.npy, e.g. {}:f32[4,8]:y.npy", text,
                     text.substr(0, colon), text.substr(0, colon)));
  const std::string type = type_name(text.substr(colon + 1, open - colon - 1));
  if (named) require_folder(text.substr(close + 2));
  const auto found = std::find_if(std::begin(kArrays), std::end(kArrays),
                                  [&](const auto& a) { return a.name == type || to_string(a.type) == type; });
  if (found == std::end(kArrays)) fail(fmt::format("--arg {}: unknown element type '{}'", text, type));
  Out out{0,
          {found->type, parse_shape(text.substr(open + 1, close - open - 1), text), {}},
          found->bf16,
          named ? text.substr(close + 2) : ""};
  const std::size_t bytes = std::max<std::size_t>(out.array.count() * size_of(out.array.type), 1);
  require_memory(3 * std::uint64_t{bytes}, "--arg out:" + text);
  out.address = memory_.allocate(bytes, named ? out.file : text);
  if (zeros) memory_.fill(out.address, std::byte{0}, bytes);
  if (named) outputs_.push_back(out);
  return out.address;
}

void EmulateArgs::add_buffer(const std::string& name, const std::string& text) {
  const std::uint64_t address = array(text);
  if (address == 0)
    fail(fmt::format("buffer '{}': '{}' is no array; use in, inout, out, zeros or buffer", name, text));
  if (!buffers_.emplace(name, address).second) fail(fmt::format("buffer '{}' is made twice", name));
}

namespace {

/// Position of a key's text in `names`; the first without the key.
std::size_t choice(const std::string& map, const Json& json, const char* key,
                   std::initializer_list<std::string_view> names) {
  if (!json.contains(key)) return 0;
  const auto text = json[key].is_string() ? json[key].get<std::string>() : write_json(json[key]);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    fail(fmt::format("tensor map '{}': {} '{}' is none of {}", map, key, text, fmt::join(names, ", ")));
  return static_cast<std::size_t>(found - names.begin());
}

template <class T, std::size_t N>
void numbers(const std::string& map, const Json& json, const char* key, std::size_t count,
             std::array<T, N>& out) {
  if (!json.contains(key) || !json[key].is_array() || json[key].size() != count)
    fail(fmt::format("tensor map '{}': {} must be an array of {} numbers", map, key, count));
  for (std::size_t i = 0; i < count; ++i) {
    const Json& value = json[key][i];
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<std::uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
    if (!fits)
      fail(fmt::format("tensor map '{}': {}[{}] = {} is no number from {} to {}", map, key, i,
                       write_json(value), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    out[i] = value.get<T>();
  }
}

}  // namespace

void EmulateArgs::add_tensor_map(const std::string& name, const Json& map) {
  static constexpr std::string_view kKeys[] = {
      "buffer",  "type",       "dims",     "strides",      "box",          "element_strides",
      "swizzle", "interleave", "oob_fill", "lower_corner", "upper_corner", "wide"};
  if (!map.is_object()) fail(fmt::format("tensor map '{}' is no object", name));
  for (const auto& [key, value] : map.items())
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
      fail(fmt::format("tensor map '{}': unknown key '{}'; there is {}", name, key, fmt::join(kKeys, ", ")));
  if (!map.contains("buffer") || !map["buffer"].is_string() || !map.contains("dims") ||
      !map["dims"].is_array())
    fail(fmt::format("tensor map '{}' needs buffer and dims", name));
  emulator::TensorMapRequest r;
  r.address = named(map["buffer"].get<std::string>());
  r.type = static_cast<emulator::TensorType>(
      choice(name, map, "type",
             {"u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32",
              "tf32_ftz", "16u4_align8b", "16u4_align16b", "16u6_align16b"}));
  const std::size_t rank = map["dims"].size();
  if (rank < 1 || rank > 5) fail(fmt::format("tensor map '{}': {} dims, 1 to 5 are possible", name, rank));
  r.rank = static_cast<std::uint32_t>(rank);
  numbers(name, map, "dims", rank, r.dims);
  if (map.contains("lower_corner") || map.contains("upper_corner")) {
    if (rank < 3) fail(fmt::format("tensor map '{}': corners are of maps of images, with 3 to 5 dims", name));
    const std::size_t wide = choice(name, map, "wide", {"no", "w", "w128"});
    r.mode = static_cast<emulator::TensorMapMode>(static_cast<std::size_t>(emulator::TensorMapMode::im2col) +
                                                  wide);
    const std::size_t corners = wide != 0 ? 1 : rank - 2;
    numbers(name, map, "lower_corner", corners, r.lower_corner);
    numbers(name, map, "upper_corner", corners, r.upper_corner);
  }
  numbers(name, map, "box", r.mode == emulator::TensorMapMode::tiled ? rank : 2, r.box);
  if (rank > 1) numbers(name, map, "strides", rank - 1, r.strides);
  if (map.contains("element_strides")) numbers(name, map, "element_strides", rank, r.element_strides);
  r.swizzle = static_cast<emulator::Swizzle>(
      choice(name, map, "swizzle",
             {"none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"}));
  r.interleave =
      static_cast<emulator::TensorInterleave>(choice(name, map, "interleave", {"none", "16B", "32B"}));
  r.oob_fill = static_cast<emulator::OobFill>(choice(name, map, "oob_fill", {"zeros", "nan"}));
  if (const std::string text = emulator::check_tensor_map(r); !text.empty())
    fail(fmt::format("tensor map '{}': {}", name, text));
  if (!maps_.emplace(name, emulator::encode_tensor_map(r)).second)
    fail(fmt::format("tensor map '{}' is made twice", name));
}

std::vector<EmulateOutput> EmulateArgs::outputs() const {
  std::vector<EmulateOutput> all;
  for (const Out& out : outputs_) {
    NpyArray array = out.array;
    array.data.resize(array.count() * size_of(array.type));
    if (!array.data.empty()) memory_.read(out.address, array.data);
    all.push_back(
        {out.file, out.bf16 ? npy_from_floats(array.shape, decode(DType::bf16, array.data)) : array});
  }
  return all;
}

void EmulateArgs::write_outputs() const {
  for (const EmulateOutput& out : outputs()) write_npy(out.file, out.array);
}

}  // namespace kiln::cli
