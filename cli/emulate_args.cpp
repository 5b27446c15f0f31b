// TYPE:VALUE. The type must be as wide as the kernel's parameter: a wrong width is a typing mistake, never a
// conversion.
#include "cli/emulate_args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <kiln/error.hpp>
#include <optional>

#include "runtime/problem/rounding.hpp"

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
    {"u8", number<std::uint8_t>},  {"i8", number<std::int8_t>},    {"u16", number<std::uint16_t>},
    {"i16", number<std::int16_t>}, {"u32", number<std::uint32_t>}, {"i32", number<std::int32_t>},
    {"s32", number<std::int32_t>}, {"u64", number<std::uint64_t>}, {"i64", number<std::int64_t>},
    {"s64", number<std::int64_t>}, {"f32", number<float>},         {"f64", number<double>},
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
    elements *= extent;
    if (elements > (1LL << 32)) fail(fmt::format("--arg {}: more than 2^32 elements", argument));
    shape.push_back(extent);
    at = end + 1;
  }
  return shape;
}

}  // namespace

std::string choose_kernel(const std::string& file, const std::vector<std::string>& kernels,
                          const std::string& name) {
  const std::string known = fmt::format("{}", fmt::join(kernels, ", "));
  if (kernels.empty()) fail(file + ": holds no kernel");
  if (name.empty() && kernels.size() > 1) fail(fmt::format("{}: choose one with --kernel: {}", file, known));
  if (name.empty()) return kernels.front();
  if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) {
    fail(fmt::format("{}: no kernel '{}'; there is {}", file, name, known));
  }
  return name;
}

EmulateArgs::EmulateArgs(const std::vector<std::string>& args, std::span<const emulator::Parameter> params,
                         emulator::GlobalMemory& memory) {
  if (args.size() != params.size()) {
    fail(fmt::format("the kernel takes {} arguments, {} --arg given", params.size(), args.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::size_t colon = args[i].find(':');
    const std::string type = args[i].substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : args[i].substr(colon + 1);
    std::optional<std::vector<std::byte>> bytes;
    if (type == "in") {
      bytes = input(value, memory);
    } else if (type == "out") {
      bytes = output(value, memory);
    } else {
      const auto scalar = std::find_if(std::begin(kScalars), std::end(kScalars),
                                       [&](const auto& s) { return s.name == type; });
      if (scalar == std::end(kScalars))
        fail(fmt::format("--arg {}: unknown type '{}'; use u32, i32, u64, i64, f32, f64, in or out", args[i],
                         type));
      bytes = scalar->parse(value);
      if (!bytes) fail(fmt::format("--arg {}: '{}' is not a {}", args[i], value, type));
    }
    if (bytes->size() != params[i].bytes) {
      fail(fmt::format("--arg {}: {} bytes, but parameter {} ({}) has {}", args[i], bytes->size(), i,
                       params[i].name, params[i].bytes));
    }
    packed_.push_back(std::move(*bytes));
  }
}

std::vector<std::byte> EmulateArgs::input(const std::string& file, emulator::GlobalMemory& memory) {
  const NpyArray array = read_npy(file);
  const std::uint64_t address = memory.allocate(std::max<std::size_t>(array.data.size(), 1), file);
  if (!array.data.empty()) memory.write(address, array.data);
  return bytes_of(address);
}

// DTYPE[SHAPE]:FILE
std::vector<std::byte> EmulateArgs::output(const std::string& text, emulator::GlobalMemory& memory) {
  const std::size_t open = text.find('['), close = text.find("]:");
  if (open == std::string::npos || close == std::string::npos || close < open) {
    fail(fmt::format("--arg out:{}: written as out:DTYPE[SHAPE]:FILE.npy, e.g. out:f32[4,8]:y.npy", text));
  }
  const std::string type = text.substr(0, open);
  const auto found = std::find_if(std::begin(kArrays), std::end(kArrays),
                                  [&](const auto& a) { return a.name == type || to_string(a.type) == type; });
  if (found == std::end(kArrays)) fail(fmt::format("--arg out:{}: unknown element type '{}'", text, type));
  Out out{0,
          {found->type, parse_shape(text.substr(open + 1, close - open - 1), "out:" + text), {}},
          found->bf16,
          text.substr(close + 2)};
  if (out.file.empty()) fail(fmt::format("--arg out:{}: no file name", text));
  out.address =
      memory.allocate(std::max<std::size_t>(out.array.count() * size_of(out.array.type), 1), out.file);
  outputs_.push_back(out);
  return bytes_of(out.address);
}

void EmulateArgs::write_outputs(const emulator::GlobalMemory& memory) const {
  for (const Out& out : outputs_) {
    NpyArray array = out.array;
    array.data.resize(array.count() * size_of(array.type));
    if (!array.data.empty()) memory.read(out.address, array.data);
    write_npy(out.file, out.bf16 ? npy_from_floats(array.shape, decode(DType::bf16, array.data)) : array);
  }
}

}  // namespace kiln::cli
