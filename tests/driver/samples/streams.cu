// Chunks over streams of several priorities with pinned memory, a double-buffered pipeline of copies, an event that
// the host polls while it works, and callbacks of both sorts.
#include <atomic>

#include "common.hpp"

__global__ void scale(int* out, const int* in, int factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor;
}
std::atomic<int> calls{0};
void CUDART_CB on_stream(cudaStream_t, cudaError_t status, void* data) {
  if (status == cudaSuccess) calls += *static_cast<int*>(data);
}
void CUDART_CB on_host(void* data) { calls += *static_cast<int*>(data); }

int main() {
  const int n = 4096, parts = 4, each = n / parts;
  int *host, *back, least, greatest;
  OK(cudaMallocHost(&host, n * 4));
  OK(cudaHostAlloc(&back, n * 4, cudaHostAllocPortable));
  for (int i = 0; i < n; ++i) host[i] = i;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT(least >= greatest);
  int *in = on_device<int>(n), *out = on_device<int>(n);
  cudaStream_t streams[parts];
  for (int i = 0; i < parts; ++i) OK(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking, i % 2 ? greatest : least));
  int weight[parts] = {1, 10, 100, 1000};
  for (int i = 0; i < parts; ++i) {
    OK(cudaMemcpyAsync(in + i * each, host + i * each, each * 4, cudaMemcpyHostToDevice, streams[i]));
    scale<<<each / 128, 128, 0, streams[i]>>>(out + i * each, in + i * each, 3, each);
    OK(cudaMemcpyAsync(back + i * each, out + i * each, each * 4, cudaMemcpyDeviceToHost, streams[i]));
    if (i % 2) OK(cudaLaunchHostFunc(streams[i], on_host, &weight[i]));
    else OK(cudaStreamAddCallback(streams[i], on_stream, &weight[i], 0));
  }
  for (cudaStream_t s : streams) OK(cudaStreamSynchronize(s));
  EXPECT(calls == 1111);
  for (int i = 0; i < n; ++i) EXPECT(back[i] == 3 * i);

  // Two buffers: the next chunk is copied while the last one is worked on.
  cudaEvent_t copied[2], done[2];
  for (int i = 0; i < 2; ++i) {
    OK(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming | cudaEventBlockingSync));
  }
  for (int i = 0; i < parts; ++i) {
    const int b = i % 2;
    OK(cudaStreamWaitEvent(streams[0], done[b], 0));
    OK(cudaMemcpyAsync(in + b * each, host + i * each, each * 4, cudaMemcpyHostToDevice, streams[0]));
    OK(cudaEventRecord(copied[b], streams[0]));
    OK(cudaStreamWaitEvent(streams[1], copied[b], 0));
    scale<<<each / 128, 128, 0, streams[1]>>>(out + b * each, in + b * each, i, each);
    OK(cudaMemcpyAsync(back + i * each, out + b * each, each * 4, cudaMemcpyDeviceToHost, streams[1]));
    OK(cudaEventRecord(done[b], streams[1]));
  }
  unsigned long polls = 0;
  while (cudaEventQuery(done[1]) == cudaErrorNotReady) ++polls;
  OK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) EXPECT(back[i] == i * (i / each));
  for (cudaStream_t s : streams) OK(cudaStreamDestroy(s));
  OK(cudaFreeHost(host));
  OK(cudaFreeHost(back));
  return right();
}
