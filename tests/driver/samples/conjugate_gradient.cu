// Conjugate gradients in one cooperative kernel over managed memory; the grid has as many blocks as fit.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cmath>

#include "common.hpp"
namespace cg = cooperative_groups;

__device__ void dot(const float* a, const float* b, int n, double* result, const cg::grid_group& grid) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  double sum = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += double(a[i]) * b[i];
  sum = cg::reduce(warp, sum, cg::plus<double>());
  if (warp.thread_rank() == 0) atomicAdd(result, sum);
}
/// The matrix has 4 on its diagonal and -1 beside it.
__device__ void product(float* out, const float* x, int n, const cg::grid_group& grid) {
  for (int i = grid.thread_rank(); i < n; i += grid.size())
    out[i] = 4 * x[i] - (i > 0 ? x[i - 1] : 0) - (i + 1 < n ? x[i + 1] : 0);
}
__global__ void solve(float* x, float* r, float* p, float* ap, double* sums, int n, int* steps) {
  const cg::grid_group grid = cg::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) p[i] = r[i], x[i] = 0;
  dot(r, r, n, &sums[0], grid);
  grid.sync();
  double r0 = sums[0];
  int k = 0;
  for (; k < 50 && r0 > 1e-8; ++k) {
    product(ap, p, n, grid);
    grid.sync();
    dot(p, ap, n, &sums[1 + 2 * k], grid);
    grid.sync();
    const float alpha = float(r0 / sums[1 + 2 * k]);
    for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] += alpha * p[i], r[i] -= alpha * ap[i];
    grid.sync();
    dot(r, r, n, &sums[2 + 2 * k], grid);
    grid.sync();
    const double r1 = sums[2 + 2 * k];
    for (int i = grid.thread_rank(); i < n; i += grid.size()) p[i] = r[i] + float(r1 / r0) * p[i];
    r0 = r1;
    grid.sync();
  }
  if (grid.thread_rank() == 0) *steps = k;
}

int main() {
  int n = 900, cooperative = 0, sms = 0, each = 0;
  OK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
  EXPECT(cooperative == 1);
  float *x, *r, *p, *ap;
  double* sums;
  int* steps;
  for (float** a : {&x, &r, &p, &ap}) OK(cudaMallocManaged(a, n * 4));
  OK(cudaMallocManaged(&sums, 101 * 8));
  OK(cudaMallocManaged(&steps, 4));
  for (int i = 0; i < n; ++i) r[i] = 1.0f;
  for (int i = 0; i < 101; ++i) sums[i] = 0;
  OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, solve, 128, 0));
  EXPECT(each > 0);
  void* args[] = {&x, &r, &p, &ap, &sums, &n, &steps};
  OK(cudaLaunchCooperativeKernel((void*)solve, dim3(std::min(4, each * sms)), dim3(128), args, 0, nullptr));
  OK(cudaDeviceSynchronize());
  EXPECT(*steps > 3 && *steps < 50);
  for (int i = 1; i + 1 < n; ++i) EXPECT(std::fabs(4 * x[i] - x[i - 1] - x[i + 1] - 1) < 1e-3);
  const cudaError_t large = cudaLaunchCooperativeKernel((void*)solve, dim3(each * sms + 1), dim3(128), args, 0, nullptr);
  EXPECT(large == cudaErrorCooperativeLaunchTooLarge && cudaGetLastError() == large);
  return right();
}
