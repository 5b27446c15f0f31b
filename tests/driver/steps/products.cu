// A persistent product of warp specialists: TMA multicast in clusters of two, wgmma, stores by TMA. `products STEP` leaves out a step of it, 0 for none.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cstdint>
#include "tests/driver/samples/common.hpp"
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
constexpr int BM = 128, BN = 128, BK = 64, STG = 4, CL = 2;
__device__ uint32_t sa(const void* p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ void mb_init(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sa(b)), "r"(n));
}
__device__ void mb_expect(uint64_t* b, int n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sa(b)), "r"(n) : "memory");
}
__device__ void mb_wait(uint64_t* b, int ph) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::
          "r"(sa(b)),
      "r"(ph)
      : "memory");
}
__device__ void mb_arrive_cluster(uint64_t* b, uint32_t cta) {
  asm volatile(
      "{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" ::
          "r"(sa(b)),
      "r"(cta)
      : "memory");
}
__device__ void tma_mc(void* d, const CUtensorMap* m, int x, int y, uint64_t* b, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3,%4}], [%2], %5;" ::
          "r"(sa(d)),
      "l"(m), "r"(sa(b)), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
__device__ void tma(void* d, const CUtensorMap* m, int x, int y, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4}], [%2];" ::
          "r"(sa(d)),
      "l"(m), "r"(sa(b)), "r"(x), "r"(y)
      : "memory");
}
__device__ uint64_t desc(const void* p) {
  uint64_t d = 0;
  d |= (uint64_t)((sa(p) & 0x3FFFF) >> 4);
  d |= (uint64_t)1 << 16;
  d |= (uint64_t)(1024 >> 4) << 32;
  d |= 1ull << 62;
  return d;
}
__device__ void wgmma128(float (&c)[64], uint64_t a, uint64_t b, int sc) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
        "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
        "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]),
        "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]),
        "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]),
        "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]),
        "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(a), "l"(b), "r"(sc));
}
struct __align__(1024) Smem {
  __nv_bfloat16 a[STG][BM * BK], b[STG][BN * BK];
  __nv_bfloat16 c[BM * BN];
  uint64_t full[STG], empty[STG];
};
__device__ void bar(int id, int n) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory");
}
__global__ void __cluster_dims__(CL, 1, 1) __launch_bounds__(384)
    gemm(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B,
         const __grid_constant__ CUtensorMap C, int M, int N, int K) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  int wg = threadIdx.x / 128, t = threadIdx.x % 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STG; ++i) {
      mb_init(&s.full[i], 1);
      mb_init(&s.empty[i], 2 * CL);
    }
    STEP(1) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  STEP(2)
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
  // clusters go over pairs of tiles in M (same N): B multicast
  int pairs = M / BM / CL * (N / BN), clusters = gridDim.x / CL;
  if (wg == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0) {
      int st = 0, ph = 0;
      for (int p = blockIdx.x / CL; p < pairs; p += clusters) {
        int m = (p % (M / BM / CL)) * CL + rank, n = p / (M / BM / CL);
        for (int k = 0; k < K / BK; ++k) {
          STEP(3) mb_wait(&s.empty[st], ph ^ 1);
          mb_expect(&s.full[st], (BM + BN) * BK * 2);
          tma(s.a[st], &A, k * BK, m * BM, &s.full[st]);
          tma_mc(s.b[st] + rank * BN / CL * BK, &B, k * BK, n * BN + rank * BN / CL, &s.full[st], 3);
          if (++st == STG) st = 0, ph ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    --wg;
    int st = 0, ph = 0;
    for (int p = blockIdx.x / CL; p < pairs; p += clusters) {
      int m = (p % (M / BM / CL)) * CL + rank, n = p / (M / BM / CL);
      float acc[64];
      for (float& f : acc) f = 0;
      for (int k = 0; k < K / BK; ++k) {
        STEP(4) mb_wait(&s.full[st], ph);
        STEP(5) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int q = 0; q < BK / 16; ++q)
          wgmma128(acc, desc(s.a[st] + wg * 64 * BK) + q * 2, desc(s.b[st]) + q * 2, k || q);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        STEP(6) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        STEP(7) if (t < CL) mb_arrive_cluster(&s.empty[st], t);
        if (++st == STG) st = 0, ph ^= 1;
      }
      STEP(8) {
        if (threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      }
      STEP(9) bar(1, 256);
      int w = t / 32, l = t % 32;
      for (int j = 0; j < 16; ++j)
        for (int h = 0; h < 2; ++h) {
          int row = wg * 64 + w * 16 + l / 4 + h * 8, col = j * 8 + l % 4 * 2;
          *(__nv_bfloat162*)&s.c[row * BN + col] =
              __floats2bfloat162_rn(acc[j * 4 + h * 2], acc[j * 4 + h * 2 + 1]);
        }
      STEP(10) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      STEP(11) bar(1, 256);
      if (threadIdx.x == 128) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2,%3}], [%1];" ::"l"(&C),
                     "r"(sa(s.c)), "r"(n * BN), "r"(m * BM)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    STEP(12) {
      if (threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
  }
  STEP(13) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  int M = 512, N = 256, K = 320;
  auto xa = some_floats((size_t)M * K, 3), xb = some_floats((size_t)N * K, 5);
  std::vector<__nv_bfloat16> ha(xa.size()), hb(xb.size());
  for (size_t i = 0; i < xa.size(); ++i) ha[i] = __float2bfloat16(xa[i]);
  for (size_t i = 0; i < xb.size(); ++i) hb[i] = __float2bfloat16(xb[i]);
  auto *da = to_device(ha), *db = to_device(hb);
  auto* dc = on_device<__nv_bfloat16>((size_t)M * N);
  void* f;
  cudaDriverEntryPointQueryResult q;
  OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &q));
  auto enc = (PFN_cuTensorMapEncodeTiled_v12000)f;
  auto make = [&](void* p, uint64_t w, uint64_t h, uint32_t bw, uint32_t bh, CUtensorMapSwizzle sw) {
    CUtensorMap m;
    uint64_t d[2] = {w, h}, s[1] = {w * 2};
    uint32_t b[2] = {bw, bh}, e[2] = {1, 1};
    if (enc(&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, d, s, b, e, CU_TENSOR_MAP_INTERLEAVE_NONE, sw,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
      std::puts("encode"), exit(1);
    return m;
  };
  auto mA = make(da, K, M, BK, BM, CU_TENSOR_MAP_SWIZZLE_128B),
       mB = make(db, K, N, BK, BN / CL, CU_TENSOR_MAP_SWIZZLE_128B),
       mC = make(dc, N, M, BN, BM, CU_TENSOR_MAP_SWIZZLE_NONE);
  OK(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Smem)));
  gemm<<<4, 384, sizeof(Smem)>>>(mA, mB, mC, M, N, K);
  OK(cudaDeviceSynchronize());
  auto hc = to_host(dc, (size_t)M * N);
  double num = 0, den = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double e = 0;
      for (int k = 0; k < K; ++k)
        e += (double)__bfloat162float(ha[i * K + k]) * __bfloat162float(hb[j * K + k]);
      double d = e - __bfloat162float(hc[i * N + j]);
      num += d * d;
      den += e * e;
    }
  std::printf("error %g\n", sqrt(num / den));
  if (sqrt(num / den) < 4e-3) std::puts("right");
}
