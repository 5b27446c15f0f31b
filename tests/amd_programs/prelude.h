// What the programs need of HIP, without its headers: attributes, indices, barriers, wave operations. The tests put this
// text before each program, so that clang and HIPRTC compile the same source.
#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#endif
#define KERNEL(lanes) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(lanes, lanes))) void
#define DEVICE static __device__ inline __attribute__((always_inline))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
DEVICE int tid() { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int tid_y() { return (int)__builtin_amdgcn_workitem_id_y(); }
DEVICE int block_x() { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE int block_y() { return (int)__builtin_amdgcn_workgroup_id_y(); }
DEVICE void sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE int lane_id() { return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEVICE int shuffle(int x, int lane) { return __builtin_amdgcn_ds_bpermute(lane * 4, x); }
DEVICE float shuffle(float x, int lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, x)));
}
DEVICE float wave_sum(float x) {
  for (int d = 32; d > 0; d >>= 1) x += shuffle(x, lane_id() ^ d);
  return x;
}
DEVICE float wave_max(float x) {
  for (int d = 32; d > 0; d >>= 1) x = __builtin_fmaxf(x, shuffle(x, lane_id() ^ d));
  return x;
}
DEVICE void atomic_add(float* p, float x) { __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
DEVICE u32 atomic_add(u32* p, u32 x) { return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
DEVICE u32 atomic_add_shared(u32* p, u32 x) {
  return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
