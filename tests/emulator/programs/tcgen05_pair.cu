// C = A B^T in bf16, a tile of 256 x 128 by a pair of CTAs: each loads its half of the rows of A and of B, the even one
// multiplies. Warp 4 loads, warp 5 multiplies, warps 0 to 3 store.
#include "tcgen05.cuh"

constexpr int kM = 128, kN = 64, kK = 64, kStages = 2;  // of one CTA
constexpr uint32_t kStageBytes = (kM + kN) * kK * 2;

struct Shared {
  alignas(1024) char stages[kStages][kStageBytes];
  alignas(8) uint64_t full[kStages], empty[kStages], done;
  uint32_t columns;
};

extern "C" __global__ void __launch_bounds__(192, 1)
    pair(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  __shared__ Shared s;
  const int warp = threadIdx.x / 32, steps = k / kK, rank = blockIdx.x & 1, tile = blockIdx.x / 2;
  const auto bar = [](uint64_t& m) { return shared_address(&m); };
  if (warp == 0) allocate<2>(shared_address(&s.columns), 128);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(bar(s.full[i]), 1), init_barrier(bar(s.empty[i]), 1);
    init_barrier(bar(s.done), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier();
  const uint32_t tensor = s.columns;
  if (warp == 4 && elected()) {
    for (int i = 0; i < steps; ++i) {
      const int stage = i % kStages;
      if (i >= kStages) wait(bar(s.empty[stage]), i / kStages - 1 & 1);
      if (rank == 0) expect(bar(s.full[stage]), 2 * kStageBytes);
      load<2>(shared_address(s.stages[stage]), a, i * kK, blockIdx.y * 2 * kM + rank * kM,
              bar(s.full[stage]));
      load<2>(shared_address(s.stages[stage]) + kM * kK * 2, b, i * kK, tile * 2 * kN + rank * kN,
              bar(s.full[stage]));
    }
  } else if (warp == 5 && rank == 0 && elected()) {
    for (int i = 0; i < steps; ++i) {
      const int stage = i % kStages;
      wait(bar(s.full[stage]), i / kStages & 1);
      const uint64_t da = swizzled(shared_address(s.stages[stage])),
                     db = swizzled(shared_address(s.stages[stage]) + kM * kK * 2);
      for (int j = 0; j < kK / 16; ++j)
        multiply<2>(tensor, da + 2 * j, db + 2 * j, 0x490u | 2 * kN / 8 << 17 | 2 * kM / 16 << 24,
                    i + j != 0);
      commit<2>(bar(s.empty[stage]));
    }
    commit<2>(bar(s.done));
  } else if (warp < 4) {
    wait(bar(s.done), 0);
    float* const row =
        c + (static_cast<size_t>(blockIdx.y) * 2 * kM + rank * kM + threadIdx.x) * n + tile * 2 * kN;
    for (int i = 0; i < 2 * kN; i += 16) {
      float v[16];
      read16(tensor + (warp << 21) + i, v);
      for (int j = 0; j < 16; ++j) row[i + j] = v[j];
    }
  }
  cluster_barrier();
  if (warp == 0) release<2>(tensor, 128);
}
