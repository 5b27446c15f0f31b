// CUB's device-wide algorithms as one program, each against the host's result.
#include <cub/cub.cuh>

#include <algorithm>
#include <numeric>

#include "check.hpp"

namespace {

constexpr int kCount = 20000;

/// The two calls that every algorithm of CUB wants: for the size of its memory, and for the work.
template <class F>
void run(F&& call) {
  std::size_t bytes = 0;
  CHECK(call(nullptr, bytes));
  Array<char> memory(bytes);
  CHECK(call(memory.device, bytes));
  CHECK(cudaDeviceSynchronize());
}

template <class T>
std::size_t differ(const std::vector<T>& got, const std::vector<T>& want) {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < want.size(); ++i) bad += got[i] == want[i] ? 0 : 1;
  return bad;
}
std::vector<int> integers(int n, int least, int most) {
  std::uniform_int_distribution<int> next(least, most);
  std::vector<int> out(n);
  for (int& x : out) x = next(generator());
  return out;
}
/// Values in runs of random length.
std::vector<int> runs(int n) {
  std::vector<int> out(n);
  for (int i = 1; i < n; ++i) out[i] = out[i - 1] + (generator()() % 5 == 0 ? 1 : 0);
  return out;
}

void radix_sort() {
  Array<int> keys(integers(kCount, -1000000, 1000000)), sorted(kCount);
  run([&](void* t, std::size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, keys.device, sorted.device, kCount); });
  std::vector<int> want = keys.host;
  std::sort(want.begin(), want.end());
  outcome("radix_sort", differ(sorted.read(), want));
}
void radix_sort_pairs() {
  Array<float> keys(numbers<float>(kCount, 300)), sorted(kCount);
  std::vector<int> places(kCount);
  std::iota(places.begin(), places.end(), 0);
  Array<int> values(places), moved(kCount);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceRadixSort::SortPairsDescending(t, b, keys.device, sorted.device, values.device, moved.device, kCount);
  });
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return keys.host[a] > keys.host[b]; });
  outcome("radix_sort_pairs", differ(moved.read(), places));
}
struct Less {
  __host__ __device__ bool operator()(int a, int b) const { return a < b; }
};
void merge_sort() {
  Array<int> keys(integers(kCount, 0, 5000));
  std::vector<int> want = keys.host;
  run([&](void* t, std::size_t& b) { return cub::DeviceMergeSort::StableSortKeys(t, b, keys.device, kCount, Less{}); });
  std::sort(want.begin(), want.end());
  outcome("merge_sort", differ(keys.read(), want));
}
void segmented_sort() {
  std::vector<int> bounds{0, 3, 3, 200, 260, 4000, 12000, kCount};
  Array<int> keys(integers(kCount, -500, 500)), sorted(kCount), offsets(bounds);
  const int segments = int(bounds.size()) - 1;
  run([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedSort::SortKeys(t, b, keys.device, sorted.device, kCount, segments, offsets.device,
                                              offsets.device + 1);
  });
  std::vector<int> want = keys.host;
  for (int s = 0; s < segments; ++s) std::sort(want.begin() + bounds[s], want.begin() + bounds[s + 1]);
  outcome("segmented_sort", differ(sorted.read(), want));
}
void segmented_reduce() {
  std::vector<int> bounds{0, 10, 10, 700, 9000, kCount};
  Array<int> values(integers(kCount, -9, 9)), sums(5), offsets(bounds);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceSegmentedReduce::Sum(t, b, values.device, sums.device, 5, offsets.device, offsets.device + 1);
  });
  std::vector<int> want;
  for (int s = 0; s < 5; ++s)
    want.push_back(std::accumulate(values.host.begin() + bounds[s], values.host.begin() + bounds[s + 1], 0));
  outcome("segmented_reduce", differ(sums.read(), want));
}
void reduce() {
  Array<int> values(integers(kCount, -99, 99)), sum(1), least(1);
  run([&](void* t, std::size_t& b) { return cub::DeviceReduce::Sum(t, b, values.device, sum.device, kCount); });
  run([&](void* t, std::size_t& b) { return cub::DeviceReduce::Min(t, b, values.device, least.device, kCount); });
  outcome("reduce", differ(sum.read(), {std::accumulate(values.host.begin(), values.host.end(), 0)}) +
                        differ(least.read(), {*std::min_element(values.host.begin(), values.host.end())}));
}
void arg_max() {
  using Pair = cub::KeyValuePair<int, int>;
  std::vector<int> given = integers(kCount, 0, 1 << 30);
  Array<int> values(given), best(1);
  Array<std::int64_t> place(1);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ArgMax(t, b, values.device, best.device, place.device, std::int64_t(kCount));
  });
  const auto at = std::max_element(given.begin(), given.end());
  outcome("arg_max", differ(best.read(), {*at}) + differ(place.read(), {std::int64_t(at - given.begin())}));
}
void reduce_by_key() {
  Array<int> keys(runs(kCount)), values(integers(kCount, -9, 9)), unique(kCount), sums(kCount), count(1);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceReduce::ReduceByKey(t, b, keys.device, unique.device, values.device, sums.device, count.device,
                                          cuda::std::plus<>{}, kCount);
  });
  std::vector<int> want_keys, want;
  for (int i = 0; i < kCount; ++i) {
    if (i == 0 || keys.host[i] != keys.host[i - 1]) want_keys.push_back(keys.host[i]), want.push_back(0);
    want.back() += values.host[i];
  }
  outcome("reduce_by_key", differ(count.read(), {int(want.size())}) + differ(unique.read(), want_keys) + differ(sums.read(), want));
}
void scan() {
  Array<int> values(integers(kCount, -9, 9)), inclusive(kCount), exclusive(kCount);
  run([&](void* t, std::size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, values.device, inclusive.device, kCount); });
  run([&](void* t, std::size_t& b) {
    return cub::DeviceScan::ExclusiveScan(t, b, values.device, exclusive.device, cuda::maximum<>{}, -100, kCount);
  });
  std::vector<int> sums(kCount), tops(kCount, -100);
  std::partial_sum(values.host.begin(), values.host.end(), sums.begin());
  for (int i = 1; i < kCount; ++i) tops[i] = std::max(tops[i - 1], values.host[i - 1]);
  outcome("scan", differ(inclusive.read(), sums) + differ(exclusive.read(), tops));
}
void scan_by_key() {
  Array<int> keys(runs(kCount)), values(integers(kCount, -9, 9)), sums(kCount);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceScan::InclusiveSumByKey(t, b, keys.device, values.device, sums.device, kCount);
  });
  std::vector<int> want(kCount);
  for (int i = 0; i < kCount; ++i)
    want[i] = values.host[i] + (i > 0 && keys.host[i] == keys.host[i - 1] ? want[i - 1] : 0);
  outcome("scan_by_key", differ(sums.read(), want));
}
struct Odd {
  __host__ __device__ bool operator()(int x) const { return (x & 1) != 0; }
};
void select() {
  Array<int> values(integers(kCount, 0, 1000)), chosen(kCount), flagged(kCount), count(1), count_flagged(1);
  Array<char> flags(numbers<char>(kCount, 1));
  run([&](void* t, std::size_t& b) {
    return cub::DeviceSelect::If(t, b, values.device, chosen.device, count.device, kCount, Odd{});
  });
  run([&](void* t, std::size_t& b) {
    return cub::DeviceSelect::Flagged(t, b, values.device, flags.device, flagged.device, count_flagged.device, kCount);
  });
  std::vector<int> want, want_flagged;
  for (int i = 0; i < kCount; ++i) {
    if (Odd{}(values.host[i])) want.push_back(values.host[i]);
    if (flags.host[i] != 0) want_flagged.push_back(values.host[i]);
  }
  outcome("select", differ(count.read(), {int(want.size())}) + differ(chosen.read(), want) +
                        differ(count_flagged.read(), {int(want_flagged.size())}) + differ(flagged.read(), want_flagged));
}
void unique() {
  Array<int> values(runs(kCount)), chosen(kCount), count(1);
  run([&](void* t, std::size_t& b) { return cub::DeviceSelect::Unique(t, b, values.device, chosen.device, count.device, kCount); });
  std::vector<int> want = values.host;
  want.erase(std::unique(want.begin(), want.end()), want.end());
  outcome("unique", differ(count.read(), {int(want.size())}) + differ(chosen.read(), want));
}
void partition() {
  Array<int> values(integers(kCount, 0, 1000)), parts(kCount), count(1);
  run([&](void* t, std::size_t& b) {
    return cub::DevicePartition::If(t, b, values.device, parts.device, count.device, kCount, Odd{});
  });
  std::vector<int> want, rest;
  for (const int x : values.host) (Odd{}(x) ? want : rest).push_back(x);
  const int first = int(want.size());
  want.insert(want.end(), rest.rbegin(), rest.rend());
  outcome("partition", differ(count.read(), {first}) + differ(parts.read(), want));
}
void histogram() {
  constexpr int kLevels = 65;
  Array<unsigned char> samples(kCount);
  for (auto& s : samples.host) s = static_cast<unsigned char>(generator()());
  Array<unsigned char> given(samples.host);
  Array<int> bins(kLevels - 1);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceHistogram::HistogramEven(t, b, given.device, bins.device, kLevels, 0, 256, kCount);
  });
  std::vector<int> want(kLevels - 1);
  for (const auto s : given.host) ++want[s / 4];
  outcome("histogram", differ(bins.read(), want));
}
void run_length() {
  Array<int> values(runs(kCount)), unique(kCount), lengths(kCount), count(1);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceRunLengthEncode::Encode(t, b, values.device, unique.device, lengths.device, count.device, kCount);
  });
  std::vector<int> want, each;
  for (int i = 0; i < kCount; ++i) {
    if (i == 0 || values.host[i] != values.host[i - 1]) want.push_back(values.host[i]), each.push_back(0);
    ++each.back();
  }
  outcome("run_length", differ(count.read(), {int(want.size())}) + differ(unique.read(), want) + differ(lengths.read(), each));
}
void adjacent() {
  Array<int> values(integers(kCount, -9, 9)), out(kCount);
  run([&](void* t, std::size_t& b) {
    return cub::DeviceAdjacentDifference::SubtractLeftCopy(t, b, values.device, out.device, kCount, cuda::std::minus<>{});
  });
  std::vector<int> want(kCount);
  std::adjacent_difference(values.host.begin(), values.host.end(), want.begin());
  outcome("adjacent", differ(out.read(), want));
}

constexpr Case kCases[] = {{"radix_sort", radix_sort},
                           {"radix_sort_pairs", radix_sort_pairs},
                           {"merge_sort", merge_sort},
                           {"segmented_sort", segmented_sort},
                           {"segmented_reduce", segmented_reduce},
                           {"reduce", reduce},
                           {"arg_max", arg_max},
                           {"reduce_by_key", reduce_by_key},
                           {"scan", scan},
                           {"scan_by_key", scan_by_key},
                           {"select", select},
                           {"unique", unique},
                           {"partition", partition},
                           {"histogram", histogram},
                           {"run_length", run_length},
                           {"adjacent", adjacent}};

}  // namespace

int main(int count, char** names) {
  return run_cases(kCases, count, names);
}
