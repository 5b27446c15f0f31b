// Races in global memory: between blocks, between warps, with asynchronous copies; and what orders them.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// %r20: block; %p3: block 0. `out` starts as zeros where the tests need a flag: [out + 2048].
Outcome two_blocks(const std::string& body, Policy p = Policy::eager, std::uint64_t seed = 1) {
  return run(
      shared_kernel("mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %out, 2048;\n" + body),
      {.grid = {2, 1, 1}, .policy = p, .seed = seed});
}
// Block 0 leaves a value and counts; block 1 waits for the count and reads. One thread each.
std::string handover(const std::string& release, const std::string& acquire) {
  return "@!%p1 bra END; @!%p3 bra READ;\nst.global.u32 [%out], 7;\n" + release +
         "atom.global.add.u32 %r5, [%in], 1000000; bra END;\n"
         "READ: ld.relaxed.gpu.global.u32 %r6, [%in]; setp.lt.u32 %p4, %r6, 1000000; @%p4 bra READ;\n" +
         acquire + "ld.global.u32 %r7, [%out]; st.global.u32 [%out+4], %r7;\nEND:";
}

}  // namespace

TEST_CASE("two blocks that write one place, or one that reads what the other writes") {
  const Outcome o = two_blocks("@%p1 st.global.u32 [%out], %r20;");
  finds("global-race", o);
  const Finding& f = o.report.findings.front();
  CHECK(f.has_other);
  CHECK(f.site.block.x != f.other.block.x);
  CHECK(f.message.find("'out'") != std::string::npos);
  finds("global-race", two_blocks("@%p3 st.global.u32 [%o], %t; ld.global.u32 %r5, [%o];"));
  // Each its own part, the same bytes twice, or atomics: no race.
  clean(two_blocks(
      "mul.lo.u32 %r5, %r20, 128; cvt.u64.u32 %d2, %r5; add.u64 %d2, %d2, %o; st.global.u32 [%d2], %t;"));
  clean(two_blocks("red.global.add.u32 [%in], 1;"));
}

TEST_CASE("neighbouring words have their own writers") {
  // Each block writes its word of the same 16 bytes; block 1 reads that of block 0.
  const std::string write =
      "@!%p1 bra END; mul.wide.u32 %d2, %r20, 4; add.u64 %d2, %d2, %out; st.global.u32 [%d2], 5; @%p3 bra END;\n";
  for (const Policy p : kPolicies) {
    finds("global-race",
          two_blocks(write + "ld.global.u32 %r6, [%out]; st.global.u32 [%out+64], %r6;\nEND:", p));
    clean(two_blocks(write + "ld.global.u32 %r6, [%out+4]; st.global.u32 [%out+64], %r6;\nEND:", p));
    finds("global-race", two_blocks(write + "red.global.add.u32 [%out], 1;\nEND:", p));
  }
}

TEST_CASE("strong accesses of two blocks need a scope that holds both") {
  for (const Policy p : kPolicies) {
    for (const char* scope : {"cta", "cluster"}) {
      const std::string s(scope);
      finds("global-race", two_blocks("@%p1 red.relaxed." + s + ".global.add.u32 [%in], 1;", p));
      finds("global-race", two_blocks("@%p1 atom.acq_rel." + s + ".global.exch.b32 %r5, [%in], 1;", p));
      finds("global-race", two_blocks("@%p1 st.relaxed." + s + ".global.u32 [%in], %r20;", p));
      // Reads alone disturb nobody, nor do other words.
      clean(two_blocks("@%p1 ld.relaxed." + s + ".global.u32 %r5, [%in];", p));
      clean(two_blocks("mul.wide.u32 %d2, %r20, 4; add.u64 %d2, %d2, %in; @%p1 red.relaxed." + s +
                           ".global.add.u32 [%d2], 1;",
                       p));
    }
    // All of a block's threads are in its scope.
    clean(two_blocks(
        "mul.wide.u32 %d2, %r20, 4; add.u64 %d2, %d2, %in; red.relaxed.cta.global.add.u32 [%d2], 1;", p));
    clean(two_blocks("red.relaxed.gpu.global.add.u32 [%in], 1;", p));
  }
  // One side is enough: the flag is read in the block's scope only.
  std::string text = handover("fence.acq_rel.gpu;\n", "fence.acq_rel.gpu;\n");
  text.replace(text.find("atom.global"), 11, "atom.relaxed.cta.global");
  finds("global-race", two_blocks(text));
  text = handover("fence.acq_rel.gpu;\n", "fence.acq_rel.gpu;\n");
  text.replace(text.find("ld.relaxed.gpu"), 14, "ld.relaxed.cta");
  finds("global-race", two_blocks(text));
}

TEST_CASE("weak and strong accesses of one word are undefined, unless something orders them") {
  const auto undefined = [](const std::string& body) {
    const Outcome o = two_blocks(body);
    finds("global-race", o);
    for (const Finding& f : o.report.findings) CHECK(f.severity == Severity::undefined);
  };
  undefined(
      "@!%p1 bra END; @%p3 red.relaxed.gpu.global.add.u32 [%in], 1; @!%p3 st.global.u32 [%in], 7; END:");
  undefined("@!%p1 bra END; @%p3 st.volatile.global.u32 [%in], 1; @!%p3 ld.global.u32 %r5, [%in]; END:");
  undefined("@!%p1 bra END; @%p3 ld.relaxed.gpu.global.u32 %r5, [%in]; @!%p3 st.global.u32 [%in], 7; END:");
  // Reads alone, other words, and the last of those that counted.
  clean(two_blocks(
      "@!%p1 bra END; @%p3 ld.relaxed.gpu.global.u32 %r5, [%in]; @!%p3 ld.global.u32 %r5, [%in]; END:"));
  clean(two_blocks(
      "@!%p1 bra END; @%p3 red.relaxed.gpu.global.add.u32 [%in], 1; @!%p3 st.global.u32 [%in+4], 7; END:"));
  clean(
      two_blocks("@!%p1 bra END; atom.relaxed.gpu.global.inc.u32 %r5, [%in], 100; setp.eq.u32 %p4, %r5, 1;\n"
                 "@%p4 st.global.u32 [%in], 0; END:"));
}

TEST_CASE("of several strong readers of a word each must be ordered before a weak write of it") {
  // Block 0 reads, then block 1, then block 2 writes: each waits for the one before. One thread each.
  const auto program = [](const std::string& first, const std::string& second) {
    const std::string wait = ": ld.relaxed.gpu.global.u32 %r6, [%d9]; setp.lt.u32 %p4, %r6, ";
    return "st.shared.u32 [%r1], %t; @!%p1 bra END; setp.eq.u32 %p5, %r20, 1; @%p5 bra ONE; @!%p3 bra TWO;\n"
           "ld.relaxed.gpu.global.u32 %r7, [%in]; st.global.u32 [%out], %r7;\n" +
           first + "atom.global.add.u32 %r5, [%d9], 1000000; bra END;\nONE" + wait +
           "1000000; @%p4 bra ONE;\n" + second +
           "ld.relaxed.gpu.global.u32 %r7, [%in]; st.global.u32 [%out+4], %r7;\n" +
           "fence.acq_rel.gpu; atom.global.add.u32 %r5, [%d9], 1000000; bra END;\nTWO" + wait +
           "2000000; @%p4 bra TWO;\nfence.acq_rel.gpu; st.global.u32 [%in], 5;\nEND:";
  };
  const std::string fence = "fence.acq_rel.gpu;\n";
  const auto three = [](const std::string& body, Policy p) {
    return run(
        shared_kernel("mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %in, 2048;\n" + body),
        {.grid = {3, 1, 1}, .policy = p});
  };
  for (const Policy p : kPolicies) {
    clean(three(program(fence, fence), p));
    finds("global-race", three(program("", ""), p));
    finds("global-race", three(program("", fence), p));
  }
}

TEST_CASE("a strong store that no fence follows may be seen late") {
  const auto message = [](const std::string& fence, Policy p, const std::string& then = "") {
    return two_blocks(
        "@!%p1 bra END; @!%p3 bra READ;\nst.volatile.global.u32 [%out], 7;\n" + fence +
            "atom.global.add.u32 %r5, [%in], 1000000; bra END;\n"
            "READ: ld.relaxed.gpu.global.u32 %r6, [%in]; setp.lt.u32 %p4, %r6, 1000000; @%p4 bra READ;\n" +
            then + "ld.volatile.global.u32 %r7, [%out]; st.global.u32 [%out+4], %r7;\nEND:",
        p);
  };
  for (const Policy p : kPolicies) {
    const Outcome fenced = message("fence.acq_rel.gpu;\n", p, "fence.acq_rel.gpu;\n");
    clean(fenced);
    CHECK(fenced.out[1] == 7);
  }
  for (const char* fence : {"", "fence.acq_rel.cta;\n"}) {
    const Outcome late = message(fence, Policy::lazy);
    finds("global-race", late);
    CHECK(late.out[1] != 7);
    CHECK(message(fence, Policy::eager).out[1] == 7);
  }
  // Who looks until the value is there is right.
  const std::string poll =
      "@!%p1 bra END; @%p3 st.volatile.global.u32 [%out], 7; @%p3 bra END;\n"
      "READ: ld.volatile.global.u32 %r7, [%out]; setp.ne.u32 %p4, %r7, 7; @%p4 bra READ;\n"
      "st.global.u32 [%out+4], %r7;\nEND:";
  for (const Policy p : kPolicies) {
    const Outcome o = two_blocks(poll, p);
    clean(o);
    CHECK(o.out[1] == 7);
  }
}

TEST_CASE("what a lane learns from another block is the lane's until its warp synchronises") {
  const auto waits = [](const std::string& sync, Policy p) {
    return run(
        shared_kernel(
            "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; @!%p3 bra READ;\n"
            "st.global.u32 [%o], %t; bar.warp.sync 0xffffffff;\n"
            "@%p1 st.release.gpu.global.u32 [%in], 1000000; bra END;\n"
            "READ: @!%p1 bra READY;\n"
            "POLL: ld.acquire.gpu.global.u32 %r6, [%in]; setp.lt.u32 %p4, %r6, 1000000; @%p4 bra POLL;\n"
            "READY: " +
            sync + "ld.global.u32 %r7, [%o]; st.global.u32 [%o+2048], %r7;\nEND:"),
        {.grid = {2, 1, 1}, .block = {32, 1, 1}, .policy = p});
  };
  for (const Policy p : kPolicies) {
    clean(waits("bar.warp.sync 0xffffffff;\n", p));
    finds("global-race", waits("", p));
  }
}

TEST_CASE("a handover between blocks needs its fences") {
  const std::string fence = "fence.acq_rel.gpu;\n", block_fence = "fence.acq_rel.cta;\n";
  for (const Policy p : kPolicies) {
    clean(two_blocks(handover(fence, fence), p));
    clean(two_blocks(handover("membar.gl;\n", "membar.gl;\n"), p));
    finds("global-race", two_blocks(handover("", fence), p));
    finds("global-race", two_blocks(handover(fence, ""), p));
    finds("global-race", two_blocks(handover(block_fence, fence), p));
  }
}

TEST_CASE("release and acquire do the fences' work") {
  std::string text = handover("", "");
  text.replace(text.find("atom.global"), 11, "atom.release.gpu.global");
  finds("global-race", two_blocks(text));
  text.replace(text.find("ld.relaxed"), 10, "ld.acquire");
  clean(two_blocks(text));
}

TEST_CASE("what a block's threads wrote is handed over by one of them") {
  // All threads write; a barrier; thread 0 fences and signals (cumulativity).
  const auto program = [](const std::string& barrier, const std::string& fence) {
    return "@!%p3 bra READ;\nst.global.u32 [%o], %t; " + barrier + "@!%p1 bra END; " + fence +
           "atom.global.add.u32 %r5, [%in], 1000000; bra END;\n"
           "READ: ld.relaxed.gpu.global.u32 %r6, [%in]; setp.lt.u32 %p4, %r6, 1000000; @%p4 bra READ;\n"
           "fence.acq_rel.gpu; ld.global.u32 %r7, [%o]; st.global.u32 [%o+1024], %r7;\nEND:";
  };
  for (const Policy p : kPolicies) {
    clean(two_blocks(program("bar.sync 0; ", "fence.acq_rel.gpu; "), p));
    finds("global-race", two_blocks(program("bar.sync 0; ", ""), p));
  }
}

TEST_CASE("threads of one block need a barrier for global memory too") {
  const std::string read =
      "xor.b32 %r5, %r4, 128; cvt.u64.u32 %d2, %r5; add.u64 %d2, %d2, %out; ld.global.u32 %r6, "
      "[%d2]; add.u64 %d2, %d2, 1024; st.global.u32 [%d2], %r6;";
  bool found = false;
  for (const Policy p : kPolicies)
    found |= two_warps("st.global.u32 [%o], %t; " + read, p).found("global-race");
  CHECK(found);
  clean(two_warps("st.global.u32 [%o], %t; bar.sync 0; " + read));
}

TEST_CASE("a bulk store's writes count once they were waited for, not only read") {
  const auto program = [](const std::string& wait) {
    return "st.shared.u32 [%r1], %t; fence.proxy.async; bar.sync 0; @%p1 "
           "cp.async.bulk.global.shared::cta.bulk_group "
           "[%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group" +
           wait + " 0; bar.sync 0; @%p1 st.global.u32 [%out], 5; @%p1 cp.async.bulk.wait_group 0;";
  };
  finds("global-race", two_warps(program(".read")));
  clean(two_warps(program("")));
}

TEST_CASE("a launch that may overlap with the one before touches memory after its wait only") {
  const auto early = [](const std::string& body, bool programmatic = true) {
    return run(shared_kernel(body), {.block = {64, 1, 1}, .programmatic = programmatic});
  };
  const std::string wait = "griddepcontrol.wait;\n", store = "st.global.u32 [%o], %t;\n";
  const std::string next = "griddepcontrol.launch_dependents;\n";
  clean(early(wait + next + store));
  // The next launch would begin before this one knows that the one before is done.
  finds("early-access", early(next + wait + store));
  finds("early-access", early("@%p1 " + wait + next));
  clean(early(next + store, false));
  // And who waits for this one would not have waited for that.
  finds("early-access", early("add.u32 %r5, %t, 1;\n"));
  clean(early("@%p1 " + wait));
  clean(early(store, false));
  finds("early-access", early(store + wait));
  finds("early-access", early("ld.global.u32 %r5, [%in];\n" + wait));
  finds("early-access", early("red.global.add.u32 [%in], 1;\n" + wait));
  // Each lane waits for itself.
  finds("early-access", early("@%p1 " + wait + store));
  // A prefetch to L2 reads nothing; shared memory is the launch's own.
  clean(early("prefetch.global.L2 [%in]; st.shared.u32 [%r1], %t;\n" + wait + store));
  const std::string copy =
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n";
  const std::string issue =
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n";
  const std::string done = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n";
  clean(early(copy + wait + issue + done));
  finds("early-access", early(copy + issue + wait + done));
}

TEST_CASE("what the launch before leaves alone may be touched before the wait") {
  const std::string wait = "griddepcontrol.wait;\n", store = "st.global.u32 [%o], %t;\n";
  const auto tables = [](const std::string& body) {
    return run(shared_kernel(body), {.block = {64, 1, 1}, .programmatic = true, .reads_input_early = true});
  };
  clean(tables("ld.global.u32 %r5, [%in+60];\n" + wait + store));
  finds("early-access", tables("ld.global.u32 %r5, [%in+64];\n" + wait));
  finds("early-access", tables("@%p1 st.global.u32 [%in], 1;\n" + wait));
  finds("early-access", tables("red.global.add.u32 [%in], 1;\n" + wait));
  finds("early-access", tables(store + wait));
  finds("early-access", tables("griddepcontrol.launch_dependents;\n" + wait));
  const auto all = [](const std::string& body) {
    return run(shared_kernel(body), {.block = {64, 1, 1}, .programmatic = true, .touches_early = true});
  };
  clean(all("griddepcontrol.launch_dependents; ld.global.u32 %r5, [%in+64];\n" + store + wait));
  finds("early-access", all(store));  // the end of a block still follows the launch before
}

namespace {

// Block 1 writes over what block 0 has read, at a place that block 0 told it with a relaxed store.
Outcome overtaking(Policy p, const std::string& told, const std::string& waits,
                   const std::string& fence = "") {
  return two_blocks("add.u64 %d9, %in, 2048; @!%p3 bra WRITE;\nld.global.u32 %r5, [%in]; " + told + fence +
                        "st.relaxed.gpu.global.u32 [%d9], %r6; st.global.u32 [%out+256], %r5; bra END;\n"
                        "WRITE: " +
                        waits + "@%p1 st.global.u32 [%in], %r7;\nEND:",
                    p);
}

}  // namespace

TEST_CASE("a write that depends on a value which depends on a read comes after the read") {
  const std::string one = "@!%p1 bra END; ", depends = one + "add.u32 %r6, %r5, 1000000; ";
  const std::string wait =
      "@!%p1 bra END; AGAIN: ld.relaxed.gpu.global.u32 %r7, [%d9]; setp.lt.u32 %p4, %r7, 1000000; @%p4 bra AGAIN;\n";
  const std::string fence = "fence.acq_rel.gpu; ", other = one + "mov.u32 %r6, 1000000; ";
  for (const Policy p : kPolicies) {
    clean(overtaking(p, depends, wait));
    // Another value does not tell that the read is done.
    finds("global-race", overtaking(p, other, wait));
    // With fences it does, if the lanes have met: they all read.
    clean(overtaking(p, "bar.warp.sync 0xffffffff; " + other, wait + fence, fence));
    finds("global-race", overtaking(p, other, wait + fence, fence));
    // Nobody has waited.
    finds("global-race", overtaking(p, depends, "mov.u32 %r7, 5;\n"));
    // A value that is thrown away decides nothing.
    finds("global-race", overtaking(p, depends, "ld.relaxed.gpu.global.u32 %r8, [%d9]; mov.u32 %r7, 5;\n"));
  }
}

TEST_CASE("a sum of all threads, told by one of them, orders what they have read") {
  // As in CUB's selections in place: loads, a sum through shared memory, look-back, a barrier, stores.
  const auto program = [](const std::string& share, const std::string& barrier) {
    return "@!%p3 bra WRITE;\nld.global.u32 %r5, [%i]; " + share + barrier +
           "ld.shared.u32 %r6, [%r3]; ld.shared.u32 %r8, [%r3+128]; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, 1000000;\n"
           "@%p1 st.relaxed.gpu.global.u32 [%d9], %r6; st.global.u32 [%o], %r5; bra END;\n"
           "WRITE: @!%p1 bra MEET;\n"
           "AGAIN: ld.relaxed.gpu.global.u32 %r7, [%d9]; setp.lt.u32 %p4, %r7, 1000000; @%p4 bra AGAIN;\n"
           "st.shared.u32 [%r3], %r7;\nMEET: " +
           barrier + "ld.shared.u32 %r7, [%r3]; st.global.u32 [%i], %r7;\nEND:";
  };
  const std::string share = "st.shared.u32 [%r1], %r5; ", barrier = "bar.sync 0;\n";
  const auto both = [](const std::string& body, Policy policy) {
    return run(shared_kernel("mov.u32 %r20, %ctaid.x; setp.eq.u32 %p3, %r20, 0; add.u64 %d9, %in, 2048;\n"
                             "cvt.u64.u32 %d8, %r4; .reg .u64 %i; add.u64 %i, %in, %d8;\n" +
                             body),
               {.grid = {2, 1, 1}, .block = {64, 1, 1}, .policy = policy});
  };
  for (const Policy policy : kPolicies) {
    clean(both(program(share, barrier), policy));
    // What goes to shared memory has nothing to do with what was read.
    finds("global-race", both(program("st.shared.u32 [%r1], 7; ", barrier), policy));
  }
}
