// What a program under `kiln emulate --` finds in its environment: the stand-ins for NVIDIA's libraries and what these are
// to do.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "driver/gpus.hpp"

namespace kiln::cli {

struct ProgramOptions {
  std::string gpu, arch, policy = "eager";
  std::uint32_t sms = 0;
  std::uint64_t seed = 0, budget = 0;
  bool findings = true;
  int threads = 0, error_status = 1;
  // For mutants.
  bool tell_launches = false;   ///< the report has the kernels that are launched, with their modules
  bool end_at_finding = false;  ///< the first finding but a note ends the program
  std::string change;           ///< a file with a change of one module (driver/change.hpp)
};

/// "H200, H100, ...", for help and messages.
std::string gpu_names();
/// Throws Error for one that there is not.
const driver::Gpu& chosen_gpu(const ProgramOptions& options);

/// Variables to set; the stand-ins append to the file `report`.
std::vector<std::pair<std::string, std::string>> program_environment(const ProgramOptions& options,
                                                                     const driver::Gpu& gpu,
                                                                     const std::string& report);

}  // namespace kiln::cli
