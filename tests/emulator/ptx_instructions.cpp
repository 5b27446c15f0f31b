// Instruction groups with exact expectations; the conformance suite holds every form to hardware, these hold
// the basics to arithmetic done here.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {
std::uint32_t one(const std::string& body) {
  const Outcome o = run(kernel(body + "\nst.global.u32 [%o], %r0;"));
  CHECK(o.text() == "");
  return o.out[0];
}
std::uint32_t f(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
}  // namespace

TEST_CASE("the carry of a subtraction says that nothing was borrowed") {
  // addc after subc.cc, as the compiler's 128-bit division has it; subc alone cannot tell.
  const std::string sub = "mov.u32 %r1, 5; mov.u32 %r2, 7; ";
  CHECK(one(sub + "sub.cc.u32 %r3, %r1, %r2; addc.u32 %r0, 0, 0;") == 0);
  CHECK(one(sub + "sub.cc.u32 %r3, %r2, %r1; addc.u32 %r0, 0, 0;") == 1);
  CHECK(one(sub + "sub.cc.u32 %r3, %r1, %r2; subc.u32 %r0, 0, 0;") == 0xffffffffu);
  CHECK(one(sub + "sub.cc.u32 %r3, %r1, %r2; subc.cc.u32 %r3, %r1, %r2; subc.u32 %r0, %r2, %r1;") == 1);
  CHECK(one(sub + "add.cc.u32 %r3, -1, %r2; subc.u32 %r0, %r2, %r1;") == 2);
}

TEST_CASE("integer arithmetic") {
  CHECK(one("mov.u32 %r1, 7; sub.s32 %r0, %r1, 9;") == 0xfffffffeu);
  CHECK(one("mov.u32 %r1, 0x80000000; mul.hi.s32 %r0, %r1, %r1;") == 0x40000000u);
  CHECK(one("mov.u32 %r1, -7; div.s32 %r0, %r1, 2;") == 0xfffffffdu);
  CHECK(one("mov.u32 %r1, -7; rem.s32 %r0, %r1, 2;") == 0xffffffffu);
  CHECK(one("mov.u32 %r1, 0x12345678; prmt.b32 %r0, %r1, 0, 0x0123;") == 0x78563412u);
  CHECK(one("mov.u32 %r1, 0xf0; bfe.s32 %r0, %r1, 4, 4;") == 0xffffffffu);
  CHECK(one("mov.u32 %r1, 0xab; bfi.b32 %r0, %r1, 0, 8, 4;") == 0xb00u);
  CHECK(one("mov.u32 %r1, 0xcc; mov.u32 %r2, 0xaa; lop3.b32 %r0, 0xf0, %r1, %r2, 0x96;") ==
        (0xf0u ^ 0xccu ^ 0xaau));
  CHECK(one("mov.u32 %r1, 1; shl.b32 %r0, %r1, 40;") == 0);
  CHECK(one("mov.u32 %r1, -4; shr.s32 %r0, %r1, 60;") == 0xffffffffu);
  CHECK(one("mov.u32 %r1, 0x80000001; shf.l.wrap.b32 %r0, %r1, 1, 1;") == 3);
  CHECK(one("mov.u32 %r1, 0x10; clz.b32 %r0, %r1;") == 27);
  CHECK(one("mov.u32 %r1, 0xffffffff; add.cc.u32 %r2, %r1, 1; addc.u32 %r0, 5, 0;") == 6);
  CHECK(one("mov.u32 %r1, 100; mov.u64 %d1, 5; mad.wide.u32 %d2, %r1, 3, %d1; cvt.u32.u64 %r0, %d2;") == 305);
}

TEST_CASE("arithmetic on the bytes and halves of a register") {
  const std::string ab = "mov.u32 %r1, 0x01ff7f80; mov.u32 %r2, 0x03010102;";
  CHECK(one(ab + "vabsdiff4.u32.u32.u32 %r0, %r1, %r2, 0;") == 0x02fe7e7eu);
  CHECK(one(ab + "mov.u32 %r3, 1000; vabsdiff4.u32.u32.u32.add %r0, %r1, %r2, %r3;") ==
        1000 + 2 + 254 + 126 + 126);
  CHECK(one(ab + "vadd4.s32.s32.s32.sat %r0, %r1, %r2, 0;") == 0x04007f82u);
  CHECK(one(ab + "vadd4.u32.u32.u32 %r0, %r1, %r2, 0;") == 0x04008082u);
  CHECK(one(ab + "vsub2.u32.u32.u32.sat %r0, %r1, %r2, 0;") == 0x00007e7eu);
  CHECK(one(ab + "vmax2.s32.s32.s32 %r0, %r1, %r2, 0;") == 0x03017f80u);
  CHECK(one(ab + "vmin4.u32.u32.u32 %r0, %r1, %r2, 0;") == 0x01010102u);
  CHECK(one(ab + "vavrg4.u32.u32.u32 %r0, %r1, %r2, 0;") == 0x02804041u);
  CHECK(one(ab + "vset4.u32.u32.gt %r0, %r1, %r2, 0;") == 0x00010101u);
  CHECK(one(ab + "vset4.s32.s32.lt.add %r0, %r1, %r2, 5;") == 5 + 3);
  CHECK(one(ab + "vset2.u32.u32.ne %r0, %r1, %r2, 0;") == 0x00010001u);
}

TEST_CASE("128 bits move, load, store and swap as one") {
  const std::string wide =
      ".reg .b128 %q<4>; mov.u64 %d1, 0x1111111122222222; mov.u64 %d2, 0x3333333344444444;\n"
      "mov.b128 %q0, {%d1, %d2}; st.global.b128 [%out], %q0; ld.global.b128 %q1, [%out];\n"
      "mov.b128 %q2, %q1; mov.b128 {%d3, %d4}, %q2; cvt.u32.u64 %r1, %d3; cvt.u32.u64 %r2, %d4;\n";
  const Outcome o =
      run(kernel(wide + "st.global.u32 [%out+16], %r1; st.global.u32 [%out+20], %r2;"), {.block = {1, 1, 1}});
  CHECK(o.text() == "");
  CHECK(o.out[0] == 0x22222222u);
  CHECK(o.out[3] == 0x33333333u);
  CHECK(o.out[4] == 0x22222222u);
  CHECK(o.out[5] == 0x44444444u);
  // A comparison that fails in one half changes neither.
  const std::string swap = "mov.b128 %q3, {%d2, %d1}; atom.global.cas.b128 %q2, [%out], ";
  const Outcome kept = run(kernel(wide + "mov.u64 %d5, 9; mov.b128 %q1, {%d1, %d5};" + swap + "%q1, %q3;"),
                           {.block = {1, 1, 1}});
  CHECK(kept.text() == "");
  CHECK(kept.out[0] == 0x22222222u);
  const Outcome swapped =
      run(kernel(wide + swap + "%q0, %q3; atom.global.exch.b128 %q1, [%out+16], %q2;"), {.block = {1, 1, 1}});
  CHECK(swapped.out[0] == 0x44444444u);
  CHECK(swapped.out[2] == 0x22222222u);
  CHECK(swapped.out[4] == 0x22222222u);
  // The upper half alone is unknown.
  CHECK(run(kernel(".reg .b128 %q<2>; mov.u64 %d1, 1; mov.b128 %q0, {%d1, %d9}; st.global.b128 [%out], %q0;"),
            {.block = {1, 1, 1}})
            .found("uninitialized-register"));
  CHECK(one(".reg .b128 %q<1>; mov.u64 %d1, 5; mov.b128 %q0, {%d1, %d1}; mov.b128 {%d2, _}, %q0; "
            "cvt.u32.u64 %r0, %d2;") == 5);
}

TEST_CASE("special registers as predicates") {
  CHECK(one("mov.pred %p1, %is_explicit_cluster; selp.u32 %r0, 1, 2, %p1;") == 2);
  CHECK(one("mov.u32 %r0, %envreg7;") == 0);
}

TEST_CASE("floating arithmetic rounds as asked and gives the canonical NaN") {
  CHECK(one("mov.f32 %f1, 0f3F800000; fma.rn.f32 %f2, %f1, 0f40000000, 0f40400000; mov.b32 %r0, %f2;") ==
        f(5.0F));
  CHECK(one("mov.f32 %f1, 0f7F800000; sub.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;") == 0x7fffffffu);
  CHECK(one("mov.f32 %f1, 0f3F800000; add.rp.f32 %f2, %f1, 0f00000001; mov.b32 %r0, %f2;") == 0x3f800001u);
  CHECK(one("mov.f32 %f1, 0f00000001; add.ftz.f32 %f2, %f1, %f1; mov.b32 %r0, %f2;") == 0);
  CHECK(one("mov.f32 %f1, 0f7FC00000; max.f32 %f2, %f1, 0f40000000; mov.b32 %r0, %f2;") == f(2.0F));
  CHECK(one("mov.f32 %f1, 0f40400000; ex2.approx.f32 %f2, %f1; mov.b32 %r0, %f2;") == f(8.0F));
  CHECK(one("mov.f32 %f1, 0f3F800000; div.rn.f32 %f2, %f1, 0f40400000; mov.b32 %r0, %f2;") == f(1.0F / 3.0F));
  CHECK(one("mov.f64 %g1, 0d4000000000000000; sqrt.rn.f64 %g2, %g1; cvt.rn.f32.f64 %f1, %g2; mov.b32 %r0, "
            "%f1;") == f(static_cast<float>(std::sqrt(2.0))));
  CHECK(one("mov.f32 %f1, 0f40A00000; setp.gt.f32 %p1|%p2, %f1, 0f40000000; selp.u32 %r1, 1, 0, %p1; "
            "selp.u32 %r2, 2, 0, %p2; or.b32 %r0, %r1, %r2;") == 1);
}

TEST_CASE("conversions") {
  CHECK(one("mov.f32 %f1, 0fC0200000; cvt.rni.s32.f32 %r0, %f1;") == 0xfffffffeu);
  CHECK(one("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; cvt.rn.bf16x2.f32 %r0, %f2, %f1;") ==
        0x40003f80u);
  CHECK(one("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; cvt.rn.f16x2.f32 %r0, %f2, %f1;") ==
        0x40003c00u);
  CHECK(one("mov.f32 %f1, 0f44800000; mov.f32 %f2, 0f3F800000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; "
            "cvt.u32.u16 %r0, %h1;") == 0x7e38u);
  CHECK(one("mov.u32 %r1, 300; cvt.sat.u8.u32 %r0, %r1;") == 255);
  CHECK(one("mov.u32 %r1, 0x1ff; cvt.s32.s8 %r0, %r1;") == 0xffffffffu);
}

TEST_CASE("lanes of a warp exchange values") {
  const Outcome o = run(
      kernel("shfl.sync.bfly.b32 %r1, %t, 5, 31, -1; shfl.sync.down.b32 %r2|%p1, %t, 4, 31, -1; @!%p1 "
             "mov.u32 %r2, 77;\n"
             "setp.lt.u32 %p2, %t, 3; vote.sync.ballot.b32 %r3, %p2, -1; redux.sync.add.u32 %r4, %t, -1;\n"
             "and.b32 %r5, %t, 1; match.any.sync.b32 %r6, %r5, -1; elect.sync %r7|%p3, -1; selp.u32 %r8, 1, "
             "0, %p3;\n"
             "st.global.u32 [%o], %r1; st.global.u32 [%o+128], %r2; st.global.u32 [%o+256], %r3; "
             "st.global.u32 [%o+384], %r4;\n"
             "st.global.u32 [%o+512], %r6; st.global.u32 [%o+640], %r8;"));
  CHECK(o.text() == "");
  for (std::uint32_t l = 0; l < 32; ++l) {
    CHECK(o.out[l] == (l ^ 5));
    CHECK(o.out[32 + l] == (l < 28 ? l + 4 : 77));
    CHECK(o.out[64 + l] == 7);
    CHECK(o.out[96 + l] == 496);
    CHECK(o.out[128 + l] == (l % 2 != 0 ? 0xaaaaaaaau : 0x55555555u));
    CHECK(o.out[160 + l] == (l == 0 ? 1 : 0));
  }
}

TEST_CASE("divergent lanes run apart and meet again") {
  // Every lane loops tid times; the warp shuffles afterwards.
  const Outcome o = run(kernel(
      "mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
      "LOOP: setp.ge.u32 %p1, %r1, %t; @%p1 bra END; add.u32 %r1, %r1, 1; add.u32 %r2, %r2, %r1; bra LOOP;\n"
      "END: shfl.sync.idx.b32 %r3, %r2, 31, 31, -1; add.u32 %r2, %r2, %r3; st.global.u32 [%o], %r2;"));
  CHECK(o.text() == "");
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == l * (l + 1) / 2 + 496);
}

TEST_CASE("functions take and return parameters, and recurse") {
  const Outcome o = run(kernel("{ .param .b32 a; .param .b32 r; st.param.b32 [a], %t; call.uni (r), fib, "
                               "(a); ld.param.b32 %r1, [r]; }\nst.global.u32 [%o], %r1;",
                               ".func (.param .b32 ret) fib(.param .b32 n)\n{\n.reg .b32 %r<8>; .reg .pred "
                               "%p<2>;\nld.param.b32 %r1, [n]; setp.lt.u32 %p1, %r1, 2; @%p1 bra SMALL;\n"
                               "sub.u32 %r2, %r1, 1;\n{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; "
                               "call.uni (r), fib, (a); ld.param.b32 %r3, [r]; }\n"
                               "sub.u32 %r2, %r1, 2;\n{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; "
                               "call.uni (r), fib, (a); ld.param.b32 %r4, [r]; }\n"
                               "add.u32 %r1, %r3, %r4;\nSMALL: st.param.b32 [ret], %r1; ret;\n}\n"),
                        {.block = {12, 1, 1}});
  CHECK(o.text() == "");
  const std::uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (std::uint32_t l = 0; l < 12; ++l) CHECK(o.out[l] == fib[l]);
}

TEST_CASE("atomics of a whole grid add up") {
  const Outcome o = run(
      kernel("mov.u32 %r1, 0; atom.global.add.u32 %r2, [%in], 1; red.global.max.u32 [%in+4], 900; bar.sync "
             "0; st.global.u32 [%o], %r2; ld.global.u32 %r3, [%in]; st.global.u32 [%out+2048], %r3;"),
      {.grid = {1, 1, 1}, .block = {256, 1, 1}});
  CHECK(o.text() == "");
  CHECK(o.out[512] == 256);
}

TEST_CASE("wide and narrow memory accesses") {
  const Outcome o = run(
      kernel(
          "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+16]; st.global.v2.u32 [%out], {%r4, %r1}; mov.u32 "
          "%r5, 0xfff0; st.global.u8 [%out+8], %r5; st.global.u8 [%out+9], 1; st.global.u16 [%out+10], 2;\n"
          "ld.global.s8 %r6, [%out+8]; st.global.u32 [%out+12], %r6;"),
      {.block = {1, 1, 1}});
  CHECK(o.text() == "");
  CHECK(o.out[0] == 7);
  CHECK(o.out[1] == 4);
  CHECK(o.out[2] == 0x000201f0u);
  CHECK(o.out[3] == 0xfffffff0u);
}

TEST_CASE("scalar video instructions") {
  const std::string ab = "mov.u32 %r1, 0x01ff7f80; mov.u32 %r2, 0x03010102; mov.u32 %r3, 1000;";
  CHECK(one(ab + "vadd.u32.u32.u32 %r0, %r1.b0, %r2.h1;") == 0x80 + 0x0301);
  CHECK(one(ab + "vadd.s32.s32.s32 %r0, %r1.b0, %r2.b1;") == static_cast<std::uint32_t>(-128 + 1));
  CHECK(one("mov.u32 %r1, -2; vadd.u32.u32.u32.sat %r0, %r1, %r1;") == 0xffffffffu);
  CHECK(one("mov.u32 %r1, -2; vadd.u32.u32.u32 %r0, %r1, %r1;") == 0xfffffffcu);
  CHECK(one("mov.u32 %r1, 3; mov.u32 %r2, 5; vsub.u32.u32.u32.sat %r0, %r1, %r2;") == 0);
  CHECK(one(ab + "vsub.s32.s32.s32.add %r0, %r1.b2, %r2.b3, %r3;") == 1000 - 1 - 3);
  CHECK(one(ab + "vabsdiff.u32.u32.u32 %r0, %r1.b3, %r2.b3;") == 2);
  CHECK(one(ab + "vmin.s32.s32.s32 %r0, %r1.h0, %r1.b2;") == 0xffffffffu);
  CHECK(one(ab + "vmax.s32.u32.s32.max %r0, %r1.b2, %r2.b0, %r3;") == 1000);
  CHECK(one(ab + "vmax.s32.u32.s32.min %r0, %r1.b2, %r2.b0, %r3;") == 255);
  CHECK(one("mov.u32 %r1, 1; mov.u32 %r2, 33; vshl.u32.u32.u32.clamp %r0, %r1, %r2;") == 0);
  CHECK(one("mov.u32 %r1, 1; mov.u32 %r2, 33; vshl.u32.u32.u32.wrap %r0, %r1, %r2;") == 2);
  CHECK(one("mov.u32 %r1, -8; mov.u32 %r2, 2; vshr.s32.s32.u32.wrap %r0, %r1, %r2;") == 0xfffffffeu);
  // A result of one byte goes into the third operand.
  CHECK(one(ab + "vadd.s32.s32.s32.sat %r0.b1, %r1.b1, %r2.b1, 0x11223344;") == 0x11227f44u);
  CHECK(one(ab + "vadd.u32.u32.u32 %r0.h1, %r1.b1, %r2.b1, 0x11223344;") == 0x00803344u);
  CHECK(one(ab + "vmad.u32.u32.u32 %r0, %r1.b1, %r2.b3, %r3;") == 127 * 3 + 1000);
  CHECK(one(ab + "vmad.s32.s32.s32 %r0, %r1.b1, -%r2.b3, %r3;") == 1000 - 127 * 3);
  CHECK(one(ab + "vmad.s32.s32.s32 %r0, %r1.b1, %r2.b3, -%r3;") ==
        static_cast<std::uint32_t>(127 * 3 - 1000));
  CHECK(one(ab + "vmad.u32.u32.u32.po.shr7 %r0, %r1.b1, %r2.b3, %r3;") == (127 * 3 + 1000 + 1) >> 7);
  CHECK(one("mov.u32 %r1, -1; vmad.u32.u32.u32.sat %r0, %r1, %r1, %r1;") == 0xffffffffu);
  CHECK(one("mov.u32 %r1, 4; mov.u32 %r2, 5; vset.u32.u32.lt %r0, %r1, %r2;") == 1);
  CHECK(one("mov.u32 %r1, -4; mov.u32 %r2, 5; vset.u32.u32.lt.add %r0, %r1, %r2, 7;") == 7);
  CHECK(one("mov.u32 %r1, -4; mov.u32 %r2, 5; vset.s32.s32.lt.add %r0, %r1, %r2, 7;") == 8);
}

TEST_CASE("fma.oob takes what is outside of a tensor for nothing") {
  const std::string a = "mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000; mov.b16 %h3, 0x7ff7;";
  CHECK(one(a + "fma.rn.oob.f16 %h4, %h1, %h2, %h2; cvt.u32.u16 %r0, %h4;") == 0x4400);
  CHECK(one(a + "fma.rn.oob.f16 %h4, %h1, %h3, %h2; cvt.u32.u16 %r0, %h4;") == 0);
  CHECK(one(a + "fma.rn.oob.f16 %h4, %h3, %h1, %h2; cvt.u32.u16 %r0, %h4;") == 0);
  CHECK(one(a + "mov.b16 %h5, 0x7e00; fma.rn.oob.f16 %h4, %h1, %h5, %h2; cvt.u32.u16 %r0, %h4;") == 0x7fff);
  CHECK(one("mov.u32 %r1, 0x7ff73c00; mov.u32 %r2, 0x40004000; fma.rn.oob.f16x2 %r0, %r1, %r2, %r2;") ==
        0x4400);
  CHECK(one("mov.u32 %r1, 0x7ff73f80; mov.u32 %r2, 0x40004000; fma.rn.oob.relu.bf16x2 %r0, %r1, %r2, %r2;") ==
        0x4080);
}

TEST_CASE("vectors of special registers") {
  const Outcome o =
      run(kernel("mov.v4.u32 {%r1,%r2,%r3,%r4}, %tid; mad.lo.u32 %r1, %r2, 100, %r1; "
                 "mov.v4.u32 {%r5,%r6,%r7,%r8}, %ntid; mad.lo.u32 %r1, %r6, 10000, %r1; "
                 "mad.lo.u32 %t, %r2, %r5, %tid.x; mul.wide.u32 %d1, %t, 4; add.u64 %o, %out, %d1; "
                 "add.u32 %r1, %r1, %r4; st.global.u32 [%o], %r1;"),
          {.block = {8, 4, 1}});
  clean(o);
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(o.out[t] == 40000 + 100 * (t / 8) + t % 8);
  CHECK(one("mov.u16 %h1, %ntid.x; cvt.u32.u16 %r0, %h1;") == 32);
}

TEST_CASE("packed video instructions: every operation, type and selection") {
  // The definition, element by element; what the instruction gives for 32 lanes of random words.
  std::mt19937 random(11);
  std::vector<std::uint32_t> input(96);
  for (std::uint32_t& v : input) v = static_cast<std::uint32_t>(random());
  const auto element = [](std::uint64_t both, int index, int bits, bool is_signed) {
    const auto v = static_cast<int>(both >> (bits * index) & ((1u << bits) - 1));
    return is_signed && v >= 1 << (bits - 1) ? v - (1 << bits) : v;
  };
  struct Selection {
    std::string text;
    std::array<int, 4> elements;
  };
  const auto check = [&](const std::string& name, int count, const std::string& types,
                         const std::string& more, const std::string& d_mask, unsigned mask,
                         const Selection& a, const Selection& b, auto value) {
    const int bits = 32 / count;
    const Outcome o = run(kernel("mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %in; ld.global.u32 %r1, [%d1];\n"
                                 "ld.global.u32 %r2, [%d1+128]; ld.global.u32 %r3, [%d1+256];\n" +
                                 name + types + more + " %r0" + d_mask + ", %r1" + a.text + ", %r2" + b.text +
                                 ", %r3;\nst.global.u32 [%o], %r0;"),
                          {.input = input});
    INFO(name << types << more << d_mask << a.text << b.text);
    REQUIRE(o.text() == "");
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::uint64_t both = input[lane] | std::uint64_t{input[32 + lane]} << (bits * count);
      std::uint32_t merged = input[64 + lane], sum = merged;
      for (int i = 0; i < count; ++i) {
        if ((mask >> i & 1) == 0) continue;
        const auto k = static_cast<std::size_t>(i);
        const int r =
            value(element(both, a.elements[k], bits, types.substr(4, 4) == ".s32" && types.size() > 8),
                  element(both, b.elements[k], bits, types.size() > 8 && types.substr(8) == ".s32"), bits);
        sum += static_cast<std::uint32_t>(r);
        const std::uint32_t field = ((bits == 8 ? 0xffu : 0xffffu) << (bits * i));
        merged = (merged & ~field) | (static_cast<std::uint32_t>(r) << (bits * i) & field);
      }
      CHECK(o.out[lane] == (more.find(".add") != std::string::npos ? sum : merged));
    }
  };
  const Selection plain_a[] = {{"", {0, 1}}, {"", {0, 1, 2, 3}}},
                  plain_b[] = {{"", {2, 3}}, {"", {4, 5, 6, 7}}};
  const Selection mixed_a[] = {{".h03", {3, 0}}, {".b6250", {0, 5, 2, 6}}};
  const Selection mixed_b[] = {{".h21", {1, 2}}, {".b0417", {7, 1, 4, 0}}};
  using Compute = int (*)(int, int);
  const std::pair<const char*, Compute> operations[] = {
      {"vadd", [](int x, int y) { return x + y; }},
      {"vsub", [](int x, int y) { return x - y; }},
      {"vavrg", [](int x, int y) { return (x + y + (x + y >= 0)) >> 1; }},
      {"vabsdiff", [](int x, int y) { return x > y ? x - y : y - x; }},
      {"vmin", [](int x, int y) { return x < y ? x : y; }},
      {"vmax", [](int x, int y) { return x > y ? x : y; }}};
  for (const int four : {0, 1})
    for (const auto& [name, compute] : operations)
      for (const std::string t : {".u32.u32.u32", ".s32.s32.s32", ".s32.u32.s32", ".u32.s32.u32"})
        for (const std::string more : {"", ".sat", ".add"}) {
          const auto value = [&, operation = compute](int x, int y, int bits) {
            const int r = operation(x, y);
            if (more != ".sat") return r;
            const bool is_signed = t.starts_with(".s32");
            const int low = is_signed ? -(1 << (bits - 1)) : 0,
                      high = (1 << (bits - (is_signed ? 1 : 0))) - 1;
            return r < low ? low : r > high ? high : r;
          };
          const std::string full = name + std::string(four != 0 ? "4" : "2");
          const auto i = static_cast<std::size_t>(four);
          const int count = four != 0 ? 4 : 2;
          check(full, count, t, more, "", 0xf, plain_a[i], plain_b[i], value);
          check(full, count, t, more, four != 0 ? ".b31" : ".h1", four != 0 ? 0xa : 0x2, mixed_a[i],
                mixed_b[i], value);
        }
  const std::pair<const char*, Compute> comparisons[] = {
      {".eq", [](int x, int y) { return int{x == y}; }}, {".ne", [](int x, int y) { return int{x != y}; }},
      {".lt", [](int x, int y) { return int{x < y}; }},  {".le", [](int x, int y) { return int{x <= y}; }},
      {".gt", [](int x, int y) { return int{x > y}; }},  {".ge", [](int x, int y) { return int{x >= y}; }}};
  for (const int four : {0, 1})
    for (const auto& [name, compute] : comparisons)
      for (const std::string t : {".u32.u32", ".s32.s32"}) {
        const auto value = [&, operation = compute](int x, int y, int) { return operation(x, y); };
        // Types of both sources; the check above counts from the result's.
        const auto i = static_cast<std::size_t>(four);
        const std::string full = four != 0 ? "vset4" : "vset2";
        const bool is_signed = t == ".s32.s32";
        const auto of_words = [&](int x, int y, int bits) {
          const auto widen = [&](int v) { return is_signed && v >= 1 << (bits - 1) ? v - (1 << bits) : v; };
          return value(widen(x), widen(y), bits);
        };
        check(full, four != 0 ? 4 : 2, t, name, "", 0xf, plain_a[i], plain_b[i], of_words);
      }
}

TEST_CASE("vector atomics take the smaller and the larger of halves") {
  // f16: 1, -2, 0.5, 4 and 2, -4, 0.25, 8; each lane has words of its own.
  const std::string there = "mov.u32 %r1, 0xc0003c00; mov.u32 %r2, 0x44003800;\n",
                    brings = "mov.u32 %r3, 0xc4004000; mov.u32 %r4, 0x48003400;\n";
  const auto result = [&](const std::string& form) {
    const Outcome o =
        run(kernel("shl.b32 %r9, %t, 4; cvt.u64.u32 %d1, %r9; add.u64 %d1, %d1, %out;\n" + there + brings +
                   "st.global.v2.u32 [%d1], {%r1,%r2};\n" + form + "\nst.global.v2.u32 [%d1+8], {%r5,%r6};"));
    CHECK(o.text() == "");
    for (std::size_t lane = 1; lane < 32; ++lane)
      for (std::size_t i = 0; i < 4; ++i) CHECK(o.out[4 * lane + i] == o.out[i]);
    return std::array{o.out[0], o.out[1], o.out[2], o.out[3]};
  };
  const std::array<std::uint32_t, 4> smaller = {0xc4003c00, 0x44003400, 0xc0003c00, 0x44003800},
                                     larger = {0xc0004000, 0x48003800, 0xc0003c00, 0x44003800};
  CHECK(result("atom.global.v2.min.noftz.f16x2 {%r5,%r6}, [%d1], {%r3,%r4};") == smaller);
  CHECK(result("atom.global.v2.max.noftz.f16x2 {%r5,%r6}, [%d1], {%r3,%r4};") == larger);
  CHECK(result("red.global.v2.min.noftz.f16x2 [%d1], {%r3,%r4}; mov.u32 %r5, %r1; mov.u32 %r6, %r2;") ==
        smaller);
  // bf16 orders these bits alike; a NaN yields to a number.
  CHECK(result("atom.global.v2.min.noftz.bf16x2 {%r5,%r6}, [%d1], {%r3,%r4};") == smaller);
  CHECK(result("atom.global.v2.max.noftz.bf16x2 {%r5,%r6}, [%d1], {%r3,%r4};") == larger);
  CHECK(result("mov.u32 %r3, 0x7e007e00; atom.global.v2.max.noftz.f16x2 {%r5,%r6}, [%d1], {%r3,%r4};")[0] ==
        0xc0003c00);
}

TEST_CASE("eight bytes at once") {
  const auto eight = [](char kind, int first) {
    std::string s;
    for (int i = 0; i < 8; ++i)
      s += (i != 0 ? ",%" : "{%") + std::string(1, kind) + std::to_string(first + i);
    return s + "}";
  };
  const std::string address =
      "shl.b32 %r9, %t, 3; cvt.u64.u32 %d1, %r9; add.u64 %d2, %d1, %in; add.u64 %d3, %d1, %out;\n";
  std::vector<std::uint32_t> input(1024);
  for (std::uint32_t i = 0; i < 1024; ++i) input[i] = i * 2654435761u;
  for (const std::string type : {"u8", "b8", "s8"}) {
    const Outcome o = run(
        kernel(address + "ld.global.v8." + type + " " + eight('h', 1) + ", [%d2]; add.u16 %h1, %h1, 1;\n" +
               "st.global.v8." + type + " [%d3], " + eight('h', 1) + ";"),
        {.input = input});
    clean(o);
    for (std::size_t i = 0; i < 64; ++i)
      CHECK(o.out[i] == (i % 2 != 0 ? input[i] : (input[i] & ~0xffu) | ((input[i] + 1) & 0xff)));
  }
  // Signs are extended.
  const Outcome s = run(
      kernel("ld.global.v8.s8 " + eight('h', 1) + ", [%in]; cvt.s32.s16 %r1, %h1; st.global.u32 [%o], %r1;"),
      {.input = std::vector<std::uint32_t>{0x000000f0, 0}});
  CHECK(s.out[0] == 0xfffffff0u);
}
