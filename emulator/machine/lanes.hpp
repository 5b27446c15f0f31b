// Races between lanes of one warp through shared or global memory. Lanes that run together in the emulated
// device need not do so on a GPU: what one lane writes and another reads must be ordered by bar.warp.sync (or
// a block barrier, an mbarrier, an atomic), as the memory model says. shfl, vote and the like order nothing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/machine/lane_log.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/machine/recycled.hpp"

namespace kiln::emulator {

struct SharedAccess;
struct Warp;

/// Flag of an Op: which of the warp's lanes accesses which element is not specified. Each is noted of two lanes, so that
/// whichever lane comes next, another one has been there.
inline constexpr unsigned kUnspecifiedLanes = 0x2000;
constexpr int partner_of(int lane) {
  return lane ^ 1;
}

/// When and by which warp an access is made.
struct Moment {
  const LaneClock& clock;
  std::uint32_t warp, now, issue;
};

/// The last accesses of each of some words by the lanes of one warp. What is noted of neighbouring words lies side by
/// side, so that an access to several of them is a few vector instructions.
class LaneWords : public RecycledObject {
 public:
  static constexpr std::size_t kWords = 256;
  struct Conflict {
    int lane = -1;  ///< -1: none
    std::uint32_t op = 0;
    bool write = false, strong = false;
  };
  struct How {
    bool write = false;
    bool strong = false;  ///< no race with other strong accesses
    bool silent = false;  ///< writes what is there already
  };
  /// Notes an access to the bytes of `mask` of a word and tells what it conflicts with. `issue` tells instances of
  /// instructions apart: what one instruction does to a word at once is no race.
  Conflict access(const Moment& w, int lane, std::uint32_t op, std::size_t word, std::uint8_t mask, How how);
  /// A plain access to `count` words (1, 2, 4 or 8) as a whole. False, and nothing is noted, where the state of one of
  /// them does not tell at once that there is no conflict: `access` decides.
  bool access_run(const Moment& w, int lane, std::uint32_t op, std::size_t first, std::size_t count,
                  bool write, bool silent);
  /// The same of an atomic or strong write of one word.
  bool strong_write(const Moment& w, int lane, std::uint32_t op, std::size_t word);
  /// Calls f(word, lanes, time, op, write) for the latest weak accesses of words from time `since` on.
  template <class F>
  void each_weak(std::uint32_t since, F f) const;
  /// Nobody has accessed these words.
  void forget(std::size_t first, std::size_t count);

 private:
  /// `who`: the warp, whether the access was strong, and whether the bytes of the word were accessed by different lanes
  /// (`byte_lanes_`). All zero at first.
  struct Tags {
    std::array<std::uint32_t, kWords> who{}, lanes{}, time{}, issue{}, op{};
  };
  struct Tag {
    std::array<std::uint32_t, 4> lanes{};  ///< of each byte
    std::uint32_t time = 0, issue = 0, op = 0;
    std::uint16_t warp = 0;
    bool strong = false;
  };
  using ByteLanes = std::array<std::array<std::uint32_t, 4>, kWords>;
  Tag tag(const Tags& tags, std::size_t word) const;
  void set_tag(Tags& tags, std::size_t word, const Tag& tag);
  static int unordered(const Moment& w, const Tag& t, int lane, std::uint8_t mask, bool strong);
  static void note(const Moment& w, Tag& t, int lane, std::uint32_t op, std::uint8_t mask, How how);
  template <std::size_t Count>
  bool read_words(const Moment& w, std::uint32_t self, std::uint32_t op, std::size_t first);
  template <std::size_t Count>
  bool write_words(const Moment& w, std::uint32_t self, std::uint32_t op, std::size_t first, bool silent);

  Tags write_, read_;
  std::array<std::uint32_t, kWords> same_{};  ///< lanes that wrote the same value after the latest write
  std::unique_ptr<std::array<ByteLanes, 2>> byte_lanes_;  ///< of writes, of reads
};

/// Those of every word of a block's shared memory.
class LaneTracker {
 public:
  using Access = WarpAccess<std::uint32_t>;
  LaneTracker(std::size_t bytes, std::size_t warps) : chunks_(bytes / kChunkBytes + 1), logs_(warps) {}
  /// By one lane.
  void access(const SharedAccess& access, bool strong);
  /// By lanes of a warp of the block, one after another.
  void access_lanes(Warp& w, const Access& access);

 private:
  static constexpr std::size_t kChunkBytes = 4 * LaneWords::kWords;
  LaneWords& chunk(std::uint32_t offset) {
    auto& chunk = chunks_[offset / kChunkBytes];
    if (chunk == nullptr) chunk = std::make_unique<LaneWords>();
    return *chunk;
  }
  bool note_run(const Moment& when, const Access& access, int lane);
  template <class Found>
  void note(const Moment& when, const Access& access, Found found);
  std::vector<std::unique_ptr<LaneWords>> chunks_;
  std::vector<LaneLog<std::uint32_t>> logs_;  ///< by warp
};

/// Those of the words of global memory that a warp used lately: of two that share an entry the later one.
class GlobalWords {
 public:
  using Access = WarpAccess<std::uint64_t>;
  void access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
              LaneWords::How how);
  /// By lanes of the warp, one after another.
  void access_lanes(Warp& w, const Access& access);
  /// Whether other lanes than `lanes` have made weak accesses that not all lanes of the warp know of, or may have.
  bool unmet(const LaneClock& clock, std::uint32_t lanes) const {
    return log_.elsewhere(clock) || log_.any_weak(clock, lanes);
  }
  struct Unmet {
    std::uint64_t word = 0;  ///< address / 4
    std::uint32_t lanes = 0, time = 0, op = 0;
    bool write = false;
  };
  /// Appends weak accesses of whole words that not all lanes know of; those that were told of may come again.
  void tell_unmet(const LaneClock& clock, std::vector<Unmet>& into);

 private:
  static constexpr std::size_t kEntries = 1024;
  struct Chunk : RecycledObject {
    std::array<std::uint64_t, LaneWords::kWords> address{};  ///< in words
    LaneWords words;
  };
  Chunk& entry(std::uint64_t word, std::size_t count);
  template <class Found>
  void note(const Moment& when, const Access& access, Found found);
  std::array<std::unique_ptr<Chunk>, kEntries / LaneWords::kWords> chunks_;
  LaneLog<std::uint64_t> log_;
};

}  // namespace kiln::emulator
