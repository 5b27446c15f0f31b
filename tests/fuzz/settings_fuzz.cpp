// Any text is a size, a number within its bounds, or refused; what is read is what the text says, to a double's
// rounding. The first byte says of which setting.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <kiln/error.hpp>

#include "runtime/support/settings.hpp"

namespace {

/// What a size must be, read in another way: only of digits with at most one unit.
bool plain(const std::string& text, double& value) {
  value = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) value = value * 10 + (text[at] - '0');
  if (at == 0 || at > 15) return false;
  const std::string unit = text.substr(at);
  const std::string units = "KMGT";
  if (unit.size() == 1 && units.find(unit) != std::string::npos) {
    for (std::size_t i = 0; i <= units.find(unit); ++i) value *= 1024;
    return true;
  }
  return unit.empty();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto bytes = kiln::parse_size(text);
  if (bytes && *bytes > std::uint64_t{1} << 62) std::abort();
  double value = 0;
  if (plain(text, value) && value <= 0x1p62 && (!bytes || static_cast<double>(*bytes) != value)) std::abort();
  if (text.find('\0') != std::string::npos) return 0;  // no environment has that
  constexpr const char* kNames[] = {"KILN_CACHE_MAX_SIZE", "KILN_LOCK_TIMEOUT", "KILN_FUZZED"};
  const char* const name = kNames[data[0] % 3];
  setenv(name, text.c_str(), 1);
  const auto attempt = [](auto read) {
    try {
      read();
    } catch (const kiln::Error& error) {
      const std::string line = error.what();
      if (error.code() != kiln::ErrorCode::bad_input || line.empty()) std::abort();
    }
  };
  attempt([&] { kiln::size_setting(name, 5); });
  attempt([&] {
    const std::int64_t low = -static_cast<std::int64_t>(data[0]), high = 1000;
    const std::int64_t read = kiln::integer_setting(name, 5, low, high);
    if (read < low || read > high) std::abort();
  });
  attempt([] { kiln::check_settings(); });
  unsetenv(name);
  return 0;
}
