// Q, K, V and O of the CDNA kernels: the strides they come with, and pointers to the first rows of a head.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

#include "generator/emit/writer.hpp"

namespace kiln::cdna {

/// In the order of parameters.
inline std::vector<const char*> tensor_names(bool v_in_k, bool k_rope) {
  std::vector<const char*> names{"q", "k"};
  if (!v_in_k) names.push_back("v");
  if (k_rope) names.push_back("k_rope");
  names.push_back("o");
  return names;
}

/// The tensors of a kernel and how their rows are found.
struct Tensors {
  std::vector<const char*> names;  ///< "q", "k", "o", "v" where it is not in K, "k_rope" where it has one
  OperandKind kind = OperandKind::contiguous;
  bool ragged_q = false;  ///< rows of all sequences end to end, else a batch axis
  bool table = false;     ///< K and V are found through a table
  bool q_bytes = false, kv_bytes = false, o_floats = false;
};
template <class Plan>
Tensors tensors_of(const Plan& p) {
  return {p.tensors(),
          p.kind,
          p.ragged_q(),
          p.table(),
          p.q_bytes(),
          p.kv_bytes(),
          *p.config.out_dtype == DType::f32};
}

void add_stride_params(std::vector<KernelParam>& params, const Tensors& tensors);

/// Emitted names of a sequence's number, Q's head, and the first row of the block's (empty: none).
struct HeadNames {
  std::string batch, q_head, q_row;
};
/// `q_head`, `k_head`, ...: pointers to the first rows; `first_column` of K's and V's head rows as text.
void emit_head_pointers(Writer& w, const Tensors& tensors, const HeadNames& names,
                        const std::string& first_column);

}  // namespace kiln::cdna
