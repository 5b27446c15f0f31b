// Number formats of tcgen05 operands: what an element of a matrix or a block scale is worth.
#pragma once

#include <cstdint>

namespace kiln::emulator::tcgen05 {

enum class Element : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1, u8, s8 };
const char* name_of(Element type);

/// Bits of an element as the format counts them (tf32: 32).
int bits_of(Element type);
inline bool is_narrow(Element type) {  ///< 4 or 6 bits
  return type == Element::e2m3 || type == Element::e3m2 || type == Element::e2m1;
}

/// The value of e2m3, e3m2 (low 6 bits) and e2m1 (low 4 bits): exact.
float e2m3_to_f32(std::uint8_t bits);
float e3m2_to_f32(std::uint8_t bits);
float e2m1_to_f32(std::uint8_t bits);

/// A factor of block scaling: ue8m0 is 2^(bits - 127), 0xff NaN; ue4m3 is e4m3 without its sign.
double scale_value(bool ue8m0, std::uint8_t bits);

/// Element `index` of 32 bytes of K, which lie in chunks of 16 bytes. Narrow types: packed (kinds mxf4 and mxf4nvf4),
/// or `padded`: 16 elements at the start of each chunk.
float element_value(Element type, bool padded, const std::uint8_t* const chunks[2], int index);
/// Element of a tensor-memory operand: `cells` are the 32-bit words of one lane. Narrow types of the byte-wise kinds
/// take a byte each (e2m1 in its bits 5 to 2).
float cell_value(Element type, bool packed, const std::uint32_t* cells, int index);

}  // namespace kiln::emulator::tcgen05
