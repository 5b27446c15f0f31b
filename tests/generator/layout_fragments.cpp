// Register fragments: every map is a bijection and says what the documents' formulas say.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/layout/layout.hpp"
#include "generator/layout/mfma.hpp"
#include "generator/layout/mma_sync.hpp"
#include "generator/layout/wgmma.hpp"

using namespace kiln::layout;

TEST_CASE("mma.sync fragments are bijections and follow the PTX ISA") {
  for (int k : {16, 32}) {
    CHECK(mma_a(k).is_bijection());
    CHECK(mma_b(k).is_bijection());
  }
  CHECK(mma_c().is_bijection());
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane >> 2, t = lane & 3;
    const Coord a16[8] = {{g, 2 * t},     {g, 2 * t + 1},     {g + 8, 2 * t},     {g + 8, 2 * t + 1},
                          {g, 8 + 2 * t}, {g, 8 + 2 * t + 1}, {g + 8, 8 + 2 * t}, {g + 8, 8 + 2 * t + 1}};
    for (int e = 0; e < 8; ++e) CHECK(mma_a(16)(lane, e) == a16[e]);
    for (int j = 0; j < 4; ++j) {
      CHECK(mma_a(32)(lane, j) == Coord{g, 4 * t + j});
      CHECK(mma_a(32)(lane, 4 + j) == Coord{g + 8, 4 * t + j});
      CHECK(mma_a(32)(lane, 8 + j) == Coord{g, 16 + 4 * t + j});
      CHECK(mma_a(32)(lane, 12 + j) == Coord{g + 8, 16 + 4 * t + j});
      CHECK(mma_b(32)(lane, j) == Coord{4 * t + j, g});
      CHECK(mma_b(32)(lane, 4 + j) == Coord{16 + 4 * t + j, g});
    }
    for (int j = 0; j < 2; ++j) {
      CHECK(mma_b(16)(lane, j) == Coord{2 * t + j, g});
      CHECK(mma_b(16)(lane, 2 + j) == Coord{8 + 2 * t + j, g});
      CHECK(mma_c()(lane, j) == Coord{g, 2 * t + j});
      CHECK(mma_c()(lane, 2 + j) == Coord{g + 8, 2 * t + j});
    }
  }
}

TEST_CASE("P goes from accumulators to the A operand of the next product by renaming") {
  CHECK(accumulators_are_a_fragments());
}

TEST_CASE("ldmatrix delivers the operands it is used for") {
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < 8; ++e) {
      // Q and P: A operand, rows = m.
      MatrixElement x = ldmatrix(lane, e, false);
      Coord origin = matrix_origin(MatrixOrder::rows_first, x.matrix);
      CHECK(mma_a(16)(lane, e) == Coord{origin.row + x.row, origin.col + x.col});
      // K: memory rows = n, columns = k; registers 0 1 are B of n 0..7, registers 2 3 of n 8..15.
      origin = matrix_origin(MatrixOrder::cols_first, x.matrix);
      Coord b = mma_b(16)(lane, e % 4);
      CHECK(Coord{origin.row + x.row, origin.col + x.col} == Coord{b.col + 8 * (e / 4), b.row});
      // V: memory rows = k (keys), columns = n (depth), transposed on the way.
      x = ldmatrix(lane, e, true);
      origin = matrix_origin(MatrixOrder::rows_first, x.matrix);
      CHECK(Coord{origin.row + x.row, origin.col + x.col} == Coord{b.row, b.col + 8 * (e / 4)});
    }
    for (MatrixOrder order : {MatrixOrder::rows_first, MatrixOrder::cols_first}) {
      const Coord source = ldmatrix_source(order, lane), origin = matrix_origin(order, lane / 8);
      CHECK(source == Coord{origin.row + lane % 8, origin.col / 8});
    }
  }
}

TEST_CASE("wgmma fragments for every N") {
  CHECK(wgmma_a(16).is_bijection());
  CHECK(wgmma_a(32).is_bijection());
  for (int n = 8; n <= 256; n += 8) CHECK(wgmma_c(n).is_bijection());
  for (int lane = 0; lane < 128; ++lane) {
    const int w = lane / 32, g = lane % 32 >> 2, t = lane & 3;
    for (int i = 0; i < 128; ++i) {
      CHECK(wgmma_c(256)(lane, i) == Coord{16 * w + g + 8 * ((i >> 1) & 1), 8 * (i >> 2) + 2 * t + (i & 1)});
    }
    CHECK(wgmma_a(16)(lane, 2) == Coord{16 * w + g + 8, 2 * t});
  }
}

TEST_CASE("fp8 P from S: the key permutation that V must share") {
  // Register order of P bytes in S: a0 = S0 S1 S4 S5, a1 = S2 S3 S6 S7, a2 = S8 S9 S12 S13, a3 = S10 S11 S14
  // S15.
  constexpr int kScore[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  for (int lane = 0; lane < 128; ++lane) {
    for (int e = 0; e < 16; ++e) {
      const Coord slot = wgmma_a(32)(lane, e), score = wgmma_c(32)(lane, kScore[e]);
      CHECK(slot.row == score.row);
      const int group = score.col / 16, r = score.col % 16;
      const int s = r < 8 ? 4 * (r >> 1) + (r & 1) : 4 * ((r - 8) >> 1) + 2 + (r & 1);
      CHECK(slot.col == 16 * group + s);
    }
  }
}

TEST_CASE("MFMA maps agree with the recorded tables of gfx90a and gfx942") {
  const auto path = std::filesystem::path(KILN_SOURCE_DIR) / "tests/data/mfma_layouts.json";
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, path.string());
  const auto facts = kiln::json_of(std::string(std::istreambuf_iterator<char>(in), {}));
  int checked = 0;
  for (const auto& inst : facts["instructions"]) {
    if (inst["blocks"] != 1 || inst["M"] == 4) continue;
    const MfmaShape shape{inst["M"], inst["N"], inst["K"]};
    const auto held = [&](const char* operand, int lane, int e) {
      const auto& entry = facts["tables"][inst[operand].get<std::size_t>()][lane][e];
      return Coord{entry[0], entry[1]};
    };
    CAPTURE(inst["isa"]);
    for (int lane = 0; lane < 64; ++lane) {
      for (int e = 0; e < shape.a_elements(); ++e) {
        CHECK(held("A", lane, e) == mfma_a(shape)(lane, e));
        CHECK(held("B", lane, e) == Coord{mfma_a(shape)(lane, e).col, mfma_a(shape)(lane, e).row});
      }
      for (int e = 0; e < shape.c_elements(); ++e) CHECK(held("D", lane, e) == mfma_c(shape)(lane, e));
    }
    ++checked;
  }
  CHECK(checked >= 12);
}

TEST_CASE("MFMA fragments cover their tiles once (G-04) and give the worked rows (F-37..F-42)") {
  for (MfmaShape s :
       {MfmaShape{32, 32, 16}, {16, 16, 32}, {32, 32, 8}, {16, 16, 16}, {32, 32, 64}, {16, 16, 128}}) {
    CHECK(mfma_a(s).is_bijection());
    CHECK(mfma_c(s).is_bijection());
  }
  CHECK(mfma_a_two_half({32, 32, 64}).is_bijection());
  CHECK(mfma_a_two_half({16, 16, 128}).is_bijection());
  for (VForm form : {VForm::tr32, VForm::tr16, VForm::tr8_32, VForm::tr8_16})
    CHECK(v_fragment(form).is_bijection());
  CHECK(v_fragment(VForm::block16, 32).is_bijection());
  CHECK(v_fragment(VForm::block32, 16).is_bijection());

  CHECK(mfma_a_two_half({16, 16, 128})(45, 0) == Coord{13, 32});  // F-38
  CHECK(mfma_a_two_half({16, 16, 128})(45, 31) == Coord{13, 111});
  CHECK(mfma_a_two_half({32, 32, 64})(45, 15) == Coord{13, 31});  // F-39
  CHECK(mfma_a_two_half({32, 32, 64})(45, 16) == Coord{13, 48});
  constexpr int tr32[8] = {4, 5, 6, 7, 12, 13, 14, 15}, tr16[8] = {8, 9, 10, 11, 24, 25, 26, 27};
  for (int e = 0; e < 8; ++e) {
    CHECK(v_fragment(VForm::tr32)(37, e) == Coord{tr32[e], 5});  // F-40
    CHECK(v_fragment(VForm::tr16)(37, e) == Coord{tr16[e], 5});  // F-41
  }
  constexpr int rows[16] = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
  for (int p = 0; p < 16; ++p) CHECK(mfma_c({32, 32, 16})(33, p) == Coord{rows[p], 1});  // F-42
}

TEST_CASE("S^T registers go to PV in V's key order (G-05,)") {
  for (int lane = 0; lane < 64; ++lane) {
    for (int p = 0; p < 16; ++p) {
      CHECK(mfma_c({32, 32, 16})(lane, p).row == 16 * (p / 8) + v_fragment(VForm::tr32)(lane, p % 8).row);
    }
    for (int e = 0; e < 32; ++e) {
      CHECK(32 * (e / 16) + mfma_c({32, 32, 64})(lane, e % 16).row == v_fragment(VForm::tr8_32)(lane, e).row);
    }
  }
  for (int g = 0; g < 4; ++g) {
    for (int e = 0; e < 8; ++e) {
      CHECK(p_slot_key({16, 16, 32}, {16, 16, 32}, g, e) == 16 * (e / 4) + 4 * g + e % 4);
      CHECK(p_slot_key({16, 16, 32}, {16, 16, 32}, g, e) == v_fragment(VForm::tr16)(16 * g, e).row);
    }
    for (int e = 0; e < 4; ++e) CHECK(p_slot_key({16, 16, 16}, {16, 16, 16}, g, e) == 4 * g + e);
  }
  for (int g = 0; g < 2; ++g) {
    for (int e = 0; e < 32; ++e) {
      CHECK(p_slot_key({32, 32, 64}, {32, 32, 64}, g, e) == 32 * (e / 16) + 8 * (e % 16 / 4) + 4 * g + e % 4);
    }
  }
}
