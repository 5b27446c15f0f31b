// LLVM's disassembler, opened at run time: kiln is built and runs without LLVM, and takes the newest one it
// finds. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <kiln/code_object.hpp>

namespace kiln::code_object {

/// How the text begins of bytes that are no instruction.
inline constexpr std::string_view kData = ".long ";

class Disassembler {
 public:
  /// Opens the newest libLLVM that knows `cpu`. KILN_LLVM, if set, names the only library to try. Throws
  /// MissingLibrary saying what was tried.
  explicit Disassembler(const std::string& cpu);
  ~Disassembler();
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  /// The instructions of `function`, whose addresses count from the start of `image`. Throws Error.
  std::vector<Instruction> decode(const Function& function, std::span<const std::byte> image);

 private:
  /// Text of the instruction at the start of `bytes`, and its length; 0 when there is none.
  std::size_t decode_one(std::span<const std::byte> bytes, std::uint64_t address, std::string& text);

  void* context_ = nullptr;
  const void* library_ = nullptr;
};

}  // namespace kiln::code_object
