// `kiln emulate -- PROGRAM`: an ordinary CUDA program, with the stand-ins for NVIDIA's libraries in place of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::cli {

struct ProgramOptions {
  std::string gpu, arch, policy = "eager";
  std::uint32_t sms = 0;
  std::uint64_t seed = 0, budget = 0;
  bool findings = true;
  int threads = 0, error_status = 1;
};

/// "H200, H100, ...", for help and messages.
std::string gpu_names();

/// Runs the program and prints what was found; the exit status.
int emulate_program(const ProgramOptions& options, const std::vector<std::string>& program, bool json);

}  // namespace kiln::cli
