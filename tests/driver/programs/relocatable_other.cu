// The other half of relocatable.cu.
__device__ int counter = 5;
static __device__ int table[2] = {10, 20};
__device__ int twice(int x) {
  return 2 * x;
}
__global__ void other(int* out) {
  *out = table[0] + table[1];
}
