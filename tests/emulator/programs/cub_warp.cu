// cub::WarpScan, cub::WarpReduce, cub::WarpExchange.
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void warps(const int* in, int* scans, float* averages, int* exchanged) {
  using Scan = cub::WarpScan<int>;
  using Reduce = cub::WarpReduce<float, 16>;
  using Exchange = cub::WarpExchange<int, 2, 32>;
  __shared__ Scan::TempStorage scan[4];
  __shared__ Reduce::TempStorage reduce[8];
  __shared__ Exchange::TempStorage exchange[4];
  const int t = threadIdx.x, value = in[t];
  int prefix = 0;
  Scan(scan[t / 32]).ExclusiveSum(value, prefix);
  scans[t] = prefix;
  const float sum = Reduce(reduce[t / 16]).Sum(static_cast<float>(value));
  if (t % 16 == 0) averages[t / 16] = sum / 16;
  int items[2] = {value, in[127 - t]};
  Exchange(exchange[t / 32]).BlockedToStriped(items, items);
  exchanged[2 * t] = items[0];
  exchanged[2 * t + 1] = items[1];
}
