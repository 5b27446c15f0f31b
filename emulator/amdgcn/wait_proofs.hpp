// Which waits of a program are idle by its text alone: an argument that does not use the emulated device's
// own checks. It takes for granted that the program as it stands is right. Internal.
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "emulator/amdgcn/module.hpp"

namespace kiln::emulator::amdgcn {

class WaitProofs {
 public:
  /// Of the instructions [first, last) of `program`, one kernel.
  WaitProofs(const Program& program, std::size_t first, std::size_t last);

  /// Why the wait at index `at` needs not wait for vmcnt (or else lgkmcnt); empty when it may have to.
  std::string idle(std::size_t at, bool vm) const;

 private:
  using Registers = std::bitset<kScalarRegisters + kVectorRegisters>;
  /// What can be under way, joined over all paths to a place.
  struct Under {
    int vm = -1, lgkm = -1;        ///< most operations; -1: not reached
    bool memory = false;           ///< copies to LDS, stores or atomics among those of vmcnt
    bool lds = false;              ///< LDS operations among those of lgkmcnt
    Registers vm_into, lgkm_into;  ///< registers that they write
    bool operator==(const Under&) const = default;
  };
  Under after(const Inst& in, Under before) const;
  bool covered(std::size_t at, bool vm) const;

  const Program& program_;
  std::size_t first_, last_;
  std::vector<Under> before_;  ///< per instruction
};

}  // namespace kiln::emulator::amdgcn
