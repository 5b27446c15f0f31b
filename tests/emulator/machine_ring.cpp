// Rings of copies whose slots change hands between groups of warps. A wait tells two phases of an mbarrier
// apart, no more: where a slot goes to the groups in turn, the phase that a group waits for may be two away
// from the last one it has seen, and looks as if it had come. Hardware shows it when a later tile's bytes
// come first; so does lazy completion.
#include <doctest/doctest.h>

#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

constexpr int kTiles = 24;

/// Who runs the loop of copies in warp 0 and waits for free slots: one thread; all lanes, of which the first copies and
/// the others do nothing; the same with something after the wait at which they meet; all lanes, each of which copies a
/// word of the tile, too (cp.async), as scales come beside a tile.
enum class Copies { thread, first_lane, synchronised, shuffled, lanes };

/// Warp 0 copies tiles of 128 bytes into a ring of `stages` slots; the other `groups` warps take them in turn
/// and write them out.
std::string ring(int groups, int stages, Copies copies) {
  const bool lane_copies = copies == Copies::lanes;
  const std::string S = std::to_string(stages), G = std::to_string(groups);
  const auto each_slot = [&](const std::string& text) {
    std::string all;
    for (int i = 0; i < stages; ++i) {
      std::string one = text;
      for (std::size_t at; (at = one.find('#')) != std::string::npos;)
        one.replace(at, 1, std::to_string(8 * i));
      all += one;
    }
    return all;
  };
  // %r10: tile, %r11: slot, %r12: phase, %r13: mbarrier full of the slot (empty: 64 bytes on), %r14: its
  // bytes.
  const std::string slot = "rem.u32 %r11, %r10, " + S + "; div.u32 %r12, %r10, " + S +
                           "; and.b32 %r12, %r12, 1; mad.lo.u32 %r13, %r11, 8, %r2; mad.lo.u32 %r14, %r11, "
                           "128, %r3;\n";
  return kernel(
      "mov.u32 %r2, bar; mov.u32 %r3, s; shr.u32 %r5, %t, 5; and.b32 %r6, %t, 31; setp.eq.u32 %p1, %t, 0; "
      "setp.eq.u32 %p6, %r6, 0;\n" +
          each_slot("@%p1 mbarrier.init.shared.b64 [%r2+#], " + std::string(lane_copies ? "33" : "1") +
                    "; @%p1 mbarrier.init.shared.b64 [%r2+64+#], 1;\n") +
          "@%p1 fence.mbarrier_init.release.cluster; bar.sync 0; setp.ne.u32 %p2, %r5, 0; @%p2 bra TAKE;\n" +
          std::string(copies == Copies::thread ? "@!%p1 bra END;" : "") +
          "mov.u32 %r10, 0;\n"
          "SEND:\n" +
          slot +
          "xor.b32 %r12, %r12, 1;\n"
          "E: mbarrier.try_wait.parity.shared.b64 %p3, [%r13+64], %r12; @!%p3 bra E;\n" +
          (copies == Copies::synchronised ? "bar.warp.sync -1;\n"
           : copies == Copies::shuffled   ? "shfl.sync.idx.b32 %r19, %r10, 0, 31, -1;\n"
                                          : "") +
          "mul.wide.u32 %d1, %r10, 128; add.u64 %d1, %d1, %in;\n" +
          (lane_copies ? "mul.wide.u32 %d3, %r6, 4; add.u64 %d3, %d3, %d1; mad.lo.u32 %r18, %r6, 4, %r14;\n"
                         "cp.async.ca.shared.global [%r18+1024], [%d3], 4; "
                         "cp.async.mbarrier.arrive.noinc.shared.b64 [%r13];\n"
                       : "") +
          "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r13], 128;\n"
          "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%d1], 128, "
          "[%r13];\n"
          "add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, " +
          std::to_string(kTiles) +
          "; @%p4 bra SEND; bra END;\n"
          "TAKE: sub.u32 %r10, %r5, 1;\n"
          "NEXT:\n" +
          slot +
          "F: mbarrier.try_wait.parity.shared.b64 %p3, [%r13], %r12; @!%p3 bra F;\n"
          "mad.lo.u32 %r15, %r6, 4, %r14; ld.shared.u32 %r16, [%r15];" +
          (lane_copies ? "ld.shared.u32 %r18, [%r15+1024]; add.u32 %r16, %r16, %r18;" : "") +
          "bar.warp.sync -1;\n"
          "@%p6 mbarrier.arrive.shared.b64 _, [%r13+64];\n"
          "mad.lo.u32 %r17, %r10, 32, %r6; mul.wide.u32 %d2, %r17, 4; add.u64 %d2, %d2, %out; st.global.u32 "
          "[%d2], %r16;\n"
          "add.u32 %r10, %r10, " +
          G + "; setp.lt.u32 %p4, %r10, " + std::to_string(kTiles) + "; @%p4 bra NEXT;\nEND:",
      ".shared .align 8 .b64 bar[16];\n.shared .align 128 .b8 s[2048];\n");
}

Outcome run_ring(int groups, int stages, Copies copies, Policy policy, std::uint64_t seed) {
  const auto threads = static_cast<std::uint32_t>(32 * (1 + groups));
  return run(ring(groups, stages, copies), {.block = {threads, 1, 1}, .policy = policy, .seed = seed});
}

}  // namespace

TEST_CASE("a ring whose slots stay with a group is right under every policy") {
  for (const auto& [groups, stages] : {std::pair{1, 3}, {2, 2}, {2, 4}, {3, 3}, {3, 6}, {2, 6}})
    for (const Policy policy : kPolicies)
      for (std::uint64_t seed = 0; seed < 4; ++seed)
        for (const Copies copies : {Copies::thread, Copies::synchronised, Copies::shuffled, Copies::lanes}) {
          CAPTURE(groups);
          CAPTURE(stages);
          CAPTURE(static_cast<int>(copies));
          const Outcome o = run_ring(groups, stages, copies, policy, seed);
          CHECK(o.text() == "");
          for (std::uint32_t i = 0; i < 32 * kTiles; ++i)
            CHECK(o.out[i] == (copies == Copies::lanes ? 2 * i : i));
        }
}

TEST_CASE("lanes that wait for a slot and then do nothing may look a turn of the ring too late") {
  for (const Policy policy : kPolicies)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Outcome o = run_ring(2, 4, Copies::first_lane, policy, seed);
      CAPTURE(o.text());
      REQUIRE(o.report.findings.size() == 1);
      CHECK(o.report.findings[0].kind == "missed-phase");
      CHECK(o.report.findings[0].severity == Severity::error);
      CHECK(o.report.findings[0].site.warp == 0);
      for (std::uint32_t i = 0; i < 32 * kTiles; ++i) CHECK(o.out[i] == i);
    }
}

TEST_CASE("a ring whose slots change hands is found out by lazy completion, whatever the seed") {
  for (const auto& [groups, stages] : {std::pair{2, 3}, {2, 5}, {3, 2}, {3, 4}, {3, 5}})
    for (std::uint64_t seed = 0; seed < 16; ++seed)
      for (const Copies copies : {Copies::thread, Copies::lanes}) {
        CAPTURE(groups);
        CAPTURE(stages);
        CAPTURE(static_cast<int>(copies));
        CAPTURE(seed);
        CHECK(!run_ring(groups, stages, copies, Policy::lazy, seed).report.findings.empty());
      }
}
