// Text that writes elements of O on NVIDIA targets: 16-bit ones are rounded and packed, those of f32 leave as the
// accumulators hold them.
#pragma once

#include <string>

#include <fmt/format.h>
#include <kiln/types.hpp>

#include "generator/emit/prelude.hpp"

namespace kiln {

/// Prelude function that packs two floats to a register of a 16-bit type, which is also the section it is in.
inline const char* pack_name(DType type) {
  return type == DType::bf16 ? "pack_bf16" : "pack_fp16";
}

/// Uses what the lines below call.
inline void use_output(Prelude& prelude, DType out) {
  if (out != DType::f32) prelude.use(pack_name(out));
}

/// Pointer to elements of O.
inline const char* output_pointer(DType out) {
  return out == DType::f32 ? "float*" : "u16*";
}

/// Two neighbouring elements at `at`, expressions of floats.
inline std::string store_two(DType out, const std::string& at, const std::string& a, const std::string& b) {
  return out == DType::f32 ? fmt::format("*(float2*)({}) = make_float2({}, {});", at, a, b)
                           : fmt::format("*(u32*)({}) = {}({}, {});", at, pack_name(out), a, b);
}

/// Four of them.
inline std::string store_four(DType out, const std::string& at, const std::string& a, const std::string& b,
                              const std::string& c, const std::string& d) {
  return out == DType::f32 ? fmt::format("*(float4*)({}) = make_float4({}, {}, {}, {});", at, a, b, c, d)
                           : fmt::format("*(uint2*)({0}) = make_uint2({1}({2}, {3}), {1}({4}, {5}));", at,
                                         pack_name(out), a, b, c, d);
}

}  // namespace kiln
