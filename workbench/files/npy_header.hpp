// The dict literal at the head of a .npy file: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct NpyHeader {
  std::string descr;  ///< byte order character, kind, size: "<f4"; never shorter than 2
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses exactly the three keys, in any order. Throws Error (bad_input) naming `file` and the first defect.
NpyHeader parse_npy_header(std::string_view text, std::string_view file);

}  // namespace kiln
