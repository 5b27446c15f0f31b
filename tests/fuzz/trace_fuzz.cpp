// Any bytes are lengths or a bad_input Error of the trace reader.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include <kiln/error.hpp>
#include "workbench/files/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
    for (const std::int64_t length : kiln::read_trace(in, "fuzz", 100, 1000))
      if (length < 0 || length > 1000) std::abort();
  } catch (const kiln::Error& error) {
    if (error.code() != kiln::ErrorCode::bad_input) std::abort();
  }
  return 0;
}
