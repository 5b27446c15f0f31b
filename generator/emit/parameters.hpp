// The parameter list of an emitted kernel: the C type of each role of the manifest.
#pragma once

#include <string>
#include <vector>

#include <kiln/config.hpp>
#include <kiln/source.hpp>

#include "generator/emit/writer.hpp"

namespace kiln {

struct ParameterStyle {
  bool q_bytes = false;       ///< Q holds bytes, else 16-bit elements
  bool kv_bytes = false;      ///< K and V hold bytes, else 16-bit elements
  bool scale_bytes = false;   ///< scales of K and V are bytes, else floats
  bool o_floats = false;      ///< O holds floats, else 16-bit elements
  bool const_values = false;  ///< `const int x`, else `int x`
  bool one_per_line = false;  ///< else as many as fit a line
};

/// Leaves heads_q and heads_kv out where the config fixes them (num_q_heads, kv_num_heads).
std::vector<KernelParam> without_fixed_heads(std::vector<KernelParam> params, const Config& config);
/// What takes their place at file scope: `constexpr int heads_q = 32;`.
void emit_fixed_heads(Writer& w, const Config& config);

/// `float* lse`. Tensor maps are named after their role, `q_map`; anything else is its role.
std::string parameter_text(const KernelParam& param, const ParameterStyle& style = {});

/// Comma-separated texts, as many as fit a line; the lines after the first are indented.
std::string wrapped_list(const std::vector<std::string>& texts);

/// A structure `Arguments` of all parameters as they lie in memory.
void emit_argument_struct(Writer& w, const std::vector<KernelParam>& params,
                          const ParameterStyle& style = {});
/// Declarations of the same names, read by way of `again`, a pointer to that structure. Without captured tensors.
std::string arguments_read_again(const std::vector<KernelParam>& params, const std::string& again,
                                 const ParameterStyle& style = {});

/// All parameters, in order.
std::string parameter_list(const std::vector<KernelParam>& params, const ParameterStyle& style = {});

}  // namespace kiln
