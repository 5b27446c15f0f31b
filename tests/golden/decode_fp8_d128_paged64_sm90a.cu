// decode_fp8_d128_paged64_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"decode_fp8_d128_paged64_sm90a","target":"sm_90a","operation":"decode","dtype":"bf16","kv_dtype":"fp8_e4m3","out_dtype":"bf16","depth":128,"ov_depth":128,"rope_depth":0,"nope_depth":128,"q_depth":128,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"paged","page_size":64,"quantization":{"granularity":"per_head","scale_dtype":"f32"}},"mask":"causal","score_mod":"none","sink":false,"lse":true,"scale":0.08838834764831843,"mma_shape":[64,8,16],"BM":8,"BN":128,"BK":128,"num_threads":192,"swizzle":"128B","num_kv_stages":2,"num_qk_stages":1,"shared_ring":false,"tma_fold":"none","schedule":"sm90_decode"}
// Schedule sm90_decode: 8 packed query rows by 128 keys a tile, 2 KV stages, 2 blocks a multiprocessor.
// Shared memory (71928 bytes):
//         0 ..   32768  k          K stages
//     32768 ..   65536  v          V stages
//     65536 ..   67584  q          Q: the packed query rows
//     67584 ..   69632  p          P, rows = query rows
//     69632 ..   71680  o          O on its way out
//     71680 ..   71808  max        maximum of each row, of each warp
//     71808 ..   71904  mbar       K, V and cell rings
//     71904 ..   71912  cells      cells handed to the consumers
//     71912 ..   71928  flag       this block's share of an item's parts
//
// Regenerate: kiln generate decode_fp8_d128_paged64_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin decode_fp8_d128_paged64_sm90a.cu

#define kInfinity __int_as_float(0x7f800000)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

// Threads and warps, as text for NVIDIA and AMD names them. All 32 lanes of a warp take part.
__device__ __forceinline__ u32 thread_id() { return threadIdx.x; }
__device__ __forceinline__ u32 block_id() { return blockIdx.x; }
__device__ __forceinline__ u32 grid_blocks() { return gridDim.x; }
__device__ __forceinline__ int broadcast(int x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ int shuffle_xor(int x, int step) { return __shfl_xor_sync(0xffffffffu, x, step); }
__device__ __forceinline__ int shuffle_up(int x, int step) { return __shfl_up_sync(0xffffffffu, x, step); }
__device__ __forceinline__ u32 warp_ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
__device__ __forceinline__ int first_set(u32 bits) { return __ffs(bits) - 1; }
#define UNROLL_4 _Pragma("unroll 4")

// Floats across a warp, as text for NVIDIA and AMD names them.
__device__ __forceinline__ float lane_float(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ bool any_lane(bool x) { return __any_sync(0xffffffffu, x); }
// A value that is the same in every lane, known to be.
__device__ __forceinline__ int same(int x) { return __shfl_sync(0xffffffffu, x, 0); }
__device__ __forceinline__ bool writes_rows() { return true; }
__device__ __forceinline__ float sum_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ __forceinline__ int largest_of_lanes(int x) {
  for (int step = 16; step > 0; step /= 2) x = max(x, shuffle_xor(x, step));
  return x;
}

// The two elements of a register, and whether those of `count` registers are all finite.
__device__ __forceinline__ float low_half(u32 two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high_half(u32 two) { return __uint_as_float(two & 0xffff0000u); }
__device__ __forceinline__ bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

__device__ __forceinline__ bool finite_floats(const float* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= at[i] * 0.0f == 0.0f;
  return finite;
}

// Two neighbouring E4M3, and whether those of `count` registers are all finite. Sign, exponent and fraction go where a
// float has them; 2^120 lies between the two biases.
__device__ __forceinline__ float low_byte(u32 two) {
  const float number = __uint_as_float((two & 0x80u) << 24 | (two & 0x7fu) << 20) * 1.329227995784916e36f;
  return (two & 0x7fu) == 0x7fu ? __uint_as_float(0x7fc00000u) : number;
}
__device__ __forceinline__ float high_byte(u32 two) { return low_byte(two >> 8); }
__device__ __forceinline__ bool finite_bytes(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (((at[i] & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) == 0u;
  return finite;
}

__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// P is 2^(s * factor - base), and a row's base its maximum times `factor`, rounded. From a base of this size on the
// rounding would show: there the maximum is subtracted before the product, and the base is 0.
constexpr float kSteep = 65536.0f;
__device__ __forceinline__ bool is_steep(float base) { return fabsf(base) >= kSteep; }
// The product as everything relative to a row's base has it: rounded by itself, no part of a fused multiply-add.
__device__ __forceinline__ float row_base(float maximum, float factor) { return __fmul_rn(maximum, factor); }
// What a row's sums are multiplied by when its maximum goes from `from` to `to`; 0 while no key was visible. It takes
// the maxima, not their rounded bases: the difference is below the rounding of the scores, and cancels over a row.
__device__ __forceinline__ float rescale_factor(float from, float to, float factor) {
  return exp2_approx((from - fmaxf(to, -3.402823466e38f)) * factor);
}

__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// Two floats to one register of two FP16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_fp16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

typedef unsigned char u8;
// The work items of a ragged batch, found on the device: no item stands for rows that no sequence has.

struct __align__(64) TensorMap { unsigned char bytes[128]; };

__device__ __forceinline__ void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives once and tells the barrier how many bytes this phase will receive.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// Returns once the phase of this parity has completed; a fresh barrier has completed parity 1.
__device__ __forceinline__ void mbarrier_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "  @done bra DONE;\n"
      "  bra WAIT;\n"
      "DONE: }" ::"r"(bar),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// The next launch on the stream may begin its set-up (once every block got here), and this one goes on when the launch before
// has ended and what it wrote is visible.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// One box of a 4-D tensor to L2.
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

// One box of a 4-D tensor into shared memory; its bytes complete on `bar`. `policy` is an L2 cache-policy word.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

// Makes this thread's ordinary shared-memory writes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// Eight BF16 to FP16: exact from 2^-14 to 65504; smaller ones lose bits, larger ones become infinite.
__device__ __forceinline__ u32 bf16x2_to_fp16(u32 x) { return pack_fp16(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)); }
__device__ __forceinline__ uint4 bf16_to_fp16(uint4 x) {
  return make_uint4(bf16x2_to_fp16(x.x), bf16x2_to_fp16(x.y), bf16x2_to_fp16(x.z), bf16x2_to_fp16(x.w));
}

// Two of them: lanes 0 to 15 give the addresses.
__device__ __forceinline__ void stmatrix_x2_trans(u32 address, u32 r0, u32 r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1) : "memory");
}

// Adds, after everything this thread has seen is visible to the device; what the other adders did before is visible after.
__device__ __forceinline__ int atomic_add_acq_rel(int* at, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

// What is at an address that others add to; what they did before (atomic_add_acq_rel) is visible after.
__device__ __forceinline__ int load_acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// Which part of an item's sum is this block's, whose own part is there (one thread of it). The blocks that have nothing
// else to do (`waits`) wait for the others for a bounded number of looks, so that no block depends on another's being
// resident, and share the sum. Where fewer than two wait, or one gave up, the last to arrive has all of it.
// The counter has fields of ten bits: blocks that arrived; those of them that wait; waiting ones that have seen all. Above
// them: a waiting one gave up. The last to know leaves it as it was found.
constexpr int kWaiting = 1 << 10, kKnowing = 1 << 20, kGaveUp = 1 << 30, kBlocks = (1 << 10) - 1;
// `own`: the number of this block's share, or -1; shares; blocks that wait if this is one of them, else 0.
__device__ __forceinline__ void share_parts(int* counter, int parts, bool waits, int* own) {
  const int mine = waits ? kWaiting + 1 : 1, before = atomic_add_acq_rel(counter, mine);
  int seen = before + mine;
#pragma unroll 1
  for (int look = 0; waits && (seen & kBlocks) < parts && look < 96; ++look) {
    __nanosleep(64);
    seen = load_acquire(counter);
  }
#pragma unroll 1
  while (waits && (seen & kBlocks) < parts) {
    waits = atomicCAS(counter, seen, seen - kWaiting | kGaveUp) != seen;
    seen = load_acquire(counter);
  }
  const bool last = (before & kBlocks) == parts - 1;
  const int waiting = seen >> 10 & kBlocks;
  const bool together = waiting > 1 && (seen & kGaveUp) == 0;
  own[0] = together && waits ? before >> 10 & kBlocks : !together && last ? 0 : -1;
  own[1] = together ? waiting : 1;
  own[2] = waits ? waiting : 0;
  if (last && waiting == 0) atomicExch(counter, 0);
}
// Of a waiting block that added kKnowing to `before`: the last of `waiting` ones.
__device__ __forceinline__ bool knows_last(int before, int waiting) { return (before >> 20 & kBlocks) == waiting - 1; }

__device__ __forceinline__ uint4 load_shared_16(u32 at) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ float load_shared_float(u32 at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ u32 load_shared(u32 at) {
  u32 x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(u32 at, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ void store_shared(u32 at, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }

// Four 8x8 matrices of 16-bit elements, transposed; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

// The two lower bytes of a word, E4M3 numbers, as two FP16: exact.
__device__ __forceinline__ u32 narrow_to_fp16(u32 word) {
  u32 pair;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(pair) : "r"(word));
  return pair;
}

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Shared to global memory.
__device__ __forceinline__ void copy_16_bytes(u16* dst, u32 src) {
  asm volatile(
      "{ .reg .b32 a, b, c, d; ld.shared.v4.u32 {a, b, c, d}, [%1]; st.global.v4.u32 [%0], {a, b, c, d}; }" ::"l"(dst), "r"(src)
      : "memory");
}

// d += A (64 x 16, registers) * B (16 x 8, K contiguous) in f16.
__device__ __forceinline__ void wgmma_m64n8k16_rs(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
      "%0, %1, %2, %3"
      "}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// d = A (64 x 16, registers) * B (16 x 8, K contiguous) in f16.
__device__ __forceinline__ void wgmma_m64n8k16_rs_first(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
      "%0, %1, %2, %3"
      "}, {%4, %5, %6, %7}, %8, 0, 1, 1, 0;\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// What the plan of the launch follows from.
struct Problem {
  const int* cu_seqlens_q;
  const int* seqlens_k;
  int batch;
  int heads_q;
  int heads_kv;
  int seqlen_q;
  int key_capacity;
  int team_heads;
  int launch_before;
};

// One sequence: its rows, and the KV tiles that some query sees (at least one, so that every row gets written).
struct Sequence {
  int q_start, seqlen_q, k_start, seqlen_k;
  int first_tile, num_tiles;
};

// A run of KV tiles of one item (head slot and packed rows of one sequence) for this block.
struct Segment {
  Sequence sequence;
  int batch, kv_head, m_block;
  int tile_begin, tile_end;    // of the sequence's keys
  bool whole;                  // the item is this segment alone
  int item;                    // number of the item among all
  unsigned item_start;         // position of the item's first tile
  bool second_slot;            // where this part goes in the block's workspace
};

// How an item is split.
struct Split {
  int parts, first_cell;  // how many, and the cell of part 0
  bool first_second;      // part 0 is in the second slot of its block; later ones are in the first
};

// Position of a team in the tiles of all sequences, end to end.
struct Range {
  unsigned position, end, total;  // in KV tiles of all head slots; 2^32 / teams of them are more than memory holds
  unsigned fixed, chunk, cells;   // positions cut evenly for the teams; length of the cells after; how many in all
  unsigned teams, cell;           // the range at hand
  int slots;                      // head slots of a team
  int m_blocks;                   // packed query tiles of a head
  int batch;                      // sequence at `position`
  unsigned batch_start;           // position of its first tile
  bool first;                     // no segment taken yet
};

__device__ __forceinline__ Sequence sequence_of(const Problem& problem, int b) {
  Sequence s;
  s.q_start = problem.cu_seqlens_q[b];
  s.seqlen_q = problem.cu_seqlens_q[b + 1] - s.q_start;
  // a length that the operand cannot hold is one it can
  s.k_start = 0; s.seqlen_k = min(max(problem.seqlens_k[b], 0), problem.key_capacity);
  s.first_tile = 0;
  s.num_tiles = max((s.seqlen_k + 127) / 128 - s.first_tile, 1);
  return s;
}

__device__ __forceinline__ int packed_blocks(const Problem& problem) {
  return (problem.heads_q / problem.heads_kv * problem.seqlen_q + 7) / 8;
}

// Cells: one a team, then shorter ones for whoever is done first. Those of teams start at floor(cell * fixed / teams).
__device__ __forceinline__ int cell_of(const Range& range, unsigned position) {
  if (position >= range.fixed) return range.teams + (int)((position - range.fixed) / range.chunk);
  return (int)(((position + 1) * range.teams - 1) / range.fixed);
}
__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell) {
  return cell >= range.teams ? range.fixed + (cell - range.teams) * range.chunk : cell * range.fixed / range.teams;
}

// Finds the sequence that holds the position, from the one at hand on: 32 lengths at a time.
__device__ __forceinline__ void seek(const Problem& problem, Range& range) {
  const int lane = thread_id() % 32;
  unsigned start = range.batch_start;
#pragma unroll 1
  for (int base = range.batch;; base += 32) {
    const int mine = base + lane < problem.batch ? sequence_of(problem, base + lane).num_tiles : 0;
    int sum = mine;
    for (int step = 1; step < 32; step *= 2) {
      const int below = shuffle_up(sum, step);
      if (lane >= step) sum += below;
    }
    const unsigned past = warp_ballot(range.position < start + sum * range.slots);
    if (past != 0) {
      const int found = first_set(past);
      range.batch = base + found;
      range.batch_start = start + broadcast(sum - mine, found) * range.slots;
      return;
    }
    start += broadcast(sum, 31) * range.slots;
  }
}

__device__ __forceinline__ Range first_range(const Problem& problem) {
  Range range;
  range.m_blocks = packed_blocks(problem);
  range.slots = problem.heads_kv * range.m_blocks / problem.team_heads;
  range.teams = grid_blocks() / problem.team_heads;
  range.cell = block_id() / problem.team_heads;
  range.first = true;
  range.batch = 0; range.batch_start = 0;
  // 0: the launch before may yet write the lengths; 1: not them; 2: nothing that this one touches
  if (problem.launch_before == 0) wait_for_launch_before();
  const int lane = thread_id() % 32;
  int tiles = 0;
  UNROLL_4
  for (int b = lane; b < problem.batch; b += 32) tiles += sequence_of(problem, b).num_tiles;
  for (int step = 16; step > 0; step /= 2) tiles += shuffle_xor(tiles, step);
  range.total = (unsigned)(tiles * range.slots);
  range.teams = min(range.teams, range.total);
  // Long ranges leave an eighth for the end, in two chunks a team: blocks do not get equal shares of the memory.
  const unsigned each = range.total / range.teams;
  range.fixed = each < 128 ? range.total : range.total - each / 8 * range.teams;
  range.chunk = max(each / 16, 1u);
  range.cells = range.teams + (range.total - range.fixed + range.chunk - 1) / range.chunk;
  if (range.cell >= range.teams) { range.position = range.end = 0; return range; }
  range.position = start_of(range, range.cell);
  range.end = start_of(range, range.cell + 1);
  seek(problem, range);
  return range;
}

__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s) {
  if (range.position >= range.end) return false;
  s.sequence = sequence_of(problem, range.batch);
  const int tiles = s.sequence.num_tiles;
  const int in_batch = (int)(range.position - range.batch_start);
  const int slot = in_batch / tiles;
  const int head = slot * problem.team_heads + (int)block_id() % problem.team_heads;
  s.batch = range.batch;
  s.kv_head = head / range.m_blocks;  // packed tiles of one head side by side: they read the same keys
  s.m_block = head % range.m_blocks;
  s.item = range.batch * problem.team_heads * range.slots + head;
  const unsigned item_start = range.batch_start + slot * tiles;
  const int begin = in_batch - slot * tiles;
  const int end = min(tiles, (int)(range.end - item_start));
  s.tile_begin = s.sequence.first_tile + begin;
  s.tile_end = s.sequence.first_tile + end;
  s.whole = begin == 0 && end == tiles;
  s.item_start = item_start;
  s.second_slot = !range.first;
  range.position += end - begin;
  range.first = false;
  if (range.position >= range.batch_start + (unsigned)(tiles * range.slots)) {
    range.batch_start += (unsigned)(tiles * range.slots);
    range.batch += 1;
  }
  return true;
}

__device__ __forceinline__ Split split_of(const Range& range, const Segment& s) {
  Split split;
  split.first_cell = cell_of(range, s.item_start);
  split.parts = cell_of(range, s.item_start + s.sequence.num_tiles - 1) - split.first_cell + 1;
  split.first_second = start_of(range, split.first_cell) < s.item_start;
  return split;
}

// Page of a row, -1 where the table names none of the pool: such rows read as zeros.
__device__ __forceinline__ int page_of(const int* page_table, int page_table_stride, int num_pages, int batch, int row) {
  const int page = page_table[(long long)batch * page_table_stride + row / 64];
  return (unsigned)page < (unsigned)num_pages ? page : -1;
}

extern "C" __global__ void __launch_bounds__(192, 2)
kiln_decode_fp8_d128_paged64_sm90a(const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const u16* q,
    u16* o,
    float* lse,
    const float* k_scale,
    const float* v_scale,
    float* workspace,
    int* item_counters,
    const int* page_table,
    const int page_table_stride,
    const int num_pages,
    const int* cu_seqlens_q,
    const int* seqlens_k,
    const int batch,
    const int heads_q,
    const int heads_kv,
    const int seqlen_q,
    const int key_capacity,
    const int team_heads,
    const int launch_before,
    const int total_q,
    const long long q_stride_seq,
    const long long q_stride_head,
    const long long o_stride_seq,
    const long long o_stride_head,
    const u8* k,
    const u8* v,
    const long long k_stride_page,
    const long long k_stride_seq,
    const long long k_stride_head,
    const long long v_stride_page,
    const long long v_stride_seq,
    const long long v_stride_head,
    const float scale_log2) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("trap;");  // built for plain sm_90, which has no wgmma
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_k = smem, smem_v = smem + 32768, smem_q = smem + 65536, smem_o = smem + 69632;
  const u32 smem_p = smem + 67584;
  const u32 mbar_k_full = smem + 71808, mbar_k_empty = smem + 71824;
  const u32 mbar_v_full = smem + 71840, mbar_v_empty = smem + 71856;
  const u32 mbar_cell_full = smem + 71872;
  int* const cell_slots = (int*)(smem_bytes + 71904);
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads, launch_before};
  const int lane = threadIdx.x % 32;

  if (threadIdx.x == 128) {
    prefetch_tensor_map(&k_map); prefetch_tensor_map(&v_map);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_empty, 4);
    mbarrier_init(mbar_k_empty + 8, 4);
    mbarrier_init(mbar_v_full, 1);
    mbarrier_init(mbar_v_full + 8, 1);
    mbarrier_init(mbar_v_empty, 4);
    mbarrier_init(mbar_v_empty + 8, 4);
    mbarrier_init(mbar_cell_full, 1);
    mbarrier_init(mbar_cell_full + 8, 1);
    fence_mbarrier_init();
    *(int*)(smem_bytes + 71924) = 0;
  }
  Range range = first_range(problem);
  __syncthreads();

  if (threadIdx.x >= 160) {

    // ---- producer warp of V: tiles are read once, so first out of L2
    u32 v_stage = 0;
    u32 v_phase = 1;
    u32 cell_stage = 0;
    u32 cell_phase = 0;
    if (launch_before != 2) {
      if (launch_before == 1) {
        Range ahead = range;
        Segment s;
        if (next_segment(problem, ahead, s)) {
          int pages;  // of the first 16 tiles, one a lane
          const int key = s.tile_begin * 128 + lane * 64;
          pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
          const int page = __shfl_sync(0xffffffffu, pages, lane);
          if (lane < 2) {
            tma_prefetch(&v_map, 0, 0, s.kv_head, page);
          }
        }
      }
      wait_for_launch_before();
    }
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    Segment s;
    #pragma unroll 1
    for (bool more = range.position < range.end; more;) {
      #pragma unroll 1
      while (next_segment(problem, range, s)) {
        int pages, next_pages;  // of 16 tiles, one a lane, and of as many after them
        {
          const int key = s.tile_begin * 128 + lane * 64;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
        }
        #pragma unroll 1
        for (int n = s.tile_begin; n < s.tile_end; ++n) {
          const int turn = (n - s.tile_begin) % 16;
          if (turn == 0) {
            pages = next_pages;
            const int key = (n + 16) * 128 + lane * 64;
            next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
          }
          const int page = __shfl_sync(0xffffffffu, pages, turn * 2 + lane);
          // V(n) into the next slot
          mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) mbarrier_arrive_expect_tx(mbar_v_full + v_stage * 8, 16384);
          if (lane < 2) {
            tma_load(smem_v + v_stage * 16384 + 0 + lane * 8192, &v_map, mbar_v_full + v_stage * 8, 0, 0, s.kv_head, page,
                0x12F0000000000000ull);
          }
          v_phase ^= v_stage; v_stage ^= 1;
        }
      }
      more = range.cells > range.teams;
      if (more) {
        mbarrier_wait(mbar_cell_full + cell_stage * 8, cell_phase);
        const int cell = broadcast(lane == 0 ? cell_slots[cell_stage] : 0, 0);
        cell_phase ^= cell_stage; cell_stage ^= 1;
        more = cell < range.cells;
        if (more) {
          range.cell = cell;
          range.position = start_of(range, cell);
          range.end = min(range.position + range.chunk, range.total);
          range.first = true;
          seek(problem, range);
        }
      }
    }
    // who waits for this launch has waited for the one before it, too
    wait_for_launch_before();
  } else if (threadIdx.x >= 128) {

    // ---- producer warp of K: tiles are read once, so first out of L2
    u32 k_stage = 0;
    u32 k_phase = 1;
    u32 cell_stage = 0;
    u32 cell_phase = 1;
    if (launch_before != 2) {
      if (launch_before == 1) {
        Range ahead = range;
        Segment s;
        if (next_segment(problem, ahead, s)) {
          int pages;  // of the first 16 tiles, one a lane
          const int key = s.tile_begin * 128 + lane * 64;
          pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
          const int page = __shfl_sync(0xffffffffu, pages, lane);
          if (lane < 2) {
            tma_prefetch(&k_map, 0, 0, s.kv_head, page);
          }
        }
      }
      wait_for_launch_before();
    }
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    Segment s;
    #pragma unroll 1
    for (bool more = range.position < range.end; more;) {
      #pragma unroll 1
      while (next_segment(problem, range, s)) {
        int pages, next_pages;  // of 16 tiles, one a lane, and of as many after them
        {
          const int key = s.tile_begin * 128 + lane * 64;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
        }
        #pragma unroll 1
        for (int n = s.tile_begin; n < s.tile_end; ++n) {
          const int turn = (n - s.tile_begin) % 16;
          if (turn == 0) {
            pages = next_pages;
            const int key = (n + 16) * 128 + lane * 64;
            next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
          }
          const int page = __shfl_sync(0xffffffffu, pages, turn * 2 + lane);
          // K(n) into the next slot
          mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 16384);
          if (lane < 2) {
            tma_load(smem_k + k_stage * 16384 + 0 + lane * 8192, &k_map, mbar_k_full + k_stage * 8, 0, 0, s.kv_head, page,
                0x12F0000000000000ull);
          }
          k_phase ^= k_stage; k_stage ^= 1;
        }
      }
      more = range.cells > range.teams;
      if (more) {
        // the next cell; the last fetch of the launch leaves the counter as it was found
        int cell = 0;
        if (lane == 0) {
          int* const next = item_counters + problem.batch * problem.team_heads * range.slots + block_id() % problem.team_heads;
          cell = range.teams + atomicAdd(next, 1);
          if (cell == range.cells + range.teams - 1) atomicExch(next, 0);
        }
        cell = broadcast(cell, 0);
        if (lane == 0) {
          cell_slots[cell_stage] = cell;
          mbarrier_arrive(mbar_cell_full + cell_stage * 8);
        }
        cell_phase ^= cell_stage; cell_stage ^= 1;
        more = cell < range.cells;
        if (more) {
          range.cell = cell;
          range.position = start_of(range, cell);
          range.end = min(range.position + range.chunk, range.total);
          range.first = true;
          seek(problem, range);
        }
      }
    }
  } else {

    // ---- consumer warpgroup
    if (launch_before != 2) wait_for_launch_before();
    const int warp = threadIdx.x / 32;
    const int group = heads_q / heads_kv;  // query heads of a KV head
    float factor = scale_log2;  // from scores to log2 units
    const u32 q_desc = (smem_q >> 4) | 0x10000u;
    const u32 p_desc = (smem_p >> 4) | 0x10000u;
    // stmatrix addresses, transposed: row lane % 8, 16-byte chunk 2 * warp + (lane / 8) % 2, swizzled
    const u32 transposed_at = (lane & 7) * 128 + (((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);
    float* const row_exchange = (float*)(smem_bytes + 71680);
    int* const own_share = (int*)(smem_bytes + 71912);
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;
    u32 v_phase = 0;
    float s_acc_0[4];  // S': keys 0 to 63
    float s_acc_1[4];  // S': keys 64 to 127
    float o_acc_0[4];  // O': columns 0 to 63 of V
    float o_acc_1[4];  // O': columns 64 to 127 of V
    float row_max[2], row_sum[2];
    bool steep;  // some row of the warp has scores that are too large for a rounded base
    u32 cell_stage = 0;
    u32 cell_phase = 0;
    Segment s;
    #pragma unroll 1
    for (bool more = range.position < range.end; more;) {
      #pragma unroll 1
      while (next_segment(problem, range, s)) {
        const int rows = min(8, group * s.sequence.seqlen_q - s.m_block * 8);  // packed rows that exist
        const float key_scale = k_scale[s.kv_head], value_scale = v_scale[s.kv_head];
        // the factor stays positive: Q takes the sign of the scale, and a scale of 0
        factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);
        // Q: packed row r is query position r / group and query head r % group; in FP16, permuted as K will be read
        for (int i = threadIdx.x; i < 128; i += 128) {
          const int r = i / 16, c = i % 16, packed = s.m_block * 8 + r, position = packed / group;
          uint4 x = make_uint4(0, 0, 0, 0);
          if (r < rows) x = *(const uint4*)(q + (s.sequence.q_start + position) * q_stride_seq
              + (s.kv_head * group + packed % group) * q_stride_head + 8 * c);
          x = bf16_to_fp16(x);
          const u32 sign = key_scale < 0.0f ? 0x80008000u : 0u, keep = key_scale == 0.0f ? 0u : ~0u;
          x.x = (x.x ^ sign) & keep;
          x.y = (x.y ^ sign) & keep;
          x.z = (x.z ^ sign) & keep;
          x.w = (x.w ^ sign) & keep;
          const int t = c / 4 % 4, load = c / 2 % 2;
          const u32 at = smem_q + (c / 16 * 2 + load) * 1024 + r * 128 + 4 * t;
          const int chunk = 4 * (c % 2);
          store_shared(at + (((chunk + 0) ^ (r % 8)) << 4), x.x);
          store_shared(at + (((chunk + 1) ^ (r % 8)) << 4), x.y);
          store_shared(at + (((chunk + 2) ^ (r % 8)) << 4), x.z);
          store_shared(at + (((chunk + 3) ^ (r % 8)) << 4), x.w);
        }
        fence_proxy_async();
        named_barrier_sync(1, 128);
        row_max[0] = -kInfinity; row_sum[0] = 0.0f;
        row_max[1] = -kInfinity; row_sum[1] = 0.0f;
        steep = false;
        o_acc_0[0] = o_acc_0[1] = o_acc_0[2] = o_acc_0[3] = 0.0f;
        o_acc_1[0] = o_acc_1[1] = o_acc_1[2] = o_acc_1[3] = 0.0f;
        // keys before it are hidden from no row by their end
        const int clean_end = min(s.sequence.seqlen_k, (s.sequence.seqlen_k - s.sequence.seqlen_q + s.m_block * 8 / group) + 1);
        #pragma unroll 1
        for (int n = s.tile_begin; n < s.tile_end; ++n) {
          // S' = K(n) Q'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_at = smem_k + k_stage * 16384 + (16 * warp + (lane >> 2)) * 128;
          const u32 k_chunk_0 = ((2 * (lane & 3) + 0) ^ ((lane >> 2) & 7)) << 4;
          const u32 k_chunk_1 = ((2 * (lane & 3) + 1) ^ ((lane >> 2) & 7)) << 4;
          u32 k_frag[32];
          // keys 0 to 63
          {
            const uint4 low = load_shared_16(k_at + 0 + k_chunk_0), high = load_shared_16(k_at + 1024 + k_chunk_0);
            k_frag[0] = narrow_to_fp16(low.x); k_frag[1] = narrow_to_fp16(high.x);
            k_frag[2] = narrow_to_fp16(low.x >> 16); k_frag[3] = narrow_to_fp16(high.x >> 16);
            k_frag[4] = narrow_to_fp16(low.y); k_frag[5] = narrow_to_fp16(high.y);
            k_frag[6] = narrow_to_fp16(low.y >> 16); k_frag[7] = narrow_to_fp16(high.y >> 16);
            k_frag[8] = narrow_to_fp16(low.z); k_frag[9] = narrow_to_fp16(high.z);
            k_frag[10] = narrow_to_fp16(low.z >> 16); k_frag[11] = narrow_to_fp16(high.z >> 16);
            k_frag[12] = narrow_to_fp16(low.w); k_frag[13] = narrow_to_fp16(high.w);
            k_frag[14] = narrow_to_fp16(low.w >> 16); k_frag[15] = narrow_to_fp16(high.w >> 16);
          }
          {
            const uint4 low = load_shared_16(k_at + 0 + k_chunk_1), high = load_shared_16(k_at + 1024 + k_chunk_1);
            k_frag[16] = narrow_to_fp16(low.x); k_frag[17] = narrow_to_fp16(high.x);
            k_frag[18] = narrow_to_fp16(low.x >> 16); k_frag[19] = narrow_to_fp16(high.x >> 16);
            k_frag[20] = narrow_to_fp16(low.y); k_frag[21] = narrow_to_fp16(high.y);
            k_frag[22] = narrow_to_fp16(low.y >> 16); k_frag[23] = narrow_to_fp16(high.y >> 16);
            k_frag[24] = narrow_to_fp16(low.z); k_frag[25] = narrow_to_fp16(high.z);
            k_frag[26] = narrow_to_fp16(low.z >> 16); k_frag[27] = narrow_to_fp16(high.z >> 16);
            k_frag[28] = narrow_to_fp16(low.w); k_frag[29] = narrow_to_fp16(high.w);
            k_frag[30] = narrow_to_fp16(low.w >> 16); k_frag[31] = narrow_to_fp16(high.w >> 16);
          }
          wgmma_fence();
          wgmma_m64n8k16_rs_first(s_acc_0, k_frag[0], k_frag[1], k_frag[2], k_frag[3], descriptor(q_desc + 0, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[4], k_frag[5], k_frag[6], k_frag[7], descriptor(q_desc + 2, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[8], k_frag[9], k_frag[10], k_frag[11], descriptor(q_desc + 4, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[12], k_frag[13], k_frag[14], k_frag[15], descriptor(q_desc + 6, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[16], k_frag[17], k_frag[18], k_frag[19], descriptor(q_desc + 64, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[20], k_frag[21], k_frag[22], k_frag[23], descriptor(q_desc + 66, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[24], k_frag[25], k_frag[26], k_frag[27], descriptor(q_desc + 68, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_0, k_frag[28], k_frag[29], k_frag[30], k_frag[31], descriptor(q_desc + 70, 0x40000040u));
          wgmma_commit();
          // keys 64 to 127
          WGMMA_WAIT(0);  // the fragments are free again
          {
            const uint4 low = load_shared_16(k_at + 8192 + k_chunk_0), high = load_shared_16(k_at + 9216 + k_chunk_0);
            k_frag[0] = narrow_to_fp16(low.x); k_frag[1] = narrow_to_fp16(high.x);
            k_frag[2] = narrow_to_fp16(low.x >> 16); k_frag[3] = narrow_to_fp16(high.x >> 16);
            k_frag[4] = narrow_to_fp16(low.y); k_frag[5] = narrow_to_fp16(high.y);
            k_frag[6] = narrow_to_fp16(low.y >> 16); k_frag[7] = narrow_to_fp16(high.y >> 16);
            k_frag[8] = narrow_to_fp16(low.z); k_frag[9] = narrow_to_fp16(high.z);
            k_frag[10] = narrow_to_fp16(low.z >> 16); k_frag[11] = narrow_to_fp16(high.z >> 16);
            k_frag[12] = narrow_to_fp16(low.w); k_frag[13] = narrow_to_fp16(high.w);
            k_frag[14] = narrow_to_fp16(low.w >> 16); k_frag[15] = narrow_to_fp16(high.w >> 16);
          }
          {
            const uint4 low = load_shared_16(k_at + 8192 + k_chunk_1), high = load_shared_16(k_at + 9216 + k_chunk_1);
            k_frag[16] = narrow_to_fp16(low.x); k_frag[17] = narrow_to_fp16(high.x);
            k_frag[18] = narrow_to_fp16(low.x >> 16); k_frag[19] = narrow_to_fp16(high.x >> 16);
            k_frag[20] = narrow_to_fp16(low.y); k_frag[21] = narrow_to_fp16(high.y);
            k_frag[22] = narrow_to_fp16(low.y >> 16); k_frag[23] = narrow_to_fp16(high.y >> 16);
            k_frag[24] = narrow_to_fp16(low.z); k_frag[25] = narrow_to_fp16(high.z);
            k_frag[26] = narrow_to_fp16(low.z >> 16); k_frag[27] = narrow_to_fp16(high.z >> 16);
            k_frag[28] = narrow_to_fp16(low.w); k_frag[29] = narrow_to_fp16(high.w);
            k_frag[30] = narrow_to_fp16(low.w >> 16); k_frag[31] = narrow_to_fp16(high.w >> 16);
          }
          wgmma_fence();
          wgmma_m64n8k16_rs_first(s_acc_1, k_frag[0], k_frag[1], k_frag[2], k_frag[3], descriptor(q_desc + 0, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[4], k_frag[5], k_frag[6], k_frag[7], descriptor(q_desc + 2, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[8], k_frag[9], k_frag[10], k_frag[11], descriptor(q_desc + 4, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[12], k_frag[13], k_frag[14], k_frag[15], descriptor(q_desc + 6, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[16], k_frag[17], k_frag[18], k_frag[19], descriptor(q_desc + 64, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[20], k_frag[21], k_frag[22], k_frag[23], descriptor(q_desc + 66, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[24], k_frag[25], k_frag[26], k_frag[27], descriptor(q_desc + 68, 0x40000040u));
          wgmma_m64n8k16_rs(s_acc_1, k_frag[28], k_frag[29], k_frag[30], k_frag[31], descriptor(q_desc + 70, 0x40000040u));
          wgmma_commit();
          __syncwarp();  // every lane has read its part of K
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          WGMMA_WAIT(0);
          k_phase ^= k_stage; k_stage ^= 1;
          if ((n + 1) * 128 > clean_end) {
            // keys past the row's own position or the end of the sequence do not count
            const int end_0 = min(s.sequence.seqlen_k,
                (s.m_block * 8 + 0 + 2 * (lane & 3)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 128)
                - (16 * warp + (lane >> 2));
            const int end_1 = min(s.sequence.seqlen_k,
                (s.m_block * 8 + 1 + 2 * (lane & 3)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 128)
                - (16 * warp + (lane >> 2));
            if (0 >= end_0) s_acc_0[0] = -kInfinity; if (0 >= end_1) s_acc_0[1] = -kInfinity;
            if (8 >= end_0) s_acc_0[2] = -kInfinity; if (8 >= end_1) s_acc_0[3] = -kInfinity;
            if (64 >= end_0) s_acc_1[0] = -kInfinity; if (64 >= end_1) s_acc_1[1] = -kInfinity;
            if (72 >= end_0) s_acc_1[2] = -kInfinity; if (72 >= end_1) s_acc_1[3] = -kInfinity;
          }
          // maximum of each row over the tile
          float tile_max[2];
          tile_max[0] = fmaxf(fmaxf(s_acc_0[0], s_acc_0[2]), fmaxf(s_acc_1[0], s_acc_1[2]));
          tile_max[1] = fmaxf(fmaxf(s_acc_0[1], s_acc_0[3]), fmaxf(s_acc_1[1], s_acc_1[3]));
          tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 4));
          tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 4));
          tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 8));
          tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 8));
          tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 16));
          tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 16));
          if (lane < 4) {
            *(float2*)(row_exchange + warp * 8 + 0 + 2 * lane) = make_float2(tile_max[0], tile_max[1]);
          }
          named_barrier_sync(1, 128);  // also: every warp's product with P(n - 1) is done
          bool grew = false;
          float before[2], base[2];
          {
            const float2 m_0 = *(const float2*)(row_exchange + 0 + 2 * (lane & 3));
            const float2 m_1 = *(const float2*)(row_exchange + 8 + 2 * (lane & 3));
            const float2 m_2 = *(const float2*)(row_exchange + 16 + 2 * (lane & 3));
            const float2 m_3 = *(const float2*)(row_exchange + 24 + 2 * (lane & 3));
            before[0] = row_max[0];
            row_max[0] = fmaxf(row_max[0], fmaxf(fmaxf(m_0.x, m_1.x), fmaxf(m_2.x, m_3.x)));
            base[0] = row_max[0] == -kInfinity ? 0.0f : row_base(row_max[0], factor);
            grew = grew || row_max[0] > before[0];
            before[1] = row_max[1];
            row_max[1] = fmaxf(row_max[1], fmaxf(fmaxf(m_0.y, m_1.y), fmaxf(m_2.y, m_3.y)));
            base[1] = row_max[1] == -kInfinity ? 0.0f : row_base(row_max[1], factor);
            grew = grew || row_max[1] > before[1];
          }
          if (__any_sync(0xffffffffu, grew)) {
            const float alpha_0 = rescale_factor(before[0], row_max[0], factor);
            row_sum[0] *= alpha_0;
            o_acc_0[0] *= alpha_0; o_acc_0[2] *= alpha_0;
            o_acc_1[0] *= alpha_0; o_acc_1[2] *= alpha_0;
            const float alpha_1 = rescale_factor(before[1], row_max[1], factor);
            row_sum[1] *= alpha_1;
            o_acc_0[1] *= alpha_1; o_acc_0[3] *= alpha_1;
            o_acc_1[1] *= alpha_1; o_acc_1[3] *= alpha_1;
            steep = __any_sync(0xffffffffu, is_steep(base[0]) || is_steep(base[1]));
          }
          if (steep) {
            if (is_steep(base[0])) {
              s_acc_0[0] -= row_max[0]; s_acc_0[2] -= row_max[0];
              s_acc_1[0] -= row_max[0]; s_acc_1[2] -= row_max[0];
              base[0] = 0.0f;
            }
            if (is_steep(base[1])) {
              s_acc_0[1] -= row_max[1]; s_acc_0[3] -= row_max[1];
              s_acc_1[1] -= row_max[1]; s_acc_1[3] -= row_max[1];
              base[1] = 0.0f;
            }
          }
          // P(n) = exp2(S' - max), and its row sums
          s_acc_0[0] = exp2_approx(fmaf(s_acc_0[0], factor, -base[0]));
          s_acc_0[2] = exp2_approx(fmaf(s_acc_0[2], factor, -base[0])); row_sum[0] += s_acc_0[0] + s_acc_0[2];
          s_acc_0[1] = exp2_approx(fmaf(s_acc_0[1], factor, -base[1]));
          s_acc_0[3] = exp2_approx(fmaf(s_acc_0[3], factor, -base[1])); row_sum[1] += s_acc_0[1] + s_acc_0[3];
          stmatrix_x2_trans(smem_p + 0 + transposed_at, pack_fp16(s_acc_0[0], s_acc_0[1]), pack_fp16(s_acc_0[2], s_acc_0[3]));
          s_acc_1[0] = exp2_approx(fmaf(s_acc_1[0], factor, -base[0]));
          s_acc_1[2] = exp2_approx(fmaf(s_acc_1[2], factor, -base[0])); row_sum[0] += s_acc_1[0] + s_acc_1[2];
          s_acc_1[1] = exp2_approx(fmaf(s_acc_1[1], factor, -base[1]));
          s_acc_1[3] = exp2_approx(fmaf(s_acc_1[3], factor, -base[1])); row_sum[1] += s_acc_1[1] + s_acc_1[3];
          stmatrix_x2_trans(smem_p + 1024 + transposed_at, pack_fp16(s_acc_1[0], s_acc_1[1]), pack_fp16(s_acc_1[2], s_acc_1[3]));
          // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
          const int v_rows = max(s.sequence.seqlen_k - n * 128, 0);
          if (v_rows < 128) {
            mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
            for (int i = v_rows * 8 + threadIdx.x; i < 1024; i += 128) {
              zero_16_bytes(smem_v + v_stage * 16384 + 0 + i * 16);
            }
          }
          fence_proxy_async();
          named_barrier_sync(1, 128);
          // O' += V(n)' P(n)'
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_at = smem_v + v_stage * 16384 + lane * 128;
          // columns 0 to 63 of V
          u32 v_frag_0[32];
          const u32 v_chunk_0 = ((0 + warp) ^ (lane & 7)) << 4;
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 0 + v_chunk_0);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_0[0] = narrow_to_fp16(x[0]); v_frag_0[1] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_0[2] = narrow_to_fp16(x[1]); v_frag_0[3] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_0[4] = narrow_to_fp16(x[2]); v_frag_0[5] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_0[6] = narrow_to_fp16(x[3]); v_frag_0[7] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 4096 + v_chunk_0);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_0[8] = narrow_to_fp16(x[0]); v_frag_0[9] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_0[10] = narrow_to_fp16(x[1]); v_frag_0[11] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_0[12] = narrow_to_fp16(x[2]); v_frag_0[13] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_0[14] = narrow_to_fp16(x[3]); v_frag_0[15] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 8192 + v_chunk_0);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_0[16] = narrow_to_fp16(x[0]); v_frag_0[17] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_0[18] = narrow_to_fp16(x[1]); v_frag_0[19] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_0[20] = narrow_to_fp16(x[2]); v_frag_0[21] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_0[22] = narrow_to_fp16(x[3]); v_frag_0[23] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 12288 + v_chunk_0);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_0[24] = narrow_to_fp16(x[0]); v_frag_0[25] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_0[26] = narrow_to_fp16(x[1]); v_frag_0[27] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_0[28] = narrow_to_fp16(x[2]); v_frag_0[29] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_0[30] = narrow_to_fp16(x[3]); v_frag_0[31] = narrow_to_fp16(x[3] >> 16);
          }
          wgmma_fence();
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[0], v_frag_0[1], v_frag_0[2], v_frag_0[3], descriptor(p_desc + 0, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[4], v_frag_0[5], v_frag_0[6], v_frag_0[7], descriptor(p_desc + 2, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[8], v_frag_0[9], v_frag_0[10], v_frag_0[11], descriptor(p_desc + 4, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[12], v_frag_0[13], v_frag_0[14], v_frag_0[15], descriptor(p_desc + 6, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[16], v_frag_0[17], v_frag_0[18], v_frag_0[19], descriptor(p_desc + 64, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[20], v_frag_0[21], v_frag_0[22], v_frag_0[23], descriptor(p_desc + 66, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[24], v_frag_0[25], v_frag_0[26], v_frag_0[27], descriptor(p_desc + 68, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_0, v_frag_0[28], v_frag_0[29], v_frag_0[30], v_frag_0[31], descriptor(p_desc + 70, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          // columns 64 to 127 of V
          u32 v_frag_1[32];
          const u32 v_chunk_1 = ((4 + warp) ^ (lane & 7)) << 4;
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 0 + v_chunk_1);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_1[0] = narrow_to_fp16(x[0]); v_frag_1[1] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_1[2] = narrow_to_fp16(x[1]); v_frag_1[3] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_1[4] = narrow_to_fp16(x[2]); v_frag_1[5] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_1[6] = narrow_to_fp16(x[3]); v_frag_1[7] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 4096 + v_chunk_1);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_1[8] = narrow_to_fp16(x[0]); v_frag_1[9] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_1[10] = narrow_to_fp16(x[1]); v_frag_1[11] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_1[12] = narrow_to_fp16(x[2]); v_frag_1[13] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_1[14] = narrow_to_fp16(x[3]); v_frag_1[15] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 8192 + v_chunk_1);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_1[16] = narrow_to_fp16(x[0]); v_frag_1[17] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_1[18] = narrow_to_fp16(x[1]); v_frag_1[19] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_1[20] = narrow_to_fp16(x[2]); v_frag_1[21] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_1[22] = narrow_to_fp16(x[3]); v_frag_1[23] = narrow_to_fp16(x[3] >> 16);
          }
          {
            u32 x[4];
            ldmatrix_x4_trans(x, v_at + 12288 + v_chunk_1);
            x[0] = __byte_perm(x[0], 0, 0x3120); v_frag_1[24] = narrow_to_fp16(x[0]); v_frag_1[25] = narrow_to_fp16(x[0] >> 16);
            x[1] = __byte_perm(x[1], 0, 0x3120); v_frag_1[26] = narrow_to_fp16(x[1]); v_frag_1[27] = narrow_to_fp16(x[1] >> 16);
            x[2] = __byte_perm(x[2], 0, 0x3120); v_frag_1[28] = narrow_to_fp16(x[2]); v_frag_1[29] = narrow_to_fp16(x[2] >> 16);
            x[3] = __byte_perm(x[3], 0, 0x3120); v_frag_1[30] = narrow_to_fp16(x[3]); v_frag_1[31] = narrow_to_fp16(x[3] >> 16);
          }
          wgmma_fence();
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[0], v_frag_1[1], v_frag_1[2], v_frag_1[3], descriptor(p_desc + 0, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[4], v_frag_1[5], v_frag_1[6], v_frag_1[7], descriptor(p_desc + 2, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[8], v_frag_1[9], v_frag_1[10], v_frag_1[11], descriptor(p_desc + 4, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[12], v_frag_1[13], v_frag_1[14], v_frag_1[15], descriptor(p_desc + 6, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[16], v_frag_1[17], v_frag_1[18], v_frag_1[19], descriptor(p_desc + 64, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[20], v_frag_1[21], v_frag_1[22], v_frag_1[23], descriptor(p_desc + 66, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[24], v_frag_1[25], v_frag_1[26], v_frag_1[27], descriptor(p_desc + 68, 0x40000040u));
          wgmma_m64n8k16_rs(o_acc_1, v_frag_1[28], v_frag_1[29], v_frag_1[30], v_frag_1[31], descriptor(p_desc + 70, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          __syncwarp();  // every lane has read its part of V
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          v_phase ^= v_stage; v_stage ^= 1;
        }

        // ---- row sums over the lanes and warps
        row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 4);
        row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 4);
        row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 8);
        row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 8);
        row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 16);
        row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 16);
        if (lane < 4) {
          *(float2*)(row_exchange + warp * 8 + 0 + 2 * lane) = make_float2(row_sum[0], row_sum[1]);
        }
        named_barrier_sync(1, 128);
        row_sum[0] = row_exchange[0 + 2 * (lane & 3)] + row_exchange[8 + 2 * (lane & 3)] + row_exchange[16 + 2 * (lane & 3)]
            + row_exchange[24 + 2 * (lane & 3)];
        row_sum[1] = row_exchange[1 + 2 * (lane & 3)] + row_exchange[9 + 2 * (lane & 3)] + row_exchange[17 + 2 * (lane & 3)]
            + row_exchange[25 + 2 * (lane & 3)];

        // ---- output
        bool odd = false;  // some column of O is not finite
        int own_first = 0, own_rows = rows;  // of O, that this block stores
        if (s.whole) {
          // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
          float odd_0 = 0.0f, odd_1 = 0.0f;
          odd_0 = fmaf(o_acc_0[0], o_acc_0[2], odd_0);
          odd_1 = fmaf(o_acc_1[0], o_acc_1[2], odd_1);
          odd = !((odd_0 + odd_1) * 0.0f == 0.0f);
          // the whole item: through shared memory, so that rows leave in 16-byte words
          float inv_sum[2];
          {
            const int packed = s.m_block * 8 + (0 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
            const float top = row_max[0] * (factor * 0.693147181f), sum = row_sum[0];
            inv_sum[0] = sum != 0.0f ? value_scale / sum : 0.0f;
            if (threadIdx.x < 4 && (0 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
                + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
          }
          {
            const int packed = s.m_block * 8 + (1 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
            const float top = row_max[1] * (factor * 0.693147181f), sum = row_sum[1];
            inv_sum[1] = sum != 0.0f ? value_scale / sum : 0.0f;
            if (threadIdx.x < 4 && (1 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
                + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
          }
          // a lane holds two neighbouring columns of a query row
          {
            const int r = 0 + 2 * (lane & 3);
            const u32 at = smem_o + r * 128 + (((2 * warp + (lane >> 4)) ^ (r & 7)) << 4) + ((lane >> 2) & 3) * 4;
            store_shared(at + 0, pack_bf16(o_acc_0[0] * inv_sum[0], o_acc_0[2] * inv_sum[0]));
            store_shared(at + 1024, pack_bf16(o_acc_1[0] * inv_sum[0], o_acc_1[2] * inv_sum[0]));
          }
          {
            const int r = 1 + 2 * (lane & 3);
            const u32 at = smem_o + r * 128 + (((2 * warp + (lane >> 4)) ^ (r & 7)) << 4) + ((lane >> 2) & 3) * 4;
            store_shared(at + 0, pack_bf16(o_acc_0[1] * inv_sum[1], o_acc_0[3] * inv_sum[1]));
            store_shared(at + 1024, pack_bf16(o_acc_1[1] * inv_sum[1], o_acc_1[3] * inv_sum[1]));
          }
          named_barrier_sync(1, 128);
          #pragma unroll 1
          for (int i = threadIdx.x; i < rows * 16; i += 128) {
            const int r = i / 16, c = i % 16, packed = s.m_block * 8 + r;
            copy_16_bytes(o + (s.sequence.q_start + packed / group) * o_stride_seq + (s.kv_head * group + packed % group) * o_stride_head
                + 8 * c, smem_o + (c / 8) * 1024 + r * 128 + (((c % 8) ^ (r % 8)) << 4));
          }
        } else {
          // this block's part
          float* const part = workspace + ((range.cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll + s.second_slot)
              * 1040;
          if (0 + 2 * (lane & 3) < rows) {
            float* const at = part + (0 + 2 * (lane & 3)) * 128 + 16 * warp + 2 * (lane >> 2);
            *(float2*)(at + 0) = make_float2(o_acc_0[0], o_acc_0[2]);
            *(float2*)(at + 64) = make_float2(o_acc_1[0], o_acc_1[2]);
            if (threadIdx.x < 4) *(float2*)(part + 1024 + 2 * (0 + 2 * lane)) = make_float2(row_max[0], row_sum[0]);
          }
          if (1 + 2 * (lane & 3) < rows) {
            float* const at = part + (1 + 2 * (lane & 3)) * 128 + 16 * warp + 2 * (lane >> 2);
            *(float2*)(at + 0) = make_float2(o_acc_0[1], o_acc_0[3]);
            *(float2*)(at + 64) = make_float2(o_acc_1[1], o_acc_1[3]);
            if (threadIdx.x < 4) *(float2*)(part + 1024 + 2 * (1 + 2 * lane)) = make_float2(row_max[1], row_sum[1]);
          }
          named_barrier_sync(1, 128);
          const Split split = split_of(range, s);
          const bool waits = rows > 4 && rows * split.parts > 64 && range.position >= range.end && range.cells <= range.teams;
          if (threadIdx.x == 0) share_parts(item_counters + s.item, split.parts, waits, own_share);
          named_barrier_sync(1, 128);
          const int share = own_share[0], shares = own_share[1];
          int known_before = -1;
          if (threadIdx.x == 0 && own_share[2] > 0) known_before = atomicAdd(item_counters + s.item, kKnowing);
          if (share >= 0) {
            // the parts are added up in their order; this block has these rows
            const int rows_each = (rows + shares - 1) / shares;
            own_first = min(share * rows_each, rows), own_rows = min(rows_each, rows - own_first);
            const long long stride = problem.team_heads * 2ll * 1040;
            const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll
                * 1040;
            const int shift = split.first_second ? 1040 : 0;  // part 0 may be the second of its block
            const int own_end = own_first + own_rows;
            #pragma unroll 1
            for (int r = own_first + warp; r < own_end; r += 4) {
              float all = -kInfinity, inverse = 0.0f, weight = 0.0f;  // of a row; lane i: weight of part i
              #pragma unroll 1
              for (int c = lane; c - lane < 32; c += 32) {
                // the first parts are on their way while the rows' maxima are found
                float4 ahead[16];
                #pragma unroll
                for (int j = 0; j < 16; ++j) {
                  const int i = j % 16, row = r + j / 16;
                  ahead[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                  if (i < split.parts) ahead[j] = __ldcg((const float4*)(parts + i * stride + (i == 0 ? shift : 0) + row * 128 + 4 * c));
                }
                if (c == lane) {
                  // maximum and sum of a row over all parts: a part a lane
                  const int row = r;
                  float top = -kInfinity, sum = 0.0f, first = -kInfinity;
                  #pragma unroll 1
                  for (int i = lane % 32; i < split.parts; i += 32) {
                    const float2 other = __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 1024 + 2 * row));
                    if (i < 32) first = other.x;
                    const float higher = fmaxf(top, other.x);
                    sum = sum * rescale_factor(top, higher, factor) + other.y * rescale_factor(other.x, higher, factor);
                    top = higher;
                  }
                  all = top;
                  for (int step = 16; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, step));
                  sum *= rescale_factor(top, all, factor);
                  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
                  const float total = sum;
                  {
                    const int packed = s.m_block * 8 + row, head = s.kv_head * group + packed % group;
                    const float top = all * (factor * 0.693147181f), sum = total;
                    inverse = sum != 0.0f ? value_scale / sum : 0.0f;
                    if (lane == 0 && row < rows) lse[(long long)head * total_q + s.sequence.q_start + packed / group] = sum != 0.0f ? top
                        + log2_approx(sum) * 0.693147181f : -kInfinity;
                  }
                  weight = rescale_factor(first, all, factor);
                }
                {
                  const int row = r;
                  const float row_top = __shfl_sync(0xffffffffu, all, 0);
                  const float row_inverse = __shfl_sync(0xffffffffu, inverse, 0);
                  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                  #pragma unroll
                  for (int i = 0; i < 16; ++i) {
                    const float w = __shfl_sync(0xffffffffu, weight, i);
                    sum.x += w * ahead[i].x; sum.y += w * ahead[i].y; sum.z += w * ahead[i].z; sum.w += w * ahead[i].w;
                  }
                  if (row < own_end && c < 32) {
                    #pragma unroll 16
                    for (int i = 16; i < split.parts; ++i) {
                      const float* const other = parts + i * stride;
                      const float4 o = __ldcg((const float4*)(other + row * 128 + 4 * c));
                      const float w = rescale_factor(__ldcg(other + 1024 + 2 * row), row_top, factor);
                      sum.x += w * o.x; sum.y += w * o.y; sum.z += w * o.z; sum.w += w * o.w;
                    }
                    odd = odd || !(fmaf(sum.x, sum.y, sum.z * sum.w) * 0.0f == 0.0f);
                    const int packed = s.m_block * 8 + row;
                    *(uint2*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                        + (s.kv_head * group + packed % group) * o_stride_head
                        + 4 * c) = make_uint2(pack_bf16(sum.x * row_inverse, sum.y * row_inverse),
                        pack_bf16(sum.z * row_inverse, sum.w * row_inverse));
                  }
                }
              }
            }
          }
          // the last block that knows leaves the counter as it was found
          if (threadIdx.x == 0 && own_share[2] > 0 && knows_last(known_before, own_share[2])) atomicExch(item_counters + s.item, 0);
        }
        if (same(s.sequence.seqlen_q > 1)) {
          if (any_lane(odd) && lane == 0) *(int*)(smem_bytes + 71924) = 1;
          named_barrier_sync(1, 128);
          const int again = *(int*)(smem_bytes + 71924);
          // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
          if (same(again)) {
            const int its_s_m_block = s.m_block;
            const int its_s_kv_head = s.kv_head;
            const int its_s_sequence_first_tile = s.sequence.first_tile;
            const int its_s_sequence_num_tiles = s.sequence.num_tiles;
            const int its_s_sequence_seqlen_k = s.sequence.seqlen_k;
            const int its_s_sequence_q_start = s.sequence.q_start;
            const int its_s_batch = s.batch;
            const int its_s_sequence_seqlen_q = s.sequence.seqlen_q;
            const auto again = [=]() __attribute__((noinline)) {
            const int lane_32 = (int)thread_id() & 31,
                row_begin = same(its_s_m_block * 8 + own_first + min(warp * ((own_rows + 3) / 4), own_rows)),
                row_end = same(its_s_m_block * 8 + own_first + min((warp + 1) * ((own_rows + 3) / 4), own_rows));
            // the last key past some row's end, and the first one before some row's first, with a V that is not finite
            int highest = -1, lowest = 0x7fffffff;
            {
              const int row = row_begin, last = same(min((its_s_sequence_first_tile + its_s_sequence_num_tiles) * 128,
                  its_s_sequence_seqlen_k)) - 1;
          #pragma unroll 1
              for (int first = same(max(min(its_s_sequence_seqlen_k, (row / group + its_s_sequence_seqlen_k - its_s_sequence_seqlen_q) + 1),
                  0)); first <= last; first += 32) {
                const int key = min(first + lane_32, last);
                const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key) : -1,
                    page = max(found, 0);
                highest = found < 0 || finite_bytes((const u32*)(v + its_s_kv_head * v_stride_head + page * v_stride_page
                    + (key % 64) * v_stride_seq), 32) ? highest : key;
              }
              highest = same(largest_of_lanes(highest));
            }
          #pragma unroll 1
            for (int row = row_begin; row < row_end; ++row) {
              const int begin = same(0), end = same(min(its_s_sequence_seqlen_k,
                  (row / group + its_s_sequence_seqlen_k - its_s_sequence_seqlen_q) + 1));
              if (highest < end && lowest >= begin) continue;
              const u32* const query_words = (const u32*)(q + (its_s_sequence_q_start + row / group) * q_stride_seq
                  + (its_s_kv_head * group + row % group) * q_stride_head);
              float maximum = -kInfinity, sum = 0.0f, out[4];
          #pragma unroll
              for (int i = 0; i < 4; ++i) out[i] = 0.0f;
              // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
              bool left = end > begin;
          #pragma unroll 1
              for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
                float score[1] = {0.0f};
                {
                  const int key = max(min(first + lane_32, end - 1), begin);
                  const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key)
                      : -1, page = max(found, 0);
                  const u16* const key_words = (const u16*)(k + its_s_kv_head * k_stride_head + page * k_stride_page
                      + (key % 64) * k_stride_seq);
                  UNROLL_4
                  for (int i = 0; i < 64; ++i) {
                    score[0] = fmaf(low_half(query_words[i]), low_byte(key_words[i]), score[0]);
                    score[0] = fmaf(high_half(query_words[i]), high_byte(key_words[i]), score[0]);
                  }
                  score[0] *= k_scale[its_s_kv_head];
                  score[0] = found < 0 ? 0.0f : score[0];
                  score[0] = key == first + lane_32 ? score[0] : -kInfinity;
                }
                const float largest = fmaxf(maximum, largest_of_lanes(score[0]));
                const float base = largest == -kInfinity ? 0.0f : largest;
                const float shrink = exp2_approx((maximum - base) * scale_log2);
                const float weight = score[0] == -kInfinity ? 0.0f : exp2_approx((score[0] - base) * scale_log2);
                sum = fmaf(sum, shrink, sum_of_lanes(weight));
                maximum = largest;
          #pragma unroll
                for (int i = 0; i < 4; ++i) out[i] *= shrink;
          #pragma unroll 1
                for (int j = 0; j < 32; ++j) {
                  const int key = max(min(first + j, end - 1), begin);
                  const float p = lane_float(weight, j);
                  const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key)
                      : -1, page = max(found, 0);
                  const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
                  const u16* const value_words = (const u16*)(v + its_s_kv_head * v_stride_head + page * v_stride_page
                      + (key % 64) * v_stride_seq);
          #pragma unroll
                  for (int i = 0; i < 4; i += 2) {
                    u32 two = value_words[min(lane_32 + 16 * i, 63)];
                    two = seen ? two : 0u;
                    out[i] = fmaf(p, low_byte(two), out[i]);
                    out[i + 1] = fmaf(p, high_byte(two), out[i + 1]);
                  }
                }
                // what the row itself sees may leave nothing to compute
                bool finite = false;
          #pragma unroll
                for (int i = 0; i < 4; ++i) finite |= out[i] * 0.0f == 0.0f;
                left = any_lane(finite);
              }
              const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum) * v_scale[its_s_kv_head];
              u16* const to = o + (its_s_sequence_q_start + row / group) * o_stride_seq
                  + (its_s_kv_head * group + row % group) * o_stride_head;
          #pragma unroll
              for (int i = 0; i < 4; i += 2) {
                const int column = 2 * lane_32 + 32 * i;
                const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
                if (column < 128 && writes_rows()) *(u32*)(to + column) = two;
              }
            }
            };
            again();
          }
          if (same(again)) {
            named_barrier_sync(1, 128);
            if (thread_id() == 0) *(int*)(smem_bytes + 71924) = 0;
          }
        }
      }
      more = range.cells > range.teams;
      if (more) {
        mbarrier_wait(mbar_cell_full + cell_stage * 8, cell_phase);
        const int cell = broadcast(lane == 0 ? cell_slots[cell_stage] : 0, 0);
        cell_phase ^= cell_stage; cell_stage ^= 1;
        more = cell < range.cells;
        if (more) {
          range.cell = cell;
          range.position = start_of(range, cell);
          range.end = min(range.position + range.chunk, range.total);
          range.first = true;
          seek(problem, range);
        }
      }
    }
  }
  #endif
}
