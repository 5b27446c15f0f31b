// Intrinsics of sm_100a: tensor memory and the tcgen05 instructions. Spellings as in the PTX ISA.
//@ include sm90.cuh

//@ section tmem_alloc needs types
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

//@ section tmem_alloc_pair needs types
// The same by a warp of each block of a pair: both have the same columns.
__device__ __forceinline__ void tmem_alloc(u32 address_at, u32 columns) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;\n"
      "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::"r"(address_at),
      "r"(columns)
      : "memory");
}
__device__ __forceinline__ void tmem_dealloc(u32 tmem, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(tmem), "r"(columns) : "memory");
}

//@ section tcgen05_fence
// Around every hand-over between threads: what this thread did in tensor memory before, and does after.
__device__ __forceinline__ void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

//@ section tmem_wait_store
// Until this warp's stores to tensor memory have been done.
__device__ __forceinline__ void tmem_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

//@ section tmem_store_16 needs types
// 16 columns of this lane's row.
__device__ __forceinline__ void tmem_store_16(u32 at, const u32* x) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(at),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]), "r"(x[8]), "r"(x[9]), "r"(x[10]),
      "r"(x[11]), "r"(x[12]), "r"(x[13]), "r"(x[14]), "r"(x[15])
      : "memory");
}

//@ section tmem_store_8 needs types
// 8 columns of this lane's row.
__device__ __forceinline__ void tmem_store_8(u32 at, const u32* x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(at), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7])
               : "memory");
}

//@ section tcgen05_mma needs types
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

//@ section tcgen05_mma_pair needs types
// The same by a pair of blocks, issued by one thread of the first: D and A have 128 rows in each block, B's columns of D half
// in each.
__device__ __forceinline__ void mma_smem(u32 d, u64 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, add; }" ::"r"(d),
      "l"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}
__device__ __forceinline__ void mma_tmem(u32 d, u32 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::2.kind::f16 [%0], [%1], %2, %3, add; }" ::"r"(d),
      "r"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}

//@ section tcgen05_mma_e4m3 needs types
// The same of E4M3: a contraction of 32 elements a step.
__device__ __forceinline__ void mma_smem(u32 d, u64 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, add; }" ::"r"(d),
      "l"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}
__device__ __forceinline__ void mma_tmem(u32 d, u32 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], [%1], %2, %3, add; }" ::"r"(d),
      "r"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}

//@ section tcgen05_mma_e4m3_pair needs types
// The same of E4M3.
__device__ __forceinline__ void mma_smem(u32 d, u64 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], %1, %2, %3, add; }" ::"r"(d),
      "l"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}
__device__ __forceinline__ void mma_tmem(u32 d, u32 a, u64 b, u32 kind, bool add) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, %4, 0;\n"
      "  tcgen05.mma.cta_group::2.kind::f8f6f4 [%0], [%1], %2, %3, add; }" ::"r"(d),
      "r"(a), "l"(b), "r"(kind), "r"((u32)add)
      : "memory");
}

//@ section tcgen05_commit needs types
// One arrival on the barrier when every product that this thread issued before has ended.
__device__ __forceinline__ void tcgen05_commit(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}

//@ section tcgen05_commit_pair needs types
// The same on the barrier at that offset of both blocks of a pair.
__device__ __forceinline__ void tcgen05_commit(u32 bar) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar), "h"((u16)3)
      : "memory");
}

//@ section tma_load_pair needs tensor_map
// As tma_load, of one block of a pair: its bytes complete on the first block's barrier at that offset.
__device__ __forceinline__ void tma_load_pair(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar & 0xfeffffffu), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

//@ section tma_gather4 needs tensor_map
// Four rows of a 2-D tensor, wherever they lie, from `column` on: one below the other in shared memory. Rows that the tensor
// has not are zeros.
__device__ __forceinline__ void tma_gather4(u32 dst, const TensorMap* map, u32 bar, int column, int4 rows, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(column), "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w), "l"(policy)
      : "memory");
}

//@ section tma_gather4_pair needs tensor_map
// As tma_gather4, of one block of a pair: its bytes complete on the first block's barrier at that offset.
__device__ __forceinline__ void tma_gather4_pair(u32 dst, const TensorMap* map, u32 bar, int column, int4 rows, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst),
      "l"(map), "r"(bar & 0xfeffffffu), "r"(column), "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w), "l"(policy)
      : "memory");
}

//@ section cancelled_block needs types
// What cancel_block was answered: the block (the first of a cluster), or -1 where none was left. The next answer may be
// written afterwards.
__device__ __forceinline__ int cancelled_block(u32 answer) {
  int block;
  asm volatile(
      "{ .reg .b128 words; .reg .pred taken; .reg .b32 x;\n"
      "  ld.shared.b128 words, [%1];\n"
      "  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 taken, words;\n"
      "  @taken clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 x, words;\n"
      "  selp.b32 %0, x, -1, taken;\n"
      "  fence.proxy.async.shared::cta; }"
      : "=r"(block)
      : "r"(answer)
      : "memory");
  return block;
}

//@ section cancel_block needs cancelled_block
// Asks that a block which has not started never starts. The answer, 16 bytes of shared memory, completes on the barrier. By
// one thread, which may not ask again once none was left.
__device__ __forceinline__ void cancel_block(u32 answer, u32 bar) {
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(answer), "r"(bar)
      : "memory");
}

//@ section cancel_block_pair needs cancelled_block
// Asks that a pair of blocks which has not started never starts, for both blocks of this pair: the answer, 16 bytes of shared
// memory, completes on the barrier of each. By one thread, which may not ask again once none was left.
__device__ __forceinline__ void cancel_block(u32 answer, u32 bar) {
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], "
      "[%1];" ::"r"(answer),
      "r"(bar)
      : "memory");
}

//@ section pool_row
// Number of a row by its page and what lies between; of a page that is none, a row that no tensor has.
__device__ __forceinline__ int pool_row(int page, int num_pages, int page_rows, int rows) {
  return (u32)page < (u32)num_pages ? page * page_rows + rows : -1;
}

//@ section max_of_three
__device__ __forceinline__ float max_of_three(float a, float b, float c) {
  float y;
  asm("max.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}

//@ section pairs
// Two numbers an instruction: x = x * factor + add, x *= factor, sum += x.
__device__ __forceinline__ void fma_pair(float& x, float& y, float factor, float add) {
  asm("{ .reg .b64 v, f, a; mov.b64 v, {%0, %1}; mov.b64 f, {%2, %2}; mov.b64 a, {%3, %3};\n"
      "  fma.rn.f32x2 v, v, f, a; mov.b64 {%0, %1}, v; }"
      : "+f"(x), "+f"(y)
      : "f"(factor), "f"(add));
}
__device__ __forceinline__ void scale_pair(float& x, float& y, float factor) {
  asm("{ .reg .b64 v, f; mov.b64 v, {%0, %1}; mov.b64 f, {%2, %2}; mul.rn.f32x2 v, v, f; mov.b64 {%0, %1}, v; }"
      : "+f"(x), "+f"(y)
      : "f"(factor));
}
__device__ __forceinline__ void add_pair(float2& sum, float x, float y) {
  asm("{ .reg .b64 v, s; mov.b64 v, {%2, %3}; mov.b64 s, {%0, %1}; add.rn.f32x2 s, s, v; mov.b64 {%0, %1}, s; }"
      : "+f"(sum.x), "+f"(sum.y)
      : "f"(x), "f"(y));
}

//@ section exp2_pair_fma
// 2^x of two numbers on the FMA pipe: x = whole + fraction, a polynomial of degree 3 for 2^fraction (relative error below
// 9e-5, under the rounding of FP16), times 2^whole, whose bits are the integer's. For x < 128. Below -126 it is 0, as
// ex2.approx.ftz is, and so exactly for -infinity; NaN stays NaN.
__device__ __forceinline__ void exp2_pair_fma(float& x, float& y) {
  asm("{ .reg .b64 v, r, p, c; .reg .f32 a, b; .reg .b32 i, j;\n"
      "  max.NaN.f32 a, %0, 0fC2FE0000; max.NaN.f32 b, %1, 0fC2FE0000; mov.b64 v, {a, b};\n"             // -127
      "  mov.b64 c, 0x4B4000004B400000; add.rm.f32x2 r, v, c; mov.b64 {i, j}, r;\n"                       // 1.5 * 2^23
      "  mov.b64 c, 0xCB400000CB400000; add.rn.f32x2 r, r, c;\n"
      "  mov.b64 c, 0xBF800000BF800000; fma.rn.f32x2 v, r, c, v;\n"                                       // fraction
      "  mov.b64 c, 0x3D9DF09D3D9DF09D; mov.b64 p, 0x3E6906A43E6906A4; fma.rn.f32x2 p, c, v, p;\n"        // 0.07711909, 0.22756439
      "  mov.b64 c, 0x3F31F5193F31F519; fma.rn.f32x2 p, p, v, c;\n"                                       // 0.69514614
      "  mov.b64 c, 0x3F8000003F800000; fma.rn.f32x2 p, p, v, c;\n"
      "  shl.b32 i, i, 23; shl.b32 j, j, 23; add.s32 i, i, 0x3F800000; add.s32 j, j, 0x3F800000;\n"       // 2^whole
      "  mov.b64 c, {i, j}; mul.rn.f32x2 p, p, c; mov.b64 {%0, %1}, p; }"
      : "+f"(x), "+f"(y));
}

//@ section store_shared_float needs types
__device__ __forceinline__ void store_shared_float(u32 at, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory"); }

//@ section e4m3_to_bf16 needs e4m3_to_fp16
// The two lower bytes of a word, E4M3 numbers, times a scale as two BF16.
__device__ __forceinline__ u32 two_to_bf16(u32 word, float scale) {
  u32 two;
  asm("{ .reg .b16 lo, hi; .reg .f32 a, b; .reg .b64 x, y;\n"
      "  mov.b32 {lo, hi}, %1; cvt.f32.f16 a, lo; cvt.f32.f16 b, hi;\n"
      "  mov.b64 x, {a, b}; mov.b64 y, {%2, %2}; mul.rn.f32x2 x, x, y; mov.b64 {a, b}, x; cvt.rn.bf16x2.f32 %0, b, a; }"
      : "=r"(two)
      : "r"(narrow_to_fp16(word)), "f"(scale));
  return two;
}
__device__ __forceinline__ uint4 eight_to_bf16(u32 x, u32 y, float scale) {
  return make_uint4(two_to_bf16(x, scale), two_to_bf16(x >> 16, scale), two_to_bf16(y, scale), two_to_bf16(y >> 16, scale));
}

//@ section e2m1_to_fp16 needs types
// Eight E2M1 of a word times two equal FP16: exact where these have up to nine bits.
__device__ __forceinline__ uint4 eight_to_fp16(u32 x, u32 scale) {
  uint4 y;
  asm("{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, %4;\n"
      "  cvt.rn.f16x2.e2m1x2 %0, a; cvt.rn.f16x2.e2m1x2 %1, b; cvt.rn.f16x2.e2m1x2 %2, c; cvt.rn.f16x2.e2m1x2 %3, d;\n"
      "  mul.rn.f16x2 %0, %0, %5; mul.rn.f16x2 %1, %1, %5; mul.rn.f16x2 %2, %2, %5; mul.rn.f16x2 %3, %3, %5; }"
      : "=&r"(y.x), "=&r"(y.y), "=&r"(y.z), "=&r"(y.w)
      : "r"(x), "r"(scale));
  return y;
}
__device__ __forceinline__ uint2 load_shared_8(u32 at) {
  uint2 x;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(at) : "memory");
  return x;
}
