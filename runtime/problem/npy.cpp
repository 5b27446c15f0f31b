// Reader and writer of .npy: magic, version, a Python dict literal as header, then raw elements.
#include "runtime/problem/npy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include <kiln/error.hpp>

#include "runtime/problem/files.hpp"
#include "runtime/problem/npy_header.hpp"
#include "runtime/problem/rounding.hpp"

namespace kiln {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMaxHeader = std::size_t{1} << 20;

struct TypeRow {
  NpyType type;
  std::string_view name, code;  // code: kind and size as in `descr`
  std::size_t size;
};
constexpr std::array kTypes = {
    TypeRow{NpyType::b1, "bool", "b1", 1},     TypeRow{NpyType::i8, "int8", "i1", 1},
    TypeRow{NpyType::u8, "uint8", "u1", 1},    TypeRow{NpyType::i16, "int16", "i2", 2},
    TypeRow{NpyType::u16, "uint16", "u2", 2},  TypeRow{NpyType::i32, "int32", "i4", 4},
    TypeRow{NpyType::u32, "uint32", "u4", 4},  TypeRow{NpyType::i64, "int64", "i8", 8},
    TypeRow{NpyType::u64, "uint64", "u8", 8},  TypeRow{NpyType::f16, "float16", "f2", 2},
    TypeRow{NpyType::f32, "float32", "f4", 4}, TypeRow{NpyType::f64, "float64", "f8", 8},
};

const TypeRow& row(NpyType type) {
  return kTypes[static_cast<std::size_t>(type)];
}

[[noreturn]] void fail(std::string_view name, const std::string& what) {
  throw Error(ErrorCode::bad_input, std::string(name) + ": " + what);
}

// Elements of a shape, or nothing when it overflows what memory could hold.
std::optional<std::size_t> element_count(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) return 0;
    if (count > (std::size_t{1} << 48) / static_cast<std::size_t>(extent)) return std::nullopt;
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

// Fortran order -> C order: walks the target in order, keeping the source offset as an odometer.
std::vector<std::byte> to_c_order(std::span<const std::byte> data, std::span<const std::int64_t> shape,
                                  std::size_t size) {
  std::vector<std::byte> out(data.size());
  const std::size_t rank = shape.size();
  std::vector<std::size_t> stride(rank), index(rank, 0);
  std::size_t step = size;
  for (std::size_t d = 0; d < rank; ++d) {
    stride[d] = step;
    step *= static_cast<std::size_t>(shape[d]);
  }
  std::size_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += size) {
    std::memcpy(&out[to], &data[from], size);
    for (std::size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      from -= stride[d] * index[d];
      index[d] = 0;
    }
  }
  return out;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Calls visit(i, element) for every element with its C++ type; float16 arrives as float.
template <class Visit>
void for_each_element(const NpyArray& array, Visit visit) {
  const auto walk = [&]<class T>(T) {
    for (std::size_t i = 0; i < array.count(); ++i) visit(i, load<T>(&array.data[i * sizeof(T)]));
  };
  switch (array.type) {
    case NpyType::b1:
    case NpyType::u8:
      return walk(std::uint8_t{});
    case NpyType::i8:
      return walk(std::int8_t{});
    case NpyType::i16:
      return walk(std::int16_t{});
    case NpyType::u16:
      return walk(std::uint16_t{});
    case NpyType::i32:
      return walk(std::int32_t{});
    case NpyType::u32:
      return walk(std::uint32_t{});
    case NpyType::i64:
      return walk(std::int64_t{});
    case NpyType::u64:
      return walk(std::uint64_t{});
    case NpyType::f32:
      return walk(float{});
    case NpyType::f64:
      return walk(double{});
    case NpyType::f16:
      for (std::size_t i = 0; i < array.count(); ++i)
        visit(i, fp16_to_float(load<std::uint16_t>(&array.data[i * 2])));
  }
}

}  // namespace

std::string_view to_string(NpyType type) {
  return row(type).name;
}
std::size_t size_of(NpyType type) {
  return row(type).size;
}
std::size_t NpyArray::count() const {
  return element_count(shape).value_or(0);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

NpyArray parse_npy(std::span<const std::byte> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic.substr(0, std::min(kMagic.size(), std::max<std::size_t>(text.size(), 1))))) {
    fail(name, "not a .npy file (it does not start with \\x93NUMPY)");
  }
  if (text.size() < 10) fail(name, "truncated .npy: " + std::to_string(text.size()) + " bytes, no header");
  const int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3)
    fail(name, ".npy version " + std::to_string(major) + " is not known (1, 2 and 3 are)");
  const std::size_t prefix = major == 1 ? 10 : 12;
  if (text.size() < prefix)
    fail(name, "truncated .npy: " + std::to_string(text.size()) + " bytes, no header");
  const std::size_t length = major == 1 ? load<std::uint16_t>(&file[8]) : load<std::uint32_t>(&file[8]);
  if (length > kMaxHeader) fail(name, ".npy header of " + std::to_string(length) + " bytes is not plausible");
  if (text.size() < prefix + length) {
    fail(name, "truncated .npy: header of " + std::to_string(length) + " bytes, " +
                   std::to_string(text.size() - prefix) + " present");
  }
  const NpyHeader header = parse_npy_header(text.substr(prefix, length), name);

  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& t) {
    return std::string_view(header.descr).substr(1) == t.code;
  });
  if (type == kTypes.end()) {
    fail(name, "element type '" + header.descr +
                   "' is not supported (bool, int8..int64, uint8..uint64, float16, float32, float64 are)");
  }
  const std::optional<std::size_t> count = element_count(header.shape);
  if (!count) fail(name, "shape " + shape_text(header.shape) + " is too large");
  const std::size_t wanted = *count * type->size, present = text.size() - prefix - length;
  if (present != wanted) {
    fail(name, std::string(present < wanted ? "truncated .npy: " : "trailing bytes in .npy: ") + "shape " +
                   shape_text(header.shape) + " of " + std::string(type->name) + " needs " +
                   std::to_string(wanted) + " bytes, " + std::to_string(present) + " present");
  }

  NpyArray array{type->type, header.shape, {}};
  const auto body = file.subspan(prefix + length);
  if (header.fortran_order && header.shape.size() > 1 && wanted > 0) {
    array.data = to_c_order(body, header.shape, type->size);
  } else {
    array.data.assign(body.begin(), body.end());
  }
  if (header.descr[0] == '>') {
    for (std::size_t i = 0; i < wanted; i += type->size) {
      std::reverse(&array.data[i], &array.data[i] + type->size);
    }
  }
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  return parse_npy(read_bytes(path), path.string());
}

std::vector<std::byte> format_npy(const NpyArray& array) {
  std::string dict = "{'descr': '" + std::string(row(array.type).size == 1 ? "|" : "<") +
                     std::string(row(array.type).code) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : array.shape) dict += std::to_string(extent) + ", ";
  // One-tuples keep their comma, longer ones lose it, as Python prints them.
  if (array.shape.size() == 1) dict.pop_back();
  if (array.shape.size() > 1) dict.resize(dict.size() - 2);
  dict += "), }";
  const bool wide = dict.size() + 64 > std::numeric_limits<std::uint16_t>::max();
  const std::size_t prefix = wide ? 12 : 10;
  // The header ends with a newline and makes the data start at a multiple of 64.
  dict.append(63 - (prefix + dict.size()) % 64, ' ');
  dict += '\n';
  std::string text(kMagic);
  text += wide ? '\2' : '\1';
  text += '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i) text += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  text += dict;
  const auto head = std::as_bytes(std::span(text.data(), text.size()));
  std::vector<std::byte> file(head.begin(), head.end());
  file.insert(file.end(), array.data.begin(), array.data.end());
  return file;
}

void write_npy(const std::filesystem::path& path, const NpyArray& array) {
  write_atomically(path, std::span<const std::byte>(format_npy(array)));
}

std::vector<float> to_floats(const NpyArray& array) {
  std::vector<float> out(array.count());
  if (array.type == NpyType::f32 && !out.empty()) {
    std::memcpy(out.data(), array.data.data(), array.data.size());
  } else {
    for_each_element(array, [&](std::size_t i, auto value) { out[i] = static_cast<float>(value); });
  }
  return out;
}

std::vector<std::int64_t> to_integers(const NpyArray& array, std::string_view name) {
  if (array.type >= NpyType::f16)
    fail(name, "holds " + std::string(to_string(array.type)) + ", integers are wanted");
  std::vector<std::int64_t> out(array.count());
  for_each_element(array, [&](std::size_t i, auto value) {
    if constexpr (std::is_same_v<decltype(value), std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(name, "holds " + std::to_string(value) + ", which is too large");
      }
    }
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 elements are numbers, not characters.
    out[i] = static_cast<std::int64_t>(value);
  });
  return out;
}

NpyArray npy_from_floats(std::vector<std::int64_t> shape, std::span<const float> values) {
  NpyArray array{NpyType::f32, std::move(shape), {}};
  const auto bytes = std::as_bytes(values);
  array.data.assign(bytes.begin(), bytes.end());
  return array;
}

}  // namespace kiln
