#include "generator/systems/scale_strides.hpp"

#include <fmt/format.h>

#include "generator/config/quantization.hpp"
#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/mha_operand.hpp"

namespace kiln {

void add_scale_pointers(std::vector<KernelParam>& params, bool own_v) {
  params.push_back({KernelParam::Kind::pointer, "k_scale", {}});
  if (own_v) params.push_back({KernelParam::Kind::pointer, "v_scale", {}});
}

void add_scale_strides(std::vector<KernelParam>& params, const OperandConfig& operand, bool own_v) {
  const auto add = [&](const std::string& axis) {
    params.push_back({KernelParam::Kind::i64, "k_scale_stride_" + axis, {}});
    if (own_v) params.push_back({KernelParam::Kind::i64, "v_scale_stride_" + axis, {}});
  };
  if (!operand_form(operand.kind).ragged_k()) add(operand_form(operand.kind).batch_keys() ? "batch" : "page");
  if (scales_by_head(operand.quantization)) add("head");
}

std::string scale_row_stride(const OperandConfig& operand, const std::string& heads_kv) {
  return scales_by_head(operand.quantization) ? "1" : heads_kv;
}

std::string scale_of_head(const OperandConfig& operand, const std::string& name, const std::string& head) {
  return scales_by_head(operand.quantization) ? head + " * " + name + "_scale_stride_head" : head;
}

std::string scale_of_row(const OperandConfig& operand, const std::string& name, const std::string& row,
                         const std::string& head, int groups) {
  const std::string of_head = scale_of_head(operand, name, head);
  if (scales_by_head(operand.quantization)) return row + " + " + of_head;
  return fmt::format("((long long){} * {} + {}) * {}", factor(row), scale_row_stride(operand, "heads_kv"),
                     of_head, groups);
}

std::string scales_of_key(const OperandConfig& operand, const std::string& name, const KeyNames& names,
                          int groups) {
  const OperandForm& form = operand_form(operand.kind);
  std::string row = MHAOperand(operand.kind, operand.page_size.value_or(1), 1).row_in_page("key"),
              base = name + "_scale + ";
  if (form.ragged_k()) row = names.k_start + " + key";
  if (form.table()) base += "page * " + name + "_scale_stride_page + ";
  if (form.batch_keys()) base += names.batch + " * " + name + "_scale_stride_batch + ";
  return base + scale_of_row(operand, name, row, names.kv_head, groups);
}

}  // namespace kiln
