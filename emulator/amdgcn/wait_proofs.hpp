// Which waits of a program are idle by its text alone: an argument that does not use the emulated device's
// own checks. Internal.
#pragma once

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
  struct Under {
    int vm = 0, lgkm = 0;  ///< most operations that can be under way
    bool operator==(const Under&) const = default;
  };
  Under after(const Inst& in, Under before) const;
  std::string covered(std::size_t at) const;

  const Program& program_;
  std::size_t first_, last_;
  std::vector<Under> before_;  ///< per instruction; -1: not reached
  std::vector<bool> loaded_;   ///< registers that memory loads write
};

}  // namespace kiln::emulator::amdgcn
