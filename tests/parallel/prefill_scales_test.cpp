// Prefill of a group over K and V of 8 bits: scales of tensors, heads and sequences stay, those of rows move with them.
#include <doctest/doctest.h>

#include <cmath>

#include <kiln/context_parallel.hpp>

#include "tests/parallel/group.hpp"
#include "tests/parallel/whole.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr std::int64_t kScaledHeadsQ = 4, kScaledHeadsKv = 2;

float widen_e4m3(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                    : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -value : value;
}

/// K or V as bytes with scales, powers of two, so that the values are numbers of BF16.
struct Scaled {
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;  ///< [rows, heads, groups] where rows have their own
  std::int64_t groups = 0;    ///< of a row and head; 0: rows have none
  std::int64_t row_scales() const { return kScaledHeadsKv * groups; }
};

struct Problem {
  Config config;
  Whole whole;
  Scaled k, v;
  Problem(const std::string& target, const std::string& granularity, std::int64_t groups,
          std::vector<std::int64_t> lengths)
      : config(parse_config(
            R"({"target": ")" + target +
                R"(", "operation": "prefill", "dtype": "bf16", "kv_dtype": "fp8_e4m3", "depth": 64,
            "mask": "causal", "operand": {"kind": "ragged", "quantization": {"granularity": )" +
                granularity + "}}}",
            "test")),
        whole(std::move(lengths), kScaledHeadsQ, kScaledHeadsKv, kDepth, 41) {
    k.groups = v.groups = groups;
    fill(k, whole.k, 5), fill(v, whole.v, 6);
  }

 private:
  /// Where the scale of an element is.
  std::size_t scale_of(std::int64_t sequence, std::int64_t row, std::int64_t head, std::int64_t column,
                       std::int64_t groups) const {
    using Granularity = Quantization::Granularity;
    switch (config.operand->quantization->granularity) {
      case Granularity::per_tensor:
        return 0;
      case Granularity::per_head:
        return static_cast<std::size_t>(head);
      case Granularity::per_sequence:
        return static_cast<std::size_t>(sequence * kScaledHeadsKv + head);
      default:
        return static_cast<std::size_t>((row * kScaledHeadsKv + head) * groups + column * groups / kDepth);
    }
  }
  void fill(Scaled& scaled, Rows& rows, unsigned seed) const {
    std::mt19937 random(seed);
    scaled.scales.resize(static_cast<std::size_t>(
        std::max<std::int64_t>(whole.total * kScaledHeadsKv * std::max<std::int64_t>(scaled.groups, 1),
                               static_cast<std::int64_t>(whole.lengths.size()) * kScaledHeadsKv)));
    for (float& scale : scaled.scales) scale = std::ldexp(1.0f, static_cast<int>(random() % 4) - 2);
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      for (std::int64_t i = 0; i < whole.lengths[b] * kScaledHeadsKv * kDepth; ++i) {
        const std::int64_t row = whole.starts[b] + i / (kScaledHeadsKv * kDepth),
                           head = i / kDepth % kScaledHeadsKv;
        const auto byte = static_cast<std::uint8_t>((random() & 0x80) | (0x20 + random() % 0x1c));
        const float scale =
            scaled.scales[scale_of(static_cast<std::int64_t>(b), row, head, i % kDepth, scaled.groups)];
        scaled.bytes.push_back(byte);
        rows.values[static_cast<std::size_t>(row * kScaledHeadsKv * kDepth + i % (kScaledHeadsKv * kDepth))] =
            round_bf16(widen_e4m3(byte) * scale);
      }
    }
  }
};

/// The rank's rows of an array of `width` elements a row.
template <class T>
std::vector<T> own_rows(const std::vector<T>& all, std::int64_t width, const Whole& whole,
                        const ContextPrefill& prefill) {
  std::vector<T> out;
  for (const int which : {0, 1}) {
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      const Run run = prefill.run(static_cast<std::int64_t>(b), which);
      const auto first = all.begin() + (whole.starts[b] + run.first) * width;
      out.insert(out.end(), first, first + run.rows * width);
    }
  }
  return out;
}

Comparison scaled_prefill_of_rank(const Problem& problem, PrefillWay way,
                                  const std::shared_ptr<Transport>& transport) {
  const Whole& whole = problem.whole;
  ContextParallelOptions options;
  options.heads_q = kScaledHeadsQ, options.heads_kv = kScaledHeadsKv, options.way = way;
  ContextPrefill prefill(emulated(), problem.config, transport, options);
  prefill.set_batch(whole.lengths);
  const std::int64_t rows = prefill.rows(), batch = static_cast<std::int64_t>(whole.lengths.size());
  const DeviceBuffer q = upload(own_rows(whole.q.values, kScaledHeadsQ * kDepth, whole, prefill)),
                     o = upload(std::vector<std::uint16_t>(
                         static_cast<std::size_t>(rows * kScaledHeadsQ * kDepth), 0x7fc0));
  ContextPrefill::Args args;
  args.q = Tensor::dense(q.address(), DType::bf16, {rows, kScaledHeadsQ, kDepth});
  args.o = Tensor::dense(o.address(), DType::bf16, {rows, kScaledHeadsQ, kDepth});
  std::vector<DeviceBuffer> buffers;
  const auto give = [&](const Scaled& scaled, Tensor& tensor, std::optional<Tensor>& scale) {
    buffers.push_back(upload(own_rows(scaled.bytes, kScaledHeadsKv * kDepth, whole, prefill)));
    tensor = Tensor::dense(buffers.back().address(), DType::fp8_e4m3, {rows, kScaledHeadsKv, kDepth});
    using Granularity = Quantization::Granularity;
    const Granularity granularity = problem.config.operand->quantization->granularity;
    buffers.push_back(upload(scaled.groups > 0 ? own_rows(scaled.scales, scaled.row_scales(), whole, prefill)
                                               : scaled.scales));
    std::vector<std::int64_t> shape{rows, kScaledHeadsKv};
    if (granularity == Granularity::per_tensor) shape = {1};
    if (granularity == Granularity::per_head) shape = {kScaledHeadsKv};
    if (granularity == Granularity::per_sequence) shape = {batch, kScaledHeadsKv};
    if (granularity == Granularity::per_block) shape.push_back(scaled.groups);
    scale = Tensor::dense(buffers.back().address(), DType::f32, shape);
  };
  give(problem.k, args.k, args.k_scale), give(problem.v, args.v, args.v_scale);
  prefill.launch(args);
  transport->synchronize(0);
  const auto got = download<std::uint16_t>(o);
  Comparison comparison;
  std::int64_t row = 0;
  for (const int which : {0, 1}) {
    for (std::size_t b = 0; b < whole.lengths.size(); ++b) {
      const Run run = prefill.run(static_cast<std::int64_t>(b), which);
      for (std::int64_t i = 0; i < run.rows; ++i, ++row) {
        for (std::int64_t head = 0; head < kScaledHeadsQ; ++head) {
          std::vector<float> one;
          for (std::int64_t c = 0; c < kDepth; ++c)
            one.push_back(widen(got[static_cast<std::size_t>((row * kScaledHeadsQ + head) * kDepth + c)]));
          const Exact exact =
              attend(whole, *problem.config.mask, b, run.first + i, head, 0, whole.lengths[b]);
          comparison.add(exact, one.data(), static_cast<float>(exact.lse));
        }
      }
    }
  }
  return comparison;
}

void check_scaled_prefill(const Problem& problem, int ranks) {
  CAPTURE(config_name(problem.config));
  for (const PrefillWay way : {PrefillWay::ring, PrefillWay::gather}) {
    CAPTURE(way == PrefillWay::ring);
    std::vector<Comparison> comparisons(static_cast<std::size_t>(ranks));
    const auto errors = as_group(ranks, 60, [&](int rank, const std::shared_ptr<Transport>& transport) {
      comparisons[static_cast<std::size_t>(rank)] = scaled_prefill_of_rank(problem, way, transport);
    });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      CHECK(errors[rank] == "");
      CHECK(comparisons[rank].error() < 4e-3);
    }
  }
}

}  // namespace

TEST_CASE("scales of a token's row go with it to the other rank") {
  check_scaled_prefill({"sm_80", R"("per_token")", 1, {150}}, 2);
}

TEST_CASE("scales of K and V are those of their rows on whatever rank" * doctest::test_suite("breadth")) {
  const std::vector<std::int64_t> lengths{130, 3, 0, 70}, one{150};
  for (const char* granularity : {R"("per_tensor")", R"("per_head")", R"("per_sequence")"})
    check_scaled_prefill({"sm_80", granularity, 0, lengths}, 3);
  check_scaled_prefill({"sm_80", R"("per_token")", 1, lengths}, 3);
  check_scaled_prefill({"sm_80", R"("per_token")", 1, one}, 2);
  check_scaled_prefill({"sm_80", "32", 2, lengths}, 2);
  check_scaled_prefill({"sm_90a", R"("per_head")", 0, lengths}, 2);
  check_scaled_prefill({"sm_90a", R"("per_token")", 1, lengths}, 2);
  check_scaled_prefill({"gfx950", R"("per_token")", 1, lengths}, 2);
}

TEST_CASE("scales of which those of a head are contiguous are refused: rows move") {
  const auto errors = as_group(1, 60, [&](int, const std::shared_ptr<Transport>& transport) {
    scaled_prefill_of_rank({"sm_80", R"("per_token", "layout": "head_major")", 1, {20}}, PrefillWay::gather,
                           transport);
  });
  CHECK(errors[0].find("token_major") != std::string::npos);
}
