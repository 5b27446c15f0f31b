// Any text is a manifest or a bad_input Error; a manifest written again reads as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <kiln/error.hpp>
#include <kiln/source.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kiln::Manifest manifest = kiln::manifest_from_json({reinterpret_cast<const char*>(data), size});
    const std::string text = kiln::to_json(manifest);
    if (kiln::to_json(kiln::manifest_from_json(text)) != text) std::abort();
  } catch (const kiln::Error& error) {
    if (error.code() != kiln::ErrorCode::bad_input) std::abort();
  }
  return 0;
}
