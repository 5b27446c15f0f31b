// An access to shared memory as the race tracker judges it, and whom it follows. For race_cells.cpp and race_writers.cpp.
#pragma once

#include <algorithm>

#include "emulator/machine/machine.hpp"
#include "emulator/machine/races.hpp"

namespace kiln::emulator {

inline constexpr auto kStrongUnit = static_cast<std::uint32_t>(Unit::strong);
inline constexpr auto kCopyUnit = static_cast<std::uint32_t>(Unit::cp_async);

inline constexpr auto kStrongBefore = static_cast<std::uint32_t>(Unit::strong_before);

/// Noted among the readers of a cell, though it writes.
inline bool is_reduction(std::uint32_t unit) {
  return unit >= static_cast<std::uint32_t>(Unit::reduction);
}
inline bool is_strong(std::uint32_t unit) {
  return unit == kStrongUnit || unit == kStrongBefore;
}

[[gnu::always_inline]] inline std::uint64_t RaceTracker::reader_key(const Slot& s) {
  return s.agent | std::uint64_t{s.mask} << 16 | std::uint64_t{s.epoch} << 32;
}

struct RaceTracker::Judged {
  const SharedAccess& access;
  const std::uint16_t* actors;  ///< see actors_
  const std::uint32_t* clock;   ///< epochs that all of the warp know of, by agent
  const std::uint32_t* fenced;  ///< the same at the warp's fences between proxies
  int lane;
  std::uint32_t offset, bytes;
  bool silent;
  std::uint32_t warp;  ///< index
  std::uint32_t self;  ///< agent
  std::uint32_t epoch, lanes, op;
  std::uint32_t
      guarded;  ///< an agent whose epochs in `clock` do not tell what the lane knows: its own warp's threads
  bool by_thread, strong, async_proxy, reduces;
  bool repeatable;   ///< an atomic which scopes hold apart from nothing
  bool plain_write;  ///< that of all bytes of a cell has to look at nothing but who follows whom
  const std::vector<Partial>* partial;  ///< what is known beside `clock`; null: that is not all
  /// Readers of other warps that a cell had, and which of them (or the one after) made room for the read of
  /// `seen_mask`: the next cell mostly has the same.
  std::uint64_t* seen;
  std::size_t seen_count = ~std::size_t{0}, seen_choice = 0;
  std::uint16_t seen_mask = 0;
  std::size_t hint = 0;                    ///< where the latest read was noted
  const std::uint32_t* offsets = nullptr;  ///< by lane, where several of `lanes` are judged together

  /// Of an agent of another warp nothing is known but what `clock` says.
  bool unheard_of(std::uint32_t agent) const {
    return partial != nullptr && agent / kUnits != warp &&
           std::none_of(partial->begin(), partial->end(), [&](const Partial& p) { return p.agent == agent; });
  }
  /// Lanes that copy to one place in one cp.async are one writer.
  bool joins(const Slot& s) const { return !silent && s.agent == self && s.epoch == epoch; }
  [[gnu::always_inline]] void note(Slot& s, std::uint16_t mask) const {
    if (s.agent == self && s.epoch == epoch) {
      s.mask |= mask;
      s.lanes |= lanes;
      s.op = op;
    } else {
      s = {static_cast<std::uint16_t>(self), mask, epoch, op, lanes};
    }
  }
};

/// Whether the warp's clock tells that it follows an access.
[[gnu::always_inline]] inline bool RaceTracker::known_at_once(const Judged& a, const Slot& s) {
  const std::uint32_t by = a.actors[s.agent];
  return by != a.guarded && s.epoch <= a.clock[by];
}

/// Atomics and strong accesses of other blocks than the scope of one of the two has.
[[gnu::noinline]] inline bool RaceTracker::scopes_apart(const Judged& a, const Slot& s) const {
  const auto& ops = cluster_.program->ops;
  return ((a.access.op.flags | ops[s.op].flags) & kCtaScope) != 0 &&
         warp_of(s.agent).block != a.access.warp.block;
}

/// A thread follows its own past; what its units did it follows only once retired.
inline bool RaceTracker::happened_before(const Judged& a, const Slot& s) const {
  if (known_at_once(a, s)) return true;
  const std::uint32_t unit = s.agent % kUnits;
  const std::uint32_t by = is_strong(unit) ? s.agent - unit : s.agent;
  if (by == a.warp * kUnits)  // between threads of a warp LaneTracker judges
    return a.by_thread || a.lane < 0 || a.access.warp.lanes.knows(a.lane, s.lanes, s.epoch);
  if (s.epoch <= a.clock[by]) return true;
  if (a.unheard_of(by)) return false;
  return knows(a.access.warp, a.lane, by, s.epoch, s.lanes);
}

/// `ordered` where the clock alone does not tell.
[[gnu::noinline]] inline bool RaceTracker::ordered_apart(const Judged& a, const Slot& s) const {
  if (a.strong || a.reduces) {
    const std::uint32_t unit = s.agent % kUnits;
    if ((is_strong(unit) || is_reduction(unit)) && (cluster_.blocks.size() == 1 || !scopes_apart(a, s)))
      return true;
  }
  return happened_before(a, s);
}

/// What happened before, or need not have.
[[gnu::always_inline]] inline bool RaceTracker::ordered(const Judged& a, const Slot& s) const {
  return known_at_once(a, s) || ordered_apart(a, s);
}

/// Of a writer that is ordered before `a`.
inline bool RaceTracker::lacks_proxy_fence(const Judged& a, const Slot& s) const {
  if (!a.async_proxy) return false;
  const std::uint32_t by = s.agent % kUnits;
  if (by != 0 && by != kStrongUnit && by != kCopyUnit) return false;
  const std::uint32_t writer = by == kStrongUnit ? s.agent - kStrongUnit : s.agent;
  // By the writer, or by whoever starts this and knows of the write.
  return !proxy_fenced_[writer / kUnits].knows(writer, s.epoch, s.lanes) &&
         !proxy_fenced_[a.warp].knows(writer, s.epoch, s.lanes);
}

/// Whether a writer is ordered before the access and has nothing to be said of.
[[gnu::always_inline]] inline bool RaceTracker::settled(const Judged& a, const Slot& s) const {
  const bool known = known_at_once(a, s);
  if (known && (!a.async_proxy || s.epoch <= a.fenced[s.agent])) return true;
  return (known || ordered(a, s)) && !lacks_proxy_fence(a, s);
}

}  // namespace kiln::emulator
