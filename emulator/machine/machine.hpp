// The machine's state: launch -> cluster -> block -> warp -> group of lanes that share a program counter.
#pragma once

#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <unordered_map>

#include <kiln/emulator/emulator.hpp>
#include "emulator/machine/async.hpp"
#include "emulator/machine/global_races.hpp"
#include "emulator/machine/lanes.hpp"
#include "emulator/machine/memory.hpp"
#include "emulator/machine/module.hpp"
#include "emulator/machine/passed_waits.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/machine/races.hpp"
#include "emulator/machine/recycled.hpp"
#include "emulator/machine/registers.hpp"

namespace kiln::emulator {

namespace tcgen05 {
struct Unit;
struct WarpState;
}  // namespace tcgen05

struct Block;
struct Cluster;

/// What a group of lanes waits for. The instruction runs again (with `resumed`) once it is there.
enum class WaitKind : std::uint8_t {
  none,
  converge,
  warp_barrier,
  barrier,
  mbarrier,
  cluster_barrier,
  wgmma,
  tensor_memory,
  sleep
};
struct Wait {
  WaitKind kind = WaitKind::none;
  bool timed_out = false;
  Block* block = nullptr;   ///< mbarrier: where it lies
  std::uint32_t id = 0;     ///< barrier number, mbarrier address, converge: mask
  std::uint64_t value = 0;  ///< generation waited to pass, parity, wgmma count
};

/// One call level; shared by the lanes that made the call together.
struct Frame {
  std::shared_ptr<Frame> parent;
  std::uint32_t return_pc = 0;
  std::uint32_t window = 0;  ///< of registers, bytes
  std::uint32_t window_end = 0;
  std::uint32_t local = 0;                 ///< of local memory, bytes per lane
  std::uint32_t state = 0, state_end = 0;  ///< of register states
  std::uint32_t depth = 0;
  std::uint32_t function = 0;
  const void* site = nullptr;  ///< the call, for its results
};

struct Group {
  std::uint32_t pc = 0, mask = 0;
  std::shared_ptr<Frame> frame;
  Wait wait;
  bool resumed = false, timed_out = false;
};

/// Lanes that were told by a mbarrier.try_wait or test_wait that the phase is not complete.
struct FailedTry {
  const Op* op = nullptr;
  std::uint32_t lanes = 0;
};

/// An asynchronous operation of a group that its thread will wait for.
struct UnitEpoch {
  std::uint32_t unit = 0, epoch = 0, group = 0;
  std::uint32_t lanes = 0;  ///< that began it and have not waited
  const Op* op = nullptr;
};

struct Warp {
  // Hot state of the running group.
  const std::uint8_t* base[4] = {};  ///< rows: registers, constants, specials
  std::uint32_t pc = 0, active = 0, exec = 0, stop_pc = 0xffffffffu;
  bool stop = false;  ///< leave the dispatch loop: blocked, exited or group change
  bool resumed = false, timed_out = false;
  bool checked = false;  ///< some registers are owned by wgmma or tcgen05.ld
  std::shared_ptr<Frame> frame;
  Wait wait;

  std::uint32_t carry = 0;  ///< condition code of add.cc and the like, a bit a lane
  std::uint32_t live = 0;   ///< lanes that have not exited
  std::uint32_t exited = 0;
  const Op* exit = nullptr;  ///< of the latest that did
  std::vector<Group> others;
  int index = 0;  ///< in the block
  Block* block = nullptr;
  RecycledVector<std::uint8_t> registers, specials;
  RecycledVector<std::uint8_t> local, local_shadow;  ///< lane-major: 32 x local_bytes
  std::uint32_t local_bytes = 0;
  std::array<std::uint32_t, 32> stack = {};  ///< of alloca: the end of each lane's memory, 0: none
  std::uint64_t counts[static_cast<int>(Kind::count)] = {};
  std::uint64_t lane_instructions = 0;
  std::uint32_t register_budget = 0;  ///< of setmaxnreg
  std::uint64_t cluster_phase = 0;    ///< generation at barrier.cluster.arrive

  CopyQueue copies;  ///< cp.async
  std::vector<FailedTry> failed_tries;
  std::vector<std::shared_ptr<PassedWait>> passed;  ///< by lanes that have not met since
  std::uint64_t wgmma_issued = 0;
  std::deque<std::uint64_t> wgmma_groups;  ///< wgmma_issued at each commit
  std::uint32_t wgmma_epoch = 0;
  std::deque<std::uint32_t> wgmma_epochs;  ///< for the race tracker, at each commit
  std::vector<UnitEpoch> unit_epochs;      ///< bulk stores and cp.async not waited for
  std::uint64_t wgmma_retired = 0;         ///< waited for
  RecycledVector<RegisterState> state;     ///< by register state, see Touch; empty without findings
  RecycledVector<std::uint32_t> clean;     ///< by op: see track_registers; empty without findings
  std::uint32_t times_unknown = 0;         ///< how often some register became unknown
  std::vector<std::uint32_t> origin;  ///< of unknown registers: op index of the load + 1, 0: never written
  std::unordered_map<std::uint32_t, HalvesUnknown>
      halves;                                ///< of unknown 64-bit registers, by register state
  std::vector<UnknownInput> unknown_parts;   ///< what the running instruction leaves unknown
  std::vector<UnknownInput> unknown_inputs;  ///< of the running instruction
  std::vector<std::uint8_t>
      owned;  ///< by register state: 1 written, 2 read by wgmma in flight, 4 by tcgen05.ld
  std::shared_ptr<tcgen05::WarpState> tensor;  ///< its tcgen05.ld and st under way; null: none yet
  LaneClock lanes;
  GlobalWords global_words;
  std::uint32_t launches_before = 0;           ///< lanes that waited for them (griddepcontrol.wait)
  std::uint32_t futile = 0;                    ///< atomics in a row that changed nothing: lanes may spin
  std::uint32_t fence_epoch = 1;               ///< counts wgmma.fence
  std::array<std::uint32_t, 32> bulk_group{};  ///< committed groups of each lane

  template <class T>
  const T* in(Ref r) const {
    return reinterpret_cast<const T*>(base[r & 3] + (r & ~3u));
  }
  template <class T>
  T* out(Ref r) {
    return reinterpret_cast<T*>(const_cast<std::uint8_t*>(base[0]) + r);
  }
  /// Lane value of `size` bytes (0: zero), zero-extended. Size 3 marks a predicate.
  std::uint64_t value(Ref r, std::uint8_t size, int lane) const {
    switch (size) {
      case 1:
        return in<std::uint8_t>(r)[lane];
      case 2:
        return in<std::uint16_t>(r)[lane];
      case 4:
        return in<std::uint32_t>(r)[lane];
      case 8:
        return in<std::uint64_t>(r)[lane];
      case 3:
        return (*in<std::uint32_t>(r) >> lane) & 1;
      default:
        return 0;
    }
  }
  void set(Ref r, std::uint8_t size, int lane, std::uint64_t v) {
    switch (size) {
      case 1:
        out<std::uint8_t>(r)[lane] = static_cast<std::uint8_t>(v);
        break;
      case 2:
        out<std::uint16_t>(r)[lane] = static_cast<std::uint16_t>(v);
        break;
      case 4:
        out<std::uint32_t>(r)[lane] = static_cast<std::uint32_t>(v);
        break;
      case 8:
        out<std::uint64_t>(r)[lane] = v;
        break;
      case 3: {
        std::uint32_t& m = *out<std::uint32_t>(r);
        m = (m & ~(1u << lane)) | (static_cast<std::uint32_t>(v & 1) << lane);
        break;
      }
      default:
        break;
    }
  }
  /// Blocks the running group on `w`: the instruction runs again once that is there.
  void block_on(const Wait& w) {
    wait = w;
    --pc;
    stop = true;
    resumed = timed_out = false;
  }
};

struct NamedBarrier {
  std::uint64_t generation = 0;
  std::uint32_t arrived = 0, expected = 0;
  bool all = false;                           ///< no count given: everyone alive
  std::uint32_t and_ = 1, or_ = 0, popc = 0;  ///< reductions of this generation
  std::uint32_t last_and = 0, last_or = 0, last_popc = 0;
  std::uint32_t warps = 0;    ///< that arrived (bar.arrive) as a whole in this generation
  bool only_arrived = false;  ///< somebody did, and goes on without waiting
  const Op* first = nullptr;
  int first_warp = 0;
  Clock arriving, done;  ///< see races.hpp
};

struct MBarrier {
  std::uint32_t count = 0, pending = 0;
  std::int64_t tx = 0;
  std::uint64_t phase = 0;  ///< completed phases
  const Op* last_expect = nullptr;
  const Op* last_complete = nullptr;
  const Op* init = nullptr;
  int init_warp = 0;
  std::uint32_t init_epoch = 0;  ///< of that warp, for the race tracker
  bool fenced = false;           ///< its initialisation is visible to the asynchronous proxy
  Clock arriving, done;          ///< of this phase, of all completed ones
  std::vector<std::shared_ptr<PassedWait>> passed;  ///< waits for the latest completed phase
};

struct Block {
  Cluster* cluster = nullptr;
  Dim3 id{0, 0, 0};
  std::uint32_t rank = 0;                     ///< in the cluster
  RecycledVector<std::uint8_t> smem, shadow;  ///< indexed by shared address without the rank
  std::vector<Warp> warps;
  NamedBarrier barriers[16];
  std::unordered_map<std::uint32_t, MBarrier> mbarriers;
  std::unique_ptr<LaneTracker> lane_races;  ///< null: findings are off
  std::vector<WgmmaQueue> warpgroups;
  std::uint32_t live_warps = 0;
  bool waited_for_launches = false;  ///< some lane did (griddepcontrol.wait)
  std::uint64_t cluster_arrivals = 0;
  std::uint32_t shared_address() const { return rank << 24; }
  std::uint32_t live_lanes() const {
    std::uint32_t n = 0;
    for (const Warp& w : warps) n += static_cast<std::uint32_t>(std::popcount(w.live));
    return n;
  }
};

/// State shared by all host threads of a launch.
struct LaunchState;

struct Cluster {
  LaunchState* launch = nullptr;
  std::uint64_t index = 0;  ///< of all of the launch
  const Program* program = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<BulkCopy> bulk;  ///< in flight
  std::uint64_t progress = 0;  ///< anything that others could wait for
  std::uint64_t issued = 0;    ///< asynchronous instructions so far
  std::uint64_t instructions = 0;
  bool aborted = false, done = false;
  int idle_rounds = 0;
  bool slept = false;  ///< some warp, since the scheduler last looked
  std::mt19937_64 random;
  std::uint64_t barrier_generation = 0;
  std::uint32_t barrier_arrived = 0;
  Clock barrier_arriving, barrier_done;
  std::unique_ptr<RaceTracker> races;     ///< null: findings are off
  std::shared_ptr<tcgen05::Unit> tensor;  ///< null: the program has no tcgen05
  Counters counters;
  std::string output;
  Policy policy = Policy::eager;
  bool findings = false;
  std::uint32_t live_threads_warps() const {
    std::uint32_t n = 0;
    for (const auto& b : blocks) n += b->live_warps;
    return n;
  }
};

class Mistakes;

struct LaunchState {
  LaunchState();
  ~LaunchState();
  GlobalMemory::Impl* memory = nullptr;
  const Module::Impl* module = nullptr;
  const Program* program = nullptr;
  const Launch* launch = nullptr;
  std::vector<std::uint8_t> constants;
  std::vector<std::uint8_t> params;
  std::vector<std::uint64_t> variable_address;
  std::uint64_t grid_workspace = 0;  ///< address of what blocks of a cooperative launch count in
  std::atomic<std::uint64_t> next_cluster{0};
  std::uint64_t clusters = 0;
  bool several_threads = false;  ///< of the host run them
  std::atomic<std::uint64_t> instructions{0};
  std::atomic<bool> stop{false}, released_dependents{false};
  std::mutex mutex;  ///< report, output
  std::mutex atomics;
  std::unique_ptr<GlobalRaces> globals;  ///< null: findings are off
  Report report;
  std::unique_ptr<Mistakes> mistakes;  ///< the report's findings
  std::string failure;                 ///< an Error raised while executing
  int failure_line = 0;
};

/// Runs the calling thread's share of clusters.
void run_clusters(LaunchState& state);
/// Runs `w` until it stops or `quantum` instructions are done; returns how many ran.
std::uint32_t run_warp(Warp& w, std::uint32_t quantum);
/// Lays out the read-only rows of %tid and the like.
void fill_specials(Warp& w);
/// Chooses the group of `w` that runs next; false if none can.
bool select_group(Warp& w);
/// Lets the runnable group of `w` run that is next after the one that ran last.
void yield_group(Warp& w);
/// Lanes of `mask` leave the program.
void exit_lanes(Warp& w, std::uint32_t mask);
/// Coordinates of block `rank` of a cluster.
Dim3 block_of(const Launch& l, std::uint64_t cluster, std::uint32_t rank);
/// Stops this cluster; the launch goes on reporting.
void abort_cluster(Cluster& c);

// --- findings ---
Site site_of(const Warp& w, const Op& op, int lane);
/// Reports at the running instruction.
void report(Warp& w, const Op& op, int lane, std::string_view kind, std::string message,
            Severity severity = Severity::error);
void report(Warp& w, const Op& op, int lane, std::string_view kind, std::string message, const Site& other,
            Severity severity = Severity::error);
void report(LaunchState& state, Finding finding);
inline void report(Cluster& c, Finding finding) {
  report(*c.launch, std::move(finding));
}

// --- memory ---
enum class Access : std::uint8_t { read, write, atomic };
struct Place {
  std::uint8_t* data = nullptr;  ///< null: no such memory (reported)
  std::uint8_t* shadow = nullptr;
  ptx::Space space = ptx::Space::global;
  Block* block = nullptr;  ///< shared: whose
  std::uint32_t offset = 0;
  bool unwritten = false;  ///< of a load: some byte was never written, and the value may still be harmless
};
/// Finds and checks the memory of one lane's access.
Place locate(Warp& w, const Op& op, ptx::Space space, std::uint64_t address, std::uint32_t bytes, int lane,
             Access access);
/// Reports global memory touched by a lane that did not wait for the launch before.
void check_early_access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                        Access access);
/// Shared memory by shared address (rank included when `any_rank`), unchecked for initialisation; null: out
/// of bounds.
Block* shared_block(Warp& w, std::uint64_t address, bool any_rank);

// --- barriers ---
/// Finds an mbarrier that `w` may use: initialised, and known to `w` to be.
MBarrier* find_mbarrier(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset);
/// Reports a write of bytes where an mbarrier lies.
void check_mbarriers_kept(Warp& w, const Op& op, int lane, Block& block, std::uint32_t offset,
                          std::uint32_t bytes);
void mbarrier_arrive(Cluster& c, MBarrier& m, std::uint32_t count);
/// Reports an arrival in a phase that has all of its own.
void report_overrun(Warp& w, const Op& op, int lane, std::uint32_t offset, const MBarrier& m);
void mbarrier_complete_tx(Cluster& c, MBarrier& m, std::int64_t bytes);
void mbarrier_settle(Cluster& c, MBarrier& m);
void barrier_settle(Block& b, NamedBarrier& n);

}  // namespace kiln::emulator
