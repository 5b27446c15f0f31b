// Values of tcgen05 instructions around the product, by formulas of their own: which thread owns a cell, which row a copy
// brings where, what masks and scales leave of an accumulator. Also scatter4, redux of f32 and stochastic rounding.
#include <doctest/doctest.h>

#include <kiln/emulator/tensor_map.hpp>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

constexpr std::size_t kValuesImage = 8192;

/// Registers %rFIRST.. of a thread to out[thread * 64 + i].
std::string store_out(int first, int count) {
  std::string s = "mul.wide.u32 %d9, %t, 256; add.u64 %d9, %d9, %out;\n";
  for (int i = 0; i < count; ++i)
    s += "st.global.u32 [%d9+" + std::to_string(4 * i) + "], %r" + std::to_string(first + i) + ";\n";
  return s;
}

/// Cell (lane, column) of the first 32 columns := lane * 1000 + column.
std::string fill_cells() {
  std::string s = "mul.lo.u32 %r20, %t, 1000;\n";
  for (int c = 0; c < 32; ++c)
    s += "add.u32 %r" + std::to_string(200 + c) + ", %r20, " + std::to_string(c) + ";\n";
  return s + "tcgen05.st.sync.aligned.32x32b.x32.b32 [%r10], " + registers(200, 32) +
         ";\ntcgen05.wait::st.sync.aligned;\n";
}

Outcome run_body(const std::string& body, Policy policy, std::vector<std::uint32_t> input = {}) {
  if (input.empty()) input.assign(kValuesImage / 4, 0);
  return run(blackwell(image_declarations(kValuesImage), prologue(kValuesImage) + body + epilogue()),
             {.block = {128, 1, 1}, .policy = policy, .outputs = 128 * 64, .input = std::move(input)});
}

/// A shape by its owners: thread and register of (lane, column) in 32 columns.
struct Shape {
  const char* name;
  int lanes, columns, count;
  std::pair<int, int> (*owner)(int lane, int column);
  const char* split = "";
};
constexpr Shape kShapes[] = {
    {"32x32b", 32, 32, 32,
     [](int l, int c) {
       return std::pair{l, c};
     }},
    {"16x64b", 16, 32, 16,
     [](int l, int c) {
       return std::pair{l % 8 * 4 + c % 2 * 2 + l / 8, c / 2};
     }},
    // The accumulator fragments of mma.m16n8: rows g and g + 8, columns of a thread side by side.
    {"16x128b", 16, 32, 8,
     [](int l, int c) {
       return std::pair{l % 8 * 4 + c % 4, c / 4 * 2 + l / 8};
     }},
    {"16x256b", 16, 32, 4,
     [](int l, int c) {
       return std::pair{l % 8 * 4 + c % 8 / 2, c / 8 * 4 + l / 8 * 2 + c % 2};
     }},
    {"16x32bx2", 16, 32, 16,
     [](int l, int c) {
       return std::pair{l + c / 16 * 16, c % 16};
     },
     ", 16"}};

int registers_of(const Shape& s) {
  return s.lanes * s.columns / 32;
}

}  // namespace

TEST_CASE("tcgen05.ld: the thread and register that own each cell, in both halves of the lanes") {
  for (const Policy policy : kPolicies)
    for (const Shape& s : kShapes)
      for (const int base : {0, 16}) {
        if (base + s.lanes > 32) continue;
        const int n = registers_of(s);
        const Outcome o =
            run_body(fill_cells() + "tcgen05.ld.sync.aligned." + s.name + ".x" + std::to_string(s.count) +
                         ".b32 " + registers(100, n) + ", [%r10+" + std::to_string(base << 16) + "]" +
                         s.split + ";\ntcgen05.wait::ld.sync.aligned;\n" + store_out(100, n),
                     policy);
        INFO(s.name << " base " << base);
        REQUIRE(o.text() == "");
        for (int warp = 0; warp < 4; ++warp)
          for (int l = 0; l < s.lanes; ++l)
            for (int c = 0; c < s.columns; ++c) {
              const auto [thread, reg] = s.owner(l, c);
              REQUIRE(o.out[static_cast<std::size_t>((32 * warp + thread) * 64 + reg)] ==
                      static_cast<std::uint32_t>((32 * warp + base + l) * 1000 + c));
            }
      }
}

TEST_CASE("tcgen05.st: the cells that each thread and register become") {
  for (const Shape& s : kShapes) {
    const int n = registers_of(s);
    std::string body = fill_cells() + "mul.lo.u32 %r20, %t, 100;\n";
    for (int i = 0; i < n; ++i)
      body += "add.u32 %r" + std::to_string(100 + i) + ", %r20, " + std::to_string(i + 1000000) + ";\n";
    body += "tcgen05.st.sync.aligned." + std::string(s.name) + ".x" + std::to_string(s.count) +
            ".b32 [%r10]" + s.split + ", " + registers(100, n) + ";\ntcgen05.wait::st.sync.aligned;\n" +
            "tcgen05.ld.sync.aligned.32x32b.x32.b32 " + registers(100, 32) + ", [%r10];\n" +
            store_out(100, 32);
    const Outcome o = run_body(body, Policy::lazy);
    INFO(s.name);
    REQUIRE(o.text() == "");
    for (int warp = 0; warp < 4; ++warp)
      for (int l = 0; l < 32; ++l)
        for (int c = 0; c < 32; ++c) {
          const auto [thread, reg] = l < s.lanes ? s.owner(l, c) : std::pair{0, 0};
          const int want =
              l < s.lanes ? (32 * warp + thread) * 100 + reg + 1000000 : (32 * warp + l) * 1000 + c;
          REQUIRE(o.out[static_cast<std::size_t>((32 * warp + l) * 64 + c)] ==
                  static_cast<std::uint32_t>(want));
        }
  }
}

TEST_CASE("pack::16b joins the low halves of two columns, unpack::16b takes them apart") {
  const Outcome o = run_body(
      fill_cells() + "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 " + registers(100, 4) +
          ", [%r10+8];\ntcgen05.wait::ld.sync.aligned;\n"
          "tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r10+16], " +
          registers(100, 4) + ";\ntcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x8.b32 " +
          registers(104, 8) + ", [%r10+16];\n" + store_out(100, 12),
      Policy::lazy);
  REQUIRE(o.text() == "");
  for (std::uint32_t t = 0; t < 128; ++t)
    for (std::uint32_t r = 0; r < 4; ++r) {
      const std::uint32_t low = (t * 1000 + 8 + 2 * r) & 0xffff, high = (t * 1000 + 9 + 2 * r) & 0xffff;
      CHECK(o.out[t * 64 + r] == (low | high << 16));
      CHECK(o.out[t * 64 + 4 + 2 * r] == low);
      CHECK(o.out[t * 64 + 5 + 2 * r] == high);
    }
}

TEST_CASE("tcgen05.cp: the lanes that each row of shared memory reaches") {
  struct Copy {
    const char* shape;
    int rows, words;       ///< of the source
    int (*row)(int lane);  ///< that a lane receives; -1: none
  };
  const Copy copies[] = {{"128x256b", 128, 8, [](int l) { return l; }},
                         {"128x128b", 128, 4, [](int l) { return l; }},
                         {"64x128b.warpx2::02_13", 64, 4, [](int l) { return l % 64; }},
                         {"64x128b.warpx2::01_23", 64, 4, [](int l) { return l / 64 * 32 + l % 32; }},
                         {"32x128b.warpx4", 32, 4, [](int l) { return l % 32; }},
                         {"4x256b", 4, 8, [](int l) { return l % 32 == 31 ? l / 32 : -1; }}};
  for (const Policy policy : kPolicies)
    for (const Copy& c : copies) {
      // Core matrices of 8 rows of 16 bytes: the next 8 rows 128 bytes on, the second 16 bytes of a row 2048.
      std::vector<std::uint32_t> image(kValuesImage / 4, 0);
      for (int r = 0; r < c.rows; ++r)
        for (int w = 0; w < c.words; ++w)
          image[static_cast<std::size_t>(r % 8 * 4 + r / 8 * 32 + w / 4 * 512 + w % 4)] =
              static_cast<std::uint32_t>(r * 100 + w);
      const Outcome o = run_body(
          fill_cells() +
              "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
              "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x400800800000;\n"
              "@%p2 bra DONE; elect.sync _|%p5, -1; @%p5 tcgen05.cp.cta_group::1." +
              c.shape +
              " [%tm], %d5;\n@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nDONE:\n" +
              wait_phase(0, "WAIT") + "tcgen05.ld.sync.aligned.32x32b.x8.b32 " + registers(100, 8) +
              ", [%r10];\n" + store_out(100, 8),
          policy, image);
      INFO(c.shape);
      REQUIRE(o.text() == "");
      for (int l = 0; l < 128; ++l)
        for (int w = 0; w < 8; ++w) {
          const int row = w < c.words ? c.row(l) : -1;
          REQUIRE(o.out[static_cast<std::size_t>(l * 64 + w)] ==
                  static_cast<std::uint32_t>(row >= 0 ? row * 100 + w : l * 1000 + w));
        }
    }
}

TEST_CASE("tcgen05.shift moves lanes down within each quarter") {
  const Outcome o = run_body(
      fill_cells() +
          "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
          "@%p2 bra DONE; elect.sync _|%p5, -1; @%p5 tcgen05.shift.cta_group::1.down [%tm];\n"
          "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nDONE:\n" +
          wait_phase(0, "WAIT") + "tcgen05.ld.sync.aligned.32x32b.x16.b32 " + registers(100, 16) +
          ", [%r10];\n" + store_out(100, 16),
      Policy::lazy);
  REQUIRE(o.text() == "");
  for (std::uint32_t l = 0; l < 128; ++l)
    for (std::uint32_t c = 0; c < 16; ++c)
      CHECK(o.out[l * 64 + c] == (c < 8 && l % 32 != 31 ? l + 1 : l) * 1000 + c);
}

TEST_CASE("lane masks keep what was there, scale-input-d halves it, negated operands subtract") {
  // All elements 1: a product adds 16 to every cell.
  std::vector<std::uint32_t> ones(kValuesImage / 4, 0x3f803f80);
  const auto product = [](const std::string& idesc, const std::string& rest) {
    return "@%p5 tcgen05.mma.cta_group::1.kind::f16 [%tm], %d5, %d6, " + idesc + rest + ";\n";
  };
  for (const Policy policy : kPolicies) {
    const Outcome o = run_body(
        "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x400800800000; add.u64 %d6, %d5, 256;\n"
        "mov.u32 %r21, 0x0000000f; mov.u32 %r22, 0; mov.u32 %r23, 0x80000000; mov.u32 %r24, 0xffffffff;\n"
        "@%p2 bra DONE; elect.sync _|%p5, -1;\n" +
            product("0x8040490", ", 0") +                            // 16
            product("0x8040490", ", {%r21,%r22,%r23,%r24}, 1, 3") +  // 16 / 8 + 16 = 18 where not masked
            product("0x8042490", ", {%r22,%r22,%r22,%r22}, 1") +     // A negated: - 16
            product("0x8046490", ", {%r24,%r24,%r24,%r21}, 1") +     // both negated, lanes 100 on: + 16
            "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nDONE:\n" +
            wait_phase(0, "WAIT") + "tcgen05.ld.sync.aligned.32x32b.x8.b32 " + registers(100, 8) +
            ", [%r10];\n" + store_out(100, 8),
        policy, ones);
    REQUIRE(o.text() == "");
    for (std::uint32_t l = 0; l < 128; ++l) {
      const bool masked = l < 4 || l == 95 || l >= 96;
      const float want = (masked ? 16.0F : 18.0F) - 16.0F + (l >= 100 ? 16.0F : 0.0F);
      for (std::uint32_t c = 0; c < 8; ++c) CHECK(std::bit_cast<float>(o.out[l * 64 + c]) == want);
    }
  }
}

TEST_CASE("collectors keep the operand's values") {
  std::vector<std::uint32_t> ones(kValuesImage / 4, 0x3f803f80);
  const Outcome o = run_body(
      "shr.u32 %r11, %r9, 4; cvt.u64.u32 %d5, %r11; or.b64 %d5, %d5, 0x400800800000; add.u64 %d6, %d5, 256;\n"
      "add.u32 %r12, %tm, 32; @%p2 bra DONE; elect.sync _|%p5, -1;\n"
      "@%p5 tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%tm], %d5, %d6, 0x8040490, 0;\n"
      "@%p5 tcgen05.mma.cta_group::1.kind::f16.collector::a::use [%r12], %d5, %d6, 0x8040490, 0;\n"
      "@%p5 tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [%r12], %d5, %d6, 0x8040490, 1;\n"
      "@%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];\nDONE:\n" +
          wait_phase(0, "WAIT") +
          "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r100}, [%r10]; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r101}, [%r10+32];\n" +
          store_out(100, 2),
      Policy::random, ones);
  REQUIRE(o.text() == "");
  for (std::uint32_t l = 0; l < 128; ++l) {
    CHECK(std::bit_cast<float>(o.out[l * 64]) == 16.0F);
    CHECK(std::bit_cast<float>(o.out[l * 64 + 1]) == 32.0F);
  }
}

TEST_CASE("tcgen05.ld.red: the least and the largest of what a thread loads, beside the values") {
  // Columns 0 to 7 of each lane: -3.5 + lane, a NaN, -0, +0, 2, -(lane), the lane's bits as they are, -1e-40.
  const auto of = [](const std::string& form, int count, const std::string& tail, Policy policy) {
    std::string body =
        "cvt.rn.f32.u32 %f1, %t; add.f32 %f2, %f1, 0fC0600000; neg.f32 %f3, %f1;\n"
        "mov.b32 %r200, %f2; mov.b32 %r201, 0x7fc12345; mov.b32 %r202, 0x80000000; mov.b32 %r203, 0;\n"
        "mov.b32 %r204, 0x40000000; mov.b32 %r205, %f3; mov.b32 %r206, %t; mov.b32 %r207, 0x800116c2;\n"
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r10], " +
        registers(200, 8) + ";\ntcgen05.wait::st.sync.aligned;\n" + "tcgen05.ld.red.sync.aligned." + form +
        " " + registers(100, count) + ", %r140, [%r10]" + tail + ";\n";
    // The registers are read without a wait: the first read completes the load.
    body += store_out(100, count) + "mul.wide.u32 %d9, %t, 256; add.u64 %d9, %d9, %out;\n" +
            "st.global.u32 [%d9+200], %r140;\n";
    std::string text =
        blackwell(image_declarations(kValuesImage), prologue(kValuesImage) + body + epilogue());
    text.replace(text.find("sm_100a"), 7, "sm_103a");
    const Outcome o = run(text, {.block = {128, 1, 1},
                                 .policy = policy,
                                 .outputs = 128 * 64,
                                 .input = std::vector<std::uint32_t>(kValuesImage / 4, 0)});
    REQUIRE(o.text() == "");
    return o.out;
  };
  for (const Policy policy : kPolicies) {
    const auto at = [&](const char* form, int count, std::size_t thread, const std::string& tail = "") {
      return of(form, count, tail, policy)[thread * 64 + 50];
    };
    const auto value = [&](const char* form, int count, std::size_t thread) {
      return std::bit_cast<float>(at(form, count, thread));
    };
    CHECK(value("32x32b.x8.max.f32", 8, 40) == 36.5F);
    CHECK(value("32x32b.x8.min.f32", 8, 40) == -40.0F);
    CHECK(value("32x32b.x8.f32.max", 8, 1) == 2.0F);
    CHECK(value("32x32b.x8.max.abs.f32", 8, 40) == 40.0F);
    CHECK(at("32x32b.x8.min.abs.f32", 8, 40) == 0);
    CHECK(at("32x32b.x8.max.NaN.f32", 8, 40) == 0x7fffffff);
    CHECK(at("32x32b.x8.max.u32", 8, 40) == 0xc2200000);  // -40 has the largest bits
    CHECK(at("32x32b.x8.min.s32", 8, 40) == 0x80000000);
    CHECK(at("32x32b.x8.max.s32", 8, 40) == 0x7fc12345);
    CHECK(value("32x32b.x2.max.f32", 2, 40) == 36.5F);  // of the columns that are loaded alone
    // Threads 16 to 31 have their own half of the columns, of the same lanes.
    CHECK(std::bit_cast<float>(at("16x32bx2.x4.max.f32", 4, 8, ", 4")) == 4.5F);
    CHECK(std::bit_cast<float>(at("16x32bx2.x4.min.f32", 4, 24, ", 4")) == -8.0F);
    const auto out = of("32x32b.x8.max.f32", 8, "", policy);
    CHECK(std::bit_cast<float>(out[40 * 64]) == 36.5F);
    CHECK(out[40 * 64 + 1] == 0x7fc12345);
    CHECK(out[40 * 64 + 7] == 0x800116c2);
  }
}

TEST_CASE("tcgen05.ld.red of cells that nobody wrote is unknown") {
  const auto text = [](int columns) {
    std::string t = blackwell(
        image_declarations(kValuesImage),
        prologue(kValuesImage) +
            "mov.b32 %r200, 0x3f800000; mov.b32 %r201, 0x3f800000;\n"
            "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r10], {%r200, %r201};\ntcgen05.wait::st.sync.aligned;\n"
            "tcgen05.ld.red.sync.aligned.32x32b.x" +
            std::to_string(columns) + ".max.f32 " + registers(100, columns) +
            ", %r140, [%r10];\ntcgen05.wait::ld.sync.aligned;\n"
            "mul.wide.u32 %d9, %t, 256; add.u64 %d9, %d9, %out;\nst.global.u32 [%d9], %r140;\n" +
            "setp.eq.u32 %p6, %r140, 7; @%p6 st.global.u32 [%d9+4], %r140;\n" + epilogue());
    t.replace(t.find("sm_100a"), 7, "sm_103a");
    return run(t, {.block = {128, 1, 1},
                   .policy = Policy::eager,
                   .outputs = 128 * 64,
                   .input = std::vector<std::uint32_t>(kValuesImage / 4, 0)})
        .text();
  };
  CHECK(text(2) == "");
  CHECK(text(4).find("tmem-uninitialized") != std::string::npos);
}

TEST_CASE("scatter4 takes the rows of a tile to four rows") {
  const std::string ptx =
      ".version 9.0\n.target sm_100a\n.address_size 64\n"
      ".visible .entry k(.param .align 64 .b8 map[128])\n{\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
      ".shared .align 1024 .b8 s[512];\n"
      "mov.u32 %r1, s; mov.u64 %d1, map; mov.u32 %r3, %tid.x; mul.lo.u32 %r9, %r3, 4; add.u32 %r10, %r9, %r1;\n"
      "add.u32 %r11, %r3, 5000; st.shared.u32 [%r10], %r11; fence.proxy.async.shared::cta; bar.sync 0;\n"
      "setp.ne.u32 %p1, %r3, 0; @%p1 ret;\n"
      "mov.u32 %r4, 0; mov.u32 %r5, 6; mov.u32 %r6, 1; mov.u32 %r7, 3; mov.u32 %r8, 9;\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d1, {%r4,%r5,%r6,%r7,%r8}], [%r1];\n"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nret;\n}\n";
  for (const Policy policy : kPolicies) {
    GlobalMemory memory;
    const Module module = Module::from_ptx(ptx);
    const std::uint64_t out = memory.allocate(8 * 128, "out");
    memory.fill(out, std::byte{0}, 8 * 128);
    TensorMapRequest map;
    map.type = TensorType::u32, map.rank = 2, map.address = out;
    map.dims = {32, 8}, map.strides = {128}, map.box = {32, 1};
    const TensorMapBytes bytes = encode_tensor_map(map);
    Launch l;
    l.block = {128, 1, 1};
    l.policy = policy;
    l.args = {{bytes.begin(), bytes.end()}};
    CHECK(launch(memory, module, l).findings.empty());
    std::vector<std::uint32_t> got(256);
    memory.read(out, std::as_writable_bytes(std::span(got)));
    const int from[8] = {-1, 1, -1, 2, -1, -1, 0, -1};  // row 9 lies outside
    for (std::uint32_t r = 0; r < 8; ++r)
      for (std::uint32_t c = 0; c < 32; ++c)
        CHECK(got[r * 32 + c] == (from[r] < 0 ? 0 : 5000 + static_cast<std::uint32_t>(from[r]) * 32 + c));
  }
}

TEST_CASE("redux of f32: minima, maxima, magnitudes, NaN") {
  const auto of = [](const char* op, bool with_nan) {
    const Outcome o = run(
        blackwell(
            "", std::string("sub.s32 %r1, %t, 11; cvt.rn.f32.s32 %f1, %r1; mul.f32 %f1, %f1, 0f3F000000;\n") +
                    (with_nan ? "setp.eq.u32 %p1, %t, 7; @%p1 mov.b32 %f1, 0x7fc00000;\n" : "") +
                    "redux.sync." + op +
                    ".f32 %f2, %f1, -1; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;\n" +
                    "st.global.f32 [%d1], %f2;"),
        {.outputs = 32});
    CHECK(o.text() == "");
    for (std::size_t l = 1; l < 32; ++l) CHECK(o.out[l] == o.out[0]);
    return std::bit_cast<float>(o.out[0]);
  };
  // Values -5.5, -5, ..., 10; with NaN lane 7 (-2) is one.
  CHECK(of("min", false) == -5.5F);
  CHECK(of("max", false) == 10.0F);
  CHECK(of("min.abs", false) == 0.0F);
  CHECK(of("max.abs", false) == 10.0F);
  CHECK(of("max", true) == 10.0F);
  CHECK(std::isnan(of("max.NaN", true)));
  CHECK(std::isnan(of("min.abs.NaN", true)));
}

TEST_CASE("cvt.rs gives one of the two neighbours, the upper one as often as the value is near it") {
  // 1 + 3/4 of the distance of bf16 (2^-7) above 1: of all 65536 sums of 16 random bits three quarters carry.
  const float x = 1.0F + 0.75F * 0x1p-7F;
  std::string body = "mul.wide.u32 %d1, %t, 256; add.u64 %d1, %d1, %out; mov.u32 %r1, %t;\n";
  for (int i = 0; i < 64; ++i)
    body +=
        "mad.lo.u32 %r1, %r1, 1664525, 1013904223; shr.u32 %r2, %r1, 8; xor.b32 %r2, %r2, %r1;\n"
        "cvt.rs.satfinite.bf16x2.f32 %r3, %f1, %f1, %r2; st.global.u32 [%d1+" +
        std::to_string(4 * i) + "], %r3;\n";
  const Outcome o = run(blackwell("", "mov.b32 %f1, " + hex(std::bit_cast<std::uint32_t>(x)) + ";\n" + body),
                        {.outputs = 2048});
  REQUIRE(o.text() == "");
  int up = 0;
  for (const std::uint32_t word : o.out)
    for (const std::uint32_t half : {word & 0xffff, word >> 16}) {
      CHECK((half == 0x3f80 || half == 0x3f81));
      up += half == 0x3f81 ? 1 : 0;
    }
  CHECK(up > 4096 * 70 / 100);
  CHECK(up < 4096 * 80 / 100);
}
