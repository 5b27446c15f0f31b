// Reads of global memory that nothing orders after another wave's write. Internal.
//
// A wave's epoch grows where its writes become known to be over: at a wait that retires one, and at barriers.
// A write is known to a wave of another block once it was waited for and an atomic (or a store of one lane that
// a glc or sc load reads) passed that on. Within a block a barrier is enough, without a wait: its waves share a
// compute unit, which performs their accesses in order (LLVM's memory model for these targets), unless the
// kernel lets a block be split. Only reads are judged, of whole dwords; what caches need (buffer_wbl2,
// buffer_inv) is not.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
  RemotePtr remote;                  ///< of others
};

/// Shared by all host threads of a launch.
class GlobalRaces {
 public:
  /// A load or store of one lane, when it is issued.
  void read(Wave& w, const Inst& in, int lane, std::uint64_t address, int bytes, bool strong);
  void write(Wave& w, const Inst& in, std::uint64_t address, int bytes, bool single);
  /// An atomic of one lane, when it happens: passes on what either side knows.
  void exchange(Wave& w, std::uint64_t address);
  /// A barrier of the block opens.
  static void meet(Workgroup& group);

 private:
  struct Cell {
    std::uint64_t agent = 0;  ///< wave of the launch, from 1; 0: nobody
    const Inst* inst = nullptr;
    std::uint32_t epoch = 0;
  };
  using Page = std::array<Cell, 1024>;
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages;
    std::unordered_map<std::uint64_t, RemotePtr> variables;
  };
  /// The cell of each dword of an access, whose page's lock is held meanwhile. Dwords of pages that nobody
  /// wrote are left out, unless `make` makes these.
  template <class Visit>
  void each_word(std::uint64_t address, int bytes, bool make, Visit visit);
  Shard& shard_of(std::uint64_t address) { return shards_[address >> 12 & 63]; }
  std::array<Shard, 64> shards_;
  std::atomic<bool> any_{false};
};

}  // namespace kiln::emulator::amdgcn
