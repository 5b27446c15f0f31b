// deepseek_mla_decode_sm100a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"deepseek_mla_decode_sm100a","target":"sm_100a","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":576,"ov_depth":512,"rope_depth":0,"nope_depth":576,"q_depth":576,"cache_depth":576,"head_dim_offset":0,"v_from_k":true,"operand":{"kind":"paged","page_size":64},"mask":"causal","score_mod":"none","sink":false,"group":128,"lse":true,"scale":0.041666666666666664,"mma_shape":[128,128,16],"BM":128,"BN":128,"BK":192,"num_threads":192,"swizzle":"128B","num_kv_stages":1,"num_qk_stages":3,"schedule":"sm100_latent_pair","pair_cta":true}
// Schedule sm100_latent_pair: 64 packed query rows in each of two blocks by 128 keys a tile, 1 stage of K and of V.
// Tensor memory: S of even tiles 0, of odd tiles 64, O 128, 512 columns.
// Shared memory (231044 bytes):
//         0 ..   73728  k          K stages: 64 rows of a tile
//     73728 ..  139264  v          V stages: half of the columns of a tile
//    139264 ..  212992  q          Q: this block's packed rows
//    212992 ..  229376  p          P of these rows
//    229376 ..  230400  exchange   maximum of each thread's scores; of two tiles
//    230400 ..  230912  table      query and head of each row
//    230912 ..  231032  mbar       Q, S, P, O; K and V rings full/empty
//    231032 ..  231036  flag       arrivals at the item before this block
//    231036 ..  231040  odd        whether some column of O is not finite
//    231040 ..  231044  tmem       address of tensor memory
//
// Regenerate: kiln generate deepseek_mla_decode_sm100a.json --out .
// Compile: nvcc -gencode=arch=compute_100a,code=sm_100a -cubin deepseek_mla_decode_sm100a.cu

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

// True in one lane of the (converged) warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

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

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// Adds, after everything this thread has seen is visible to the device; what the other adders did before is visible after.
__device__ __forceinline__ int atomic_add_acq_rel(int* at, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

// 16 bytes from global to shared memory, on their way when the thread goes on.
__device__ __forceinline__ void copy_async_16(u32 dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
// Returns once this thread's copies are there.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

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

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

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

// 64 columns of this lane's row, with the wait for them.
__device__ __forceinline__ void tmem_load_64(float (&x)[64], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x64.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
          "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "
          "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, [%64];\n"
      "tcgen05.wait::ld.sync.aligned;" :
        "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]),
        "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]),
        "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]),
        "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31]),
        "=f"(x[32]), "=f"(x[33]), "=f"(x[34]), "=f"(x[35]), "=f"(x[36]), "=f"(x[37]), "=f"(x[38]), "=f"(x[39]),
        "=f"(x[40]), "=f"(x[41]), "=f"(x[42]), "=f"(x[43]), "=f"(x[44]), "=f"(x[45]), "=f"(x[46]), "=f"(x[47]),
        "=f"(x[48]), "=f"(x[49]), "=f"(x[50]), "=f"(x[51]), "=f"(x[52]), "=f"(x[53]), "=f"(x[54]), "=f"(x[55]),
        "=f"(x[56]), "=f"(x[57]), "=f"(x[58]), "=f"(x[59]), "=f"(x[60]), "=f"(x[61]), "=f"(x[62]), "=f"(x[63])
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
  s.num_tiles = max((s.seqlen_k + 127) / 128 - s.first_tile, 1);
  return s;
}

__device__ __forceinline__ int packed_blocks(const Problem& problem) {
  return (problem.heads_q / problem.heads_kv * problem.seqlen_q + 127) / 128;
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
  range.teams = (grid_blocks() / 2) / problem.team_heads;
  range.cell = (block_id() / 2) / problem.team_heads;
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
  const int head = slot * problem.team_heads + (int)(block_id() / 2) % problem.team_heads;
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
  const int page = page_table[(long long)batch * page_table_stride + row / 64];
  return (unsigned)page < (unsigned)num_pages ? page : -1;
}

// S = Q K': 128 packed rows x 128 keys, K K-major. O += P V: the same rows x a block of V's columns, which are contiguous.
constexpr u32 kScoresKind = 0x8200490u;
constexpr u32 kOutputKind = 0x8410490u;  // 256 columns
// Upper words of the matrix descriptors: swizzle, stride between groups of eight rows.
constexpr u32 kQHigh = 0x40004040u, kKHigh = 0x40004040u, kPHigh = 0x40004040u, kVHigh = 0x40004040u;

__device__ __forceinline__ void issue_scores_0(u32 s, u32 q, u32 k) {
  mma_smem(s, descriptor(q + 0, kQHigh), descriptor(k + 0, kKHigh), kScoresKind, false);
  mma_smem(s, descriptor(q + 2, kQHigh), descriptor(k + 2, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4, kQHigh), descriptor(k + 4, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 6, kQHigh), descriptor(k + 6, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 512, kQHigh), descriptor(k + 512, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 514, kQHigh), descriptor(k + 514, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 516, kQHigh), descriptor(k + 516, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 518, kQHigh), descriptor(k + 518, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1024, kQHigh), descriptor(k + 1024, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1026, kQHigh), descriptor(k + 1026, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1028, kQHigh), descriptor(k + 1028, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1030, kQHigh), descriptor(k + 1030, kKHigh), kScoresKind, true);
}
__device__ __forceinline__ void issue_scores_1(u32 s, u32 q, u32 k) {
  mma_smem(s, descriptor(q + 1536, kQHigh), descriptor(k + 1536, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1538, kQHigh), descriptor(k + 1538, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1540, kQHigh), descriptor(k + 1540, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 1542, kQHigh), descriptor(k + 1542, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2048, kQHigh), descriptor(k + 2048, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2050, kQHigh), descriptor(k + 2050, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2052, kQHigh), descriptor(k + 2052, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2054, kQHigh), descriptor(k + 2054, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2560, kQHigh), descriptor(k + 2560, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2562, kQHigh), descriptor(k + 2562, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2564, kQHigh), descriptor(k + 2564, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 2566, kQHigh), descriptor(k + 2566, kKHigh), kScoresKind, true);
}
__device__ __forceinline__ void issue_scores_2(u32 s, u32 q, u32 k) {
  mma_smem(s, descriptor(q + 3072, kQHigh), descriptor(k + 3072, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3074, kQHigh), descriptor(k + 3074, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3076, kQHigh), descriptor(k + 3076, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3078, kQHigh), descriptor(k + 3078, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3584, kQHigh), descriptor(k + 3584, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3586, kQHigh), descriptor(k + 3586, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3588, kQHigh), descriptor(k + 3588, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 3590, kQHigh), descriptor(k + 3590, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4096, kQHigh), descriptor(k + 4096, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4098, kQHigh), descriptor(k + 4098, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4100, kQHigh), descriptor(k + 4100, kKHigh), kScoresKind, true);
  mma_smem(s, descriptor(q + 4102, kQHigh), descriptor(k + 4102, kKHigh), kScoresKind, true);
}
__device__ __forceinline__ void issue_output_0(u32 o, u32 p, u32 v, bool add) {
  mma_smem(o + 0, descriptor(p + 0, kPHigh), descriptor(v + 0, kVHigh), kOutputKind, add);
  mma_smem(o + 0, descriptor(p + 2, kPHigh), descriptor(v + 128, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 4, kPHigh), descriptor(v + 256, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 6, kPHigh), descriptor(v + 384, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 512, kPHigh), descriptor(v + 512, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 514, kPHigh), descriptor(v + 640, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 516, kPHigh), descriptor(v + 768, kVHigh), kOutputKind, true);
  mma_smem(o + 0, descriptor(p + 518, kPHigh), descriptor(v + 896, kVHigh), kOutputKind, true);
}
__device__ __forceinline__ void issue_output_1(u32 o, u32 p, u32 v, bool add) {
  mma_smem(o + 128, descriptor(p + 0, kPHigh), descriptor(v + 2048, kVHigh), kOutputKind, add);
  mma_smem(o + 128, descriptor(p + 2, kPHigh), descriptor(v + 2176, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 4, kPHigh), descriptor(v + 2304, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 6, kPHigh), descriptor(v + 2432, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 512, kPHigh), descriptor(v + 2560, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 514, kPHigh), descriptor(v + 2688, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 516, kPHigh), descriptor(v + 2816, kVHigh), kOutputKind, true);
  mma_smem(o + 128, descriptor(p + 518, kPHigh), descriptor(v + 2944, kVHigh), kOutputKind, true);
}
// Two scores to P: 2^(s * factor - shift), added to the row's sums, rounded and packed.
__device__ __forceinline__ u32 exponentials(float a, float b, float factor, float shift, float2& sum) {
  fma_pair(a, b, factor, -shift);
  a = exp2_approx(a), b = exp2_approx(b);
  add_pair(sum, a, b);
  return pack_bf16(a, b);
}

// O of this lane's row times a factor.
__device__ __forceinline__ void rescale_output(u32 o, float alpha) {
#pragma unroll 1
  for (int piece = 0; piece < 8; ++piece) {
    float x[32];
    tmem_load_32(x, o + 32 * piece);
#pragma unroll
    for (int i = 0; i < 32; i += 2) scale_pair(x[i], x[i + 1], alpha);
    tmem_store_floats_32(o + 32 * piece, x);
  }
  tmem_wait_store();
}

// The column of O that a thread's piece begins with: its lanes have one half of each block of columns.
__device__ __forceinline__ int first_column(int piece, int half) { return piece / 4 * 256 + half * 128 + 32 * (piece % 4); }

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)
kiln_deepseek_mla_decode_sm100a(const __grid_constant__ TensorMap k_map,
    const u16* q,
    u16* o,
    float* lse,
    float* workspace,
    int* item_counters,
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
    const float scale_log2,
    const u16* k,
    const long long k_stride_page,
    const long long k_stride_seq,
    const long long k_stride_head) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM100_ALL)
  asm volatile("trap;");  // built for plain sm_100, which has no tcgen05
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_k = smem, smem_v = smem + 73728, smem_q = smem + 139264, smem_p = smem + 212992;
  // Q of both blocks is there; S of every second tile is there (two); P of both is there, S was read and O rescaled; every
  // P V has ended. Q and P count at the first block, the products of both arrive at both.
  const u32 mbar_q_full = smem + 230912, mbar_s_full = mbar_q_full + 8, mbar_p_full = mbar_q_full + 24, mbar_o_full = mbar_q_full + 32;
  const u32 mbar_k_full = smem + 230952, mbar_k_empty = smem + 230976;
  const u32 mbar_v_full = smem + 231000, mbar_v_empty = smem + 231016;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int rank = (int)cluster_rank();
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads, launch_before};

  if (warp == 4) tmem_alloc(smem + 231040, 512);
  if (threadIdx.x == 0) {
    prefetch_tensor_map(&k_map);
    mbarrier_init(mbar_q_full, 8);
    mbarrier_init(mbar_s_full, 1);
    mbarrier_init(mbar_s_full + 8, 1);
    mbarrier_init(mbar_p_full, 8);
    mbarrier_init(mbar_o_full, 1);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_empty, 1);
    mbarrier_init(mbar_k_empty + 8, 1);
    mbarrier_init(mbar_k_empty + 16, 1);
    mbarrier_init(mbar_v_full, rank == 0 ? 2 : 1), mbarrier_init(mbar_v_empty, 1);
    mbarrier_init(mbar_v_full + 8, rank == 0 ? 2 : 1), mbarrier_init(mbar_v_empty + 8, 1);
    fence_mbarrier_init();
    *(int*)(smem_bytes + 231036) = 0;
  }
  Range range = first_range(problem);
  tcgen05_fence_before();
  cluster_arrive(); cluster_wait();  // of both blocks
  tcgen05_fence_after();
  const u32 tmem = *(volatile u32*)(smem_bytes + 231040);  // columns: S of even tiles 0, of odd ones 64, O 128

  if (warp < 4) {
    // ---- softmax: a packed row in two threads, which have half of a tile's keys each
    if (launch_before != 2) wait_for_launch_before();
    const int group = heads_q / heads_kv;  // query heads of a KV head
    const float factor = scale_log2;  // from scores to log2 units
    const u32 tmem_lanes = tmem + ((u32)warp << 21);  // this warp's 32 rows of tensor memory
    const int row = threadIdx.x % 64, half = threadIdx.x / 64;
    int* const row_query = (int*)(smem_bytes + 230400);  // of each packed row, in its sequence
    int* const row_head = row_query + 64;
    // what a thread has found of its row, and the row's other thread; of even and odd tiles
    const u32 own_at = smem + 229376 + 4 * threadIdx.x, other_at = own_at ^ 256;
    // P: row of 64 keys, 128 bytes, swizzled; 16-byte chunk c of row r is at chunk c ^ (r % 8)
    const u32 p_at = smem_p + half * 8192 + row * 128, p_swizzle = (row % 8) << 4;
    int* const arrivals_before = (int*)(smem_bytes + 231032);
    u32 v_phase = 0;
    u32 s_buffer = 0, s_phase = 0, o_phase = 0;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
      const int first_row = s.m_block * 128 + rank * 64;                                  // packed, of this block
      const int rows = max(min(64, group * s.sequence.seqlen_q - first_row), 0);          // of these that exist
      named_barrier_sync(3, 128);  // the item before is finished
      if (threadIdx.x < 64) {
        row_query[threadIdx.x] = (first_row + (int)threadIdx.x) / group;
        row_head[threadIdx.x] = s.kv_head * group + (first_row + (int)threadIdx.x) % group;
      }
      named_barrier_sync(3, 128);
      // Q: rows past the last and columns past the depth are zeros
  #pragma unroll 4
      for (int round = 0; round < 36; ++round) {
        const int i = 128 * round + threadIdx.x, r = i / 72, c = i % 72;
        const u32 at = smem_q + (c / 8) * 8192 + r * 128 + (((c % 8) ^ (r % 8)) << 4);
        if (r < rows) {
          copy_async_16(at, q + (s.sequence.q_start + row_query[r]) * q_stride_seq + row_head[r] * q_stride_head + 8 * c);
        } else {
          zero_16_bytes(at);
        }
      }
      copy_async_wait();
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) mbarrier_arrive_cluster(mbar_q_full, 0);
      // keys before it are hidden from no row by their end
      const int clean_end = min(s.sequence.seqlen_k, (s.sequence.seqlen_k - s.sequence.seqlen_q + row_query[0]) + 1);
      float row_max = -kInfinity, row_sum = 0.0f;  // of the row over all keys; over this thread's keys
  #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        mbarrier_wait(mbar_s_full + 8 * s_buffer, s_phase);
        tcgen05_fence_after();
        float s_acc[64];
        tmem_load_64(s_acc, tmem_lanes + s_buffer * 64);
        if ((n + 1) * 128 > clean_end) {
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(s.sequence.seqlen_k, row_query[row] + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 128)
              - half * 64;
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (2 >= end_0) s_acc[2] = -kInfinity; if (3 >= end_0) s_acc[3] = -kInfinity;
          if (4 >= end_0) s_acc[4] = -kInfinity; if (5 >= end_0) s_acc[5] = -kInfinity;
          if (6 >= end_0) s_acc[6] = -kInfinity; if (7 >= end_0) s_acc[7] = -kInfinity;
          if (8 >= end_0) s_acc[8] = -kInfinity; if (9 >= end_0) s_acc[9] = -kInfinity;
          if (10 >= end_0) s_acc[10] = -kInfinity; if (11 >= end_0) s_acc[11] = -kInfinity;
          if (12 >= end_0) s_acc[12] = -kInfinity; if (13 >= end_0) s_acc[13] = -kInfinity;
          if (14 >= end_0) s_acc[14] = -kInfinity; if (15 >= end_0) s_acc[15] = -kInfinity;
          if (16 >= end_0) s_acc[16] = -kInfinity; if (17 >= end_0) s_acc[17] = -kInfinity;
          if (18 >= end_0) s_acc[18] = -kInfinity; if (19 >= end_0) s_acc[19] = -kInfinity;
          if (20 >= end_0) s_acc[20] = -kInfinity; if (21 >= end_0) s_acc[21] = -kInfinity;
          if (22 >= end_0) s_acc[22] = -kInfinity; if (23 >= end_0) s_acc[23] = -kInfinity;
          if (24 >= end_0) s_acc[24] = -kInfinity; if (25 >= end_0) s_acc[25] = -kInfinity;
          if (26 >= end_0) s_acc[26] = -kInfinity; if (27 >= end_0) s_acc[27] = -kInfinity;
          if (28 >= end_0) s_acc[28] = -kInfinity; if (29 >= end_0) s_acc[29] = -kInfinity;
          if (30 >= end_0) s_acc[30] = -kInfinity; if (31 >= end_0) s_acc[31] = -kInfinity;
          if (32 >= end_0) s_acc[32] = -kInfinity; if (33 >= end_0) s_acc[33] = -kInfinity;
          if (34 >= end_0) s_acc[34] = -kInfinity; if (35 >= end_0) s_acc[35] = -kInfinity;
          if (36 >= end_0) s_acc[36] = -kInfinity; if (37 >= end_0) s_acc[37] = -kInfinity;
          if (38 >= end_0) s_acc[38] = -kInfinity; if (39 >= end_0) s_acc[39] = -kInfinity;
          if (40 >= end_0) s_acc[40] = -kInfinity; if (41 >= end_0) s_acc[41] = -kInfinity;
          if (42 >= end_0) s_acc[42] = -kInfinity; if (43 >= end_0) s_acc[43] = -kInfinity;
          if (44 >= end_0) s_acc[44] = -kInfinity; if (45 >= end_0) s_acc[45] = -kInfinity;
          if (46 >= end_0) s_acc[46] = -kInfinity; if (47 >= end_0) s_acc[47] = -kInfinity;
          if (48 >= end_0) s_acc[48] = -kInfinity; if (49 >= end_0) s_acc[49] = -kInfinity;
          if (50 >= end_0) s_acc[50] = -kInfinity; if (51 >= end_0) s_acc[51] = -kInfinity;
          if (52 >= end_0) s_acc[52] = -kInfinity; if (53 >= end_0) s_acc[53] = -kInfinity;
          if (54 >= end_0) s_acc[54] = -kInfinity; if (55 >= end_0) s_acc[55] = -kInfinity;
          if (56 >= end_0) s_acc[56] = -kInfinity; if (57 >= end_0) s_acc[57] = -kInfinity;
          if (58 >= end_0) s_acc[58] = -kInfinity; if (59 >= end_0) s_acc[59] = -kInfinity;
          if (60 >= end_0) s_acc[60] = -kInfinity; if (61 >= end_0) s_acc[61] = -kInfinity;
          if (62 >= end_0) s_acc[62] = -kInfinity; if (63 >= end_0) s_acc[63] = -kInfinity;
        }
        // the row's largest score: of this thread's keys, then of the other's
        float max_a = -kInfinity, max_b = -kInfinity, max_c = -kInfinity, max_d = -kInfinity;
  #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          max_a = max_of_three(max_a, s_acc[i], s_acc[i + 1]), max_b = max_of_three(max_b, s_acc[i + 2], s_acc[i + 3]);
          max_c = max_of_three(max_c, s_acc[i + 4], s_acc[i + 5]), max_d = max_of_three(max_d, s_acc[i + 6], s_acc[i + 7]);
        }
        float tile_max = fmaxf(max_of_three(max_a, max_b, max_c), max_d);
        store_shared_float(own_at + 512 * s_buffer, tile_max);
        named_barrier_sync(1 + warp % 2, 64);
        tile_max = fmaxf(tile_max, load_shared_float(other_at + 512 * s_buffer));
        s_phase ^= s_buffer, s_buffer ^= 1;
        // The old maximum stays while it grew by no more than 2^8: P stays in range, and O as it is.
        float alpha = 1.0f;
        if ((tile_max - row_max) * factor > 8.0f) {
          alpha = rescale_factor(row_max, tile_max, factor);
          row_max = tile_max;
        }
        float shift = row_max == -kInfinity ? 0.0f : row_base(row_max, factor);
        if (__any_sync(0xffffffffu, is_steep(shift))) {
          const float steep = is_steep(shift) && row_max != -kInfinity ? row_max : 0.0f;
          if (is_steep(shift)) shift = 0.0f;
  #pragma unroll
          for (int i = 0; i < 64; ++i) s_acc[i] -= steep;
        }
        // P = 2^(S - base)
        float2 sum_a = make_float2(0.0f, 0.0f), sum_b = make_float2(0.0f, 0.0f);
        u32 p[32];
        #pragma unroll
        for (int i = 0; i < 64; i += 4) {
          p[i / 2] = exponentials(s_acc[i], s_acc[i + 1], factor, shift, sum_a);
          p[i / 2 + 1] = exponentials(s_acc[i + 2], s_acc[i + 3], factor, shift, sum_b);
        }
        row_sum = fmaf(row_sum, alpha, (sum_a.x + sum_a.y) + (sum_b.x + sum_b.y));
        if (n > s.tile_begin) {
          // P V of the tile before has ended: P's place is free, and O follows the maxima
          mbarrier_wait(mbar_o_full, o_phase);
          o_phase ^= 1;
          tcgen05_fence_after();
          if (__any_sync(0xffffffffu, alpha != 1.0f)) rescale_output(tmem_lanes + 128, alpha);
        }
  #pragma unroll
        for (int i = 0; i < 8; ++i)
          store_shared_16(p_at + ((i << 4) ^ p_swizzle), make_uint4(p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]));
        // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
        const int v_rows = max(s.sequence.seqlen_k - n * 128, 0);
        if (v_rows < 128) {
          mbarrier_wait(mbar_v_full, v_phase);
          mbarrier_wait(mbar_v_full + 8, v_phase);
          for (int i = v_rows * 8 + threadIdx.x; i < 128 * 8; i += 128) {
            zero_16_bytes(smem_v + 0 + i * 16);
            zero_16_bytes(smem_v + 16384 + i * 16);
            zero_16_bytes(smem_v + 32768 + i * 16);
            zero_16_bytes(smem_v + 49152 + i * 16);
          }
        }
        v_phase ^= 1;
        fence_proxy_async();
        tcgen05_fence_before();
        __syncwarp();
        if (lane == 0) mbarrier_arrive_cluster(mbar_p_full, 0);
      }
      // ---- the end of the item, or of this pair's part of it: sums of the rows over all keys
      store_shared_float(own_at + 512 * s_buffer, row_sum);  // not the last tile's
      mbarrier_wait(mbar_o_full, o_phase);
      o_phase ^= 1;
      tcgen05_fence_after();
      named_barrier_sync(1 + warp % 2, 64);
      row_sum += load_shared_float(other_at + 512 * s_buffer);
      // 1 / sum of a finished row (0 where no key was visible), and its LSE
      const auto finish = [&](int row, float maximum, float sum, bool first) {
        const float top = maximum * (factor * 0.693147181f);  // in log2 units a logit near the largest float is none
        const bool visible = sum != 0.0f;
        if (first && row < rows) lse[(long long)row_head[row] * total_q + s.sequence.q_start + row_query[row]] = visible ? top
            + log2_approx(sum) * 0.693147181f : -kInfinity;
        return sum != 0.0f ? 1.0f / sum : 0.0f;
      };
      // first element of O of a packed row
      const auto output_row = [&](int row) {
        return o + (s.sequence.q_start + row_query[row]) * o_stride_seq + row_head[row] * o_stride_head;
      };
      bool odd = false;  // some column of O is not finite
      if (s.whole) {
        const float inverse = finish(row, row_max, row_sum, half == 0);
      #pragma unroll 1
        for (int piece = 0; piece < 8; ++piece) {
          float x[32];
          tmem_load_32(x, tmem_lanes + 128 + 32 * piece);
          const int column = first_column(piece, half);
      #pragma unroll
          for (int i = 0; i < 32; i += 4) odd = odd || !(fmaf(x[i], x[i + 1], x[i + 2] * x[i + 3]) * 0.0f == 0.0f);
      #pragma unroll
          for (int i = 0; i < 32; i += 8)
            if (row < rows) *(uint4*)(output_row(row) + column + i) = make_uint4(pack_bf16(x[i] * inverse, x[i + 1] * inverse),
                pack_bf16(x[i + 2] * inverse, x[i + 3] * inverse), pack_bf16(x[i + 4] * inverse, x[i + 5] * inverse),
                pack_bf16(x[i + 6] * inverse, x[i + 7] * inverse));
        }
      }
      else {
        // this block's part: O not yet divided by the sums, row by row, then (maximum, sum) of each row
        float* const part = workspace + ((range.cell * problem.team_heads + (int)(block_id() / 2) % problem.team_heads) * 2ll
            + s.second_slot) * 65792 + rank * 32896;
      #pragma unroll 1
        for (int piece = 0; piece < 8; ++piece) {
          float x[32];
          tmem_load_32(x, tmem_lanes + 128 + 32 * piece);
          const int column = first_column(piece, half);
      #pragma unroll
          for (int i = 0; i < 32; i += 4)
            if (row < rows)
              *(float4*)(part + row * 512 + column + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
        }
        if (half == 0) *(float2*)(part + 32768 + 2 * row) = make_float2(row_max, row_sum);
        named_barrier_sync(3, 128);
        const Split split = split_of(range, s);
        // a counter has 16 bits for each block of the pair
        if (threadIdx.x == 0) *arrivals_before = atomic_add_acq_rel(item_counters + s.item, 1 << 16 * rank) >> 16 * rank & 0xffff;
        named_barrier_sync(3, 128);
        if (*arrivals_before == split.parts - 1) {
          // the last block of the item adds the parts of its rows up, in order, and leaves the counter as it was found
          if (threadIdx.x == 0) atomicSub(item_counters + s.item, split.parts << 16 * rank);
          const long long stride = problem.team_heads * 2ll * 65792;
          const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)(block_id() / 2) % problem.team_heads) * 2ll
              * 65792;
          const int shift = split.first_second ? 65792 : 0;  // part 0 may be the second of its block
      #pragma unroll 1
          for (int i = threadIdx.x; i < rows * 128; i += 128) {
            const int row = i / 128, c = i % 128;
            float maximum = -kInfinity, sum = 0.0f;
            float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      #pragma unroll 4
            for (int other = 0; other < split.parts; ++other) {
              const float* const from = parts + other * stride + (other == 0 ? shift : 0) + rank * 32896;
              const float2 row_part = __ldcg((const float2*)(from + 32768) + row);
              const float4 value = __ldcg((const float4*)(from + row * 512) + c);
              const float top = fmaxf(maximum, row_part.x);
              const float before = rescale_factor(maximum, top, factor), now = rescale_factor(row_part.x, top, factor);
              sum = sum * before + row_part.y * now;
              out.x = out.x * before + value.x * now;
              out.y = out.y * before + value.y * now;
              out.z = out.z * before + value.z * now;
              out.w = out.w * before + value.w * now;
              maximum = top;
            }
            const float inverse = finish(row, maximum, sum, c == 0);
            odd = odd || !(fmaf(out.x, out.y, out.z * out.w) * 0.0f == 0.0f);
            *(uint2*)(output_row(row) + 4 * c) = make_uint2(pack_bf16(out.x * inverse, out.y * inverse),
                pack_bf16(out.z * inverse, out.w * inverse));
          }
        }
      }
      if (same(s.sequence.seqlen_q > 1)) {
        if (any_lane(odd) && lane == 0) *(int*)(smem_bytes + 231036) = 1;
        named_barrier_sync(3, 128);
        const int again = *(int*)(smem_bytes + 231036);
        // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
        if (same(again)) {
          const int lane_32 = (int)thread_id() & 31, row_begin = same(first_row + min(warp * ((rows + 3) / 4), rows)),
              row_end = same(first_row + min((warp + 1) * ((rows + 3) / 4), rows));
          // the last key past some row's end, and the first one before some row's first, with a V that is not finite
          int highest = -1, lowest = 0x7fffffff;
          {
            const int row = row_begin, last = same(min((s.sequence.first_tile + s.sequence.num_tiles) * 128, s.sequence.seqlen_k)) - 1;
        #pragma unroll 1
            for (int first = same(max(min(s.sequence.seqlen_k, (row / group + s.sequence.seqlen_k - s.sequence.seqlen_q) + 1), 0));
                first <= last; first += 32) {
              const int key = min(first + lane_32, last);
              const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                  page = max(found, 0);
              highest = found < 0 || finite_halves((const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page
                  + (key % 64) * k_stride_seq), 256) ? highest : key;
            }
            highest = same(largest_of_lanes(highest));
          }
        #pragma unroll 1
          for (int row = row_begin; row < row_end; ++row) {
            const int begin = same(0), end = same(min(s.sequence.seqlen_k, (row / group + s.sequence.seqlen_k - s.sequence.seqlen_q) + 1));
            if (highest < end && lowest >= begin) continue;
            const u32* const query_words = (const u32*)(q + (s.sequence.q_start + row / group) * q_stride_seq
                + (s.kv_head * group + row % group) * q_stride_head);
            float maximum = -kInfinity, sum = 0.0f, out[16];
        #pragma unroll
            for (int i = 0; i < 16; ++i) out[i] = 0.0f;
            // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
            bool left = end > begin;
        #pragma unroll 1
            for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
              float score[1] = {0.0f};
              {
                const int key = max(min(first + lane_32, end - 1), begin);
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const u32* const key_words = (const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page + (key % 64) * k_stride_seq);
                UNROLL_4
                for (int i = 0; i < 288; ++i) {
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
              for (int i = 0; i < 16; ++i) out[i] *= shrink;
        #pragma unroll 1
              for (int j = 0; j < 32; ++j) {
                const int key = max(min(first + j, end - 1), begin);
                const float p = lane_float(weight, j);
                const int found = key < s.sequence.seqlen_k ? page_of(page_table, page_table_stride, num_pages, s.batch, key) : -1,
                    page = max(found, 0);
                const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
                const u32* const value_words = (const u32*)(k + s.kv_head * k_stride_head + page * k_stride_page
                    + (key % 64) * k_stride_seq);
        #pragma unroll
                for (int i = 0; i < 16; i += 2) {
                  u32 two = value_words[min(lane_32 + 16 * i, 255)];
                  two = seen ? two : 0u;
                  out[i] = fmaf(p, low_half(two), out[i]);
                  out[i + 1] = fmaf(p, high_half(two), out[i + 1]);
                }
              }
              // what the row itself sees may leave nothing to compute
              bool finite = false;
        #pragma unroll
              for (int i = 0; i < 16; ++i) finite |= out[i] * 0.0f == 0.0f;
              left = any_lane(finite);
            }
            const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum);
            u16* const to = o + (s.sequence.q_start + row / group) * o_stride_seq + (s.kv_head * group + row % group) * o_stride_head;
        #pragma unroll
            for (int i = 0; i < 16; i += 2) {
              const int column = 2 * lane_32 + 32 * i;
              const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
              if (column < 512 && writes_rows()) *(u32*)(to + column) = two;
            }
          }
        }
        if (same(again)) {
          named_barrier_sync(3, 128);
          if (thread_id() == 0) *(int*)(smem_bytes + 231036) = 0;
        }
      }
    }
  } else if (warp == 4 && rank == 0) {
    // ---- products of both blocks: the warp waits, an elected lane issues
    const u32 q_desc = (smem_q >> 4) | 0x10000u, p_desc = (smem_p >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u;
    const u32 v_desc = (smem_v >> 4) | 0x4000000u;
    u32 k_phase = 0;
    u32 v_phase = 0;
    u32 s_buffer = 0, q_phase = 0, p_phase = 0;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
      mbarrier_wait(mbar_q_full, q_phase);
      q_phase ^= 1;
  #pragma unroll 1
      for (int n = s.tile_begin; n <= s.tile_end; ++n) {
        if (n < s.tile_end) {
          // S(n) = Q K(n)', chunk by chunk as K comes, while softmax has the tile before. Its place was read before P(n - 2)
          // was there.
          mbarrier_wait(mbar_k_full, k_phase);
          if (elect_one()) {
            issue_scores_0(tmem + s_buffer * 64, q_desc, k_desc);
            tcgen05_commit(mbar_k_empty);
          }
          mbarrier_wait(mbar_k_full + 8, k_phase);
          if (elect_one()) {
            issue_scores_1(tmem + s_buffer * 64, q_desc, k_desc);
            tcgen05_commit(mbar_k_empty + 8);
          }
          mbarrier_wait(mbar_k_full + 16, k_phase);
          if (elect_one()) {
            issue_scores_2(tmem + s_buffer * 64, q_desc, k_desc);
            tcgen05_commit(mbar_s_full + 8 * s_buffer);
            tcgen05_commit(mbar_k_empty + 16);
          }
          s_buffer ^= 1;
          k_phase ^= 1;
        }
        if (n > s.tile_begin) {
          // O += P(n - 1) V(n - 1)
          mbarrier_wait(mbar_p_full, p_phase);
          p_phase ^= 1;
          tcgen05_fence_after();
          const bool add = n - 1 > s.tile_begin;
          mbarrier_wait(mbar_v_full, v_phase);
          if (elect_one()) {
            issue_output_0(tmem + 128, p_desc, v_desc, add);
            tcgen05_commit(mbar_v_empty);
          }
          mbarrier_wait(mbar_v_full + 8, v_phase);
          if (elect_one()) {
            issue_output_1(tmem + 128, p_desc, v_desc, add);
            tcgen05_commit(mbar_v_empty + 8);
            tcgen05_commit(mbar_o_full);
          }
          v_phase ^= 1;
        }
      }
    }
  } else if (warp == 4) {
    // ---- the second block's tells the first that its columns of V have come
    u32 v_phase = 0;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
  #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        mbarrier_wait(mbar_v_full, v_phase);
        __syncwarp();  // every lane has seen the phase that the arrival lets end
        if (lane == 0) mbarrier_arrive_cluster(mbar_v_full, 0);
        mbarrier_wait(mbar_v_full + 8, v_phase);
        __syncwarp();  // every lane has seen the phase that the arrival lets end
        if (lane == 0) mbarrier_arrive_cluster(mbar_v_full + 8, 0);
        v_phase ^= 1;
      }
    }
  } else {
    // ---- copies: of a tile K's rows of this block, then of the tile before V's columns. They are read once, so first out of
    // L2
    if (launch_before != 2) wait_for_launch_before();
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    u32 k_phase = 1;
    u32 v_phase = 1;
    Segment s;
  #pragma unroll 1
    while (next_segment(problem, range, s)) {
  #pragma unroll 1
      for (int n = s.tile_begin; n <= s.tile_end; ++n) {
        if (n < s.tile_end) {
          const int row = (2 * n + rank) * 64;
          const int page = row < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + row / 64] : num_pages;
          mbarrier_wait(mbar_k_empty, k_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (rank == 0 && lane == 0) mbarrier_arrive_expect_tx(mbar_k_full, 49152);
          if (lane == 0) {
            tma_load_pair(smem_k, &k_map, mbar_k_full, 0, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 8192, &k_map, mbar_k_full, 64, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 16384, &k_map, mbar_k_full, 128, 0, s.kv_head, page, 0x12F0000000000000ull);
          }
          mbarrier_wait(mbar_k_empty + 8, k_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (rank == 0 && lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + 8, 49152);
          if (lane == 0) {
            tma_load_pair(smem_k + 24576, &k_map, mbar_k_full + 8, 192, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 32768, &k_map, mbar_k_full + 8, 256, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 40960, &k_map, mbar_k_full + 8, 320, 0, s.kv_head, page, 0x12F0000000000000ull);
          }
          mbarrier_wait(mbar_k_empty + 16, k_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (rank == 0 && lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + 16, 49152);
          if (lane == 0) {
            tma_load_pair(smem_k + 49152, &k_map, mbar_k_full + 16, 384, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 57344, &k_map, mbar_k_full + 16, 448, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load_pair(smem_k + 65536, &k_map, mbar_k_full + 16, 512, 0, s.kv_head, page, 0x12F0000000000000ull);
          }
          k_phase ^= 1;
        }
        if (n > s.tile_begin) {
          const int row = (n - 1) * 128 + lane * 64;
          const int page = lane < 2 && row < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + row / 64]
              : num_pages;
          mbarrier_wait(mbar_v_empty, v_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) mbarrier_arrive_expect_tx(mbar_v_full, 32768);
          if (lane < 2) {
            tma_load(smem_v + lane * 8192, &k_map, mbar_v_full, rank * 128, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load(smem_v + 16384 + lane * 8192, &k_map, mbar_v_full, rank * 128 + 64, 0, s.kv_head, page, 0x12F0000000000000ull);
          }
          mbarrier_wait(mbar_v_empty + 8, v_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) mbarrier_arrive_expect_tx(mbar_v_full + 8, 32768);
          if (lane < 2) {
            tma_load(smem_v + 32768 + lane * 8192, &k_map, mbar_v_full + 8, rank * 128 + 256, 0, s.kv_head, page, 0x12F0000000000000ull);
            tma_load(smem_v + 49152 + lane * 8192, &k_map, mbar_v_full + 8, rank * 128 + 320, 0, s.kv_head, page, 0x12F0000000000000ull);
          }
          v_phase ^= 1;
        }
      }
    }
    // who waits for this launch has waited for the one before it, too
    wait_for_launch_before();
  }
  // Nobody reads tensor memory any more, or arrives at the other block. (Neither warp nor address is kept in a register until
  // here.)
  tcgen05_fence_before();
  cluster_arrive(); cluster_wait();
  if (threadIdx.x / 32 == 4) {
    tcgen05_fence_after();
    tmem_dealloc(*(volatile u32*)(smem_bytes + 231040), 512);
  }

  #endif
}
