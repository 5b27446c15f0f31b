// libFuzzer: any bytes are either a consistent array or an Error, never a crash.
#include <cstdint>
#include <cstdlib>
#include <kiln/error.hpp>

#include "workbench/files/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kiln::NpyArray array = kiln::parse_npy({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (array.data.size() != array.count() * kiln::size_of(array.type)) std::abort();
    kiln::to_floats(array);
  } catch (const kiln::Error&) {
  }
  return 0;
}
