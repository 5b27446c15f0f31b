// Worked numbers of the operand family.
#include <doctest/doctest.h>

#include "generator/systems/mha_operand_constants.hpp"

using namespace kiln;

TEST_CASE("F-49 padded depth") {
  CHECK(padded_depth(2, 128, 80) == 128);
  CHECK(padded_depth(2, 128, 96) == 128);
  CHECK(padded_depth(2, 128, 576) == 576);
  CHECK(padded_depth(1, 128, 576) == 640);
  CHECK(padded_depth(1, 64, 576) == 576);
  CHECK(padded_depth(2, 128, 192) == 192);
}

TEST_CASE("F-50 and F-51 tensor-map forms") {
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 128, 128, 0, false) == 2);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 64, 128, 64, false) == 1);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 128, 64, 128, 64, true) == 2);
  CHECK(kv_tma_fold_chunks(1, 64, 64, 128, 128, 128, 0, false) == 1);
  CHECK(kv_tma_fold_chunks(2, 128, 128, 127, 128, 128, 0, false) == 1);
  CHECK(rope_map(512, 64).row_width == 320);
  CHECK(rope_map(512, 64).base_offset_bytes == 512);
}

TEST_CASE("F-52 boxes and instructions of gather4") {
  CHECK(gather4_box_width(2, 128, 576) == 64);
  CHECK(gather4_issues(64, 576, 64) == 144);
  CHECK(gather4_box_width(8, 0, 72) == 72);
  CHECK(gather4_issues(64, 72, 72) == 16);
}
