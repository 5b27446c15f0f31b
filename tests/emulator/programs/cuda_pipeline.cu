// cuda::pipeline with four stages shared by a block.
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void stages(const float* in, float* out, int tiles) {
  constexpr int kStages = 4;
  __shared__ alignas(16) float buffers[kStages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const cg::thread_block block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  float sum = 0;
  int fetched = 0;
  for (int i = 0; i < tiles; ++i) {
    for (; fetched < tiles && fetched < i + kStages; ++fetched) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, buffers[fetched % kStages], in + fetched * 128, cuda::aligned_size_t<16>(sizeof buffers[0]), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum += buffers[i % kStages][(threadIdx.x + i) % 128];
    pipeline.consumer_release();
  }
  out[threadIdx.x] = sum;
}
