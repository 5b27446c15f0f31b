// Worked numbers of the operand family.
#include <doctest/doctest.h>

#include "generator/systems/mha_operand_constants.hpp"

using namespace kiln;

TEST_CASE("F-43 F-44 paged addresses") {
  const PagedGeometry cache{128, 8, 128, 32, 2};
  CHECK(cache.stride() == 8192);
  const std::uint32_t blocks[] = {7, 3, 11};
  const std::uint32_t block = blocks[300 / 128];
  CHECK(cache.row_idx(block, 300) == 90156);
  CHECK(cache.element(block, 300, 5, 64) == 92320448);
  CHECK(cache.num_kv_rows(100) == 811136);
  CHECK(cache.tma_row(11 * 128 + 44) == 90156);
}

TEST_CASE("F-47 F-48 and the table of 5.4: block-table loads of a tile") {
  struct Case {
    int BN, P, align, eff, pages, chunk, loads;
  };
  constexpr Case cases[] = {{128, 0, 128, 128, 1, 1, 1},  {128, 128, 16, 128, 1, 1, 1},
                            {128, 256, 16, 128, 1, 1, 1}, {128, 16, 128, 16, 8, 8, 1},
                            {128, 16, 16, 16, 8, 1, 8},   {128, 32, 128, 32, 4, 4, 1},
                            {192, 64, 192, 64, 3, 1, 3},  {256, 16, 256, 16, 16, 8, 2}};
  for (const Case& c : cases) {
    CAPTURE(c.BN);
    CAPTURE(c.P);
    const Populate plan = populate_plan(c.BN, c.P, c.align, 8);
    CHECK(plan.eff_page == c.eff);
    CHECK(plan.num_pages == c.pages);
    CHECK(plan.chunk == c.chunk);
    CHECK(plan.loads == c.loads);
  }
  CHECK(populate_plan(128, 16, 128, 4).loads == 2);
}

TEST_CASE("F-49 padded depth") {
  CHECK(padded_depth(2, 128, 80) == 128);
  CHECK(padded_depth(2, 128, 96) == 128);
  CHECK(padded_depth(2, 128, 576) == 576);
  CHECK(padded_depth(1, 128, 576) == 640);
  CHECK(padded_depth(1, 64, 576) == 576);
  CHECK(padded_depth(2, 128, 192) == 192);
}

TEST_CASE("F-50 to F-52 tensor-map forms") {
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 128, 128, 0, false) == 2);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 64, 128, 64, false) == 1);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 64, 128, 64, true) == 2);
  CHECK(kv_tma_fold_chunks(1, 64, 64, 128, 128, 128, 0, false) == 1);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 127, 128, 128, 0, false) == 1);
  CHECK(rope_map(512, 64).row_width == 320);
  CHECK(rope_map(512, 64).base_offset_bytes == 512);
  CHECK(gather4_plan(64, 576, 128, 2).box_width == 64);
  CHECK(gather4_plan(64, 576, 128, 2).issues == 144);
  CHECK(gather4_plan(64, 72, 0, 8).box_width == 72);
  CHECK(gather4_plan(64, 72, 0, 8).issues == 16);
}

TEST_CASE("F-67 scale addresses") {
  CHECK(scale_groups(128, 64) == 2);
  CHECK(scale_offset(3, 5, 63, 8, 128, 64) == 3 * 16 + 5 * 2 + 0);
  CHECK(scale_offset(3, 5, 64, 8, 128, 64) == 3 * 16 + 5 * 2 + 1);
  CHECK(scale_offset(0, 0, 99, 8, 100, 64) == 1);
}
