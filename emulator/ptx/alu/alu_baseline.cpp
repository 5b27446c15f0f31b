// Hot arithmetic for any x86-64 (and any other machine).
#include "emulator/ptx/alu/alu.hpp"

#include "emulator/machine/machine.hpp"

namespace kiln::emulator {
#include "emulator/ptx/alu/alu_lanes.inc"

const Handler* alu_table_baseline() {
  return kTable;
}

Handler alu(Alu op) {
#if defined(__x86_64__) && defined(KILN_ALU_V3)
  static const Handler* const table =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? alu_table_v3() : alu_table_baseline();
#else
  static const Handler* const table = alu_table_baseline();
#endif
  return table[static_cast<std::size_t>(op)];
}

}  // namespace kiln::emulator
