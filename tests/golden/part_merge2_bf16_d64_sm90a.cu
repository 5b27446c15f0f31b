// merge2_decode_bf16_d64_ragged_causal_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"target":"sm_90a","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":64,"ov_depth":64,"rope_depth":0,"nope_depth":64,"q_depth":64,"cache_depth":64,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"ragged"},"mask":"causal","score_mod":"none","sink":false,"lse":false,"scale":0.125}
// Merges results of the same rows over different keys.
//
// Regenerate: kiln generate merge2_decode_bf16_d64_ragged_causal_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin merge2_decode_bf16_d64_ragged_causal_sm90a.cu

#define kInfinity __int_as_float(0x7f800000)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

struct alignas(16) Four { float x, y, z, w; };
extern "C" __global__ void __launch_bounds__(256)
kiln_merge2_decode_bf16_d64_ragged_causal_sm90a(const float* q, u16* o, float* lse, int seqlen_q, int heads_q) {
  const int thread = threadIdx.x, head = blockIdx.y, block = blockIdx.x;
  // Four columns of a row and head a thread.
  const int row = block * 16 + thread / 16, column = thread % 16 * 4;
  const bool real = thread < 16 * 16 && row < seqlen_q;
  const long long at_o = ((long long)row * heads_q + head) * 64 + column;
  const long long at_lse = (long long)head * seqlen_q + row;
  const long long results = (long long)seqlen_q * heads_q, o_floats = results * 64;
  const long long part_floats = o_floats + (results + 3) / 4 * 4;
  const float *const from_o = q + at_o, *const from_lse = q + o_floats + at_lse;
  Four sum = {0.0f, 0.0f, 0.0f, 0.0f};
  float merged = -kInfinity;
  if (real) {
    float top = -kInfinity;
    // The log-sum-exps are read twice: the second time they are in the cache.
#pragma unroll 2
    for (int i = 0; i < 2; ++i) top = fmaxf(top, from_lse[i * part_floats]);
    float total = 0.0f;
#pragma unroll 2
    for (int i = 0; i < 2; ++i) {
      const float mine = from_lse[i * part_floats];
      if (mine == -kInfinity) continue;
      const float weight = mine == top ? 1.0f : exp2_approx((mine - top) * 1.44269504f);
      const Four part = *(const Four*)(from_o + i * part_floats);
      total += weight;
      sum.x = fmaf(weight, part.x, sum.x); sum.y = fmaf(weight, part.y, sum.y);
      sum.z = fmaf(weight, part.z, sum.z); sum.w = fmaf(weight, part.w, sum.w);
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    sum.x *= inverse; sum.y *= inverse; sum.z *= inverse; sum.w *= inverse;
    if (total != 0.0f) merged = top + log2_approx(total) * 0.693147181f;
    u32* const to = (u32*)(o + at_o);
    to[0] = pack_bf16(sum.x, sum.y);
    to[1] = pack_bf16(sum.z, sum.w);
  }
  if (real && column == 0) lse[at_lse] = merged;
}
