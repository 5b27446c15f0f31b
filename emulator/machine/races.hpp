// Happens-before race detection on shared memory. Every warp is an agent with a vector clock, and so is each
// of its asynchronous units (wgmma, bulk stores, cp.async, bulk loads by mbarrier): an asynchronous operation
// is ordered after its issue, and before a thread only through the wait that retires it. Barriers carry
// clocks from arrivals to waits.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

struct Block;
struct Cluster;
struct Warp;

/// Latest known epoch of every agent; empty means nothing known.
using Clock = std::vector<std::uint32_t>;
void join(Clock& into, const Clock& other);

enum class Unit : std::uint8_t {
  thread,
  wgmma,
  bulk_store,
  cp_async,
  bulk_load
};  ///< bulk_load: four, by mbarrier
inline constexpr std::uint32_t kUnits = 8;

class RaceTracker {
 public:
  explicit RaceTracker(Cluster& cluster);

  /// Bytes [offset, offset + bytes) of `block` accessed by the warp itself, or by its asynchronous unit. A
  /// `silent` write stores what is there already: it disturbs nobody, and whoever is ordered after it may
  /// read.
  void access(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset, std::uint32_t bytes,
              bool write, std::uint32_t unit = 0, std::uint32_t epoch = 0, bool silent = false);

  std::uint32_t begin(const Warp& w, std::uint32_t unit) { return ++unit_epoch_[agent(w, unit)]; }
  /// The warp has waited for everything of `unit` up to `epoch`.
  void retire(Warp& w, std::uint32_t unit, std::uint32_t epoch);
  /// What an asynchronous operation publishes when it signals: its issuer's past and itself.
  Clock published(const Warp& w, std::uint32_t unit, std::uint32_t epoch) const;
  void release(Warp& w, Clock& into);
  void acquire(Warp& w, const Clock& from);
  /// Atomics and strong accesses: whoever meets at an address is ordered.
  void synchronize(Warp& w, std::uint64_t address);
  void proxy_fence(Warp& w);
  static std::uint32_t load_unit(std::uint32_t mbarrier) {
    return static_cast<std::uint32_t>(Unit::bulk_load) + (mbarrier >> 3) % 4;
  }

 private:
  struct Slot {
    std::uint16_t agent = 0, mask = 0;  ///< mask: bytes of the cell
    std::uint32_t epoch = 0;            ///< 0: nothing
    std::uint32_t op = 0;
  };
  struct Cell {  ///< 16 bytes of shared memory
    Slot write;
    std::array<Slot, 3> same;  ///< later writers of the same bytes
    std::array<Slot, 8> reads;
  };
  std::uint32_t index(const Warp& w) const;
  std::uint32_t agent(const Warp& w, std::uint32_t unit) const { return index(w) * kUnits + unit; }
  void conflict(Warp& w, const Op& op, int lane, Block& block, std::uint32_t address, const Slot& other,
                bool write, bool other_write, std::uint32_t unit);
  void missing_fence(Warp& w, const Op& op, int lane, std::uint32_t address, const Slot& other);

  Cluster& cluster_;
  std::vector<std::uint32_t> first_warp_;  ///< of each block
  std::vector<Clock> clocks_, at_fence_;   ///< per warp
  std::vector<std::uint32_t> unit_epoch_, fenced_;
  std::vector<std::vector<Cell>> cells_;  ///< per block
  std::unordered_map<std::uint64_t, Clock> variables_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> reported_;
};

}  // namespace kiln::emulator
