// Waits that the compiler left out of the machine code of NVIDIA kernels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kiln {

/// `missing` has a line for each register that is used, on some path, before an instruction of variable latency has
/// written it.
struct WaitReport {
  std::size_t instructions =
      0;  ///< that were read with their control bits; 0: the listing is of another form
  std::vector<std::string> missing;
};

/// `listing` is what `nvdisasm -c -hex` prints of a cubin of sm_80 or later.
///
/// Such an instruction names a scoreboard that is up until its result is there (6 of them, each a counter), and every
/// instruction a mask of scoreboards to wait for before it issues: bits 41 and up of its upper word. ptxas 13.0 has
/// left out such a wait (bench/NOTES.md 168): lanes then go on with what a register held before.
WaitReport check_waits(const std::string& listing);

}  // namespace kiln
