#include "emulator/machine/unmet_words.hpp"

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {

void UnmetWords::note(Warp& w, std::uint32_t cluster, std::uint32_t agent) {
  told_.clear();
  w.global_words.tell_unmet(w.lanes, told_);
  for (const GlobalWords::Unmet& u : told_) {
    if (words_.size() >= kMost) return;
    some_.store(true, std::memory_order_relaxed);
    Lanes& known = words_[u.word][u.write ? 1 : 0];
    if (known.cluster == cluster && known.agent == agent && known.epoch == u.time)
      known.lanes |= u.lanes;
    else
      known = {cluster, agent, u.time, u.lanes};
  }
}

std::uint32_t UnmetWords::lanes(std::uint64_t word, const Access& access) const {
  const auto it = words_.find(word);
  if (it == words_.end()) return 0;
  const Lanes& known = it->second[access.write ? 1 : 0];
  return known.cluster == access.cluster && known.agent == access.agent && known.epoch == access.epoch
             ? known.lanes
             : 0;
}

}  // namespace kiln::emulator
