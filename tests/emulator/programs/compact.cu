// Stream compaction: ballots give positions inside a warp, one atomic a warp reserves space.
extern "C" __global__ void compact(const int* in, int* out, int* count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const bool keep = i < n && in[i] % 3 == 0;
  const unsigned kept = __ballot_sync(~0u, keep);
  int base = 0;
  if (lane == 0) base = atomicAdd(count, __popc(kept));
  base = __shfl_sync(~0u, base, 0);
  if (keep) out[base + __popc(kept & ((1u << lane) - 1))] = in[i];
}
