// gpt_oss_decode_gfx942: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"gpt_oss_decode_gfx942","target":"gfx942","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":64,"ov_depth":64,"rope_depth":0,"nope_depth":64,"q_depth":64,"cache_depth":64,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"paged","page_size":16},"mask":{"sliding_window":128},"score_mod":"none","sink":true,"group":8,"lse":false,"scale":0.125,"mma_shape":[16,16,16],"BM":16,"BN":64,"BK":32,"WM":16,"WN":32,"num_threads":128,"swizzle_k":{"bits":3,"base":0,"shift":3,"domain":"vector"},"swizzle_v":{"bits":1,"base":2,"shift":3,"domain":"vector"},"full_kv":true,"bk_smem":32,"smem_depth":64,"num_smem_stages":1,"double_buffer":false,"double_buffer_k_only":false,"shared_kv":false,"dma":"lds_direct","v_load":"perm4x4","schedule":"cdna_decode_streaming"}
// Schedule cdna_decode_streaming: 16 packed query rows by 64 keys a tile, 2 waves of 32 keys; strips of 32.
// LDS (10384 bytes): K strip 0, V strip 4096, P 8192, exchange 10240.
//
// Regenerate: kiln generate gpt_oss_decode_gfx942.json --out .
// Compile: clang -x hip --offload-device-only -nogpuinc -nogpulib -O3 --offload-arch=gfx942 gpt_oss_decode_gfx942.hip

#define kInfinity __builtin_inff()

#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
#define LDS __attribute__((address_space(3)))
#define CONSTANT __attribute__((address_space(4)))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef short s16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
DEVICE int min_of(int a, int b) { return a < b ? a : b; }
DEVICE int max_of(int a, int b) { return a > b ? a : b; }
DEVICE u32 min_of(u32 a, u32 b) { return a < b ? a : b; }
// The names that text for NVIDIA and AMD has for these.
#define min(a, b) min_of(a, b)
#define max(a, b) max_of(a, b)
#define fmaf(a, b, c) __builtin_fmaf(a, b, c)
#define fminf(a, b) __builtin_fminf(a, b)
#define fmaxf(a, b) __builtin_fmaxf(a, b)
DEVICE float as_float(u32 bits) { return __builtin_bit_cast(float, bits); }
DEVICE u32 as_bits(float x) { return __builtin_bit_cast(u32, x); }

// A value that is the same in every lane, in a scalar register.
DEVICE int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }

// Descriptor of `bytes` bytes at `base`: reads past the end give 0, writes past it are dropped. The wait states are those
// between a vector instruction that writes a scalar register and a memory instruction that reads it.
DEVICE i32x4 buffer_words(const void* base, int bytes) { return i32x4{(int)(u64)base, (int)((u64)base >> 32) & 0xffff, bytes, 0x00027000}; }
// A uniform value may be in vector registers, and then the assembly cannot have it.
DEVICE i32x4 in_scalars(i32x4 x) {
  for (int i = 0; i < 3; ++i) x[i] = __builtin_amdgcn_readfirstlane(x[i]);
  return x;
}
DEVICE i32x4 buffer_resource(const void* base, int bytes) {
  i32x4 buffer = buffer_words(base, bytes);
#if __clang_major__ < 17
  buffer = in_scalars(buffer);  // later ones keep it in scalar registers, where the intrinsic makes clang 22 fail at 512 columns
#endif
  __asm volatile("s_nop 4" : "+s"(buffer));
  return buffer;
}

// The same where `base` comes from a page table, in a loop.
DEVICE i32x4 page_resource(const void* base, int bytes) {
  i32x4 buffer = in_scalars(buffer_words(base, bytes));
  __asm volatile("s_nop 4" : "+s"(buffer));
  return buffer;
}

// 16 bytes at `offset` of a buffer; the compiler tracks when they arrive.
__device__ i32x4 raw_buffer_load_x4(i32x4 buffer, int offset, int scalar_offset, int policy) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
DEVICE u32x4 buffer_load_16(i32x4 buffer, u32 offset) {
  return __builtin_bit_cast(u32x4, raw_buffer_load_x4(buffer, (int)offset, 0, 0));
}

__device__ void raw_buffer_store_x4(i32x4 data, i32x4 buffer, int offset, int scalar_offset,
    int policy) __asm("llvm.amdgcn.raw.buffer.store.v4i32");
DEVICE void buffer_store_16(i32x4 buffer, u32 offset, u32x4 data) {
  raw_buffer_store_x4(__builtin_bit_cast(i32x4, data), buffer, (int)offset, 0, 0);
}

typedef int i32x2 __attribute__((ext_vector_type(2)));
__device__ void raw_buffer_store_x2(i32x2 data, i32x4 buffer, int offset, int scalar_offset,
    int policy) __asm("llvm.amdgcn.raw.buffer.store.v2i32");
DEVICE void buffer_store_8(i32x4 buffer, u32 offset, u32x2 data) {
  raw_buffer_store_x2(__builtin_bit_cast(i32x2, data), buffer, (int)offset, 0, 0);
}

// 4 bytes a lane from a buffer to LDS at `lds` + `literal` + 4 * lane, asynchronously (vmcnt). M0 carries the LDS
// address; the sum is made in it, since a register for every copy of a tile would crowd out all others.
#define BUFFER_TO_LDS_4(buffer, lds, literal, offset)                                                      \
  __asm volatile("s_add_u32 m0, %0, %3\n\ts_nop 0\n\tbuffer_load_dword %1, %2, 0 offen lds" ::"s"(lds), \
                 "v"(offset), "s"(buffer), "i"(literal)                                                      \
                 : "memory", "scc")

// Nothing is scheduled across: a strip's fragments stay near the products that use them.
#define SCHEDULE_FENCE() __builtin_amdgcn_sched_barrier(0)

// Until at most n of this wave's loads are in flight, then a barrier of the block. No other memory access crosses it.
#define WAIT_LOADS_AND_SYNC(n) __asm volatile("s_waitcnt vmcnt(" #n ") lgkmcnt(0)\n\ts_barrier" ::: "memory")
// A barrier of the block after this wave's LDS accesses; loads stay in flight.
#define SYNC() __asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory")

// Until at most n of this wave's loads are in flight.
#define WAIT_LOADS(n) __asm volatile("s_waitcnt vmcnt(" #n ")" ::: "memory")

DEVICE u32x4 lds_read_16(const LDS u8* p) { return *(const LDS u32x4*)p; }

DEVICE u32x2 lds_read_8(const LDS u8* p) { return *(const LDS u32x2*)p; }

DEVICE u32 lds_read_4(const LDS u8* p) { return *(const LDS u32*)p; }

// The lower, or upper, 16-bit halves of two registers, `a` in the lower half of the result.
DEVICE u32 low_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x05040100u); }
DEVICE u32 high_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x07060302u); }

DEVICE f32x4 mfma_16x16x16_bf16(u32x2 a, u32x2 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(s16x4, a), __builtin_bit_cast(s16x4, b), c, 0, 0, 0);
}

// Bare v_exp_f32: results below the normal range become 0.
#if __has_builtin(__builtin_amdgcn_exp2f)
DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
#else
DEVICE float exp2_approx(float x) { return __builtin_exp2f(x); }
#endif

// P is 2^(s * factor - base), and a row's base its maximum times `factor`, rounded. From a base of this size on the
// rounding would show: there the maximum is subtracted before the product, and the base is 0.
constexpr float kSteep = 65536.0f;
DEVICE bool is_steep(float base) { return __builtin_fabsf(base) >= kSteep; }
// The product as everything relative to a row's base has it: rounded by itself, no part of a fused multiply-add.
DEVICE float row_base(float maximum, float factor) {
#pragma clang fp contract(off)
  return maximum * factor;
}
// What a row's sums are multiplied by when its maximum goes from `from` to `to`; 0 while no key was visible. It takes
// the maxima, not their rounded bases: the difference is below the rounding of the scores, and cancels over a row.
DEVICE float rescale_factor(float from, float to, float factor) {
  return exp2_approx((from - __builtin_fmaxf(to, -3.402823466e38f)) * factor);
}

#if __has_builtin(__builtin_amdgcn_logf)
DEVICE float log2_approx(float x) { return __builtin_amdgcn_logf(x); }
#else
DEVICE float log2_approx(float x) { return __builtin_log2f(x); }
#endif

DEVICE float rcp_approx(float x) { return __builtin_amdgcn_rcpf(x); }

DEVICE float maximum(float a, float b) { return __builtin_fmaxf(a, b); }

// Whether `x` holds in some lane of the wave.
#if __has_builtin(__builtin_amdgcn_ballot_w64)
DEVICE bool any(bool x) { return __builtin_amdgcn_ballot_w64(x) != 0; }
#else
DEVICE bool any(bool x) { return __builtin_amdgcn_uicmp((u32)x, 0u, 33) != 0; }
#endif

// `x` of lane `lane4` / 4.
DEVICE float from_lane(int lane4, float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane4, __builtin_bit_cast(int, x)));
}

// Threads and warps, as text for NVIDIA and AMD names them. Such text works with 32 lanes: both halves of a wave do the
// same. `lane` of broadcast is the same in all lanes; warp_ballot has the lower 32.
#define UNROLL_4 _Pragma("clang loop vectorize(disable) unroll_count(4)")
DEVICE int thread_id() { return (int)__builtin_amdgcn_workitem_id_x(); }
DEVICE int block_id() { return (int)__builtin_amdgcn_workgroup_id_x(); }
DEVICE int shuffle(int x, int lane) { return __builtin_amdgcn_ds_bpermute(lane * 4, x); }
DEVICE int broadcast(int x, int lane) { return __builtin_amdgcn_readlane(x, __builtin_amdgcn_readfirstlane(lane)); }
DEVICE int shuffle_xor(int x, int step) { return shuffle(x, (thread_id() ^ step) & 63); }
DEVICE int shuffle_up(int x, int step) { return shuffle(x, (thread_id() - step) & 63); }
#if __has_builtin(__builtin_amdgcn_ballot_w64)
DEVICE u32 warp_ballot(bool x) { return (u32)__builtin_amdgcn_ballot_w64(x); }
#else
DEVICE u32 warp_ballot(bool x) { return (u32)__builtin_amdgcn_uicmp((u32)x, 0u, 33); }
#endif
DEVICE int first_set(u32 bits) { return __builtin_ffs(bits) - 1; }

// Floats across the 32 lanes of such text. any_lane is of the whole wave; one half of it writes.
DEVICE float lane_float(float x, int lane) { return as_float((u32)broadcast((int)as_bits(x), lane)); }
DEVICE bool any_lane(bool x) { return any(x); }
DEVICE int same(int x) { return __builtin_amdgcn_readfirstlane(x); }
DEVICE bool writes_rows() { return (thread_id() & 32) == 0; }
DEVICE float sum_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x += as_float((u32)shuffle_xor((int)as_bits(x), step));
  return x;
}
DEVICE float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = __builtin_fmaxf(x, as_float((u32)shuffle_xor((int)as_bits(x), step)));
  return x;
}
DEVICE int largest_of_lanes(int x) {
  for (int step = 16; step > 0; step /= 2) x = max_of(x, shuffle_xor(x, step));
  return x;
}

// The two elements of a register, and whether those of `count` registers are all finite.
DEVICE float low_half(u32 two) { return as_float(two << 16); }
DEVICE float high_half(u32 two) { return as_float(two & 0xffff0000u); }
DEVICE bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

DEVICE void store_global_16(float* p, f32x4 x) { *(f32x4*)p = x; }
DEVICE f32x4 load_global_16(const float* p) { return *(const f32x4*)p; }

DEVICE void lds_write_8(LDS u8* p, u32x2 x) { *(LDS u32x2*)p = x; }

DEVICE void lds_write_float(LDS u8* p, float x) { *(LDS float*)p = x; }
DEVICE float lds_read_float(const LDS u8* p) { return *(const LDS float*)p; }

// What this block wrote becomes visible to the device; what others wrote before they arrived becomes visible here.
DEVICE void release_to_device() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
DEVICE void acquire_from_device() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
DEVICE int arrive(int* counter) { return __hip_atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT); }

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
DEVICE u32 round_bf16(float x) {
  const u32 bits = as_bits(x);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
DEVICE u32 pack_bf16(float lo, float hi) { return __builtin_amdgcn_perm(round_bf16(hi), round_bf16(lo), 0x07060302u); }

DEVICE u32 grid_blocks() { return __builtin_amdgcn_grid_size_x() / 128u; }

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
  // from the first key that the first query sees
  s.first_tile = max(s.seqlen_k - s.seqlen_q - 127, 0) / 64;
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
  const int lane = thread_id() % 32;
  int tiles = 0;
  UNROLL_4
  for (int b = lane; b < problem.batch; b += 32) tiles += sequence_of(problem, b).num_tiles;
  for (int step = 16; step > 0; step /= 2) tiles += shuffle_xor(tiles, step);
  range.total = (unsigned)uniform(tiles * range.slots);
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
  if (range.position >= range.batch_start + (unsigned)uniform(tiles * range.slots)) {
    range.batch_start += (unsigned)uniform(tiles * range.slots);
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

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(128, 128)))
void kiln_gpt_oss_decode_gfx942(const u16* q,
    const u16* k,
    const u16* v,
    u16* o,
    const float* sink,
    float* workspace,
    int* item_counters,
    const int* page_table,
    const int* cu_seqlens_q,
    const int* seqlens_k,
    int batch,
    int heads_q,
    int heads_kv,
    int seqlen_q,
    int key_capacity,
    int team_heads,
    int page_table_stride,
    int num_pages,
    long long q_stride_seq,
    long long q_stride_head,
    long long k_stride_page,
    long long k_stride_seq,
    long long k_stride_head,
    long long v_stride_page,
    long long v_stride_seq,
    long long v_stride_head,
    long long o_stride_seq,
    long long o_stride_head,
    float scale_log2) {
  extern __shared__ __attribute__((aligned(1024))) u8 smem_bytes[];
  LDS u8* const lds = (LDS u8*)smem_bytes;
  const u32 lds_start = (u32)(u64)lds;
  LDS u8* const exchange = lds + 10240;  // a float of each wave and row
  const int thread = thread_id(), lane = thread & 63;
  const int warp = uniform(thread >> 6);
  const u32 p_write_row = (lane & 15), p_write_col = (lane / 16 * 4 + warp * 32);
  const u32 p_write_vector = p_write_row * 8 + p_write_col / 8;
  const u32 p_write_0 = 8192 + p_write_col % 8 * 2 + (p_write_vector ^ (p_write_vector >> 3 & 7)) * 16;
  const u32 p_write_2 = 8192 + p_write_col % 8 * 2 + ((p_write_vector ^ (p_write_vector >> 3 & 7)) ^ 2) * 16;
  const u32 p_read_row = (lane & 15), p_read_col = (lane / 16 * 4);
  const u32 p_read_vector = p_read_row * 8 + p_read_col / 8;
  const u32 p_read_0 = 8192 + p_read_col % 8 * 2 + (p_read_vector ^ (p_read_vector >> 3 & 7)) * 16;
  const u32 p_read_2 = 8192 + p_read_col % 8 * 2 + ((p_read_vector ^ (p_read_vector >> 3 & 7)) ^ 2) * 16;
  const u32 p_read_4 = 8192 + p_read_col % 8 * 2 + ((p_read_vector ^ (p_read_vector >> 3 & 7)) ^ 4) * 16;
  const u32 p_read_6 = 8192 + p_read_col % 8 * 2 + ((p_read_vector ^ (p_read_vector >> 3 & 7)) ^ 6) * 16;
  if (thread == 0) *(LDS int*)(lds + 10372) = 0;
  const int group = heads_q / heads_kv;
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads};
  Range range = first_range(problem);
  if (range.position >= range.end) return;  // before anything is computed for segments
  Segment s;
  #pragma unroll 1
  while (next_segment(problem, range, s)) {

    // ---- segment: KV tiles [tile_begin, tile_end) of 16 packed query rows of one sequence
    const int batch_index = uniform(s.batch), kv_head = uniform(s.kv_head), m_block = uniform(s.m_block);
    const int tile_begin = uniform(s.tile_begin), tile_end = uniform(s.tile_end);
    const int keys = uniform(s.sequence.seqlen_k), queries = uniform(s.sequence.seqlen_q);
    const int rows = min_of(16, group * queries - m_block * 16);
    const int q_start = uniform(s.sequence.q_start);
    const CONSTANT int* const pages = (const CONSTANT int*)(page_table + (long long)batch_index * page_table_stride);
    const u16* const q_head = q + q_start * q_stride_seq + kv_head * group * q_stride_head;
    const u16* const k_head = k + 0 + kv_head * k_stride_head;
    const u16* const v_head = v + 0 + kv_head * v_stride_head;
    u16* const o_head = o + q_start * o_stride_seq + kv_head * group * o_stride_head;
    const float factor = scale_log2;  // from modified scores to log2 units
    // this lane's row: query position packed / group, query head packed % group of the KV head's
    const int packed = m_block * 16 + (lane & 15), position = packed / group;
    const bool in_rows = (lane & 15) < rows;
    u32x4 q_reg[2];  // Q: 16 x 64 as the B operand of K Q'
    const i32x4 q_rows = buffer_resource(q_head, queries > 0 ? (int)(((queries - 1) * q_stride_seq + (group - 1) * q_stride_head + 64) * 2)
        : 0);
    const u32 q_from = (in_rows ? (u32)((position * q_stride_seq + packed % group * q_stride_head) * 2) : 0x80000000u) + lane / 16 * 16;
    q_reg[0] = buffer_load_16(q_rows, q_from + 0);
    q_reg[1] = buffer_load_16(q_rows, q_from + 64);
    const int first_key = tile_begin * 64;
    // K: 2 tiles of 32 x 32 a load, 1 to a wave
    const int k_row_bytes = (int)(k_stride_seq * 2);
    const u8* const k_pages = (const u8*)(k_head);
    const int k_keys = keys;
    int k_row = first_key;  // first key of the next tile
    const u32 k_vector = lane / 4;
    const u32 k_from_0 = (k_vector ^ (k_vector >> 3 & 7)) / 4 * k_row_bytes + (k_vector ^ (k_vector >> 3 & 7)) % 4 * 16 + lane % 4 * 4;
    const u32 k_from_2 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) % 4 * 16
        + lane % 4 * 4;
    const u32 k_from_4 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) % 4 * 16
        + lane % 4 * 4;
    const u32 k_from_6 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) % 4 * 16
        + lane % 4 * 4;
    const int k_first_0 = warp * 32;
    const u32 k_tile_0 = 0 * 64;
    const u32 k_lds_0 = lds_start + warp * 2048 + 0 * 4096;
    const u32 k_frag_row = lane & 15, k_frag_col = lane / 16 * 8;
    const u32 k_frag_vector = k_frag_row * 4 + k_frag_col / 8;
    const u32 k_frag_0 = 0 + warp * 2048 + (k_frag_vector ^ (k_frag_vector >> 3 & 7)) * 16;
    // V: 1 tile of 32 x 64 a load, 2 waves on each
    const int v_row_bytes = (int)(v_stride_seq * 2);
    const u8* const v_pages = (const u8*)(v_head);
    const int v_keys = keys;
    int v_row = first_key;  // first key of the next tile
    const u32 v_vector = lane / 4 + warp % 2 * 128;
    const u32 v_from_0 = ((v_vector ^ (v_vector >> 3 & 4)) / 8 - warp % 2 * 16) * v_row_bytes + (v_vector ^ (v_vector >> 3 & 4)) % 8 * 16
        + lane % 4 * 4;
    const u32 v_from_4 = (((v_vector ^ (v_vector >> 3 & 4)) ^ 4) / 8 - warp % 2 * 16) * v_row_bytes
        + ((v_vector ^ (v_vector >> 3 & 4)) ^ 4) % 8 * 16 + lane % 4 * 4;
    const int v_first_0 = (warp / 2) * 32 + warp % 2 * 16;
    const u32 v_tile_0 = 0 * 128;
    const u32 v_lds_0 = lds_start + 4096 + (warp / 2) * 4096 + 0 * 4096 + warp % 2 * 2048;
    const u32 v_frag_x2_row = lane / 16 * 4, v_frag_x2_col = (lane & 15) * 2 + warp * 32;
    const u32 v_frag_x2_vector = v_frag_x2_row * 8 + v_frag_x2_col / 8;
    const u32 v_frag_x2_0 = 4096 + v_frag_x2_col % 8 * 2 + (v_frag_x2_vector ^ (v_frag_x2_vector >> 3 & 4)) * 16;
    const int clean_end = min(keys, (keys - queries + m_block * 16 / group) + 1);  // keys before it are hidden from no row by their end
    const int clean_first = max((keys - queries + (m_block * 16 + max_of(rows, 1) - 1) / group) - 127, 0);
    float row_max = -kInfinity, row_sum = 0.0f;
    f32x4 s_acc[2], o_acc[2];
    o_acc[0] = (f32x4)(0.0f);
    o_acc[1] = (f32x4)(0.0f);
    u32x2 p[4];
    __asm volatile("" : "+v"(q_reg[0]));
    __asm volatile("" : "+v"(q_reg[1]));

    // ---- KV tiles: at least one
    {
      // load_k_stage0, strip 0
      {
        const int row = k_row + k_first_0;
        const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
        // rows past the sequence, and pages that do not exist, read as zeros
        const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
        const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
            left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
        u32 from_0_0 = k_from_0 + k_tile_0;
        BUFFER_TO_LDS_4(tile, k_lds_0, 0, from_0_0);
        u32 from_0_2 = k_from_2 + k_tile_0;
        from_0_2 += 4 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 256, from_0_2);
        u32 from_0_4 = k_from_4 + k_tile_0;
        from_0_4 += 8 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 512, from_0_4);
        u32 from_0_6 = k_from_6 + k_tile_0;
        from_0_6 += 12 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 768, from_0_6);
      }
      {
        const int row = k_row + k_first_0 + 16;
        const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
        // rows past the sequence, and pages that do not exist, read as zeros
        const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
        const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
            left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
        u32 from_0_0 = k_from_0 + k_tile_0;
        BUFFER_TO_LDS_4(tile, k_lds_0, 1024, from_0_0);
        u32 from_0_2 = k_from_2 + k_tile_0;
        from_0_2 += 4 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 1280, from_0_2);
        u32 from_0_4 = k_from_4 + k_tile_0;
        from_0_4 += 8 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 1536, from_0_4);
        u32 from_0_6 = k_from_6 + k_tile_0;
        from_0_6 += 12 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 1792, from_0_6);
      }
    }
    #pragma unroll 1
    for (int n = tile_begin;;) {
      // S' = K(n) Q', strips of depth
      {
        WAIT_LOADS_AND_SYNC(0);
        u32x4 k_reg[2];  // 4 fragments of 4 elements
        k_reg[0] = lds_read_16(lds + k_frag_0);
        k_reg[1] = lds_read_16(lds + k_frag_0 + 1024);
        __asm volatile("" : "+v"(k_reg[0]), "+v"(k_reg[1]) :: "memory");  // the fragments are in registers
        {
          // load_k_stage0, strip 1
          {
            const int row = k_row + k_first_0;
            const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
            // rows past the sequence, and pages that do not exist, read as zeros
            const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
            const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
                left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
            u32 from_0_0 = k_from_0 + k_tile_0 + 64;
            BUFFER_TO_LDS_4(tile, k_lds_0, 0, from_0_0);
            u32 from_0_2 = k_from_2 + k_tile_0 + 64;
            from_0_2 += 4 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 256, from_0_2);
            u32 from_0_4 = k_from_4 + k_tile_0 + 64;
            from_0_4 += 8 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 512, from_0_4);
            u32 from_0_6 = k_from_6 + k_tile_0 + 64;
            from_0_6 += 12 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 768, from_0_6);
          }
          {
            const int row = k_row + k_first_0 + 16;
            const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
            // rows past the sequence, and pages that do not exist, read as zeros
            const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
            const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
                left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
            u32 from_0_0 = k_from_0 + k_tile_0 + 64;
            BUFFER_TO_LDS_4(tile, k_lds_0, 1024, from_0_0);
            u32 from_0_2 = k_from_2 + k_tile_0 + 64;
            from_0_2 += 4 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 1280, from_0_2);
            u32 from_0_4 = k_from_4 + k_tile_0 + 64;
            from_0_4 += 8 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 1536, from_0_4);
            u32 from_0_6 = k_from_6 + k_tile_0 + 64;
            from_0_6 += 12 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 1792, from_0_6);
          }
          k_row += 64;
        }
        s_acc[0] = mfma_16x16x16_bf16(k_reg[0].lo, q_reg[0].lo, (f32x4)(0.0f));
        s_acc[1] = mfma_16x16x16_bf16(k_reg[1].lo, q_reg[0].lo, (f32x4)(0.0f));
        s_acc[0] = mfma_16x16x16_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
        s_acc[1] = mfma_16x16x16_bf16(k_reg[1].hi, q_reg[0].hi, s_acc[1]);
      }
      {
        WAIT_LOADS(0);
        u32x4 k_reg[2];  // 4 fragments of 4 elements
        k_reg[0] = lds_read_16(lds + k_frag_0);
        k_reg[1] = lds_read_16(lds + k_frag_0 + 1024);
        {
          // load_v_stage0
          {
            const int row = v_row + v_first_0;
            const int page = row < v_keys ? pages[(u32)row / 16u] : num_pages;
            // rows past the sequence, and pages that do not exist, read as zeros
            const int left = (u32)page < (u32)num_pages ? min_of(v_keys - row, 16) : 0;
            const i32x4 tile = page_resource(v_pages + page * (v_stride_page * 2) + (u32)row % 16u * (long long)v_row_bytes,
                left > 0 ? (left - 1) * v_row_bytes + 128 : 0);
            u32 from_0_0 = v_from_0 + v_tile_0;
            BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
            from_0_0 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
            u32 from_0_4 = v_from_4 + v_tile_0;
            from_0_4 += 4 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_4);
            from_0_4 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_4);
            from_0_0 += 6 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1024, from_0_0);
            from_0_0 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1280, from_0_0);
            from_0_4 += 6 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1536, from_0_4);
            from_0_4 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1792, from_0_4);
          }
          v_row += 32;
        }
        s_acc[0] = mfma_16x16x16_bf16(k_reg[0].lo, q_reg[1].lo, s_acc[0]);
        s_acc[1] = mfma_16x16x16_bf16(k_reg[1].lo, q_reg[1].lo, s_acc[1]);
        s_acc[0] = mfma_16x16x16_bf16(k_reg[0].hi, q_reg[1].hi, s_acc[0]);
        s_acc[1] = mfma_16x16x16_bf16(k_reg[1].hi, q_reg[1].hi, s_acc[1]);
      }
      const int first_key = n * 64 + warp * 32;
      if (first_key + 32 > clean_end || first_key < clean_first) {
        // keys outside the row's range do not count
        const int end_0 = min(keys, position + keys - queries + 1) - (first_key) - lane / 16 * 4;
        const int first_0 = max(position + keys - queries - 127, 0) - (first_key) - lane / 16 * 4;
        if (0 >= end_0 || 0 < first_0) s_acc[0][0] = -kInfinity; if (1 >= end_0 || 1 < first_0) s_acc[0][1] = -kInfinity;
        if (2 >= end_0 || 2 < first_0) s_acc[0][2] = -kInfinity; if (3 >= end_0 || 3 < first_0) s_acc[0][3] = -kInfinity;
        if (16 >= end_0 || 16 < first_0) s_acc[1][0] = -kInfinity; if (17 >= end_0 || 17 < first_0) s_acc[1][1] = -kInfinity;
        if (18 >= end_0 || 18 < first_0) s_acc[1][2] = -kInfinity; if (19 >= end_0 || 19 < first_0) s_acc[1][3] = -kInfinity;
      }
      // maximum of each row: over the lane's keys, the lane groups, the waves
      float tile_max = s_acc[0][0];
      tile_max = maximum(tile_max, s_acc[0][1]);
      tile_max = maximum(tile_max, s_acc[0][2]);
      tile_max = maximum(tile_max, s_acc[0][3]);
      tile_max = maximum(tile_max, s_acc[1][0]);
      tile_max = maximum(tile_max, s_acc[1][1]);
      tile_max = maximum(tile_max, s_acc[1][2]);
      tile_max = maximum(tile_max, s_acc[1][3]);
      tile_max = maximum(tile_max, from_lane((lane ^ 16) * 4, tile_max));
      tile_max = maximum(tile_max, from_lane((lane ^ 32) * 4, tile_max));
      if (lane < 16) lds_write_float(exchange + warp * 64 + lane * 4, tile_max);
      SYNC();
      float new_max = row_max;
      new_max = maximum(new_max, lds_read_float(exchange + 0 + (lane & 15) * 4));
      new_max = maximum(new_max, lds_read_float(exchange + 64 + (lane & 15) * 4));
      float base = new_max == -kInfinity ? 0.0f : row_base(new_max, factor);
      if (any(new_max > row_max)) {
        const float alpha = rescale_factor(row_max, new_max, factor);
        row_sum *= alpha; row_max = new_max;
        o_acc[0] *= alpha;
        o_acc[1] *= alpha;
      }
      if (any(is_steep(base))) {
        const float steep = is_steep(base) ? row_max : 0.0f;
        s_acc[0] -= steep;
        s_acc[1] -= steep;
        if (is_steep(base)) base = 0.0f;
      }
      // P = exp2(S - max), through LDS: a wave has some keys of all rows, and needs all keys
      s_acc[0][0] = exp2_approx(__builtin_fmaf(s_acc[0][0], factor, -base)); row_sum += s_acc[0][0];
      s_acc[0][1] = exp2_approx(__builtin_fmaf(s_acc[0][1], factor, -base)); row_sum += s_acc[0][1];
      s_acc[0][2] = exp2_approx(__builtin_fmaf(s_acc[0][2], factor, -base)); row_sum += s_acc[0][2];
      s_acc[0][3] = exp2_approx(__builtin_fmaf(s_acc[0][3], factor, -base)); row_sum += s_acc[0][3];
      s_acc[1][0] = exp2_approx(__builtin_fmaf(s_acc[1][0], factor, -base)); row_sum += s_acc[1][0];
      s_acc[1][1] = exp2_approx(__builtin_fmaf(s_acc[1][1], factor, -base)); row_sum += s_acc[1][1];
      s_acc[1][2] = exp2_approx(__builtin_fmaf(s_acc[1][2], factor, -base)); row_sum += s_acc[1][2];
      s_acc[1][3] = exp2_approx(__builtin_fmaf(s_acc[1][3], factor, -base)); row_sum += s_acc[1][3];
      lds_write_8(lds + p_write_0, u32x2{pack_bf16(s_acc[0][0], s_acc[0][1]), pack_bf16(s_acc[0][2], s_acc[0][3])});
      lds_write_8(lds + p_write_2, u32x2{pack_bf16(s_acc[1][0], s_acc[1][1]), pack_bf16(s_acc[1][2], s_acc[1][3])});
      // O' += V(n)' P', strips of keys
      {
        WAIT_LOADS_AND_SYNC(0);
        p[0] = lds_read_8(lds + p_read_0);
        p[1] = lds_read_8(lds + p_read_2);
        p[2] = lds_read_8(lds + p_read_4);
        p[3] = lds_read_8(lds + p_read_6);
        SCHEDULE_FENCE();
        u32x2 v_reg[4];  // fragments of 4 elements
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0), key_1 = lds_read_4(lds + v_frag_x2_0 + 128),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 256), key_3 = lds_read_4(lds + v_frag_x2_0 + 384);
          v_reg[0] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[1] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 2048), key_1 = lds_read_4(lds + v_frag_x2_0 + 2176),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 2304), key_3 = lds_read_4(lds + v_frag_x2_0 + 2432);
          v_reg[2] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[3] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        SYNC();  // every wave has its fragments
        {
          // load_v_stage0
          {
            const int row = v_row + v_first_0;
            const int page = row < v_keys ? pages[(u32)row / 16u] : num_pages;
            // rows past the sequence, and pages that do not exist, read as zeros
            const int left = (u32)page < (u32)num_pages ? min_of(v_keys - row, 16) : 0;
            const i32x4 tile = page_resource(v_pages + page * (v_stride_page * 2) + (u32)row % 16u * (long long)v_row_bytes,
                left > 0 ? (left - 1) * v_row_bytes + 128 : 0);
            u32 from_0_0 = v_from_0 + v_tile_0;
            BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
            from_0_0 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
            u32 from_0_4 = v_from_4 + v_tile_0;
            from_0_4 += 4 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_4);
            from_0_4 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_4);
            from_0_0 += 6 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1024, from_0_0);
            from_0_0 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1280, from_0_0);
            from_0_4 += 6 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1536, from_0_4);
            from_0_4 += 2 * v_row_bytes;
            BUFFER_TO_LDS_4(tile, v_lds_0, 1792, from_0_4);
          }
          v_row += 32;
        }
        o_acc[0] = mfma_16x16x16_bf16(v_reg[0], p[0], o_acc[0]);
        o_acc[1] = mfma_16x16x16_bf16(v_reg[1], p[0], o_acc[1]);
        o_acc[0] = mfma_16x16x16_bf16(v_reg[2], p[1], o_acc[0]);
        o_acc[1] = mfma_16x16x16_bf16(v_reg[3], p[1], o_acc[1]);
      }
      {
        WAIT_LOADS_AND_SYNC(0);
        u32x2 v_reg[4];  // fragments of 4 elements
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0), key_1 = lds_read_4(lds + v_frag_x2_0 + 128),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 256), key_3 = lds_read_4(lds + v_frag_x2_0 + 384);
          v_reg[0] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[1] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 2048), key_1 = lds_read_4(lds + v_frag_x2_0 + 2176),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 2304), key_3 = lds_read_4(lds + v_frag_x2_0 + 2432);
          v_reg[2] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[3] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        if (n + 1 < tile_end) {
          {
            // load_k_stage0, strip 0
            {
              const int row = k_row + k_first_0;
              const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
              // rows past the sequence, and pages that do not exist, read as zeros
              const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
              const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
                  left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
              u32 from_0_0 = k_from_0 + k_tile_0;
              BUFFER_TO_LDS_4(tile, k_lds_0, 0, from_0_0);
              u32 from_0_2 = k_from_2 + k_tile_0;
              from_0_2 += 4 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 256, from_0_2);
              u32 from_0_4 = k_from_4 + k_tile_0;
              from_0_4 += 8 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 512, from_0_4);
              u32 from_0_6 = k_from_6 + k_tile_0;
              from_0_6 += 12 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 768, from_0_6);
            }
            {
              const int row = k_row + k_first_0 + 16;
              const int page = row < k_keys ? pages[(u32)row / 16u] : num_pages;
              // rows past the sequence, and pages that do not exist, read as zeros
              const int left = (u32)page < (u32)num_pages ? min_of(k_keys - row, 16) : 0;
              const i32x4 tile = page_resource(k_pages + page * (k_stride_page * 2) + (u32)row % 16u * (long long)k_row_bytes,
                  left > 0 ? (left - 1) * k_row_bytes + 128 : 0);
              u32 from_0_0 = k_from_0 + k_tile_0;
              BUFFER_TO_LDS_4(tile, k_lds_0, 1024, from_0_0);
              u32 from_0_2 = k_from_2 + k_tile_0;
              from_0_2 += 4 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 1280, from_0_2);
              u32 from_0_4 = k_from_4 + k_tile_0;
              from_0_4 += 8 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 1536, from_0_4);
              u32 from_0_6 = k_from_6 + k_tile_0;
              from_0_6 += 12 * k_row_bytes;
              BUFFER_TO_LDS_4(tile, k_lds_0, 1792, from_0_6);
            }
          }
        }
        o_acc[0] = mfma_16x16x16_bf16(v_reg[0], p[2], o_acc[0]);
        o_acc[1] = mfma_16x16x16_bf16(v_reg[1], p[2], o_acc[1]);
        o_acc[0] = mfma_16x16x16_bf16(v_reg[2], p[3], o_acc[0]);
        o_acc[1] = mfma_16x16x16_bf16(v_reg[3], p[3], o_acc[1]);
      }
      if (++n == tile_end) break;
    }

    // ---- row sums over the lane groups and waves
    row_sum += from_lane((lane ^ 16) * 4, row_sum);
    row_sum += from_lane((lane ^ 32) * 4, row_sum);
    // the last tile's readers of the exchange have passed the barrier after P
    if (lane < 16) lds_write_float(exchange + warp * 64 + lane * 4, row_sum);
    SYNC();
    row_sum = 0.0f;
    row_sum += lds_read_float(exchange + 0 + (lane & 15) * 4);
    row_sum += lds_read_float(exchange + 64 + (lane & 15) * 4);

    // ---- output
    bool odd = false;  // some column of O is not finite
    if (uniform((int)s.whole)) {
      // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
      float odd_0 = 0.0f, odd_1 = 0.0f;
      odd_0 = fmaf(o_acc[0][0], o_acc[0][1], odd_0);
      odd_1 = fmaf(o_acc[0][2], o_acc[0][3], odd_1);
      odd_0 = fmaf(o_acc[1][0], o_acc[1][1], odd_0);
      odd_1 = fmaf(o_acc[1][2], o_acc[1][3], odd_1);
      odd = !((odd_0 + odd_1) * 0.0f == 0.0f);
      float top = row_max * (factor * 0.693147181f), sum = row_sum, own = 1.0f;
      // the sink is one more logit, without a value; a row that sees no key has no use for it
      if (sum != 0.0f) {
        const float logit = in_rows ? sink[kv_head * group + packed % group] : 0.0f;
        const float higher = maximum(top, logit);
        own = top == higher ? 1.0f : exp2_approx((top - higher) * 1.44269504f);
        sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));
        top = higher;
      }
      const float inv_sum = sum != 0.0f ? own * rcp_approx(sum) : 0.0f;
      const i32x4 o_rows = buffer_resource(o_head,
          queries > 0 ? (int)(((queries - 1) * o_stride_seq + (group - 1) * o_stride_head + 64) * 2) : 0);
      const u32 o_from = in_rows ? (u32)((position * o_stride_seq + packed % group * o_stride_head + warp * 32) * 2) : 0x80000000u;
      buffer_store_16(o_rows, o_from + 0 + lane / 16 * 16,
          u32x4{pack_bf16(o_acc[0][0] * inv_sum, o_acc[1][0] * inv_sum), pack_bf16(o_acc[0][1] * inv_sum, o_acc[1][1] * inv_sum),
          pack_bf16(o_acc[0][2] * inv_sum, o_acc[1][2] * inv_sum), pack_bf16(o_acc[0][3] * inv_sum, o_acc[1][3] * inv_sum)});
    } else {
      // this block's part
      float* const part = workspace + ((range.cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll + s.second_slot)
          * 1056;
      if (in_rows) {
        float* const at = part + (lane & 15) * 64 + warp * 32;
        store_global_16(at + 0 + lane / 16 * 8, f32x4{o_acc[0][0], o_acc[1][0], o_acc[0][1], o_acc[1][1]});
        store_global_16(at + 4 + lane / 16 * 8, f32x4{o_acc[0][2], o_acc[1][2], o_acc[0][3], o_acc[1][3]});
        if (warp == 0 && lane < 16) part[1024 + 2 * lane] = row_max, part[1024 + 2 * lane + 1] = row_sum;
      }
      release_to_device();
      WAIT_LOADS_AND_SYNC(0);
      if (thread == 0) *(LDS int*)(lds + 10368) = arrive(item_counters + s.item);
      SYNC();
      const int arrived_before = uniform(*(const LDS int*)(lds + 10368));
      const Split split = split_of(range, s);
      if (arrived_before == uniform(split.parts) - 1) {
        // the last block of the item adds the parts up, in order, and leaves the counter as it was found
        acquire_from_device();
        if (thread == 0) item_counters[s.item] = 0;
        const long long stride = problem.team_heads * 2ll * 1056;
        const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll * 1056;
        const int shift = split.first_second ? 1056 : 0;  // part 0 may be the second of its block
        #pragma unroll 1
        for (int r = warp; r < rows; r += 2) {
          // maximum and sum of a row over all parts: a part a lane
          float high = -kInfinity, sum = 0.0f;
          for (int i = lane; i < split.parts; i += 64) {
            const float* const other = parts + i * stride + (i == 0 ? shift : 0) + 1024 + 2 * r;
            const float higher = maximum(high, other[0]);
            sum = sum * rescale_factor(high, higher, factor) + other[1] * rescale_factor(other[0], higher, factor);
            high = higher;
          }
          float all = high;
          all = maximum(all, from_lane((lane ^ 1) * 4, all));
          all = maximum(all, from_lane((lane ^ 2) * 4, all));
          all = maximum(all, from_lane((lane ^ 4) * 4, all));
          all = maximum(all, from_lane((lane ^ 8) * 4, all));
          all = maximum(all, from_lane((lane ^ 16) * 4, all));
          all = maximum(all, from_lane((lane ^ 32) * 4, all));
          sum *= rescale_factor(high, all, factor);
          sum += from_lane((lane ^ 1) * 4, sum);
          sum += from_lane((lane ^ 2) * 4, sum);
          sum += from_lane((lane ^ 4) * 4, sum);
          sum += from_lane((lane ^ 8) * 4, sum);
          sum += from_lane((lane ^ 16) * 4, sum);
          sum += from_lane((lane ^ 32) * 4, sum);
          __asm volatile("" : "+v"(sum));  // has arrived: lanes that do not use it go on to the next row
          if (lane == 0) {
            const int row = m_block * 16 + r;
            float top = all * (factor * 0.693147181f), own = 1.0f;
            // the sink is one more logit, without a value; a row that sees no key has no use for it
            if (sum != 0.0f) {
              const float logit = true ? sink[kv_head * group + row % group] : 0.0f;
              const float higher = maximum(top, logit);
              own = top == higher ? 1.0f : exp2_approx((top - higher) * 1.44269504f);
              sum = sum * own + (logit == higher ? 1.0f : exp2_approx((logit - higher) * 1.44269504f));
              top = higher;
            }
            lds_write_float(exchange + r * 8, all);
            lds_write_float(exchange + r * 8 + 4, sum != 0.0f ? own * rcp_approx(sum) : 0.0f);
          }
        }
        SYNC();
        #pragma unroll 1
        for (int i = thread; i < rows * 16; i += 128) {
          const int r = i / 16, c = i % 16, row = m_block * 16 + r;
          float all = lds_read_float(exchange + r * 8), inverse = lds_read_float(exchange + r * 8 + 4);
          __asm volatile("" : "+v"(all), "+v"(inverse));  // waited for here, not once in and once after the loop
          f32x4 sum = (f32x4)(0.0f);
          for (int i = 0; i < split.parts; ++i) {
            const float* const other = parts + i * stride + (i == 0 ? shift : 0);
            sum += load_global_16(other + r * 64 + 4 * c) * rescale_factor(other[1024 + 2 * r], all, factor);
          }
          sum *= inverse;
          odd = odd || !(fmaf(sum.x, sum.y, sum.z * sum.w) * 0.0f == 0.0f);
          *(u32x2*)(o_head + (row / group) * o_stride_seq + row % group * o_stride_head + 4 * c) = u32x2{pack_bf16(sum.x, sum.y),
              pack_bf16(sum.z, sum.w)};
        }
      }
    }
    if (same(1)) {
      if (any_lane(odd) && lane == 0) *(LDS int*)(lds + 10372) = 1;
      SYNC();
      const int again = *(LDS int*)(lds + 10372);
      // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
      if (same(again)) {
        const int lane_32 = (int)thread_id() & 31, row_begin = same(m_block * 16 + min(warp * ((rows + 1) / 2), rows)),
            row_end = same(m_block * 16 + min((warp + 1) * ((rows + 1) / 2), rows));
        // the last key past some row's end, and the first one before some row's first, with a V that is not finite
        int highest = -1, lowest = 0x7fffffff;
        {
          const int row = row_begin, last = same(min((s.sequence.first_tile + s.sequence.num_tiles) * 64, keys)) - 1;
      #pragma unroll 1
          for (int first = same(max(min(keys, (row / group + keys - queries) + 1), 0)); first <= last; first += 32) {
            const int key = min(first + lane_32, last);
            const int found = key < keys ? page_of(page_table, page_table_stride, num_pages, batch_index, key) : -1, page = max(found, 0);
            highest = found < 0 || finite_halves((const u32*)(v + kv_head * v_stride_head + page * v_stride_page
                + (key % 16) * v_stride_seq), 32) ? highest : key;
          }
          highest = same(largest_of_lanes(highest));
        }
        {
          const int row = row_end - 1, last = same(max((row / group + keys - queries) - 127, 0)) - 1;
      #pragma unroll 1
          for (int first = same(s.sequence.first_tile * 64); first <= last; first += 32) {
            const int key = min(first + lane_32, last);
            const int found = key < keys ? page_of(page_table, page_table_stride, num_pages, batch_index, key) : -1, page = max(found, 0);
            lowest = found < 0 || finite_halves((const u32*)(v + kv_head * v_stride_head + page * v_stride_page
                + (key % 16) * v_stride_seq), 32) ? lowest : min(lowest, key);
          }
          lowest = same(-largest_of_lanes(-lowest));
        }
      #pragma unroll 1
        for (int row = row_begin; row < row_end; ++row) {
          const int begin = same(max((row / group + keys - queries) - 127, 0)), end = same(min(keys, (row / group + keys - queries) + 1));
          if (highest < end && lowest >= begin) continue;
          const u32* const query_words = (const u32*)(q + (q_start + row / group) * q_stride_seq
              + (kv_head * group + row % group) * q_stride_head);
          float maximum = -kInfinity, sum = 0.0f, out[2];
      #pragma unroll
          for (int i = 0; i < 2; ++i) out[i] = 0.0f;
          // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
          bool left = end > begin;
      #pragma unroll 1
          for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
            float score[1] = {0.0f};
            {
              const int key = max(min(first + lane_32, end - 1), begin);
              const int found = key < keys ? page_of(page_table, page_table_stride, num_pages, batch_index, key) : -1, page = max(found, 0);
              const u32* const key_words = (const u32*)(k + kv_head * k_stride_head + page * k_stride_page + (key % 16) * k_stride_seq);
              UNROLL_4
              for (int i = 0; i < 32; ++i) {
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
            for (int i = 0; i < 2; ++i) out[i] *= shrink;
      #pragma unroll 1
            for (int j = 0; j < 32; ++j) {
              const int key = max(min(first + j, end - 1), begin);
              const float p = lane_float(weight, j);
              const int found = key < keys ? page_of(page_table, page_table_stride, num_pages, batch_index, key) : -1, page = max(found, 0);
              const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
              const u32* const value_words = (const u32*)(v + kv_head * v_stride_head + page * v_stride_page + (key % 16) * v_stride_seq);
      #pragma unroll
              for (int i = 0; i < 2; i += 2) {
                u32 two = value_words[min(lane_32 + 16 * i, 31)];
                two = seen ? two : 0u;
                out[i] = fmaf(p, low_half(two), out[i]);
                out[i + 1] = fmaf(p, high_half(two), out[i + 1]);
              }
            }
            // what the row itself sees may leave nothing to compute
            bool finite = false;
      #pragma unroll
            for (int i = 0; i < 2; ++i) finite |= out[i] * 0.0f == 0.0f;
            left = any_lane(finite);
          }
          sum += maximum > -kInfinity ? exp2_approx(sink[kv_head * group + row % group] * 1.44269504f - maximum * scale_log2) : 0.0f;
          const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
          u16* const to = o + (q_start + row / group) * o_stride_seq + (kv_head * group + row % group) * o_stride_head;
      #pragma unroll
          for (int i = 0; i < 2; i += 2) {
            const int column = 2 * lane_32 + 32 * i;
            const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
            if (column < 64 && writes_rows()) *(u32*)(to + column) = two;
          }
        }
      }
      if (same(again)) {
        SYNC();
        if (thread_id() == 0) *(LDS int*)(lds + 10372) = 0;
      }
    }
  }
}
