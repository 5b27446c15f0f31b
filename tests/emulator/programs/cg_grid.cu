// A cooperative launch: what one block writes another reads after grid.sync(), three times over.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void rotate(int* a, int* b, int n) {
  const cg::grid_group grid = cg::this_grid();
  const int stride = static_cast<int>(gridDim.x * blockDim.x), first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int round = 0; round < 3; ++round) {
    for (int i = first; i < n; i += stride) b[(i + n / 2 + 1) % n] = a[i] + 1;
    grid.sync();
    for (int i = first; i < n; i += stride) a[i] = b[n - 1 - i];
    grid.sync();
  }
}
