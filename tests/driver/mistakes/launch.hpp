// What the programs with a mistake share. None checks its results: the report is what is tested.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

inline void ok(cudaError_t status) {
  if (status != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorName(status));
    std::exit(3);
  }
}
/// Memory of bytes of 1: zeros would stay what they are, and equal values may meet.
template <class T>
T* device(std::size_t n) {
  T* p;
  ok(cudaMalloc(&p, n * sizeof(T)));
  ok(cudaMemset(p, 1, n * sizeof(T)));
  return p;
}
inline int end() {
  cudaDeviceSynchronize();
  return 0;
}
