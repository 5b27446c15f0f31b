// AMD code objects (ELF64 for amdgcn-amd-amdhsa) without a driver: the metadata of their kernels, their
// loaded image, and their instructions as text of LLVM's disassembler, which is opened at run time. Depends
// on nothing of kiln.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::code_object {

/// The one exception type: a malformed code object, or one for another target. what() is one line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No LLVM library that knows the target was found: nothing is wrong with the code object.
class MissingLibrary : public Error {
 public:
  using Error::Error;
};

/// One kernel argument as the metadata describes it. `kind` is the value_kind, e.g. "global_buffer",
/// "by_value", "hidden_block_count_x"; hidden ones are filled in by the device.
struct Argument {
  std::string name, kind;
  std::size_t bytes = 0, offset = 0;
  bool hidden() const { return kind.starts_with("hidden_"); }
};

struct KernelInfo {
  std::string name;
  std::vector<Argument> args;
  std::size_t kernarg_bytes = 0;
  std::size_t lds_bytes = 0;      ///< static
  std::size_t scratch_bytes = 0;  ///< private memory per lane
  int vgprs = 0;                  ///< in all, AGPRs included
  int agprs = 0;
  int sgprs = 0;
  int vgpr_spills = 0, sgpr_spills = 0;
  int max_workgroup = 1024;  ///< lanes
};

/// The kernels of a code object as its metadata describes them; needs no LLVM. Throws Error.
std::vector<KernelInfo> read_kernels(std::span<const std::byte> bytes);

/// Part of the image that is stored in the file.
struct Segment {
  std::uint64_t address = 0, size = 0, offset = 0;
};

struct Function {
  std::string name;
  std::uint64_t address = 0, size = 0;
};

inline constexpr std::size_t kDescriptorBytes = 64;

struct Kernel {
  KernelInfo info;
  std::array<std::byte, kDescriptorBytes> descriptor{};
  std::uint64_t entry = 0, end = 0;  ///< address range of the code
};

/// A code object as a loader places it: addresses are relative to the image, relocated for `base`.
struct CodeObject {
  std::string target;  ///< as the metadata says: "gfx90a", "gfx942", ...
  std::vector<std::byte> image;
  std::vector<Segment> segments;
  std::vector<Function> functions;  ///< by address
  std::vector<Kernel> kernels;
  /// Sections of the line table; parts of the bytes that were read.
  std::span<const std::byte> debug_line, debug_line_str, debug_str;
};

/// Reads a code object of version 3 or newer. `bytes` must live as long as the result. Throws Error.
CodeObject read(std::span<const std::byte> bytes, std::uint64_t base = 0);

struct Instruction {
  std::uint64_t address = 0;
  std::uint8_t bytes = 4;
  std::string text;  ///< "v_add_f32_e32 v0, v1, v2"; ".long 0x..." where there is no instruction
};

/// The instructions of `kernel`, in order. Throws Error, and MissingLibrary.
std::vector<Instruction> disassemble(const CodeObject& object, std::string_view kernel);

/// What disassembles: path and version of the library, or why there is none.
struct DisassemblerInfo {
  bool found = false;
  std::string library, version, error;
};
DisassemblerInfo disassembler_info();

}  // namespace kiln::code_object
