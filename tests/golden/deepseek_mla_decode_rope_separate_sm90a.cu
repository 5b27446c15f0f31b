// deepseek_mla_decode_rope_separate_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"deepseek_mla_decode_rope_separate_sm90a","target":"sm_90a","operation":"decode","dtype":"bf16","kv_dtype":"bf16","out_dtype":"bf16","depth":576,"ov_depth":512,"rope_depth":64,"nope_depth":512,"q_depth":576,"cache_depth":512,"head_dim_offset":0,"v_from_k":true,"operand":{"kind":"paged","page_size":64},"mask":"causal","score_mod":"none","sink":false,"lse":true,"scale":0.041666666666666664,"mma_shape":[64,64,16],"BM":64,"BN":64,"BK":256,"num_threads":384,"swizzle":"128B","num_kv_stages":2,"num_qk_stages":2,"shared_ring":true,"tma_fold":"none","rope":{"layout":"separate","dtype":"bf16"},"schedule":"sm90_decode"}
// Schedule sm90_decode: 64 packed query rows by 64 keys a tile, 2 KV stages, 1 block a multiprocessor.
// Shared memory (223160 bytes):
//         0 ..  147456  k          K stages
//    147456 ..  221184  q          Q: the packed query rows
//    221184 ..  222208  rows       bases and sums of each row, of each warpgroup
//    222208 ..  222976  kept       numbers of the item at hand, each warp's
//    222976 ..  223136  mbar       K, V and cell rings
//    223136 ..  223144  cells      cells handed to the consumers
//    223144 ..  223160  flag       this block's share of an item's parts
//
// Regenerate: kiln generate deepseek_mla_decode_rope_separate_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin deepseek_mla_decode_rope_separate_sm90a.cu

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

// The next launch on the stream may begin its set-up (once every block got here), and this one goes on when the launch before
// has ended and what it wrote is visible.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// One box of a 4-D tensor to L2.
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

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

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// What all lanes of the warp have, as the compiler cannot know before: else it computes the descriptors that differ from it
// by constants outside of a loop, and has no registers to keep them in.
__device__ __forceinline__ u32 hidden(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

// The thread's number, read where it is asked for: what follows from it is not computed before a loop that needs all
// registers.
__device__ __forceinline__ int thread_here() {
  u32 thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (int)thread;
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}

// Adds, after everything this thread has seen is visible to the device; what the other adders did before is visible after.
__device__ __forceinline__ int atomic_add_acq_rel(int* at, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

// What is at an address that others add to; what they did before (atomic_add_acq_rel) is visible after.
__device__ __forceinline__ int load_acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// Which part of an item's sum is this block's, whose own part is there (one thread of it). The blocks that have nothing
// else to do (`waits`) wait for the others for a bounded number of looks, so that no block depends on another's being
// resident, and share the sum. Where fewer than two wait, or one gave up, the last to arrive has all of it.
// The counter has fields of ten bits: blocks that arrived; those of them that wait; waiting ones that have seen all. Above
// them: a waiting one gave up. The last to know leaves it as it was found.
constexpr int kWaiting = 1 << 10, kKnowing = 1 << 20, kGaveUp = 1 << 30, kBlocks = (1 << 10) - 1;
// `own`: the number of this block's share, or -1; shares; blocks that wait if this is one of them, else 0.
__device__ __forceinline__ void share_parts(int* counter, int parts, bool waits, int* own) {
  const int mine = waits ? kWaiting + 1 : 1, before = atomic_add_acq_rel(counter, mine);
  int seen = before + mine;
#pragma unroll 1
  for (int look = 0; waits && (seen & kBlocks) < parts && look < 96; ++look) {
    __nanosleep(64);
    seen = load_acquire(counter);
  }
#pragma unroll 1
  while (waits && (seen & kBlocks) < parts) {
    waits = atomicCAS(counter, seen, seen - kWaiting | kGaveUp) != seen;
    seen = load_acquire(counter);
  }
  const bool last = (before & kBlocks) == parts - 1;
  const int waiting = seen >> 10 & kBlocks;
  const bool together = waiting > 1 && (seen & kGaveUp) == 0;
  own[0] = together && waits ? before >> 10 & kBlocks : !together && last ? 0 : -1;
  own[1] = together ? waiting : 1;
  own[2] = waits ? waiting : 0;
  if (last && waiting == 0) atomicExch(counter, 0);
}
// Of a waiting block that added kKnowing to `before`: the last of `waiting` ones.
__device__ __forceinline__ bool knows_last(int before, int waiting) { return (before >> 20 & kBlocks) == waiting - 1; }

// 16 bytes from global to shared memory, on their way when the thread goes on.
__device__ __forceinline__ void copy_async_16(u32 dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
// Returns once this thread's copies are there.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Shared to global memory.
__device__ __forceinline__ void copy_16_bytes(u16* dst, u32 src) {
  asm volatile(
      "{ .reg .b32 a, b, c, d; ld.shared.v4.u32 {a, b, c, d}, [%1]; st.global.v4.u32 [%0], {a, b, c, d}; }" ::"l"(dst), "r"(src)
      : "memory");
}

// d += A (64 x 16, registers) * B (16 x 256, N contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n256k16_rs(float (&d)[128], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// d += A (64 x 16, shared memory) * B (16 x 256, N contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n256k16_ss(float (&d)[128], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, 1, 1, 1, 0, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
        "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
        "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
        "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
        "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
        "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
        "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b));
}

// d += A (64 x 16, shared memory) * B (16 x 64, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n64k16_ss(float (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1, 0, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

// d = A (64 x 16, shared memory) * B (16 x 64, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n64k16_ss_first(float (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 0, 1, 1, 0, 0;\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]),
        "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]), "=f"(d[15]),
        "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]),
        "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
      : "l"(a), "l"(b));
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
  s.num_tiles = max((s.seqlen_k + 63) / 64 - s.first_tile, 1);
  return s;
}

__device__ __forceinline__ int packed_blocks(const Problem& problem) {
  return (problem.heads_q / problem.heads_kv * problem.seqlen_q + 63) / 64;
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

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_deepseek_mla_decode_rope_separate_sm90a(const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap k_rope_map,
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
    const u16* k,
    const long long k_stride_page,
    const long long k_stride_seq,
    const long long k_stride_head,
    const u16* k_rope,
    const long long k_rope_stride_page,
    const long long k_rope_stride_seq,
    const long long k_rope_stride_head,
    const float scale_log2) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("trap;");  // built for plain sm_90, which has no wgmma
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_k = smem, smem_v = smem, smem_q = smem + 147456, smem_o = smem + 147456;
  const u32 mbar_k_full = smem + 222976, mbar_k_empty = smem + 223008;
  const u32 mbar_v_empty = smem + 223008;
  const Problem problem = {cu_seqlens_q, seqlens_k, batch, heads_q, heads_kv, seqlen_q, key_capacity, team_heads, launch_before};
  const int lane = threadIdx.x % 32;

  if (threadIdx.x == 256) {
    prefetch_tensor_map(&k_map); prefetch_tensor_map(&k_rope_map);
    mbarrier_init(mbar_k_full, 1);
    mbarrier_init(mbar_k_full + 8, 1);
    mbarrier_init(mbar_k_full + 16, 1);
    mbarrier_init(mbar_k_full + 24, 1);
    mbarrier_init(mbar_k_empty, 8);
    mbarrier_init(mbar_k_empty + 8, 8);
    mbarrier_init(mbar_k_empty + 16, 8);
    mbarrier_init(mbar_k_empty + 24, 8);
    fence_mbarrier_init();
    *(int*)(smem_bytes + 223156) = 0;
  }
  __syncthreads();

  if (threadIdx.x >= 256) {
    SETMAXNREG_DEC(56);
    if (threadIdx.x >= 288) return;
    Range range = first_range(problem);

    // ---- producer warp of K: tiles are read once, so first out of L2
    u32 k_stage = 0;
    u32 k_phase = 1;
    if (launch_before != 2) {
      if (launch_before == 1) {
        Range ahead = range;
        Segment s;
        if (next_segment(problem, ahead, s)) {
          int pages;  // of the first 32 tiles, one a lane
          const int key = s.tile_begin * 64 + lane * 64;
          pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
          const int page = __shfl_sync(0xffffffffu, pages, 0);
          if (lane == 0) {
            tma_prefetch(&k_map, 0, 0, s.kv_head, page);
            tma_prefetch(&k_map, 64, 0, s.kv_head, page);
            tma_prefetch(&k_map, 128, 0, s.kv_head, page);
            tma_prefetch(&k_map, 192, 0, s.kv_head, page);
            tma_prefetch(&k_map, 256, 0, s.kv_head, page);
            tma_prefetch(&k_map, 320, 0, s.kv_head, page);
            tma_prefetch(&k_map, 384, 0, s.kv_head, page);
            tma_prefetch(&k_map, 448, 0, s.kv_head, page);
            tma_prefetch(&k_rope_map, 0, 0, s.kv_head, page);
          }
        }
      }
      wait_for_launch_before();
    }
    // not earlier: what the launch after this one is promised counts from here
    let_next_launch_begin();
    Segment s;
    #pragma unroll 1
    while (next_segment(problem, range, s)) {
      int pages, next_pages;  // of 32 tiles, one a lane, and of as many after them
      {
        const int key = s.tile_begin * 64 + lane * 64;
        next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
      }
      #pragma unroll 1
      for (int n = s.tile_begin; n < s.tile_end; ++n) {
        const int turn = (n - s.tile_begin) % 32;
        if (turn == 0) {
          pages = next_pages;
          const int key = (n + 32) * 64 + lane * 64;
          next_pages = key < s.sequence.seqlen_k ? page_table[(long long)s.batch * page_table_stride + key / 64] : num_pages;
        }
        const int page = __shfl_sync(0xffffffffu, pages, turn);
        // K(n) into the next slot
        mbarrier_wait(mbar_k_empty + k_stage * 16, k_phase);
        __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 16, 32768);
        if (lane == 0) {
          tma_load(smem_k + k_stage * 73728 + 0, &k_map, mbar_k_full + k_stage * 16, 0, 0, s.kv_head, page, 0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 8192, &k_map, mbar_k_full + k_stage * 16, 64, 0, s.kv_head, page, 0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 16384, &k_map, mbar_k_full + k_stage * 16, 128, 0, s.kv_head, page, 0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 24576, &k_map, mbar_k_full + k_stage * 16, 192, 0, s.kv_head, page, 0x12F0000000000000ull);
        }
        mbarrier_wait(mbar_k_empty + k_stage * 16 + 8, k_phase);
        __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
        if (lane == 0) mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 16 + 8, 40960);
        if (lane == 0) {
          tma_load(smem_k + k_stage * 73728 + 32768, &k_map, mbar_k_full + k_stage * 16 + 8, 256, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 40960, &k_map, mbar_k_full + k_stage * 16 + 8, 320, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 49152, &k_map, mbar_k_full + k_stage * 16 + 8, 384, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 57344, &k_map, mbar_k_full + k_stage * 16 + 8, 448, 0, s.kv_head, page,
              0x12F0000000000000ull);
          tma_load(smem_k + k_stage * 73728 + 65536, &k_rope_map, mbar_k_full + k_stage * 16 + 8, 0, 0, s.kv_head, page,
              0x12F0000000000000ull);
        }
        k_phase ^= k_stage; k_stage ^= 1;
      }
    }
    // who waits for this launch has waited for the one before it, too
    wait_for_launch_before();
  } else {

    // ---- consumer warpgroups, one for each half of V's columns
    SETMAXNREG_INC(224);
    Range range = first_range(problem);
    if (launch_before != 2) wait_for_launch_before();
    const int warp = threadIdx.x / 32 % 4, half = threadIdx.x / 128;
    const int group = heads_q / heads_kv;  // query heads of a KV head
    const float factor = scale_log2;  // from scores to log2 units
    const u32 q_desc = (smem_q >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u;
    const u32 v_desc = (smem_v >> 4) | 0x2000000u;
    int* const own_share = (int*)(smem_bytes + 223144);
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;
    u32 v_phase = 0;
    float s_acc[32];  // S: 64 rows, 64 keys
    float o_acc[128];  // O: 64 rows, 256 columns
    u32 p[16];  // P as the A operand of O += P V
    float* const row_bases = (float*)(smem_bytes + 221184);  // of each warpgroup's rows; then sums
    Segment s;
    #pragma unroll 1
    while (next_segment(problem, range, s)) {
      const int rows = min(64, group * s.sequence.seqlen_q - s.m_block * 64);  // packed rows that exist
      // Q: packed row r is query position r / group and query head r % group; rows past the last are zeros
      // a row a warp: its place is worked out once, and here, or it would keep registers through the tiles
      const int thread = thread_here(), of_lane = thread % 32;
      const int step_position = 8 / group, step_of_group = 8 % group;
      int position = (s.m_block * 64 + thread / 32) / group, of_group = (s.m_block * 64 + thread / 32) % group;
      #pragma unroll 4
      for (int round = 0; round < 8; ++round) {
        const int r = 8 * round + thread / 32;
        const u32 row = smem_q + r * 128 + (of_lane / 8) * 8192 + (((of_lane ^ r) % 8) << 4);
        const u16* const from = q + (s.sequence.q_start + position) * q_stride_seq + (s.kv_head * group + of_group) * q_stride_head
            + 8 * of_lane;
        position += step_position; of_group += step_of_group;
        if (of_group >= group) { of_group -= group; ++position; }
        if (r < rows) {
          copy_async_16(row + 0, from + 0);
          copy_async_16(row + 32768, from + 256);
          if (of_lane < 8) copy_async_16(row + 65536, from + 512);
        } else {
          zero_16_bytes(row + 0);
          zero_16_bytes(row + 32768);
          if (of_lane < 8) zero_16_bytes(row + 65536);
        }
      }
      copy_async_wait();
      fence_proxy_async();
      named_barrier_sync(1, 256);
      float row_max_0 = -kInfinity, row_max_1 = -kInfinity;
      float row_sum_0 = 0.0f, row_sum_1 = 0.0f;
      o_acc[0] = o_acc[1] = o_acc[2] = o_acc[3] = 0.0f;
      o_acc[4] = o_acc[5] = o_acc[6] = o_acc[7] = 0.0f;
      o_acc[8] = o_acc[9] = o_acc[10] = o_acc[11] = 0.0f;
      o_acc[12] = o_acc[13] = o_acc[14] = o_acc[15] = 0.0f;
      o_acc[16] = o_acc[17] = o_acc[18] = o_acc[19] = 0.0f;
      o_acc[20] = o_acc[21] = o_acc[22] = o_acc[23] = 0.0f;
      o_acc[24] = o_acc[25] = o_acc[26] = o_acc[27] = 0.0f;
      o_acc[28] = o_acc[29] = o_acc[30] = o_acc[31] = 0.0f;
      o_acc[32] = o_acc[33] = o_acc[34] = o_acc[35] = 0.0f;
      o_acc[36] = o_acc[37] = o_acc[38] = o_acc[39] = 0.0f;
      o_acc[40] = o_acc[41] = o_acc[42] = o_acc[43] = 0.0f;
      o_acc[44] = o_acc[45] = o_acc[46] = o_acc[47] = 0.0f;
      o_acc[48] = o_acc[49] = o_acc[50] = o_acc[51] = 0.0f;
      o_acc[52] = o_acc[53] = o_acc[54] = o_acc[55] = 0.0f;
      o_acc[56] = o_acc[57] = o_acc[58] = o_acc[59] = 0.0f;
      o_acc[60] = o_acc[61] = o_acc[62] = o_acc[63] = 0.0f;
      o_acc[64] = o_acc[65] = o_acc[66] = o_acc[67] = 0.0f;
      o_acc[68] = o_acc[69] = o_acc[70] = o_acc[71] = 0.0f;
      o_acc[72] = o_acc[73] = o_acc[74] = o_acc[75] = 0.0f;
      o_acc[76] = o_acc[77] = o_acc[78] = o_acc[79] = 0.0f;
      o_acc[80] = o_acc[81] = o_acc[82] = o_acc[83] = 0.0f;
      o_acc[84] = o_acc[85] = o_acc[86] = o_acc[87] = 0.0f;
      o_acc[88] = o_acc[89] = o_acc[90] = o_acc[91] = 0.0f;
      o_acc[92] = o_acc[93] = o_acc[94] = o_acc[95] = 0.0f;
      o_acc[96] = o_acc[97] = o_acc[98] = o_acc[99] = 0.0f;
      o_acc[100] = o_acc[101] = o_acc[102] = o_acc[103] = 0.0f;
      o_acc[104] = o_acc[105] = o_acc[106] = o_acc[107] = 0.0f;
      o_acc[108] = o_acc[109] = o_acc[110] = o_acc[111] = 0.0f;
      o_acc[112] = o_acc[113] = o_acc[114] = o_acc[115] = 0.0f;
      o_acc[116] = o_acc[117] = o_acc[118] = o_acc[119] = 0.0f;
      o_acc[120] = o_acc[121] = o_acc[122] = o_acc[123] = 0.0f;
      o_acc[124] = o_acc[125] = o_acc[126] = o_acc[127] = 0.0f;
      // keys before it are hidden from no row by their end
      const int clean_end = min(s.sequence.seqlen_k, (s.sequence.seqlen_k - s.sequence.seqlen_q + s.m_block * 64 / group) + 1);
      // what only the item's end asks for waits in shared memory: products take all registers
      volatile int* const kept = (volatile int*)(smem_bytes + 222208) + threadIdx.x / 32 * 24;
      if (lane == 0) {
        kept[0] = (int)range.position;
        kept[1] = (int)range.end;
        kept[2] = (int)range.total;
        kept[3] = (int)range.teams;
        kept[4] = (int)range.cell;
        kept[5] = (int)range.batch_start;
        kept[6] = (int)s.item_start;
        kept[7] = (int)range.slots;
        kept[8] = (int)range.m_blocks;
        kept[9] = (int)range.batch;
        kept[10] = (int)range.first;
        kept[11] = (int)s.batch;
        kept[12] = (int)s.kv_head;
        kept[13] = (int)s.item;
        kept[14] = (int)s.whole;
        kept[15] = (int)s.sequence.q_start;
        kept[16] = (int)s.sequence.num_tiles;
        kept[17] = (int)s.second_slot;
        kept[18] = (int)s.m_block;
      }
      __syncwarp();
      int n = s.tile_begin;
      k_stage = v_stage; k_phase = v_phase;
      if (half == 0) {
        // S = Q K'
        mbarrier_wait(mbar_k_full + k_stage * 16, k_phase);
        {
          const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
          {
            const u32 q_desc = q_low;
            wgmma_fence();
            wgmma_m64n64k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 512, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 514, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 516, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 518, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1024, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1026, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1028, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1030, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1536, 0x40000040u), descriptor(k_low + 1536, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1538, 0x40000040u), descriptor(k_low + 1538, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1540, 0x40000040u), descriptor(k_low + 1540, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1542, 0x40000040u), descriptor(k_low + 1542, 0x40000040u));
            wgmma_commit();
          }
        }
        mbarrier_wait(mbar_k_full + k_stage * 16 + 8, k_phase);
        {
          const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
          {
            const u32 q_desc = q_low;
            wgmma_fence();
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2048, 0x40000040u), descriptor(k_low + 2048, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2050, 0x40000040u), descriptor(k_low + 2050, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2052, 0x40000040u), descriptor(k_low + 2052, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2054, 0x40000040u), descriptor(k_low + 2054, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2560, 0x40000040u), descriptor(k_low + 2560, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2562, 0x40000040u), descriptor(k_low + 2562, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2564, 0x40000040u), descriptor(k_low + 2564, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2566, 0x40000040u), descriptor(k_low + 2566, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3072, 0x40000040u), descriptor(k_low + 3072, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3074, 0x40000040u), descriptor(k_low + 3074, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3076, 0x40000040u), descriptor(k_low + 3076, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3078, 0x40000040u), descriptor(k_low + 3078, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3584, 0x40000040u), descriptor(k_low + 3584, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3586, 0x40000040u), descriptor(k_low + 3586, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3588, 0x40000040u), descriptor(k_low + 3588, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3590, 0x40000040u), descriptor(k_low + 3590, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4096, 0x40000040u), descriptor(k_low + 4096, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4098, 0x40000040u), descriptor(k_low + 4098, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4100, 0x40000040u), descriptor(k_low + 4100, 0x40000040u));
            wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4102, 0x40000040u), descriptor(k_low + 4102, 0x40000040u));
            wgmma_commit();
          }
        }
        WGMMA_WAIT(0);
        if (n + 1 < s.tile_end) named_barrier_arrive(2, 256);
        #pragma unroll 1
        for (; n + 2 < s.tile_end; n += 2) {
          {
            // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
            const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
            if (v_rows < 64) {
              named_barrier_sync(6, 128);  // all products with K are done
              for (int i = v_rows * 8 + threadIdx.x % 128; i < 512; i += 128) {
                zero_16_bytes(smem_k + k_stage * 73728 + 0 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 8192 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 16384 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 24576 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 32768 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 40960 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 49152 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 57344 + i * 16);
              }
              fence_proxy_async();
            }
            if ((n + 1) * 64 > clean_end) {
              // keys past the row's own position or the end of the sequence do not count
              const int end_0 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 0 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
              const int end_1 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 8 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
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
            }
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
            // Keep the old maximum while no row of the warp grew by more than 2^8.
            const bool grew = (max_0 - row_max_0) * factor > 8.0f || (max_1 - row_max_1) * factor > 8.0f;
            const bool rescale = __any_sync(0xffffffffu, grew);
            if (rescale) {
              alpha_0 = rescale_factor(row_max_0, max_0, factor); row_sum_0 *= alpha_0; row_max_0 = max_0;
              alpha_1 = rescale_factor(row_max_1, max_1, factor); row_sum_1 *= alpha_1; row_max_1 = max_1;
            }
            float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, factor);
            float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, factor);
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            s_acc[0] = exp2_approx(fmaf(s_acc[0], factor, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], factor, -shift_0));
            s_acc[2] = exp2_approx(fmaf(s_acc[2], factor, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], factor, -shift_1));
            s_acc[4] = exp2_approx(fmaf(s_acc[4], factor, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], factor, -shift_0));
            s_acc[6] = exp2_approx(fmaf(s_acc[6], factor, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], factor, -shift_1));
            s_acc[8] = exp2_approx(fmaf(s_acc[8], factor, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], factor, -shift_0));
            s_acc[10] = exp2_approx(fmaf(s_acc[10], factor, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], factor, -shift_1));
            s_acc[12] = exp2_approx(fmaf(s_acc[12], factor, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], factor, -shift_0));
            s_acc[14] = exp2_approx(fmaf(s_acc[14], factor, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], factor, -shift_1));
            s_acc[16] = exp2_approx(fmaf(s_acc[16], factor, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], factor, -shift_0));
            s_acc[18] = exp2_approx(fmaf(s_acc[18], factor, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], factor, -shift_1));
            s_acc[20] = exp2_approx(fmaf(s_acc[20], factor, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], factor, -shift_0));
            s_acc[22] = exp2_approx(fmaf(s_acc[22], factor, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], factor, -shift_1));
            s_acc[24] = exp2_approx(fmaf(s_acc[24], factor, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], factor, -shift_0));
            s_acc[26] = exp2_approx(fmaf(s_acc[26], factor, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], factor, -shift_1));
            s_acc[28] = exp2_approx(fmaf(s_acc[28], factor, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], factor, -shift_0));
            s_acc[30] = exp2_approx(fmaf(s_acc[30], factor, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], factor, -shift_1));
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
            p[0] = pack_bf16(s_acc[0], s_acc[1]);
            p[1] = pack_bf16(s_acc[2], s_acc[3]);
            p[2] = pack_bf16(s_acc[4], s_acc[5]);
            p[3] = pack_bf16(s_acc[6], s_acc[7]);
            p[4] = pack_bf16(s_acc[8], s_acc[9]);
            p[5] = pack_bf16(s_acc[10], s_acc[11]);
            p[6] = pack_bf16(s_acc[12], s_acc[13]);
            p[7] = pack_bf16(s_acc[14], s_acc[15]);
            p[8] = pack_bf16(s_acc[16], s_acc[17]);
            p[9] = pack_bf16(s_acc[18], s_acc[19]);
            p[10] = pack_bf16(s_acc[20], s_acc[21]);
            p[11] = pack_bf16(s_acc[22], s_acc[23]);
            p[12] = pack_bf16(s_acc[24], s_acc[25]);
            p[13] = pack_bf16(s_acc[26], s_acc[27]);
            p[14] = pack_bf16(s_acc[28], s_acc[29]);
            p[15] = pack_bf16(s_acc[30], s_acc[31]);
            // P and its base, for the other warpgroup
            if ((lane & 3) == 0) {
              row_bases[0 + 16 * warp + (lane >> 2)] = row_max_0; row_bases[8 + 16 * warp + (lane >> 2)] = row_max_1;
            }
            named_barrier_sync(6, 128);  // all products with K are done: P takes the place of a panel
            const u32 p_row = smem_k + k_stage * 73728 + 65536 + (16 * warp + (lane & 15)) * 128;
            stmatrix_x4(p_row + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), p[0], p[1], p[2], p[3]);
            stmatrix_x4(p_row + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), p[4], p[5], p[6], p[7]);
            stmatrix_x4(p_row + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), p[8], p[9], p[10], p[11]);
            stmatrix_x4(p_row + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), p[12], p[13], p[14], p[15]);
            fence_proxy_async();
            named_barrier_arrive(4, 256);
            {
              const u32 v_low = hidden(v_desc + v_stage * 4608 + 0);
              wgmma_fence();
              wgmma_m64n256k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
          if (lane < 2) mbarrier_arrive(mbar_v_empty + v_stage * 16);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
          {
            named_barrier_sync(5, 256);
            const float top_0 = row_bases[64 + 16 * warp + (lane >> 2)], top_1 = row_bases[72 + 16 * warp + (lane >> 2)];
            if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1)) {
              const float alpha_0 = rescale_factor(row_max_0, top_0, factor); row_sum_0 *= alpha_0; row_max_0 = top_0;
              const float alpha_1 = rescale_factor(row_max_1, top_1, factor); row_sum_1 *= alpha_1; row_max_1 = top_1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 0);
            const u32 p_low = hidden(((smem_k + v_stage * 73728 + 65536) >> 4) | 0x10000u);
            wgmma_fence();
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 0, 0x40000040u), descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 2, 0x40000040u), descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 4, 0x40000040u), descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 6, 0x40000040u), descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          WGMMA_WAIT(0);
          if (lane < 2) mbarrier_arrive(mbar_v_empty + v_stage * 16);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
          // S = Q K'
          mbarrier_wait(mbar_k_full + k_stage * 16, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 512, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 514, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 516, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 518, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1024, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1026, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1028, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1030, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1536, 0x40000040u), descriptor(k_low + 1536, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1538, 0x40000040u), descriptor(k_low + 1538, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1540, 0x40000040u), descriptor(k_low + 1540, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1542, 0x40000040u), descriptor(k_low + 1542, 0x40000040u));
              wgmma_commit();
            }
          }
          mbarrier_wait(mbar_k_full + k_stage * 16 + 8, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2048, 0x40000040u), descriptor(k_low + 2048, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2050, 0x40000040u), descriptor(k_low + 2050, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2052, 0x40000040u), descriptor(k_low + 2052, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2054, 0x40000040u), descriptor(k_low + 2054, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2560, 0x40000040u), descriptor(k_low + 2560, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2562, 0x40000040u), descriptor(k_low + 2562, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2564, 0x40000040u), descriptor(k_low + 2564, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2566, 0x40000040u), descriptor(k_low + 2566, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3072, 0x40000040u), descriptor(k_low + 3072, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3074, 0x40000040u), descriptor(k_low + 3074, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3076, 0x40000040u), descriptor(k_low + 3076, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3078, 0x40000040u), descriptor(k_low + 3078, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3584, 0x40000040u), descriptor(k_low + 3584, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3586, 0x40000040u), descriptor(k_low + 3586, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3588, 0x40000040u), descriptor(k_low + 3588, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3590, 0x40000040u), descriptor(k_low + 3590, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4096, 0x40000040u), descriptor(k_low + 4096, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4098, 0x40000040u), descriptor(k_low + 4098, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4100, 0x40000040u), descriptor(k_low + 4100, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4102, 0x40000040u), descriptor(k_low + 4102, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
          if (n + 3 < s.tile_end) named_barrier_arrive(2, 256);
        }
        if (n + 1 < s.tile_end) {
          {
            // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
            const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
            if (v_rows < 64) {
              named_barrier_sync(6, 128);  // all products with K are done
              for (int i = v_rows * 8 + threadIdx.x % 128; i < 512; i += 128) {
                zero_16_bytes(smem_k + k_stage * 73728 + 0 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 8192 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 16384 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 24576 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 32768 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 40960 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 49152 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 57344 + i * 16);
              }
              fence_proxy_async();
            }
            if ((n + 1) * 64 > clean_end) {
              // keys past the row's own position or the end of the sequence do not count
              const int end_0 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 0 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
              const int end_1 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 8 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
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
            }
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
            // Keep the old maximum while no row of the warp grew by more than 2^8.
            const bool grew = (max_0 - row_max_0) * factor > 8.0f || (max_1 - row_max_1) * factor > 8.0f;
            const bool rescale = __any_sync(0xffffffffu, grew);
            if (rescale) {
              alpha_0 = rescale_factor(row_max_0, max_0, factor); row_sum_0 *= alpha_0; row_max_0 = max_0;
              alpha_1 = rescale_factor(row_max_1, max_1, factor); row_sum_1 *= alpha_1; row_max_1 = max_1;
            }
            float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, factor);
            float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, factor);
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            s_acc[0] = exp2_approx(fmaf(s_acc[0], factor, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], factor, -shift_0));
            s_acc[2] = exp2_approx(fmaf(s_acc[2], factor, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], factor, -shift_1));
            s_acc[4] = exp2_approx(fmaf(s_acc[4], factor, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], factor, -shift_0));
            s_acc[6] = exp2_approx(fmaf(s_acc[6], factor, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], factor, -shift_1));
            s_acc[8] = exp2_approx(fmaf(s_acc[8], factor, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], factor, -shift_0));
            s_acc[10] = exp2_approx(fmaf(s_acc[10], factor, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], factor, -shift_1));
            s_acc[12] = exp2_approx(fmaf(s_acc[12], factor, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], factor, -shift_0));
            s_acc[14] = exp2_approx(fmaf(s_acc[14], factor, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], factor, -shift_1));
            s_acc[16] = exp2_approx(fmaf(s_acc[16], factor, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], factor, -shift_0));
            s_acc[18] = exp2_approx(fmaf(s_acc[18], factor, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], factor, -shift_1));
            s_acc[20] = exp2_approx(fmaf(s_acc[20], factor, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], factor, -shift_0));
            s_acc[22] = exp2_approx(fmaf(s_acc[22], factor, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], factor, -shift_1));
            s_acc[24] = exp2_approx(fmaf(s_acc[24], factor, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], factor, -shift_0));
            s_acc[26] = exp2_approx(fmaf(s_acc[26], factor, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], factor, -shift_1));
            s_acc[28] = exp2_approx(fmaf(s_acc[28], factor, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], factor, -shift_0));
            s_acc[30] = exp2_approx(fmaf(s_acc[30], factor, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], factor, -shift_1));
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
            p[0] = pack_bf16(s_acc[0], s_acc[1]);
            p[1] = pack_bf16(s_acc[2], s_acc[3]);
            p[2] = pack_bf16(s_acc[4], s_acc[5]);
            p[3] = pack_bf16(s_acc[6], s_acc[7]);
            p[4] = pack_bf16(s_acc[8], s_acc[9]);
            p[5] = pack_bf16(s_acc[10], s_acc[11]);
            p[6] = pack_bf16(s_acc[12], s_acc[13]);
            p[7] = pack_bf16(s_acc[14], s_acc[15]);
            p[8] = pack_bf16(s_acc[16], s_acc[17]);
            p[9] = pack_bf16(s_acc[18], s_acc[19]);
            p[10] = pack_bf16(s_acc[20], s_acc[21]);
            p[11] = pack_bf16(s_acc[22], s_acc[23]);
            p[12] = pack_bf16(s_acc[24], s_acc[25]);
            p[13] = pack_bf16(s_acc[26], s_acc[27]);
            p[14] = pack_bf16(s_acc[28], s_acc[29]);
            p[15] = pack_bf16(s_acc[30], s_acc[31]);
            // P and its base, for the other warpgroup
            if ((lane & 3) == 0) {
              row_bases[0 + 16 * warp + (lane >> 2)] = row_max_0; row_bases[8 + 16 * warp + (lane >> 2)] = row_max_1;
            }
            named_barrier_sync(6, 128);  // all products with K are done: P takes the place of a panel
            const u32 p_row = smem_k + k_stage * 73728 + 65536 + (16 * warp + (lane & 15)) * 128;
            stmatrix_x4(p_row + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), p[0], p[1], p[2], p[3]);
            stmatrix_x4(p_row + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), p[4], p[5], p[6], p[7]);
            stmatrix_x4(p_row + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), p[8], p[9], p[10], p[11]);
            stmatrix_x4(p_row + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), p[12], p[13], p[14], p[15]);
            fence_proxy_async();
            named_barrier_arrive(4, 256);
            {
              const u32 v_low = hidden(v_desc + v_stage * 4608 + 0);
              wgmma_fence();
              wgmma_m64n256k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
          if (lane < 2) mbarrier_arrive(mbar_v_empty + v_stage * 16);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
          {
            named_barrier_sync(5, 256);
            const float top_0 = row_bases[64 + 16 * warp + (lane >> 2)], top_1 = row_bases[72 + 16 * warp + (lane >> 2)];
            if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1)) {
              const float alpha_0 = rescale_factor(row_max_0, top_0, factor); row_sum_0 *= alpha_0; row_max_0 = top_0;
              const float alpha_1 = rescale_factor(row_max_1, top_1, factor); row_sum_1 *= alpha_1; row_max_1 = top_1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 0);
            const u32 p_low = hidden(((smem_k + v_stage * 73728 + 65536) >> 4) | 0x10000u);
            wgmma_fence();
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 0, 0x40000040u), descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 2, 0x40000040u), descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 4, 0x40000040u), descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 6, 0x40000040u), descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          WGMMA_WAIT(0);
          if (lane < 2) mbarrier_arrive(mbar_v_empty + v_stage * 16);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
        } else {
          // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
          const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
          if (v_rows < 64) {
            named_barrier_sync(6, 128);  // all products with K are done
            for (int i = v_rows * 8 + threadIdx.x % 128; i < 512; i += 128) {
              zero_16_bytes(smem_k + k_stage * 73728 + 0 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 8192 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 16384 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 24576 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 32768 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 40960 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 49152 + i * 16);
              zero_16_bytes(smem_k + k_stage * 73728 + 57344 + i * 16);
            }
            fence_proxy_async();
          }
          if ((n + 1) * 64 > clean_end) {
            // keys past the row's own position or the end of the sequence do not count
            const int end_0 = min(s.sequence.seqlen_k,
                (s.m_block * 64 + 16 * warp + 0 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                - 2 * (lane & 3);
            const int end_1 = min(s.sequence.seqlen_k,
                (s.m_block * 64 + 16 * warp + 8 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                - 2 * (lane & 3);
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
          }
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
          // Keep the old maximum while no row of the warp grew by more than 2^8.
          const bool grew = (max_0 - row_max_0) * factor > 8.0f || (max_1 - row_max_1) * factor > 8.0f;
          const bool rescale = __any_sync(0xffffffffu, grew);
          if (rescale) {
            alpha_0 = rescale_factor(row_max_0, max_0, factor); row_sum_0 *= alpha_0; row_max_0 = max_0;
            alpha_1 = rescale_factor(row_max_1, max_1, factor); row_sum_1 *= alpha_1; row_max_1 = max_1;
          }
          float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, factor);
          float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, factor);
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
            o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
            o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
            o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
            o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
            o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
            o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
            o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
            o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
            o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
            o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
            o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
            o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
            o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
            o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
            o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
            o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
          }
          s_acc[0] = exp2_approx(fmaf(s_acc[0], factor, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], factor, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], factor, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], factor, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], factor, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], factor, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], factor, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], factor, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], factor, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], factor, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], factor, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], factor, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], factor, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], factor, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], factor, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], factor, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], factor, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], factor, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], factor, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], factor, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], factor, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], factor, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], factor, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], factor, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], factor, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], factor, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], factor, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], factor, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], factor, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], factor, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], factor, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], factor, -shift_1));
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
          p[0] = pack_bf16(s_acc[0], s_acc[1]);
          p[1] = pack_bf16(s_acc[2], s_acc[3]);
          p[2] = pack_bf16(s_acc[4], s_acc[5]);
          p[3] = pack_bf16(s_acc[6], s_acc[7]);
          p[4] = pack_bf16(s_acc[8], s_acc[9]);
          p[5] = pack_bf16(s_acc[10], s_acc[11]);
          p[6] = pack_bf16(s_acc[12], s_acc[13]);
          p[7] = pack_bf16(s_acc[14], s_acc[15]);
          p[8] = pack_bf16(s_acc[16], s_acc[17]);
          p[9] = pack_bf16(s_acc[18], s_acc[19]);
          p[10] = pack_bf16(s_acc[20], s_acc[21]);
          p[11] = pack_bf16(s_acc[22], s_acc[23]);
          p[12] = pack_bf16(s_acc[24], s_acc[25]);
          p[13] = pack_bf16(s_acc[26], s_acc[27]);
          p[14] = pack_bf16(s_acc[28], s_acc[29]);
          p[15] = pack_bf16(s_acc[30], s_acc[31]);
          // P and its base, for the other warpgroup
          if ((lane & 3) == 0) {
            row_bases[0 + 16 * warp + (lane >> 2)] = row_max_0; row_bases[8 + 16 * warp + (lane >> 2)] = row_max_1;
          }
          named_barrier_sync(6, 128);  // all products with K are done: P takes the place of a panel
          const u32 p_row = smem_k + k_stage * 73728 + 65536 + (16 * warp + (lane & 15)) * 128;
          stmatrix_x4(p_row + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), p[0], p[1], p[2], p[3]);
          stmatrix_x4(p_row + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), p[4], p[5], p[6], p[7]);
          stmatrix_x4(p_row + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), p[8], p[9], p[10], p[11]);
          stmatrix_x4(p_row + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), p[12], p[13], p[14], p[15]);
          fence_proxy_async();
          named_barrier_arrive(4, 256);
          {
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 0);
            wgmma_fence();
            wgmma_m64n256k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          WGMMA_WAIT(0);
          if (lane < 2) mbarrier_arrive(mbar_v_empty + v_stage * 16);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
        }
      } else {
        if (n + 1 < s.tile_end) {
          k_phase ^= k_stage; k_stage ^= 1;
          named_barrier_sync(2, 256);
          // S = Q K'
          mbarrier_wait(mbar_k_full + k_stage * 16, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 512, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 514, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 516, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 518, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1024, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1026, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1028, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1030, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1536, 0x40000040u), descriptor(k_low + 1536, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1538, 0x40000040u), descriptor(k_low + 1538, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1540, 0x40000040u), descriptor(k_low + 1540, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1542, 0x40000040u), descriptor(k_low + 1542, 0x40000040u));
              wgmma_commit();
            }
          }
          mbarrier_wait(mbar_k_full + k_stage * 16 + 8, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2048, 0x40000040u), descriptor(k_low + 2048, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2050, 0x40000040u), descriptor(k_low + 2050, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2052, 0x40000040u), descriptor(k_low + 2052, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2054, 0x40000040u), descriptor(k_low + 2054, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2560, 0x40000040u), descriptor(k_low + 2560, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2562, 0x40000040u), descriptor(k_low + 2562, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2564, 0x40000040u), descriptor(k_low + 2564, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2566, 0x40000040u), descriptor(k_low + 2566, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3072, 0x40000040u), descriptor(k_low + 3072, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3074, 0x40000040u), descriptor(k_low + 3074, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3076, 0x40000040u), descriptor(k_low + 3076, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3078, 0x40000040u), descriptor(k_low + 3078, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3584, 0x40000040u), descriptor(k_low + 3584, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3586, 0x40000040u), descriptor(k_low + 3586, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3588, 0x40000040u), descriptor(k_low + 3588, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3590, 0x40000040u), descriptor(k_low + 3590, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4096, 0x40000040u), descriptor(k_low + 4096, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4098, 0x40000040u), descriptor(k_low + 4098, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4100, 0x40000040u), descriptor(k_low + 4100, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4102, 0x40000040u), descriptor(k_low + 4102, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
        }
        #pragma unroll 1
        for (; n + 3 < s.tile_end; n += 2) {
          {
            named_barrier_sync(4, 256);
            const float top_0 = row_bases[0 + 16 * warp + (lane >> 2)], top_1 = row_bases[8 + 16 * warp + (lane >> 2)];
            if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1)) {
              const float alpha_0 = rescale_factor(row_max_0, top_0, factor); row_sum_0 *= alpha_0; row_max_0 = top_0;
              const float alpha_1 = rescale_factor(row_max_1, top_1, factor); row_sum_1 *= alpha_1; row_max_1 = top_1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 2048);
            const u32 p_low = hidden(((smem_k + v_stage * 73728 + 65536) >> 4) | 0x10000u);
            wgmma_fence();
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 0, 0x40000040u), descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 2, 0x40000040u), descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 4, 0x40000040u), descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 6, 0x40000040u), descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          const int own = n + 1;
          {
            const int n = own;
            // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
            const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
            if (v_rows < 64) {
              named_barrier_sync(7, 128);  // all products with K are done
              for (int i = v_rows * 8 + threadIdx.x % 128; i < 512; i += 128) {
                zero_16_bytes(smem_k + k_stage * 73728 + 0 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 8192 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 16384 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 24576 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 32768 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 40960 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 49152 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 57344 + i * 16);
              }
              fence_proxy_async();
            }
            if ((n + 1) * 64 > clean_end) {
              // keys past the row's own position or the end of the sequence do not count
              const int end_0 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 0 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
              const int end_1 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 8 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
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
            }
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
            // Keep the old maximum while no row of the warp grew by more than 2^8.
            const bool grew = (max_0 - row_max_0) * factor > 8.0f || (max_1 - row_max_1) * factor > 8.0f;
            const bool rescale = __any_sync(0xffffffffu, grew);
            if (rescale) {
              alpha_0 = rescale_factor(row_max_0, max_0, factor); row_sum_0 *= alpha_0; row_max_0 = max_0;
              alpha_1 = rescale_factor(row_max_1, max_1, factor); row_sum_1 *= alpha_1; row_max_1 = max_1;
            }
            float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, factor);
            float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, factor);
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
            s_acc[0] = exp2_approx(fmaf(s_acc[0], factor, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], factor, -shift_0));
            s_acc[2] = exp2_approx(fmaf(s_acc[2], factor, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], factor, -shift_1));
            s_acc[4] = exp2_approx(fmaf(s_acc[4], factor, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], factor, -shift_0));
            s_acc[6] = exp2_approx(fmaf(s_acc[6], factor, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], factor, -shift_1));
            s_acc[8] = exp2_approx(fmaf(s_acc[8], factor, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], factor, -shift_0));
            s_acc[10] = exp2_approx(fmaf(s_acc[10], factor, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], factor, -shift_1));
            s_acc[12] = exp2_approx(fmaf(s_acc[12], factor, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], factor, -shift_0));
            s_acc[14] = exp2_approx(fmaf(s_acc[14], factor, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], factor, -shift_1));
            s_acc[16] = exp2_approx(fmaf(s_acc[16], factor, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], factor, -shift_0));
            s_acc[18] = exp2_approx(fmaf(s_acc[18], factor, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], factor, -shift_1));
            s_acc[20] = exp2_approx(fmaf(s_acc[20], factor, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], factor, -shift_0));
            s_acc[22] = exp2_approx(fmaf(s_acc[22], factor, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], factor, -shift_1));
            s_acc[24] = exp2_approx(fmaf(s_acc[24], factor, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], factor, -shift_0));
            s_acc[26] = exp2_approx(fmaf(s_acc[26], factor, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], factor, -shift_1));
            s_acc[28] = exp2_approx(fmaf(s_acc[28], factor, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], factor, -shift_0));
            s_acc[30] = exp2_approx(fmaf(s_acc[30], factor, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], factor, -shift_1));
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
            p[0] = pack_bf16(s_acc[0], s_acc[1]);
            p[1] = pack_bf16(s_acc[2], s_acc[3]);
            p[2] = pack_bf16(s_acc[4], s_acc[5]);
            p[3] = pack_bf16(s_acc[6], s_acc[7]);
            p[4] = pack_bf16(s_acc[8], s_acc[9]);
            p[5] = pack_bf16(s_acc[10], s_acc[11]);
            p[6] = pack_bf16(s_acc[12], s_acc[13]);
            p[7] = pack_bf16(s_acc[14], s_acc[15]);
            p[8] = pack_bf16(s_acc[16], s_acc[17]);
            p[9] = pack_bf16(s_acc[18], s_acc[19]);
            p[10] = pack_bf16(s_acc[20], s_acc[21]);
            p[11] = pack_bf16(s_acc[22], s_acc[23]);
            p[12] = pack_bf16(s_acc[24], s_acc[25]);
            p[13] = pack_bf16(s_acc[26], s_acc[27]);
            p[14] = pack_bf16(s_acc[28], s_acc[29]);
            p[15] = pack_bf16(s_acc[30], s_acc[31]);
            // P and its base, for the other warpgroup
            if ((lane & 3) == 0) {
              row_bases[64 + 16 * warp + (lane >> 2)] = row_max_0; row_bases[72 + 16 * warp + (lane >> 2)] = row_max_1;
            }
            named_barrier_sync(7, 128);  // all products with K are done: P takes the place of a panel
            const u32 p_row = smem_k + k_stage * 73728 + 65536 + (16 * warp + (lane & 15)) * 128;
            stmatrix_x4(p_row + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), p[0], p[1], p[2], p[3]);
            stmatrix_x4(p_row + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), p[4], p[5], p[6], p[7]);
            stmatrix_x4(p_row + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), p[8], p[9], p[10], p[11]);
            stmatrix_x4(p_row + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), p[12], p[13], p[14], p[15]);
            fence_proxy_async();
            named_barrier_arrive(5, 256);
            WGMMA_WAIT(0);
            if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
            v_phase ^= v_stage; v_stage ^= 1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            {
              const u32 v_low = hidden(v_desc + v_stage * 4608 + 2048);
              wgmma_fence();
              wgmma_m64n256k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
          named_barrier_sync(2, 256);
          // S = Q K'
          mbarrier_wait(mbar_k_full + k_stage * 16, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 512, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 514, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 516, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 518, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1024, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1026, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1028, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1030, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1536, 0x40000040u), descriptor(k_low + 1536, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1538, 0x40000040u), descriptor(k_low + 1538, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1540, 0x40000040u), descriptor(k_low + 1540, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 1542, 0x40000040u), descriptor(k_low + 1542, 0x40000040u));
              wgmma_commit();
            }
          }
          mbarrier_wait(mbar_k_full + k_stage * 16 + 8, k_phase);
          {
            const u32 k_low = hidden(k_desc + k_stage * 4608), q_low = hidden(q_desc);
            {
              const u32 q_desc = q_low;
              wgmma_fence();
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2048, 0x40000040u), descriptor(k_low + 2048, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2050, 0x40000040u), descriptor(k_low + 2050, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2052, 0x40000040u), descriptor(k_low + 2052, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2054, 0x40000040u), descriptor(k_low + 2054, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2560, 0x40000040u), descriptor(k_low + 2560, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2562, 0x40000040u), descriptor(k_low + 2562, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2564, 0x40000040u), descriptor(k_low + 2564, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 2566, 0x40000040u), descriptor(k_low + 2566, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3072, 0x40000040u), descriptor(k_low + 3072, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3074, 0x40000040u), descriptor(k_low + 3074, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3076, 0x40000040u), descriptor(k_low + 3076, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3078, 0x40000040u), descriptor(k_low + 3078, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3584, 0x40000040u), descriptor(k_low + 3584, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3586, 0x40000040u), descriptor(k_low + 3586, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3588, 0x40000040u), descriptor(k_low + 3588, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 3590, 0x40000040u), descriptor(k_low + 3590, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4096, 0x40000040u), descriptor(k_low + 4096, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4098, 0x40000040u), descriptor(k_low + 4098, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4100, 0x40000040u), descriptor(k_low + 4100, 0x40000040u));
              wgmma_m64n64k16_ss(s_acc, descriptor(q_desc + 4102, 0x40000040u), descriptor(k_low + 4102, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
        }
        if (n + 1 < s.tile_end) {
          {
            named_barrier_sync(4, 256);
            const float top_0 = row_bases[0 + 16 * warp + (lane >> 2)], top_1 = row_bases[8 + 16 * warp + (lane >> 2)];
            if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1)) {
              const float alpha_0 = rescale_factor(row_max_0, top_0, factor); row_sum_0 *= alpha_0; row_max_0 = top_0;
              const float alpha_1 = rescale_factor(row_max_1, top_1, factor); row_sum_1 *= alpha_1; row_max_1 = top_1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 2048);
            const u32 p_low = hidden(((smem_k + v_stage * 73728 + 65536) >> 4) | 0x10000u);
            wgmma_fence();
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 0, 0x40000040u), descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 2, 0x40000040u), descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 4, 0x40000040u), descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 6, 0x40000040u), descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          const int own = n + 1;
          {
            const int n = own;
            // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
            const int v_rows = max(s.sequence.seqlen_k - n * 64, 0);
            if (v_rows < 64) {
              named_barrier_sync(7, 128);  // all products with K are done
              for (int i = v_rows * 8 + threadIdx.x % 128; i < 512; i += 128) {
                zero_16_bytes(smem_k + k_stage * 73728 + 0 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 8192 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 16384 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 24576 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 32768 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 40960 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 49152 + i * 16);
                zero_16_bytes(smem_k + k_stage * 73728 + 57344 + i * 16);
              }
              fence_proxy_async();
            }
            if ((n + 1) * 64 > clean_end) {
              // keys past the row's own position or the end of the sequence do not count
              const int end_0 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 0 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
              const int end_1 = min(s.sequence.seqlen_k,
                  (s.m_block * 64 + 16 * warp + 8 + (lane >> 2)) / group + s.sequence.seqlen_k - s.sequence.seqlen_q + 1) - (n * 64)
                  - 2 * (lane & 3);
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
            }
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
            // Keep the old maximum while no row of the warp grew by more than 2^8.
            const bool grew = (max_0 - row_max_0) * factor > 8.0f || (max_1 - row_max_1) * factor > 8.0f;
            const bool rescale = __any_sync(0xffffffffu, grew);
            if (rescale) {
              alpha_0 = rescale_factor(row_max_0, max_0, factor); row_sum_0 *= alpha_0; row_max_0 = max_0;
              alpha_1 = rescale_factor(row_max_1, max_1, factor); row_sum_1 *= alpha_1; row_max_1 = max_1;
            }
            float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, factor);
            float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, factor);
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
            s_acc[0] = exp2_approx(fmaf(s_acc[0], factor, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], factor, -shift_0));
            s_acc[2] = exp2_approx(fmaf(s_acc[2], factor, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], factor, -shift_1));
            s_acc[4] = exp2_approx(fmaf(s_acc[4], factor, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], factor, -shift_0));
            s_acc[6] = exp2_approx(fmaf(s_acc[6], factor, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], factor, -shift_1));
            s_acc[8] = exp2_approx(fmaf(s_acc[8], factor, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], factor, -shift_0));
            s_acc[10] = exp2_approx(fmaf(s_acc[10], factor, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], factor, -shift_1));
            s_acc[12] = exp2_approx(fmaf(s_acc[12], factor, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], factor, -shift_0));
            s_acc[14] = exp2_approx(fmaf(s_acc[14], factor, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], factor, -shift_1));
            s_acc[16] = exp2_approx(fmaf(s_acc[16], factor, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], factor, -shift_0));
            s_acc[18] = exp2_approx(fmaf(s_acc[18], factor, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], factor, -shift_1));
            s_acc[20] = exp2_approx(fmaf(s_acc[20], factor, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], factor, -shift_0));
            s_acc[22] = exp2_approx(fmaf(s_acc[22], factor, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], factor, -shift_1));
            s_acc[24] = exp2_approx(fmaf(s_acc[24], factor, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], factor, -shift_0));
            s_acc[26] = exp2_approx(fmaf(s_acc[26], factor, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], factor, -shift_1));
            s_acc[28] = exp2_approx(fmaf(s_acc[28], factor, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], factor, -shift_0));
            s_acc[30] = exp2_approx(fmaf(s_acc[30], factor, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], factor, -shift_1));
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
            p[0] = pack_bf16(s_acc[0], s_acc[1]);
            p[1] = pack_bf16(s_acc[2], s_acc[3]);
            p[2] = pack_bf16(s_acc[4], s_acc[5]);
            p[3] = pack_bf16(s_acc[6], s_acc[7]);
            p[4] = pack_bf16(s_acc[8], s_acc[9]);
            p[5] = pack_bf16(s_acc[10], s_acc[11]);
            p[6] = pack_bf16(s_acc[12], s_acc[13]);
            p[7] = pack_bf16(s_acc[14], s_acc[15]);
            p[8] = pack_bf16(s_acc[16], s_acc[17]);
            p[9] = pack_bf16(s_acc[18], s_acc[19]);
            p[10] = pack_bf16(s_acc[20], s_acc[21]);
            p[11] = pack_bf16(s_acc[22], s_acc[23]);
            p[12] = pack_bf16(s_acc[24], s_acc[25]);
            p[13] = pack_bf16(s_acc[26], s_acc[27]);
            p[14] = pack_bf16(s_acc[28], s_acc[29]);
            p[15] = pack_bf16(s_acc[30], s_acc[31]);
            // P and its base, for the other warpgroup
            if ((lane & 3) == 0) {
              row_bases[64 + 16 * warp + (lane >> 2)] = row_max_0; row_bases[72 + 16 * warp + (lane >> 2)] = row_max_1;
            }
            named_barrier_sync(7, 128);  // all products with K are done: P takes the place of a panel
            const u32 p_row = smem_k + k_stage * 73728 + 65536 + (16 * warp + (lane & 15)) * 128;
            stmatrix_x4(p_row + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), p[0], p[1], p[2], p[3]);
            stmatrix_x4(p_row + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), p[4], p[5], p[6], p[7]);
            stmatrix_x4(p_row + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), p[8], p[9], p[10], p[11]);
            stmatrix_x4(p_row + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), p[12], p[13], p[14], p[15]);
            fence_proxy_async();
            named_barrier_arrive(5, 256);
            WGMMA_WAIT(0);
            if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
            v_phase ^= v_stage; v_stage ^= 1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            {
              const u32 v_low = hidden(v_desc + v_stage * 4608 + 2048);
              wgmma_fence();
              wgmma_m64n256k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
              wgmma_m64n256k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
              wgmma_commit();
            }
          }
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
          n += 2;
        }
        if (n < s.tile_end) {
          {
            named_barrier_sync(4, 256);
            const float top_0 = row_bases[0 + 16 * warp + (lane >> 2)], top_1 = row_bases[8 + 16 * warp + (lane >> 2)];
            if (__any_sync(0xffffffffu, top_0 != row_max_0 || top_1 != row_max_1)) {
              const float alpha_0 = rescale_factor(row_max_0, top_0, factor); row_sum_0 *= alpha_0; row_max_0 = top_0;
              const float alpha_1 = rescale_factor(row_max_1, top_1, factor); row_sum_1 *= alpha_1; row_max_1 = top_1;
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
              o_acc[64] *= alpha_0; o_acc[65] *= alpha_0; o_acc[66] *= alpha_1; o_acc[67] *= alpha_1;
              o_acc[68] *= alpha_0; o_acc[69] *= alpha_0; o_acc[70] *= alpha_1; o_acc[71] *= alpha_1;
              o_acc[72] *= alpha_0; o_acc[73] *= alpha_0; o_acc[74] *= alpha_1; o_acc[75] *= alpha_1;
              o_acc[76] *= alpha_0; o_acc[77] *= alpha_0; o_acc[78] *= alpha_1; o_acc[79] *= alpha_1;
              o_acc[80] *= alpha_0; o_acc[81] *= alpha_0; o_acc[82] *= alpha_1; o_acc[83] *= alpha_1;
              o_acc[84] *= alpha_0; o_acc[85] *= alpha_0; o_acc[86] *= alpha_1; o_acc[87] *= alpha_1;
              o_acc[88] *= alpha_0; o_acc[89] *= alpha_0; o_acc[90] *= alpha_1; o_acc[91] *= alpha_1;
              o_acc[92] *= alpha_0; o_acc[93] *= alpha_0; o_acc[94] *= alpha_1; o_acc[95] *= alpha_1;
              o_acc[96] *= alpha_0; o_acc[97] *= alpha_0; o_acc[98] *= alpha_1; o_acc[99] *= alpha_1;
              o_acc[100] *= alpha_0; o_acc[101] *= alpha_0; o_acc[102] *= alpha_1; o_acc[103] *= alpha_1;
              o_acc[104] *= alpha_0; o_acc[105] *= alpha_0; o_acc[106] *= alpha_1; o_acc[107] *= alpha_1;
              o_acc[108] *= alpha_0; o_acc[109] *= alpha_0; o_acc[110] *= alpha_1; o_acc[111] *= alpha_1;
              o_acc[112] *= alpha_0; o_acc[113] *= alpha_0; o_acc[114] *= alpha_1; o_acc[115] *= alpha_1;
              o_acc[116] *= alpha_0; o_acc[117] *= alpha_0; o_acc[118] *= alpha_1; o_acc[119] *= alpha_1;
              o_acc[120] *= alpha_0; o_acc[121] *= alpha_0; o_acc[122] *= alpha_1; o_acc[123] *= alpha_1;
              o_acc[124] *= alpha_0; o_acc[125] *= alpha_0; o_acc[126] *= alpha_1; o_acc[127] *= alpha_1;
            }
            const u32 v_low = hidden(v_desc + v_stage * 4608 + 2048);
            const u32 p_low = hidden(((smem_k + v_stage * 73728 + 65536) >> 4) | 0x10000u);
            wgmma_fence();
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 0, 0x40000040u), descriptor(v_low + 0, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 2, 0x40000040u), descriptor(v_low + 128, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 4, 0x40000040u), descriptor(v_low + 256, 0x40000040u));
            wgmma_m64n256k16_ss(o_acc, descriptor(p_low + 6, 0x40000040u), descriptor(v_low + 384, 0x40000040u));
            wgmma_commit();
          }
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 16 + 8);
          v_phase ^= v_stage; v_stage ^= 1;
        }
      }
      range.position = (unsigned)kept[0];
      range.end = (unsigned)kept[1];
      range.total = (unsigned)kept[2];
      range.teams = (unsigned)kept[3];
      range.cell = (unsigned)kept[4];
      range.batch_start = (unsigned)kept[5];
      s.item_start = (unsigned)kept[6];
      range.slots = (int)kept[7];
      range.m_blocks = (int)kept[8];
      range.batch = (int)kept[9];
      range.first = (int)kept[10];
      s.batch = (int)kept[11];
      s.kv_head = (int)kept[12];
      s.item = (int)kept[13];
      s.whole = (int)kept[14];
      s.sequence.q_start = (int)kept[15];
      s.sequence.num_tiles = (int)kept[16];
      s.second_slot = (int)kept[17];
      s.m_block = (int)kept[18];
      const int lane = thread_here() % 32;

      // ---- row sums over the lanes and warps
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 1);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 1);
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 2);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 2);
      // each warpgroup has the sums of its own tiles
      float* const row_sums = row_bases + 128;
      if ((lane & 3) == 0) {
        row_sums[half * 64 + 16 * warp + (lane >> 2) + 0] = row_sum_0;
        row_sums[half * 64 + 16 * warp + (lane >> 2) + 8] = row_sum_1;
      }
      named_barrier_sync(1, 256);
      row_sum_0 = row_sums[16 * warp + (lane >> 2) + 0] + row_sums[64 + 16 * warp + (lane >> 2) + 0];
      row_sum_1 = row_sums[16 * warp + (lane >> 2) + 8] + row_sums[64 + 16 * warp + (lane >> 2) + 8];

      // ---- output
      bool odd = false;  // some column of O is not finite
      if (s.whole) {
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
        odd_0 = fmaf(o_acc[64], o_acc[65], odd_0);
        odd_1 = fmaf(o_acc[68], o_acc[69], odd_1);
        odd_0 = fmaf(o_acc[72], o_acc[73], odd_0);
        odd_1 = fmaf(o_acc[76], o_acc[77], odd_1);
        odd_0 = fmaf(o_acc[80], o_acc[81], odd_0);
        odd_1 = fmaf(o_acc[84], o_acc[85], odd_1);
        odd_0 = fmaf(o_acc[88], o_acc[89], odd_0);
        odd_1 = fmaf(o_acc[92], o_acc[93], odd_1);
        odd_0 = fmaf(o_acc[96], o_acc[97], odd_0);
        odd_1 = fmaf(o_acc[100], o_acc[101], odd_1);
        odd_0 = fmaf(o_acc[104], o_acc[105], odd_0);
        odd_1 = fmaf(o_acc[108], o_acc[109], odd_1);
        odd_0 = fmaf(o_acc[112], o_acc[113], odd_0);
        odd_1 = fmaf(o_acc[116], o_acc[117], odd_1);
        odd_0 = fmaf(o_acc[120], o_acc[121], odd_0);
        odd_1 = fmaf(o_acc[124], o_acc[125], odd_1);
        odd = !((odd_0 + odd_1) * 0.0f == 0.0f);
        // the whole item: through shared memory, so that rows leave in 16-byte words
        float inv_sum[2];
        {
          const int packed = s.m_block * 64 + (16 * warp + 0 + (lane >> 2)), head = s.kv_head * group + packed % group;
          const float top = row_max_0 * (factor * 0.693147181f), sum = row_sum_0;
          inv_sum[0] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (half == 0 && (lane & 3) == 0 && (16 * warp + 0 + (lane >> 2)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        {
          const int packed = s.m_block * 64 + (16 * warp + 8 + (lane >> 2)), head = s.kv_head * group + packed % group;
          const float top = row_max_1 * (factor * 0.693147181f), sum = row_sum_1;
          inv_sum[1] = sum != 0.0f ? 1.0f / sum : 0.0f;
          if (half == 0 && (lane & 3) == 0 && (16 * warp + 8 + (lane >> 2)) < rows) lse[(long long)head * total_q + s.sequence.q_start
              + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
        }
        named_barrier_sync(1, 256);
        const u32 o_row = smem_o + half * 32768 + (16 * warp + (lane & 15)) * 128;
        stmatrix_x4(o_row + 0 + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[0] * inv_sum[0], o_acc[1] * inv_sum[0]),
            pack_bf16(o_acc[2] * inv_sum[1], o_acc[3] * inv_sum[1]), pack_bf16(o_acc[4] * inv_sum[0], o_acc[5] * inv_sum[0]),
            pack_bf16(o_acc[6] * inv_sum[1], o_acc[7] * inv_sum[1]));
        stmatrix_x4(o_row + 0 + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[8] * inv_sum[0], o_acc[9] * inv_sum[0]),
            pack_bf16(o_acc[10] * inv_sum[1], o_acc[11] * inv_sum[1]), pack_bf16(o_acc[12] * inv_sum[0], o_acc[13] * inv_sum[0]),
            pack_bf16(o_acc[14] * inv_sum[1], o_acc[15] * inv_sum[1]));
        stmatrix_x4(o_row + 0 + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[16] * inv_sum[0], o_acc[17] * inv_sum[0]),
            pack_bf16(o_acc[18] * inv_sum[1], o_acc[19] * inv_sum[1]), pack_bf16(o_acc[20] * inv_sum[0], o_acc[21] * inv_sum[0]),
            pack_bf16(o_acc[22] * inv_sum[1], o_acc[23] * inv_sum[1]));
        stmatrix_x4(o_row + 0 + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[24] * inv_sum[0], o_acc[25] * inv_sum[0]),
            pack_bf16(o_acc[26] * inv_sum[1], o_acc[27] * inv_sum[1]), pack_bf16(o_acc[28] * inv_sum[0], o_acc[29] * inv_sum[0]),
            pack_bf16(o_acc[30] * inv_sum[1], o_acc[31] * inv_sum[1]));
        stmatrix_x4(o_row + 8192 + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[32] * inv_sum[0], o_acc[33] * inv_sum[0]),
            pack_bf16(o_acc[34] * inv_sum[1], o_acc[35] * inv_sum[1]), pack_bf16(o_acc[36] * inv_sum[0], o_acc[37] * inv_sum[0]),
            pack_bf16(o_acc[38] * inv_sum[1], o_acc[39] * inv_sum[1]));
        stmatrix_x4(o_row + 8192 + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[40] * inv_sum[0], o_acc[41] * inv_sum[0]),
            pack_bf16(o_acc[42] * inv_sum[1], o_acc[43] * inv_sum[1]), pack_bf16(o_acc[44] * inv_sum[0], o_acc[45] * inv_sum[0]),
            pack_bf16(o_acc[46] * inv_sum[1], o_acc[47] * inv_sum[1]));
        stmatrix_x4(o_row + 8192 + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[48] * inv_sum[0], o_acc[49] * inv_sum[0]),
            pack_bf16(o_acc[50] * inv_sum[1], o_acc[51] * inv_sum[1]), pack_bf16(o_acc[52] * inv_sum[0], o_acc[53] * inv_sum[0]),
            pack_bf16(o_acc[54] * inv_sum[1], o_acc[55] * inv_sum[1]));
        stmatrix_x4(o_row + 8192 + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[56] * inv_sum[0], o_acc[57] * inv_sum[0]),
            pack_bf16(o_acc[58] * inv_sum[1], o_acc[59] * inv_sum[1]), pack_bf16(o_acc[60] * inv_sum[0], o_acc[61] * inv_sum[0]),
            pack_bf16(o_acc[62] * inv_sum[1], o_acc[63] * inv_sum[1]));
        stmatrix_x4(o_row + 16384 + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[64] * inv_sum[0], o_acc[65] * inv_sum[0]),
            pack_bf16(o_acc[66] * inv_sum[1], o_acc[67] * inv_sum[1]), pack_bf16(o_acc[68] * inv_sum[0], o_acc[69] * inv_sum[0]),
            pack_bf16(o_acc[70] * inv_sum[1], o_acc[71] * inv_sum[1]));
        stmatrix_x4(o_row + 16384 + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[72] * inv_sum[0], o_acc[73] * inv_sum[0]),
            pack_bf16(o_acc[74] * inv_sum[1], o_acc[75] * inv_sum[1]), pack_bf16(o_acc[76] * inv_sum[0], o_acc[77] * inv_sum[0]),
            pack_bf16(o_acc[78] * inv_sum[1], o_acc[79] * inv_sum[1]));
        stmatrix_x4(o_row + 16384 + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[80] * inv_sum[0], o_acc[81] * inv_sum[0]),
            pack_bf16(o_acc[82] * inv_sum[1], o_acc[83] * inv_sum[1]), pack_bf16(o_acc[84] * inv_sum[0], o_acc[85] * inv_sum[0]),
            pack_bf16(o_acc[86] * inv_sum[1], o_acc[87] * inv_sum[1]));
        stmatrix_x4(o_row + 16384 + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[88] * inv_sum[0], o_acc[89] * inv_sum[0]),
            pack_bf16(o_acc[90] * inv_sum[1], o_acc[91] * inv_sum[1]), pack_bf16(o_acc[92] * inv_sum[0], o_acc[93] * inv_sum[0]),
            pack_bf16(o_acc[94] * inv_sum[1], o_acc[95] * inv_sum[1]));
        stmatrix_x4(o_row + 24576 + (((0 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[96] * inv_sum[0], o_acc[97] * inv_sum[0]),
            pack_bf16(o_acc[98] * inv_sum[1], o_acc[99] * inv_sum[1]), pack_bf16(o_acc[100] * inv_sum[0], o_acc[101] * inv_sum[0]),
            pack_bf16(o_acc[102] * inv_sum[1], o_acc[103] * inv_sum[1]));
        stmatrix_x4(o_row + 24576 + (((2 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[104] * inv_sum[0], o_acc[105] * inv_sum[0]),
            pack_bf16(o_acc[106] * inv_sum[1], o_acc[107] * inv_sum[1]), pack_bf16(o_acc[108] * inv_sum[0], o_acc[109] * inv_sum[0]),
            pack_bf16(o_acc[110] * inv_sum[1], o_acc[111] * inv_sum[1]));
        stmatrix_x4(o_row + 24576 + (((4 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[112] * inv_sum[0], o_acc[113] * inv_sum[0]),
            pack_bf16(o_acc[114] * inv_sum[1], o_acc[115] * inv_sum[1]), pack_bf16(o_acc[116] * inv_sum[0], o_acc[117] * inv_sum[0]),
            pack_bf16(o_acc[118] * inv_sum[1], o_acc[119] * inv_sum[1]));
        stmatrix_x4(o_row + 24576 + (((6 + (lane >> 4)) ^ (lane & 7)) << 4), pack_bf16(o_acc[120] * inv_sum[0], o_acc[121] * inv_sum[0]),
            pack_bf16(o_acc[122] * inv_sum[1], o_acc[123] * inv_sum[1]), pack_bf16(o_acc[124] * inv_sum[0], o_acc[125] * inv_sum[0]),
            pack_bf16(o_acc[126] * inv_sum[1], o_acc[127] * inv_sum[1]));
        named_barrier_sync(1, 256);
        {
          // a thread has one chunk of each row, 4 rows apart
          const int thread = thread_here(), first = thread / 64, c = thread % 64;
          const int step_position = 4 / group, step_of_group = 4 % group;
          int position = (s.m_block * 64 + first) / group, of_group = (s.m_block * 64 + first) % group;
          #pragma unroll 1
          for (int r = first; r < rows; r += 4) {
            copy_16_bytes(o + (s.sequence.q_start + position) * o_stride_seq + (s.kv_head * group + of_group) * o_stride_head + 8 * c,
                smem_o + (c / 8) * 8192 + r * 128 + (((c % 8) ^ (r % 8)) << 4));
            position += step_position; of_group += step_of_group;
            if (of_group >= group) { of_group -= group; ++position; }
          }
        }
        named_barrier_sync(1, 256);
      } else {
        // this block's part
        float* const part = workspace + ((range.cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll + s.second_slot)
            * 32896;
        const int here = thread_here(), lane = here % 32, warp = here / 32 % 4;
        float4* const at = (float4*)part + (half * 4 + warp) * 1024 + lane;
        at[0] = make_float4(o_acc[0], o_acc[1], o_acc[4], o_acc[5]);
        at[32] = make_float4(o_acc[2], o_acc[3], o_acc[6], o_acc[7]);
        at[64] = make_float4(o_acc[8], o_acc[9], o_acc[12], o_acc[13]);
        at[96] = make_float4(o_acc[10], o_acc[11], o_acc[14], o_acc[15]);
        at[128] = make_float4(o_acc[16], o_acc[17], o_acc[20], o_acc[21]);
        at[160] = make_float4(o_acc[18], o_acc[19], o_acc[22], o_acc[23]);
        at[192] = make_float4(o_acc[24], o_acc[25], o_acc[28], o_acc[29]);
        at[224] = make_float4(o_acc[26], o_acc[27], o_acc[30], o_acc[31]);
        at[256] = make_float4(o_acc[32], o_acc[33], o_acc[36], o_acc[37]);
        at[288] = make_float4(o_acc[34], o_acc[35], o_acc[38], o_acc[39]);
        at[320] = make_float4(o_acc[40], o_acc[41], o_acc[44], o_acc[45]);
        at[352] = make_float4(o_acc[42], o_acc[43], o_acc[46], o_acc[47]);
        at[384] = make_float4(o_acc[48], o_acc[49], o_acc[52], o_acc[53]);
        at[416] = make_float4(o_acc[50], o_acc[51], o_acc[54], o_acc[55]);
        at[448] = make_float4(o_acc[56], o_acc[57], o_acc[60], o_acc[61]);
        at[480] = make_float4(o_acc[58], o_acc[59], o_acc[62], o_acc[63]);
        at[512] = make_float4(o_acc[64], o_acc[65], o_acc[68], o_acc[69]);
        at[544] = make_float4(o_acc[66], o_acc[67], o_acc[70], o_acc[71]);
        at[576] = make_float4(o_acc[72], o_acc[73], o_acc[76], o_acc[77]);
        at[608] = make_float4(o_acc[74], o_acc[75], o_acc[78], o_acc[79]);
        at[640] = make_float4(o_acc[80], o_acc[81], o_acc[84], o_acc[85]);
        at[672] = make_float4(o_acc[82], o_acc[83], o_acc[86], o_acc[87]);
        at[704] = make_float4(o_acc[88], o_acc[89], o_acc[92], o_acc[93]);
        at[736] = make_float4(o_acc[90], o_acc[91], o_acc[94], o_acc[95]);
        at[768] = make_float4(o_acc[96], o_acc[97], o_acc[100], o_acc[101]);
        at[800] = make_float4(o_acc[98], o_acc[99], o_acc[102], o_acc[103]);
        at[832] = make_float4(o_acc[104], o_acc[105], o_acc[108], o_acc[109]);
        at[864] = make_float4(o_acc[106], o_acc[107], o_acc[110], o_acc[111]);
        at[896] = make_float4(o_acc[112], o_acc[113], o_acc[116], o_acc[117]);
        at[928] = make_float4(o_acc[114], o_acc[115], o_acc[118], o_acc[119]);
        at[960] = make_float4(o_acc[120], o_acc[121], o_acc[124], o_acc[125]);
        at[992] = make_float4(o_acc[122], o_acc[123], o_acc[126], o_acc[127]);
        if (half == 0 && (lane & 3) == 0) *(float2*)(part + 32768 + 2 * (16 * warp + (lane >> 2))) = make_float2(row_max_0, row_sum_0);
        if (half == 0 && (lane & 3) == 0) *(float2*)(part + 32784 + 2 * (16 * warp + (lane >> 2))) = make_float2(row_max_1, row_sum_1);
        named_barrier_sync(1, 256);
        const Split split = split_of(range, s);
        const bool waits = range.position >= range.end;
        if (threadIdx.x == 0) share_parts(item_counters + s.item, split.parts, waits, own_share);
        named_barrier_sync(1, 256);
        const int share = own_share[0], shares = own_share[1];
        if (share >= 0) {
          // all parts are there: this block has units 256 / shares * share ..., rows eight by eight
          const long long stride = problem.team_heads * 2ll * 32896;
          const float* const parts = workspace + (split.first_cell * problem.team_heads + (int)block_id() % problem.team_heads) * 2ll
              * 32896;
          const int shift = split.first_second ? 32896 : 0;  // part 0 may be the second of its block
          const int thread = thread_here(), lane = thread % 32;
          const int each = (255 + shares) / shares, own_end = min((share + 1) * each, 256);
          const int units_at_once = (split.parts <= 8 ? 4 : 1) * 32;
          float* const weights = (float*)(smem_bytes + 147456);  // where Q was
          #pragma unroll 1
          for (int begin = share * each, end; begin < own_end; begin = end) {
            end = min(begin / 32 * 32 + units_at_once, own_end);
            const int row_groups = (end - 1) / 32 - begin / 32 + 1;
            // weights of the parts of each row: of up to 8 parts four rows a warp at once
            const int width = split.parts <= 8 ? 8 : 32, of_row = lane % width, rows_each = 32 / width;
            #pragma unroll 1
            for (int at = thread / 32 * rows_each; at < 8 * row_groups; at += 8 * rows_each) {
              const int r = at + lane / width, row = 8 * (begin / 32) + r;
              float2 first[4];
              float top = -kInfinity, sum = 0.0f;
              #pragma unroll
              for (int j = 0; j < 4; ++j) {
                const int i = of_row + width * j;
                first[j] = i < split.parts ? __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 32768 + 2 * row))
                    : make_float2(-kInfinity, 0.0f);
                top = fmaxf(top, first[j].x);
              }
              #pragma unroll 1
              for (int i = of_row + 4 * width; i < split.parts; i += width) top = fmaxf(top,
                  __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 32768 + 2 * row)).x);
              float all = top, inverse = 0.0f;
              for (int step = width / 2; step > 0; step /= 2) all = fmaxf(all, __shfl_xor_sync(0xffffffffu, all, step));
              #pragma unroll
              for (int j = 0; j < 4; ++j) sum += first[j].y * rescale_factor(first[j].x, all, factor);
              #pragma unroll 1
              for (int i = of_row + 4 * width; i < split.parts; i += width) {
                const float2 other = __ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0) + 32768 + 2 * row));
                sum += other.y * rescale_factor(other.x, all, factor);
              }
              for (int step = width / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
              const float total = sum;
              {
                const int packed = s.m_block * 64 + row, head = s.kv_head * group + packed % group;
                const float top = all * (factor * 0.693147181f), sum = total;
                inverse = sum != 0.0f ? 1.0f / sum : 0.0f;
                if (of_row == 0 && row / 8 * 32 >= begin && row < rows) lse[(long long)head * total_q + s.sequence.q_start
                    + packed / group] = sum != 0.0f ? top + log2_approx(sum) * 0.693147181f : -kInfinity;
              }
              #pragma unroll
              for (int j = 0; j < 4; ++j) {
                const int i = of_row + width * j;
                if (i < split.parts) weights[r * split.parts + i] = rescale_factor(first[j].x, all, factor) * inverse;
              }
              #pragma unroll 1
              for (int i = of_row + 4 * width; i < split.parts;
                  i += width) weights[r * split.parts + i] = rescale_factor(__ldcg((const float2*)(parts + i * stride + (i == 0 ? shift : 0)
                  + 32768 + 2 * row)).x, all, factor) * inverse;
            }
            named_barrier_sync(1, 256);
            if (split.parts <= 4) {
              #pragma unroll 1
              for (int first = begin + thread / 32 * 4; first < end; first += 8 * 4) {
                float4 sums[4];
                #pragma unroll
                for (int u = 0; u < 4; ++u) sums[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                #pragma unroll 1
                for (int base = 0; base < split.parts; base += 4) {
                  float4 x[16];
                  #pragma unroll
                  for (int u = 0; u < 4; ++u) {
                    const int unit = first + u, rows_8 = unit / 32, c = unit % 32;
                    const int at = ((c / 16 * 4 + rows_8 / 2) * 32 + c % 16 * 2 + rows_8 % 2) * 128 + 4 * lane;
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                      const int i = base + j;
                      x[u * 4 + j] = i < split.parts && unit < end ? __ldcg((const float4*)(parts + i * stride + (i == 0 ? shift : 0) + at))
                          : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    }
                  }
                  #pragma unroll
                  for (int u = 0; u < 4; ++u) {
                    const int row = 8 * ((first + u) / 32) + (lane >> 2);
                    const float* const row_weights = weights + (row - 8 * (begin / 32)) * split.parts;
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                      const float w = row_weights[min(base + j, split.parts - 1)];
                      const float4 other = x[u * 4 + j];
                      sums[u].x += w * other.x; sums[u].y += w * other.y; sums[u].z += w * other.z; sums[u].w += w * other.w;
                    }
                  }
                }
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                  const int unit = first + u, row = 8 * (unit / 32) + (lane >> 2), column = unit % 32 * 16 + 2 * (lane & 3);
                  const int packed = s.m_block * 64 + row;
                  odd = odd || !(fmaf(sums[u].x, sums[u].y, sums[u].z * sums[u].w) * 0.0f == 0.0f);
                  if (row < rows && unit < end) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 0) = pack_bf16(sums[u].x, sums[u].y); };
                  if (row < rows && unit < end) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 8) = pack_bf16(sums[u].z, sums[u].w); };
                }
              }
            } else if (split.parts <= 8) {
              #pragma unroll 1
              for (int first = begin + thread / 32 * 2; first < end; first += 8 * 2) {
                float4 sums[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u) sums[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                #pragma unroll 1
                for (int base = 0; base < split.parts; base += 8) {
                  float4 x[16];
                  #pragma unroll
                  for (int u = 0; u < 2; ++u) {
                    const int unit = first + u, rows_8 = unit / 32, c = unit % 32;
                    const int at = ((c / 16 * 4 + rows_8 / 2) * 32 + c % 16 * 2 + rows_8 % 2) * 128 + 4 * lane;
                    #pragma unroll
                    for (int j = 0; j < 8; ++j) {
                      const int i = base + j;
                      x[u * 8 + j] = i < split.parts && unit < end ? __ldcg((const float4*)(parts + i * stride + (i == 0 ? shift : 0) + at))
                          : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    }
                  }
                  #pragma unroll
                  for (int u = 0; u < 2; ++u) {
                    const int row = 8 * ((first + u) / 32) + (lane >> 2);
                    const float* const row_weights = weights + (row - 8 * (begin / 32)) * split.parts;
                    #pragma unroll
                    for (int j = 0; j < 8; ++j) {
                      const float w = row_weights[min(base + j, split.parts - 1)];
                      const float4 other = x[u * 8 + j];
                      sums[u].x += w * other.x; sums[u].y += w * other.y; sums[u].z += w * other.z; sums[u].w += w * other.w;
                    }
                  }
                }
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                  const int unit = first + u, row = 8 * (unit / 32) + (lane >> 2), column = unit % 32 * 16 + 2 * (lane & 3);
                  const int packed = s.m_block * 64 + row;
                  odd = odd || !(fmaf(sums[u].x, sums[u].y, sums[u].z * sums[u].w) * 0.0f == 0.0f);
                  if (row < rows && unit < end) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 0) = pack_bf16(sums[u].x, sums[u].y); };
                  if (row < rows && unit < end) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 8) = pack_bf16(sums[u].z, sums[u].w); };
                }
              }
            } else {
              #pragma unroll 1
              for (int first = begin + thread / 32 * 1; first < end; first += 8 * 1) {
                float4 sums[1];
                sums[0] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                #pragma unroll 1
                for (int base = 0; base < split.parts; base += 16) {
                  float4 x[16];
                  {
                    const int unit = first + 0, rows_8 = unit / 32, c = unit % 32;
                    const int at = ((c / 16 * 4 + rows_8 / 2) * 32 + c % 16 * 2 + rows_8 % 2) * 128 + 4 * lane;
                    #pragma unroll
                    for (int j = 0; j < 16; ++j) {
                      const int i = base + j;
                      x[0 * 16 + j] = i < split.parts ? __ldcg((const float4*)(parts + i * stride + (i == 0 ? shift : 0) + at))
                          : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    }
                  }
                  {
                    const int row = 8 * ((first + 0) / 32) + (lane >> 2);
                    const float* const row_weights = weights + (row - 8 * (begin / 32)) * split.parts;
                    #pragma unroll
                    for (int j = 0; j < 16; ++j) {
                      const float w = row_weights[min(base + j, split.parts - 1)];
                      const float4 other = x[0 * 16 + j];
                      sums[0].x += w * other.x; sums[0].y += w * other.y; sums[0].z += w * other.z; sums[0].w += w * other.w;
                    }
                  }
                }
                {
                  const int unit = first + 0, row = 8 * (unit / 32) + (lane >> 2), column = unit % 32 * 16 + 2 * (lane & 3);
                  const int packed = s.m_block * 64 + row;
                  odd = odd || !(fmaf(sums[0].x, sums[0].y, sums[0].z * sums[0].w) * 0.0f == 0.0f);
                  if (row < rows) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 0) = pack_bf16(sums[0].x, sums[0].y); };
                  if (row < rows) { *(u32*)(o + (s.sequence.q_start + packed / group) * o_stride_seq
                      + (s.kv_head * group + packed % group) * o_stride_head + column + 8) = pack_bf16(sums[0].z, sums[0].w); };
                }
              }
            }
            named_barrier_sync(1, 256);  // the weights have been read
          }
        }
        // one block that adds up alone and has not waited looks after its odd rows itself
        if (own_share[2] > 0) {
          if (any_lane(odd) && thread_here() % 32 == 0) atomicOr((u32*)item_counters + s.item, 0x80000000u);
          named_barrier_sync(1, 256);
          // the last block that is done leaves the counter as it was found, and looks after odd rows
          odd = false;
          if (threadIdx.x == 0) {
            const int before = atomic_add_acq_rel(item_counters + s.item, kKnowing);
            const bool last = knows_last(before, own_share[2]);
            if (last) atomicExch(item_counters + s.item, 0);
            odd = last && before < 0;
          }
        }
      }
      if (same(s.sequence.seqlen_q > 1)) {
        if (any_lane(odd) && lane == 0) *(int*)(smem_bytes + 223156) = 1;
        named_barrier_sync(1, 256);
        const int again = *(int*)(smem_bytes + 223156);
        // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
        if (same(again)) {
          const int its_s_m_block = s.m_block;
          const int its_s_kv_head = s.kv_head;
          const int its_s_sequence_first_tile = s.sequence.first_tile;
          const int its_s_sequence_num_tiles = s.sequence.num_tiles;
          const int its_s_sequence_seqlen_k = s.sequence.seqlen_k;
          const int its_s_sequence_q_start = s.sequence.q_start;
          const int its_s_batch = s.batch;
          const int its_s_sequence_seqlen_q = s.sequence.seqlen_q;
          const auto again = [=]() __attribute__((noinline)) {
          const int lane_32 = (int)thread_id() & 31, row_begin = same(its_s_m_block * 64
              + min(((int)threadIdx.x / 32) * ((rows + 7) / 8), rows)),
              row_end = same(its_s_m_block * 64 + min((((int)threadIdx.x / 32) + 1) * ((rows + 7) / 8), rows));
          // the last key past some row's end, and the first one before some row's first, with a V that is not finite
          int highest = -1, lowest = 0x7fffffff;
          {
            const int row = row_begin, last = same(min((its_s_sequence_first_tile + its_s_sequence_num_tiles) * 64,
                its_s_sequence_seqlen_k)) - 1;
        #pragma unroll 1
            for (int first = same(max(min(its_s_sequence_seqlen_k, (row / group + its_s_sequence_seqlen_k - its_s_sequence_seqlen_q) + 1),
                0)); first <= last; first += 32) {
              const int key = min(first + lane_32, last);
              const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key) : -1,
                  page = max(found, 0);
              highest = found < 0 || finite_halves((const u32*)(k + its_s_kv_head * k_stride_head + page * k_stride_page
                  + (key % 64) * k_stride_seq), 256) ? highest : key;
            }
            highest = same(largest_of_lanes(highest));
          }
        #pragma unroll 1
          for (int row = row_begin; row < row_end; ++row) {
            const int begin = same(0), end = same(min(its_s_sequence_seqlen_k,
                (row / group + its_s_sequence_seqlen_k - its_s_sequence_seqlen_q) + 1));
            if (highest < end && lowest >= begin) continue;
            const u32* const query_words = (const u32*)(q + (its_s_sequence_q_start + row / group) * q_stride_seq
                + (its_s_kv_head * group + row % group) * q_stride_head);
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
                const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key) : -1,
                    page = max(found, 0);
                const u32* const key_words = (const u32*)(k + its_s_kv_head * k_stride_head + page * k_stride_page
                    + (key % 64) * k_stride_seq);
                UNROLL_4
                for (int i = 0; i < 256; ++i) {
                  score[0] = fmaf(low_half(query_words[i]), low_half(key_words[i]), score[0]);
                  score[0] = fmaf(high_half(query_words[i]), high_half(key_words[i]), score[0]);
                }
                const u32* const rope_words = (const u32*)(k_rope + its_s_kv_head * k_rope_stride_head + page * k_rope_stride_page
                    + (key % 64) * k_rope_stride_seq);
                UNROLL_4
                for (int i = 0; i < 32; ++i) {
                  score[0] = fmaf(low_half(query_words[256 + i]), low_half(rope_words[i]), score[0]);
                  score[0] = fmaf(high_half(query_words[256 + i]), high_half(rope_words[i]), score[0]);
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
                const int found = key < its_s_sequence_seqlen_k ? page_of(page_table, page_table_stride, num_pages, its_s_batch, key) : -1,
                    page = max(found, 0);
                const bool seen = found >= 0 && lane_float(score[0], j) != -kInfinity;
                const u32* const value_words = (const u32*)(k + its_s_kv_head * k_stride_head + page * k_stride_page
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
            u16* const to = o + (its_s_sequence_q_start + row / group) * o_stride_seq
                + (its_s_kv_head * group + row % group) * o_stride_head;
        #pragma unroll
            for (int i = 0; i < 16; i += 2) {
              const int column = 2 * lane_32 + 32 * i;
              const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
              if (column < 512 && writes_rows()) *(u32*)(to + column) = two;
            }
          }
          };
          again();
        }
        if (same(again)) {
          named_barrier_sync(1, 256);
          if (thread_id() == 0) *(int*)(smem_bytes + 223156) = 0;
        }
      }
    }
  }
  #endif
}
