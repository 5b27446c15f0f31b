#include "generator/systems/sm80/q_tile.hpp"

#include "base/plural.hpp"
#include "generator/emit/output_elements.hpp"

#include <algorithm>
#include <array>

#include "generator/layout/banks.hpp"

namespace kiln::sm80 {

QTile::QTile(const Shape& shape)
    : shape_(shape),
      tile_{shape.BM, shape.depth, shape.block_cols, shape.swizzle},
      copy_("q", tile_, shape.num_threads),
      reader_("q_frag", tile_, layout::MatrixOrder::rows_first),
      o_write_("o_write", tile_, 8 * tile_.vectors_per_row()),
      o_read_("o_read", tile_, 32) {
  for (int chunk = 0; chunk < shape.depth / 8; ++chunk) {
    o_write_.want(0, chunk);
    o_write_.want(8, chunk);
  }
  for (int row = 0; row < 16; row += std::max(1, 32 / tile_.vectors_per_row())) {
    for (int chunk = 0; chunk < tile_.vectors_per_row(); chunk += 32) o_read_.want(row, chunk);
  }
}

void QTile::emit_construct(Writer& w, const std::string& first, const std::string& rows) const {
  w.comment("Q: copies of this thread ({} rows apart), fragment addresses of this lane",
            copy_.rows_per_pass());
  copy_.emit_construct(w, "smem_q");
  w.line("const u16* const q_src = {} + q_row * q_stride_seq + 8 * q_chunk;", first);
  if (copy_.passes() > 1) w.line("const long long q_pass = {} * q_stride_seq;", copy_.rows_per_pass());
  w.line("const int q_rows = {} - q_row;", rows);
  w.line("const u32 smem_q_warp = smem_q + warp * {};  // 16 rows of this warp", 16 * tile_.row_bytes());
  reader_.emit_construct(w, "smem_q_warp");
}

void QTile::emit_load_from_shared(Writer& w, int step) const {
  w.line("ldmatrix_x4(q_reg + {}, {});", 4 * step, reader_.at(0, 16 * step));
}

void QTile::emit_store(Writer& w, const std::string& pack, const std::string& first,
                       const std::string& stride, const std::string& rows, const std::string& scale) const {
  const int per_row = tile_.vectors_per_row();
  o_write_.emit(w, "smem_q_warp", fmt::format("(lane >> 2) * {}", per_row), "4 * (lane & 3)");
  for (int j = 0; j < shape_.depth / 8; ++j) {
    const int i = 4 * j;
    for (int r = 0; r < 2; ++r) {
      w.line("store_shared_32({0}, {1}(o_acc[{2}] * {4}_{5}, o_acc[{3}] * {4}_{5}));", o_write_.at(8 * r, j),
             pack, i + 2 * r, i + 2 * r + 1, scale, r);
    }
  }
  w.line("__syncwarp();");
  const int rows_per_pass = std::max(1, 32 / per_row);
  w.comment("rows of O, 16 bytes a lane, {} at a time", number_of(rows_per_pass, "row"));
  o_read_.emit(w, "smem_q_warp", "lane");
  w.line("const int o_row = lane / {0}, o_chunk = lane % {0};", per_row);
  w.line("u16* const o_dst = {} + o_row * {} + 8 * o_chunk;", first, stride);
  w.line("const int o_rows = {} - o_row;", rows);
  for (int block = 0; block < tile_.blocks(); ++block) {
    const int chunks = std::min(per_row, shape_.depth / 8 - block * per_row);
    for (int row = 0; row < 16; row += rows_per_pass) {
      const std::string guard = chunks < per_row ? fmt::format(" && o_chunk < {}", chunks) : "";
      std::string dst = "o_dst";
      if (row > 0) dst += fmt::format(" + {} * {}", row, stride);
      if (block > 0) dst += fmt::format(" + {}", block * tile_.block_cols);
      w.line("if (o_rows > {}{}) copy_out_16({}, {});", row, guard, dst, o_read_.at(row, block * per_row));
    }
  }
}

void QTile::emit_store_floats(Writer& w, const std::string& first, const std::string& stride,
                              const std::string& rows, const std::string& scale) const {
  w.line("float* const o_dst = {} + (lane >> 2) * {} + 2 * (lane & 3);", first, stride);
  w.line("const int o_rows = {} - (lane >> 2);", rows);
  for (int r = 0; r < 2; ++r) {
    w.open("if (o_rows > {})", 8 * r);
    for (int j = 0; j < shape_.depth / 8; ++j) {
      const int i = 4 * j + 2 * r;
      w.line("{}", store_two(DType::f32, fmt::format("o_dst + {} * {} + {}", 8 * r, stride, 8 * j),
                             fmt::format("o_acc[{}] * {}_{}", i, scale, r),
                             fmt::format("o_acc[{}] * {}_{}", i + 1, scale, r)));
    }
    w.close();
  }
}

std::vector<layout::Proof> QTile::proofs() const {
  return {{"Q tile: bijection", tile_.layout().is_bijection(), 0},
          {"Q copies: cp.async", copy_.proves(), copy_.bank_conflicts()},
          {"Q fragments: ldmatrix", reader_.proves(), reader_.bank_conflicts()}};
}

layout::Proof QTile::output_proof() const {
  return {"O staging: st.shared, ld.shared", output_proves(), output_bank_conflicts()};
}

bool QTile::output_proves() const {
  const int per_row = tile_.vectors_per_row();
  for (int lane = 0; lane < 32; ++lane) {
    for (int j = 0; j < shape_.depth / 8; ++j) {
      for (int row : {0, 8}) {
        if (o_write_.byte(lane / 4 * per_row, row, j) != tile_.byte(row + lane / 4, 8 * j)) return false;
      }
    }
    for (int block = 0; block < tile_.blocks(); ++block) {
      for (int row = 0; row < 16; row += std::max(1, 32 / per_row)) {
        const int at_row = row + lane / per_row, col = block * tile_.block_cols + 8 * (lane % per_row);
        if (o_read_.byte(lane, row, block * per_row) != tile_.byte(at_row, col)) return false;
      }
    }
  }
  return true;
}

int QTile::output_bank_conflicts() const {
  const int per_row = tile_.vectors_per_row();
  int worst = 0;
  std::array<std::uint32_t, 32> address{};
  for (int j = 0; j < shape_.depth / 8; ++j) {
    for (int lane = 0; lane < 32; ++lane) {
      address[static_cast<std::size_t>(lane)] =
          o_write_.byte(lane / 4 * per_row, 0, j) + 4 * static_cast<std::uint32_t>(lane % 4);
    }
    worst = std::max(worst, layout::nvidia_banks(address, 4).conflicts());
  }
  for (int row = 0; row < 16; row += std::max(1, 32 / per_row)) {
    for (int lane = 0; lane < 32; ++lane)
      address[static_cast<std::size_t>(lane)] = o_read_.byte(lane, row, 0);
    worst = std::max(worst, layout::nvidia_banks(address, 16).conflicts());
  }
  return worst;
}

}  // namespace kiln::sm80
