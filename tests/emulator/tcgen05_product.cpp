// tcgen05.mma of every kind, layout and major against products in double, on the machine and under every policy.
#include <doctest/doctest.h>

#include "tests/emulator/tcgen05_operands.hpp"

using namespace emulator_test;

namespace {

constexpr std::uint32_t kStepA = 32768, kStepB = 65536;

struct Made {
  std::string ptx;
  std::vector<std::uint32_t> input;
  std::vector<std::vector<double>> a, b;  ///< by step
};

Made made_of(const Product& p, unsigned seed) {
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
              pb = placed(p.b, p.n + p.shift, p.mn_b, p.swizzle_b, at + kStepA);
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
    lay_out(image, pb, p.b, p.n + p.shift, p.all_k(), random, b);
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
  const Made made = made_of(p, seed);
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
          for (int k = 0; k < p.all_k() && !(p.is_zero && p.is_zero(c)); ++k) {
            const double x =
                made.a[static_cast<std::size_t>(s)][static_cast<std::size_t>(r * p.all_k() + k)] *
                made.b[static_cast<std::size_t>(s)][static_cast<std::size_t>((c + p.shift) * p.all_k() + k)];
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

TEST_CASE("the zero-column mask: the masks of the ISA's examples, shifts, parts") {
  // Masks as the ISA prints them, lowest bit last; the period of 7 columns goes on.
  const auto mask = [](const std::vector<std::string>& parts, int n) {
    return [=](int column) {
      const int width = n / static_cast<int>(parts.size());
      const std::string& bits = parts[static_cast<std::size_t>(column / width)];
      const int at = column % width, length = static_cast<int>(bits.size());
      const int place = at < length ? at : length - 7 + (at - length) % 7;
      return bits[static_cast<std::size_t>(length - 1 - place)] == '1';
    };
  };
  const std::uint64_t spans = std::uint64_t{1} << 39 | std::uint64_t{2} << 40 | std::uint64_t{3} << 48;
  const auto with = [&](Product p, std::uint64_t bits, const std::vector<std::string>& parts) {
    p.ws = true, p.tail = ", " + hex(bits | static_cast<std::uint64_t>(p.shift) << 56);
    if (!parts.empty()) p.is_zero = mask(parts, p.n);
    check_product(p);
  };
  // Example 1: no mask, whatever the spans say.
  with({.m = 128, .n = 64}, std::uint64_t{4} << 40 | std::uint64_t{3} << 48, {});
  // Examples 2, 3 and 4.
  with({.m = 128, .n = 64}, spans, {"11100001110000"});
  with({.m = 64, .n = 128}, spans | std::uint64_t{1} << 32,
       {"111000011100001110000111", "000011100001110000"});
  with({.m = 32, .n = 128, .shift = 2, .most_shift = 2}, spans | std::uint64_t{3} << 32 | 0x01020100,
       {"00001110000111", "0000111000011", "111000011100", "1110000111000"});
  // The same with the other major of B, other types, sparse, and A in tensor memory.
  using E = t5::Element;
  with({.m = 64, .n = 64, .mn_b = true, .swizzle_b = 128, .shift = 5, .most_shift = 1},
       spans | std::uint64_t{1} << 32, {"111000011100001110000111", "000011100001110000"});
  with({.m = 128, .n = 64, .mn_b = true, .shift = 32, .most_shift = 3}, 0, {});
  with({.kind = "i8",
        .m = 32,
        .n = 64,
        .k = 32,
        .a = E::s8,
        .b = E::u8,
        .a_code = 1,
        .b_code = 0,
        .d_code = 2,
        .ts = true,
        .shift = 16,
        .most_shift = 2},
       spans, {"11100001110000", "11100001110000", "11100001110000", "11100001110000"});
  with({.kind = "f8f6f4",
        .m = 128,
        .n = 64,
        .k = 32,
        .a = E::e4m3,
        .b = E::e2m1,
        .a_code = 0,
        .b_code = 5,
        .shift = 1,
        .most_shift = 1},
       spans, {"11100001110000"});
  with({.m = 64, .n = 64, .steps = 1, .sparse = true, .shift = 3, .most_shift = 1}, spans,
       {"11100001110000", "11100001110000"});
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
