// Functions by address: tables of them in constant memory, chosen by the host, virtual functions, recursion.
#include "common.hpp"

using Operation = float (*)(float, float);
__device__ float plus_op(float a, float b) { return a + b; }
__device__ float minus_op(float a, float b) { return a - b; }
__device__ float times_op(float a, float b) { return a * b; }
__device__ Operation minus_pointer = minus_op;
__constant__ Operation table[3];
__device__ Operation functions[] = {plus_op, minus_op, times_op};

struct Shape {
  __device__ virtual float area() const = 0;
};
struct Box : Shape {
  float w;
  __device__ explicit Box(float x) : w(x) {}
  __device__ float area() const override { return w * w; }
};
struct Bar : Shape {
  float w;
  __device__ explicit Bar(float x) : w(x) {}
  __device__ float area() const override { return 3 * w; }
};
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void apply(float* out, const float* a, Operation op) {
  const int i = threadIdx.x;
  out[i] = op(a[i], 2.0f);
  out[64 + i] = table[i % 3](a[i], 3.0f);
  Box box(a[i]);
  Bar bar(a[i]);
  const Shape* shape = i & 1 ? static_cast<Shape*>(&box) : &bar;
  out[128 + i] = shape->area();
  out[192 + i] = fibonacci(i % 8);
}

int main() {
  const std::vector<float> a = some_floats(64);
  float *d = to_device(a), *out = on_device<float>(256);
  Operation op, all[3];
  OK(cudaMemcpyFromSymbol(&op, minus_pointer, sizeof op));
  OK(cudaMemcpyFromSymbol(all, functions, sizeof all));
  OK(cudaMemcpyToSymbol(table, all, sizeof all));
  apply<<<1, 64>>>(out, d, op);
  const auto got = to_host(out, 256);
  const int fib[] = {0, 1, 1, 2, 3, 5, 8, 13};
  for (int i = 0; i < 64; ++i) {
    EXPECT(got[i] == a[i] - 2);
    EXPECT(got[64 + i] == (i % 3 == 0 ? a[i] + 3 : i % 3 == 1 ? a[i] - 3 : a[i] * 3));
    EXPECT(got[128 + i] == (i & 1 ? a[i] * a[i] : 3 * a[i]) && got[192 + i] == fib[i % 8]);
  }
  return right();
}
