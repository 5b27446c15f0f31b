// Shared-memory tiles of sm_80 code: split addresses equal the layout, and the proofs notice when they would
// not.
#include <doctest/doctest.h>

#include "generator/systems/sm80/smem_tile.hpp"
#include "generator/systems/sm80/tile_widening.hpp"

using namespace kiln;
using namespace kiln::sm80;
using layout::MatrixOrder;
using layout::Swizzle;

TEST_CASE("copies and fragment reads are proven for every block width, swizzle and thread count") {
  for (int block_cols : {16, 32, 64, 128}) {
    for (Swizzle swizzle : {Swizzle{}, Swizzle{1, 0, 3}, Swizzle{2, 0, 3}, Swizzle{3, 0, 3}, Swizzle{3, 0, 4},
                            Swizzle{2, 1, 3}}) {
      if (!swizzle.is_identity() && 1 << (swizzle.bits + swizzle.base + swizzle.shift) > 2 * block_cols)
        continue;
      const SmemTile tile{48, 2 * block_cols, block_cols, swizzle};
      CHECK(tile.layout().is_bijection());
      CHECK(FragmentReader("f", tile, MatrixOrder::rows_first).proves());
      CHECK(FragmentReader("f", tile, MatrixOrder::cols_first).proves());
      for (int threads : {32, 64, 128, 256, 512}) CHECK(TileCopy("t", tile, threads).proves());
    }
  }
}

TEST_CASE("bytes that are widened go where the 16-bit tile has their elements") {
  struct Case {
    int block_cols;
    Swizzle swizzle;
  };
  for (const Case& c : {Case{16, {1, 0, 3}}, Case{32, {2, 0, 3}}, Case{64, {3, 0, 3}}}) {
    for (const int rows : {16, 48, 64, 128}) {
      const SmemTile wide{rows, c.block_cols + 16, c.block_cols, c.swizzle}, bytes = tile_of_bytes(wide);
      for (const int threads : {32, 64, 128, 256, 512}) {
        const TileCopy copy("k", bytes, threads, true);
        const TileWidening widening("k", wide, threads, DType::int8, DType::bf16);
        CHECK(copy.proves());
        CHECK(copy.bank_conflicts() == 0);
        CHECK(widening.proves(copy));
        CHECK(widening.bank_conflicts() == 0);
      }
    }
  }
  // Rows of 256 bytes: eight lanes' vectors lie in four banks' worth of two lines.
  CHECK(TileWidening("k", SmemTile{64, 128, 128, {3, 0, 4}}, 128, DType::int8, DType::bf16).bank_conflicts() >
        0);
  // The bytes of another tile are not this one's.
  const SmemTile wide{64, 64, 64, {3, 0, 3}}, narrow{64, 64, 32, {2, 0, 3}};
  CHECK_FALSE(TileWidening("k", wide, 128, DType::int8, DType::bf16)
                  .proves(TileCopy("k", tile_of_bytes(narrow), 128, true)));
}

TEST_CASE("a lane part that is no power of two breaks the split, and the proof says so") {
  CHECK_FALSE(TileCopy("t", SmemTile{64, 128, 64, {3, 0, 3}}, 48).proves());
}

TEST_CASE("a partial last block is laid out whole and copied in part") {
  const SmemTile tile{16, 80, 64, {3, 0, 3}};
  CHECK(tile.blocks() == 2);
  CHECK(tile.bytes() == 2 * 16 * 128);
  Writer w;
  TileCopy("k", tile, 32).emit(w, 0);
  CHECK(w.text().find("if (k_chunk < 2) cp_async_16(k_dst_0 + 2048, k_src + 64, k_rows > 0);\n") !=
        std::string::npos);
}

TEST_CASE("more threads than vectors of a block: the rest stay idle") {
  Writer w;
  TileCopy("k", SmemTile{16, 64, 64, {3, 0, 3}}, 256).emit(w, 4096);
  CHECK(w.text() == "if (thread < 128) cp_async_16(k_dst_0 + 4096, k_src, k_rows > 0);\n");
}

TEST_CASE("emitted addresses: one register per distinct XOR, literals for the rest") {
  const SmemTile tile{64, 128, 64, {3, 0, 3}};
  const FragmentReader reader("k_frag", tile, MatrixOrder::cols_first);
  Writer w;
  reader.emit_construct(w, "smem_k");
  CHECK(w.text() ==
        "const u32 k_frag_vector = ((lane & 7) + ((lane >> 4) << 3)) * 8 + ((lane >> 3) & 1);\n"
        "const u32 k_frag_lane = (k_frag_vector ^ ((k_frag_vector >> 3) & 7)) * 16;\n"
        "const u32 k_frag_0 = smem_k + k_frag_lane;\n"
        "const u32 k_frag_32 = smem_k + (k_frag_lane ^ 32);\n"
        "const u32 k_frag_64 = smem_k + (k_frag_lane ^ 64);\n"
        "const u32 k_frag_96 = smem_k + (k_frag_lane ^ 96);\n");
  CHECK(reader.at(0, 0) == "k_frag_0");
  CHECK(reader.at(16, 16) == "k_frag_32 + 2048");
  CHECK(reader.at(48, 112, 32768) == "k_frag_96 + 47104");
}
