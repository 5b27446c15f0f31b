// A sum within a warp by shared memory, written for lanes in lockstep.
#include "launch.hpp"

__global__ void sum(const int* in, int* out) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = in[t];
  s[t + 32] = 0;
  s[t] += s[t + 16];
  s[t] += s[t + 8];
  s[t] += s[t + 4];
  s[t] += s[t + 2];
  s[t] += s[t + 1];
  if (t == 0) *out = s[0];
}
inline int main() {
  sum<<<1, 32>>>(device<int>(32), device<int>(1));
  return end();
}
