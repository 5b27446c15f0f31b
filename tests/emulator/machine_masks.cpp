// Instructions with a member mask: each lane's own mask counts, lanes must be named by it, and what is read
// from a lane outside is nothing.
#include <doctest/doctest.h>

#include <bit>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

// %r10: this lane's group of 8 as a mask; %r11: its group of 16.
const std::string kMasks =
    "and.b32 %r9, %t, 24; mov.u32 %r10, 255; shl.b32 %r10, %r10, %r9; and.b32 %r9, %t, 16; mov.u32 %r11, "
    "65535; shl.b32 %r11, %r11, %r9;\n";
const std::string kOut = "st.global.u32 [%o], %r20;\n";

}  // namespace

TEST_CASE("groups with masks of their own meet in one instruction") {
  struct Case {
    const char* text;
    std::uint32_t (*expected)(std::uint32_t lane);
  };
  const Case cases[] = {
      {"and.b32 %r12, %t, 1; setp.ne.u32 %p2, %r12, 0; vote.sync.ballot.b32 %r20, %p2, %r10;",
       [](std::uint32_t l) { return 0xaau << (l & 24); }},
      {"and.b32 %r12, %t, 1; setp.ne.u32 %p2, %r12, 0; vote.sync.ballot.b32 %r20, %p2, %r11;",
       [](std::uint32_t l) { return 0xaaaau << (l & 16); }},
      {"setp.lt.u32 %p2, %t, 8; vote.sync.all.pred %p3, %p2, %r10; selp.u32 %r20, 1, 0, %p3;",
       [](std::uint32_t l) { return l < 8 ? 1u : 0u; }},
      {"setp.eq.u32 %p2, %t, 9; vote.sync.any.pred %p3, %p2, %r10; selp.u32 %r20, 1, 0, %p3;",
       [](std::uint32_t l) { return l / 8 == 1 ? 1u : 0u; }},
      {"setp.lt.u32 %p2, %t, 12; vote.sync.uni.pred %p3, %p2, %r10; selp.u32 %r20, 1, 0, %p3;",
       [](std::uint32_t l) { return l / 8 == 1 ? 0u : 1u; }},
      {"redux.sync.add.u32 %r20, %t, %r10;", [](std::uint32_t l) { return (l & 24) * 8 + 28; }},
      {"redux.sync.max.s32 %r20, %t, %r11;", [](std::uint32_t l) { return l | 15; }},
      {"and.b32 %r12, %t, 3; match.sync.any.b32 %r20, %r12, %r10;",
       [](std::uint32_t l) { return (0x11u << (l & 3)) << (l & 24); }},
      {"shr.u32 %r12, %t, 3; match.sync.all.b32 %r20|%p2, %r12, %r10;",
       [](std::uint32_t l) { return 0xffu << (l & 24); }},
      {"elect.sync %r20|%p2, %r10;", [](std::uint32_t l) { return l & 24; }},
      {"shfl.sync.idx.b32 %r20, %t, 3, 0x181f, %r10;", [](std::uint32_t l) { return (l & 24) + 3; }},
  };
  for (const Case& c : cases)
    for (const Policy p : kPolicies) {
      INFO(c.text);
      const Outcome o = one_warp(kMasks + c.text + kOut, p);
      clean(o);
      for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == c.expected(l));
    }
}

TEST_CASE("groups that come at different times") {
  // Lanes 0 .. 15 take a detour; each half votes by itself, then all together.
  const std::string detour =
      "setp.lt.u32 %p4, %t, 16; @!%p4 bra A; mov.u32 %r13, 5; add.u32 %r13, %r13, 1;\nA: "
      "redux.sync.add.u32 %r20, 1, %r11; redux.sync.add.u32 %r20, %r20, 0xffffffff;\n";
  const Outcome o = one_warp(kMasks + detour + kOut);
  clean(o);
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == 16 * 32);
}

TEST_CASE("disjoint groups synchronise in one bar.warp.sync") {
  const std::string store = kMasks + "st.shared.u32 [%r1], %t;\n";
  const auto read = [](int distance) {
    return "xor.b32 %r5, %r4, " + std::to_string(4 * distance) +
           "; add.u32 %r5, %r5, %r3; ld.shared.u32 %r20, [%r5];\n" + kOut;
  };
  for (const Policy p : kPolicies) {
    clean(one_warp(store + "bar.warp.sync %r10;\n" + read(4), p));
    finds("warp-race", one_warp(store + "bar.warp.sync %r10;\n" + read(8), p));
  }
  // What a lane does after its barrier is not known to lanes that leave the same barrier later.
  const std::string late =
      "setp.lt.u32 %p2, %t, 1; @%p2 bra A; bar.warp.sync -1; ld.shared.u32 %r20, [%r3]; bra B;\nA: "
      "bar.warp.sync "
      "-1; st.shared.u32 [%r3], 7; mov.u32 %r20, 0;\nB:\n";
  bool found = false;
  for (const Policy p : kPolicies)
    found |= one_warp("st.shared.u32 [%r1], %t; " + late + kOut, p).found("warp-race");
  CHECK(found);
}

TEST_CASE("lanes that their mask does not name") {
  for (const char* text :
       {"shfl.sync.bfly.b32 %r20, %t, 0, 31, 0xffff;", "vote.sync.ballot.b32 %r20, %p1, 0xffff;",
        "redux.sync.add.u32 %r20, %t, 0xffff;", "match.sync.any.b32 %r20, %t, 0xffff;",
        "bar.warp.sync 0xffff; mov.u32 %r20, 0;", "elect.sync %r20|%p2, 0xffff;"}) {
    INFO(text);
    const Outcome o = one_warp(std::string(text) + kOut);
    finds("warp-mask", o);
    for (const Finding& f : o.report.findings)
      if (f.kind == "warp-mask") CHECK(f.site.lane == 16);
  }
}

TEST_CASE("a mask that names lanes with another mask") {
  finds("warp-mask",
        one_warp("setp.lt.u32 %p2, %t, 4; selp.u32 %r12, 0xff, 0xfffffff0, %p2; redux.sync.add.u32 "
                 "%r20, %t, %r12;" +
                 kOut));
}

TEST_CASE("shfl from a lane outside the mask, or one that does not take part") {
  // Lanes 0 .. 7 sum up; what lanes 4 .. 7 read of lanes 8 .. 11 reaches nobody's result but their own.
  const std::string sum =
      "setp.gt.u32 %p2, %t, 7; @%p2 bra E; mov.u32 %r20, %t;\n"
      "shfl.sync.down.b32 %r12, %r20, 4, 31, 0xff; add.u32 %r20, %r20, %r12;\n"
      "shfl.sync.down.b32 %r12, %r20, 2, 31, 0xff; add.u32 %r20, %r20, %r12;\n"
      "shfl.sync.down.b32 %r12, %r20, 1, 31, 0xff; add.u32 %r20, %r20, %r12;\n";
  const Outcome good = one_warp(sum + "setp.ne.u32 %p3, %t, 0; @%p3 bra E;" + kOut + "E:");
  clean(good);
  CHECK(good.out[0] == 28);
  const Outcome bad = one_warp(sum + kOut + "E:");
  finds("warp-mask", bad);
  REQUIRE(bad.report.findings.front().has_other);
  CHECK(bad.report.findings.front().other.ptx_text.find("shfl") != std::string::npos);
  CHECK(bad.report.findings.front().site.lane == 1);
  // Of all 32 lanes with the lower half gone.
  finds("warp-mask",
        one_warp("setp.lt.u32 %p2, %t, 16; @%p2 exit; shfl.sync.idx.b32 %r20, %t, 3, 31, -1;" + kOut));
}

TEST_CASE("a predicated lane that the mask names is waited for") {
  // Half of the lanes skip the instruction and come to it again: the groups meet there.
  const std::string twice =
      "mov.u32 %r12, 0; mov.u32 %r20, 0;\nL: setp.eq.u32 %p2, %r12, 1; setp.lt.u32 %p3, %t, 16; or.pred %p4, "
      "%p2, "
      "%p3; @%p4 redux.sync.add.u32 %r20, 1, 0xffffffff;\n@%p3 bra E; add.u32 %r12, %r12, 1; setp.lt.u32 "
      "%p5, "
      "%r12, 2; @%p5 bra L;\nE:";
  const Outcome o = one_warp(twice + kOut);
  clean(o);
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(o.out[l] == 32);
}
