// What the programs of this folder share: errors end them, inputs are small whole numbers, results are compared.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}
#define CHECK(call) check(call, #call)

/// Memory of the device with a copy on the host.
template <class T>
struct Array {
  explicit Array(std::size_t n) : host(n) { CHECK(cudaMalloc(&device, n * sizeof(T) + 16)); }
  explicit Array(std::vector<T> values) : Array(values.size()) {
    host = std::move(values);
    CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { cudaFree(device); }
  const std::vector<T>& read() {
    CHECK(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  T* device = nullptr;
  std::vector<T> host;
};

inline std::mt19937& generator() {
  static std::mt19937 g(std::random_device{}());
  return g;
}
/// Whole numbers of -most to most: exact in every type here, and so are their sums.
template <class T>
std::vector<T> numbers(std::size_t n, int most) {
  std::uniform_int_distribution<int> next(-most, most);
  std::vector<T> out(n);
  for (T& x : out) x = static_cast<T>(static_cast<float>(next(generator())));
  return out;
}

inline bool all_right = true;
/// Prints one line of the outcome; `wrong` is how many elements differ.
inline void outcome(const char* name, std::size_t wrong) {
  std::printf(wrong == 0 ? "%s: right\n" : "%s: WRONG (%zu elements)\n", name, wrong);
  std::fflush(stdout);
  all_right = all_right && wrong == 0;
}

struct Case {
  const char* name;
  void (*run)();
};
/// Runs the cases that are named, all without names; returns what main returns.
template <std::size_t n>
int run_cases(const Case (&cases)[n], int count, char** names) {
  for (const Case& c : cases) {
    bool wanted = count < 2;
    for (int i = 1; i < count; ++i) wanted = wanted || std::strcmp(names[i], c.name) == 0;
    if (wanted) c.run();
  }
  return all_right ? 0 : 1;
}
