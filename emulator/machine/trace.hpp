// What the warps of a launch's first block waited for, in the order they came by: for pictures of a run, of PTX and of
// CDNA programs alike. Off unless a TraceScope is alive. Internal.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace kiln::emulator {

struct Warp;
struct Op;
struct Dim3;

struct TraceEvent {
  enum class What : std::uint8_t {
    arrive,         ///< at mbarrier `id` in phase `phase`
    copy,           ///< a bulk copy of `count` bytes begins that completes at mbarrier `id` in phase `phase`
    wait,           ///< phase `phase` of mbarrier `id` was complete
    bar_arrive,     ///< at named barrier `id` in generation `phase`
    bar_wait,       ///< that generation was complete
    commit,         ///< a group of cp.async
    commit_wait,    ///< all but the latest `count` groups were complete
    wgmma_commit,   ///< a group; `count` wgmmas were issued so far
    wgmma_wait,     ///< all but the latest `count` groups were complete
    tensor_commit,  ///< at mbarrier `id` in phase `phase`, after `count` tcgen05 instructions
    memory_wait,  ///< CDNA: counter `id` (0 vmcnt, 1 lgkmcnt); the youngest operation waited for was issued at
                  ///< instruction `phase`; `count` 0: from memory, 1: from LDS, 2: through the scalar cache
  };
  What what = What::arrive;
  int warp = 0;
  int line = 0;                    ///< of the source, 0: unknown
  std::uint64_t instructions = 0;  ///< that the warp has executed, mma.sync and MFMA counted as 16
  std::uint32_t id = 0;  ///< a barrier's number; of an mbarrier its bytes from the start of shared memory
  std::uint64_t phase = 0, count = 0;
};

class Trace {
 public:
  static constexpr std::size_t kMost = 20000;  ///< events; later ones are dropped

  void note(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase,
            std::uint64_t count);
  void add(const TraceEvent& event);
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  std::mutex mutex_;
  std::vector<TraceEvent> events_;
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

/// Writes an event of a warp of the first block, when someone traces.
void trace(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase = 0,
           std::uint64_t count = 0);

}  // namespace kiln::emulator
