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
#include "emulator/machine/value_order.hpp"

namespace kiln::emulator {

struct Warp;

/// Scopes of strong accesses, as flags of an Op; without either it is that of the GPU or wider.
inline constexpr unsigned kCtaScope = 0x800, kClusterScope = 0x1000;

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
  void publish(Warp& w, const Op& op, int lane, std::uint64_t address, Order order, bool continues);
  /// After a strong read of `address`. (Before it, a write between the two would be seen and not known of.)
  void observe(Warp& w, const Op& op, std::uint64_t address, Order order);
  /// A strong access meets another one of a block that is outside the scope of one of the two: they race.
  void check_scope(Warp& w, const Op& op, int lane, std::uint64_t address, bool write);

 private:
  struct Slot {
    std::uint32_t cluster = 0, epoch = 0, op = 0;  ///< epoch 0: nothing
    std::uint16_t agent = 0, mask = 0;             ///< mask: bytes of the cell
  };
  struct Cell {
    Slot write, read;
  };
  static_assert(sizeof(Cell) == 32);
  /// A write of what the latest write had stored, unordered with that: who follows it may read.
  struct Same {
    Slot base, by;
  };
  /// An access with what follows from it; `by` as it is noted in slots.
  struct Judged;
  Judged judged(Warp& w, const Op& op, bool write, std::uint32_t unit, std::uint32_t epoch) const;
  static bool ordered(const Judged& a, const Slot& s);
  static bool plain(const Judged& a, const Cell& cell, std::uint16_t mask);
  static void note(const Judged& a, Cell& cell, std::uint16_t mask);
  void judge(Judged& a, std::uint64_t address, std::uint32_t bytes);
  bool write_depends(const Judged& a, const Slot& read);
  void conflict(Warp& w, const Op& op, int lane, std::uint64_t address, const Slot& other, bool write,
                bool other_write, const char* why = "nothing orders the two");
  void note_same(std::uint64_t cell, const Slot& base, const Slot& by);
  /// Whether `ordered` holds of a write that stored the same as `base`.
  template <class F>
  bool same_ordered(std::uint64_t cell, const Slot& base, std::uint16_t mask, F ordered);

  std::uint64_t base_ = 0;
  std::size_t bytes_ = 0;
  Cell* cells_ = nullptr;
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
  const bool narrow_scopes_;
  ValueOrder values_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported_;
};

}  // namespace kiln::emulator
