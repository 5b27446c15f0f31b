// Reads of global memory that nothing orders after another wave's write, and writes that nothing orders after another
// wave's write or read. Internal.
//
// A wave's epoch grows where its writes become known to be over: at a wait that retires one, and at barriers; and at a
// write after a read, since a read whose value came may be passed on before a later write is over.
// A write is known to a wave of another block once it was waited for and an atomic (or a store of one lane that
// a glc or sc load reads) passed that on. Within a block a barrier is enough, without a wait: its waves share a
// compute unit, which performs their accesses in order (LLVM's memory model for these targets), unless the
// kernel lets a block be split. What caches need (buffer_wbl2, buffer_inv) is not judged.
//
// Memory is looked at two bytes at a time: of each two the last writer and what it wrote (equal values may meet), and the
// last reader since somebody wrote to that page, each with which of the two bytes it touched in that epoch. A reader
// counts as done when it passes anything on. Not judged as writes: stores of one lane and glc or sc stores, which may be
// flags that several waves set, and atomics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace kiln::emulator::amdgcn {

struct Inst;
struct Pending;
struct Wave;
struct Workgroup;

/// Latest known epoch of waves of other blocks, by their number in the launch. Shared and never changed.
using RemoteEpochs = std::map<std::uint64_t, std::uint32_t>;
using RemotePtr = std::shared_ptr<const RemoteEpochs>;

/// What a wave knows to be over.
struct WaveClock {
  std::uint32_t epoch = 1;           ///< its own
  std::vector<std::uint32_t> block;  ///< of the waves of its block
  std::vector<std::uint32_t> met;    ///< of these, what comes before its own accesses, over or not
  bool read = false;                 ///< it has read in this epoch
  RemotePtr remote;                  ///< of others
};

/// Shared by all host threads of a launch.
class GlobalRaces {
 public:
  /// A load or store of one lane, when it is issued.
  void read(Wave& w, const Inst& in, int lane, std::uint64_t address, int bytes, bool strong);
  /// `data`: the bytes that are stored. `flag`: stored by one lane, for others that may wait for it.
  void write(Wave& w, const Inst& in, int lane, std::uint64_t address, std::span<const std::byte> data,
             bool flag, bool strong);
  /// Before the lanes of a store: what was read is of an earlier epoch.
  static void begin_write(Wave& w);
  /// An atomic of one lane, when it happens: passes on what either side knows.
  void exchange(Wave& w, std::uint64_t address);
  /// A barrier of the block opens.
  static void meet(Workgroup& group);

 private:
  struct Access {
    std::uint64_t agent = 0;  ///< wave of the launch, from 1; 0: nobody
    const Inst* inst = nullptr;
    std::uint32_t epoch = 0;
    std::uint8_t which = 0;  ///< of the two bytes of a cell, one bit each
  };
  /// Two bytes.
  struct Cell {
    Access writer, reader;       ///< the last ones
    std::uint8_t value[2] = {};  ///< what the writer wrote
  };
  using Page = std::array<Cell, 2048>;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages;
    std::unordered_map<std::uint64_t, RemotePtr> variables;
  };
  /// Calls visit(cell, address of its first byte, which of its bytes) for each cell of an access, whose page's lock is
  /// held meanwhile. Pages that nobody wrote are left out, unless `make` makes these.
  template <class Visit>
  void each_cell(std::uint64_t address, int bytes, bool make, Visit visit);
  static void note(Access& last, const Access& own, std::uint8_t which);
  /// `does` with the memory at `address` what disagrees with the other access, as `how` says.
  static void report(Wave& w, const Inst& in, int lane, std::uint64_t address, const Access& other,
                     const char* does, const char* how);
  Shard& shard_of(std::uint64_t address) { return shards_[address >> 12 & 63]; }
  std::array<Shard, 64> shards_;
  std::atomic<bool> any_{false};
};

}  // namespace kiln::emulator::amdgcn
