// Hot arithmetic for x86-64 with AVX2 and FMA. Only optimised builds compile it (see CMakeLists.txt):
// everything it uses is then inlined, and nothing compiled for AVX2 can stand in for a shared function
// elsewhere.
#include "emulator/ptx/alu/alu.hpp"

#if defined(KILN_ALU_V3)
#include "emulator/machine/machine.hpp"

#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2")
namespace kiln::emulator {
#include "emulator/ptx/alu/alu_lanes.inc"
const Handler* alu_table_v3() {
  return kTable;
}
}  // namespace kiln::emulator
#pragma GCC pop_options
#endif
