#include "emulator/machine/lanes.hpp"

#include <algorithm>
#include <bit>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void LaneClock::synchronize(std::uint32_t mask, std::uint32_t live) {
  ++now;
  if ((live & ~mask) == 0) {
    all = now;
    known.reset();
    return;
  }
  if (std::popcount(mask) < 2) return;
  if (known == nullptr) known = std::make_unique<std::array<std::array<std::uint32_t, 32>, 32>>();
  std::array<std::uint32_t, 32> sum{};
  for (std::uint32_t m = mask; m != 0; m &= m - 1) {
    const auto& row = (*known)[static_cast<std::size_t>(std::countr_zero(m))];
    for (std::size_t i = 0; i < 32; ++i) sum[i] = std::max(sum[i], row[i]);
  }
  for (std::uint32_t m = mask; m != 0; m &= m - 1) sum[static_cast<std::size_t>(std::countr_zero(m))] = now;
  for (std::uint32_t m = mask; m != 0; m &= m - 1)
    (*known)[static_cast<std::size_t>(std::countr_zero(m))] = sum;
}

void LaneClock::learn(std::uint32_t mask, std::uint32_t others, std::uint32_t time, std::uint32_t live) {
  if (time <= all) return;
  if ((live & ~(mask & others)) == 0) {
    all = time;
    return;
  }
  if (known == nullptr) known = std::make_unique<std::array<std::array<std::uint32_t, 32>, 32>>();
  for (std::uint32_t m = mask; m != 0; m &= m - 1) {
    auto& row = (*known)[static_cast<std::size_t>(std::countr_zero(m))];
    for (std::uint32_t o = others; o != 0; o &= o - 1) {
      std::uint32_t& bound = row[static_cast<std::size_t>(std::countr_zero(o))];
      bound = std::max(bound, time);
    }
  }
}

bool LaneClock::known_to(std::uint32_t mask, int other, std::uint32_t time) const {
  if ((mask >> other & 1) != 0 || time < all) return true;
  for (std::uint32_t m = known == nullptr ? 0 : mask; m != 0; m &= m - 1)
    if (ordered(std::countr_zero(m), other, time)) return true;
  return false;
}

bool LaneClock::knows(int lane, std::uint32_t others, std::uint32_t time) const {
  if (time < all) return true;
  for (std::uint32_t o = others & ~(1u << lane); o != 0; o &= o - 1)
    if (!ordered(lane, std::countr_zero(o), time)) return false;
  return true;
}

namespace {

constexpr std::uint32_t kWarp = 0xffff, kStrong = 1u << 16, kBytesDiffer = 1u << 17;

}  // namespace

LaneWords::Tag LaneWords::tag(const Tags& tags, std::size_t word) const {
  Tag t;
  const std::uint32_t who = tags.who[word];
  if ((who & kBytesDiffer) != 0)
    t.lanes = (*byte_lanes_)[&tags == &write_ ? 0 : 1][word];
  else
    t.lanes.fill(tags.lanes[word]);
  t.time = tags.time[word];
  t.issue = tags.issue[word];
  t.op = tags.op[word];
  t.warp = static_cast<std::uint16_t>(who & kWarp);
  t.strong = (who & kStrong) != 0;
  return t;
}

void LaneWords::set_tag(Tags& tags, std::size_t word, const Tag& t) {
  const bool differ = t.lanes[0] != t.lanes[1] || t.lanes[1] != t.lanes[2] || t.lanes[2] != t.lanes[3];
  if (differ) {
    if (byte_lanes_ == nullptr) byte_lanes_ = std::make_unique<std::array<ByteLanes, 2>>();
    (*byte_lanes_)[&tags == &write_ ? 0 : 1][word] = t.lanes;
  }
  tags.who[word] = t.warp | (t.strong ? kStrong : 0) | (differ ? kBytesDiffer : 0);
  tags.lanes[word] = t.lanes[0] | t.lanes[1] | t.lanes[2] | t.lanes[3];
  tags.time[word] = t.time;
  tags.issue[word] = t.issue;
  tags.op[word] = t.op;
}

void LaneWords::forget(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    write_.who[i] = write_.lanes[i] = write_.time[i] = write_.issue[i] = 0;
    read_.who[i] = read_.lanes[i] = read_.time[i] = read_.issue[i] = 0;
    same_[i] = 0;
  }
}

/// 1 or 0: without branches, so that runs of words become vector instructions.
constexpr std::uint32_t flag(bool b) {
  return b ? 1 : 0;
}

template <std::size_t Count>
bool LaneWords::read_words(const Moment& w, std::uint32_t self, std::uint32_t op, std::size_t first) {
  const std::uint32_t warp = w.warp, issue = w.issue, now = w.now;
  const auto all = static_cast<std::int32_t>(w.clock.all);
  std::uint32_t look = 0;
  for (std::size_t i = first; i < first + Count; ++i) {
    const std::uint32_t own = flag((write_.who[i] & kWarp) == warp), earlier = flag(write_.issue[i] != issue);
    const std::uint32_t unknown = flag(static_cast<std::int32_t>(write_.time[i]) >= all);
    const std::uint32_t others = flag((write_.lanes[i] & ~self) != 0);
    look |= (own & earlier & unknown & others) | ((write_.who[i] | read_.who[i]) & kBytesDiffer);
  }
  if (look != 0) return false;
  for (std::size_t i = first; i < first + Count; ++i) {
    const std::uint32_t joins = flag(read_.who[i] == warp) & flag(read_.time[i] == now);
    read_.lanes[i] = (read_.lanes[i] & (0 - joins)) | self;
    read_.who[i] = warp;
    read_.time[i] = now;
    read_.issue[i] = issue;
    read_.op[i] = op;
  }
  return true;
}

template <std::size_t Count>
bool LaneWords::write_words(const Moment& w, std::uint32_t self, std::uint32_t op, std::size_t first,
                            bool silent) {
  const std::uint32_t warp = w.warp, issue = w.issue, now = w.now;
  const auto all = static_cast<std::int32_t>(w.clock.all);
  std::uint32_t look = 0;
  for (std::size_t i = first; i < first + Count; ++i) {
    const auto own = [&](const Tags& t) { return flag((t.who[i] & kWarp) == warp); };
    const auto unordered = [&](const Tags& t) {
      return flag(static_cast<std::int32_t>(t.time[i]) >= all) & flag((t.lanes[i] & ~self) != 0) &
             flag(t.issue[i] != issue);
    };
    look |= own(write_) & (unordered(write_) | flag(write_.issue[i] == issue));
    look |= own(read_) & unordered(read_) & flag(!silent);
    look |= (write_.who[i] | read_.who[i]) & kBytesDiffer;
  }
  if (look != 0) return false;
  for (std::size_t i = first; i < first + Count; ++i) {
    write_.lanes[i] = self;
    write_.who[i] = warp;
    write_.time[i] = now;
    write_.issue[i] = issue;
    write_.op[i] = op;
    read_.lanes[i] = 0;
    same_[i] = 0;
  }
  return true;
}

bool LaneWords::access_run(const Moment& w, int lane, std::uint32_t op, std::size_t first, std::size_t count,
                           bool write, bool silent) {
  const std::uint32_t self = 1u << lane;
  switch (count) {
    case 1:
      return write ? write_words<1>(w, self, op, first, silent) : read_words<1>(w, self, op, first);
    case 2:
      return write ? write_words<2>(w, self, op, first, silent) : read_words<2>(w, self, op, first);
    case 4:
      return write ? write_words<4>(w, self, op, first, silent) : read_words<4>(w, self, op, first);
    case 8:
      return write ? write_words<8>(w, self, op, first, silent) : read_words<8>(w, self, op, first);
    default:
      return false;
  }
}

bool LaneWords::strong_write(const Moment& w, int lane, std::uint32_t op, std::size_t word) {
  const std::uint32_t self = 1u << lane, warp = w.warp, me = warp | kStrong;
  const std::uint32_t writer = write_.who[word], reader = read_.who[word];
  if (((writer | reader) & kBytesDiffer) != 0) return false;
  if (writer == warp && write_.time[word] >= w.clock.all) return false;
  if (reader == warp && read_.time[word] >= w.clock.all && (read_.lanes[word] & ~self) != 0) return false;
  const bool joins = writer == me && write_.time[word] == w.now;
  write_.lanes[word] = (joins ? write_.lanes[word] : 0) | self;
  write_.who[word] = me;
  write_.time[word] = w.now;
  write_.issue[word] = w.issue;
  write_.op[word] = op;
  read_.lanes[word] = 0;
  same_[word] = 0;
  return true;
}

/// A lane whose access to some byte of `mask`, noted in `t`, is unordered with one by `lane`; or -1.
int LaneWords::unordered(const Moment& w, const Tag& t, int lane, std::uint8_t mask, bool strong) {
  if (t.warp != w.warp || t.issue == w.issue || t.time < w.clock.all || (strong && t.strong)) return -1;
  std::uint32_t others = 0;
  for (std::size_t i = 0; i < 4; ++i) others |= (mask >> i & 1) != 0 ? t.lanes[i] : 0;
  for (others &= ~(1u << lane); others != 0; others &= others - 1)
    if (const int other = std::countr_zero(others); !w.clock.ordered(lane, other, t.time)) return other;
  return -1;
}

void LaneWords::note(const Moment& w, Tag& t, int lane, std::uint32_t op, std::uint8_t mask, How how) {
  // Readers add up until the next write or synchronisation; writers of one instruction do.
  const bool joins = t.warp == w.warp && t.time == w.now && t.strong == how.strong &&
                     (!how.write || how.strong || t.issue == w.issue);
  if (!joins) t.lanes = {};
  for (std::size_t i = 0; i < 4; ++i) t.lanes[i] |= (mask >> i & 1u) << lane;
  t.warp = static_cast<std::uint16_t>(w.warp);
  t.time = w.now;
  t.issue = w.issue;
  t.op = op;
  t.strong = how.strong;
}

LaneWords::Conflict LaneWords::access(const Moment& w, int lane, std::uint32_t op, std::size_t word,
                                      std::uint8_t mask, How how) {
  const std::uint32_t self = 1u << lane;
  Tag write = tag(write_, word), read = tag(read_, word);
  Conflict found{unordered(w, write, lane, mask, how.strong), write.op, true, write.strong};
  const bool own = write.warp == w.warp, silent = how.write && how.silent;
  if (silent && (found.lane >= 0 || (own && write.issue == w.issue))) {
    same_[word] |= self;  // it disturbs nobody, and this lane may read what it wrote
    return {};
  }
  // A plain write counts as one until all lanes know of it, whatever atomics follow.
  if (how.write && how.strong && !write.strong && own && write.time >= w.clock.all) return found;
  if (!how.write && own && (same_[word] & self) != 0) found = {};
  if (how.write && !silent && found.lane < 0)
    found = {unordered(w, read, lane, mask, how.strong), read.op, false, read.strong};
  note(w, how.write ? write : read, lane, op, mask, how);
  if (how.write) {
    set_tag(write_, word, write);
    read.lanes = {};
    same_[word] = 0;
  }
  set_tag(read_, word, read);
  return found;
}

namespace {

Moment moment_of(const Warp& w) {
  return {w.lanes, static_cast<std::uint32_t>(w.index), w.lanes.now, w.lanes.issue};
}

void report_lanes(Warp& w, const Op& op, int lane, const LaneWords::Conflict& with, bool write,
                  const std::string& where, Severity severity = Severity::error) {
  report(w, op, lane, "warp-race",
         "lane " + std::to_string(lane) + (write ? " writes " : " reads ") + where + ", which lane " +
             std::to_string(with.lane) + " of the same warp " + (with.write ? "wrote" : "read") +
             " with no bar.warp.sync between" + (severity == Severity::error ? "" : kMixedRace),
         site_of(w, w.block->cluster->program->ops[with.op], with.lane), severity);
}

/// Whether two instructions, neither of which says which lane accesses what, meet by a lane and its partner: that they
/// are two comes of the notes alone.
bool met_partner(const Warp& w, std::uint32_t op, int lane, const LaneWords::Conflict& with) {
  const auto& ops = w.block->cluster->program->ops;
  return (ops[op].flags & ops[with.op].flags & kUnspecifiedLanes) != 0 && with.lane == partner_of(lane);
}

std::uint32_t index_of(const Warp& w, const Op& op) {
  return static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data());
}

/// Calls f(address, mask) for every word of [begin, begin + bytes).
template <class Address, class F>
void each_word(Address begin, std::uint32_t bytes, F f) {
  for (Address at = begin, last = begin + bytes; at < last;) {
    const Address stop = std::min<Address>(last, (at & ~Address{3}) + 4);
    f(at, static_cast<std::uint8_t>(((1u << (stop - at)) - 1) << (at & 3)));
    at = stop;
  }
}

/// Notes nothing of what was found.
struct NotFound {
  template <class... A>
  void operator()(const A&... /*unused*/) const {}
};

}  // namespace

bool LaneTracker::note_run(const Moment& when, const Access& a, int lane) {
  const std::uint32_t offset = a.at[lane];
  if (((offset | a.bytes) & 3) != 0 || offset % kChunkBytes + a.bytes > kChunkBytes) return false;
  LaneWords& words = chunk(offset);
  const std::size_t first = offset % kChunkBytes / 4;
  if (a.strong) return a.write && a.bytes == 4 && words.strong_write(when, lane, a.op, first);
  return words.access_run(when, lane, a.op, first, a.bytes / 4, a.write, (a.silent >> lane & 1) != 0);
}

/// Calls found(lane, offset, conflict).
template <class Found>
void LaneTracker::note(const Moment& when, const Access& a, Found found) {
  for (std::uint32_t m = a.lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (a.at[lane] < kSharedBase || note_run(when, a, lane)) continue;
    const LaneWords::How how{a.write, a.strong, (a.silent >> lane & 1) != 0};
    each_word(a.at[lane], a.bytes, [&](std::uint32_t at, std::uint8_t mask) {
      const auto with = chunk(at).access(when, lane, a.op, at % kChunkBytes / 4, mask, how);
      if (with.lane >= 0) found(lane, at, with);
    });
  }
}

void LaneTracker::access_lanes(Warp& w, const Access& a) {
  LaneLog<std::uint32_t>& log = logs_[static_cast<std::size_t>(w.index)];
  if (log.take(w.lanes, a)) return;
  const auto warp = static_cast<std::uint32_t>(w.index);
  log.flush([&](const Access& earlier, std::uint32_t now, std::uint32_t issue) {
    note({w.lanes, warp, now, issue}, earlier, NotFound{});
  });
  log.noted(w.lanes.now);
  note(moment_of(w), a, [&](int lane, std::uint32_t at, const LaneWords::Conflict& with) {
    if (met_partner(w, a.op, lane, with)) return;
    report_lanes(w, w.block->cluster->program->ops[a.op], lane, with, a.write,
                 "shared address " + std::to_string(at));
  });
}

void LaneTracker::access(const SharedAccess& a, bool strong) {
  std::array<std::uint32_t, 32> at{};
  at[static_cast<std::size_t>(a.lane)] = a.offset;
  const std::uint32_t lane = 1u << a.lane;
  const Access one{at.data(), a.bytes, lane, a.silent ? lane : 0, index_of(a.warp, a.op), a.write, strong};
  if (a.warp.block == &a.block) return access_lanes(a.warp, one);
  note(moment_of(a.warp), one, NotFound{});
}

GlobalWords::Chunk& GlobalWords::entry(std::uint64_t word, std::size_t count) {
  auto& chunk = chunks_[word / LaneWords::kWords % chunks_.size()];
  if (chunk == nullptr) chunk = std::make_unique<Chunk>();
  for (std::size_t i = 0; i < count; ++i)
    if (std::uint64_t& known = chunk->address[(word + i) % LaneWords::kWords]; known != word + i) {
      known = word + i;
      chunk->words.forget((word + i) % LaneWords::kWords, 1);
    }
  return *chunk;
}

/// Calls found(lane, address, conflict).
template <class Found>
void GlobalWords::note(const Moment& when, const Access& a, Found found) {
  for (std::uint32_t m = a.lanes; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::uint64_t address = a.at[lane];
    const LaneWords::How how{a.write, a.strong, (a.silent >> lane & 1) != 0};
    const std::size_t first = address / 4 % LaneWords::kWords, count = a.bytes / 4;
    if (!how.strong && ((address | a.bytes) & 3) == 0 && first + count <= LaneWords::kWords &&
        entry(address / 4, count).words.access_run(when, lane, a.op, first, count, how.write, how.silent))
      continue;
    each_word(address, a.bytes, [&](std::uint64_t at, std::uint8_t mask) {
      const auto with =
          entry(at / 4, 1).words.access(when, lane, a.op, at / 4 % LaneWords::kWords, mask, how);
      if (with.lane >= 0) found(lane, at, with);
    });
  }
}

void GlobalWords::access_lanes(Warp& w, const Access& a) {
  if (log_.take(w.lanes, a)) return;
  const auto warp = static_cast<std::uint32_t>(w.index);
  log_.flush([&](const Access& earlier, std::uint32_t now, std::uint32_t issue) {
    note({w.lanes, warp, now, issue}, earlier, NotFound{});
  });
  log_.noted(w.lanes.now);
  note(moment_of(w), a, [&](int lane, std::uint64_t at, const LaneWords::Conflict& with) {
    if (met_partner(w, a.op, lane, with)) return;
    report_lanes(w, w.block->cluster->program->ops[a.op], lane, with, a.write,
                 "global memory " + w.block->cluster->launch->memory->describe(at),
                 with.strong != a.strong ? Severity::undefined : Severity::error);
  });
}

template <class F>
void LaneWords::each_weak(std::uint32_t since, F f) const {
  for (const Tags* tags : {&write_, &read_})
    for (std::size_t i = 0; i < kWords; ++i)
      if (tags->lanes[i] != 0 && tags->time[i] >= since && (tags->who[i] & (kStrong | kBytesDiffer)) == 0)
        f(i, tags->lanes[i], tags->time[i], tags->op[i], tags == &write_);
}

void GlobalWords::tell_unmet(const LaneClock& clock, std::vector<Unmet>& into) {
  log_.tell_weak([&](const Access& a, std::uint32_t now) {
    if (now < clock.all) return;
    for (std::uint32_t m = a.lanes & ~a.silent; m != 0; m &= m - 1) {
      const std::uint64_t at = a.at[std::countr_zero(m)];
      for (std::uint64_t word = at / 4; a.bytes % 4 == 0 && word < (at + a.bytes) / 4; ++word)
        into.push_back({word, m & (0 - m), now, a.op, a.write});
    }
  });
  if (!log_.elsewhere(clock)) return;
  for (const auto& chunk : chunks_)
    if (chunk != nullptr)
      chunk->words.each_weak(clock.all, [&](std::size_t i, std::uint32_t lanes, std::uint32_t time,
                                            std::uint32_t op, bool write) {
        into.push_back({chunk->address[i], lanes, time, op, write});
      });
}

void GlobalWords::access(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                         LaneWords::How how) {
  std::array<std::uint64_t, 32> at{};
  at[static_cast<std::size_t>(lane)] = address;
  const std::uint32_t self = 1u << lane;
  access_lanes(w, {at.data(), bytes, self, how.silent ? self : 0, index_of(w, op), how.write, how.strong});
}

}  // namespace kiln::emulator
