// Races between lanes of one warp through shared memory. Lanes that run together in the emulated device need
// not do so on a GPU: what one lane writes and another reads must be ordered by bar.warp.sync (or a block
// barrier, an mbarrier, an atomic), as the memory model says. shfl, vote and the like order nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

struct Block;
struct Warp;

/// What the lanes of a warp know of each other. Time is the warp's own epoch in the race tracker.
struct LaneClock {
  std::uint32_t now = 1;
  std::uint32_t all = 0;    ///< everything before this time is known to every lane
  std::uint32_t issue = 0;  ///< instances of instructions that access shared memory
  std::unique_ptr<std::array<std::array<std::uint32_t, 32>, 32>> known;  ///< [lane][of lane], beyond `all`

  /// Lanes of `mask` (of `live` ones) have waited for each other: a new time begins.
  void synchronize(std::uint32_t mask, std::uint32_t live);
  /// Lanes of `mask` have learned what lanes of `others` did before `time`.
  void learn(std::uint32_t mask, std::uint32_t others, std::uint32_t time, std::uint32_t live);
  bool ordered(int lane, int other, std::uint32_t time) const {
    return time < all || (known != nullptr &&
                          time < (*known)[static_cast<std::size_t>(lane)][static_cast<std::size_t>(other)]);
  }
  /// Whether one of `mask` is lane `other` or knows what it did at `time`.
  bool known_to(std::uint32_t mask, int other, std::uint32_t time) const;
  /// Whether `lane` knows what all of `others` did at `time`.
  bool knows(int lane, std::uint32_t others, std::uint32_t time) const;
};

/// The last accesses of every word of a block's shared memory, by the lanes of one warp each.
class LaneTracker {
 public:
  explicit LaneTracker(std::size_t bytes) : chunks_(bytes / kChunkBytes + 1) {}
  /// `w.lanes.issue` tells instances of instructions apart: what one instruction does to a word at once is no
  /// race.
  void access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset, std::uint32_t bytes,
              bool write);

 private:
  static constexpr std::size_t kChunkBytes = 1024;
  struct Tag {
    std::uint32_t lanes = 0, time = 0, issue = 0, op = 0;
    std::uint16_t warp = 0;
    std::uint8_t bytes = 0;  ///< of the word
  };
  struct Word {
    Tag write, read;
  };
  using Chunk = std::array<Word, kChunkBytes / 4>;
  void conflict(Warp& w, const Op& op, int lane, int other, std::uint32_t address, const Tag& tag, bool write,
                bool other_write);
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace kiln::emulator
