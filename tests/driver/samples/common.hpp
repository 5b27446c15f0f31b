// What the sample programs share: checks that end the program, and one line at the end of a right run.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) {                                           \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                               \
    }                                                             \
  } while (0)
#define OK(call)                                                                            \
  do {                                                                                      \
    const cudaError_t status_ = (call);                                                     \
    if (status_ != cudaSuccess) {                                                           \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(status_)); \
      std::exit(1);                                                                         \
    }                                                                                       \
  } while (0)

/// Device memory with a copy of `host`.
template <class T>
T* to_device(const std::vector<T>& host) {
  T* p = nullptr;
  OK(cudaMalloc(&p, host.size() * sizeof(T)));
  OK(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <class T>
T* on_device(std::size_t n) {
  T* p = nullptr;
  OK(cudaMalloc(&p, n * sizeof(T)));
  return p;
}
template <class T>
std::vector<T> to_host(const T* p, std::size_t n) {
  std::vector<T> out(n);
  OK(cudaMemcpy(out.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
  return out;
}
/// Numbers that look random and are the same everywhere.
inline std::vector<float> some_floats(std::size_t n, unsigned seed = 1) {
  std::vector<float> out(n);
  for (float& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 9) / 8388608.0f - 0.5f;
  }
  return out;
}
inline std::vector<int> some_ints(std::size_t n, int below, unsigned seed = 1) {
  std::vector<int> out(n);
  for (int& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<int>((seed >> 8) % static_cast<unsigned>(below));
  }
  return out;
}
inline int right() {
  OK(cudaDeviceSynchronize());
  std::puts("right");
  return 0;
}
