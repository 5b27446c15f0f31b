// malloc and free of kernels.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator {

/// Makes the heap in `memory` if the module calls for it and there is none yet.
void prepare_heap(GlobalMemory& memory, const ptx::Module& module);
/// Decodes a call of malloc or free, whose arguments and result are at these frame offsets; false: it is neither.
bool decode_heap_call(ptx::Decoder& d, std::string_view name, const std::vector<std::uint32_t>& args,
                      const std::vector<std::uint32_t>& returns);

}  // namespace kiln::emulator
