// Which instructions depend on what a load has loaded, read off the program. A value that is stored cannot have been
// computed from bytes which were only written because it was seen (no thin air, in the words of the PTX memory model),
// so a read is ordered before writes that depend on a value which depends on it, fences or none.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "emulator/machine/program.hpp"

namespace kiln::emulator {

class Dependence {
 public:
  explicit Dependence(const Program& program) : program_(program) {}
  /// Whether what `load` loads flows into op `to`: through registers, the memory of the block, lanes and branches
  /// around an assignment. Calls are not followed.
  bool flows(std::uint32_t load, std::uint32_t to) { return of(load).reached[to]; }
  /// Whether op `to`, which runs after `load`, waits for its value: it flows there or decides a branch.
  bool steers(std::uint32_t load, std::uint32_t to) {
    const Flow& f = of(load);
    return f.branches || f.reached[to];
  }

 private:
  struct Flow {
    std::vector<bool> reached;  ///< by op
    bool branches = false;
  };
  struct Search;
  const Flow& of(std::uint32_t load);
  std::uint32_t function_of(std::uint32_t op) const;
  bool uses_block_memory(std::uint32_t op, bool writes) const;
  void take(Search& s, std::uint32_t op) const;
  void take_registers(Search& s, std::uint32_t op) const;
  void take_branch(Search& s, std::uint32_t op) const;
  void take_memory(Search& s, std::uint32_t op) const;

  const Program& program_;
  std::map<std::uint32_t, Flow> flows_;
  std::map<std::uint32_t, std::vector<std::vector<std::uint32_t>>>
      readers_;  ///< by first op of a function, by state
};

}  // namespace kiln::emulator
