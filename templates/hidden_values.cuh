// Rows of O again, key by key: generator/systems/hidden_values.hpp says when and why. For NVIDIA and AMD: names of
// lanes are those of the section lane_floats of the target's prelude. Names of its own must not hide those that the
// kernel's masks and modifiers read: lengths are called keys and queries in some.
//
// All branches are of values that the compiler knows to be the same in all lanes (`same`): ptxas would keep nothing in
// uniform registers across others, and pay for that in the main loop of a kernel that goes on with the next item.

//@ section repair
// V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
if (same(${when})) {
//@ section repair_rows
//@ if apart
  const auto again = [=]() __attribute__((noinline)) {
//@ end
  const int lane_32 = (int)thread_id() & 31, row_begin = same(${first_row}), row_end = same(${end_row});
  ${before}
  // the last key past some row's end, and the first one before some row's first, with a V that is not finite
  int highest = -1, lowest = 0x7fffffff;
  {
    const int ${end_row_name}last = same(${visited_end}) - 1;
#pragma unroll 1
    for (int first = same(max(${end_key}, 0)); first <= last; first += 32) {
      const int key = min(first + lane_32, last);
      ${page}
      highest = ${there}${finite} ? highest : key;
    }
    highest = same(largest_of_lanes(highest));
  }
//@ if bounded_below
  {
    const int ${first_row_name}last = same(${first_key}) - 1;
#pragma unroll 1
    for (int first = same(${visited_begin}); first <= last; first += 32) {
      const int key = min(first + lane_32, last);
      ${page}
      lowest = ${there}${finite} ? lowest : min(lowest, key);
    }
    lowest = same(-largest_of_lanes(-lowest));
  }
//@ end
#pragma unroll 1
  for (int row = row_begin; row < row_end; ++row) {
    const int begin = same(${first_key}), end = same(${end_key});
    if (highest < end && lowest >= begin) continue;
    ${modifier_rows}
    const ${q_word}* const query_words = (const ${q_word}*)(${q});
    float maximum = -kInfinity, sum = 0.0f, out[${out}];
#pragma unroll
    for (int i = 0; i < ${out}; ++i) out[i] = 0.0f;
    // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
    bool left = end > begin;
#pragma unroll 1
    for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
      float score[1] = {0.0f};
      {
        const int key = max(min(first + lane_32, end - 1), begin);
        ${page}
        const ${word}* const key_words = (const ${word}*)(${k});
        ${key_scales}
        UNROLL_4
        for (int i = 0; i < ${k_words}; ++i) {
          score[0] = fmaf(${q_low}(query_words[i]), ${low}(key_words[i])${by_key}, score[0]);
          score[0] = fmaf(${q_high}(query_words[i]), ${high}(key_words[i])${by_key}, score[0]);
        }
        ${scale_score}
//@ if rope
        const u32* const rope_words = (const u32*)(${k_rope});
        UNROLL_4
        for (int i = 0; i < ${rope_words}; ++i) {
          score[0] = fmaf(low_half(query_words[${k_words} + i]), low_half(rope_words[i]), score[0]);
          score[0] = fmaf(high_half(query_words[${k_words} + i]), high_half(rope_words[i]), score[0]);
        }
//@ end
//@ if table
        score[0] = found < 0 ? 0.0f : score[0];
//@ end
        ${modifier}
        score[0] = key == first + lane_32 ? score[0] : -kInfinity;
      }
      const float largest = fmaxf(maximum, largest_of_lanes(score[0]));
      const float base = largest == -kInfinity ? 0.0f : largest;
      const float shrink = exp2_approx((maximum - base) * ${factor});
      const float weight = score[0] == -kInfinity ? 0.0f : exp2_approx((score[0] - base) * ${factor});
      sum = fmaf(sum, shrink, sum_of_lanes(weight));
      maximum = largest;
#pragma unroll
      for (int i = 0; i < ${out}; ++i) out[i] *= shrink;
#pragma unroll 1
      for (int j = 0; j < 32; ++j) {
        const int key = max(min(first + j, end - 1), begin);
        const float p = lane_float(weight, j);
        ${page}
        const bool seen = ${exists}lane_float(score[0], j) != -kInfinity;
        const ${word}* const value_words = (const ${word}*)(${v});
        ${value_scales}
#pragma unroll
        for (int i = 0; i < ${out}; i += 2) {
          u32 two = value_words[min(lane_32 + 16 * i, ${v_words-1})];
          two = seen ? two : 0u;
          out[i] = fmaf(p, ${low}(two)${by_value}, out[i]);
          out[i + 1] = fmaf(p, ${high}(two)${by_value}, out[i + 1]);
        }
      }
      // what the row itself sees may leave nothing to compute
      bool finite = false;
#pragma unroll
      for (int i = 0; i < ${out}; ++i) finite |= out[i] * 0.0f == 0.0f;
      left = any_lane(finite);
    }
//@ if sink
    sum += maximum > -kInfinity ? exp2_approx(${sink} * 1.44269504f - maximum * ${factor}) : 0.0f;
//@ end
    const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum)${by_head};
    ${element}* const to = ${o};
#pragma unroll
    for (int i = 0; i < ${out}; i += 2) {
      const int column = 2 * lane_32 + 32 * i;
//@ if floats
      if (column < ${ov_depth} && writes_rows()) to[column] = out[i] * inverse, to[column + 1] = out[i + 1] * inverse;
//@ else
      const u32 two = ${pack}(out[i] * inverse, out[i + 1] * inverse);
      if (column < ${ov_depth} && writes_rows()) *(u32*)(to + column) = two;
//@ end
    }
  }
//@ if apart
  };
  again();
//@ end
}
