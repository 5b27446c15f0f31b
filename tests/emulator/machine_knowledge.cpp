// What a thread may rely on: the answer of a wait that it looks at, what each of its lanes has learned, a
// warpgroup's own groups. And what lanes of a warp may not: atomics of others without bar.warp.sync.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

const std::string kInit =
    "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n";
const std::string kLoad =
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n";
const std::string kUse = "ld.shared.u32 %r20, [%r1]; st.global.u32 [%o], %r20;\n";

/// A warpgroup that multiplies ones; `after` follows the commit.
std::string multiply(const std::string& type, const std::string& registers, const std::string& clear,
                     const std::string& after) {
  std::string stores;
  for (int i = 0; i < 6; ++i) stores += "st.shared.u32 [%r1+" + std::to_string(512 * i) + "], %r5;\n";
  return shared_kernel(
      kInit + "mov.u32 %r5, 0x3c003c00;\n" + stores +
      "fence.proxy.async; bar.sync 0;\n"
      "shr.u32 %r8, %r3, 4; cvt.u64.u32 %d1, %r8; or.b64 %d1, %d1, 0x0000001000080000; add.u32 %r7, "
      "%r3, 2048; shr.u32 %r8, %r7, 4; cvt.u64.u32 %d2, %r8; or.b64 %d2, %d2, 0x0000001000080000;\n" +
      clear + "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16." + type + ".f16.f16 {" +
      registers + "}, %d1, %d2, 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;\n" + after);
}
const std::string kHalf = "mov.u32 %r10, 0; mov.u32 %r11, 0;\n";
const std::string kWaitGroup = "wgmma.wait_group.sync.aligned 0;\n";

}  // namespace

TEST_CASE("a wait whose answer nobody looks at") {
  for (const char* once : {"mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n",
                           "mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;\n"}) {
    for (const Policy p : {Policy::lazy, Policy::random}) {
      bool found = false;
      for (std::uint64_t seed = 1; seed <= 8; ++seed)
        found |=
            run(shared_kernel(kInit + kLoad + once + kUse), {.block = {64, 1, 1}, .policy = p, .seed = seed})
                .found("async-memory");
      INFO(once, static_cast<int>(p));
      CHECK(found);
    }
    for (const Policy p : kPolicies) {
      clean(two_warps(kInit + kLoad + "W: " + once + "@!%p2 bra W;\n" + kUse, p));
      // Asked once, then waited for elsewhere.
      clean(two_warps(kInit + kLoad + once + "@%p2 bra D;\nW: " + once + "@!%p2 bra W;\nD:\n" + kUse, p));
    }
  }
  // Of threads' arrivals alike: no order of warps makes up for the answer.
  const std::string arrive =
      "setp.lt.u32 %p3, %t, 32; @!%p3 bra C; st.shared.u32 [%r1], %t; bar.warp.sync -1; @%p1 "
      "mbarrier.arrive.shared.b64 _, [%r2]; bra E;\nC: ";
  const std::string read = "ld.shared.u32 %r20, [%r1+-128]; st.global.u32 [%o], %r20;\nE:";
  const std::string once = "mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;\n";
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    finds("shared-race", run(shared_kernel(kInit + arrive + once + read),
                             {.block = {64, 1, 1}, .policy = Policy::lazy, .seed = seed}));
  for (const Policy p : kPolicies)
    clean(two_warps(kInit + arrive + "W: " + once + "@!%p2 bra W;\n" + read, p));
}

TEST_CASE("lanes that wait one by one know together") {
  const std::string wait =
      "setp.eq.u32 %p5, %t, 37; @%p5 bra L;\nW: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra "
      "W; bra "
      "J;\nL: nanosleep.u32 10; X: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra X;\nJ:\n";
  const std::string load =
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2304;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 2304, [%r2];\n";
  const std::string product =
      "shr.u32 %r8, %r3, 4; cvt.u64.u32 %d1, %r8; or.b64 %d1, %d1, 0x0000001000080000; add.u32 %r7, "
      "%r3, 2048; shr.u32 %r8, %r7, 4; cvt.u64.u32 %d2, %r8; or.b64 %d2, %d2, 0x0000001000080000;\n" +
      kHalf +
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r10, %r11}, %d1, %d2, "
      "1, 1, 1, "
      "0, 0; wgmma.commit_group.sync.aligned;\n" +
      kWaitGroup;
  for (const Policy p : kPolicies) {
    clean(run(shared_kernel(kInit + load + wait + product), {.block = {128, 1, 1}, .policy = p}));
    // One lane that does not wait at all is still one too few.
    const std::string hasty =
        "setp.eq.u32 %p5, %t, 37; @%p5 bra J;\nW: mbarrier.try_wait.parity.shared.b64 %p2, "
        "[%r2], 0; @!%p2 bra W;\nJ:\n";
    finds("async-memory",
          run(shared_kernel(kInit + load + hasty + product), {.block = {128, 1, 1}, .policy = p}));
  }
}

TEST_CASE("one thread arrives for its warpgroup after wait_group") {
  const std::string release =
      "@%p1 mbarrier.arrive.shared.b64 _, [%r2];\nsetp.eq.u32 %p6, %t, 96; @!%p6 bra E;\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
      "st.shared.u32 [%r3+1024], 5;\nE:\n";
  for (const Policy p : kPolicies) {
    const Setup setup{.block = {128, 1, 1}, .policy = p};
    clean(run(multiply("f16", "%r10, %r11", kHalf, kWaitGroup + release), setup));
    finds("async-memory", run(multiply("f16", "%r10, %r11", kHalf, release + kWaitGroup), setup));
  }
}

TEST_CASE("an accumulator read before its wait_group is what the hardware computes, and a note") {
  for (const Policy p : kPolicies) {
    const Setup setup{.block = {128, 1, 1}, .policy = p};
    const Outcome half =
        run(multiply("f16", "%r10, %r11", kHalf, "st.global.u32 [%o], %r10;" + kWaitGroup), setup);
    finds("async-register", half);
    for (const Finding& f : half.report.findings) CHECK(f.severity == Severity::note);
    for (std::size_t i = 0; i < 128; ++i) CHECK(half.out[i] == 0x4c004c00u);  // 16, 16
    const Outcome single =
        run(multiply("f32", "%f1, %f2, %f3, %f4",
                     "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n",
                     "st.global.f32 [%o], %f1;" + kWaitGroup),
            setup);
    finds("async-register", single);
    for (std::size_t i = 0; i < 128; ++i) CHECK(single.out[i] == 0x41800000u);
  }
}

TEST_CASE("atomics of one lane, plain accesses of another") {
  const std::string count =
      "@%p1 st.shared.u32 [%r3], 0; bar.warp.sync -1; atom.shared.add.u32 %r9, [%r3], 1;\n";
  const std::string read = "ld.shared.u32 %r20, [%r3]; st.global.u32 [%o], %r20;\n";
  finds("warp-race", one_warp(count + read));
  const Outcome o = one_warp(count + "bar.warp.sync -1;\n" + read);
  clean(o);
  CHECK(o.out[7] == 32);
  finds("warp-race", one_warp("@%p1 st.shared.u32 [%r3], 0; red.shared.add.u32 [%r3], 1;"));
  clean(one_warp(count + "atom.shared.add.u32 %r9, [%r3], 1; ld.volatile.shared.u32 %r20, [%r3];"));
  // Each lane's own word is its own.
  clean(
      one_warp("st.shared.u32 [%r1], 0; atom.shared.add.u32 %r9, [%r1], 1; ld.shared.u32 %r20, [%r1]; "
               "st.global.u32 [%o], %r20;"));
  const std::string global =
      "@%p1 st.global.u32 [%out], 0; bar.warp.sync -1; atom.global.add.u32 %r9, [%out], 1;\n";
  finds("warp-race", one_warp(global + "ld.global.u32 %r20, [%out]; st.global.u32 [%o+1024], %r20;"));
  clean(one_warp(global + "bar.warp.sync -1; ld.global.u32 %r20, [%out]; st.global.u32 [%o+1024], %r20;"));
}

TEST_CASE("every thread fences, a barrier, and one of them tells by a relaxed store") {
  // The first warps write a word a thread; the last one waits for the flag and reads all of them.
  const auto tell = [](const std::string& fence, const std::string& barrier, std::uint32_t threads,
                       Policy policy) {
    const std::string count = std::to_string(threads - 32);
    return run(
        shared_kernel(
            "mov.u32 %r9, 0; @%p1 st.shared.u32 [s+2048], %r9; bar.sync 0;\n"
            "setp.ge.u32 %p3, %t, " +
            count +
            "; @%p3 bra reader;\n"
            "st.shared.u32 [%r1], %t; " +
            fence + " " + barrier +
            " mov.u32 %r9, 1; @%p1 st.relaxed.cta.shared.u32 [s+2048], %r9; bra end;\n"
            "reader: ld.relaxed.cta.shared.u32 %r5, [s+2048]; setp.eq.u32 %p2, %r5, 0; @%p2 bra reader;\n"
            "fence.acq_rel.cta; sub.u32 %r6, %t, " +
            count + "; mul.lo.u32 %r6, %r6, " + std::to_string((threads - 32) / 32) +
            "; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3; ld.shared.u32 %r7, [%r6];\n"
            "st.global.u32 [%o], %r7;\nend:"),
        {.block = {threads, 1, 1}, .policy = policy});
  };
  for (const Policy policy : kPolicies) {
    clean(tell("fence.acq_rel.cta;", "bar.warp.sync -1;", 64, policy));
    clean(tell("fence.acq_rel.cta;", "bar.sync 1, 64;", 96, policy));
    finds("shared-race", tell("", "bar.warp.sync -1;", 64, policy));
    finds("shared-race", tell("fence.acq_rel.cta;", "", 64, policy));
    finds("shared-race", tell("", "bar.sync 1, 64;", 96, policy));
    finds("shared-race", tell("fence.acq_rel.cta;", "", 96, policy));
  }
}
