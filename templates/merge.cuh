// The kernel that ends a cascade: generator/emit/merge.cpp says what it does and plans it.

//@ section kernel
// Two neighbouring elements as floats.
__device__ __forceinline__ float2 unpack(u32 x) {
//@ if bf16
  return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
//@ else
  float2 y;
  asm("{.reg .b16 low, high;\n mov.b32 {low, high}, %2;\n cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;}"
      : "=f"(y.x), "=f"(y.y) : "r"(x));
  return y;
//@ end
}

// q: O of the prefixes, part after part. lse: of the suffixes, [heads_q][seqlen_q], then of each part.
extern "C" __global__ void __launch_bounds__(${threads})
${entry}(const u16* q, u16* o, float* lse, int seqlen_q, int heads_q, long long q_stride_seq, long long q_stride_head,
    long long o_stride_seq, long long o_stride_head) {
//@ if overlaps
  wait_for_launch_before();
  let_next_launch_begin();
//@ end
  const int lane = threadIdx.x % 32, head = blockIdx.y;
  const int row = blockIdx.x * ${rows} + threadIdx.x / 32;
  if (row >= seqlen_q) return;

  // Weights of the results, from the log-sum-exps of the row; -inf is no keys at all. Lane i has that of part i.
  const long long at = (long long)head * seqlen_q + row, results = (long long)heads_q * seqlen_q;
  const float own = lse[at], mine = lane < ${parts} ? lse[(lane + 1) * results + at] : -kInfinity;
  float shared = mine;
  for (int step = 16; step > 0; step /= 2) shared = fmaxf(shared, __shfl_xor_sync(0xffffffffu, shared, step));
  // nothing to take in; its O may never have been written
  if (!__any_sync(0xffffffffu, mine != -kInfinity)) return;
  const float top = fmaxf(own, shared);
  const float own_share = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);
  const float my_share = mine == top ? 1.0f : exp2_approx((mine - top) * 1.44269504f);
  float sum = my_share;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  sum += own_share;
  const float inverse = 1.0f / sum, own_weight = own_share * inverse;
  float weight[${parts}];
#pragma unroll
  for (int i = 0; i < ${parts}; ++i) weight[i] = __shfl_sync(0xffffffffu, my_share, i) * inverse;

  const u16* const from = q + row * q_stride_seq + head * q_stride_head;
  u16* const to = o + row * o_stride_seq + head * o_stride_head;
#pragma unroll
  for (int c = 4 * lane; c < ${ov_depth}; c += 128) {
    uint2 part[${parts}];
    const uint2 own_part = *(const uint2*)(to + c);
#pragma unroll
    for (int i = 0; i < ${parts}; ++i) {
      // a part of no weight may never have been written
      part[i] = make_uint2(0, 0);
      if (weight[i] > 0.0f) part[i] = *(const uint2*)(from + (long long)i * seqlen_q * q_stride_seq + c);
    }
    const float2 own_low = unpack(own_part.x), own_high = unpack(own_part.y);
    float4 x = make_float4(own_low.x * own_weight, own_low.y * own_weight, own_high.x * own_weight,
                           own_high.y * own_weight);
#pragma unroll
    for (int i = 0; i < ${parts}; ++i) {
      const float2 low = unpack(part[i].x), high = unpack(part[i].y);
      x.x += low.x * weight[i]; x.y += low.y * weight[i]; x.z += high.x * weight[i]; x.w += high.y * weight[i];
    }
    *(uint2*)(to + c) = make_uint2(${pack}(x.x, x.y), ${pack}(x.z, x.w));
  }
  __syncwarp();  // every lane has read the row's log-sum-exp
  if (lane == 0) lse[at] = top + log2_approx(sum) * 0.693147181f;
}
