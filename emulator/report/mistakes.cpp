#include "emulator/report/mistakes.hpp"

#include <algorithm>
#include <utility>

namespace kiln::emulator {
namespace {

constexpr std::size_t kMorePlaces = 7;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// Which of two findings of one mistake shows it best: the one that is nearest to what is missing.
int rank(const std::string& kind) {
  if (kind == "uninitialized-read" || kind == "uninitialized-register" || kind == "uninitialized-lds")
    return 2;
  if (kind == "deadlock") return 3;
  return kind == "warp-race" ? 1 : 0;
}

/// Accesses that nothing orders: had something, the memory would have been written.
bool is_unordered(const std::string& kind) {
  return kind.ends_with("-race") || kind == "async-memory" || kind == "lds-dma-not-waited";
}

/// Barriers that nobody can pass any more.
bool blocks(const std::string& kind) {
  return kind == "transaction-count" || kind == "barrier-count" || kind == "divergent-barrier" ||
         kind == "mbarrier-overrun" || kind == "invalid-mbarrier" || kind == "missed-phase" ||
         kind == "barrier-mismatch";
}

}  // namespace

std::size_t Mistakes::root(std::size_t i) const {
  while (entries_[i].parent != i) i = entries_[i].parent;
  return i;
}

bool Mistakes::again(const std::string& kind, int line, int other_line) {
  const auto it = by_lines_.find({kind, line, other_line});
  if (it == by_lines_.end()) return false;
  if (it->second != kNone) ++entries_[root(it->second)].finding.count;
  return true;
}

/// Makes the later of two findings part of the earlier one; returns that.
std::size_t Mistakes::merge(std::size_t a, std::size_t b) {
  a = root(a);
  b = root(b);
  if (a == b) return a;
  if (b < a) std::swap(a, b);
  Finding &to = entries_[a].finding, &from = entries_[b].finding;
  entries_[b].parent = a;
  --kept_;
  const std::uint64_t count = to.count + from.count;
  if (rank(from.kind) < rank(to.kind)) std::swap(to, from);
  to.count = count;
  to.severity = std::min(to.severity, from.severity);
  auto& places = entries_[a].places;
  places.merge(entries_[b].places);
  to.places = std::max({to.places, from.places, static_cast<std::uint32_t>(places.size())});
  const bool same = to.site.ptx_line == from.site.ptx_line && to.other.ptx_line == from.other.ptx_line;
  if (!same && from.has_other == to.has_other && to.more.size() < kMorePlaces)
    to.more.push_back({from.site, from.other});
  for (Finding::Place& p : from.more)
    if (to.more.size() < kMorePlaces) to.more.push_back(std::move(p));
  from.more.clear();
  return a;
}

bool Mistakes::add(Finding f, const std::vector<std::string>& causes) {
  const int other_line = f.has_other ? f.other.ptx_line : 0;
  std::size_t known = kNone;
  bool dropped = false;
  for (const std::string& name : causes) {
    const auto it = by_cause_.find(name);
    if (it == by_cause_.end()) continue;
    dropped |= it->second == kNone;
    if (it->second == kNone) continue;
    known = known == kNone ? root(it->second) : merge(known, it->second);
  }
  std::size_t at = known;
  const Place place{f.site.kernel, f.site.ptx_line, other_line};
  const bool fresh = known == kNone ? !dropped && kept_ < most_ : entries_[known].places.count(place) == 0;
  if (fresh) {
    at = entries_.size();
    ++kept_;
  }
  for (const std::string& name : causes) by_cause_.try_emplace(name, at);
  by_lines_[{f.kind, f.site.ptx_line, other_line}] = at;
  if (!fresh) {
    if (known != kNone) entries_[known].finding.count += f.count;
    return false;
  }
  std::set<Place> places{place};
  for (const Finding::Place& p : f.more)
    places.insert({p.site.kernel, p.site.ptx_line, f.has_other ? p.other.ptx_line : 0});
  entries_.push_back({std::move(f), std::move(places), at});
  if (known != kNone) merge(known, at);
  return true;
}

/// Values that nobody wrote, loaded by an access that races: had it been ordered, they would have been written. And a
/// deadlock after what spoils a barrier.
void Mistakes::attach_consequences() {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    for (std::size_t k = 0; k < entries_.size() && entries_[i].finding.kind == "deadlock"; ++k)
      if (root(i) == i && root(k) == k && blocks(entries_[k].finding.kind)) merge(i, k);
  std::map<std::pair<std::string, int>, std::size_t> racing;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (root(i) == i && is_unordered(entries_[i].finding.kind))
      for (const auto& [kernel, line, other] : entries_[i].places)
        for (const int one : {line, other}) racing.try_emplace({kernel, one}, i);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Finding& f = entries_[i].finding;
    if (root(i) != i || f.kind == "uninitialized-register" || rank(f.kind) != 2) continue;
    const int load = f.has_other ? f.other.ptx_line : f.site.ptx_line;
    if (const auto it = racing.find({f.site.kernel, load}); it != racing.end()) merge(it->second, i);
  }
}

std::vector<Finding> Mistakes::take() {
  attach_consequences();
  std::vector<Finding> out;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (root(i) == i) out.push_back(std::move(entries_[i].finding));
  return out;
}

}  // namespace kiln::emulator
