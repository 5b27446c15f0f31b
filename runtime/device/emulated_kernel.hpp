// A kernel as the emulated device runs it: PTX text of NVIDIA targets, the code object of AMD ones.
#pragma once

#include <memory>

#include "emulator/emulator.hpp"
#include "runtime/device/device.hpp"

namespace kiln {

class EmulatedKernel : public DeviceFunction {
 public:
  /// Runs one grid on `memory`. Throws emulator::Error.
  virtual emulator::Report run(emulator::GlobalMemory& memory, const LaunchGeometry& geometry,
                               const ParamView& params, const EmulatorOptions& how) const = 0;
  std::string name;       ///< of the config
  std::string extension;  ///< of its source file
};

/// Throws emulator::Error for a binary that the device cannot run.
std::unique_ptr<EmulatedKernel> load_emulated_kernel(const Binary& binary, const Manifest& manifest);

}  // namespace kiln
