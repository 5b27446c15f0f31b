// Thrust's algorithms on device vectors as one program, each against the same algorithm on host vectors.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include "check.hpp"

namespace {

using Device = thrust::device_vector<int>;
using Host = thrust::host_vector<int>;
constexpr int kCount = 12000;

Host integers(int n, int least, int most) {
  std::uniform_int_distribution<int> next(least, most);
  Host out(n);
  for (int& x : out) x = next(generator());
  return out;
}
Host ordered(int n, int most) {
  Host out = integers(n, 0, most);
  thrust::sort(out.begin(), out.end());
  return out;
}
std::size_t differ(const Device& got, const Host& want) {
  const Host back = got;
  std::size_t bad = back.size() == want.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(back.size(), want.size()); ++i) bad += back[i] == want[i] ? 0 : 1;
  return bad;
}

struct Even {
  __host__ __device__ bool operator()(int x) const { return x % 2 == 0; }
};
struct SevenLess {
  __host__ __device__ bool operator()(int x, int y) const { return x / 7 < y / 7; }
};
struct Greater {
  __host__ __device__ bool operator()(int x, int y) const { return x > y; }
};
struct Square {
  __host__ __device__ long long operator()(int x) const { return 1LL * x * x; }
};

/// `algorithm` takes a vector's kind by its first argument, and gives a vector.
template <class F>
void both(const char* name, const F& algorithm) {
  outcome(name, differ(algorithm(Device{}), algorithm(Host{})));
}

}  // namespace

int main() {
  const Host a = integers(kCount, -5000, 5000), keys = ordered(kCount, 3000), other = ordered(kCount / 3, 3000);
  both("sort_descending", [&](auto kind) {
    decltype(kind) v = a;
    thrust::sort(v.begin(), v.end(), Greater{});
    return v;
  });
  both("sort_by_key", [&](auto kind) {
    decltype(kind) k = a, v(kCount);
    thrust::sequence(v.begin(), v.end());
    thrust::stable_sort_by_key(k.begin(), k.end(), v.begin(), SevenLess{});
    return v;
  });
  both("reduce_by_key", [&](auto kind) {
    decltype(kind) k = keys, v = a, sums(kCount), out(kCount);
    const auto end = thrust::reduce_by_key(k.begin(), k.end(), v.begin(), out.begin(), sums.begin());
    sums.resize(end.second - sums.begin());
    return sums;
  });
  both("exclusive_scan_by_key", [&](auto kind) {
    decltype(kind) k = keys, v = a, out(kCount);
    thrust::exclusive_scan_by_key(k.begin(), k.end(), v.begin(), out.begin(), 3);
    return out;
  });
  both("unique_copy", [&](auto kind) {
    decltype(kind) k = keys, out(kCount);
    out.resize(thrust::unique_copy(k.begin(), k.end(), out.begin()) - out.begin());
    return out;
  });
  both("copy_if", [&](auto kind) {
    decltype(kind) v = a, out(kCount);
    out.resize(thrust::copy_if(v.begin(), v.end(), out.begin(), Even{}) - out.begin());
    return out;
  });
  both("stable_partition_copy", [&](auto kind) {
    decltype(kind) v = a, out(kCount), rest(kCount);
    const auto end = thrust::stable_partition_copy(v.begin(), v.end(), out.begin(), rest.begin(), Even{});
    thrust::copy(rest.begin(), end.second, end.first);
    return out;
  });
  both("merge", [&](auto kind) {
    decltype(kind) x = keys, y = other, out(kCount + kCount / 3);
    thrust::merge(x.begin(), x.end(), y.begin(), y.end(), out.begin());
    return out;
  });
  both("set_intersection", [&](auto kind) {
    decltype(kind) x = keys, y = other, out(kCount);
    out.resize(thrust::set_intersection(x.begin(), x.end(), y.begin(), y.end(), out.begin()) - out.begin());
    return out;
  });
  both("lower_bound", [&](auto kind) {
    decltype(kind) x = keys, y = a, out(kCount);
    thrust::lower_bound(x.begin(), x.end(), y.begin(), y.end(), out.begin());
    return out;
  });
  both("single_values", [&](auto kind) {
    decltype(kind) v = a, k = keys;
    decltype(kind) out(4);
    out[0] = static_cast<int>(thrust::transform_reduce(v.begin(), v.end(), Square{}, 0LL, thrust::plus<long long>()) % 1000003);
    out[1] = static_cast<int>(thrust::max_element(v.begin(), v.end()) - v.begin());
    out[2] = thrust::inner_product(v.begin(), v.end(), k.begin(), 0);
    out[3] = static_cast<int>(thrust::count_if(v.begin(), v.end(), Even{}));
    return out;
  });
  return all_right ? 0 : 1;
}
