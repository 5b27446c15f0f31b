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

double estimate_decode(double cache_bytes, std::int64_t rows, std::int64_t heads_q, std::int64_t ov_depth,
                       int ranks, const ParallelCosts& costs) {
  const double read_us = cache_bytes / ranks / costs.memory_bytes_per_us;
  if (ranks == 1) return read_us;
  const double part_bytes = static_cast<double>(rows * heads_q * (ov_depth + 1)) * 4;
  const double exchange_us = costs.alpha_us + (ranks - 1) * part_bytes / costs.bytes_per_us;
  return read_us + exchange_us + (ranks + 1) * part_bytes / costs.memory_bytes_per_us;
}

}  // namespace kiln
