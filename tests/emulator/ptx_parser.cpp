// The PTX front end: what it accepts, and that everything else is an error with its line.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {
int error_line(const std::string& ptx) {
  try {
    Module::from_ptx(ptx);
  } catch (const Error& e) {
    return e.line();
  }
  return -1;
}
}  // namespace

TEST_CASE("parameters are laid out by size and alignment") {
  const Module m = Module::from_ptx(std::string(kPrelude) +
                                    ".visible .entry k(.param .u8 a, .param .align 64 .b8 b[128], .param "
                                    ".u64 .ptr .global .align 16 c, .param .f32 d)\n{\nret;\n}\n");
  const auto p = m.params("k");
  REQUIRE(p.size() == 4);
  CHECK(p[0].offset == 0);
  CHECK(p[1].offset == 64);
  CHECK(p[1].bytes == 128);
  CHECK(p[2].offset == 192);
  CHECK(p[3].offset == 200);
  CHECK(m.target() == "sm_90a");
  CHECK(m.kernels() == std::vector<std::string>{"k"});
}

TEST_CASE("shared variables are sized by their alignment") {
  const Module m = Module::from_ptx(
      std::string(kPrelude) +
      ".visible .entry k()\n{\n.shared .align 1 .b8 a[3]; .shared .align 128 .b8 b[256];\nret;\n}\n");
  CHECK(m.static_smem_bytes("k") == 128 + 256);
}

TEST_CASE("unknown instructions name themselves and their line") {
  const std::string ptx =
      std::string(kPrelude) + ".visible .entry k()\n{\n.reg .b32 %r<2>;\nfrobnicate.b32 %r0, %r1;\nret;\n}\n";
  CHECK(error_line(ptx) == 7);
  CHECK_THROWS_WITH_AS(Module::from_ptx(ptx), doctest::Contains("frobnicate.b32"), Error);
}

TEST_CASE("malformed text is refused with its line") {
  CHECK(error_line("") == 1);
  CHECK(error_line("hello") == 1);
  CHECK(error_line(".version 8.7\n.target sm_90\n.address_size 32\n") == 4);
  CHECK(error_line(kernel("add.s32 %r0, %r1;")) > 0);
  CHECK(error_line(kernel("add.s32 %r0, %r1, %d2;")) > 0);
  CHECK(error_line(kernel("add.s32 %r0, %r1, %r99;")) > 0);
  CHECK(error_line(kernel("bra NOWHERE;")) > 0);
  CHECK(error_line(kernel("@%r1 bra A; A:")) > 0);
  CHECK(error_line(kernel("A: A: mov.u32 %r1, 0;")) > 0);
  CHECK(error_line(kernel("ld.global.u32 %r1, [%nosuch];")) > 0);
  CHECK(error_line(kernel("mov.u32 %r1, %nosuchspecial;")) > 0);
  CHECK(error_line(kernel("{ { mov.u32 %r1, 0; }")) > 0);
  CHECK(error_line(kernel("mov.f32 %f1, 0f3F80;")) > 0);
  CHECK(error_line(kernel("/* no end")) > 0);
}

TEST_CASE("every truncation of a module is an error or a module, never a crash") {
  const std::string whole = kernel(
      "mov.u32 %r1, {%h1, %h2}; {.reg .b32 x; L: mov.b32 x, 0x10; @!%p1 bra L;} st.global.v2.u32 [%o+-4], "
      "{%r1, %r2};",
      ".global .align 4 .u32 g[2] = {1, -2};\n");
  std::size_t refused = 0;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    try {
      Module::from_ptx(whole.substr(0, n));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > whole.size() / 2);
}

TEST_CASE("labels of inline assembly are local to their braces") {
  const Outcome o =
      run(kernel("mov.u32 %r1, 0;\n"
                 "{ L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra L; }\n"
                 "{ L: add.u32 %r1, %r1, 10; setp.lt.u32 %p1, %r1, 30; @%p1 bra L; }\n"
                 "st.global.u32 [%o], %r1;"));
  CHECK(o.out[0] == 33);
}

TEST_CASE("module variables are initialised, pointers relocated") {
  const Outcome o =
      run(kernel("mov.u64 %d1, p; ld.global.u64 %d2, [%d1]; ld.u32 %r1, [%d2]; ld.const.u32 %r2, [c+4]; "
                 "add.u32 %r1, %r1, %r2; st.global.u32 [%o], %r1;",
                 ".global .align 4 .u32 v[2] = {5, 7};\n.global .align 8 .u64 p = generic(v)+4;\n.const "
                 ".align 4 .u32 c[2] = {1, 100};\n"));
  CHECK(o.out[0] == 107);
  CHECK(o.text() == "");
}

TEST_CASE("mutated modules are errors or modules, never a crash") {
  const std::string whole = kernel(
      "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %t; call.uni (r), f, (a); ld.param.b32 %r1, [r]; }\n"
      "mov.b64 %d1, {%r1, %r2}; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+16]; setp.lt.and.s32 %p1|%p2, "
      "%r1, %r2, !%p3;\n"
      "@%p1 bra L; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
      "%r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};\n"
      "cvt.rn.bf16x2.f32 %r1, %f1, %f2; cp.async.cg.shared.global [%r1], [%in], 16; bar.sync 1, 64; "
      "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;\n"
      "ts: .branchtargets L, M; brx.idx %r1, ts; L: M: wgmma.wait_group.sync.aligned 0;",
      ".func (.param .b32 x) f(.param .b32 y)\n{\nret;\n}\n.global .b8 h[4] = {1, 2};\n.global .align 8 .u64 "
      "g = generic(h);\n\n");
  std::uint64_t state = 88172645463325252ull;
  const auto random = [&](std::size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::size_t>(state % n);
  };
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (std::size_t k = 1 + random(4); k > 0; --k) {
      const std::size_t at = random(text.size());
      switch (random(3)) {
        case 0:
          text[at] = static_cast<char>(random(256));
          break;
        case 1:
          text.erase(at, 1 + random(16));
          break;
        default:
          text.insert(at, text.substr(random(text.size()), random(32)));
          break;
      }
    }
    try {
      Module::from_ptx(text);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 3000);
}

TEST_CASE("constant expressions have the operators and the precedence of C") {
  const auto value = [](const std::string& text) {
    const Outcome o = run(kernel("mov.u32 %r1, " + text + "; st.global.u32 [%o], %r1;"));
    CHECK(o.text() == "");
    return o.out[0];
  };
  CHECK(value("(1<<4)|3") == 19);
  CHECK(value("1+2*3-4/2") == 5);
  CHECK(value("2*3+1<<2") == 28);
  CHECK(value("~0") == 0xffffffffu);
  CHECK(value("!(5)") == 0);
  CHECK(value("-(3-5)") == 2);
  CHECK(value("7&3^1|8") == 10);
  CHECK(value("3<4&&4<=4") == 1);
  CHECK(value("1==2||2!=2") == 0);
  CHECK(value("5>=6?7:8") == 8);
  CHECK(value("0?1:1?2:3") == 2);
  const Outcome o =
      run(kernel("ld.global.u32 %r1, [%in+(4*2)]; ld.global.u32 %r2, [%in+4*3]; add.u32 %r1, %r1, %r2; "
                 "st.global.u32 [%o+-(1-1)], %r1;",
                 ".global .u32 g[2*2+1];\n.global .u32 h[2] = {1<<3, 2*(2+3)};\n"));
  clean(o);
  CHECK(o.out[0] == 5);
  CHECK_THROWS(run(kernel("mov.u32 %r1, 1/0;")));
  CHECK_THROWS(run(kernel("mov.u32 %r1, (1;")));
  CHECK_THROWS(run(kernel("mov.u32 %r1, " + std::string(5000, '(') + ";")));
}
