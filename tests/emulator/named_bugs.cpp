// Twenty mistakes that programmers make, each as a small program: the wrong one is found by the kind that names it,
// and the right one is clean, under every policy.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

struct Bug {
  std::string name, kind, wrong, right;
  Setup setup{};
};

Setup threads(std::uint32_t count) {
  Setup s;
  s.block = {count, 1, 1};
  return s;
}
Setup grid_of(std::uint32_t count) {
  Setup s;
  s.grid = {count, 1, 1};
  return s;
}

std::vector<Bug> bugs() {
  const std::string put = "st.shared.u32 [%r1], %t;\n", sync = "bar.sync 0;\n";
  // The word of the thread 32 further on, of two warps.
  const std::string other =
      "xor.b32 %r5, %r4, 128; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; "
      "st.global.u32 [%o], %r6;\n";
  const std::string neighbour =
      "xor.b32 %r5, %r4, 4; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; "
      "st.global.u32 [%o], %r6;\n";
  const std::string init = "@%p1 mbarrier.init.shared.b64 [%r2], 1;\n";
  const std::string visible = "fence.mbarrier_init.release.cluster; bar.sync 0;\n";
  const std::string expect = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;\n";
  const std::string load =
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%r3], [%in], 128, [%r2];\n";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  const std::string get = "ld.shared.u32 %r6, [%r1]; st.global.u32 [%o], %r6;\n";
  const std::string copy =
      "cvt.u64.u32 %d20, %r4; add.u64 %d20, %d20, %in; "
      "cp.async.ca.shared.global [%r1], [%d20], 4; cp.async.commit_group;\n";
  const std::string flag = "setp.eq.u32 %p3, %ctaid.x, 0; @!%p3 bra R;\n";
  const std::string store_out =
      "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; "
      "@%p1 cp.async.bulk.commit_group;\n";
  const std::string drain = "@%p1 cp.async.bulk.wait_group.read 0;\n";
  return {
      {"a barrier is missing", "shared-race", put + other, put + sync + other, threads(64)},
      {"the barrier before the buffer is used again is missing", "shared-race",
       put + sync + other + "st.shared.u32 [%r1], 7;", put + sync + other + sync + "st.shared.u32 [%r1], 7;",
       threads(64)},
      {"lanes of a warp talk without __syncwarp", "warp-race", put + neighbour,
       put + "bar.warp.sync -1;" + neighbour},
      {"a mask names lanes that do not come", "warp-mask",
       "setp.lt.u32 %p2, %t, 16; @!%p2 bra E; shfl.sync.idx.b32 %r6, %t, 0, 31, 0xff00; st.global.u32 [%o], %r6; E:",
       "setp.lt.u32 %p2, %t, 16; @!%p2 bra E; shfl.sync.idx.b32 %r6, %t, 0, 31, 0xffff; st.global.u32 [%o], %r6; E:"},
      {"half of a warp goes past a barrier", "divergent-barrier",
       "setp.lt.u32 %p2, %t, 16; @%p2 bra E; bar.sync 0; bra D; E: bar.sync 0; D: st.global.u32 [%o], %t;",
       "bar.sync 0; st.global.u32 [%o], %t;", threads(64)},
      {"an index is off by one at the array's end", "out-of-bounds", "st.global.u32 [%o+3972], %t;",
       "st.global.u32 [%o+3968], %t;"},
      {"a negative index", "out-of-bounds", "ld.global.u32 %r6, [%in+-4]; st.global.u32 [%o], %r6;",
       "ld.global.u32 %r6, [%in+4]; st.global.u32 [%o], %r6;"},
      {"shared memory is too small", "out-of-bounds", "st.shared.u32 [%r1+4080], %t;",
       "st.shared.u32 [%r1+3968], %t;"},
      {"a vector access at an odd address", "misaligned",
       "ld.global.v2.u32 {%r6,%r7}, [%in+4]; st.global.u32 [%o], %r7;",
       "ld.global.v2.u32 {%r6,%r7}, [%in+8]; st.global.u32 [%o], %r7;"},
      {"shared memory is summed up before it is cleared", "uninitialized-read",
       "ld.shared.u32 %r6, [%r1]; add.u32 %r6, %r6, %t; st.global.u32 [%o], %r6;",
       "st.shared.u32 [%r1], 0; ld.shared.u32 %r6, [%r1]; add.u32 %r6, %r6, %t; st.global.u32 [%o], %r6;"},
      {"an accumulator starts with no value", "uninitialized-register",
       "setp.lt.u32 %p2, %t, 16; @%p2 mov.u32 %r6, 0; add.u32 %r6, %r6, 1; st.global.u32 [%o], %r6;",
       "mov.u32 %r6, 0; add.u32 %r6, %r6, 1; st.global.u32 [%o], %r6;"},
      {"blocks count without an atomic", "global-race",
       "@%p1 ld.global.u32 %r6, [%in]; add.u32 %r6, %r6, %ctaid.x; @%p1 st.global.u32 [%in], %r6;",
       "@%p1 red.global.add.u32 [%in], 1;", grid_of(4)},
      {"cp.async is read before it is waited for", "async-memory", copy + get,
       copy + "cp.async.wait_group 0;" + get},
      {"a bulk load is read before its mbarrier", "async-memory", init + visible + expect + load + get,
       init + visible + expect + load + wait + get},
      {"the bytes expected are too few", "transaction-count",
       init + visible + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;" + load + wait + get,
       init + visible + expect + load + wait + get},
      {"the bytes expected are too many", "transaction-count",
       init + visible + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;" + load + wait + get,
       init + visible + expect + load + wait + get},
      {"the wrong parity is waited for", "async-memory|deadlock",
       init + visible + expect + load + "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 1; @!%p2 bra W;" +
           get,
       init + visible + expect + load + wait + get},
      {"an mbarrier is not made visible to the copy", "missing-mbarrier-fence",
       init + sync + expect + load + wait + get, init + visible + expect + load + wait + get},
      {"a bulk store is not told of the writes before it", "missing-proxy-fence",
       put + sync + store_out + drain, put + "fence.proxy.async;" + sync + store_out + drain},
      {"a bulk store's source is written again too early", "async-memory",
       put + "fence.proxy.async;" + sync + store_out + sync + "st.shared.u32 [%r1], 7;" + drain,
       put + "fence.proxy.async;" + sync + store_out + drain + sync + "st.shared.u32 [%r1], 7;"},
      {"an mbarrier's arrivals are one too many", "mbarrier-overrun",
       init + visible + expect + "@%p1 mbarrier.arrive.shared.b64 _, [%r2];" + load + wait + get,
       init + visible + expect + load + wait + get},
  };
}

}  // namespace

TEST_CASE("named mistakes are found by the kind that names them") {
  const auto all = bugs();
  CHECK(all.size() >= 20);
  for (const Bug& bug : all)
    for (const Policy p : kPolicies) {
      CAPTURE(bug.name);
      Setup setup = bug.setup;
      setup.policy = p;
      const Outcome wrong = run(shared_kernel(bug.wrong), setup);
      const std::size_t bar = bug.kind.find('|');  // what comes of it depends on when the copy lands
      if (bar == std::string::npos || !wrong.found(bug.kind.substr(bar + 1)))
        finds(bug.kind.substr(0, bar), wrong);
      clean(run(shared_kernel(bug.right), setup));
    }
}
