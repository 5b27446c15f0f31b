// The emulated device's library: linked into the program (kiln::emulator), or libkiln_emulator.so, opened
// when the device is first asked for.
#pragma once

#include <string>

#include <kiln/emulator/library.h>

namespace kiln {

struct EmulatorLibrary {
  const kiln_emulator_functions* functions = nullptr;
  std::string path;     ///< "built in" when it is linked into the program
  std::string problem;  ///< when there is none: what was tried and how to get it
};

/// Where it is, in this order: named in $KILN_EMULATOR, in the program, beside the file that holds this code
/// or in the lib/ beside its folder, by the loader's own paths. Looks at each call.
EmulatorLibrary find_emulator();

}  // namespace kiln
