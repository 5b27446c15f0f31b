// Element types, targets and operations: the vocabulary that configs, manifests and the runtime share.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace kiln {

enum class Target { sm_80, sm_90a, sm_100a, sm_103a, gfx90a, gfx942, gfx950 };
/// Every target, in the order in which they are listed.
inline constexpr std::array kTargetList{Target::sm_80,  Target::sm_90a, Target::sm_100a, Target::sm_103a,
                                        Target::gfx90a, Target::gfx942, Target::gfx950};
enum class Operation { prefill, decode };
/// `ue8m0`: of scales alone, 2^(b - 127) of a byte b, 0xff NaN. `fp4_e2m1`: of K and V, two numbers a byte, the first in
/// the low four bits; an element of a tensor is such a byte.
enum class DType { bf16, fp16, fp8_e4m3, fp8_e4m3fnuz, int8, i32, f32, ue8m0, fp4_e2m1 };
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

/// Numbers that one element holds.
constexpr int numbers_of(DType dtype) {
  return dtype == DType::fp4_e2m1 ? 2 : 1;
}

inline bool is_amd(Target target) {
  return target == Target::gfx90a || target == Target::gfx942 || target == Target::gfx950;
}
/// tcgen05 and tensor memory: one family, with the same schedules; what differs is in `TargetInfo`.
constexpr bool is_blackwell(Target target) {
  return target == Target::sm_100a || target == Target::sm_103a;
}
inline bool is_fp8(DType dtype) {
  return dtype == DType::fp8_e4m3 || dtype == DType::fp8_e4m3fnuz;
}

}  // namespace kiln
