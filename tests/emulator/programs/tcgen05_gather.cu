// C = A B[rows]^T in bf16, 128 x 64 x 64: rows of B are gathered by four, A goes to tensor memory through registers.
#include "tcgen05.cuh"

constexpr int kN = 64, kK = 64;

struct Shared {
  alignas(1024) char b[kN * kK * 2];
  alignas(8) uint64_t full, done;
  uint32_t columns;
};

__device__ void multiply_from_tensor(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction,
                                     bool accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }" ::
          "r"(d),
      "r"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

extern "C" __global__ void __launch_bounds__(128, 1)
    gathered(const uint32_t* a, const __grid_constant__ Map b, const int* rows, float* c) {
  __shared__ Shared s;
  const int warp = threadIdx.x / 32;
  const uint32_t full = shared_address(&s.full), done = shared_address(&s.done);
  if (warp == 0) allocate<1>(shared_address(&s.columns), 128);
  if (threadIdx.x == 0) {
    init_barrier(full, 1), init_barrier(done, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(full, sizeof s.b);
    for (int i = 0; i < kN; i += 4) gather(shared_address(s.b) + i * kK * 2, b, 0, rows + i, full);
  }
  __syncthreads();
  const uint32_t tensor = s.columns, lanes = tensor + (warp << 21);
  for (int i = 0; i < 4; ++i) {
    uint32_t r[8];
    for (int j = 0; j < 8; ++j) r[j] = a[threadIdx.x * 32 + 8 * i + j];
    write8(lanes + 64 + 8 * i, r);
  }
  asm volatile("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  if (warp == 0 && elected()) {
    wait(full, 0);
    for (int i = 0; i < 4; ++i)
      multiply_from_tensor(tensor, tensor + 64 + 8 * i, swizzled(shared_address(s.b)) + 2 * i,
                           0x490u | kN / 8 << 17 | 8u << 24, i != 0);
    commit<1>(done);
  }
  __syncwarp();
  wait(done, 0);
  for (int i = 0; i < kN; i += 16) {
    float v[16];
    read16(lanes + i, v);
    for (int j = 0; j < 16; ++j) c[threadIdx.x * kN + i + j] = v[j];
  }
  __syncthreads();
  if (warp == 0) release<1>(tensor, 128);
}
