// Programs of sm_100a around one product: the host lays A and B out in an image of shared memory, the kernel copies it
// there, multiplies, and stores the accumulator as the lanes of tensor memory hold it.
#pragma once

#include <cmath>
#include <functional>
#include <random>

#include "emulator/tcgen05/elements.hpp"
#include "emulator/tensor/numeric.hpp"
#include "tests/emulator/machine_support.hpp"

namespace emulator_test {

namespace t5 = kiln::emulator::tcgen05;

inline std::string blackwell(const std::string& declarations, const std::string& body) {
  return ".version 9.0\n.target sm_100a\n.address_size 64\n" + declarations +
         ".visible .entry k(.param .u64 p_in, .param .u64 p_out)\n{\n"
         ".reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<300>; .reg .f32 %f<64>; .reg .b64 %d<64>; .reg .b128 %q<4>;\n"
         ".reg .b64 %in, %out; .reg .b32 %t, %w, %tm;\n"
         "ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5;\n" +
         body + "\nret;\n}\n";
}

/// How an operand lies in shared memory: the address of element (mn, k), by the formulas of the PTX ISA.
struct Placement {
  int element_bits = 16;
  bool mn_major = false;
  int swizzle = 0;  ///< bytes of the span: 0, 32, 64, 128; 129: 128 with atoms of 32
  std::uint32_t start = 0, lbo = 0, sbo = 0;

  std::uint32_t element_bytes() const { return static_cast<std::uint32_t>(element_bits) / 8; }
  /// Byte of the element (of padded narrow types: of its slot's first byte).
  std::uint32_t address(std::uint32_t mn, std::uint32_t k) const {
    const std::uint32_t t = 128 / static_cast<std::uint32_t>(element_bits);  // elements of 16 bytes
    const std::uint32_t s = swizzle == 0 ? 1 : static_cast<std::uint32_t>(swizzle & ~1) / 16;
    const std::uint32_t rows = swizzle == 129 ? 4 : 8;
    std::uint32_t at = 0;
    if (!mn_major)
      at = swizzle == 0 ? mn % 8 * 16 + mn / 8 * sbo + k / t * lbo
                        : mn % 8 * 16 * s + mn / 8 * sbo + k / t * 16;
    else
      at = swizzle == 0 ? mn / t * sbo + k % 8 * 16 + k / 8 * lbo
                        : mn % (s * t) / t * 16 + mn / (s * t) * lbo + k % rows * 16 * s + k / rows * sbo;
    at += start;
    const std::uint32_t line = at >> 7;
    if (swizzle == 32) at ^= (line & 1) << 4;
    if (swizzle == 64) at ^= (line & 3) << 4;
    if (swizzle == 128) at ^= (line & 7) << 4;
    if (swizzle == 129) at ^= (line & 3) << 5;
    return at + (mn_major ? mn : k) % t * static_cast<std::uint32_t>(element_bits) / 8;
  }
  /// The descriptor without its start address.
  std::uint64_t descriptor() const {
    const std::uint64_t mode = swizzle == 0     ? 0
                               : swizzle == 129 ? 1
                               : swizzle == 128 ? 2
                               : swizzle == 64  ? 4
                                                : 6;
    return static_cast<std::uint64_t>(lbo >> 4) << 16 | static_cast<std::uint64_t>(sbo >> 4) << 32 |
           std::uint64_t{1} << 46 | mode << 61;
  }
};

/// A product of K steps on one CTA.
struct Product {
  std::string kind = "f16", modifiers = {};
  int m = 128, n = 64, k = 16, steps = 2;
  t5::Element a = t5::Element::bf16, b = t5::Element::bf16;
  std::uint32_t a_code = 1, b_code = 1, d_code = 1;
  bool ws = false, ts = false, negate_a = false, negate_b = false, saturate = false;
  bool mn_a = false, mn_b = false;
  int swizzle_a = 0, swizzle_b = 0;
  std::uint32_t base_lane = 0;
  bool sparse = false;                    ///< `k` counts A's stored elements; B has twice as many
  std::uint32_t selector = 0;             ///< of the metadata's column
  std::string tail = {};                  ///< after the predicate
  std::string mask = {};                  ///< the lane mask operand, with its comma
  int shift = 0;                          ///< of B's columns, with .ws; B has as many more
  std::uint32_t most_shift = 0;           ///< its code
  std::function<bool(int)> is_zero = {};  ///< columns of B that count as zeros

  std::uint32_t instruction() const {
    return selector | static_cast<std::uint32_t>(sparse) << 2 | d_code << 4 | a_code << 7 | b_code << 10 |
           static_cast<std::uint32_t>(negate_a) << 13 | static_cast<std::uint32_t>(negate_b) << 14 |
           static_cast<std::uint32_t>(mn_a) << 15 | static_cast<std::uint32_t>(mn_b) << 16 |
           static_cast<std::uint32_t>(n >> 3) << 17 | static_cast<std::uint32_t>(m >> 4) << 24 |
           static_cast<std::uint32_t>(saturate) << 3 | most_shift << 30;
  }
  /// Lane and column of D(row, column), by layouts D, F, E and G.
  std::pair<std::uint32_t, std::uint32_t> place(int row, int column) const {
    const auto r = static_cast<std::uint32_t>(row), c = static_cast<std::uint32_t>(column);
    const auto width = static_cast<std::uint32_t>(n);
    if (m == 128) return {r, c};
    if (!ws) return {r / 16 * 32 + r % 16 + base_lane, c};
    return m == 64 ? std::pair{r + 64 * (c / (width / 2)), c % (width / 2)}
                   : std::pair{r + 32 * (c / (width / 4)), c % (width / 4)};
  }
  /// Elements of K that are multiplied.
  int all_k() const { return sparse ? 2 * k : k; }
  int columns() const { return !ws || m == 128 ? n : m == 64 ? n / 2 : n / 4; }
};

inline std::string hex(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

/// Registers %rFIRST.. in braces.
inline std::string registers(int first, int count) {
  std::string s = "{";
  for (int i = 0; i < count; ++i) s += (i ? ",%r" : "%r") + std::to_string(first + i);
  return s + "}";
}

inline std::string image_declarations(std::size_t image) {
  return ".shared .align 1024 .b8 s[" + std::to_string(image) +
         "];\n.shared .align 8 .b64 bar;\n.shared .align 4 .b32 base;\n";
}

/// Copies `image` bytes to `s`, allocates 512 columns (their address in %tm), sets up the mbarrier with one arrival.
inline std::string prologue(std::size_t image, int columns = 512) {
  return "mul.lo.u32 %r1, %t, 16; mov.u32 %r2, s; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %in; add.u32 %r2, %r2, %r1;\n"
         "COPY: setp.ge.u32 %p1, %r1, " +
         std::to_string(image) +
         "; @%p1 bra COPIED;\n"
         "ld.global.v4.u32 {%r3,%r4,%r5,%r6}, [%d1]; st.shared.v4.u32 [%r2], {%r3,%r4,%r5,%r6};\n"
         "add.u32 %r1, %r1, 2048; add.u32 %r2, %r2, 2048; add.u64 %d1, %d1, 2048; bra COPY;\nCOPIED:\n"
         "fence.proxy.async.shared::cta;\nmov.u32 %r7, base; mov.u32 %r8, bar; mov.u32 %r9, s;\n"
         "setp.ne.u32 %p2, %w, 0; @%p2 bra READY;\n"
         "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], " +
         std::to_string(columns) +
         ";\n"
         "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
         "setp.eq.u32 %p3, %t, 0; @%p3 mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster;\n"
         "READY: bar.sync 0;\nld.shared.u32 %tm, [%r7];\n"
         "shl.b32 %r10, %w, 21; add.u32 %r10, %r10, %tm;  // the warp's lanes\n";
}
inline std::string wait_phase(int parity, const std::string& label) {
  return label + ": mbarrier.try_wait.parity.shared.b64 %p4, [%r8], " + std::to_string(parity) +
         "; @!%p4 bra " + label + ";\n";
}
/// Loads `count` columns from the warp's lanes at `column` and stores them to out[lane][first + column], 512 words a lane.
inline std::string dump(int column, int count, const std::string& guard = {}) {
  std::string s = "tcgen05.ld.sync.aligned.32x32b.x" + std::to_string(count) + ".b32 " +
                  registers(100, count) + ", [%r10+" + std::to_string(column) +
                  "];\ntcgen05.wait::ld.sync.aligned;\n"
                  "mul.wide.u32 %d9, %t, 2048; add.u64 %d9, %d9, %out;\n";
  for (int i = 0; i < count; ++i)
    s += guard + "st.global.u32 [%d9+" + std::to_string(4 * (column + i)) + "], %r" +
         std::to_string(100 + i) + ";\n";
  return s;
}
inline std::string epilogue(int columns = 512) {
  return "bar.sync 0; @!%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, " + std::to_string(columns) +
         ";\n";
}

/// Elements, and the image that holds them.
struct Operands {
  std::vector<std::uint8_t> image;
  std::vector<double> a, b;  ///< [row][k], [column][k]
};

inline std::uint32_t encoded(t5::Element type, std::mt19937& random, double& value) {
  const auto bits = static_cast<std::uint32_t>(random());
  switch (type) {
    case t5::Element::f16: {
      const std::uint16_t h = f32_to_f16(static_cast<float>(static_cast<int>(bits % 65) - 32) / 16);
      return value = f16_to_f32(h), h;
    }
    case t5::Element::bf16: {
      const std::uint16_t h = f32_to_bf16(static_cast<float>(static_cast<int>(bits % 65) - 32) / 16);
      return value = bf16_to_f32(h), h;
    }
    case t5::Element::tf32: {
      const float x = static_cast<float>(static_cast<int>(bits % 2001) - 1000) / 256;
      return value = x, std::bit_cast<std::uint32_t>(x);
    }
    case t5::Element::e4m3: {
      const auto byte = static_cast<std::uint8_t>((bits & 0x80) | bits % 0x50);
      return value = e4m3_to_f32(byte), byte;
    }
    case t5::Element::e5m2: {
      const auto byte = static_cast<std::uint8_t>((bits & 0x80) | bits % 0x48);
      return value = e5m2_to_f32(byte), byte;
    }
    case t5::Element::u8:
      return value = bits & 0xff, bits & 0xff;
    case t5::Element::s8:
      return value = static_cast<std::int8_t>(bits), bits & 0xff;
    default: {
      // The narrow types, written out: sign, exponent, mantissa.
      const int mantissa = type == t5::Element::e2m3 ? 3 : type == t5::Element::e3m2 ? 2 : 1;
      const int exponent = type == t5::Element::e3m2 ? 3 : 2, bias = type == t5::Element::e3m2 ? 3 : 1;
      const std::uint32_t code = bits & ((1u << (1 + exponent + mantissa)) - 1);
      const auto e = static_cast<int>(code >> mantissa & ((1u << exponent) - 1));
      const double m = code & ((1u << mantissa) - 1), scale = std::pow(2.0, mantissa);
      value = (e == 0 ? m / scale * std::pow(2.0, 1 - bias) : (1 + m / scale) * std::pow(2.0, e - bias));
      if ((code >> (exponent + mantissa) & 1) != 0) value = -value;
      return code;
    }
  }
}

inline void put_bits(std::vector<std::uint8_t>& image, std::uint32_t byte, int bit, int width,
                     std::uint32_t value) {
  for (int i = 0; i < width; ++i)
    if ((value >> i & 1) != 0)
      image[byte + static_cast<std::uint32_t>(bit + i) / 8] |= static_cast<std::uint8_t>(1u << (bit + i) % 8);
}

}  // namespace emulator_test
