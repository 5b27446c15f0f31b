// merge1_floats_prefill_bf16_d64_ragged_causal_gfx942: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"target":"gfx942","operation":"prefill","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":64,"ov_depth":64,"rope_depth":0,"nope_depth":64,"q_depth":64,"cache_depth":64,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"ragged"},"mask":"causal","score_mod":"none","sink":false,"lse":false,"scale":0.125}
// Merges results of the same rows over different keys.
//
// Regenerate: kiln generate merge1_floats_prefill_bf16_d64_ragged_causal_gfx942.json --out .
// Compile: clang -x hip --offload-device-only -nogpuinc -nogpulib -O3 --offload-arch=gfx942 merge1_floats_prefill_bf16_d64_ragged_causal_gfx942.hip

#define kInfinity __builtin_inff()

#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
#define LDS __attribute__((address_space(3)))
#define CONSTANT __attribute__((address_space(4)))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef short s16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
DEVICE int min_of(int a, int b) { return a < b ? a : b; }
DEVICE int max_of(int a, int b) { return a > b ? a : b; }
DEVICE u32 min_of(u32 a, u32 b) { return a < b ? a : b; }
// The names that text for NVIDIA and AMD has for these.
#define min(a, b) min_of(a, b)
#define max(a, b) max_of(a, b)
#define fmaf(a, b, c) __builtin_fmaf(a, b, c)
#define fminf(a, b) __builtin_fminf(a, b)
#define fmaxf(a, b) __builtin_fmaxf(a, b)
DEVICE float as_float(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 as_bits(float x) { return __builtin_bit_cast(u32, x); }

// Until at most n of this wave's loads are in flight, then a barrier of the block. No other memory access crosses it.
#define WAIT_LOADS_AND_SYNC(n) __asm volatile("s_waitcnt vmcnt(" #n ") lgkmcnt(0)\n\ts_barrier" ::: "memory")
// A barrier of the block after this wave's LDS accesses; loads stay in flight.
#define SYNC() __asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory")

// Bare v_exp_f32: results below the normal range become 0.
#if __has_builtin(__builtin_amdgcn_exp2f)
DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
#else
DEVICE float exp2_approx(float x) { return __builtin_exp2f(x); }
#endif

#if __has_builtin(__builtin_amdgcn_logf)
DEVICE float log2_approx(float x) { return __builtin_amdgcn_logf(x); }
#else
DEVICE float log2_approx(float x) { return __builtin_log2f(x); }
#endif

typedef f32x4 Four;
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(256, 256))) void
kiln_merge1_floats_prefill_bf16_d64_ragged_causal_gfx942(const float* q, float* o, float* lse, int seqlen_q, int heads_q) {
  const int thread = (int)__builtin_amdgcn_workitem_id_x(), head = (int)__builtin_amdgcn_workgroup_id_y();
  const int block = (int)__builtin_amdgcn_workgroup_id_x();
  // Four columns of a row and head a thread.
  const int row = block * 16 + thread / 16, column = thread % 16 * 4;
  const bool real = thread < 16 * 16 && row < seqlen_q;
  const long long results = (long long)seqlen_q * heads_q, o_floats = results * 64;
  const long long part_floats = o_floats + (results + 3) / 4 * 4;
  const long long at_o = ((long long)row * heads_q + head) * 64 + column;
  const long long at_lse = (long long)head * seqlen_q + row;
  Four sum = {0.0f, 0.0f, 0.0f, 0.0f};
  float merged = -kInfinity;
  if (real) {
    const float own = lse[at_lse];
    float top = own;
    // The log-sum-exps are read twice: the second time they are in the cache.
    top = fmaxf(top, q[0 * part_floats + o_floats + at_lse]);
    float total = 0.0f;
    // a result without keys may never have been written
    if (own != -kInfinity) {
      total = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);
      sum = *(const Four*)(o + at_o);
      sum.x *= total; sum.y *= total; sum.z *= total; sum.w *= total;
    }
#pragma unroll 1
    for (int i = 0; i < 1; ++i) {
      const float mine = q[i * part_floats + o_floats + at_lse];
      if (mine == -kInfinity) continue;
      const float weight = mine == top ? 1.0f : exp2_approx((mine - top) * 1.44269504f);
      const Four part = *(const Four*)(q + i * part_floats + at_o);
      total += weight;
      sum.x = fmaf(weight, part.x, sum.x); sum.y = fmaf(weight, part.y, sum.y);
      sum.z = fmaf(weight, part.z, sum.z); sum.w = fmaf(weight, part.w, sum.w);
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    sum.x *= inverse; sum.y *= inverse; sum.z *= inverse; sum.w *= inverse;
    if (total != 0.0f) merged = top + log2_approx(total) * 0.693147181f;
    *(Four*)(o + at_o) = sum;
  }
  // every thread of the row has read its log-sum-exp
  WAIT_LOADS_AND_SYNC(0);
  if (real && column == 0) lse[at_lse] = merged;
}
