// What a program hands to the driver as code: PTX text, a cubin, or a fat binary with several of both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::driver {

struct Image {
  std::string ptx;      ///< empty: there was none that fits
  std::string name;     ///< "sm_80.ptx"
  std::string problem;  ///< why there is none, with what to do about it
};

/// Chooses from `code` (a fat binary, its wrapper, a cubin or PTX text; as cuModuleLoadData takes it) the PTX of the
/// highest architecture that a GPU of compute capability `cc` (90) can run.
Image choose_image(const void* code, int cc);

/// Whether the bytes of a file are a fat binary.
bool is_fat_binary(std::string_view file);
/// The same choice from the bytes of a fat binary, however damaged.
Image choose_from_file(std::string_view file, int cc);

}  // namespace kiln::driver
