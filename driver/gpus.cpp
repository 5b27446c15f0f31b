#include "driver/gpus.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/grid.hpp"

namespace kiln::driver {
namespace {

// name, product, cc, SMs, GiB, threads and blocks of an SM, its shared memory, most of a block, L2, clocks, bus
constexpr std::array kGpus = {
    Gpu{"H200", "NVIDIA H200", 9, 0, 132, 140, 2048, 32, 233472, 232448, 60, 1980, 3201, 6144},
    Gpu{"H100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 80, 2048, 32, 233472, 232448, 50, 1980, 2619, 5120},
    Gpu{"B200", "NVIDIA B200", 10, 0, 148, 180, 2048, 32, 233472, 232448, 126, 1965, 3996, 8192},
    Gpu{"B300", "NVIDIA B300 SXM6 AC", 10, 3, 148, 268, 2048, 32, 233472, 232448, 126, 1965, 3996, 8192},
    Gpu{"A100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 80, 2048, 32, 167936, 166912, 40, 1410, 1593, 5120},
    Gpu{"L40S", "NVIDIA L40S", 8, 9, 142, 45, 1536, 24, 102400, 101376, 96, 2520, 9001, 384},
    Gpu{"A10", "NVIDIA A10", 8, 6, 72, 22, 1536, 16, 102400, 101376, 6, 1695, 6251, 384},
    Gpu{"T4", "Tesla T4", 7, 5, 40, 15, 1024, 16, 65536, 65536, 4, 1590, 5001, 256},
};

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// Limits of textures and surfaces, and 0 for what is not there.
int image_attribute(int number) {
  switch (number) {
    case 21:  // textures: 1D, 2D, 3D
    case 22:
      return 131072;
    case 23:
      return 65536;
    case 24:
    case 25:
    case 26:
      return 16384;
    case 27:  // layered, gathered, cubes
    case 28:
    case 42:
    case 45:
    case 46:
    case 52:
    case 53:
      return 32768;
    case 29:
    case 43:
      return 2048;
    case 44:
      return 1;
    case 47:
    case 48:
      return 8192;
    case 49:
      return 32768;
    case 54:
      return 2046;
    case 55:  // surfaces
    case 61:
    case 63:
    case 64:
    case 66:
    case 67:
      return 32768;
    case 56:
    case 57:
      return 131072;
    case 58:
    case 59:
    case 60:
      return 16384;
    case 62:
    case 65:
      return 2048;
    case 68:
      return 2046;
    case 69:  // linear and mipmapped ones
      return 268435456;
    case 70:
      return 131072;
    case 71:
      return 65000;
    case 72:
      return 2097120;
    case 73:
    case 74:
    case 77:
      return 32768;
    default:
      return number > 0 && number < 160 ? 0 : -1;
  }
}

}  // namespace

std::span<const Gpu> gpus() {
  return kGpus;
}

const Gpu* find_gpu(std::string_view name) {
  if (name.starts_with("sm_")) {
    std::string_view digits = name.substr(3);
    if (digits.ends_with('a') || digits.ends_with('f')) digits.remove_suffix(1);
    for (const Gpu& gpu : kGpus)
      if (digits == std::to_string(gpu.cc())) return &gpu;
    return nullptr;
  }
  const auto found =
      std::find_if(kGpus.begin(), kGpus.end(), [&](const Gpu& g) { return same(g.name, name); });
  return found == kGpus.end() ? nullptr : &*found;
}

int attribute(const Gpu& gpu, int number) {
  const bool hopper = gpu.major >= 9, ampere = gpu.major >= 8;
  switch (number) {
    case 1:  // threads of a block, and along x and y
    case 2:
    case 3:
      return 1024;
    case 4:
      return 64;
    case 5:
      return 2147483647;
    case 6:
    case 7:
      return kMostOfGridAxis;
    case 8:
      return 49152;
    case 9:
      return 65536;
    case 10:
      return 32;
    case 11:
      return 2147483647;
    case 12:
    case 82:
      return kRegistersPerSm;
    case 13:
      return gpu.clock_mhz * 1000;
    case 14:
    case 30:
      return 512;
    case 51:
      return 32;
    case 16:
      return gpu.sms;
    case 33:  // PCI bus
      return 1;
    case 36:
      return gpu.memory_clock_mhz * 1000;
    case 37:
      return gpu.bus_bits;
    case 38:
      return gpu.l2_mib << 20;
    case 39:
      return gpu.threads_per_sm;
    case 40:
      return 3;
    case 75:
      return gpu.major;
    case 76:
      return gpu.minor;
    case 81:
      return gpu.smem_per_sm;
    case 87:
      return gpu.minor == 0 ? 2 : 64;
    case 97:
      return gpu.smem_per_block_optin;
    case 106:
      return gpu.blocks_per_sm;
    case 108:
      return ampere ? (gpu.l2_mib << 20) / 4 * 3 : 0;
    case 109:
      return ampere ? 128 << 20 : 0;
    case 111:
      return ampere ? kReservedSmem : 0;
    case 120:  // clusters, tensor maps
    case 127:
      return hopper ? 1 : 0;
    case 126:
      return hopper ? 4 : 1;
    case 15:  // copies beside kernels, host memory mapped, concurrent kernels, unified addresses, stream
    case 19:  // priorities, caches, managed memory, preemption, cooperative launches, registered memory, pools
    case 31:
    case 41:
    case 78:
    case 79:
    case 80:
    case 83:
    case 89:
    case 90:
    case 95:
    case 99:
    case 115:
      return 1;
    case 131:  // no NUMA node
    case 134:
      return -1;
    case 102:  // virtual memory management
      return 1;
    case 132:  // multicast objects, of one device
      return hopper;
    default:
      return image_attribute(number);
  }
}

}  // namespace kiln::driver
