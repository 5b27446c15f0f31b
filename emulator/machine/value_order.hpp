// Order between blocks by values alone. A block loads its part of an array and stores a sum with a relaxed store; the
// next block waits for that sum with relaxed loads and writes where the sum says, over the part of the first one: the
// loads cannot have seen those writes, whose place depends on what they loaded. CUB's selections in place rely on it.
// Writes are not seen earlier for it: the other direction takes fences.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/machine/clock.hpp"
#include "emulator/machine/dependence.hpp"

namespace kiln::emulator {

/// Of one launch; whoever uses it holds a lock.
class ValueOrder {
 public:
  explicit ValueOrder(const Program& program) : program_(program), dependence_(program) {}
  /// `lane` of `w` stores a value at `address` by the strong store `op`. True if that was noted: a new epoch has to begin.
  bool publish(const Warp& w, const Op& op, int lane, std::uint64_t address);
  /// `w` has loaded from `address` by the strong load `op`.
  void observe(const Warp& w, const Op& op, std::uint64_t address);
  struct Read {
    std::uint32_t cluster, agent, epoch, op;
  };
  /// Whether a write by `lane` of `w`, at `op`, depends on a value that depends on what was read.
  bool ordered(const Warp& w, int lane, std::uint32_t op, const Read& read);

 private:
  /// Values that a warp stored in one instruction, with what it knew of its cluster and how much that had seen.
  struct Stored {
    std::uint32_t cluster = 0, op = 0, agent = 0, issue = 0;
    Epochs known;
    std::size_t seen = 0;
  };
  /// A load that got a stored value, by an agent at its epoch.
  struct Seen {
    std::uint32_t stored = 0, op = 0, agent = 0, epoch = 0;
  };
  /// A program that stores more is not judged by values from there on.
  static constexpr std::size_t kMost = std::size_t{1} << 16;
  struct Values {
    std::vector<Seen> list;
    std::unordered_set<std::uint64_t> noted;
  };
  std::uint32_t number(const Op& op) const;
  bool follows(std::vector<std::uint32_t> values, const Read& read);

  const Program& program_;
  Dependence dependence_;
  std::vector<Stored> stored_;
  std::unordered_map<std::uint64_t, std::uint32_t> latest_;  ///< of `stored_`, by address
  std::unordered_map<std::uint32_t, Values> seen_;           ///< by cluster
  /// Up to which epoch of an agent's reads the answer is yes; by reader and its op, writer and its op.
  std::map<std::array<std::uint32_t, 6>, std::uint32_t> answers_;
};

}  // namespace kiln::emulator
