// One product in the spellings of its producers: NVRTC, CUTLASS, Triton and inline assembly order modifiers, offsets,
// predicates and literals in their own ways, and all mean the same.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

constexpr std::size_t kSpellingImage = 12288;  // A at 0, B at 4096, rows of 32 bytes without swizzle

/// What a program says in its own way.
struct Spelling {
  std::string version = "9.0", directives = {}, alloc, descriptors, product, commit, wait, load;
};
const Spelling kPlain = {
    .alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;\n",
    .descriptors =
        "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x400800800000; add.u64 %d6, %d5, 256;\n",
    .product =
        "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8040490, 0;\n"
        "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8040490, 1;\n",
    .commit = "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\n",
    .wait = "W: mbarrier.try_wait.parity.shared.b64 %p4, [%r8], 0; @!%p4 bra W;\n",
    .load =
        "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r100,%r101,%r102,%r103,%r104,%r105,%r106,%r107}, [%r10];\n"};

std::string spelled(const Spelling& s) {
  std::string body =
      "mul.lo.u32 %r1, %t, 16; mov.u32 %r2, s; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %in; add.u32 %r2, %r2, %r1;\n"
      "COPY: setp.ge.u32 %p1, %r1, " +
      std::to_string(kSpellingImage) +
      "; @%p1 bra COPIED; ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%d1]; st.shared.v4.u32 [%r2], {%r3,%r4,%r5,%r6};\n"
      "add.u32 %r1, %r1, 2048; add.u32 %r2, %r2, 2048; add.u64 %d1, %d1, 2048; bra COPY;\nCOPIED:\n"
      "fence.proxy.async.shared::cta; mov.u32 %r7, base; mov.u32 %r8, bar; mov.u32 %r9, s; setp.ne.u32 %p2, %w, 0;\n"
      "@%p2 bra READY;\n" +
      s.alloc +
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; setp.eq.u32 %p3, %t, 0;\n"
      "@%p3 mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster;\n"
      "READY: bar.sync 0; ld.shared.u32 %tm, [%r7]; shl.b32 %r10, %w, 21; add.u32 %r10, %r10, %tm;\n" +
      s.descriptors + "@%p2 bra ISSUED; elect.sync _|%p5, -1;\n" + s.product + s.commit + "ISSUED:\n" +
      s.wait + s.load +
      "tcgen05.wait::ld.sync.aligned; mul.wide.u32 %d9, %t, 32; add.u64 %d9, %d9, %out;\n"
      "st.global.v4.u32 [%d9], {%r100,%r101,%r102,%r103}; st.global.v4.u32 [%d9+16], {%r104,%r105,%r106,%r107};\n"
      "bar.sync 0; @!%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 32;\n";
  std::string ptx = blackwell(".shared .align 1024 .b8 s[" + std::to_string(kSpellingImage) +
                                  "];\n.shared .align 8 .b64 bar;\n.shared .align 4 .b32 base;\n",
                              body);
  ptx.replace(ptx.find("9.0"), 3, s.version);
  if (!s.directives.empty()) ptx.insert(ptx.find("{\n.reg"), s.directives + "\n");
  return ptx;
}

Outcome run_spelling(const Spelling& s, Policy policy) {
  std::vector<std::uint32_t> input(kSpellingImage / 4);
  std::mt19937 random(2);
  for (std::uint32_t& v : input) {
    double a = 0, b = 0;
    v = encoded(t5::Element::bf16, random, a);
    v |= encoded(t5::Element::bf16, random, b) << 16;
  }
  return run(spelled(s), {.block = {128, 1, 1}, .policy = policy, .outputs = 1024, .input = input});
}

Spelling with(const std::function<void(Spelling&)>& change) {
  Spelling s = kPlain;
  change(s);
  return s;
}

}  // namespace

TEST_CASE("the spellings of producers mean the same") {
  const std::pair<const char*, Spelling> spellings[] = {
      {"directives of clusters, a later version", with([](Spelling& s) {
         s.version = "9.4";
         s.directives = ".reqntid 128, 1, 1\n.explicitcluster\n.reqnctapercluster 1, 1, 1\n.minnctapersm 1";
       })},
      {"addresses with offsets of nothing and blanks", with([](Spelling& s) {
         s.alloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [ %r7 + 0 ], 32;\n";
         s.product =
             "@%p5 tcgen05.mma.cta_group::1.kind::f16 [ %tm + 0 ], %d5, %d6, 134481040, 0;\n"
             "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm+0], %d5, %d6, 134481040, 1;\n";
         s.commit =
             "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [ %r8 + 0 ];\n";
         s.load =
             "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r100, %r101, %r102, %r103, %r104, %r105, %r106, %r107}, "
             "[ %r10 + 0 ];\n";
       })},
      {"generic addresses, the size of an allocation in a register", with([](Spelling& s) {
         s.alloc =
             "cvt.u64.u32 %d2, %r7; cvta.shared.u64 %d2, %d2; mov.u32 %r20, 32;\n"
             "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d2], %r20;\n";
         s.commit =
             "cvt.u64.u32 %d3, %r8; cvta.shared.u64 %d3, %d3;\n"
             "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d3];\n";
       })},
      {"other orders of modifiers", with([](Spelling& s) {
         s.product =
             "@%p5 tcgen05.mma.kind::f16.cta_group::1 [%tm], %d5, %d6, 0x8040490, 0;\n"
             "@%p5 tcgen05.mma.collector::a::discard.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8040490, 1;\n";
       })},
      {"predicates, a masked form, registers for the descriptor", with([](Spelling& s) {
         s.product =
             "setp.ne.b32 %p6, 0, 0; mov.b32 %r21, 0x8040490; mov.b32 %r22, 0;\n"
             "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, %r21, {%r22, %r22, %r22, %r22}, %p6;\n"
             "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, %r21, {%r22,%r22,%r22,%r22}, !%p6;\n";
       })},
      {"scopes of inline assembly, labels and registers again in each", with([](Spelling& s) {
         const auto scope = [](const std::string& accumulate) {
           return "{\n.reg .pred p, elected;\n.reg .b64 da, db;\n.reg .b32 low, high;\n"
                  "setp.ne.b32 p, " +
                  accumulate +
                  ", 0;\nmov.b64 {low, high}, %d5;\nmov.b64 da, {low, high};\n"
                  "mov.b64 db, %d6;\nelect.sync _|elected, 0xffffffff;\n@!elected bra SKIP;\n"
                  "tcgen05.mma.cta_group::1.kind::f16 [%tm], da, db, 0x8040490, p;\nSKIP:\n}\n";
         };
         s.product = scope("0") + scope("1");
         s.commit =
             "{\n.reg .pred elected;\nelect.sync _|elected, -1;\n@elected tcgen05.commit.cta_group::1.mbarrier::"
             "arrive::one.shared::cluster.b64 [%r8];\n}\n";
         s.wait =
             "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%r8], 0, 0x989680;\n"
             "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}\n";
       })},
      {"a branch of one elected lane", with([](Spelling& s) {
         s.product =
             "@!%p5 bra NOT;\ntcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8040490, 0;\n"
             "tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8040490, 1;\n";
         s.commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nNOT:\n";
       })},
      {"loads into floats", with([](Spelling& s) {
         s.load =
             "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%f1, %f2}, [ %r10 + 0 ];\n"
             "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r102,%r103,%r104,%r105}, [%r10+2];\n"
             "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r106,%r107}, [%r10 + 6];\n"
             "mov.b32 %r100, %f1; mov.b32 %r101, %f2;\n";
       })}};
  for (const Policy policy : kPolicies) {
    const Outcome plain = run_spelling(kPlain, policy);
    REQUIRE(plain.text() == "");
    REQUIRE(std::any_of(plain.out.begin(), plain.out.end(), [](std::uint32_t v) { return v != 0; }));
    for (const auto& [what, spelling] : spellings) {
      INFO(what);
      const Outcome o = run_spelling(spelling, policy);
      CHECK(o.text() == "");
      CHECK(o.out == plain.out);
    }
  }
}
