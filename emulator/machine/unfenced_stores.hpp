// Strong stores (volatile, relaxed) to global memory that no fence of GPU scope has followed. Other blocks may still
// see the old value, even when they have seen a later store, atomic or arrival of the same thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <kiln/emulator/emulator.hpp>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

struct Warp;

/// Of one launch; whoever uses it holds a lock.
class UnfencedStores {
 public:
  /// What a store overwrites. Only of the `first` strong one of a word it may still be read: a later one's was published
  /// with what its reader has to know.
  struct Old {
    const std::uint8_t* data = nullptr;  ///< null: an atomic, which memory takes at once
    std::uint32_t bytes = 0;
    bool first = false;
  };
  /// `lane` of `w` writes at `address` by a strong access, before memory changes.
  void write(const Warp& w, const Op& op, int lane, std::uint64_t address, const Old& old);
  /// Everything that lanes of `w` know of is visible from here on.
  void fence(const Warp& w, std::uint32_t lanes);
  /// A strong load: the value from before a store that is not visible yet; null where it reads memory. Each block gets it
  /// once. `late`: values are kept back at all.
  const std::uint8_t* read(const Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                           bool late);
  /// `w` has read memory at `address` by a strong access.
  void seen(const Warp& w, std::uint64_t address);
  /// Loads whose old value nobody looked at again, though their block had seen what came after the store.
  std::vector<Finding> take();

 private:
  struct Agent {
    std::uint32_t cluster = 0, agent = 0, epoch = 0;
  };
  struct Tell {
    std::uint64_t address = 0, time = 0;
  };
  struct Reader {
    std::uint32_t cluster = 0;
    bool again = false;
  };
  struct Store {
    Agent by;
    std::uint64_t address = 0;
    std::uint32_t op = 0, bytes = 0;
    std::array<std::uint8_t, 16> old{};
    bool first = false;
    std::uint32_t told = 0;
    std::array<Tell, 4> tells;  ///< the first `told`: the writer's strong writes since, of other words
    std::vector<Reader> readers;
  };
  struct Seen {
    std::uint64_t time = 0;
    Agent by;
  };
  using Key = std::pair<std::uint32_t, std::uint64_t>;  ///< cluster, address
  static Agent agent(const Warp& w);
  static bool knows(const Warp& w, int lane, const Agent& other);
  bool told(const Warp& w, int lane, const Store& store) const;
  void erase(std::uint64_t address);

  std::uint64_t time_ = 0;
  std::unordered_map<std::uint64_t, Store> stores_;                  ///< by address
  std::unordered_map<std::uint32_t, std::vector<Store*>> unfenced_;  ///< by cluster
  std::map<Key, Seen> seen_;
  std::map<Key, Finding> findings_;
};

}  // namespace kiln::emulator
