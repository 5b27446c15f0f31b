#include "generator/schedules/common/cdna_tensors.hpp"

#include <fmt/format.h>

#include <string_view>

#include "generator/operands/operand_form.hpp"

namespace kiln::cdna {
namespace {

bool of_query(const char* tensor) {
  return *tensor == 'q' || *tensor == 'o';
}

/// Elements from the tensor's start to the sequence's (0: the table says where).
std::string sequence_start(const Tensors& t, const char* tensor, const std::string& batch) {
  if (!of_query(tensor) && t.table)
    return operand_form(t.kind).block() ? fmt::format("block * {}_stride_page", tensor) : "0";
  if (!t.ragged_q) return fmt::format("{} * {}_stride_batch", batch, tensor);
  return fmt::format("{}_start * {}_stride_seq", of_query(tensor) ? "q" : "k", tensor);
}

}  // namespace

void add_stride_params(std::vector<KernelParam>& params, const Tensors& tensors) {
  for (const char* tensor : tensors.names) {
    const auto add = [&](const char* axis) {
      params.push_back({KernelParam::Kind::i64, fmt::format("{}_stride_{}", tensor, axis), {}});
    };
    if (!tensors.ragged_q) add("batch");
    if (!of_query(tensor) && tensors.table) add("page");
    add("seq"), add("head");
  }
}

void emit_head_pointers(Writer& w, const Tensors& tensors, const HeadNames& names,
                        const std::string& first_column) {
  for (const char* tensor : tensors.names) {
    const bool query = of_query(tensor), output = *tensor == 'o';
    const bool own = std::string_view(tensor) == "k_rope";  // columns of 16 bits, from a row's first on
    const bool bytes = *tensor == 'q' ? tensors.q_bytes : !output && !own && tensors.kv_bytes;
    const std::string row = own                   ? ""
                            : !query              ? first_column
                            : names.q_row.empty() ? ""
                                                  : fmt::format(" + {} * {}_stride_seq", names.q_row, tensor);
    w.line("{0}{1}* const {2}_head = {2} + {3} + {4} * {2}_stride_head{5};", output ? "" : "const ",
           bytes                        ? "u8"
           : output && tensors.o_floats ? "float"
                                        : "u16",
           tensor, sequence_start(tensors, tensor, names.batch), query ? names.q_head : "kv_head", row);
  }
}

}  // namespace kiln::cdna
