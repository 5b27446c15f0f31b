// What a lane tells other blocks and warps is its own past: the lanes of its warp have to meet it first.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

const std::string kWarpMeet = "bar.warp.sync 0xffffffff;\n";

/// Block 0: each lane does `work`, they meet, and lane 0 tells by `release` of [%d9]. Block 1 waits, meets and reads
/// what all lanes wrote.
Outcome told_by_lane_0(const std::string& work, const std::string& meet, const std::string& release,
                       Policy p) {
  return run(shared_kernel(
                 "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %in, 2048;\n"
                 "@!%p3 bra READ;\n" +
                 work + meet + "@!%p1 bra END;\n" + release +
                 "bra END;\n"
                 "READ: @!%p1 bra MET;\n"
                 "LOOK: ld.acquire.gpu.global.u32 %r5, [%d9]; setp.ne.u32 %p4, %r5, 1000000; @%p4 bra LOOK;\n"
                 "MET: " +
                 kWarpMeet + "ld.global.u32 %r6, [%o]; st.global.u32 [%o+1024], %r6;\nEND:"),
             {.grid = {2, 1, 1}, .policy = p});
}
const std::string kRelease = "st.release.gpu.global.u32 [%d9], 1000000;\n";
const std::string kFenced = "fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%d9], 1000000;\n";
const std::string kWriteOwn = "st.global.u32 [%o], %t;\n";

}  // namespace

TEST_CASE("a release by one lane publishes what it knows of its warp") {
  for (const Policy p : kPolicies)
    for (const std::string& release : {kRelease, kFenced}) {
      clean(told_by_lane_0(kWriteOwn, kWarpMeet, release, p));
      const Outcome o = told_by_lane_0(kWriteOwn, "", release, p);
      finds("global-race", o);
      CHECK(o.report.findings.front().severity == Severity::undefined);
      CHECK(o.report.findings.front().message.find("bar.warp.sync") != std::string::npos);
      // A shuffle orders nothing, a block barrier does; half of the warp is not all of it.
      finds("global-race", told_by_lane_0(kWriteOwn, "shfl.sync.idx.b32 %r9, %t, 0, 31, -1;\n", release, p));
      clean(told_by_lane_0(kWriteOwn, "bar.sync 0;\n", release, p));
      finds("global-race",
            told_by_lane_0(kWriteOwn,
                           "setp.lt.u32 %p5, %t, 16; @!%p5 bra OTHERS; bar.warp.sync 0xffff; OTHERS:\n",
                           release, p));
    }
}

TEST_CASE("a fence by every lane and a store by one of them are no release of all") {
  const std::string store = "st.relaxed.gpu.global.u32 [%d9], 1000000;\n",
                    every = kWriteOwn + "fence.acq_rel.gpu;\n";
  const std::string one = kWriteOwn + "@%p1 fence.acq_rel.gpu;\n";
  for (const Policy p : kPolicies) {
    // Every lane fences, they meet, and one of them stores: as threadFenceReduction does by block.
    clean(told_by_lane_0(every, kWarpMeet, store, p));
    finds("global-race", told_by_lane_0(every, "", store, p));
    // Lane 0 fences for what it knew then; what the others did meets it later.
    finds("global-race", told_by_lane_0(one, kWarpMeet, store, p));
  }
}

TEST_CASE("what lanes of a warp have read may be written once all of them are known to have") {
  const auto overwritten = [](const std::string& meet, Policy p) {
    return run(
        shared_kernel(
            "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %in, 2048;\n"
            "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in;\n"
            "@!%p3 bra WRITE;\nld.global.u32 %r6, [%d1];\n" +
            meet + "@!%p1 bra OUT;\n" + kRelease +
            "OUT: st.global.u32 [%o], %r6; bra END;\n"
            "WRITE: @!%p1 bra MET;\n"
            "LOOK: ld.acquire.gpu.global.u32 %r5, [%d9]; setp.ne.u32 %p4, %r5, 1000000; @%p4 bra LOOK;\n"
            "MET: " +
            kWarpMeet + "st.global.u32 [%d1], 77;\nEND:"),
        {.grid = {2, 1, 1}, .policy = p});
  };
  for (const Policy p : kPolicies) {
    clean(overwritten(kWarpMeet, p));
    finds("global-race", overwritten("", p));
  }
}

TEST_CASE("an arrival of one lane tells other warps of the block of its own writes to global memory") {
  const auto arrive = [](const std::string& meet) {
    return two_warps(
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; setp.lt.u32 %p5, %t, 32; @!%p5 bra READ;\n"
        "st.global.u32 [%o], %t;\n" +
        meet +
        "@%p1 mbarrier.arrive.shared.b64 _, [%r2]; bra END;\n"
        "READ: mbarrier.try_wait.parity.shared.b64 %p6, [%r2], 0; @!%p6 bra READ;\n"
        "ld.global.u32 %r6, [%o+-128]; st.global.u32 [%o+1024], %r6;\nEND:");
  };
  clean(arrive(kWarpMeet));
  finds("global-race", arrive(""));
}

TEST_CASE("a strong load of what an earlier one told of, with no fence between, is a note") {
  const auto follow = [](const std::string& fence, Policy p) {
    return run(
        shared_kernel(
            "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %in, 2048;\n"
            "@!%p1 bra END; @!%p3 bra READ;\n"
            "st.volatile.global.u32 [%out], 7; fence.acq_rel.gpu; st.volatile.global.u32 [%d9], 1000000;\n"
            "bra END;\n"
            "READ: ld.volatile.global.u32 %r5, [%d9]; setp.ne.u32 %p4, %r5, 1000000; @%p4 bra READ;\n" +
            fence + "ld.volatile.global.u32 %r6, [%out]; st.global.u32 [%out+1024], %r6;\nEND:"),
        {.grid = {2, 1, 1}, .policy = p});
  };
  for (const Policy p : kPolicies) {
    clean(follow("fence.acq_rel.gpu;\n", p));
    const Outcome o = follow("", p);
    finds("global-race", o);
    CHECK(o.report.findings.size() == 1);
    CHECK(o.report.findings.front().severity == Severity::note);
    CHECK(o.out[256] == 7);
  }
}
