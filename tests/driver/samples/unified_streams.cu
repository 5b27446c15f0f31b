// Managed memory: threads of the host with streams of their own, attached memory, advice, prefetch, a managed variable.
#include <thread>

#include "common.hpp"

__managed__ int total = 0;

__global__ void matrix_vector(float* y, const float* a, const float* x, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += a[row * n + i] * x[i];
  y[row] = sum;
  atomicAdd(&total, 1);
}
struct Task {
  int n;
  float *a, *x, *y;
};
void work(std::vector<Task>* tasks, int first, int step) {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  for (size_t i = first; i < tasks->size(); i += step) {
    Task& t = (*tasks)[i];
    if (t.n < 40) {
      for (int row = 0; row < t.n; ++row) {
        t.y[row] = 0;
        for (int k = 0; k < t.n; ++k) t.y[row] += t.a[row * t.n + k] * t.x[k];
      }
      continue;
    }
    OK(cudaStreamAttachMemAsync(stream, t.a, 0, cudaMemAttachSingle));
    OK(cudaStreamAttachMemAsync(stream, t.y));
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    OK(cudaMemAdvise(t.a, t.n * t.n * 4, cudaMemAdviseSetReadMostly, device));
    OK(cudaMemPrefetchAsync(t.a, t.n * t.n * 4, device, 0, stream));
    matrix_vector<<<(t.n + 63) / 64, 64, 0, stream>>>(t.y, t.a, t.x, t.n);
    OK(cudaMemPrefetchAsync(t.y, t.n * 4, host, 0, stream));
    OK(cudaStreamSynchronize(stream));
  }
  OK(cudaStreamDestroy(stream));
}

int main() {
  std::vector<Task> tasks;
  int rows = 0;
  for (const int n : {33, 64, 100, 20, 72, 130}) {
    Task t = {n, nullptr, nullptr, nullptr};
    OK(cudaMallocManaged(&t.a, n * n * 4, cudaMemAttachHost));
    OK(cudaMallocManaged(&t.x, n * 4));
    OK(cudaMallocManaged(&t.y, n * 4, cudaMemAttachHost));
    for (int i = 0; i < n * n; ++i) t.a[i] = i % 3;
    for (int i = 0; i < n; ++i) t.x[i] = i % 5;
    rows += n < 40 ? 0 : n;
    tasks.push_back(t);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work, &tasks, i, 3);
  for (std::thread& t : threads) t.join();
  for (const Task& t : tasks)
    for (int row = 0; row < t.n; ++row) {
      float want = 0;
      for (int k = 0; k < t.n; ++k) want += (row * t.n + k) % 3 * (k % 5);
      EXPECT(t.y[row] == want);
    }
  EXPECT(total == rows);
  int concurrent = 0;
  OK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  return right();
}
