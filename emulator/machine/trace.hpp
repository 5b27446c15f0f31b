// What the warps of a launch's first block waited for, in the order they came by: for pictures of a run, of PTX and of
// CDNA programs alike. Off unless a TraceScope is alive. Internal.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kiln::emulator {

struct Warp;
struct Op;
struct Dim3;

/// What warp instructions ask of the machine, in units of one warp instruction or in bytes of the whole warp: for the
/// cycle model. Instructions are those of PTX, as ptxas is known to translate them (moves cost nothing).
struct TraceWork {
  std::uint32_t issue = 0;   ///< issue slots
  std::uint32_t fma = 0;     ///< instructions of the FP32 pipe, two for packed pairs
  std::uint32_t alu = 0;     ///< integers, logic, comparisons, minima and maxima, packing conversions
  std::uint32_t mufu = 0;    ///< exponentials, reciprocals, conversions between integers and floats
  std::uint32_t shared = 0;  ///< bytes of shared memory, shuffles included
  std::uint32_t tensor = 0;  ///< bytes of tensor memory
  std::uint32_t global = 0;  ///< bytes of global memory

  void add(const TraceWork& o);
};
/// Of one execution of an instruction by a full warp.
TraceWork work_of(const Warp& w, const Op& op);

struct TraceEvent {
  enum class What : std::uint8_t {
    arrive,        ///< at mbarrier `id` in phase `phase`
    copy,          ///< a bulk copy of `count` bytes begins that completes at mbarrier `id` in phase `phase`
    wait,          ///< phase `phase` of mbarrier `id` was complete
    bar_arrive,    ///< at named barrier `id` in generation `phase`
    bar_wait,      ///< that generation was complete
    commit,        ///< a group of cp.async
    commit_wait,   ///< all but the latest `count` groups were complete
    wgmma_commit,  ///< a group; `count` wgmmas were issued so far
    wgmma_wait,    ///< all but the latest `count` groups were complete
    tensor_commit,  ///< at mbarrier `id` in phase `phase`, after `count` tcgen05 instructions; of a trace without costs
    memory_wait,  ///< CDNA: counter `id` (0 vmcnt, 1 lgkmcnt); the youngest operation waited for was issued at
                  ///< instruction `phase`; `count` 0: from memory, 1: from LDS, 2: through the scalar cache
    wgmma,  ///< one warp's part: `count` FLOP of the four, `phase` bytes of shared memory, `id` bits of a value
    mma,    ///< tcgen05.mma: `count` FLOP of a CTA, `phase` bytes of its shared memory, `id` bits of a value
    mma_commit,   ///< tcgen05.commit on mbarrier `id` in phase `phase`, of what the warp issued before
    tensor_wait,  ///< tcgen05.wait::ld or ::st
    end,          ///< of the warp
  };
  What what = What::arrive;
  int warp = 0;
  int line = 0;                    ///< of the source, 0: unknown
  std::uint64_t instructions = 0;  ///< that the warp has executed, mma.sync and MFMA counted as 16
  std::uint32_t id = 0;  ///< a barrier's number; of an mbarrier its bytes from the start of shared memory
  std::uint64_t phase = 0, count = 0;
  std::uint64_t again =
      0;           ///< of a copy, in a trace with costs: bytes that blocks of the launch had copied before
  TraceWork work;  ///< of the warp since its event before; of a trace with costs
};

class Trace {
 public:
  static constexpr std::size_t kMost = 20000;  ///< events; later ones are dropped

  /// `costs`: also what the cycle model needs, TraceEvent::work and the kinds from `wgmma` on.
  explicit Trace(bool costs = false, std::size_t most = kMost) : costs_(costs), most_(most) {}
  bool costs() const { return costs_; }
  bool complete() const { return events_.size() < most_; }
  /// Where the work of a warp is summed up; null: no costs are wanted.
  TraceWork* work(const Warp& w);

  void note(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase,
            std::uint64_t count, std::uint64_t again = 0);
  void add(const TraceEvent& event);
  /// Of these `bytes` of global memory, which a block (`first`: the first) copies now, how many come from L2: what the
  /// launch has copied before, by its 64 bytes. What both the first block and another copy counts half, whoever is first:
  /// the first block's event is changed when another copies the same later.
  std::uint64_t copied_before(std::uint64_t address, std::uint64_t bytes, bool first);
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  bool costs_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<TraceEvent> events_;
  /// Of a piece of 64 bytes: the first block's event that copied it alone, + 1.
  static constexpr std::size_t kByOthers = 0, kShared = ~std::size_t{0};
  std::unordered_map<std::uint64_t, std::size_t> copied_;
  std::array<TraceWork, 64> work_{};  ///< by warp
};

/// The launches of the process write into `trace` while it is alive; one at a time.
class TraceScope {
 public:
  explicit TraceScope(Trace& trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

/// The trace that is being written, when `block` is the first of its launch; else null.
Trace* traced(const Dim3& block);

/// The trace with costs that is being written, whatever the block: what all blocks copy tells what comes from L2.
Trace* traced_costs();

/// Where run_warp sums up what a warp executes; null unless it is of the first block and someone wants costs.
TraceWork* traced_work(const Warp& w);
/// Writes an event of a warp of the first block, when someone traces.
void trace(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase = 0,
           std::uint64_t count = 0, std::uint64_t again = 0);

}  // namespace kiln::emulator
