// Page tables and packing against plain loops; scales against their definition; the reference over stored
// values and scales.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>

#include <kiln/error.hpp>

#include "workbench/problem/rounding.hpp"
#include "workbench/reference/reference.hpp"
#include "workbench/verify/ladder.hpp"

using namespace kiln;

namespace {

std::vector<std::byte> numbered_rows(std::int64_t count) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
  std::vector<std::byte> bytes(rows.size() * 4);
  std::memcpy(bytes.data(), rows.data(), bytes.size());
  return bytes;
}

std::int32_t row_at(const std::vector<std::byte>& bytes, std::int64_t row) {
  std::int32_t value;
  std::memcpy(&value, bytes.data() + row * 4, 4);
  return value;
}

std::string pages_refusal(const std::vector<std::int64_t>& lengths, std::int64_t max_pages,
                          const std::vector<std::int64_t>& entries) {
  try {
    given_pages(lengths, 4, max_pages, entries, "t.npy");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("random pages: every row in its place, everything else poison") {
  const std::vector<std::int64_t> lengths{5, 0, 16, 1, 33};
  for (const std::int64_t page_size : {1, 3, 16, 64}) {
    for (const std::uint64_t seed : {0, 1}) {
      CAPTURE(page_size);
      CAPTURE(seed);
      const PageTable table = random_pages(lengths, page_size, seed);
      std::set<std::int32_t> used;
      const std::vector<std::byte> packed = pack_pages(numbered_rows(55), 4, lengths, table, std::byte{0xff});
      CHECK(packed.size() == static_cast<std::size_t>(table.num_pages * table.page_size * 4));
      std::int32_t row = 0;
      std::size_t matched = 0;
      for (std::size_t b = 0; b < lengths.size(); ++b) {
        const auto pages = table.of(static_cast<std::int64_t>(b));
        for (std::int64_t i = 0; i < table.max_pages; ++i) {
          const std::int32_t page = pages[static_cast<std::size_t>(i)];
          const bool needed = i * page_size < lengths[b];
          CHECK((page >= 0 && page < table.num_pages) == needed);
          if (needed) CHECK(used.insert(page).second);
        }
        for (std::int64_t i = 0; i < lengths[b]; ++i, ++row) {
          const std::int64_t at = pages[static_cast<std::size_t>(i / page_size)] * page_size + i % page_size;
          matched += row_at(packed, at) == row ? 1 : 0;
        }
      }
      CHECK(matched == 55);
      std::size_t poison = 0;
      for (std::int64_t at = 0; at < table.num_pages * page_size; ++at)
        poison += row_at(packed, at) == -1 ? 1 : 0;
      CHECK(poison == static_cast<std::size_t>(table.num_pages * page_size - 55));
      CHECK(table.num_pages > static_cast<std::int64_t>(used.size()));
    }
  }
  CHECK(random_pages(lengths, 4, 1).entries != random_pages(lengths, 4, 2).entries);
  CHECK(random_pages(lengths, 4, 1).entries == random_pages(lengths, 4, 1).entries);
}

TEST_CASE("blocks and padded rows") {
  const std::vector<std::int64_t> lengths{2, 0, 3};
  const PageTable table = random_blocks(lengths, 3);
  CHECK(table.max_pages == 1);
  CHECK(table.page_size > 3);
  const auto packed = pack_pages(numbered_rows(5), 4, lengths, table, std::byte{0xff});
  CHECK(row_at(packed, table.entries[0] * table.page_size + 1) == 1);
  CHECK(row_at(packed, table.entries[2] * table.page_size + 2) == 4);
  CHECK(row_at(packed, table.entries[1] * table.page_size) == -1);
  const auto padded = pack_padded(numbered_rows(5), 4, lengths, 4, std::byte{0xff});
  const std::vector<std::int32_t> wanted{0, 1, -1, -1, -1, -1, -1, -1, 2, 3, 4, -1};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    CHECK(row_at(padded, static_cast<std::int64_t>(i)) == wanted[i]);
}

TEST_CASE("scales by head: a head's rows of a group together, padded to whole 16 bytes") {
  CHECK(padded_rows(0) == 0);
  CHECK(padded_rows(5) == 8);
  std::vector<float> rows(2 * 3 + 2 * 4);  // [token, head] of groups of 3 and 4 tokens
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const std::vector<std::byte> packed =
      pack_by_head(std::as_bytes(std::span(rows)), 2, {3, 4}, poison_of(DType::f32));
  std::vector<float> got(packed.size() / 4);
  std::memcpy(got.data(), packed.data(), packed.size());
  const float none = -1;
  for (float& x : got) x = std::isnan(x) ? none : x;
  CHECK(got == std::vector<float>{0, 2, 4, none, 1, 3, 5, none, 6, 8, 10, 12, 7, 9, 11, 13});
}

TEST_CASE("a given page table is checked entry by entry, unused ones aside") {
  CHECK(pages_refusal({5, 8}, 3, {7, 2, -9, 0, 1, 999999999}).empty());
  const PageTable table = given_pages({5, 8}, 4, 3, {7, 2, -9, 0, 1, 999999999}, "t.npy");
  CHECK(table.num_pages == 9);
  CHECK(table.entries[2] > 1 << 24);  // poison, whatever the file had
  CHECK(pages_refusal({5, 8}, 3, {7, -2, 0, 0, 1, 0}) ==
        "t.npy: entry [0, 1] is -2, page numbers are 0 to 16777215");
  CHECK(pages_refusal({5, 8}, 3, {7, 99999999, 0, 0, 1, 0}).find("entry [0, 1] is 99999999") !=
        std::string::npos);
  CHECK(pages_refusal({5, 8}, 3, {7, 2, 0, 7, 1, 0}) == "t.npy: page 7 is used twice");
  CHECK(pages_refusal({5, 13}, 3, {7, 2, 0, 3, 1, 0}).find("request 1 has 13 keys, 3 pages of 4") !=
        std::string::npos);
}

TEST_CASE("a pool is as large as what is used, whatever the page numbers are") {
  // 100001 pages of 64 rows would be gigabytes of K and V.
  const PageTable one = given_pages({40}, 64, 1, {100000}, "t.npy");
  CHECK(one.num_pages == 2);
  CHECK(one.entries == std::vector<std::int32_t>{0});
  const PageTable some = given_pages({8, 4}, 4, 2, {9000000, 5, 70000, -1}, "t.npy");
  CHECK(some.num_pages == 4);
  CHECK(some.entries[0] == 2);  // in the order of the numbers
  CHECK(some.entries[1] == 0);
  CHECK(some.entries[2] == 1);
  CHECK(given_pages({8, 4}, 4, 2, {19, 5, 17, -1}, "t.npy").entries[0] == 19);  // near enough
}

TEST_CASE("quantised values times their scales are near the values, group by group") {
  using Granularity = Quantization::Granularity;
  for (const DType dtype : {DType::int8, DType::fp8_e4m3}) {
    for (const Granularity granularity :
         {Granularity::per_tensor, Granularity::per_head, Granularity::per_token, Granularity::per_block}) {
      const std::vector<float> values = random_normal(7 * 3 * 20, 4, 0);
      std::vector<float> stored = values;
      const Scales scales = quantize({granularity, 8, DType::f32}, dtype, 3, 20, stored);
      CHECK(scales.values.size() == scale_count(scales, 7));
      double error = 0, norm = 0, largest = 0;
      for (std::int64_t t = 0; t < 7; ++t) {
        for (std::int64_t h = 0; h < 3; ++h) {
          for (std::int64_t d = 0; d < 20; ++d) {
            const auto i = static_cast<std::size_t>((t * 3 + h) * 20 + d);
            const double back = stored[i] * scales.at(t, h, d);
            error += (back - values[i]) * (back - values[i]);
            norm += values[i] * values[i];
            largest = std::fmax(largest, std::fabs(stored[i]));
          }
        }
      }
      CHECK(std::sqrt(error / norm) < (dtype == DType::int8 ? 0.01 : 0.04));
      CHECK(largest == (dtype == DType::int8 ? 127 : 448));
      std::vector<float> again = stored;
      round_to(dtype, again);
      CHECK(again == stored);
    }
  }
  CHECK(float_to_int8(0.5F) == 0);
  CHECK(float_to_int8(1.5F) == 2);
  CHECK(float_to_int8(-300.0F) == -127);
  CHECK(float_to_int8(NAN) == 0);
}

TEST_CASE("the reference multiplies stored values by their scales") {
  Config config;
  config.depth = 16;
  config.kv_dtype = DType::int8;
  config.operand = OperandConfig{
      OperandKind::ragged, {}, Quantization{Quantization::Granularity::per_block, 4, DType::f32}};
  ProblemShape shape;
  shape.heads_q = 4;
  shape.heads_kv = 2;
  shape.depth = shape.ov_depth = 16;
  shape.ragged = true;
  shape.lengths_q = {3, 1};
  shape.lengths_k = {9, 40};
  Workload work = random_workload(shape, config, 5);
  REQUIRE(work.k_scale);
  REQUIRE(work.v_scale);
  work.q_scale = 0.5;
  // The same problem with everything multiplied out.
  Workload plain = work;
  plain.k_scale.reset();
  plain.v_scale.reset();
  plain.q_scale = 1;
  for (float& x : plain.q) x *= 0.5F;
  for (std::int64_t t = 0; t < 49; ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t d = 0; d < 16; ++d) {
        const auto i = static_cast<std::size_t>((t * 2 + h) * 16 + d);
        plain.k[i] *= static_cast<float>(work.k_scale->at(t, h, d));
        plain.v[i] *= static_cast<float>(work.v_scale->at(t, h, d));
      }
    }
  }
  const Semantics semantics{MaskConfig{MaskConfig::Kind::causal, 0}, {}, 0.25, {}, {}, false};
  const auto rows = choose_rows(shape, semantics.mask, 1e300, 0);
  const Reference a = reference_attention(work, semantics, rows),
                  b = reference_attention(plain, semantics, rows);
  for (std::size_t i = 0; i < a.o.size(); ++i) CHECK(a.o[i] == doctest::Approx(b.o[i]).epsilon(1e-5));
  for (std::size_t i = 0; i < a.lse.size(); ++i) CHECK(a.lse[i] == doctest::Approx(b.lse[i]).epsilon(1e-5));
}

TEST_CASE("boundary cases of decode: few queries, page borders") {
  Config config;
  config.operation = Operation::decode;
  config.BN = 64;
  config.operand = OperandConfig{OperandKind::paged, 16, {}};
  bool empty = false, none = false, before = false, after = false;
  for (const LadderCase& c : boundary_cases(config, true)) {
    CHECK(c.q <= 16);
    empty = empty || c.k == 0;
    none = none || c.q == 0;
    before = before || c.k == 15;
    after = after || c.k == 17;
  }
  CHECK((empty && none && before && after));
}
