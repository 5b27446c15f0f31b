// The kernel of generator/schedules/sm100_prefill: functions of a tile, then the body: set-up, a section for each role of
// its warps, the end. Holes of a role are what its objects emit (parts.hpp); the sections behind them are texts of one
// object.

//@ section functions
// S = Q K', the instruction descriptor: 128 x ${BN}, K K-major. O += P V: 128 x ${ov_depth}, V MN-major.
constexpr u32 kScoresKind = ${scores_kind}, kOutputKind = ${output_kind};
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kQHigh = ${q_high}, kKHigh = ${k_high}, kVHigh = ${v_high};

${issue_scores}
// O (+)= P V, ${v_steps} steps of ${k_step} keys, as P comes from softmax. `p_full` also tells that O has been rescaled.
__device__ __forceinline__ void issue_output(u32 o, u32 p, u32 v, bool add, u32 p_full, u32 p_rest, u32 phase) {
  mbarrier_wait(p_full, phase);
  tcgen05_fence_after();
  ${first_products}
  ${rest_products}
}

${exponentials}

// ${ov_depth} columns of O of this lane's row times a factor.
__device__ __forceinline__ void rescale_output(u32 o, float alpha) {
  float x[${piece}];
#pragma unroll${columns}
  for (int column = 0; column < ${ov_depth}; column += ${piece}) {
    ${load_output}(x, o + column);
#pragma unroll
    for (int i = 0; i < ${piece}; i += 2) scale_pair(x[i], x[i + 1], alpha);
    ${store_output}(o + column, x);
  }
  tmem_wait_store();
}

// The same to shared memory, in 16 bits, swizzled: 16-byte chunk c of a row of 128 bytes is at chunk c ^ (row % 8).
${stage_note}
__device__ __forceinline__ ${stage_type} stage_output(u32 o, bool any, float inv_sum, u32 row_at, u32 swizzle) {
${stage_state}
#pragma unroll${columns}
  for (int column = 0; column < ${ov_depth}; column += ${piece}) {
    float x[${piece}];
    if (any) {
      ${load_output}(x, o + column);
    } else {
#pragma unroll
      for (int i = 0; i < ${piece}; ++i) x[i] = 0.0f;
    }
#pragma unroll
${stage_look}
    for (int i = 0; i < ${piece}; i += 8) {
      const u32 chunk = (column + i) % 64 / 8;
      store_shared_16(row_at + (column + i) / 64 * ${panel_bytes} + ((chunk << 4) ^ swizzle),
                      make_uint4(${out_pack}(x[i] * inv_sum, x[i + 1] * inv_sum), ${out_pack}(x[i + 2] * inv_sum, x[i + 3] * inv_sum),
                                 ${out_pack}(x[i + 4] * inv_sum, x[i + 5] * inv_sum), ${out_pack}(x[i + 6] * inv_sum, x[i + 7] * inv_sum)));
    }
  }
${stage_answer}
}

//@ section setup
extern __shared__ __align__(1024) unsigned char smem_bytes[];
const u32 smem = smem_address(smem_bytes);
const u32 smem_q = ${smem_q}, smem_k = ${smem_k}, smem_v = ${smem_v}, smem_factors = ${smem_factors};
${barrier_note}
const u32 mbar_q_full = smem + ${mbar}, mbar_s_full = mbar_q_full + 16, mbar_p_full = mbar_q_full + 32;
const u32 mbar_p_rest = mbar_q_full + 48, mbar_factor_full = mbar_q_full + 64, mbar_factor_empty = mbar_q_full + 80;
const u32 mbar_o_full = mbar_q_full + 96, mbar_q_empty = mbar_q_full + 112, mbar_q_none = mbar_q_full + 120;
${ring_addresses}
const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;

if (warp == ${products_warp}) tmem_alloc(smem + ${smem_tmem}, ${tmem_columns});
if (threadIdx.x == 0) {
  prefetch_tensor_map(&q_map);
  prefetch_tensor_map(&k_map);
  prefetch_tensor_map(&v_map);
  prefetch_tensor_map(&o_map);
  ${barrier_init}
  mbarrier_init(mbar_q_empty, 4);
  mbarrier_init(mbar_q_none, 1);
  ${ring_init}
  fence_mbarrier_init();
}
tcgen05_fence_before();
${sync}
tcgen05_fence_after();
// Columns of tensor memory: ${columns_note}. Each role reads where they begin: a register
// for it through all roles is one that ptxas spills.
const u32* const tmem_at = (const u32*)(smem_bytes + ${smem_tmem});

//@ section softmax
if (warp < ${softmax_warps}) {
  // ---- softmax: a row of a tile of queries a thread
  SETMAXNREG_INC(${softmax_registers});
  const u32 tmem = *(volatile const u32*)tmem_at;
  ${addresses}
  ${items}
    ${item}
    float row_max = -kInfinity, row_sum = 0.0f;
#pragma unroll 1
    for (int n = work.num_blocks - 1; n >= ${first_block}; --n) {
      ${place_of_s}
      mbarrier_wait(s_full, s_phase);
      ${step}
      tcgen05_fence_after();
      float s[${BN}];
      ${load_scores}(s, s_at);
      ${scores}
      // The old maximum stays while it grew by no more than 2^${threshold} (per row): P stays in range, and O as it is.
      float alpha = 1.0f;
      if ((tile_max - row_max) * ${scale_log2} > ${threshold}.0f) {
        alpha = rescale_factor(row_max, tile_max, ${scale_log2});
        row_max = tile_max;
      }
      mbarrier_wait(factor_empty, factor_phase);
      factor_phase ^= 1;
      store_shared_float(factor_at, alpha);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(factor_full);
      float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, ${scale_log2});
      if (__any_sync(0xffffffffu, is_steep(shift))) {
        const float steep = is_steep(shift) && row_max != -kInfinity ? row_max : 0.0f;
        if (is_steep(shift)) shift = 0.0f;
        ${subtract}
      }
      ${shift}
      float2 sum_a = make_float2(0.0f, 0.0f), sum_b = make_float2(0.0f, 0.0f);
      ${first_p}
      tmem_wait_store();
      tcgen05_fence_before();
      if (lane == 0) ${arrive_p};
      ${rest_p}
      row_sum = fmaf(row_sum, alpha, (sum_a.x + sum_a.y) + (sum_b.x + sum_b.y));
    }
    ${inverse}
    if (work.num_blocks > 0) {
      mbarrier_wait(factor_empty, factor_phase);
      factor_phase ^= 1;
      store_shared_float(factor_at, inv_sum);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(factor_full);
    }
    ${lse}
  }
//@ section correction
} else if (warp < ${products_warp}) {
  // ---- correction: ${whose_o} follows the rows' maxima; at the end O / row sum leaves
  SETMAXNREG_DEC(${correction_registers});
  const u32 tmem = *(volatile const u32*)tmem_at;
  const int quarter = warp % 4;
  const u32 o_lanes = tmem + ((u32)quarter << 21);
  const u32 factor_at = smem_factors + 4 * (threadIdx.x - ${softmax_threads});
  const u32 stage = smem_q + quarter * ${warp_stage}, row_at = stage + lane * 128, swizzle = (lane & 7) << 4;
  u32 factor_phase = 0, o_phase = 0, none_phase = 0;
  ${turn}
  ${tail_state}
  ${items}
    ${zero_tail}
#pragma unroll 1
    for (int n = work.num_blocks - 1; n >= ${first_block}; --n) {
      ${follow}
      factor_phase ^= 1;
      ${tail_step}
    }
    const bool any = work.num_blocks > 0;  // else rows of zeros
    ${odd}
    if (!any) {
      // The copies know that the last item's O has left. Only then may this one leave: they would miss a phase of two.
      mbarrier_wait(mbar_q_none, none_phase);
      none_phase ^= 1;
    }
#pragma unroll
    for (int tile = 0; tile < ${tiles}; ++tile) {
      float inv_sum = 0.0f;
      if (any) {
        mbarrier_wait(mbar_factor_full + 8 * tile, factor_phase);
        inv_sum = load_shared_float(factor_at + 512 * tile);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(mbar_factor_empty + 8 * tile);
        mbarrier_wait(mbar_o_full + 8 * tile, o_phase);
        tcgen05_fence_after();
      }
      ${taken}stage_output(o_lanes + ${o_of_tile}, any, inv_sum, row_at + ${q_stride} * tile, swizzle);
      fence_proxy_async();
      __syncwarp();
      ${store}
    }
    if (any) factor_phase ^= 1, o_phase ^= 1;
    ${stored}
    if (lane == 0) {
      bulk_commit();
      bulk_wait_read();
      mbarrier_arrive(mbar_q_empty);
    }
    __syncwarp();  // nobody writes the next rows there before
    ${repair}
  }
//@ section products
} else if (warp == ${products_warp}) {
  // ---- products: one thread issues them all
  SETMAXNREG_DEC(${issue_registers});
  const u32 tmem = *(volatile const u32*)tmem_at;
  if (${issuer}) {
    const u32 q_desc = (smem_q >> 4) | ${q_low};
    ${construct}
    u32 q_phase = 0, p_phase = 0;
    ${turn}
    ${items}
      ${tiles_of_item}
    }
  }
  __syncwarp();
//@ section copies
} else {
  SETMAXNREG_DEC(${issue_registers});
  if (${condition}) {
    // ---- copies: ${title}
    ${producer_states}
    u32 q_phase = 1;
    ${items}
      if (work.num_blocks > 0) {
        // the last K and V, while Q's place is still in use; ${whose_q}
        int n = work.num_blocks - 1;
        ${load_k}
        ${load_v}
        ${load_q}
#pragma unroll 1
        for (--n; n >= ${first_block}; --n) {
          ${load_k}
          ${load_v}
        }
      } else ${one}{
        mbarrier_wait(mbar_q_empty, q_phase);  // no keys: O's zeros leave through Q's place, nothing else does
        mbarrier_arrive(mbar_q_none);
      }
      q_phase ^= 1;
    }
  ${finder}
  }
  __syncwarp();
}
//@ section end
// Nobody reads tensor memory any more. (Neither warp nor address is kept in a register until here.)
tcgen05_fence_before();
${sync}
if (threadIdx.x / 32 == ${products_warp}) {
  tcgen05_fence_after();
  tmem_dealloc(*(volatile u32*)(smem_bytes + ${smem_tmem}), ${tmem_columns});
}

//@ section exponentials
// Two scores to P: 2^(s * factor - shift), added to the row's sums, rounded and packed.
__device__ __forceinline__ u32 exponentials(float a, float b, float factor, float shift, float2& sum) {
  fma_pair(a, b, factor, -shift);
  a = exp2_approx(a), b = exp2_approx(b);
  add_pair(sum, a, b);
  return ${pack}(a, b);
}

//@ section exponentials_fma
// The same without the special-function unit.
__device__ __forceinline__ u32 exponentials_fma(float a, float b, float factor, float shift, float2& sum) {
  fma_pair(a, b, factor, -shift);
  exp2_pair_fma(a, b);
  add_pair(sum, a, b);
  return ${pack}(a, b);
}

//@ section exponentials_e4m3
// Four scores to P: 2^(s * factor - shift), added to the row's sums, rounded and packed.
__device__ __forceinline__ u32 exponentials(float a, float b, float c, float d, float factor, float shift, float2& sum_a,
                                            float2& sum_b) {
  fma_pair(a, b, factor, -shift);
  fma_pair(c, d, factor, -shift);
  a = exp2_approx(a), b = exp2_approx(b), c = exp2_approx(c), d = exp2_approx(d);
  add_pair(sum_a, a, b);
  add_pair(sum_b, c, d);
  return ${pack}(a, b, c, d);
}

//@ section exponentials_e4m3_fma
// The same without the special-function unit.
__device__ __forceinline__ u32 exponentials_fma(float a, float b, float c, float d, float factor, float shift, float2& sum_a,
                                                float2& sum_b) {
  fma_pair(a, b, factor, -shift);
  fma_pair(c, d, factor, -shift);
  exp2_pair_fma(a, b);
  exp2_pair_fma(c, d);
  add_pair(sum_a, a, b);
  add_pair(sum_b, c, d);
  return ${pack}(a, b, c, d);
}

//@ section counted_items
for (int tile_number = blockIdx.x; tile_number < num_tiles; tile_number += gridDim.x) {
  const Work work = ${decode};

//@ section paired_items
for (int tile_number = blockIdx.x / 2; tile_number < num_tiles; tile_number += gridDim.x / 2) {
  const Work work = ${decode};

//@ section found_items
u32 work_phase = 0;
for (;;) {
  mbarrier_wait(mbar_work_full, work_phase);
  const int4* const item = work_items + 2 * work_phase;
  ${place}
  work_phase ^= 1;
  ${read}
  const Work work = ${decode};

//@ section read_by_warp
__syncwarp();
if (lane == 0) mbarrier_arrive(mbar_work_empty);
// of a value that shared memory gave, the compiler does not know that it is the warp's
if (__shfl_sync(0xffffffffu, ${number}, 0) < 0) break;

//@ section read_by_thread
mbarrier_arrive(mbar_work_empty);
if (${number} < 0) break;

//@ section items_by_counter
} else if (warp == ${finder_warp} && elect_one()) {
  // ---- work items: one thread takes their numbers from a counter, longest first
  u32 work_phase = 0;
  for (int number = blockIdx.x;;) {
    work_items[2 * work_phase].x = number < num_tiles ? number : -1;
    mbarrier_arrive(mbar_work_full);
    if (number >= num_tiles) break;
    mbarrier_wait(mbar_work_empty, work_phase);
    work_phase ^= 1;
    // The last fetch of the launch leaves the counter as it was found.
    const int fetched = atomicAdd(tile_counter, 1);
    if (fetched == num_tiles - 1) atomicExch(tile_counter, 0);
    number = fetched + gridDim.x;
  }

//@ section cancelled_items
} else if (warp == ${finder_warp} && elect_one()) {
  // ---- work items: one thread takes over those of blocks that have not started, which begin with the longest
  u32 work_phase = 0, ask_phase = 0;
  for (int number = ${item};;) {
    work_items[2 * work_phase].x = number;
    mbarrier_arrive(mbar_work_full);
    if (number < 0) break;
    mbarrier_wait(mbar_work_empty, work_phase);
    work_phase ^= 1;
    // A launch may have fewer blocks than items: then the block whose item this was had the one behind them, too.
    const u32 behind = (u32)number + ${items};
    if (behind < (u32)num_tiles) {
      number = (int)behind;
    } else {
      ${ask}
    }
  }

//@ section ask_by_block
mbarrier_arrive_expect_tx(mbar_answer, 16);
cancel_block(answer, mbar_answer);
mbarrier_wait(mbar_answer, ask_phase);
ask_phase ^= 1;
number = cancelled_block(answer);

//@ section ask_by_pair
// the first block asks for both, when both expect the answer and have read the last
mbarrier_arrive_expect_tx(mbar_answer, 16);
mbarrier_arrive_cluster(mbar_ask, 0);
if (cluster_rank() == 0) {
  mbarrier_wait(mbar_ask, ask_phase);
  cancel_block(answer, mbar_answer);
}
mbarrier_wait(mbar_answer, ask_phase);
ask_phase ^= 1;
number = cancelled_block(answer) >> 1;

//@ section ragged_items
} else if (warp == ${finder_warp}) {
  // ---- work items: one warp finds them for the block
  u32 work_phase = 0;
  const RaggedBatch lengths{cu_seqlens_q, ${key_lengths}, batch, ${key_capacity}};
  RaggedItems items = first_items(lengths, lane, heads_q, ${BM}, ${BN});
  for (int number = blockIdx.x;;) {
    write_item(work_items + 2 * work_phase, items, lengths, number, lane, heads_q, heads_kv, ${BM}, ${BN}, ${section_tiles});
    if (lane == 0) mbarrier_arrive(mbar_work_full);
    if (number >= items.total) break;
    mbarrier_wait(mbar_work_empty, work_phase);
    work_phase ^= 1;
    // The last fetch of the launch leaves the counter as it was found.
    int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;
    fetched = __shfl_sync(0xffffffffu, fetched, 0);
    if (lane == 0 && fetched == items.total - 1) atomicExch(tile_counter, 0);
    number = fetched + gridDim.x;
  }

//@ section sink_inverse
// the sink is one more logit of the denominator, which may be far above the scores: relative to the larger
const float own = ${own_max}, sink_logit = sink[work.head], top = fmaxf(own, sink_logit);
const float lower = own == top ? 1.0f : exp2_approx((own - top) * 1.44269504f);
if (row_sum != 0.0f) row_sum = row_sum * lower + (sink_logit == top ? 1.0f : exp2_approx((sink_logit - top) * 1.44269504f));
const float inv_sum = row_sum == 0.0f ? 0.0f : lower * rcp_approx(row_sum)${value_scale};

//@ section lse
if (row < work.seqlen_q) {
  lse[${lse_row}] =
      row_sum == 0.0f ? -kInfinity : ${natural_max} + log2_approx(row_sum) * 0.693147181f;
}

//@ section zero_tail
// rows of V past this sequence belong to others: zero them before the first P is handed over, since 0 * NaN is NaN
const int v_rows = work.seqlen_k - (work.num_blocks - 1) * ${BN};
if (work.num_blocks > 0 && v_rows < ${BN}) {
  ${wait_v}
  for (int i = v_rows * ${chunks} + threadIdx.x - ${softmax_threads}; i < ${BN} * ${chunks}; i += 128) {
    ${zero_v}
  }
  fence_proxy_async();
}

//@ section ragged_store
// the rows after a sequence belong to the next one: the warp that holds its end stores row by row
const int first_row = work.m_start + 128 * tile + 32 * quarter, rows = work.seqlen_q - first_row;
if (rows < 32) {
  ${store_rows}
} else if (lane == 0) {
  ${store_boxes}
}
