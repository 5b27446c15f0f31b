#include "generator/schedules/common/cdna_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cdna {
namespace {

using Kind = TimelineSpan::Kind;

/// Clocks of one wave's parts of a tile on its SIMD, and of a tile's copies at the compute unit's L1.
struct Costs {
  double mma, exponentials, per_score, lanes = 16, copy_bytes = 64;
  double qk, pv, softmax, copy_k, copy_v;

  explicit Costs(const PrefillPlan& p) {
    const bool newest = p.mfma.target == Target::gfx950;
    mma = (p.mfma.target == Target::gfx90a ? 128.0 : newest ? 512.0 : 256.0) * (p.q_bytes() ? 2 : 1);
    exponentials = newest ? 8 : 4;
    per_score = newest ? 3 : 5;
    const double scores = static_cast<double>(p.WM()) * p.BN;
    qk = scores * p.depth / mma, pv = scores * p.ov_depth / mma;
    softmax = scores / exponentials + scores * per_score / lanes;
    const auto bytes = static_cast<double>(size_of(*p.config.kv_dtype));
    copy_k = bytes * p.BN * p.depth / copy_bytes, copy_v = bytes * p.BN * p.ov_depth / copy_bytes;
  }
  std::string note() const {
    return fmt::format(
        "One SIMD, on paper: {:.0f} multiply-adds, {:.0f} exponentials, {:.0f} other operations, {:.0f} "
        "bytes "
        "from L1 a clock.",
        mma, exponentials, lanes, copy_bytes);
  }
};

constexpr int kTiles = 6;

/// Draws the copy of K or V (`what`) of a tile; returns when it has landed.
double copy_tile(Timeline& out, TimelineUnit& copies, const Costs& cost, char what, int tile, double ready) {
  const double duration = what == 'K' ? cost.copy_k : cost.copy_v, begin = copies.take(ready, duration);
  out.spans.push_back({0, begin, begin + duration, Kind::copy, fmt::format("{}{}", what, tile)});
  return begin + duration;
}

Timeline in_step(const PrefillPlan& p, const Costs& cost) {
  Timeline out;
  const int waves = std::max(1, p.num_warps / 4);
  out.lanes = {"copies", "matrix unit"};
  for (int g = 0; g < waves; ++g) out.lanes.push_back(fmt::format("softmax, wave {}", g));
  TimelineUnit copies;
  std::vector<double> k_landed(kTiles + 1, 0), v_landed(kTiles + 1, 0);
  const auto copy = [&](char what, int tile, double ready) {
    if (tile < kTiles)
      (what == 'K' ? k_landed : v_landed)[static_cast<std::size_t>(tile)] =
          copy_tile(out, copies, cost, what, tile, ready);
  };
  copy('K', 0, 0);
  if (p.v_stages == 2) copy('V', 0, 0);
  double start = 0;
  for (int n = 0; n < kTiles; ++n) {
    const auto tile = static_cast<std::size_t>(n);
    start = std::max(start, k_landed[tile]);  // and the barrier: every wave is here
    if (p.v_stages == 1) copy('V', n, start);
    if (p.k_stages == 2) copy('K', n + 1, start);
    if (p.v_stages == 2) copy('V', n + 1, start);
    // Units serve the waves instruction by instruction: all come to the end of a part together.
    const double scores = start + waves * cost.qk, softmax = scores + waves * cost.softmax;
    const double products = std::max(softmax, v_landed[tile]), last = products + waves * cost.pv;
    out.spans.push_back({1, start, scores, Kind::scores, fmt::format("S{}", n)});
    for (int g = 0; g < waves; ++g)
      out.spans.push_back({2 + g, scores, softmax, Kind::softmax, std::to_string(n)});
    out.spans.push_back({1, products, last, Kind::output, fmt::format("PV{}", n)});
    if (p.k_stages == 1) copy('K', n + 1, scores);
    start = last;
  }
  return out;
}

Timeline pingpong(const Costs& cost) {
  Timeline out;
  out.lanes = {"copies", "matrix unit", "softmax, early", "softmax, late"};
  TimelineUnit copies;
  // Slot s begins at `slot(s)`; before slot 0 the early wave has S(0), in slot 0 the late one.
  const double lasts = std::max(cost.softmax, cost.qk + cost.pv);
  const auto slot = [&](int s) { return cost.qk + s * lasts; };
  const auto copy = [&](char what, int tile, double ready) {
    if (tile < kTiles) copy_tile(out, copies, cost, what, tile, ready);
  };
  out.spans.push_back({1, 0, cost.qk, Kind::scores, "S0"});
  for (int group = 0; group < 2; ++group) {
    for (int n = 0; n < kTiles; ++n) {
      const double softmax = slot(2 * n + group), products = slot(2 * n + 1 + group);
      out.spans.push_back({2 + group, softmax, softmax + cost.softmax, Kind::softmax, std::to_string(n)});
      out.spans.push_back({1, products, products + cost.pv, Kind::output, fmt::format("PV{}", n)});
      if (n + 1 < kTiles)
        out.spans.push_back(
            {1, products + cost.pv, products + cost.pv + cost.qk, Kind::scores, fmt::format("S{}", n + 1)});
    }
  }
  out.spans.push_back({1, slot(0), slot(0) + cost.qk, Kind::scores, "S0"});
  for (int n = 0; n < kTiles; ++n) copy('V', n + 1, slot(2 * n + 1)), copy('K', n + 2, slot(2 * n + 1));
  return out;
}

}  // namespace

Timeline prefill_timeline(const PrefillPlan& p) {
  if (p.loop != PrefillLoop::tiles && p.loop != PrefillLoop::pingpong) return {};
  const Costs cost(p);
  Timeline out = p.loop == PrefillLoop::pingpong ? pingpong(cost) : in_step(p, cost);
  out.note = cost.note();
  return out;
}

}  // namespace kiln::cdna
