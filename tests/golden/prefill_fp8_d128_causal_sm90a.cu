// prefill_fp8_d128_causal_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"prefill_fp8_d128_causal_sm90a","target":"sm_90a","operation":"prefill","dtype":"fp8_e4m3","kv_dtype":"fp8_e4m3","out_dtype":"bf16","depth":128,"ov_depth":128,"rope_depth":0,"nope_depth":128,"q_depth":128,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"contiguous"},"mask":"causal","score_mod":"none","sink":false,"lse":true,"scale":0.08838834764831843,"mma_shape":[64,64,32],"BM":192,"BN":64,"BK":128,"num_threads":512,"swizzle":"128B","num_kv_stages":4,"num_qk_stages":1,"shared_ring":false,"tma_fold":"none","schedule":"sm90_prefill"}
// Schedule sm90_prefill: 192 query rows (3 consumer warpgroups of 64) by 64 keys a tile, 4 KV stages, 1 qk stage,
// swizzle 128B. Registers: 56 a producer thread, 152 a consumer thread.
// Shared memory (172312 bytes):
//         0 ..   24576  q          Q, 64 rows per consumer warpgroup
//     24576 ..   57344  k          K stages
//     57344 ..   90112  v          V stages
//     90112 ..  122880  raw        V as copied
//    122880 ..  172032  o          O on its way out, 64 rows per consumer warpgroup
//    172032 ..  172080  mbar_q     Q full/empty per consumer warpgroup
//    172080 ..  172144  mbar_k     K ring full/empty
//    172144 ..  172208  mbar_v     V ring full/empty
//    172208 ..  172272  mbar_raw   ring of copied tiles full/empty
//    172272 ..  172304  mbar_work  work ring full/empty
//    172304 ..  172312  work       work items handed to the consumers
//
// Regenerate: kiln generate prefill_fp8_d128_causal_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin prefill_fp8_d128_causal_sm90a.cu

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

typedef unsigned char u8;
// The work items of a ragged batch, found on the device: no item stands for rows that no sequence has.

struct __align__(64) TensorMap { unsigned char bytes[128]; };

// True in one lane of the (converged) warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

#define SETMAXNREG_INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))
#define SETMAXNREG_DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))

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

// One box of a 4-D tensor into shared memory; its bytes complete on `bar`. `policy` is an L2 cache-policy word.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

// One box of shared memory into a 4-D tensor; rows outside it are clipped. Belongs to the current bulk group.
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 src, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(src),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until every committed store has read its shared memory.
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Makes this thread's ordinary shared-memory writes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// Four floats as E4M3, the first in the lowest byte; those over 448 become 448.
__device__ __forceinline__ u32 pack_e4m3(float a, float b, float c, float d) {
  u32 packed;
  asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "  mov.b32 %0, {low, high}; }"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}

// Four bytes of P, none negative, in a register of their own: a mere copy would share one with the next P, which is
// written while P V still reads. Volatile, so that it stays before the fence of that product.
__device__ __forceinline__ u32 own_register(u32 x) {
  u32 y;
  asm volatile("and.b32 %0, %1, 0x7f7f7f7f;" : "=r"(y) : "r"(x));
  return y;
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}

// Four 8x8 matrices of 16-bit elements, transposed; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

// Two columns of 32 keys each, as ldmatrix left them, to rows of V.
__device__ __forceinline__ void store_columns(u32 at, const u32 (&x)[4], u32 even, u32 odd) {
  stmatrix_x4(at, __byte_perm(x[0], x[1], even), __byte_perm(x[0], x[1], odd), __byte_perm(x[2], x[3], even), __byte_perm(x[2], x[3], odd));
}

// d += A (64 x 32, registers) * B (32 x 128, K contiguous) in e4m3.
__device__ __forceinline__ void wgmma_m64n128k32_rs(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// d += A (64 x 32, shared memory) * B (32 x 64, K contiguous) in e4m3.
__device__ __forceinline__ void wgmma_m64n64k32_ss(float (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

// d = A (64 x 32, shared memory) * B (32 x 64, K contiguous) in e4m3.
__device__ __forceinline__ void wgmma_m64n64k32_ss_first(float (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 0, 1, 1;\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]),
        "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]), "=f"(d[15]),
        "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]),
        "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
      : "l"(a), "l"(b));
}

// One work item: 192 query rows of one head of one sequence, and the KV tiles they see.
struct Work {
  int m_start;      // first query row of the tile
  int head, batch;  // query head, sequence
  int kv_head;
  int q_start, seqlen_q, k_start, seqlen_k;  // rows of the sequence: first one in its tensor, and how many
  int num_blocks;   // KV tiles are visited from num_blocks - 1 down to 0; 0: none
};

__device__ __forceinline__ Work decode_work(int tile, int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int num_m_blocks,
    int section_heads) {
  Work work;
  // Longest first inside a section of heads whose K and V stay in L2 together.
  const int section = tile / (section_heads * num_m_blocks);
  const int in_section = tile - section * section_heads * num_m_blocks;
  const int m_block = num_m_blocks - 1 - in_section / section_heads;
  const int flat_head = section * section_heads + in_section % section_heads;
  work.m_start = m_block * 192;
  work.batch = flat_head / heads_q;
  work.head = flat_head - work.batch * heads_q;
  work.q_start = 0; work.seqlen_q = seqlen_q; work.k_start = 0; work.seqlen_k = seqlen_k;
  work.kv_head = work.head / (heads_q / heads_kv);
  // Key positions of the tile's first and last row, m + seqlen_k - seqlen_q, bound the keys it sees.
  const int position = work.m_start + work.seqlen_k - work.seqlen_q;
  const int end_key = min(work.seqlen_k, position + 191 + 1);
  work.num_blocks = (max(end_key, 0) + 63) / 64;
  return work;
}

extern "C" __global__ void __launch_bounds__(512, 1)
kiln_prefill_fp8_d128_causal_sm90a(const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap o_map,
    float* lse,
    const u8* q,
    const u8* k,
    const u8* v,
    u16* o,
    int* tile_counter,
    const int heads_q,
    const int heads_kv,
    const int seqlen_q,
    const int seqlen_k,
    const int num_m_blocks,
    const int num_tiles,
    const int section_heads,
    const long long q_stride_batch,
    const long long q_stride_seq,
    const long long q_stride_head,
    const long long k_stride_batch,
    const long long k_stride_seq,
    const long long k_stride_head,
    const long long v_stride_batch,
    const long long v_stride_seq,
    const long long v_stride_head,
    const long long o_stride_batch,
    const long long o_stride_seq,
    const long long o_stride_head,
    const float scale_log2,
    const float scale) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("trap;");  // built for plain sm_90, which has neither wgmma nor setmaxnreg
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_q = smem;
  const u32 smem_k = smem + 24576;
  const u32 smem_v = smem + 57344;
  const u32 mbar_q_full = smem + 172032, mbar_q_empty = smem + 172056;
  const u32 mbar_k_full = smem + 172080, mbar_k_empty = smem + 172112;
  const u32 mbar_v_full = smem + 172144, mbar_v_empty = smem + 172176;
  const u32 smem_raw = smem + 90112;
  const u32 mbar_raw_full = smem + 172208, mbar_raw_empty = smem + 172240;
  const u32 mbar_work_full = smem + 172272, mbar_work_empty = smem + 172288;
  int* const work_slots = (int*)(smem_bytes + 172304);
  const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);

  if (threadIdx.x == 0) {
    prefetch_tensor_map(&q_map);
    prefetch_tensor_map(&k_map);
    prefetch_tensor_map(&v_map);
    prefetch_tensor_map(&o_map);
    mbarrier_init(mbar_q_full, 1); mbarrier_init(mbar_q_empty, 4);
    mbarrier_init(mbar_q_full + 8, 1); mbarrier_init(mbar_q_empty + 8, 4);
    mbarrier_init(mbar_q_full + 16, 1); mbarrier_init(mbar_q_empty + 16, 4);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_full + 24, 1);
    mbarrier_init(mbar_k_empty, 12);
    mbarrier_init(mbar_k_empty + 8, 12);
    mbarrier_init(mbar_k_empty + 16, 12);
    mbarrier_init(mbar_k_empty + 24, 12);
    mbarrier_init(mbar_v_full, 3);
    mbarrier_init(mbar_v_full + 8, 3);
    mbarrier_init(mbar_v_full + 16, 3);
    mbarrier_init(mbar_v_full + 24, 3);
    mbarrier_init(mbar_v_empty, 12);
    mbarrier_init(mbar_v_empty + 8, 12);
    mbarrier_init(mbar_v_empty + 16, 12);
    mbarrier_init(mbar_v_empty + 24, 12);
    mbarrier_init(mbar_raw_full, 1);
    mbarrier_init(mbar_raw_full + 8, 1);
    mbarrier_init(mbar_raw_full + 16, 1);
    mbarrier_init(mbar_raw_full + 24, 1);
    mbarrier_init(mbar_raw_empty, 3);
    mbarrier_init(mbar_raw_empty + 8, 3);
    mbarrier_init(mbar_raw_empty + 16, 3);
    mbarrier_init(mbar_raw_empty + 24, 3);
    mbarrier_init(mbar_work_full, 1);
    mbarrier_init(mbar_work_full + 8, 1);
    mbarrier_init(mbar_work_empty, 15);
    mbarrier_init(mbar_work_empty + 8, 15);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {

    // ---- producer: one thread issues every copy
    SETMAXNREG_DEC(56);
    if (threadIdx.x / 32 == 0 && elect_one()) {
      u32 raw_stage = 0;
      u32 raw_phase = 1;
      u32 k_stage = 0;
      u32 k_phase = 1;
      u32 q_phase = 1;
      u32 work_stage = 0;
      u32 work_phase = 1;
      for (int tile = blockIdx.x; tile < num_tiles;) {
        const Work work = decode_work(tile, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks, section_heads);
        if (work.num_blocks > 0) {
          int n = work.num_blocks - 1;
          // K(n) into the next slot
          mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
          mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 8192);
          tma_load(smem_k + k_stage * 8192 + 0, &k_map, mbar_k_full + k_stage * 8, 0, n * 64, work.kv_head, work.batch,
              0x14F0000000000000ull);
          if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          // Q rows of consumer warpgroup 0
          mbarrier_wait(mbar_q_empty, q_phase);
          mbarrier_arrive_expect_tx(mbar_q_full, 8192);
          tma_load(smem_q, &q_map, mbar_q_full, 0, work.m_start, work.head, work.batch, 0x12F0000000000000ull);
          // Q rows of consumer warpgroup 1
          mbarrier_wait(mbar_q_empty + 8, q_phase);
          mbarrier_arrive_expect_tx(mbar_q_full + 8, 8192);
          tma_load(smem_q + 8192, &q_map, mbar_q_full + 8, 0, work.m_start + 64, work.head, work.batch, 0x12F0000000000000ull);
          // Q rows of consumer warpgroup 2
          mbarrier_wait(mbar_q_empty + 16, q_phase);
          mbarrier_arrive_expect_tx(mbar_q_full + 16, 8192);
          tma_load(smem_q + 16384, &q_map, mbar_q_full + 16, 0, work.m_start + 128, work.head, work.batch, 0x12F0000000000000ull);
          q_phase ^= 1;
          #pragma unroll 1
          for (--n; n >= 0; --n) {
            // V(n + 1) into the next slot
            mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
            mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 8192);
            tma_load(smem_raw + raw_stage * 8192 + 0, &v_map, mbar_raw_full + raw_stage * 8, 0, (n + 1) * 64, work.kv_head, work.batch,
                0x14F0000000000000ull);
            if (++raw_stage == 4) { raw_stage = 0; raw_phase ^= 1; }
            // K(n) into the next slot
            mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
            mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 8192);
            tma_load(smem_k + k_stage * 8192 + 0, &k_map, mbar_k_full + k_stage * 8, 0, n * 64, work.kv_head, work.batch,
                0x14F0000000000000ull);
            if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          }
          // V(0) into the next slot
          mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
          mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 8192);
          tma_load(smem_raw + raw_stage * 8192 + 0, &v_map, mbar_raw_full + raw_stage * 8, 0, 0 * 64, work.kv_head, work.batch,
              0x14F0000000000000ull);
          if (++raw_stage == 4) { raw_stage = 0; raw_phase ^= 1; }
        }
        // Next work item; the last fetch of the launch leaves the counter as it was found.
        const int fetched = atomicAdd(tile_counter, 1);
        if (fetched == num_tiles - 1) atomicExch(tile_counter, 0);
        tile = fetched + gridDim.x;
        mbarrier_wait(mbar_work_empty + work_stage * 8, work_phase);
        work_slots[work_stage] = tile;
        mbarrier_arrive(mbar_work_full + work_stage * 8);
        work_phase ^= work_stage; work_stage ^= 1;
      }
    } else if (threadIdx.x >= 32) {

      // ---- transposers: three warps turn V round
      const int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32;
      // reading: a lane gives the row of one key of 32
      const u32 raw_lane = smem_raw + lane * 128, raw_bits = (u32)(lane & 7) << 4;
      // storing: row lane % 8 of matrix lane / 8, of columns even and odd in turn and 16 keys each
      const int column = 2 * (lane & 7) + (((lane >> 3) ^ (lane >> 2)) & 1);
      const u32 v_lane = smem_v + column * 64, v_bits = ((u32)(lane >> 4) ^ ((column >> 1) & 3)) << 4;
      const u32 even = lane < 16 ? 0x6420 : 0x7531, odd = even ^ 0x1111;
      u32 raw_stage = 0;
      u32 raw_phase = 0;
      u32 v_stage = 0;
      u32 v_phase = 1;
      u32 work_stage = 0;
      u32 work_phase = 0;
      for (int tile = blockIdx.x; tile < num_tiles;) {
        const Work work = decode_work(tile, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks, section_heads);
        #pragma unroll 1
        for (int n = work.num_blocks - 1; n >= 0; --n) {
          mbarrier_wait(mbar_raw_full + raw_stage * 8, raw_phase);
          mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
          #pragma unroll 1
          for (int c = warp; c < 8; c += 3) {
            const u32 from = raw_lane + raw_stage * 8192 + (((c) << 4) ^ raw_bits);
            const u32 to = v_lane + v_stage * 8192 + c * 1024;
            {
              u32 x[2][4];
              ldmatrix_x4_trans(x[0], from + 0);
              ldmatrix_x4_trans(x[1], from + 4096);
              store_columns(to + 0 + (0 ^ v_bits), x[0], even, odd);
              store_columns(to + 0 + (32 ^ v_bits), x[1], even, odd);
            }
          }
          fence_proxy_async();
          __syncwarp();  // every lane has read and stored its part
          if (lane == 0) mbarrier_arrive(mbar_v_full + v_stage * 8);
          if (lane == 0) mbarrier_arrive(mbar_raw_empty + raw_stage * 8);
          if (++raw_stage == 4) { raw_stage = 0; raw_phase ^= 1; }
          if (++v_stage == 4) { v_stage = 0; v_phase ^= 1; }
        }
        // next work item
        mbarrier_wait(mbar_work_full + work_stage * 8, work_phase);
        tile = work_slots[work_stage];
        __syncwarp();
        if (lane == 0) mbarrier_arrive(mbar_work_empty + work_stage * 8);
        work_phase ^= work_stage; work_stage ^= 1;
      }
    }
  } else {

    // ---- consumers: 64 query rows each
    SETMAXNREG_INC(152);
    const int consumer = warpgroup - 1;
    const int warp = (threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    const u32 q_desc = ((smem_q + consumer * 8192) >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u;
    const u32 v_desc = (smem_v >> 4) | 0x10000u;
    // stmatrix addresses: row lane % 16 of this warp's 16 rows, chunk lane / 16, swizzled within the span
    const u32 o_warp = smem + 122880 + consumer * 16384 + warp * 2048;
    const u32 o_row = o_warp + (lane & 15) * 128;
    const u32 o_swizzle = (((u32)lane >> 4) ^ (lane & 7)) << 4;
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;
    u32 v_phase = 0;
    u32 q_phase = 0;

    float s_acc[32];  // S: 64 x 64 scores
    float o_acc[64];  // O: 64 x 128
    u32 p[8];  // P: 64 x 64 as the A operand of P V

    u32 work_stage = 0;
    u32 work_phase = 0;
    for (int tile = blockIdx.x; tile < num_tiles;) {
      const Work work = decode_work(tile, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks, section_heads);
      const int row_0 = work.m_start + 64 * consumer + 16 * warp + (lane >> 2);  // this lane's rows: row_0, row_0 + 8
      float row_max_0 = -kInfinity, row_max_1 = -kInfinity;
      float row_sum_0 = 0.0f, row_sum_1 = 0.0f;
      o_acc[0] = o_acc[1] = o_acc[2] = o_acc[3] = o_acc[4] = o_acc[5] = o_acc[6] = o_acc[7] = 0.0f;
      o_acc[8] = o_acc[9] = o_acc[10] = o_acc[11] = o_acc[12] = o_acc[13] = o_acc[14] = o_acc[15] = 0.0f;
      o_acc[16] = o_acc[17] = o_acc[18] = o_acc[19] = o_acc[20] = o_acc[21] = o_acc[22] = o_acc[23] = 0.0f;
      o_acc[24] = o_acc[25] = o_acc[26] = o_acc[27] = o_acc[28] = o_acc[29] = o_acc[30] = o_acc[31] = 0.0f;
      o_acc[32] = o_acc[33] = o_acc[34] = o_acc[35] = o_acc[36] = o_acc[37] = o_acc[38] = o_acc[39] = 0.0f;
      o_acc[40] = o_acc[41] = o_acc[42] = o_acc[43] = o_acc[44] = o_acc[45] = o_acc[46] = o_acc[47] = 0.0f;
      o_acc[48] = o_acc[49] = o_acc[50] = o_acc[51] = o_acc[52] = o_acc[53] = o_acc[54] = o_acc[55] = 0.0f;
      o_acc[56] = o_acc[57] = o_acc[58] = o_acc[59] = o_acc[60] = o_acc[61] = o_acc[62] = o_acc[63] = 0.0f;
      if (work.num_blocks > 0) {
        int n = work.num_blocks - 1;
        mbarrier_wait(mbar_q_full + 8 * consumer, q_phase);
        q_phase ^= 1;
        const int position = work.m_start + 64 * consumer + work.seqlen_k - work.seqlen_q;  // of the first row
        // tiles that only later warpgroups see
        const int own_blocks = (max(min(work.seqlen_k, (position + 63) + 1), 1) + 63) / 64;
        #pragma unroll 1
        for (; n >= own_blocks; --n) {
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          __syncwarp();  // no lane waits for a tile after its slot has gone back
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          if (++v_stage == 4) { v_stage = 0; v_phase ^= 1; }
        }

        // ---- first KV tile (the last keys)
        {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 512;
          wgmma_fence();
          wgmma_m64n64k32_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(work.seqlen_k, row_0 + work.seqlen_k - work.seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          const int end_1 = min(work.seqlen_k, row_0 + 8 + work.seqlen_k - work.seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
          float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
          max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
          max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
          max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
          max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
          max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
          max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
          max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
          max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
          max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
          max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
          max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
          max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
          max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
          max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
          float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
          row_max_0 = max_0; row_max_1 = max_1;
          float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
          float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
          if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
            const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
            if (is_steep(shift_0)) shift_0 = 0.0f;
            const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
            if (is_steep(shift_1)) shift_1 = 0.0f;
            s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
            s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
            s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
            s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
            s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
            s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
            s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
            s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
          }
          shift_0 -= 5.0f; shift_1 -= 5.0f;
          s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
          // row sums, two chains each
          float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
          float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
          sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
          sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
          sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
          sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
          sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
          sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
          sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
          row_sum_0 += sum_0a_0 + sum_0b_0;
          row_sum_1 += sum_1a_0 + sum_1b_0;
          p[0] = pack_e4m3(s_acc[0], s_acc[1], s_acc[4], s_acc[5]);
          p[1] = pack_e4m3(s_acc[2], s_acc[3], s_acc[6], s_acc[7]);
          p[2] = pack_e4m3(s_acc[8], s_acc[9], s_acc[12], s_acc[13]);
          p[3] = pack_e4m3(s_acc[10], s_acc[11], s_acc[14], s_acc[15]);
          p[4] = pack_e4m3(s_acc[16], s_acc[17], s_acc[20], s_acc[21]);
          p[5] = pack_e4m3(s_acc[18], s_acc[19], s_acc[22], s_acc[23]);
          p[6] = pack_e4m3(s_acc[24], s_acc[25], s_acc[28], s_acc[29]);
          p[7] = pack_e4m3(s_acc[26], s_acc[27], s_acc[30], s_acc[31]);
        }
        const int clean_end = max(min(work.seqlen_k, position + 1), 0) / 64;  // tiles that the first row sees to their end

        // ---- KV tiles in which the keys of some row of this warpgroup end
        for (--n; n >= clean_end; --n) {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 512;
          wgmma_fence();
          wgmma_m64n64k32_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_commit();
          // O += P(n+1) V(n+1)
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 512;
          wgmma_fence();
          wgmma_m64n128k32_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x80000020u));
          wgmma_m64n128k32_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 2, 0x80000020u));
          wgmma_commit();
          WGMMA_WAIT(1);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(work.seqlen_k, row_0 + work.seqlen_k - work.seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          const int end_1 = min(work.seqlen_k, row_0 + 8 + work.seqlen_k - work.seqlen_q + 1) - (n * 64) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
          // softmax(n), while P(n+1) V(n+1) runs
          float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
          max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
          max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
          max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
          max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
          max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
          max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
          max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
          max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
          max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
          max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
          max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
          max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
          max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
          max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
          float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
          max_0 = fmaxf(max_0, row_max_0); max_1 = fmaxf(max_1, row_max_1);
          float alpha_0 = 1.0f, alpha_1 = 1.0f;
          // Keep the old maximum while no row of the warp grew by more than 2^3.
          const bool grew = (max_0 - row_max_0) * scale_log2 > 3.0f || (max_1 - row_max_1) * scale_log2 > 3.0f;
          const bool rescale = __any_sync(0xffffffffu, grew);
          if (rescale) {
            alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
            alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
          }
          float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
          float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
          if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
            const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
            if (is_steep(shift_0)) shift_0 = 0.0f;
            const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
            if (is_steep(shift_1)) shift_1 = 0.0f;
            s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
            s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
            s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
            s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
            s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
            s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
            s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
            s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
          }
          shift_0 -= 5.0f; shift_1 -= 5.0f;
          s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
          // row sums, two chains each
          float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
          float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
          sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
          sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
          sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
          sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
          sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
          sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
          sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
          row_sum_0 += sum_0a_0 + sum_0b_0;
          row_sum_1 += sum_1a_0 + sum_1b_0;
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          if (++v_stage == 4) { v_stage = 0; v_phase ^= 1; }
          if (rescale) {
            o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
            o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
            o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
            o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
            o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
            o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
            o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
            o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
            o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
            o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
            o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
            o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
            o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
            o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
            o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
            o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
          }
          p[0] = pack_e4m3(s_acc[0], s_acc[1], s_acc[4], s_acc[5]);
          p[1] = pack_e4m3(s_acc[2], s_acc[3], s_acc[6], s_acc[7]);
          p[2] = pack_e4m3(s_acc[8], s_acc[9], s_acc[12], s_acc[13]);
          p[3] = pack_e4m3(s_acc[10], s_acc[11], s_acc[14], s_acc[15]);
          p[4] = pack_e4m3(s_acc[16], s_acc[17], s_acc[20], s_acc[21]);
          p[5] = pack_e4m3(s_acc[18], s_acc[19], s_acc[22], s_acc[23]);
          p[6] = pack_e4m3(s_acc[24], s_acc[25], s_acc[28], s_acc[29]);
          p[7] = pack_e4m3(s_acc[26], s_acc[27], s_acc[30], s_acc[31]);
        }

        // ---- KV tiles that every row sees whole
        for (; n >= 0; --n) {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 512;
          wgmma_fence();
          wgmma_m64n64k32_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n64k32_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_commit();
          // O += P(n+1) V(n+1)
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 512;
          wgmma_fence();
          wgmma_m64n128k32_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x80000020u));
          wgmma_m64n128k32_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 2, 0x80000020u));
          wgmma_commit();
          WGMMA_WAIT(1);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          if (++k_stage == 4) { k_stage = 0; k_phase ^= 1; }
          // softmax(n), while P(n+1) V(n+1) runs
          // P(n) by the maximum so far. Where it would be over 448 the maximum grew: a new one is found.
          u32 next[8];
          float alpha_0 = 1.0f, alpha_1 = 1.0f;
          bool rescale = false;
          {
            float sum_0a, sum_0b, sum_1a, sum_1b;
            float shift_0 = row_base(row_max_0, scale_log2);
            float shift_1 = row_base(row_max_1, scale_log2);
            const bool steep = is_steep(shift_0) || is_steep(shift_1);
            shift_0 -= 5.0f; shift_1 -= 5.0f;
            sum_0a = sum_0b = sum_1a = sum_1b = 0.0f;
            {
              float e[8];
              e[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
              e[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
              e[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
              e[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
              sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
              sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
              next[0] = pack_e4m3(e[0], e[1], e[4], e[5]);
              next[1] = pack_e4m3(e[2], e[3], e[6], e[7]);
            }
            {
              float e[8];
              e[0] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
              e[2] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
              e[4] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
              e[6] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
              sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
              sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
              next[2] = pack_e4m3(e[0], e[1], e[4], e[5]);
              next[3] = pack_e4m3(e[2], e[3], e[6], e[7]);
            }
            {
              float e[8];
              e[0] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
              e[2] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
              e[4] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
              e[6] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
              sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
              sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
              next[4] = pack_e4m3(e[0], e[1], e[4], e[5]);
              next[5] = pack_e4m3(e[2], e[3], e[6], e[7]);
            }
            {
              float e[8];
              e[0] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
              e[2] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
              e[4] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
              e[6] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
              sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
              sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
              next[6] = pack_e4m3(e[0], e[1], e[4], e[5]);
              next[7] = pack_e4m3(e[2], e[3], e[6], e[7]);
            }
            sum_0a += sum_0b; sum_1a += sum_1b;
            // no sum over 448, no P over 448; else a byte of 448 (0x7e) tells
            if (__any_sync(0xffffffffu, !(sum_0a <= 448.0f) || !(sum_1a <= 448.0f) || steep)) {
              u32 most = 0;
              most |= (next[0] + 0x02020202u) | (next[1] + 0x02020202u);
              most |= (next[2] + 0x02020202u) | (next[3] + 0x02020202u);
              most |= (next[4] + 0x02020202u) | (next[5] + 0x02020202u);
              most |= (next[6] + 0x02020202u) | (next[7] + 0x02020202u);
              if (__any_sync(0xffffffffu, (most & 0x80808080u) != 0 || steep)) {
                float max_0 = s_acc[0], max_1 = s_acc[2];
                max_0 = fmaxf(max_0, fmaxf(s_acc[0], s_acc[1])); max_1 = fmaxf(max_1, fmaxf(s_acc[2], s_acc[3]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[4], s_acc[5])); max_1 = fmaxf(max_1, fmaxf(s_acc[6], s_acc[7]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[8], s_acc[9])); max_1 = fmaxf(max_1, fmaxf(s_acc[10], s_acc[11]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[12], s_acc[13])); max_1 = fmaxf(max_1, fmaxf(s_acc[14], s_acc[15]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[16], s_acc[17])); max_1 = fmaxf(max_1, fmaxf(s_acc[18], s_acc[19]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[20], s_acc[21])); max_1 = fmaxf(max_1, fmaxf(s_acc[22], s_acc[23]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[24], s_acc[25])); max_1 = fmaxf(max_1, fmaxf(s_acc[26], s_acc[27]));
                max_0 = fmaxf(max_0, fmaxf(s_acc[28], s_acc[29])); max_1 = fmaxf(max_1, fmaxf(s_acc[30], s_acc[31]));
                max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1));
                max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2));
                max_0 = fmaxf(row_max_0, max_0);
                alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
                max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
                max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
                max_1 = fmaxf(row_max_1, max_1);
                alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
                rescale = true;
                shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
                shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
                if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
                  const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
                  if (is_steep(shift_0)) shift_0 = 0.0f;
                  const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
                  if (is_steep(shift_1)) shift_1 = 0.0f;
                  s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
                  s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
                  s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
                  s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
                  s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
                  s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
                  s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
                  s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
                }
                shift_0 -= 5.0f; shift_1 -= 5.0f;
                sum_0a = sum_0b = sum_1a = sum_1b = 0.0f;
                {
                  float e[8];
                  e[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
                  e[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
                  e[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
                  e[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
                  sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
                  sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
                  next[0] = pack_e4m3(e[0], e[1], e[4], e[5]);
                  next[1] = pack_e4m3(e[2], e[3], e[6], e[7]);
                }
                {
                  float e[8];
                  e[0] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
                  e[2] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
                  e[4] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
                  e[6] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
                  sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
                  sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
                  next[2] = pack_e4m3(e[0], e[1], e[4], e[5]);
                  next[3] = pack_e4m3(e[2], e[3], e[6], e[7]);
                }
                {
                  float e[8];
                  e[0] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
                  e[2] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
                  e[4] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
                  e[6] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
                  sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
                  sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
                  next[4] = pack_e4m3(e[0], e[1], e[4], e[5]);
                  next[5] = pack_e4m3(e[2], e[3], e[6], e[7]);
                }
                {
                  float e[8];
                  e[0] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); e[1] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
                  e[2] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); e[3] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
                  e[4] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); e[5] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
                  e[6] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); e[7] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
                  sum_0a += e[0]; sum_0b += e[1]; sum_1a += e[2]; sum_1b += e[3];
                  sum_0a += e[4]; sum_0b += e[5]; sum_1a += e[6]; sum_1b += e[7];
                  next[6] = pack_e4m3(e[0], e[1], e[4], e[5]);
                  next[7] = pack_e4m3(e[2], e[3], e[6], e[7]);
                }
                sum_0a += sum_0b; sum_1a += sum_1b;
              }
            }
            row_sum_0 += sum_0a; row_sum_1 += sum_1a;
          }
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          if (++v_stage == 4) { v_stage = 0; v_phase ^= 1; }
          if (rescale) {
            o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
            o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
            o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
            o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
            o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
            o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
            o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
            o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
            o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
            o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
            o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
            o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
            o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
            o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
            o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
            o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
          }
          p[0] = own_register(next[0]); p[1] = own_register(next[1]);
          p[2] = own_register(next[2]); p[3] = own_register(next[3]);
          p[4] = own_register(next[4]); p[5] = own_register(next[5]);
          p[6] = own_register(next[6]); p[7] = own_register(next[7]);
        }
        if (lane == 0) mbarrier_arrive(mbar_q_empty + 8 * consumer);

        // ---- O += P V of the last tile
        {
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 512;
          wgmma_fence();
          wgmma_m64n128k32_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x80000020u));
          wgmma_m64n128k32_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 2, 0x80000020u));
          wgmma_commit();
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          if (++v_stage == 4) { v_stage = 0; v_phase ^= 1; }
        }
      }
      // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
      float odd_0 = 0.0f, odd_1 = 0.0f;
      odd_0 = fmaf(o_acc[0], o_acc[1], odd_0);
      odd_1 = fmaf(o_acc[4], o_acc[5], odd_1);
      odd_0 = fmaf(o_acc[8], o_acc[9], odd_0);
      odd_1 = fmaf(o_acc[12], o_acc[13], odd_1);
      odd_0 = fmaf(o_acc[16], o_acc[17], odd_0);
      odd_1 = fmaf(o_acc[20], o_acc[21], odd_1);
      odd_0 = fmaf(o_acc[24], o_acc[25], odd_0);
      odd_1 = fmaf(o_acc[28], o_acc[29], odd_1);
      odd_0 = fmaf(o_acc[32], o_acc[33], odd_0);
      odd_1 = fmaf(o_acc[36], o_acc[37], odd_1);
      odd_0 = fmaf(o_acc[40], o_acc[41], odd_0);
      odd_1 = fmaf(o_acc[44], o_acc[45], odd_1);
      odd_0 = fmaf(o_acc[48], o_acc[49], odd_0);
      odd_1 = fmaf(o_acc[52], o_acc[53], odd_1);
      odd_0 = fmaf(o_acc[56], o_acc[57], odd_0);
      odd_1 = fmaf(o_acc[60], o_acc[61], odd_1);
      const bool odd = !((odd_0 + odd_1) * 0.0f == 0.0f);

      // ---- epilogue: O / row_sum, LSE
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 1);
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 2);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 1);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 2);
      const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : rcp_approx(row_sum_0);
      const float inv_sum_1 = row_sum_1 == 0.0f ? 0.0f : rcp_approx(row_sum_1);
      if ((lane & 3) == 0) {
        float* const lse_row = lse + ((long long)work.batch * heads_q + work.head) * seqlen_q + row_0;
        if (row_0 + 0 < work.seqlen_q) lse_row[0] = row_sum_0 == 0.0f ? -kInfinity : row_max_0 * scale - 3.4657359f
            + log2_approx(row_sum_0) * 0.693147181f;
        if (row_0 + 8 < work.seqlen_q) lse_row[8] = row_sum_1 == 0.0f ? -kInfinity : row_max_1 * scale - 3.4657359f
            + log2_approx(row_sum_1) * 0.693147181f;
      }
      // This warp's 16 rows: registers to shared memory, swizzled, then one box per panel to global memory.
      if (lane == 0) bulk_wait_read();  // the store of the item before
      __syncwarp();
      stmatrix_x4(o_row + 0 + (0 ^ o_swizzle), pack_bf16(o_acc[0] * inv_sum_0, o_acc[1] * inv_sum_0),
          pack_bf16(o_acc[2] * inv_sum_1, o_acc[3] * inv_sum_1),
                  pack_bf16(o_acc[4] * inv_sum_0, o_acc[5] * inv_sum_0), pack_bf16(o_acc[6] * inv_sum_1, o_acc[7] * inv_sum_1));
      stmatrix_x4(o_row + 0 + (32 ^ o_swizzle), pack_bf16(o_acc[8] * inv_sum_0, o_acc[9] * inv_sum_0),
          pack_bf16(o_acc[10] * inv_sum_1, o_acc[11] * inv_sum_1),
                  pack_bf16(o_acc[12] * inv_sum_0, o_acc[13] * inv_sum_0), pack_bf16(o_acc[14] * inv_sum_1, o_acc[15] * inv_sum_1));
      stmatrix_x4(o_row + 0 + (64 ^ o_swizzle), pack_bf16(o_acc[16] * inv_sum_0, o_acc[17] * inv_sum_0),
          pack_bf16(o_acc[18] * inv_sum_1, o_acc[19] * inv_sum_1),
                  pack_bf16(o_acc[20] * inv_sum_0, o_acc[21] * inv_sum_0), pack_bf16(o_acc[22] * inv_sum_1, o_acc[23] * inv_sum_1));
      stmatrix_x4(o_row + 0 + (96 ^ o_swizzle), pack_bf16(o_acc[24] * inv_sum_0, o_acc[25] * inv_sum_0),
          pack_bf16(o_acc[26] * inv_sum_1, o_acc[27] * inv_sum_1),
                  pack_bf16(o_acc[28] * inv_sum_0, o_acc[29] * inv_sum_0), pack_bf16(o_acc[30] * inv_sum_1, o_acc[31] * inv_sum_1));
      stmatrix_x4(o_row + 8192 + (0 ^ o_swizzle), pack_bf16(o_acc[32] * inv_sum_0, o_acc[33] * inv_sum_0),
          pack_bf16(o_acc[34] * inv_sum_1, o_acc[35] * inv_sum_1),
                  pack_bf16(o_acc[36] * inv_sum_0, o_acc[37] * inv_sum_0), pack_bf16(o_acc[38] * inv_sum_1, o_acc[39] * inv_sum_1));
      stmatrix_x4(o_row + 8192 + (32 ^ o_swizzle), pack_bf16(o_acc[40] * inv_sum_0, o_acc[41] * inv_sum_0),
          pack_bf16(o_acc[42] * inv_sum_1, o_acc[43] * inv_sum_1),
                  pack_bf16(o_acc[44] * inv_sum_0, o_acc[45] * inv_sum_0), pack_bf16(o_acc[46] * inv_sum_1, o_acc[47] * inv_sum_1));
      stmatrix_x4(o_row + 8192 + (64 ^ o_swizzle), pack_bf16(o_acc[48] * inv_sum_0, o_acc[49] * inv_sum_0),
          pack_bf16(o_acc[50] * inv_sum_1, o_acc[51] * inv_sum_1),
                  pack_bf16(o_acc[52] * inv_sum_0, o_acc[53] * inv_sum_0), pack_bf16(o_acc[54] * inv_sum_1, o_acc[55] * inv_sum_1));
      stmatrix_x4(o_row + 8192 + (96 ^ o_swizzle), pack_bf16(o_acc[56] * inv_sum_0, o_acc[57] * inv_sum_0),
          pack_bf16(o_acc[58] * inv_sum_1, o_acc[59] * inv_sum_1),
                  pack_bf16(o_acc[60] * inv_sum_0, o_acc[61] * inv_sum_0), pack_bf16(o_acc[62] * inv_sum_1, o_acc[63] * inv_sum_1));
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) {
        tma_store(&o_map, o_warp + 0, 0, work.m_start + 64 * consumer + 16 * warp, work.head, work.batch);
        tma_store(&o_map, o_warp + 8192, 64, work.m_start + 64 * consumer + 16 * warp, work.head, work.batch);
        bulk_commit();
      }
      // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
      if (same(any_lane(odd))) {
        const int its_work_m_start = work.m_start;
        const int its_work_seqlen_q = work.seqlen_q;
        const int its_work_head = work.head;
        const int its_work_num_blocks = work.num_blocks;
        const int its_work_seqlen_k = work.seqlen_k;
        const int its_work_batch = work.batch;
        const int its_work_kv_head = work.kv_head;
        const auto again = [=]() __attribute__((noinline)) {
        const int lane_32 = (int)thread_id() & 31, row_begin = same(its_work_m_start + 64 * consumer + 16 * warp),
            row_end = same(min(its_work_m_start + 64 * consumer + 16 * warp + 16, its_work_seqlen_q));
        bulk_wait();  // the store has been written
        __syncwarp();
        // the last key past some row's end, and the first one before some row's first, with a V that is not finite
        int highest = -1, lowest = 0x7fffffff;
        {
          const int row = row_begin, last = same(min(its_work_num_blocks * 64, its_work_seqlen_k)) - 1;
      #pragma unroll 1
          for (int first = same(max(min(its_work_seqlen_k, (row + its_work_seqlen_k - its_work_seqlen_q) + 1), 0)); first <= last;
              first += 32) {
            const int key = min(first + lane_32, last);
            highest = finite_bytes((const u32*)(v + its_work_kv_head * v_stride_head + its_work_batch * v_stride_batch
                + key * v_stride_seq), 32) ? highest : key;
          }
          highest = same(largest_of_lanes(highest));
        }
      #pragma unroll 1
        for (int row = row_begin; row < row_end; ++row) {
          const int begin = same(0), end = same(min(its_work_seqlen_k, (row + its_work_seqlen_k - its_work_seqlen_q) + 1));
          if (highest < end && lowest >= begin) continue;
          const u16* const query_words = (const u16*)(q + its_work_batch * q_stride_batch + row * q_stride_seq
              + its_work_head * q_stride_head);
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
              const u16* const key_words = (const u16*)(k + its_work_kv_head * k_stride_head + its_work_batch * k_stride_batch
                  + key * k_stride_seq);
              UNROLL_4
              for (int i = 0; i < 64; ++i) {
                score[0] = fmaf(low_byte(query_words[i]), low_byte(key_words[i]), score[0]);
                score[0] = fmaf(high_byte(query_words[i]), high_byte(key_words[i]), score[0]);
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
              const u16* const value_words = (const u16*)(v + its_work_kv_head * v_stride_head + its_work_batch * v_stride_batch
                  + key * v_stride_seq);
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
          const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
          u16* const to = o + its_work_batch * o_stride_batch + row * o_stride_seq + its_work_head * o_stride_head;
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
      // next work item
      mbarrier_wait(mbar_work_full + work_stage * 8, work_phase);
      tile = work_slots[work_stage];
      __syncwarp();
      if (lane == 0) mbarrier_arrive(mbar_work_empty + work_stage * 8);
      work_phase ^= work_stage; work_stage ^= 1;
    }
    if (lane == 0) bulk_wait_read();
  }
  #endif
}
