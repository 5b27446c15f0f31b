// C = A * B^T in bf16 by mma.sync: two cp.async stages, ldmatrix fragments, a 64 x 64 tile of four warps.
#include <cuda_bf16.h>

constexpr int kTile = 64, kDepth = 32, kPitch = kDepth + 8;

__device__ void load_stage(__nv_bfloat16* stage, const __nv_bfloat16* matrix, int row0, int k0, int k) {
  for (int chunk = threadIdx.x; chunk < kTile * kDepth / 8; chunk += blockDim.x) {
    const int row = chunk / (kDepth / 8), column = chunk % (kDepth / 8) * 8;
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(stage + row * kPitch + column));
    const void* source = matrix + (row0 + row) * k + k0 + column;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
  }
}

extern "C" __global__ void __launch_bounds__(128) gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
  __shared__ alignas(16) __nv_bfloat16 as[2][kTile * kPitch], bs[2][kTile * kPitch];
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sums[8][4] = {};
  const auto fetch = [&](int stage, int k0) {
    load_stage(as[stage], a, row0, k0, k);
    load_stage(bs[stage], b, column0, k0, k);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += kDepth, stage ^= 1) {
    if (k0 + kDepth < k) {
      fetch(stage ^ 1, k0 + kDepth);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    for (int kk = 0; kk < kDepth; kk += 16) {
      unsigned fa[4];
      const __nv_bfloat16* pa = as[stage] + (warp * 16 + lane % 16) * kPitch + kk + lane / 16 * 8;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                   : "r"(static_cast<unsigned>(__cvta_generic_to_shared(pa))) : "memory");
      for (int j = 0; j < 8; ++j) {
        unsigned fb[2];
        const __nv_bfloat16* pb = bs[stage] + (j * 8 + lane % 8) * kPitch + kk + lane / 8 % 2 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1]) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(pb))) : "memory");
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int row = row0 + warp * 16 + lane / 4 + i / 2 * 8, column = column0 + j * 8 + lane % 4 * 2 + i % 2;
      c[row * n + column] = sums[j][i];
    }
  }
}
