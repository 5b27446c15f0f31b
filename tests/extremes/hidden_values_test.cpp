// NaN and infinity in V of keys that a mask hides from some rows of a tile and not from others: in the rows that
// see the key, and in no others. The matrix instructions multiply whole tiles, and 0 x NaN is NaN.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <kiln/kiln.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "generator/config/json_text.hpp"
#include "generator/schedules/schedule.hpp"
#include "tests/emulated_options.hpp"
#include "workbench/reference/check.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::emulated;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  const char* target;
  const char* operation;
  const char* keys;
  std::int64_t rows_q = 150, heads = 2;
  bool longer = false;  ///< only where there is time
};
constexpr const char *kPrefill = "prefill", *kDecode = "decode";
const Case kCases[] = {
    {"sm_80", kPrefill, R"("mask": "causal")"},
    {"sm_80", kPrefill, R"("mask": {"sliding_window": 40}, "dtype": "fp16", "sink": true)"},
    {"sm_80", kPrefill,
     R"("mask": "causal", "depth": 96, "out_dtype": "f32", "operand": {"kind": "paged", "page_size": 16})"},
    {"sm_90a", kPrefill, R"("mask": "causal")"},
    {"sm_90a", kPrefill, R"("mask": "causal", "depth": 128, "operand": {"kind": "paged", "page_size": 16})"},
    {"sm_90a", kPrefill, R"("mask": {"sliding_window": 40}, "sink": true, "operand": {"kind": "ragged"})"},
    {"sm_90a", kPrefill, R"("mask": {"chunked": 48}, "dtype": "fp16", "score_mod": {"softcap": 20})"},
    {"sm_90a", kPrefill, R"("mask": "causal", "score_mod": "alibi", "operand": {"kind": "continuous"})"},
    {"sm_90a", kPrefill,
     R"x("mask": "causal", "out_dtype": "f32", "score_mod": {"expr": "where(k % 7 == 3, -inf, score)"})x"},
    {"sm_80", kDecode, R"("mask": "causal", "operand": {"kind": "ragged"})", 4, 4},
    {"sm_80", kDecode,
     R"("mask": {"sliding_window": 40}, "sink": true, "operand": {"kind": "paged", "page_size": 16})", 1},
    {"sm_80", kDecode, R"("mask": "causal", "depth": 128, "out_dtype": "f32", "split_kv": 3)", 5},
    {"sm_90a", kDecode, R"("mask": "causal", "operand": {"kind": "ragged"})", 4, 4},
    {"sm_90a", kDecode,
     R"("mask": {"sliding_window": 40}, "sink": true, "operand": {"kind": "paged", "page_size": 16})", 1},
    {"sm_90a", kDecode, R"("mask": "causal", "depth": 128, "out_dtype": "f32", "split_kv": 3)", 5},
    {"sm_90a", kDecode, R"("mask": "causal", "score_mod": {"softcap": 20}, "BM": 64)", 20, 4},
    {"gfx942", kDecode, R"("mask": "causal", "operand": {"kind": "ragged"})", 4, 4},
    {"gfx950", kDecode,
     R"("mask": {"sliding_window": 40}, "sink": true, "operand": {"kind": "paged", "page_size": 16})", 1},
    {"gfx90a", kDecode, R"("mask": "causal", "schedule": "cdna_decode", "out_dtype": "f32", "split_kv": 3)",
     5},
    {"gfx942", kDecode, R"("mask": {"chunked": 48}, "score_mod": "alibi", "operand": {"kind": "ragged"})", 4,
     4},
    {"gfx950", kDecode,
     R"x("mask": "causal", "score_mod": {"expr": "score - 0.01 * (q - k)"}, "operand": {"kind": "ragged"})x",
     4, 4},
    {"gfx942", kPrefill, R"("mask": "causal")"},
    {"gfx942", kPrefill,
     R"("mask": {"sliding_window": 40}, "dtype": "fp16", "sink": true, "operand": {"kind": "ragged"})"},
    {"gfx942", kPrefill,
     R"("mask": "causal", "depth": 128, "out_dtype": "f32", "operand": {"kind": "paged", "page_size": 16})"},
    {"gfx942", kPrefill, R"("mask": "causal", "depth": 96, "score_mod": {"softcap": 20})"},
    {"gfx942", kPrefill, R"("mask": "causal", "depth": 256, "full_kv": false)"},
    {"gfx90a", kPrefill, R"("mask": {"chunked": 48}, "operand": {"kind": "continuous"})"},
    {"gfx90a", kPrefill, R"("mask": "causal", "depth": 192, "score_mod": "alibi")"},
    {"gfx950", kPrefill, R"("mask": "causal", "schedule": "cdna_prefill_pingpong")"},
    {"gfx950", kPrefill, R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true)", 70},
    {"sm_90a", kPrefill, R"("mask": "causal", "depth": 512)", 70},
    {"sm_80", kPrefill, R"("mask": "causal", "depth": 512)", 20},
    {"sm_80", kPrefill, R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true)", 70, 2, true},
    {"sm_80", kDecode,
     R"("mask": "causal", "depth": 384, "operand": {"kind": "paged", "page_size": 16}, "split_kv": 3)", 4, 4,
     true},
    {"sm_80", kDecode,
     R"("mask": {"sliding_window": 40}, "depth": 576, "ov_depth": 512, "v_from_k": true, "sink": true)", 4,
     8},
    {"sm_100a", kDecode, R"("mask": "causal", "operand": {"kind": "ragged"})", 4, 4},
    {"sm_100a", kDecode,
     R"("mask": {"sliding_window": 40}, "sink": true, "operand": {"kind": "paged", "page_size": 16})", 1},
    {"sm_100a", kDecode, R"("mask": "causal", "depth": 128, "out_dtype": "f32", "split_kv": 2)", 5, 2, true},
    {"sm_100a", kDecode, R"("mask": {"chunked": 48}, "score_mod": "alibi", "BM": 32)", 20, 4, true},
    {"sm_100a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"})", 4,
     16},
    {"sm_100a", kDecode, R"("mask": "causal", "depth": 512, "operand": {"kind": "paged", "page_size": 64})",
     4, 16},
    {"gfx90a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"})", 4,
     16},
    {"sm_90a", kDecode, R"("mask": "causal", "depth": 512, "BM": 64)", 4, 16},
    {"sm_90a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true, "BM": 16, "operand": {"kind": "ragged"})",
     4, 4, true},
    {"sm_90a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "rope_depth": 64, "v_from_k": true, "rope": {"layout": "separate"}, "BM": 16, "operand": {"kind": "paged", "page_size": 64})",
     4, 4},
    {"sm_90a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true, "BM": 64, "operand": {"kind": "paged", "page_size": 64})",
     4, 16},
    {"sm_90a", kPrefill, R"("mask": "causal", "depth": 576, "ov_depth": 512, "v_from_k": true)", 70},
    {"sm_90a", kPrefill, R"("mask": "causal", "depth": 192, "ov_depth": 128)"},
    {"sm_90a", kPrefill, R"("mask": "causal", "depth": 256)"},
    {"sm_90a", kPrefill,
     R"("mask": {"sliding_window": 40}, "depth": 192, "lse": true, "operand": {"kind": "ragged"})"},
    {"sm_90a", kPrefill,
     R"("mask": {"chunked": 48}, "depth": 256, "sink": true, "operand": {"kind": "paged", "page_size": 16})",
     150, 2, true},
    {"sm_100a", kPrefill, R"("mask": "causal")"},
    {"sm_100a", kPrefill,
     R"("mask": {"sliding_window": 40}, "depth": 128, "sink": true, "operand": {"kind": "ragged"})"},
    {"sm_100a", kPrefill, R"("mask": {"chunked": 48}, "score_mod": "alibi", "operand": {"kind": "ragged"})",
     70, 2, true},
    {"sm_100a", kPrefill, R"("mask": "causal", "operand": {"kind": "paged", "page_size": 16})"},
    {"sm_100a", kPrefill,
     R"("mask": {"sliding_window": 40}, "score_mod": "alibi", "operand": {"kind": "continuous"})", 70},
    {"sm_100a", kPrefill, R"("mask": "causal", "depth": 256, "operand": {"kind": "paged", "page_size": 16})"},
    {"sm_100a", kPrefill, R"("mask": {"sliding_window": 40}, "depth": 208, "ov_depth": 256, "sink": true)"},
};

/// With K and V of 8 bits. INT8 has no special values, but scales of rows may be.
const Case kByteCases[] = {
    {"sm_100a", kPrefill,
     R"("mask": {"sliding_window": 40}, "dtype": "fp8_e4m3", "out_dtype": "bf16", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}})",
     70},
    {"sm_90a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})",
     4, 4},
    {"sm_90a", kDecode, R"("mask": "causal", "kv_dtype": "fp8_e4m3", "depth": 128, "split_kv": 3)", 5, 2,
     true},
    {"sm_90a", kDecode,
     R"("mask": {"sliding_window": 40}, "kv_dtype": "fp8_e4m3", "sink": true, "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
     1},
    {"sm_90a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "out_dtype": "f32", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token", "layout": "head_major"}})",
     4, 4},
    {"sm_90a", kDecode,
     R"("mask": "causal", "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": 32}})",
     4, 4},
    {"sm_90a", kDecode,
     R"("mask": "causal", "dtype": "fp8_e4m3", "out_dtype": "bf16", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_head"}})",
     4, 4},
    {"sm_100a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})",
     4, 4},
    {"sm_100a", kDecode,
     R"("mask": {"chunked": 48}, "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
     4, 4, true},
    {"sm_100a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "depth": 576, "ov_depth": 512, "v_from_k": true, "rope_depth": 64, "rope": {"layout": "tail"}, "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token"}})",
     4, 16},
    {"sm_100a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": 32, "scale_dtype": "ue8m0"}})",
     4, 4},
    {"sm_100a", kDecode,
     R"("mask": "causal", "kv_dtype": "fp4_e2m1", "operand": {"kind": "ragged", "quantization": {"granularity": 16, "scale_dtype": "fp8_e4m3"}})",
     4, 4},
    {"sm_80", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_sequence"}})",
     4, 4},
    {"sm_80", kDecode,
     R"("mask": {"sliding_window": 40}, "kv_dtype": "int8", "operand": {"kind": "contiguous", "quantization": {"granularity": "per_token"}})",
     3, 4},
    {"sm_80", kPrefill,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})"},
    {"sm_80", kPrefill,
     R"("mask": {"chunked": 48}, "kv_dtype": "int8", "operand": {"kind": "ragged", "quantization": {"granularity": 32}})"},
    {"sm_90a", kPrefill,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "depth": 128, "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_head"}})"},
    {"sm_90a", kPrefill,
     R"("mask": "causal", "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})"},
    {"sm_90a", kPrefill, R"("mask": "causal", "dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 128)"},
    {"sm_90a", kPrefill,
     R"("mask": "causal", "depth": 192, "ov_depth": 128, "rope_depth": 64, "rope": {"layout": "separate"}, "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})"},
    {"sm_90a", kPrefill,
     R"("mask": {"sliding_window": 40}, "dtype": "fp8_e4m3", "out_dtype": "bf16", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token", "layout": "head_major"}})"},
    {"sm_100a", kPrefill,
     R"("mask": "causal", "dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 128, "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})"},
    {"sm_90a", kDecode,
     R"("mask": "causal", "depth": 576, "ov_depth": 512, "rope_depth": 64, "v_from_k": true, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_tensor"}}, "rope": {"layout": "tail", "padded_depth": 512, "dtype": "bf16"})",
     4, 16},
};
const Case kByteCasesOfAmd[] = {
    {"gfx942", kDecode,
     R"("mask": {"sliding_window": 40}, "kv_dtype": "fp8_e4m3fnuz", "sink": true, "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
     1},
    {"gfx950", kDecode,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "out_dtype": "f32", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
     4, 4},
    {"gfx90a", kDecode,
     R"("mask": "causal", "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})",
     4, 4},
    {"gfx942", kDecode,
     R"("mask": "causal", "dtype": "fp8_e4m3fnuz", "out_dtype": "bf16", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_head"}})",
     4, 4},
    {"gfx942", kPrefill, R"("mask": "causal", "dtype": "fp8_e4m3fnuz", "out_dtype": "bf16")"},
    {"gfx950", kPrefill,
     R"("mask": {"sliding_window": 40}, "dtype": "fp8_e4m3", "out_dtype": "bf16", "depth": 128, "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_head"}})"},
    {"gfx950", kPrefill,
     R"("mask": "causal", "kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_sequence"}})"},
    {"gfx942", kPrefill,
     R"("mask": "causal", "kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_token"}})"},
};

Plan plan_of(const Case& c) {
  nlohmann::ordered_json config = {
      {"target", c.target}, {"operation", c.operation}, {"dtype", "bf16"}, {"depth", 64}, {"lse", true}};
  config.update(json_of(std::string("{") + c.keys + "}"));
  return make_plan(parse_config(write_json(config), "test"));
}

Workload workload_of(const Config& config, const Case& c) {
  ProblemShape shape;
  shape.heads_q = c.heads, shape.heads_kv = 1;
  shape.depth = config.depth, shape.ov_depth = *config.ov_depth;
  shape.ragged = true;
  shape.lengths_q.assign(2, c.rows_q), shape.lengths_k.assign(2, 170);
  return random_workload(shape, config, 11);
}

bool special(float x) {
  return !std::isfinite(x);
}

/// O and LSE are the reference's, NaN and infinity where it has them: how many it has.
std::size_t check(const Case& c, const Workload& work) {
  const Plan plan = plan_of(c);
  EmulatorOptions emulator;
  emulator.num_sms = 5;
  RunOptions options;
  options.emulator = &emulator;
  const RunResult result = run_workload(emulated(), *emulated().load(generate(plan)), work, options);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  CHECK(result.output.unwritten == 0);
  const Semantics semantics = semantics_of(plan.resolved(), work);
  const Reference reference =
      reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0));
  const CheckReport report = check_output(work, result.output, reference, tolerance_of(plan.resolved()));
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  const auto count = [](const auto& values) {
    return std::count_if(values.begin(), values.end(),
                         [](double x) { return special(static_cast<float>(x)); });
  };
  CHECK(count(result.output.o) == count(reference.o));
  CHECK(count(result.output.lse) == count(reference.lse));
  return static_cast<std::size_t>(count(reference.o));
}

}  // namespace

TEST_CASE("NaN and infinity of V do not reach rows from which the mask hides the key" *
          doctest::test_suite("breadth")) {
  for (const Case& c : kCases) {
    if (c.longer && !KILN_LONG_SWEEPS) continue;
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Workload clean = workload_of(plan_of(c).resolved(), c);
    // A row of a latent cache is K, too.
    const bool latent = clean.v.empty();
    const std::int64_t columns = clean.shape.ov_depth, length = latent ? clean.shape.depth : columns;
    const auto element = [&](Workload& work, std::int64_t request, std::int64_t key,
                             std::int64_t column) -> float& {
      return (latent ? work.k : work.v)[static_cast<std::size_t>((170 * request + key) * length + column)];
    };
    // Single elements, in the middle of tiles and at their ends; and two rows of nothing else.
    Workload work = clean;
    if (latent) {
      element(work, 0, 168, 5) = kNaN;
      element(work, 1, 169, 300) = kNaN;
    } else {
      element(work, 0, 37, 5) = kNaN;
      element(work, 0, 100, columns - 1) = INFINITY;
      element(work, 0, 128, 0) = kNaN;
      element(work, 0, 169, 9) = -INFINITY;
      for (std::int64_t column = 0; column < columns; ++column) {
        element(work, 1, 90, column) = kNaN;
        element(work, 1, 91, column) = column % 2 == 0 ? kNaN : INFINITY;
      }
    }
    const std::size_t seen = check(c, work);
    CHECK(seen > 0);
    CHECK(seen < 2 * static_cast<std::size_t>(c.rows_q * c.heads * columns));
  }
}

namespace {

void check_bytes(std::span<const Case> cases) {
  for (const Case& c : cases) {
    if (c.longer && !KILN_LONG_SWEEPS) continue;
    CAPTURE(std::string(c.target));
    CAPTURE(std::string(c.keys));
    Workload work = workload_of(plan_of(c).resolved(), c);
    const std::int64_t columns = work.shape.ov_depth;
    const std::string_view keys = c.keys;
    const bool token = keys.find("per_token") != std::string_view::npos;
    if (work.v.empty()) {  // a row of a latent cache is K, too
      work.k[static_cast<std::size_t>(168 * work.shape.depth + 5)] = kNaN;
      work.k[static_cast<std::size_t>((170 + 169) * work.shape.depth + 300)] = kNaN;
    } else if (keys.find("int8") == std::string_view::npos && keys.find("fp4") == std::string_view::npos) {
      work.v[static_cast<std::size_t>(37 * columns + 5)] = kNaN;
      work.v[static_cast<std::size_t>(169 * columns + columns - 1)] = kNaN;
      if (!token)
        for (std::int64_t column = 0; column < columns; ++column)
          work.v[static_cast<std::size_t>((170 + 90) * columns + column)] = kNaN;
    }
    const bool bytes = keys.find("scale_dtype") != std::string_view::npos;  // which have no infinity
    if (token || bytes || keys.find(": 32}") != std::string_view::npos) {
      auto& of_values =
          work.v.empty() ? work.k_scale : work.v_scale;  // rows of a latent cache have one scale
      REQUIRE(of_values);
      std::vector<float>& scales = of_values->values;
      const std::size_t of_token = scales.size() / 340;
      scales[128 * of_token] = kNaN;
      // With scales of V in the rows' maxima an infinite one is in LSE, too; of a latent row it is K's, and scores are
      // infinite or NaN as the scale is applied after the product or before it.
      const bool in_maxima =
          work.v.empty() || (std::string_view(c.operation) == kPrefill &&
                             keys.find(R"("dtype": "fp8)") != std::string_view::npos && token);
      scales[(170 + 168) * of_token + of_token - 1] = in_maxima || bytes ? kNaN : INFINITY;
    }
    const std::size_t seen = check(c, work);
    CHECK(seen > 0);
    CHECK(seen < 2 * static_cast<std::size_t>(c.rows_q * c.heads * columns));
  }
}

}  // namespace

TEST_CASE(
    "NaN of 8-bit V does not reach rows from which the mask hides the key, in one kernel of each maker") {
  check_bytes(std::span(kByteCases).subspan(1, 1));
  check_bytes(std::span(kByteCasesOfAmd).first(1));
}

TEST_CASE(
    "NaN of 8-bit V, and special values of its scales, do not reach rows from which the mask hides the key" *
    doctest::test_suite("breadth")) {
  check_bytes(kByteCases);
}

TEST_CASE("nor do they on AMD targets" * doctest::test_suite("breadth")) {
  check_bytes(kByteCasesOfAmd);
}

TEST_CASE("a V of nothing but NaN, and NaN in Q beside it") {
  for (const Case& c : kCases) {
    if (!KILN_LONG_SWEEPS && std::string_view(c.keys) != R"("mask": "causal")") continue;
    CAPTURE(c.target);
    CAPTURE(c.keys);
    Workload work = workload_of(plan_of(c).resolved(), c);
    std::fill(work.v.begin(), work.v.begin() + static_cast<std::ptrdiff_t>(work.v.size() / 2), kNaN);
    CHECK(check(c, work) > 0);
  }
}

TEST_CASE("kernels without the repair are those that the page of special values names") {
  const Case without[] = {
      {"sm_100a", kPrefill,
       R"("mask": "causal", "depth": 192, "operand": {"kind": "paged", "page_size": 16})"},
      {"sm_90a", kPrefill, R"("mask": {"sliding_window": 40}, "depth": 256)"},
      {"sm_90a", kPrefill,
       R"("mask": {"sliding_window": 40}, "depth": 128, "kv_dtype": "fp8_e4m3", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": "per_head"}})"},
      {"sm_90a", kDecode,
       R"("mask": {"sliding_window": 40}, "depth": 576, "ov_depth": 512, "v_from_k": true, "BM": 64, "operand": {"kind": "paged", "page_size": 64})"},
      {"sm_90a", kPrefill,
       R"("mask": "causal", "depth": 224, "operand": {"kind": "paged", "page_size": 16})"},
      {"gfx942", kDecode,
       R"("mask": "causal", "kv_dtype": "fp8_e4m3fnuz", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})"},
  };
  for (const Case& c : without) {
    CAPTURE(std::string(c.keys));
    CHECK(!plan_of(c).schedule().guards_hidden_values());
  }
  const Case wide{"sm_80", kDecode, R"("mask": "causal", "depth": 512, "operand": {"kind": "ragged"})"};
  CHECK(plan_of(wide).schedule().guards_hidden_values());
}
