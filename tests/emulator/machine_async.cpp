// Asynchronous copies and barriers under every completion policy, and clusters.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

TEST_CASE("cp.async groups complete by their wait") {
  const std::string ptx = kernel(
      "mov.u32 %r1, s; mul.lo.u32 %r2, %t, 4; add.u32 %r1, %r1, %r2; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, "
      "%in;\n"
      "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.ca.shared.global "
      "[%r1+128], [%d1+128], 4, 0; cp.async.commit_group;\n"
      "cp.async.wait_group 1; ld.shared.u32 %r3, [%r1]; cp.async.wait_group 0; ld.shared.u32 %r4, [%r1+128]; "
      "add.u32 %r3, %r3, %r4; st.global.u32 [%o], %r3;",
      ".shared .align 16 .b8 s[256];\n");
  for (const Policy p : kPolicies) {
    const Outcome o = run(ptx, {.policy = p});
    CHECK(o.text() == "");
    for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == l);
  }
}

TEST_CASE("a bulk load signals its mbarrier") {
  const std::string ptx = kernel(
      "mov.u32 %r1, bar; mov.u32 %r2, s; setp.eq.u32 %p1, %t, 0; @!%p1 bra WAIT; mbarrier.init.shared.b64 "
      "[%r1], 1; fence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512; "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%in], 512, [%r1];\n"
      "WAIT: bar.sync 0;\nTRY: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra TRY;\n"
      "mul.lo.u32 %r3, %t, 4; add.u32 %r3, %r3, %r2; ld.shared.u32 %r4, [%r3]; st.global.u32 [%o], %r4;",
      ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 s[512];\n");
  for (const Policy p : kPolicies)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Outcome o = run(ptx, {.block = {128, 1, 1}, .policy = p, .seed = seed});
      CHECK(o.text() == "");
      for (std::uint32_t l = 0; l < 128; ++l) CHECK(o.out[l] == l);
    }
}

TEST_CASE("a bulk store reads what was fenced and is visible after its wait") {
  const std::string ptx = kernel(
      "mov.u32 %r2, s; mul.lo.u32 %r3, %t, 4; add.u32 %r3, %r3, %r2; mul.lo.u32 %r4, %t, 3; st.shared.u32 "
      "[%r3], %r4; fence.proxy.async.shared::cta; bar.sync 0;\n"
      "setp.eq.u32 %p1, %t, 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 256; @%p1 "
      "cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;\n"
      "bar.sync 0; st.shared.u32 [%r3], 0; @%p1 cp.async.bulk.wait_group 0;",
      ".shared .align 16 .b8 s[256];\n");
  for (const Policy p : kPolicies) {
    const Outcome o = run(ptx, {.block = {64, 1, 1}, .policy = p});
    CHECK(o.text() == "");
    for (std::uint32_t l = 0; l < 64; ++l) CHECK(o.out[l] == 3 * l);
  }
}

TEST_CASE("named barriers pair producers and consumers") {
  // Warp 0 arrives, warp 1 syncs and reads; then the other way round with another barrier.
  const std::string ptx = kernel(
      "mov.u32 %r1, s; shr.u32 %r2, %t, 5; setp.eq.u32 %p1, %r2, 0; and.b32 %r3, %t, 31; mul.lo.u32 %r4, "
      "%r3, 4; add.u32 %r4, %r4, %r1; @!%p1 bra CONSUMER;\n"
      "st.shared.u32 [%r4], %t; bar.arrive 1, 64; bar.sync 2, 64; ld.shared.u32 %r5, [%r4]; st.global.u32 "
      "[%o], %r5; bra DONE;\n"
      "CONSUMER: bar.sync 1, 64; ld.shared.u32 %r5, [%r4]; add.u32 %r5, %r5, 100; st.shared.u32 [%r4], %r5; "
      "bar.arrive 2, 64;\nDONE:",
      ".shared .align 4 .b8 s[128];\n");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Outcome o = run(ptx, {.block = {64, 1, 1}, .policy = Policy::random, .seed = seed});
    CHECK(o.text() == "");
    for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == l + 100);
  }
}

TEST_CASE("blocks of a cluster read each other's shared memory") {
  const std::string ptx = kernel(
      "mov.u32 %r1, s; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; mapa.shared::cluster.u32 %r4, "
      "%r1, %r3;\n"
      "mul.lo.u32 %r5, %t, 4; add.u32 %r1, %r1, %r5; add.u32 %r4, %r4, %r5; mad.lo.u32 %r6, %r2, 1000, %t; "
      "st.shared.u32 [%r1], %r6;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared::cluster.u32 %r7, [%r4]; "
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "mul.wide.u32 %d1, %r2, 128; add.u64 %o, %o, %d1; st.global.u32 [%o], %r7;",
      ".shared .align 4 .b8 s[128];\n");
  for (const Policy p : kPolicies) {
    const Outcome o = run(ptx, {.grid = {2, 1, 1}, .cluster = {2, 1, 1}, .policy = p});
    CHECK(o.text() == "");
    for (std::uint32_t l = 0; l < 32; ++l) {
      CHECK(o.out[l] == 1000 + l);
      CHECK(o.out[32 + l] == l);
    }
  }
}

TEST_CASE("lanes pass the place where others of their warp wait for them") {
  // The upper half waits at X until the lower half has arrived and waits at W; then it reaches W from below.
  const std::string ptx = kernel(
      "mov.u32 %r1, bar; setp.lt.u32 %p1, %t, 16; setp.eq.u32 %p3, %t, 0; @%p3 mbarrier.init.shared.b64 "
      "[%r1], 16; bar.warp.sync 0xffffffff; @%p1 bra ARRIVE;\n"
      "X: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra X; bra W;\n"
      "ARRIVE: mbarrier.arrive.shared.b64 _, [%r1];\nW: bar.warp.sync 0xffffffff; st.global.u32 [%o], %t;",
      ".shared .align 8 .b64 bar;\n");
  for (const Policy p : kPolicies) {
    const Outcome o = run(ptx, {.policy = p});
    CHECK(o.text() == "");
    for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == l);
  }
}

TEST_CASE("a grid of blocks that wait for each other makes progress") {
  // Block 0 spins on a flag that block 1 sets: one host thread must switch between them.
  const std::string ptx = kernel(
      "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra SET;\nSPIN: ld.volatile.global.u32 %r2, "
      "[%in]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN; st.global.u32 [%out], %r2; bra END;\n"
      "SET: mov.u32 %r3, 5; st.volatile.global.u32 [%in], %r3;\nEND:");
  const Outcome o = run(ptx, {.grid = {2, 1, 1}, .block = {1, 1, 1}, .budget = 1u << 26});
  CHECK(o.report.completed);
  CHECK(o.out[0] == 5);
}

TEST_CASE("counters count") {
  const Outcome o =
      run(kernel("mov.u32 %r1, s; mul.lo.u32 %r2, %t, 128; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t; "
                 "st.global.u32 [%o], %t;",
                 ".shared .align 16 .b8 s[4096];\n"));
  CHECK(o.text() == "");
  CHECK(o.report.counters.shared_accesses == 1);
  CHECK(o.report.counters.shared_bank_conflicts == 31);
  CHECK(o.report.counters.global_sectors == 4);
  CHECK(o.report.counters.global_bytes_written == 128);
  CHECK(o.report.counters.by_kind.at("store-shared") == 1);
}

namespace {

/// Threads write global memory, `fence`, a barrier, and thread 0 loads those bytes by a bulk copy.
Outcome load_after_stores(const std::string& before, const std::string& after, std::uint32_t threads,
                          Policy policy) {
  return run(
      shared_kernel("@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
                    "add.u64 %d1, %o, 1024; st.global.u32 [%d1], %t; " +
                    before + " bar.sync 0; " + after +
                    " add.u64 %d2, %out, 1024;\n"
                    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n"
                    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d2], "
                    "256, [%r2];\n"
                    "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
                    "ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %r5;"),
      {.block = {threads, 1, 1}, .policy = policy});
}

}  // namespace

TEST_CASE("a copy of global memory that threads wrote wants a fence between the proxies") {
  for (const Policy policy : kPolicies) {
    for (const char* fence : {"fence.proxy.async;", "fence.proxy.async.global;"}) {
      clean(load_after_stores(fence, "", 64, policy));
      clean(load_after_stores("", fence, 64, policy));  // by who starts the copy, after the barrier
    }
    const Outcome o = load_after_stores("fence.proxy.async.shared::cta;", "", 64, policy);
    finds("missing-proxy-fence", o);
    CHECK(o.report.findings.size() == 1);
    CHECK(o.out[40] == 40);
    finds("missing-proxy-fence", load_after_stores("", "", 64, policy));
  }
}

TEST_CASE("a fence of global memory is none of shared memory") {
  const auto store = [](const std::string& fence) {
    return run(
        shared_kernel("st.shared.u32 [%r1], %t; " + fence +
                      " bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128;\n"
                      "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"));
  };
  clean(store("fence.proxy.async;"));
  clean(store("fence.proxy.async.shared::cta;"));
  finds("missing-proxy-fence", store("fence.proxy.async.global;"));
}
