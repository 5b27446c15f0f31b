// The emulated device of a test program.
#pragma once

#include <cstdlib>

#include <kiln/runtime.hpp>

namespace kiln::test {

/// With KILN_TEST_PTX_ONLY (scripts/test.sh without --all; `serving` but with --long) kernels are compiled no further than
/// they need to run, so checks of spills and warnings hold by themselves.
inline RuntimeOptions emulated_options() {
  RuntimeOptions options;
  options.device = "emulated";
  options.ptx_only = std::getenv("KILN_TEST_PTX_ONLY") != nullptr;
  return options;
}

inline Runtime& emulated() {
  static Runtime runtime(emulated_options());
  return runtime;
}

/// Compiles to machine code in any case.
inline Runtime& compiler() {
  static Runtime runtime([] {
    RuntimeOptions options = emulated_options();
    options.ptx_only = false;
    return options;
  }());
  return runtime;
}

}  // namespace kiln::test
