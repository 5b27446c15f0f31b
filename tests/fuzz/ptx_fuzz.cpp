// Any bytes are a module or an Error of the PTX front end, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/emulator.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    kiln::emulator::Module::from_ptx(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const kiln::emulator::Error&) {
  }
  return 0;
}
