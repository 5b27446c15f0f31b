// wgmma.mma_async: gather both operands into packed floats, then multiply straight on the accumulator
// registers.
#include "emulator/tensor/wgmma.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/tensor/halves.hpp"
#include "emulator/tensor/mma_elements.hpp"
#include "emulator/tensor/wgmma_kernel.hpp"
#include "emulator/tensor/wgmma_layout.hpp"

namespace kiln::emulator {

namespace {

constexpr int kMaxN = 256, kMaxPanelK = 32;
/// Place of column c % 8 inside a packed block (see AccumulatorBlock).
constexpr int kPermuted[8] = {0, 4, 1, 5, 2, 6, 3, 7};

/// Floats of one 16-byte chunk; returns how many.
int decode_chunk(MatrixType type, const std::uint8_t* bytes, float* out) {
  std::uint32_t words[4];
  std::memcpy(words, bytes, sizeof words);
  const int per = elements_per_register(type);
  switch (type) {  // the hot types get loops without a switch inside
    case MatrixType::bf16:
      for (int i = 0; i < 4; ++i) {
        out[2 * i] = std::bit_cast<float>(words[i] << 16);
        out[2 * i + 1] = std::bit_cast<float>(words[i] & 0xffff0000u);
      }
      break;
    case MatrixType::e4m3:
      for (int i = 0; i < 16; ++i) out[i] = e4m3_to_f32(bytes[i]);
      break;
    default:
      for (int i = 0; i < 4 * per; ++i) out[i] = element_as_float(type, words[i / per], i % per);
  }
  return 4 * per;
}

bool is_half(MatrixType type) {
  return type == MatrixType::f16 || type == MatrixType::bf16;
}

/// Reads chunks of an operand, zeros beyond the window.
class ChunkReader {
 public:
  ChunkReader(MatrixType type, bool negate, std::uint64_t descriptor, std::span<const std::uint8_t> shared)
      : type_(type), negate_(negate), base_(layout_base(descriptor)), shared_(shared) {}

  const std::uint8_t* bytes(std::uint32_t chunk) const {
    static constexpr std::uint8_t kZeros[16] = {};
    const std::uint32_t address = (base_ + chunk) % kDescriptorSpace;
    return address + 16 <= shared_.size() ? shared_.data() + address : kZeros;
  }
  int read(std::uint32_t chunk, float* out) const {
    const int count = decode_chunk(type_, bytes(chunk), out);
    for (int i = 0; negate_ && i < count; ++i) out[i] = -out[i];
    return count;
  }

 private:
  MatrixType type_;
  bool negate_;
  std::uint32_t base_;
  std::span<const std::uint8_t> shared_;
};

/// A from shared memory into panel[row][k].
void gather_a(const WgmmaOp& op, std::uint64_t descriptor, std::span<const std::uint8_t> shared,
              float* panel) {
  const int k_extent = wgmma_k(op);
  const ChunkReader reader(op.a, op.negate_a, descriptor, shared);
  const std::vector<std::uint32_t>& chunks = operand_layout(descriptor, kWgmmaRows, op.trans_a).chunks;
  if (is_half(op.a) && !op.trans_a && !op.negate_a) {
    std::uint16_t elements[kWgmmaRows * 8];
    for (int half = 0; half < 2; ++half) {
      for (int row = 0; row < kWgmmaRows; ++row)
        std::memcpy(elements + 8 * row, reader.bytes(chunks[2 * row + half]), 16);
      widen_halves(op.a == MatrixType::bf16, elements, kWgmmaRows, panel + 8 * half, k_extent);
    }
    return;
  }
  if (!op.trans_a) {
    for (int row = 0; row < kWgmmaRows; ++row) {
      const int count = reader.read(chunks[2 * row], panel + row * k_extent);
      reader.read(chunks[2 * row + 1], panel + row * k_extent + count);
    }
    return;
  }
  for (int k = 0; k < k_extent; ++k) {
    for (int group = 0; group < kWgmmaRows / 8; ++group) {
      float elements[16] = {};
      reader.read(chunks[k * (kWgmmaRows / 8) + group], elements);
      for (int i = 0; i < 8; ++i) panel[(8 * group + i) * k_extent + k] = elements[i];
    }
  }
}

/// A from registers into panel[row][k]; the fragment is that of mma.sync m16n8, one per warp.
void spread_a(const WgmmaOp& op, const std::uint32_t* const* a, float* panel) {
  const int k_extent = wgmma_k(op), per = elements_per_register(op.a);
  for (int j = 0; j < 16; ++j) {
    const int warp = j / 4, reg = j % 4;
    if (is_half(op.a) && !op.negate_a) {  // 8 rows of 8 elements
      std::uint16_t elements[64];
      std::memcpy(elements, a[j], sizeof elements);
      widen_halves(op.a == MatrixType::bf16, elements, 8,
                   panel + (16 * warp + 8 * (reg % 2)) * k_extent + 8 * (reg / 2), k_extent);
      continue;
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int row = 16 * warp + 8 * (reg % 2) + lane / 4, k = per * (4 * (reg / 2) + lane % 4);
      for (int i = 0; i < per; ++i) {
        const float value = element_as_float(op.a, a[j][lane], i);
        panel[row * k_extent + k + i] = op.negate_a ? -value : value;
      }
    }
  }
}

/// B into panel[n / 8][k][permuted n % 8].
void gather_b(const WgmmaOp& op, std::uint64_t descriptor, std::span<const std::uint8_t> shared,
              float* panel) {
  const int k_extent = wgmma_k(op);
  const ChunkReader reader(op.b, op.negate_b, descriptor, shared);
  const std::vector<std::uint32_t>& chunks = operand_layout(descriptor, op.n, op.trans_b).chunks;
  float elements[16] = {};
  if (is_half(op.b) && !op.trans_b && !op.negate_b) {
    // Eight columns of eight elements at a time, in the permuted order.
    static constexpr int kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    for (int n = 0; n < op.n; n += 8) {
      for (int half = 0; half < 2; ++half) {
        const std::uint8_t* columns[8];
        std::uint16_t transposed[64];
        for (int i = 0; i < 8; ++i) columns[i] = reader.bytes(chunks[2 * (n + kOrder[i]) + half]);
        transpose_halves(columns, transposed);
        widen_halves(op.b == MatrixType::bf16, transposed, 8, panel + (n / 8 * k_extent + 8 * half) * 8, 8);
      }
    }
    return;
  }
  if (op.trans_b) {
    for (int k = 0; k < k_extent; ++k) {
      for (int group = 0; group < op.n / 8; ++group) {
        reader.read(chunks[k * (op.n / 8) + group], elements);
        float* block = panel + (group * k_extent + k) * 8;
        for (int i = 0; i < 8; ++i) block[kPermuted[i]] = elements[i];
      }
    }
    return;
  }
  for (int n = 0; n < op.n; ++n) {
    float* column = panel + (n / 8) * k_extent * 8 + kPermuted[n % 8];
    for (int half = 0; half < 2; ++half) {
      const int count = reader.read(chunks[2 * n + half], elements);
      for (int i = 0; i < count; ++i) column[(half * count + i) * 8] = elements[i];
    }
  }
}

/// One warp's 16 x n accumulator, `rows[i]` being the 32 lanes of f32 register i.
void multiply_warp(const WgmmaOp& op, std::uint32_t* const* rows, const float* a, const float* b,
                   bool accumulate) {
  const int k_extent = wgmma_k(op);
  for (int block = 0; block < op.n / 8; ++block) {
    for (int half = 0; half < 2; ++half) {
      const AccumulatorBlock accumulators{rows[4 * block + 2 * half], rows[4 * block + 2 * half + 1]};
      multiply_block(accumulators, a + 8 * half * k_extent, b + block * k_extent * 8, k_extent, accumulate);
    }
  }
}

/// Accumulators that are not f32 pass through floats: f16 widened and rounded once, s32 as an exact partial
/// product.
void multiply_warp_converted(const WgmmaOp& op, std::uint32_t* const* d, const float* a, const float* b,
                             bool scale_d) {
  std::uint32_t lanes[kMaxN / 2][32];
  std::uint32_t* rows[kMaxN / 2];
  const bool half = op.d == MatrixType::f16;
  for (int i = 0; i < op.n / 2; ++i) {
    rows[i] = lanes[i];
    for (int lane = 0; half && lane < 32; ++lane) {
      lanes[i][lane] = std::bit_cast<std::uint32_t>(element_as_float(op.d, d[i / 2][lane], i % 2));
    }
  }
  multiply_warp(op, rows, a, b, half && scale_d);
  for (int i = 0; i < op.n / 2; ++i) {
    for (int lane = 0; lane < 32; ++lane) {
      const float sum = std::bit_cast<float>(lanes[i][lane]);
      if (half) {
        const std::uint32_t bits = f32_to_f16(sum);
        d[i / 2][lane] = i % 2 == 0 ? bits : d[i / 2][lane] | bits << 16;
      } else {
        d[i][lane] = accumulate_s32(scale_d ? d[i][lane] : 0, static_cast<std::int64_t>(sum), op.satfinite);
      }
    }
  }
}

}  // namespace

int wgmma_k(const WgmmaOp& op) {
  return (op.sparse ? 512 : 256) / bit_width(op.a);
}

int wgmma_d_registers(const WgmmaOp& op) {
  return op.d == MatrixType::f16 ? op.n / 4 : op.n / 2;
}

namespace {

std::string check_bits(const WgmmaOp& op) {
  if (op.n < 8 || op.n > kMaxN || op.n % (op.n > 32 ? 16 : 8) != 0)
    return "no wgmma shape has n = " + std::to_string(op.n) + " for this type";
  if (op.b != op.a || op.d != MatrixType::s32 || op.satfinite || op.sparse)
    return "one-bit operands need a one-bit B and an s32 accumulator";
  if (op.trans_a || op.trans_b || op.negate_a || op.negate_b) return "one-bit operands are K-major";
  return {};
}

std::string check_types(const WgmmaOp& op) {
  const bool small_integer = op.a == MatrixType::s8 || op.a == MatrixType::u8;
  // Integer forms step N by 16 from 32 on (PTX ISA, "Matrix Shape").
  if (op.n < 8 || op.n > kMaxN || op.n % (small_integer && op.n > 32 ? 16 : 8) != 0) {
    return "no wgmma shape has n = " + std::to_string(op.n) + " for this type";
  }
  if (small_integer) {
    if ((op.b != MatrixType::s8 && op.b != MatrixType::u8) || op.d != MatrixType::s32) {
      return "8-bit integer operands need an 8-bit integer B and an s32 accumulator";
    }
  } else if (is_fp8(op.a)) {
    if (!is_fp8(op.b)) return "fp8 operands need fp8 on both sides";
  } else if (!is_half(op.a) && op.a != MatrixType::tf32) {
    return "no wgmma exists for this type of A";
  } else if (op.b != op.a) {
    return "both operands must have the same type";
  }
  const bool half_sums = op.a == MatrixType::f16 || is_fp8(op.a);
  if (!small_integer && op.d != MatrixType::f32 && !(half_sums && op.d == MatrixType::f16)) {
    return "the accumulator must be f32 (or f16 for f16 and fp8 operands)";
  }
  return {};
}

std::string check_modifiers(const WgmmaOp& op) {
  const bool small_integer = op.a == MatrixType::s8 || op.a == MatrixType::u8;
  if ((op.trans_a || op.trans_b) && !is_half(op.a)) return "only 16-bit operands may be MN-major";
  if (op.trans_a && op.a_in_registers) return "an A operand in registers has no major mode";
  if (small_integer && (op.negate_a || op.negate_b)) return "integer operands cannot be negated";
  if (op.satfinite && !small_integer) return "satfinite needs integer operands";
  return {};
}

}  // namespace

std::string wgmma_check(const WgmmaOp& op) {
  if (op.a == MatrixType::b1) return check_bits(op);
  const std::string types = check_types(op);
  return types.empty() ? check_modifiers(op) : types;
}

void wgmma(const WgmmaOp& op, bool scale_d, std::uint32_t* const* d, const std::uint32_t* const* a,
           std::uint64_t desc_a, std::uint64_t desc_b, std::span<const std::uint8_t> shared) {
  alignas(64) float a_panel[kWgmmaRows * kMaxPanelK], b_panel[kMaxN * kMaxPanelK];
  const int k_extent = wgmma_k(op), registers = wgmma_d_registers(op);
  if (op.a_in_registers) {
    spread_a(op, a, a_panel);
  } else {
    gather_a(op, desc_a, shared, a_panel);
  }
  gather_b(op, desc_b, shared, b_panel);
  for (int warp = 0; warp < 4; ++warp) {
    std::uint32_t* const* fragment = d + warp * registers;
    const float* a_rows = a_panel + 16 * warp * k_extent;
    if (op.d == MatrixType::f32) {
      multiply_warp(op, fragment, a_rows, b_panel, scale_d);
    } else {
      multiply_warp_converted(op, fragment, a_rows, b_panel, scale_d);
    }
  }
}

}  // namespace kiln::emulator
