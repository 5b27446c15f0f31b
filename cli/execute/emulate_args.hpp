// The arguments of kernels that `kiln emulate` runs: scalars packed to their parameter, arrays in the
// emulated device's memory, structures with pointers in them, tensor maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <kiln/emulator/emulator.hpp>
#include "cli/output.hpp"
#include "workbench/files/npy.hpp"

namespace kiln::cli {

/// The one of `kernels` in `file` called `name`, or the only one. Throws Error (bad_input).
std::string choose_kernel(const std::string& file, const std::vector<std::string>& kernels,
                          const std::string& name);

/// What launches have left in an array that has a file.
struct EmulateOutput {
  std::string file;
  NpyArray array;
};

/// What launches that share memory are given. An argument is text:
///   u32:5 f32:0.5 ...           a number
///   in:FILE                     an array from a file
///   inout:FILE[:FILE]           the same, written back (to the second file)
///   out:DTYPE[SHAPE][:FILE]     an array that reads as never written; written to the file at the end
///   zeros:DTYPE[SHAPE][:FILE]   the same of zeros
///   buffer:NAME[+BYTES]         the address of a named array
///   map:NAME                    a named tensor map
///   bytes:FILE[@OFFSET=ARRAY]...  a structure; at each offset the address of an array (any of those above)
/// All functions throw Error (bad_input): one line that names the argument.
class EmulateArgs {
 public:
  explicit EmulateArgs(emulator::GlobalMemory& memory) : memory_(memory) {}

  /// Makes the array that `buffer:NAME` stands for.
  void add_buffer(const std::string& name, const std::string& text);
  /// Makes the tensor map that `map:NAME` stands for: buffer, type, dims, strides, box and so on, as
  /// cuTensorMapEncodeTiled has them.
  void add_tensor_map(const std::string& name, const Json& map);
  /// Parses, allocates and uploads; each argument is as long as its parameter.
  std::vector<std::vector<std::byte>> pack(const std::vector<std::string>& args,
                                           std::span<const emulator::Parameter> params);
  /// Writes every array that has a file for it.
  void write_outputs() const;
  /// Those arrays, as they would be written.
  std::vector<EmulateOutput> outputs() const;

 private:
  struct Out {
    std::uint64_t address;
    NpyArray array;  ///< type and shape; bytes are fetched
    bool bf16;       ///< fetched as bf16, written as float32
    std::string file;
  };
  std::vector<std::byte> argument(const std::string& text);
  /// The address of an array; 0 when `text` is none.
  std::uint64_t array(const std::string& text);
  std::uint64_t input(const std::string& file, const std::string& back);
  std::uint64_t output(const std::string& text, bool zeros);
  std::uint64_t named(const std::string& text) const;
  std::vector<std::byte> structure(const std::string& text);

  emulator::GlobalMemory& memory_;
  std::map<std::string, std::uint64_t> buffers_;
  std::map<std::string, emulator::TensorMapBytes> maps_;
  std::vector<Out> outputs_;
};

}  // namespace kiln::cli
