// prefill_bf16_d256_pairs_sm100a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"prefill_bf16_d256_pairs_sm100a","target":"sm_100a","operation":"prefill","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":256,"ov_depth":256,"rope_depth":0,"nope_depth":256,"q_depth":256,"cache_depth":256,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"contiguous"},"mask":"none","score_mod":"none","sink":false,"lse":false,"scale":0.0625,"mma_shape":[256,128,16],"BM":256,"BN":128,"BK":256,"num_threads":384,"swizzle":"128B","num_kv_stages":5,"num_qk_stages":1,"num_pv_stages":2,"shared_ring":true,"schedule":"sm100_prefill","pair_cta":true,"scheduler":"static"}
// Schedule sm100_prefill: a tile of 128 query rows by 128 keys a tile, 5 KV slots that K and V share, 1 qk stage, P in 2 pieces.
// Tensor memory: S P 0, the next tile's 128, O 256, 512 of 512 columns.
// Registers: 232 a softmax thread, 152 a correction thread, 120 others.
// Shared memory (230100 bytes):
//         0 ..   65536  q          Q, a tile of 128 rows; O on its way out
//     65536 ..  229376  k          slots of K and V in turns
//    229376 ..  229888  factors    what each row of O is multiplied by
//    229888 ..  230016  mbar       Q, S, P, the rest of P, factors full/empty, O; Q's place empty, left so
//    230016 ..  230096  mbar_k     K ring full/empty
//    230096 ..  230100  tmem       address of tensor memory
//
// Regenerate: kiln generate prefill_bf16_d256_pairs_sm100a.json --out .
// Compile: nvcc -gencode=arch=compute_100a,code=sm_100a -cubin prefill_bf16_d256_pairs_sm100a.cu

#define kInfinity __int_as_float(0x7f800000)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

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

// Arrives on the barrier at the same offset in block `cta` of the cluster. It releases memory that was only read, so
// block scope is enough; release at cluster scope would cost a full memory barrier per tile.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 bar, u32 cta) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(bar),
      "r"(cta)
      : "memory");
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

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

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

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

__device__ __forceinline__ uint4 load_shared_16(u32 at) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ float load_shared_float(u32 at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ u32 load_shared(u32 at) {
  u32 x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(u32 at, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ void store_shared(u32 at, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }

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

// Around every hand-over between threads: what this thread did in tensor memory before, and does after.
__device__ __forceinline__ void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// Until this warp's stores to tensor memory have been done.
__device__ __forceinline__ void tmem_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// 16 columns of this lane's row.
__device__ __forceinline__ void tmem_store_16(u32 at, const u32* x) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(at),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]), "r"(x[8]), "r"(x[9]), "r"(x[10]),
      "r"(x[11]), "r"(x[12]), "r"(x[13]), "r"(x[14]), "r"(x[15])
      : "memory");
}

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

// The same on the barrier at that offset of both blocks of a pair.
__device__ __forceinline__ void tcgen05_commit(u32 bar) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(bar), "h"((u16)3)
      : "memory");
}

// As tma_load, of one block of a pair: its bytes complete on the first block's barrier at that offset.
__device__ __forceinline__ void tma_load_pair(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar & 0xfeffffffu), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

__device__ __forceinline__ float max_of_three(float a, float b, float c) {
  float y;
  asm("max.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}

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

__device__ __forceinline__ void store_shared_float(u32 at, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory");
    }

// 128 columns of this lane's row, with the wait for them.
__device__ __forceinline__ void tmem_load_128(float (&x)[128], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
          "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%128];\n"
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
          "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, [%128 + 32];\n"
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
          "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, [%128 + 64];\n"
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
          "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, [%128 + 96];\n"
      "tcgen05.wait::ld.sync.aligned;" :
        "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]),
        "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]),
        "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]),
        "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31]),
        "=f"(x[32]), "=f"(x[33]), "=f"(x[34]), "=f"(x[35]), "=f"(x[36]), "=f"(x[37]), "=f"(x[38]), "=f"(x[39]),
        "=f"(x[40]), "=f"(x[41]), "=f"(x[42]), "=f"(x[43]), "=f"(x[44]), "=f"(x[45]), "=f"(x[46]), "=f"(x[47]),
        "=f"(x[48]), "=f"(x[49]), "=f"(x[50]), "=f"(x[51]), "=f"(x[52]), "=f"(x[53]), "=f"(x[54]), "=f"(x[55]),
        "=f"(x[56]), "=f"(x[57]), "=f"(x[58]), "=f"(x[59]), "=f"(x[60]), "=f"(x[61]), "=f"(x[62]), "=f"(x[63]),
        "=f"(x[64]), "=f"(x[65]), "=f"(x[66]), "=f"(x[67]), "=f"(x[68]), "=f"(x[69]), "=f"(x[70]), "=f"(x[71]),
        "=f"(x[72]), "=f"(x[73]), "=f"(x[74]), "=f"(x[75]), "=f"(x[76]), "=f"(x[77]), "=f"(x[78]), "=f"(x[79]),
        "=f"(x[80]), "=f"(x[81]), "=f"(x[82]), "=f"(x[83]), "=f"(x[84]), "=f"(x[85]), "=f"(x[86]), "=f"(x[87]),
        "=f"(x[88]), "=f"(x[89]), "=f"(x[90]), "=f"(x[91]), "=f"(x[92]), "=f"(x[93]), "=f"(x[94]), "=f"(x[95]),
        "=f"(x[96]), "=f"(x[97]), "=f"(x[98]), "=f"(x[99]), "=f"(x[100]), "=f"(x[101]), "=f"(x[102]), "=f"(x[103]),
        "=f"(x[104]), "=f"(x[105]), "=f"(x[106]), "=f"(x[107]), "=f"(x[108]), "=f"(x[109]), "=f"(x[110]), "=f"(x[111]),
        "=f"(x[112]), "=f"(x[113]), "=f"(x[114]), "=f"(x[115]), "=f"(x[116]), "=f"(x[117]), "=f"(x[118]), "=f"(x[119]),
        "=f"(x[120]), "=f"(x[121]), "=f"(x[122]), "=f"(x[123]), "=f"(x[124]), "=f"(x[125]), "=f"(x[126]), "=f"(x[127])
      : "r"(at) : "memory");
}

// 32 columns of this lane's row, with the wait for them.
__device__ __forceinline__ void tmem_load_32(float (&x)[32], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
          "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];\n"
      "tcgen05.wait::ld.sync.aligned;" :
        "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]),
        "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]),
        "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]),
        "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31])
      : "r"(at) : "memory");
}

// 32 columns of this lane's row.
__device__ __forceinline__ void tmem_store_floats_32(u32 at, const float (&x)[32]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x32.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
          "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32};" ::"r"(at),
        "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]),
        "f"(x[8]), "f"(x[9]), "f"(x[10]), "f"(x[11]), "f"(x[12]), "f"(x[13]), "f"(x[14]), "f"(x[15]),
        "f"(x[16]), "f"(x[17]), "f"(x[18]), "f"(x[19]), "f"(x[20]), "f"(x[21]), "f"(x[22]), "f"(x[23]),
        "f"(x[24]), "f"(x[25]), "f"(x[26]), "f"(x[27]), "f"(x[28]), "f"(x[29]), "f"(x[30]), "f"(x[31])
      : "memory");
}

// One work item: 128 query rows of one head of one sequence, and the KV tiles they see.
struct Work {
  int m_start;      // first query row of the tile
  int head, batch;  // query head, sequence
  int kv_head;
  int q_start, seqlen_q, k_start, seqlen_k;  // rows of the sequence: first one in its tensor, and how many
  int num_blocks;   // KV tiles are visited from num_blocks - 1 down to 0; 0: none
};

__device__ __forceinline__ Work decode_work(int tile, int heads_q, int heads_kv, int seqlen_q, int seqlen_k, int num_m_blocks) {
  Work work;
  const int flat_head = tile / num_m_blocks;
  const int m_block = tile - flat_head * num_m_blocks;
  work.m_start = (m_block * 2 + (int)cluster_rank()) * 128;
  work.batch = flat_head / heads_q;
  work.head = flat_head - work.batch * heads_q;
  work.q_start = 0; work.seqlen_q = seqlen_q; work.k_start = 0; work.seqlen_k = seqlen_k;
  work.kv_head = work.head / (heads_q / heads_kv);
  work.num_blocks = (work.seqlen_k + 127) / 128;
  return work;
}

// S = Q K', the instruction descriptor: 128 x 128, K K-major. O += P V: 128 x 256, V MN-major.
constexpr u32 kScoresKind = 0x10200490u, kOutputKind = 0x10410490u;
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kQHigh = 0x40004040u, kKHigh = 0x40004040u, kVHigh = 0x40004040u;

// S = Q K': columns 0 to 255 of Q and K, 16 a step.
__device__ __forceinline__ void issue_scores(u32 s, u32 q, u32 k) {
  mma_smem(s, descriptor(q + 0, kQHigh), descriptor(k + 0, kKHigh), kScoresKind, false);
  mma_smem(s, descriptor(q + 2, kQHigh), descriptor(k + 2, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4, kQHigh), descriptor(k + 4, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 6, kQHigh), descriptor(k + 6, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1024, kQHigh), descriptor(k + 512, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1026, kQHigh), descriptor(k + 514, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1028, kQHigh), descriptor(k + 516, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1030, kQHigh), descriptor(k + 518, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2048, kQHigh), descriptor(k + 1024, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2050, kQHigh), descriptor(k + 1026, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2052, kQHigh), descriptor(k + 1028, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2054, kQHigh), descriptor(k + 1030, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3072, kQHigh), descriptor(k + 1536, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3074, kQHigh), descriptor(k + 1538, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3076, kQHigh), descriptor(k + 1540, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3078, kQHigh), descriptor(k + 1542, kKHigh), kScoresKind, true);
}
// O (+)= P V, 8 steps of 16 keys, as P comes from softmax. `p_full` also tells that O has been rescaled.
__device__ __forceinline__ void issue_output(u32 o, u32 p, u32 v, bool add, u32 p_full, u32 p_rest, u32 phase) {
  mbarrier_wait(p_full, phase);
  tcgen05_fence_after();
  mma_tmem(o, p + 0, descriptor(v + 0, kVHigh), kOutputKind, add);
  mma_tmem(o, p + 8, descriptor(v + 128, kVHigh), kOutputKind, true);
  mma_tmem(o, p + 16, descriptor(v + 256, kVHigh), kOutputKind, true);
  mma_tmem(o, p + 24, descriptor(v + 384, kVHigh), kOutputKind, true);
  mma_tmem(o, p + 32, descriptor(v + 512, kVHigh), kOutputKind, true);
  mma_tmem(o, p + 40, descriptor(v + 640, kVHigh), kOutputKind, true);
  mbarrier_wait(p_rest, phase);
  tcgen05_fence_after();
  mma_tmem(o, p + 48, descriptor(v + 768, kVHigh), kOutputKind, true);
  mma_tmem(o, p + 56, descriptor(v + 896, kVHigh), kOutputKind, true);
}

// Two scores to P: 2^(s * factor - shift), added to the row's sums, rounded and packed.
__device__ __forceinline__ u32 exponentials(float a, float b, float factor, float shift, float2& sum) {
  fma_pair(a, b, factor, -shift);
  a = exp2_approx(a), b = exp2_approx(b);
  add_pair(sum, a, b);
  return pack_bf16(a, b);
}

// 256 columns of O of this lane's row times a factor.
__device__ __forceinline__ void rescale_output(u32 o, float alpha) {
  float x[32];
#pragma unroll
  for (int column = 0; column < 256; column += 32) {
    tmem_load_32(x, o + column);
#pragma unroll
    for (int i = 0; i < 32; i += 2) scale_pair(x[i], x[i + 1], alpha);
    tmem_store_floats_32(o + column, x);
  }
  tmem_wait_store();
}

// The same to shared memory, in 16 bits, swizzled: 16-byte chunk c of a row of 128 bytes is at chunk c ^ (row % 8).
__device__ __forceinline__ void stage_output(u32 o, bool any, float inv_sum, u32 row_at, u32 swizzle) {
#pragma unroll
  for (int column = 0; column < 256; column += 32) {
    float x[32];
    if (any) {
      tmem_load_32(x, o + column);
    } else {
#pragma unroll
      for (int i = 0; i < 32; ++i) x[i] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
      const u32 chunk = (column + i) % 64 / 8;
      store_shared_16(row_at + (column + i) / 64 * 16384 + ((chunk << 4) ^ swizzle),
                      make_uint4(pack_bf16(x[i] * inv_sum, x[i + 1] * inv_sum), pack_bf16(x[i + 2] * inv_sum, x[i + 3] * inv_sum),
                                 pack_bf16(x[i + 4] * inv_sum, x[i + 5] * inv_sum), pack_bf16(x[i + 6] * inv_sum, x[i + 7] * inv_sum)));
    }
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
kiln_prefill_bf16_d256_pairs_sm100a(const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap o_map,
    const int heads_q,
    const int heads_kv,
    const int seqlen_q,
    const int seqlen_k,
    const int num_m_blocks,
    const int num_tiles,
    const float scale_log2) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM100_ALL)
  asm volatile("trap;");  // built for plain sm_100, which has no tcgen05
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_q = smem, smem_k = smem + 65536, smem_v = smem + 65536, smem_factors = smem + 229376;
  // Q is there. Of each place of S, place 1's 8 bytes behind: S is there; P is there and O rescaled, the rest of P. The rows'
  // factors are there, and were read; a P V has ended; the place of Q, where O leaves, is free; it stays without a Q, for an
  // item that has no keys.
  const u32 mbar_q_full = smem + 229888, mbar_s_full = mbar_q_full + 16, mbar_p_full = mbar_q_full + 32;
  const u32 mbar_p_rest = mbar_q_full + 48, mbar_factor_full = mbar_q_full + 64, mbar_factor_empty = mbar_q_full + 80;
  const u32 mbar_o_full = mbar_q_full + 96, mbar_q_empty = mbar_q_full + 112, mbar_q_none = mbar_q_full + 120;
  const u32 mbar_k_full = smem + 230016, mbar_k_empty = smem + 230056;
  const u32 mbar_v_full = smem + 230016, mbar_v_empty = smem + 230056;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;

  if (warp == 8) tmem_alloc(smem + 230096, 512);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&q_map);
    prefetch_tensor_map(&k_map);
    prefetch_tensor_map(&v_map);
    prefetch_tensor_map(&o_map);
    mbarrier_init(mbar_q_full, 1);
    #pragma unroll
    for (int i = 0; i < 16; i += 8) {
      mbarrier_init(mbar_s_full + i, 1);
      mbarrier_init(mbar_p_full + i, 16);  // a lane of each warp of softmax and of correction
      mbarrier_init(mbar_p_rest + i, 8);
    }
    mbarrier_init(mbar_factor_full, 4);
    mbarrier_init(mbar_factor_empty, 4);
    mbarrier_init(mbar_o_full, 1);
    mbarrier_init(mbar_q_empty, 4);
    mbarrier_init(mbar_q_none, 1);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_full + 24, 1);
    mbarrier_init(mbar_k_full + 32, 1);
    mbarrier_init(mbar_k_empty, 1);
    mbarrier_init(mbar_k_empty + 8, 1);
    mbarrier_init(mbar_k_empty + 16, 1);
    mbarrier_init(mbar_k_empty + 24, 1);
    mbarrier_init(mbar_k_empty + 32, 1);
    fence_mbarrier_init();
  }
  tcgen05_fence_before();
  cluster_arrive(); cluster_wait();  // of both blocks
  tcgen05_fence_after();
  // Columns of tensor memory: S P 0, the next tile's 128, O 256. Each role reads where they begin: a register
  // for it through all roles is one that ptxas spills.
  const u32* const tmem_at = (const u32*)(smem_bytes + 230096);

  if (warp < 4) {
    // ---- softmax: a row of a tile of queries a thread
    SETMAXNREG_INC(232);
    const u32 tmem = *(volatile const u32*)tmem_at;
    const u32 s_lanes = tmem + ((u32)warp << 21);  // this warp's 32 lanes of S, which P takes the place of
    const u32 factor_at = smem_factors + 4 * threadIdx.x;  // what the row of O is multiplied by
    const u32 factor_full = mbar_factor_full, factor_empty = mbar_factor_empty;
    u32 turn = 0, s_phase = 0, factor_phase = 1;  // tiles of keys take the two places of S in turns
    for (int tile_number = blockIdx.x / 2; tile_number < num_tiles; tile_number += gridDim.x / 2) {
      const Work work = decode_work(tile_number, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks);
      float row_max = -kInfinity, row_sum = 0.0f;
  #pragma unroll 1
      for (int n = work.num_blocks - 1; n >= 0; --n) {
        const u32 s_at = s_lanes + turn * 128, s_full = mbar_s_full + 8 * turn, p_full = mbar_p_full + 8 * turn;
        const u32 p_rest = mbar_p_rest + 8 * turn;
        mbarrier_wait(s_full, s_phase);
        s_phase ^= turn;
        turn ^= 1;
        tcgen05_fence_after();
        float s[128];
        tmem_load_128(s, s_at);
        // the sequence ends in this tile
        if ((n + 1) * 128 > work.seqlen_k) {
          // keys past the end of the sequence do not count
          const int end_0 = work.seqlen_k - (n * 128);
          if (0 >= end_0) s[0] = -kInfinity; if (1 >= end_0) s[1] = -kInfinity;
          if (2 >= end_0) s[2] = -kInfinity; if (3 >= end_0) s[3] = -kInfinity;
          if (4 >= end_0) s[4] = -kInfinity; if (5 >= end_0) s[5] = -kInfinity;
          if (6 >= end_0) s[6] = -kInfinity; if (7 >= end_0) s[7] = -kInfinity;
          if (8 >= end_0) s[8] = -kInfinity; if (9 >= end_0) s[9] = -kInfinity;
          if (10 >= end_0) s[10] = -kInfinity; if (11 >= end_0) s[11] = -kInfinity;
          if (12 >= end_0) s[12] = -kInfinity; if (13 >= end_0) s[13] = -kInfinity;
          if (14 >= end_0) s[14] = -kInfinity; if (15 >= end_0) s[15] = -kInfinity;
          if (16 >= end_0) s[16] = -kInfinity; if (17 >= end_0) s[17] = -kInfinity;
          if (18 >= end_0) s[18] = -kInfinity; if (19 >= end_0) s[19] = -kInfinity;
          if (20 >= end_0) s[20] = -kInfinity; if (21 >= end_0) s[21] = -kInfinity;
          if (22 >= end_0) s[22] = -kInfinity; if (23 >= end_0) s[23] = -kInfinity;
          if (24 >= end_0) s[24] = -kInfinity; if (25 >= end_0) s[25] = -kInfinity;
          if (26 >= end_0) s[26] = -kInfinity; if (27 >= end_0) s[27] = -kInfinity;
          if (28 >= end_0) s[28] = -kInfinity; if (29 >= end_0) s[29] = -kInfinity;
          if (30 >= end_0) s[30] = -kInfinity; if (31 >= end_0) s[31] = -kInfinity;
          if (32 >= end_0) s[32] = -kInfinity; if (33 >= end_0) s[33] = -kInfinity;
          if (34 >= end_0) s[34] = -kInfinity; if (35 >= end_0) s[35] = -kInfinity;
          if (36 >= end_0) s[36] = -kInfinity; if (37 >= end_0) s[37] = -kInfinity;
          if (38 >= end_0) s[38] = -kInfinity; if (39 >= end_0) s[39] = -kInfinity;
          if (40 >= end_0) s[40] = -kInfinity; if (41 >= end_0) s[41] = -kInfinity;
          if (42 >= end_0) s[42] = -kInfinity; if (43 >= end_0) s[43] = -kInfinity;
          if (44 >= end_0) s[44] = -kInfinity; if (45 >= end_0) s[45] = -kInfinity;
          if (46 >= end_0) s[46] = -kInfinity; if (47 >= end_0) s[47] = -kInfinity;
          if (48 >= end_0) s[48] = -kInfinity; if (49 >= end_0) s[49] = -kInfinity;
          if (50 >= end_0) s[50] = -kInfinity; if (51 >= end_0) s[51] = -kInfinity;
          if (52 >= end_0) s[52] = -kInfinity; if (53 >= end_0) s[53] = -kInfinity;
          if (54 >= end_0) s[54] = -kInfinity; if (55 >= end_0) s[55] = -kInfinity;
          if (56 >= end_0) s[56] = -kInfinity; if (57 >= end_0) s[57] = -kInfinity;
          if (58 >= end_0) s[58] = -kInfinity; if (59 >= end_0) s[59] = -kInfinity;
          if (60 >= end_0) s[60] = -kInfinity; if (61 >= end_0) s[61] = -kInfinity;
          if (62 >= end_0) s[62] = -kInfinity; if (63 >= end_0) s[63] = -kInfinity;
          if (64 >= end_0) s[64] = -kInfinity; if (65 >= end_0) s[65] = -kInfinity;
          if (66 >= end_0) s[66] = -kInfinity; if (67 >= end_0) s[67] = -kInfinity;
          if (68 >= end_0) s[68] = -kInfinity; if (69 >= end_0) s[69] = -kInfinity;
          if (70 >= end_0) s[70] = -kInfinity; if (71 >= end_0) s[71] = -kInfinity;
          if (72 >= end_0) s[72] = -kInfinity; if (73 >= end_0) s[73] = -kInfinity;
          if (74 >= end_0) s[74] = -kInfinity; if (75 >= end_0) s[75] = -kInfinity;
          if (76 >= end_0) s[76] = -kInfinity; if (77 >= end_0) s[77] = -kInfinity;
          if (78 >= end_0) s[78] = -kInfinity; if (79 >= end_0) s[79] = -kInfinity;
          if (80 >= end_0) s[80] = -kInfinity; if (81 >= end_0) s[81] = -kInfinity;
          if (82 >= end_0) s[82] = -kInfinity; if (83 >= end_0) s[83] = -kInfinity;
          if (84 >= end_0) s[84] = -kInfinity; if (85 >= end_0) s[85] = -kInfinity;
          if (86 >= end_0) s[86] = -kInfinity; if (87 >= end_0) s[87] = -kInfinity;
          if (88 >= end_0) s[88] = -kInfinity; if (89 >= end_0) s[89] = -kInfinity;
          if (90 >= end_0) s[90] = -kInfinity; if (91 >= end_0) s[91] = -kInfinity;
          if (92 >= end_0) s[92] = -kInfinity; if (93 >= end_0) s[93] = -kInfinity;
          if (94 >= end_0) s[94] = -kInfinity; if (95 >= end_0) s[95] = -kInfinity;
          if (96 >= end_0) s[96] = -kInfinity; if (97 >= end_0) s[97] = -kInfinity;
          if (98 >= end_0) s[98] = -kInfinity; if (99 >= end_0) s[99] = -kInfinity;
          if (100 >= end_0) s[100] = -kInfinity; if (101 >= end_0) s[101] = -kInfinity;
          if (102 >= end_0) s[102] = -kInfinity; if (103 >= end_0) s[103] = -kInfinity;
          if (104 >= end_0) s[104] = -kInfinity; if (105 >= end_0) s[105] = -kInfinity;
          if (106 >= end_0) s[106] = -kInfinity; if (107 >= end_0) s[107] = -kInfinity;
          if (108 >= end_0) s[108] = -kInfinity; if (109 >= end_0) s[109] = -kInfinity;
          if (110 >= end_0) s[110] = -kInfinity; if (111 >= end_0) s[111] = -kInfinity;
          if (112 >= end_0) s[112] = -kInfinity; if (113 >= end_0) s[113] = -kInfinity;
          if (114 >= end_0) s[114] = -kInfinity; if (115 >= end_0) s[115] = -kInfinity;
          if (116 >= end_0) s[116] = -kInfinity; if (117 >= end_0) s[117] = -kInfinity;
          if (118 >= end_0) s[118] = -kInfinity; if (119 >= end_0) s[119] = -kInfinity;
          if (120 >= end_0) s[120] = -kInfinity; if (121 >= end_0) s[121] = -kInfinity;
          if (122 >= end_0) s[122] = -kInfinity; if (123 >= end_0) s[123] = -kInfinity;
          if (124 >= end_0) s[124] = -kInfinity; if (125 >= end_0) s[125] = -kInfinity;
          if (126 >= end_0) s[126] = -kInfinity; if (127 >= end_0) s[127] = -kInfinity;
        }
        float max_a = fmaxf(s[0], s[1]), max_b = fmaxf(s[2], s[3]), max_c = fmaxf(s[4], s[5]), max_d = fmaxf(s[6], s[7]);
        max_a = max_of_three(max_a, s[8], s[9]); max_b = max_of_three(max_b, s[10], s[11]);
        max_c = max_of_three(max_c, s[12], s[13]); max_d = max_of_three(max_d, s[14], s[15]);
        max_a = max_of_three(max_a, s[16], s[17]); max_b = max_of_three(max_b, s[18], s[19]);
        max_c = max_of_three(max_c, s[20], s[21]); max_d = max_of_three(max_d, s[22], s[23]);
        max_a = max_of_three(max_a, s[24], s[25]); max_b = max_of_three(max_b, s[26], s[27]);
        max_c = max_of_three(max_c, s[28], s[29]); max_d = max_of_three(max_d, s[30], s[31]);
        max_a = max_of_three(max_a, s[32], s[33]); max_b = max_of_three(max_b, s[34], s[35]);
        max_c = max_of_three(max_c, s[36], s[37]); max_d = max_of_three(max_d, s[38], s[39]);
        max_a = max_of_three(max_a, s[40], s[41]); max_b = max_of_three(max_b, s[42], s[43]);
        max_c = max_of_three(max_c, s[44], s[45]); max_d = max_of_three(max_d, s[46], s[47]);
        max_a = max_of_three(max_a, s[48], s[49]); max_b = max_of_three(max_b, s[50], s[51]);
        max_c = max_of_three(max_c, s[52], s[53]); max_d = max_of_three(max_d, s[54], s[55]);
        max_a = max_of_three(max_a, s[56], s[57]); max_b = max_of_three(max_b, s[58], s[59]);
        max_c = max_of_three(max_c, s[60], s[61]); max_d = max_of_three(max_d, s[62], s[63]);
        max_a = max_of_three(max_a, s[64], s[65]); max_b = max_of_three(max_b, s[66], s[67]);
        max_c = max_of_three(max_c, s[68], s[69]); max_d = max_of_three(max_d, s[70], s[71]);
        max_a = max_of_three(max_a, s[72], s[73]); max_b = max_of_three(max_b, s[74], s[75]);
        max_c = max_of_three(max_c, s[76], s[77]); max_d = max_of_three(max_d, s[78], s[79]);
        max_a = max_of_three(max_a, s[80], s[81]); max_b = max_of_three(max_b, s[82], s[83]);
        max_c = max_of_three(max_c, s[84], s[85]); max_d = max_of_three(max_d, s[86], s[87]);
        max_a = max_of_three(max_a, s[88], s[89]); max_b = max_of_three(max_b, s[90], s[91]);
        max_c = max_of_three(max_c, s[92], s[93]); max_d = max_of_three(max_d, s[94], s[95]);
        max_a = max_of_three(max_a, s[96], s[97]); max_b = max_of_three(max_b, s[98], s[99]);
        max_c = max_of_three(max_c, s[100], s[101]); max_d = max_of_three(max_d, s[102], s[103]);
        max_a = max_of_three(max_a, s[104], s[105]); max_b = max_of_three(max_b, s[106], s[107]);
        max_c = max_of_three(max_c, s[108], s[109]); max_d = max_of_three(max_d, s[110], s[111]);
        max_a = max_of_three(max_a, s[112], s[113]); max_b = max_of_three(max_b, s[114], s[115]);
        max_c = max_of_three(max_c, s[116], s[117]); max_d = max_of_three(max_d, s[118], s[119]);
        max_a = max_of_three(max_a, s[120], s[121]); max_b = max_of_three(max_b, s[122], s[123]);
        max_c = max_of_three(max_c, s[124], s[125]); max_d = max_of_three(max_d, s[126], s[127]);
        const float tile_max = fmaxf(max_of_three(max_a, max_b, max_c), max_d);
        // The old maximum stays while it grew by no more than 2^8 (per row): P stays in range, and O as it is.
        float alpha = 1.0f;
        if ((tile_max - row_max) * scale_log2 > 8.0f) {
          alpha = rescale_factor(row_max, tile_max, scale_log2);
          row_max = tile_max;
        }
        mbarrier_wait(factor_empty, factor_phase);
        factor_phase ^= 1;
        store_shared_float(factor_at, alpha);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(factor_full);
        float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, scale_log2);
        if (__any_sync(0xffffffffu, is_steep(shift))) {
          const float steep = is_steep(shift) && row_max != -kInfinity ? row_max : 0.0f;
          if (is_steep(shift)) shift = 0.0f;
          s[0] -= steep; s[1] -= steep; s[2] -= steep; s[3] -= steep;
          s[4] -= steep; s[5] -= steep; s[6] -= steep; s[7] -= steep;
          s[8] -= steep; s[9] -= steep; s[10] -= steep; s[11] -= steep;
          s[12] -= steep; s[13] -= steep; s[14] -= steep; s[15] -= steep;
          s[16] -= steep; s[17] -= steep; s[18] -= steep; s[19] -= steep;
          s[20] -= steep; s[21] -= steep; s[22] -= steep; s[23] -= steep;
          s[24] -= steep; s[25] -= steep; s[26] -= steep; s[27] -= steep;
          s[28] -= steep; s[29] -= steep; s[30] -= steep; s[31] -= steep;
          s[32] -= steep; s[33] -= steep; s[34] -= steep; s[35] -= steep;
          s[36] -= steep; s[37] -= steep; s[38] -= steep; s[39] -= steep;
          s[40] -= steep; s[41] -= steep; s[42] -= steep; s[43] -= steep;
          s[44] -= steep; s[45] -= steep; s[46] -= steep; s[47] -= steep;
          s[48] -= steep; s[49] -= steep; s[50] -= steep; s[51] -= steep;
          s[52] -= steep; s[53] -= steep; s[54] -= steep; s[55] -= steep;
          s[56] -= steep; s[57] -= steep; s[58] -= steep; s[59] -= steep;
          s[60] -= steep; s[61] -= steep; s[62] -= steep; s[63] -= steep;
          s[64] -= steep; s[65] -= steep; s[66] -= steep; s[67] -= steep;
          s[68] -= steep; s[69] -= steep; s[70] -= steep; s[71] -= steep;
          s[72] -= steep; s[73] -= steep; s[74] -= steep; s[75] -= steep;
          s[76] -= steep; s[77] -= steep; s[78] -= steep; s[79] -= steep;
          s[80] -= steep; s[81] -= steep; s[82] -= steep; s[83] -= steep;
          s[84] -= steep; s[85] -= steep; s[86] -= steep; s[87] -= steep;
          s[88] -= steep; s[89] -= steep; s[90] -= steep; s[91] -= steep;
          s[92] -= steep; s[93] -= steep; s[94] -= steep; s[95] -= steep;
          s[96] -= steep; s[97] -= steep; s[98] -= steep; s[99] -= steep;
          s[100] -= steep; s[101] -= steep; s[102] -= steep; s[103] -= steep;
          s[104] -= steep; s[105] -= steep; s[106] -= steep; s[107] -= steep;
          s[108] -= steep; s[109] -= steep; s[110] -= steep; s[111] -= steep;
          s[112] -= steep; s[113] -= steep; s[114] -= steep; s[115] -= steep;
          s[116] -= steep; s[117] -= steep; s[118] -= steep; s[119] -= steep;
          s[120] -= steep; s[121] -= steep; s[122] -= steep; s[123] -= steep;
          s[124] -= steep; s[125] -= steep; s[126] -= steep; s[127] -= steep;
        }
        float2 sum_a = make_float2(0.0f, 0.0f), sum_b = make_float2(0.0f, 0.0f);
        {
          const u32 p[16] = {
              exponentials(s[0], s[1], scale_log2, shift, sum_a), exponentials(s[2], s[3], scale_log2, shift, sum_b),
              exponentials(s[4], s[5], scale_log2, shift, sum_a), exponentials(s[6], s[7], scale_log2, shift, sum_b),
              exponentials(s[8], s[9], scale_log2, shift, sum_a), exponentials(s[10], s[11], scale_log2, shift, sum_b),
              exponentials(s[12], s[13], scale_log2, shift, sum_a), exponentials(s[14], s[15], scale_log2, shift, sum_b),
              exponentials(s[16], s[17], scale_log2, shift, sum_a), exponentials(s[18], s[19], scale_log2, shift, sum_b),
              exponentials(s[20], s[21], scale_log2, shift, sum_a), exponentials(s[22], s[23], scale_log2, shift, sum_b),
              exponentials(s[24], s[25], scale_log2, shift, sum_a), exponentials(s[26], s[27], scale_log2, shift, sum_b),
              exponentials(s[28], s[29], scale_log2, shift, sum_a), exponentials(s[30], s[31], scale_log2, shift, sum_b),
          };
          tmem_store_16(s_at + 0, p);
        }
        {
          const u32 p[16] = {
              exponentials(s[32], s[33], scale_log2, shift, sum_a), exponentials(s[34], s[35], scale_log2, shift, sum_b),
              exponentials(s[36], s[37], scale_log2, shift, sum_a), exponentials(s[38], s[39], scale_log2, shift, sum_b),
              exponentials(s[40], s[41], scale_log2, shift, sum_a), exponentials(s[42], s[43], scale_log2, shift, sum_b),
              exponentials(s[44], s[45], scale_log2, shift, sum_a), exponentials(s[46], s[47], scale_log2, shift, sum_b),
              exponentials(s[48], s[49], scale_log2, shift, sum_a), exponentials(s[50], s[51], scale_log2, shift, sum_b),
              exponentials(s[52], s[53], scale_log2, shift, sum_a), exponentials(s[54], s[55], scale_log2, shift, sum_b),
              exponentials(s[56], s[57], scale_log2, shift, sum_a), exponentials(s[58], s[59], scale_log2, shift, sum_b),
              exponentials(s[60], s[61], scale_log2, shift, sum_a), exponentials(s[62], s[63], scale_log2, shift, sum_b),
          };
          tmem_store_16(s_at + 16, p);
        }
        {
          const u32 p[16] = {
              exponentials(s[64], s[65], scale_log2, shift, sum_a), exponentials(s[66], s[67], scale_log2, shift, sum_b),
              exponentials(s[68], s[69], scale_log2, shift, sum_a), exponentials(s[70], s[71], scale_log2, shift, sum_b),
              exponentials(s[72], s[73], scale_log2, shift, sum_a), exponentials(s[74], s[75], scale_log2, shift, sum_b),
              exponentials(s[76], s[77], scale_log2, shift, sum_a), exponentials(s[78], s[79], scale_log2, shift, sum_b),
              exponentials(s[80], s[81], scale_log2, shift, sum_a), exponentials(s[82], s[83], scale_log2, shift, sum_b),
              exponentials(s[84], s[85], scale_log2, shift, sum_a), exponentials(s[86], s[87], scale_log2, shift, sum_b),
              exponentials(s[88], s[89], scale_log2, shift, sum_a), exponentials(s[90], s[91], scale_log2, shift, sum_b),
              exponentials(s[92], s[93], scale_log2, shift, sum_a), exponentials(s[94], s[95], scale_log2, shift, sum_b),
          };
          tmem_store_16(s_at + 32, p);
        }
        tmem_wait_store();
        tcgen05_fence_before();
        if (lane == 0) mbarrier_arrive_cluster(p_full, 0);
        {
          const u32 p[16] = {
              exponentials(s[96], s[97], scale_log2, shift, sum_a), exponentials(s[98], s[99], scale_log2, shift, sum_b),
              exponentials(s[100], s[101], scale_log2, shift, sum_a), exponentials(s[102], s[103], scale_log2, shift, sum_b),
              exponentials(s[104], s[105], scale_log2, shift, sum_a), exponentials(s[106], s[107], scale_log2, shift, sum_b),
              exponentials(s[108], s[109], scale_log2, shift, sum_a), exponentials(s[110], s[111], scale_log2, shift, sum_b),
              exponentials(s[112], s[113], scale_log2, shift, sum_a), exponentials(s[114], s[115], scale_log2, shift, sum_b),
              exponentials(s[116], s[117], scale_log2, shift, sum_a), exponentials(s[118], s[119], scale_log2, shift, sum_b),
              exponentials(s[120], s[121], scale_log2, shift, sum_a), exponentials(s[122], s[123], scale_log2, shift, sum_b),
              exponentials(s[124], s[125], scale_log2, shift, sum_a), exponentials(s[126], s[127], scale_log2, shift, sum_b),
          };
          tmem_store_16(s_at + 48, p);
        }
        tmem_wait_store();
        tcgen05_fence_before();
        if (lane == 0) mbarrier_arrive_cluster(p_rest, 0);
        row_sum = fmaf(row_sum, alpha, (sum_a.x + sum_a.y) + (sum_b.x + sum_b.y));
      }
      const float inv_sum = row_sum == 0.0f ? 0.0f : rcp_approx(row_sum);
      if (work.num_blocks > 0) {
        mbarrier_wait(factor_empty, factor_phase);
        factor_phase ^= 1;
        store_shared_float(factor_at, inv_sum);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(factor_full);
      }
    }
  } else if (warp < 8) {
    // ---- correction: O follows the rows' maxima; at the end O / row sum leaves
    SETMAXNREG_DEC(152);
    const u32 tmem = *(volatile const u32*)tmem_at;
    const int quarter = warp % 4;
    const u32 o_lanes = tmem + ((u32)quarter << 21);
    const u32 factor_at = smem_factors + 4 * (threadIdx.x - 128);
    const u32 stage = smem_q + quarter * 4096, row_at = stage + lane * 128, swizzle = (lane & 7) << 4;
    u32 factor_phase = 0, o_phase = 0, none_phase = 0;
    u32 turn = 0;  // which place of S a tile of keys has
    for (int tile_number = blockIdx.x / 2; tile_number < num_tiles; tile_number += gridDim.x / 2) {
      const Work work = decode_work(tile_number, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks);
  #pragma unroll 1
      for (int n = work.num_blocks - 1; n >= 0; --n) {
        mbarrier_wait(mbar_factor_full, factor_phase);
        const float alpha = load_shared_float(factor_at);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(mbar_factor_empty);
        if (n != work.num_blocks - 1) {
          // S of this tile was issued before P V of the tile before: that has a barrier of its own
          mbarrier_wait(mbar_o_full, o_phase);
          o_phase ^= 1;
          tcgen05_fence_after();
          if (__any_sync(0xffffffffu, alpha != 1.0f)) rescale_output(o_lanes + 256, alpha);
          tcgen05_fence_before();
        }
        if (lane == 0) mbarrier_arrive_cluster(mbar_p_full + 8 * turn, 0);
        turn ^= 1;
        factor_phase ^= 1;
      }
      const bool any = work.num_blocks > 0;  // else rows of zeros
      if (!any) {
        // The copies know that the last item's O has left. Only then may this one leave: they would miss a phase of two.
        mbarrier_wait(mbar_q_none, none_phase);
        none_phase ^= 1;
      }
      {
        float inv_sum = 0.0f;
        if (any) {
          mbarrier_wait(mbar_factor_full, factor_phase);
          inv_sum = load_shared_float(factor_at);
          __syncwarp();
          if (lane == 0) mbarrier_arrive(mbar_factor_empty);
          mbarrier_wait(mbar_o_full, o_phase);
          tcgen05_fence_after();
        }
        stage_output(o_lanes + 256, any, inv_sum, row_at, swizzle);
        fence_proxy_async();
        __syncwarp();
        if (lane == 0) {
          tma_store(&o_map, stage + 0, 0, work.m_start + 32 * quarter, work.head, work.batch);
          tma_store(&o_map, stage + 16384, 64, work.m_start + 32 * quarter, work.head, work.batch);
          tma_store(&o_map, stage + 32768, 128, work.m_start + 32 * quarter, work.head, work.batch);
          tma_store(&o_map, stage + 49152, 192, work.m_start + 32 * quarter, work.head, work.batch);
        }
      }
      if (any) factor_phase ^= 1, o_phase ^= 1;
      if (lane == 0) {
        bulk_commit();
        bulk_wait_read();
        mbarrier_arrive(mbar_q_empty);
      }
      __syncwarp();  // nobody writes the next rows there before
    }
  } else if (warp == 8) {
    // ---- products: one thread issues them all
    SETMAXNREG_DEC(120);
    const u32 tmem = *(volatile const u32*)tmem_at;
    if (cluster_rank() == 0 && elect_one()) {
      const u32 q_desc = (smem_q >> 4) | 0x10000u;
      const u32 k_desc = (smem_k >> 4) | 0x10000u;
      const u32 v_desc = (smem_v >> 4) | 0x4000000u;
      u32 k_stage = 0;
      u32 k_phase = 0;
      u32 v_stage = 1;
      u32 v_phase = 0;
      u32 q_phase = 0, p_phase = 0;
      u32 turn = 0;  // which place of S a tile of keys has
      for (int tile_number = blockIdx.x / 2; tile_number < num_tiles; tile_number += gridDim.x / 2) {
        const Work work = decode_work(tile_number, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks);
        if (work.num_blocks > 0) {
          // S of the first tile
          mbarrier_wait(mbar_q_full, q_phase);
          q_phase ^= 1;
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          issue_scores(tmem + turn * 128, q_desc, k_desc + k_stage * 2048);
          tcgen05_commit(mbar_s_full + 8 * turn);
          tcgen05_commit(mbar_k_empty + k_stage * 8);
          if ((k_stage += 2) >= 5) { k_stage -= 5; k_phase ^= 1; }
          bool add = false;
        #pragma unroll 1
          for (int n = work.num_blocks - 2; n >= 0; --n) {
            // S = Q K(n)' to the other place, while softmax has that of n+1
            mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
            issue_scores(tmem + (turn ^ 1) * 128, q_desc, k_desc + k_stage * 2048);
            tcgen05_commit(mbar_s_full + 8 * (turn ^ 1));
            tcgen05_commit(mbar_k_empty + k_stage * 8);
            if ((k_stage += 2) >= 5) { k_stage -= 5; k_phase ^= 1; }
            // O += P V(n+1)
            mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
            issue_output(tmem + 256, tmem + turn * 128, v_desc + v_stage * 2048, add, mbar_p_full + 8 * turn, mbar_p_rest + 8 * turn,
                p_phase);
            tcgen05_commit(mbar_o_full);
            tcgen05_commit(mbar_v_empty + v_stage * 8);
            if ((v_stage += 2) >= 5) { v_stage -= 5; v_phase ^= 1; }
            add = true;
            p_phase ^= turn;
            turn ^= 1;
          }
          // O += P V of the last tile
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          issue_output(tmem + 256, tmem + turn * 128, v_desc + v_stage * 2048, add, mbar_p_full + 8 * turn, mbar_p_rest + 8 * turn,
              p_phase);
          tcgen05_commit(mbar_o_full);
          tcgen05_commit(mbar_v_empty + v_stage * 8);
          if ((v_stage += 2) >= 5) { v_stage -= 5; v_phase ^= 1; }
          p_phase ^= turn;
          turn ^= 1;
        }
      }
    }
    __syncwarp();
  } else {
    SETMAXNREG_DEC(120);
    if (warp == 9 && elect_one()) {
      // ---- copies: one thread of each block issues its half
      const int rank = (int)cluster_rank();
      u32 k_stage = 0;
      u32 k_phase = 1;
      u32 v_stage = 1;
      u32 v_phase = 1;
      u32 q_phase = 1;
      for (int tile_number = blockIdx.x / 2; tile_number < num_tiles; tile_number += gridDim.x / 2) {
        const Work work = decode_work(tile_number, heads_q, heads_kv, seqlen_q, seqlen_k, num_m_blocks);
        if (work.num_blocks > 0) {
          // the last K and V, while Q's place is still in use; Q
          int n = work.num_blocks - 1;
          mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
          if (rank == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 65536);
          tma_load_pair(smem_k + k_stage * 32768 + 0, &k_map, mbar_k_full + k_stage * 8, 0, n * 128 + rank * 64, work.kv_head, work.batch,
              0x14F0000000000000ull);
          tma_load_pair(smem_k + k_stage * 32768 + 8192, &k_map, mbar_k_full + k_stage * 8, 64, n * 128 + rank * 64, work.kv_head,
              work.batch, 0x14F0000000000000ull);
          tma_load_pair(smem_k + k_stage * 32768 + 16384, &k_map, mbar_k_full + k_stage * 8, 128, n * 128 + rank * 64, work.kv_head,
              work.batch, 0x14F0000000000000ull);
          tma_load_pair(smem_k + k_stage * 32768 + 24576, &k_map, mbar_k_full + k_stage * 8, 192, n * 128 + rank * 64, work.kv_head,
              work.batch, 0x14F0000000000000ull);
          if ((k_stage += 2) >= 5) { k_stage -= 5; k_phase ^= 1; }
          mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
          if (rank == 0) mbarrier_arrive_expect_tx(mbar_v_full + v_stage * 8, 65536);
          tma_load_pair(smem_v + v_stage * 32768 + 0, &v_map, mbar_v_full + v_stage * 8, rank * 128 + 0, n * 128, work.kv_head, work.batch,
              0x14F0000000000000ull);
          tma_load_pair(smem_v + v_stage * 32768 + 16384, &v_map, mbar_v_full + v_stage * 8, rank * 128 + 64, n * 128, work.kv_head,
              work.batch, 0x14F0000000000000ull);
          if ((v_stage += 2) >= 5) { v_stage -= 5; v_phase ^= 1; }
          mbarrier_wait(mbar_q_empty, q_phase);
          if (rank == 0) mbarrier_arrive_expect_tx(mbar_q_full, 131072);
          tma_load_pair(smem_q, &q_map, mbar_q_full, 0, work.m_start, work.head, work.batch, 0x12F0000000000000ull);
          tma_load_pair(smem_q + 16384, &q_map, mbar_q_full, 64, work.m_start, work.head, work.batch, 0x12F0000000000000ull);
          tma_load_pair(smem_q + 32768, &q_map, mbar_q_full, 128, work.m_start, work.head, work.batch, 0x12F0000000000000ull);
          tma_load_pair(smem_q + 49152, &q_map, mbar_q_full, 192, work.m_start, work.head, work.batch, 0x12F0000000000000ull);
  #pragma unroll 1
          for (--n; n >= 0; --n) {
            mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
            if (rank == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 65536);
            tma_load_pair(smem_k + k_stage * 32768 + 0, &k_map, mbar_k_full + k_stage * 8, 0, n * 128 + rank * 64, work.kv_head, work.batch,
                0x14F0000000000000ull);
            tma_load_pair(smem_k + k_stage * 32768 + 8192, &k_map, mbar_k_full + k_stage * 8, 64, n * 128 + rank * 64, work.kv_head,
                work.batch, 0x14F0000000000000ull);
            tma_load_pair(smem_k + k_stage * 32768 + 16384, &k_map, mbar_k_full + k_stage * 8, 128, n * 128 + rank * 64, work.kv_head,
                work.batch, 0x14F0000000000000ull);
            tma_load_pair(smem_k + k_stage * 32768 + 24576, &k_map, mbar_k_full + k_stage * 8, 192, n * 128 + rank * 64, work.kv_head,
                work.batch, 0x14F0000000000000ull);
            if ((k_stage += 2) >= 5) { k_stage -= 5; k_phase ^= 1; }
            mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
            if (rank == 0) mbarrier_arrive_expect_tx(mbar_v_full + v_stage * 8, 65536);
            tma_load_pair(smem_v + v_stage * 32768 + 0, &v_map, mbar_v_full + v_stage * 8, rank * 128 + 0, n * 128, work.kv_head,
                work.batch, 0x14F0000000000000ull);
            tma_load_pair(smem_v + v_stage * 32768 + 16384, &v_map, mbar_v_full + v_stage * 8, rank * 128 + 64, n * 128, work.kv_head,
                work.batch, 0x14F0000000000000ull);
            if ((v_stage += 2) >= 5) { v_stage -= 5; v_phase ^= 1; }
          }
        } else {
          mbarrier_wait(mbar_q_empty, q_phase);  // no keys: O's zeros leave through Q's place, nothing else does
          mbarrier_arrive(mbar_q_none);
        }
        q_phase ^= 1;
      }
    }
    __syncwarp();
  }
  // Nobody reads tensor memory any more. (Neither warp nor address is kept in a register until here.)
  tcgen05_fence_before();
  cluster_arrive(); cluster_wait();  // of both blocks
  if (threadIdx.x / 32 == 8) {
    tcgen05_fence_after();
    tmem_dealloc(*(volatile u32*)(smem_bytes + 230096), 512);
  }
  #endif
}
