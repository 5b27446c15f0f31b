// Races in global memory, between blocks and between threads of a block. Every 16 bytes that a launch touches
// remember their last writer and reader. What orders blocks is the memory model's: a fence of GPU scope and a
// strong write on one side, a strong read of it and a fence on the other (or .release and .acquire).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/lane_log.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/machine/races.hpp"
#include "emulator/machine/unfenced_stores.hpp"
#include "emulator/machine/unmet_words.hpp"
#include "emulator/machine/value_order.hpp"

namespace kiln::emulator {

struct Warp;

/// Scopes of strong accesses, as flags of an Op; without either it is that of the GPU or wider.
inline constexpr unsigned kCtaScope = 0x800, kClusterScope = 0x1000;

/// One cell's owner at a time; pages share locks. Holds the lock of one page.
class PageLock {
 public:
  explicit PageLock(std::array<std::atomic_flag, 256>& flags) : flags_(flags) {}
  ~PageLock() { release(); }
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;
  void take(std::uint64_t offset) {
    std::atomic_flag& flag = flags_[offset >> 12 & 255];
    if (held_ == &flag) return;
    release();
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
    held_ = &flag;
  }
  void release() {
    if (held_ != nullptr) held_->clear(std::memory_order_release);
    held_ = nullptr;
  }

 private:
  std::array<std::atomic_flag, 256>& flags_;
  std::atomic_flag* held_ = nullptr;
};

/// Of two accesses of a word that nothing orders.
inline constexpr const char* kMixedRace =
    "; one of the two is weak (no atomic, volatile or relaxed access), which PTX leaves undefined";

/// Shared by all host threads of a launch.
class GlobalRaces {
 public:
  /// For addresses [base, base + bytes). Takes host memory where cells are touched only.
  GlobalRaces(const Program& program, std::uint64_t base, std::size_t bytes);
  ~GlobalRaces();
  GlobalRaces(const GlobalRaces&) = delete;
  GlobalRaces& operator=(const GlobalRaces&) = delete;

  /// A weak access by the warp, or by its asynchronous unit. `silent`: a write of what is there already.
  void access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes, bool write,
              std::uint32_t unit = 0, std::uint32_t epoch = 0, bool silent = false);
  /// Before the asynchronous proxy reads: whether what threads of the cluster wrote there is fenced for it.
  void check_proxy_fence(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes);
  /// The warp's block takes over a tensor map of 128 bytes as it is now (fence.proxy.tensormap::generic.acquire).
  void acquire_map(Warp& w, const Op& op, std::uint64_t address);
  /// Before a tensor copy reads its map: whether what the launch wrote there is ordered, and the block has taken it over.
  void check_map(Warp& w, const Op& op, int lane, std::uint64_t address);
  /// The same of lanes of a warp, one after another.
  void access_lanes(Warp& w, const Op& op, const WarpAccess<std::uint64_t>& lanes, std::uint32_t unit = 0,
                    std::uint32_t epoch = 0);
  /// What is noted of `address` will be asked for soon.
  void prefetch(std::uint64_t address) const {
    if (address - base_ < bytes_) __builtin_prefetch(cells_ + (address - base_) / 16, 1);
  }
  /// Before a strong write of `address`; `continues`: a read-modify-write, which keeps the release sequence
  /// alive.
  /// `old`: of a store the `bytes` it will overwrite.
  struct Stored {
    const std::uint8_t* old = nullptr;
    std::uint32_t bytes = 0;
  };
  void publish(Warp& w, const Op& op, int lane, std::uint64_t address, Order order, bool continues,
               Stored stored);
  void publish(Warp& w, const Op& op, int lane, std::uint64_t address, Order order, bool continues) {
    publish(w, op, lane, address, order, continues, Stored());
  }
  /// After a strong read of `address` by `lanes`. (Before it, a write between the two would be seen and not known of.)
  void observe(Warp& w, const Op& op, std::uint32_t lanes, std::uint64_t address, Order order);
  /// A strong load: the bytes from before a store of another block that is not visible yet, or null.
  const std::uint8_t* not_visible_yet(Warp& w, const Op& op, int lane, std::uint64_t address,
                                      std::uint32_t bytes);
  /// A fence of GPU scope or wider.
  void fence(Warp& w);
  /// A strong access: it races with weak ones that nothing orders, and with strong ones of a block that is outside the
  /// scope of one of the two. The caller holds the launch's `atomics` from here until the value is read or written and
  /// publish() and observe() are done: what is noted of a word is in the order of its values. `unit`: of the warp's
  /// asynchronous unit, as access().
  void strong_access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes, bool write,
                     std::uint32_t unit = 0, std::uint32_t epoch = 0);
  /// A lane of `w` publishes, and other lanes have done what it does not know of.
  void note_unmet(Warp& w);
  /// What shows when all blocks have ended.
  std::vector<Finding> take_late() { return unfenced_.take(); }

 private:
  struct Slot {
    std::uint32_t cluster = 0, epoch = 0, op = 0;  ///< epoch 0: nothing
    std::uint16_t agent = 0, mask = 0;             ///< mask: bytes of the cell
  };
  struct Cell {
    Slot write, read;
  };
  static_assert(sizeof(Cell) == 32);
  /// Writers of other bytes of a cell than its latest one: where there are some, its `op` has this bit. That of the
  /// latest reader has it where the first reader since the write is noted, which the latest does not follow.
  static constexpr std::uint32_t kBeside = 1u << 31;
  struct Beside {
    std::array<Slot, 3> writers;
    Slot reader;
  };
  static Slot plain_slot(Slot s) {
    s.op &= ~kBeside;
    return s;
  }
  static Slot writer(const Cell& cell) { return plain_slot(cell.write); }
  /// A write of what the latest write had stored, unordered with that: who follows it may read.
  struct Same {
    Slot base, by;
  };
  /// An access with what follows from it; `by` as it is noted in slots.
  struct Judged {
    Warp& w;
    const Op& op;
    const RaceTracker& races;
    Slot by;
    std::uint32_t thread;  ///< agent of the warp itself
    bool write;
    int lane = -1;
    bool silent = false;
  };
  Judged judged(Warp& w, const Op& op, bool write, std::uint32_t unit, std::uint32_t epoch) const;
  static bool ordered(const Judged& a, const Slot& s, std::uint32_t lanes = 0);
  /// Of an access that some lane of its warp has published to whom makes `a`: whether that lane knew of it.
  bool met(const Judged& a, const Slot& s, std::uint64_t cell, std::uint16_t mask, bool write);
  bool plain(const Judged& a, std::uint64_t cell, std::uint16_t mask) const;
  void note(const Judged& a, std::uint64_t cell, std::uint16_t mask);
  void note_beside(const Judged& a, std::uint64_t cell, std::uint16_t mask);
  void overwrite_reads(std::uint64_t cell, std::uint16_t mask);
  void note_reader(const Judged& a, std::uint64_t cell, std::uint16_t mask);
  Slot first_reader(std::uint64_t cell) const {
    return (cells_[cell].read.op & kBeside) != 0 ? beside_[cell].reader : Slot();
  }
  /// A writer of some of these bytes, other than the latest of the cell, that nothing orders before `a`.
  Slot beside(const Judged& a, std::uint64_t cell, std::uint16_t mask);
  void judge(Judged& a, std::uint64_t address, std::uint32_t bytes);
  bool write_depends(const Judged& a, const Slot& read);
  void conflict(Warp& w, const Op& op, int lane, std::uint64_t address, const Slot& other, bool write,
                bool other_write, Severity severity = Severity::error,
                const char* why = "nothing orders the two");
  void check_scope(const Judged& a, std::uint64_t address);
  void follow_strong(const Judged& a, std::uint64_t address);
  void note_strong(const Judged& a, std::uint64_t address, std::uint32_t bytes);
  void meet_weak(const Judged& a, std::uint64_t address, std::uint32_t bytes);
  /// A weak access where there were strong ones.
  void meet_strong(const Judged& a, std::uint64_t address, std::uint32_t bytes);
  static constexpr std::uint64_t kStretch = 256;  ///< bytes
  bool any_strong(std::uint64_t offset) const { return strong_stretches_[offset / kStretch] != 0; }
  void note_same(std::uint64_t cell, const Slot& base, const Slot& by);
  /// Whether `ordered` holds of a write that stored the same as `base`.
  template <class F>
  bool same_ordered(std::uint64_t cell, const Slot& base, std::uint16_t mask, F ordered);

  std::uint64_t base_ = 0;
  std::size_t bytes_ = 0;
  Cell* cells_ = nullptr;
  Beside* beside_ = nullptr;  ///< by cell; null where the host refuses the addresses
  std::array<std::atomic_flag, 256> locks_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, RemotePtr> variables_;
  std::unordered_map<std::uint64_t, std::vector<Same>> same_;  ///< by cell
  /// The latest writes of a tensor map that a block has taken over, by cluster, block and address.
  using MapWrites = std::array<Slot, 8>;
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>, MapWrites> acquired_maps_;
  /// The latest strong write and read, in programs with narrow scopes.
  struct Scoped {
    Slot by;
    std::uint32_t rank = 0;  ///< of the block in its cluster
    unsigned scope = 0;
  };
  std::unordered_map<std::uint64_t, std::array<Scoped, 2>> scoped_;  ///< by address
  /// The latest strong write and read of a word of 4 bytes. A read after the write stays with it: whoever follows the
  /// read follows the write, by the order of one word.
  struct Strong {
    Slot write, read;
    bool read_since = false;
    std::vector<Slot> earlier;  ///< reads that nothing orders before a later one, of each agent the latest
    std::vector<Slot> atomics;  ///< the same of atomics that the later ones have not looked at
  };
  static constexpr std::size_t kEarlierReads = 32, kEarlierAtomics = 8;
  static void note_write(const Judged& a, Strong& s);
  static void note_read(const Judged& a, Strong& s);
  std::unordered_map<std::uint64_t, Strong> strong_;  ///< by offset / 4
  std::uint8_t* strong_stretches_ = nullptr;          ///< whether a stretch of memory has any
  UnfencedStores unfenced_;
  UnmetWords unmet_;
  const bool narrow_scopes_;
  ValueOrder values_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported_;
};

}  // namespace kiln::emulator
