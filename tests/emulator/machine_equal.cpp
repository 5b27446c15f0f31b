// Equal values may meet: several writers that store the same disturb nobody, whatever they store with; and
// what nobody wrote is reported where it matters, whatever it went through.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// %r5: a row of 16 bytes for each lane.
const std::string kRow = "and.b32 %r6, %t, 31; mul.lo.u32 %r5, %r6, 16; add.u32 %r5, %r5, %r3;\n";
const std::string kMeetAndRead = "bar.sync 0; ld.shared.u32 %r20, [%r3+8]; st.global.u32 [%o], %r20;\n";

}  // namespace

TEST_CASE("two warps store equal matrices") {
  const std::string store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r10,%r10,%r10,%r10};\n";
  for (const Policy p : kPolicies) {
    clean(two_warps(kRow + "mov.u32 %r10, 77;" + store + kMeetAndRead, p));
    finds("shared-race", two_warps(kRow + "mov.u32 %r10, %t;" + store + kMeetAndRead, p));
    // Who wrote the value itself may read it before the barrier.
    clean(two_warps(
        kRow + "mov.u32 %r10, 77;" + store + "bar.warp.sync -1; ld.shared.u32 %r20, [%r5]; " + kMeetAndRead,
        p));
  }
}

TEST_CASE("two warps store equal fragments") {
  const std::string store =
      "mov.f32 %f1, 0f3F800000; wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r3], "
      "{%f1,%f1,%f1,%f1,%f1,%f1,%f1,%f1}, 16;\n";
  for (const Policy p : kPolicies) clean(two_warps(store + kMeetAndRead, p));
  finds("shared-race", two_warps("cvt.rn.f32.u32 %f1, %t;" + store.substr(24) + kMeetAndRead));
}

TEST_CASE("no lane knows which elements of a fragment it has stored or loaded") {
  // Here lane t has elements 8 t to 8 t + 7, which PTX does not say.
  const std::string own =
      "mul.lo.u32 %r9, %t, 32; add.u32 %r9, %r9, %r3; mul.wide.u32 %d1, %t, 32; add.u64 %d1, %d1, %out;\n";
  const std::string list = "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}";
  const std::string set =
      "mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; mov.f32 %f5, "
      "%f1; mov.f32 %f6, %f1; mov.f32 %f7, %f1; mov.f32 %f8, %f1;\n";
  const std::string meet = "bar.warp.sync -1;\n";
  const auto shared = [&](const std::string& body) {
    return run(shared_kernel(own + set + body), {.outputs = 4096});
  };
  const std::string store = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r3], " + list + ", 16;\n";
  const std::string load = "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 " + list + ", [%r3], 16;\n";
  const std::string read = "ld.shared.v4.f32 {%f9,%f10,%f11,%f12}, [%r9+16]; st.global.f32 [%o+4096], %f9;\n";
  const std::string write = "st.shared.v4.f32 [%r9+16], {%f1,%f2,%f3,%f1};\n";
  const std::string fill =
      "st.shared.v4.f32 [%r9], {%f1,%f2,%f3,%f4}; st.shared.v4.f32 [%r9+16], {%f1,%f2,%f3,%f4};\n" + meet;
  const std::string change = "add.f32 %f1, %f1, %f1; add.f32 %f2, %f2, %f2;\n";
  finds("warp-race", shared(store + read));
  clean(shared(store + meet + read));
  finds("warp-race", shared(fill + load + change + write));
  clean(shared(fill + load + meet + change + write));
  // Of one shape every lane has the same elements, whichever these are.
  clean(shared(fill + load + change + store + meet + read));
  const std::string to_global =
      "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%out], " + list + ", 16;\n";
  const std::string from_global = "ld.global.f32 %f9, [%d1+8]; st.global.f32 [%o+4096], %f9;\n";
  finds("warp-race", run(shared_kernel(own + set + to_global + from_global), {.outputs = 4096}));
  clean(run(shared_kernel(own + set + to_global + meet + from_global), {.outputs = 4096}));
}

TEST_CASE("diverged lanes store equal values") {
  const auto halves = [](const char* one, const char* other) {
    return run(shared_kernel(std::string("setp.lt.u32 %p2, %t, 16; @%p2 bra A; st.shared.u32 [%r3], ") + one +
                             "; ld.shared.u32 %r7, [%r3]; bra B;\nA: st.shared.u32 [%r3], " + other +
                             "; ld.shared.u32 %r7, [%r3];\nB: bar.warp.sync -1; st.global.u32 [%o], %r7;"));
  };
  clean(halves("5", "5"));
  finds("warp-race", halves("5", "6"));
}

TEST_CASE("all lanes store the same box") {
  const auto store = [](const std::string& who, const std::string& to) {
    return "st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0;\n" + who +
           "cp.async.bulk.global.shared::cta.bulk_group [" + to + "], [%r3], 256;\n" + who +
           "cp.async.bulk.commit_group; " + who + "cp.async.bulk.wait_group 0;\n";
  };
  for (const Policy p : kPolicies) {
    clean(two_warps(store("", "%out"), p));
    const Outcome o = two_warps(store("", "%out"), p);
    CHECK(o.out[63] == 63);
    // Other bytes to the same place.
    finds(
        "global-race",
        two_warps("and.b32 %r9, %t, 1; shl.b32 %r9, %r9, 4; add.u32 %r3, %r3, %r9;" + store("", "%out"), p));
  }
}

TEST_CASE("all lanes load the same box") {
  const std::string load =
      "@%p1 mbarrier.init.shared.b64 [%r2], 32; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256; "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
      "ld.shared.u32 %r20, [%r1]; st.global.u32 [%o], %r20;\n";
  for (const Policy p : kPolicies) {
    const Outcome o = run(shared_kernel(load), {.policy = p});
    clean(o);
    CHECK(o.out[31] == 31);
  }
}

TEST_CASE("equal values in global memory: each writer may read its own") {
  const std::string body =
      "mov.u32 %r10, 9; st.global.u32 [%out], %r10; ld.global.u32 %r11, [%out]; bar.sync 0; st.global.u32 "
      "[%o+1024], %r11;";
  for (const Policy p : kPolicies) clean(two_warps(body, p));
}

TEST_CASE("rows nobody wrote through ldmatrix and mma") {
  // 8 rows of A written (lanes 0 .. 7), 8 not: rows 8 .. 15 of D are in %f3 and %f4.
  const std::string product =
      kRow +
      "setp.lt.u32 %p2, %t, 8; mov.u32 %r10, 0x3c003c00; @%p2 st.shared.v4.u32 [%r5], {%r10,%r10,%r10,%r10}; "
      "@%p2 st.shared.v4.u32 [%r5+256], {%r10,%r10,%r10,%r10}; bar.sync 0;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r11,%r12,%r13,%r14}, [%r5];\n"
      "mov.f32 %f0, 0f00000000; "
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r11,%r12,%r13,%r14}, "
      "{%r10,%r10}, "
      "{%f0,%f0,%f0,%f0};\n";
  const Outcome good = run(shared_kernel(product + "st.global.f32 [%o], %f1; st.global.f32 [%o+128], %f2;"));
  clean(good);
  CHECK(good.out[0] == 0x41800000u);  // 16
  const Outcome bad = run(shared_kernel(product + "st.global.f32 [%o], %f3;"));
  finds("uninitialized-read", bad);
  CHECK(bad.report.findings.front().other.ptx_text.find("ldmatrix") != std::string::npos);
  // Through a second product, a shuffle and shared memory.
  finds(
      "uninitialized-read",
      run(shared_kernel(product + "cvt.rn.f16x2.f32 %r15, %f3, %f4; "
                                  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5,%f6,%f7,%f8}, "
                                  "{%r10,%r15,%r10,%r10}, {%r10,%r10}, {%f0,%f0,%f0,%f0}; mov.b32 %r16, %f7; "
                                  "shfl.sync.bfly.b32 %r17, %r16, 1, 31, -1; st.shared.u32 [%r1+1024], %r17; "
                                  "ld.shared.u32 %r18, [%r1+1024]; st.global.u32 [%o], %r18;")));
  clean(
      run(shared_kernel(product +
                        "cvt.rn.f16x2.f32 %r15, %f3, %f4; "
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5,%f6,%f7,%f8}, "
                        "{%r10,%r15,%r10,%r10}, {%r10,%r10}, {%f0,%f0,%f0,%f0}; st.global.f32 [%o], %f5;")));
}

TEST_CASE("unknown values through shuffles and votes") {
  const std::string load = "ld.shared.u32 %r10, [%r3+512];\n";  // nobody wrote it
  const auto ends = [&](const std::string& text) { return run(shared_kernel(load + text)); };
  finds("uninitialized-read", ends("shfl.sync.idx.b32 %r20, %r10, 0, 31, -1; st.global.u32 [%o], %r20;"));
  finds("uninitialized-read", ends("redux.sync.add.u32 %r20, %r10, -1; st.global.u32 [%o], %r20;"));
  finds("uninitialized-read",
        ends("setp.eq.u32 %p2, %r10, 0; vote.sync.any.pred %p3, %p2, -1; @%p3 st.global.u32 [%o], %t;"));
  finds("uninitialized-read",
        ends("movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r10; st.global.u32 [%o], %r20;"));
  clean(ends("shfl.sync.idx.b32 %r20, %r10, 0, 31, -1; redux.sync.add.u32 %r21, %r20, -1;"));
}

TEST_CASE("fragments of wmma that nobody wrote") {
  const std::string product =
      "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%r3], "
      "16;\n"
      "mov.f32 %f0, 0f00000000;\n"
      "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, "
      "{%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, "
      "{%f0,%f0,%f0,%f0,%f0,%f0,%f0,%f0};\n";
  clean(run(shared_kernel(product)));
  finds("uninitialized-read", run(shared_kernel(product + "st.global.f32 [%o], %f1;")));
}

TEST_CASE("two warps copy equal bytes to one place") {
  // All 64 lanes copy: the lanes of each warp to 32 places, from `from`.
  const auto copy = [](const std::string& from, const std::string& width, const std::string& after) {
    return "and.b32 %r6, %t, 31; mul.lo.u32 %r5, %r6, " + width +
           "; cvt.u64.u32 %d20, %r5; add.u64 %d21, %in, %d20; add.u32 %r5, %r5, %r3;\n" + from +
           "cp.async.ca.shared.global [%r5], [%d21], " + width +
           "; cp.async.commit_group; cp.async.wait_group 0;\n" + after +
           "ld.shared.u32 %r20, [%r5]; st.global.u32 [%o], %r20;\n";
  };
  const std::string other = "setp.lt.u32 %p2, %t, 32; @%p2 bra A; add.u64 %d21, %d21, 16; A:\n";
  for (const Policy p : kPolicies)
    for (const std::string width : {"4", "8", "16"}) {
      clean(two_warps(copy("", width, "bar.sync 0;"), p));
      // Each warp may read what it has waited for itself.
      clean(two_warps(copy("", width, "bar.warp.sync -1;"), p));
      finds("async-memory", two_warps(copy(other, width, "bar.sync 0;"), p));
    }
}

TEST_CASE("lanes of one cp.async bring equal bytes to one place, or are reported") {
  const auto copy = [](const std::string& stride) {
    return "mul.lo.u32 %r5, %t, " + stride +
           "; cvt.u64.u32 %d20, %r5; add.u64 %d21, %in, %d20; cp.async.ca.shared.global [%r3], [%d21], 4;\n"
           "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r20, [%r3]; "
           "st.global.u32 [%o], %r20;\n";
  };
  for (const Policy p : kPolicies) {
    clean(run(shared_kernel(copy("0")), {.policy = p}));
    finds("async-memory", run(shared_kernel(copy("4")), {.policy = p}));
  }
}

TEST_CASE("who overwrites equal copies follows all of them") {
  // Warp 1 copies what warp 0 copied and does not wait; warp 0 writes something else.
  const std::string body =
      "cp.async.ca.shared.global [%r3], [%in], 4; cp.async.commit_group;\n"
      "setp.lt.u32 %p2, %t, 32; @!%p2 bra B; cp.async.wait_group 0;\nB: bar.sync 0;\n"
      "setp.eq.u32 %p3, %t, 0; @%p3 st.shared.u32 [%r3], 9; cp.async.wait_group 0; bar.sync 0;\n";
  for (const Policy p : kPolicies) finds("async-memory", two_warps(body, p));
}
