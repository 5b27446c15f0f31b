// The kernel that merges parts of attention: include/kiln/part_kernels.hpp says what lies where.

//@ section kernel
//@ if amd
typedef f32x4 Four;
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(${threads}, ${threads}))) void
//@ else
struct alignas(16) Four { float x, y, z, w; };
extern "C" __global__ void __launch_bounds__(${threads})
//@ end
//@ if placed
// q: O of the first part, row_floats from one row to the next, head_floats from one head to the next. lses: its
// log-sum-exps, those of a head from first_row on, row_count from one head to the next. Parts are part_floats apart.
${entry}(const float* q, const float* lses, ${element}* o, float* lse, ${sink}int seqlen_q, int heads_q, long long row_floats,
    long long head_floats, long long part_floats, long long row_count, long long first_row) {
//@ else
${entry}(const float* q, ${element}* o, float* lse, ${sink}int seqlen_q, int heads_q) {
//@ end
//@ if amd
  const int thread = (int)__builtin_amdgcn_workitem_id_x(), head = (int)__builtin_amdgcn_workgroup_id_y();
  const int block = (int)__builtin_amdgcn_workgroup_id_x();
//@ else
  const int thread = threadIdx.x, head = blockIdx.y, block = blockIdx.x;
//@ end
  // Four columns of a row and head a thread.
  const int row = block * ${rows} + thread / ${lanes}, column = thread % ${lanes} * 4;
  const bool real = thread < ${rows} * ${lanes} && row < seqlen_q;
  const long long at_o = ((long long)row * heads_q + head) * ${ov_depth} + column;
  const long long at_lse = (long long)head * seqlen_q + row;
//@ if placed
  const float* const from_o = q + row * row_floats + head * head_floats + column;
  const float* const from_lse = lses + head * row_count + first_row + row;
//@ else
  const long long results = (long long)seqlen_q * heads_q, o_floats = results * ${ov_depth};
  const long long part_floats = o_floats + (results + 3) / 4 * 4;
  const float *const from_o = q + at_o, *const from_lse = q + o_floats + at_lse;
//@ end
  Four sum = {0.0f, 0.0f, 0.0f, 0.0f};
  float merged = -kInfinity;
  if (real) {
//@ if accumulate
    const float own = lse[at_lse];
    float top = own;
//@ else
    float top = -kInfinity;
//@ end
    // The log-sum-exps are read twice: the second time they are in the cache.
#pragma unroll ${unroll}
    for (int i = 0; i < ${parts}; ++i) top = fmaxf(top, from_lse[i * part_floats]);
    float total = 0.0f;
//@ if accumulate
    // a result without keys may never have been written
    if (own != -kInfinity) {
      total = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);
      sum = *(const Four*)(o + at_o);
      sum.x *= total; sum.y *= total; sum.z *= total; sum.w *= total;
    }
//@ end
#pragma unroll ${unroll}
    for (int i = 0; i < ${parts}; ++i) {
      const float mine = from_lse[i * part_floats];
      if (mine == -kInfinity) continue;
      const float weight = mine == top ? 1.0f : exp2_approx((mine - top) * 1.44269504f);
      const Four part = *(const Four*)(from_o + i * part_floats);
      total += weight;
      sum.x = fmaf(weight, part.x, sum.x); sum.y = fmaf(weight, part.y, sum.y);
      sum.z = fmaf(weight, part.z, sum.z); sum.w = fmaf(weight, part.w, sum.w);
    }
//@ if sink
    // the sink is one more logit, without a value; beside no keys it is none
    const float logit = total != 0.0f ? sink[head] : top, with_sink = fmaxf(top, logit);
    const float kept = top == with_sink ? 1.0f : exp2_approx((top - with_sink) * 1.44269504f);
    if (total != 0.0f)
      total = total * kept + (logit == with_sink ? 1.0f : exp2_approx((logit - with_sink) * 1.44269504f));
    top = with_sink;
    const float inverse = total == 0.0f ? 0.0f : kept / total;
//@ else
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
//@ end
    sum.x *= inverse; sum.y *= inverse; sum.z *= inverse; sum.w *= inverse;
    if (total != 0.0f) merged = top + log2_approx(total) * 0.693147181f;
//@ if floats
    *(Four*)(o + at_o) = sum;
//@ else
    u32* const to = (u32*)(o + at_o);
    to[0] = ${pack}(sum.x, sum.y);
    to[1] = ${pack}(sum.z, sum.w);
//@ end
  }
//@ if accumulate
  // every thread of the row has read its log-sum-exp
//@ if amd
  WAIT_LOADS_AND_SYNC(0);
//@ else
  __syncthreads();
//@ end
//@ end
  if (real && column == 0) lse[at_lse] = merged;
}
