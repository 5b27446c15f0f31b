// Asynchronous work in flight: cp.async copies, bulk and tensor copies, wgmma. Completed by the launch's
// policy.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "emulator/machine/program.hpp"
#include "emulator/machine/races.hpp"
#include "emulator/tensor/tma.hpp"

namespace kiln::emulator {

struct Block;
struct Cluster;
struct Warp;

/// One lane's cp.async, or its cp.async.mbarrier.arrive.
struct LaneCopy {
  std::uint8_t lane = 0;
  std::uint8_t bytes = 0, source_bytes = 0;
  bool arrive = false;
  bool done = false;         ///< completed while an older one still waits
  std::uint64_t issued = 0;  ///< number of the instruction among the cluster's asynchronous ones
  std::uint32_t group = 0;   ///< commits of the lane before it
  std::uint32_t shared = 0;  ///< destination, or the mbarrier
  std::uint64_t global = 0;
  const Op* op = nullptr;
  std::shared_ptr<const Clock> published;  ///< of an arrival
};
struct CopyQueue {
  std::deque<LaneCopy> pending;  ///< in the order of issue; the first of them is not done
  std::uint32_t committed[32] = {};
  std::uint64_t latest = 0;  ///< the global address of the latest copy, for prefetching
};

/// One bulk copy.
struct BulkCopy {
  enum class Kind : std::uint8_t { load, store, shared_to_shared, value } kind = Kind::load;
  const Op* op = nullptr;
  Warp* warp = nullptr;
  std::uint8_t lane = 0;
  bool reduce = false, tensor = false, source_read = false;
  ReduceOp reduce_op = ReduceOp::add;
  TensorType type = TensorType::u8;
  std::uint64_t pattern = 0;        ///< out-of-bounds fill
  Block* source = nullptr;          ///< of stores and shared_to_shared
  std::vector<Block*> targets;      ///< blocks written (loads)
  std::uint32_t mbarrier = 0;       ///< offset, in every target
  Block* mbarrier_block = nullptr;  ///< where not in the target itself
  std::uint64_t phase = 0;          ///< of the first mbarrier when issued
  std::uint32_t bytes = 0;          ///< that complete_tx counts
  std::uint64_t issued = 0;         ///< as of LaneCopy
  std::uint32_t group = 0;          ///< bulk groups of the lane committed before it (stores)
  std::vector<BoxRun> runs;
  std::uint32_t source_offset = 0;   ///< shared_to_shared
  Clock published;                   ///< what a waiter on the mbarrier learns
  std::vector<std::uint8_t> staged;  ///< what a store has read, or a value to write
};

/// wgmmas of one warpgroup, in order; each runs once all four warps have issued it.
struct WgmmaIssue {
  const Op* op = nullptr;
  std::uint32_t warps = 0;  ///< that issued it
  bool scale_d = true;
  std::uint64_t desc_a = 0, desc_b = 0;
  const std::uint8_t* registers[4] = {};
  TileWriters writers;                                            ///< of its operands
  std::shared_ptr<std::array<std::uint32_t, 128>> metadata = {};  ///< of sparse forms, as they were at issue
};
struct WgmmaQueue {
  std::deque<WgmmaIssue> pending;
  std::uint64_t completed = 0;  ///< ops done; pending[0] is number `completed`
  std::deque<const Op*> done;   ///< the latest of those done, the first of them number `first_done`
  std::uint64_t first_done = 0;
};

/// Completes lane copies of groups older than the newest `keep` (-1: everything, uncommitted too) of lanes in
/// `mask`.
void complete_copies(Warp& w, std::uint32_t mask, int keep);
/// Copies that never enter the queue.
void complete_at_once(Warp& w, std::span<const LaneCopy> copies);
/// Completes `count` entries of a warp's queue from `first` on, each with what it has to follow: copies
/// follow nothing, an arrival all that its lane began before.
void complete_from(Warp& w, std::size_t first, std::size_t count);
void complete_bulk(Cluster& c, std::size_t index);
/// Reads a store's source now, leaving its writes for later.
void read_bulk_source(BulkCopy& b);
/// Runs the warpgroup's wgmmas up to number `until`; false if a warp has not issued one of them yet.
bool complete_wgmma(Block& b, WgmmaQueue& q, std::uint64_t until);
/// Completes one operation in flight; with `any` false only what some group waits for if there is such.
/// False: none left.
bool complete_one(Cluster& c, bool chosen_at_random);
bool anything_pending(const Cluster& c);

}  // namespace kiln::emulator
