// decode_bf16_d128_paged16_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"decode_bf16_d128_paged16_sm90a","target":"sm_90a","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":128,"ov_depth":128,"rope_depth":0,"nope_depth":128,"q_depth":128,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"paged","page_size":16},"mask":"causal","score_mod":"none","sink":false,"lse":true,"scale":0.08838834764831843,"mma_shape":[64,16,16],"BM":16,"BN":64,"BK":128,"num_threads":192,"swizzle":"128B","num_kv_stages":3,"num_qk_stages":1,"shared_ring":false,"tma_fold":"none","schedule":"sm90_decode"}
// Schedule sm90_decode: 16 packed query rows by 64 keys a tile, 2 KV stages in each of 2 blocks a multiprocessor, or 3 in one.
// Shared memory (109568 bytes with 3 stages):
//         0 ..    4096  q          Q: the packed query rows
//      4096 ..    6144  p          P, rows = query rows
//      6144 ..   10240  o          O on its way out
//     10240 ..   10496  max        maximum of each row, of each warp
//     10496 ..   10624  mbar       K, V and cell rings
//     10624 ..   10632  cells      cells handed to the consumers
//     10632 ..   10648  flag       this block's share of an item's parts
//     11264 ..   60416  k          K stages
//     60416 ..  109568  v          V stages
//
// Regenerate: kiln generate decode_bf16_d128_paged16_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin decode_bf16_d128_paged16_sm90a.cu

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

// The thread's number, read where it is asked for: what follows from it is not computed before a loop that needs all
// registers.
__device__ __forceinline__ int thread_here() {
  u32 thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (int)thread;
}

// As stmatrix_x4 with every matrix transposed on its way.
__device__ __forceinline__ void stmatrix_x4_trans(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
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

// 16 bytes from global to shared memory, on their way when the thread goes on.
__device__ __forceinline__ void copy_async_16(u32 dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
// Returns once this thread's copies are there.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Shared to global memory.
__device__ __forceinline__ void copy_16_bytes(u16* dst, u32 src) {
  asm volatile(
      "{ .reg .b32 a, b, c, d; ld.shared.v4.u32 {a, b, c, d}, [%1]; st.global.v4.u32 [%0], {a, b, c, d}; }" ::"l"(dst), "r"(src)
      : "memory");
}

// d += A (64 x 16, shared memory) * B (16 x 16, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n16k16_ss(float (&d)[8], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, 1, 1, 1, 0, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b));
}

// d = A (64 x 16, shared memory) * B (16 x 16, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n16k16_ss_first(float (&d)[8], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, 0, 1, 1, 0, 0;\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])
      : "l"(a), "l"(b));
}

// d += A (64 x 16, shared memory, M contiguous) * B (16 x 16, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n16k16_ss_ta(float (&d)[8], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, 1, 1, 1, 1, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b));
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
  const int page = page_table[(long long)batch * page_table_stride + row / 16];
  return (unsigned)page < (unsigned)num_pages ? page : -1;
}

extern "C" __global__ void __launch_bounds__(192, 2)
kiln_decode_bf16_d128_paged16_sm90a(const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const u16* q,
    u16* o,
    float* lse,
    float* workspace,
    int* item_counters,
    const int num_kv_stages,
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
    const u16* k,
    const u16* v,
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
  const u32 smem_k = smem + 11264, smem_v = smem_k + num_kv_stages * 16384, smem_q = smem, smem_o = smem + 6144;
  const u32 smem_p = smem + 4096;
  const u32 mbar_k_full = smem + 10496, mbar_k_empty = smem + 10520;
  const u32 mbar_v_full = smem + 10544, mbar_v_empty = smem + 10568;
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads, launch_before};
  const int lane = threadIdx.x % 32;

  if (threadIdx.x == 128) {
    prefetch_tensor_map(&k_map); prefetch_tensor_map(&v_map);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_empty, 4);
    mbarrier_init(mbar_k_empty + 8, 4);
    mbarrier_init(mbar_k_empty + 16, 4);
    mbarrier_init(mbar_v_full, 1);
    mbarrier_init(mbar_v_full + 8, 1);
    mbarrier_init(mbar_v_full + 16, 1);
    mbarrier_init(mbar_v_empty, 4);
    mbarrier_init(mbar_v_empty + 8, 4);
    mbarrier_init(mbar_v_empty + 16, 4);
    fence_mbarrier_init();
    *(int*)(smem_bytes + 10644) = 0;
  }
  Range range = first_range(problem);
  __syncthreads();

  if (threadIdx.x >= 160) {

    // ---- producer warp of V: tiles are read once, so first out of L2
    u32 v_stage = 0;
    u32 v_phase = 1;
    if (launch_before != 2) {
      if (launch_before == 1) {
        Range ahead = range;
        Segment s;
        if (next_segment(problem, ahead, s)) {
          int pages;  // of the first 8 tiles, one a lane
          const int key = s.tile_begin * 64 + lane * 16;
          pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
          const int page = __shfl_sync(0xffffffffu, pages, lane);
          if (lane < 4) {
            tma_prefetch(&v_map, 0, 0, s.kv_head, page);
            tma_prefetch(&v_map, 64, 0, s.kv_head, page);
          }
        }
      }
      wait_for_launch_before();
    }
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    Segment s;
    #pragma unroll 1
    while (next_segment(problem, range, s)) {
      int pages, next_pages;  // of 8 tiles, one a lane, and of as many after them
      {
        const int key = s.tile_begin * 64 + lane * 16;
        next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
      }
      #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        const int turn = (n - s.tile_begin) % 8;
        if (turn == 0) {
          pages = next_pages;
          const int key = (n + 8) * 64 + lane * 16;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
        }
        const int page = __shfl_sync(0xffffffffu, pages, turn * 4 + lane);
        // V(n) into the next slot
        mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
        __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_v_full + v_stage * 8, 16384);
        if (lane < 4) {
          tma_load(smem_v + v_stage * 16384 + 0 + lane * 2048, &v_map, mbar_v_full + v_stage * 8, 0, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_v + v_stage * 16384 + 8192 + lane * 2048, &v_map, mbar_v_full + v_stage * 8, 64, 0, s.kv_head, page,
              0x12F0000000000000ull);
        }
        if (++v_stage == num_kv_stages) { v_stage = 0; v_phase ^= 1; }
      }
    }
    // who waits for this launch has waited for the one before it, too
    wait_for_launch_before();
  } else if (threadIdx.x >= 128) {

    // ---- producer warp of K: tiles are read once, so first out of L2
    u32 k_stage = 0;
    u32 k_phase = 1;
    if (launch_before != 2) {
      if (launch_before == 1) {
        Range ahead = range;
        Segment s;
        if (next_segment(problem, ahead, s)) {
          int pages;  // of the first 8 tiles, one a lane
          const int key = s.tile_begin * 64 + lane * 16;
          pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
          const int page = __shfl_sync(0xffffffffu, pages, lane);
          if (lane < 4) {
            tma_prefetch(&k_map, 0, 0, s.kv_head, page);
            tma_prefetch(&k_map, 64, 0, s.kv_head, page);
          }
        }
      }
      wait_for_launch_before();
    }
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    Segment s;
    #pragma unroll 1
    while (next_segment(problem, range, s)) {
      int pages, next_pages;  // of 8 tiles, one a lane, and of as many after them
      {
        const int key = s.tile_begin * 64 + lane * 16;
        next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
      }
      #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        const int turn = (n - s.tile_begin) % 8;
        if (turn == 0) {
          pages = next_pages;
          const int key = (n + 8) * 64 + lane * 16;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 16] : num_pages;
        }
        const int page = __shfl_sync(0xffffffffu, pages, turn * 4 + lane);
        // K(n) into the next slot
        mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
        __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 16384);
        if (lane < 4) {
          tma_load(smem_k + k_stage * 16384 + 0 + lane * 2048, &k_map, mbar_k_full + k_stage * 8, 0, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 16384 + 8192 + lane * 2048, &k_map, mbar_k_full + k_stage * 8, 64, 0, s.kv_head, page,
              0x12F0000000000000ull);
        }
        if (++k_stage == num_kv_stages) { k_stage = 0; k_phase ^= 1; }
      }
    }
  } else {

    // ---- consumer warpgroup
    if (launch_before != 2) wait_for_launch_before();
    const int warp = threadIdx.x / 32;
    const int group = heads_q / heads_kv;  // query heads of a KV head
    const float factor = scale_log2;  // from scores to log2 units
    const u32 q_desc = (smem_q >> 4) | 0x10000u;
    const u32 p_desc = (smem_p >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u;
    const u32 v_desc = (smem_v >> 4) | 0x2000000u;
    // stmatrix addresses, transposed: row lane % 8 + 8 * (lane / 16), 16-byte chunk 2 * warp + (lane / 8) % 2, swizzled
    const u32 transposed_at = ((lane & 7) + 8 * (lane >> 4)) * 128 + (((2 * warp + ((lane >> 3) & 1)) ^ (lane & 7)) << 4);
    float* const row_exchange = (float*)(smem_bytes + 10240);
    int* const own_share = (int*)(smem_bytes + 10632);
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;
    u32 v_phase = 0;
    float s_acc_0[8];  // S': keys 0 to 63
    float o_acc_0[8];  // O': columns 0 to 63 of V
    float o_acc_1[8];  // O': columns 64 to 127 of V
    float row_max[4], row_sum[4];
    bool steep;  // some row of the warp has scores that are too large for a rounded base
    Segment s;
    #pragma unroll 1
    while (next_segment(problem, range, s)) {
      const int rows = min(16, group * s.sequence.seqlen_q - s.m_block * 16);  // packed rows that exist
      // Q: packed row r is query position r / group and query head r % group; rows past the last are zeros
      #pragma unroll
      for (int round = 0; round < 2; ++round) {
        const int i = 128 * round + threadIdx.x, r = i / 16, c = i % 16;
        const u32 at = smem_q + (c / 8) * 2048 + r * 128 + (((c % 8) ^ (r % 8)) << 4);
        const int packed = s.m_block * 16 + r, position = packed / group;
        if (r < rows) copy_async_16(at, q + (s.sequence.q_start + position) * q_stride_seq
            + (s.kv_head * group + packed % group) * q_stride_head + 8 * c);
        else zero_16_bytes(at);
      }
      copy_async_wait();
      fence_proxy_async();
      named_barrier_sync(1, 128);
      row_max[0] = -kInfinity; row_sum[0] = 0.0f;
      row_max[1] = -kInfinity; row_sum[1] = 0.0f;
      row_max[2] = -kInfinity; row_sum[2] = 0.0f;
      row_max[3] = -kInfinity; row_sum[3] = 0.0f;
      steep = false;
      o_acc_0[0] = o_acc_0[1] = o_acc_0[2] = o_acc_0[3] = 0.0f;
      o_acc_0[4] = o_acc_0[5] = o_acc_0[6] = o_acc_0[7] = 0.0f;
      o_acc_1[0] = o_acc_1[1] = o_acc_1[2] = o_acc_1[3] = 0.0f;
      o_acc_1[4] = o_acc_1[5] = o_acc_1[6] = o_acc_1[7] = 0.0f;
      // keys before it are hidden from no row by their end
      const int clean_end = min(s.sequence.seqlen_k, (s.sequence.seqlen_k - s.sequence.seqlen_q + s.m_block * 16 / group) + 1);
      #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        // S' = K(n) Q'
        mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
        const u32 k_low = k_desc + k_stage * 1024;
        wgmma_fence();
        wgmma_m64n16k16_ss_first(s_acc_0, descriptor(k_low + 0, 0x40000040u), descriptor(q_desc + 0, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 2, 0x40000040u), descriptor(q_desc + 2, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 4, 0x40000040u), descriptor(q_desc + 4, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 6, 0x40000040u), descriptor(q_desc + 6, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 512, 0x40000040u), descriptor(q_desc + 128, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 514, 0x40000040u), descriptor(q_desc + 130, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 516, 0x40000040u), descriptor(q_desc + 132, 0x40000040u));
        wgmma_m64n16k16_ss(s_acc_0, descriptor(k_low + 518, 0x40000040u), descriptor(q_desc + 134, 0x40000040u));
        wgmma_commit();
        WGMMA_WAIT(0);
        if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
        if (++k_stage == num_kv_stages) { k_stage = 0; k_phase ^= 1; }
        if (n > s.tile_begin) {
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);  // V(n - 1)
          if (++v_stage == num_kv_stages) { v_stage = 0; v_phase ^= 1; }
        }
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(s.sequence.seqlen_k, (s.m_block * 16 + 0 + 2 * (lane & 3)) / group + s.sequence.seqlen_k
              - s.sequence.seqlen_q + 1) - (n * 64) - (16 * warp + (lane >> 2));
          const int end_1 = min(s.sequence.seqlen_k, (s.m_block * 16 + 1 + 2 * (lane & 3)) / group + s.sequence.seqlen_k
              - s.sequence.seqlen_q + 1) - (n * 64) - (16 * warp + (lane >> 2));
          const int end_2 = min(s.sequence.seqlen_k, (s.m_block * 16 + 8 + 2 * (lane & 3)) / group + s.sequence.seqlen_k
              - s.sequence.seqlen_q + 1) - (n * 64) - (16 * warp + (lane >> 2));
          const int end_3 = min(s.sequence.seqlen_k, (s.m_block * 16 + 9 + 2 * (lane & 3)) / group + s.sequence.seqlen_k
              - s.sequence.seqlen_q + 1) - (n * 64) - (16 * warp + (lane >> 2));
          if (0 >= end_0) s_acc_0[0] = -kInfinity; if (0 >= end_1) s_acc_0[1] = -kInfinity;
          if (8 >= end_0) s_acc_0[2] = -kInfinity; if (8 >= end_1) s_acc_0[3] = -kInfinity;
          if (0 >= end_2) s_acc_0[4] = -kInfinity; if (0 >= end_3) s_acc_0[5] = -kInfinity;
          if (8 >= end_2) s_acc_0[6] = -kInfinity; if (8 >= end_3) s_acc_0[7] = -kInfinity;
        }
        // maximum of each row over the tile
        float tile_max[4];
        tile_max[0] = fmaxf(s_acc_0[0], s_acc_0[2]);
        tile_max[1] = fmaxf(s_acc_0[1], s_acc_0[3]);
        tile_max[2] = fmaxf(s_acc_0[4], s_acc_0[6]);
        tile_max[3] = fmaxf(s_acc_0[5], s_acc_0[7]);
        tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 4));
        tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 4));
        tile_max[2] = fmaxf(tile_max[2], __shfl_xor_sync(0xffffffffu, tile_max[2], 4));
        tile_max[3] = fmaxf(tile_max[3], __shfl_xor_sync(0xffffffffu, tile_max[3], 4));
        tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 8));
        tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 8));
        tile_max[2] = fmaxf(tile_max[2], __shfl_xor_sync(0xffffffffu, tile_max[2], 8));
        tile_max[3] = fmaxf(tile_max[3], __shfl_xor_sync(0xffffffffu, tile_max[3], 8));
        tile_max[0] = fmaxf(tile_max[0], __shfl_xor_sync(0xffffffffu, tile_max[0], 16));
        tile_max[1] = fmaxf(tile_max[1], __shfl_xor_sync(0xffffffffu, tile_max[1], 16));
        tile_max[2] = fmaxf(tile_max[2], __shfl_xor_sync(0xffffffffu, tile_max[2], 16));
        tile_max[3] = fmaxf(tile_max[3], __shfl_xor_sync(0xffffffffu, tile_max[3], 16));
        if (lane < 4) {
          *(float2*)(row_exchange + warp * 16 + 0 + 2 * lane) = make_float2(tile_max[0], tile_max[1]);
          *(float2*)(row_exchange + warp * 16 + 8 + 2 * lane) = make_float2(tile_max[2], tile_max[3]);
        }
        named_barrier_sync(1, 128);  // also: every warp's product with P(n - 1) is done
        bool grew = false;
        float before[4], base[4];
        {
          const float2 m_0 = *(const float2*)(row_exchange + 0 + 2 * (lane & 3));
          const float2 m_1 = *(const float2*)(row_exchange + 16 + 2 * (lane & 3));
          const float2 m_2 = *(const float2*)(row_exchange + 32 + 2 * (lane & 3));
          const float2 m_3 = *(const float2*)(row_exchange + 48 + 2 * (lane & 3));
          before[0] = row_max[0];
          row_max[0] = fmaxf(row_max[0], fmaxf(fmaxf(m_0.x, m_1.x), fmaxf(m_2.x, m_3.x)));
          base[0] = row_max[0] == -kInfinity ? 0.0f : row_base(row_max[0], factor);
          grew = grew || row_max[0] > before[0];
          before[1] = row_max[1];
          row_max[1] = fmaxf(row_max[1], fmaxf(fmaxf(m_0.y, m_1.y), fmaxf(m_2.y, m_3.y)));
          base[1] = row_max[1] == -kInfinity ? 0.0f : row_base(row_max[1], factor);
          grew = grew || row_max[1] > before[1];
        }
        {
          const float2 m_0 = *(const float2*)(row_exchange + 8 + 2 * (lane & 3));
          const float2 m_1 = *(const float2*)(row_exchange + 24 + 2 * (lane & 3));
          const float2 m_2 = *(const float2*)(row_exchange + 40 + 2 * (lane & 3));
          const float2 m_3 = *(const float2*)(row_exchange + 56 + 2 * (lane & 3));
          before[2] = row_max[2];
          row_max[2] = fmaxf(row_max[2], fmaxf(fmaxf(m_0.x, m_1.x), fmaxf(m_2.x, m_3.x)));
          base[2] = row_max[2] == -kInfinity ? 0.0f : row_base(row_max[2], factor);
          grew = grew || row_max[2] > before[2];
          before[3] = row_max[3];
          row_max[3] = fmaxf(row_max[3], fmaxf(fmaxf(m_0.y, m_1.y), fmaxf(m_2.y, m_3.y)));
          base[3] = row_max[3] == -kInfinity ? 0.0f : row_base(row_max[3], factor);
          grew = grew || row_max[3] > before[3];
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
          const float alpha_2 = rescale_factor(before[2], row_max[2], factor);
          row_sum[2] *= alpha_2;
          o_acc_0[4] *= alpha_2; o_acc_0[6] *= alpha_2;
          o_acc_1[4] *= alpha_2; o_acc_1[6] *= alpha_2;
          const float alpha_3 = rescale_factor(before[3], row_max[3], factor);
          row_sum[3] *= alpha_3;
          o_acc_0[5] *= alpha_3; o_acc_0[7] *= alpha_3;
          o_acc_1[5] *= alpha_3; o_acc_1[7] *= alpha_3;
          steep = __any_sync(0xffffffffu, is_steep(base[0]) || is_steep(base[1]) || is_steep(base[2]) || is_steep(base[3]));
        }
        if (steep) {
          if (is_steep(base[0])) {
            s_acc_0[0] -= row_max[0]; s_acc_0[2] -= row_max[0];
            base[0] = 0.0f;
          }
          if (is_steep(base[1])) {
            s_acc_0[1] -= row_max[1]; s_acc_0[3] -= row_max[1];
            base[1] = 0.0f;
          }
          if (is_steep(base[2])) {
            s_acc_0[4] -= row_max[2]; s_acc_0[6] -= row_max[2];
            base[2] = 0.0f;
          }
          if (is_steep(base[3])) {
            s_acc_0[5] -= row_max[3]; s_acc_0[7] -= row_max[3];
            base[3] = 0.0f;
          }
        }
        // P(n) = exp2(S' - max), and its row sums
        s_acc_0[0] = exp2_approx(fmaf(s_acc_0[0], factor, -base[0]));
        s_acc_0[2] = exp2_approx(fmaf(s_acc_0[2], factor, -base[0])); row_sum[0] += s_acc_0[0] + s_acc_0[2];
        s_acc_0[1] = exp2_approx(fmaf(s_acc_0[1], factor, -base[1]));
        s_acc_0[3] = exp2_approx(fmaf(s_acc_0[3], factor, -base[1])); row_sum[1] += s_acc_0[1] + s_acc_0[3];
        s_acc_0[4] = exp2_approx(fmaf(s_acc_0[4], factor, -base[2]));
        s_acc_0[6] = exp2_approx(fmaf(s_acc_0[6], factor, -base[2])); row_sum[2] += s_acc_0[4] + s_acc_0[6];
        s_acc_0[5] = exp2_approx(fmaf(s_acc_0[5], factor, -base[3]));
        s_acc_0[7] = exp2_approx(fmaf(s_acc_0[7], factor, -base[3])); row_sum[3] += s_acc_0[5] + s_acc_0[7];
        stmatrix_x4_trans(smem_p + 0 + transposed_at + 0, pack_bf16(s_acc_0[0], s_acc_0[1]), pack_bf16(s_acc_0[2], s_acc_0[3]),
            pack_bf16(s_acc_0[4], s_acc_0[5]), pack_bf16(s_acc_0[6], s_acc_0[7]));
        // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
        const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
        if (v_rows < 64) {
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          for (int i = v_rows * 8 + threadIdx.x; i < 512; i += 128) {
            zero_16_bytes(smem_v + v_stage * 16384 + 0 + i * 16);
            zero_16_bytes(smem_v + v_stage * 16384 + 8192 + i * 16);
          }
        }
        fence_proxy_async();
        named_barrier_sync(1, 128);
        // O' += V(n)' P(n)'
        mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
        const u32 v_low = v_desc + v_stage * 1024;
        wgmma_fence();
        wgmma_m64n16k16_ss_ta(o_acc_0, descriptor(v_low + 0, 0x40000040u), descriptor(p_desc + 0, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_0, descriptor(v_low + 128, 0x40000040u), descriptor(p_desc + 2, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_0, descriptor(v_low + 256, 0x40000040u), descriptor(p_desc + 4, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_0, descriptor(v_low + 384, 0x40000040u), descriptor(p_desc + 6, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_1, descriptor(v_low + 512, 0x40000040u), descriptor(p_desc + 0, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_1, descriptor(v_low + 640, 0x40000040u), descriptor(p_desc + 2, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_1, descriptor(v_low + 768, 0x40000040u), descriptor(p_desc + 4, 0x40000040u));
        wgmma_m64n16k16_ss_ta(o_acc_1, descriptor(v_low + 896, 0x40000040u), descriptor(p_desc + 6, 0x40000040u));
        wgmma_commit();
      }
      WGMMA_WAIT(0);
      if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
      if (++v_stage == num_kv_stages) { v_stage = 0; v_phase ^= 1; }

      // ---- row sums over the lanes and warps
      row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 4);
      row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 4);
      row_sum[2] += __shfl_xor_sync(0xffffffffu, row_sum[2], 4);
      row_sum[3] += __shfl_xor_sync(0xffffffffu, row_sum[3], 4);
      row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 8);
      row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 8);
      row_sum[2] += __shfl_xor_sync(0xffffffffu, row_sum[2], 8);
      row_sum[3] += __shfl_xor_sync(0xffffffffu, row_sum[3], 8);
      row_sum[0] += __shfl_xor_sync(0xffffffffu, row_sum[0], 16);
      row_sum[1] += __shfl_xor_sync(0xffffffffu, row_sum[1], 16);
      row_sum[2] += __shfl_xor_sync(0xffffffffu, row_sum[2], 16);
      row_sum[3] += __shfl_xor_sync(0xffffffffu, row_sum[3], 16);
      if (lane < 4) {
        *(float2*)(row_exchange + warp * 16 + 0 + 2 * lane) = make_float2(row_sum[0], row_sum[1]);
        *(float2*)(row_exchange + warp * 16 + 8 + 2 * lane) = make_float2(row_sum[2], row_sum[3]);
      }
      named_barrier_sync(1, 128);
      row_sum[0] = row_exchange[0 + 2 * (lane & 3)] + row_exchange[16 + 2 * (lane & 3)] + row_exchange[32 + 2 * (lane & 3)]
          + row_exchange[48 + 2 * (lane & 3)];
      row_sum[1] = row_exchange[1 + 2 * (lane & 3)] + row_exchange[17 + 2 * (lane & 3)] + row_exchange[33 + 2 * (lane & 3)]
          + row_exchange[49 + 2 * (lane & 3)];
      row_sum[2] = row_exchange[8 + 2 * (lane & 3)] + row_exchange[24 + 2 * (lane & 3)] + row_exchange[40 + 2 * (lane & 3)]
          + row_exchange[56 + 2 * (lane & 3)];
      row_sum[3] = row_exchange[9 + 2 * (lane & 3)] + row_exchange[25 + 2 * (lane & 3)] + row_exchange[41 + 2 * (lane & 3)]
          + row_exchange[57 + 2 * (lane & 3)];

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
        float inv_sum[4];
        {
          const int packed = s.m_block * 16 + (0 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
          const float top = row_max[0] * (factor * 0.693147181f), sum = row_sum[0];
          inv_sum[0] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (threadIdx.x < 4 && (0 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        {
          const int packed = s.m_block * 16 + (1 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
          const float top = row_max[1] * (factor * 0.693147181f), sum = row_sum[1];
          inv_sum[1] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (threadIdx.x < 4 && (1 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        {
          const int packed = s.m_block * 16 + (8 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
          const float top = row_max[2] * (factor * 0.693147181f), sum = row_sum[2];
          inv_sum[2] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (threadIdx.x < 4 && (8 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        {
          const int packed = s.m_block * 16 + (9 + 2 * (lane & 3)), head = s.kv_head * group + packed % group;
          const float top = row_max[3] * (factor * 0.693147181f), sum = row_sum[3];
          inv_sum[3] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (threadIdx.x < 4 && (9 + 2 * (lane & 3)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        stmatrix_x4_trans(smem_o + 0 + transposed_at + 0, pack_bf16(o_acc_0[0] * inv_sum[0], o_acc_0[1] * inv_sum[1]),
            pack_bf16(o_acc_0[2] * inv_sum[0], o_acc_0[3] * inv_sum[1]), pack_bf16(o_acc_0[4] * inv_sum[2], o_acc_0[5] * inv_sum[3]),
            pack_bf16(o_acc_0[6] * inv_sum[2], o_acc_0[7] * inv_sum[3]));
        stmatrix_x4_trans(smem_o + 2048 + transposed_at + 0, pack_bf16(o_acc_1[0] * inv_sum[0], o_acc_1[1] * inv_sum[1]),
            pack_bf16(o_acc_1[2] * inv_sum[0], o_acc_1[3] * inv_sum[1]), pack_bf16(o_acc_1[4] * inv_sum[2], o_acc_1[5] * inv_sum[3]),
            pack_bf16(o_acc_1[6] * inv_sum[2], o_acc_1[7] * inv_sum[3]));
        named_barrier_sync(1, 128);
        {
          // a thread has one chunk of each row, 8 rows apart
          const int thread = thread_here(), first = thread / 16, c = thread % 16;
          const int step_position = 8 / group, step_of_group = 8 % group;
          int position = (s.m_block * 16 + first) / group, of_group = (s.m_block * 16 + first) % group;
          #pragma unroll 1
          for (int r = first; r < rows; r += 8) {
            copy_16_bytes(o + (s.sequence.q_start + position) * o_stride_seq + (s.kv_head * group + of_group) * o_stride_head + 8 * c,
                smem_o + (c / 8) * 2048 + r * 128 + (((c % 8) ^ (r % 8)) << 4));
            position += step_position; of_group += step_of_group;
            if (of_group >= group) { of_group -= group; ++position; }
          }
        }
      } else {
        // this block's part
        float* const part = workspace + ((range.cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll + s.second_slot)
            * 2080;
        if (0 + 2 * (lane & 3) < rows) {
          float* const at = part + (0 + 2 * (lane & 3)) * 128 + 16 * warp + (lane >> 2);
          at[0] = o_acc_0[0]; at[8] = o_acc_0[2];
          at[64] = o_acc_1[0]; at[72] = o_acc_1[2];
          if (threadIdx.x < 4) *(float2*)(part + 2048 + 2 * (0 + 2 * lane)) = make_float2(row_max[0], row_sum[0]);
        }
        if (1 + 2 * (lane & 3) < rows) {
          float* const at = part + (1 + 2 * (lane & 3)) * 128 + 16 * warp + (lane >> 2);
          at[0] = o_acc_0[1]; at[8] = o_acc_0[3];
          at[64] = o_acc_1[1]; at[72] = o_acc_1[3];
          if (threadIdx.x < 4) *(float2*)(part + 2048 + 2 * (1 + 2 * lane)) = make_float2(row_max[1], row_sum[1]);
        }
        if (8 + 2 * (lane & 3) < rows) {
          float* const at = part + (8 + 2 * (lane & 3)) * 128 + 16 * warp + (lane >> 2);
          at[0] = o_acc_0[4]; at[8] = o_acc_0[6];
          at[64] = o_acc_1[4]; at[72] = o_acc_1[6];
          if (threadIdx.x < 4) *(float2*)(part + 2048 + 2 * (8 + 2 * lane)) = make_float2(row_max[2], row_sum[2]);
        }
        if (9 + 2 * (lane & 3) < rows) {
          float* const at = part + (9 + 2 * (lane & 3)) * 128 + 16 * warp + (lane >> 2);
          at[0] = o_acc_0[5]; at[8] = o_acc_0[7];
          at[64] = o_acc_1[5]; at[72] = o_acc_1[7];
          if (threadIdx.x < 4) *(float2*)(part + 2048 + 2 * (9 + 2 * lane)) = make_float2(row_max[3], row_sum[3]);
        }
        named_barrier_sync(1, 128);
        const Split split = split_of(range, s);
        const bool waits = rows > 4 && split.parts > 4 && range.position >= range.end;
        if (threadIdx.x == 0) share_parts(item_counters + s.item, split.parts, waits, own_share);
        named_barrier_sync(1, 128);
        const int share = own_share[0], shares = own_share[1];
        int known_before = -1;
        if (threadIdx.x == 0 && own_share[2] > 0) known_before = atomicAdd(item_counters + s.item, kKnowing);
        if (share >= 0) {
          // the parts are added up in their order; this block has these rows
          const int rows_each = (rows + shares - 1) / shares;
          own_first = min(share * rows_each, rows), own_rows = min(rows_each, rows - own_first);
          const long long stride = problem.team_heads * 2ll * 2080;
          const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll
              * 2080;
          const int shift = split.first_second ? 2080 : 0;  // part 0 may be the second of its block
          if (split.parts <= 4) {
            #pragma unroll 1
            for (int r = 4 * warp; r < rows; r += 16) {
              float all = -kInfinity, inverse = 0.0f, weight = 0.0f;  // of a row; lane i: weight of part i % 8 of row r + i / 8
              #pragma unroll 1
              for (int c = lane; c - lane < 32; c += 32) {
                // the first parts are on their way while the rows' maxima are found
                float4 ahead[16];
                #pragma unroll
                for (int j = 0; j < 16; ++j) {
                  const int i = j % 4, row = r + j / 4;
                  ahead[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                  if (i < split.parts && row < rows) ahead[j] = __ldcg((const float4*)(parts + i * stride + (i == 0 ? shift : 0) + row * 128
                      + 4 * c));
                }
                if (c == lane) {
                  // maximum and sum of a row over all parts: a part a lane
                  const int row = min(r + lane / 8, rows - 1);
                  float top = -kInfinity, sum = 0.0f, first = -kInfinity;
                  #pragma unroll 1
                  for (int i = lane % 8; i < split.parts; i += 8) {
                    const float2 other = __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 2048 + 2 * row));
                    if (i < 8) first = other.x;
                    const float higher = fmaxf(top, other.x);
                    sum = sum * rescale_factor(top, higher, factor) + other.y * rescale_factor(other.x, higher, factor);
                    top = higher;
                  }
                  all = top;
                  for (int step = 4; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, step));
                  sum *= rescale_factor(top, all, factor);
                  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
                  const float total = sum;
                  {
                    const int packed = s.m_block * 16 + row, head = s.kv_head * group + packed % group;
                    const float top = all * (factor * 0.693147181f), sum = total;
                    inverse = sum != 0.0f ? 1.0f / sum : 0.0f;
                    if (lane % 8 == 0 && r + lane / 8 < rows && row < rows) lse[(long long)head * total_q + s.sequence.q_start
                        + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
                  }
                  weight = rescale_factor(first, all, factor);
                }
                #pragma unroll
                for (int g = 0; g < 4; ++g) {
                  const int row = r + g, lead = 8 * g;
                  const float row_top = __shfl_sync(0xffffffffu, all, lead);
                  const float row_inverse = __shfl_sync(0xffffffffu, inverse, lead);
                  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                  #pragma unroll
                  for (int i = 0; i < 4; ++i) {
                    const float w = __shfl_sync(0xffffffffu, weight, lead + i);
                    sum.x += w * ahead[4 * g + i].x; sum.y += w * ahead[4 * g + i].y;
                    sum.z += w * ahead[4 * g + i].z; sum.w += w * ahead[4 * g + i].w;
                  }
                  if (row < rows && c < 32) {
                    #pragma unroll 4
                    for (int i = 4; i < split.parts; ++i) {
                      const float* const other = parts + i * stride;
                      const float4 o = __ldcg((const float4*)(other + row * 128 + 4 * c));
                      const float w = rescale_factor(__ldcg(other + 2048 + 2 * row), row_top, factor);
                      sum.x += w * o.x; sum.y += w * o.y; sum.z += w * o.z; sum.w += w * o.w;
                    }
                    odd = odd || !(fmaf(sum.x, sum.y, sum.z * sum.w) * 0.0f == 0.0f);
                    const int packed = s.m_block * 16 + row;
                    *(uint2*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                        + (s.kv_head * group + packed % group) * o_stride_head
                        + 4 * c) = make_uint2(pack_bf16(sum.x * row_inverse, sum.y * row_inverse),
                        pack_bf16(sum.z * row_inverse, sum.w * row_inverse));
                  }
                }
              }
            }
          } else {
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
                    const float2 other = __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 2048 + 2 * row));
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
                    const int packed = s.m_block * 16 + row, head = s.kv_head * group + packed % group;
                    const float top = all * (factor * 0.693147181f), sum = total;
                    inverse = sum != 0.0f ? 1.0f / sum : 0.0f;
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
                      const float w = rescale_factor(__ldcg(other + 2048 + 2 * row), row_top, factor);
                      sum.x += w * o.x; sum.y += w * o.y; sum.z += w * o.z; sum.w += w * o.w;
                    }
                    odd = odd || !(fmaf(sum.x, sum.y, sum.z * sum.w) * 0.0f == 0.0f);
                    const int packed = s.m_block * 16 + row;
                    *(uint2*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                        + (s.kv_head * group + packed % group) * o_stride_head
                        + 4 * c) = make_uint2(pack_bf16(sum.x * row_inverse, sum.y * row_inverse),
                        pack_bf16(sum.z * row_inverse, sum.w * row_inverse));
                  }
                }
              }
            }
          }
        }
        // the last block that knows leaves the counter as it was found
        if (threadIdx.x == 0 && own_share[2] > 0 && knows_last(known_before, own_share[2])) atomicExch(item_counters + s.item, 0);
      }
      if (same(s.sequence.seqlen_q > 1)) {
        if (any_lane(odd) && lane == 0) *(int*)(smem_bytes + 10644) = 1;
        named_barrier_sync(1, 128);
        const int again = *(int*)(smem_bytes + 10644);
        // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
        if (same(again)) {
          const int lane_32 = (int)thread_id() & 31, row_begin = same(s.m_block * 16 + own_first
              + min(warp * ((own_rows + 3) / 4), own_rows)),
              row_end = same(s.m_block * 16 + own_first + min((warp + 1) * ((own_rows + 3) / 4), own_rows));
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
              highest = found < 0 || finite_halves((const u32*)(v + s.kv_head * v_stride_head + page * v_stride_page
                  + (key % 16) * v_stride_seq), 64) ? highest : key;
            }
            highest = same(largest_of_lanes(highest));
          }
        #pragma unroll 1
          for (int row = row_begin; row < row_end; ++row) {
            const int begin = same(0), end = same(min(s.sequence.seqlen_k, (row / group + s.sequence.seqlen_k - s.sequence.seqlen_q) + 1));
            if (highest < end && lowest >= begin) continue;
            const u32* const query_words = (const u32*)(q + (s.sequence.q_start + row / group) * q_stride_seq
                + (s.kv_head * group + row % group) * q_stride_head);
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
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const u32* const key_words = (const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page + (key % 16) * k_stride_seq);
                UNROLL_4
                for (int i = 0; i < 64; ++i) {
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
              for (int i = 0; i < 4; ++i) out[i] *= shrink;
        #pragma unroll 1
              for (int j = 0; j < 32; ++j) {
                const int key = max(min(first + j, end - 1), begin);
                const float p = lane_float(weight, j);
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
                const u32* const value_words = (const u32*)(v + s.kv_head * v_stride_head + page * v_stride_page
                    + (key % 16) * v_stride_seq);
        #pragma unroll
                for (int i = 0; i < 4; i += 2) {
                  u32 two = value_words[min(lane_32 + 16 * i, 63)];
                  two = seen ? two : 0u;
                  out[i] = fmaf(p, low_half(two), out[i]);
                  out[i + 1] = fmaf(p, high_half(two), out[i + 1]);
                }
              }
              // what the row itself sees may leave nothing to compute
              bool finite = false;
        #pragma unroll
              for (int i = 0; i < 4; ++i) finite |= out[i] * 0.0f == 0.0f;
              left = any_lane(finite);
            }
            const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
            u16* const to = o + (s.sequence.q_start + row / group) * o_stride_seq + (s.kv_head * group + row % group) * o_stride_head;
        #pragma unroll
            for (int i = 0; i < 4; i += 2) {
              const int column = 2 * lane_32 + 32 * i;
              const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
              if (column < 128 && writes_rows()) *(u32*)(to + column) = two;
            }
          }
        }
        if (same(again)) {
          named_barrier_sync(1, 128);
          if (thread_id() == 0) *(int*)(smem_bytes + 10644) = 0;
        }
      }
    }
  }
  #endif
}
