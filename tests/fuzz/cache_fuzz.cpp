// libFuzzer over the cache entry reader: once as given, once with the hash made right so that what lies
// behind is reached too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/cache/entry.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  kiln::read_entry(bytes);
  kiln::read_entry_info(bytes);
  kiln::entry_bytes(bytes);
  kiln::reseal_entry(bytes);
  kiln::read_entry(bytes);
  return 0;
}
