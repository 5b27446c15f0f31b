// Operands of tcgen05.mma for programs of tests: matrices laid out in an image of shared memory, cells of tensor memory, a
// sparse A and its metadata.
#pragma once

#include "tests/emulator/tcgen05_support.hpp"

namespace emulator_test {

inline bool narrow(t5::Element e) {
  return e == t5::Element::e2m1 || e == t5::Element::e2m3 || e == t5::Element::e3m2;
}
/// Bits of an element's place in shared memory: narrow ones of the byte-wise kinds have a byte each.
inline int stored_bits(t5::Element e) {
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

inline Placement placed(t5::Element e, int rows, bool mn, int swizzle, std::uint32_t start) {
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
inline void lay_out(std::vector<std::uint8_t>& image, const Placement& p, t5::Element e, int rows, int k,
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

/// Cells of every lane from `column` on, stored from registers that the kernel loads from behind the image.
inline std::string store_cells(int columns, std::size_t at, int column) {
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
inline std::vector<double> sparsify(const Product& p, const std::vector<double>& stored, std::mt19937& random,
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

}  // namespace emulator_test
