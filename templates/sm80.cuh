// Intrinsics of sm_80: one thin wrapper per hardware instruction. Spellings as in the PTX ISA.
// Fragments are passed as pointers into register arrays; after inlining every index is a literal.
//@ include nvidia.cuh

//@ section cp_async needs types
// 16 bytes from global to shared memory, asynchronously; zeros when not `valid` (then `src` is not read).
__device__ __forceinline__ void cp_async_16(u32 dst, const u16* src, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most n of this thread's committed groups are still on their way.
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

//@ section ldmatrix needs types
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

//@ section ldmatrix_trans needs types
// As ldmatrix_x4, each matrix transposed on the way.
__device__ __forceinline__ void ldmatrix_x4_trans(u32* r, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

//@ section mma_bf16 needs types
// D += A B, 16x8x16.
__device__ __forceinline__ void mma_bf16(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ section mma_bf16_first needs types
// D = A B.
__device__ __forceinline__ void mma_bf16_first(float* d, const u32* a, const u32* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

//@ section shared_access needs types
__device__ __forceinline__ void store_shared_32(u32 address, u32 value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
// 16 bytes from shared to global memory.
__device__ __forceinline__ void copy_out_16(u16* dst, u32 src) {
  u32 x, y, z, w;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(src) : "memory");
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(dst), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

//@ section load_global_32 needs types
__device__ __forceinline__ u32 load_global_32(const u16* p) { return *(const u32*)p; }

//@ section load_q_interleaved needs types
// Four neighbouring 16-bit elements as the halves a0 and a2 of an A fragment, in the order that widened bytes
// have: elements 0 and 2, then 1 and 3.
__device__ __forceinline__ void load_q_interleaved(u32* r, const u16* p, bool valid) {
  const uint2 x = valid ? *(const uint2*)p : make_uint2(0u, 0u);
  r[0] = __byte_perm(x.x, x.y, 0x5410);
  r[2] = __byte_perm(x.x, x.y, 0x7632);
}

//@ section cp_async_small needs types
// 4, 8 or 16 bytes from global to shared memory, asynchronously; zeros when not `valid`.
template <int kBytes>
__device__ __forceinline__ void cp_async_small(u32 dst, const float* src, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(dst), "l"(src), "r"(valid ? kBytes : 0), "n"(kBytes) : "memory");
}

//@ section e4m3_nan needs types
// All ones in the half of a register for byte 0 and 2 (kOdd: 1 and 3) of `x` that is an E4M3 NaN (0x7f, 0xff): the
// carry into bit 7, spread by the sign mode of prmt. What is ORed with it is a NaN.
template <bool kOdd>
__device__ __forceinline__ u32 e4m3_nan(u32 x) {
  u32 halves;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(halves) : "r"((x & 0x7f7f7f7fu) + 0x01010101u), "n"(kOdd ? 0xbb99 : 0xaa88));
  return halves;
}

//@ section widen_e4m3_bf16 needs types e4m3_nan
// Four E4M3 to two registers of two BF16: bytes 0 and 2, then bytes 1 and 3. Exponent and mantissa keep their
// bits; the multiplication by 2^120 corrects the bias, exactly, subnormals included.
__device__ __forceinline__ void widen_e4m3_bf16(u32* wide, u32 x) {
  const u32 even = ((x << 4) & 0x07f007f0u) | ((x << 8) & 0x80008000u) | e4m3_nan<false>(x);
  const u32 odd = ((x >> 4) & 0x07f007f0u) | (x & 0x80008000u) | e4m3_nan<true>(x);
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(wide[0]) : "r"(even), "r"(0x7b807b80u), "r"(0x80008000u));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(wide[1]) : "r"(odd), "r"(0x7b807b80u), "r"(0x80008000u));
}

//@ section widen_e4m3_fp16 needs types e4m3_nan
// Four E4M3 to two registers of two FP16: bytes 0 and 2, then bytes 1 and 3; 2^8 corrects the bias, exactly.
__device__ __forceinline__ void widen_e4m3_fp16(u32* wide, u32 x) {
  const u32 even = ((x << 7) & 0x3f803f80u) | ((x << 8) & 0x80008000u) | e4m3_nan<false>(x);
  const u32 odd = ((x >> 1) & 0x3f803f80u) | (x & 0x80008000u) | e4m3_nan<true>(x);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(wide[0]) : "r"(even), "r"(0x5c005c00u));
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(wide[1]) : "r"(odd), "r"(0x5c005c00u));
}

//@ section widen_int8_bf16 needs types
// Four int8 to two registers of two BF16: bytes 0 and 2, then bytes 1 and 3. The low seven bits become 128 + m;
// subtracting 128, or 256 where the sign is set, is exact.
__device__ __forceinline__ void widen_int8_bf16(u32* wide, u32 x) {
  const u32 y = x >> 8;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(wide[0]) : "r"((x & 0x007f007fu) | 0x43004300u), "r"(0x3f803f80u), "r"((x & 0x00800080u) | 0xc300c300u));
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(wide[1]) : "r"((y & 0x007f007fu) | 0x43004300u), "r"(0x3f803f80u), "r"((y & 0x00800080u) | 0xc300c300u));
}

//@ section widen_int8_fp16 needs types
// Four int8 to two registers of two FP16: bytes 0 and 2, then bytes 1 and 3: 1024 + (v + 128) in the mantissa,
// less 1152.
__device__ __forceinline__ void widen_int8_fp16(u32* wide, u32 x) {
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(wide[0]) : "r"((x & 0x00ff00ffu) ^ 0x64806480u), "r"(0xe480e480u));
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(wide[1]) : "r"(((x >> 8) & 0x00ff00ffu) ^ 0x64806480u), "r"(0xe480e480u));
}

//@ section shared_128 needs types
__device__ __forceinline__ void store_shared_128(u32 address, const u32* r) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
__device__ __forceinline__ void load_shared_128(u32* r, u32 address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
