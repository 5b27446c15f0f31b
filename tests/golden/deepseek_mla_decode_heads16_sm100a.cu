// deepseek_mla_decode_heads16_sm100a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"deepseek_mla_decode_heads16_sm100a","target":"sm_100a","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":576,"ov_depth":512,"rope_depth":0,"nope_depth":576,"q_depth":576,"cache_depth":576,"head_dim_offset":0,"v_from_k":true,"operand":{"kind":"paged","page_size":64},"mask":"causal","score_mod":"none","sink":false,"group":16,"lse":true,"scale":0.041666666666666664,"mma_shape":[64,16,16],"BM":16,"BN":64,"BK":192,"num_threads":192,"swizzle":"128B","num_kv_stages":2,"num_qk_stages":3,"schedule":"sm100_decode"}
// Schedule sm100_decode: 16 packed query rows by 64 keys a tile, 2 stages of K, whose first columns are V.
// Tensor memory: S' of even tiles 0, of odd tiles 16, O' 32, 128 columns.
// Shared memory (167444 bytes):
//         0 ..  147456  k          K stages
//    147456 ..  165888  q          Q: the packed query rows
//    165888 ..  166656  rows       bases, factors of O' of each row, of each warp
//    166656 ..  167168  exchange   maximum of each row, of each warp; of two tiles
//    167168 ..  167296  table      query and head of each row
//    167296 ..  167432  mbar       Q, S', P, O'; K and V rings full/empty
//    167432 ..  167436  flag       arrivals at the item before this block
//    167436 ..  167440  odd        whether some column of O is not finite
//    167440 ..  167444  tmem       address of tensor memory
//
// Regenerate: kiln generate deepseek_mla_decode_heads16_sm100a.json --out .
// Compile: nvcc -gencode=arch=compute_100a,code=sm_100a -cubin deepseek_mla_decode_heads16_sm100a.cu

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

struct __align__(64) TensorMap { unsigned char bytes[128]; };

// True in one lane of the (converged) warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

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

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// Adds, after everything this thread has seen is visible to the device; what the other adders did before is visible after.
__device__ __forceinline__ int atomic_add_acq_rel(int* at, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

// 16 bytes from global to shared memory, on their way when the thread goes on.
__device__ __forceinline__ void copy_async_16(u32 dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
// Returns once this thread's copies are there.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// By one whole warp: `columns` columns of tensor memory, a power of two; their address goes to shared memory. No other
// block of the processor waits for more after that.
__device__ __forceinline__ void tmem_alloc(u32 address_at, u32 columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(address_at),
      "r"(columns)
      : "memory");
}
__device__ __forceinline__ void tmem_dealloc(u32 tmem, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tmem), "r"(columns) : "memory");
}

// Around every hand-over between threads: what this thread did in tensor memory before, and does after.
__device__ __forceinline__ void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// Until this warp's stores to tensor memory have been done.
__device__ __forceinline__ void tmem_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// D = A B or D += A B in f32, issued by one thread. `kind` is the instruction descriptor. A and B by their matrix
// descriptors, or A from tensor memory: row m in lane m, the contraction along the columns.
__device__ __forceinline__ void mma_smem(u32 d, u64 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, add; }" ::"r"(d),
      "l"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}
__device__ __forceinline__ void mma_tmem(u32 d, u32 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, add; }" ::"r"(d),
      "r"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}

// One arrival on the barrier when every product that this thread issued before has ended.
__device__ __forceinline__ void tcgen05_commit(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}

// 16 columns of this lane's row, with the wait for them.
__device__ __forceinline__ void tmem_load_16(float (&x)[16], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
      "tcgen05.wait::ld.sync.aligned;" :
        "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]),
        "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15])
      : "r"(at) : "memory");
}

// 8 columns of a row: lanes 16 to 31 have the second half, with the wait for them.
__device__ __forceinline__ void tmem_load_halves_8(float (&x)[8], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x32bx2.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 8;\n"
      "tcgen05.wait::ld.sync.aligned;" :
        "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
      : "r"(at) : "memory");
}

// 16 columns of this lane's row.
__device__ __forceinline__ void tmem_store_floats_16(u32 at, const float (&x)[16]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(at),
        "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]),
        "f"(x[8]), "f"(x[9]), "f"(x[10]), "f"(x[11]), "f"(x[12]), "f"(x[13]), "f"(x[14]), "f"(x[15])
      : "memory");
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
  s.num_tiles = max((s.seqlen_k + 63) / 64 - s.first_tile, 1);
  return s;
}

__device__ __forceinline__ int packed_blocks(const Problem& problem) {
  return (problem.heads_q / problem.heads_kv * problem.seqlen_q + 15) / 16;
}

// Cells: one a team; they start at floor(cell * total / teams).
__device__ __forceinline__ int cell_of(const Range& range, unsigned position) {
  return (int)(((position + 1) * range.teams - 1) / range.total);
}
__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell) {
  return cell * range.total / range.teams;
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

// S' = K Q': 64 keys x 16 packed rows, both K-major. O' += V' P': 128 columns of V x 16 packed rows; V' is
// contiguous along the columns, P along the keys.
constexpr u32 kScoresKind = 0x4040490u, kOutputKind = 0x8048490u;
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kKHigh = 0x40004040u, kQHigh = 0x40004040u, kVHigh = 0x40004040u, kPHigh = 0x40004040u;

__device__ __forceinline__ void issue_scores_0(u32 s, u32 k, u32 q) {
  mma_smem(s, descriptor(k + 0, kKHigh), descriptor(q + 0, kQHigh), kScoresKind, false);
  mma_smem(s, descriptor(k + 2, kKHigh), descriptor(q + 2, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 4, kKHigh), descriptor(q + 4, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 6, kKHigh), descriptor(q + 6, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 512, kKHigh), descriptor(q + 128, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 514, kKHigh), descriptor(q + 130, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 516, kKHigh), descriptor(q + 132, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 518, kKHigh), descriptor(q + 134, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1024, kKHigh), descriptor(q + 256, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1026, kKHigh), descriptor(q + 258, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1028, kKHigh), descriptor(q + 260, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1030, kKHigh), descriptor(q + 262, kQHigh), kScoresKind, true);
}
__device__ __forceinline__ void issue_scores_1(u32 s, u32 k, u32 q) {
  mma_smem(s, descriptor(k + 1536, kKHigh), descriptor(q + 384, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1538, kKHigh), descriptor(q + 386, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1540, kKHigh), descriptor(q + 388, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 1542, kKHigh), descriptor(q + 390, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2048, kKHigh), descriptor(q + 512, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2050, kKHigh), descriptor(q + 514, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2052, kKHigh), descriptor(q + 516, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2054, kKHigh), descriptor(q + 518, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2560, kKHigh), descriptor(q + 640, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2562, kKHigh), descriptor(q + 642, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2564, kKHigh), descriptor(q + 644, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 2566, kKHigh), descriptor(q + 646, kQHigh), kScoresKind, true);
}
__device__ __forceinline__ void issue_scores_2(u32 s, u32 k, u32 q) {
  mma_smem(s, descriptor(k + 3072, kKHigh), descriptor(q + 768, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3074, kKHigh), descriptor(q + 770, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3076, kKHigh), descriptor(q + 772, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3078, kKHigh), descriptor(q + 774, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3584, kKHigh), descriptor(q + 896, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3586, kKHigh), descriptor(q + 898, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3588, kKHigh), descriptor(q + 900, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 3590, kKHigh), descriptor(q + 902, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 4096, kKHigh), descriptor(q + 1024, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 4098, kKHigh), descriptor(q + 1026, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 4100, kKHigh), descriptor(q + 1028, kQHigh), kScoresKind, true);
  mma_smem(s, descriptor(k + 4102, kKHigh), descriptor(q + 1030, kQHigh), kScoresKind, true);
}
// Chunks of the slot come free with the last block that reads them, at barriers from `empty` on; P's with the last of all.
__device__ __forceinline__ void issue_output(u32 o, u32 v, u32 p, bool add, u32 empty) {
  mma_smem(o + 0, descriptor(v + 0, kVHigh), descriptor(p + 0, kPHigh), kOutputKind, add);
  mma_smem(o + 0, descriptor(v + 128, kVHigh), descriptor(p + 2, kPHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(v + 256, kVHigh), descriptor(p + 4, kPHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(v + 384, kVHigh), descriptor(p + 6, kPHigh), kOutputKind, true);
  mma_smem(o + 16, descriptor(v + 1024, kVHigh), descriptor(p + 0, kPHigh), kOutputKind, add);
  mma_smem(o + 16, descriptor(v + 1152, kVHigh), descriptor(p + 2, kPHigh), kOutputKind, true);
  mma_smem(o + 16, descriptor(v + 1280, kVHigh), descriptor(p + 4, kPHigh), kOutputKind, true);
  mma_smem(o + 16, descriptor(v + 1408, kVHigh), descriptor(p + 6, kPHigh), kOutputKind, true);
  tcgen05_commit(empty + 0);
  mma_smem(o + 32, descriptor(v + 2048, kVHigh), descriptor(p + 0, kPHigh), kOutputKind, add);
  mma_smem(o + 32, descriptor(v + 2176, kVHigh), descriptor(p + 2, kPHigh), kOutputKind, true);
  mma_smem(o + 32, descriptor(v + 2304, kVHigh), descriptor(p + 4, kPHigh), kOutputKind, true);
  mma_smem(o + 32, descriptor(v + 2432, kVHigh), descriptor(p + 6, kPHigh), kOutputKind, true);
  tcgen05_commit(empty + 8);
  mma_smem(o + 48, descriptor(v + 3072, kVHigh), descriptor(p + 0, kPHigh), kOutputKind, add);
  mma_smem(o + 48, descriptor(v + 3200, kVHigh), descriptor(p + 2, kPHigh), kOutputKind, true);
  mma_smem(o + 48, descriptor(v + 3328, kVHigh), descriptor(p + 4, kPHigh), kOutputKind, true);
  mma_smem(o + 48, descriptor(v + 3456, kVHigh), descriptor(p + 6, kPHigh), kOutputKind, true);
  tcgen05_commit(empty + 16);
}

struct Largest {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
// Of values of 8 packed rows in every lane, those of a row over the lanes of its half of the warp.
template <class Op>
__device__ __forceinline__ float over_lanes(const float* of_rows, int lane, Op op) {
  float x[8];
#pragma unroll
  for (int r = 0; r < 8; ++r) x[r] = of_rows[r];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float keep = (lane & 8) != 0 ? x[i + 4] : x[i], send = (lane & 8) != 0 ? x[i] : x[i + 4];
    x[i] = op(keep, __shfl_xor_sync(0xffffffffu, send, 8));
  }
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float keep = (lane & 4) != 0 ? x[i + 2] : x[i], send = (lane & 4) != 0 ? x[i] : x[i + 2];
    x[i] = op(keep, __shfl_xor_sync(0xffffffffu, send, 4));
  }
  {
    const float keep = (lane & 2) != 0 ? x[1] : x[0], send = (lane & 2) != 0 ? x[0] : x[1];
    x[0] = op(keep, __shfl_xor_sync(0xffffffffu, send, 2));
  }
  x[0] = op(x[0], __shfl_xor_sync(0xffffffffu, x[0], 1));
  return x[0];
}

// P of two packed rows, of this thread's key: 16 bits each.
__device__ __forceinline__ void store_two_rows(u32 first, u32 second, u32 pair) {
  asm volatile("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; st.shared.b16 [%0], lo; st.shared.b16 [%1], hi; }" ::"r"(first),
               "r"(second), "r"(pair)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(192, 1)
kiln_deepseek_mla_decode_heads16_sm100a(const __grid_constant__ TensorMap k_map,
    const u16* q,
    u16* o,
    float* lse,
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
    const float scale_log2,
    const u16* k,
    const long long k_stride_page,
    const long long k_stride_seq,
    const long long k_stride_head) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM100_ALL)
  asm volatile("trap;");  // built for plain sm_100, which has no tcgen05
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_k = smem, smem_v = smem, smem_q = smem + 147456, smem_p = smem + 65536;
  // Q is there; S' of every second tile is there (two); P is there, S' was read and O' rescaled; every V' P' has ended.
  const u32 mbar_q_full = smem + 167296, mbar_s_full = mbar_q_full + 8, mbar_p_full = mbar_q_full + 24, mbar_o_full = mbar_q_full + 32;
  const u32 mbar_k_full = smem + 167336, mbar_k_empty = smem + 167384;
  const u32 mbar_v_empty = smem + 167384;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads, launch_before};

  if (warp == 4) tmem_alloc(smem + 167440, 128);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&k_map);
    mbarrier_init(mbar_q_full, 4);
    mbarrier_init(mbar_s_full, 1);
    mbarrier_init(mbar_s_full + 8, 1);
    mbarrier_init(mbar_p_full, 4);
    mbarrier_init(mbar_o_full, 1);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_full + 24, 1);
    mbarrier_init(mbar_k_full + 32, 1);
    mbarrier_init(mbar_k_full + 40, 1);
    mbarrier_init(mbar_k_empty, 1);
    mbarrier_init(mbar_k_empty + 8, 1);
    mbarrier_init(mbar_k_empty + 16, 1);
    mbarrier_init(mbar_k_empty + 24, 1);
    mbarrier_init(mbar_k_empty + 32, 1);
    mbarrier_init(mbar_k_empty + 40, 1);
    fence_mbarrier_init();
    *(int*)(smem_bytes + 167436) = 0;
  }
  Range range = first_range(problem);
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  const u32 tmem = *(volatile u32*)(smem_bytes + 167440);  // columns: S' of even tiles 0, of odd ones 16, O' 32

  if (warp < 4) {
    // ---- softmax: a key of the tile in two lanes, with its scores of half of the packed rows each
    if (launch_before != 2) wait_for_launch_before();
    const int group = heads_q / heads_kv;  // query heads of a KV head
    const float factor = scale_log2;  // from scores to log2 units
    const u32 tmem_lanes = tmem + ((u32)warp << 21);  // this warp's 32 rows of tensor memory
    int* const row_query = (int*)(smem_bytes + 167168);  // of each packed row, in its sequence
    int* const row_head = row_query + 16;
    // of each packed row: the four warps' maxima or sums, of even and odd tiles
    float* const row_exchange = (float*)(smem_bytes + 166656);
    // a copy for each warp: base of the exponent, what O' is multiplied by, what is subtracted from steep rows before
    float* const row_base_of = (float*)(smem_bytes + 165888) + warp * 48;
    float* const row_alpha = row_base_of + 16;
    float* const row_steep = row_alpha + 16;
    const int first_own = lane / 2;  // this lane keeps the maxima of packed rows from here on, 8 apart, the same in every warp
    const int score_row = lane / 16 * 8;  // the first packed row of this lane's scores
    // P: row of 64 keys, 128 bytes, swizzled; 16-byte chunk c of row r is at chunk c ^ (r % 8)
    const u32 p_at = smem_p + score_row * 128 + (lane % 8) * 2, p_chunk = (warp * 2 + lane % 16 / 8) << 4;
    int* const arrivals_before = (int*)(smem_bytes + 167432);
    u32 v_stage = 0;  // K's slot of the tile whose V is next
    u32 s_buffer = 0, s_phase = 0, o_phase = 0;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
      const int rows = min(16, group * s.sequence.seqlen_q - s.m_block * 16);  // packed rows that exist
      named_barrier_sync(1, 128);  // the item before is finished
      if (threadIdx.x < 16) {
        const int packed = s.m_block * 16 + threadIdx.x;
        row_query[threadIdx.x] = packed / group;
        row_head[threadIdx.x] = s.kv_head * group + packed % group;
      }
      named_barrier_sync(1, 128);
      // Q: rows past the last and columns past the depth are zeros
  #pragma unroll 4
      for (int round = 0; round < 9; ++round) {
        const int i = 128 * round + threadIdx.x, r = i / 72, c = i % 72;
        const u32 at = smem_q + (c / 8) * 2048 + r * 128 + (((c % 8) ^ (r % 8)) << 4);
        if (r < rows) {
          copy_async_16(at, q + (s.sequence.q_start + row_query[r]) * q_stride_seq + row_head[r] * q_stride_head + 8 * c);
        } else {
          zero_16_bytes(at);
        }
      }
      copy_async_wait();
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(mbar_q_full);
      // keys before it are hidden from no row by their end
      const int clean_end = min(s.sequence.seqlen_k, (s.sequence.seqlen_k - s.sequence.seqlen_q + row_query[0]) + 1);
      float row_max[1], row_sum[8];  // of the lane's own rows over all keys; of all rows over this thread's keys
      row_max[0] = -kInfinity;
  #pragma unroll
      for (int r = 0; r < 8; ++r) row_sum[r] = 0.0f;
  #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        mbarrier_wait(mbar_s_full + 8 * s_buffer, s_phase);
        tcgen05_fence_after();
        float s_acc[8];
        tmem_load_halves_8(s_acc, tmem_lanes + s_buffer * 16);
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(s.sequence.seqlen_k, row_query[score_row + 0] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_1 = min(s.sequence.seqlen_k, row_query[score_row + 1] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_2 = min(s.sequence.seqlen_k, row_query[score_row + 2] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_3 = min(s.sequence.seqlen_k, row_query[score_row + 3] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_4 = min(s.sequence.seqlen_k, row_query[score_row + 4] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_5 = min(s.sequence.seqlen_k, row_query[score_row + 5] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_6 = min(s.sequence.seqlen_k, row_query[score_row + 6] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          const int end_7 = min(s.sequence.seqlen_k, row_query[score_row + 7] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
              - (16 * warp + lane % 16);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (0 >= end_1) s_acc[1] = -kInfinity;
          if (0 >= end_2) s_acc[2] = -kInfinity; if (0 >= end_3) s_acc[3] = -kInfinity;
          if (0 >= end_4) s_acc[4] = -kInfinity; if (0 >= end_5) s_acc[5] = -kInfinity;
          if (0 >= end_6) s_acc[6] = -kInfinity; if (0 >= end_7) s_acc[7] = -kInfinity;
        }
        // the maximum of each row: over the warp, then over the four warps
        float* const exchange = row_exchange + s_buffer * 64;
        s_phase ^= s_buffer, s_buffer ^= 1;
        {
          const float largest = over_lanes(s_acc, lane, Largest());
          if (lane % 2 == 0) exchange[warp * 16 + first_own] = largest;
        }
        named_barrier_sync(1, 128);
        bool grew = false, steep = false;
        {
          const float* const of_row = exchange + first_own;
          const float tile_max = fmaxf(fmaxf(of_row[0], of_row[16]), fmaxf(of_row[2 * 16], of_row[3 * 16]));
          // The old maximum stays while it grew by no more than 2^8: P stays in range, and O' as it is.
          float alpha = 1.0f;
          if ((tile_max - row_max[0]) * factor > 8.0f) {
            alpha = rescale_factor(row_max[0], tile_max, factor);
            row_max[0] = tile_max;
            grew = true;
          }
          float base = row_max[0] == -kInfinity ? 0.0f : row_base(row_max[0], factor), before = 0.0f;
          if (is_steep(base)) before = row_max[0], base = 0.0f, steep = true;
          if (lane % 2 == 0) row_base_of[first_own] = base, row_alpha[first_own] = alpha, row_steep[first_own] = before;
        }
        grew = __any_sync(0xffffffffu, grew), steep = __any_sync(0xffffffffu, steep);
        __syncwarp();  // every lane sees the rows of the others
        if (steep) {
  #pragma unroll
          for (int r = 0; r < 8; ++r) s_acc[r] -= row_steep[score_row + r];
        }
        if (grew) {
  #pragma unroll
          for (int r = 0; r < 8; ++r) row_sum[r] *= row_alpha[score_row + r];
        }
        // P = 2^(S' - base)
  #pragma unroll
        for (int r = 0; r < 8; ++r) {
          s_acc[r] = exp2_approx(fmaf(s_acc[r], factor, -row_base_of[score_row + r]));
          row_sum[r] += s_acc[r];
        }
        if (n > s.tile_begin) {
          if (grew) {
            #pragma unroll 1
            for (int block = 0; block < 4; ++block) {
              const u32 o_block = tmem_lanes + 32 + block * 16;
              float x[16];
              tmem_load_16(x, o_block);
              #pragma unroll
              for (int i = 0; i < 16; ++i) x[i] *= row_alpha[0 + i];
              tmem_store_floats_16(o_block, x);
            }
            tmem_wait_store();
          }
        }
        const u32 p_of_tile = p_at + v_stage * 73728;  // over columns of K that S' was the last to read
  #pragma unroll
        for (int r = 0; r < 8; r += 2)
          store_two_rows(p_of_tile + r * 128 + (p_chunk ^ (r % 8 << 4)), p_of_tile + (r + 1) * 128 + (p_chunk ^ ((r + 1) % 8 << 4)),
                         pack_bf16(s_acc[r], s_acc[r + 1]));
        // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
        const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
        if (v_rows < 64) {
          for (int i = v_rows * 8 + threadIdx.x; i < 64 * 8; i += 128) {
            zero_16_bytes(smem_v + v_stage * 73728 + 0 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 8192 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 16384 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 24576 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 32768 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 40960 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 49152 + i * 16);
            zero_16_bytes(smem_v + v_stage * 73728 + 57344 + i * 16);
          }
        }
        if (++v_stage == 2) v_stage = 0;
        fence_proxy_async();
        tcgen05_fence_before();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(mbar_p_full);
      }
      // ---- the end of the item, or of this block's part of it: sums of the rows over all keys
      float* const exchange = row_exchange + s_buffer * 64;  // not the last tile's
      {
        const float sum = over_lanes(row_sum, lane, Sum());
        if (lane % 2 == 0) exchange[warp * 16 + first_own] = sum;
      }
      mbarrier_wait(mbar_o_full, o_phase);
      o_phase ^= 1;
      tcgen05_fence_after();
      named_barrier_sync(1, 128);
      {
        const float* const of_row = exchange + first_own;
        row_sum[0] = (of_row[0] + of_row[16]) + (of_row[2 * 16] + of_row[3 * 16]);
      }
      // 1 / sum of a finished row (0 where no key was visible), and its LSE
      const auto finish = [&](int row, float maximum, float sum, bool first) {
        const float top = maximum * (factor * 0.693147181f);  // in log2 units a logit near the largest float is none
        const bool visible = sum != 0.0f;
        if (first && row < rows) lse[(long long)row_head[row] * total_q + s.sequence.q_start + row_query[row]] = visible ? top
            + log2_approx(sum) * 0.693147181f : -kInfinity;
        return sum != 0.0f ? 1.0f / sum : 0.0f;
      };
      // first element of O of a packed row
      const auto output_row = [&](int row) {
        return o + (s.sequence.q_start + row_query[row]) * o_stride_seq + row_head[row] * o_stride_head;
      };
      bool odd = false;  // some column of O is not finite
      if (s.whole) {
        float* const row_inverse = row_alpha;
        {
          const float inverse = finish(first_own, row_max[0], row_sum[0], warp == 0 && lane % 2 == 0);
          if (lane % 2 == 0) row_inverse[first_own] = inverse;
        }
        __syncwarp();
        #pragma unroll 1
        for (int block = 0; block < 4; ++block) {
          const u32 o_block = tmem_lanes + 32 + block * 16;
          float x[16];
          tmem_load_16(x, o_block);
          const int column = block * 128 + 32 * warp + lane, first_row = 0;
          odd = odd || !(x[0] * 0.0f == 0.0f);
          #pragma unroll
          for (int i = 0; i < 16; ++i) {
            const int row = first_row + i;
            if (row < rows) output_row(row)[column] = (u16)pack_bf16(x[i] * row_inverse[row], 0.0f);
          }
        }
      }
      else {
        // this block's part: O' not yet divided by the sums, row by row, then (maximum, sum) of each row
        float* const part = workspace + ((range.cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll + s.second_slot)
            * 8224;
        #pragma unroll 1
        for (int block = 0; block < 4; ++block) {
          const u32 o_block = tmem_lanes + 32 + block * 16;
          float x[16];
          tmem_load_16(x, o_block);
          const int column = block * 128 + 32 * warp + lane, first_row = 0;
          #pragma unroll
          for (int i = 0; i < 16; ++i) {
            const int row = first_row + i;
            if (row < rows) part[row * 512 + column] = x[i];
          }
        }
        if (warp == 0 && lane % 2 == 0) *(float2*)(part + 8192 + 2 * (first_own)) = make_float2(row_max[0], row_sum[0]);
        named_barrier_sync(1, 128);
        const Split split = split_of(range, s);
        if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1);
        named_barrier_sync(1, 128);
        if (*arrivals_before == split.parts - 1) {
          // the last block of the item adds the parts up, in order, and leaves the counter as it was found
          if (threadIdx.x == 0) item_counters[s.item] = 0;
          const long long stride = problem.team_heads * 2ll * 8224;
          const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll
              * 8224;
          const int shift = split.first_second ? 8224 : 0;  // part 0 may be the second of its block
      #pragma unroll 1
          for (int i = threadIdx.x; i < rows * 128; i += 128) {
            const int row = i / 128, c = i % 128;
            float maximum = -kInfinity, sum = 0.0f;
            float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      #pragma unroll 4
            for (int other = 0; other < split.parts; ++other) {
              const float* const from = parts + other * stride + (other == 0 ? shift : 0);
              const float2 row_part = __ldcg((const float2*)(from + 8192) + row);
              const float4 value = __ldcg((const float4*)(from + row * 512) + c);
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
            odd = odd || !(fmaf(out.x, out.y, out.z * out.w) * 0.0f == 0.0f);
            *(uint2*)(output_row(row) + 4 * c) = make_uint2(pack_bf16(out.x * inverse, out.y * inverse),
                pack_bf16(out.z * inverse, out.w * inverse));
          }
        }
      }
      if (same(s.sequence.seqlen_q > 1)) {
        if (any_lane(odd) && lane == 0) *(int*)(smem_bytes + 167436) = 1;
        named_barrier_sync(1, 128);
        const int again = *(int*)(smem_bytes + 167436);
        // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
        if (same(again)) {
          const int lane_32 = (int)thread_id() & 31, row_begin = same(s.m_block * 16 + min(warp * ((rows + 3) / 4), rows)),
              row_end = same(s.m_block * 16 + min((warp + 1) * ((rows + 3) / 4), rows));
          // the last key past some row's end, and the first one before some row's first, with a V that is not finite
          int highest = -1, lowest = 0x7fffffff;
          {
            const int row = row_begin, last = same(min((s.sequence.first_tile + s.sequence.num_tiles) * 64, s.sequence.seqlen_k)) - 1;
        #pragma unroll 1
            for (int first = same(max(min(s.sequence.seqlen_k, (row / group + s.sequence.seqlen_k - s.sequence.seqlen_q) + 1), 0));
                first <= last; first += 32) {
              const int key = min(first + lane_32, last);
              const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                  page = max(found, 0);
              highest = found < 0 || finite_halves((const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page
                  + (key % 64) * k_stride_seq), 256) ? highest : key;
            }
            highest = same(largest_of_lanes(highest));
          }
        #pragma unroll 1
          for (int row = row_begin; row < row_end; ++row) {
            const int begin = same(0), end = same(min(s.sequence.seqlen_k, (row / group + s.sequence.seqlen_k - s.sequence.seqlen_q) + 1));
            if (highest < end && lowest >= begin) continue;
            const u32* const query_words = (const u32*)(q + (s.sequence.q_start + row / group) * q_stride_seq
                + (s.kv_head * group + row % group) * q_stride_head);
            float maximum = -kInfinity, sum = 0.0f, out[16];
        #pragma unroll
            for (int i = 0; i < 16; ++i) out[i] = 0.0f;
            // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
            bool left = end > begin;
        #pragma unroll 1
            for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
              float score[1] = {0.0f};
              {
                const int key = max(min(first + lane_32, end - 1), begin);
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const u32* const key_words = (const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page + (key % 64) * k_stride_seq);
                UNROLL_4
                for (int i = 0; i < 288; ++i) {
                  score[0] = fmaf(low_half(query_words[i]), low_half(key_words[i]), score[0]);
                  score[0] = fmaf(high_half(query_words[i]), high_half(key_words[i]), score[0]);
                }
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
              for (int i = 0; i < 16; ++i) out[i] *= shrink;
        #pragma unroll 1
              for (int j = 0; j < 32; ++j) {
                const int key = max(min(first + j, end - 1), begin);
                const float p = lane_float(weight, j);
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
                const u32* const value_words = (const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page
                    + (key % 64) * k_stride_seq);
        #pragma unroll
                for (int i = 0; i < 16; i += 2) {
                  u32 two = value_words[min(lane_32 + 16 * i, 255)];
                  two = seen ? two : 0u;
                  out[i] = fmaf(p, low_half(two), out[i]);
                  out[i + 1] = fmaf(p, high_half(two), out[i + 1]);
                }
              }
              // what the row itself sees may leave nothing to compute
              bool finite = false;
        #pragma unroll
              for (int i = 0; i < 16; ++i) finite |= out[i] * 0.0f == 0.0f;
              left = any_lane(finite);
            }
            const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
            u16* const to = o + (s.sequence.q_start + row / group) * o_stride_seq + (s.kv_head * group + row % group) * o_stride_head;
        #pragma unroll
            for (int i = 0; i < 16; i += 2) {
              const int column = 2 * lane_32 + 32 * i;
              const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
              if (column < 512 && writes_rows()) *(u32*)(to + column) = two;
            }
          }
        }
        if (same(again)) {
          named_barrier_sync(1, 128);
          if (thread_id() == 0) *(int*)(smem_bytes + 167436) = 0;
        }
      }
    }
  } else if (warp == 4) {
    // ---- products: the warp waits, an elected lane issues
    const u32 q_desc = (smem_q >> 4) | 0x10000u, p_desc = (smem_p >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u, v_desc = (smem_v >> 4) | 0x2000000u;
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;  // K's slot of the tile whose V is next
    u32 s_buffer = 0, q_phase = 0, p_phase = 0;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
      mbarrier_wait(mbar_q_full, q_phase);
      q_phase ^= 1;
  #pragma unroll 1
      for (int n = s.tile_begin; n <= s.tile_end; ++n) {
        if (n > s.tile_begin) {
          // O' += V(n - 1)' P(n - 1)', before S'(n): what it frees is on its way to hold K(n + 1) while softmax has S'(n)
          mbarrier_wait(mbar_p_full, p_phase);
          p_phase ^= 1;
          tcgen05_fence_after();
          if (elect_one()) {
            issue_output(tmem + 32, v_desc + v_stage * 4608, p_desc + v_stage * 4608, n - 1 > s.tile_begin, mbar_v_empty + v_stage * 24);
            if (n == s.tile_end) tcgen05_commit(mbar_o_full);
          }
          if (++v_stage == 2) v_stage = 0;
        }
        if (n < s.tile_end) {
          // S'(n) = K(n) Q', chunk by chunk as K comes. Its commit tells of O', too.
          mbarrier_wait(mbar_k_full + k_stage * 24, k_phase);
          if (elect_one()) {
            issue_scores_0(tmem + s_buffer * 16, k_desc + k_stage * 4608, q_desc);
          }
          mbarrier_wait(mbar_k_full + k_stage * 24 + 8, k_phase);
          if (elect_one()) {
            issue_scores_1(tmem + s_buffer * 16, k_desc + k_stage * 4608, q_desc);
          }
          mbarrier_wait(mbar_k_full + k_stage * 24 + 16, k_phase);
          if (elect_one()) {
            issue_scores_2(tmem + s_buffer * 16, k_desc + k_stage * 4608, q_desc);
            tcgen05_commit(mbar_s_full + 8 * s_buffer);
          }
          s_buffer ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
        }
      }
    }
  } else {
    // ---- copies of K and V: tiles are read once, so first out of L2
    if (launch_before != 2) wait_for_launch_before();
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    u32 k_stage = 0;
    u32 k_phase = 1;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
      int pages, next_pages;  // of 32 tiles, one a lane, and of as many after them
      {
        const int key = s.tile_begin * 64 + lane * 64;
        next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
      }
  #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        const int turn = (n - s.tile_begin) % 32;
        if (turn == 0) {
          pages = next_pages;
          const int key = (n + 32) * 64 + lane * 64;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
        }
        const int page = __shfl_sync(0xffffffffu, pages, turn);
        mbarrier_wait(mbar_k_empty + k_stage * 24, k_phase);
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 24, 24576);
        if (lane == 0) {
          tma_load(smem_k + k_stage * 73728 + 0, &k_map, mbar_k_full + k_stage * 24, 0, 0, s.kv_head, page, 0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 8192, &k_map, mbar_k_full + k_stage * 24, 64, 0, s.kv_head, page, 0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 16384, &k_map, mbar_k_full + k_stage * 24, 128, 0, s.kv_head, page, 0x12F0000000000000ull);
        }
        mbarrier_wait(mbar_k_empty + k_stage * 24 + 8, k_phase);
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 24 + 8, 24576);
        if (lane == 0) {
          tma_load(smem_k + k_stage * 73728 + 24576, &k_map, mbar_k_full + k_stage * 24 + 8, 192, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 32768, &k_map, mbar_k_full + k_stage * 24 + 8, 256, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 40960, &k_map, mbar_k_full + k_stage * 24 + 8, 320, 0, s.kv_head, page,
              0x12F0000000000000ull);
        }
        mbarrier_wait(mbar_k_empty + k_stage * 24 + 16, k_phase);
        __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 24 + 16, 24576);
        if (lane == 0) {
          tma_load(smem_k + k_stage * 73728 + 49152, &k_map, mbar_k_full + k_stage * 24 + 16, 384, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 57344, &k_map, mbar_k_full + k_stage * 24 + 16, 448, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 65536, &k_map, mbar_k_full + k_stage * 24 + 16, 512, 0, s.kv_head, page,
              0x12F0000000000000ull);
        }
        k_phase ^= k_stage; k_stage ^= 1;
      }
    }
    // who waits for this launch has waited for the one before it, too
    wait_for_launch_before();
  }
  // Nobody reads tensor memory any more. (Neither warp nor address is kept in a register until here.)
  tcgen05_fence_before();
  __syncthreads();
  if (threadIdx.x / 32 == 4) {
    tcgen05_fence_after();
    tmem_dealloc(*(volatile u32*)(smem_bytes + 167440), 128);
  }

  #endif
}
