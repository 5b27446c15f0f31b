// Random values are a function of (seed, tensor, index), so they do not depend on the number of threads.
#include "workbench/problem/workload.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include <kiln/error.hpp>

#include "base/grid.hpp"
#include "generator/config/rope.hpp"
#include "generator/modifiers/captured.hpp"
#include "generator/modifiers/modifier.hpp"
#include "runtime/support/memory.hpp"
#include "workbench/problem/parallel.hpp"
#include "workbench/problem/rounding.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 36;  // of one tensor: 128 GiB of BF16

// The SplitMix64 finaliser: a bijection that leaves no visible structure in counters.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

std::vector<std::int64_t> offsets(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> sums(1, 0);
  for (const std::int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

std::string length_text(const std::vector<std::int64_t>& lengths) {
  const auto [low, high] = std::minmax_element(lengths.begin(), lengths.end());
  if (lengths.empty()) return "-";
  return *low == *high ? std::to_string(*low) : std::to_string(*low) + ".." + std::to_string(*high);
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

void check_total(const std::vector<std::int64_t>& lengths, std::int64_t row_elements,
                 const std::string& name) {
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0) fail(name + " lengths must be 0 or more, not " + std::to_string(length));
    // Rows are addressed with 32-bit numbers in cu_seqlens.
    if (length > std::numeric_limits<std::int32_t>::max() - total)
      fail("too many " + name + " rows in all (2^31 - 1 at most)");
    total += length;
  }
  if (total > kMaxElements / row_elements) {
    fail("problem too large: " + std::to_string(total) + " " + name + " rows of " +
         std::to_string(row_elements) + " elements");
  }
}

}  // namespace

std::int64_t ProblemShape::total_q() const {
  return std::accumulate(lengths_q.begin(), lengths_q.end(), std::int64_t{0});
}
std::int64_t ProblemShape::total_k() const {
  return std::accumulate(lengths_k.begin(), lengths_k.end(), std::int64_t{0});
}
std::vector<std::int64_t> ProblemShape::offsets_q() const {
  return offsets(lengths_q);
}
std::vector<std::int64_t> ProblemShape::offsets_k() const {
  return offsets(lengths_k);
}

bool ProblemShape::uniform() const {
  const auto same = [](const std::vector<std::int64_t>& x) {
    return std::adjacent_find(x.begin(), x.end(), std::not_equal_to<>()) == x.end();
  };
  return same(lengths_q) && same(lengths_k);
}

std::string ProblemShape::text() const {
  return "batch " + std::to_string(batch()) + ", heads " + std::to_string(heads_q) + "/" +
         std::to_string(heads_kv) + ", q " + length_text(lengths_q) + ", k " + length_text(lengths_k) +
         ", depth " + std::to_string(depth) + (ov_depth != depth ? "/" + std::to_string(ov_depth) : "");
}

void check_shape(const ProblemShape& shape) {
  const auto positive = [](std::int64_t value, const char* name) {
    if (value < 1) fail(std::string(name) + " must be 1 or more, not " + std::to_string(value));
    if (value > kMostOfGridAxis)
      fail(std::string(name) + " must be " + std::to_string(kMostOfGridAxis) + " or less, not " +
           std::to_string(value));
  };
  positive(shape.batch(), "batch");
  positive(shape.heads_q, "heads-q");
  positive(shape.heads_kv, "heads-kv");
  if (shape.lengths_k.size() != shape.lengths_q.size()) {
    fail(std::to_string(shape.lengths_q.size()) + " q lengths but " + std::to_string(shape.lengths_k.size()) +
         " k lengths");
  }
  if (shape.heads_q % shape.heads_kv != 0) {
    fail("heads-q (" + std::to_string(shape.heads_q) + ") must be a multiple of heads-kv (" +
         std::to_string(shape.heads_kv) + ")");
  }
  check_total(shape.lengths_q, shape.heads_q * std::max(shape.depth, shape.ov_depth), "q");
  check_total(shape.lengths_k, shape.heads_kv * std::max(shape.depth, shape.ov_depth), "k");
}

std::vector<float> random_normal(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<float> values(count);
  const std::uint64_t base = mix(seed) ^ mix(~stream);
  // Box-Muller on pairs; blocks hold whole pairs.
  parallel_blocks(count, std::size_t{1} << 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i += 2) {
      const std::uint64_t bits = mix(base + i / 2);
      const float u = (static_cast<float>(bits >> 40) + 1.0F) * 0x1p-24F;  // in (0, 1]
      const float angle = static_cast<float>(bits & 0xffffff) * 0x1p-24F * 2 * std::numbers::pi_v<float>;
      const float radius = std::sqrt(-2.0F * std::log(u));
      values[i] = radius * std::cos(angle);
      if (i + 1 < end) values[i + 1] = radius * std::sin(angle);
    }
  });
  return values;
}

MaskBits random_mask(const ProblemShape& shape, std::uint64_t seed) {
  const auto longest = [](const std::vector<std::int64_t>& lengths) {
    return lengths.empty() ? std::int64_t{0} : *std::max_element(lengths.begin(), lengths.end());
  };
  MaskBits mask;
  mask.batch = shape.batch();
  mask.rows = longest(shape.lengths_q);
  mask.words = longest(shape.lengths_k) / 32 + 1;
  mask.heads =
      mask.batch * mask.rows * mask.words <= (std::int64_t{1} << 22) / shape.heads_q ? shape.heads_q : 1;
  require_memory(8 * static_cast<std::uint64_t>(mask.batch * mask.heads * mask.rows * mask.words),
                 "the custom mask of " + shape.text());
  mask.bits.resize(static_cast<std::size_t>(mask.batch * mask.heads * mask.rows * mask.words));
  const std::uint64_t base = mix(seed) ^ mix(~std::uint64_t{4});
  const auto words = static_cast<std::size_t>(std::max<std::int64_t>(mask.words, 1));
  for (std::size_t i = 0; i < mask.bits.size(); ++i) {
    const bool hidden_row = mix(base ^ i / words) % 16 == 0;
    mask.bits[i] = hidden_row ? 0 : static_cast<std::uint32_t>(mix(base + i) >> 32);
  }
  return mask;
}

namespace {

// Rows of Q whose scores spread so far that their maximum grows from tile to tile, by more than any kernel
// lets pass without a new scale (factor 8), and by more than an exponent holds (64). tanh.approx is good to
// 2^-11 of the cap, which large scores would show.
void sharpen(const Config& resolved, std::vector<float>& q) {
  const bool capped = modifier_kind(resolved.score_mod.value_or(ScoreMod{})).approximate;
  const auto depth = static_cast<std::size_t>(resolved.depth);
  for (std::size_t row = 0; depth > 0 && row < q.size() / depth; ++row) {
    const float factor = row % 8 == 3 ? 8.0F : row % 8 == 6 && !capped ? 64.0F : 1.0F;
    for (std::size_t i = 0; factor != 1.0F && i < depth; ++i) q[row * depth + i] *= factor;
  }
}

}  // namespace

KeyColumns split_keys(const std::vector<float>& k, std::int64_t depth, std::int64_t rope_depth) {
  KeyColumns columns;
  for (auto row = k.begin(); row < k.end(); row += depth) {
    columns.plain.insert(columns.plain.end(), row, row + depth - rope_depth);
    columns.rope.insert(columns.rope.end(), row + depth - rope_depth, row + depth);
  }
  return columns;
}

std::vector<float> join_keys(const KeyColumns& columns, std::int64_t depth, std::int64_t rope_depth) {
  std::vector<float> k;
  auto rope = columns.rope.begin();
  for (auto row = columns.plain.begin(); row < columns.plain.end(); row += depth - rope_depth) {
    k.insert(k.end(), row, row + depth - rope_depth);
    k.insert(k.end(), rope, rope + rope_depth);
    rope += rope_depth;
  }
  return k;
}

void store_keys(const Config& resolved, bool scaled, Workload& work) {
  const DType kv_dtype = resolved.kv_dtype.value_or(resolved.dtype);
  const ProblemShape& shape = work.shape;
  const auto store = [&](std::vector<float>& values, std::int64_t depth) {
    const auto quantization = resolved.operand.value_or(OperandConfig{}).quantization;
    if (scaled && quantization) {
      work.k_scale = quantize(*quantization, kv_dtype, shape.heads_kv, depth, values, shape.offsets_k());
    } else {
      round_to(kv_dtype, values);
    }
  };
  if (!resolved.rope) return store(work.k, shape.depth);
  work.rope_depth = resolved.rope_depth.value_or(0);
  KeyColumns columns = split_keys(work.k, shape.depth, work.rope_depth);
  store(columns.plain, shape.depth - work.rope_depth);
  round_to(resolved.rope->dtype.value_or(resolved.dtype), columns.rope);
  work.k = join_keys(columns, shape.depth, work.rope_depth);
}

std::uint64_t host_bytes(const ProblemShape& shape, const Config& resolved) {
  const auto elements = [](std::int64_t rows, std::int64_t heads, std::int64_t depth) {
    return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(heads * depth);
  };
  // Rotary columns are taken apart and joined again.
  const std::uint64_t q = elements(shape.total_q(), shape.heads_q, shape.depth),
                      k = elements(shape.total_k(), shape.heads_kv, shape.depth) * (resolved.rope ? 3 : 1),
                      v = resolved.v_from_k.value_or(false)
                              ? 0
                              : elements(shape.total_k(), shape.heads_kv, shape.ov_depth);
  return (q + k + v) * sizeof(float);
}

std::vector<CapturedValues> random_captured(const ProblemShape& shape, const Config& resolved,
                                            std::uint64_t seed) {
  std::vector<CapturedValues> out;
  const ScoreMod mod = resolved.score_mod.value_or(ScoreMod{});
  if (mod.tensors.empty()) return out;
  const auto longest = [](const std::vector<std::int64_t>& lengths) {
    return lengths.empty() ? 1 : std::max<std::int64_t>(*std::max_element(lengths.begin(), lengths.end()), 1);
  };
  const std::map<std::string, std::int64_t> extents{{"b", shape.batch()},
                                                    {"h", shape.heads_q},
                                                    {"q", longest(shape.lengths_q)},
                                                    {"k", longest(shape.lengths_k)}};
  for (const Manifest::Captured& tensor : captured_of(mod)) {
    CapturedValues values;
    const std::uint64_t stream = 16 + out.size();
    std::int64_t count = 1;
    for (std::size_t i = 0; i < tensor.indices.size(); ++i) {
      const auto known = extents.find(tensor.indices[i]);
      const bool one = mix(seed + 8 * stream + i) % 4 == 0;
      values.shape.push_back(one                      ? 1
                             : known == extents.end() ? 33
                                                      : std::max<std::int64_t>(known->second, 1));
      count *= values.shape.back();
    }
    for (std::size_t i = 0; count > (1 << 24) && i < tensor.indices.size(); ++i) {
      if (tensor.indices[i] == "b" || tensor.indices[i] == "h") count /= std::exchange(values.shape[i], 1);
    }
    require_memory(static_cast<std::uint64_t>(count) * sizeof(float), "captured '" + tensor.name + "'");
    values.values = random_normal(static_cast<std::size_t>(count), seed, stream);
    if (expression::holds_integers(tensor.dtype)) {
      for (std::size_t i = 0; i < values.values.size(); ++i)
        values.values[i] = static_cast<float>(mix(seed + (stream << 32) + i) % 4);
    } else {
      round_to(tensor.dtype, values.values);
    }
    out.push_back(std::move(values));
  }
  return out;
}

namespace {

/// Sides that are given at launch, of up to half of the longest request's keys, and left padding: of up to half of a
/// request's keys, or, every other request, of up to all but one.
void draw_window(const Config& resolved, Workload& work) {
  const MaskConfig mask = resolved.mask.value_or(MaskConfig{});
  const auto& lengths = work.shape.lengths_k;
  std::uint64_t number = 0;
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(mix(work.seed * 31 + ++number) % static_cast<std::uint64_t>(most + 1));
  };
  const std::int64_t half = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()) / 2;
  if (mask.left == MaskConfig::kAtLaunch) work.window.left = draw(half);
  if (mask.right == MaskConfig::kAtLaunch) work.window.right = draw(half);
  if (mask.chunk == MaskConfig::kAtLaunch) work.window.chunk = 1 + draw(half);
  if (!mask.left_padding) return;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t most = i % 2 == 0 ? lengths[i] / 2 : std::max<std::int64_t>(lengths[i] - 1, 0);
    work.first_keys.push_back(static_cast<std::int32_t>(draw(most)));
  }
}

}  // namespace

MaskConfig Workload::mask_of(const Config& resolved) const {
  MaskConfig mask = resolved.mask.value_or(MaskConfig{});
  if (mask.left == MaskConfig::kAtLaunch) mask.left = static_cast<int>(window.left);
  if (mask.right == MaskConfig::kAtLaunch) mask.right = static_cast<int>(window.right);
  if (mask.chunk == MaskConfig::kAtLaunch) mask.chunk = static_cast<int>(window.chunk);
  return mask;
}

Workload random_workload(const ProblemShape& shape, const Config& resolved, std::uint64_t seed) {
  check_shape(shape);
  require_memory(host_bytes(shape, resolved), "the problem (" + shape.text() + ")");
  const DType kv_dtype = resolved.kv_dtype.value_or(resolved.dtype);
  Workload work;
  work.shape = shape;
  work.v_from_k = resolved.v_from_k.value_or(false);
  work.seed = seed;
  const std::optional<Quantization> quantization = resolved.operand.value_or(OperandConfig{}).quantization;
  const auto normal = [&](std::int64_t rows, std::int64_t heads, std::int64_t depth, std::uint64_t stream) {
    return random_normal(static_cast<std::size_t>(rows * heads * depth), seed, stream);
  };
  work.q = normal(shape.total_q(), shape.heads_q, shape.depth, 0);
  sharpen(resolved, work.q);
  round_to(resolved.dtype, work.q);
  work.k = normal(shape.total_k(), shape.heads_kv, shape.depth, 1);
  if (!work.v_from_k) work.v = normal(shape.total_k(), shape.heads_kv, shape.ov_depth, 2);
  store_keys(resolved, true, work);
  if (!quantization) {
    round_to(kv_dtype, work.v);
  } else if (!work.v_from_k) {
    work.v_scale =
        quantize(*quantization, kv_dtype, shape.heads_kv, shape.ov_depth, work.v, shape.offsets_k());
  }
  if (resolved.sink.value_or(false))
    work.sink = random_normal(static_cast<std::size_t>(shape.heads_q), seed, 3);
  if (resolved.mask.value_or(MaskConfig{}).kind == MaskConfig::Kind::custom)
    work.mask_bits = random_mask(shape, seed);
  draw_window(resolved, work);
  work.captured = random_captured(shape, resolved, seed);
  return work;
}

Workload exact_workload(const ProblemShape& shape, const Config& resolved, std::uint64_t seed) {
  Workload work = random_workload(shape, resolved, seed);
  std::fill(work.q.begin(), work.q.end(), 0.0F);
  for (float& x : work.v_from_k ? work.k : work.v) x = std::copysign(1.0F, x);
  if (auto& scales = work.v_from_k ? work.k_scale : work.v_scale)
    for (std::size_t i = 0; i < scales->values.size(); ++i)
      scales->values[i] = static_cast<float>(1 << (mix(seed + i) % 3));
  return work;
}

}  // namespace kiln
