// Transpose of 32 x 32 tiles: rows arrive and leave by bulk copies (cp.async.bulk), an mbarrier counts the bytes.
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;

#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void transpose(const float* in, float* out, int n) {
  __shared__ alignas(128) float tile[32][32];
  __shared__ alignas(128) float turned[32][32];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  const int t = threadIdx.x;
  if (t == 0) {
    init(&ready, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (t == 0) {
    for (int row = 0; row < 32; ++row) {
      const float* source = in + (blockIdx.y * 32 + row) * n + blockIdx.x * 32;
      cuda::device::experimental::cp_async_bulk_global_to_shared(tile[row], source, sizeof tile[row], ready);
    }
    token = cuda::device::barrier_arrive_tx(ready, 1, sizeof tile);
  } else {
    token = ready.arrive();
  }
  ready.wait(std::move(token));
  for (int i = t; i < 1024; i += blockDim.x) turned[i / 32][i % 32] = tile[i % 32][i / 32];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t == 0) {
    for (int row = 0; row < 32; ++row) {
      float* target = out + (blockIdx.x * 32 + row) * n + blockIdx.y * 32;
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, target, turned[row], sizeof turned[row]);
    }
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
