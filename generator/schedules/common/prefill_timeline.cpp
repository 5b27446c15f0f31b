#include "generator/schedules/common/prefill_timeline.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace kiln {
namespace {

using Kind = TimelineSpan::Kind;

struct Costs {
  double qk, pv, softmax, copy_k, copy_v, widen;
  explicit Costs(const LoopModel& m) {
    const double scores = static_cast<double>(m.rows) * m.BN;
    qk = scores * m.depth / m.mma;
    pv = scores * m.ov_depth / m.mma;
    softmax = std::max(scores * (1 - m.exp_offload) / m.exponentials,
                       scores * (m.instructions_per_score + 1) / m.lanes);
    copy_k = m.element_bytes * m.BN * m.depth / m.copy_bytes;
    copy_v = m.element_bytes * m.BN * m.ov_depth / m.copy_bytes;
    widen = m.instructions_per_byte * m.BN * (m.depth + m.ov_depth) / m.lanes;
  }
};

std::string note(const LoopModel& m) {
  return fmt::format(
      "Model: {:.0f} multiply-adds, {:.0f} exponentials, {:.0f} other operations and {:.0f} bytes from L2 a "
      "clock.",
      m.mma, m.exponentials, m.lanes, m.copy_bytes);
}

}  // namespace

Timeline overlapped_timeline(const LoopModel& m) {
  const Costs cost(m);
  Timeline out;
  out.note = note(m);
  out.lanes = {"copies", "tensor cores"};
  for (int g = 0; g < m.consumers; ++g) out.lanes.push_back(fmt::format("softmax {}", g));
  TimelineUnit copies, tensor;
  const auto count = static_cast<std::size_t>(m.tiles);
  std::vector<double> k_released(count, 0), v_released(count, 0),
      ready(static_cast<std::size_t>(m.consumers), 0);
  const auto copy = [&](char what, std::size_t i, double duration, const std::vector<double>& released) {
    const auto stages = static_cast<std::size_t>(m.stages);
    const double begin = copies.take(i >= stages ? released[i - stages] : 0, duration);
    out.spans.push_back({0, begin, begin + duration, Kind::copy, fmt::format("{}{}", what, i)});
    return begin + duration;
  };
  double v_before = 0;
  for (std::size_t i = 0; i <= count; ++i) {
    const double k_here = i < count ? copy('K', i, cost.copy_k, k_released) : 0;
    if (i > 0) v_before = copy('V', i - 1, cost.copy_v, v_released);
    std::vector<int> order(static_cast<std::size_t>(m.consumers));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return ready[static_cast<std::size_t>(a)] < ready[static_cast<std::size_t>(b)];
    });
    for (const int g : order) {
      double& at = ready[static_cast<std::size_t>(g)];
      double scores = at, done = at;
      if (i < count) {
        const double begin = tensor.take(std::max(at, k_here), cost.qk);
        scores = done = begin + cost.qk;
        out.spans.push_back({1, begin, scores, Kind::scores, fmt::format("S{}", i)});
        k_released[i] = std::max(k_released[i], scores);
      }
      if (i > 0) {
        const double begin = tensor.take(std::max(at, v_before), cost.pv);
        done = begin + cost.pv;
        out.spans.push_back({1, begin, done, Kind::output, fmt::format("PV{}", i - 1)});
        v_released[i - 1] = std::max(v_released[i - 1], done);
      }
      if (i < count) {
        out.spans.push_back({2 + g, scores, scores + cost.softmax, Kind::softmax, fmt::format("{}", i)});
        done = std::max(done, scores + cost.softmax);
      }
      at = done;
    }
  }
  return out;
}

Timeline sequential_timeline(const LoopModel& m) {
  const Costs cost(m);
  const bool widens = cost.widen > 0;
  Timeline out;
  out.note = note(m) + " One block; others of the multiprocessor fill its gaps.";
  out.lanes = {"copies", "tensor cores", widens ? "softmax, widening (w)" : "softmax"};
  TimelineUnit copies;
  const auto count = static_cast<std::size_t>(m.tiles),
             ahead = static_cast<std::size_t>(widens ? m.stages : m.stages - 1);
  std::vector<double> landed(count, 0);
  const auto copy = [&](std::size_t i, double ready) {
    if (i >= count) return;
    const double duration = cost.copy_k + cost.copy_v, begin = copies.take(ready, duration);
    landed[i] = begin + duration;
    out.spans.push_back({0, begin, landed[i], Kind::copy, fmt::format("K{0} V{0}", i)});
  };
  for (std::size_t i = 0; i < ahead; ++i) copy(i, 0);
  double now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!widens) copy(i + ahead, now);
    now = std::max(now, landed[i]);
    const auto span = [&](int lane, double duration, Kind kind, const std::string& text) {
      out.spans.push_back({lane, now, now + duration, kind, text});
      now += duration;
    };
    if (widens) {
      span(2, cost.widen, Kind::softmax, fmt::format("w{}", i));
      copy(i + ahead, now);
    }
    span(1, cost.qk, Kind::scores, fmt::format("S{}", i));
    span(2, cost.softmax, Kind::softmax, fmt::format("{}", i));
    span(1, cost.pv, Kind::output, fmt::format("PV{}", i));
  }
  return out;
}

}  // namespace kiln
