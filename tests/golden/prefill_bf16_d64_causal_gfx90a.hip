// prefill_bf16_d64_causal_gfx90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"prefill_bf16_d64_causal_gfx90a","target":"gfx90a","operation":"prefill","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":64,"ov_depth":64,"rope_depth":0,"nope_depth":64,"q_depth":64,"cache_depth":64,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"contiguous"},"mask":"causal","score_mod":"none","sink":false,"lse":false,"scale":0.125,"mma_shape":[32,32,8],"BM":128,"BN":64,"BK":64,"WM":32,"WN":64,"num_threads":256,"swizzle_k":{"bits":3,"base":0,"shift":3,"domain":"vector"},"swizzle_v":"none","full_kv":true,"bk_smem":64,"smem_depth":64,"num_smem_stages":2,"double_buffer":true,"double_buffer_k_only":false,"shared_kv":false,"dma":"lds_direct","v_load":"perm4x4","wait_policy":"counted","schedule":"cdna_prefill"}
// Schedule cdna_prefill: 128 query rows (4 waves of 32) by 64 keys a tile, strips of 64.
// Loads of one wave in flight: 8 of a K tile, 8 of a V tile; waits count them.
// LDS (32768 bytes):
//         0 ..   16384  K, 2 stages
//     16384 ..   32768  V, 2 stages
//
// Regenerate: kiln generate prefill_bf16_d64_causal_gfx90a.json --out .
// Compile: clang -x hip --offload-device-only -nogpuinc -nogpulib -O3 --offload-arch=gfx90a prefill_bf16_d64_causal_gfx90a.hip

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

// The kernel's arguments, to be read from memory again: what only the end of a kernel needs would otherwise take
// scalar registers through its main loop.
template <class Arguments>
DEVICE const CONSTANT Arguments* arguments_again() {
  u64 address = (u64)__builtin_amdgcn_kernarg_segment_ptr();
  __asm volatile("" : "+s"(address));  // the compiler must not know that these are the same
  return (const CONSTANT Arguments*)address;
}

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

DEVICE u32 lds_read_4(const LDS u8* p) { return *(const LDS u32*)p; }

// The lower, or upper, 16-bit halves of two registers, `a` in the lower half of the result.
DEVICE u32 low_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x05040100u); }
DEVICE u32 high_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x07060302u); }

DEVICE f32x16 mfma_32x32x8_bf16(u32x2 a, u32x2 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(s16x4, a), __builtin_bit_cast(s16x4, b), c, 0, 0, 0);
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

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
DEVICE u32 round_bf16(float x) {
  const u32 bits = as_bits(x);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
DEVICE u32 pack_bf16(float lo, float hi) { return __builtin_amdgcn_perm(round_bf16(hi), round_bf16(lo), 0x07060302u); }

struct Arguments {
  const u16* q;
  const u16* k;
  const u16* v;
  u16* o;
  int heads_q;
  int heads_kv;
  int seqlen_q;
  int seqlen_k;
  int num_m_blocks;
  long long q_stride_batch;
  long long q_stride_seq;
  long long q_stride_head;
  long long k_stride_batch;
  long long k_stride_seq;
  long long k_stride_head;
  long long v_stride_batch;
  long long v_stride_seq;
  long long v_stride_head;
  long long o_stride_batch;
  long long o_stride_seq;
  long long o_stride_head;
  float scale_log2;
};
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(256, 256)))
void kiln_prefill_bf16_d64_causal_gfx90a(const u16* q, const u16* k, const u16* v, u16* o, int heads_q, int heads_kv, int seqlen_q,
    int seqlen_k, int num_m_blocks, long long q_stride_batch, long long q_stride_seq,
    long long q_stride_head, long long k_stride_batch, long long k_stride_seq,
    long long k_stride_head, long long v_stride_batch, long long v_stride_seq,
    long long v_stride_head, long long o_stride_batch, long long o_stride_seq,
    long long o_stride_head, float scale_log2) {
  extern __shared__ __attribute__((aligned(1024))) u8 smem_bytes[];
  LDS u8* const lds = (LDS u8*)smem_bytes;
  const u32 lds_start = (u32)(u64)lds;
  const int thread = (int)__builtin_amdgcn_workitem_id_x(), lane = thread & 63;
  const int warp = uniform(thread >> 6);

  // ---- work item: 128 query rows of one head of one sequence
  const int m_start = (num_m_blocks - 1 - (int)__builtin_amdgcn_workgroup_id_x()) * 128;  // the longest rows first
  const int head = (int)__builtin_amdgcn_workgroup_id_y(), batch = (int)__builtin_amdgcn_workgroup_id_z();
  const int kv_head = head / (heads_q / heads_kv);
  const u16* const q_head = q + batch * q_stride_batch + head * q_stride_head + m_start * q_stride_seq;
  const u16* const k_head = k + batch * k_stride_batch + kv_head * k_stride_head;
  const u16* const v_head = v + batch * v_stride_batch + kv_head * v_stride_head;
  const int block_row = warp * 32 + (lane & 31);  // this lane's row of the block's
  const int row = m_start + block_row;
  // Keys that some row of the block sees, that some row of this wave sees, and that all of them see.
  const int block_position = m_start + seqlen_k - seqlen_q;
  const int warp_position = block_position + 32 * warp;
  const int block_end = min(seqlen_k, (min(m_start + 128, seqlen_q) - 1 + seqlen_k - seqlen_q) + 1);
  const int warp_end = min(seqlen_k, (warp_position + 31) + 1);
  const int clean_end = min(seqlen_k, warp_position + 1);
  const int num_tiles = (max(block_end, 0) + 63) / 64;

  // ---- addresses
  // K: 2 tiles of 32 x 64 a load, 2 waves on each
  const int k_row_bytes = (int)(k_stride_seq * 2);
  const u8* k_next = (const u8*)(k_head);
  int k_rows = seqlen_k;
  const u32 k_vector = lane / 4 + warp % 2 * 128;
  const u32 k_from_0 = (k_vector ^ (k_vector >> 3 & 7)) / 8 * k_row_bytes + (k_vector ^ (k_vector >> 3 & 7)) % 8 * 16 + lane % 4 * 4;
  const u32 k_from_2 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) / 8 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) % 8 * 16
      + lane % 4 * 4;
  const u32 k_from_4 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) / 8 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) % 8 * 16
      + lane % 4 * 4;
  const u32 k_from_6 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) / 8 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) % 8 * 16
      + lane % 4 * 4;
  const u32 k_tile_0 = (warp / 2) * 32 * k_row_bytes + 0 * 128;
  const u32 k_lds_0 = lds_start + (warp / 2) * 4096 + 0 * 8192 + warp % 2 * 2048;
  const u32 k_frag_row = lane & 31, k_frag_col = lane / 32 * 8;
  const u32 k_frag_vector = k_frag_row * 8 + k_frag_col / 8;
  const u32 k_frag_0 = 0 + (k_frag_vector ^ (k_frag_vector >> 3 & 7)) * 16;
  const u32 k_frag_2 = 0 + ((k_frag_vector ^ (k_frag_vector >> 3 & 7)) ^ 2) * 16;
  const u32 k_frag_4 = 0 + ((k_frag_vector ^ (k_frag_vector >> 3 & 7)) ^ 4) * 16;
  const u32 k_frag_6 = 0 + ((k_frag_vector ^ (k_frag_vector >> 3 & 7)) ^ 6) * 16;
  // V: 2 tiles of 32 x 64 a load, 2 waves on each
  const int v_row_bytes = (int)(v_stride_seq * 2);
  const u8* v_next = (const u8*)(v_head);
  int v_rows = seqlen_k;
  const u32 v_vector = lane / 4 + warp % 2 * 128;
  const u32 v_from_0 = v_vector / 8 * v_row_bytes + v_vector % 8 * 16 + lane % 4 * 4;
  const u32 v_tile_0 = (warp / 2) * 32 * v_row_bytes + 0 * 128;
  const u32 v_lds_0 = lds_start + 16384 + (warp / 2) * 4096 + 0 * 8192 + warp % 2 * 2048;
  const u32 v_frag_x2_row = lane / 32 * 4, v_frag_x2_col = (lane & 31) * 2;
  const u32 v_frag_x2_vector = v_frag_x2_row * 8 + v_frag_x2_col / 8;
  const u32 v_frag_x2_0 = 16384 + v_frag_x2_col % 8 * 2 + v_frag_x2_vector * 16;

  // ---- accumulators
  f32x16 s_acc[2];  // S': 64 keys x 32 queries of this wave
  f32x16 o_acc[2];  // O': 64 columns x 32
  u32x2 p[8];  // P' as the B operand of V' P'
  float row_max = -kInfinity, row_sum = 0.0f;
  o_acc[0] = (f32x16)(0.0f);
  o_acc[1] = (f32x16)(0.0f);

  // ---- Q, and the first tiles on their way
  const int q_row_bytes = (int)(q_stride_seq * 2), rows_left = seqlen_q - m_start;
  u32x4 q_reg[4];  // Q: 32 x 64 as the B operand of K Q'
  const i32x4 q_rows = buffer_resource(q_head, (rows_left - 1) * q_row_bytes + 128);
  const u32 q_from = block_row * q_row_bytes + lane / 32 * 16;
  if (num_tiles > 0) {
    {
      // load_k_stage0
      const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 64) - 1) * k_row_bytes + 128 : 0);
      u32 from_0_0 = k_from_0 + k_tile_0;
      BUFFER_TO_LDS_4(tile, k_lds_0, 0, from_0_0);
      u32 from_0_2 = k_from_2 + k_tile_0;
      from_0_2 += 2 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 256, from_0_2);
      u32 from_0_4 = k_from_4 + k_tile_0;
      from_0_4 += 4 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 512, from_0_4);
      u32 from_0_6 = k_from_6 + k_tile_0;
      from_0_6 += 6 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 768, from_0_6);
      from_0_0 += 8 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 1024, from_0_0);
      from_0_2 += 8 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 1280, from_0_2);
      from_0_4 += 8 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 1536, from_0_4);
      from_0_6 += 8 * k_row_bytes;
      BUFFER_TO_LDS_4(tile, k_lds_0, 1792, from_0_6);
      k_next += 64 * (long long)k_row_bytes; k_rows -= 64;
    }
    {
      // load_v_stage0
      const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 64) - 1) * v_row_bytes + 128 : 0);
      u32 from_0_0 = v_from_0 + v_tile_0;
      BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 1024, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 1280, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 1536, from_0_0);
      from_0_0 += 2 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 1792, from_0_0);
      v_next += 64 * (long long)v_row_bytes; v_rows -= 64;
    }
    // Q last: the compiler waits for it without knowing of the copies, and so for everything before it.
    q_reg[0] = buffer_load_16(q_rows, q_from + 0);
    q_reg[1] = buffer_load_16(q_rows, q_from + 32);
    q_reg[2] = buffer_load_16(q_rows, q_from + 64);
    q_reg[3] = buffer_load_16(q_rows, q_from + 96);
    // Q arrives here: inside the loop the compiler would wait for it, and so for all loads, in every tile.
    __asm volatile("" : "+v"(q_reg[0]));
    __asm volatile("" : "+v"(q_reg[1]));
    __asm volatile("" : "+v"(q_reg[2]));
    __asm volatile("" : "+v"(q_reg[3]));
    for (int n = 0;;) {

      // ---- KV tile n in stage 0
      // K(n) has landed, and every wave has finished tile n - 1
      WAIT_LOADS_AND_SYNC(8);
      if (n + 1 < num_tiles) {
        {
          // load_k_stage1
          const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 64) - 1) * k_row_bytes + 128 : 0);
          u32 from_0_0 = k_from_0 + k_tile_0;
          BUFFER_TO_LDS_4(tile, k_lds_0, 8192, from_0_0);
          u32 from_0_2 = k_from_2 + k_tile_0;
          from_0_2 += 2 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 8448, from_0_2);
          u32 from_0_4 = k_from_4 + k_tile_0;
          from_0_4 += 4 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 8704, from_0_4);
          u32 from_0_6 = k_from_6 + k_tile_0;
          from_0_6 += 6 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 8960, from_0_6);
          from_0_0 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 9216, from_0_0);
          from_0_2 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 9472, from_0_2);
          from_0_4 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 9728, from_0_4);
          from_0_6 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 9984, from_0_6);
          k_next += 64 * (long long)k_row_bytes; k_rows -= 64;
        }
        {
          // load_v_stage1
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 64) - 1) * v_row_bytes + 128 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8192, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8448, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8704, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8960, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9216, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9472, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9728, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9984, from_0_0);
          v_next += 64 * (long long)v_row_bytes; v_rows -= 64;
        }
      }
      if (n * 64 < warp_end) {
        // S' = K(n) Q'
        u32x4 k_reg[8];  // 16 fragments of 4 elements
        // strip 0
        k_reg[0] = lds_read_16(lds + k_frag_0);
        k_reg[1] = lds_read_16(lds + k_frag_0 + 4096);
        k_reg[2] = lds_read_16(lds + k_frag_2);
        k_reg[3] = lds_read_16(lds + k_frag_2 + 4096);
        k_reg[4] = lds_read_16(lds + k_frag_4);
        k_reg[5] = lds_read_16(lds + k_frag_4 + 4096);
        k_reg[6] = lds_read_16(lds + k_frag_6);
        k_reg[7] = lds_read_16(lds + k_frag_6 + 4096);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[1] = mfma_32x32x8_bf16(k_reg[1].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[1].hi, q_reg[0].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].lo, q_reg[1].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[3].lo, q_reg[1].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].hi, q_reg[1].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[3].hi, q_reg[1].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].lo, q_reg[2].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[5].lo, q_reg[2].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].hi, q_reg[2].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[5].hi, q_reg[2].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].lo, q_reg[3].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[7].lo, q_reg[3].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].hi, q_reg[3].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[7].hi, q_reg[3].hi, s_acc[1]);
        // the end of some row's keys lies in this tile
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row + seqlen_k - seqlen_q + 1) - (n * 64) - lane / 32 * 4;
          if (0 >= end_0) s_acc[0][0] = -kInfinity; if (1 >= end_0) s_acc[0][1] = -kInfinity;
          if (2 >= end_0) s_acc[0][2] = -kInfinity; if (3 >= end_0) s_acc[0][3] = -kInfinity;
          if (8 >= end_0) s_acc[0][4] = -kInfinity; if (9 >= end_0) s_acc[0][5] = -kInfinity;
          if (10 >= end_0) s_acc[0][6] = -kInfinity; if (11 >= end_0) s_acc[0][7] = -kInfinity;
          if (16 >= end_0) s_acc[0][8] = -kInfinity; if (17 >= end_0) s_acc[0][9] = -kInfinity;
          if (18 >= end_0) s_acc[0][10] = -kInfinity; if (19 >= end_0) s_acc[0][11] = -kInfinity;
          if (24 >= end_0) s_acc[0][12] = -kInfinity; if (25 >= end_0) s_acc[0][13] = -kInfinity;
          if (26 >= end_0) s_acc[0][14] = -kInfinity; if (27 >= end_0) s_acc[0][15] = -kInfinity;
          if (32 >= end_0) s_acc[1][0] = -kInfinity; if (33 >= end_0) s_acc[1][1] = -kInfinity;
          if (34 >= end_0) s_acc[1][2] = -kInfinity; if (35 >= end_0) s_acc[1][3] = -kInfinity;
          if (40 >= end_0) s_acc[1][4] = -kInfinity; if (41 >= end_0) s_acc[1][5] = -kInfinity;
          if (42 >= end_0) s_acc[1][6] = -kInfinity; if (43 >= end_0) s_acc[1][7] = -kInfinity;
          if (48 >= end_0) s_acc[1][8] = -kInfinity; if (49 >= end_0) s_acc[1][9] = -kInfinity;
          if (50 >= end_0) s_acc[1][10] = -kInfinity; if (51 >= end_0) s_acc[1][11] = -kInfinity;
          if (56 >= end_0) s_acc[1][12] = -kInfinity; if (57 >= end_0) s_acc[1][13] = -kInfinity;
          if (58 >= end_0) s_acc[1][14] = -kInfinity; if (59 >= end_0) s_acc[1][15] = -kInfinity;
        }
        // P = exp2(S - max), O follows the maximum
        float max_0 = s_acc[0][0];
        float max_1 = s_acc[0][1];
        float max_2 = s_acc[0][2];
        float max_3 = s_acc[0][3];
        max_0 = maximum(maximum(max_0, s_acc[0][4]), s_acc[0][8]);
        max_1 = maximum(maximum(max_1, s_acc[0][5]), s_acc[0][9]);
        max_2 = maximum(maximum(max_2, s_acc[0][6]), s_acc[0][10]);
        max_3 = maximum(maximum(max_3, s_acc[0][7]), s_acc[0][11]);
        max_0 = maximum(maximum(max_0, s_acc[0][12]), s_acc[1][0]);
        max_1 = maximum(maximum(max_1, s_acc[0][13]), s_acc[1][1]);
        max_2 = maximum(maximum(max_2, s_acc[0][14]), s_acc[1][2]);
        max_3 = maximum(maximum(max_3, s_acc[0][15]), s_acc[1][3]);
        max_0 = maximum(maximum(max_0, s_acc[1][4]), s_acc[1][8]);
        max_1 = maximum(maximum(max_1, s_acc[1][5]), s_acc[1][9]);
        max_2 = maximum(maximum(max_2, s_acc[1][6]), s_acc[1][10]);
        max_3 = maximum(maximum(max_3, s_acc[1][7]), s_acc[1][11]);
        max_0 = maximum(max_0, s_acc[1][12]);
        max_1 = maximum(max_1, s_acc[1][13]);
        max_2 = maximum(max_2, s_acc[1][14]);
        max_3 = maximum(max_3, s_acc[1][15]);
        float new_max = maximum(maximum(max_0, max_1), maximum(max_2, max_3));
        new_max = maximum(new_max, from_lane((lane ^ 32) * 4, new_max));
        new_max = maximum(new_max, row_max);
        float alpha = 1.0f;
        // Keep the old maximum while no row of the wave grew by more than 2^8.
        const bool rescale = any((new_max - row_max) * scale_log2 > 8.0f);
        if (rescale) {
          alpha = rescale_factor(row_max, new_max, scale_log2);
          row_sum *= alpha; row_max = new_max;
        }
        float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, scale_log2);
        if (any(is_steep(shift))) {
          const float steep = is_steep(shift) ? row_max : 0.0f;
          s_acc[0] -= steep;
          s_acc[1] -= steep;
          if (is_steep(shift)) shift = 0.0f;
        }
        if (rescale) {
          o_acc[0] *= alpha;
          o_acc[1] *= alpha;
        }
        s_acc[0][0] = exp2_approx(__builtin_fmaf(s_acc[0][0], scale_log2, -shift));
        s_acc[0][1] = exp2_approx(__builtin_fmaf(s_acc[0][1], scale_log2, -shift));
        s_acc[0][2] = exp2_approx(__builtin_fmaf(s_acc[0][2], scale_log2, -shift));
        s_acc[0][3] = exp2_approx(__builtin_fmaf(s_acc[0][3], scale_log2, -shift));
        s_acc[0][4] = exp2_approx(__builtin_fmaf(s_acc[0][4], scale_log2, -shift));
        s_acc[0][5] = exp2_approx(__builtin_fmaf(s_acc[0][5], scale_log2, -shift));
        s_acc[0][6] = exp2_approx(__builtin_fmaf(s_acc[0][6], scale_log2, -shift));
        s_acc[0][7] = exp2_approx(__builtin_fmaf(s_acc[0][7], scale_log2, -shift));
        s_acc[0][8] = exp2_approx(__builtin_fmaf(s_acc[0][8], scale_log2, -shift));
        s_acc[0][9] = exp2_approx(__builtin_fmaf(s_acc[0][9], scale_log2, -shift));
        s_acc[0][10] = exp2_approx(__builtin_fmaf(s_acc[0][10], scale_log2, -shift));
        s_acc[0][11] = exp2_approx(__builtin_fmaf(s_acc[0][11], scale_log2, -shift));
        s_acc[0][12] = exp2_approx(__builtin_fmaf(s_acc[0][12], scale_log2, -shift));
        s_acc[0][13] = exp2_approx(__builtin_fmaf(s_acc[0][13], scale_log2, -shift));
        s_acc[0][14] = exp2_approx(__builtin_fmaf(s_acc[0][14], scale_log2, -shift));
        s_acc[0][15] = exp2_approx(__builtin_fmaf(s_acc[0][15], scale_log2, -shift));
        s_acc[1][0] = exp2_approx(__builtin_fmaf(s_acc[1][0], scale_log2, -shift));
        s_acc[1][1] = exp2_approx(__builtin_fmaf(s_acc[1][1], scale_log2, -shift));
        s_acc[1][2] = exp2_approx(__builtin_fmaf(s_acc[1][2], scale_log2, -shift));
        s_acc[1][3] = exp2_approx(__builtin_fmaf(s_acc[1][3], scale_log2, -shift));
        s_acc[1][4] = exp2_approx(__builtin_fmaf(s_acc[1][4], scale_log2, -shift));
        s_acc[1][5] = exp2_approx(__builtin_fmaf(s_acc[1][5], scale_log2, -shift));
        s_acc[1][6] = exp2_approx(__builtin_fmaf(s_acc[1][6], scale_log2, -shift));
        s_acc[1][7] = exp2_approx(__builtin_fmaf(s_acc[1][7], scale_log2, -shift));
        s_acc[1][8] = exp2_approx(__builtin_fmaf(s_acc[1][8], scale_log2, -shift));
        s_acc[1][9] = exp2_approx(__builtin_fmaf(s_acc[1][9], scale_log2, -shift));
        s_acc[1][10] = exp2_approx(__builtin_fmaf(s_acc[1][10], scale_log2, -shift));
        s_acc[1][11] = exp2_approx(__builtin_fmaf(s_acc[1][11], scale_log2, -shift));
        s_acc[1][12] = exp2_approx(__builtin_fmaf(s_acc[1][12], scale_log2, -shift));
        s_acc[1][13] = exp2_approx(__builtin_fmaf(s_acc[1][13], scale_log2, -shift));
        s_acc[1][14] = exp2_approx(__builtin_fmaf(s_acc[1][14], scale_log2, -shift));
        s_acc[1][15] = exp2_approx(__builtin_fmaf(s_acc[1][15], scale_log2, -shift));
        // row sum, four chains
        float sum_0 = s_acc[0][0];
        float sum_1 = s_acc[0][1];
        float sum_2 = s_acc[0][2];
        float sum_3 = s_acc[0][3];
        sum_0 += s_acc[0][4]; sum_1 += s_acc[0][5]; sum_2 += s_acc[0][6]; sum_3 += s_acc[0][7];
        sum_0 += s_acc[0][8]; sum_1 += s_acc[0][9]; sum_2 += s_acc[0][10]; sum_3 += s_acc[0][11];
        sum_0 += s_acc[0][12]; sum_1 += s_acc[0][13]; sum_2 += s_acc[0][14]; sum_3 += s_acc[0][15];
        sum_0 += s_acc[1][0]; sum_1 += s_acc[1][1]; sum_2 += s_acc[1][2]; sum_3 += s_acc[1][3];
        sum_0 += s_acc[1][4]; sum_1 += s_acc[1][5]; sum_2 += s_acc[1][6]; sum_3 += s_acc[1][7];
        sum_0 += s_acc[1][8]; sum_1 += s_acc[1][9]; sum_2 += s_acc[1][10]; sum_3 += s_acc[1][11];
        sum_0 += s_acc[1][12]; sum_1 += s_acc[1][13]; sum_2 += s_acc[1][14]; sum_3 += s_acc[1][15];
        row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);
        p[0] = u32x2{pack_bf16(s_acc[0][0], s_acc[0][1]), pack_bf16(s_acc[0][2], s_acc[0][3])};
        p[1] = u32x2{pack_bf16(s_acc[0][4], s_acc[0][5]), pack_bf16(s_acc[0][6], s_acc[0][7])};
        p[2] = u32x2{pack_bf16(s_acc[0][8], s_acc[0][9]), pack_bf16(s_acc[0][10], s_acc[0][11])};
        p[3] = u32x2{pack_bf16(s_acc[0][12], s_acc[0][13]), pack_bf16(s_acc[0][14], s_acc[0][15])};
        p[4] = u32x2{pack_bf16(s_acc[1][0], s_acc[1][1]), pack_bf16(s_acc[1][2], s_acc[1][3])};
        p[5] = u32x2{pack_bf16(s_acc[1][4], s_acc[1][5]), pack_bf16(s_acc[1][6], s_acc[1][7])};
        p[6] = u32x2{pack_bf16(s_acc[1][8], s_acc[1][9]), pack_bf16(s_acc[1][10], s_acc[1][11])};
        p[7] = u32x2{pack_bf16(s_acc[1][12], s_acc[1][13]), pack_bf16(s_acc[1][14], s_acc[1][15])};
      }
      // V(n) has landed; what was started after it may still fly
      if (n + 1 < num_tiles) {
        WAIT_LOADS_AND_SYNC(16);
      } else {
        WAIT_LOADS_AND_SYNC(0);
      }
      if (n * 64 < warp_end) {
        // O' += V(n)' P'
        u32x2 v_reg[16];  // fragments of 4 elements
        // strip 0
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0), key_1 = lds_read_4(lds + v_frag_x2_0 + 128),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 256), key_3 = lds_read_4(lds + v_frag_x2_0 + 384);
          v_reg[0] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[1] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 1024), key_1 = lds_read_4(lds + v_frag_x2_0 + 1152),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 1280), key_3 = lds_read_4(lds + v_frag_x2_0 + 1408);
          v_reg[2] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[3] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 2048), key_1 = lds_read_4(lds + v_frag_x2_0 + 2176),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 2304), key_3 = lds_read_4(lds + v_frag_x2_0 + 2432);
          v_reg[4] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[5] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 3072), key_1 = lds_read_4(lds + v_frag_x2_0 + 3200),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 3328), key_3 = lds_read_4(lds + v_frag_x2_0 + 3456);
          v_reg[6] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[7] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 4096), key_1 = lds_read_4(lds + v_frag_x2_0 + 4224),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 4352), key_3 = lds_read_4(lds + v_frag_x2_0 + 4480);
          v_reg[8] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[9] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 5120), key_1 = lds_read_4(lds + v_frag_x2_0 + 5248),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 5376), key_3 = lds_read_4(lds + v_frag_x2_0 + 5504);
          v_reg[10] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[11] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 6144), key_1 = lds_read_4(lds + v_frag_x2_0 + 6272),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 6400), key_3 = lds_read_4(lds + v_frag_x2_0 + 6528);
          v_reg[12] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[13] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 7168), key_1 = lds_read_4(lds + v_frag_x2_0 + 7296),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 7424), key_3 = lds_read_4(lds + v_frag_x2_0 + 7552);
          v_reg[14] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[15] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        o_acc[0] = mfma_32x32x8_bf16(v_reg[0], p[0], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[1], p[0], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[2], p[1], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[3], p[1], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[4], p[2], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[5], p[2], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[6], p[3], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[7], p[3], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[8], p[4], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[9], p[4], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[10], p[5], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[11], p[5], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[12], p[6], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[13], p[6], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[14], p[7], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[15], p[7], o_acc[1]);
      }
      if (++n == num_tiles) break;

      // ---- KV tile n in stage 1
      // K(n) has landed, and every wave has finished tile n - 1
      WAIT_LOADS_AND_SYNC(8);
      if (n + 1 < num_tiles) {
        {
          // load_k_stage0
          const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 64) - 1) * k_row_bytes + 128 : 0);
          u32 from_0_0 = k_from_0 + k_tile_0;
          BUFFER_TO_LDS_4(tile, k_lds_0, 0, from_0_0);
          u32 from_0_2 = k_from_2 + k_tile_0;
          from_0_2 += 2 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 256, from_0_2);
          u32 from_0_4 = k_from_4 + k_tile_0;
          from_0_4 += 4 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 512, from_0_4);
          u32 from_0_6 = k_from_6 + k_tile_0;
          from_0_6 += 6 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 768, from_0_6);
          from_0_0 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 1024, from_0_0);
          from_0_2 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 1280, from_0_2);
          from_0_4 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 1536, from_0_4);
          from_0_6 += 8 * k_row_bytes;
          BUFFER_TO_LDS_4(tile, k_lds_0, 1792, from_0_6);
          k_next += 64 * (long long)k_row_bytes; k_rows -= 64;
        }
        {
          // load_v_stage0
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 64) - 1) * v_row_bytes + 128 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 1024, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 1280, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 1536, from_0_0);
          from_0_0 += 2 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 1792, from_0_0);
          v_next += 64 * (long long)v_row_bytes; v_rows -= 64;
        }
      }
      if (n * 64 < warp_end) {
        // S' = K(n) Q'
        u32x4 k_reg[8];  // 16 fragments of 4 elements
        // strip 0
        k_reg[0] = lds_read_16(lds + k_frag_0 + 8192);
        k_reg[1] = lds_read_16(lds + k_frag_0 + 12288);
        k_reg[2] = lds_read_16(lds + k_frag_2 + 8192);
        k_reg[3] = lds_read_16(lds + k_frag_2 + 12288);
        k_reg[4] = lds_read_16(lds + k_frag_4 + 8192);
        k_reg[5] = lds_read_16(lds + k_frag_4 + 12288);
        k_reg[6] = lds_read_16(lds + k_frag_6 + 8192);
        k_reg[7] = lds_read_16(lds + k_frag_6 + 12288);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[1] = mfma_32x32x8_bf16(k_reg[1].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[1].hi, q_reg[0].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].lo, q_reg[1].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[3].lo, q_reg[1].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].hi, q_reg[1].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[3].hi, q_reg[1].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].lo, q_reg[2].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[5].lo, q_reg[2].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].hi, q_reg[2].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[5].hi, q_reg[2].hi, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].lo, q_reg[3].lo, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[7].lo, q_reg[3].lo, s_acc[1]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].hi, q_reg[3].hi, s_acc[0]);
        s_acc[1] = mfma_32x32x8_bf16(k_reg[7].hi, q_reg[3].hi, s_acc[1]);
        // the end of some row's keys lies in this tile
        if ((n + 1) * 64 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row + seqlen_k - seqlen_q + 1) - (n * 64) - lane / 32 * 4;
          if (0 >= end_0) s_acc[0][0] = -kInfinity; if (1 >= end_0) s_acc[0][1] = -kInfinity;
          if (2 >= end_0) s_acc[0][2] = -kInfinity; if (3 >= end_0) s_acc[0][3] = -kInfinity;
          if (8 >= end_0) s_acc[0][4] = -kInfinity; if (9 >= end_0) s_acc[0][5] = -kInfinity;
          if (10 >= end_0) s_acc[0][6] = -kInfinity; if (11 >= end_0) s_acc[0][7] = -kInfinity;
          if (16 >= end_0) s_acc[0][8] = -kInfinity; if (17 >= end_0) s_acc[0][9] = -kInfinity;
          if (18 >= end_0) s_acc[0][10] = -kInfinity; if (19 >= end_0) s_acc[0][11] = -kInfinity;
          if (24 >= end_0) s_acc[0][12] = -kInfinity; if (25 >= end_0) s_acc[0][13] = -kInfinity;
          if (26 >= end_0) s_acc[0][14] = -kInfinity; if (27 >= end_0) s_acc[0][15] = -kInfinity;
          if (32 >= end_0) s_acc[1][0] = -kInfinity; if (33 >= end_0) s_acc[1][1] = -kInfinity;
          if (34 >= end_0) s_acc[1][2] = -kInfinity; if (35 >= end_0) s_acc[1][3] = -kInfinity;
          if (40 >= end_0) s_acc[1][4] = -kInfinity; if (41 >= end_0) s_acc[1][5] = -kInfinity;
          if (42 >= end_0) s_acc[1][6] = -kInfinity; if (43 >= end_0) s_acc[1][7] = -kInfinity;
          if (48 >= end_0) s_acc[1][8] = -kInfinity; if (49 >= end_0) s_acc[1][9] = -kInfinity;
          if (50 >= end_0) s_acc[1][10] = -kInfinity; if (51 >= end_0) s_acc[1][11] = -kInfinity;
          if (56 >= end_0) s_acc[1][12] = -kInfinity; if (57 >= end_0) s_acc[1][13] = -kInfinity;
          if (58 >= end_0) s_acc[1][14] = -kInfinity; if (59 >= end_0) s_acc[1][15] = -kInfinity;
        }
        // P = exp2(S - max), O follows the maximum
        float max_0 = s_acc[0][0];
        float max_1 = s_acc[0][1];
        float max_2 = s_acc[0][2];
        float max_3 = s_acc[0][3];
        max_0 = maximum(maximum(max_0, s_acc[0][4]), s_acc[0][8]);
        max_1 = maximum(maximum(max_1, s_acc[0][5]), s_acc[0][9]);
        max_2 = maximum(maximum(max_2, s_acc[0][6]), s_acc[0][10]);
        max_3 = maximum(maximum(max_3, s_acc[0][7]), s_acc[0][11]);
        max_0 = maximum(maximum(max_0, s_acc[0][12]), s_acc[1][0]);
        max_1 = maximum(maximum(max_1, s_acc[0][13]), s_acc[1][1]);
        max_2 = maximum(maximum(max_2, s_acc[0][14]), s_acc[1][2]);
        max_3 = maximum(maximum(max_3, s_acc[0][15]), s_acc[1][3]);
        max_0 = maximum(maximum(max_0, s_acc[1][4]), s_acc[1][8]);
        max_1 = maximum(maximum(max_1, s_acc[1][5]), s_acc[1][9]);
        max_2 = maximum(maximum(max_2, s_acc[1][6]), s_acc[1][10]);
        max_3 = maximum(maximum(max_3, s_acc[1][7]), s_acc[1][11]);
        max_0 = maximum(max_0, s_acc[1][12]);
        max_1 = maximum(max_1, s_acc[1][13]);
        max_2 = maximum(max_2, s_acc[1][14]);
        max_3 = maximum(max_3, s_acc[1][15]);
        float new_max = maximum(maximum(max_0, max_1), maximum(max_2, max_3));
        new_max = maximum(new_max, from_lane((lane ^ 32) * 4, new_max));
        new_max = maximum(new_max, row_max);
        float alpha = 1.0f;
        // Keep the old maximum while no row of the wave grew by more than 2^8.
        const bool rescale = any((new_max - row_max) * scale_log2 > 8.0f);
        if (rescale) {
          alpha = rescale_factor(row_max, new_max, scale_log2);
          row_sum *= alpha; row_max = new_max;
        }
        float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, scale_log2);
        if (any(is_steep(shift))) {
          const float steep = is_steep(shift) ? row_max : 0.0f;
          s_acc[0] -= steep;
          s_acc[1] -= steep;
          if (is_steep(shift)) shift = 0.0f;
        }
        if (rescale) {
          o_acc[0] *= alpha;
          o_acc[1] *= alpha;
        }
        s_acc[0][0] = exp2_approx(__builtin_fmaf(s_acc[0][0], scale_log2, -shift));
        s_acc[0][1] = exp2_approx(__builtin_fmaf(s_acc[0][1], scale_log2, -shift));
        s_acc[0][2] = exp2_approx(__builtin_fmaf(s_acc[0][2], scale_log2, -shift));
        s_acc[0][3] = exp2_approx(__builtin_fmaf(s_acc[0][3], scale_log2, -shift));
        s_acc[0][4] = exp2_approx(__builtin_fmaf(s_acc[0][4], scale_log2, -shift));
        s_acc[0][5] = exp2_approx(__builtin_fmaf(s_acc[0][5], scale_log2, -shift));
        s_acc[0][6] = exp2_approx(__builtin_fmaf(s_acc[0][6], scale_log2, -shift));
        s_acc[0][7] = exp2_approx(__builtin_fmaf(s_acc[0][7], scale_log2, -shift));
        s_acc[0][8] = exp2_approx(__builtin_fmaf(s_acc[0][8], scale_log2, -shift));
        s_acc[0][9] = exp2_approx(__builtin_fmaf(s_acc[0][9], scale_log2, -shift));
        s_acc[0][10] = exp2_approx(__builtin_fmaf(s_acc[0][10], scale_log2, -shift));
        s_acc[0][11] = exp2_approx(__builtin_fmaf(s_acc[0][11], scale_log2, -shift));
        s_acc[0][12] = exp2_approx(__builtin_fmaf(s_acc[0][12], scale_log2, -shift));
        s_acc[0][13] = exp2_approx(__builtin_fmaf(s_acc[0][13], scale_log2, -shift));
        s_acc[0][14] = exp2_approx(__builtin_fmaf(s_acc[0][14], scale_log2, -shift));
        s_acc[0][15] = exp2_approx(__builtin_fmaf(s_acc[0][15], scale_log2, -shift));
        s_acc[1][0] = exp2_approx(__builtin_fmaf(s_acc[1][0], scale_log2, -shift));
        s_acc[1][1] = exp2_approx(__builtin_fmaf(s_acc[1][1], scale_log2, -shift));
        s_acc[1][2] = exp2_approx(__builtin_fmaf(s_acc[1][2], scale_log2, -shift));
        s_acc[1][3] = exp2_approx(__builtin_fmaf(s_acc[1][3], scale_log2, -shift));
        s_acc[1][4] = exp2_approx(__builtin_fmaf(s_acc[1][4], scale_log2, -shift));
        s_acc[1][5] = exp2_approx(__builtin_fmaf(s_acc[1][5], scale_log2, -shift));
        s_acc[1][6] = exp2_approx(__builtin_fmaf(s_acc[1][6], scale_log2, -shift));
        s_acc[1][7] = exp2_approx(__builtin_fmaf(s_acc[1][7], scale_log2, -shift));
        s_acc[1][8] = exp2_approx(__builtin_fmaf(s_acc[1][8], scale_log2, -shift));
        s_acc[1][9] = exp2_approx(__builtin_fmaf(s_acc[1][9], scale_log2, -shift));
        s_acc[1][10] = exp2_approx(__builtin_fmaf(s_acc[1][10], scale_log2, -shift));
        s_acc[1][11] = exp2_approx(__builtin_fmaf(s_acc[1][11], scale_log2, -shift));
        s_acc[1][12] = exp2_approx(__builtin_fmaf(s_acc[1][12], scale_log2, -shift));
        s_acc[1][13] = exp2_approx(__builtin_fmaf(s_acc[1][13], scale_log2, -shift));
        s_acc[1][14] = exp2_approx(__builtin_fmaf(s_acc[1][14], scale_log2, -shift));
        s_acc[1][15] = exp2_approx(__builtin_fmaf(s_acc[1][15], scale_log2, -shift));
        // row sum, four chains
        float sum_0 = s_acc[0][0];
        float sum_1 = s_acc[0][1];
        float sum_2 = s_acc[0][2];
        float sum_3 = s_acc[0][3];
        sum_0 += s_acc[0][4]; sum_1 += s_acc[0][5]; sum_2 += s_acc[0][6]; sum_3 += s_acc[0][7];
        sum_0 += s_acc[0][8]; sum_1 += s_acc[0][9]; sum_2 += s_acc[0][10]; sum_3 += s_acc[0][11];
        sum_0 += s_acc[0][12]; sum_1 += s_acc[0][13]; sum_2 += s_acc[0][14]; sum_3 += s_acc[0][15];
        sum_0 += s_acc[1][0]; sum_1 += s_acc[1][1]; sum_2 += s_acc[1][2]; sum_3 += s_acc[1][3];
        sum_0 += s_acc[1][4]; sum_1 += s_acc[1][5]; sum_2 += s_acc[1][6]; sum_3 += s_acc[1][7];
        sum_0 += s_acc[1][8]; sum_1 += s_acc[1][9]; sum_2 += s_acc[1][10]; sum_3 += s_acc[1][11];
        sum_0 += s_acc[1][12]; sum_1 += s_acc[1][13]; sum_2 += s_acc[1][14]; sum_3 += s_acc[1][15];
        row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);
        p[0] = u32x2{pack_bf16(s_acc[0][0], s_acc[0][1]), pack_bf16(s_acc[0][2], s_acc[0][3])};
        p[1] = u32x2{pack_bf16(s_acc[0][4], s_acc[0][5]), pack_bf16(s_acc[0][6], s_acc[0][7])};
        p[2] = u32x2{pack_bf16(s_acc[0][8], s_acc[0][9]), pack_bf16(s_acc[0][10], s_acc[0][11])};
        p[3] = u32x2{pack_bf16(s_acc[0][12], s_acc[0][13]), pack_bf16(s_acc[0][14], s_acc[0][15])};
        p[4] = u32x2{pack_bf16(s_acc[1][0], s_acc[1][1]), pack_bf16(s_acc[1][2], s_acc[1][3])};
        p[5] = u32x2{pack_bf16(s_acc[1][4], s_acc[1][5]), pack_bf16(s_acc[1][6], s_acc[1][7])};
        p[6] = u32x2{pack_bf16(s_acc[1][8], s_acc[1][9]), pack_bf16(s_acc[1][10], s_acc[1][11])};
        p[7] = u32x2{pack_bf16(s_acc[1][12], s_acc[1][13]), pack_bf16(s_acc[1][14], s_acc[1][15])};
      }
      // V(n) has landed; what was started after it may still fly
      if (n + 1 < num_tiles) {
        WAIT_LOADS_AND_SYNC(16);
      } else {
        WAIT_LOADS_AND_SYNC(0);
      }
      if (n * 64 < warp_end) {
        // O' += V(n)' P'
        u32x2 v_reg[16];  // fragments of 4 elements
        // strip 0
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 8192), key_1 = lds_read_4(lds + v_frag_x2_0 + 8320),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 8448), key_3 = lds_read_4(lds + v_frag_x2_0 + 8576);
          v_reg[0] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[1] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 9216), key_1 = lds_read_4(lds + v_frag_x2_0 + 9344),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 9472), key_3 = lds_read_4(lds + v_frag_x2_0 + 9600);
          v_reg[2] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[3] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 10240), key_1 = lds_read_4(lds + v_frag_x2_0 + 10368),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 10496), key_3 = lds_read_4(lds + v_frag_x2_0 + 10624);
          v_reg[4] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[5] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 11264), key_1 = lds_read_4(lds + v_frag_x2_0 + 11392),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 11520), key_3 = lds_read_4(lds + v_frag_x2_0 + 11648);
          v_reg[6] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[7] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 12288), key_1 = lds_read_4(lds + v_frag_x2_0 + 12416),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 12544), key_3 = lds_read_4(lds + v_frag_x2_0 + 12672);
          v_reg[8] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[9] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 13312), key_1 = lds_read_4(lds + v_frag_x2_0 + 13440),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 13568), key_3 = lds_read_4(lds + v_frag_x2_0 + 13696);
          v_reg[10] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[11] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 14336), key_1 = lds_read_4(lds + v_frag_x2_0 + 14464),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 14592), key_3 = lds_read_4(lds + v_frag_x2_0 + 14720);
          v_reg[12] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[13] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        {
          const u32 key_0 = lds_read_4(lds + v_frag_x2_0 + 15360), key_1 = lds_read_4(lds + v_frag_x2_0 + 15488),
              key_2 = lds_read_4(lds + v_frag_x2_0 + 15616), key_3 = lds_read_4(lds + v_frag_x2_0 + 15744);
          v_reg[14] = u32x2{low_halves(key_0, key_1), low_halves(key_2, key_3)};
          v_reg[15] = u32x2{high_halves(key_0, key_1), high_halves(key_2, key_3)};
        }
        o_acc[0] = mfma_32x32x8_bf16(v_reg[0], p[0], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[1], p[0], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[2], p[1], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[3], p[1], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[4], p[2], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[5], p[2], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[6], p[3], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[7], p[3], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[8], p[4], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[9], p[4], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[10], p[5], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[11], p[5], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[12], p[6], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[13], p[6], o_acc[1]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[14], p[7], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[15], p[7], o_acc[1]);
      }
      if (++n == num_tiles) break;
    }
  }
  // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
  float odd_0 = 0.0f, odd_1 = 0.0f;
  odd_0 = fmaf(o_acc[0][0], o_acc[0][1], odd_0);
  odd_1 = fmaf(o_acc[0][2], o_acc[0][3], odd_1);
  odd_0 = fmaf(o_acc[0][4], o_acc[0][5], odd_0);
  odd_1 = fmaf(o_acc[0][6], o_acc[0][7], odd_1);
  odd_0 = fmaf(o_acc[0][8], o_acc[0][9], odd_0);
  odd_1 = fmaf(o_acc[0][10], o_acc[0][11], odd_1);
  odd_0 = fmaf(o_acc[0][12], o_acc[0][13], odd_0);
  odd_1 = fmaf(o_acc[0][14], o_acc[0][15], odd_1);
  odd_0 = fmaf(o_acc[1][0], o_acc[1][1], odd_0);
  odd_1 = fmaf(o_acc[1][2], o_acc[1][3], odd_1);
  odd_0 = fmaf(o_acc[1][4], o_acc[1][5], odd_0);
  odd_1 = fmaf(o_acc[1][6], o_acc[1][7], odd_1);
  odd_0 = fmaf(o_acc[1][8], o_acc[1][9], odd_0);
  odd_1 = fmaf(o_acc[1][10], o_acc[1][11], odd_1);
  odd_0 = fmaf(o_acc[1][12], o_acc[1][13], odd_0);
  odd_1 = fmaf(o_acc[1][14], o_acc[1][15], odd_1);
  const bool odd = !((odd_0 + odd_1) * 0.0f == 0.0f);
  {
    const CONSTANT Arguments* const again = arguments_again<Arguments>();
    const u16* q = again->q;
    const u16* k = again->k;
    const u16* v = again->v;
    u16* o = again->o;
    int heads_q = again->heads_q;
    int heads_kv = again->heads_kv;
    int seqlen_q = again->seqlen_q;
    int seqlen_k = again->seqlen_k;
    int num_m_blocks = again->num_m_blocks;
    long long q_stride_batch = again->q_stride_batch;
    long long q_stride_seq = again->q_stride_seq;
    long long q_stride_head = again->q_stride_head;
    long long k_stride_batch = again->k_stride_batch;
    long long k_stride_seq = again->k_stride_seq;
    long long k_stride_head = again->k_stride_head;
    long long v_stride_batch = again->v_stride_batch;
    long long v_stride_seq = again->v_stride_seq;
    long long v_stride_head = again->v_stride_head;
    long long o_stride_batch = again->o_stride_batch;
    long long o_stride_seq = again->o_stride_seq;
    long long o_stride_head = again->o_stride_head;
    float scale_log2 = again->scale_log2;
    const int kv_head = head / (heads_q / heads_kv);
    const int num_tiles = (max(min(seqlen_k, (min(m_start + 128, seqlen_q) - 1 + seqlen_k - seqlen_q) + 1), 0) + 63) / 64;
    const int rows_left = seqlen_q - m_start;
    u16* const o_head = o + batch * o_stride_batch + head * o_stride_head + m_start * o_stride_seq;

    // ---- epilogue: O / row_sum, LSE
    row_sum = row_sum + from_lane((lane ^ 32) * 4, row_sum);
    const float inv_sum = row_sum != 0.0f ? rcp_approx(row_sum) : 0.0f;
    // Rows past the end are sent where the descriptor drops them.
    const int o_row_bytes = (int)(o_stride_seq * 2);
    const i32x4 o_rows = buffer_resource(o_head, (rows_left - 1) * o_row_bytes + 128);
    const u32 o_from = block_row < rows_left ? (u32)(block_row * o_row_bytes) : 0x80000000u;
    buffer_store_16(o_rows, o_from + 0 + lane / 32 * 16,
        u32x4{pack_bf16(o_acc[0][0] * inv_sum, o_acc[1][0] * inv_sum), pack_bf16(o_acc[0][1] * inv_sum, o_acc[1][1] * inv_sum),
        pack_bf16(o_acc[0][2] * inv_sum, o_acc[1][2] * inv_sum), pack_bf16(o_acc[0][3] * inv_sum, o_acc[1][3] * inv_sum)});
    buffer_store_16(o_rows, o_from + 32 + lane / 32 * 16,
        u32x4{pack_bf16(o_acc[0][4] * inv_sum, o_acc[1][4] * inv_sum), pack_bf16(o_acc[0][5] * inv_sum, o_acc[1][5] * inv_sum),
        pack_bf16(o_acc[0][6] * inv_sum, o_acc[1][6] * inv_sum), pack_bf16(o_acc[0][7] * inv_sum, o_acc[1][7] * inv_sum)});
    buffer_store_16(o_rows, o_from + 64 + lane / 32 * 16,
        u32x4{pack_bf16(o_acc[0][8] * inv_sum, o_acc[1][8] * inv_sum), pack_bf16(o_acc[0][9] * inv_sum, o_acc[1][9] * inv_sum),
        pack_bf16(o_acc[0][10] * inv_sum, o_acc[1][10] * inv_sum), pack_bf16(o_acc[0][11] * inv_sum, o_acc[1][11] * inv_sum)});
    buffer_store_16(o_rows, o_from + 96 + lane / 32 * 16,
        u32x4{pack_bf16(o_acc[0][12] * inv_sum, o_acc[1][12] * inv_sum), pack_bf16(o_acc[0][13] * inv_sum, o_acc[1][13] * inv_sum),
        pack_bf16(o_acc[0][14] * inv_sum, o_acc[1][14] * inv_sum), pack_bf16(o_acc[0][15] * inv_sum, o_acc[1][15] * inv_sum)});
    // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
    if (same(any_lane(odd))) {
      const int lane_32 = (int)thread_id() & 31, row_begin = same(m_start + 32 * warp),
          row_end = same(min(m_start + 32 * warp + 32, seqlen_q));
      WAIT_LOADS(0);  // the store has been written
      // the last key past some row's end, and the first one before some row's first, with a V that is not finite
      int highest = -1, lowest = 0x7fffffff;
      {
        const int row = row_begin, last = same(min(num_tiles * 64, seqlen_k)) - 1;
    #pragma unroll 1
        for (int first = same(max(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1), 0)); first <= last; first += 32) {
          const int key = min(first + lane_32, last);
          highest = finite_halves((const u32*)(v + kv_head * v_stride_head + batch * v_stride_batch + key * v_stride_seq), 32) ? highest
              : key;
        }
        highest = same(largest_of_lanes(highest));
      }
    #pragma unroll 1
      for (int row = row_begin; row < row_end; ++row) {
        const int begin = same(0), end = same(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1));
        if (highest < end && lowest >= begin) continue;
        const u32* const query_words = (const u32*)(q + batch * q_stride_batch + row * q_stride_seq + head * q_stride_head);
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
            const u32* const key_words = (const u32*)(k + kv_head * k_stride_head + batch * k_stride_batch + key * k_stride_seq);
            UNROLL_4
            for (int i = 0; i < 32; ++i) {
              score[0] = fmaf(low_half(query_words[i]), low_half(key_words[i]), score[0]);
              score[0] = fmaf(high_half(query_words[i]), high_half(key_words[i]), score[0]);
            }
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
            const bool seen = lane_float(score[0], j) != -kInfinity;
            const u32* const value_words = (const u32*)(v + kv_head * v_stride_head + batch * v_stride_batch + key * v_stride_seq);
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
        const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
        u16* const to = o + batch * o_stride_batch + row * o_stride_seq + head * o_stride_head;
    #pragma unroll
        for (int i = 0; i < 2; i += 2) {
          const int column = 2 * lane_32 + 32 * i;
          const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
          if (column < 64 && writes_rows()) *(u32*)(to + column) = two;
        }
      }
    }
  }
}
