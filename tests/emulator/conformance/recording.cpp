#include "tests/emulator/conformance/recording.hpp"

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/emulator/conformance/suite.hpp"

namespace conformance {

namespace {

constexpr char kMagic[8] = {'K', 'C', 'O', 'N', 'F', '0', '0', '1'};

void put(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& out, const std::string& text) {
  put(out, text.size());
  out += text;
}

/// Reads the same, refusing to run past the end.
struct Cursor {
  const std::string& text;
  std::size_t at = sizeof kMagic;
  bool ok = true;

  std::uint64_t number() {
    std::uint64_t value = 0;
    if (text.size() - at < sizeof value) return ok = false;
    std::memcpy(&value, text.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  std::string bytes() {
    const std::uint64_t size = number();
    if (!ok || text.size() - at < size) {
      ok = false;
      return {};
    }
    at += size;
    return text.substr(at - size, size);
  }
};

}  // namespace

RecordedCase record_output(std::uint64_t case_hash, const std::vector<std::uint8_t>& output,
                           bool needs_bytes) {
  RecordedCase record{case_hash, output.size(), hash_bytes(output.data(), output.size()), {}};
  if (needs_bytes || output.size() <= kMaxRawBytes) record.output = output;
  return record;
}

bool save(const Recording& recording, const std::string& path) {
  std::string out(kMagic, sizeof kMagic);
  put(out, recording.device);
  put(out, recording.cases.size());
  for (const auto& [name, record] : recording.cases) {
    put(out, name);
    put(out, record.case_hash);
    put(out, record.output_bytes);
    put(out, record.digest);
    put(out, std::string(record.output.begin(), record.output.end()));
  }
  std::ofstream file(path, std::ios::binary);
  file.write(out.data(), static_cast<std::streamsize>(out.size()));
  return static_cast<bool>(file.flush());
}

std::optional<Recording> load(const std::string& path, std::string& error) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Recording recording;
  Cursor cursor{text};
  if (text.size() < sizeof kMagic || std::memcmp(text.data(), kMagic, sizeof kMagic) != 0) {
    error = path + " is no conformance recording";
    return std::nullopt;
  }
  recording.device = cursor.bytes();
  const std::uint64_t count = cursor.number();
  for (std::uint64_t i = 0; i < count && cursor.ok; ++i) {
    const std::string name = cursor.bytes();
    RecordedCase record;
    record.case_hash = cursor.number();
    record.output_bytes = cursor.number();
    record.digest = cursor.number();
    const std::string output = cursor.bytes();
    record.output.assign(output.begin(), output.end());
    recording.cases[name] = std::move(record);
  }
  if (!cursor.ok) {
    error = path + " is cut short";
    return std::nullopt;
  }
  return recording;
}

}  // namespace conformance
