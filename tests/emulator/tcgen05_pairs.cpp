// tcgen05.mma of a pair beyond f16 from shared memory: every dense kind, sparse A, A in tensor memory, lane masks, .ashift;
// layouts A, B and C, products in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "emulator/mutate/mutate.hpp"
#include "tests/emulator/tcgen05_operands.hpp"

using namespace emulator_test;

namespace {

constexpr int kPairN = 64, kPairRounds = 2;
constexpr std::uint32_t kB = 8192;         // A at 0
constexpr std::size_t kPairImage = 16384;  // of a CTA
constexpr std::size_t kPairCells = 128 * 8,
                      kMeta = 128 * 2;  // words behind the image: A and its metadata, by lane
constexpr std::size_t kInput = kPairImage / 4 + kPairCells + kMeta;

/// `p.m` is of the pair.
struct Pair {
  Product p;
  std::vector<double> a, b;
  std::vector<std::uint32_t> input;

  int rows() const { return p.m / 2; }
  /// The half of it that a CTA has.
  Product half() const {
    Product h = p;
    h.m = rows(), h.n = kPairN;
    return h;
  }
  bool folded() const { return p.m == 128 && !p.sparse; }  ///< layout B
  /// CTA, lane and column of D(row, column), by layouts A, B and C.
  std::array<int, 3> place(int row, int column) const {
    const int cta = row / rows(), r = row % rows();
    if (p.m == 256) return {cta, r, column};
    if (p.sparse) return {cta, r / 16 * 32 + r % 16, column};
    return {cta, r + 64 * (column / (kPairN / 2)), column % (kPairN / 2)};
  }
};

Pair pair_of(const Product& product, unsigned seed) {
  Pair made{product, {}, {}, std::vector<std::uint32_t>(2 * kInput, 0)};
  const Product& p = made.p;
  std::mt19937 random(seed);
  for (std::size_t cta = 0; cta < 2; ++cta) {
    std::vector<std::uint8_t> image(kPairImage, 0);
    std::vector<std::uint32_t> cells(kPairCells, 0), metadata(kMeta, 0);
    std::vector<double> a;
    const Product half = made.half();
    if (!p.ts) {
      lay_out(image, placed(p.a, half.m, false, 0, 0), p.a, half.m, p.k, random, a);
    } else {
      const int per_cell = 32 / stored_bits(p.a);
      for (int r = 0; r < half.m; ++r)
        for (int i = 0; i < p.k; ++i) {
          double v = 0;
          const std::uint32_t bits = encoded(p.a, random, v);
          a.push_back(v);
          for (int copy = 0; copy < (made.folded() ? 2 : 1); ++copy) {
            const int lane = made.folded() ? r + 64 * copy : made.place(r, 0)[1];
            cells[static_cast<std::size_t>(lane * 8 + i / per_cell)] |= bits
                                                                        << stored_bits(p.a) * (i % per_cell);
          }
        }
    }
    lay_out(image, placed(p.b, kPairN / 2, false, 0, kB), p.b, kPairN / 2, p.all_k(), random, made.b);
    if (p.sparse) a = sparsify(half, a, random, metadata);
    made.a.insert(made.a.end(), a.begin(), a.end());
    std::uint32_t* const to = made.input.data() + cta * kInput;
    std::memcpy(to, image.data(), kPairImage);
    std::copy(cells.begin(), cells.end(), to + kPairImage / 4);
    std::copy(metadata.begin(), metadata.end(), to + kPairImage / 4 + kPairCells);
  }
  return made;
}

/// `kRounds` products on one accumulator, the second with `mask`.
/// `before` is issued first; `operands` go between the descriptor of B and the predicate, in place of the usual ones.
std::string pair_program(const Pair& pair, const std::string& modifiers, const std::string& mask,
                         const std::string& before = {}, const std::string& operands = {}) {
  const Product& p = pair.p;
  const auto descriptor = [](const char* reg, const Placement& q) {
    return "add.u32 %r11, %r9, " + std::to_string(q.start) +
           "; shr.u32 %r11, %r11, 4; and.b32 %r11, %r11, 0x3fff; cvt.u64.u32 " + reg + ", %r11; or.b64 " +
           reg + ", " + reg + ", " + hex(q.descriptor()) + ";\n";
  };
  std::string body =
      "mov.u32 %r50, %cluster_ctarank; mul.wide.u32 %d20, %r50, " + std::to_string(kInput * 4) +
      "; add.u64 %in, %in, %d20;\nmul.wide.u32 %d21, %r50, 262144; add.u64 %out, %out, %d21;\n" +
      prologue(kPairImage);
  if (p.ts) body += store_cells(8, kPairImage, 256);
  if (p.sparse) body += store_cells(2, kPairImage + 4 * kPairCells, 320);
  body +=
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" +
      descriptor("%d5", placed(p.a, pair.rows(), false, 0, 0)) +
      descriptor("%d6", placed(p.b, kPairN / 2, false, 0, kB)) +
      "setp.ne.u32 %p7, %r50, 0; or.pred %p8, %p2, %p7; @%p8 bra ISSUED; elect.sync _|%p5, -1; mov.u16 %h1, 3;\n"
      "mov.u32 %r60, 0; mov.u32 %r61, 0x0000000f; mov.u32 %r62, 0xffffffff; mov.u32 %r63, 0x80000000;\n";
  body += before;
  Product whole = p;
  whole.n = kPairN;
  for (int i = 0; i < kPairRounds; ++i)
    body += "@%p5 tcgen05.mma" + std::string(p.sparse ? ".sp" : "") + ".cta_group::2.kind::" + p.kind +
            modifiers + " [%tm], " + (p.ts ? "[%tm+256]" : "%d5") + ", %d6, " +
            (p.sparse ? "[%tm+320], " : "") + (operands.empty() ? hex(whole.instruction()) : operands) +
            (i == 1 ? mask : "") + ", " + (i == 0 ? "0" : "1") + ";\n";
  body +=
      "@%p5 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r8], %h1;\n"
      "ISSUED:\n" +
      wait_phase(0, "WAIT");
  std::string guard;
  if (p.m == 128 && p.sparse) {
    body += "and.b32 %r14, %t, 16; setp.eq.u32 %p6, %r14, 0;\n";
    guard = "@%p6 ";
  }
  for (int c = 0; c < (pair.folded() ? kPairN / 2 : kPairN); c += 16) body += dump(c, 16, guard);
  body += "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" + epilogue();
  for (std::size_t at = 0; (at = body.find("cta_group::1", at)) != std::string::npos;) body[at + 11] = '2';
  return blackwell(image_declarations(kPairImage), body);
}

/// `masked`: lanes of a CTA that the second product leaves alone.
void check_pair(const Product& product, const std::string& modifiers = {}, const std::string& mask = {},
                const std::function<bool(int cta, int lane)>& masked = {}) {
  const Pair pair = pair_of(product, 11);
  const Product& p = pair.p;
  const bool shifts = modifiers.find("ashift") != std::string::npos;
  for (const Policy policy : kPolicies) {
    const Outcome o = run(pair_program(pair, modifiers, mask), {.grid = {2, 1, 1},
                                                                .block = {128, 1, 1},
                                                                .cluster = {2, 1, 1},
                                                                .policy = policy,
                                                                .outputs = 131072,
                                                                .input = pair.input});
    INFO(p.kind << " M " << p.m << " " << modifiers);
    REQUIRE(o.text() == "");
    for (int r = 0; r < p.m; ++r)
      for (int c = 0; c < kPairN; ++c) {
        const auto [cta, lane, column] = pair.place(r, c);
        double want = 0, size = 0;
        for (int round = 0; round < (masked && masked(cta, lane) ? 1 : kPairRounds); ++round) {
          // .ashift: row r + 1 of its 32 comes to row r; in layout B rows are lanes of both halves alike.
          const int row = shifts && round == 1 && r % 32 != 31 ? r + 1 : r;
          for (int k = 0; k < p.all_k(); ++k) {
            const double x = pair.a[static_cast<std::size_t>(row * p.all_k() + k)] *
                             pair.b[static_cast<std::size_t>(c * p.all_k() + k)];
            want += x, size += std::abs(x);
          }
        }
        const std::uint32_t word = o.out[static_cast<std::size_t>(cta * 65536 + lane * 512 + column)];
        const double got = p.d_code == 2 ? static_cast<double>(static_cast<std::int32_t>(word))
                                         : static_cast<double>(std::bit_cast<float>(word));
        REQUIRE(std::abs(got - want) <= (p.d_code == 2 ? 0 : size * p.all_k() * kPairRounds * 0x1p-24));
      }
  }
}

using E = t5::Element;
std::vector<Product> kinds() {
  return {{},
          {.kind = "tf32", .k = 8, .a = E::tf32, .b = E::tf32, .a_code = 2, .b_code = 2},
          {.kind = "f8f6f4", .k = 32, .a = E::e5m2, .b = E::e4m3, .a_code = 1, .b_code = 0},
          {.kind = "i8", .k = 32, .a = E::s8, .b = E::u8, .a_code = 1, .b_code = 0, .d_code = 2}};
}

}  // namespace

TEST_CASE("a pair multiplies every dense kind, A in shared and in tensor memory: layouts A and B") {
  for (Product p : kinds())
    for (const int m : {128, 256})
      for (const bool ts : {false, true}) {
        p.m = m, p.ts = ts;
        check_pair(p);
      }
}

TEST_CASE("a sparse A of a pair: layouts A and C, metadata in both columns") {
  for (Product p : kinds())
    for (const int m : {128, 256})
      for (const bool ts : {false, true}) {
        p.m = m, p.ts = ts, p.sparse = true;
        check_pair(p);
        if (p.kind != "f16" && p.kind != "tf32") continue;
        p.selector = 1;
        check_pair(p);
        p.selector = 0;
      }
}

TEST_CASE("lane masks of a pair: four words for each CTA, dense and sparse") {
  // CTA 0 without lanes 0 to 3 and 95, CTA 1 without lanes 32 to 63.
  const std::string mask = ", {%r61,%r60,%r63,%r60,%r60,%r62,%r60,%r60}";
  const auto masked = [](int cta, int lane) {
    return cta == 0 ? lane < 4 || lane == 95 : lane >= 32 && lane < 64;
  };
  for (Product p : kinds())
    for (const int m : {128, 256})
      for (const bool sparse : {false, true}) {
        p.m = m, p.sparse = sparse;
        check_pair(p, "", mask, masked);
        check_pair(p, "", ", {%r60,%r60,%r60,%r60,%r60,%r60,%r60,%r60}");
      }
}

TEST_CASE(".ashift of a pair moves the rows of both CTAs") {
  for (Product p : kinds())
    for (const int m : {128, 256}) {
      p.m = m, p.ts = true;
      check_pair(p, ".ashift");
    }
  Product sparse;
  sparse.ts = sparse.sparse = true, sparse.m = 128;
  const Pair pair = pair_of(sparse, 1);
  const Outcome o = run(pair_program(pair, ".ashift", ""), {.grid = {2, 1, 1},
                                                            .block = {128, 1, 1},
                                                            .cluster = {2, 1, 1},
                                                            .outputs = 131072,
                                                            .input = pair.input});
  finds("tcgen05-descriptor", o);
  CHECK(o.text().find("must be 256 with .ashift of a sparse pair") != std::string::npos);
}

TEST_CASE("mutants of sparse products of a pair with a lane mask") {
  for (Product p : kinds()) {
    if (p.kind == "tf32" || p.kind == "f8f6f4") continue;
    p.m = 256, p.sparse = true, p.ts = true;
    const Pair pair = pair_of(p, 11);
    const std::string right = pair_program(pair, "", ", {%r61,%r60,%r63,%r60,%r60,%r62,%r60,%r60}");
    const auto outcome = [&](const std::string& ptx, Policy policy) {
      return run(ptx, {.grid = {2, 1, 1},
                       .block = {128, 1, 1},
                       .cluster = {2, 1, 1},
                       .policy = policy,
                       .budget = 1u << 20,
                       .outputs = 131072,
                       .input = pair.input});
    };
    const Outcome want = outcome(right, Policy::eager);
    REQUIRE(want.text() == "");
    std::set<std::string> of_products;
    for (const Mutation& m : mutations(right)) {
      if (m.ptx_text.find("tcgen05.mma") == std::string::npos) continue;
      of_products.insert(m.change);
      const std::string mutant = apply_mutation(right, m);
      const bool killed = std::any_of(std::begin(kPolicies), std::end(kPolicies), [&](Policy policy) {
        const Outcome o = outcome(mutant, policy);
        return !o.text().empty() || o.out != want.out;
      });
      CHECK_MESSAGE(killed, m.change << ": " << m.ptx_text);
    }
    for (const char* change : {"metadata two columns on", "lane 0 of the mask flipped", "16 columns fewer",
                               "half the rows", "the other major of B", "stride of descriptor B 16 bytes on"})
      CHECK_MESSAGE(of_products.count(change) == 1, change);
    CHECK(of_products.count("the other column of metadata") == (p.kind == "f16" ? 1 : 0));
    CHECK(of_products.count("another type of A") == (p.kind == "i8" ? 1 : 0));
  }
}

TEST_CASE("block scales of a pair: factors of A from each CTA's own rows, of B of all columns in both") {
  constexpr std::uint32_t kScales =
      12288;  // of A, and 512 bytes on those of B, in blocks as tcgen05.cp takes them
  for (const bool sparse : {false, true}) {
    Product p{.kind = "mxf8f6f4", .m = 256, .k = 32, .a = E::e4m3, .b = E::e5m2, .a_code = 0, .b_code = 1};
    p.sparse = sparse;
    Pair pair = pair_of(p, 11);
    std::mt19937 random(5);
    std::vector<double> of_a, of_b;
    const auto factor = [&](std::vector<double>& values) {
      const auto code = static_cast<std::uint8_t>(120 + random() % 12);
      values.push_back(std::pow(2.0, code - 127));
      return code;
    };
    std::array<std::uint8_t*, 2> image;
    for (std::size_t cta = 0; cta < 2; ++cta) {
      image[cta] = reinterpret_cast<std::uint8_t*>(pair.input.data() + cta * kInput);
      for (int r = 0; r < 128; ++r) image[cta][kScales + r % 32 * 16 + r / 32 * 4 + 1] = factor(of_a);
    }
    for (int c = 0; c < kPairN; ++c)
      image[0][kScales + 512 + c % 32 * 16 + c / 32 * 4 + 2] =
          image[1][kScales + 512 + c % 32 * 16 + c / 32 * 4 + 2] = factor(of_b);
    const std::string before =
        "add.u32 %r11, %r9, " + std::to_string(kScales) +
        "; shr.u32 %r11, %r11, 4; and.b32 %r11, %r11, 0x3fff; cvt.u64.u32 %d7, %r11; or.b64 %d7, %d7, 0x400800000000;\n"
        "add.u64 %d8, %d7, 32; add.u32 %r70, %tm, 128; add.u32 %r71, %tm, 136;\n"
        "@%p5 tcgen05.cp.cta_group::2.32x128b.warpx4 [%r70], %d7;\n@%p5 tcgen05.cp.cta_group::2.32x128b.warpx4 [%r71], "
        "%d8;\n";
    // The second byte of A's cells, the third of B's.
    const std::uint32_t instruction = static_cast<std::uint32_t>(sparse) << 2 | 2u << 4 | 1u << 10 |
                                      std::uint32_t{kPairN / 8} << 17 | 1u << 23 | 16u << 24 | 1u << 29;
    const std::string ptx =
        pair_program(pair, ".block_scale.block32", "", before, hex(instruction) + ", [%r70], [%r71]");
    for (const Policy policy : kPolicies) {
      const Outcome o = run(ptx, {.grid = {2, 1, 1},
                                  .block = {128, 1, 1},
                                  .cluster = {2, 1, 1},
                                  .policy = policy,
                                  .outputs = 131072,
                                  .input = pair.input});
      REQUIRE(o.text() == "");
      for (int r = 0; r < p.m; ++r)
        for (int c = 0; c < kPairN; ++c) {
          double want = 0, size = 0;
          for (int k = 0; k < p.all_k(); ++k) {
            const double x = pair.a[static_cast<std::size_t>(r * p.all_k() + k)] *
                             pair.b[static_cast<std::size_t>(c * p.all_k() + k)];
            want += x, size += std::abs(x);
          }
          const double scale =
              of_a[static_cast<std::size_t>(r)] * of_b[static_cast<std::size_t>(c)] * kPairRounds;
          const auto [cta, lane, column] = pair.place(r, c);
          const double got =
              std::bit_cast<float>(o.out[static_cast<std::size_t>(cta * 65536 + lane * 512 + column)]);
          REQUIRE(std::abs(got - want * scale) <= size * scale * p.all_k() * 0x1p-23);
        }
    }
  }
}
