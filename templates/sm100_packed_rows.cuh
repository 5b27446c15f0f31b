// What kernels over packed rows of sm_100a do with a finished row, and with the parts of an item: for sections of
// sm100_decode.cuh and sm100_latent_pair.cuh (generator/schedules/common/sm100_packed_rows.hpp).

//@ section finish_row
// 1 / sum of a finished row (0 where no key was visible), and its LSE
const auto finish = [&](int row, float maximum, float sum, bool first) {
//@ if sink
  float top = maximum * (factor * 0.693147181f)${top_shift};
  // the sink is one more logit, without a value
  const float logit = sink[row_head[row]], higher = fmaxf(top, logit);
  const bool visible = sum != 0.0f;  // some key is, though it may count for nothing beside the sink
  const float own = !visible ? 0.0f : top == higher ? 1.0f : exp2_approx((top - higher) * 1.44269504f);
  sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));
  top = higher;
//@ end
//@ if lse
//@ if !sink
  const float top = maximum * (factor * 0.693147181f)${top_shift};  // in log2 units a logit near the largest float is none
  const bool visible = sum != 0.0f;
//@ end
  if (first && row < rows) lse[${lse_row}] = visible ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
//@ end
//@ if sink
  return ${value_factor}own / sum;
//@ else
  return sum != 0.0f ? ${value_scale} / sum : 0.0f;
//@ end
};
// first element of O of a packed row
const auto output_row = [&](int row) {
  return o + ${o_batch}(s.sequence.q_start + row_query[row]) * o_stride_seq + row_head[row] * o_stride_head;
};

//@ section sum_of_parts
    ${parts}
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * ${quads}; i += 128) {
      const int row = i / ${quads}, c = i % ${quads};
      float maximum = -kInfinity, sum = 0.0f;
      float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
      for (int other = 0; other < split.parts; ++other) {
        const float* const from = parts + other * stride + (other == 0 ? shift : 0)${own_part};
        const float2 row_part = __ldcg((const float2*)(from + ${part_rows}) + row);
        const float4 value = __ldcg((const float4*)(from + row * ${ov_depth}) + c);
        const float top = fmaxf(maximum, row_part.x);
        const float before = rescale_factor(maximum, top, factor), now = rescale_factor(row_part.x, top, factor);
        sum = sum * before + row_part.y * now;
        out.x = out.x * before + value.x * now;
        out.y = out.y * before + value.y * now;
        out.z = out.z * before + value.z * now;
        out.w = out.w * before + value.w * now;
        maximum = top;
      }
      const float inverse = finish(row, maximum, sum, c == 0);
      ${look_at_sum}
      ${store_four}
    }
