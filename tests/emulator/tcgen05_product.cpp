// tcgen05.mma of every kind, layout and major against products in double, on the machine and under every policy.
#include <doctest/doctest.h>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

bool narrow(t5::Element e) {
  return e == t5::Element::e2m1 || e == t5::Element::e2m3 || e == t5::Element::e3m2;
}
/// Bits of an element's place in shared memory: narrow ones of the byte-wise kinds have a byte each.
int stored_bits(t5::Element e) {
  switch (e) {
    case t5::Element::f16:
    case t5::Element::bf16:
      return 16;
    case t5::Element::tf32:
      return 32;
    default:
      return 8;
  }
}

Placement placed(t5::Element e, int rows, bool mn, int swizzle, std::uint32_t start) {
  Placement p;
  p.element_bits = stored_bits(e);
  p.mn_major = mn;
  p.swizzle = swizzle;
  p.start = start;
  const auto r = static_cast<std::uint32_t>(rows);
  const std::uint32_t span = static_cast<std::uint32_t>(swizzle & ~1);
  if (!mn) {
    p.lbo = swizzle == 0 ? (r + 7) / 8 * 128 : 16;
    p.sbo = swizzle == 0 ? 128 : span * 8;
  } else if (swizzle == 0) {
    p.lbo = (r + 7) / 8 * 128 + 128;  // next 8 of K
    p.sbo = 128;                      // next 16 bytes of MN
  } else {
    p.sbo = span * (swizzle == 129 ? 4 : 8);  // next group of K
    p.lbo = p.sbo * 16;                       // next span of MN
  }
  return p;
}

/// One K step of an operand into the image; narrow types as 16 elements at the start of a 16-byte slot.
void lay_out(std::vector<std::uint8_t>& image, const Placement& p, t5::Element e, int rows, int k,
             std::mt19937& random, std::vector<double>& values) {
  const int width = e == t5::Element::e2m1 ? 4 : narrow(e) ? 6 : p.element_bits;
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < k; ++i) {
      double v = 0;
      const std::uint32_t bits = encoded(e, random, v);
      values.push_back(v);
      const auto row = static_cast<std::uint32_t>(r), at = static_cast<std::uint32_t>(i);
      if (narrow(e))
        put_bits(image, p.address(row, at / 16 * 16), static_cast<int>(at % 16) * width, width, bits);
      else
        put_bits(image, p.address(row, at), 0, width, bits);
    }
}

constexpr std::uint32_t kStepA = 32768, kStepB = 65536;

struct Made {
  std::string ptx;
  std::vector<std::uint32_t> input;
  std::vector<std::vector<double>> a, b;  ///< by step
};

/// Cells of every lane from `column` on, stored from registers that the kernel loads from behind the image.
std::string store_cells(int columns, std::size_t at, int column) {
  std::string s = "mad.lo.u32 %r20, %t, " + std::to_string(4 * columns) + ", " + std::to_string(at) +
                  "; cvt.u64.u32 %d3, %r20; add.u64 %d3, %d3, %in;\n";
  for (int c = 0; c < columns; ++c)
    s += "ld.global.u32 %r" + std::to_string(100 + c) + ", [%d3+" + std::to_string(4 * c) + "];\n";
  return s + "tcgen05.st.sync.aligned.32x32b.x" + std::to_string(columns) + ".b32 [%r10+" +
         std::to_string(column) + "], " + registers(100, columns) +
         ";\ntcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
         "tcgen05.fence::after_thread_sync;\n";
}

/// A sparse A: the stored elements, [row][k], become rows of all elements, and the metadata that say so go to `cells`,
/// two words a lane. Places by the layouts of CuTe, (row, element) to (lane, bit).
std::vector<double> sparsify(const Product& p, const std::vector<double>& stored, std::mt19937& random,
                             std::vector<std::uint32_t>& cells) {
  static constexpr std::uint32_t kPairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0x6, 0xe};
  const bool tf32 = p.kind == "tf32", spread = tf32 || p.kind == "f16";
  const int chunk = tf32 ? 2 : 4, chunks = 2 * p.k / chunk;
  std::vector<double> dense(stored.size() * 2, 0.0);
  for (int r = 0; r < p.m; ++r)
    for (int c = 0; c < chunks; ++c) {
      const std::uint32_t bits = tf32 ? (random() % 2 != 0 ? 0x4 : 0xe) : kPairs[random() % 7];
      const auto at = static_cast<std::size_t>(r * 2 * p.k + c * chunk),
                 from = static_cast<std::size_t>(r * p.k + c * chunk / 2);
      if (tf32) {
        dense[at + (bits == 0xe)] = stored[from];
      } else {
        dense[at + bits % 4] = stored[from];
        dense[at + bits / 4] = stored[from + 1];
      }
      const int half = c / (chunks / 2);
      for (int copy = 0; copy < (p.ws ? 128 / p.m : 1); ++copy) {
        int lane = p.m == 64 && !p.ws ? r / 16 * 32 + static_cast<int>(p.base_lane) + r % 16 : r + copy * p.m;
        int bit = 4 * c;
        if (spread) {
          bit = r / 8 % 2 * 16 + 4 * (c % (chunks / 2));
          lane += half * 8 - r % 16 + r % 8;
        }
        const auto word =
            static_cast<std::size_t>(2 * lane + (spread ? static_cast<int>(p.selector) : bit / 32));
        cells[word] |= bits << bit % 32;
      }
    }
  return dense;
}

Made make(const Product& p, unsigned seed) {
  Made made;
  std::mt19937 random(seed);
  const std::size_t image_bytes = static_cast<std::size_t>(p.steps) * (kStepA + kStepB);
  std::vector<std::uint8_t> image(image_bytes, 0);
  std::vector<std::uint32_t> cells;  // of A in tensor memory, [lane][column]
  const int per_cell = 32 / stored_bits(p.a), a_columns = p.k / per_cell * p.steps;
  std::vector<std::uint32_t> metadata(p.sparse ? 256 : 0, 0);
  if (p.ts) cells.assign(128 * static_cast<std::size_t>(a_columns), 0);
  std::string issue;
  for (int step = 0; step < p.steps; ++step) {
    const auto at = static_cast<std::uint32_t>(step) * (kStepA + kStepB);
    std::vector<double> a, b;
    Placement pa = placed(p.a, p.m, p.mn_a, p.swizzle_a, at),
              pb = placed(p.b, p.n, p.mn_b, p.swizzle_b, at + kStepA);
    if (!p.ts) {
      lay_out(image, pa, p.a, p.m, p.k, random, a);
    } else {
      for (int r = 0; r < p.m; ++r)
        for (int i = 0; i < p.k; ++i) {
          double v = 0;
          std::uint32_t bits = encoded(p.a, random, v);
          if (p.a == t5::Element::e2m1) bits <<= 2;
          a.push_back(v);
          for (int copy = 0; copy < (p.ws ? 128 / p.m : 1); ++copy) {
            const std::uint32_t lane =
                p.ws || p.m == 128 ? static_cast<std::uint32_t>(r + copy * p.m) : p.place(r, 0).first;
            cells[lane * static_cast<std::size_t>(a_columns) +
                  static_cast<std::size_t>((step * p.k + i) / per_cell)] |=
                bits << stored_bits(p.a) * (i % per_cell);
          }
        }
    }
    lay_out(image, pb, p.b, p.n, p.all_k(), random, b);
    if (p.sparse) a = sparsify(p, a, random, metadata);
    made.a.push_back(std::move(a));
    made.b.push_back(std::move(b));
    const auto descriptor = [&](const char* reg, std::uint32_t offset, const Placement& q) {
      return "add.u32 %r11, %r9, " + std::to_string(offset) +
             "; shr.u32 %r11, %r11, 4; and.b32 %r11, %r11, 0x3fff; cvt.u64.u32 " + reg + ", %r11; or.b64 " +
             reg + ", " + reg + ", " + hex(q.descriptor()) + ";\n";
    };
    issue += descriptor("%d5", at, pa) + descriptor("%d6", at + kStepA, pb);
    issue += "@%p5 tcgen05.mma" + std::string(p.ws ? ".ws" : "") + (p.sparse ? ".sp" : "") +
             ".cta_group::1.kind::" + p.kind + p.modifiers + " [%r12], " +
             (p.ts ? "[%r13+" + std::to_string(256 + step * p.k / per_cell) + "]" : "%d5") + ", %d6, " +
             (p.sparse ? "[%r13+320], " : "") + hex(p.instruction()) + p.mask + ", " +
             (step == 0 ? "0" : "1") + p.tail + ";\n";
  }
  std::string body = prologue(image_bytes);
  if (p.ts) body += store_cells(a_columns, image_bytes, 256);
  if (p.sparse) body += store_cells(2, image_bytes + 4 * cells.size(), 320);
  body += "add.u32 %r12, %tm, " + std::to_string(p.base_lane << 16) +
          "; mov.u32 %r13, %r12; @%p2 bra ISSUED; elect.sync _|%p5, 0xffffffff;\n" + issue +
          "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nISSUED:\n" +
          wait_phase(0, "WAIT") + "tcgen05.fence::after_thread_sync;\n";
  std::string guard;
  if (p.m == 64 && !p.ws) {
    body += "and.b32 %r14, %t, 16; setp.eq.u32 %p6, %r14, " + std::to_string(p.base_lane) + ";\n";
    guard = "@%p6 ";
  }
  for (int c = 0; c < p.columns(); c += 8) body += dump(c, 8, guard);
  made.ptx = blackwell(image_declarations(image_bytes), body + epilogue());
  made.input.resize(image_bytes / 4);
  std::memcpy(made.input.data(), image.data(), image_bytes);
  made.input.insert(made.input.end(), cells.begin(), cells.end());
  made.input.insert(made.input.end(), metadata.begin(), metadata.end());
  return made;
}

double cell(const Product& p, const Outcome& o, int row, int column) {
  const auto [lane, c] = p.place(row, column);
  const std::uint32_t word = o.out[lane * std::size_t{512} + c];
  if (p.d_code == 0) return f16_to_f32(static_cast<std::uint16_t>(word));
  return p.d_code == 2 ? static_cast<double>(static_cast<std::int32_t>(word)) : std::bit_cast<float>(word);
}

/// The bound: f32 sums of `terms` products, each rounded once; f16 rounds each step besides.
void check_product(const Product& p, unsigned seed = 1) {
  const Made made = make(p, seed);
  for (const Policy policy : kPolicies) {
    const Outcome o = run(
        made.ptx,
        {.block = {128, 1, 1}, .policy = policy, .seed = seed, .outputs = 128 * 512, .input = made.input});
    REQUIRE(o.text() == "");
    double worst = 0;
    for (int r = 0; r < p.m; ++r)
      for (int c = 0; c < p.n; ++c) {
        double want = 0, size = 0;
        for (int s = 0; s < p.steps; ++s)
          for (int k = 0; k < p.all_k(); ++k) {
            const double x =
                made.a[static_cast<std::size_t>(s)][static_cast<std::size_t>(r * p.all_k() + k)] *
                made.b[static_cast<std::size_t>(s)][static_cast<std::size_t>(c * p.all_k() + k)];
            want += x, size += std::abs(x);
          }
        if (p.negate_a != p.negate_b) want = -want;
        const double bound = p.d_code == 2   ? 0
                             : p.d_code == 0 ? size * p.steps * 0x1p-10
                                             : size * p.k * p.steps * 0x1p-24;
        worst = std::max(worst, std::abs(cell(p, o, r, c) - want) - bound);
      }
    INFO(p.kind << " M " << p.m << " N " << p.n << " policy " << static_cast<int>(policy));
    CHECK(worst <= 0);
  }
}

}  // namespace

TEST_CASE("tcgen05.mma kind::f16: shapes, majors, swizzles, A in tensor memory, negation") {
  check_product({});
  check_product({.m = 64, .n = 8});
  check_product({.m = 64, .n = 40, .base_lane = 16});
  check_product({.n = 256, .a = t5::Element::f16, .b = t5::Element::f16, .a_code = 0, .b_code = 0});
  check_product(
      {.n = 32, .a = t5::Element::f16, .b = t5::Element::f16, .a_code = 0, .b_code = 0, .d_code = 0});
  for (const int swizzle : {32, 64, 128}) {
    check_product({.swizzle_a = swizzle, .swizzle_b = swizzle});
    check_product({.mn_a = true, .mn_b = true, .swizzle_a = swizzle, .swizzle_b = swizzle});
  }
  check_product({.mn_a = true});
  check_product({.mn_b = true});
  check_product({.ts = true});
  check_product({.m = 64, .ts = true});
  check_product({.negate_a = true});
  check_product({.ts = true, .negate_a = true, .negate_b = true, .mn_b = true, .swizzle_b = 128});
}

TEST_CASE("tcgen05.mma of the other dense kinds") {
  using E = t5::Element;
  check_product({.kind = "tf32", .k = 8, .a = E::tf32, .b = E::tf32, .a_code = 2, .b_code = 2});
  check_product({.kind = "tf32",
                 .k = 8,
                 .a = E::tf32,
                 .b = E::tf32,
                 .a_code = 2,
                 .b_code = 2,
                 .mn_a = true,
                 .mn_b = true,
                 .swizzle_a = 129,
                 .swizzle_b = 129});
  check_product({.kind = "tf32", .k = 8, .a = E::tf32, .b = E::tf32, .a_code = 2, .b_code = 2, .ts = true});
  const std::pair<E, std::uint32_t> eight[] = {
      {E::e4m3, 0}, {E::e5m2, 1}, {E::e2m3, 3}, {E::e3m2, 4}, {E::e2m1, 5}};
  for (const auto& [a, code] : eight) {
    check_product({.kind = "f8f6f4", .k = 32, .a = a, .b = E::e4m3, .a_code = code, .b_code = 0});
    check_product({.kind = "f8f6f4",
                   .k = 32,
                   .a = E::e5m2,
                   .b = a,
                   .a_code = 1,
                   .b_code = code,
                   .swizzle_a = 128,
                   .swizzle_b = 64});
    check_product({.kind = "f8f6f4", .k = 32, .a = a, .b = E::e4m3, .a_code = code, .b_code = 0, .ts = true});
  }
  check_product(
      {.kind = "f8f6f4", .k = 32, .a = E::e4m3, .b = E::e4m3, .a_code = 0, .b_code = 0, .d_code = 0});
  check_product({.kind = "f8f6f4",
                 .k = 32,
                 .a = E::e4m3,
                 .b = E::e5m2,
                 .a_code = 0,
                 .b_code = 1,
                 .mn_a = true,
                 .mn_b = true,
                 .swizzle_a = 128,
                 .swizzle_b = 32});
  for (const bool sa : {false, true})
    for (const bool sb : {false, true})
      check_product({.kind = "i8",
                     .k = 32,
                     .a = sa ? E::s8 : E::u8,
                     .b = sb ? E::s8 : E::u8,
                     .a_code = sa,
                     .b_code = sb,
                     .d_code = 2});
  check_product({.kind = "i8",
                 .m = 64,
                 .n = 24,
                 .k = 32,
                 .a = E::s8,
                 .b = E::u8,
                 .a_code = 1,
                 .b_code = 0,
                 .d_code = 2,
                 .ts = true});
}

TEST_CASE("tcgen05.mma.ws: layouts E and G") {
  for (const int m : {32, 64, 128})
    for (const int n : {64, 128, 256}) {
      check_product({.m = m, .n = n, .ws = true});
      check_product({.m = m, .n = n, .ws = true, .ts = true});
    }
  using E = t5::Element;
  check_product({.kind = "i8",
                 .m = 32,
                 .n = 64,
                 .k = 32,
                 .a = E::s8,
                 .b = E::s8,
                 .a_code = 1,
                 .b_code = 1,
                 .d_code = 2,
                 .ws = true});
}

TEST_CASE("tcgen05.mma.sp: metadata of every dense kind, both columns, layouts D, E, F and G") {
  using E = t5::Element;
  // Metadata are those of all steps: one step each.
  for (const std::uint32_t selector : {0u, 1u}) {
    check_product({.steps = 1, .sparse = true, .selector = selector});
    check_product({.kind = "tf32",
                   .k = 8,
                   .steps = 1,
                   .a = E::tf32,
                   .b = E::tf32,
                   .a_code = 2,
                   .b_code = 2,
                   .sparse = true,
                   .selector = selector});
  }
  check_product({.steps = 1, .ts = true, .sparse = true});
  check_product({.steps = 1, .mn_a = true, .mn_b = true, .swizzle_a = 128, .swizzle_b = 64, .sparse = true});
  check_product({.steps = 1, .swizzle_a = 64, .swizzle_b = 128, .sparse = true});
  check_product({.m = 64, .n = 40, .steps = 1, .base_lane = 16, .sparse = true, .selector = 1});
  for (const int m : {32, 64, 128}) check_product({.m = m, .n = 64, .steps = 1, .ws = true, .sparse = true});
  check_product({.kind = "f8f6f4",
                 .k = 32,
                 .steps = 1,
                 .a = E::e2m3,
                 .b = E::e4m3,
                 .a_code = 3,
                 .b_code = 0,
                 .swizzle_b = 128,
                 .sparse = true});
  check_product({.kind = "i8",
                 .m = 64,
                 .n = 24,
                 .k = 32,
                 .steps = 1,
                 .a = E::s8,
                 .b = E::u8,
                 .a_code = 1,
                 .b_code = 0,
                 .d_code = 2,
                 .sparse = true});
}
