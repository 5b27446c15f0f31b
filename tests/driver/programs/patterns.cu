// Patterns of synchronisation as people write them by hand. `patterns NAME STEP` runs one and leaves out a step of it, 0
// for none; each result is checked on the host unless a step was left out.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.hpp"

namespace cg = cooperative_groups;

__constant__ int left_out;
#define STEP(n) if (left_out != (n))

using Barrier = unsigned long long;

__device__ unsigned address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ void init(Barrier* b, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(b)), "r"(count) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(Barrier* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(b)), "r"(bytes) : "memory");
}
__device__ void arrive(Barrier* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(b)) : "memory");
}
__device__ void wait(Barrier* b, unsigned parity) {
  asm volatile(
      "{ .reg .pred p; W%=: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra W%=; }" ::"r"(
          address(b)),
      "r"(parity)
      : "memory");
}
__device__ void load(void* to, const void* from, unsigned bytes, Barrier* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   address(to)),
               "l"(from), "r"(bytes), "r"(address(b))
               : "memory");
}
__device__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ unsigned rank_in_cluster() {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ unsigned remote(const void* p, unsigned rank) {
  unsigned r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address(p)), "r"(rank));
  return r;
}

constexpr int kStages = 3, kChunk = 256, kChunks = 10;

/// A warp loads chunks into a ring, two warps use them.
__global__ void ring(const float* x, float* y) {
  __shared__ alignas(128) float buffer[kStages][kChunk];
  __shared__ Barrier full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init(full + i, 1), init(empty + i, 2);
    fence_init();
  }
  STEP(1) __syncthreads();
  for (int c = 0; c < kChunks; ++c) {
    const int s = c % kStages;
    if (warp == 0) {
      if (lane != 0) continue;
      if (c >= kStages) {
        STEP(2) wait(empty + s, (c / kStages - 1) & 1);
      }
      expect(full + s, kChunk * 4);
      load(buffer[s], x + c * kChunk, kChunk * 4, full + s);
    } else {
      STEP(3) wait(full + s, (c / kStages) & 1);
      for (int i = (warp - 1) * 32 + lane; i < kChunk; i += 64) y[c * kChunk + i] = buffer[s][i];
      STEP(4) __syncwarp();
      if (lane == 0) arrive(empty + s);
    }
  }
}

/// Two buffers are written in turn and stored by bulk copies.
__global__ void stores(float* y) {
  __shared__ alignas(128) float buffer[2][kChunk];
  for (int c = 0; c < kChunks; ++c) {
    if (threadIdx.x == 0) {
      STEP(1) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    STEP(2) __syncthreads();
    buffer[c & 1][threadIdx.x] = static_cast<float>(c * 1000 + threadIdx.x);
    STEP(3) fence_shared();
    STEP(4) __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y + c * kChunk),
                   "r"(address(buffer[c & 1])), "r"(kChunk * 4)
                   : "memory");
      STEP(5) commit();
    }
  }
  if (threadIdx.x == 0) {
    STEP(6) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

/// Threads write global memory that a bulk copy then loads.
__global__ void reload(float* y) {
  __shared__ alignas(128) float buffer[kChunk];
  __shared__ Barrier full;
  if (threadIdx.x == 0) init(&full, 1), fence_init();
  y[threadIdx.x] = static_cast<float>(threadIdx.x);
  STEP(1) asm volatile("fence.proxy.async;" ::: "memory");
  STEP(2) __syncthreads();
  if (threadIdx.x == 0) expect(&full, kChunk * 4), load(buffer, y, kChunk * 4, &full);
  STEP(3) wait(&full, 0);
  y[kChunk + threadIdx.x] = buffer[kChunk - 1 - threadIdx.x];
}

/// Each block of a cluster of two loads half of what both need.
__global__ void __cluster_dims__(2) share(const float* x, float* y) {
  __shared__ alignas(128) float buffer[kChunk];
  __shared__ Barrier full;
  const unsigned rank = rank_in_cluster();
  if (threadIdx.x == 0) {
    init(&full, 1);
    STEP(1) fence_init();
    expect(&full, kChunk * 4);
  }
  STEP(2) cluster_arrive();
  STEP(2) cluster_wait();
  if (threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
        "%4;" ::"r"(address(buffer + rank * kChunk / 2)),
        "l"(x + rank * kChunk / 2), "r"(kChunk * 2), "r"(address(&full)), "h"(static_cast<short>(3))
        : "memory");
  STEP(3) wait(&full, 0);
  y[blockIdx.x * kChunk + threadIdx.x] = buffer[threadIdx.x];
}

/// Values to the next block of the cluster, counted in bytes there.
__global__ void __cluster_dims__(4) pass_on(float* y) {
  __shared__ float box[32];
  __shared__ Barrier full;
  const unsigned rank = rank_in_cluster();
  if (threadIdx.x == 0) init(&full, 1), fence_init(), expect(&full, 128);
  STEP(1) cluster_arrive();
  STEP(1) cluster_wait();
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                   remote(box + threadIdx.x, (rank + 1) % 4)),
               "r"(__float_as_uint(static_cast<float>(rank * 100 + threadIdx.x))), "r"(remote(&full, (rank + 1) % 4))
               : "memory");
  STEP(2) wait(&full, 0);
  y[blockIdx.x * 32 + threadIdx.x] = box[threadIdx.x];
}

/// Counts in the shared memory of all blocks of a cluster.
__global__ void __cluster_dims__(4) histogram(const float* x, float* y) {
  __shared__ int bins[16];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  STEP(1) cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 1000; i += gridDim.x * blockDim.x) {
    const int bin = static_cast<int>(x[i]) & 63;
    atomicAdd(cluster.map_shared_rank(&bins[bin & 15], bin >> 4), 1);
  }
  STEP(2) cluster.sync();
  if (threadIdx.x < 16) atomicAdd(&y[cluster.block_rank() * 16 + threadIdx.x], static_cast<float>(bins[threadIdx.x]));
}

/// One warp writes, one reads, in turn by named barriers.
__global__ void in_turn(float* y) {
  __shared__ float value[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int c = 0; c < kChunks; ++c) {
    if (warp == 0) {
      if (c != 0) {
        STEP(1) asm volatile("bar.sync 2, 64;" ::: "memory");
      }
      value[lane] = static_cast<float>(c * 100 + lane);
      STEP(2) asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      STEP(2) asm volatile("bar.sync 1, 64;" ::: "memory");
      y[c * 32 + lane] = value[31 - lane];
      if (c + 1 < kChunks) {
        STEP(1) asm volatile("bar.arrive 2, 64;" ::: "memory");
      }
    }
  }
}

/// One block tells another by a flag in global memory.
__global__ void flag(float* data, float* y, unsigned* told) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = static_cast<float>(threadIdx.x);
    STEP(1) __threadfence();
    STEP(2) __syncthreads();
    if (threadIdx.x == 0) atomicExch(told, 1);
  } else {
    if (threadIdx.x == 0) {
      while (atomicAdd(told, 0) == 0) {
      }
      STEP(3) __threadfence();
    }
    STEP(4) __syncthreads();
    y[threadIdx.x] = data[63 - threadIdx.x];
  }
}

/// Every fourth thread takes a lock for itself.
__global__ void locked(float* sum, unsigned* lock) {
  if (threadIdx.x % 4 != 0) return;
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) != 0) continue;
    STEP(1) __threadfence();
    *sum += 1;
    STEP(2) __threadfence();
    atomicExch(lock, 0);
    done = true;
  }
}

/// Blocks take tiles from a counter.
__global__ void tiles(const float* x, float* y, unsigned* next) {
  __shared__ unsigned tile;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    STEP(1) __syncthreads();
    const unsigned mine = tile;
    STEP(2) __syncthreads();
    if (mine >= 20) break;
    y[mine * 64 + threadIdx.x] = x[mine * 64 + threadIdx.x];
  }
}

/// The last block adds up what all blocks have stored: the partial sums are volatile, the counter is an atomic.
__global__ void last_block(const float* x, volatile float* partial, unsigned* arrived) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[1 + blockIdx.x] = x[blockIdx.x];
    STEP(1) __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  STEP(2) __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[1 + b];
  partial[0] = sum;
}

/// Each block stores its sum and then a flag, both volatile; the next one waits for the flag.
__global__ void look_back(const float* x, volatile float* sum, volatile unsigned* flag) {
  if (threadIdx.x != 0) return;
  float before = 0;
  if (blockIdx.x != 0) {
    while (flag[blockIdx.x - 1] == 0) {
    }
    __threadfence();
    before = sum[blockIdx.x - 1];
  }
  sum[blockIdx.x] = before + x[blockIdx.x];
  STEP(1) __threadfence();
  flag[blockIdx.x] = 1;
}

/// A word that all blocks add to; one of them looks at it and sets it back.
__global__ void counted(float* y, unsigned* word) {
  if (threadIdx.x != 0) return;
  const unsigned before = atomicAdd(word, 1);
  if (left_out == 1 && before == 2) y[8] = static_cast<float>(*word);
  if (before == gridDim.x - 1) *word = 0;
  if (left_out == 2 && before == 1) *word = 100;
  y[blockIdx.x] = 1;
}

/// One lane waits for the other block and its warp reads.
__global__ void lane_waits(float* data, float* y, unsigned* told) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = static_cast<float>(threadIdx.x);
    __syncwarp();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.b32 [%0], 1;" ::"l"(told) : "memory");
  } else {
    if (threadIdx.x == 0) {
      unsigned seen = 0;
      while (seen == 0) asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(told) : "memory");
    }
    STEP(1) __syncwarp();
    y[threadIdx.x] = data[31 - threadIdx.x];
  }
}

int main(int argc, char** argv) {
  EXPECT(argc == 3);
  const int step = std::atoi(argv[2]);
  OK(cudaMemcpyToSymbol(left_out, &step, sizeof step));
  constexpr int kCount = kChunk * kChunks;
  std::vector<float> in(kCount), out(kCount);
  for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i % 97);
  float *x, *y;
  unsigned* word;
  OK(cudaMalloc(&x, kCount * 4));
  OK(cudaMalloc(&y, kCount * 4));
  OK(cudaMalloc(&word, 64));
  OK(cudaMemcpy(x, in.data(), kCount * 4, cudaMemcpyHostToDevice));
  OK(cudaMemset(y, 0, kCount * 4));
  OK(cudaMemset(word, 0, 64));

  struct Pattern {
    std::function<void()> run;
    int results;
    std::function<float(int)> want;
  };
  const std::map<std::string, Pattern> patterns = {
      {"ring", {[&] { ring<<<1, 96>>>(x, y); }, kCount, [&](int i) { return in[i]; }}},
      {"stores",
       {[&] { stores<<<1, kChunk>>>(y); }, kCount,
        [](int i) { return static_cast<float>(i / kChunk * 1000 + i % kChunk); }}},
      {"reload",
       {[&] { reload<<<1, kChunk>>>(y); }, 2 * kChunk,
        [](int i) { return static_cast<float>(i < kChunk ? i : 2 * kChunk - 1 - i); }}},
      {"share", {[&] { share<<<2, kChunk>>>(x, y); }, 2 * kChunk, [&](int i) { return in[i % kChunk]; }}},
      {"pass_on",
       {[&] { pass_on<<<4, 32>>>(y); }, 128, [](int i) { return static_cast<float>((i / 32 + 3) % 4 * 100 + i % 32); }}},
      {"histogram",
       {[&] { histogram<<<8, 64>>>(x, y); }, 64,
        [&](int bin) {
          int count = 0;
          for (int i = 0; i < 1000; ++i) count += (static_cast<int>(in[i]) & 63) == bin;
          return static_cast<float>(count);
        }}},
      {"in_turn",
       {[&] { in_turn<<<1, 64>>>(y); }, 320, [](int i) { return static_cast<float>(i / 32 * 100 + 31 - i % 32); }}},
      {"flag",
       {[&] { flag<<<2, 64>>>(y + 64, y, word); }, 64, [](int i) { return static_cast<float>(63 - i); }}},
      {"locked", {[&] { locked<<<2, 64>>>(y, word); }, 1, [](int) { return 32.0f; }}},
      {"last_block", {[&] { last_block<<<8, 32>>>(x, y, word); }, 1, [](int) { return 28.0f; }}},
      {"look_back",
       {[&] { look_back<<<8, 32>>>(x, y, word); }, 8, [](int i) { return static_cast<float>(i * (i + 1) / 2); }}},
      {"counted", {[&] { counted<<<4, 32>>>(y, word); }, 4, [](int) { return 1.0f; }}},
      {"lane_waits",
       {[&] { lane_waits<<<2, 32>>>(y + 64, y, word); }, 32, [](int i) { return static_cast<float>(31 - i); }}},
      {"tiles", {[&] { tiles<<<3, 64>>>(x, y, word); }, 1280, [&](int i) { return in[i]; }}},
  };
  const Pattern& pattern = patterns.at(argv[1]);
  pattern.run();
  OK(cudaGetLastError());
  const cudaError_t status = cudaMemcpy(out.data(), y, kCount * 4, cudaMemcpyDeviceToHost);
  if (step != 0) return 0;
  OK(status);
  for (int i = 0; i < pattern.results; ++i) EXPECT(out[static_cast<std::size_t>(i)] == pattern.want(i));
  std::puts("right");
}
