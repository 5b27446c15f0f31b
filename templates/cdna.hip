// Intrinsics of AMD CDNA (gfx90a, gfx942, gfx950): one thin wrapper per hardware instruction, spelled so that HIPRTC
// from 5.2 and clang accept it without headers. Matrix products, LDS reads and exponentials are compiler builtins (the
// compiler then keeps the hardware's wait states); copies to LDS, waits and barriers are one-instruction assembly,
// because a compiler that sees them drains every load in flight.

//@ section types
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

//@ section uniform needs types
// A value that is the same in every lane, in a scalar register.
DEVICE int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }

//@ section arguments_again needs types
// The kernel's arguments, to be read from memory again: what only the end of a kernel needs would otherwise take
// scalar registers through its main loop.
template <class Arguments>
DEVICE const CONSTANT Arguments* arguments_again() {
  u64 address = (u64)__builtin_amdgcn_kernarg_segment_ptr();
  __asm volatile("" : "+s"(address));  // the compiler must not know that these are the same
  return (const CONSTANT Arguments*)address;
}

//@ section buffer_resource needs types
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

//@ section page_resource needs buffer_resource
// The same where `base` comes from a page table, in a loop.
DEVICE i32x4 page_resource(const void* base, int bytes) {
  i32x4 buffer = in_scalars(buffer_words(base, bytes));
  __asm volatile("s_nop 4" : "+s"(buffer));
  return buffer;
}

//@ section buffer_load needs types
// 16 bytes at `offset` of a buffer; the compiler tracks when they arrive.
__device__ i32x4 raw_buffer_load_x4(i32x4 buffer, int offset, int scalar_offset, int policy) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
DEVICE u32x4 buffer_load_16(i32x4 buffer, u32 offset) {
  return __builtin_bit_cast(u32x4, raw_buffer_load_x4(buffer, (int)offset, 0, 0));
}

//@ section buffer_load_8 needs types
// 8 bytes at `offset` of a buffer; the compiler tracks when they arrive.
__device__ u32x2 raw_buffer_load_x2(i32x4 buffer, int offset, int scalar_offset, int policy) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
DEVICE u32x2 buffer_load_8(i32x4 buffer, u32 offset) { return raw_buffer_load_x2(buffer, (int)offset, 0, 0); }

//@ section buffer_store_16 needs types
__device__ void raw_buffer_store_x4(i32x4 data, i32x4 buffer, int offset, int scalar_offset, int policy) __asm("llvm.amdgcn.raw.buffer.store.v4i32");
DEVICE void buffer_store_16(i32x4 buffer, u32 offset, u32x4 data) {
  raw_buffer_store_x4(__builtin_bit_cast(i32x4, data), buffer, (int)offset, 0, 0);
}

//@ section buffer_store_8 needs types
typedef int i32x2 __attribute__((ext_vector_type(2)));
__device__ void raw_buffer_store_x2(i32x2 data, i32x4 buffer, int offset, int scalar_offset, int policy) __asm("llvm.amdgcn.raw.buffer.store.v2i32");
DEVICE void buffer_store_8(i32x4 buffer, u32 offset, u32x2 data) {
  raw_buffer_store_x2(__builtin_bit_cast(i32x2, data), buffer, (int)offset, 0, 0);
}

//@ section buffer_to_lds_4 needs types
// 4 bytes a lane from a buffer to LDS at `lds` + `literal` + 4 * lane, asynchronously (vmcnt). M0 carries the LDS
// address; the sum is made in it, since a register for every copy of a tile would crowd out all others.
#define BUFFER_TO_LDS_4(buffer, lds, literal, offset)                                                      \
  __asm volatile("s_add_u32 m0, %0, %3\n\ts_nop 0\n\tbuffer_load_dword %1, %2, 0 offen lds" ::"s"(lds), \
                 "v"(offset), "s"(buffer), "i"(literal)                                                      \
                 : "memory", "scc")

//@ section buffer_to_lds_16 needs types
// 16 bytes a lane from a buffer to LDS at `lds` + `literal` + 16 * lane, asynchronously (vmcnt). M0 carries the LDS
// address; the sum is made in it, since a register for every copy of a tile would crowd out all others.
#define BUFFER_TO_LDS_16(buffer, lds, literal, offset)                                                      \
  __asm volatile("s_add_u32 m0, %0, %3\n\ts_nop 0\n\tbuffer_load_dwordx4 %1, %2, 0 offen lds" ::"s"(lds), \
                 "v"(offset), "s"(buffer), "i"(literal)                                                      \
                 : "memory", "scc")

//@ section per_tile
// `value` seems to depend on `counter`, which changes with every tile: the compiler computes it there, and does not keep
// it in a register from tile to tile.
#define PER_TILE(value, counter) __asm("" : "+v"(value) : "s"(counter))

//@ section schedule_fence
// Nothing is scheduled across: a strip's fragments stay near the products that use them.
#define SCHEDULE_FENCE() __builtin_amdgcn_sched_barrier(0)

//@ section waits
// Until at most n of this wave's loads are in flight, then a barrier of the block. No other memory access crosses it.
#define WAIT_LOADS_AND_SYNC(n) __asm volatile("s_waitcnt vmcnt(" #n ") lgkmcnt(0)\n\ts_barrier" ::: "memory")
// A barrier of the block after this wave's LDS accesses; loads stay in flight.
#define SYNC() __asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory")

//@ section barrier
// A barrier of the block alone.
#define BARRIER() __asm volatile("s_barrier" ::: "memory")

//@ section wait_loads
// Until at most n of this wave's loads are in flight.
#define WAIT_LOADS(n) __asm volatile("s_waitcnt vmcnt(" #n ")" ::: "memory")

//@ section priority
// Which wave of a SIMD issues first: a higher number, while its matrix work should not wait for others' vector work.
#define PRIORITY(n) __builtin_amdgcn_s_setprio(n)

//@ section lds_read_16 needs types
DEVICE u32x4 lds_read_16(const LDS u8* p) { return *(const LDS u32x4*)p; }

//@ section zero_past needs types
// What lies past a row's last column is another row's: zeros instead, in the lanes where `within` does not hold.
DEVICE u32x4 zero_past(u32x4 x, bool within) { return within ? x : (u32x4)(0u); }

//@ section lds_read_8 needs types
DEVICE u32x2 lds_read_8(const LDS u8* p) { return *(const LDS u32x2*)p; }

//@ section lds_read_4 needs types
DEVICE u32 lds_read_4(const LDS u8* p) { return *(const LDS u32*)p; }

//@ section lds_read_pair needs types
// Two 16-bit elements, `lo` in the lower half.
DEVICE u32 lds_read_pair(const LDS u8* lo, const LDS u8* hi) {
  return (u32) * (const LDS u16*)lo | (u32) * (const LDS u16*)hi << 16;
}

//@ section lds_write_16 needs types
DEVICE void lds_write_16(LDS u8* p, u32x4 x) { *(LDS u32x4*)p = x; }

//@ section join needs types
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
DEVICE u32x8 join(u32x4 lo, u32x4 hi) { return __builtin_shufflevector(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7); }
DEVICE u32x8 join(u32x2 a, u32x2 b, u32x2 c, u32x2 d) { return u32x8{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}; }

//@ section lds_read_tr8 needs join
// Lane i of each 16 gives the address of 8 bytes of an 8 x 16 block (row i / 2, columns 8 * (i % 2) ..) and gets column i.
DEVICE u32x2 lds_read_tr8(const LDS u8* p) {
  typedef int i32x2 __attribute__((ext_vector_type(2)));
  return __builtin_bit_cast(u32x2, __builtin_amdgcn_ds_read_tr8_b64_v2i32((LDS i32x2*)p));
}

//@ section turn_bytes needs types
// A 4 x 4 block of bytes, a row to a register, turned: byte r of register c of the result is byte c of row r.
DEVICE u32x4 turn_bytes(u32 a, u32 b, u32 c, u32 d) {
  const u32 ab_low = __builtin_amdgcn_perm(b, a, 0x05010400u), ab_high = __builtin_amdgcn_perm(b, a, 0x07030602u);
  const u32 cd_low = __builtin_amdgcn_perm(d, c, 0x05010400u), cd_high = __builtin_amdgcn_perm(d, c, 0x07030602u);
  return u32x4{__builtin_amdgcn_perm(cd_low, ab_low, 0x05040100u), __builtin_amdgcn_perm(cd_low, ab_low, 0x07060302u),
               __builtin_amdgcn_perm(cd_high, ab_high, 0x05040100u), __builtin_amdgcn_perm(cd_high, ab_high, 0x07060302u)};
}

//@ section load_bytes needs types
DEVICE u32x4 load_bytes_16(const u8* p) { return *(const u32x4*)p; }

//@ section load_bytes_8 needs types
DEVICE u32x2 load_bytes_8(const u8* p) { return *(const u32x2*)p; }

//@ section lds_read_tr16 needs types
// Lane i of each 16 gives the address of 4 elements of a 4 x 16 block (row i / 4, columns 4 * (i % 4) ..) and gets column i.
DEVICE u32x2 lds_read_tr16(const LDS u8* p) {
  return __builtin_bit_cast(u32x2, __builtin_amdgcn_ds_read_tr16_b64_v4i16((LDS s16x4*)p));
}

//@ section join_8 needs types
DEVICE u32x4 join(u32x2 lo, u32x2 hi) { return u32x4{lo.x, lo.y, hi.x, hi.y}; }

//@ section pairs needs types
// The lower, or upper, 16-bit halves of two registers, `a` in the lower half of the result.
DEVICE u32 low_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x05040100u); }
DEVICE u32 high_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x07060302u); }

//@ section mfma_32x32x8_bf16 needs types
DEVICE f32x16 mfma_32x32x8_bf16(u32x2 a, u32x2 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(s16x4, a), __builtin_bit_cast(s16x4, b), c, 0, 0, 0);
}

//@ section mfma_32x32x8_fp16 needs types
DEVICE f32x16 mfma_32x32x8_fp16(u32x2 a, u32x2 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(f16x4, a), __builtin_bit_cast(f16x4, b), c, 0, 0, 0);
}

//@ section mfma_16x16x16_bf16 needs types
DEVICE f32x4 mfma_16x16x16_bf16(u32x2 a, u32x2 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(s16x4, a), __builtin_bit_cast(s16x4, b), c, 0, 0, 0);
}

//@ section mfma_16x16x16_fp16 needs types
DEVICE f32x4 mfma_16x16x16_fp16(u32x2 a, u32x2 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(f16x4, a), __builtin_bit_cast(f16x4, b), c, 0, 0, 0);
}

//@ section bf16x8 needs types
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));

//@ section mfma_32x32x16_bf16 needs bf16x8
DEVICE f32x16 mfma_32x32x16_bf16(u32x4 a, u32x4 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_bf16(__builtin_bit_cast(bf16x8, a), __builtin_bit_cast(bf16x8, b), c, 0, 0, 0);
}

//@ section mfma_32x32x16_fp16 needs types
DEVICE f32x16 mfma_32x32x16_fp16(u32x4 a, u32x4 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_f16(__builtin_bit_cast(f16x8, a), __builtin_bit_cast(f16x8, b), c, 0, 0, 0);
}

//@ section mfma_16x16x32_bf16 needs bf16x8
DEVICE f32x4 mfma_16x16x32_bf16(u32x4 a, u32x4 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(bf16x8, a), __builtin_bit_cast(bf16x8, b), c, 0, 0, 0);
}

//@ section mfma_16x16x32_fp16 needs types
DEVICE f32x4 mfma_16x16x32_fp16(u32x4 a, u32x4 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(f16x8, a), __builtin_bit_cast(f16x8, b), c, 0, 0, 0);
}

//@ section mfma_32x32x16_fp8 needs types
// FP8 E4M3 in the target's encoding: FNUZ on gfx942, OCP on gfx950.
DEVICE f32x16 mfma_32x32x16_fp8(u32x2 a, u32x2 b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(__builtin_bit_cast(long, a), __builtin_bit_cast(long, b), c, 0, 0, 0);
}

//@ section mfma_16x16x32_fp8 needs types
// FP8 E4M3 in the target's encoding: FNUZ on gfx942, OCP on gfx950.
DEVICE f32x4 mfma_16x16x32_fp8(u32x2 a, u32x2 b, f32x4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(__builtin_bit_cast(long, a), __builtin_bit_cast(long, b), c, 0, 0, 0);
}

//@ section i32x8 needs join
typedef int i32x8 __attribute__((ext_vector_type(8)));

//@ section mfma_32x32x64_fp8 needs i32x8
// FP8 E4M3 (OCP), without block scales.
DEVICE f32x16 mfma_32x32x64_fp8(u32x8 a, u32x8 b, f32x16 c) {
  return __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(__builtin_bit_cast(i32x8, a), __builtin_bit_cast(i32x8, b), c, 0, 0, 0, 0, 0, 0);
}

//@ section mfma_16x16x128_fp8 needs i32x8
// FP8 E4M3 (OCP), without block scales.
DEVICE f32x4 mfma_16x16x128_fp8(u32x8 a, u32x8 b, f32x4 c) {
  return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(__builtin_bit_cast(i32x8, a), __builtin_bit_cast(i32x8, b), c, 0, 0, 0, 0, 0, 0);
}

//@ section exp2_approx needs types
// Bare v_exp_f32: results below the normal range become 0.
#if __has_builtin(__builtin_amdgcn_exp2f)
DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
#else
DEVICE float exp2_approx(float x) { return __builtin_exp2f(x); }
#endif

//@ section row_base needs exp2_approx
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

//@ section log2_approx needs types
#if __has_builtin(__builtin_amdgcn_logf)
DEVICE float log2_approx(float x) { return __builtin_amdgcn_logf(x); }
#else
DEVICE float log2_approx(float x) { return __builtin_log2f(x); }
#endif

//@ section rcp_approx needs types
DEVICE float rcp_approx(float x) { return __builtin_amdgcn_rcpf(x); }

//@ section maximum needs types
DEVICE float maximum(float a, float b) { return __builtin_fmaxf(a, b); }

//@ section any needs types
// Whether `x` holds in some lane of the wave.
#if __has_builtin(__builtin_amdgcn_ballot_w64)
DEVICE bool any(bool x) { return __builtin_amdgcn_ballot_w64(x) != 0; }
#else
DEVICE bool any(bool x) { return __builtin_amdgcn_uicmp((u32)x, 0u, 33) != 0; }
#endif

//@ section from_lane needs types
// `x` of lane `lane4` / 4.
DEVICE float from_lane(int lane4, float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane4, __builtin_bit_cast(int, x)));
}

//@ section warp_names needs types
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

//@ section lane_floats needs warp_names any
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

//@ section halves_bf16 needs types
// The two elements of a register, and whether those of `count` registers are all finite.
DEVICE float low_half(u32 two) { return as_float(two << 16); }
DEVICE float high_half(u32 two) { return as_float(two & 0xffff0000u); }
DEVICE bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

//@ section halves_fp16 needs types
// The two elements of a register, and whether those of `count` registers are all finite.
DEVICE float low_half(u32 two) { return (float)__builtin_bit_cast(_Float16, (u16)two); }
DEVICE float high_half(u32 two) { return low_half(two >> 16); }
DEVICE bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7c00u) != 0x7c00u && (at[i] & 0x7c000000u) != 0x7c000000u;
  return finite;
}

//@ section bf16_value needs types
DEVICE float bf16_value(u16 x) { return as_float((u32)x << 16); }

//@ section fp16_value needs types
DEVICE float fp16_value(u16 x) { return (float)__builtin_bit_cast(_Float16, x); }

//@ section global_16 needs types
DEVICE void store_global_16(float* p, f32x4 x) { *(f32x4*)p = x; }
DEVICE f32x4 load_global_16(const float* p) { return *(const f32x4*)p; }

//@ section lds_write_4 needs types
DEVICE void lds_write_4(LDS u8* p, u32 x) { *(LDS u32*)p = x; }

//@ section lds_write_8 needs types
DEVICE void lds_write_8(LDS u8* p, u32x2 x) { *(LDS u32x2*)p = x; }

//@ section lds_float needs types
DEVICE void lds_write_float(LDS u8* p, float x) { *(LDS float*)p = x; }
DEVICE float lds_read_float(const LDS u8* p) { return *(const LDS float*)p; }

//@ section arrive needs types
// What this block wrote becomes visible to the device; what others wrote before they arrived becomes visible here.
DEVICE void release_to_device() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
DEVICE void acquire_from_device() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
DEVICE int arrive(int* counter) { return __hip_atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT); }

//@ section pack_bf16_by_hand needs types
// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
DEVICE u32 round_bf16(float x) {
  const u32 bits = as_bits(x);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
DEVICE u32 pack_bf16(float lo, float hi) { return __builtin_amdgcn_perm(round_bf16(hi), round_bf16(lo), 0x07060302u); }

//@ section pack_bf16 needs types
// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half. v_cvt_pk_bf16_f32.
typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
DEVICE u32 pack_bf16(float lo, float hi) { return __builtin_bit_cast(u32, bf16x2{(__bf16)lo, (__bf16)hi}); }

//@ section pack_fp8 needs types
// Four floats to one register of FP8 E4M3 in the target's encoding (round to nearest even), `a` in the lowest byte.
DEVICE u32 pack_fp8(float a, float b, float c, float d) {
  const int low = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
  return (u32)__builtin_amdgcn_cvt_pk_fp8_f32(c, d, low, true);
}

//@ section pack_fp16 needs types
// Two floats to one register of two FP16 (round to nearest even); `lo` goes to the lower half.
DEVICE u32 pack_fp16(float lo, float hi) { return __builtin_bit_cast(u32, f16x2{(_Float16)lo, (_Float16)hi}); }

//@ section unpack_fp8 needs types
// Bytes 2 * half and 2 * half + 1 of four FP8 (in the target's encoding), as floats.
DEVICE f32x2 unpack_bytes(u32 x, int half) {
  return half == 0 ? __builtin_amdgcn_cvt_pk_f32_fp8((int)x, false) : __builtin_amdgcn_cvt_pk_f32_fp8((int)x, true);
}

//@ section unpack_fp8_by_hand needs types
// Bytes 2 * half and 2 * half + 1 of four OCP E4M3, as floats, where no instruction knows that encoding: sign, exponent and
// fraction go where a float has them, 2^120 lies between the two biases. NaN becomes 480.
DEVICE float unpack_e4m3(u32 x) { return as_float((u32)((int)x >> 4) & 0x87f00000u) * 0x1p120f; }
DEVICE f32x2 unpack_bytes(u32 x, int half) {
  return half == 0 ? f32x2{unpack_e4m3(x << 24), unpack_e4m3(x << 16)} : f32x2{unpack_e4m3(x << 8), unpack_e4m3(x)};
}

//@ section unpack_int8 needs types
// Bytes 2 * half and 2 * half + 1 of four INT8, as floats: one instruction each, which picks its byte.
DEVICE f32x2 unpack_bytes(u32 x, int half) {
  return half == 0 ? f32x2{(float)(signed char)x, (float)(signed char)(x >> 8)} : f32x2{(float)(signed char)(x >> 16), (float)((int)x >> 24)};
}

//@ section finite_floats
DEVICE bool finite_floats(const float* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= at[i] * 0.0f == 0.0f;
  return finite;
}

//@ section bytes_fp8 needs unpack_fp8 finite_floats
// Two neighbouring OCP E4M3, and whether those of `count` registers are all finite.
DEVICE float low_byte(u32 two) { return unpack_bytes(two, 0)[0]; }
DEVICE float high_byte(u32 two) { return unpack_bytes(two, 0)[1]; }
DEVICE bool finite_bytes(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (((at[i] & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) == 0u;
  return finite;
}

//@ section bytes_fp8_fnuz needs unpack_fp8 finite_floats
// Two neighbouring E4M3FNUZ, and whether those of `count` registers are all finite: none is 0x80.
DEVICE float low_byte(u32 two) { return unpack_bytes(two, 0)[0]; }
DEVICE float high_byte(u32 two) { return unpack_bytes(two, 0)[1]; }
DEVICE bool finite_bytes(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= ((((at[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | ~at[i]) & 0x80808080u) == 0x80808080u;
  return finite;
}

//@ section bytes_int8 needs types finite_floats
// Two neighbouring INT8.
DEVICE float low_byte(u32 two) { return (float)(signed char)two; }
DEVICE float high_byte(u32 two) { return (float)(signed char)(two >> 8); }

//@ section widen_bf16 needs types
// Eight FP8 or INT8 to eight BF16, exactly: their floats have nothing in the lower half.
DEVICE u32x4 widen_bf16(u32x2 x) {
  u32x4 out;
  for (int i = 0; i < 4; ++i) {
    const f32x2 pair = unpack_bytes(x[i / 2], i % 2);
    out[i] = __builtin_amdgcn_perm(as_bits(pair.y), as_bits(pair.x), 0x07060302u);
  }
  return out;
}

//@ section widen_fp16 needs types
// Eight FP8 to eight FP16, exactly.
DEVICE u32x4 widen_fp16(u32x2 x) {
  u32x4 out;
  for (int i = 0; i < 4; ++i) {
    const f32x2 pair = unpack_bytes(x[i / 2], i % 2);
    out[i] = __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(pair.x, pair.y));
  }
  return out;
}

//@ section widen_int8_fp16 needs types
// Eight INT8 to eight FP16, exactly: above 1024 FP16 counts in ones, so a byte (plus 128) below 0x64 is 1024 more.
DEVICE u32x4 widen_fp16(u32x2 x) {
  const f16x2 zero = {(_Float16)-1152.0f, (_Float16)-1152.0f};
  u32x4 out;
  for (int i = 0; i < 4; ++i) {
    const u32 above = __builtin_amdgcn_perm(0x64646464u, x[i / 2] ^ 0x80808080u, i % 2 == 0 ? 0x07010700u : 0x07030702u);
    out[i] = __builtin_bit_cast(u32, __builtin_bit_cast(f16x2, above) + zero);
  }
  return out;
}

//@ section widen_scaled_bf16 needs types
// Eight FP8 or INT8 times their scale to eight BF16 (round to nearest even).
DEVICE u32x4 widen_bf16(u32x2 x, float unit) {
  u32x4 out;
  for (int i = 0; i < 4; ++i) {
    const f32x2 pair = unpack_bytes(x[i / 2], i % 2) * unit;
    out[i] = pack_bf16(pair.x, pair.y);
  }
  return out;
}

//@ section widen_scaled_fp16 needs types
// Eight FP8 or INT8 times their scale to eight FP16 (round to nearest even).
DEVICE u32x4 widen_fp16(u32x2 x, float unit) {
  u32x4 out;
  for (int i = 0; i < 4; ++i) {
    const f32x2 pair = unpack_bytes(x[i / 2], i % 2) * unit;
    out[i] = pack_fp16(pair.x, pair.y);
  }
  return out;
}
