// Which waits of a program are idle by its text alone: an argument that does not use the emulated device's
// own checks. It takes for granted that the program as it stands is right. Internal.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/amdgcn/load/module.hpp"

namespace kiln::emulator::amdgcn {

class WaitProofs {
 public:
  /// Of the instructions [first, last) of `program`, which are those of `kernel`.
  WaitProofs(const Program& program, const KernelCode& kernel, std::size_t first, std::size_t last);

  /// Why nobody needs a barrier; empty when somebody may.
  std::string barrier_idle() const;

  /// Why the wait at index `at` needs not wait for vmcnt (or else lgkmcnt), or may leave one operation more
  /// under way (`one_more`); empty when it may not.
  std::string idle(std::size_t at, bool vm, bool one_more) const;

 private:
  static constexpr std::size_t kRegisters = kScalarRegisters + kVectorRegisters;
  using Registers = std::bitset<kRegisters>;
  /// What can be under way, joined over all paths to a place.
  struct Under {
    int vm = -1, lgkm = -1;        ///< most operations; -1: not reached
    bool memory = false;           ///< copies to LDS, stores or atomics among those of vmcnt
    bool plain = true;             ///< of which all are plain stores
    bool lds_writes = false;       ///< among those of lgkmcnt LDS operations that write no register
    bool any_order = false;        ///< and scalar or flat loads, which come back in any order
    Registers vm_into, lgkm_into;  ///< registers that they write
    Registers lds_into;            ///< and those of lgkm_into that come from LDS
    /// Registers of LDS reads that were issued after the last of `lds_writes`: LDS answers in order.
    Registers after_write;
    /// The load that writes a register: all its registers arrive together. -1: different ones by path.
    std::array<std::int32_t, kRegisters> loader{};

    bool lds() const { return lds_writes || lds_into.any(); }
    bool join(const Under& other);
    void arrived(std::size_t reg);
    void issued(const Inst& in, std::int32_t index);
  };
  /// What a wait that waits for less leaves under way beyond what it may.
  struct Left {
    Registers into;
    bool memory = false, lds = false;  ///< as in Under
    bool stores = false;               ///< memory is plain stores, which the block's waves see in order
    /// The instruction would show that it is still under way. Where a block is one wave, barriers do not.
    bool told_by(const Inst& in, bool one_wave) const;
  };
  Under after(std::size_t at, Under before) const;
  const Inst* issued_before(std::size_t at, bool vm, int others) const;
  bool atomic_into(const Under& before, const Registers& registers) const;
  bool covered(std::size_t at, bool vm, const Left& left) const;
  bool publishes_before_barrier(std::size_t at) const;

  const Program& program_;
  bool one_wave_, in_order_;  ///< of a block; its waves' accesses of memory are
  std::size_t first_, last_;
  std::vector<Under> before_;  ///< per instruction
  std::vector<bool> entered_;  ///< from elsewhere than the instruction before
};

}  // namespace kiln::emulator::amdgcn
