// Names of the enumerations of <kiln/types.hpp>: one table each, read in both directions.
#include <kiln/types.hpp>

#include <array>
#include <utility>

#include "generator/operands/operand_form.hpp"

namespace kiln {
namespace {

template <class E, std::size_t N>
using NameTable = std::array<std::pair<E, std::string_view>, N>;

constexpr NameTable<Target, kTargetList.size()> kTargets{{{Target::sm_80, "sm_80"},
                                                          {Target::sm_90a, "sm_90a"},
                                                          {Target::sm_100a, "sm_100a"},
                                                          {Target::sm_103a, "sm_103a"},
                                                          {Target::gfx90a, "gfx90a"},
                                                          {Target::gfx942, "gfx942"},
                                                          {Target::gfx950, "gfx950"}}};
constexpr NameTable<Operation, 2> kOperations{
    {{Operation::prefill, "prefill"}, {Operation::decode, "decode"}}};
constexpr NameTable<DType, 9> kDTypes{{{DType::bf16, "bf16"},
                                       {DType::fp16, "fp16"},
                                       {DType::fp8_e4m3, "fp8_e4m3"},
                                       {DType::fp8_e4m3fnuz, "fp8_e4m3fnuz"},
                                       {DType::int8, "int8"},
                                       {DType::i32, "i32"},
                                       {DType::f32, "f32"},
                                       {DType::ue8m0, "ue8m0"},
                                       {DType::fp4_e2m1, "fp4_e2m1"}}};
template <class E, std::size_t N>
std::string_view name_of(const NameTable<E, N>& table, E value) {
  for (const auto& [key, name] : table) {
    if (key == value) return name;
  }
  return "?";
}

template <class E, std::size_t N>
std::optional<E> value_of(const NameTable<E, N>& table, std::string_view text) {
  for (const auto& [key, name] : table) {
    if (name == text) return key;
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Target target) {
  return name_of(kTargets, target);
}
std::string_view to_string(Operation operation) {
  return name_of(kOperations, operation);
}
std::string_view to_string(DType dtype) {
  return name_of(kDTypes, dtype);
}
std::string_view to_string(OperandKind kind) {
  return operand_form(kind).name;
}
std::optional<Target> target_from(std::string_view text) {
  return value_of(kTargets, text);
}
std::optional<Operation> operation_from(std::string_view text) {
  return value_of(kOperations, text);
}
std::optional<DType> dtype_from(std::string_view text) {
  return value_of(kDTypes, text);
}
std::optional<OperandKind> operand_kind_from(std::string_view text) {
  for (const OperandForm& form : operand_forms()) {
    if (form.name == text) return form.kind;
  }
  return std::nullopt;
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8_e4m3:
    case DType::fp8_e4m3fnuz:
    case DType::int8:
    case DType::ue8m0:
    case DType::fp4_e2m1:
      return 1;
    case DType::i32:
    case DType::f32:
      return 4;
  }
  return 0;
}

}  // namespace kiln
