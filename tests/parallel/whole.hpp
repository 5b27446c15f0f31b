// Configs of kernels that work on parts, and whole sequences on the host: random Q, K and V, and attention over them in
// float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <kiln/kiln.hpp>

namespace kiln::test {

inline constexpr std::int64_t kDepth = 64;  ///< columns of a head, in every problem of the suite

inline Config prefill_config(const std::string& target, const std::string& keys) {
  return parse_config(R"({"target": ")" + target +
                          R"(", "operation": "prefill", "dtype": "bf16", "depth": 64, )" + keys +
                          R"("lse": true, "operand": {"kind": "ragged"}})",
                      "test");
}
inline Config decode_config(const std::string& target, const std::string& keys = {},
                            const char* operand = R"({"kind": "ragged"})") {
  return parse_config(R"({"target": ")" + target +
                          R"(", "operation": "decode", "dtype": "bf16", "depth": 64, )" + keys +
                          R"("operand": )" + operand + "}",
                      "test");
}

inline float widen(std::uint16_t bits) {
  const std::uint32_t word = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &word, 4);
  return value;
}
inline std::uint16_t round_bf16(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, 4);
  return static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

/// Rows of BF16 of all sequences, one after another.
struct Rows {
  std::int64_t heads = 0, depth = 0;
  std::vector<std::uint16_t> values;
  double at(std::int64_t row, std::int64_t head, std::int64_t column) const {
    return widen(values[static_cast<std::size_t>((row * heads + head) * depth + column)]);
  }
};

struct Whole {
  std::vector<std::int64_t> lengths, starts;
  std::int64_t total = 0;
  Rows q, k, v;

  Whole(std::vector<std::int64_t> of, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t depth,
        unsigned seed)
      : lengths(std::move(of)) {
    for (const std::int64_t length : lengths) starts.push_back(total), total += length;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](Rows& rows, std::int64_t heads) {
      rows.heads = heads, rows.depth = depth;
      rows.values.resize(static_cast<std::size_t>(total * heads * depth));
      for (auto& value : rows.values) value = round_bf16(normal(random));
    };
    fill(q, heads_q), fill(k, heads_kv), fill(v, heads_kv);
  }
};

/// O and log-sum-exp of one query row and head over the keys [begin, end) that the mask shows.
struct Exact {
  std::vector<double> o;
  double lse = -std::numeric_limits<double>::infinity();
};

inline bool shows(const MaskConfig& mask, std::int64_t query, std::int64_t key) {
  switch (mask.kind) {
    case MaskConfig::Kind::causal:
      return key <= query;
    case MaskConfig::Kind::sliding_window:
      return key <= query && key > query - mask.size;
    case MaskConfig::Kind::chunked:
      return key <= query && key >= query / mask.size * mask.size;
    case MaskConfig::Kind::window:
      return (mask.left < 0 || key >= query - mask.left) && (mask.right < 0 || key <= query + mask.right);
    default:
      return true;
  }
}

/// `sink`: one more logit, without a value, where some key is seen. `slope`: of ALiBi.
inline Exact attend(const Whole& w, const MaskConfig& mask, std::size_t sequence, std::int64_t query,
                    std::int64_t head, std::int64_t begin, std::int64_t end,
                    double sink = -std::numeric_limits<double>::infinity(), double slope = 0) {
  const std::int64_t depth = w.q.depth, kv_head = head / (w.q.heads / w.k.heads), start = w.starts[sequence];
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  std::vector<double> scores;
  std::vector<std::int64_t> keys;
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t key = begin; key < end; ++key) {
    if (!shows(mask, query, key)) continue;
    double sum = 0;
    for (std::int64_t c = 0; c < depth; ++c)
      sum += w.q.at(start + query, head, c) * w.k.at(start + key, kv_head, c);
    scores.push_back(sum * scale + slope * static_cast<double>(key - query)), keys.push_back(key);
    top = std::max(top, scores.back());
  }
  Exact exact;
  exact.o.assign(static_cast<std::size_t>(depth), 0.0);
  if (keys.empty()) return exact;
  double total = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double weight = std::exp(scores[i] - top);
    total += weight;
    for (std::int64_t c = 0; c < depth; ++c)
      exact.o[static_cast<std::size_t>(c)] += weight * w.v.at(start + keys[i], kv_head, c);
  }
  total += std::exp(sink - top);
  for (double& x : exact.o) x /= total;
  exact.lse = top + std::log(total);
  return exact;
}

/// Sums of squares of differences and of exact values, and how far log-sum-exps are off.
struct Comparison {
  double wrong = 0, exact = 0, lse = 0;
  std::int64_t rows = 0;
  void add(const Exact& want, const float* o, float got_lse) {
    for (std::size_t c = 0; c < want.o.size(); ++c) {
      const double difference = static_cast<double>(o[c]) - want.o[c];
      wrong += std::isfinite(difference) ? difference * difference : 1e30;
      exact += want.o[c] * want.o[c];
    }
    if (std::isinf(want.lse) && want.lse < 0) {
      if (!(std::isinf(got_lse) && got_lse < 0)) lse = 1e30;
    } else {
      const double difference = std::fabs(static_cast<double>(got_lse) - want.lse);
      lse = std::max(lse, std::isfinite(difference) ? difference : 1e30);
    }
    ++rows;
  }
  double error() const { return exact > 0 ? std::sqrt(wrong / exact) : std::sqrt(wrong); }
};

inline Runtime& emulated() {
  static Runtime runtime([] {
    RuntimeOptions options;
    options.device = "emulated";
    return options;
  }());
  return runtime;
}
template <class T>
DeviceBuffer upload(const std::vector<T>& values) {
  DeviceBuffer buffer = emulated().allocate(values.size() * sizeof(T));
  buffer.write(std::as_bytes(std::span(values)));
  return buffer;
}
template <class T>
std::vector<T> download(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.size() / sizeof(T));
  buffer.read(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace kiln::test
