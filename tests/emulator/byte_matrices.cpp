// ldmatrix and stmatrix of sm_100a with elements of 8, 6 and 4 bits: which element each register byte has, by formulas of
// the matrix and not of the device's code, and that unwritten bytes stay unknown on their way.
#include <doctest/doctest.h>

#include "tests/emulator/tcgen05_support.hpp"

using namespace emulator_test;

namespace {

std::uint8_t byte_at(int offset) {
  return static_cast<std::uint8_t>(offset * 37 + offset / 256 * 11 + 5);
}

/// Fills 512 bytes of shared memory but those from `hole` on, runs `instruction` with the row of 16 bytes of each lane in
/// %r9, and stores %r1 to %r4.
Outcome run_rows(const std::string& instruction, Policy policy, int hole = 512) {
  std::vector<std::uint32_t> input(128);
  for (int i = 0; i < 512; ++i) input[i / 4] |= std::uint32_t{byte_at(i)} << i % 4 * 8;
  const std::string fill =
      "mov.u32 %r10, rows; shl.b32 %r11, %t, 4; add.u32 %r9, %r10, %r11; mul.wide.u32 %d1, %r11, 1;\n"
      "add.u64 %d1, %d1, %in; ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%d1]; setp.lt.u32 %p1, %r11, " +
      std::to_string(hole) + "; @%p1 st.shared.v4.u32 [%r9], {%r1,%r2,%r3,%r4}; bar.warp.sync -1;\n" +
      "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;\n";
  const std::string out =
      "mul.wide.u32 %d2, %t, 16; add.u64 %d2, %d2, %out; st.global.v4.u32 [%d2], {%r1,%r2,%r3,%r4};\n";
  return run(blackwell(".shared .align 16 .b8 rows[512];\n", fill + instruction + out),
             {.policy = policy, .outputs = 128, .input = input});
}

std::uint8_t result(const Outcome& o, int lane, int reg, int byte) {
  return static_cast<std::uint8_t>(o.out[static_cast<std::size_t>(4 * lane + reg)] >> 8 * byte);
}

/// Element `column` of a row of 16 elements of `bits`.
std::uint8_t element(int row, int column, int bits) {
  unsigned value = 0;
  for (int b = 0; b < bits; ++b) {
    const int at = column * bits + b;
    value |= (byte_at(16 * row + at / 8) >> at % 8 & 1u) << b;
  }
  return static_cast<std::uint8_t>(value);
}

struct Packed {
  const char* name;
  int bits;
};

}  // namespace

TEST_CASE("ldmatrix of 16 x 16 bytes, transposed: four rows of two columns a lane") {
  for (const Packed f : {Packed{"b8", 8}, Packed{"b8x16.b6x16_p32", 6}, Packed{"b8x16.b4x16_p64", 4}})
    for (const int matrices : {1, 2})
      for (const Policy p : kPolicies) {
        const std::string registers = matrices == 1 ? "{%r1,%r2}" : "{%r1,%r2,%r3,%r4}";
        const Outcome o = run_rows("ldmatrix.sync.aligned.m16n16.x" + std::to_string(matrices) +
                                       ".trans.shared." + f.name + " " + registers + ", [%r9];\n",
                                   p);
        CAPTURE(f.name);
        CHECK(o.text() == "");
        for (int lane = 0; lane < 32; ++lane)
          for (int reg = 0; reg < 2 * matrices; ++reg)
            for (int b = 0; b < 4; ++b) {
              const int row = 16 * (reg / 2) + lane % 4 * 4 + reg % 2 * 2 + b % 2;
              CHECK(result(o, lane, reg, b) == element(row, lane / 4 + b / 2 * 8, f.bits));
            }
      }
}

TEST_CASE("ldmatrix of 8 x 16 packed elements: four columns of a row a lane") {
  for (const Packed f : {Packed{"b6x16_p32", 6}, Packed{"b4x16_p64", 4}})
    for (const int matrices : {1, 2, 4}) {
      const std::string registers = matrices == 1   ? "{%r1}"
                                    : matrices == 2 ? "{%r1,%r2}"
                                                    : "{%r1,%r2,%r3,%r4}";
      const Outcome o = run_rows("ldmatrix.sync.aligned.m8n16.x" + std::to_string(matrices) +
                                     ".shared.b8x16." + f.name + " " + registers + ", [%r9];\n",
                                 Policy::lazy);
      CHECK(o.text() == "");
      for (int lane = 0; lane < 32; ++lane)
        for (int reg = 0; reg < matrices; ++reg)
          for (int b = 0; b < 4; ++b)
            CHECK(result(o, lane, reg, b) == element(8 * reg + lane / 4, lane % 4 * 4 + b, f.bits));
    }
}

TEST_CASE("stmatrix of 16 x 8 bytes, transposed: the fragment of an accumulator to rows of its columns") {
  for (const int count : {1, 2, 4}) {
    const std::string registers = count == 1 ? "{%r1}" : count == 2 ? "{%r1,%r2}" : "{%r1,%r2,%r3,%r4}";
    // Byte b of register r of lane l is l + 32 * b, with some bits turned by r; then every lane reads its row back.
    std::string make = "mul.lo.u32 %r20, %t, 0x01010101; add.u32 %r1, %r20, 0x60402000;\n";
    for (int r = 1; r < 4; ++r)
      make += "xor.b32 %r" + std::to_string(r + 1) + ", %r" + std::to_string(r) + ", 0x5b5b5b5b;\n";
    const Outcome o = run_rows(make + "bar.warp.sync -1; stmatrix.sync.aligned.m16n8.x" +
                                   std::to_string(count) + ".trans.shared.b8 [%r9], " + registers +
                                   "; bar.warp.sync -1; ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r9];\n",
                               Policy::random);
    CHECK(o.text() == "");
    for (int row = 0; row < 8 * count; ++row)
      for (int column = 0; column < 16; ++column) {
        const int lane = column % 8 * 4 + row % 8 / 2, b = row % 2 + column / 8 * 2, reg = row / 8;
        CHECK(result(o, row, column / 4, column % 4) ==
              static_cast<std::uint8_t>((lane + 32 * b) ^ (reg % 2 != 0 ? 0x5b : 0)));
      }
  }
}

TEST_CASE("what nobody wrote stays unknown through ldmatrix of bytes") {
  const std::string load = "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r1,%r2,%r3,%r4}, [%r9];\n";
  CHECK(run_rows(load, Policy::eager, 256).found("uninitialized-read"));
  CHECK(run_rows("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1,%r2}, [%r9];\n", Policy::eager, 256)
            .text() == "");
}
