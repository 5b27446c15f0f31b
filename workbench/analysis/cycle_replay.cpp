#include "workbench/analysis/cycle_replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace kiln {
namespace {

using emulator::TraceEvent;
using emulator::TraceWork;
using What = TraceEvent::What;

constexpr std::size_t kPartitions = 4;
constexpr double kSlice = 8;  // issue slots that a warp gets at once

/// A resource over time. Reservations do not come in the order of time (a product that queues takes shared memory's
/// port later than a copy that begins after it was issued), so each takes what is free from its beginning on.
class Calendar {
 public:
  /// Takes `clocks` from `from` on; returns when they are done.
  double take(double from, double clocks) {
    busy_ += clocks;
    double left = clocks, end = from + clocks;
    for (auto b = static_cast<std::size_t>(from / kBucket); left > 1e-9; ++b) {
      if (b >= used_.size()) used_.resize(b + 64, 0);
      const double open = b == static_cast<std::size_t>(from / kBucket)
                              ? std::min(kBucket - used_[b], kBucket * static_cast<double>(b + 1) - from)
                              : kBucket - used_[b];
      const double part = std::min(left, open);
      if (part <= 0) continue;
      used_[b] += part;
      left -= part;
      if (left <= 1e-9) end = std::max(end, kBucket * static_cast<double>(b) + used_[b]);
    }
    return end;
  }
  double busy() const { return busy_; }

 private:
  static constexpr double kBucket = 32;
  std::vector<double> used_;
  double busy_ = 0;
};

std::size_t index_of(CycleResource r) {
  return static_cast<std::size_t>(r);
}

/// A phase of a barrier: complete when all of its arrivals have come.
struct Phase {
  int missing = 0;
  double complete = 0;
  std::vector<std::size_t> waiters;  ///< agents
};
struct Key {
  int instance = 0;
  bool named = false;
  std::uint32_t id = 0;
  std::uint64_t phase = 0;
  bool operator<(const Key& o) const {
    return std::tie(instance, named, id, phase) < std::tie(o.instance, o.named, o.id, o.phase);
  }
};

/// One warp.
struct Agent {
  int instance = 0, warp = 0;
  std::vector<const TraceEvent*> events;
  std::size_t at = 0;
  int slices = -1;  ///< left of the work before the event; -1: not begun
  double time = 0;
  double matrix_end = 0;       ///< of the latest product that it issued
  std::vector<double> groups;  ///< ends of committed groups of wgmma
};

class Replay {
 public:
  Replay(const emulator::Trace& trace, const CycleMachine& machine, int resident) : machine_(machine) {
    for (int instance = 0; instance < resident; ++instance) add(trace, instance);
  }

  CycleReplay run() {
    for (std::size_t i = 0; i < agents_.size(); ++i) ready_.push({agents_[i].time, i});
    while (!ready_.empty()) {
      const std::size_t i = ready_.top().second;
      ready_.pop();
      if (step(i) && agents_[i].at < agents_[i].events.size()) ready_.push({agents_[i].time, i});
    }
    CycleReplay out;
    for (const Agent& a : agents_) out.clocks = std::max(out.clocks, a.time);
    for (std::size_t r = 0; r < out.busy.size(); ++r)
      for (std::size_t p = 0; p < kPartitions; ++p)
        out.busy[r] = std::max(out.busy[r], calendars_[r][p].busy());
    return out;
  }

 private:
  void add(const emulator::Trace& trace, int instance) {
    std::map<int, std::size_t> of_warp;
    for (const TraceEvent& e : trace.events()) {
      const auto [found, first] = of_warp.try_emplace(e.warp, agents_.size());
      if (first) {
        agents_.emplace_back();
        agents_.back().instance = instance, agents_.back().warp = e.warp;
      }
      agents_[found->second].events.push_back(&e);
      if (e.what == What::arrive || e.what == What::copy || e.what == What::mma_commit ||
          e.what == What::bar_arrive)
        ++phases_[key_of(e, instance)].missing;
    }
  }
  static Key key_of(const TraceEvent& e, int instance) {
    return {instance, e.what == What::bar_arrive || e.what == What::bar_wait, e.id, e.phase};
  }

  /// Takes `clocks` of a resource from `from` on; returns when it is done.
  double take(CycleResource r, std::size_t partition, double from, double clocks) {
    return calendars_[index_of(r)][partition].take(from, clocks);
  }

  /// The end of a copy: from memory what the launch has not copied before, all of it by way of L2.
  double copy(const TraceEvent& e, double from) {
    const double all = static_cast<double>(e.count), again = static_cast<double>(e.again);
    if (machine_.again_bytes == 0) return take(CycleResource::copy, 0, from, all / machine_.copy_bytes);
    const double end = take(CycleResource::copy, 0, from, (all - again) / machine_.copy_bytes);
    return std::max(end, from_l2_.take(from, all / machine_.again_bytes));
  }

  /// One step of an agent; false: it waits, and somebody else will bring it back.
  bool step(std::size_t index) {
    Agent& a = agents_[index];
    const TraceEvent& e = *a.events[a.at];
    if (a.slices < 0) a.slices = static_cast<int>(std::ceil(e.work.issue / kSlice));
    if (a.slices > 0) {
      work(a, e.work, std::ceil(e.work.issue / kSlice));
      --a.slices;
      return true;
    }
    if (!happen(a, index, e)) return false;
    ++a.at;
    a.slices = -1;
    return true;
  }

  /// One of `parts` equal parts of some work.
  void work(Agent& a, const TraceWork& w, double parts) {
    const auto p = static_cast<std::size_t>(a.warp) % kPartitions;
    const double begin = a.time;
    double end = begin;
    const auto use = [&](CycleResource r, std::size_t partition, double clocks) {
      if (clocks > 0) end = std::max(end, take(r, partition, begin, clocks / parts));
    };
    use(CycleResource::issue, p, w.issue * machine_.issue);
    use(CycleResource::fma, p, w.fma * machine_.fma);
    use(CycleResource::alu, p, w.alu * machine_.alu);
    use(CycleResource::mufu, p, w.mufu * machine_.mufu);
    use(CycleResource::tensor_memory, p, w.tensor / machine_.tensor_memory_bytes);
    use(CycleResource::shared, 0, w.shared / machine_.shared_bytes);
    a.time = end;
  }

  /// Somebody arrives at a phase at `time`; the last one lets the waiters go on.
  void arrive(const Key& key, double time) {
    Phase& phase = phases_[key];
    phase.complete = std::max(phase.complete, time);
    if (--phase.missing > 0) return;
    for (const std::size_t w : phase.waiters) {
      agents_[w].time = std::max(agents_[w].time, phase.complete);
      ready_.push({agents_[w].time, w});
    }
    phase.waiters.clear();
  }

  bool wait(Agent& a, std::size_t index, const Key& key) {
    Phase& phase = phases_[key];
    if (phase.missing > 0) {
      phase.waiters.push_back(index);
      return false;
    }
    a.time = std::max(a.time, phase.complete) + machine_.wait_latency;
    return true;
  }

  /// A product goes into a pipe that works in order: the multiprocessor's, or the sub-partition's for a warp's part of
  /// a warpgroup's. It takes as long as its operands need to come from shared memory, if that is longer.
  void multiply(Agent& a, const TraceEvent& e) {
    const bool whole = e.what == What::mma;
    const std::size_t p = whole ? 0 : static_cast<std::size_t>(a.warp) % kPartitions;
    const double rate = machine_.tensor_flop_16bit * 16 / std::max<double>(e.id, 1);
    const double bytes = static_cast<double>(e.phase) / (whole ? 1 : kPartitions);
    const double begin = std::max(pipe_[p], a.time);
    pipe_[p] = std::max(take(CycleResource::matrix, p, begin, static_cast<double>(e.count) / rate),
                        take(CycleResource::shared, 0, begin, bytes / machine_.shared_bytes));
    a.matrix_end = pipe_[p];
  }

  bool happen(Agent& a, std::size_t index, const TraceEvent& e) {
    const Key key = key_of(e, a.instance);
    switch (e.what) {
      case What::arrive:
      case What::bar_arrive:
        arrive(key, a.time);
        break;
      case What::wait:
      case What::bar_wait:
        return wait(a, index, key);
      case What::copy:
        arrive(key, copy(e, a.time) + machine_.copy_latency);
        take(CycleResource::shared, 0, a.time, static_cast<double>(e.count) / machine_.shared_bytes);
        break;
      case What::wgmma:
      case What::mma:
        multiply(a, e);
        break;
      case What::mma_commit:
        arrive(key, std::max(a.time, a.matrix_end) + machine_.matrix_latency);
        break;
      case What::wgmma_commit:
        a.groups.push_back(a.matrix_end);
        break;
      case What::wgmma_wait:
        if (a.groups.size() > e.count)
          a.time = std::max(a.time, a.groups[a.groups.size() - 1 - e.count] + machine_.matrix_latency);
        break;
      case What::tensor_wait:
        a.time += machine_.load_latency;
        break;
      default:
        break;
    }
    return true;
  }

  const CycleMachine& machine_;
  std::vector<Agent> agents_;
  std::map<Key, Phase> phases_;
  using Ready = std::pair<double, std::size_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  Calendar calendars_[static_cast<std::size_t>(CycleResource::count)][kPartitions];
  Calendar from_l2_;               ///< the way of all copies, where `copy` is that of those from memory
  double pipe_[kPartitions] = {};  ///< when each pipe of products has done what it was given
};

}  // namespace

CycleReplay replay_cycles(const emulator::Trace& trace, const CycleMachine& machine, int resident) {
  return Replay(trace, machine, resident).run();
}

}  // namespace kiln
