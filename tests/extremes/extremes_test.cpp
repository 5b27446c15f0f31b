// Scores of every size, on the emulated device: Q and K whose products are 1e-30 to 3e38, and the finite
// masks that users write (-1e10, -1e30, the least float), through every schedule, splits and merges included.
// Query rows have one element that is not zero, so a score is one product of two numbers: what float64 makes
// of them is what a kernel must, whatever their size. And NaN: in the rows that see it, and in no others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <kiln/kiln.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "generator/config/json_text.hpp"
#include "tests/emulated_options.hpp"
#include "workbench/problem/rounding.hpp"
#include "workbench/reference/check.hpp"
#include "workbench/verify/runner.hpp"

using namespace kiln;
using kiln::test::emulated;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Built {
  Plan plan;
  KernelSource source;
  const Config& config() const { return plan.resolved(); }
};

Built build(const std::string& target, const std::string& operation, const std::string& keys) {
  nlohmann::ordered_json config = {{"target", target}, {"operation", operation}, {"dtype", "bf16"},
                                   {"depth", 64},      {"scale", 0.125},         {"lse", true}};
  config.update(json_of("{" + keys + "}"));
  Plan plan = make_plan(parse_config(write_json(config), "test"));
  KernelSource source = generate(plan);
  return {std::move(plan), std::move(source)};
}

/// A kernel of every schedule and of every form of softmax in it.
struct Case {
  const char* schedule;
  const char* target;
  const char* operation;
  const char* keys;
  int heads = 2;  ///< of Q, over one KV head
};
constexpr const char* kPrefill = "prefill";
constexpr const char* kDecode = "decode";
const Case kCases[] = {
    {"sm80_prefill", "sm_80", kPrefill, R"("mask": "causal")"},
    {"sm80_decode", "sm_80", kDecode, R"("operand": {"kind": "paged", "page_size": 16})"},
    {"sm80_decode", "sm_80", kDecode, R"("split_kv": 3, "operand": {"kind": "ragged"})"},
    {"sm80_decode", "sm_80", kDecode,
     R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"})", 16},
    {"sm90_prefill_pingpong", "sm_90a", kPrefill, R"("mask": "causal")"},
    {"sm90_prefill", "sm_90a", kPrefill, R"("depth": 128, "operand": {"kind": "ragged"})"},
    {"sm90_prefill", "sm_90a", kPrefill,
     R"("schedule": "sm90_prefill", "exp_offload": 0.25, "operand": {"kind": "ragged"})"},
    {"sm90_decode", "sm_90a", kDecode, R"("operand": {"kind": "paged", "page_size": 16})"},
    {"sm90_decode", "sm_90a", kDecode, R"("split_kv": 3, "operand": {"kind": "ragged"})"},
    {"sm90_decode", "sm_90a", kDecode, R"("operand": {"kind": "ragged"})", 64},
    {"sm90_decode", "sm_90a", kDecode,
     R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"})", 16},
    {"sm100_decode", "sm_100a", kDecode, R"("operand": {"kind": "paged", "page_size": 16})"},
    {"sm100_decode", "sm_100a", kDecode, R"("split_kv": 3, "operand": {"kind": "ragged"})"},
    {"sm100_decode", "sm_100a", kDecode, R"("depth": 128, "operand": {"kind": "ragged"})", 64},
    {"sm100_decode", "sm_100a", kDecode,
     R"("depth": 576, "ov_depth": 512, "v_from_k": true, "operand": {"kind": "ragged"})", 16},
    {"cdna_prefill", "gfx942", kPrefill, R"("mask": "causal", "operand": {"kind": "ragged"})"},
    {"cdna_prefill_pingpong", "gfx950", kPrefill,
     R"("schedule": "cdna_prefill_pingpong", "operand": {"kind": "ragged"})"},
    {"cdna_prefill", "gfx90a", kPrefill, R"("dma": "reg_staged", "operand": {"kind": "ragged"})"},
    {"cdna_decode", "gfx942", kDecode, R"("schedule": "cdna_decode", "operand": {"kind": "ragged"})"},
    {"cdna_decode_streaming", "gfx942", kDecode,
     R"("schedule": "cdna_decode_streaming", "split_kv": 3, "operand": {"kind": "ragged"})"},
};

ProblemShape shape_of(const Config& config, std::size_t requests, int heads) {
  ProblemShape shape;
  shape.heads_q = heads;
  shape.heads_kv = 1;
  shape.depth = config.depth;
  shape.ov_depth = *config.ov_depth;
  shape.ragged = true;
  shape.lengths_q.assign(requests, 3);
  shape.lengths_k.assign(requests, 200);
  return shape;
}

Workload workload_of(const Built& built, std::size_t requests, int heads) {
  return random_workload(shape_of(built.config(), requests, heads), built.config(), 7);
}

/// Row `r` of request `b` and head `h` of Q: zeros but for one element.
void set_query(Workload& work, std::int64_t b, std::int64_t r, std::int64_t h, float value) {
  const std::int64_t row = (3 * b + r) * work.shape.heads_q + h, depth = work.shape.depth;
  const auto first = work.q.begin() + row * depth;
  std::fill(first, first + depth, 0.0F);
  first[(r + 5 * h) % 64] = value;
}

struct Outcome {
  Output output;
  Reference reference;
};

Outcome run(const Built& built, const Workload& work) {
  EmulatorOptions emulator;
  emulator.num_sms = 5;  // so that items are split
  RunOptions options;
  options.emulator = &emulator;
  const RunResult result = run_workload(emulated(), *emulated().load(built.source), work, options);
  for (const auto& finding : result.findings) FAIL_CHECK(finding.kind, ": ", finding.message);
  const Semantics semantics = semantics_of(built.config(), work);
  return {result.output,
          reference_attention(work, semantics, choose_rows(work.shape, semantics.mask, 1e300, 0))};
}

/// Rows and their log-sum-exps are what float64 has, with no allowance for the size of the scores.
void check_rows(const Workload& work, const Outcome& outcome, double bound) {
  const std::vector<std::int64_t> first = work.shape.offsets_q();
  const auto depth = static_cast<std::size_t>(work.shape.ov_depth);
  CHECK(outcome.output.unwritten == 0);
  for (std::size_t i = 0; i < outcome.reference.rows.size(); ++i) {
    const RowId& id = outcome.reference.rows[i];
    const auto row = static_cast<std::size_t>(
        (first[static_cast<std::size_t>(id.request)] + id.row) * work.shape.heads_q + id.head);
    double error = 0, norm = 0;
    for (std::size_t d = 0; d < depth; ++d) {
      const double wanted = outcome.reference.o[i * depth + d], got = outcome.output.o[row * depth + d];
      error += (got - wanted) * (got - wanted), norm += wanted * wanted;
    }
    CAPTURE(id.request);
    CAPTURE(id.row);
    CAPTURE(id.head);
    CHECK(std::sqrt(error / norm) <= bound);
    const double wanted = outcome.reference.lse[i], got = outcome.output.lse[row];
    CAPTURE(wanted);
    CAPTURE(got);
    CHECK(std::fabs(got - wanted) <= 1e-3 + 1e-6 * std::fabs(wanted));
  }
}

}  // namespace

TEST_CASE("scores of 1e-30 to 3e38") {
  // Times a value of K of up to 5, and the softmax scale after that.
  constexpr float kSizes[] = {1e-30F, 1e-5F, 1.0F,  30.0F, 1e3F,  1e4F, 4e5F,
                              5e6F,   1e8F,  1e10F, 1e20F, 1e30F, 6e37F};
  for (const Case& c : kCases) {
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Built built = build(c.target, c.operation, c.keys);
    CHECK(*built.config().schedule == c.schedule);
    Workload work = workload_of(built, std::size(kSizes), c.heads);
    for (std::size_t b = 0; b < std::size(kSizes); ++b) {
      for (std::int64_t r = 0; r < 3; ++r) {
        for (std::int64_t h = 0; h < c.heads; ++h)
          set_query(work, static_cast<std::int64_t>(b), r, h, r == 1 ? -kSizes[b] : kSizes[b]);
      }
    }
    round_to(built.config().dtype, work.q);
    check_rows(work, run(built, work), 2e-2);
  }
}

TEST_CASE("finite masks, and rows of nothing else" * doctest::test_suite("breadth")) {
  for (const char* hidden : {"1e10", "1e30", "3.4028234e38"}) {
    // Keys that a row hides lie in all tiles; every third row hides all.
    const std::string expr = std::string(R"x("score_mod": {"expr": "where((q + h) % 3 == 1 || k < 130, -)x") +
                             hidden + R"x(, score)"}, )x";
    for (const Case& c : kCases) {
      // One of a schedule and target: they differ in where scores come from, not in what becomes of them.
      if (std::string_view(c.keys).find("576") != std::string_view::npos) continue;
      CAPTURE(hidden);
      CAPTURE(c.target);
      CAPTURE(c.keys);
      const Built built = build(c.target, c.operation, expr + c.keys);
      const Workload work = workload_of(built, 1, c.heads);
      const Outcome outcome = run(built, work);
      check_rows(work, outcome, 2e-2);
    }
    if (std::string_view(hidden) == "1e30" && !KILN_LONG_SWEEPS) break;
  }
}

TEST_CASE("NaN of Q and K is in the rows that see it, and in no others") {
  for (const Case& c : kCases) {
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Built built = build(c.target, c.operation, c.keys);
    const bool causal = std::string_view(c.keys).find("causal") != std::string_view::npos;
    Workload work = workload_of(built, 3, c.heads);
    const std::int64_t depth = work.shape.depth;
    // Request 0: one row of Q. Request 1: a key of the last tile, which rows before it do not see if causal.
    work.q[static_cast<std::size_t>((1 * work.shape.heads_q + 1) * depth + 3)] = kNaN;
    work.k[static_cast<std::size_t>((200 + 198) * depth + depth - 1)] = kNaN;
    const Outcome outcome = run(built, work);
    const auto columns = static_cast<std::size_t>(work.shape.ov_depth);
    for (std::int64_t row = 0; row < 9; ++row) {
      for (std::int64_t head = 0; head < c.heads; ++head) {
        // Rows 0, 1 and 2 of request 1 are at positions 197, 198 and 199.
        const bool nan = (row == 1 && head == 1) || (row >= (causal ? 4 : 3) && row < 6);
        const auto at = static_cast<std::size_t>(row * c.heads + head);
        CAPTURE(row);
        CAPTURE(head);
        CHECK(std::isnan(outcome.output.lse[at]) == nan);
        for (std::size_t d = 0; d < columns; ++d) {
          if (std::isnan(outcome.output.o[at * columns + d]) == nan) continue;
          FAIL_CHECK("column ", d);
          break;
        }
      }
    }
    const CheckReport report =
        check_output(work, outcome.output, outcome.reference, tolerance_of(built.config()));
    for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  }
}

namespace {

/// Elements of O that are NaN or infinite.
std::size_t special_values(const std::vector<float>& values) {
  return static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); }));
}

void check_special(const Built& built, const Workload& work) {
  const Outcome outcome = run(built, work);
  CHECK(outcome.output.unwritten == 0);
  CHECK(special_values(outcome.output.o) > 0);
  const CheckReport report =
      check_output(work, outcome.output, outcome.reference, tolerance_of(built.config()));
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
}

}  // namespace

TEST_CASE("NaN and infinity of V are in their column of the rows that see the key, and nowhere else" *
          doctest::test_suite("breadth")) {
  for (const Case& c : kCases) {
    // A row of a latent cache is K, too; which rows a causal mask protects is said in docs/special-values.md.
    if (std::string_view(c.keys).find("576") != std::string_view::npos ||
        std::string_view(c.keys).find("causal") != std::string_view::npos)
      continue;
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Built built = build(c.target, c.operation, c.keys);
    for (const float value : {kNaN, INFINITY}) {
      CAPTURE(value);
      Workload work = workload_of(built, 3, c.heads);
      const std::int64_t columns = work.shape.ov_depth;
      // Request 0: a key of the last tile. Request 2: the first key.
      work.v[static_cast<std::size_t>(199 * columns + 5)] = value;
      work.v[static_cast<std::size_t>(400 * columns + columns - 1)] = value;
      const Outcome outcome = run(built, work);
      CHECK(special_values(outcome.output.o) == static_cast<std::size_t>(6 * c.heads));
      CHECK(special_values(outcome.output.lse) == 0);
      for (std::int64_t row : {0, 1, 2, 6, 7, 8}) {
        for (std::int64_t head = 0; head < c.heads; ++head) {
          const std::int64_t column = row < 3 ? 5 : columns - 1;
          const float got =
              outcome.output.o[static_cast<std::size_t>((row * c.heads + head) * columns + column)];
          CHECK((std::isnan(value) ? std::isnan(got) : !std::isfinite(got)));
        }
      }
      if (!KILN_LONG_SWEEPS && std::isnan(value) && c.heads > 2) break;
    }
  }
}

TEST_CASE("scales that are no numbers are in the rows that have them" * doctest::test_suite("breadth")) {
  struct Scaled {
    const char* target;
    const char* operation;
    const char* keys;
  };
  const Scaled scaled[] = {
      {"sm_80", kDecode,
       R"("kv_dtype": "int8", "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})"},
      {"sm_90a", kDecode,
       R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})"},
      {"sm_90a", kDecode,
       R"("kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 16, "quantization": {"granularity": 32}})"},
      {"sm_90a", kPrefill,
       R"("kv_dtype": "int8", "operand": {"kind": "paged", "page_size": 64, "quantization": {"granularity": "per_token"}})"},
      {"gfx942", kDecode,
       R"("kv_dtype": "int8", "operand": {"kind": "ragged", "quantization": {"granularity": "per_token"}})"},
  };
  for (const Scaled& c : scaled) {
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Built built = build(c.target, c.operation, c.keys);
    for (const float value : {kNaN, INFINITY}) {
      CAPTURE(value);
      // Of the scales of request 1 one in the middle of its keys.
      Workload work = workload_of(built, 3, 2);
      REQUIRE(work.k_scale);
      const auto middle = [&](Scales& scales) -> float& {
        const std::size_t a_token = scales.values.size() / 600;
        return scales.values[300 * a_token];
      };
      const float before = middle(*work.k_scale);
      middle(*work.k_scale) = kNaN;
      check_special(built, work);
      middle(*work.k_scale) = before;
      middle(*work.v_scale) = value;
      check_special(built, work);
    }
  }
}

TEST_CASE("what is too large for FP16 becomes infinite, in BF16 it stays") {
  for (const char* dtype : {"fp16", "bf16"}) {
    for (const char* target : {"sm_80", "sm_90a", "gfx942"}) {
      CAPTURE(dtype);
      CAPTURE(target);
      const Built built = build(
          target, kDecode,
          std::string(R"("dtype": ")") + dtype +
              R"(", "kv_dtype": "int8", "operand": {"kind": "ragged", "quantization": {"granularity": "per_head"}})");
      Workload work = workload_of(built, 2, 2);
      std::fill(work.v.begin(), work.v.end(), 100.0F);
      for (float& scale : work.v_scale->values) scale = 1000.0F;
      const Outcome outcome = run(built, work);
      const bool half = std::string_view(dtype) == "fp16";
      CHECK(special_values(outcome.output.o) == (half ? outcome.output.o.size() : 0));
      CHECK(special_values(outcome.output.lse) == 0);
      for (const float x : outcome.output.o) {
        if (half ? x == INFINITY : std::fabs(x - 1e5F) < 500) continue;
        FAIL_CHECK(x);
        break;
      }
    }
  }
}

TEST_CASE("sinks of any value mean what the formula says" * doctest::test_suite("breadth")) {
  for (const Case& c : kCases) {
    if (std::string_view(c.keys).find("576") != std::string_view::npos) continue;
    CAPTURE(c.target);
    CAPTURE(c.keys);
    const Built built = build(c.target, c.operation, R"("sink": true, )" + std::string(c.keys));
    for (const float sink : {INFINITY, -INFINITY, kNaN, 3e38F, -3e38F}) {
      CAPTURE(sink);
      Workload work = workload_of(built, 1, c.heads);
      work.sink.assign(static_cast<std::size_t>(c.heads), 0.0F);
      work.sink[1] = sink;
      const Outcome outcome = run(built, work);
      const CheckReport report =
          check_output(work, outcome.output, outcome.reference, tolerance_of(built.config()));
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
      if (!KILN_LONG_SWEEPS && std::string_view(c.target) != "sm_90a") break;
    }
  }
}

TEST_CASE(
    "FP8: the code of NaN is NaN, larger numbers saturate, and where no instruction knows E4M3 NaN is 480") {
  CHECK(e4m3_to_float(float_to_e4m3(1e6F)) == 448.0F);
  CHECK(e4m3_to_float(float_to_e4m3(-INFINITY)) == -448.0F);
  CHECK(std::isnan(e4m3_to_float(float_to_e4m3(kNaN))));
  CHECK(e4m3fnuz_to_float(float_to_e4m3fnuz(1e6F)) == 240.0F);
  CHECK(std::isnan(e4m3fnuz_to_float(float_to_e4m3fnuz(kNaN))));
  struct Fp8 {
    const char* target;
    const char* operation;
    const char* keys;
    bool nan = true;
  };
  const Fp8 cases[] = {
      {"sm_80", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})"},
      {"sm_80", kPrefill, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})"},
      {"sm_90a", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})"},
      {"sm_90a", kPrefill, R"("dtype": "fp8_e4m3", "out_dtype": "bf16", "operand": {"kind": "ragged"})"},
      {"sm_100a", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})"},
      {"sm_100a", kPrefill, R"("dtype": "fp8_e4m3", "out_dtype": "bf16", "operand": {"kind": "ragged"})"},
      {"gfx950", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})"},
      {"gfx942", kDecode, R"("kv_dtype": "fp8_e4m3fnuz", "operand": {"kind": "ragged"})"},
      {"gfx942", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})", false},
      {"gfx90a", kDecode, R"("kv_dtype": "fp8_e4m3", "operand": {"kind": "ragged"})", false},
  };
  for (const Fp8& c : cases) {
    CAPTURE(std::string(c.target));
    CAPTURE(std::string(c.keys));
    const Built built = build(c.target, c.operation, c.keys);
    Workload work = workload_of(built, 2, 2);
    const std::int64_t columns = work.shape.ov_depth;
    work.v[static_cast<std::size_t>(150 * columns + 5)] = kNaN;
    const Outcome outcome = run(built, work);
    // The column of three rows by two heads of request 0.
    CHECK(special_values(outcome.output.o) == (c.nan ? 6 : 0));
    CHECK(special_values(outcome.output.lse) == 0);
  }
}
