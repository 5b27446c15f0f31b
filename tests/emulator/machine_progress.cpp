// Lanes of a warp that spin while another lane of it has what they wait for; memory that kernels allocate.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

const char* const kHeap =
    ".extern .func (.param .b64 r) malloc (.param .b64 bytes);\n.extern .func free (.param .b64 pointer);\n";
/// %d1 = malloc(%d2).
const char* const kMalloc =
    "{ .param .b64 a; .param .b64 r; st.param.b64 [a], %d2; call (r), malloc, (a); ld.param.b64 %d1, [r]; }\n";
/// free(%d1).
const char* const kFree = "{ .param .b64 a; st.param.b64 [a], %d1; call free, (a); }\n";

}  // namespace

TEST_CASE("lanes that spin let the lane go on that they wait for") {
  for (const Policy policy : kPolicies) {
    const Outcome o =
        run(kernel("mov.u32 %r9, 0; setp.eq.u32 %p1, %t, 7; @%p1 st.shared.u32 [s], %r9; bar.sync 0;\n"
                   "@%p1 bra tell;\n"
                   "spin: ld.acquire.cta.shared.u32 %r1, [s]; setp.eq.u32 %p2, %r1, 0; @%p2 bra spin;\n"
                   "bra after;\n"
                   "tell: mov.u32 %r2, 5; st.release.cta.shared.u32 [s], %r2; mov.u32 %r1, 5;\n"
                   "after: st.global.u32 [%o], %r1;",
                   kShared),
            {.policy = policy});
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 5);
  }
}

TEST_CASE("each lane takes a lock, and those that try in vain let the one go on that has it") {
  // The loop is below the critical section, so that lanes without the lock would be chosen first.
  for (const std::string& acquire :
       {std::string("atom.shared.cas.b32 %r1, [s], 0, 1;"), std::string("atom.shared.exch.b32 %r1, [s], 1;")})
    for (const Policy policy : kPolicies) {
      const Outcome o =
          run(kernel("mov.u32 %r9, 0; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], %r9;\n"
                     "@%p1 st.shared.u32 [s+4], %r9; bar.sync 0;\n"
                     "again: " +
                         acquire +
                         " setp.ne.u32 %p2, %r1, 0; @%p2 bra again;\n"
                         "fence.acq_rel.cta; ld.shared.u32 %r2, [s+4]; add.u32 %r2, %r2, 1;\n"
                         "st.shared.u32 [s+4], %r2; fence.acq_rel.cta; atom.shared.exch.b32 %r3, [s], 0;\n"
                         "bar.sync 0; ld.shared.u32 %r2, [s+4]; st.global.u32 [%o], %r2;",
                     kShared),
              {.block = {64, 1, 1}, .policy = policy, .budget = 2'000'000});
      clean(o);
      for (std::uint32_t i = 0; i < 64; ++i) CHECK(o.out[i] == 64);
    }
}

TEST_CASE(
    "who looks a bounded number of times, asleep between, sees what blocks of another host thread do meanwhile") {
  // 200,000 instructions before block 0 tells; 96 looks without a pause would be over long before.
  const Outcome o =
      run(kernel("mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 0; @%p1 bra work;\n"
                 "mov.u32 %r2, 0;\n"
                 "look: ld.acquire.gpu.global.u32 %r1, [%o+256]; setp.eq.u32 %p2, %r1, 5; @%p2 bra seen;\n"
                 "nanosleep.u32 64; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 96; @%p2 bra look;\n"
                 "seen: st.global.u32 [%o], %r1; bra end;\n"
                 "work: mov.u32 %r2, 0;\n"
                 "again: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 66666; @%p2 bra again;\n"
                 "mov.u32 %r1, 5; st.release.gpu.global.u32 [%o+256], %r1;\nend:"),
          {.grid = {2, 1, 1}, .findings = false, .host_threads = 2});
  CHECK(o.out[0] == 5);
}

TEST_CASE("kernels allocate memory") {
  const Outcome o = run(kernel("add.u32 %r1, %t, 1; mul.wide.u32 %d2, %r1, 4;\n" + std::string(kMalloc) +
                                   "mov.u64 %d3, %d1; mov.u32 %r2, 0;\n"
                                   "fill: st.u32 [%d3], %r2; add.u64 %d3, %d3, 4; add.u32 %r2, %r2, 1;\n"
                                   "setp.lt.u32 %p1, %r2, %r1; @%p1 bra fill;\n"
                                   "ld.u32 %r3, [%d3+-4]; st.global.u32 [%o], %r3;\n" +
                                   kFree,
                               kHeap),
                        {.grid = {4, 1, 1}, .outputs = 32});
  // Blocks write the same values to one place.
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == i);
  for (const Finding& f : o.report.findings) CHECK(f.kind == "global-race");
}

TEST_CASE("memory that kernels allocate comes back, and runs out") {
  // 80 times 8 KiB by each of 32 lanes: 20 MiB in all, of 8.
  clean(run(kernel(
      "mov.u64 %d2, 8192; mov.u32 %r1, 0;\nagain:\n" + std::string(kMalloc) + "st.u32 [%d1], %r1;\n" + kFree +
          "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 80; @%p1 bra again; st.global.u32 [%o], %r1;",
      kHeap)));
  const Outcome o =
      run(kernel("mov.u64 %d2, 9000000;\n" + std::string(kMalloc) + "st.global.u64 [%o], %d1;", kHeap),
          {.block = {1, 1, 1}});
  clean(o);
  CHECK((o.out[0] | o.out[1]) == 0);
}

TEST_CASE("what is wrong with memory that kernels allocate") {
  const auto one = [](const std::string& body) {
    return run(kernel("mov.u64 %d2, 40;\n" + std::string(kMalloc) + body, kHeap), {.block = {1, 1, 1}});
  };
  clean(one("st.u32 [%d1+36], %t; ld.u32 %r1, [%d1+36]; st.global.u32 [%o], %r1;"));
  finds("out-of-bounds", one("st.u32 [%d1+40], %t;"));
  finds("out-of-bounds", one("st.u32 [%d1+-8], %t;"));
  finds("uninitialized-read", one("ld.u32 %r1, [%d1]; st.global.u32 [%o], %r1;"));
  finds("out-of-bounds", one(std::string(kFree) + "st.u32 [%d1], %t;"));
  finds("out-of-bounds", one(std::string(kFree) + kFree));
  finds("out-of-bounds", one("add.u64 %d1, %d1, 16;\n" + std::string(kFree)));
}

TEST_CASE("kernels that launch kernels are refused in so many words") {
  const std::string text = kernel("{ .param .b64 r; call (r), __cudaCDP2GetParameterBufferV2, (); }",
                                  ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2 ();\n");
  CHECK_THROWS_WITH_AS(Module::from_ptx(text), doctest::Contains("dynamic parallelism"), Error);
}
