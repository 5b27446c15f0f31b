#include "runtime/cache/entry.hpp"

#include <zstd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include <kiln/error.hpp>
#include <kiln/generator.hpp>

namespace kiln {
namespace {

constexpr std::string_view kMagic = "kilnkern";
constexpr std::size_t kHashAt = 64;
constexpr std::uint64_t kMaxMetadata = 1 << 22, kMaxRaw = 1 << 28;
constexpr int kMaxKeys = 64;

template <class Integer>
void put(std::string& out, std::size_t at, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}

template <class Integer>
Integer get(std::string_view in, std::size_t at) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Integer>(static_cast<unsigned char>(in[at + i])) << (8 * i);
  }
  return value;
}

/// Hash of the entry without its hash field.
Hash128 entry_hash(std::string_view bytes) {
  Hasher hasher;
  hasher.bytes(bytes.substr(0, kHashAt));
  hasher.bytes(bytes.substr(kEntryHeaderBytes));
  return hasher.digest();
}

struct Header {
  Hash128 key;
  std::uint64_t metadata = 0, packed = 0, raw = 0;
};

std::optional<Header> read_header(std::string_view bytes, std::string& problem) {
  if (bytes.size() < kEntryHeaderBytes) return problem = "shorter than a header", std::nullopt;
  if (bytes.substr(0, kMagic.size()) != kMagic) return problem = "not a kernel entry", std::nullopt;
  if (get<std::uint32_t>(bytes, 8) != kEntryFormat)
    return problem = "of another format version", std::nullopt;
  Header header;
  std::memcpy(header.key.bytes.data(), bytes.data() + 16, 16);
  header.metadata = get<std::uint64_t>(bytes, 32);
  header.packed = get<std::uint64_t>(bytes, 40);
  header.raw = get<std::uint64_t>(bytes, 48);
  if (header.metadata > kMaxMetadata || header.packed > kMaxRaw || header.raw > kMaxRaw) {
    return problem = "sizes out of range", std::nullopt;
  }
  return header;
}

using Json = nlohmann::ordered_json;  // as everywhere in the library: a second kind is 50 KB more of it

/// Typed look-ups that report instead of throwing.
struct Reader {
  const Json& json;
  bool ok = true;
  std::string text(const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_string()) return ok = false, std::string();
    return it->get<std::string>();
  }
  template <class Number>
  Number number(const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number()) return ok = false, Number{};
    if constexpr (std::is_integral_v<Number>) {
      // Out-of-range values must not reach a narrowing conversion.
      if (!it->is_number_integer()) return ok = false, Number{};
      const double value = it->get<double>();
      if (value < -9e15 || value > 9e15) return ok = false, Number{};
      return static_cast<Number>(it->get<std::int64_t>());
    } else {
      return it->get<Number>();
    }
  }
};

/// An object's keys are a list, which is read for each key, and an array is read for each value nested in it:
/// no more of either is kept than entries have.
Json parse_metadata(std::string_view bytes, const Header& header) {
  int keys = 0;
  const auto known = [&](int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::key) return ++keys <= kMaxKeys;
    return event == Event::object_start ? depth == 0 : event != Event::array_start || depth == 1;
  };
  return Json::parse(bytes.substr(kEntryHeaderBytes, header.metadata), known, false);
}

}  // namespace

std::string write_entry(const Binary& binary, const Hash128& key, std::int64_t created) {
  const Json metadata = {
      {"name", binary.name},
      {"entry", binary.entry},
      {"target", binary.target},
      {"compiler", binary.compiler},
      {"kiln_version", std::string(version())},
      {"registers", binary.registers},
      {"accumulators", binary.accumulators},
      {"scalar_registers", binary.scalar_registers},
      {"spill_bytes", binary.spill_bytes},
      {"stack_bytes", binary.stack_bytes},
      {"static_smem_bytes", binary.static_smem_bytes},
      {"compile_ms", binary.compile_ms},
      {"created", created},
      {"warnings", binary.warnings},
      {"image_bytes", binary.image.size()},
      {"ptx_bytes", binary.ptx.size()},
      {"log_bytes", binary.log.size()},
  };
  const std::string text = metadata.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string raw = binary.image + binary.ptx + binary.log;
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 3);
  if (ZSTD_isError(size)) throw Error(ErrorCode::internal, std::string("zstd: ") + ZSTD_getErrorName(size));
  packed.resize(size);

  std::string bytes(kEntryHeaderBytes, '\0');
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put<std::uint32_t>(bytes, 8, kEntryFormat);
  std::memcpy(bytes.data() + 16, key.bytes.data(), 16);
  put<std::uint64_t>(bytes, 32, text.size());
  put<std::uint64_t>(bytes, 40, packed.size());
  put<std::uint64_t>(bytes, 48, raw.size());
  bytes += text;
  bytes += packed;
  reseal_entry(bytes);
  return bytes;
}

void reseal_entry(std::string& bytes) {
  if (bytes.size() < kEntryHeaderBytes) return;
  const Hash128 hash = entry_hash(bytes);
  std::memcpy(bytes.data() + kHashAt, hash.bytes.data(), 16);
}

std::optional<std::uint64_t> entry_bytes(std::string_view bytes) {
  std::string problem;
  const auto header = read_header(bytes, problem);
  if (!header) return std::nullopt;
  return kEntryHeaderBytes + header->metadata + header->packed;
}

Parsed<EntryInfo> read_entry_info(std::string_view bytes) {
  Parsed<EntryInfo> result;
  const auto header = read_header(bytes, result.problem);
  if (!header) return result;
  if (bytes.size() < kEntryHeaderBytes + header->metadata) return {{}, "cut off in its metadata"};
  const Json json = parse_metadata(bytes, *header);
  if (!json.is_object()) return {{}, "metadata is not a JSON object"};
  Reader read{json};
  EntryInfo entry;
  entry.key = header->key;
  entry.info.key = header->key.hex();
  entry.info.name = read.text("name");
  entry.info.entry = read.text("entry");
  entry.info.target = read.text("target");
  entry.info.compiler = read.text("compiler");
  entry.info.kiln_version = read.text("kiln_version");
  entry.info.compile_ms = read.number<double>("compile_ms");
  entry.info.created = read.number<std::int64_t>("created");
  entry.info.bytes = kEntryHeaderBytes + header->metadata + header->packed;
  if (!read.ok) return {{}, "metadata lacks a field"};
  result.value = std::move(entry);
  return result;
}

Parsed<Binary> read_entry(std::string_view bytes) {
  Parsed<Binary> result;
  const auto header = read_header(bytes, result.problem);
  if (!header) return result;
  if (bytes.size() != kEntryHeaderBytes + header->metadata + header->packed)
    return {{}, "of the wrong length"};
  if (std::memcmp(entry_hash(bytes).bytes.data(), bytes.data() + kHashAt, 16) != 0) {
    return {{}, "damaged (hash does not match)"};
  }
  const Json json = parse_metadata(bytes, *header);
  if (!json.is_object()) return {{}, "metadata is not a JSON object"};
  Reader read{json};
  Binary binary;
  binary.name = read.text("name");
  binary.entry = read.text("entry");
  binary.target = read.text("target");
  binary.compiler = read.text("compiler");
  binary.registers = read.number<int>("registers");
  // Entries of NVIDIA targets from before these two were kept have neither.
  if (json.contains("accumulators")) binary.accumulators = read.number<int>("accumulators");
  if (json.contains("scalar_registers")) binary.scalar_registers = read.number<int>("scalar_registers");
  binary.spill_bytes = read.number<int>("spill_bytes");
  binary.stack_bytes = read.number<int>("stack_bytes");
  binary.static_smem_bytes = read.number<int>("static_smem_bytes");
  binary.compile_ms = read.number<double>("compile_ms");
  const auto image = read.number<std::uint64_t>("image_bytes");
  const auto ptx = read.number<std::uint64_t>("ptx_bytes");
  const auto log = read.number<std::uint64_t>("log_bytes");
  const auto warnings = json.find("warnings");
  if (!read.ok || warnings == json.end() || !warnings->is_array()) return {{}, "metadata lacks a field"};
  for (const Json& warning : *warnings) {
    if (!warning.is_string()) return {{}, "metadata lacks a field"};
    binary.warnings.push_back(warning.get<std::string>());
  }
  // Each length first, so that their sum cannot wrap.
  if (image > header->raw || ptx > header->raw || log > header->raw || image + ptx + log != header->raw) {
    return {{}, "lengths of its parts disagree"};
  }
  const std::string_view packed = bytes.substr(kEntryHeaderBytes + header->metadata);
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != header->raw)
    return {{}, "payload size disagrees"};
  std::string raw(header->raw, '\0');
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) || size != raw.size()) return {{}, "payload cannot be unpacked"};
  binary.image = raw.substr(0, image);
  binary.ptx = raw.substr(image, ptx);
  binary.log = raw.substr(image + ptx);
  binary.key = header->key.hex();
  binary.cache = CacheState::disk;
  result.value = std::move(binary);
  return result;
}

}  // namespace kiln
