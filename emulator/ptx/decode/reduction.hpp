// What the reductions that leave a block (bulk copies, red.async) have in common: the type that they name.
#pragma once

#include <kiln/emulator/tensor_map.hpp>
#include "emulator/ptx/decode/decoder.hpp"

namespace kiln::emulator::ptx {

/// Elements of the reduction by its last type; an error (unsupported instruction) for one that no reduction has.
TensorType reduced_type(const Decoder& d);

inline bool is_floating(TensorType type) {
  return type == TensorType::f16 || type == TensorType::bf16 || type == TensorType::f32 ||
         type == TensorType::f64;
}

}  // namespace kiln::emulator::ptx
