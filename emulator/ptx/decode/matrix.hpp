// What the matrix instructions share: types, shapes and rows of registers.
#pragma once

#include <optional>
#include <vector>

#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/tensor/sparse.hpp"

namespace kiln::emulator::ptx {

/// Rows of a vector operand (or a single register) of `size` bytes a lane.
std::vector<Ref> rows(Decoder& d, const Operand& o, int size, bool out);
std::optional<MatrixType> matrix_type(std::string_view m);
/// The matrix types among the modifiers, in order.
std::vector<MatrixType> matrix_types(const Decoder& d);
/// "m16n8k16" -> its three numbers.
bool shape_of(const Decoder& d, int& m, int& n, int& k);
/// Reports metadata of a sparse A that mean nothing.
void report_metadata(Warp& w, const Op& op, MatrixType a, bool ordered, const SparseColumns& columns);
/// mma (mma.cpp).
void decode_mma(Decoder& d);
/// wmma.mma of 4-bit and one-bit types, whose fragments are those of mma.m8n8k32 and m8n8k128.
void decode_subbyte_wmma(Decoder& d);

}  // namespace kiln::emulator::ptx
