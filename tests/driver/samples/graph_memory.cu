// Memory that a graph allocates and frees: by nodes, and captured from stream-ordered allocation; pools that keep
// what is freed.
#include "common.hpp"

__global__ void fill(int* p, int value) { p[threadIdx.x] = value; }
__global__ void add(int* to, const int* from) { to[threadIdx.x] += from[threadIdx.x]; }

int main() {
  int *out = on_device<int>(64), seven = 7;
  OK(cudaMemset(out, 0, 256));
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  cudaMemAllocNodeParams alloc = {};
  alloc.bytesize = 256;
  alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
  cudaGraphNode_t a, f, s, d;
  OK(cudaGraphAddMemAllocNode(&a, graph, nullptr, 0, &alloc));
  void* fill_args[] = {&alloc.dptr, &seven};
  cudaKernelNodeParams k = {};
  k.func = (void*)fill;
  k.gridDim = dim3(1);
  k.blockDim = dim3(64);
  k.kernelParams = fill_args;
  OK(cudaGraphAddKernelNode(&f, graph, &a, 1, &k));
  void* add_args[] = {&out, &alloc.dptr};
  k.func = (void*)add;
  k.kernelParams = add_args;
  OK(cudaGraphAddKernelNode(&s, graph, &f, 1, &k));
  OK(cudaGraphAddMemFreeNode(&d, graph, &s, 1, alloc.dptr));
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(to_host(out, 64)[63] == 21);

  cudaGraph_t captured;
  cudaGraphExec_t again;
  int* p = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocAsync(&p, 256, stream));
  fill<<<1, 64, 0, stream>>>(p, 100);
  add<<<1, 64, 0, stream>>>(out, p);
  OK(cudaFreeAsync(p, stream));
  OK(cudaStreamEndCapture(stream, &captured));
  OK(cudaGraphInstantiate(&again, captured, 0));
  OK(cudaGraphLaunch(again, stream));
  OK(cudaGraphLaunch(again, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(to_host(out, 64)[0] == 221);
  unsigned long long reserved = 1;
  OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &reserved));
  OK(cudaDeviceGraphMemTrim(0));

  // Stream-ordered allocation from a pool, used by another stream after an event.
  cudaMemPool_t pool;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep = ~0ull, used = 0;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  OK(cudaMallocAsync(&p, 256, stream));
  cudaStream_t other;
  cudaEvent_t made, done;
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  OK(cudaEventCreate(&made));
  OK(cudaEventCreate(&done));
  fill<<<1, 64, 0, stream>>>(p, 5);
  OK(cudaEventRecord(made, stream));
  OK(cudaStreamWaitEvent(other, made));
  add<<<1, 64, 0, other>>>(out, p);
  OK(cudaEventRecord(done, other));
  OK(cudaStreamWaitEvent(stream, done));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used >= 256);
  OK(cudaFreeAsync(p, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(to_host(out, 64)[9] == 226);
  OK(cudaMemPoolTrimTo(pool, 0));
  return right();
}
