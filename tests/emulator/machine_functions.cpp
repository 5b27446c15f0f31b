// Functions with register parameters, aliases, vector registers, memory of the stack.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

const char* const kFunctions = R"(
.func (.reg .u32 sum) add3(.reg .u32 a, .reg .u32 b, .reg .u32 c) { add.u32 sum, a, b; add.u32 sum, sum, c; ret; }
.func (.reg .f64 d, .reg .u32 u) two(.reg .f32 x, .param .u32 y) { .reg .u32 %r; ld.param.u32 %r, [y]; cvt.f64.f32 d, x;
  add.u32 u, %r, 1; ret; }
.func (.reg .pred q) flip(.reg .pred p) { not.pred q, p; @q ret; ret; }
.func (.reg .u32 r) factorial(.reg .u32 n)
{ .reg .pred %p; .reg .u32 m; setp.gt.u32 %p, n, 1; @%p bra more; mov.u32 r, 1; ret;
more: sub.u32 m, n, 1; call (r), factorial, (m); mul.lo.u32 r, r, n; ret; }
.func (.reg .u32 r) keep(.reg .u32 a) { .reg .u32 never; mov.u32 r, a; ret; }
.func (.reg .u32 r) lose(.reg .u32 a) { .reg .u32 never; mov.u32 r, never; ret; }
.func (.reg .u32 r) plus(.reg .u32 a, .reg .u32 b, .reg .u32 c);
.alias plus, add3;
)";

Outcome calls(const std::string& body) {
  return run(kernel(body, kFunctions));
}

}  // namespace

TEST_CASE("register parameters go there and back") {
  Outcome o = calls("call (%r1), add3, (%t, 100, %t); st.global.u32 [%o], %r1;");
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 2 * i + 100);

  o = calls(
      "cvt.rn.f32.u32 %f1, %t; .param .u32 y; st.param.u32 [y], %t; call (%g1, %r2), two, (%f1, y);\n"
      "cvt.rzi.u32.f64 %r1, %g1; shl.b32 %r2, %r2, 16; or.b32 %r1, %r1, %r2; st.global.u32 [%o], %r1;");
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == (i | (i + 1) << 16));

  o = calls(
      "setp.lt.u32 %p1, %t, 10; call (%p2), flip, (%p1); selp.u32 %r1, 1, 0, %p2; st.global.u32 [%o], %r1;");
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == (i < 10 ? 0u : 1u));
}

TEST_CASE("recursion with register parameters, lanes of different depth") {
  const Outcome o = calls("and.b32 %r2, %t, 7; call (%r1), factorial, (%r2); st.global.u32 [%o], %r1;");
  clean(o);
  static constexpr std::uint32_t kFactorials[] = {1, 1, 2, 6, 24, 120, 720, 5040};
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == kFactorials[i % 8]);
}

TEST_CASE("indirect calls and aliases with register parameters") {
  Outcome o = calls(
      "mov.u64 %d1, add3; proto: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _, .reg .u32 _);\n"
      "call (%r1), %d1, (%t, %t, %t), proto; st.global.u32 [%o], %r1;");
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 3 * i);
  o = calls("call (%r1), plus, (%t, 1, 2); st.global.u32 [%o], %r1;");
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == i + 3);
}

TEST_CASE("unknown values pass through register parameters") {
  clean(calls("call (%r1), keep, (%r2); call (%r3), keep, (%t); st.global.u32 [%o], %r3;"));
  finds("uninitialized-register", calls("call (%r1), keep, (%r2); st.global.u32 [%o], %r1;"));
  finds("uninitialized-register", calls("call (%r1), lose, (%t); st.global.u32 [%o], %r1;"));
}

TEST_CASE("vector registers") {
  Outcome o = run(kernel(
      ".reg .v4 .u32 v; .reg .v2 .f32 w<3>;\n"
      "mov.v4.u32 v, %tid; add.u32 v.w, v.x, 5; mov.v4.u32 v, {v.w, v.z, v.y, v.x};\n"
      "cvt.rn.f32.u32 w1.x, v.x; mov.f32 w1.g, 0f3f800000; add.f32 w2.x, w1.r, w1.y; cvt.rzi.u32.f32 %r1, w2.x;\n"
      "shl.b32 %r2, v.a, 8; or.b32 %r1, %r1, %r2; st.global.u32 [%o], %r1;"));
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == ((i + 6) | (i << 8)));
  o =
      run(kernel(".reg .v4 .u32 v; mul.wide.u32 %d1, %t, 16; add.u64 %d2, %d1, %in; add.u64 %d3, %d1, %out;\n"
                 "ld.global.v4.u32 v, [%d2]; add.u32 v.z, v.z, 7; st.global.v4.u32 [%d3], v;"));
  clean(o);
  for (std::uint32_t i = 0; i < 128; ++i) CHECK(o.out[i] == i + (i % 4 == 2 ? 7 : 0));
}

TEST_CASE("an unknown component of a vector harms only who uses it") {
  clean(run(
      kernel(".reg .v2 .u32 v; mov.u32 v.x, 3; .reg .v2 .u32 w; mov.v2.u32 w, v; st.global.u32 [%o], w.x;")));
  finds("uninitialized-register",
        run(kernel(
            ".reg .v2 .u32 v; mov.u32 v.x, 3; .reg .v2 .u32 w; mov.v2.u32 w, v; st.global.u32 [%o], w.y;")));
}

TEST_CASE("memory of the stack") {
  // Each lane takes as much as it needs, writes all of it and sums it up.
  const std::string body =
      "stacksave.u64 %d9; add.u32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 4; alloca.u64 %d2, %d1, 16;\n"
      "cvta.local.u64 %d3, %d2; mov.u32 %r2, 0;\n"
      "fill: mul.wide.u32 %d4, %r2, 4; add.u64 %d5, %d3, %d4; st.u32 [%d5], %r2; add.u32 %r2, %r2, 1;\n"
      "setp.lt.u32 %p1, %r2, %r1; @%p1 bra fill;\n"
      "mov.u32 %r2, 0; mov.u32 %r3, 0;\n"
      "sum: mul.wide.u32 %d4, %r2, 4; add.u64 %d5, %d2, %d4; ld.local.u32 %r4, [%d5]; add.u32 %r3, %r3, %r4;\n"
      "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra sum;\n"
      "stackrestore.u64 %d9; alloca.u64 %d6, 8; setp.eq.u64 %p2, %d6, %d2; selp.u32 %r5, 1000, 0, %p2;\n"
      "add.u32 %r3, %r3, %r5; st.global.u32 [%o], %r3;";
  const Outcome o = run(kernel(body));
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == i * (i + 1) / 2 + 1000);
}

TEST_CASE("memory of the stack that nobody wrote, and beyond it") {
  finds("uninitialized-read",
        run(kernel("alloca.u64 %d1, 16; ld.local.u32 %r1, [%d1+4]; st.global.u32 [%o], %r1;")));
  clean(run(kernel(
      "alloca.u64 %d1, 16; st.local.u32 [%d1+4], %t; ld.local.u32 %r1, [%d1+4]; st.global.u32 [%o], %r1;")));
  finds("out-of-bounds", run(kernel("alloca.u64 %d1, 16; st.local.u32 [%d1+1048576], %t;")));
}

TEST_CASE("memory of the stack survives calls, and its function's is gone afterwards") {
  const std::string declarations = R"(
.func (.reg .u32 r) scratch(.reg .u32 n) { .reg .u64 %p, %q; .reg .u32 %v; cvt.u64.u32 %q, n; alloca.u64 %p, %q, 8;
  st.local.u32 [%p], n; ld.local.u32 r, [%p]; ret; }
)";
  const Outcome o = run(kernel(
      "alloca.u64 %d1, 64; st.local.u32 [%d1], %t; st.local.u32 [%d1+60], %t; add.u32 %r2, %t, 8; mov.u32 %r5, 0;\n"
      "again: call (%r1), scratch, (%r2); add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 5000; @%p1 bra again;\n"
      "ld.local.u32 %r3, [%d1]; ld.local.u32 %r4, [%d1+60]; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r1;\n"
      "st.global.u32 [%o], %r3;",
      declarations));
  clean(o);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == 3 * i + 8);
}

TEST_CASE("lanes that call in turn do not climb over each other") {
  // Lane 0 asks, lane 1 answers, each within a function with 96 KiB of locals: there is always one of them in its
  // function when the other one calls.
  const std::string declarations = std::string(kShared) + R"(
.func (.reg .u32 r) answer(.reg .u32 mine) { .reg .pred %p; .reg .u32 %v; .local .b8 room[98304];
  st.local.u32 [room+98300], mine;
wait: ld.acquire.cta.shared.u32 %v, [s]; and.b32 %v, %v, 1; setp.ne.u32 %p, %v, mine; @%p bra wait;
  ld.acquire.cta.shared.u32 %v, [s]; add.u32 %v, %v, 1; st.release.cta.shared.u32 [s], %v;
  ld.local.u32 r, [room+98300]; ret; }
.func (.reg .u32 r) ask() { .reg .pred %p; .reg .u32 %v; .local .b8 room[98304];
  ld.acquire.cta.shared.u32 %v, [s]; st.local.u32 [room], %v; add.u32 %v, %v, 1; st.release.cta.shared.u32 [s], %v;
wait: ld.acquire.cta.shared.u32 %v, [s]; and.b32 %v, %v, 1; setp.ne.u32 %p, %v, 0; @%p bra wait;
  ld.local.u32 r, [room]; ret; }
.func (.reg .u32 r) answers(.reg .u32 mine) { .reg .pred %p; .reg .u32 %v, %i; mov.u32 r, 0; mov.u32 %i, 0;
again: call (%v), answer, (mine); add.u32 r, r, %v; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 8; @%p bra again; ret; }
.func (.reg .u32 r) deeper(.reg .u32 mine) { .reg .u32 %v; call (%v), answers, (mine); mov.u32 r, %v; ret; }
)";
  const std::string body =
      "setp.gt.u32 %p1, %t, 1; mov.u32 %r5, 0; mov.u32 %r6, 0; st.shared.u32 [s], %r5; bar.sync 0;\n"
      "@%p1 bra done; setp.eq.u32 %p2, %t, 1; @%p2 bra within;\n"
      "again: call (%r1), ask, (); add.u32 %r6, %r6, %r1; add.u32 %r5, %r5, 1;\n"
      "setp.lt.u32 %p3, %r5, 8; @%p3 bra again; bra done;\n"
      "within: call (%r6), deeper, (%t);\n"
      "done: st.global.u32 [%o], %r6;";
  for (const Policy policy : kPolicies) {
    const Outcome o = run(kernel(body, declarations), {.policy = policy});
    clean(o);
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(o.out[i] == (i == 0 ? 56u : i == 1 ? 8u : 0u));
  }
}
