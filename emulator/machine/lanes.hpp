// Races between lanes of one warp through shared or global memory. Lanes that run together in the emulated
// device need not do so on a GPU: what one lane writes and another reads must be ordered by bar.warp.sync (or
// a block barrier, an mbarrier, an atomic), as the memory model says. shfl, vote and the like order nothing.
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

/// The last accesses of a word by the lanes of one warp each.
class LaneWord {
 public:
  struct Conflict {
    int lane = -1;  ///< -1: none
    std::uint32_t op = 0;
    bool write = false;
  };
  /// Notes an access to the bytes of `mask` and tells what it conflicts with. `w.lanes.issue` tells instances
  /// of instructions apart: what one instruction does to a word at once is no race.
  Conflict access(const Warp& w, int lane, std::uint32_t op, std::uint8_t mask, bool write);

 private:
  struct Tag {
    std::array<std::uint32_t, 4> lanes{};  ///< of each byte
    std::uint32_t time = 0, issue = 0, op = 0, warp = 0;
  };
  Tag write_, read_;
};

/// Those of every word of a block's shared memory.
class LaneTracker {
 public:
  explicit LaneTracker(std::size_t bytes) : chunks_(bytes / kChunkBytes + 1) {}
  void access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset, std::uint32_t bytes,
              bool write);

 private:
  static constexpr std::size_t kChunkBytes = 1024;
  using Chunk = std::array<LaneWord, kChunkBytes / 4>;
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

/// Those of the words of global memory that a warp used lately: of two that share an entry the later one.
class GlobalWords {
 public:
  void access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes, bool write);

 private:
  static constexpr std::size_t kEntries = 1024;
  struct Entry {
    std::uint64_t address = 0;
    LaneWord word;
  };
  std::vector<Entry> entries_;
};

}  // namespace kiln::emulator
