// cp.async that mbarriers wait for (cp.async.mbarrier.arrive.noinc). A thread's arrivals come in their order,
// each with all that the thread copied before; those of other lanes and warps, and bulk copies, owe them
// nothing.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// mbarriers of `arrivals` each at %r2 and %r2 + 8; %r5: warp.
std::string two_barriers(int arrivals) {
  const std::string n = std::to_string(arrivals);
  return "shr.u32 %r5, %t, 5; mov.u32 %r2, bars;\n"
         "@%p1 mbarrier.init.shared.b64 [%r2], " +
         n + "; @%p1 mbarrier.init.shared.b64 [%r2+8], " + n +
         "; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n";
}
// Lane copies of a word each from %in + 4 * thread to %r1 + `at`, and their arrivals at `bar`.
std::string copies(int at, const std::string& bar) {
  return "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in; cp.async.ca.shared.global [%r1+" +
         std::to_string(at) + "], [%d1], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [" + bar + "];\n";
}
std::string wait(const std::string& label, const std::string& bar, int parity = 0) {
  return label + ": mbarrier.try_wait.parity.shared.b64 %p3, [" + bar + "], " + std::to_string(parity) +
         "; @!%p3 bra " + label + ";\n";
}
std::string two_barrier_program(const std::string& body) {
  return shared_kernel(body + "\nEND:")
      .insert(std::string(kPrelude).size(), ".shared .align 8 .b64 bars[2];\n");
}
Outcome run_warps(int warps, const std::string& body, Policy policy, std::uint64_t seed = 1) {
  return run(two_barrier_program(body),
             {.block = {static_cast<std::uint32_t>(32 * warps), 1, 1}, .policy = policy, .seed = seed});
}

// %r6 of all lanes: whether the first mbarrier's first phase is still under way.
const std::string kUnderWay =
    "mbarrier.test_wait.parity.shared.b64 %p5, [%r2], 1; selp.u32 %r6, 1, 0, %p5;\n";

// Warp 0 copies for the first mbarrier, then warp 1 for the second. Warp 2 waits for the second and then
// looks at the first; warp 3 waits for the first.
Outcome two_copiers(Policy policy, std::uint64_t seed) {
  return run_warps(4,
                   two_barriers(32) + "setp.ne.u32 %p4, %r5, 0; @%p4 bra ONE;\n" + copies(0, "%r2") +
                       "ONE: bar.sync 0; setp.ne.u32 %p4, %r5, 1; @%p4 bra TWO;\n" + copies(0, "%r2+8") +
                       "TWO: bar.sync 0; setp.lt.u32 %p4, %r5, 2; @%p4 bra END; setp.eq.u32 %p4, %r5, 3; "
                       "@%p4 bra LAST;\n" +
                       wait("W", "%r2+8") + kUnderWay + "st.global.u32 [%out], %r6; bra END;\nLAST:\n" +
                       wait("V", "%r2"),
                   policy, seed);
}

}  // namespace

TEST_CASE("arrivals of one warp's cp.async may come before those of another warp that began earlier") {
  int early = 0;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    const Outcome lazy = two_copiers(Policy::lazy, seed), random = two_copiers(Policy::random, seed);
    clean(lazy);
    clean(random);
    CHECK(lazy.out[0] == 1);
    early += static_cast<int>(random.out[0]);
    CHECK(two_copiers(Policy::eager, seed).out[0] == 0);
  }
  CHECK(early > 0);
  CHECK(early < 32);
}

TEST_CASE("a thread's arrivals come in their order, with all that it copied before") {
  for (const Policy policy : kPolicies)
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
      CAPTURE(seed);
      // Warp 0 copies twice; warp 1 waits for the second and may use both.
      const Outcome o =
          run_warps(2,
                    two_barriers(32) + "setp.ne.u32 %p4, %r5, 0; @%p4 bra USE;\n" + copies(0, "%r2") +
                        copies(128, "%r2+8") + "bra END;\nUSE:\n" + wait("W", "%r2+8") + kUnderWay +
                        "ld.shared.u32 %r7, [%r1-128]; ld.shared.u32 %r8, [%r1]; add.u32 %r7, %r7, %r8; "
                        "mad.lo.u32 %r6, %r6, 1000, %r7; st.global.u32 [%o-128], %r6;",
                    policy, seed);
      clean(o);
      for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 2 * i);
    }
}

TEST_CASE("a phase that counts one arrival too few is found out") {
  // 32 lanes arrive beside a bulk copy, which is issued before them or after.
  const auto counted = [](int arrivals, bool bulk_first, Policy policy) {
    const std::string bulk =
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128; add.u32 %r6, %r3, 256;\n"
        "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%in], 128, [%r2];\n"
        "bar.warp.sync -1;\n";
    const std::string lanes = copies(0, "%r2");
    return run_warps(2,
                     two_barriers(arrivals) + "setp.ne.u32 %p4, %r5, 0; @%p4 bra USE;\n" +
                         (bulk_first ? bulk + lanes : lanes + bulk) + "bra END;\nUSE:\n" + wait("W", "%r2") +
                         "ld.shared.u32 %r7, [%r1-128]; st.global.u32 [%o-128], %r7;",
                     policy);
  };
  for (const bool bulk_first : {false, true}) {
    for (const Policy policy : kPolicies) {
      clean(counted(33, bulk_first, policy));
      CHECK(!counted(32, bulk_first, policy).report.findings.empty());
    }
  }
  // All bytes are there before the last lane's, or the last arrival meets a phase that waits for bytes only.
  finds("async-memory", counted(32, false, Policy::lazy));
  finds("mbarrier-overrun", counted(32, true, Policy::lazy));
}

TEST_CASE("copies of a warp to one place have no order until it has waited") {
  const std::string again = "cp.async.ca.shared.global [%r1], [%d1+128], 4; cp.async.wait_all;";
  const std::string first =
      "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in; cp.async.ca.shared.global [%r1], [%d1], 4;\n";
  for (const Policy policy : kPolicies) {
    const Setup setup{.policy = policy};
    finds("async-memory", run(shared_kernel(first + again), setup));
    finds("async-memory", run(shared_kernel(first + "cp.async.commit_group;" + again), setup));
    clean(run(shared_kernel(first + "cp.async.wait_all;" + again), setup));
    // Lanes that bring the same to one place.
    clean(run(shared_kernel("cp.async.ca.shared.global [%r3], [%in], 4; cp.async.wait_all;"), setup));
  }
}

TEST_CASE("a phase that ends amid the arrivals of a warp knows of those that it counted alone") {
  const auto meet = [](int arrivals, Policy p) {
    return run_warps(2,
                     two_barriers(arrivals) +
                         "setp.ne.u32 %p4, %r5, 0; @%p4 bra READ;\n"
                         "st.shared.u32 [%r1], %t; mbarrier.arrive.shared.b64 %d1, [%r2]; bra END;\nREAD:\n" +
                         wait("W", "%r2") + "ld.shared.u32 %r6, [%r1+-128]; st.global.u32 [%o], %r6;",
                     p);
  };
  for (const Policy p : kPolicies) {
    clean(meet(32, p));
    finds("shared-race", meet(31, p));
  }
}
