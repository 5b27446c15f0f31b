// Registers nobody wrote, values loaded from memory nobody wrote, and registers of wgmma without its fence.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

TEST_CASE("an unwritten register is found where its value matters") {
  const Outcome o = run(kernel("add.u32 %r2, %r1, 1;\nst.global.u32 [%o], %r2;"));
  finds("uninitialized-register", o);
  CHECK(o.report.findings.front().site.ptx_line == 10);
  CHECK(o.report.findings.front().message.find("%r2") != std::string::npos);
  finds("uninitialized-register", run(kernel("ld.global.u32 %r2, [%d3];")));
  finds("uninitialized-register", run(kernel("@%p5 bra L; st.global.u32 [%o], %t;\nL:")));
  finds("uninitialized-register", two_warps("bar.sync %r7;"));
  // Computed and thrown away: no harm.
  clean(run(kernel("add.u32 %r2, %r1, 1; st.global.u32 [%o], %t;")));
}

TEST_CASE("an instruction that has been right goes wrong later") {
  // The fourth time round the loaded word is one that nobody has written.
  const std::string loop =
      "st.shared.u32 [%r1], %t; st.shared.u32 [%r1+128], %t; st.shared.u32 [%r1+256], %t; bar.sync 0; mov.u32 "
      "%r5, 0;\nL:\nld.shared.u32 %r6, [%r1]; add.u32 %r7, %r6, 1; st.global.u32 [%o], %r7; add.u32 %r1, %r1, "
      "128; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, ROUNDS; @%p2 bra L;";
  const auto rounds = [&](const std::string& n) {
    std::string body = loop;
    return run(shared_kernel(body.replace(body.find("ROUNDS"), 6, n)));
  };
  clean(rounds("3"));
  finds("uninitialized-read", rounds("4"));
}

TEST_CASE("lanes are told apart") {
  const std::string half = "setp.lt.u32 %p1, %t, 16; @%p1 mov.u32 %r1, 7;\n";
  clean(run(kernel(half + "@%p1 st.global.u32 [%o], %r1;")));
  const Outcome o = run(kernel(half + "st.global.u32 [%o], %r1;"));
  finds("uninitialized-register", o);
  CHECK(o.report.findings.front().site.lane == 16);
  // Both sides of a branch write it.
  clean(run(kernel(half + "@!%p1 mov.u32 %r1, 8; st.global.u32 [%o], %r1;")));
}

TEST_CASE("an operand that does not decide does not count") {
  // The second predicate is unknown, the first one false (or true).
  clean(run(
      kernel("setp.eq.u32 %p1, %t, 99; and.pred %p2, %p1, %p3; selp.u32 %r1, 1, 2, %p2; st.global.u32 [%o], "
             "%r1;")));
  clean(run(
      kernel("setp.ne.u32 %p1, %t, 99; or.pred %p2, %p1, %p3; selp.u32 %r1, 1, 2, %p2; st.global.u32 [%o], "
             "%r1;")));
  clean(run(kernel("setp.ne.u32 %p1, %t, 99; selp.u32 %r1, %t, %r9, %p1; st.global.u32 [%o], %r1;")));
  finds("uninitialized-register",
        run(kernel(
            "setp.ne.u32 %p1, %t, 99; and.pred %p2, %p1, %p3; selp.u32 %r1, 1, 2, %p2; st.global.u32 [%o], "
            "%r1;")));
}

TEST_CASE(
    "what was loaded from unwritten shared memory is found where it is used, with the load as other party") {
  clean(two_warps("ld.shared.u32 %r5, [%r1]; st.global.u32 [%o], %t;"));
  const Outcome o = two_warps("ld.shared.u32 %r5, [%r1];\nadd.u32 %r5, %r5, 1;\nst.global.u32 [%o], %r5;");
  finds("uninitialized-read", o);
  const Finding& f = o.report.findings.front();
  CHECK(f.site.ptx_text.find("st.global") != std::string::npos);
  CHECK(f.has_other);
  CHECK(f.other.ptx_text.find("ld.shared") != std::string::npos);
  // Through shared memory as well: what is stored unknown is read unknown.
  finds("uninitialized-read",
        two_warps("ld.shared.u32 %r5, [%r1]; st.shared.u32 [%r1+256], %r5; ld.shared.u32 %r6, [%r1+256]; "
                  "st.global.u32 [%o], %r6;"));
}

namespace {

/// One bf16 wgmma on 4096 bytes of ones, `before` it and between the two of a chain.
std::string wgmma_program(const std::string& before, const std::string& between,
                          const std::string& scale = "1") {
  std::string stores;
  for (int i = 0; i < 6; ++i) stores += "st.shared.u32 [%r1+" + std::to_string(512 * i) + "], %r5;\n";
  const std::string mma =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p3, 1, 1, 0, "
      "0;\n";
  return shared_kernel(
      "mov.u32 %r5, 0x3f803f80; setp.eq.u32 %p3, " + scale + ", 1;\n" + stores +
      "fence.proxy.async; bar.sync 0;\n"
      "shr.u32 %r8, %r3, 4; cvt.u64.u32 %d1, %r8; or.b64 %d1, %d1, 0x0000001000080000; add.u32 %r7, "
      "%r3, 2048; shr.u32 %r8, %r7, 4; cvt.u64.u32 %d2, %r8; or.b64 %d2, %d2, 0x0000001000080000;\n" +
      before + mma + between + mma +
      "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.b32 %r9, %f1; "
      "st.global.u32 [%o], %r9;");
}
Outcome warpgroup(const std::string& ptx) {
  return run(ptx, {.block = {128, 1, 1}});
}
const std::string kClear = "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n";
const std::string kFence = "wgmma.fence.sync.aligned;\n";

}  // namespace

TEST_CASE("registers of wgmma need a wgmma.fence after every other access") {
  clean(warpgroup(wgmma_program(kClear + kFence, "")));
  finds("missing-wgmma-fence", warpgroup(wgmma_program(kClear, "")));
  // Where nvcc moves an initialisation, which ptxas makes good.
  const Outcome constant = warpgroup(wgmma_program(kFence + kClear, ""));
  finds("missing-wgmma-fence", constant);
  for (const Finding& f : constant.report.findings) CHECK(f.severity == Severity::note);
  const Outcome sum = warpgroup(wgmma_program(kFence + kClear + "add.f32 %f1, %f1, %f1;\n", ""));
  finds("missing-wgmma-fence", sum);
  CHECK(sum.report.findings.front().severity == Severity::undefined);
  const std::string wait = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  const std::string touch = "add.f32 %f1, %f1, %f1;\n";
  finds("missing-wgmma-fence", warpgroup(wgmma_program(kClear + kFence, wait + touch)));
  clean(warpgroup(wgmma_program(kClear + kFence, wait + touch + kFence)));
  // Reading is an access too.
  finds("missing-wgmma-fence", warpgroup(wgmma_program(kClear + kFence, wait + "add.f32 %f9, %f1, %f1;\n")));
}

TEST_CASE("accumulators may be unwritten when scale-d is false only") {
  const std::string first = "setp.ne.u32 %p3, 0, 0;\n" + kFence, then = "setp.eq.u32 %p3, 0, 0;\n";
  clean(warpgroup(wgmma_program(first, then)));
  finds("uninitialized-register", warpgroup(wgmma_program(kFence, "")));
}

TEST_CASE("registers that are never needed together may share a row, and nothing shows of it") {
  // Sixty values one after another beside a sum that stays, in a loop whose lanes leave it at different times.
  std::string body = "mov.u32 %r1, 0; mov.u32 %r2, 0;\nL:\nadd.u32 %r3, %t, %r2;\n";
  for (int i = 4; i < 60; ++i) {
    const std::string to = "%r" + std::to_string(i), from = "%r" + std::to_string(i - 1);
    body += "add.u32 " + to + ", " + from + ", 1;\n";
    if (i % 8 == 0) body += "setp.gt.u32 %p2, " + to + ", 50; @%p2 add.u32 %r1, %r1, " + to + ";\n";
  }
  body += "add.u32 %r1, %r1, %r59; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %t; @%p1 bra L;\n";
  const Outcome o = run(kernel(body + "st.global.u32 [%o], %r1;"));
  clean(o);
  for (std::uint32_t t = 0; t < 32; ++t) {
    std::uint32_t sum = 0;
    for (std::uint32_t round = 0; round < std::max(t, 1u); ++round) {
      for (std::uint32_t i = 8; i < 60; i += 8) sum += t + round + i - 3 > 50 ? t + round + i - 3 : 0;
      sum += t + round + 56;
    }
    CHECK(o.out[t] == sum);
  }
}

TEST_CASE("a register in the row of another one goes by its own name") {
  const Outcome o = two_warps(
      "add.u32 %r20, %r4, 1; add.u32 %r21, %r20, 1; st.shared.u32 [%r1+512], %r21; ld.shared.u32 %r22, [%r1];\n"
      "add.u32 %r23, %r22, 1;\nst.global.u32 [%o], %r23;");
  finds("uninitialized-read", o);
  CHECK(o.report.findings.front().message.starts_with("%r23 "));
}

TEST_CASE("of a value that some lanes never got the register keeps to itself") {
  // Where only half of the lanes assign %r9, rows of others may not make it look known.
  const std::string before = "add.u32 %r5, %t, 1; add.u32 %r6, %r5, 1; st.global.u32 [%o], %r6;\n";
  const std::string half = "setp.lt.u32 %p2, %t, 16; @!%p2 bra L; mov.u32 %r9, 3;\nL:\n";
  const Outcome o = run(kernel(before + half + "add.u32 %r10, %r9, 1; st.global.u32 [%o], %r10;"));
  finds("uninitialized-register", o);
  CHECK(o.report.findings.front().site.lane == 16);
  clean(run(kernel(before + half + "@%p2 st.global.u32 [%o], %r9;")));
}
