// Which rows a rank has, and what the ways of prefill and decode take by the cost model.
#include <kiln/context_parallel.hpp>

#include <algorithm>

namespace kiln {

std::array<Run, 2> runs_of(Sharding sharding, std::int64_t length, int rank, int ranks,
                           std::int64_t granule) {
  const std::int64_t pieces = sharding == Sharding::zigzag ? 2 * std::int64_t{ranks} : ranks;
  const std::int64_t each = (length + pieces - 1) / pieces,
                     rounded = (each + granule - 1) / granule * granule;
  const auto piece = [&](std::int64_t i) -> Run {
    const std::int64_t first = std::min(i * rounded, length);
    return {first, std::min(first + rounded, length) - first};
  };
  if (sharding == Sharding::contiguous) return {piece(rank), Run{length, 0}};
  return {piece(rank), piece(pieces - 1 - rank)};
}

PrefillEstimate estimate_prefill(const PrefillShape& shape, int ranks, const ParallelCosts& costs) {
  double flops = 0, tokens = 0;
  for (const std::int64_t length : shape.lengths) {
    const auto n = static_cast<double>(length);
    flops += 2 * n * n * static_cast<double>(shape.heads_q * (shape.depth + shape.ov_depth)) /
             (shape.causal ? 2 : 1);
    tokens += n;
  }
  const double row_bytes =
      static_cast<double>(shape.heads_kv * (shape.depth + shape.ov_depth) * shape.kv_bytes);
  const double own_bytes = tokens * row_bytes / ranks;
  // O and log-sum-exps in FP32: two results are read and one is written.
  const double merge_us = 3 * tokens / ranks * static_cast<double>(shape.heads_q * (shape.ov_depth + 1)) * 4 /
                          costs.memory_bytes_per_us;
  PrefillEstimate estimate;
  estimate.one_device_us = flops / costs.flops_per_us;
  estimate.compute_us = estimate.one_device_us / ranks;
  const int steps = ranks - 1;
  // A step's share of the work goes on while K and V of the next one come.
  const double step_us = estimate.compute_us / ranks;
  const double transfer_us = costs.alpha_us + own_bytes / costs.bytes_per_us;
  estimate.ring_us = step_us + steps * std::max(step_us, transfer_us) + 2 * ranks * merge_us;
  estimate.gather_us =
      estimate.compute_us + (ranks > 1 ? costs.alpha_us + steps * own_bytes / costs.bytes_per_us : 0);
  estimate.gather_bytes = tokens * row_bytes;
  estimate.ring_bytes = ranks > 1 ? 2 * own_bytes : 0;
  return estimate;
}

DecodeEstimate estimate_decode(const DecodeStep& shape, int ranks, const ParallelCosts& costs) {
  DecodeEstimate estimate;
  estimate.one_device_us = shape.cache_bytes / costs.memory_bytes_per_us;
  estimate.read_us = estimate.one_device_us / ranks;
  estimate.gather_us = estimate.spread_us = estimate.heads_us = estimate.queries_us = estimate.read_us;
  if (ranks == 1) return estimate;
  const auto exchange = [&](double bytes) { return costs.alpha_us + bytes / costs.bytes_per_us; };
  const auto memory = [&](double bytes) { return bytes / costs.memory_bytes_per_us; };
  // A part: O and log-sum-exps in FP32. Of shares, a rank sends all but its own.
  const auto results = static_cast<double>(shape.rows * shape.heads_q);
  const double o_bytes = results * static_cast<double>(shape.ov_depth) * 4, lse_bytes = results * 4,
               part_bytes = o_bytes + lse_bytes, others = ranks - 1, sent = others / ranks;
  const double merge_share_us = memory(part_bytes + part_bytes / ranks);
  // Log-sum-exps of a range of rows are not neighbours: all of them are sent to each rank.
  const double share_rows_us = exchange(sent * o_bytes + others * lse_bytes) + merge_share_us;
  estimate.gather_us += exchange(others * part_bytes) + memory((ranks + 1) * part_bytes);
  estimate.spread_us += share_rows_us + exchange(sent * o_bytes / 4 * shape.out_bytes);
  estimate.heads_us += exchange(sent * part_bytes) + merge_share_us;
  estimate.queries_us +=
      exchange(sent * results * static_cast<double>(shape.depth) * shape.q_bytes) + share_rows_us;
  return estimate;
}

}  // namespace kiln
