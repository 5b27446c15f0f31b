// Thrust over vectors of the device: sort by key, scan, reduction by transformed values, unique.
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include <algorithm>

#include "common.hpp"

struct Square {
  __host__ __device__ long operator()(int x) const { return long(x) * x; }
};

int main() {
  const int n = 3000;
  std::vector<int> keys = some_ints(n, 700);
  thrust::device_vector<int> d(keys.begin(), keys.end()), values(n);
  thrust::sequence(values.begin(), values.end());
  thrust::stable_sort_by_key(d.begin(), d.end(), values.begin());
  std::vector<int> got(n), places(n);
  thrust::copy(d.begin(), d.end(), got.begin());
  thrust::copy(values.begin(), values.end(), places.begin());
  for (int i = 0; i < n; ++i) EXPECT(keys[places[i]] == got[i] && (i == 0 || got[i - 1] <= got[i]));
  const long sum = thrust::transform_reduce(d.begin(), d.end(), Square(), 0L, thrust::plus<long>());
  long want = 0;
  for (const int x : keys) want += long(x) * x;
  EXPECT(sum == want);
  thrust::exclusive_scan(d.begin(), d.end(), values.begin());
  EXPECT(values[0] == 0 && values[2] == got[0] + got[1]);
  const auto end = thrust::unique_copy(d.begin(), d.end(), values.begin());
  std::sort(keys.begin(), keys.end());
  EXPECT(end - values.begin() == std::unique(keys.begin(), keys.end()) - keys.begin());
  return right();
}
