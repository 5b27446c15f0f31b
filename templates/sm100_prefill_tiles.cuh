// What sm100_prefill kernels of two tiles of queries, and of one, have in unlike words (generator/schedules/sm100_prefill/
// tiles.cpp). Holes of sm100_prefill.cuh take these sections.

//@ section two_barriers
// Of each tile of queries, tile 1's 8 bytes behind: Q is there; S is there; P is there and O rescaled, the rest of P; the
// rows' factors are there, and were read; every P V has ended. And of both: the place of Q, where O leaves, is free; it
// stays without a Q, for an item that has no keys.

//@ section one_barriers
// Q is there. Of each place of S, place 1's 8 bytes behind: S is there; P is there and O rescaled, the rest of P. The rows'
// factors are there, and were read; a P V has ended; the place of Q, where O leaves, is free; it stays without a Q, for an
// item that has no keys.

//@ section two_init
#pragma unroll
for (int i = 0; i < 16; i += 8) {
  mbarrier_init(mbar_q_full + i, 1);
  mbarrier_init(mbar_s_full + i, 1);
  mbarrier_init(mbar_p_full + i, ${p_arrivals});  // a lane of each warp of softmax and of correction
  ${rest_init}
  mbarrier_init(mbar_factor_full + i, 4);
  mbarrier_init(mbar_factor_empty + i, 4);
  mbarrier_init(mbar_o_full + i, 1);
}

//@ section one_init
mbarrier_init(mbar_q_full, 1);
#pragma unroll
for (int i = 0; i < 16; i += 8) {
  mbarrier_init(mbar_s_full + i, 1);
  mbarrier_init(mbar_p_full + i, ${p_arrivals});  // a lane of each warp of softmax and of correction
  ${rest_init}
}
mbarrier_init(mbar_factor_full, 4);
mbarrier_init(mbar_factor_empty, 4);
mbarrier_init(mbar_o_full, 1);

//@ section two_addresses
const int tile = warp / 4;
const u32 s_at = tmem + tile * ${BN} + ((u32)(warp % 4) << 21);  // this warp's 32 lanes of S, which P takes the place of
const u32 factor_at = smem_factors + 4 * threadIdx.x;  // what the row of O is multiplied by
const u32 s_full = mbar_s_full + 8 * tile, p_full = mbar_p_full + 8 * tile;
const u32 factor_full = mbar_factor_full + 8 * tile, factor_empty = mbar_factor_empty + 8 * tile;
${rest_address}
u32 s_phase = 0, factor_phase = 1;

//@ section one_addresses
const u32 s_lanes = tmem + ((u32)warp << 21);  // this warp's 32 lanes of S, which P takes the place of
const u32 factor_at = smem_factors + 4 * threadIdx.x;  // what the row of O is multiplied by
const u32 factor_full = mbar_factor_full, factor_empty = mbar_factor_empty;
u32 turn = 0, s_phase = 0, factor_phase = 1;  // tiles of keys take the two places of S in turns

//@ section one_place_of_s
const u32 s_at = s_lanes + turn * ${BN}, s_full = mbar_s_full + 8 * turn, p_full = mbar_p_full + 8 * turn;
${rest_address}

//@ section two_follow
#pragma unroll
for (int tile = 0; tile < 2; ++tile) {
  mbarrier_wait(mbar_factor_full + 8 * tile, factor_phase);
  const float alpha = load_shared_float(factor_at + 512 * tile);
  __syncwarp();
  if (lane == 0) mbarrier_arrive(mbar_factor_empty + 8 * tile);
  if (n != work.num_blocks - 1) {
    // P V of the tile before has ended: softmax had S of this one, whose commit was behind it.
    tcgen05_fence_after();
    if (__any_sync(0xffffffffu, alpha != 1.0f)) rescale_output(o_lanes + (tile == 0 ? ${o0} : ${o1}), alpha);
    tcgen05_fence_before();
  }
  if (lane == 0) mbarrier_arrive(mbar_p_full + 8 * tile);
}

//@ section one_follow
mbarrier_wait(mbar_factor_full, factor_phase);
const float alpha = load_shared_float(factor_at);
__syncwarp();
if (lane == 0) mbarrier_arrive(mbar_factor_empty);
if (n != work.num_blocks - 1) {
  // S of this tile was issued before P V of the tile before: that has a barrier of its own
  mbarrier_wait(mbar_o_full, o_phase);
  o_phase ^= 1;
  tcgen05_fence_after();
  if (__any_sync(0xffffffffu, alpha != 1.0f)) rescale_output(o_lanes + ${o0}, alpha);
  tcgen05_fence_before();
}
if (lane == 0) ${arrive_p_of_correction};
turn ^= 1;

//@ section two_products
if (work.num_blocks > 0) {
  // the first tile: S0, S1, O0
  mbarrier_wait(mbar_q_full, q_phase);
  ${scores_0}
  tcgen05_commit(mbar_s_full);
  mbarrier_wait(mbar_q_full + 8, q_phase);
  q_phase ^= 1;
  ${scores_1}
  ${wait_v}
  issue_output(tmem + ${o0}, tmem, ${v_desc}, false, mbar_p_full, mbar_p_rest, p_phase);
  bool add = false;
#pragma unroll 1
  for (int n = work.num_blocks - 2; n >= ${first_block}; --n) {
    // S0 = Q0 K(n)'
    ${scores_0}
    tcgen05_commit(mbar_s_full);
    // O1 += P1 V(n+1)
    issue_output(tmem + ${o1}, tmem + ${s1}, ${v_desc}, add, mbar_p_full + 8, mbar_p_rest + 8, p_phase);
    ${release_v}
    add = true;
    p_phase ^= 1;
    // S1 = Q1 K(n)'
    ${scores_1}
    // O0 += P0 V(n)
    ${wait_v}
    issue_output(tmem + ${o0}, tmem, ${v_desc}, true, mbar_p_full, mbar_p_rest, p_phase);
  }
  tcgen05_commit(mbar_o_full);
  // O1 += P1 V of the last tile
  issue_output(tmem + ${o1}, tmem + ${s1}, ${v_desc}, add, mbar_p_full + 8, mbar_p_rest + 8, p_phase);
  tcgen05_commit(mbar_o_full + 8);
  ${release_v}
  p_phase ^= 1;
}

//@ section one_products
if (work.num_blocks > 0) {
  // S of the first tile
  mbarrier_wait(mbar_q_full, q_phase);
  q_phase ^= 1;
  ${scores}
  bool add = false;
#pragma unroll 1
  for (int n = work.num_blocks - 2; n >= ${first_block}; --n) {
    // S = Q K(n)' to the other place, while softmax has that of n+1
    ${next_scores}
    // O += P V(n+1)
    ${wait_v}
    issue_output(tmem + ${o0}, tmem + turn * ${BN}, ${v_desc}, add, mbar_p_full + 8 * turn, mbar_p_rest + 8 * turn, p_phase);
    tcgen05_commit(mbar_o_full);
    ${release_v}
    add = true;
    p_phase ^= turn;
    turn ^= 1;
  }
  // O += P V of the last tile
  ${wait_v}
  issue_output(tmem + ${o0}, tmem + turn * ${BN}, ${v_desc}, add, mbar_p_full + 8 * turn, mbar_p_rest + 8 * turn, p_phase);
  tcgen05_commit(mbar_o_full);
  ${release_v}
  p_phase ^= turn;
  turn ^= 1;
}
