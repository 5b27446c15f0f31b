// See emulator_library.hpp.
#include "runtime/device/emulator_library.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "runtime/support/dynamic_library.hpp"
#include "runtime/support/environment.hpp"

// Null unless kiln::emulator is linked into the program.
extern "C" __attribute__((weak)) const kiln_emulator_functions* kiln_emulator_interface(unsigned version);

namespace kiln {
namespace {

constexpr const char* kFile = "libkiln_emulator.so";

/// Opens one file or name; false, with the reason in `library.problem`, when it cannot serve.
bool open(const std::string& name, EmulatorLibrary& library) {
  std::string problem;
  const DynamicLibrary file = DynamicLibrary::open(name, &problem);
  decltype(&kiln_emulator_interface) interface = nullptr;
  if (!file) {
    library.problem = problem;
  } else if (!file.resolve(interface, "kiln_emulator_interface")) {
    library.problem = name + " has no kiln_emulator_interface: it is not the emulated device's library";
  } else if ((library.functions = interface(KILN_EMULATOR_INTERFACE)) == nullptr) {
    library.problem = fmt::format("{} is of another version of kiln (this one uses interface {})", name,
                                  KILN_EMULATOR_INTERFACE);
  } else {
    library.path = file.path();
    return true;
  }
  return false;
}

}  // namespace

EmulatorLibrary find_emulator() {
  EmulatorLibrary library;
  const std::string chosen = environment("KILN_EMULATOR");
  if (!chosen.empty()) {
    if (!open(chosen, library)) library.problem = "KILN_EMULATOR: " + library.problem;
    return library;
  }
  if (kiln_emulator_interface != nullptr) {
    library.functions = kiln_emulator_interface(KILN_EMULATOR_INTERFACE);
    library.path = "built in";
    return library;
  }
  const std::filesystem::path folder = own_folder();
  if (!folder.empty()) {
    for (const auto& place : {folder / kFile, folder.parent_path() / "lib" / kFile}) {
      std::error_code ignored;
      if (!std::filesystem::exists(place, ignored)) continue;
      open(place.string(), library);
      return library;
    }
  }
  if (open(kFile, library)) return library;
  library.problem = fmt::format(
      "the emulated device needs {}, which is not in {} (nor known to the loader: {}); install kiln's "
      "libraries together, "
      "name the file in KILN_EMULATOR, or link kiln::emulator into the program",
      kFile, folder.empty() ? "the folder of this program" : folder.string(), library.problem);
  return library;
}

}  // namespace kiln
