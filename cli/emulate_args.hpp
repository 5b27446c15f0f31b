// The --arg options of `kiln emulate`: scalars packed to their parameter, arrays in the emulated device's
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/emulator.hpp"
#include "runtime/problem/npy.hpp"

namespace kiln::cli {

/// The one of `kernels` in `file` called `name`, or the only one. Throws Error (bad_input).
std::string choose_kernel(const std::string& file, const std::vector<std::string>& kernels,
                          const std::string& name);

class EmulateArgs {
 public:
  /// Parses, allocates and uploads. Throws Error (bad_input): one line that names the argument.
  EmulateArgs(const std::vector<std::string>& args, std::span<const emulator::Parameter> params,
              emulator::GlobalMemory& memory);

  const std::vector<std::vector<std::byte>>& packed() const { return packed_; }
  /// Writes every `out:` array to its file.
  void write_outputs(const emulator::GlobalMemory& memory) const;

 private:
  struct Out {
    std::uint64_t address;
    NpyArray array;  ///< type and shape; bytes are fetched
    bool bf16;       ///< fetched as bf16, written as float32
    std::string file;
  };
  std::vector<std::byte> input(const std::string& file, emulator::GlobalMemory& memory);
  std::vector<std::byte> output(const std::string& text, emulator::GlobalMemory& memory);

  std::vector<std::vector<std::byte>> packed_;
  std::vector<Out> outputs_;
};

}  // namespace kiln::cli
