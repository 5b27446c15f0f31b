// What the emulated device says of faulty use of tensor memory and the tensor pipe: a right program, and the same with
// one thing taken away or changed.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

constexpr std::size_t kFindingsImage =
    12288;  // A at 0, B at 4096, rows of 32 bytes without swizzle; and some room

/// Descriptors of A and B in %d5 and %d6.
const std::string kDescriptors =
    "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x400800800000; add.u64 %d6, %d5, 256;\n";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

/// Two products on one accumulator, the second after the first was read and rescaled: every hand-over there is.
std::string chain() {
  const std::string product = "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8100490, ";
  const std::string commit =
      "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];";
  return blackwell(
      image_declarations(kFindingsImage),
      prologue(kFindingsImage) + kDescriptors + "@%p2 bra FIRST; elect.sync _|%p5, -1;\n" + product +
          "0; // first\n" + commit + " // commit 1\nFIRST:\n" + wait_phase(0, "W1") +
          "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r100,%r101}, [%r10];\ntcgen05.wait::ld.sync.aligned;\n"
          "add.u32 %r100, %r100, 0; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r100,%r101};\n"
          "tcgen05.wait::st.sync.aligned;\nbar.sync 0; // hand over\n"
          "@%p2 bra SECOND;\n" +
          product + "1; // second\n" + commit + " // commit 2\nSECOND:\n" + wait_phase(1, "W2") +
          dump(0, 16) + epilogue());
}

/// Values that are all finite, whatever their type.
std::vector<std::uint32_t> ones() {
  return std::vector<std::uint32_t>(kFindingsImage / 4, 0x3f803f80);
}
Outcome run_block(const std::string& ptx, Policy policy = Policy::eager, Dim3 cluster = {}) {
  return run(ptx, {.grid = cluster,
                   .block = {128, 1, 1},
                   .cluster = cluster,
                   .policy = policy,
                   .outputs = 65536,
                   .input = ones()});
}
/// Found one way or another: who comes first meets a race, freed columns or a phase that has passed.
void unclean_everywhere(const std::string& ptx) {
  for (const Policy p : kPolicies) CHECK(run_block(ptx, p).text() != "");
}
void finds_everywhere(const std::string& kind, const std::string& ptx) {
  for (const Policy p : kPolicies) finds(kind, run_block(ptx, p));
}

}  // namespace

TEST_CASE("a chain of products with its hand-overs is clean and right under every policy") {
  for (const Policy p : kPolicies)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Outcome o =
          run(chain(), {.block = {128, 1, 1}, .policy = p, .seed = seed, .outputs = 65536, .input = ones()});
      CHECK(o.text() == "");
      for (std::size_t lane = 0; lane < 128; ++lane)
        for (std::size_t c = 0; c < 16; ++c)
          REQUIRE(o.out[lane * 512 + c] == std::bit_cast<std::uint32_t>(32.0F));
    }
}

TEST_CASE("every hand-over of the chain that is missing is found") {
  const std::string right = chain();
  // The accumulator is read before its product is known to be done.
  finds_everywhere("tmem-race", replaced(right, wait_phase(0, "W1"), "W1:\n"));
  finds_everywhere("tmem-race", replaced(right, wait_phase(1, "W2"), "W2:\n"));
  // The second product begins while the first result is still read, or before it is written back.
  unclean_everywhere(replaced(right, "bar.sync 0; // hand over", ""));
  finds_everywhere("tmem-race", replaced(right, "tcgen05.wait::st.sync.aligned;\nbar.sync 0; // hand",
                                         "bar.sync 0; // hand"));
  // A commit of another thread covers nothing, and without one the wait never ends.
  finds_everywhere(
      "deadlock",
      replaced(
          right,
          "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8]; // commit 1",
          ""));
  finds_everywhere(
      "tmem-race",
      replaced(
          right,
          "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8]; // commit 1",
          "setp.eq.u32 %p7, %t, 5; @%p7 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];"));
}

TEST_CASE("a load is complete when one of its registers is used") {
  const std::string right = chain();
  const std::string wait = "tcgen05.wait::ld.sync.aligned;\nadd.u32 %r100, %r100, 0;";
  for (const Policy p : kPolicies) {
    const Outcome o = run_block(replaced(right, wait, "add.u32 %r100, %r100, 0;"), p);
    CHECK(o.text() == "");
    CHECK(o.out[0] == std::bit_cast<std::uint32_t>(32.0F));
  }
  // Not used before the columns are written again: the load may still be reading.
  finds_everywhere(
      "tmem-race",
      replaced(right, wait + " tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r100,%r101};",
               "mov.u32 %r102, 0; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r102,%r102};"));
}

TEST_CASE("shared memory of a product: written through the generic proxy, or written again too early") {
  const std::string right = chain();
  finds_everywhere("missing-proxy-fence", replaced(right, "fence.proxy.async.shared::cta;", ""));
  finds_everywhere("async-memory", replaced(right, "FIRST:\n", "FIRST: st.shared.u32 [%r9+64], 0;\n"));
}

TEST_CASE("cells nobody wrote, and columns nobody allocated") {
  const std::string right = chain();
  finds_everywhere("tmem-uninitialized", replaced(right, "0; // first", "1;"));
  finds_everywhere("tmem-uninitialized", replaced(right, dump(0, 16), dump(64, 16)));
  const std::string small = replaced(replaced(right, "[%r7], 512", "[%r7], 64"), "%tm, 512", "%tm, 64");
  clean(run_block(small));
  finds("tmem-access", run_block(replaced(small, dump(0, 16), dump(64, 16))));
  finds("tmem-access", run_block(replaced(small, "0x8100490", "0x8200490")));  // N = 128
}

TEST_CASE("a warp reaches the lanes of its quarter") {
  const std::string right = chain();
  const Outcome o = run_block(replaced(right, "shl.b32 %r10, %w, 21;", "mov.u32 %r10, 0;"));
  finds("tmem-access", o);
  finds("tmem-access", run_block(replaced(right, "shl.b32 %r10, %w, 21;",
                                          "shl.b32 %r10, %w, 21; add.u32 %r10, %r10, 1048576;")));
}

TEST_CASE("allocations: sizes, order, leaks, what is freed and when") {
  const std::string right = chain();
  finds("tmem-leak", run_block(replaced(right, "@!%p2 tcgen05.dealloc", "@%p31 tcgen05.dealloc")));
  finds("tmem-alloc", run_block(replaced(right, "%tm, 512;\n", "%tm, 256;\n")));
  unclean_everywhere(replaced(right, "bar.sync 0; @!%p2 tcgen05.dealloc", "@!%p2 tcgen05.dealloc"));
  const std::string twice = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n";
  const std::string again = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], ";
  finds("tmem-alloc",
        run_block(replaced(replaced(right, "[%r7], 512;", "[%r7], 32;"), twice, again + "64;\n" + twice)));
  finds("tmem-alloc",
        run_block(replaced(replaced(right, "[%r7], 512;", "[%r7], 64;"), twice, twice + again + "32;\n")));
  finds("deadlock", run_block(replaced(right, twice, again + "512;\n" + twice)));
  const std::string sized =
      replaced(right, "@!%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 512",
               "mov.u32 %r20, 48; @!%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, %r20");
  finds("tmem-alloc", run_block(sized));
}

TEST_CASE("descriptors that no hardware has, with the field's name") {
  const auto says = [&](const std::string& instruction, const std::string& field) {
    const Outcome o = run_block(replaced(chain(), "0x8100490", instruction));
    finds("tcgen05-descriptor", o);
    INFO(o.text());
    CHECK(o.text().find(field) != std::string::npos);
  };
  says("0x8100491", "sparsity selector");
  says("0x8100494", "sparsity (bit 2)");
  says("0x8100498", "saturate");
  says("0x81004a0", "dtype");
  says("0x81004d0", "bit 6");
  says("0x8100590", "atype");
  says("0x8100890", "btype");
  says("0x8100090", "btype");
  says("0x8900490", "bit 23");
  says("0x28100490", "bit 29");
  says("0x48100490", "maximum shift");
  says("0x8000490", "N (bits 17-22)");
  says("0x8120490", "N (bits 17-22)");
  says("0x6100490", "M (bits 24-28)");
  const auto matrix = [&](const std::string& bits, const std::string& field) {
    const Outcome o = run_block(replaced(chain(), "0x400800800000", bits));
    finds("tcgen05-descriptor", o);
    INFO(o.text());
    CHECK(o.text().find(field) != std::string::npos);
  };
  matrix("0x800800000", "bits 46-48");
  matrix("0x6000400800800000", "swizzle");
  matrix("0x10400800800000", "bit 52");
  matrix("0x20400800800000", "bits 53-60");
  matrix("0x400880800000", "bits 14-15 and 30-31");
  matrix("0x2000400800800000", "32B atoms");
}

TEST_CASE("a collector that holds something else") {
  const std::string use = replaced(chain(), "tcgen05.mma.cta_group::1.kind::f16",
                                   "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill");
  const std::string other = "tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, 0x8100490, 1";
  const std::string used = replaced(
      use, other, "tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [%tm], %d5, %d6, 0x8100490, 1");
  clean(run_block(used));
  finds("stale-collector", run_block(replaced(used, "collector::a::fill", "collector::a::discard")));
  finds("stale-collector", run_block(replaced(used, "lastuse [%tm], %d5", "lastuse [%tm], %d6")));
}

TEST_CASE("findings name both parties by their lines") {
  const std::string right = chain();
  const auto line_of = [](const std::string& ptx, const std::string& text) {
    const std::size_t at = ptx.find(text);
    REQUIRE(at != std::string::npos);
    return static_cast<int>(std::count(ptx.begin(), ptx.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + 1;
  };
  const auto parties = [&](const std::string& kind, const std::string& ptx, const std::string& one,
                           const std::string& other) {
    for (const Policy policy : kPolicies) {
      const Outcome o = run_block(ptx, policy);
      bool named = false;
      for (const Finding& f : o.report.findings)
        if (f.kind == kind && f.has_other) {
          const int a = f.site.ptx_line, b = f.other.ptx_line, x = line_of(ptx, one), y = line_of(ptx, other);
          named = named || (a == x && b == y) || (a == y && b == x);
        }
      INFO(kind << ": " << o.text());
      CHECK(named);
    }
  };
  // A load beside the product that writes its cells; a product beside the store that writes its accumulator.
  parties("tmem-race", replaced(right, wait_phase(0, "W1"), "W1:\n"), "0; // first",
          "tcgen05.ld.sync.aligned.32x32b.x2");
  parties("tmem-race",
          replaced(right, "tcgen05.wait::st.sync.aligned;\nbar.sync 0; // hand", "bar.sync 0; // hand"),
          "1; // second", "tcgen05.st.sync.aligned.32x32b.x2");
  // A buffer that holds another matrix, and who filled it.
  std::string collector = right;
  for (const auto& [what, use] : {std::pair{"0; // first", "fill"}, std::pair{"1; // second", "lastuse"}}) {
    const std::size_t end = collector.find(what), at = collector.rfind("kind::f16", end);
    collector.insert(at + 9, std::string(".collector::a::") + use);
  }
  parties("stale-collector", replaced(collector, "lastuse [%tm], %d5", "lastuse [%tm], %d6"), "0; // first",
          "1; // second");
  // A write through the generic proxy, and the product that reads it.
  parties("missing-proxy-fence", replaced(right, "fence.proxy.async.shared::cta;", ""), "st.shared.v4.u32",
          "0; // first");
}

TEST_CASE("columns are freed too early") {
  const std::string free = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 512;\n";
  // Right behind the issue of a product that nobody has waited for.
  const Outcome o =
      run_block(replaced(chain(), "// commit 1\n", "// commit 1\nbar.warp.sync -1; " + free), Policy::lazy);
  finds("tmem-alloc", o);
}

TEST_CASE("metadata of a sparse A that mean nothing, and their selector") {
  std::string sparse = chain();
  for (std::size_t at = 0; (at = sparse.find("tcgen05.mma.cta", at)) != std::string::npos;)
    sparse.insert(at + 11, ".sp");
  for (std::size_t at = 0; (at = sparse.find("%d6, 0x8100490", at)) != std::string::npos;)
    sparse.replace(at, 14, "%d6, [%tm+128], 0x8040494");
  // 0x44444444 keeps elements 0 and 1 of four.
  const auto with = [&](const std::string& bits) {
    return replaced(sparse, "@%p2 bra FIRST;",
                    "mov.u32 %r30, " + bits +
                        "; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10+128], {%r30,%r30};\n"
                        "tcgen05.wait::st.sync.aligned; bar.sync 0;\n@%p2 bra FIRST;");
  };
  for (const Policy p : kPolicies) clean(run_block(with("0x44444444"), p));
  finds_everywhere("bad-metadata", with("0x44444440"));
  finds_everywhere("bad-metadata", with("0x4444f444"));
  finds("tcgen05-descriptor",
        run_block(replaced(with("0x44444444"), "0x8040494", "0x8040496")));  // selector 2
  finds("tcgen05-descriptor", run_block(replaced(with("0x44444444"), "0x8040494", "0x8040490")));  // dense
  finds("tmem-access", run_block(replaced(with("0x44444444"), "[%tm+128], 0x", "[%tm+129], 0x")));
  finds_everywhere("tmem-uninitialized", replaced(with("0x44444444"), "[%tm+128], 0x", "[%tm+192], 0x"));
}

TEST_CASE("a product of a pair needs a pair") {
  std::string pair = chain();
  for (std::size_t at = 0; (at = pair.find("cta_group::1", at)) != std::string::npos;) pair[at + 11] = '2';
  finds("cta-pair", run_block(pair));
}
