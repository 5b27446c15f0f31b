// Every finding kind on the smallest program that deserves it, and the same program without its mistake.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

TEST_CASE("out of bounds and misaligned accesses carry their place") {
  const Outcome o = run(kernel("st.global.u32 [%out+4096], %t;"));
  finds("out-of-bounds", o);
  const Finding& f = o.report.findings.front();
  CHECK(f.site.kernel == "k");
  CHECK(f.site.ptx_line == 9);
  CHECK(f.site.ptx_text.find("st.global.u32") != std::string::npos);
  CHECK(f.count == 32);
  CHECK(f.message.find("'out'") != std::string::npos);
  finds("out-of-bounds", run(kernel("mov.u64 %d1, 0; ld.global.u32 %r1, [%d1];")));
  finds("out-of-bounds", run(kernel("mov.u32 %r1, 0; ld.shared.u32 %r2, [%r1];")));
  finds("misaligned", run(kernel("ld.global.u32 %r1, [%in+2];")));
  finds("misaligned", run(kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+8];")));
}

TEST_CASE("a finding in an inlined function names its place and the call") {
  const std::string ptx = kernel(
      ".loc 1 7 3, function_name $L__info_string0, inlined_at 1 20 5\nld.global.u32 %r1, [%out+4096];\n"
      ".loc 1 21 2\nld.global.u32 %r1, [%out+8192];",
      ".file 1 \"a.cu\"\n");
  const Outcome o = run(ptx, {.block = {1, 1, 1}});
  REQUIRE(o.report.findings.size() == 2);
  const Site& inlined = o.report.findings[0].site;
  CHECK(inlined.source_line == 7);
  CHECK(inlined.caller_file == "a.cu");
  CHECK(inlined.caller_line == 20);
  CHECK(inlined.caller_column == 5);
  CHECK(o.report.findings[1].site.source_line == 21);
  CHECK(o.report.findings[1].site.caller_line == 0);
}

TEST_CASE("reads of memory never written") {
  finds("uninitialized-read", run(kernel("ld.global.u32 %r1, [%out];")));
  finds("uninitialized-read", two_warps("ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %r5;"));
  finds("uninitialized-read",
        run(kernel(".local .align 4 .b8 x[16]; mov.u64 %d1, x; ld.local.u32 %r1, [%d1+4]; "
                   "st.global.u32 [%o], %r1;")));
}

TEST_CASE("padding of a structure that is copied by words is no mistake") {
  const std::string half = "mov.u32 %r1, 1; st.global.u32 [%out], %r1; ";
  CHECK(run(kernel(half + "ld.global.u64 %d1, [%out]; cvt.u32.u64 %r1, %d1; st.global.u32 [%out+8], %r1;"))
            .text() == "");
  finds("uninitialized-read", run(kernel(half + "ld.global.v2.u32 {%r1, %r2}, [%out];")));
  finds("uninitialized-read", run(kernel(half + "ld.global.u64 %d1, [%out+8];")));
}

TEST_CASE("races between warps") {
  const std::string read =
      "xor.b32 %r5, %r4, 128; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; st.global.u32 [%o], %r6;";
  bool missed = false;
  for (const Policy p : kPolicies) {
    const Outcome bad = two_warps("st.shared.u32 [%r1], %t; " + read, p);
    missed |= !bad.found("shared-race") && !bad.found("uninitialized-read");
    CHECK(two_warps("st.shared.u32 [%r1], %t; bar.sync 0; " + read, p).text() == "");
  }
  CHECK_FALSE(missed);
  const Outcome writes = two_warps("st.shared.u32 [%r3], %t;");
  finds("shared-race", writes);
  CHECK(writes.report.findings.front().has_other);
}

TEST_CASE("a writer is remembered beyond another's write of bytes beside") {
  // One thread stores a word; one of the other warp stores the next one, and reads the first. Whichever warp
  // runs first.
  const auto program = [](const std::string& writer, const std::string& reader, const std::string& between) {
    return "setp.ne.u32 %p1, %t, " + writer + "; mov.u32 %r5, 7; @!%p1 st.shared.u32 [%r3], %r5; " + between +
           "mov.u32 %r7, 0; LATER: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 300; @%p2 bra LATER; "
           "setp.ne.u32 %p1, %t, " +
           reader +
           "; @%p1 bra END; st.shared.u32 [%r3+8], %r7; ld.shared.u32 %r6, [%r3]; st.global.u32 [%o], %r6; "
           "END:";
  };
  for (const Policy p : kPolicies) {
    finds("shared-race", two_warps(program("0", "32", ""), p));
    finds("shared-race", two_warps(program("32", "0", ""), p));
    CHECK(two_warps(program("0", "32", "bar.sync 0; "), p).text() == "");
  }
}

TEST_CASE("warps that store the same bytes twice do not race") {
  // Both warps clear all of it, each synchronises with itself only: every reader is ordered after one of the
  // writers.
  const std::string clear =
      "and.b32 %r5, %t, 31; mul.lo.u32 %r5, %r5, 4; add.u32 %r5, %r5, %r3; mov.u32 %r6, 0; st.shared.u32 "
      "[%r5], %r6; ld.shared.u32 %r7, [%r5]; st.global.u32 [%o], %r7;";
  for (const Policy p : kPolicies) CHECK(two_warps(clear, p).text() == "");
  finds("shared-race",
        two_warps(
            "and.b32 %r5, %t, 31; mul.lo.u32 %r5, %r5, 4; add.u32 %r5, %r5, %r3; st.shared.u32 [%r5], %t;"));
}

TEST_CASE("shared memory that asynchronous work still owns") {
  const std::string begin =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 "
      "mbarrier.arrive.expect_tx.shared.b64 _, "
      "[%r2], 256;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  const std::string use = "ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %r5;";
  for (const Policy p : kPolicies) {
    finds("async-memory", two_warps(begin + use, p));
    CHECK(two_warps(begin + wait + use, p).text() == "");
    const std::string copy =
        "cvt.u64.u32 %d1, %r4; add.u64 %d1, %d1, %in; cp.async.ca.shared.global [%r1], [%d1], 4; "
        "cp.async.commit_group;";
    finds("async-memory", two_warps(copy + use, p));
    CHECK(two_warps(copy + "cp.async.wait_group 0;" + use, p).text() == "");
    // Refilling a buffer while a bulk store may still read it.
    const std::string store =
        "st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0; @%p1 "
        "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 256; @%p1 cp.async.bulk.commit_group;";
    finds("async-memory", two_warps(store + "bar.sync 0; st.shared.u32 [%r1], 0;", p));
    CHECK(two_warps(store + "@%p1 cp.async.bulk.wait_group.read 0; bar.sync 0; st.shared.u32 [%r1], 0;", p)
              .text() == "");
  }
}

TEST_CASE("a missing proxy fence") {
  const std::string store =
      "bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 256; @%p1 "
      "cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;";
  finds("missing-proxy-fence", two_warps("st.shared.u32 [%r1], %t;" + store));
  CHECK(two_warps("st.shared.u32 [%r1], %t; fence.proxy.async;" + store).text() == "");
  // The same before a copy writes over it.
  const std::string load =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  finds("missing-proxy-fence", two_warps("st.shared.u32 [%r1], %t;" + load));
  CHECK(two_warps("st.shared.u32 [%r1], %t; fence.proxy.async;" + load).text() == "");
}

TEST_CASE("mbarriers: transaction counts, overruns, garbage") {
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  const auto load = [&](int expected) {
    return "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 "
           "mbarrier.arrive.expect_tx.shared.b64 _, "
           "[%r2], " +
           std::to_string(expected) +
           ";\n@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 128, "
           "[%r2];\n"
           "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+128], [%in], 128, "
           "[%r2];\n" +
           wait;
  };
  for (const Policy p : kPolicies) {
    CHECK(two_warps(load(256), p).text() == "");
    finds("transaction-count", two_warps(load(512), p));
    finds("transaction-count", two_warps(load(128), p));
  }
  finds("mbarrier-overrun",
        two_warps("@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, "
                  "[%r2], 16; @%p1 mbarrier.arrive.shared.b64 _, [%r2];"));
  finds("invalid-mbarrier", two_warps("@%p1 mbarrier.arrive.shared.b64 _, [%r2];"));
  finds("invalid-mbarrier", two_warps("@%p1 mbarrier.init.shared.b64 [%r2], 0;"));
}

TEST_CASE("named barriers with counts that disagree") {
  finds("barrier-count", two_warps("setp.lt.u32 %p2, %t, 32; @%p2 bar.sync 1, 64; @!%p2 bar.sync 1, 96;"));
  finds("barrier-count", two_warps("bar.sync 1, 33;"));
  finds("barrier-count", two_warps("mov.u32 %r5, 16; bar.sync %r5;"));
}

TEST_CASE("deadlocks name who waits on what") {
  const Outcome o = two_warps("setp.lt.u32 %p2, %t, 32; @%p2 bar.sync 3, 64;");
  finds("deadlock", o);
  CHECK_FALSE(o.report.completed);
  CHECK(o.report.findings.front().message.find("barrier 3 (32 of 64 threads arrived)") != std::string::npos);
  finds("deadlock",
        two_warps("@%p1 mbarrier.init.shared.b64 [%r2], 2; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, "
                  "[%r2];\nW: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"));
  finds("deadlock", two_warps("setp.lt.u32 %p2, %t, 7; @%p2 bra A; shfl.sync.idx.b32 %r5, %t, 0, 31, -1; bra "
                              "E;\nA: shfl.sync.idx.b32 %r5, %t, 1, 31, -1;\nE:"));
}

TEST_CASE("budgets: instructions and registers; traps") {
  const Outcome o = run(kernel("L: bra L;"), {.block = {32, 1, 1}, .budget = 1000});
  finds("instruction-budget", o);
  CHECK(o.report.counters.warp_instructions < 10000);  // soon after, not a slice of millions later
  CHECK_FALSE(o.report.completed);
  finds("trap", run(kernel("trap;")));
  finds("register-budget", run(kernel("setmaxnreg.inc.sync.aligned.u32 248;"), {.block = {384, 1, 1}}));
  CHECK(run(kernel("setmaxnreg.inc.sync.aligned.u32 160;"), {.block = {384, 1, 1}}).text() == "");
}

TEST_CASE("wgmma owns its accumulators until its wait_group, and shared operands too") {
  const std::string fill = "mov.u32 %r5, 0x3f803f80; mov.u32 %r6, %r1;\n";
  std::string stores;
  for (int i = 0; i < 6; ++i) stores += "st.shared.u32 [%r6+" + std::to_string(512 * i) + "], %r5;\n";
  // A: 64 x 16 (2048 bytes), B: 8 x 16 (256 bytes) at 2048, no swizzle: core matrices of 128 bytes.
  const std::string descriptors =
      "mov.u32 %r7, s; shr.u32 %r8, %r7, 4; cvt.u64.u32 %d1, %r8; or.b64 %d1, %d1, 0x0000001000080000; "
      "add.u32 %r7, %r7, 2048; shr.u32 %r8, %r7, 4; cvt.u64.u32 %d2, %r8; or.b64 %d2, %d2, "
      "0x0000001000080000;\n"
      "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n";
  const std::string mma =
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, "
      "%d1, %d2, 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;\n";
  const std::string wait = "wgmma.wait_group.sync.aligned 0;\n";
  const std::string use = "mov.b32 %r9, %f1; st.global.u32 [%o], %r9;\n";
  const auto program = [&](const std::string& tail, bool fence = true) {
    return kernel("mov.u32 %r1, s; mul.lo.u32 %r4, %t, 4; add.u32 %r1, %r1, %r4;\n" + fill + stores +
                      (fence ? "fence.proxy.async;" : "") + "bar.sync 0;\n" + descriptors + tail,
                  ".shared .align 1024 .b8 s[4096];\n");
  };
  for (const Policy p : kPolicies) {
    const Setup setup{.block = {128, 1, 1}, .policy = p};
    const Outcome good = run(program(mma + wait + use), setup);
    CHECK(good.text() == "");
    for (int i = 0; i < 128; ++i) CHECK(good.out[static_cast<std::size_t>(i)] == 0x41800000u);  // 16.0
    finds("async-register", run(program(mma + use + wait), setup));
    finds("missing-proxy-fence", run(program(mma + wait + use, false), setup));
    finds("async-memory", run(program(mma + "bar.sync 0; st.shared.u32 [%r6], 0;" + wait), setup));
    CHECK(run(program(mma + wait + "bar.sync 0; st.shared.u32 [%r6], 0;"), setup).text() == "");
  }
}

TEST_CASE("findings can be turned off") {
  const Outcome o = run(kernel("ld.global.u32 %r1, [%out]; st.global.u32 [%o], %t;"), {.findings = false});
  CHECK(o.text() == "");
  CHECK(o.out[5] == 5);
}

TEST_CASE("illegal launches are errors") {
  GlobalMemory memory;
  const Module m = Module::from_ptx(kernel("bar.sync 0;"));
  Launch l;
  CHECK_THROWS_AS(launch(memory, m, l), Error);  // no arguments
  l.args = {bytes_of(std::uint64_t{0}), bytes_of(std::uint64_t{0})};
  l.block = {2048, 1, 1};
  CHECK_THROWS_AS(launch(memory, m, l), Error);
  l.block = {32, 1, 1};
  l.dynamic_smem_bytes = 300000;
  CHECK_THROWS_AS(launch(memory, m, l), Error);
  l.dynamic_smem_bytes = 0;
  l.grid = {3, 1, 1};
  l.cluster = {2, 1, 1};
  CHECK_THROWS_AS(launch(memory, m, l), Error);
  l.kernel = "nope";
  CHECK_THROWS_AS(launch(memory, m, l), Error);
}

TEST_CASE("global memory guards its allocations") {
  GlobalMemory m;
  const std::uint64_t a = m.allocate(100, "a");
  std::vector<std::byte> b(100);
  CHECK_FALSE(m.is_initialized(a, 1));
  m.write(a, b);
  CHECK(m.is_initialized(a, 100));
  CHECK_THROWS_AS(m.write(a + 1, b), Error);
  CHECK(m.allocated_bytes() == 100);
  m.free(a);
  CHECK_THROWS_AS(m.read(a, b), Error);
  CHECK_THROWS_AS(m.free(a), Error);
}
