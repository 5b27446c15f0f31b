// The parameter list of an emitted kernel: the C type of each role of the manifest.
#pragma once

#include <string>
#include <vector>

#include <kiln/source.hpp>

namespace kiln {

struct ParameterStyle {
  bool q_bytes = false;       ///< Q holds bytes, else 16-bit elements
  bool kv_bytes = false;      ///< K and V hold bytes, else 16-bit elements
  bool const_values = false;  ///< `const int x`, else `int x`
  bool one_per_line = false;  ///< else as many as fit a line
};

/// `float* lse`. Tensor maps are named after their role, `q_map`; anything else is its role.
std::string parameter_text(const KernelParam& param, const ParameterStyle& style = {});

/// Comma-separated texts, as many as fit a line; the lines after the first are indented.
std::string wrapped_list(const std::vector<std::string>& texts);

/// All parameters, in order.
std::string parameter_list(const std::vector<KernelParam>& params, const ParameterStyle& style = {});

}  // namespace kiln
