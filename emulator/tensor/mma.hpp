// Warp-level matrix instructions on register fragments: mma.sync, ldmatrix, stmatrix. Pure functions, no
// machine state.
//
// A fragment is an array of registers, each a row of 32 lanes: `const std::uint32_t* const* a` points to one
// lane row per 32-bit register, in PTX operand order. f64 operands take two registers each (low word first).
#pragma once

#include <cstdint>
#include <optional>

namespace kiln::emulator {

/// Element types of matrix operands and accumulators.
enum class MatrixType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8, s4, u4, b1, f32, s32, f64 };

/// Bits of one element (b1: 1).
int bit_width(MatrixType type);

/// One mma.sync form. A is row-major m x k, B column-major k x n (the only layouts left since sm_80), C and D
/// m x n.
struct MmaOp {
  int m = 16, n = 8, k = 16;
  MatrixType a = MatrixType::bf16, b = MatrixType::bf16;
  MatrixType c = MatrixType::f32, d = MatrixType::f32;
  bool satfinite = false;  ///< s32 accumulators clamp instead of wrapping
  bool b1_and = false;     ///< b1: .and.popc instead of .xor.popc
};

/// Registers per lane of each operand.
struct MmaRegisters {
  int a = 0, b = 0, c = 0, d = 0;
};
/// The register counts of a form that PTX has for sm_75..sm_90 (sparse forms and the m8n8k4 f16 form of sm_70
/// excluded); nullopt otherwise.
std::optional<MmaRegisters> mma_registers(const MmaOp& op);

/// D = A * B + C over a full warp. The form must be supported. D may alias any operand.
/// f16/bf16/tf32/fp8: exact products, f32 sums in ascending k starting from C; f16 results rounded once at
/// the end. Integer, b1 and f64 forms are bit-exact.
void mma_sync(const MmaOp& op, std::uint32_t* const* d, const std::uint32_t* const* a,
              const std::uint32_t* const* b, const std::uint32_t* const* c);

/// Place of element `index` (counted in elements of one lane, register 0 first, low bits first) of lane
/// `lane`.
struct FragmentPlace {
  int row = 0, column = 0;  ///< A: (m, k); B: (k, n); C, D: (m, n)
};
FragmentPlace mma_place_a(const MmaOp& op, int lane, int index);
FragmentPlace mma_place_b(const MmaOp& op, int lane, int index);
FragmentPlace mma_place_d(const MmaOp& op, int lane, int index);

/// ldmatrix.sync.aligned.m8n8.x{count}[.trans].b16, count 1, 2 or 4. The 16-byte row r of matrix i has the
/// address that lane 8 * i + r holds; `rows[8 * i + r]` points to those bytes. Register i of lane l receives
/// row l / 4, columns 2 * (l % 4) and + 1 (.trans: column l / 4, rows 2 * (l % 4) and + 1).
void ldmatrix(int count, bool trans, const std::uint8_t* const* rows, std::uint32_t* const* out);
/// stmatrix, the inverse: fills rows[8 * i + r] (16 bytes each).
void stmatrix(int count, bool trans, const std::uint32_t* const* in, std::uint8_t* const* rows);
/// ldmatrix.sync.aligned.m16n16.x{matrices}.trans of bytes, 1 or 2 matrices of 16 rows of 16 bytes. Registers 2 * i and
/// 2 * i + 1 of lane l receive rows 4 * (l % 4) to + 3 of matrix i, two each, at columns l / 4 and l / 4 + 8: byte b has row
/// b % 2 of the two and column b / 2 (PTX shows it in figures; this is what CuTe's copy traits of SM100 say).
void ldmatrix_bytes(int matrices, const std::uint8_t* const* rows, std::uint32_t* const* out);
/// stmatrix.sync.aligned.m16n8.x{count}.trans.b8: byte b of register i of lane l goes to rows[8 * i + 2 * (l % 4) + b % 2],
/// column l / 4 + 8 * (b / 2).
void stmatrix_bytes(int count, const std::uint32_t* const* in, std::uint8_t* const* rows);
/// 16 elements of 4 or 6 bits, packed in the first 8 or 12 bytes of a row (b4x16_p64, b6x16_p32), to a byte each.
void widen_row(int bits, const std::uint8_t* row, std::uint8_t* out);
/// movmatrix.sync.aligned.m8n8.trans.b16.
void movmatrix_trans(const std::uint32_t* in, std::uint32_t* out);

}  // namespace kiln::emulator
