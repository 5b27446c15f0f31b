// .ashift of tcgen05.mma: the product of A as it is, then A's rows move down in tensor memory as by tcgen05.shift. And what
// the device says of fields of the zero-column mask that no hardware has.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "emulator/mutate/mutate.hpp"
#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

constexpr std::size_t kShiftImage = 2048;  // B: 32 rows of 32 bytes; and some room
constexpr int kShiftN = 32, kShiftRounds = 3, kShiftCells = 8;

struct Kind {
  std::string name;
  int k;
  t5::Element type;
  std::uint32_t code, d_code;
};
const Kind kKinds[] = {{"f16", 16, t5::Element::bf16, 1, 1},
                       {"tf32", 8, t5::Element::tf32, 2, 1},
                       {"f8f6f4", 32, t5::Element::e4m3, 0, 1},
                       {"i8", 32, t5::Element::s8, 1, 2}};

struct Matrices {
  std::vector<std::uint32_t> input;  ///< the image of B, then the cells of A, [lane][cell]
  std::vector<double> a, b;
};
Matrices matrices_of(const Kind& kind) {
  Matrices m;
  std::mt19937 random(3);
  std::vector<std::uint8_t> bytes(kShiftImage + 128 * kShiftCells * 4, 0);
  const int width = 256 / kind.k, per_chunk = 128 / width;
  for (int r = 0; r < 128; ++r)
    for (int i = 0; i < kind.k; ++i) {
      double v = 0;
      const std::uint32_t code = encoded(kind.type, random, v);
      m.a.push_back(v);
      put_bits(bytes, static_cast<std::uint32_t>(kShiftImage) + static_cast<std::uint32_t>(r) * 32, i * width,
               width, code);
    }
  for (int c = 0; c < kShiftN; ++c)
    for (int i = 0; i < kind.k; ++i) {
      double v = 0;
      const std::uint32_t code = encoded(kind.type, random, v);
      m.b.push_back(v);
      put_bits(bytes, static_cast<std::uint32_t>(c % 8 * 16 + c / 8 * 128 + i / per_chunk * 512),
               i % per_chunk * width, width, code);
    }
  m.input.resize(bytes.size() / 4);
  std::memcpy(m.input.data(), bytes.data(), bytes.size());
  return m;
}

/// A to column 64, `products`, and out go D and then A.
std::string shift_program(const std::string& products) {
  std::string body = prologue(kShiftImage) + "mad.lo.u32 %r20, %t, 32, " + std::to_string(kShiftImage) +
                     "; cvt.u64.u32 %d3, %r20; add.u64 %d3, %d3, %in;\n";
  for (int i = 0; i < kShiftCells; ++i)
    body += "ld.global.u32 %r" + std::to_string(100 + i) + ", [%d3+" + std::to_string(4 * i) + "];\n";
  body += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r10+64], " + registers(100, 8) +
          ";\ntcgen05.wait::st.sync.aligned;\nbar.sync 0;\n"
          "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d6, %r11; or.b64 %d6, %d6, 0x400800200000;\n"
          "@%p2 bra ISSUED; elect.sync _|%p5, -1;\n" +
          products +
          "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nISSUED:\n" +
          wait_phase(0, "WAIT") + dump(0, kShiftN) + dump(64, kShiftCells);
  return blackwell(image_declarations(kShiftImage), body + epilogue());
}
std::string product_of(const Kind& kind, const std::string& modifiers, const std::string& accumulate,
                       const std::string& d = "[%tm]") {
  return "@%p5 tcgen05.mma.cta_group::1.kind::" + kind.name + modifiers + " " + d + ", [%tm+64], %d6, " +
         hex(kind.d_code << 4 | kind.code << 7 | kind.code << 10 | std::uint32_t{kShiftN / 8} << 17 |
             8u << 24) +
         ", " + accumulate + ";\n";
}
Outcome run_program(const std::string& ptx, const Kind& kind, Policy policy) {
  return run(ptx,
             {.block = {128, 1, 1}, .policy = policy, .outputs = 65536, .input = matrices_of(kind).input});
}

/// The row whose values are in row r after `times` shifts.
int shifted(int r, int times) {
  return r / 32 * 32 + std::min(31, r % 32 + times);
}

}  // namespace

TEST_CASE("tcgen05.mma.ashift multiplies, then moves A's rows down in each quarter") {
  for (const Kind& kind : kKinds) {
    const Matrices m = matrices_of(kind);
    std::string products;
    for (int i = 0; i < kShiftRounds; ++i)
      products += product_of(kind, i == 1 ? ".collector::a::discard.ashift" : ".ashift", i == 0 ? "0" : "1");
    for (const Policy policy : kPolicies) {
      const Outcome o = run_program(shift_program(products), kind, policy);
      INFO(kind.name);
      REQUIRE(o.text() == "");
      for (int r = 0; r < 128; ++r) {
        for (int c = 0; c < kShiftN; ++c) {
          double want = 0, size = 0;
          for (int round = 0; round < kShiftRounds; ++round)
            for (int i = 0; i < kind.k; ++i) {
              const double x = m.a[static_cast<std::size_t>(shifted(r, round) * kind.k + i)] *
                               m.b[static_cast<std::size_t>(c * kind.k + i)];
              want += x, size += std::abs(x);
            }
          const std::uint32_t word = o.out[static_cast<std::size_t>(r * 512 + c)];
          const double got = kind.d_code == 2 ? static_cast<double>(static_cast<std::int32_t>(word))
                                              : static_cast<double>(std::bit_cast<float>(word));
          REQUIRE(std::abs(got - want) <= (kind.d_code == 2 ? 0 : size * kind.k * kShiftRounds * 0x1p-24));
        }
        for (int i = 0; i < kShiftCells; ++i)
          REQUIRE(o.out[static_cast<std::size_t>(r * 512 + 64 + i)] ==
                  m.input[kShiftImage / 4 +
                          static_cast<std::size_t>(shifted(r, kShiftRounds) * kShiftCells + i)]);
      }
    }
  }
}

TEST_CASE(
    "what .ashift moves is written: who reads it waits for a commit, other accumulators come in order only") {
  const Kind& kind = kKinds[0];
  const std::string shift = product_of(kind, ".ashift", "0");
  for (const Policy policy : kPolicies) {
    // A load of A, which a product without .ashift leaves alone.
    const std::string load =
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r30}, [%r10+64]; tcgen05.wait::ld.sync.aligned;\n";
    clean(run_program(shift_program(product_of(kind, "", "0") + load), kind, policy));
    finds("tmem-race", run_program(shift_program(shift + load), kind, policy));
    const Outcome other =
        run_program(shift_program(shift + product_of(kind, "", "0", "[%tm+128]")), kind, policy);
    finds("tmem-race", other);
    for (const Finding& f : other.report.findings) CHECK(f.severity == Severity::note);
    // tcgen05.shift and products are pipelined both ways.
    clean(run_program(shift_program(shift + "@%p5 tcgen05.shift.cta_group::1.down [%tm+64];\n" +
                                    product_of(kind, ".ashift", "1")),
                      kind, policy));
  }
}

TEST_CASE(".ashift has M 128, or 256 in a pair") {
  std::string ptx = shift_program(product_of(kKinds[0], ".ashift", "0"));
  const std::size_t at = ptx.find(", 0x8");
  REQUIRE(at != std::string::npos);
  ptx.replace(at, 5, ", 0x4");
  const Outcome o = run_program(ptx, kKinds[0], Policy::eager);
  finds("tcgen05-descriptor", o);
  CHECK(o.text().find("M (bits 24-28) = 64, must be 128 with .ashift") != std::string::npos);
}

TEST_CASE("zero-column masks that no hardware has, with the field's name") {
  const Kind& kind = kKinds[0];
  const auto says = [&](std::uint32_t m, std::uint32_t most_shift, std::uint64_t mask,
                        const std::string& text) {
    const std::uint32_t instruction = 0x490u | 8u << 17 | m / 16 << 24 | most_shift << 30;
    std::string ptx = shift_program("@%p5 tcgen05.mma.ws.cta_group::1.kind::f16 [%tm], [%tm+64], %d6, " +
                                    hex(instruction) + ", 0, " + hex(mask) + ";\n");
    const Outcome o = run_program(ptx, kind, Policy::eager);
    INFO(o.text());
    if (text.empty()) {
      CHECK(!o.found("tcgen05-descriptor"));
      return;
    }
    finds("tcgen05-descriptor", o);
    CHECK(o.text().find(text) != std::string::npos);
  };
  const std::uint64_t made = std::uint64_t{1} << 39 | std::uint64_t{2} << 40 | std::uint64_t{3} << 48;
  says(128, 0, made, "");
  says(128, 0, made | std::uint64_t{1} << 36, "bits 36-38 = 1");
  says(128, 0, made | std::uint64_t{2} << 62, "bits 62-63 = 2");
  says(128, 0, std::uint64_t{1} << 56, "column shift (bits 56-61) = 1, the maximum shift (bits 30-31)");
  says(128, 1, std::uint64_t{9} << 56, "says at most 8");
  says(32, 3, std::uint64_t{17} << 56, "at most 16 with M = 32");
  says(128, 3, std::uint64_t{33} << 56, "at most 32 with M = 128");
  says(128, 0, made | 4, "start count 0 (bits 0-7) = 4");
  says(64, 0, made | std::uint64_t{1} << 33 | 3u << 8, "start count 1 (bits 8-15) = 3");
  says(64, 0, made | 0xff0000u, "");  // of parts that M 64 does not have
}

TEST_CASE("mutants of .ashift, zero-column masks and tcgen05.shift") {
  const Kind& kind = kKinds[0];
  const std::pair<std::string, std::string> programs[] = {
      {product_of(kind, ".ashift", "0") + product_of(kind, "", "1"), "A not shifted"},
      {"@%p5 tcgen05.shift.cta_group::1.down [%tm+64];\n" + product_of(kind, "", "0"), "removed"},
      {"@%p5 tcgen05.mma.ws.cta_group::1.kind::f16 [%tm], [%tm+64], %d6, " +
           hex(0x490u | 8u << 17 | 8u << 24) + ", 0, 0x3028000000000;\n",
       "first span of the zero-column mask"}};
  for (const auto& [products, change] : programs) {
    const std::string right = shift_program(products);
    const Outcome want = run_program(right, kind, Policy::eager);
    REQUIRE(want.text() == "");
    std::set<std::string> changes;
    for (const Mutation& m : mutations(right)) {
      if (m.ptx_text.find("tcgen05.mma") == std::string::npos &&
          m.ptx_text.find("tcgen05.shift") == std::string::npos)
        continue;
      changes.insert(m.change);
      const std::string mutant = apply_mutation(right, m);
      const bool killed = std::any_of(std::begin(kPolicies), std::end(kPolicies), [&](Policy policy) {
        const Outcome o = run_program(mutant, kind, policy);
        return !o.text().empty() || o.out != want.out;
      });
      CHECK_MESSAGE(killed, m.change << ": " << m.ptx_text);
    }
    CHECK_MESSAGE(changes.count(change) == 1, change);
  }
}
