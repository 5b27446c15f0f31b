// The append kernel on the emulated device: rows land in their pages, converted and scaled as the host's
// quantisation does it; everything else in the pool keeps its bytes; bad pages are left alone.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <kiln/kiln.hpp>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "generator/config/quantization.hpp"
#include "tests/serving/emulated.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/problem/workload.hpp"

using namespace kiln;
using kiln::test::download;
using kiln::test::emulated;
using kiln::test::ints;
using kiln::test::upload;

namespace {

constexpr std::int64_t kAppendHeads = 2, kAppendDepth = 96, kAppendPage = 8;

Config append_config(const std::string& keys) {
  nlohmann::ordered_json config = {{"target", "sm_80"},
                                   {"operation", "decode"},
                                   {"dtype", "bf16"},
                                   {"depth", kAppendDepth},
                                   {"operand", {{"kind", "paged"}, {"page_size", kAppendPage}}}};
  config.merge_patch(json_of("{" + keys + "}"));
  return parse_config(write_json(config), "test");
}

}  // namespace

TEST_CASE("rows are stored as the host stores them, and nothing else changes") {
  const char* const configs[] = {
      R"()",
      R"("kv_dtype": "fp8_e4m3")",
      R"("kv_dtype": "int8", "dtype": "fp16", "operand": {"quantization": {"granularity": "per_tensor"}})",
      R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": "per_head"}})",
      R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": "per_token"}})",
      R"("kv_dtype": "int8", "operand": {"quantization": {"granularity": 32}})",
      R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": 64}})",
      R"("kv_dtype": "int8", "operand": {"quantization": {"granularity": "per_token", "layout": "head_major"}})",
      R"("kv_dtype": "fp8_e4m3", "operand": {"quantization": {"granularity": 32, "scale_dtype": "ue8m0"}})",
      R"("dtype": "fp16", "kv_dtype": "fp4_e2m1", "operand": {"quantization": {"granularity": 16, "scale_dtype": "fp8_e4m3"}})",
      R"("cache_depth": 160, "head_dim_offset": 32)",
      R"("num_q_heads": 8, "kv_num_heads": 2)",
      R"("kv_dtype": "int8", "cache_depth": 112, "operand": {"quantization": {"granularity": "per_token"}})",
  };
  // Two sequences with 5 and 3 new rows at the ends of 11 and 3 tokens, and one with none; page 1 of the
  // first crosses a border.
  const std::vector<std::int32_t> table{6, 2, 99, 4, -7, -7, 99, 99, 99}, lengths{11, 3, 0},
      offsets{0, 5, 8, 8};
  const std::int64_t pages = 7, rows = 8;
  for (const char* keys : configs) {
    const std::string text = keys;
    CAPTURE(text);
    const Config config = append_config(keys);
    const DType stored = config.kv_dtype.value_or(config.dtype);
    const auto quantization = config.operand->quantization;
    const bool by_head = scales_by_head(quantization);
    const std::int64_t depth = kAppendDepth / numbers_of(stored),
                       row_depth = config.cache_depth.value_or(depth),
                       first = config.head_dim_offset.value_or(0);
    std::vector<float> k = random_normal(static_cast<std::size_t>(rows * kAppendHeads * kAppendDepth), 1, 0),
                       v = random_normal(k.size(), 1, 1);
    round_to(config.dtype, k);
    round_to(config.dtype, v);
    const auto kernel = emulated().load(make_append_kernel(config));
    CHECK(kernel->binary().warnings.empty());
    const std::size_t pool =
        static_cast<std::size_t>(pages * kAppendPage * kAppendHeads * row_depth) * size_of(stored);
    DeviceBuffer k_pool = emulated().allocate(pool), v_pool = emulated().allocate(pool);
    k_pool.fill(std::byte{0xa5});
    v_pool.fill(std::byte{0xa5});
    const DeviceBuffer new_k = upload(encode(config.dtype, k)), new_v = upload(encode(config.dtype, v)),
                       d_table = ints(table), d_lengths = ints(lengths), d_offsets = ints(offsets);
    // What the host would store: by token and group its own scales, else scales that are given.
    std::vector<float> k_stored = k;
    Scales scales;
    if (quantization) {
      scales = quantize(*quantization, stored, kAppendHeads, kAppendDepth, k_stored);
    } else {
      round_to(stored, k_stored);
    }
    AppendArgs args;
    args.new_k = Tensor::dense(new_k.address(), config.dtype, {rows, kAppendHeads, kAppendDepth});
    args.new_v = Tensor::dense(new_v.address(), config.dtype, {rows, kAppendHeads, kAppendDepth});
    args.k = Tensor::dense(k_pool.address(), stored, {pages, kAppendPage, kAppendHeads, row_depth});
    args.v = Tensor::dense(v_pool.address(), stored, {pages, kAppendPage, kAppendHeads, row_depth});
    args.page_table = Tensor::dense(d_table.address(), DType::i32, {3, 3});
    args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {3});
    args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {4});
    args.max_rows = 5;
    DeviceBuffer k_scale, v_scale, factors;
    std::size_t per_row = 0;
    if (quantization) {
      std::vector<std::int64_t> shape{static_cast<std::int64_t>(scales.values.size())};
      std::vector<float> given = scales.values;
      const DType type = quantization->scale_dtype;
      if (scales.by_token()) {
        per_row = static_cast<std::size_t>(kAppendHeads * scales.groups());
        shape = {pages, kAppendPage, kAppendHeads};
        if (by_head) shape = {pages, kAppendHeads, kAppendPage};
        if (scales.groups() > 1) shape.push_back(scales.groups());
        given.assign(static_cast<std::size_t>(pages * kAppendPage) * per_row, -5.0F);
      }
      k_scale = upload(encode(type, given));
      v_scale = upload(encode(type, given));
      args.k_scale = Tensor::dense(k_scale.address(), type, shape);
      args.v_scale = Tensor::dense(v_scale.address(), type, shape);
      const float two[] = {scales.factor, scales.factor};
      factors = upload(std::as_bytes(std::span(two)));
      if (stored == DType::fp4_e2m1) args.kv_factors = Tensor::dense(factors.address(), DType::f32, {2});
    }
    const auto report = append_kv(*kernel, args);
    REQUIRE(report);
    for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);

    // Tokens 6..10 of the first sequence, 0..2 of the second.
    const std::vector<std::byte> wanted = encode(stored, k_stored), got = download(k_pool);
    const std::vector<std::byte> got_scales = per_row > 0 ? download(k_scale) : std::vector<std::byte>();
    const auto size = static_cast<std::int64_t>(size_of(stored));
    std::vector<std::byte> expected(pool, std::byte{0xa5});
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t b = row < 5 ? 0 : 1, token = row < 5 ? 6 + row : row - 5;
      const std::int64_t at =
          table[static_cast<std::size_t>(b * 3 + token / kAppendPage)] * kAppendPage + token % kAppendPage;
      for (std::int64_t h = 0; h < kAppendHeads; ++h) {
        std::copy_n(wanted.begin() + (row * kAppendHeads + h) * depth * size, depth * size,
                    expected.begin() + ((at * kAppendHeads + h) * row_depth + first) * size);
      }
      for (std::size_t i = 0; i < per_row; ++i) {
        const auto head = static_cast<std::int64_t>(i);
        const std::int64_t place =
            by_head ? (at / kAppendPage * kAppendHeads + head) * kAppendPage + at % kAppendPage
                    : at * static_cast<std::int64_t>(per_row) + head;
        const DType type = quantization->scale_dtype;
        const std::span one(got_scales.data() + static_cast<std::size_t>(place) * size_of(type),
                            size_of(type));
        CHECK(decode(type, one).front() == scales.values[static_cast<std::size_t>(row) * per_row + i]);
      }
    }
    CHECK(got == expected);
    // V of the last new row, to see that it is V.
    if (!quantization) {
      round_to(stored, v);
      const std::vector<float> v_got = decode(stored, download(v_pool));
      const std::int64_t at = (4 * kAppendPage + 2) * kAppendHeads * row_depth + first;
      CHECK(v_got[static_cast<std::size_t>(at)] ==
            v[static_cast<std::size_t>(7 * kAppendHeads * kAppendDepth)]);
    }
  }
}

TEST_CASE("new rows of K are rotated") {
  // Two sequences with 3 and 2 new rows at the ends of 9 and 2 tokens; the first 32 of 96 columns are turned.
  const std::vector<std::int32_t> table{1, 0, 2, 9}, lengths{9, 2}, offsets{0, 3, 5}, given{4, 19};
  const std::int64_t pages = 3, rows = 5, half = 16, positions = 20;
  using Pairs = AppendRotary::Pairs;
  for (const AppendRotary rotary : {AppendRotary{Pairs::interleaved, false},
                                    AppendRotary{Pairs::halves, false}, AppendRotary{Pairs::halves, true}}) {
    for (const char* keys : {R"("dtype": "fp16")", R"("dtype": "bf16", "kv_dtype": "fp8_e4m3")"}) {
      CAPTURE(keys);
      const Config config = append_config(keys);
      const bool fixed = rotary.fixed, pairs = rotary.pairs == Pairs::interleaved;
      const DType stored = config.kv_dtype.value_or(config.dtype);
      std::vector<float> k = random_normal(static_cast<std::size_t>(rows * kAppendHeads * kAppendDepth), 1,
                                           0),
                         angles = random_normal(static_cast<std::size_t>(positions * half), 1, 2), cosines,
                         sines;
      for (const float angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
      for (auto* values : {&k, &cosines, &sines}) round_to(config.dtype, *values);
      const auto kernel = emulated().load(make_append_kernel(config, rotary));
      const auto pool_values = static_cast<std::size_t>(pages * kAppendPage * kAppendHeads * kAppendDepth);
      DeviceBuffer k_pool = emulated().allocate(pool_values * size_of(stored)),
                   v_pool = emulated().allocate(pool_values * size_of(stored));
      const DeviceBuffer new_k = upload(encode(config.dtype, k)),
                         d_cos = upload(encode(config.dtype, cosines)),
                         d_sin = upload(encode(config.dtype, sines)), d_table = ints(table),
                         d_lengths = ints(lengths), d_offsets = ints(offsets), d_given = ints(given);
      AppendArgs args;
      args.new_k = args.new_v =
          Tensor::dense(new_k.address(), config.dtype, {rows, kAppendHeads, kAppendDepth});
      args.k = Tensor::dense(k_pool.address(), stored, {pages, kAppendPage, kAppendHeads, kAppendDepth});
      args.v = Tensor::dense(v_pool.address(), stored, {pages, kAppendPage, kAppendHeads, kAppendDepth});
      args.page_table = Tensor::dense(d_table.address(), DType::i32, {2, 2});
      args.seqlens_k = Tensor::dense(d_lengths.address(), DType::i32, {2});
      args.cu_seqlens_q = Tensor::dense(d_offsets.address(), DType::i32, {3});
      args.rotary_cos = Tensor::dense(d_cos.address(), config.dtype, {positions, half});
      args.rotary_sin = Tensor::dense(d_sin.address(), config.dtype, {positions, half});
      if (fixed) args.rotary_seqlens = Tensor::dense(d_given.address(), DType::i32, {2});
      args.max_rows = 3;
      const auto report = append_kv(*kernel, args);
      REQUIRE(report);
      for (const auto& finding : report->findings) FAIL_CHECK(finding.kind, ": ", finding.message);
      const std::vector<float> k_got = decode(stored, download(k_pool)),
                               v_got = decode(stored, download(v_pool));
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t b = row < 3 ? 0 : 1, token = row < 3 ? 6 + row : row - 3;
        const std::int64_t turn =
            std::min(fixed ? std::int64_t{given[static_cast<std::size_t>(b)]} : token, positions - 1);
        const std::int64_t at =
            table[static_cast<std::size_t>(b * 2 + token / kAppendPage)] * kAppendPage + token % kAppendPage;
        for (std::int64_t h = 0; h < kAppendHeads; ++h) {
          const float* from = &k[static_cast<std::size_t>((row * kAppendHeads + h) * kAppendDepth)];
          for (std::int64_t d = 0; d < kAppendDepth; ++d) {
            double wanted = from[d];
            if (d < 2 * half) {
              const std::int64_t i = pairs ? d / 2 : d % half, first = pairs ? 2 * i : i,
                                 second = pairs ? 2 * i + 1 : i + half;
              const double c = cosines[static_cast<std::size_t>(turn * half + i)],
                           s = sines[static_cast<std::size_t>(turn * half + i)];
              wanted = d == first ? from[first] * c - from[second] * s : from[first] * s + from[second] * c;
            }
            const auto place = static_cast<std::size_t>((at * kAppendHeads + h) * kAppendDepth + d);
            const double step = stored == DType::fp8_e4m3 ? 0.07 : 0.001;  // of its rounding
            CHECK(k_got[place] == doctest::Approx(wanted).epsilon(step).scale(step < 0.01 ? 1 : 2));
            if (stored == config.dtype) CHECK(v_got[place] == from[d]);
          }
        }
      }
    }
  }
  CHECK_THROWS_AS(
      make_append_kernel(append_config(R"("target": "gfx942")"), {AppendRotary::Pairs::halves, false}),
      Error);
}

TEST_CASE("what has no pages or cannot be stored gets no append kernel") {
  const auto refusal = [](const std::string& keys) {
    try {
      make_append_kernel(append_config(keys));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal("").empty());
  CHECK(refusal(R"("operand": {"kind": "ragged", "page_size": null})").find("no append kernel") == 0);
  CHECK(refusal(R"("kv_dtype": "int8", "operand": {"quantization": {"granularity": 48}})")
            .find("a scale covers") != std::string::npos);
  CHECK(refusal(R"("cache_depth": 128, "head_dim_offset": 48)").find("must hold") != std::string::npos);
  CHECK(refusal(R"("cache_depth": 128, "head_dim_offset": 4)").find("multiples of 16") != std::string::npos);
  CHECK(refusal(R"("target": "gfx942")").find("gfx942") != std::string::npos);
}
