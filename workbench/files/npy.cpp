// Reader and writer of .npy: magic, version, a Python dict literal as header, then raw elements.
#include "workbench/files/npy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include <kiln/error.hpp>

#include "runtime/support/files.hpp"
#include "runtime/support/memory.hpp"
#include "workbench/files/npy_header.hpp"
#include "workbench/problem/rounding.hpp"

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

namespace {

// Bytes before the header's length, and that length.
constexpr std::size_t kPrefix = 12;

/// What stands before the elements.
struct Head {
  NpyArray array;  ///< without data
  bool fortran_order = false, big_endian = false;
  std::size_t at = 0, bytes = 0;  ///< of the elements
};

/// `text` is a beginning of the file that holds the head, or all of the file.
Head read_head(std::string_view text, std::string_view name) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
  };
  if (!text.starts_with(kMagic.substr(0, std::min(kMagic.size(), std::max<std::size_t>(text.size(), 1))))) {
    fail(name, "not a .npy file (it does not start with \\x93NUMPY)");
  }
  if (text.size() < 10) fail(name, "truncated .npy: " + std::to_string(text.size()) + " bytes, no header");
  const std::size_t major = byte(6);
  if (major < 1 || major > 3)
    fail(name, ".npy version " + std::to_string(major) + " is not known (1, 2 and 3 are)");
  const std::size_t prefix = major == 1 ? 10 : kPrefix;
  if (text.size() < prefix)
    fail(name, "truncated .npy: " + std::to_string(text.size()) + " bytes, no header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeader) fail(name, ".npy header of " + std::to_string(length) + " bytes is not plausible");
  if (text.size() < prefix + length) {
    fail(name, "truncated .npy: header of " + std::to_string(length) + " bytes, " +
                   std::to_string(text.size() - prefix) + " present");
  }
  NpyHeader header = parse_npy_header(text.substr(prefix, length), name);
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& t) {
    return std::string_view(header.descr).substr(1) == t.code;
  });
  if (type == kTypes.end()) {
    fail(name, "element type '" + header.descr +
                   "' is not supported (bool, int8..int64, uint8..uint64, float16, float32, float64 are)");
  }
  const std::optional<std::size_t> count = element_count(header.shape);
  if (!count) fail(name, "shape " + shape_text(header.shape) + " is too large");
  const bool transposed = header.fortran_order && header.shape.size() > 1;
  return {{type->type, std::move(header.shape), {}},
          transposed,
          header.descr[0] == '>',
          prefix + length,
          *count * type->size};
}

void check_size(const Head& head, std::size_t present, std::string_view name) {
  if (present == head.bytes) return;
  fail(name, std::string(present < head.bytes ? "truncated .npy: " : "trailing bytes in .npy: ") + "shape " +
                 shape_text(head.array.shape) + " of " + std::string(to_string(head.array.type)) + " needs " +
                 std::to_string(head.bytes) + " bytes, " + std::to_string(present) + " present");
}

/// The array, of elements as they are in the file.
NpyArray finish(Head head, std::vector<std::byte> data) {
  const std::size_t size = size_of(head.array.type);
  if (head.fortran_order && !data.empty()) data = to_c_order(data, head.array.shape, size);
  for (std::size_t i = 0; head.big_endian && i < data.size(); i += size)
    std::reverse(data.data() + i, data.data() + i + size);
  head.array.data = std::move(data);
  return std::move(head.array);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> file, std::string_view name) {
  Head head = read_head(as_text(file), name);
  check_size(head, file.size() - head.at, name);
  const auto body = file.subspan(head.at);
  return finish(std::move(head), {body.begin(), body.end()});
}

NpyArray read_npy(const std::filesystem::path& path) {
  const std::string name = path.string();
  FileReader file(path);
  // The head first: it says how much there is to read.
  std::vector<std::byte> bytes(10);
  bytes.resize(file.read(bytes));
  const auto more = [&](std::size_t wanted) {
    const std::size_t had = bytes.size();
    bytes.resize(std::max(had, wanted));
    bytes.resize(had + file.read(std::span(bytes).subspan(had)));
  };
  if (bytes.size() == 10 && as_text(bytes).starts_with(kMagic)) {
    const bool wide = bytes[6] != std::byte{1};
    if (wide) more(kPrefix);
    const std::size_t prefix = wide ? kPrefix : 10;
    std::size_t length = 0;
    for (std::size_t i = prefix; i-- > 8 && bytes.size() == prefix;)
      length = length << 8 | std::to_integer<std::size_t>(bytes[i]);
    if (length <= kMaxHeader) more(prefix + length);
  }
  Head head = read_head(as_text(bytes), name);
  if (file.size()) check_size(head, *file.size() - std::min<std::uint64_t>(*file.size(), head.at), name);
  // The elements, and in most uses a float of each beside them.
  require_memory(head.bytes + head.array.count() * sizeof(float), "reading '" + name + "'");
  std::vector<std::byte> data(head.bytes);
  const std::size_t got = file.read(data);
  std::byte beyond{};
  check_size(head, got + (got == head.bytes ? file.read({&beyond, 1}) : 0), name);
  return finish(std::move(head), std::move(data));
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
