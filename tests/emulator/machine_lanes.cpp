// Lanes of one warp that talk through shared or global memory need bar.warp.sync; and other misuse that a
// lucky schedule hides: mbarriers initialised twice or without fence, threads that end too early.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

const std::string kStoreOwn = "st.shared.u32 [%r1], %t;\n";
// From the neighbour: %r5 = s + 4 * (tid ^ 1).
const std::string kReadNeighbour =
    "xor.b32 %r5, %r4, 4; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; st.global.u32 [%o], %r6;\n";

}  // namespace

TEST_CASE("a lane that reads what another lane wrote") {
  const Outcome o = one_warp(kStoreOwn + kReadNeighbour);
  finds("warp-race", o);
  const Finding& f = o.report.findings.front();
  CHECK(f.has_other);
  CHECK((f.site.lane ^ 1) == f.other.lane);
  CHECK(f.other.ptx_text.find("st.shared") != std::string::npos);
  clean(one_warp(kStoreOwn + "bar.warp.sync -1;\n" + kReadNeighbour));
  clean(one_warp(kStoreOwn + "bar.sync 0;\n" + kReadNeighbour));
  // shfl orders nothing.
  finds("warp-race", one_warp(kStoreOwn + "shfl.sync.idx.b32 %r7, %t, 0, 31, -1;\n" + kReadNeighbour));
  // Its own word is its own.
  clean(one_warp(kStoreOwn + "ld.shared.u32 %r6, [%r1]; st.global.u32 [%o], %r6;"));
}

TEST_CASE("races of lanes are found however much lies between") {
  const std::string written = kStoreOwn + "bar.warp.sync -1;\n", read = "ld.shared.u32 %r6, [%r1];\n";
  const std::string write = "xor.b32 %r5, %r4, 4; add.u32 %r5, %r5, %r3; st.shared.u32 [%r5], %r6;\n";
  std::string reads;
  for (int i = 0; i < 600; ++i) reads += read;
  finds("warp-race", one_warp(written + read + write));
  finds("warp-race", one_warp(written + reads + write));
  finds("warp-race", one_warp(kStoreOwn + "st.shared.u32 [%r1+256], %t;\n" + kReadNeighbour));
  clean(one_warp(written + reads + "bar.warp.sync -1;\n" + write));
  clean(one_warp(written + reads + "st.shared.u32 [%r1], %t;\n"));
  // After a store of what is there already, too, and between them.
  finds("warp-race", one_warp(kStoreOwn + kStoreOwn + kReadNeighbour));
}

TEST_CASE("lanes that share a word") {
  const std::string own = "add.u32 %r5, %r3, %t; st.shared.u8 [%r5], %t; ";
  clean(one_warp(own + "ld.shared.u8 %r6, [%r5]; st.global.u32 [%o], %r6;"));
  finds("warp-race", one_warp(own + "xor.b32 %r7, %t, 1; add.u32 %r5, %r3, %r7; ld.shared.u8 %r6, [%r5]; "
                                    "st.global.u32 [%o], %r6;"));
}

TEST_CASE("lanes that talk through global memory") {
  const std::string store = "st.global.u32 [%o], %t;\n";
  const std::string read =
      "xor.b32 %r5, %r4, 4; cvt.u64.u32 %d1, %r5; add.u64 %d1, %d1, %out; ld.global.u32 "
      "%r6, [%d1]; st.global.u32 [%o+1024], %r6;\n";
  const Outcome o = one_warp(store + read);
  finds("warp-race", o);
  CHECK(o.report.findings.front().message.find("global memory") != std::string::npos);
  clean(one_warp(store + "bar.warp.sync -1;\n" + read));
  clean(one_warp(store + "bar.sync 0;\n" + read));
  clean(one_warp(store + "ld.global.u32 %r6, [%o]; st.global.u32 [%o], %r6;"));
  finds("warp-race", one_warp(store + "bar.warp.sync -1;\n" + read + store.substr(0, 19) + " 5;"));
  // Of strong accesses each orders itself.
  clean(
      one_warp("st.volatile.global.u32 [%o], %t; xor.b32 %r5, %r4, 4; cvt.u64.u32 %d1, %r5; add.u64 %d1, "
               "%d1, %out; ld.volatile.global.u32 %r6, [%d1]; st.global.u32 [%o+1024], %r6;"));
}

TEST_CASE("a lane that overwrites what another lane has still to read") {
  const std::string again = "st.shared.u32 [%r1], 5;\n";
  finds("warp-race", one_warp(kStoreOwn + "bar.warp.sync -1;\n" + kReadNeighbour + again));
  clean(one_warp(kStoreOwn + "bar.warp.sync -1;\n" + kReadNeighbour + "bar.warp.sync -1;\n" + again));
  // What one instruction writes to one place at once is defined (some lane wins).
  clean(one_warp("st.shared.u32 [%r3], %t;"));
  finds("warp-race",
        one_warp("st.shared.u32 [%r3], %t; setp.gt.u32 %p2, %t, 3; @%p2 st.shared.u32 [%r3], 1;"));
}

TEST_CASE("partial masks order the lanes they name, and what those knew") {
  // Lanes pair up; then pairs of pairs; lane 3 passes on what lane 2 told it.
  const std::string pairs =
      "setp.lt.u32 %p2, %t, 2; @!%p2 bra A; bar.warp.sync 3; bra B;\nA: bar.warp.sync 0xfffffffc;\nB:\n";
  clean(one_warp(kStoreOwn + pairs + kReadNeighbour));
  const std::string other =
      "xor.b32 %r5, %r4, 8; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; st.global.u32 [%o], %r6;\n";
  finds("warp-race", one_warp(kStoreOwn + pairs + other));  // lane 0 reads lane 2
}

TEST_CASE("diverged lanes race as well") {
  finds("warp-race",
        one_warp("setp.lt.u32 %p2, %t, 16; @%p2 bra A; mov.u32 %r9, 1; bra B;\nA: st.shared.u32 [%r3], "
                 "%t;\nB: ld.shared.u32 %r6, [%r3]; st.global.u32 [%o], %r6;"));
}

TEST_CASE("mbarriers: initialised once, known to whoever uses them, and fenced for copies") {
  const std::string init = "@%p1 mbarrier.init.shared.b64 [%r2], 1;\n";
  const std::string fence = "fence.mbarrier_init.release.cluster;\n", sync = "bar.sync 0;\n";
  const std::string copy =
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n@%p1 "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  clean(two_warps(init + fence + sync + copy + wait));
  finds("missing-mbarrier-fence", two_warps(init + sync + copy + wait));
  bool found = false;
  for (const Policy p : kPolicies)
    found |= two_warps(init + fence + copy + wait, p).found("invalid-mbarrier");
  CHECK(found);
  finds("invalid-mbarrier", two_warps(init + fence + sync + copy + wait + sync + init));
  clean(
      two_warps(init + fence + sync + copy + wait + sync + "@%p1 mbarrier.inval.shared.b64 [%r2];\n" + init));
  finds("invalid-mbarrier",
        two_warps(init + fence + sync + copy + wait + sync + "@%p1 st.shared.u64 [%r2], %in;"));
}

TEST_CASE("a thread may not end while its bulk store reads shared memory") {
  const std::string store =
      "st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0; @%p1 "
      "cp.async.bulk.global.shared::cta.bulk_group "
      "[%out], [%r3], 256; @%p1 cp.async.bulk.commit_group;\n";
  for (const Policy p : kPolicies) {
    finds("async-memory", two_warps(store, p));
    clean(two_warps(store + "@%p1 cp.async.bulk.wait_group.read 0;", p));
  }
}

TEST_CASE("an aligned barrier that only a part of the warp reaches") {
  const Outcome o = one_warp("setp.lt.u32 %p2, %t, 16; @%p2 bra A;\nbar.sync 0; bra E;\nA: bar.sync 0;\nE:");
  finds("divergent-barrier", o);
  const Finding& f = o.report.findings.front();
  CHECK(f.message.find("16 lanes") != std::string::npos);
  CHECK(f.has_other);
  CHECK(f.site.ptx_line != f.other.ptx_line);
  // The same barrier from both sides is one, and so is one that waits for each lane by itself.
  clean(one_warp("setp.lt.u32 %p2, %t, 16; @%p2 bra A; mov.u32 %r5, 1;\nA: bar.sync 0;"));
}

TEST_CASE("barriers that wait for more threads than the block has") {
  finds("barrier-count", two_warps("bar.sync 1, 96;"));
  CHECK_THROWS_AS(Module::from_ptx(kernel("bar.arrive 1;")), Error);
}

TEST_CASE("lanes that exit before a barrier at which the others wait") {
  const std::string tail =
      "st.shared.u32 [%r1], %t; bar.sync 0; ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %r5;\nEND:";
  const auto leaving = [&](const std::string& who, const std::string& body, std::uint32_t threads = 64) {
    return run(shared_kernel("setp." + who + "; @%p5 bra END;\n" + body), {.block = {threads, 1, 1}});
  };
  // Whole warps may return early, and a block need not fill its last warp.
  clean(leaving("gt.u32 %p5, %t, 31", tail));
  clean(leaving("gt.u32 %p5, %t, 1000", tail, 40));
  // Of one warp some: undefined for an aligned barrier, and as compiled right.
  const Outcome o = leaving("eq.u32 %p5, %t, 5", tail);
  REQUIRE(o.report.findings.size() == 1);
  const Finding& f = o.report.findings[0];
  CHECK(f.kind == "divergent-barrier");
  CHECK(f.severity == Severity::undefined);
  CHECK(f.message.find("1 lane of the warp exited") == 0);
  CHECK(f.other.ptx_text.find("ret") != std::string::npos);
  CHECK(o.report.completed);
  for (std::uint32_t i = 0; i < 64; ++i)
    if (i != 5) CHECK(o.out[i] == i);
  CHECK(leaving("eq.u32 %p5, %t, 5", "bar.sync 0; " + tail).report.findings.size() == 1);
  CHECK(leaving("gt.u32 %p5, %t, 40", tail).report.findings.size() == 1);
  // A barrier that is not aligned counts lanes, and after the last barrier anybody may go.
  clean(leaving("eq.u32 %p5, %t, 5", "barrier.sync 0; st.global.u32 [%o], %t;\nEND:"));
  clean(leaving("gt.u32 %p5, %t, 1000",
                "bar.sync 0; setp.eq.u32 %p6, %t, 5; @%p6 bra END; st.global.u32 [%o], %t;\nEND:"));
}
