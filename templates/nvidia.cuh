// Intrinsics that every NVIDIA target has: one thin wrapper per hardware instruction. Spellings as in the PTX ISA.

//@ section types
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

//@ section warp_names needs types
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

//@ section lane_floats needs warp_names
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

//@ section halves_bf16 needs types
// The two elements of a register, and whether those of `count` registers are all finite.
__device__ __forceinline__ float low_half(u32 two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high_half(u32 two) { return __uint_as_float(two & 0xffff0000u); }
__device__ __forceinline__ bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

//@ section halves_fp16 needs types
// The two elements of a register, and whether those of `count` registers are all finite.
__device__ __forceinline__ float low_half(u32 two) {
  float y;
  asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %1; cvt.f32.f16 %0, lo; }" : "=f"(y) : "r"(two));
  return y;
}
__device__ __forceinline__ float high_half(u32 two) { return low_half(two >> 16); }
__device__ __forceinline__ bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7c00u) != 0x7c00u && (at[i] & 0x7c000000u) != 0x7c000000u;
  return finite;
}

//@ section finite_floats
__device__ __forceinline__ bool finite_floats(const float* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= at[i] * 0.0f == 0.0f;
  return finite;
}

//@ section ue8m0_value needs types
// The low byte, a power of two as UE8M0: the exponent of a float, whose 0 stands for 2^-127.
__device__ __forceinline__ float ue8m0_value(u32 x) {
  const u32 byte = x & 0xffu;
  return __uint_as_float(byte == 0xffu ? 0x7fffffffu : max(byte << 23, 0x400000u));
}

//@ section finite_ue8m0
// Whether `count` scales leave every E4M3 finite as a float: 448 times 2^119 does.
__device__ __forceinline__ bool finite_ue8m0(const unsigned char* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= at[i] <= 246;
  return finite;
}

//@ section bytes_fp8 needs types finite_floats byte_type
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

//@ section finite_e4m3
__device__ __forceinline__ bool finite_e4m3(const unsigned char* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f) != 0x7f;
  return finite;
}

//@ section nibbles_e2m1 needs types
// Two neighbouring E2M1.
__device__ __forceinline__ float low_nibble(u32 two) {
  const u32 magnitude = two & 7u;
  const float number = magnitude < 2u ? 0.5f * (float)magnitude : __uint_as_float((magnitude << 22) + (126u << 23));
  return (two & 8u) != 0u ? -number : number;
}
__device__ __forceinline__ float high_nibble(u32 two) { return low_nibble(two >> 4); }

//@ section bytes_int8 needs types finite_floats byte_type
// Two neighbouring INT8.
__device__ __forceinline__ float low_byte(u32 two) { return (float)(signed char)two; }
__device__ __forceinline__ float high_byte(u32 two) { return (float)(signed char)(two >> 8); }

//@ section hide_from
// A score, which counts for nothing in column `end` and beyond. One instruction for a comparison and one for the choice,
// which the compiler cannot turn into branches: a chain of them, one of each column, would take all registers.
template <int kColumn>
__device__ __forceinline__ float hide_from(float score, int end) {
  float y;
  asm("{ .reg .pred past; setp.ge.s32 past, %2, %3; selp.f32 %0, 0fff800000, %1, past; }"
      : "=f"(y) : "f"(score), "n"(kColumn), "r"(end));
  return y;
}

//@ section hide_outside
// The same of a score that counts for nothing in columns before `first`, either.
template <int kColumn>
__device__ __forceinline__ float hide_outside(float score, int first, int end) {
  float y;
  asm("{ .reg .pred out; setp.lt.s32 out, %2, %3; setp.ge.or.s32 out, %2, %4, out; selp.f32 %0, 0fff800000, %1, out; }"
      : "=f"(y) : "f"(score), "n"(kColumn), "r"(first), "r"(end));
  return y;
}

//@ section bf16_value needs types
__device__ __forceinline__ float bf16_value(u16 x) { return __uint_as_float((u32)x << 16); }

//@ section fp16_value needs types
__device__ __forceinline__ float fp16_value(u16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

//@ section smem_address needs types
__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

//@ section exp2_approx
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ section largest
constexpr float kLargest = 3.402823466e38f;

//@ section row_base needs exp2_approx
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

//@ section watched_base needs row_base
// A steep row's base is -infinity: beside it every P is infinite, which its sum shows.
__device__ __forceinline__ float watched_base(float maximum, float factor) {
  const float base = row_base(maximum, factor);
  return is_steep(base) ? __int_as_float(0xff800000) : base;
}

//@ section max_nan
// The larger of two numbers, NaN where one of them is.
__device__ __forceinline__ float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

//@ section log2_approx
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ section rcp_approx
__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ section tanh_approx
// Relative error below 2^-10.9.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//@ section pack_bf16 needs types
// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

//@ section pack_fp16 needs types
// Two floats to one register of two FP16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_fp16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

//@ section mma_fp16 needs types
// D += A B, 16x8x16.
__device__ __forceinline__ void mma_fp16(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ section mma_fp16_first needs types
// D = A B.
__device__ __forceinline__ void mma_fp16_first(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

//@ section byte_type
typedef unsigned char u8;
