// prefill_bf16_d128_ragged_causal_gfx942: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"prefill_bf16_d128_ragged_causal_gfx942","target":"gfx942","operation":"prefill","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":128,"ov_depth":128,"rope_depth":0,"nope_depth":128,"q_depth":128,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"ragged"},"mask":"causal","score_mod":"none","sink":false,"lse":false,"scale":0.08838834764831843,"mma_shape":[32,32,8],"BM":256,"BN":32,"BK":32,"WM":32,"WN":32,"num_threads":512,"swizzle_k":{"bits":3,"base":0,"shift":3,"domain":"vector"},"swizzle_v":"none","full_kv":true,"bk_smem":32,"smem_depth":128,"num_smem_stages":2,"double_buffer":true,"double_buffer_k_only":false,"shared_kv":false,"dma":"lds_direct","v_load":"perm4x4","wait_policy":"drain","schedule":"cdna_prefill_pingpong"}
// Schedule cdna_prefill_pingpong: 256 query rows (8 waves of 32) by 32 keys a tile, strips of 32.
// Two groups of waves half a tile apart: one multiplies while the other has its softmax.
// LDS (33280 bytes):
//         0 ..   16384  K, 2 stages
//     16384 ..   33280  V, 2 stages
//
// Regenerate: kiln generate prefill_bf16_d128_ragged_causal_gfx942.json --out .
// Compile: clang -x hip --offload-device-only -nogpuinc -nogpulib -O3 --offload-arch=gfx942 prefill_bf16_d128_ragged_causal_gfx942.hip

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

// Which wave of a SIMD issues first: a higher number, while its matrix work should not wait for others' vector work.
#define PRIORITY(n) __builtin_amdgcn_s_setprio(n)

DEVICE u32x4 lds_read_16(const LDS u8* p) { return *(const LDS u32x4*)p; }

DEVICE u32x2 lds_read_8(const LDS u8* p) { return *(const LDS u32x2*)p; }

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
  const int* cu_seqlens_q;
  const int* cu_seqlens_k;
  int heads_q;
  int heads_kv;
  int num_m_blocks;
  long long q_stride_seq;
  long long q_stride_head;
  long long k_stride_seq;
  long long k_stride_head;
  long long v_stride_seq;
  long long v_stride_head;
  long long o_stride_seq;
  long long o_stride_head;
  float scale_log2;
};
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(512, 512)))
void kiln_prefill_bf16_d128_ragged_causal_gfx942(const u16* q, const u16* k, const u16* v, u16* o, const int* cu_seqlens_q,
    const int* cu_seqlens_k, int heads_q, int heads_kv, int num_m_blocks, long long q_stride_seq,
    long long q_stride_head, long long k_stride_seq, long long k_stride_head, long long v_stride_seq,
    long long v_stride_head, long long o_stride_seq, long long o_stride_head, float scale_log2) {
  extern __shared__ __attribute__((aligned(1024))) u8 smem_bytes[];
  LDS u8* const lds = (LDS u8*)smem_bytes;
  const u32 lds_start = (u32)(u64)lds;
  const int thread = (int)__builtin_amdgcn_workitem_id_x(), lane = thread & 63;
  const int warp = uniform(thread >> 6);

  // ---- work item: 256 query rows of one head of one sequence
  const int m_start = (num_m_blocks - 1 - (int)__builtin_amdgcn_workgroup_id_x()) * 256;  // the longest rows first
  const int head = (int)__builtin_amdgcn_workgroup_id_y(), batch = (int)__builtin_amdgcn_workgroup_id_z();
  const int kv_head = head / (heads_q / heads_kv);
  const int q_start = cu_seqlens_q[batch], seqlen_q = cu_seqlens_q[batch + 1] - q_start;
  if (m_start >= seqlen_q) return;
  const int k_start = cu_seqlens_k[batch], seqlen_k = cu_seqlens_k[batch + 1] - k_start;
  const u16* const q_head = q + q_start * q_stride_seq + head * q_stride_head + m_start * q_stride_seq;
  const u16* const k_head = k + k_start * k_stride_seq + kv_head * k_stride_head;
  const u16* const v_head = v + k_start * v_stride_seq + kv_head * v_stride_head;
  const int block_row = warp * 32 + (lane & 31);  // this lane's row of the block's
  const int row = m_start + block_row;
  // Keys that some row of the block sees, that some row of this wave sees, and that all of them see.
  const int block_position = m_start + seqlen_k - seqlen_q;
  const int warp_position = block_position + 32 * warp;
  const int block_end = min(seqlen_k, (min(m_start + 256, seqlen_q) - 1 + seqlen_k - seqlen_q) + 1);
  const int warp_end = min(seqlen_k, (warp_position + 31) + 1);
  const int clean_end = min(seqlen_k, warp_position + 1);
  const int num_tiles = (max(block_end, 0) + 31) / 32;

  // ---- addresses
  // K: 4 tiles of 32 x 32 a load, 2 waves on each
  const int k_row_bytes = (int)(k_stride_seq * 2);
  const u8* k_next = (const u8*)(k_head);
  int k_rows = seqlen_k;
  const u32 k_vector = lane / 4 + warp % 2 * 64;
  const u32 k_from_0 = (k_vector ^ (k_vector >> 3 & 7)) / 4 * k_row_bytes + (k_vector ^ (k_vector >> 3 & 7)) % 4 * 16 + lane % 4 * 4;
  const u32 k_from_2 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 2) % 4 * 16
      + lane % 4 * 4;
  const u32 k_from_4 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 4) % 4 * 16
      + lane % 4 * 4;
  const u32 k_from_6 = ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) / 4 * k_row_bytes + ((k_vector ^ (k_vector >> 3 & 7)) ^ 6) % 4 * 16
      + lane % 4 * 4;
  const u32 k_tile_0 = (warp / 2) / 4 * 32 * k_row_bytes + (warp / 2) % 4 * 64;
  const u32 k_lds_0 = lds_start + (warp / 2) / 4 * 2048 + (warp / 2) % 4 * 2048 + warp % 2 * 1024;
  const u32 k_frag_row = lane & 31, k_frag_col = lane / 32 * 8;
  const u32 k_frag_vector = k_frag_row * 4 + k_frag_col / 8;
  const u32 k_frag_0 = 0 + (k_frag_vector ^ (k_frag_vector >> 3 & 7)) * 16;
  const u32 k_frag_2 = 0 + ((k_frag_vector ^ (k_frag_vector >> 3 & 7)) ^ 2) * 16;
  // V: 4 tiles of 32 x 32 a load, 2 waves on each
  const int v_row_bytes = (int)(v_stride_seq * 2);
  const u8* v_next = (const u8*)(v_head);
  int v_rows = seqlen_k;
  const u32 v_vector = lane / 4 + warp % 2 * 64;
  const u32 v_from_0 = v_vector / 4 * v_row_bytes + v_vector % 4 * 16 + lane % 4 * 4;
  const u32 v_tile_0 = (warp / 2) / 4 * 32 * v_row_bytes + (warp / 2) % 4 * 64;
  const u32 v_lds_0 = lds_start + 16384 + (warp / 2) / 4 * 2048 + (warp / 2) % 4 * 2112 + warp % 2 * 1024;
  const u32 v_frag_x4_row = lane / 32 * 4, v_frag_x4_col = (lane & 31) * 4;
  const u32 v_frag_x4_vector = v_frag_x4_row * 4 + (v_frag_x4_col & 31) / 8;
  const u32 v_frag_x4_0 = 16384 + v_frag_x4_col / 32 * 2112 + v_frag_x4_col % 8 * 2 + v_frag_x4_vector * 16;

  // ---- accumulators
  f32x16 s_acc[1];  // S': 32 keys x 32 queries of this wave
  f32x16 o_acc[4];  // O': 128 columns x 32
  u32x2 p[4];  // P' as the B operand of V' P'
  float row_max = -kInfinity, row_sum = 0.0f;
  o_acc[0] = (f32x16)(0.0f);
  o_acc[1] = (f32x16)(0.0f);
  o_acc[2] = (f32x16)(0.0f);
  o_acc[3] = (f32x16)(0.0f);

  // ---- Q, and the first tiles on their way
  const int q_row_bytes = (int)(q_stride_seq * 2), rows_left = seqlen_q - m_start;
  u32x4 q_reg[8];  // Q: 32 x 128 as the B operand of K Q'
  const i32x4 q_rows = buffer_resource(q_head, (rows_left - 1) * q_row_bytes + 256);
  const u32 q_from = block_row * q_row_bytes + lane / 32 * 16;
  if (num_tiles > 0) {
    {
      // load_k_stage0
      const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
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
      k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
    }
    {
      // load_v_stage0
      const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 32) - 1) * v_row_bytes + 256 : 0);
      u32 from_0_0 = v_from_0 + v_tile_0;
      BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
      from_0_0 += 4 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
      from_0_0 += 4 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_0);
      from_0_0 += 4 * v_row_bytes;
      BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_0);
      v_next += 32 * (long long)v_row_bytes; v_rows -= 32;
    }
    if (0 + 1 < num_tiles) {
      {
        // load_k_stage1
        const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
        u32 from_0_0 = k_from_0 + k_tile_0;
        BUFFER_TO_LDS_4(tile, k_lds_0, 8192, from_0_0);
        u32 from_0_2 = k_from_2 + k_tile_0;
        from_0_2 += 4 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 8448, from_0_2);
        u32 from_0_4 = k_from_4 + k_tile_0;
        from_0_4 += 8 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 8704, from_0_4);
        u32 from_0_6 = k_from_6 + k_tile_0;
        from_0_6 += 12 * k_row_bytes;
        BUFFER_TO_LDS_4(tile, k_lds_0, 8960, from_0_6);
        k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
      }
    }
    // Q last: the compiler waits for it without knowing of the copies, and so for everything before it.
    q_reg[0] = buffer_load_16(q_rows, q_from + 0);
    q_reg[1] = buffer_load_16(q_rows, q_from + 32);
    q_reg[2] = buffer_load_16(q_rows, q_from + 64);
    q_reg[3] = buffer_load_16(q_rows, q_from + 96);
    q_reg[4] = buffer_load_16(q_rows, q_from + 128);
    q_reg[5] = buffer_load_16(q_rows, q_from + 160);
    q_reg[6] = buffer_load_16(q_rows, q_from + 192);
    q_reg[7] = buffer_load_16(q_rows, q_from + 224);
    // Q arrives here: inside the loop the compiler would wait for it, and so for all loads, in every tile.
    __asm volatile("" : "+v"(q_reg[0]));
    __asm volatile("" : "+v"(q_reg[1]));
    __asm volatile("" : "+v"(q_reg[2]));
    __asm volatile("" : "+v"(q_reg[3]));
    __asm volatile("" : "+v"(q_reg[4]));
    __asm volatile("" : "+v"(q_reg[5]));
    __asm volatile("" : "+v"(q_reg[6]));
    __asm volatile("" : "+v"(q_reg[7]));
    const bool late = warp >= 4;
    int n = 0;
    WAIT_LOADS_AND_SYNC(0);
    if (late) SYNC();
    if (n * 32 < warp_end) {
      // S' = K(n) Q'
      u32x4 k_reg[8];  // 16 fragments of 4 elements
      k_reg[0] = lds_read_16(lds + k_frag_0);
      k_reg[1] = lds_read_16(lds + k_frag_2);
      // strip 0; the next fragments first
      k_reg[2] = lds_read_16(lds + k_frag_0 + 2048);
      k_reg[3] = lds_read_16(lds + k_frag_2 + 2048);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[0].lo, q_reg[0].lo, (f32x16)(0.0f));
      s_acc[0] = mfma_32x32x8_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[1].lo, q_reg[1].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[1].hi, q_reg[1].hi, s_acc[0]);
      SCHEDULE_FENCE();
      // strip 1; the next fragments first
      k_reg[4] = lds_read_16(lds + k_frag_0 + 4096);
      k_reg[5] = lds_read_16(lds + k_frag_2 + 4096);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[2].lo, q_reg[2].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[2].hi, q_reg[2].hi, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[3].lo, q_reg[3].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[3].hi, q_reg[3].hi, s_acc[0]);
      SCHEDULE_FENCE();
      // strip 2; the next fragments first
      k_reg[6] = lds_read_16(lds + k_frag_0 + 6144);
      k_reg[7] = lds_read_16(lds + k_frag_2 + 6144);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[4].lo, q_reg[4].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[4].hi, q_reg[4].hi, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[5].lo, q_reg[5].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[5].hi, q_reg[5].hi, s_acc[0]);
      SCHEDULE_FENCE();
      // strip 3
      s_acc[0] = mfma_32x32x8_bf16(k_reg[6].lo, q_reg[6].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[6].hi, q_reg[6].hi, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[7].lo, q_reg[7].lo, s_acc[0]);
      s_acc[0] = mfma_32x32x8_bf16(k_reg[7].hi, q_reg[7].hi, s_acc[0]);
    }
    SCHEDULE_FENCE();
    if (late) WAIT_LOADS(0);
    SYNC();
    SCHEDULE_FENCE();
    for (;;) {

      // ---- tile n in stage 0: softmax, while the other group multiplies
      if (late && n + 1 < num_tiles) {
        {
          // load_v_stage1
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 32) - 1) * v_row_bytes + 256 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8448, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8704, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8960, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9216, from_0_0);
          v_next += 32 * (long long)v_row_bytes; v_rows -= 32;
        }
        if (n + 2 < num_tiles) {
          {
            // load_k_stage0
            const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
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
            k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
          }
        }
      }
      if (n * 32 < warp_end) {
        // the end of some row's keys lies in this tile
        if ((n + 1) * 32 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row + seqlen_k - seqlen_q + 1) - (n * 32) - lane / 32 * 4;
          if (0 >= end_0) s_acc[0][0] = -kInfinity; if (1 >= end_0) s_acc[0][1] = -kInfinity;
          if (2 >= end_0) s_acc[0][2] = -kInfinity; if (3 >= end_0) s_acc[0][3] = -kInfinity;
          if (8 >= end_0) s_acc[0][4] = -kInfinity; if (9 >= end_0) s_acc[0][5] = -kInfinity;
          if (10 >= end_0) s_acc[0][6] = -kInfinity; if (11 >= end_0) s_acc[0][7] = -kInfinity;
          if (16 >= end_0) s_acc[0][8] = -kInfinity; if (17 >= end_0) s_acc[0][9] = -kInfinity;
          if (18 >= end_0) s_acc[0][10] = -kInfinity; if (19 >= end_0) s_acc[0][11] = -kInfinity;
          if (24 >= end_0) s_acc[0][12] = -kInfinity; if (25 >= end_0) s_acc[0][13] = -kInfinity;
          if (26 >= end_0) s_acc[0][14] = -kInfinity; if (27 >= end_0) s_acc[0][15] = -kInfinity;
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
        max_0 = maximum(max_0, s_acc[0][12]);
        max_1 = maximum(max_1, s_acc[0][13]);
        max_2 = maximum(max_2, s_acc[0][14]);
        max_3 = maximum(max_3, s_acc[0][15]);
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
          if (is_steep(shift)) shift = 0.0f;
        }
        if (rescale) {
          o_acc[0] *= alpha;
          o_acc[1] *= alpha;
          o_acc[2] *= alpha;
          o_acc[3] *= alpha;
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
        // row sum, four chains
        float sum_0 = s_acc[0][0];
        float sum_1 = s_acc[0][1];
        float sum_2 = s_acc[0][2];
        float sum_3 = s_acc[0][3];
        sum_0 += s_acc[0][4]; sum_1 += s_acc[0][5]; sum_2 += s_acc[0][6]; sum_3 += s_acc[0][7];
        sum_0 += s_acc[0][8]; sum_1 += s_acc[0][9]; sum_2 += s_acc[0][10]; sum_3 += s_acc[0][11];
        sum_0 += s_acc[0][12]; sum_1 += s_acc[0][13]; sum_2 += s_acc[0][14]; sum_3 += s_acc[0][15];
        row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);
        p[0] = u32x2{pack_bf16(s_acc[0][0], s_acc[0][1]), pack_bf16(s_acc[0][2], s_acc[0][3])};
        p[1] = u32x2{pack_bf16(s_acc[0][4], s_acc[0][5]), pack_bf16(s_acc[0][6], s_acc[0][7])};
        p[2] = u32x2{pack_bf16(s_acc[0][8], s_acc[0][9]), pack_bf16(s_acc[0][10], s_acc[0][11])};
        p[3] = u32x2{pack_bf16(s_acc[0][12], s_acc[0][13]), pack_bf16(s_acc[0][14], s_acc[0][15])};
        // made here: the compiler would move exponentials to where P is used, beside the products
        __asm volatile("" : "+v"(p[0]));
        __asm volatile("" : "+v"(p[1]));
        __asm volatile("" : "+v"(p[2]));
        __asm volatile("" : "+v"(p[3]));
      }
      SCHEDULE_FENCE();
      if (!late) WAIT_LOADS(0);
      SYNC();
      SCHEDULE_FENCE();

      // ---- products, while the other group has its softmax
      PRIORITY(1);
      if (!late && n + 1 < num_tiles) {
        {
          // load_v_stage1
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 32) - 1) * v_row_bytes + 256 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8448, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8704, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 8960, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 9216, from_0_0);
          v_next += 32 * (long long)v_row_bytes; v_rows -= 32;
        }
        if (n + 2 < num_tiles) {
          {
            // load_k_stage0
            const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
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
            k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
          }
        }
      }
      if (n * 32 < warp_end) {
        // O' += V(n)' P'
        u32x2 v_reg[16];  // fragments of 4 elements
        // strip 0
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0), key_1 = lds_read_8(lds + v_frag_x4_0 + 64),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 128), key_3 = lds_read_8(lds + v_frag_x4_0 + 192);
          v_reg[0] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[1] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[2] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[3] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 512), key_1 = lds_read_8(lds + v_frag_x4_0 + 576),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 640), key_3 = lds_read_8(lds + v_frag_x4_0 + 704);
          v_reg[4] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[5] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[6] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[7] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 1024), key_1 = lds_read_8(lds + v_frag_x4_0 + 1088),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 1152), key_3 = lds_read_8(lds + v_frag_x4_0 + 1216);
          v_reg[8] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[9] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[10] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[11] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 1536), key_1 = lds_read_8(lds + v_frag_x4_0 + 1600),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 1664), key_3 = lds_read_8(lds + v_frag_x4_0 + 1728);
          v_reg[12] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[13] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[14] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[15] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        o_acc[0] = mfma_32x32x8_bf16(v_reg[0], p[0], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[1], p[0], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[2], p[0], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[3], p[0], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[4], p[1], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[5], p[1], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[6], p[1], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[7], p[1], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[8], p[2], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[9], p[2], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[10], p[2], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[11], p[2], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[12], p[3], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[13], p[3], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[14], p[3], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[15], p[3], o_acc[3]);
      }
      if (++n == num_tiles) break;
      if (n * 32 < warp_end) {
        // S' = K(n) Q'
        u32x4 k_reg[8];  // 16 fragments of 4 elements
        k_reg[0] = lds_read_16(lds + k_frag_0 + 8192);
        k_reg[1] = lds_read_16(lds + k_frag_2 + 8192);
        // strip 0; the next fragments first
        k_reg[2] = lds_read_16(lds + k_frag_0 + 10240);
        k_reg[3] = lds_read_16(lds + k_frag_2 + 10240);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[1].lo, q_reg[1].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[1].hi, q_reg[1].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 1; the next fragments first
        k_reg[4] = lds_read_16(lds + k_frag_0 + 12288);
        k_reg[5] = lds_read_16(lds + k_frag_2 + 12288);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].lo, q_reg[2].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].hi, q_reg[2].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[3].lo, q_reg[3].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[3].hi, q_reg[3].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 2; the next fragments first
        k_reg[6] = lds_read_16(lds + k_frag_0 + 14336);
        k_reg[7] = lds_read_16(lds + k_frag_2 + 14336);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].lo, q_reg[4].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].hi, q_reg[4].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[5].lo, q_reg[5].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[5].hi, q_reg[5].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 3
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].lo, q_reg[6].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].hi, q_reg[6].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[7].lo, q_reg[7].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[7].hi, q_reg[7].hi, s_acc[0]);
      }
      PRIORITY(0);
      SCHEDULE_FENCE();
      if (late) WAIT_LOADS(0);
      SYNC();
      SCHEDULE_FENCE();

      // ---- tile n in stage 1: softmax, while the other group multiplies
      if (late && n + 1 < num_tiles) {
        {
          // load_v_stage0
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 32) - 1) * v_row_bytes + 256 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_0);
          v_next += 32 * (long long)v_row_bytes; v_rows -= 32;
        }
        if (n + 2 < num_tiles) {
          {
            // load_k_stage1
            const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
            u32 from_0_0 = k_from_0 + k_tile_0;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8192, from_0_0);
            u32 from_0_2 = k_from_2 + k_tile_0;
            from_0_2 += 4 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8448, from_0_2);
            u32 from_0_4 = k_from_4 + k_tile_0;
            from_0_4 += 8 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8704, from_0_4);
            u32 from_0_6 = k_from_6 + k_tile_0;
            from_0_6 += 12 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8960, from_0_6);
            k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
          }
        }
      }
      if (n * 32 < warp_end) {
        // the end of some row's keys lies in this tile
        if ((n + 1) * 32 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(seqlen_k, row + seqlen_k - seqlen_q + 1) - (n * 32) - lane / 32 * 4;
          if (0 >= end_0) s_acc[0][0] = -kInfinity; if (1 >= end_0) s_acc[0][1] = -kInfinity;
          if (2 >= end_0) s_acc[0][2] = -kInfinity; if (3 >= end_0) s_acc[0][3] = -kInfinity;
          if (8 >= end_0) s_acc[0][4] = -kInfinity; if (9 >= end_0) s_acc[0][5] = -kInfinity;
          if (10 >= end_0) s_acc[0][6] = -kInfinity; if (11 >= end_0) s_acc[0][7] = -kInfinity;
          if (16 >= end_0) s_acc[0][8] = -kInfinity; if (17 >= end_0) s_acc[0][9] = -kInfinity;
          if (18 >= end_0) s_acc[0][10] = -kInfinity; if (19 >= end_0) s_acc[0][11] = -kInfinity;
          if (24 >= end_0) s_acc[0][12] = -kInfinity; if (25 >= end_0) s_acc[0][13] = -kInfinity;
          if (26 >= end_0) s_acc[0][14] = -kInfinity; if (27 >= end_0) s_acc[0][15] = -kInfinity;
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
        max_0 = maximum(max_0, s_acc[0][12]);
        max_1 = maximum(max_1, s_acc[0][13]);
        max_2 = maximum(max_2, s_acc[0][14]);
        max_3 = maximum(max_3, s_acc[0][15]);
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
          if (is_steep(shift)) shift = 0.0f;
        }
        if (rescale) {
          o_acc[0] *= alpha;
          o_acc[1] *= alpha;
          o_acc[2] *= alpha;
          o_acc[3] *= alpha;
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
        // row sum, four chains
        float sum_0 = s_acc[0][0];
        float sum_1 = s_acc[0][1];
        float sum_2 = s_acc[0][2];
        float sum_3 = s_acc[0][3];
        sum_0 += s_acc[0][4]; sum_1 += s_acc[0][5]; sum_2 += s_acc[0][6]; sum_3 += s_acc[0][7];
        sum_0 += s_acc[0][8]; sum_1 += s_acc[0][9]; sum_2 += s_acc[0][10]; sum_3 += s_acc[0][11];
        sum_0 += s_acc[0][12]; sum_1 += s_acc[0][13]; sum_2 += s_acc[0][14]; sum_3 += s_acc[0][15];
        row_sum += (sum_0 + sum_1) + (sum_2 + sum_3);
        p[0] = u32x2{pack_bf16(s_acc[0][0], s_acc[0][1]), pack_bf16(s_acc[0][2], s_acc[0][3])};
        p[1] = u32x2{pack_bf16(s_acc[0][4], s_acc[0][5]), pack_bf16(s_acc[0][6], s_acc[0][7])};
        p[2] = u32x2{pack_bf16(s_acc[0][8], s_acc[0][9]), pack_bf16(s_acc[0][10], s_acc[0][11])};
        p[3] = u32x2{pack_bf16(s_acc[0][12], s_acc[0][13]), pack_bf16(s_acc[0][14], s_acc[0][15])};
        // made here: the compiler would move exponentials to where P is used, beside the products
        __asm volatile("" : "+v"(p[0]));
        __asm volatile("" : "+v"(p[1]));
        __asm volatile("" : "+v"(p[2]));
        __asm volatile("" : "+v"(p[3]));
      }
      SCHEDULE_FENCE();
      if (!late) WAIT_LOADS(0);
      SYNC();
      SCHEDULE_FENCE();

      // ---- products, while the other group has its softmax
      PRIORITY(1);
      if (!late && n + 1 < num_tiles) {
        {
          // load_v_stage0
          const i32x4 tile = buffer_resource(v_next, v_rows > 0 ? (min_of(v_rows, 32) - 1) * v_row_bytes + 256 : 0);
          u32 from_0_0 = v_from_0 + v_tile_0;
          BUFFER_TO_LDS_4(tile, v_lds_0, 0, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 256, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 512, from_0_0);
          from_0_0 += 4 * v_row_bytes;
          BUFFER_TO_LDS_4(tile, v_lds_0, 768, from_0_0);
          v_next += 32 * (long long)v_row_bytes; v_rows -= 32;
        }
        if (n + 2 < num_tiles) {
          {
            // load_k_stage1
            const i32x4 tile = buffer_resource(k_next, k_rows > 0 ? (min_of(k_rows, 32) - 1) * k_row_bytes + 256 : 0);
            u32 from_0_0 = k_from_0 + k_tile_0;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8192, from_0_0);
            u32 from_0_2 = k_from_2 + k_tile_0;
            from_0_2 += 4 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8448, from_0_2);
            u32 from_0_4 = k_from_4 + k_tile_0;
            from_0_4 += 8 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8704, from_0_4);
            u32 from_0_6 = k_from_6 + k_tile_0;
            from_0_6 += 12 * k_row_bytes;
            BUFFER_TO_LDS_4(tile, k_lds_0, 8960, from_0_6);
            k_next += 32 * (long long)k_row_bytes; k_rows -= 32;
          }
        }
      }
      if (n * 32 < warp_end) {
        // O' += V(n)' P'
        u32x2 v_reg[16];  // fragments of 4 elements
        // strip 0
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 8448), key_1 = lds_read_8(lds + v_frag_x4_0 + 8512),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 8576), key_3 = lds_read_8(lds + v_frag_x4_0 + 8640);
          v_reg[0] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[1] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[2] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[3] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 8960), key_1 = lds_read_8(lds + v_frag_x4_0 + 9024),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 9088), key_3 = lds_read_8(lds + v_frag_x4_0 + 9152);
          v_reg[4] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[5] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[6] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[7] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 9472), key_1 = lds_read_8(lds + v_frag_x4_0 + 9536),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 9600), key_3 = lds_read_8(lds + v_frag_x4_0 + 9664);
          v_reg[8] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[9] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[10] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[11] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        {
          const u32x2 key_0 = lds_read_8(lds + v_frag_x4_0 + 9984), key_1 = lds_read_8(lds + v_frag_x4_0 + 10048),
              key_2 = lds_read_8(lds + v_frag_x4_0 + 10112), key_3 = lds_read_8(lds + v_frag_x4_0 + 10176);
          v_reg[12] = u32x2{low_halves(key_0.x, key_1.x), low_halves(key_2.x, key_3.x)};
          v_reg[13] = u32x2{high_halves(key_0.x, key_1.x), high_halves(key_2.x, key_3.x)};
          v_reg[14] = u32x2{low_halves(key_0.y, key_1.y), low_halves(key_2.y, key_3.y)};
          v_reg[15] = u32x2{high_halves(key_0.y, key_1.y), high_halves(key_2.y, key_3.y)};
        }
        o_acc[0] = mfma_32x32x8_bf16(v_reg[0], p[0], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[1], p[0], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[2], p[0], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[3], p[0], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[4], p[1], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[5], p[1], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[6], p[1], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[7], p[1], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[8], p[2], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[9], p[2], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[10], p[2], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[11], p[2], o_acc[3]);
        o_acc[0] = mfma_32x32x8_bf16(v_reg[12], p[3], o_acc[0]);
        o_acc[1] = mfma_32x32x8_bf16(v_reg[13], p[3], o_acc[1]);
        o_acc[2] = mfma_32x32x8_bf16(v_reg[14], p[3], o_acc[2]);
        o_acc[3] = mfma_32x32x8_bf16(v_reg[15], p[3], o_acc[3]);
      }
      if (++n == num_tiles) break;
      if (n * 32 < warp_end) {
        // S' = K(n) Q'
        u32x4 k_reg[8];  // 16 fragments of 4 elements
        k_reg[0] = lds_read_16(lds + k_frag_0);
        k_reg[1] = lds_read_16(lds + k_frag_2);
        // strip 0; the next fragments first
        k_reg[2] = lds_read_16(lds + k_frag_0 + 2048);
        k_reg[3] = lds_read_16(lds + k_frag_2 + 2048);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].lo, q_reg[0].lo, (f32x16)(0.0f));
        s_acc[0] = mfma_32x32x8_bf16(k_reg[0].hi, q_reg[0].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[1].lo, q_reg[1].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[1].hi, q_reg[1].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 1; the next fragments first
        k_reg[4] = lds_read_16(lds + k_frag_0 + 4096);
        k_reg[5] = lds_read_16(lds + k_frag_2 + 4096);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].lo, q_reg[2].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[2].hi, q_reg[2].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[3].lo, q_reg[3].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[3].hi, q_reg[3].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 2; the next fragments first
        k_reg[6] = lds_read_16(lds + k_frag_0 + 6144);
        k_reg[7] = lds_read_16(lds + k_frag_2 + 6144);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].lo, q_reg[4].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[4].hi, q_reg[4].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[5].lo, q_reg[5].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[5].hi, q_reg[5].hi, s_acc[0]);
        SCHEDULE_FENCE();
        // strip 3
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].lo, q_reg[6].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[6].hi, q_reg[6].hi, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[7].lo, q_reg[7].lo, s_acc[0]);
        s_acc[0] = mfma_32x32x8_bf16(k_reg[7].hi, q_reg[7].hi, s_acc[0]);
      }
      PRIORITY(0);
      SCHEDULE_FENCE();
      if (late) WAIT_LOADS(0);
      SYNC();
      SCHEDULE_FENCE();
    }
    if (!late) SYNC();
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
  odd_0 = fmaf(o_acc[2][0], o_acc[2][1], odd_0);
  odd_1 = fmaf(o_acc[2][2], o_acc[2][3], odd_1);
  odd_0 = fmaf(o_acc[2][4], o_acc[2][5], odd_0);
  odd_1 = fmaf(o_acc[2][6], o_acc[2][7], odd_1);
  odd_0 = fmaf(o_acc[2][8], o_acc[2][9], odd_0);
  odd_1 = fmaf(o_acc[2][10], o_acc[2][11], odd_1);
  odd_0 = fmaf(o_acc[2][12], o_acc[2][13], odd_0);
  odd_1 = fmaf(o_acc[2][14], o_acc[2][15], odd_1);
  odd_0 = fmaf(o_acc[3][0], o_acc[3][1], odd_0);
  odd_1 = fmaf(o_acc[3][2], o_acc[3][3], odd_1);
  odd_0 = fmaf(o_acc[3][4], o_acc[3][5], odd_0);
  odd_1 = fmaf(o_acc[3][6], o_acc[3][7], odd_1);
  odd_0 = fmaf(o_acc[3][8], o_acc[3][9], odd_0);
  odd_1 = fmaf(o_acc[3][10], o_acc[3][11], odd_1);
  odd_0 = fmaf(o_acc[3][12], o_acc[3][13], odd_0);
  odd_1 = fmaf(o_acc[3][14], o_acc[3][15], odd_1);
  const bool odd = !((odd_0 + odd_1) * 0.0f == 0.0f);
  {
    const CONSTANT Arguments* const again = arguments_again<Arguments>();
    const u16* q = again->q;
    const u16* k = again->k;
    const u16* v = again->v;
    u16* o = again->o;
    const int* cu_seqlens_q = again->cu_seqlens_q;
    const int* cu_seqlens_k = again->cu_seqlens_k;
    int heads_q = again->heads_q;
    int heads_kv = again->heads_kv;
    int num_m_blocks = again->num_m_blocks;
    long long q_stride_seq = again->q_stride_seq;
    long long q_stride_head = again->q_stride_head;
    long long k_stride_seq = again->k_stride_seq;
    long long k_stride_head = again->k_stride_head;
    long long v_stride_seq = again->v_stride_seq;
    long long v_stride_head = again->v_stride_head;
    long long o_stride_seq = again->o_stride_seq;
    long long o_stride_head = again->o_stride_head;
    float scale_log2 = again->scale_log2;
    const int kv_head = head / (heads_q / heads_kv);
    const int q_start = cu_seqlens_q[batch], seqlen_q = cu_seqlens_q[batch + 1] - q_start;
    const int k_start = cu_seqlens_k[batch], seqlen_k = cu_seqlens_k[batch + 1] - k_start;
    const int num_tiles = (max(min(seqlen_k, (min(m_start + 256, seqlen_q) - 1 + seqlen_k - seqlen_q) + 1), 0) + 31) / 32;
    const int rows_left = seqlen_q - m_start;
    u16* const o_head = o + q_start * o_stride_seq + head * o_stride_head + m_start * o_stride_seq;

    // ---- epilogue: O / row_sum, LSE
    row_sum = row_sum + from_lane((lane ^ 32) * 4, row_sum);
    const float inv_sum = row_sum != 0.0f ? rcp_approx(row_sum) : 0.0f;
    // Rows past the end are sent where the descriptor drops them.
    const int o_row_bytes = (int)(o_stride_seq * 2);
    const i32x4 o_rows = buffer_resource(o_head, (rows_left - 1) * o_row_bytes + 256);
    const u32 o_from = block_row < rows_left ? (u32)(block_row * o_row_bytes) : 0x80000000u;
    buffer_store_16(o_rows, o_from + 0 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][0] * inv_sum, o_acc[1][0] * inv_sum), pack_bf16(o_acc[2][0] * inv_sum, o_acc[3][0] * inv_sum),
        pack_bf16(o_acc[0][1] * inv_sum, o_acc[1][1] * inv_sum), pack_bf16(o_acc[2][1] * inv_sum, o_acc[3][1] * inv_sum)});
    buffer_store_16(o_rows, o_from + 16 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][2] * inv_sum, o_acc[1][2] * inv_sum), pack_bf16(o_acc[2][2] * inv_sum, o_acc[3][2] * inv_sum),
        pack_bf16(o_acc[0][3] * inv_sum, o_acc[1][3] * inv_sum), pack_bf16(o_acc[2][3] * inv_sum, o_acc[3][3] * inv_sum)});
    buffer_store_16(o_rows, o_from + 64 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][4] * inv_sum, o_acc[1][4] * inv_sum), pack_bf16(o_acc[2][4] * inv_sum, o_acc[3][4] * inv_sum),
        pack_bf16(o_acc[0][5] * inv_sum, o_acc[1][5] * inv_sum), pack_bf16(o_acc[2][5] * inv_sum, o_acc[3][5] * inv_sum)});
    buffer_store_16(o_rows, o_from + 80 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][6] * inv_sum, o_acc[1][6] * inv_sum), pack_bf16(o_acc[2][6] * inv_sum, o_acc[3][6] * inv_sum),
        pack_bf16(o_acc[0][7] * inv_sum, o_acc[1][7] * inv_sum), pack_bf16(o_acc[2][7] * inv_sum, o_acc[3][7] * inv_sum)});
    buffer_store_16(o_rows, o_from + 128 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][8] * inv_sum, o_acc[1][8] * inv_sum), pack_bf16(o_acc[2][8] * inv_sum, o_acc[3][8] * inv_sum),
        pack_bf16(o_acc[0][9] * inv_sum, o_acc[1][9] * inv_sum), pack_bf16(o_acc[2][9] * inv_sum, o_acc[3][9] * inv_sum)});
    buffer_store_16(o_rows, o_from + 144 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][10] * inv_sum, o_acc[1][10] * inv_sum), pack_bf16(o_acc[2][10] * inv_sum, o_acc[3][10] * inv_sum),
        pack_bf16(o_acc[0][11] * inv_sum, o_acc[1][11] * inv_sum), pack_bf16(o_acc[2][11] * inv_sum, o_acc[3][11] * inv_sum)});
    buffer_store_16(o_rows, o_from + 192 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][12] * inv_sum, o_acc[1][12] * inv_sum), pack_bf16(o_acc[2][12] * inv_sum, o_acc[3][12] * inv_sum),
        pack_bf16(o_acc[0][13] * inv_sum, o_acc[1][13] * inv_sum), pack_bf16(o_acc[2][13] * inv_sum, o_acc[3][13] * inv_sum)});
    buffer_store_16(o_rows, o_from + 208 + lane / 32 * 32,
        u32x4{pack_bf16(o_acc[0][14] * inv_sum, o_acc[1][14] * inv_sum), pack_bf16(o_acc[2][14] * inv_sum, o_acc[3][14] * inv_sum),
        pack_bf16(o_acc[0][15] * inv_sum, o_acc[1][15] * inv_sum), pack_bf16(o_acc[2][15] * inv_sum, o_acc[3][15] * inv_sum)});
    // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
    if (same(any_lane(odd))) {
      const int lane_32 = (int)thread_id() & 31, row_begin = same(m_start + 32 * warp),
          row_end = same(min(m_start + 32 * warp + 32, seqlen_q));
      WAIT_LOADS(0);  // the store has been written
      // the last key past some row's end, and the first one before some row's first, with a V that is not finite
      int highest = -1, lowest = 0x7fffffff;
      {
        const int row = row_begin, last = same(min(num_tiles * 32, seqlen_k)) - 1;
    #pragma unroll 1
        for (int first = same(max(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1), 0)); first <= last; first += 32) {
          const int key = min(first + lane_32, last);
          highest = finite_halves((const u32*)(v + kv_head * v_stride_head + k_start * v_stride_seq + key * v_stride_seq), 64) ? highest
              : key;
        }
        highest = same(largest_of_lanes(highest));
      }
    #pragma unroll 1
      for (int row = row_begin; row < row_end; ++row) {
        const int begin = same(0), end = same(min(seqlen_k, (row + seqlen_k - seqlen_q) + 1));
        if (highest < end && lowest >= begin) continue;
        const u32* const query_words = (const u32*)(q + (q_start + row) * q_stride_seq + head * q_stride_head);
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
            const u32* const key_words = (const u32*)(k + kv_head * k_stride_head + k_start * k_stride_seq + key * k_stride_seq);
            UNROLL_4
            for (int i = 0; i < 64; ++i) {
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
          for (int i = 0; i < 4; ++i) out[i] *= shrink;
    #pragma unroll 1
          for (int j = 0; j < 32; ++j) {
            const int key = max(min(first + j, end - 1), begin);
            const float p = lane_float(weight, j);
            const bool seen = lane_float(score[0], j) != -kInfinity;
            const u32* const value_words = (const u32*)(v + kv_head * v_stride_head + k_start * v_stride_seq + key * v_stride_seq);
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
        u16* const to = o + (q_start + row) * o_stride_seq + head * o_stride_head;
    #pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const int column = 2 * lane_32 + 32 * i;
          const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
          if (column < 128 && writes_rows()) *(u32*)(to + column) = two;
        }
      }
    }
  }
}
