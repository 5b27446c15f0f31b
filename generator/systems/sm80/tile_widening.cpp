#include "generator/systems/sm80/tile_widening.hpp"

#include <algorithm>
#include <array>

#include "generator/layout/banks.hpp"

namespace kiln::sm80 {
namespace {

constexpr std::size_t kAtOnce = 4;  // pieces whose bytes are on their way together, in four registers each

}  // namespace

std::string widen_function(DType stored, DType compute) {
  return fmt::format("widen_{}_{}", stored == DType::int8 ? "int8" : "e4m3", to_string(compute));
}

SmemTile tile_of_bytes(const SmemTile& wide) {
  return {wide.rows, wide.cols / 2, wide.block_cols / 2, {}};
}

// Two vectors of 8 elements come of 16 bytes: thread t, which has vector t of the bytes, has 2 t and 2 t + 1.
TileWidening::TileWidening(const std::string& name, const SmemTile& wide, int num_threads, DType stored,
                           DType compute)
    : wide_(wide),
      num_threads_(num_threads),
      widen_(widen_function(stored, compute)),
      address_(name + "_wide", wide, 2 * num_threads) {
  const int rows = num_threads / tile_of_bytes(wide).vectors_per_row();
  for (int row = 0; row < wide.rows; row += rows) {
    for (int half = 0; half < 2; ++half) address_.want(row, half);
  }
}

void TileWidening::use(Prelude& prelude) const {
  prelude.use("shared_128");
  prelude.use(widen_);
  std::string text =
      "// 16 bytes of a row to its 16 elements: widening takes even and odd bytes apart, so they are put so\n"
      "// that elements come out in order.\n"
      "__device__ __forceinline__ void widen_row(u32* wide, const u32* x) {\n";
  for (int i = 0; i < 4; ++i)
    text += fmt::format("  {}(wide + {}, __byte_perm(x[{}], 0u, 0x3120));\n", widen_, 2 * i, i);
  prelude.add("widen_row", text + "}\n");
}

void TileWidening::emit_construct(Writer& w, const std::string& base) const {
  address_.emit(w, base, "2 * thread");
}

void TileWidening::emit(Writer& w, const TileCopy& copy, int offset) const {
  const auto pieces = copy.pieces();
  const int per_row = wide_.vectors_per_row();
  for (std::size_t first = 0; first < pieces.size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, pieces.size() - first);
    const auto guarded = [&](std::size_t i, const std::string& text) {
      const std::string& guard = pieces[first + i].guard;
      w.line(guard.empty() ? text : fmt::format("if ({}) {{ {} }}", guard, text));
    };
    w.open("");
    w.line("u32 bytes[{}], wide[8];", 4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      guarded(
          i, fmt::format("load_shared_128(bytes + {}, {});", 4 * i, copy.address(pieces[first + i], offset)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto& piece = pieces[first + i];
      const int row = piece.pass * copy.rows_per_pass(), chunk = piece.block * per_row;
      guarded(i, fmt::format(
                     "widen_row(wide, bytes + {}); store_shared_128({}, wide); store_shared_128({}, wide + "
                     "4);",
                     4 * i, address_.at(row, chunk), address_.at(row, chunk + 1)));
    }
    w.close();
  }
}

int TileWidening::bank_conflicts() const {
  const int vectors = wide_.rows * wide_.vectors_per_row() / 2;  // of bytes, in a block
  int worst = 0;
  std::array<std::uint32_t, 32> address{};
  for (int first = 0; first < std::min(num_threads_, vectors); first += 32) {
    for (int half = 0; half < 2; ++half) {
      for (int lane = 0; lane < 32; ++lane)
        address[static_cast<std::size_t>(lane)] = address_.byte(2 * (first + lane), 0, half);
      worst = std::max(worst, layout::nvidia_banks(address, 16).conflicts());
    }
  }
  return worst;
}

bool TileWidening::proves(const TileCopy& copy) const {
  const int per_row = wide_.vectors_per_row() / 2;
  if (copy.rows_per_pass() != num_threads_ / per_row) return false;  // other threads' bytes
  for (const auto& piece : copy.pieces()) {
    for (int thread = 0; thread < num_threads_; ++thread) {
      const int first = piece.pass * copy.rows_per_pass(), row = first + thread / per_row;
      if (row >= wide_.rows) continue;
      for (int half = 0; half < 2; ++half) {
        const int column = piece.block * wide_.block_cols + 16 * (thread % per_row) + 8 * half;
        const int chunk = piece.block * wide_.vectors_per_row() + half;
        if (address_.byte(2 * thread, first, chunk) != wide_.byte(row, column)) return false;
      }
    }
  }
  return true;
}

}  // namespace kiln::sm80
