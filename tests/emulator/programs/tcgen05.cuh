// The instructions of sm_100a that the programs tcgen05_*.cu use, as functions. GROUP is 1 or 2 CTAs.
#pragma once

#include <cstdint>

struct alignas(64) Map {
  char bytes[128];
};

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline bool elected() {
  uint32_t is;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is));
  return is != 0;
}

// --- mbarriers ---
__device__ inline void init_barrier(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ inline void expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ inline void arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ inline void wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\n"
      "bra LAB_WAIT;\nDONE:\n}" ::"r"(bar),
      "r"(parity)
      : "memory");
}

// --- copies ---
template <int GROUP>
__device__ inline void load(uint32_t to, const Map& map, int x, int y, uint32_t bar) {
  if constexpr (GROUP == 1)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(bar)
        : "memory");
  else  // completes on the barrier of the pair's even CTA
    asm volatile(
        "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];" ::"r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(bar & 0xfeffffffu)
        : "memory");
}
__device__ inline void gather(uint32_t to, const Map& map, int x, const int* rows, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5, %6}], [%7];" ::"r"(to),
      "l"(&map), "r"(x), "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(bar)
      : "memory");
}
__device__ inline void load_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(bar)
      : "memory");
}

// --- tensor memory ---
template <int GROUP>
__device__ inline void allocate(uint32_t to, uint32_t columns) {
  if constexpr (GROUP == 1)
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(to),
        "r"(columns)
        : "memory");
  else
    asm volatile(
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::"r"(to),
        "r"(columns)
        : "memory");
}
template <int GROUP>
__device__ inline void release(uint32_t at, uint32_t columns) {
  if constexpr (GROUP == 1)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns) : "memory");
  else
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns) : "memory");
}
/// 16 columns of the warp's lanes, one row a thread.
__device__ inline void read16(uint32_t at, float* v) {
  uint32_t r[16];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, [%16];\n"
      "tcgen05.wait::ld.sync.aligned;"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]),
        "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
      : "r"(at)
      : "memory");
  for (int i = 0; i < 16; ++i) v[i] = __uint_as_float(r[i]);
}
__device__ inline void write8(uint32_t at, const uint32_t* r) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"r"(at), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
               : "memory");
}

// --- products ---
/// Rows of 128 bytes of K with the 128-byte swizzle, groups of 8 rows behind each other.
__device__ inline uint64_t swizzled(uint32_t at) {
  return (at & 0x3ffffu) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 46 |
         uint64_t{2} << 61;
}
/// Rows of 16 bytes behind each other.
__device__ inline uint64_t plain(uint32_t at) {
  return (at & 0x3ffffu) >> 4 | uint64_t{8} << 32 | uint64_t{1} << 46;
}
template <int GROUP>
__device__ inline void multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {
  if constexpr (GROUP == 1)
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
        : "memory");
  else
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::
            "r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
        : "memory");
}
template <int GROUP>
__device__ inline void commit(uint32_t bar) {
  if constexpr (GROUP == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar)
                 : "memory");
  else  // to both CTAs
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::
            "r"(bar),
        "h"(static_cast<uint16_t>(3))
        : "memory");
}
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
