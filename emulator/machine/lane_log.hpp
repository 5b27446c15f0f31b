// What the lanes of a warp know of each other, and the accesses of a warp of which nobody needs to know yet.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "emulator/machine/recycled.hpp"

namespace kiln::emulator {

/// What the lanes of a warp know of each other. Time is the warp's own epoch in the race tracker.
struct LaneClock {
  std::uint32_t now = 1;
  std::uint32_t all = 0;    ///< everything before this time is known to every lane
  std::uint32_t issue = 0;  ///< instances of instructions that access shared memory
  std::unique_ptr<std::array<std::array<std::uint32_t, 32>, 32>> known;  ///< [lane][of lane], beyond `all`

  /// Lanes of `mask` (of `live` ones) have waited for each other: a new time begins.
  void synchronize(std::uint32_t mask, std::uint32_t live);
  /// Lanes of `mask` have learned what lanes of `others` did before `time`.
  void learn(std::uint32_t mask, std::uint32_t others, std::uint32_t time, std::uint32_t live);
  bool ordered(int lane, int other, std::uint32_t time) const {
    return time < all || (known != nullptr &&
                          time < (*known)[static_cast<std::size_t>(lane)][static_cast<std::size_t>(other)]);
  }
  /// Whether one of `mask` is lane `other` or knows what it did at `time`.
  bool known_to(std::uint32_t mask, int other, std::uint32_t time) const;
  /// Whether `lane` knows what all of `others` did at `time`.
  bool knows(int lane, std::uint32_t others, std::uint32_t time) const;
};

/// Accesses to memory by `lanes` of a warp in one instruction.
template <class Address>
struct WarpAccess {
  const Address* at = nullptr;  ///< by lane
  std::uint32_t bytes = 0, lanes = 0;
  std::uint32_t silent = 0;  ///< lanes that write what is there already
  std::uint32_t op = 0;
  bool write = false;
  bool strong = false;  ///< an atomic: no race with other ones
};

/// Accesses of a warp that can meet none of the others here: reads, or of different places. They are void once all
/// lanes know of them, and mostly that comes before any access that meets them: until then nothing has to be noted word
/// by word.
template <class Address>
class LaneLog {
 public:
  /// Takes an access in. If not: all entries have to be noted (`flush`), and then this access and those after it, by
  /// `noted`.
  bool take(const LaneClock& clock, const WarpAccess<Address>& access);
  /// Calls f(access, now, issue) for all entries, and empties the log.
  template <class F>
  void flush(F f) {
    for (const Entry& e : entries_) {
      WarpAccess<Address> access = e.access;
      access.at = e.at.data();
      f(access, e.now, e.issue);
    }
    clear();
  }
  /// The latest of what was noted elsewhere.
  void noted(std::uint32_t now) { noted_ = now; }
  /// Whether something was noted elsewhere that not all lanes know of.
  bool elsewhere(const LaneClock& clock) const { return noted_ != 0 && noted_ >= clock.all; }
  /// Whether there are weak accesses of other lanes than `lanes` that not all lanes know of.
  bool any_weak(const LaneClock& clock, std::uint32_t lanes) const {
    return latest_ >= clock.all && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
             return e.kind != kStrong && e.now >= clock.all && (e.access.lanes & ~lanes) != 0;
           });
  }
  /// Calls f(access, now) for weak accesses, each once.
  template <class F>
  void tell_weak(F f) {
    for (; told_ < entries_.size(); ++told_) {
      const Entry& e = entries_[told_];
      WarpAccess<Address> access = e.access;
      access.at = e.at.data();
      if (e.kind != kStrong) f(access, e.now);
    }
  }

 private:
  static constexpr std::size_t kMost = 256;
  enum Kind : std::uint8_t { kRead, kWrite, kStrong, kKinds };
  struct Range {
    Address begin = ~Address{0}, end = 0;
    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  struct Entry {
    WarpAccess<Address> access;
    std::uint32_t now, issue;
    Kind kind;
    Range range;
    std::array<Address, 32> at;
  };
  static Kind kind_of(const WarpAccess<Address>& access) {
    return access.strong ? kStrong : access.write ? kWrite : kRead;
  }
  /// The words that entries of each kind access, by the lower bits of their numbers.
  static constexpr std::size_t kWords = 16384;
  using Words = std::array<std::array<std::uint64_t, kWords / 64>, kKinds>;
  bool meets(Kind kind, const Range& range) const;
  template <class F>
  static void each_word(const WarpAccess<Address>& access, const Address* at, F f);
  void map(Kind kind, const WarpAccess<Address>& access, const Address* at);
  bool meets_words(Kind kind, const WarpAccess<Address>& access);
  static bool against(Kind kind, Kind other) { return other != kind || kind == kWrite; }
  void clear() {
    entries_.clear();
    told_ = 0;
    hulls_ = {};
    mapped_ = false;
  }

  RecycledVector<Entry> entries_;
  std::size_t told_ = 0;             ///< of the entries, see tell_weak
  std::array<Range, kKinds> hulls_;  ///< of the entries of a kind
  std::unique_ptr<Words> words_;
  bool mapped_ = false;                   ///< `words_` has the entries: made when ranges meet
  std::uint32_t latest_ = 0, noted_ = 0;  ///< times; 0: never
};

template <class Address>
bool LaneLog<Address>::meets(Kind kind, const Range& range) const {
  bool near = false;
  for (const Kind other : {kRead, kWrite, kStrong})
    near |= against(kind, other) && hulls_[other].meets(range);
  return near && (mapped_ || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
                    return against(kind, e.kind) && e.range.meets(range);
                  }));
}

/// Calls f(index of 64 words, their bits) for the words of an access.
template <class Address>
template <class F>
void LaneLog<Address>::each_word(const WarpAccess<Address>& access, const Address* at, F f) {
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
    const Address first = at[std::countr_zero(m)];
    for (Address word = first / 4; word <= (first + access.bytes - 1) / 4; ++word)
      f(word / 64 % (kWords / 64), std::uint64_t{1} << word % 64);
  }
}

template <class Address>
void LaneLog<Address>::map(Kind kind, const WarpAccess<Address>& access, const Address* at) {
  auto& words = (*words_)[kind];
  each_word(access, at, [&](std::size_t i, std::uint64_t bits) { words[i] |= bits; });
}

template <class Address>
bool LaneLog<Address>::meets_words(Kind kind, const WarpAccess<Address>& access) {
  if (!mapped_) {
    if (words_ == nullptr) words_ = std::make_unique<Words>();
    *words_ = {};
    for (const Entry& e : entries_) map(e.kind, e.access, e.at.data());
    mapped_ = true;
  }
  std::uint64_t met = 0;
  for (const Kind other : {kRead, kWrite, kStrong})
    if (against(kind, other))
      each_word(access, access.at,
                [&](std::size_t i, std::uint64_t bits) { met |= (*words_)[other][i] & bits; });
  return met != 0;
}

template <class Address>
bool LaneLog<Address>::take(const LaneClock& clock, const WarpAccess<Address>& access) {
  if (noted_ != 0 && noted_ >= clock.all) return false;
  if (latest_ < clock.all) clear();
  Range range;
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1) {
    const Address at = access.at[std::countr_zero(m)];
    range.begin = std::min(range.begin, at);
    range.end = std::max(range.end, at + access.bytes);
  }
  const Kind kind = kind_of(access);
  if (entries_.size() == kMost || (meets(kind, range) && meets_words(kind, access))) return false;
  if (mapped_) map(kind, access, access.at);
  Entry& e = entries_.emplace_back();
  e.access = access;
  e.now = clock.now;
  e.issue = clock.issue;
  e.kind = kind;
  e.range = range;
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
    e.at[static_cast<std::size_t>(std::countr_zero(m))] = access.at[std::countr_zero(m)];
  hulls_[kind].begin = std::min(hulls_[kind].begin, range.begin);
  hulls_[kind].end = std::max(hulls_[kind].end, range.end);
  latest_ = clock.now;
  return true;
}

}  // namespace kiln::emulator
