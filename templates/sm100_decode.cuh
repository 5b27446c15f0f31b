// The kernel of generator/schedules/sm100_decode: functions of a tile, then the body: set-up, a section for each role of
// its warps, the end; and the end of an item. Holes of a role are what its objects emit (rings.hpp, parts.hpp); the
// sections behind them are texts of one object.

//@ section functions
// S' = K Q': ${BN} keys x ${BM} packed rows, both K-major. O' += V' P': ${MV} columns of V x ${BM} packed rows; V' is
// contiguous along the columns, P along the keys.
constexpr u32 kScoresKind = ${scores_kind}, kOutputKind = ${output_kind};
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kKHigh = ${k_high}, kQHigh = ${q_high}, kVHigh = ${v_high}, kPHigh = ${p_high};

${issue_scores}
${issue_rotary}
${output_note}
__device__ __forceinline__ void issue_output(u32 o, u32 v, u32 p, bool add${output_more}) {
  ${issue_output}
}

struct Largest {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
// Of values of ${fold} packed rows in every lane, those of a row over the lanes of ${lanes_of_row}
template <class Op>
__device__ __forceinline__ float over_lanes(const float* of_rows, int lane, Op op) {
  float x[${fold}];
#pragma unroll
  for (int r = 0; r < ${fold}; ++r) x[r] = of_rows[r];
  ${over_lanes}
  return x[0];
}

${store_two_rows}

//@ section store_two_rows
// P of two packed rows, of this thread's key: 16 bits each.
__device__ __forceinline__ void store_two_rows(u32 first, u32 second, u32 pair) {
  asm volatile("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; st.shared.b16 [%0], lo; st.shared.b16 [%1], hi; }" ::"r"(first),
               "r"(second), "r"(pair)
               : "memory");
}

//@ section store_two_rows_e4m3
// P of two packed rows, of this thread's key: a byte each; over 448 is 448.
__device__ __forceinline__ void store_two_rows(u32 first, u32 second, float a, float b) {
  asm volatile("{ .reg .b16 pair, next; cvt.rn.satfinite.e4m3x2.f32 pair, %3, %2; shr.b16 next, pair, 8;\n"
               "  st.shared.b8 [%0], pair; st.shared.b8 [%1], next; }" ::"r"(first),
               "r"(second), "f"(a), "f"(b)
               : "memory");
}

//@ section convert
// 128 rows of kChunks * 16 bytes to FP16, in panels of 64 columns, swizzled; those from `rows` on become zeros.
template <int kChunks>
__device__ __forceinline__ void convert_tile(u32 to, u32 from, int rows, int thread) {
#pragma unroll 4
  for (int round = 0; round < kChunks; ++round) {
    const int i = 128 * round + thread, r = i / kChunks, c = i % kChunks;
    uint4 x = load_shared_16(from + 16 * i);
    if (r >= rows) x = make_uint4(0, 0, 0, 0);
    const u32 at = to + c / 4 * 16384 + r * 128, chunk = ((c % 4 * 2) ^ (r % 8)) << 4;
    store_shared_16(at + chunk, make_uint4(narrow_to_fp16(x.x), narrow_to_fp16(x.x >> 16), narrow_to_fp16(x.y), narrow_to_fp16(x.y >> 16)));
    store_shared_16(at + (chunk ^ 16), make_uint4(narrow_to_fp16(x.z), narrow_to_fp16(x.z >> 16), narrow_to_fp16(x.w), narrow_to_fp16(x.w >> 16)));
  }
}

//@ section convert_blocks
// kWidth bytes of global memory where `there`, else 0; on their way when the thread goes on.
template <int kWidth>
__device__ __forceinline__ u32 load_if(const u8* at, bool there) {
  u32 x;
  if (kWidth == 4)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u32 %0, [%1]; }"
                 : "=r"(x) : "l"(at), "r"((u32)there) : "memory");
  if (kWidth == 2)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u16 %0, [%1]; }"
                 : "=r"(x) : "l"(at), "r"((u32)there) : "memory");
  if (kWidth == 1)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u8 %0, [%1]; }"
                 : "=r"(x) : "l"(at), "r"((u32)there) : "memory");
  return x;
}

// The bytes that scale the row of this thread's key, in words; zeros of a key that is not there.
template <int kBytes, int kWidth>
__device__ __forceinline__ void load_scale_bytes(u32 (&words)[(kBytes + 3) / 4], const u8* from, bool there) {
#pragma unroll
  for (int i = 0; i < (kBytes + 3) / 4; ++i) words[i] = 0;
#pragma unroll
  for (int i = 0; i < kBytes; i += kWidth) words[i / 4] |= load_if<kWidth>(from + i, there) << 8 * (i % 4);
}

// 128 rows of kChunks * 16 columns, each times its scale, to ${math}, in panels of 64 columns, swizzled; those from `rows` on
// become zeros. A warp has the rows whose scales its lanes have.
template <int kChunks, int kWords>
__device__ __forceinline__ void convert_tile(u32 to, u32 from, int rows, const u32 (&scales)[kWords], u32 thread) {
  constexpr bool kEven = 32 % kChunks == 0;  // then a lane has one column of chunks
  const u32 lane = thread % 32, first = thread - lane;
#pragma unroll
  for (u32 round = 0; round < kChunks; ++round) {
    const u32 i = 32 * round + lane, own = kEven ? 32 / kChunks * round + lane / kChunks : i / kChunks;
    const u32 c = kEven ? lane % kChunks : i % kChunks, r = first + own;
    ${piece}
    if ((int)r >= rows) x = ${no_piece};
    u32 word = __shfl_sync(0xffffffffu, scales[0], own);
#pragma unroll
    for (int w = 1; w < kWords; ++w) {
      const u32 other = __shfl_sync(0xffffffffu, scales[w], own);
      if (${scale_of_chunk} / 4 == w) word = other;
    }
    ${scale}
    const u32 at = to + c / 4 * 16384 + r * 128, chunk = ((c % 4 * 2) ^ (r % 8)) << 4;
    ${store_pieces}
  }
}

//@ section convert_chunk
// 64 rows of kChunks * 16 bytes to FP16, in panels of 64 columns, swizzled; those from `rows` on become zeros. Of whole
// 128 columns eight threads have half of a row and the other half of the next: no two of them use one bank.
template <u32 kChunks${pitch_parameter}>
__device__ __forceinline__ void convert_chunk(u32 to, u32 from, int rows, u32 thread) {
  constexpr u32 kWidth = kChunks > 4 ? 8 : kChunks > 2 ? 4 : kChunks, kRows = 128 / kWidth;
  const u32 row = kWidth == 8 ? thread / 16 * 2 + thread / 4 % 2 : thread / kWidth;
  const u32 c = kWidth == 8 ? thread % 4 + (thread / 4 + thread / 8) % 2 * 4 : thread % kWidth;
  const u32 chunk = ((c % 4 * 2) ^ (row % 8)) << 4;
  from += ${chunk_pitch} * row + 16 * c, to += c / 4 * ${key_panel} + row * 128;
  if (c >= kChunks || row >= 64) return;
#pragma unroll
  for (u32 round = 0; round < (kWidth + 1) / 2; ++round) {
    uint4 x = load_shared_16(from + ${chunk_pitch} * kRows * round);
    if ((int)(row + kRows * round) >= rows) x = make_uint4(0, 0, 0, 0);
    const u32 at = to + 128 * kRows * round;
    store_shared_16(at + chunk, make_uint4(narrow_to_fp16(x.x), narrow_to_fp16(x.x >> 16), narrow_to_fp16(x.y), narrow_to_fp16(x.y >> 16)));
    store_shared_16(at + (chunk ^ 16), make_uint4(narrow_to_fp16(x.z), narrow_to_fp16(x.z >> 16), narrow_to_fp16(x.w), narrow_to_fp16(x.w >> 16)));
  }
}

//@ section setup
extern __shared__ __align__(1024) unsigned char smem_bytes[];
const u32 smem = smem_address(smem_bytes);
const u32 smem_k = ${smem_k}, smem_v = ${smem_v}, smem_q = ${smem_q}, smem_p = ${smem_p};
${places}
// Q is there; S' of every second tile is there (two); P is there, S' was read and O' rescaled; every V' P' has ended.
const u32 mbar_q_full = smem + ${mbar}, mbar_s_full = mbar_q_full + 8, mbar_p_full = mbar_q_full + 24, mbar_o_full = mbar_q_full + 32;
${ring_addresses}
const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
const Problem problem = {${members}};

if (warp == 4) tmem_alloc(smem + ${smem_tmem}, ${tmem_columns});
if (threadIdx.x == 0) {
  prefetch_tensor_map(&k_map);
  ${prefetch_v}
  mbarrier_init(mbar_q_full, 4);
  mbarrier_init(mbar_s_full, 1);
  mbarrier_init(mbar_s_full + 8, 1);
  mbarrier_init(mbar_p_full, 4);
  mbarrier_init(mbar_o_full, 1);
  ${ring_init}
  fence_mbarrier_init();
  ${odd_flag}
}
${range}
tcgen05_fence_before();
__syncthreads();
tcgen05_fence_after();
const u32 tmem = *(volatile u32*)(smem_bytes + ${smem_tmem});  // columns: S' of even tiles 0, of odd ones ${BM}, O' ${o}

//@ section softmax
if (warp < 4) {
  // ---- softmax: a key of the tile ${lanes_of_key}
  if (launch_before != 2) wait_for_launch_before();
  const int group = heads_q / heads_kv;  // query heads of a KV head
  const float factor = ${factor};  // from scores to log2 units
  const u32 tmem_lanes = tmem + ((u32)warp << 21);  // this warp's 32 rows of tensor memory
  int* const row_query = (int*)(smem_bytes + ${smem_table});  // of each packed row, in its sequence
  int* const row_head = row_query + ${BM};
  // of each packed row: the four warps' maxima or sums, of even and odd tiles
  float* const row_exchange = (float*)(smem_bytes + ${smem_exchange});
  // a copy for each warp: base of the exponent, what O' is multiplied by, what is subtracted from steep rows before
  float* const row_base_of = (float*)(smem_bytes + ${smem_rows}) + warp * ${rows_floats};
  float* const row_alpha = row_base_of + ${BM};
  float* const row_steep = row_alpha + ${BM};
  const int first_own = ${own_row};  // this lane keeps the maxima of packed rows from here on, ${fold} apart, the same in every warp
  ${score_row}
  // P: row of 64 keys, ${row_bytes} bytes, swizzled; 16-byte chunk c of row r is at chunk c ^ (${swap})
  const u32 p_at = smem_p + ${p_at}, p_chunk = (${p_chunk}) << 4;
  ${arrivals}
  ${v_state}
  u32 s_buffer = 0, s_phase = 0, o_phase = 0;
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    const int rows = min(${BM}, group * s.sequence.seqlen_q - s.m_block * ${BM});  // packed rows that exist
    named_barrier_sync(1, 128);  // the item before is finished
    if (threadIdx.x < ${BM}) {
      const int packed = s.m_block * ${BM} + threadIdx.x;
      row_query[threadIdx.x] = packed / group;
      row_head[threadIdx.x] = s.kv_head * group + packed % group;
    }
    named_barrier_sync(1, 128);
    // Q: rows past the last and columns past the depth are zeros
#pragma unroll ${q_ahead}
    for (int round = 0; round < ${q_rounds}; ++round) {
      const int i = 128 * round + threadIdx.x, r = i / ${q_chunks}, c = i % ${q_chunks};
      ${q_end}
      const u32 at = smem_q + (c / ${row_chunks}) * ${q_panel} + r * ${row_bytes} + (((c % ${row_chunks}) ^ (${swap})) << 4);
      ${copy_q}
    }
    ${q_copied}
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) mbarrier_arrive(mbar_q_full);
    ${limits}
    ${head_scale}
    float row_max[${own}], row_sum[${score_rows}];  // of the lane's own rows over all keys; of all rows over this thread's keys
#pragma unroll
    for (int i = 0; i < ${own}; ++i) row_max[i] = -kInfinity;
#pragma unroll
    for (int r = 0; r < ${score_rows}; ++r) row_sum[r] = 0.0f;
#pragma unroll 1
    for (int n = s.tile_begin; n < s.tile_end; ++n) {
      ${mask_load}
      mbarrier_wait(mbar_s_full + 8 * s_buffer, s_phase);
      tcgen05_fence_after();
      float s_acc[${score_rows}];
      ${load_scores}(s_acc, tmem_lanes + s_buffer * ${BM});
${tile_scale}
      ${scores}
      // the maximum of each row: over the warp, then over the four warps
      float* const exchange = row_exchange + s_buffer * ${exchange_floats};
      s_phase ^= s_buffer, s_buffer ^= 1;
#pragma unroll
      for (int i = 0; i < ${own}; ++i) {
        const float largest = over_lanes(s_acc + ${fold} * i, lane, Largest());
        if (${one_copy}) exchange[warp * ${BM} + first_own + ${fold} * i] = largest;
      }
      named_barrier_sync(1, 128);
      bool grew = false, steep = false;
#pragma unroll
      for (int i = 0; i < ${own}; ++i) {
        const float* const of_row = exchange + first_own + ${fold} * i;
        const float tile_max = fmaxf(fmaxf(of_row[0], of_row[${BM}]), fmaxf(of_row[2 * ${BM}], of_row[3 * ${BM}]));
        // The old maximum stays while it grew by no more than 2^${threshold}: P stays in range, and O' as it is.
        float alpha = 1.0f;
        if ((tile_max - row_max[i]) * factor > ${threshold}.0f) {
          alpha = rescale_factor(row_max[i], tile_max, factor);
          row_max[i] = tile_max;
          grew = true;
        }
        float base = row_max[i] == -kInfinity ? 0.0f : row_base(row_max[i], factor), before = 0.0f;
        if (is_steep(base)) before = row_max[i], base = 0.0f, steep = true;
        ${base_note}
        if (${one_copy}) row_base_of[first_own + ${fold} * i] = base${base_shift}, row_alpha[first_own + ${fold} * i] = alpha, row_steep[first_own + ${fold} * i] = before;
      }
      grew = __any_sync(0xffffffffu, grew), steep = __any_sync(0xffffffffu, steep);
      __syncwarp();  // every lane sees the rows of the others
      if (steep) {
#pragma unroll
        for (int r = 0; r < ${score_rows}; ++r) s_acc[r] -= row_steep[${row}];
      }
      if (grew) {
#pragma unroll
        for (int r = 0; r < ${score_rows}; ++r) row_sum[r] *= row_alpha[${row}];
      }
      // P = 2^(S' - base)
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) {
        s_acc[r] = exp2_approx(fmaf(s_acc[r], factor, -row_base_of[${row}]));
        row_sum[r] += s_acc[r];
      }
      if (n > s.tile_begin) {
        ${await_output}
        if (grew) {
          ${rescale}
          tmem_wait_store();
        }
      }
${weigh}
      ${p_place}
#pragma unroll
      for (int r = 0; r < ${score_rows}; r += 2)
        store_two_rows(${p_of_tile} + r * ${row_bytes} + (p_chunk ^ (${swap} << 4)), ${p_of_tile} + (r + 1) * ${row_bytes} + (p_chunk ^ (${next_swap} << 4)),
                       ${p_value});
      ${zero_tail}
      ${softmax_step}
      fence_proxy_async();
      tcgen05_fence_before();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(mbar_p_full);
    }
    ${epilogue}
  }
//@ section products
} else if (warp == 4) {
  // ---- products: the warp waits, an elected lane issues
  ${wait_for_lengths_of_products}
  const u32 q_desc = (smem_q >> 4) | ${q_low}, p_desc = (smem_p >> 4) | ${p_low};
  const u32 k_desc = (smem_k >> 4) | ${k_low}, v_desc = (smem_v >> 4) | ${v_low};
  ${consumer_states}
  u32 s_buffer = 0, q_phase = 0, p_phase = 0;
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    mbarrier_wait(mbar_q_full, q_phase);
    q_phase ^= 1;
#pragma unroll 1
    for (int n = s.tile_begin; n <= s.tile_end; ++n) {
      ${tile_products}
    }
  }
//@ section converters
} else if (warp >= 6) {
  ${converters_note}
  ${wait_for_lengths}
  const int thread = threadIdx.x - 192;
  ${converter_states}
  ${turn}
  ${zero_columns}
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    ${scales_of_item}
#pragma unroll 1
    for (int n = s.tile_begin; n < s.tile_end; ++n) {
      ${scales_of_tile}
      ${convert_k}
      ${convert_v}
      ${next_turn}
    }
  }
//@ section copies
} else {
  // ---- copies of K and V: tiles are read once, so first out of L2
  if (launch_before != 2) wait_for_launch_before();
  // not earlier: what the launch after this one is promised counts from here
  let_next_launch_begin();
  ${producer_states}
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    ${lookup}
#pragma unroll 1
    for (int n = s.tile_begin; n < s.tile_end; ++n) {
      ${populate}
      ${load_k}
      ${load_v}
    }
  }
  // who waits for this launch has waited for the one before it, too
  wait_for_launch_before();
}
//@ section end
// Nobody reads tensor memory any more. (Neither warp nor address is kept in a register until here.)
tcgen05_fence_before();
__syncthreads();
if (threadIdx.x / 32 == 4) {
  tcgen05_fence_after();
  tmem_dealloc(*(volatile u32*)(smem_bytes + ${smem_tmem}), ${tmem_columns});
}

//@ section epilogue
// ---- the end of the item, or of this block's part of it: sums of the rows over all keys
float* const exchange = row_exchange + s_buffer * ${exchange_floats};  // not the last tile's
#pragma unroll
for (int i = 0; i < ${own}; ++i) {
  const float sum = over_lanes(row_sum + ${fold} * i, lane, Sum());
  if (${one_copy}) exchange[warp * ${BM} + first_own + ${fold} * i] = sum;
}
mbarrier_wait(mbar_o_full, o_phase);
o_phase ^= 1;
tcgen05_fence_after();
named_barrier_sync(1, 128);
#pragma unroll
for (int i = 0; i < ${own}; ++i) {
  const float* const of_row = exchange + first_own + ${fold} * i;
  row_sum[i] = (of_row[0] + of_row[${BM}]) + (of_row[2 * ${BM}] + of_row[3 * ${BM}]);
}
${finish_row}
//@ if hidden
bool odd = false;  // some column of O is not finite
//@ end
//@ if splits
if (s.whole) {
//@ else
{
//@ end
  float* const row_inverse = row_alpha;
#pragma unroll
  for (int i = 0; i < ${own}; ++i) {
    const float inverse = finish(first_own + ${fold} * i, row_max[i], row_sum[i], warp == 0 && ${one_copy});
    if (${one_copy}) row_inverse[first_own + ${fold} * i] = inverse;
  }
  __syncwarp();
  ${whole}
}
//@ if splits
else {
  // this block's part: O' not yet divided by the sums, row by row, then (maximum, sum) of each row
  float* const part = ${part};
  ${store_part}
#pragma unroll
  for (int i = 0; i < ${own}; ++i)
    if (warp == 0 && ${one_copy}) *(float2*)(part + ${part_rows} + 2 * (first_own + ${fold} * i)) = make_float2(row_max[i], row_sum[i]);
  named_barrier_sync(1, 128);
  const Split split = split_of(range, s);
  if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1);
  named_barrier_sync(1, 128);
  if (*arrivals_before == split.parts - 1) {
    // the last block of the item adds the parts up, in order, and leaves the counter as it was found
    if (threadIdx.x == 0) item_counters[s.item] = 0;
${sum_of_parts}
  }
}
//@ end
${repair}

//@ section widened_q
uint4 x = make_uint4(0, 0, 0, 0);
if (r < rows${q_real}) x = *(const uint4*)(${q_at});
store_shared_16(at, ${q_value});

//@ section copied_q
if (r < rows${q_real}) {
  copy_async_16(at, ${q_at});
} else {
  zero_16_bytes(at);
}

//@ section await_output
// V' P' of the tile before has ended: P's place is free, and O' follows the maxima
mbarrier_wait(mbar_o_full, o_phase);
o_phase ^= 1;
tcgen05_fence_after();

//@ section zero_tail
// rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
const int v_rows = max(s.sequence.seqlen_k - n * ${BN}, 0);
if (v_rows < ${BN}) {
  ${wait_v}
  for (int i = v_rows * ${row_chunks} + threadIdx.x; i < ${BN} * ${row_chunks}; i += 128) {
    ${zero_v}
  }
}

//@ section latent_products
if (n > s.tile_begin) {
  // O' += V(n - 1)' P(n - 1)', before S'(n): what it frees is on its way to hold K(n + 1) while softmax has S'(n)
  mbarrier_wait(mbar_p_full, p_phase);
  p_phase ^= 1;
  tcgen05_fence_after();
  if (elect_one()) {
    issue_output(tmem + ${o}, ${v_get}, ${p_get}, n - 1 > s.tile_begin, ${output_arguments});
    if (n == s.tile_end) tcgen05_commit(mbar_o_full);
  }
  ${step_v}
}
if (n < s.tile_end) {
  // S'(n) = K(n) Q', chunk by chunk as K comes. Its commit tells of O', too.
  ${issue_tile_scores}
  s_buffer ^= 1;
  ${step_k}
}

//@ section tile_products
if (n < s.tile_end) {
  // S'(n) = K(n) Q', while softmax has the tile before. Its place was read before P(n - 2) was there.
  ${issue_tile_scores}
  s_buffer ^= 1;
  ${step_k}
}
if (n > s.tile_begin) {
  // O' += V(n - 1)' P(n - 1)'
  ${wait_v}
  mbarrier_wait(mbar_p_full, p_phase);
  p_phase ^= 1;
  tcgen05_fence_after();
  if (elect_one()) {
    issue_output(tmem + ${o}, ${v_get}, ${p_get}, n - 1 > s.tile_begin);
    tcgen05_commit(mbar_o_full);
    tcgen05_commit(${v_empty});
  }
  ${step_v}
}

//@ section zero_columns
// columns past V's last
for (int i = thread; i < ${v_words}; i += 128) zero_16_bytes(smem_v + 16 * i);
named_barrier_sync(2, 128);

//@ section head_scores
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] *= key_scale;

//@ section token_scores
      const float key_scale = load_shared_float(smem_key_scales + turn * ${tile_scales} + 4 * ${own_key});
      turn = (turn + 1) % 4;
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] *= key_scale;

//@ section token_values
      ${wait_v}
      const float value_scale = load_shared_float(smem_value_scales + 4 * ${own_key});
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] *= value_scale;

//@ section latent_scores
//@ if token
      const float key_scale = load_shared_float(smem_key_scales + turn * ${tile_scales} + 4 * ${own_key});
      turn = (turn + 1) % 4;
//@ end
//@ if rotary
      float rotary[${score_rows}];  // what the rotary columns add, which no scale concerns
      ${load_scores}(rotary, tmem_lanes + ${rotary} + s_buffer * ${BM});
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] = fmaf(s_acc[r], key_scale, rotary[r]);
//@ else
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] *= key_scale;
//@ end

//@ section latent_values
#pragma unroll
      for (int r = 0; r < ${score_rows}; ++r) s_acc[r] *= key_scale;
