// Happens-before race detection on shared memory. Every warp is an agent with a vector clock, and so is each
// of its asynchronous units (wgmma, bulk stores, cp.async, bulk loads by mbarrier): an asynchronous operation
// is ordered after its issue, and before a thread only through the wait that retires it. Barriers carry
// clocks from arrivals to waits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/machine/recycled.hpp"

namespace kiln::emulator {

struct Block;
struct ByteRange;
struct Cluster;
struct Site;
struct Warp;

/// How a strong access orders others around it.
enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel };

enum class Unit : std::uint8_t {
  thread,
  wgmma,
  bulk_store,
  cp_async,
  bulk_load,       ///< four, by mbarrier
  bulk_write = 8,  ///< what bulk stores write to global memory
  strong,          ///< atomics and the like of the thread: no race among themselves
  reduction,  ///< of red.async and bulk copies into shared memory, four, by mbarrier; no race with those either
  strong_before = 14  ///< of `strong` what a later atomic of another warp has met unordered
};
inline constexpr std::uint32_t kUnits = 15, kUnitsOfMbarriers = 4;

/// Bytes [offset, offset + bytes) of `block` accessed by the warp itself (`lane` -1: all of it), or by its
/// asynchronous unit. A `silent` write stores what is there already: it disturbs nobody, and whoever is
/// ordered after it may read.
struct SharedAccess {
  Warp& warp;
  const Op& op;
  int lane;
  Block& block;
  std::uint32_t offset, bytes;
  bool write;
  std::uint32_t unit = 0, epoch = 0;
  bool silent = false;
  const std::uint8_t* brings = nullptr;  ///< of a copy: the bytes it will write
};

/// Who wrote what a warpgroup reads together: agents, each with its latest epoch.
struct TileWriters {
  struct Writer {
    std::uint32_t agent = 0, epoch = 0;
  };
  static constexpr std::size_t kMost = 16;
  std::array<Writer, kMost> list;
  std::size_t count = 0;
  bool all = false;  ///< there are no others
};

class RaceTracker {
 public:
  explicit RaceTracker(Cluster& cluster);

  void access(const SharedAccess& access);
  /// Plain accesses by `lanes` of a warp (or by their asynchronous unit) to its own block, one after another, each to
  /// `bytes` at its of `offsets`; those of `silent` write what is there already.
  struct LaneAccesses {
    Warp& warp;
    const Op& op;
    Block& block;
    const std::uint32_t* offsets;  ///< by lane
    std::uint32_t bytes, lanes, silent;
    bool write;
    std::uint32_t unit = 0, epoch = 0;
    const std::uint8_t* const* brings = nullptr;  ///< by lane, as of SharedAccess
  };
  void access_lanes(const LaneAccesses& accesses);
  /// An asynchronous operation of the whole warp, in its own block: the same access to each of `ranges`.
  void access_ranges(SharedAccess access, const std::vector<ByteRange>& ranges);
  /// The same of a read of whole cells which the warps of a warpgroup make together and wait for together, by the first
  /// of them. False, and nothing is noted, where something has to be said; else what the others need to know of it.
  bool read_tile(const SharedAccess& access, const std::vector<ByteRange>& ranges, TileWriters& writers);
  /// Whether `w`, another of the warps, may read through the async proxy what was read then.
  bool may_read_tile(const Warp& w, const TileWriters& writers) const;

  std::uint32_t begin(const Warp& w, std::uint32_t unit) { return ++unit_epoch_[agent(w, unit)]; }
  std::uint32_t last_begun(const Warp& w, std::uint32_t unit) const { return unit_epoch_[agent(w, unit)]; }
  /// The whole warp has waited for everything of `unit` of warp `of` up to `epoch`.
  void retire(const Warp& w, const Warp& of, std::uint32_t unit, std::uint32_t epoch);
  /// Each of `lanes` has waited for what itself had begun of `unit` up to `epoch`; others of the warp know
  /// once they meet it. Of everything up to `floor` nothing is left in flight.
  void retire_own(Warp& w, std::uint32_t unit, std::uint32_t epoch, std::uint32_t floor, std::uint32_t lanes);
  /// What an asynchronous operation publishes when it signals: the past of the lane that issues it now and
  /// itself.
  Clock published(Warp& w, int lane, std::uint32_t unit, std::uint32_t epoch);
  /// Whether `w` knows of what `other` itself had done at `epoch`.
  bool follows(const Warp& w, int lane, const Warp& other, std::uint32_t epoch) const {
    return index(w) == index(other) || knows(w, lane, agent(other, 0), epoch, 0);
  }
  /// Whether a lane of `w` knows all of `clock`.
  bool follows(const Warp& w, int lane, const Clock& clock) const;
  std::uint32_t epoch(const Warp& w) const { return clocks_[index(w)].agents[agent(w, 0)]; }
  std::uint32_t agent(const Warp& w, std::uint32_t unit) const { return index(w) * kUnits + unit; }
  /// Whether a lane of `w` (-1: all of them) knows of accesses by `lanes` of an agent.
  bool knows(const Warp& w, int lane, std::uint32_t agent, std::uint32_t epoch, std::uint32_t lanes) const;
  /// Whether all of `w` know of it at once; a no tells nothing.
  bool known_to_all(const Warp& w, std::uint32_t agent, std::uint32_t epoch) const {
    return clocks_[index(w)].agents[agent] >= epoch;
  }
  bool knows_remote(const Warp& w, int lane, std::uint64_t cluster, std::uint32_t agent, std::uint32_t epoch,
                    std::uint32_t lanes) const;
  /// What a strong load has read, and with what that was stored.
  struct Loaded {
    std::uint64_t address = 0;
    RemotePtr published;
  };
  /// Whether strong loads of `w` itself, of other words, have told it of what `agent` had done, with no fence since.
  bool loaded_unfenced(const Warp& w, std::uint64_t address, std::uint64_t cluster, std::uint32_t agent,
                       std::uint32_t epoch) const;
  void note_loaded(const Warp& w, const Loaded& loaded);
  /// A fence of GPU scope: what was done before may be published, what was seen counts.
  void fence(Warp& w);
  /// `lanes` of `w` have read what `published` was stored with; without `acquire` it counts from the next fence on.
  void observe(Warp& w, std::uint32_t lanes, const RemotePtr& published, bool acquire);
  /// What a write by a lane of `w` makes known: everything so far for a release, else what was fenced.
  RemotePtr publication(Warp& w, int lane, std::uint64_t cluster, bool release);
  /// What `w` does from here on is not part of what it has published.
  void step(Warp& w) { tick(w); }
  /// Whether no lane of `w` has learned at a barrier what the others have not.
  bool alike(const Warp& w) const { return pending_[index(w)].empty(); }
  /// What lanes of `w` know of their cluster.
  Epochs known(const Warp& w, std::uint32_t lanes) const;
  /// Where an agent of any cluster executed `op`.
  Site remote_site(std::uint64_t cluster, std::uint32_t agent, std::uint32_t op) const;
  /// Lanes of `w` publish what they know; or learn what was published.
  void release(Warp& w, Clock& into, std::uint32_t lanes);
  void acquire(Warp& w, const Clock& from, std::uint32_t lanes);
  /// Lanes of `w` have waited for each other, with their memory.
  void synchronize_lanes(Warp& w, std::uint32_t lanes);
  /// Strong accesses by a lane, of the cluster's own threads: before a write, after a read. A release
  /// publishes what the lane knows, a relaxed write what it knew at its last fence; what a relaxed read has
  /// seen counts from the lane's next fence on.
  void strong_write(Warp& w, std::uint64_t address, int lane, Order order);
  void strong_read(Warp& w, std::uint64_t address, int lane, Order order);
  /// Whether a relaxed read or write of one of `w` can publish anything or see what was published.
  bool strong_matters(const Warp& w) const { return !variables_.empty() || !fenced_[index(w)].empty(); }
  void fence_lanes(Warp& w, std::uint32_t lanes);
  /// What `lanes` knew at their last fence: a relaxed arrival publishes no more.
  void release_fenced(Warp& w, Clock& into, std::uint32_t lanes);
  /// A fence between the generic and the asynchronous proxy, for shared memory, global memory or both.
  void proxy_fence(Warp& w, std::uint32_t lanes, bool shared, bool global);
  /// Whether a fence between the proxies covers a write of global memory by a thread of the cluster: of the writer, or
  /// of `w`, which knows of it.
  bool fenced_globally(const Warp& w, std::uint32_t writer, std::uint32_t epoch) const;
  /// All threads of a block have waited for each other: what they did before is known to all of them.
  void block_met(const Block& block);
  /// A thread of another block, or a bulk load, uses a block's shared memory: it must not have ended.
  void visit(Warp& w, const Op& op, int lane, Block& block, std::uint32_t unit, std::uint32_t epoch);
  /// All threads of a block have left: whatever used its memory must be known to one of them.
  void block_ended(Warp& last, const Op& op, Block& block);
  /// Of what a warp begins that completes on the mbarrier at an offset of the block of this rank: loads, reductions.
  std::uint32_t load_unit(const Warp& w, std::uint32_t mbarrier, std::uint32_t rank) {
    return static_cast<std::uint32_t>(Unit::bulk_load) + number_of(w, mbarrier | rank << 24);
  }
  std::uint32_t reduction_unit(const Warp& w, std::uint32_t mbarrier, std::uint32_t rank) {
    return static_cast<std::uint32_t>(Unit::reduction) + number_of(w, mbarrier | rank << 24);
  }

 private:
  struct Slot {
    std::uint16_t agent = 0, mask = 0;  ///< mask: bytes of the cell
    std::uint32_t epoch = 0;            ///< 0: nothing
    std::uint32_t op = 0, lanes = 0;
  };
  /// What is noted of every 16 bytes (a cell) of a block's shared memory. The attributes lie in arrays of their own, as
  /// an access needs few of them, and most arrays are made when first needed.
  struct Cells {
    static constexpr std::size_t kReads = 8, kSame = 4, kOthers = 4;
    enum Mark : std::uint8_t {
      kMore = 1,     ///< further readers are in `more`
      kSplit = 2,    ///< earlier writers of other bytes are in `others`
      kAlike = 4,    ///< `same` has some
      kTwice = 8,    ///< an agent may have two of `reads`
      kBytes = 16,   ///< of the earlier writers some are in `further`
      kReduced = 32  ///< reductions are among the readers: asynchronous ones, earlier atomics
    };
    explicit Cells(std::size_t count) : heads(count), write(count) {}
    /// What every access looks at.
    struct Head {
      std::uint32_t age = 0;  ///< `now` of the latest access
      std::uint8_t marks = 0;
      std::uint8_t readers = 0;  ///< of `reads`; the rest of them is void
    };
    RecycledVector<Head> heads;
    RecycledVector<Slot> write;
    std::uint32_t now = 0;  ///< what is noted of earlier accesses is known to the whole block
    std::array<RecycledVector<Slot>, kReads> reads;
    RecycledVector<std::array<Slot, kSame>>
        same;  ///< later writers of the same bytes; of cp.async the lanes that share it
    std::vector<std::vector<Slot>> more;
    RecycledVector<std::array<Slot, kOthers>> others;  ///< no byte is in two of them
    std::vector<std::vector<Slot>> further;  ///< where `others` is too few: single bytes were written

    /// Whether f(slot) holds of one of a cell's earlier writers.
    template <class F>
    bool any_other(std::size_t cell, F f) {
      if ((heads[cell].marks & kSplit) == 0) return false;
      for (Slot& s : others[cell])
        if (s.epoch != 0 && f(s)) return true;
      return (heads[cell].marks & kBytes) != 0 && std::any_of(further[cell].begin(), further[cell].end(), f);
    }
  };
  /// What some lanes of a warp know and the others do not yet.
  struct Pending {
    std::uint32_t lanes = 0;
    Clock clock;
    std::uint32_t time = 0;  ///< of a fence
  };
  /// Own asynchronous work that lanes have waited for and not all lanes know to be done.
  struct Retired {
    std::uint32_t unit = 0, epoch = 0, floor = 0, lanes = 0, time = 0;
  };
  /// The latest use of a block's memory by an agent that its end must wait for.
  struct Visit {
    std::uint32_t epoch = 0, lanes = 0, op = 0;
  };
  /// A fence of GPU scope by some lanes.
  struct Fence {
    std::uint32_t lanes = 0, time = 0;
  };
  /// Those since all lanes of a warp have met; `base` is what they made visible of all lanes.
  struct Fences {
    std::vector<Fence> list;
    std::uint32_t base = 0;
  };
  std::uint32_t number_of(const Warp& w, std::uint32_t mbarrier);
  Known fenced_by(Warp& w, int lane);
  void tick(Warp& w);
  void settle_retired(Warp& w);
  bool retired(const Warp& w, int lane, std::uint32_t unit, std::uint32_t epoch, std::uint32_t by) const;
  const Warp& warp_of(std::uint32_t agent) const;
  Clock snapshot(const Warp& w, std::uint32_t lanes) const;
  Clock& pending(Warp& w, std::uint32_t lanes);
  std::uint32_t index(const Warp& w) const;
  /// An access with what follows from it; `epoch` and `lanes` as they are noted in slots.
  struct Judged;
  Judged judged(const SharedAccess& a) const;
  void access_cells(Judged& a);
  static void forget(Cells& cells, std::size_t cell);
  bool all_settled(const Judged& a, const Cells& cells, std::size_t cell, std::uint16_t mask) const;
  static bool repeats(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  static bool replace_cell(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  void access_cell(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void report_conflict(const Judged& a, const Slot& s, std::uint32_t at, bool other_write);
  bool ordered(const Judged& a, const Slot& s) const;
  bool ordered_apart(const Judged& a, const Slot& s) const;
  static bool known_at_once(const Judged& a, const Slot& s);
  static void prefetch(const Cells& cells, const LaneAccesses& all);
  bool happened_before(const Judged& a, const Slot& s) const;
  bool scopes_apart(const Judged& a, const Slot& s) const;
  static void note_reduction(Cells& cells, std::size_t cell, const Slot& by);
  bool settled(const Judged& a, const Slot& s) const;
  /// Who read, what and when: all that decides whether a later read may take the slot.
  static std::uint64_t reader_key(const Slot& s);
  bool brings_equal(const SharedAccess& a, const Slot& s, std::uint32_t bytes, std::uint32_t at) const;
  bool meets_equal(const Judged& a, const Slot& s, std::uint16_t mask, std::uint32_t at) const;
  static void note_equal(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  void judge_equal_copies(const Judged& a, const Cells& cells, std::size_t cell, std::uint16_t mask,
                          std::uint32_t at);
  void judge(const Judged& a, const Slot& s, std::uint32_t at);
  bool lacks_proxy_fence(const Judged& a, const Slot& s) const;
  /// True if the access to this part of the cell needs no further look: an equal value of another writer.
  bool meet_writers(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void write_cell(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void reduce_cell(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void meet_readers(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void overtake_reads(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask, std::uint32_t at);
  void read_cell(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  static bool tile_writers(const Cells& cells, const std::vector<ByteRange>& ranges, TileWriters& writers);
  static bool replaces(const Judged& a, const Slot& r, std::uint16_t mask);
  static Slot* slot_as_before(const Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  Slot* free_slot(Judged& a, Cells& cells, std::size_t cell, std::uint16_t mask);
  void conflict(const SharedAccess& a, std::uint32_t address, const Slot& other, bool other_write);
  /// Bytes `mask` of a cell have a new last writer, or (`forget`) one that nobody has to follow.
  static void overwrite(Cells& cells, std::size_t cell, std::uint16_t mask, bool forget);
  static void displace(Cells& cells, std::size_t cell, Slot writer);
  void missing_fence(const SharedAccess& a, std::uint32_t address, const Slot& other);

  Cluster& cluster_;
  std::vector<std::uint32_t> first_warp_;  ///< of each block
  std::vector<Clock> clocks_;              ///< per warp
  std::vector<Clock> proxy_fenced_;        ///< per warp: what it knew at its fences between proxies
  std::vector<Clock> globally_fenced_;     ///< the same of fences that cover global memory
  std::vector<std::uint32_t> unit_epoch_;
  std::vector<Cells> cells_;                                 ///< per block
  std::vector<std::vector<Pending>> pending_;                ///< per warp
  std::vector<std::vector<Pending>> fenced_, observed_;      ///< per warp, see strong_write
  std::vector<std::vector<Loaded>> loaded_;                  ///< per warp, see note_loaded
  std::vector<Fences> unmet_fences_;                         ///< per warp
  std::vector<std::vector<Retired>> retired_;                ///< per warp
  std::vector<std::vector<std::uint32_t>> mbarriers_;        ///< per warp, see number_of
  std::vector<std::vector<Visit>> visits_;                   ///< per block, by agent
  mutable std::array<std::uint64_t, Cells::kReads> seen_{};  ///< see Judged
  std::unordered_map<std::uint64_t, Clock> variables_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported_;
  std::vector<std::uint16_t> actors_;  ///< by agent, whose epochs tell of it: of strong accesses the thread
};

}  // namespace kiln::emulator
