// The arithmetic of tcgen05.mma: operands become panels of floats, rows of D are multiplied in place.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/tcgen05/kernel.hpp"
#include "emulator/tcgen05/product.hpp"
#include "emulator/tensor/halves.hpp"
#include "emulator/tensor/mma_elements.hpp"

namespace kiln::emulator::tcgen05 {
namespace {

constexpr int kMaxN = 256, kMaxK = 128;
constexpr std::size_t kPanel = std::size_t{kMaxN} * kMaxK;
constexpr std::uint8_t kZeros[16] = {};

/// Chunks of 16 bytes of an operand; zeros beyond shared memory.
class Chunks {
 public:
  Chunks(std::uint64_t descriptor, const OperandExtent& extent, std::span<const std::uint8_t> shared)
      : layout_(matrix_layout(descriptor, extent)), base_(layout_base(descriptor)), shared_(shared) {}
  const std::uint8_t* operator[](std::size_t i) const {
    const std::uint32_t address = (base_ + layout_.chunks[i]) % kDescriptorSpace;
    return address + 16 <= shared_.size() ? shared_.data() + address : kZeros;
  }

 private:
  const OperandLayout& layout_;
  std::uint32_t base_;
  std::span<const std::uint8_t> shared_;
};

struct Matrix {
  Element type;
  bool mn_major, negate, padded;
  std::uint32_t rows;
  int k;
  std::uint64_t descriptor;
  OperandExtent extent;
};

Matrix operand_a(const MmaCall& c) {
  const bool padded = is_narrow(c.i.a) && !is_four_bit(c.shape.kind);
  return {c.i.a,      c.i.mn_major_a,     c.i.negate_a, padded,
          rows_of(c), k_of(c.shape.kind), c.desc_a,     extent_of_a(c)};
}
Matrix operand_b(const MmaCall& c) {
  const bool padded = is_narrow(c.i.b) && !is_four_bit(c.shape.kind);
  return {c.i.b,
          c.i.mn_major_b,
          c.i.negate_b,
          padded,
          static_cast<std::uint32_t>(c.i.n / c.shape.group) + c.zero_columns.shift,
          k_of(c.shape),
          c.desc_b,
          extent_of_b(c)};
}

bool is_half(Element type) {
  return type == Element::f16 || type == Element::bf16;
}

/// Calls `put(row, k, value)` for every element.
template <class Put>
void each_element(const Matrix& o, const Chunks& chunks, Put put) {
  const std::size_t inner = o.extent.inner;
  if (!o.mn_major) {
    for (std::uint32_t r = 0; r < o.rows; ++r) {
      const std::uint8_t* line[4] = {};  // two chunks, or four of a sparse product's B
      for (std::size_t i = 0; i < inner; ++i) line[i] = chunks[inner * r + i];
      for (int k = 0; k < o.k; ++k) put(r, k, element_value(o.type, o.padded, line, k));
    }
    return;
  }
  const auto per = static_cast<std::uint32_t>(128 / bits_of(o.type));
  for (int k = 0; k < o.k; ++k)
    for (std::uint32_t r = 0; r < o.rows; ++r) {
      const std::uint8_t* const line[2] = {chunks[static_cast<std::size_t>(k) * inner + r / per], kZeros};
      put(r, k, element_value(o.type, false, line, static_cast<int>(r % per)));
    }
}

/// panel[row][k]
void gather_rows(const Matrix& o, const Chunks& chunks, float* panel) {
  if (is_half(o.type) && !o.mn_major) {
    std::uint16_t elements[16];  // A has two chunks a row
    for (std::uint32_t r = 0; r < o.rows; ++r) {
      std::memcpy(elements, chunks[2 * std::size_t{r}], 16);
      std::memcpy(elements + 8, chunks[2 * std::size_t{r} + 1], 16);
      widen_halves(o.type == Element::bf16, elements, 2, panel + r * std::size_t{16}, 8);
    }
  } else {
    each_element(o, chunks, [&](std::uint32_t r, int k, float v) {
      panel[r * static_cast<std::uint32_t>(o.k) + static_cast<std::uint32_t>(k)] = v;
    });
  }
}

/// panel[k][column + row], rows of `stride` floats
void gather_columns(const Matrix& o, const Chunks& chunks, float* panel, std::size_t stride) {
  if (is_half(o.type) && !o.mn_major && o.rows % 8 == 0) {
    for (std::uint32_t r = 0; r < o.rows; r += 8)
      for (std::size_t chunk = 0; chunk < o.extent.inner; ++chunk) {
        const std::uint8_t* lines[8];
        std::uint16_t transposed[64];
        for (std::size_t i = 0; i < 8; ++i) lines[i] = chunks[o.extent.inner * (r + i) + chunk];
        transpose_halves(lines, transposed);
        widen_halves(o.type == Element::bf16, transposed, 8, panel + 8 * chunk * stride + r,
                     static_cast<int>(stride));
      }
  } else if (is_half(o.type) && o.mn_major) {
    std::uint16_t elements[8];
    for (std::size_t k = 0; k < static_cast<std::size_t>(o.k); ++k)
      for (std::size_t g = 0; g < o.extent.inner; ++g) {
        std::memcpy(elements, chunks[k * o.extent.inner + g], 16);
        widen_halves(o.type == Element::bf16, elements, 1, panel + k * stride + 8 * g, 8);
      }
  } else {
    each_element(o, chunks, [&](std::uint32_t r, int k, float v) {
      panel[static_cast<std::size_t>(k) * stride + r] = v;
    });
  }
}

void negate(float* panel, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) panel[i] = -panel[i];
}

/// Rows of A by lane of D, and the room they lie in.
struct RowPanel {
  alignas(64) float values[std::size_t{kLanes} * kMaxK];
  const float* of_lane[kLanes];
};

void load_a(const MmaCall& c, const Placement& p, const Cta& cta, RowPanel& out) {
  const auto k = static_cast<std::size_t>(k_of(c.shape.kind));
  if (!c.shape.a_in_tensor_memory) {
    const Matrix o = operand_a(c);
    gather_rows(o, Chunks(o.descriptor, o.extent, cta.shared), out.values);
    for (const Segment& s : p.segments)
      for (std::uint32_t i = 0; i < s.lanes; ++i) out.of_lane[s.lane + i] = out.values + (s.row + i) * k;
  } else {
    for (const Segment& s : p.segments)
      for (std::uint32_t lane = s.lane; lane < s.lane + s.lanes; ++lane) {
        const std::uint32_t* const cells = cta.tensor->lane(lane) + (c.a & 0xffff);
        float* const row = out.values + lane * k;
        for (std::size_t i = 0; i < k; ++i)
          row[i] = cell_value(c.i.a, is_four_bit(c.shape.kind), cells, static_cast<int>(i));
        out.of_lane[lane] = row;
      }
  }
  if (c.i.negate_a) negate(out.values, std::size_t{kLanes} * k);
}

/// The rows of a sparse A with all their elements.
void expand_a(const MmaCall& c, const Placement& p, const Cta& cta, RowPanel& a) {
  thread_local std::vector<float> dense(std::size_t{kLanes} * kMaxK);
  for (const Segment& s : p.segments)
    for (std::uint32_t lane = s.lane; lane < s.lane + s.lanes; ++lane) {
      float* const row = dense.data() + std::size_t{lane} * kMaxK;
      expand_row(c.shape.kind, metadata_of(c, *cta.tensor, lane), a.of_lane[lane], row);
      a.of_lane[lane] = row;
    }
}

/// B with its columns shifted, and zeros for those that the mask names.
void load_masked_b(const MmaCall& c, const Matrix& o, const Cta& cta, float* panel) {
  const std::size_t k = static_cast<std::size_t>(o.k), n = static_cast<std::size_t>(c.i.n),
                    stride = (o.rows + std::size_t{15}) / 16 * 16;
  std::vector<float> whole(k * stride);
  gather_columns(o, Chunks(o.descriptor, o.extent, cta.shared), whole.data(), stride);
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < n; ++j)
      panel[i * n + j] = c.zero_columns.has(static_cast<std::uint32_t>(j))
                             ? 0.0F
                             : whole[i * stride + c.zero_columns.shift + j];
}

void load_b(const MmaCall& c, std::span<const Cta> ctas, float* panel) {
  const Matrix o = operand_b(c);
  const auto n = static_cast<std::size_t>(c.i.n);
  if (c.zero_columns.any()) {
    load_masked_b(c, o, ctas[0], panel);
    if (c.i.negate_b) negate(panel, n * static_cast<std::size_t>(o.k));
    return;
  }
  for (std::size_t r = 0; r < ctas.size(); ++r)
    gather_columns(o, Chunks(o.descriptor, o.extent, ctas[r].shared), panel + r * o.rows, n);
  if (c.i.negate_b) negate(panel, n * static_cast<std::size_t>(o.k));
}

/// Lanes of a segment that are written: rows of D and of A side by side.
struct Rows {
  int count = 0;
  std::uint32_t lanes[kLanes];
  CellFloat* d[kLanes];
  const float* a[kLanes];
};
Rows rows_of_segment(const MmaCall& c, const Segment& s, const RowPanel& a, const Cta& cta,
                     std::size_t index) {
  Rows rows;
  for (std::uint32_t lane = s.lane; lane < s.lane + s.lanes; ++lane) {
    if (c.disabled[index].has(lane)) continue;
    rows.lanes[rows.count] = lane;
    rows.d[rows.count] = reinterpret_cast<CellFloat*>(cta.tensor->lane(lane) + (c.d & 0xffff));
    rows.a[rows.count++] = a.of_lane[lane];
  }
  return rows;
}

/// D that is not f32 passes through rows of floats: f16 widened and rounded once, s32 as an exact partial product.
void multiply_converted(const MmaCall& c, const Rows& rows, const float* b, int columns) {
  const bool half = c.i.d == Accumulator::f16;
  std::vector<float> sums(static_cast<std::size_t>(columns));
  for (int r = 0; r < rows.count; ++r) {
    auto* const cells = reinterpret_cast<std::uint32_t*>(rows.d[r]);
    for (int j = 0; half && c.accumulate && j < columns; ++j)
      sums[static_cast<std::size_t>(j)] =
          std::ldexp(f16_to_f32(static_cast<std::uint16_t>(cells[j])), -c.scale_d);
    CellFloat* const row = sums.data();
    multiply_rows(&row, &rows.a[r], 1, b, c.i.n, columns, k_of(c.shape), half && c.accumulate);
    for (int j = 0; j < columns; ++j)
      cells[j] =
          half ? f32_to_f16(row[j])
               : accumulate_s32(c.accumulate ? cells[j] : 0, static_cast<std::int64_t>(row[j]), c.i.saturate);
  }
}

/// Scales of the quarter's own copy: of row `index` and block `block`.
double scale_of(const MmaCall& c, const Cta& cta, bool of_a, std::uint32_t lane, std::uint32_t index,
                std::uint32_t block) {
  const std::uint32_t address = of_a ? c.scale_a : c.scale_b,
                      byte = (of_a ? c.i.factor_a : c.i.factor_b) + block;
  const std::uint32_t cell = cta.tensor->lane(lane / 32 * 32 + index % 32)[(address & 0xffff) + index / 32];
  return scale_value(c.i.ue8m0, static_cast<std::uint8_t>(cell >> 8 * byte));
}

void multiply_scaled(const MmaCall& c, const Segment& s, const Rows& rows, const Cta& cta, const float* b,
                     int columns) {
  const int blocks = c.shape.factors, k = k_of(c.shape) / blocks;
  std::vector<float> partial(static_cast<std::size_t>(columns));
  std::vector<double> factors(static_cast<std::size_t>(columns * blocks) * 4);
  const auto factor = [&](std::uint32_t quarter, int block) {
    return factors.data() + (quarter * static_cast<std::size_t>(blocks) + static_cast<std::size_t>(block)) *
                                static_cast<std::size_t>(columns);
  };
  for (std::uint32_t q = s.lane / 32; q < (s.lane + s.lanes + 31) / 32; ++q)
    for (int block = 0; block < blocks; ++block)
      for (int j = 0; j < columns; ++j)
        factor(q, block)[j] =
            scale_of(c, cta, false, 32 * q, static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(block));
  for (int r = 0; r < rows.count; ++r) {
    const std::uint32_t lane = rows.lanes[r];
    CellFloat* const d = rows.d[r];
    if (!c.accumulate) std::fill_n(d, columns, 0.0F);
    for (int block = 0; block < blocks; ++block) {
      const double scale =
          scale_of(c, cta, true, lane, s.row + lane - s.lane, static_cast<std::uint32_t>(block));
      CellFloat* const row = partial.data();
      const float* const a = rows.a[r] + std::ptrdiff_t{block} * k;
      multiply_rows(&row, &a, 1, b + static_cast<std::ptrdiff_t>(block) * k * c.i.n, c.i.n, columns, k,
                    false);
      const double* const by = factor(lane / 32, block);
      for (int j = 0; j < columns; ++j)
        d[j] = canonicalize(static_cast<float>(d[j] + row[j] * (scale * by[j])));
    }
  }
}

void multiply_cta(const MmaCall& c, const Placement& p, const Cta& cta, std::size_t index, const float* b) {
  thread_local RowPanel a;
  load_a(c, p, cta, a);
  if (c.shape.sparse) expand_a(c, p, cta, a);
  const auto columns = static_cast<int>(p.columns);
  for (const Segment& s : p.segments) {
    const Rows rows = rows_of_segment(c, s, a, cta, index);
    const float* const part = b + s.column;
    if (is_block_scaled(c.shape.kind)) {
      multiply_scaled(c, s, rows, cta, part, columns);
    } else if (c.i.d != Accumulator::f32) {
      multiply_converted(c, rows, part, columns);
    } else {
      for (int r = 0; c.scale_d != 0 && c.accumulate && r < rows.count; ++r)
        for (int j = 0; j < columns; ++j) rows.d[r][j] = std::ldexp(rows.d[r][j], -c.scale_d);
      multiply_rows(rows.d, rows.a, rows.count, part, c.i.n, columns, k_of(c.shape), c.accumulate);
    }
  }
}

}  // namespace

void multiply(const MmaCall& c, std::span<const Cta> ctas) {
  alignas(64) thread_local float b[kPanel];
  load_b(c, ctas, b);
  const Placement p = placement_of(c);
  for (std::size_t r = 0; r < ctas.size(); ++r) multiply_cta(c, p, ctas[r], r, b);
}

}  // namespace kiln::emulator::tcgen05
