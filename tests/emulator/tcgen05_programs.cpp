// Programs around what one product does not show: block scales by tcgen05.cp, pairs of CTAs, gathered rows, cluster
// launch control.
#include <doctest/doctest.h>

#include <kiln/emulator/tensor_map.hpp>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

/// A product with block scales: A at 0, B at 8192, the scales' blocks of 512 bytes at 16384 and 16896.
struct Scaled {
  std::string kind = "mxf8f6f4", vector = "block32";
  int k = 32, factors = 1, id = 0;
  bool ue8m0 = true;
  t5::Element type = t5::Element::e4m3;
  bool sparse =
      false;  ///< `k` counts A's stored elements: the second and last of each four (or pairs of eight)
  int all_k() const { return sparse ? 2 * k : k; }
  /// The place among all elements of A's stored element `i`.
  int place(int i) const {
    if (!sparse) return i;
    return type == t5::Element::e2m1 ? i / 4 * 8 + (i % 4 < 2 ? 2 : 6) + i % 2
                                     : i / 2 * 4 + (i % 2 == 0 ? 1 : 3);
  }
};
constexpr int kRows = 128, kColumns = 64;
constexpr std::size_t kScaledImage = 18432;

Outcome run_scaled(const Scaled& s, std::vector<double>& want, Policy policy, bool wait_for_copy = true) {
  std::mt19937 random(5);
  std::vector<std::uint8_t> image(kScaledImage, 0);
  const int bits = s.type == t5::Element::e2m1 ? 4 : 8, per_chunk = 128 / bits;
  std::vector<double> values[2], scales[2];
  for (int side = 0; side < 2; ++side) {
    const int rows = side == 0 ? kRows : kColumns;
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < (side == 0 ? s.k : s.all_k()); ++k) {
        double v = 0;
        const std::uint32_t code = encoded(s.type, random, v);
        values[side].push_back(v);
        const int at = side * 8192 + r % 8 * 16 + r / 8 * 128 + k / per_chunk * 2048;
        put_bits(image, static_cast<std::uint32_t>(at), k % per_chunk * bits, bits, code);
      }
      for (int f = 0; f < s.factors; ++f) {
        const auto code = static_cast<std::uint8_t>(s.ue8m0 ? 120 + random() % 12 : 0x30 + random() % 0x18);
        scales[side].push_back(s.ue8m0 ? std::pow(2.0, code - 127) : e4m3_to_f32(code));
        image[static_cast<std::size_t>(16384 + 512 * side + r % 32 * 16 + r / 32 * 4 + s.id + f)] = code;
      }
    }
  }
  want.clear();
  const int block = s.all_k() / s.factors;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      double sum = 0;
      for (int k = 0; k < s.k; ++k)
        sum += values[0][static_cast<std::size_t>(r * s.k + k)] *
               scales[0][static_cast<std::size_t>(r * s.factors + s.place(k) / block)] *
               values[1][static_cast<std::size_t>(c * s.all_k() + s.place(k))] *
               scales[1][static_cast<std::size_t>(c * s.factors + s.place(k) / block)];
      want.push_back(sum);
    }
  const std::uint32_t type = s.type == t5::Element::e2m1 ? 1 : 0, id = static_cast<std::uint32_t>(s.id);
  const std::uint32_t instruction = static_cast<std::uint32_t>(s.sparse) << 2 | id << 4 | type << 7 |
                                    type << 10 | 8u << 17 | static_cast<std::uint32_t>(s.ue8m0) << 23 |
                                    8u << 24 | id << 29;
  const std::string body =
      prologue(kScaledImage) +
      "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d4, %r11; or.b64 %d5, %d4, 0x400800800000; add.u64 %d6, %d5, 512;\n"
      "or.b64 %d7, %d4, 0x400800000000; add.u64 %d7, %d7, 1024; add.u64 %d8, %d7, 32;\n" +
      (s.sparse ? "mov.u32 %r30, 0xdddddddd; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10+128], {%r30,%r30};\n"
                  "tcgen05.wait::st.sync.aligned; bar.sync 0;\n"
                : "") +
      "add.u32 %r12, %tm, 64; add.u32 %r13, %tm, 68; @%p2 bra ISSUED; elect.sync _|%p5, -1;\n"
      "@%p5 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r12], %d7;\n@%p5 tcgen05.cp.cta_group::1.warpx4.32x128b [%r13], %d8;\n"
      "@%p5 tcgen05.mma" +
      (s.sparse ? ".sp" : "") + ".cta_group::1.kind::" + s.kind + ".block_scale." + s.vector +
      " [%tm], %d5, %d6, " + (s.sparse ? "[%tm+128], " : "") + hex(instruction) + ", [%r12], [%r13], 0;\n" +
      (wait_for_copy ? std::string() : "@%p5 tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm], %d7;\n") +
      "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nISSUED:\n" +
      wait_phase(0, "WAIT");
  std::string dumps;
  for (int c = 0; c < kColumns; c += 16) dumps += dump(c, 16);
  std::vector<std::uint32_t> input(kScaledImage / 4);
  std::memcpy(input.data(), image.data(), kScaledImage);
  return run(blackwell(image_declarations(kScaledImage), body + dumps + epilogue()),
             {.block = {128, 1, 1}, .policy = policy, .outputs = 65536, .input = input});
}

/// A product of a pair: CTA r has its half of A's rows at 0 and its half of B's rows at 4096.
Outcome run_pair(
    int m, Policy policy, std::vector<double>& want,
    const std::string& before_end = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n",
    const std::pair<std::string, std::string>& edit = {}) {
  constexpr std::size_t kImage = 6144;
  std::mt19937 random(9);
  std::vector<std::uint8_t> image(2 * kImage, 0);
  std::vector<double> a, b;
  const auto fill = [&](std::vector<double>& values, int rows, std::uint32_t start) {
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < 16; ++k) {
        double v = 0;
        const std::uint32_t code = encoded(t5::Element::bf16, random, v);
        values.push_back(v);
        const int half = rows / 2, row = r % half;
        const std::size_t at =
            static_cast<std::size_t>(r / half) * kImage + start +
            static_cast<std::size_t>(row % 8 * 16 + row / 8 * 256 + k / 8 * 128 + k % 8 * 2);
        image[at] = static_cast<std::uint8_t>(code), image[at + 1] = static_cast<std::uint8_t>(code >> 8);
      }
  };
  fill(a, m, 0);
  fill(b, 64, 4096);
  want.clear();
  for (int r = 0; r < m; ++r)
    for (int c = 0; c < 64; ++c) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += a[static_cast<std::size_t>(r * 16 + k)] * b[static_cast<std::size_t>(c * 16 + k)];
      want.push_back(sum);
    }
  const std::uint32_t instruction = 0x490u | 8u << 17 | static_cast<std::uint32_t>(m / 16) << 24;
  const int columns = m == 256 ? 64 : 32;
  std::string body =
      "mov.u32 %r50, %cluster_ctarank; mul.wide.u32 %d20, %r50, 6144; add.u64 %in, %in, %d20;\n"
      "mul.wide.u32 %d21, %r50, 262144; add.u64 %out, %out, %d21;\n" +
      prologue(kImage) +
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "shr.u32 %r11, %r9, 4; and.b32 %r11, %r11, 0x3fff; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x401000080000; add.u64 %d6, %d5, 256;\n"
      "setp.ne.u32 %p7, %r50, 0; or.pred %p8, %p2, %p7; @%p8 bra ISSUED; elect.sync _|%p5, -1; mov.u16 %h1, 3;\n"
      "@%p5 tcgen05.mma.cta_group::2.kind::f16 [%tm], %d5, %d6, " +
      hex(instruction) +
      ", 0;\n"
      "@%p5 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r8], %h1;\nISSUED:\n" +
      wait_phase(0, "WAIT");
  for (int c = 0; c < columns; c += 16) body += dump(c, 16);
  body += before_end + epilogue();
  for (std::size_t at = 0; (at = body.find("cta_group::1", at)) != std::string::npos;) body[at + 11] = '2';
  if (!edit.first.empty()) {
    const std::size_t at = body.find(edit.first);
    REQUIRE(at != std::string::npos);
    body.replace(at, edit.first.size(), edit.second);
  }
  std::vector<std::uint32_t> input(image.size() / 4);
  std::memcpy(input.data(), image.data(), image.size());
  return run(blackwell(image_declarations(kImage), body), {.grid = {2, 1, 1},
                                                           .block = {128, 1, 1},
                                                           .cluster = {2, 1, 1},
                                                           .policy = policy,
                                                           .outputs = 131072,
                                                           .input = input});
}

}  // namespace

TEST_CASE("block scales: every kind, factors of a row, their byte in the cell, sparse A") {
  const Scaled forms[] = {
      {},
      {.id = 3},
      {.kind = "mxf4", .k = 64, .factors = 2, .type = t5::Element::e2m1},
      {.kind = "mxf4", .k = 64, .factors = 2, .id = 2, .type = t5::Element::e2m1},
      {.kind = "mxf4nvf4", .k = 64, .factors = 2, .type = t5::Element::e2m1},
      {.kind = "mxf4nvf4", .vector = "block16", .k = 64, .factors = 4, .type = t5::Element::e2m1},
      {.kind = "mxf4nvf4",
       .vector = "block16",
       .k = 64,
       .factors = 4,
       .ue8m0 = false,
       .type = t5::Element::e2m1},
      {.id = 1, .sparse = true},
      {.kind = "mxf4", .k = 64, .factors = 2, .id = 2, .type = t5::Element::e2m1, .sparse = true},
      {.kind = "mxf4nvf4",
       .vector = "block16",
       .k = 64,
       .factors = 4,
       .ue8m0 = false,
       .type = t5::Element::e2m1,
       .sparse = true}};
  for (const Scaled& s : forms)
    for (const Policy policy : kPolicies) {
      std::vector<double> want;
      const Outcome o = run_scaled(s, want, policy);
      INFO(s.kind << " " << s.factors << " id " << s.id);
      REQUIRE(o.text() == "");
      for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kColumns; ++c) {
          const double got = std::bit_cast<float>(o.out[static_cast<std::size_t>(r * 512 + c)]);
          const double expected = want[static_cast<std::size_t>(r * kColumns + c)];
          // Of 4-bit values every sum of a block is exact, and so is its scaling: only the sum over blocks rounds.
          REQUIRE(std::abs(got - expected) <= std::abs(expected) * (s.k == 64 ? 0x1p-22 : 0x1p-18) + 1e-6);
        }
    }
}

TEST_CASE("a copy over an accumulator that a product still writes is found") {
  for (const Policy policy : kPolicies) {
    std::vector<double> want;
    finds("tmem-race", run_scaled({}, want, policy, false));
  }
}

TEST_CASE("a product of a pair: layouts A and B, B split over the CTAs, commits to both") {
  for (const int m : {128, 256})
    for (const Policy policy : kPolicies) {
      std::vector<double> want;
      const Outcome o = run_pair(m, policy, want);
      INFO("M " << m);
      REQUIRE(o.text() == "");
      for (int r = 0; r < m; ++r)
        for (int c = 0; c < 64; ++c) {
          const int half = m / 2, lane = m == 256 ? r % half : r % half + 64 * (c / 32),
                    column = m == 256 ? c : c % 32;
          const double got =
              std::bit_cast<float>(o.out[static_cast<std::size_t>(r / half * 65536 + lane * 512 + column)]);
          REQUIRE(std::abs(got - want[static_cast<std::size_t>(r * 64 + c)]) <= 1e-4);
        }
    }
}

TEST_CASE("the CTAs of a pair allocate alike, and neither ends while the other needs it") {
  const std::string barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
  std::vector<double> want;
  for (const Policy policy : kPolicies) {
    // One asks for other columns than its peer.
    const Outcome sizes = run_pair(256, policy, want, barrier,
                                   {"[%r7], 512;",
                                    "[%r7], 512; setp.ne.u32 %p9, %r50, 0; @%p9 "
                                    "tcgen05.dealloc.cta_group::2.sync.aligned.b32 0, 512;"});
    CHECK((sizes.found("cta-pair") || sizes.found("tmem-alloc")));
    // CTA 1 has ended long before CTA 0 multiplies.
    finds("cta-pair", run_pair(256, policy, want, barrier,
                               {"shr.u32 %r11, %r9, 4; and.b32",
                                "setp.ne.u32 %p9, %r50, 0; @%p9 exit; mov.u32 %r52, 0;\n"
                                "SPIN: add.u32 %r52, %r52, 1; setp.lt.u32 %p9, %r52, 20000; @%p9 bra SPIN;\n"
                                "shr.u32 %r11, %r9, 4; and.b32"}));
  }
}

TEST_CASE("cluster launch control: every block's work is done once, and nobody asks after a refusal") {
  const std::string ask =
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;\n"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r2];\n";
  const auto program = [&](const std::string& more) {
    return blackwell(
        ".shared .align 16 .b8 answer[16];\n.shared .align 8 .b64 bar;\n",
        "mov.u32 %r2, bar; mov.u32 %r3, answer; mov.u32 %r4, %ctaid.x; mov.u32 %r5, 0;\n"
        "mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
        "LOOP: mul.wide.u32 %d1, %r4, 4; add.u64 %d1, %d1, %out; atom.global.add.u32 %r6, [%d1], 1;\n" +
            ask +
            "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r5; @!%p1 bra WAIT;\nxor.b32 %r5, %r5, 1;\n"
            "ld.shared.b128 %q1, [%r3]; fence.proxy.async.shared::cta;\n"
            "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;\n"
            "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r4,%r7,%r8,_}, %q1;\n@%p2 bra LOOP;\n" +
            more);
  };
  for (const Policy policy : kPolicies) {
    GlobalMemory memory;
    const Module module = Module::from_ptx(program(""));
    const std::uint64_t out = memory.allocate(64 * 4, "out");
    memory.fill(out, std::byte{0}, 256);
    Launch l;
    l.grid = {64, 1, 1};
    l.num_sms = 4;
    l.policy = policy;
    l.args = {bytes_of(out), bytes_of(out)};
    const Report report = launch(memory, module, l);
    CHECK(report.findings.empty());
    std::vector<std::uint32_t> counts(64);
    memory.read(out, std::as_writable_bytes(std::span(counts)));
    for (const std::uint32_t n : counts) CHECK(n == 1);
  }
  std::vector<std::uint32_t> zeros(1024, 0);
  const Outcome o =
      run(program(ask + "AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r5; @!%p1 bra AGAIN;"),
          {.grid = {4, 1, 1}, .block = {1, 1, 1}});
  finds("launch-control", o);
}

TEST_CASE("gather4 brings four rows as one tile") {
  const std::string ptx =
      ".version 9.0\n.target sm_100a\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 p_out)\n{\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
      ".shared .align 1024 .b8 s[512]; .shared .align 8 .b64 bar;\n"
      "mov.u32 %r1, s; mov.u32 %r2, bar; mov.u64 %d1, map; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0; @%p1 bra W;\n"
      "mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;\n"
      "mov.u32 %r4, 0; mov.u32 %r5, 7; mov.u32 %r6, 2; mov.u32 %r7, -1; mov.u32 %r8, 0;\n"
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%d1, {%r4,%r5,%r6,%r7,%r8}], [%r2];\n"
      "W: bar.sync 0;\nT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra T;\n"
      "ld.param.u64 %d2, [p_out]; mul.lo.u32 %r9, %r3, 4; add.u32 %r10, %r9, %r1; cvt.u64.u32 %d3, %r9; add.u64 %d2, %d2, %d3;\n"
      "ld.shared.u32 %r11, [%r10]; st.global.u32 [%d2], %r11;\nret;\n}\n";
  for (const Policy policy : kPolicies) {
    GlobalMemory memory;
    const Module module = Module::from_ptx(ptx);
    std::vector<std::uint32_t> rows(8 * 32);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
    const std::uint64_t in = memory.allocate(1024, "in"), out = memory.allocate(512, "out");
    memory.write(in, std::as_bytes(std::span(rows)));
    TensorMapRequest map;
    map.type = TensorType::u32, map.rank = 2, map.address = in;
    map.dims = {32, 8}, map.strides = {128}, map.box = {32, 1}, map.swizzle = Swizzle::b128;
    const TensorMapBytes bytes = encode_tensor_map(map);
    Launch l;
    l.block = {128, 1, 1};
    l.policy = policy;
    l.args = {{bytes.begin(), bytes.end()}, bytes_of(out)};
    CHECK(launch(memory, module, l).findings.empty());
    std::vector<std::uint32_t> got(128);
    memory.read(out, std::as_writable_bytes(std::span(got)));
    const int wanted[] = {7, 2, -1, 0};
    for (std::uint32_t r = 0; r < 4; ++r)
      for (std::uint32_t c = 0; c < 32; ++c)
        CHECK(got[r * 32 + (c ^ r % 8 * 4)] ==
              (wanted[r] < 0 ? 0 : static_cast<std::uint32_t>(wanted[r]) * 32 + c));
  }
}
