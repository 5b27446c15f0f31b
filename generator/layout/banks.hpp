// Shared-memory bank conflicts of one warp-wide (or wave-wide) access, counted with the phase model of each
// machine.
//
// An access is served in phases; only lanes of one phase can conflict. In a phase every bank gives one 4-byte
// word, lanes that want the same word share it.
//   NVIDIA, 32 banks: 4 B a lane: all 32 lanes; 8 B: half warps; 16 B: quarter warps; ldmatrix: 8 rows a
//   matrix. AMD: by instruction and generation, see amd_phases().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <kiln/types.hpp>

namespace kiln::layout {

/// Lanes that are served together, per phase.
using Phases = std::vector<std::vector<int>>;

struct BankCount {
  int phases = 0;  ///< the least number of cycles
  int cycles = 0;  ///< cycles the access takes
  int conflicts() const { return cycles - phases; }
};

inline constexpr std::uint32_t kInactive = ~0u;  ///< address of a lane that takes no part

/// Counts for `addresses[lane]` (bytes), each lane moving `bytes` bytes.
BankCount count_banks(std::span<const std::uint32_t> addresses, int bytes, const Phases& phases, int banks);

/// Phases of a 32-lane access of 4, 8 or 16 bytes a lane.
const Phases& nvidia_phases(int bytes_per_lane);
BankCount nvidia_banks(std::span<const std::uint32_t> addresses, int bytes_per_lane);

enum class LdsAccess {
  read_u16,
  read_b32,
  read_b128,
  read_b96,
  read_b64,
  read_b64_tr,
  write_b64,
  write_b128
};
struct AmdPhases {
  Phases phases;
  int banks = 32;
  bool measured = true;  ///< false where the phases are an assumption
};
const AmdPhases& amd_phases(Target target, LdsAccess access);
BankCount amd_banks(Target target, LdsAccess access, std::span<const std::uint32_t> addresses);

}  // namespace kiln::layout
