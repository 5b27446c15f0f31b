// Any bytes are a code object or an Error of the ELF and metadata readers. Decoding needs LLVM's
// disassembler; without one only the metadata is read.
#include <cstddef>
#include <cstdint>
#include <span>

#include <kiln/emulator/amdgcn.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    kiln::code_object::read_kernels(bytes);
  } catch (const kiln::code_object::Error&) {
  }
  try {
    kiln::emulator::amdgcn::Module::from_code_object(bytes);
  } catch (const kiln::emulator::Error&) {
  }
  return 0;
}
