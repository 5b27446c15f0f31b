// Distributed shared memory: atomics, exchanges, st.async and bulk copies between blocks. `clusters STEP` leaves out a step of it, 0 for none.
#include <cooperative_groups.h>
#include <cuda/ptx>
#include "tests/driver/samples/common.hpp"
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
__constant__ int left_out;
#define STEP(n) if (left_out != (n))
__global__ void hist(int* bins, int nbins, int per, const int* in, int n) {
  extern __shared__ int smem[];
  auto cluster = cg::this_cluster();
  unsigned size = cluster.dim_blocks().x, rank = cluster.block_rank();
  for (int i = threadIdx.x; i < per; i += blockDim.x) smem[i] = 0;
  STEP(1) cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    int b = in[i];
    b = b < 0 ? 0 : b >= nbins ? nbins - 1 : b;
    int* dst = cluster.map_shared_rank(smem, b / per);
    atomicAdd(dst + b % per, 1);
  }
  STEP(2) cluster.sync();
  int* out = bins + rank * per;
  for (int i = threadIdx.x; i < per; i += blockDim.x) atomicAdd(out + i, smem[i]);
}
// each block reads the neighbour's sum
__global__ void __cluster_dims__(4) ring_sum(const float* x, float* out) {
  __shared__ float part[128];
  auto cluster = cg::this_cluster();
  part[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  STEP(3) cluster.sync();
  float s = 0;
  for (unsigned r = 0; r < 4; ++r)
    s += *cluster.map_shared_rank(&part[127 - threadIdx.x], (cluster.block_rank() + r) % 4);
  out[blockIdx.x * 128 + threadIdx.x] = s;
  STEP(4) cluster.sync();
}
// split arrive/wait: local work between
__global__ void __cluster_dims__(2) split(const float* x, float* out) {
  __shared__ float part[64];
  auto cluster = cg::this_cluster();
  part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x] * 2;
  auto tok = cluster.barrier_arrive();
  float mine = x[blockIdx.x * 64 + threadIdx.x] + 1;
  STEP(5) cluster.barrier_wait(std::move(tok));
  float other = cluster.map_shared_rank(part, cluster.block_rank() ^ 1)[threadIdx.x];
  out[blockIdx.x * 64 + threadIdx.x] = mine + other;
  STEP(6) cluster.sync();
}
// st.async and remote mbarrier, cuda::ptx
__global__ void __cluster_dims__(2) passing(const int* x, int* out, int rounds) {
  __shared__ alignas(8) uint64_t bar[2];
  __shared__ alignas(16) int box[2][64];
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar[0], 1);
    ptx::mbarrier_init(&bar[1], 1);
    STEP(7) ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();
  unsigned peer = cluster.block_rank() ^ 1;
  int v = x[blockIdx.x * 64 + threadIdx.x];
  for (int r = 0; r < rounds; ++r) {
    if (threadIdx.x == 0)
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar[r & 1],
                                     64 * 4);
    int* rb = cluster.map_shared_rank(&box[r & 1][threadIdx.x], peer);
    uint64_t* rbar = cluster.map_shared_rank(&bar[r & 1], peer);
    ptx::st_async(rb, v, rbar);
    STEP(8)
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar[r & 1], (r / 2) & 1)) {}
    v = v * 3 + box[r & 1][63 - threadIdx.x];
    STEP(9) cluster.sync();
  }
  out[blockIdx.x * 64 + threadIdx.x] = v;
}
// bulk copy shared -> remote shared
__global__ void __cluster_dims__(2) bulk(const int* x, int* out) {
  __shared__ alignas(16) int a[256], b[256];
  __shared__ alignas(8) uint64_t bar;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  for (int i = threadIdx.x; i < 256; i += blockDim.x) a[i] = x[blockIdx.x * 256 + i] ^ 5;
  STEP(10) ptx::fence_proxy_async(ptx::space_shared);
  cluster.sync();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof b);
    unsigned peer = cluster.block_rank() ^ 1;
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, cluster.map_shared_rank(b, peer), a, sizeof a,
                       cluster.map_shared_rank(&bar, peer));
  }
  STEP(11) while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  for (int i = threadIdx.x; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = b[i];
  STEP(12) cluster.sync();
}
// reduce by bulk: cp.reduce.async.bulk to global
__global__ void reduce_bulk(const float* x, float* out) {
  __shared__ alignas(128) float s[128];
  s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  STEP(13) ptx::fence_proxy_async(ptx::space_shared);
  STEP(14) __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out, s, sizeof s);
    ptx::cp_async_bulk_commit_group();
    STEP(15) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
int main(int c, char** a) {
  int skip = c > 1 ? atoi(a[1]) : 0;
  cudaMemcpyToSymbol(left_out, &skip, 4);
  int n = 4000, nb = 400, per = 100;
  auto in = some_ints(n, nb);
  int *di = to_device(in), *bins = on_device<int>(nb);
  OK(cudaMemset(bins, 0, nb * 4));
  cudaLaunchConfig_t cfg{};
  cfg.gridDim = 8;
  cfg.blockDim = 128;
  cfg.dynamicSmemBytes = per * 4;
  cudaLaunchAttribute at[1];
  at[0].id = cudaLaunchAttributeClusterDimension;
  at[0].val.clusterDim.x = 4;
  at[0].val.clusterDim.y = at[0].val.clusterDim.z = 1;
  cfg.attrs = at;
  cfg.numAttrs = 1;
  int ncl = 0;
  OK(cudaOccupancyMaxActiveClusters(&ncl, hist, &cfg));
  EXPECT(ncl > 0);
  OK(cudaLaunchKernelEx(&cfg, hist, bins, nb, per, (const int*)di, n));
  OK(cudaDeviceSynchronize());
  auto hb = to_host(bins, nb);
  std::vector<int> e(nb);
  for (int v : in) ++e[v];
  if (!skip) EXPECT(hb == e);
  auto x = some_floats(1024);
  float *dx = to_device(x), *o = on_device<float>(1024);
  ring_sum<<<8, 128>>>(dx, o);
  auto h = to_host(o, 1024);
  if (!skip)
    for (int i = 0; i < 1024; ++i) {
      int cl = i / 512, t = i % 128;
      double s = 0;
      for (int r = 0; r < 4; ++r) s += x[cl * 512 + r * 128 + 127 - t];
      EXPECT(std::abs(s - h[i]) < 1e-5);
    }
  split<<<4, 64>>>(dx, o);
  h = to_host(o, 256);
  if (!skip)
    for (int i = 0; i < 256; ++i) EXPECT(h[i] == x[i] + 1 + x[i ^ 64] * 2);
  passing<<<4, 64>>>(di, bins, 5);
  auto hp = to_host(bins, 256);
  for (int cl = 0; cl < 2 && !skip; ++cl) {
    std::vector<int> v[2];
    for (int b = 0; b < 2; ++b)
      v[b].assign(in.begin() + cl * 128 + b * 64, in.begin() + cl * 128 + b * 64 + 64);
    for (int r = 0; r < 5; ++r) {
      auto o0 = v[0], o1 = v[1];
      for (int i = 0; i < 64; ++i) {
        v[0][i] = (int)(o0[i] * 3u + o1[63 - i]);
        v[1][i] = (int)(o1[i] * 3u + o0[63 - i]);
      }
    }
    for (int b = 0; b < 2; ++b)
      for (int i = 0; i < 64; ++i) EXPECT(hp[cl * 128 + b * 64 + i] == v[b][i]);
  }
  int* o2 = on_device<int>(1024);
  bulk<<<4, 64>>>(di, o2);
  auto h2 = to_host(o2, 1024);
  if (!skip)
    for (int i = 0; i < 1024; ++i) EXPECT(h2[i] == (in[i ^ 256] ^ 5));
  OK(cudaMemset(o, 0, 512));
  reduce_bulk<<<8, 128>>>(dx, o);
  h = to_host(o, 128);
  if (!skip)
    for (int i = 0; i < 128; ++i) {
      double s = 0;
      for (int b = 0; b < 8; ++b) s += x[b * 128 + i];
      EXPECT(std::abs(s - h[i]) < 1e-5);
    }
  OK(cudaDeviceSynchronize());
  std::puts("right");
}
