#include "generator/systems/sm80/smem_tile.hpp"

#include <algorithm>
#include <array>

#include "generator/layout/banks.hpp"
#include "generator/layout/layout.hpp"

namespace kiln::sm80 {

using layout::Coord;
using layout::MatrixOrder;

std::string swizzled_expression(const layout::Swizzle& s, const std::string& vector) {
  if (s.is_identity()) return vector;
  const int mask = ((1 << s.bits) - 1) << s.base;
  return fmt::format("({0} ^ (({0} >> {1}) & {2}))", vector, s.shift, mask);
}

LaneAddress::LaneAddress(std::string name, const SmemTile& tile, int lane_vectors)
    : name_(std::move(name)), tile_(tile), lane_vectors_(lane_vectors) {}

LaneAddress::Split LaneAddress::split(int row, int chunk) const {
  const int per_row = tile_.vectors_per_row();
  const auto vector = static_cast<std::uint32_t>(row * per_row + chunk % per_row);
  const int swizzled = static_cast<int>(tile_.swizzle(vector));
  const int low = swizzled % lane_vectors_;
  return {low, chunk / per_row * tile_.block_bytes() + (swizzled - low) * 16};
}

void LaneAddress::want(int row, int chunk) {
  lows_.insert(split(row, chunk).low);
}

void LaneAddress::emit(Writer& w, const std::string& base, const std::string& lane_vector,
                       const std::string& sub) const {
  w.line("const u32 {}_vector = {};", name_, lane_vector);
  w.line("const u32 {}_lane = {} * 16{};", name_, swizzled_expression(tile_.swizzle, name_ + "_vector"),
         sub.empty() ? "" : " + " + sub);
  for (int low : lows_) {
    if (low == 0) {
      w.line("const u32 {0}_0 = {1} + {0}_lane;", name_, base);
    } else {
      w.line("const u32 {0}_{2} = {1} + ({0}_lane ^ {2});", name_, base, low * 16);
    }
  }
}

std::string LaneAddress::at(int row, int chunk, int offset) const {
  const Split s = split(row, chunk);
  const int bytes = s.bytes + offset;
  return bytes == 0 ? fmt::format("{}_{}", name_, s.low * 16)
                    : fmt::format("{}_{} + {}", name_, s.low * 16, bytes);
}

std::uint32_t LaneAddress::byte(int lane_vector, int row, int chunk) const {
  const Split s = split(row, chunk);
  const std::uint32_t lane = tile_.swizzle(static_cast<std::uint32_t>(lane_vector)) * 16;
  return (lane ^ static_cast<std::uint32_t>(s.low * 16)) + static_cast<std::uint32_t>(s.bytes);
}

FragmentReader::FragmentReader(std::string name, const SmemTile& tile, MatrixOrder order)
    : tile_(tile), order_(order), name_(name), address_(std::move(name), tile, 16 * tile.vectors_per_row()) {
  for (int row = 0; row < tile.rows; row += 16) {
    for (int col = 0; col < tile.cols; col += 16) address_.want(row, col / 8);
  }
}

void FragmentReader::emit_construct(Writer& w, const std::string& base) const {
  const int per_row = tile_.vectors_per_row();
  address_.emit(w, base,
                order_ == MatrixOrder::rows_first
                    ? fmt::format("(lane & 15) * {} + (lane >> 4)", per_row)
                    : fmt::format("((lane & 7) + ((lane >> 4) << 3)) * {} + ((lane >> 3) & 1)", per_row));
}

int FragmentReader::bank_conflicts() const {
  int worst = 0;
  for (int row = 0; row < tile_.rows; row += 16) {
    for (int col = 0; col < tile_.cols; col += 16) {
      std::array<std::uint32_t, 32> address{};
      for (int lane = 0; lane < 32; ++lane) {
        const Coord source = layout::ldmatrix_source(order_, lane);
        address[static_cast<std::size_t>(lane)] = tile_.byte(row + source.row, col + 8 * source.col);
      }
      worst = std::max(worst, layout::nvidia_banks(address, 16).conflicts());
    }
  }
  return worst;
}

bool FragmentReader::proves() const {
  for (int row = 0; row < tile_.rows; row += 16) {
    for (int col = 0; col < tile_.cols; col += 16) {
      for (int lane = 0; lane < 32; ++lane) {
        const Coord source = layout::ldmatrix_source(order_, lane);
        const int vector = source.row * tile_.vectors_per_row() + source.col;
        if (address_.byte(vector, row, col / 8) != tile_.byte(row + source.row, col + 8 * source.col))
          return false;
      }
    }
  }
  return true;
}

TileCopy::TileCopy(const std::string& name, const SmemTile& tile, int num_threads, bool bytes)
    : tile_(tile),
      num_threads_(num_threads),
      bytes_(bytes),
      name_(name),
      address_(name + "_dst", tile, num_threads) {
  for (int pass = 0; pass < passes(); ++pass) address_.want(pass * rows_per_pass(), 0);
}

int TileCopy::passes() const {
  return (tile_.rows + rows_per_pass() - 1) / rows_per_pass();
}

void TileCopy::emit_construct(Writer& w, const std::string& base, bool names_row) const {
  const std::string row = fmt::format("{}_row = thread / {}, ", name_, tile_.vectors_per_row());
  w.line("const int {}{}_chunk = thread % {};", names_row ? row : "", name_, tile_.vectors_per_row());
  address_.emit(w, base, "thread");
}

void TileCopy::emit(Writer& w, int offset) const {
  emit_from(
      w, offset,
      [&](int pass) {
        if (pass == 0) return name_ + "_src";
        return pass == 1 ? fmt::format("{0}_src + {0}_pass", name_)
                         : fmt::format("{0}_src + {1} * {0}_pass", name_, pass);
      },
      [&](int pass) { return fmt::format("{}_rows > {}", name_, pass * rows_per_pass()); });
}

std::vector<TileCopy::Piece> TileCopy::pieces() const {
  const int per_row = tile_.vectors_per_row();
  std::vector<Piece> out;
  for (int block = 0; block < tile_.blocks(); ++block) {
    const int chunks = std::min(per_row, tile_.cols / 8 - block * per_row);
    for (int pass = 0; pass < passes(); ++pass) {
      std::string guard;
      const int left =
          (tile_.rows - pass * rows_per_pass()) * per_row;  // vectors of this block not yet copied
      if (left < num_threads_) guard = fmt::format("thread < {}", left);
      if (chunks < per_row)
        guard += fmt::format("{}{}_chunk < {}", guard.empty() ? "" : " && ", name_, chunks);
      out.push_back({block, pass, guard});
    }
  }
  return out;
}

std::string TileCopy::address(const Piece& piece, int offset) const {
  return address_.at(piece.pass * rows_per_pass(), piece.block * tile_.vectors_per_row(), offset);
}

void TileCopy::emit_from(Writer& w, int offset, const std::function<std::string(int)>& source,
                         const std::function<std::string(int)>& valid) const {
  emit_pieces(w, "", offset, source, valid);
}

void TileCopy::emit_from(Writer& w, const std::string& offset, const std::function<std::string(int)>& source,
                         const std::function<std::string(int)>& valid) const {
  emit_pieces(w, offset + " + ", 0, source, valid);
}

void TileCopy::emit_pieces(Writer& w, const std::string& further, int offset,
                           const std::function<std::string(int)>& source,
                           const std::function<std::string(int)>& valid) const {
  for (const Piece& piece : pieces()) {
    std::string src = source(piece.pass);
    if (piece.block > 0) src += fmt::format(" + {}", piece.block * tile_.block_cols * (bytes_ ? 2 : 1));
    if (bytes_) src = fmt::format("(const u16*)({})", src);
    w.line("{}cp_async_16({}{}, {}, {});", piece.guard.empty() ? "" : "if (" + piece.guard + ") ", further,
           address(piece, offset), src, valid(piece.pass));
  }
}

int TileCopy::bank_conflicts() const {
  int worst = 0;
  for (int first = 0; first < std::min(num_threads_, tile_.rows * tile_.vectors_per_row()); first += 32) {
    std::array<std::uint32_t, 32> address{};
    for (int lane = 0; lane < 32; ++lane)
      address[static_cast<std::size_t>(lane)] = address_.byte(first + lane, 0, 0);
    worst = std::max(worst, layout::nvidia_banks(address, 16).conflicts());
  }
  return worst;
}

bool TileCopy::proves() const {
  const int per_row = tile_.vectors_per_row();
  std::vector<int> written;
  for (int block = 0; block < tile_.blocks(); ++block) {
    for (int pass = 0; pass < passes(); ++pass) {
      for (int thread = 0; thread < num_threads_; ++thread) {
        const int row = pass * rows_per_pass() + thread / per_row, chunk = thread % per_row;
        if (row >= tile_.rows) continue;
        const std::uint32_t byte = address_.byte(thread, pass * rows_per_pass(), block * per_row);
        if (byte != tile_.byte(row, block * tile_.block_cols + 8 * chunk)) return false;
        written.push_back(static_cast<int>(byte / 16));
      }
    }
  }
  return layout::is_permutation(written);
}

}  // namespace kiln::sm80
