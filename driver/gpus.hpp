// The GPUs that the stand-in can be: what their properties say.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kiln::driver {

struct Gpu {
  std::string_view name;     ///< as --gpu takes it
  std::string_view product;  ///< as cuDeviceGetName says it
  int major, minor;
  int sms;
  std::size_t memory_gib;
  int threads_per_sm, blocks_per_sm;
  int smem_per_sm, smem_per_block_optin;
  int l2_mib, clock_mhz, memory_clock_mhz, bus_bits;
  int cc() const { return 10 * major + minor; }
};

std::span<const Gpu> gpus();
/// By name ("H100", any case) or architecture ("sm_90", "sm_90a"); null if there is none.
const Gpu* find_gpu(std::string_view name);
/// cuDeviceGetAttribute; -1 for attributes nobody knows.
int attribute(const Gpu& gpu, int number);

inline constexpr int kRegistersPerSm = 65536;
inline constexpr int kReservedSmem = 1024;
/// Registers that a kernel is taken to need: the emulated device does not allocate them.
inline constexpr int kAssumedRegisters = 32;

}  // namespace kiln::driver
