#include "emulator/machine/unfenced_stores.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
namespace {

/// A program that keeps more than these is judged by the latest ones.
constexpr std::size_t kMostStores = std::size_t{1} << 16, kMostSeen = std::size_t{1} << 18;
constexpr std::ptrdiff_t kMostTold = 64;

}  // namespace

UnfencedStores::Agent UnfencedStores::agent(const Warp& w) {
  const RaceTracker& races = *w.block->cluster->races;
  return {static_cast<std::uint32_t>(w.block->cluster->index), races.agent(w, 0), races.epoch(w)};
}

/// Of an agent of the warp's own cluster.
bool UnfencedStores::knows(const Warp& w, int lane, const Agent& other) {
  const RaceTracker& races = *w.block->cluster->races;
  return other.agent == races.agent(w, 0) || races.knows(w, lane, other.agent, other.epoch, 0);
}

void UnfencedStores::erase(std::uint64_t address) {
  const auto it = stores_.find(address);
  if (it == stores_.end()) return;
  std::erase(unfenced_[it->second.by.cluster], &it->second);
  stores_.erase(it);
}

void UnfencedStores::write(const Warp& w, const Op& op, int lane, std::uint64_t address, const Old& old) {
  ++time_;
  erase(address);
  const Agent by = agent(w);
  auto& mine = unfenced_[by.cluster];
  for (auto it = mine.end() - std::min(kMostTold, std::ssize(mine)); it != mine.end(); ++it) {
    Store& s = **it;
    if (s.told == s.tells.size()) continue;
    const bool told = std::any_of(s.tells.begin(), s.tells.begin() + s.told,
                                  [&](const Tell& t) { return t.address == address; });
    if (!told && knows(w, lane, s.by)) s.tells[s.told++] = {address, time_};
  }
  if (old.data == nullptr || old.bytes > sizeof(Store::old) || stores_.size() >= kMostStores) return;
  Store& s = stores_[address];
  s.by = by;
  s.address = address;
  s.op = static_cast<std::uint32_t>(&op - w.block->cluster->program->ops.data());
  s.bytes = old.bytes;
  s.first = old.first;
  std::memcpy(s.old.data(), old.data, old.bytes);
  mine.push_back(&s);
}

void UnfencedStores::fence(const Warp& w, std::uint32_t lanes) {
  const auto it = unfenced_.find(static_cast<std::uint32_t>(w.block->cluster->index));
  if (it == unfenced_.end()) return;
  std::erase_if(it->second, [&](const Store* store) {
    for (std::uint32_t m = lanes; m != 0; m &= m - 1)
      if (knows(w, std::countr_zero(m), store->by)) {
        stores_.erase(store->address);
        return true;
      }
    return false;
  });
}

/// Whether the lane has seen what the writer wrote after the store.
bool UnfencedStores::told(const Warp& w, int lane, const Store& store) const {
  const auto cluster = static_cast<std::uint32_t>(w.block->cluster->index);
  return std::any_of(store.tells.begin(), store.tells.begin() + store.told, [&](const Tell& t) {
    const auto it = seen_.find({cluster, t.address});
    return it != seen_.end() && it->second.time >= t.time && knows(w, lane, it->second.by);
  });
}

const std::uint8_t* UnfencedStores::read(const Warp& w, const Op& op, int lane, std::uint64_t address,
                                         std::uint32_t bytes, bool late) {
  const auto it = stores_.find(address);
  const auto cluster = static_cast<std::uint32_t>(w.block->cluster->index);
  if (it == stores_.end() || it->second.by.cluster == cluster || it->second.bytes < bytes) return nullptr;
  Store& s = it->second;
  const auto before =
      std::find_if(s.readers.begin(), s.readers.end(), [&](const Reader& r) { return r.cluster == cluster; });
  if (before != s.readers.end()) {
    // Who looks again waits for the value.
    if (!before->again) findings_.erase({cluster, address});
    before->again = true;
    return nullptr;
  }
  s.readers.push_back({cluster, false});
  if (!late || !s.first) return nullptr;
  if (told(w, lane, s)) {
    Finding f;
    f.kind = "global-race";
    f.message =
        "reads global memory " + w.block->cluster->launch->memory->describe(address) +
        " and gets what was there before a strong store (volatile, relaxed) of another block; what that wrote "
        "afterwards was seen, but no fence of GPU scope lies between the two writes";
    f.site = site_of(w, op, lane);
    f.other = w.block->cluster->races->remote_site(s.by.cluster, s.by.agent, s.op);
    f.has_other = true;
    findings_[{cluster, address}] = std::move(f);
  }
  return s.old.data();
}

void UnfencedStores::seen(const Warp& w, std::uint64_t address) {
  if (stores_.empty() || seen_.size() >= kMostSeen) return;
  const Agent by = agent(w);
  seen_[{by.cluster, address}] = {time_, by};
}

std::vector<Finding> UnfencedStores::take() {
  std::vector<Finding> out;
  out.reserve(findings_.size());
  for (auto& [key, finding] : findings_) out.push_back(std::move(finding));
  findings_.clear();
  return out;
}

}  // namespace kiln::emulator
