// Words of global memory that lanes of a warp have accessed and not all of its lanes knew of when one of them published
// to others. What a lane publishes is its own past: others of its warp have to meet it first (bar.warp.sync).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/machine/lanes.hpp"

namespace kiln::emulator {

/// Of one launch; whoever uses it holds a lock, but for empty().
class UnmetWords {
 public:
  bool empty() const { return !some_.load(std::memory_order_relaxed); }
  /// Takes over what `w`, an agent of a cluster, has of such words.
  void note(Warp& w, std::uint32_t cluster, std::uint32_t agent);
  struct Access {
    std::uint32_t cluster, agent, epoch;
    bool write;
  };
  /// Which lanes made an access of a word (address / 4). 0: not noted.
  std::uint32_t lanes(std::uint64_t word, const Access& access) const;

 private:
  /// A program that has more is judged by the first ones.
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  struct Lanes {
    std::uint32_t cluster = 0, agent = 0, epoch = 0, lanes = 0;
  };
  std::unordered_map<std::uint64_t, std::array<Lanes, 2>> words_;  ///< the latest read and write
  std::vector<GlobalWords::Unmet> told_;
  std::atomic<bool> some_ = false;
};

}  // namespace kiln::emulator
