// Element types, targets and operations: the vocabulary that configs, manifests and the runtime share.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace kiln {

enum class Target { sm_80, sm_90a, sm_100a, gfx90a, gfx942, gfx950 };
enum class Operation { prefill, decode };
enum class DType { bf16, fp16, fp8_e4m3, fp8_e4m3fnuz, int8, i32, f32 };
enum class OperandKind { contiguous, ragged, paged, continuous };

std::string_view to_string(Target target);
std::string_view to_string(Operation operation);
std::string_view to_string(DType dtype);
std::string_view to_string(OperandKind kind);
std::optional<Target> target_from(std::string_view text);
std::optional<Operation> operation_from(std::string_view text);
std::optional<DType> dtype_from(std::string_view text);
std::optional<OperandKind> operand_kind_from(std::string_view text);

/// Bytes of one element.
std::size_t size_of(DType dtype);

inline bool is_amd(Target target) {
  return target == Target::gfx90a || target == Target::gfx942 || target == Target::gfx950;
}
inline bool is_fp8(DType dtype) {
  return dtype == DType::fp8_e4m3 || dtype == DType::fp8_e4m3fnuz;
}

}  // namespace kiln
