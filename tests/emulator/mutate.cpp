// The mutants of a program: which there are, that lines stay, and that each still decodes.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "emulator/mutate/mutate.hpp"
#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

std::vector<std::string> changes(const std::string& statement) {
  std::vector<std::string> out;
  for (const Mutation& m : mutations(shared_kernel(statement))) out.push_back(m.change);
  return out;
}
using Changes = std::vector<std::string>;

}  // namespace

TEST_CASE("every synchronisation has its mutants") {
  CHECK(changes("add.u32 %r1, %r1, 1;").empty());
  CHECK(changes("bar.sync 0;") == Changes{"removed"});
  CHECK(changes("bar.warp.sync -1;") == Changes{"removed"});
  CHECK(changes("fence.proxy.async;") == Changes{"removed"});
  CHECK(changes("griddepcontrol.wait;") == Changes{"removed"});
  CHECK(changes("griddepcontrol.launch_dependents;").empty());
  CHECK(changes("mbarrier.init.shared.b64 [%r2], 3;") == Changes{"arrival count + 1", "arrival count - 1"});
  CHECK(changes("mbarrier.arrive.shared.b64 _, [%r2];") == Changes{"removed", "done twice"});
  CHECK(changes("mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;") ==
        Changes{"removed", "16 bytes more expected", "16 bytes fewer expected"});
  CHECK(changes("mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r9;") ==
        Changes{"not waited", "parity flipped"});
  CHECK(changes("cp.async.commit_group;") == Changes{"removed"});
  CHECK(changes("cp.async.wait_group 1;") == Changes{"removed", "N + 1"});
  CHECK(changes("wgmma.fence.sync.aligned;") == Changes{"removed"});
  CHECK(changes("wgmma.wait_group.sync.aligned 0;") == Changes{"removed", "N + 1"});
  CHECK(changes("cp.async.bulk.wait_group.read 0;") == Changes{"removed", "N + 1"});
  CHECK(changes("atom.acq_rel.gpu.global.add.u32 %r5, [%out], 1;") == Changes{"acq_rel made relaxed"});
  CHECK(changes(
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %d1, %d2, 1, 1, 1, 0, "
            "0;")
            .size() == 4);
}

TEST_CASE("mistakes besides removed synchronisation have their mutants, by kind") {
  const auto of = [](const std::string& statement) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Mutation& m : mutations(shared_kernel(statement), MutationSet::all))
      if (m.ptx_text.find(statement.substr(0, statement.find(' '))) != std::string::npos)
        out.emplace_back(info(m.kind).name, m.replacement);
    return out;
  };
  using Mutants = std::vector<std::pair<std::string, std::string>>;
  CHECK(of("bar.arrive 3, 64;") == Mutants{{"barrier-removed", ""},
                                           {"barrier-id", "bar.arrive 4, 64;"},
                                           {"barrier-count", "bar.arrive 3, 96;"},
                                           {"barrier-count", "bar.arrive 3, 32;"}});
  CHECK(of("bar.warp.sync -1;") ==
        Mutants{{"warp-barrier-removed", ""}, {"member-mask", "bar.warp.sync 4294967294;"}});
  CHECK(of("shfl.sync.idx.b32 %r5, %r6, 0, 31, -1;") ==
        Mutants{{"member-mask", "shfl.sync.idx.b32 %r5, %r6, 0, 31, 4294967294;"}});
  CHECK(of("fence.acq_rel.gpu;") == Mutants{{"fence-removed", ""}, {"fence-scope", "fence.acq_rel.cta;"}});
  CHECK(of("membar.gl;") == Mutants{{"fence-removed", ""}, {"fence-scope", "membar.cta;"}});
  CHECK(of("fence.proxy.async;") == Mutants{{"proxy-fence-removed", ""}});
  CHECK(of("ld.acquire.sys.global.u32 %r6, [%in];") ==
        Mutants{{"acquire-relaxed", "ld.relaxed.sys.global.u32 %r6, [%in];"},
                {"global-index", "ld.acquire.sys.global.u32 %r6, [%in+4];"},
                {"scope-narrowed", "ld.acquire.cta.global.u32 %r6, [%in];"}});
  CHECK(of("@%p1 st.volatile.shared.v2.u32 [%r1+-4], {%r5, %r6};") ==
        Mutants{{"strong-dropped", "@%p1 st.shared.v2.u32 [%r1+-4], {%r5, %r6};"},
                {"shared-index", "@%p1 st.volatile.shared.v2.u32 [%r1+4], {%r5, %r6};"},
                {"guard-dropped", "st.volatile.shared.v2.u32 [%r1+-4], {%r5, %r6};"}});
  CHECK(of("atom.global.add.u32 %r5, [%out], 1;") ==
        Mutants{
            {"atomic-split",
             "{ .reg .b32 kiln_old, kiln_new; .reg .pred kiln_same; ld.global.b32 kiln_old, [%out]; add.u32 "
             "kiln_new, kiln_old, 1; st.global.b32 [%out], kiln_new; mov.b32 %r5, kiln_old; }"},
            {"scope-narrowed", "atom.relaxed.cta.global.add.u32 %r5, [%out], 1;"}});
  CHECK(of("red.shared.max.s32 [%r1], %r5;").size() == 1);
  CHECK(of("setp.hi.u32 %p2, %r5, 3;") == Mutants{{"bound-off-by-one", "setp.hs.u32 %p2, %r5, 3;"}});
  CHECK(of("setp.eq.u32 %p2, %r5, 3;").empty());
  CHECK(of("cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 256;").size() == 1);
}

TEST_CASE("every mutant of every kind decodes") {
  const std::string ptx = shared_kernel(
      "bar.sync 1, 64; bar.red.popc.u32 %r5, 0, 64, %p1; @%p1 bar.arrive 1, %r9; bar.warp.sync %r9;\n"
      "shfl.sync.bfly.b32 %r5|%p2, %r6, 1, 31, %r9; vote.sync.any.pred %p2, %p1, -1; elect.sync %r5|%p2, -1;\n"
      "fence.sc.cluster; membar.sys; ld.relaxed.gpu.global.u32 %r5, [%in]; st.volatile.global.u32 [%out+8], %r5;\n"
      "atom.global.cas.b32 %r5, [%out], 1, 2; @%p1 atom.shared.exch.b32 _, [%r1], %r5; red.global.add.f32 [%out], "
      "%f1;\n"
      "atom.acq_rel.gpu.global.xor.b32 %r5, [%out], %r6; ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r1];\n"
      "@!%p1 ld.global.u32 %r5, [%in+4]; setp.le.s64 %p2, %d1, 4; mbarrier.init.shared.b64 [%r2], 3;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];");
  std::set<std::string_view> kinds;
  for (const Mutation& m : mutations(ptx, MutationSet::all)) {
    kinds.insert(info(m.kind).name);
    INFO(info(m.kind).name, ": ", m.ptx_text, " -> ", m.replacement);
    CHECK_NOTHROW(Module::from_ptx(apply_mutation(ptx, m)));
  }
  CHECK(kinds.size() >= 16);
}

TEST_CASE("a product of registers has both its mutants tried with zeros") {
  const std::string product =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, %d2, "
      "1, 1, 1, 0;";
  const auto all = mutations(shared_kernel(product));
  CHECK(all.size() == 2);
  for (const Mutation& m : all) CHECK(m.with_zeros.find("{kiln_zero, kiln_zero") != std::string::npos);
}

TEST_CASE("a mutant changes one statement, keeps the lines, and decodes") {
  const std::string ptx = shared_kernel(
      "@%p1 mbarrier.init.shared.b64 [%r2], 1;\n@!%p1 bar.sync 0;\nmbarrier.try_wait.parity.shared.b64\n  "
      "%p2, [%r2],\n  0; "
      "cp.async.ca.shared.global [%r1+16], [%in], 16;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r2+8], "
      "%r9;\n"
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1];");
  const auto all = mutations(ptx);
  CHECK(all.size() == 10);
  for (const Mutation& m : all) {
    INFO(m.change, ": ", m.ptx_text);
    const std::string mutant = apply_mutation(ptx, m);
    CHECK(mutant != ptx);
    CHECK(std::count(mutant.begin(), mutant.end(), '\n') == std::count(ptx.begin(), ptx.end(), '\n'));
    CHECK(m.ptx_line > 0);
    CHECK_NOTHROW(Module::from_ptx(mutant));
  }
  CHECK_THROWS_AS(mutations("no PTX"), Error);
}

TEST_CASE("mutants of a correct exchange are all found") {
  // Two warps exchange through shared memory by a copy, an mbarrier and a barrier.
  const std::string ptx = shared_kernel(
      "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n"
      "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;\n"
      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%in], 256, [%r2];\n"
      "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
      "xor.b32 %r5, %r4, 128; add.u32 %r5, %r5, %r3; ld.shared.u32 %r6, [%r5]; bar.sync 0;\n"
      "st.shared.u32 [%r1], %r6; fence.proxy.async; bar.sync 0;\n"
      "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 256; @%p1 cp.async.bulk.commit_group; "
      "@%p1 "
      "cp.async.bulk.wait_group 0;");
  std::vector<std::uint32_t> want;
  for (std::uint32_t i = 0; i < 64; ++i) want.push_back(i ^ 32);
  const auto right = [&](const Outcome& o) {
    return o.text().empty() && std::equal(want.begin(), want.end(), o.out.begin());
  };
  for (const Policy p : kPolicies) CHECK(right(run(ptx, {.block = {64, 1, 1}, .policy = p})));
  for (const Mutation& m : mutations(ptx)) {
    bool killed = false;
    for (const Policy p : kPolicies)
      killed |= !right(run(apply_mutation(ptx, m), {.block = {64, 1, 1}, .policy = p}));
    CHECK_MESSAGE(killed, m.change << ": " << m.ptx_text);
  }
}
