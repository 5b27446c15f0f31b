#include "emulator/machine/trace.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kMmaClocks =
    16;  // of an mma.sync beside other instructions, for the length of a picture's bars

std::atomic<Trace*>& active() {
  static std::atomic<Trace*> trace{nullptr};
  return trace;
}

}  // namespace

void Trace::note(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase,
                 std::uint64_t count, std::uint64_t again) {
  TraceEvent event;
  event.what = what;
  event.warp = w.index;
  event.line = site_of(w, op, -1).source_line;
  event.instructions = std::accumulate(std::begin(w.counts), std::end(w.counts), std::uint64_t{0}) +
                       (kMmaClocks - 1) * w.counts[static_cast<int>(Kind::mma)];
  event.id = id;
  event.phase = phase;
  event.count = count;
  event.again = again;
  if (TraceWork* const sum = work(w)) event.work = std::exchange(*sum, {});
  add(event);
}

void Trace::add(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() < most_) events_.push_back(event);
}

std::uint64_t Trace::copied_before(std::uint64_t address, std::uint64_t bytes, bool first) {
  constexpr std::uint64_t kPiece = 64;
  const std::lock_guard lock(mutex_);
  std::uint64_t again = 0;
  for (std::uint64_t at = address; at < address + bytes;) {
    const std::uint64_t next = std::min((at / kPiece + 1) * kPiece, address + bytes);
    const auto [piece, is_new] = copied_.try_emplace(at / kPiece, first ? events_.size() + 1 : kByOthers);
    std::size_t& by = piece->second;
    if (!is_new && first) {
      again += by == kByOthers ? (next - at) / 2 : next - at;
      by = kShared;
    } else if (!is_new && by != kByOthers && by != kShared) {
      if (by <= events_.size()) events_[by - 1].again += (next - at) / 2;
      by = kShared;
    }
    at = next;
  }
  return again;
}

TraceWork* Trace::work(const Warp& w) {
  return costs_ ? &work_[static_cast<std::size_t>(w.index) % work_.size()] : nullptr;
}

TraceScope::TraceScope(Trace& trace) {
  active() = &trace;
}
TraceScope::~TraceScope() {
  active() = nullptr;
}

Trace* traced(const Dim3& block) {
  Trace* const trace = active().load(std::memory_order_relaxed);
  return trace != nullptr && block.x == 0 && block.y == 0 && block.z == 0 ? trace : nullptr;
}

void trace(const Warp& w, const Op& op, TraceEvent::What what, std::uint32_t id, std::uint64_t phase,
           std::uint64_t count, std::uint64_t again) {
  Trace* const trace = traced(w.block->id);
  if (trace == nullptr) return;
  // The cycle model has the commits of tcgen05 from the pipe, at the end of what they cover.
  const bool for_costs = what >= TraceEvent::What::wgmma;
  if (for_costs != trace->costs() && (for_costs || what == TraceEvent::What::tensor_commit)) return;
  trace->note(w, op, what, id, phase, count, again);
}

Trace* traced_costs() {
  Trace* const trace = active().load(std::memory_order_relaxed);
  return trace != nullptr && trace->costs() ? trace : nullptr;
}

TraceWork* traced_work(const Warp& w) {
  Trace* const trace = traced(w.block->id);
  return trace != nullptr && trace->costs() ? trace->work(w) : nullptr;
}

}  // namespace kiln::emulator
