// What orders whom, lane by lane: copies that each lane waits for by itself, arrivals of one lane, atomics
// and fences, relaxed arrivals at a cluster barrier; and the memory of blocks that have ended.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// From the neighbour: lane ^ 4, beyond the 16 bytes that a lane copies.
const std::string kNeighbour = "xor.b32 %r5, %r4, 16; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5];\n";
const std::string kShow = "st.global.u32 [%o], %r6;\n";

}  // namespace

TEST_CASE("a lane waits for its own cp.async only") {
  const std::string copy =
      "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in; cp.async.ca.shared.global [%r1], [%d1], 4; "
      "cp.async.commit_group; cp.async.wait_group 0;\n";
  clean(one_warp(copy + "ld.shared.u32 %r6, [%r1];\n" + kShow));
  finds("async-memory", one_warp(copy + kNeighbour + kShow));
  clean(one_warp(copy + "bar.warp.sync -1;\n" + kNeighbour + kShow));
  clean(two_warps(copy + "bar.sync 0;\n" + kNeighbour + kShow));
  // Another warp that one lane has told of its own copies knows of no others.
  const std::string told = copy + "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;\n";
  const std::string early =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; setp.lt.u32 %p3, %t, 32; @!%p3 bra W;\n" + copy;
  const std::string wait =
      "@%p1 mbarrier.arrive.shared.b64 _, [%r2]; bra E;\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
      "xor.b32 %r5, %r4, 128; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5];\n" +
      kShow + "E:";
  finds("async-memory", two_warps(early + wait));
  clean(two_warps(early + "bar.warp.sync -1;\n" + wait));
  clean(two_warps(told + kNeighbour + kShow));
}

TEST_CASE("who overwrites cells follows all that read them, the first time and again") {
  // Warp 0 writes 16 bytes a lane, warp 1 reads them; %p3: warp 0.
  const std::string setup =
      "setp.lt.u32 %p3, %t, 32; and.b32 %r8, %t, 31; mad.lo.u32 %r9, %r8, 16, %r3; "
      "mov.u32 %r20, %t;\n";
  const std::string write = "add.u32 %r20, %r20, 1; @%p3 st.shared.v4.b32 [%r9], {%r20, %r20, %r20, %r20};\n",
                    meet = "bar.sync 0;\n";
  const std::string read = "@!%p3 ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r9];\n";
  const std::string word = "@!%p3 ld.shared.b32 %r10, [%r9+4];\n";
  for (const std::string& reads : {read, word}) {
    const std::string turn = write + meet + reads + meet;
    clean(two_warps(setup + turn + turn + turn));
    finds("shared-race", two_warps(setup + turn + turn + write + meet + reads + write));
    finds("shared-race", two_warps(setup + turn + turn + write + reads));
  }
  // What the writer itself had read before leaves nothing that another reader could be taken for.
  const std::string own = "@%p3 ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r9];\n";
  clean(two_warps(setup + write + own + write + own + meet + read + meet + write));
  finds("shared-race", two_warps(setup + write + own + write + own + meet + read + write));
}

TEST_CASE("atomics repeated by a warp are judged against every plain reader") {
  const std::string setup = "setp.lt.u32 %p3, %t, 32; @%p1 st.shared.u32 [%r3], 0; bar.sync 0;\n";
  const std::string add = "@%p3 red.shared.add.u32 [%r3], 1;\n", look = "@!%p3 ld.shared.u32 %r6, [%r3];\n";
  clean(two_warps(setup + add + add + "bar.sync 0;\n" + look));
  clean(two_warps(setup + look + "bar.sync 0;\n" + add + add));
  finds("shared-race", two_warps(setup + add + add + look));
  finds("shared-race", two_warps(setup + add + "bar.sync 0;\n" + look + add + add));
  // Two warps add: a third one that reads follows both, however often either has come.
  const std::string both =
      "setp.lt.u32 %p3, %t, 64; @%p1 st.shared.u32 [%r3], 0; bar.sync 0;\n" + add + add + add;
  const Setup three{.block = {96, 1, 1}};
  clean(run(shared_kernel(both + "bar.sync 0;\n" + look), three));
  finds("shared-race", run(shared_kernel(both + look), three));
}

TEST_CASE("an arrival of one lane publishes that lane only, to its own warp too") {
  // All wait for what lane 0 alone has arrived at.
  const std::string body =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.warp.sync -1; st.shared.u32 [%r1], %t;\n@%p1 "
      "mbarrier.arrive.shared.b64 _, [%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  finds("warp-race", one_warp(body + kNeighbour + kShow));
  clean(one_warp(body + "ld.shared.u32 %r6, [%r3];\n" + kShow));  // what lane 0 wrote
  const std::string all =
      "@%p1 mbarrier.init.shared.b64 [%r2], 32; bar.warp.sync -1; st.shared.u32 [%r1], %t;\n"
      "mbarrier.arrive.shared.b64 _, [%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  clean(one_warp(all + kNeighbour + kShow));
}

TEST_CASE("an elected lane stores what others wrote only after the warp has met") {
  const std::string write = "st.shared.u32 [%r1], %t; fence.proxy.async;\n";
  const std::string store =
      "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; "
      "@%p1 cp.async.bulk.wait_group.read 0;\n";
  finds("async-memory", one_warp(write + store));
  clean(one_warp(write + "bar.warp.sync -1;\n" + store));
  // Lane 0 has waited for the store to have read; the others have not.
  const std::string again = "st.shared.u32 [%r1], 5;\n";
  finds("async-memory", one_warp(write + "bar.warp.sync -1;\n" + store + again));
  clean(one_warp(write + "bar.warp.sync -1;\n" + store + "bar.warp.sync -1;\n" + again));
  // A fence of another lane covers nothing that it does not know of.
  finds("missing-proxy-fence",
        one_warp("st.shared.u32 [%r1], %t; @%p1 fence.proxy.async; bar.warp.sync -1;\n" + store));
}

TEST_CASE("atomics order no lanes, and race with plain accesses") {
  const std::string atomic = "atom.shared.add.u32 %r7, [%r3+1024], 1;\n";
  const std::string zero = "@%p1 st.shared.u32 [%r3+1024], 0; bar.sync 0;\n";
  finds("warp-race", one_warp(zero + "st.shared.u32 [%r1], %t;\n" + atomic + kNeighbour + kShow));
  clean(one_warp(zero + "st.shared.u32 [%r1], %t;\n" + atomic + "bar.warp.sync -1;\n" + kNeighbour + kShow));
  // Two warps count; reading the sum needs a barrier, and so does the zero.
  clean(two_warps(zero + atomic + "bar.sync 0; ld.shared.u32 %r6, [%r3+1024];\n" + kShow));
  finds("shared-race", two_warps(zero + atomic + "ld.shared.u32 %r6, [%r3+1024];\n" + kShow));
}

TEST_CASE("a flag in shared memory orders with release and acquire, or with fences") {
  // Thread 0 writes and sets the flag; thread 32 waits for it and reads.
  const auto pass = [](const std::string& set, const std::string& get) {
    return two_warps(
        "@%p1 st.shared.u32 [%r3+1024], 0; bar.sync 0; setp.lt.u32 %p3, %t, 32; @!%p3 bra W;\n@!%p1 bra E; "
        "st.shared.u32 [%r3], 7;\n" +
        set + " bra E;\nW: setp.ne.u32 %p4, %t, 32; @%p4 bra E;\nL:\n" + get +
        "setp.eq.u32 %p5, %r7, 0; @%p5 bra L;\n" +
        "G: ld.shared.u32 %r6, [%r3]; st.global.u32 [%o], %r6;\nE:");
  };
  clean(pass("st.release.cta.shared.u32 [%r3+1024], 1;", "ld.acquire.cta.shared.u32 %r7, [%r3+1024];\n"));
  clean(pass("fence.acq_rel.cta; st.relaxed.cta.shared.u32 [%r3+1024], 1;",
             "ld.relaxed.cta.shared.u32 %r7, [%r3+1024]; fence.acq_rel.cta;\n"));
  finds("shared-race",
        pass("st.relaxed.cta.shared.u32 [%r3+1024], 1;", "ld.acquire.cta.shared.u32 %r7, [%r3+1024];\n"));
  finds("shared-race",
        pass("st.release.cta.shared.u32 [%r3+1024], 1;", "ld.relaxed.cta.shared.u32 %r7, [%r3+1024];\n"));
}

TEST_CASE("neither a read nor a write beside makes a read forgotten") {
  // Thread 32 reads word 0, publishes something, and touches word 1 of the same 16 bytes; thread 0 writes.
  const auto beside = [](const std::string& touch, const std::string& address) {
    return two_warps(
        "@%p1 st.shared.u32 [%r3+1024], 0; @%p1 st.shared.v2.u32 [%r3], {1, 2};\n"
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; setp.lt.u32 %p3, %t, 32; @!%p3 bra R;\n"
        "@!%p1 bra E;\nL: ld.relaxed.cta.shared.u32 %r7, [%r3+1024]; setp.eq.u32 %p5, %r7, 0; @%p5 bra L;\n"
        "st.shared.u32 [" +
        address +
        "], 7; bra E;\nR: setp.ne.u32 %p4, %t, 32; @%p4 bra E;\n"
        "ld.shared.u32 %r6, [%r3]; mbarrier.arrive.shared.b64 _, [%r2];\n" +
        touch +
        " add.u32 %r6, %r6, %r8; st.global.u32 [%o], %r6; st.relaxed.cta.shared.u32 [%r3+1024], 1;\nE:");
  };
  const std::string none = "mov.u32 %r8, 0;", read = "ld.shared.u32 %r8, [%r3+4];",
                    write = "mov.u32 %r8, 0; st.shared.u32 [%r3+4], 5;";
  for (const std::string& touch : {none, read, write}) finds("shared-race", beside(touch, "%r3"));
  finds("shared-race", beside(read, "%r3+4"));
  clean(beside(none, "%r3+4"));
  clean(beside(read, "%r3+8"));
}

namespace {

const std::string kPeer =
    "mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, %r1, %r21;\n";
const std::string kClusterMeet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
const std::string kReadPeer = "ld.shared::cluster.u32 %r6, [%r22];\n" + kShow;

Outcome with_peer(const std::string& body, Policy p = Policy::eager) {
  return run(shared_kernel(kPeer + body), {.grid = {2, 1, 1}, .cluster = {2, 1, 1}, .policy = p});
}

}  // namespace

TEST_CASE("a block may not end while another still uses its shared memory") {
  const std::string write = "st.shared.u32 [%r1], %t;\n";
  for (const Policy p : kPolicies) {
    clean(with_peer(write + kClusterMeet + kReadPeer + kClusterMeet, p));
    finds("ended-block", with_peer(write + kClusterMeet + kReadPeer, p));
    // All lanes arrive at the other block's mbarrier, and each block waits for its own.
    clean(with_peer(
        "@%p1 mbarrier.init.shared.b64 [%r2], 32; fence.mbarrier_init.release.cluster;\n" + kClusterMeet +
            "mapa.shared::cluster.u32 %r23, %r2, %r21;\n"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];\n"
            "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;\n",
        p));
    finds("ended-block", with_peer(kClusterMeet + "st.shared::cluster.u32 [%r22], %t;\n", p));
    finds("ended-block",
          with_peer("@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n" +
                        kClusterMeet +
                        "mapa.shared::cluster.u32 %r23, %r2, %r21; @%p1 "
                        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23];\n",
                    p));
  }
}

TEST_CASE("a block may not end while a bulk load writes its shared memory") {
  const std::string load =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  for (const Policy p : kPolicies) {
    clean(two_warps(load + wait, p));
    clean(two_warps(load + "@!%p1 bra E;\n" + wait + "E:", p));  // one thread is enough
    finds("ended-block", two_warps(load, p));
  }
}

TEST_CASE("a relaxed arrival at a cluster barrier publishes only what was fenced") {
  const std::string write = "st.shared.u32 [%r1], %t;\n";
  const std::string meet = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n";
  finds("shared-race", with_peer(write + meet + kReadPeer + kClusterMeet));
  clean(with_peer(write + "fence.acq_rel.cluster;\n" + meet + kReadPeer + kClusterMeet));
  // An mbarrier's initialisation has a fence of its own.
  const std::string init = "@%p1 mbarrier.init.shared.b64 [%r2], 1;\n";
  const std::string use =
      "mapa.shared::cluster.u32 %r23, %r2, %r21; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, "
      "[%r23];\n" +
      kClusterMeet;
  clean(with_peer(init + "@%p1 fence.mbarrier_init.release.cluster;\n" + meet + use));
}
