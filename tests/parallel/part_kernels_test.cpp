// Kernels of parts on the emulated device: each row of a part against the exact result over the keys of the part that
// the mask shows, wherever the part begins; and results of parts merged.
#include <doctest/doctest.h>

#include <kiln/part_kernels.hpp>

#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kPartHeadsQ = 4, kPartHeadsKv = 2;

struct Part {
  std::int64_t q_first, q_rows, k_first, k_rows;
};

std::vector<std::uint16_t> rows_of_parts(const Rows& rows, const Whole& whole, std::span<const Part> parts,
                                         bool queries) {
  std::vector<std::uint16_t> out;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    const Part& part = parts[b];
    const auto row = static_cast<std::size_t>(rows.heads * rows.depth);
    const auto first = static_cast<std::size_t>(whole.starts[b] + (queries ? part.q_first : part.k_first));
    const auto count = static_cast<std::size_t>(queries ? part.q_rows : part.k_rows);
    out.insert(out.end(), rows.values.begin() + static_cast<std::ptrdiff_t>(first * row),
               rows.values.begin() + static_cast<std::ptrdiff_t>((first + count) * row));
  }
  return out;
}

Comparison compare(const Config& config, const Whole& whole, std::span<const Part> parts) {
  Kernel& kernel = *emulated().load(make_part_kernel(config));
  std::vector<std::int32_t> cu_q{0}, cu_k{0}, ends;
  AttentionArgs args;
  for (const Part& part : parts) {
    cu_q.push_back(cu_q.back() + static_cast<std::int32_t>(part.q_rows));
    cu_k.push_back(cu_k.back() + static_cast<std::int32_t>(part.k_rows));
    ends.push_back(static_cast<std::int32_t>(part.q_first + part.q_rows - part.k_first));
    args.max_seqlen_q = std::max(args.max_seqlen_q, part.q_rows);
    args.max_seqlen_k = std::max(args.max_seqlen_k, part.k_rows);
  }
  const std::int64_t rows = cu_q.back(), batch = static_cast<std::int64_t>(parts.size());
  const DeviceBuffer q = upload(rows_of_parts(whole.q, whole, parts, true)),
                     k = upload(rows_of_parts(whole.k, whole, parts, false)),
                     v = upload(rows_of_parts(whole.v, whole, parts, false)), offsets_q = upload(cu_q),
                     offsets_k = upload(cu_k), positions = upload(ends);
  const std::vector<float> poison(static_cast<std::size_t>(rows * kPartHeadsQ * kDepth), 1e20f);
  const DeviceBuffer o = upload(poison),
                     lse = upload(std::vector<float>(static_cast<std::size_t>(rows * kPartHeadsQ), 7e20f));
  args.q = Tensor::dense(q.address(), DType::bf16, {rows, kPartHeadsQ, kDepth});
  args.k = Tensor::dense(k.address(), DType::bf16, {cu_k.back(), kPartHeadsKv, kDepth});
  args.v = Tensor::dense(v.address(), DType::bf16, {cu_k.back(), kPartHeadsKv, kDepth});
  args.o = Tensor::dense(o.address(), DType::f32, {rows, kPartHeadsQ, kDepth});
  args.lse = Tensor::dense(lse.address(), DType::f32, {kPartHeadsQ, rows});
  args.cu_seqlens_q = Tensor::dense(offsets_q.address(), DType::i32, {batch + 1});
  args.cu_seqlens_k = Tensor::dense(offsets_k.address(), DType::i32, {batch + 1});
  args.seqlens_k = Tensor::dense(positions.address(), DType::i32, {batch});
  const auto report = kernel.launch(args);
  REQUIRE(report->completed);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.message);
  const auto got = download<float>(o), got_lse = download<float>(lse);
  Comparison comparison;
  for (std::size_t b = 0; b < parts.size(); ++b) {
    const Part& part = parts[b];
    for (std::int64_t i = 0; i < part.q_rows; ++i) {
      for (std::int64_t head = 0; head < kPartHeadsQ; ++head) {
        const std::int64_t row = cu_q[b] + i;
        comparison.add(
            attend(whole, *config.mask, b, part.q_first + i, head, part.k_first, part.k_first + part.k_rows),
            &got[static_cast<std::size_t>((row * kPartHeadsQ + head) * kDepth)],
            got_lse[static_cast<std::size_t>(head * rows + row)]);
      }
    }
  }
  return comparison;
}

}  // namespace

TEST_CASE("a part sees the keys that its rows see in the whole sequence") {
  const Whole whole({300, 300, 300, 40, 300, 0, 300}, kPartHeadsQ, kPartHeadsKv, kDepth, 25);
  // In order: the diagonal in the middle, all keys before the rows, all behind, rows at both ends, keys that begin
  // between the rows, nothing, no keys.
  const Part parts[] = {{150, 100, 128, 150}, {200, 70, 0, 192}, {0, 30, 64, 90}, {0, 40, 0, 40},
                        {64, 130, 128, 60},   {0, 0, 0, 0},      {7, 20, 0, 0}};
  for (const char* target : {"sm_90a", "sm_80", "gfx942"}) {
    for (const char* mask : {R"("causal")", R"({"sliding_window": 50})", R"({"chunked": 64})"}) {
      CAPTURE(target);
      CAPTURE(mask);
      const std::string keys = R"("out_dtype": "f32", "mask": )" + std::string(mask) + ", ";
      const Comparison comparison = compare(prefill_config(target, keys), whole, parts);
      CHECK(comparison.rows == 390 * kPartHeadsQ);
      CHECK(comparison.error() < 4e-3);
      CHECK(comparison.lse < 2e-3);
    }
  }
}

TEST_CASE("tiles that a part's rows do not see are not read") {
  const Whole whole({512}, kPartHeadsQ, kPartHeadsKv, kDepth, 3);
  const auto tiles = [&](const Part& part) {
    const Part parts[] = {part};
    return compare(prefill_config("sm_80", R"("out_dtype": "f32", "mask": "causal", )"), whole, parts)
        .error();
  };
  CHECK(tiles({0, 128, 384, 128}) == 0.0);  // wholly hidden: exact zeros
  CHECK(tiles({384, 128, 0, 128}) < 4e-3);  // wholly seen
}

TEST_CASE("what has no kernel for parts is refused") {
  const auto refused = [](const std::string& text) {
    try {
      make_part_kernel(parse_config(text, "test"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string head = R"({"target": "sm_90a", "dtype": "bf16", "depth": 64, )";
  CHECK(refused(head + R"("operation": "prefill", "mask": "causal"})")
            .find("\"operand\" of prefill is ragged") != std::string::npos);
  CHECK(refused(head + R"("operation": "decode", "mask": "custom", "operand": {"kind": "ragged"}})")
            .find("custom mask") != std::string::npos);
  CHECK(refused(head + R"("operation": "prefill", "mask": "custom", "operand": {"kind": "ragged"}})")
            .find("custom mask") != std::string::npos);
  CHECK(
      refused(head +
              R"("operation": "prefill", "operand": {"kind": "ragged"}, "score_mod": {"expr": "score + k"}})")
          .find("score expression") != std::string::npos);
  const Config causal = prefill_config("sm_80", R"("mask": "causal", )");
  const Manifest part = make_part_kernel(causal).manifest, plain = generate(make_plan(causal)).manifest;
  CHECK(part.takes("seqlens_k"));
  CHECK_FALSE(plain.takes("seqlens_k"));
  CHECK_FALSE(make_part_kernel(prefill_config("sm_80", "")).manifest.takes("seqlens_k"));
  const auto decode = [&](const std::string& mask) {
    return make_part_kernel(
               parse_config(head + mask + R"("operation": "decode", "operand": {"kind": "paged"}})", "test"))
        .manifest.takes("query_ends");
  };
  CHECK(decode(R"("mask": "causal", )"));
  CHECK(decode(R"("score_mod": "alibi", )"));
  CHECK_FALSE(decode(""));
  CHECK_THROWS_AS(make_part_merge_kernel(causal, 65, false), Error);
}

namespace {

/// Parts of `rows` rows with LSE and O of their own; the exact merge.
struct Parts {
  std::int64_t rows, heads, ov, count;
  std::vector<float> memory;
  std::int64_t floats() const { return rows * heads * ov + (rows * heads + 3) / 4 * 4; }
  float& o(std::int64_t part, std::int64_t row, std::int64_t head, std::int64_t c) {
    return memory[static_cast<std::size_t>(part * floats() + (row * heads + head) * ov + c)];
  }
  float& lse(std::int64_t part, std::int64_t row, std::int64_t head) {
    return memory[static_cast<std::size_t>(part * floats() + rows * heads * ov + head * rows + row)];
  }
  Parts(std::int64_t r, std::int64_t h, std::int64_t d, std::int64_t n) : rows(r), heads(h), ov(d), count(n) {
    memory.assign(static_cast<std::size_t>(n * floats()), 0.0f);
    std::mt19937 random(8);
    std::normal_distribution<float> normal;
    for (float& x : memory) x = normal(random);
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t head = 0; head < heads; ++head) {
        lse(p, 1, head) = -INFINITY;              // no part has keys
        if (p != 1) lse(p, 2, head) = -INFINITY;  // one part has
        lse(p, 3, head) = 80.0f * static_cast<float>(p);
        for (std::int64_t c = 0; c < ov; ++c) {
          o(p, 1, head, c) = NAN;  // never written
          if (p != 1) o(p, 2, head, c) = NAN;
          if (p == 0) o(p, 4, head, c) = NAN;  // a result
        }
      }
    }
  }
};

void check_merge(const std::string& target, bool accumulate, std::int64_t ov) {
  CAPTURE(target);
  CAPTURE(accumulate);
  CAPTURE(ov);
  Parts parts(7, 3, ov, 3);
  Config config = prefill_config(target, "");
  config.depth = static_cast<int>(ov);
  // Accumulating: part 0 is what the others are merged into.
  const std::int64_t given = accumulate ? 2 : 3;
  Kernel& kernel = *emulated().load(make_part_merge_kernel(config, static_cast<int>(given), accumulate));
  const DeviceBuffer memory = upload(parts.memory);
  const auto shift = static_cast<std::uint64_t>(accumulate ? parts.floats() * 4 : 0);
  DeviceBuffer own_o = emulated().allocate(static_cast<std::size_t>(7 * 3 * ov * 4)),
               own_lse = emulated().allocate(7 * 3 * 4);
  AttentionArgs args;
  const DType out = accumulate ? DType::f32 : DType::bf16;
  args.q = args.k = args.v = Tensor::dense(memory.address() + shift, DType::f32, {1, 7, 3, ov});
  args.o = Tensor::dense(accumulate ? memory.address() : own_o.address(), out, {1, 7, 3, ov});
  args.lse = Tensor::dense(
      accumulate ? memory.address() + static_cast<std::uint64_t>(7 * 3 * ov * 4) : own_lse.address(),
      DType::f32, {1, 3, 7});
  const auto report = kernel.launch(args);
  REQUIRE(report->completed);
  for (const auto& finding : report->findings) FAIL_CHECK(finding.message);
  const auto floats = accumulate ? download<float>(memory) : std::vector<float>();
  const auto halves = accumulate ? std::vector<std::uint16_t>() : download<std::uint16_t>(own_o);
  const auto lses = accumulate
                        ? std::vector<float>(floats.begin() + 7 * 3 * ov, floats.begin() + 7 * 3 * ov + 21)
                        : download<float>(own_lse);
  for (std::int64_t row = 0; row < 7; ++row) {
    for (std::int64_t head = 0; head < 3; ++head) {
      double top = -INFINITY, total = 0;
      for (std::int64_t p = 0; p < 3; ++p) top = std::max(top, static_cast<double>(parts.lse(p, row, head)));
      for (std::int64_t p = 0; p < 3; ++p)
        if (parts.lse(p, row, head) > -INFINITY) total += std::exp(parts.lse(p, row, head) - top);
      const float lse = lses[static_cast<std::size_t>(head * 7 + row)];
      if (row == 1) {
        CHECK(lse == -INFINITY);
      } else {
        CHECK(lse == doctest::Approx(top + std::log(total)).epsilon(1e-5));
      }
      for (std::int64_t c = 0; c < ov; ++c) {
        const auto at = static_cast<std::size_t>((row * 3 + head) * ov + c);
        const float got = accumulate ? floats[at] : widen(halves[at]);
        if (row == 4) {
          CHECK(std::isnan(got));
          continue;
        }
        double want = 0;
        for (std::int64_t p = 0; p < 3; ++p)
          if (parts.lse(p, row, head) > -INFINITY)
            want += std::exp(parts.lse(p, row, head) - top) / total * parts.o(p, row, head, c);
        CHECK(std::fabs(got - want) <= (accumulate ? 2e-6 : 4e-3) * std::max(1.0, std::fabs(want)));
      }
    }
  }
}

}  // namespace

TEST_CASE("results of parts are merged by their log-sum-exps, those without keys left out") {
  for (const char* target : {"sm_90a", "sm_80", "gfx942"}) {
    check_merge(target, false, 64), check_merge(target, true, 64);
  }
  check_merge("sm_90a", false, 192), check_merge("sm_90a", true, 512);
}
