// C = A B^T in bf16, tiles of 128 x 64 by blocks that go on with what they cancel (cluster launch control). Warps 0 to 3
// store tiles, warp 4 loads and schedules, warp 5 multiplies; two accumulators in turn.
#include "tcgen05.cuh"

constexpr int kM = 128, kN = 64, kK = 64, kStages = 3;
constexpr uint32_t kStageBytes = (kM + kN) * kK * 2;

struct Shared {
  alignas(1024) char stages[kStages][kStageBytes];
  alignas(16) char answers[2][16];
  alignas(8) uint64_t full[kStages], empty[kStages], done[2], read[2], answered[2], taken[2];
  uint32_t columns;
};

/// The next tile; false: there is none.
__device__ bool next_tile(Shared& s, int number, uint32_t& x, uint32_t& y) {
  const int slot = number & 1;
  wait(shared_address(&s.answered[slot]), number >> 1 & 1);
  uint32_t more;
  asm volatile(
      "{ .reg .b128 q; .reg .pred p; .reg .b32 z, w; ld.shared.b128 q, [%3];\n"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, q; selp.u32 %0, 1, 0, p;\n"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, z, w}, q; }"
      : "=r"(more), "+r"(x), "+r"(y)
      : "r"(shared_address(s.answers[slot]))
      : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  return more != 0;
}

extern "C" __global__ void __launch_bounds__(192, 1)
    persistent(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  __shared__ Shared s;
  const int warp = threadIdx.x / 32, steps = k / kK;
  const auto bar = [](uint64_t& m) { return shared_address(&m); };
  if (warp == 0) allocate<1>(shared_address(&s.columns), 128);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(bar(s.full[i]), 1), init_barrier(bar(s.empty[i]), 1);
    for (int i = 0; i < 2; ++i) {
      init_barrier(bar(s.done[i]), 1), init_barrier(bar(s.read[i]), 4);
      init_barrier(bar(s.answered[i]), 1), init_barrier(bar(s.taken[i]), 6);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const uint32_t tensor = s.columns;
  uint32_t x = blockIdx.x, y = blockIdx.y;
  if (warp == 4 && elected()) {
    for (int tile = 0, step = 0;; ++tile) {
      const int slot = tile & 1;
      if (tile >= 2) wait(bar(s.taken[slot]), (tile >> 1) - 1 & 1);
      expect(bar(s.answered[slot]), 16);
      asm volatile(
          "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::
              "r"(shared_address(s.answers[slot])),
          "r"(bar(s.answered[slot]))
          : "memory");
      for (int i = 0; i < steps; ++i, ++step) {
        const int stage = step % kStages;
        if (step >= kStages) wait(bar(s.empty[stage]), step / kStages - 1 & 1);
        expect(bar(s.full[stage]), kStageBytes);
        load<1>(shared_address(s.stages[stage]), a, i * kK, y * kM, bar(s.full[stage]));
        load<1>(shared_address(s.stages[stage]) + kM * kK * 2, b, i * kK, x * kN, bar(s.full[stage]));
      }
      const bool more = next_tile(s, tile, x, y);
      arrive(bar(s.taken[slot]));
      if (!more) break;
    }
  } else if (warp == 5 && elected()) {
    for (int tile = 0, step = 0;; ++tile) {
      const int slot = tile & 1;
      if (tile >= 2) wait(bar(s.read[slot]), (tile >> 1) - 1 & 1);
      for (int i = 0; i < steps; ++i, ++step) {
        const int stage = step % kStages;
        wait(bar(s.full[stage]), step / kStages & 1);
        const uint64_t da = swizzled(shared_address(s.stages[stage])),
                       db = swizzled(shared_address(s.stages[stage]) + kM * kK * 2);
        for (int j = 0; j < kK / 16; ++j)
          multiply<1>(tensor + 64 * slot, da + 2 * j, db + 2 * j, 0x490u | kN / 8 << 17 | kM / 16 << 24,
                      i + j != 0);
        commit<1>(bar(s.empty[stage]));
      }
      commit<1>(bar(s.done[slot]));
      const bool more = next_tile(s, tile, x, y);
      arrive(bar(s.taken[slot]));
      if (!more) break;
    }
  } else if (warp < 4) {
    for (int tile = 0;; ++tile) {
      const int slot = tile & 1;
      wait(bar(s.done[slot]), tile >> 1 & 1);
      float* const row = c + (static_cast<size_t>(y) * kM + threadIdx.x) * n + x * kN;
      for (int i = 0; i < kN; i += 16) {
        float v[16];
        read16(tensor + (warp << 21) + 64 * slot + i, v);
        for (int j = 0; j < 16; ++j) row[i + j] = v[j];
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(bar(s.read[slot]));
      const bool more = next_tile(s, tile, x, y);
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(bar(s.taken[slot]));
      if (!more) break;
    }
  }
  __syncthreads();
  if (warp == 0) release<1>(tensor, 128);
}
