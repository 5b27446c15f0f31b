// C = (A SA) (B SB)^T of e4m3 with a ue8m0 factor for each row and 32 elements of K, a tile of 128 x 64 a block. Factors
// come as blocks of 512 bytes for 128 rows and 128 elements, and go to tensor memory by tcgen05.cp.
#include "tcgen05.cuh"

constexpr int kM = 128, kN = 64, kK = 128, kStages = 2;
constexpr uint32_t kTileBytes = (kM + kN) * kK, kStageBytes = kTileBytes + 1024;

struct Shared {
  alignas(1024) char stages[kStages][kStageBytes];
  alignas(8) uint64_t full[kStages], empty[kStages], done;
  uint32_t columns;
};

__device__ void copy_scales(uint32_t to, uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}
__device__ void multiply_scaled(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t scales,
                                bool accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], p; }" ::"r"(
          d),
      "l"(a), "l"(b), "r"(instruction), "r"(scales), "r"(scales + 4), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

extern "C" __global__ void __launch_bounds__(192, 1)
    scaled(const __grid_constant__ Map a, const __grid_constant__ Map b, const char* sa, const char* sb,
           float* c, int n, int k) {
  __shared__ Shared s;
  const int warp = threadIdx.x / 32, steps = k / kK;
  const auto bar = [](uint64_t& m) { return shared_address(&m); };
  if (warp == 0) allocate<1>(shared_address(&s.columns), 128);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(bar(s.full[i]), 1), init_barrier(bar(s.empty[i]), 1);
    init_barrier(bar(s.done), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const uint32_t tensor = s.columns;
  if (warp == 4 && elected()) {
    for (int i = 0; i < steps; ++i) {
      const int stage = i % kStages;
      const uint32_t at = shared_address(s.stages[stage]);
      if (i >= kStages) wait(bar(s.empty[stage]), i / kStages - 1 & 1);
      expect(bar(s.full[stage]), kStageBytes);
      load<1>(at, a, i * kK, blockIdx.y * kM, bar(s.full[stage]));
      load<1>(at + kM * kK, b, i * kK, blockIdx.x * kN, bar(s.full[stage]));
      load_bytes(at + kTileBytes, sa + (blockIdx.y * steps + i) * 512, 512, bar(s.full[stage]));
      load_bytes(at + kTileBytes + 512, sb + (blockIdx.x * steps + i) * 512, 512, bar(s.full[stage]));
    }
  } else if (warp == 5 && elected()) {
    for (int i = 0; i < steps; ++i) {
      const int stage = i % kStages;
      const uint32_t at = shared_address(s.stages[stage]), scales = tensor + 64 + 8 * stage;
      wait(bar(s.full[stage]), i / kStages & 1);
      copy_scales(scales, plain(at + kTileBytes));
      copy_scales(scales + 4, plain(at + kTileBytes + 512));
      for (uint32_t j = 0; j < 4; ++j)  // the four factors of a cell
        multiply_scaled(tensor, swizzled(at) + 2 * j, swizzled(at + kM * kK) + 2 * j,
                        j << 4 | kN / 8 << 17 | 1u << 23 | kM / 16 << 24 | j << 29, scales, i != 0 || j != 0);
      commit<1>(bar(s.empty[stage]));
    }
    commit<1>(bar(s.done));
  } else if (warp < 4) {
    wait(bar(s.done), 0);
    float* const row = c + (static_cast<size_t>(blockIdx.y) * kM + threadIdx.x) * n + blockIdx.x * kN;
    for (int i = 0; i < kN; i += 16) {
      float v[16];
      read16(tensor + (warp << 21) + i, v);
      for (int j = 0; j < 16; ++j) row[i + j] = v[j];
    }
  }
  __syncthreads();
  if (warp == 0) release<1>(tensor, 128);
}
