// The kernel of generator/schedules/sm100_latent_pair: functions of a tile, then the body: set-up, a section for each role
// of its warps, the end; and the end of an item. plan.hpp says who of the two blocks has what.

//@ section functions
// S = Q K': 128 packed rows x 128 keys, K K-major. O += P V: the same rows x a block of V's columns, which are contiguous.
constexpr u32 kScoresKind = ${scores_kind};
${output_kinds}
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kQHigh = ${q_high}, kKHigh = ${k_high}, kPHigh = ${p_high}, kVHigh = ${v_high};

${issue_scores}
${issue_output}
${exponentials}

// O of this lane's row times a factor.
__device__ __forceinline__ void rescale_output(u32 o, float alpha) {
#pragma unroll 1
  for (int piece = 0; piece < ${pieces}; ++piece) {
    float x[32];
    ${load_output}(x, o + 32 * piece);
#pragma unroll
    for (int i = 0; i < 32; i += 2) scale_pair(x[i], x[i + 1], alpha);
    ${store_output}(o + 32 * piece, x);
  }
  tmem_wait_store();
}

// The column of O that a thread's piece begins with: its lanes have one half of each block of columns.
__device__ __forceinline__ int first_column(int piece, int half) { return ${first_column}; }

//@ section probabilities
u32 p[32];
#pragma unroll
for (int i = 0; i < 64; i += 4) {
  p[i / 2] = exponentials(s_acc[i], s_acc[i + 1], factor, shift, sum_a);
  p[i / 2 + 1] = exponentials(s_acc[i + 2], s_acc[i + 3], factor, shift, sum_b);
}

//@ section probabilities_e4m3
shift -= ${top}.0f;  // P is up to 2^${top}, and what is small far above the least E4M3
u32 p[16];
#pragma unroll
for (int i = 0; i < 64; i += 4)
  p[i / 4] = exponentials(s_acc[i], s_acc[i + 1], s_acc[i + 2], s_acc[i + 3], factor, shift, sum_a, sum_b);

//@ section setup
extern __shared__ __align__(1024) unsigned char smem_bytes[];
const u32 smem = smem_address(smem_bytes);
const u32 smem_k = ${smem_k}, smem_v = ${smem_v}, smem_q = ${smem_q}, smem_p = ${smem_p};
// Q of both blocks is there; S of every second tile is there (two); P of both is there, S was read and O rescaled; every
// P V has ended. Q and P count at the first block, the products of both arrive at both.
const u32 mbar_q_full = smem + ${mbar}, mbar_s_full = mbar_q_full + 8, mbar_p_full = mbar_q_full + 24, mbar_o_full = mbar_q_full + 32;
${ring_addresses}
const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
const int rank = (int)cluster_rank();
const Problem problem = {${members}};

if (warp == 4) tmem_alloc(smem + ${smem_tmem}, ${tmem_columns});
if (threadIdx.x == 0) {
  prefetch_tensor_map(&k_map);
  ${prefetch_rope}
  mbarrier_init(mbar_q_full, 8);
  mbarrier_init(mbar_s_full, 1);
  mbarrier_init(mbar_s_full + 8, 1);
  mbarrier_init(mbar_p_full, 8);
  mbarrier_init(mbar_o_full, 1);
  ${ring_init}
  fence_mbarrier_init();
  ${odd_flag}
}
${range}
tcgen05_fence_before();
cluster_arrive(); cluster_wait();  // of both blocks
tcgen05_fence_after();
const u32 tmem = *(volatile u32*)(smem_bytes + ${smem_tmem});  // columns: S of even tiles 0, of odd ones 64, O 128

//@ section softmax
if (warp < 4) {
  // ---- softmax: a packed row in two threads, which have half of a tile's keys each
  if (launch_before != 2) wait_for_launch_before();
  const int group = heads_q / heads_kv;  // query heads of a KV head
  const float factor = ${factor};  // from scores to log2 units
  const u32 tmem_lanes = tmem + ((u32)warp << 21);  // this warp's 32 rows of tensor memory
  const int row = threadIdx.x % 64, half = threadIdx.x / 64;
  int* const row_query = (int*)(smem_bytes + ${smem_table});  // of each packed row, in its sequence
  int* const row_head = row_query + 64;
  // what a thread has found of its row, and the row's other thread; of even and odd tiles
  const u32 own_at = smem + ${smem_exchange} + 4 * threadIdx.x, other_at = own_at ^ 256;
  // P: row of 64 keys, ${row_bytes} bytes, swizzled; 16-byte chunk c of row r is at chunk c ^ (${swap})
  const u32 p_at = smem_p + half * ${panel} + row * ${row_bytes}, p_swizzle = (${row_swap}) << 4;
  ${arrivals}
  ${v_state}
  u32 s_buffer = 0, s_phase = 0, o_phase = 0;
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    const int first_row = s.m_block * 128 + rank * 64;                                  // packed, of this block
    const int rows = max(min(64, group * s.sequence.seqlen_q - first_row), 0);          // of these that exist
    named_barrier_sync(3, 128);  // the item before is finished
    if (threadIdx.x < 64) {
      row_query[threadIdx.x] = (first_row + (int)threadIdx.x) / group;
      row_head[threadIdx.x] = s.kv_head * group + (first_row + (int)threadIdx.x) % group;
    }
    named_barrier_sync(3, 128);
    // Q: rows past the last and columns past the depth are zeros
#pragma unroll 4
    for (int round = 0; round < ${q_rounds}; ++round) {
      const int i = 128 * round + threadIdx.x, r = i / ${q_chunks}, c = i % ${q_chunks};
      const u32 at = smem_q + (c / ${row_chunks}) * ${panel} + r * ${row_bytes} + (((c % ${row_chunks}) ^ (${swap})) << 4);
      if (r < rows${q_real}) {
        copy_async_16(at, ${q_at});
      } else {
        zero_16_bytes(at);
      }
    }
    copy_async_wait();
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) mbarrier_arrive_cluster(mbar_q_full, 0);
    ${limits}
    ${head_scale}
    float row_max = -kInfinity, row_sum = 0.0f;  // of the row over all keys; over this thread's keys
#pragma unroll 1
    for (int n = s.tile_begin; n < s.tile_end; ++n) {
      ${mask_load}
      mbarrier_wait(mbar_s_full + 8 * s_buffer, s_phase);
      tcgen05_fence_after();
      float s_acc[64];
      ${load_scores}(s_acc, tmem_lanes + s_buffer * 64);
      ${scale_scores}
      ${scores}
      // the row's largest score: of this thread's keys, then of the other's
      float max_a = -kInfinity, max_b = -kInfinity, max_c = -kInfinity, max_d = -kInfinity;
#pragma unroll
      for (int i = 0; i < 64; i += 8) {
        max_a = max_of_three(max_a, s_acc[i], s_acc[i + 1]), max_b = max_of_three(max_b, s_acc[i + 2], s_acc[i + 3]);
        max_c = max_of_three(max_c, s_acc[i + 4], s_acc[i + 5]), max_d = max_of_three(max_d, s_acc[i + 6], s_acc[i + 7]);
      }
      float tile_max = fmaxf(max_of_three(max_a, max_b, max_c), max_d);
      store_shared_float(own_at + 512 * s_buffer, tile_max);
      named_barrier_sync(1 + warp % 2, 64);
      tile_max = fmaxf(tile_max, load_shared_float(other_at + 512 * s_buffer));
      s_phase ^= s_buffer, s_buffer ^= 1;
      // The old maximum stays while it grew by no more than 2^${threshold}: P stays in range, and O as it is.
      float alpha = 1.0f;
      if ((tile_max - row_max) * factor > ${threshold}.0f) {
        alpha = rescale_factor(row_max, tile_max, factor);
        row_max = tile_max;
      }
      float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, factor);
      if (__any_sync(0xffffffffu, is_steep(shift))) {
        const float steep = is_steep(shift) && row_max != -kInfinity ? row_max : 0.0f;
        if (is_steep(shift)) shift = 0.0f;
#pragma unroll
        for (int i = 0; i < 64; ++i) s_acc[i] -= steep;
      }
      // P = 2^(S - base)
      float2 sum_a = make_float2(0.0f, 0.0f), sum_b = make_float2(0.0f, 0.0f);
      ${probabilities}
      row_sum = fmaf(row_sum, alpha, (sum_a.x + sum_a.y) + (sum_b.x + sum_b.y));
      if (n > s.tile_begin) {
        // P V of the tile before has ended: P's place is free, and O follows the maxima
        mbarrier_wait(mbar_o_full, o_phase);
        o_phase ^= 1;
        tcgen05_fence_after();
        if (__any_sync(0xffffffffu, alpha != 1.0f)) rescale_output(tmem_lanes + 128, alpha);
      }
#pragma unroll
      for (int i = 0; i < ${row_chunks}; ++i)
        store_shared_16(p_at + ((i << 4) ^ p_swizzle), make_uint4(p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]));
      // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
      const int v_rows = max(s.sequence.seqlen_k - n * 128, 0);
      if (v_rows < 128) {
        ${wait_v}
        for (int i = v_rows * ${row_chunks} + threadIdx.x; i < 128 * ${row_chunks}; i += 128) {
          ${zero_v}
        }
      }
      ${step_v}
      fence_proxy_async();
      tcgen05_fence_before();
      __syncwarp();
      if (lane == 0) mbarrier_arrive_cluster(mbar_p_full, 0);
    }
    ${epilogue}
  }
//@ section products
} else if (warp == 4 && rank == 0) {
  // ---- products of both blocks: the warp waits, an elected lane issues
  ${wait_for_lengths}
  const u32 q_desc = (smem_q >> 4) | ${q_low}, p_desc = (smem_p >> 4) | ${p_low};
  ${construct}
  u32 s_buffer = 0, q_phase = 0, p_phase = 0;
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
    mbarrier_wait(mbar_q_full, q_phase);
    q_phase ^= 1;
#pragma unroll 1
    for (int n = s.tile_begin; n <= s.tile_end; ++n) {
      if (n < s.tile_end) {
        // S(n) = Q K(n)', chunk by chunk as K comes, while softmax has the tile before. Its place was read before P(n - 2)
        // was there.
        ${products_k}
        s_buffer ^= 1;
        ${step_k}
      }
      if (n > s.tile_begin) {
        // O += P(n - 1) V(n - 1)
        mbarrier_wait(mbar_p_full, p_phase);
        p_phase ^= 1;
        tcgen05_fence_after();
        const bool add = n - 1 > s.tile_begin;
        ${products_v}
        ${step_v}
      }
    }
  }
} else if (warp == 4) {
  // ---- the second block's tells the first that its columns of V have come
  ${wait_for_lengths}
  ${v_state}
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
#pragma unroll 1
    for (int n = s.tile_begin; n < s.tile_end; ++n) {
      ${tell_v}
      ${step_v}
    }
  }
//@ section copies
} else {
  // ---- copies: of a tile K's rows of this block, then of the tile before V's columns. They are read once, so first out of
  // L2
  if (launch_before != 2) wait_for_launch_before();
  // not earlier: what the launch after this one is promised counts from here
  let_next_launch_begin();
  ${producer_states}
  Segment s;
#pragma unroll 1
  while (next_segment(problem, range, s)) {
#pragma unroll 1
    for (int n = s.tile_begin; n <= s.tile_end; ++n) {
      if (n < s.tile_end) {
        ${copy_k}
      }
      if (n > s.tile_begin) {
        ${copy_v}
      }
    }
  }
  // who waits for this launch has waited for the one before it, too
  wait_for_launch_before();
}
//@ section end
// Nobody reads tensor memory any more, or arrives at the other block. (Neither warp nor address is kept in a register until
// here.)
tcgen05_fence_before();
cluster_arrive(); cluster_wait();
if (threadIdx.x / 32 == 4) {
  tcgen05_fence_after();
  tmem_dealloc(*(volatile u32*)(smem_bytes + ${smem_tmem}), ${tmem_columns});
}

//@ section epilogue
// ---- the end of the item, or of this pair's part of it: sums of the rows over all keys
store_shared_float(own_at + 512 * s_buffer, row_sum);  // not the last tile's
mbarrier_wait(mbar_o_full, o_phase);
o_phase ^= 1;
tcgen05_fence_after();
named_barrier_sync(1 + warp % 2, 64);
row_sum += load_shared_float(other_at + 512 * s_buffer);
${finish_row}
//@ if hidden
bool odd = false;  // some column of O is not finite
//@ end
//@ if splits
if (s.whole) {
//@ else
{
//@ end
  const float inverse = finish(row, row_max, row_sum, half == 0);
#pragma unroll 1
  for (int piece = 0; piece < ${pieces}; ++piece) {
    float x[32];
    ${load_output}(x, tmem_lanes + 128 + 32 * piece);
    const int column = first_column(piece, half);
//@ if hidden
#pragma unroll
    for (int i = 0; i < 32; i += 4) odd = odd || !(fmaf(x[i], x[i + 1], x[i + 2] * x[i + 3]) * 0.0f == 0.0f);
//@ end
#pragma unroll
    for (int i = 0; i < 32; i += ${store_width})
      if (row < rows${column_real}) ${store_output_row}
  }
}
//@ if splits
else {
  // this block's part: O not yet divided by the sums, row by row, then (maximum, sum) of each row
  float* const part = ${part}${own_part};
#pragma unroll 1
  for (int piece = 0; piece < ${pieces}; ++piece) {
    float x[32];
    ${load_output}(x, tmem_lanes + 128 + 32 * piece);
    const int column = first_column(piece, half);
#pragma unroll
    for (int i = 0; i < 32; i += 4)
      if (row < rows${column_real})
        *(float4*)(part + row * ${ov_depth} + column + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
  }
  if (half == 0) *(float2*)(part + ${part_rows} + 2 * row) = make_float2(row_max, row_sum);
  named_barrier_sync(3, 128);
  const Split split = split_of(range, s);
  // a counter has 16 bits for each block of the pair
  if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1 << 16 * rank) >> 16 * rank & 0xffff;
  named_barrier_sync(3, 128);
  if (*arrivals_before == split.parts - 1) {
    // the last block of the item adds the parts of its rows up, in order, and leaves the counter as it was found
    if (threadIdx.x == 0) atomicSub(item_counters + s.item, split.parts << 16 * rank);
${sum_of_parts}
  }
}
//@ end
${repair}
