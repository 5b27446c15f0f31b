// Intrinsics of sm_90a: one thin wrapper per hardware instruction. Spellings as in the PTX ISA.
//@ include nvidia.cuh
//@ include ragged_items.cuh

//@ section tensor_map needs types
struct __align__(64) TensorMap { unsigned char bytes[128]; };

//@ section elect_one needs types
// True in one lane of the (converged) warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

//@ section setmaxnreg needs types
#define SETMAXNREG_INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))
#define SETMAXNREG_DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))

//@ section mbarrier_init needs types
__device__ __forceinline__ void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

//@ section fence_mbarrier_init
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

//@ section mbarrier_expect_tx needs types
// Arrives once and tells the barrier how many bytes this phase will receive.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

//@ section mbarrier_arrive needs types
__device__ __forceinline__ void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

//@ section mbarrier_arrive_cluster needs types
// Arrives on the barrier at the same offset in block `cta` of the cluster. It releases memory that was only read, so
// block scope is enough; release at cluster scope would cost a full memory barrier per tile.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 bar, u32 cta) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
      "  mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(bar),
      "r"(cta)
      : "memory");
}

//@ section mbarrier_wait needs types
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

//@ section cluster_rank needs types
__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

//@ section cluster_sync
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

//@ section named_barrier
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

//@ section prefetch_tensor_map needs tensor_map
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

//@ section dependent_launch
// The next launch on the stream may begin its set-up (once every block got here), and this one goes on when the launch before
// has ended and what it wrote is visible.
__device__ __forceinline__ void let_next_launch_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

//@ section tma_prefetch needs tensor_map
// One box of a 4-D tensor to L2.
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}

//@ section tma_prefetch_3d needs tensor_map
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

//@ section tma_prefetch_5d needs tensor_map
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global [%0, {%1, %2, %3, %4, %5}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}

//@ section tma_load needs tensor_map
// One box of a 4-D tensor into shared memory; its bytes complete on `bar`. `policy` is an L2 cache-policy word.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

//@ section tma_load_3d needs tensor_map
// The same of a 3-D tensor.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
      : "memory");
}

//@ section tma_load_5d needs tensor_map
// The same of a 5-D tensor.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, int c4, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
      : "memory");
}

//@ section tma_load_multicast needs tensor_map
// As tma_load, written to the same offset of every block in `mask`, completing on the barrier at that offset there.
__device__ __forceinline__ void tma_load_multicast(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3,
                                                   u64 policy, u16 mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %8, %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy), "h"(mask)
      : "memory");
}

//@ section tma_store needs tensor_map
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

//@ section fence_proxy_async
// Makes this thread's ordinary shared-memory writes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

//@ section wgmma_sync
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

//@ section descriptor needs types
// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

//@ section softcap_log2 needs exp2_approx rcp_approx
// The logit of a score in log2 units, cap * log2 e * tanh(scale * s / cap), where cap_scale is 2 log2 e * scale / cap;
// tanh.approx would be off by up to 2^-11 of the cap. A hidden score (-inf) stays hidden.
__device__ __forceinline__ float softcap_log2(float s, float cap_scale, float cap_log2) {
  return s == -kInfinity ? s : cap_log2 - 2.0f * cap_log2 * rcp_approx(1.0f + exp2_approx(s * cap_scale));
}

//@ section softcap_near
// The same less `shift`, by a polynomial that is near around 0, and farther from 0 than that beyond.
__device__ __forceinline__ float softcap_near(float s, float c1, float c3, float c5, float shift) {
  const float s2 = s * s;
  return fmaf(fmaf(fmaf(c5, s2, c3), s2, c1), s, -shift);
}

//@ section exp2_fma
// 2^x on the FMA pipe: x = integer + fraction, degree-3 polynomial for 2^fraction (relative error below 9e-5, under BF16
// rounding), integer added to the exponent bits. For x < 127; below -127 it stays at 2^-127.
__device__ __forceinline__ float exp2_fma(float x) {
  x = fmaxf(x, -127.0f);
  float r;
  asm("add.rm.ftz.f32 %0, %1, 0f4B400000;" : "=f"(r) : "f"(x));
  const float f = x - (r - 12582912.0f);
  float p = fmaf(0.0771190897f, f, 0.2275643945f);
  p = fmaf(p, f, 0.6951461434f);
  p = fmaf(p, f, 1.0f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(r) << 23));
}

//@ section pack_e4m3 needs types
// Four floats as E4M3, the first in the lowest byte; those over 448 become 448.
__device__ __forceinline__ u32 pack_e4m3(float a, float b, float c, float d) {
  u32 packed;
  asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "  mov.b32 %0, {low, high}; }"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}

//@ section own_register needs types
// Four bytes of P, none negative, in a register of their own: a mere copy would share one with the next P, which is
// written while P V still reads. Volatile, so that it stays before the fence of that product.
__device__ __forceinline__ u32 own_register(u32 x) {
  u32 y;
  asm volatile("and.b32 %0, %1, 0x7f7f7f7f;" : "=r"(y) : "r"(x));
  return y;
}

//@ section hidden needs types
// What all lanes of the warp have, as the compiler cannot know before: else it computes the descriptors that differ from it
// by constants outside of a loop, and has no registers to keep them in.
__device__ __forceinline__ u32 hidden(u32 x) { return __shfl_sync(0xffffffffu, x, 0); }

//@ section thread_here needs types
// The thread's number, read where it is asked for: what follows from it is not computed before a loop that needs all
// registers.
__device__ __forceinline__ int thread_here() {
  u32 thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return (int)thread;
}

//@ section bf16_to_fp16 needs pack_fp16
// Eight BF16 to FP16: exact from 2^-14 to 65504; smaller ones lose bits, larger ones become infinite.
__device__ __forceinline__ u32 bf16x2_to_fp16(u32 x) { return pack_fp16(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)); }
__device__ __forceinline__ uint4 bf16_to_fp16(uint4 x) {
  return make_uint4(bf16x2_to_fp16(x.x), bf16x2_to_fp16(x.y), bf16x2_to_fp16(x.z), bf16x2_to_fp16(x.w));
}

//@ section stmatrix needs types
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}

//@ section stmatrix_trans needs types
// As stmatrix_x4 with every matrix transposed on its way.
__device__ __forceinline__ void stmatrix_x4_trans(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

//@ section stmatrix_x2_trans needs types
// Two of them: lanes 0 to 15 give the addresses.
__device__ __forceinline__ void stmatrix_x2_trans(u32 address, u32 r0, u32 r1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r0), "r"(r1) : "memory");
}

//@ section atomic_add_acq_rel
// Adds, after everything this thread has seen is visible to the device; what the other adders did before is visible after.
__device__ __forceinline__ int atomic_add_acq_rel(int* at, int value) {
  int before;
  asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

//@ section load_acquire
// What is at an address that others add to; what they did before (atomic_add_acq_rel) is visible after.
__device__ __forceinline__ int load_acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

//@ section share_parts needs load_acquire atomic_add_acq_rel
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

//@ section copy_async_16 needs types
// 16 bytes from global to shared memory, on their way when the thread goes on.
__device__ __forceinline__ void copy_async_16(u32 dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
// Returns once this thread's copies are there.
__device__ __forceinline__ void copy_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

//@ section shared_words needs types
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

//@ section load_shared_float2 needs types
__device__ __forceinline__ float2 load_shared_float2(u32 at) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at) : "memory");
  return x;
}

//@ section ldmatrix_trans needs types
// Four 8x8 matrices of 16-bit elements, transposed; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&x)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

//@ section ldmatrix needs types
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

//@ section e4m3_to_fp16 needs types
// The two lower bytes of a word, E4M3 numbers, as two FP16: exact.
__device__ __forceinline__ u32 narrow_to_fp16(u32 word) {
  u32 pair;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(pair) : "r"(word));
  return pair;
}

//@ section int8_to_fp16 needs types
// The two lower bytes of a word, signed, as two FP16: exact. Biased by 128, a byte is the low mantissa of 1024 + byte.
__device__ __forceinline__ u32 narrow_to_fp16(u32 word) {
  u32 pair = __byte_perm(word ^ 0x80808080u, 0x64646464u, 0x4140);
  asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x64806480u));
  return pair;
}

//@ section copy_async_4 needs types
// Four bytes of global memory into shared memory, or zeros (`bytes` 0).
__device__ __forceinline__ void copy_async_4(u32 dst, const float* src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
// Arrives on the barrier when this thread's copies so far are done.
__device__ __forceinline__ void copy_async_arrive(u32 bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

//@ section zero_16_bytes needs types
__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

//@ section copy_16_bytes needs types
// Shared to global memory.
__device__ __forceinline__ void copy_16_bytes(u16* dst, u32 src) {
  asm volatile(
      "{ .reg .b32 a, b, c, d; ld.shared.v4.u32 {a, b, c, d}, [%1]; st.global.v4.u32 [%0], {a, b, c, d}; }" ::"l"(dst), "r"(src)
      : "memory");
}
