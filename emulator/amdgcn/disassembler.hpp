// LLVM's disassembler, opened at run time: kiln is built and runs without LLVM, and takes the newest one it
// finds. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kiln::emulator::amdgcn {

class Disassembler {
 public:
  /// Opens the newest libLLVM that knows `cpu`. KILN_LLVM, if set, names the only library to try. Throws
  /// Error saying what was tried.
  explicit Disassembler(const std::string& cpu);
  ~Disassembler();
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  /// Text of the instruction at the start of `bytes`, and its length; 0 when there is none.
  std::size_t decode(std::span<const std::byte> bytes, std::uint64_t address, std::string& text);

 private:
  void* context_ = nullptr;
  const void* library_ = nullptr;
};

}  // namespace kiln::emulator::amdgcn
