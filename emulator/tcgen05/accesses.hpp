// Who last wrote and read each cell of tensor memory, and whether what comes next is ordered after it. tcgen05.ld and
// tcgen05.st are done when the warp has waited for them, instructions of the tensor pipe when a commit says so; among
// themselves those are ordered as the PTX ISA's pairs of pipelined instructions are.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/machine/races.hpp"
#include "emulator/tcgen05/memory.hpp"

namespace kiln::emulator {
struct Op;
struct Warp;
}  // namespace kiln::emulator

namespace kiln::emulator::tcgen05 {

/// As races of memory know the tensor pipe.
inline constexpr auto kPipeUnit = static_cast<std::uint32_t>(emulator::Unit::wgmma);

/// `moved` is an operand that its product shifts (.ashift).
enum class Access : std::uint8_t { load, store, accumulator, operand, copy, shift, moved };
inline bool in_pipe(Access a) {
  return a >= Access::accumulator;
}

/// One access to some cells.
struct Party {
  Warp* warp = nullptr;
  const Op* op = nullptr;
  int lane = -1;  ///< -1: the whole warp
  Access what = Access::load;
  bool write = false;
  bool pending = false;      ///< a load or store that nobody has waited for
  std::uint32_t epoch = 0;   ///< of the thread, or of its pipe
  std::uint32_t issued = 0;  ///< the thread's epoch at issue
  std::uint32_t number = 0;  ///< of the warp's loads and stores
  std::uint32_t form = 0;    ///< of a product's accumulator and operands: equal for those that are pipelined
};

/// How an access stands to one before it.
enum class Verdict : std::uint8_t { ordered, in_order_only, race };
Verdict judge(const RaceTracker& races, const Party& before, const Party& now);

class Accesses {
 public:
  using Conflict =
      std::function<void(const Party& before, Verdict, std::uint32_t lane, std::uint32_t column)>;
  /// Judges an access against what is noted, then notes it.
  void note(const RaceTracker& races, const Rectangle& r, const Party& party, const Conflict& conflict);
  /// The same without noting anything: for the end of an allocation.
  void check(const RaceTracker& races, const Rectangle& r, const Party& party,
             const Conflict& conflict) const;
  /// Load or store `number` of a warp is complete.
  void complete(const Warp& w, std::uint32_t number, std::uint32_t epoch, const Rectangle& r);
  void forget(std::uint32_t column, std::uint32_t columns);

 private:
  struct Entry {
    LaneMask lanes;
    Party party;
  };
  std::array<std::vector<Entry>, kColumns> columns_;
};

}  // namespace kiln::emulator::tcgen05
