#include "workbench/analysis/cycle_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include <kiln/error.hpp>

#include "workbench/verify/runner.hpp"

namespace kiln {
namespace {

constexpr std::size_t kEvents = 4'000'000;
constexpr int kFewTiles = 6, kManyTiles = 18, kFewItems = 2, kManyItems = 4;

/// Items of one block, each a head of its own, with the same number of tiles.
std::unique_ptr<emulator::Trace> run_items(Runtime& runtime, const KernelSource& source,
                                           const CycleRuns& runs, int items, int tiles) {
  ProblemShape shape;
  shape.heads_q = shape.heads_kv = items;
  shape.depth = runs.resolved.depth;
  shape.ov_depth = runs.resolved.ov_depth.value_or(shape.depth);
  shape.lengths_q = {runs.rows};
  shape.lengths_k = {static_cast<std::int64_t>(tiles) * runs.keys};
  shape.ragged = source.manifest.operand != OperandKind::contiguous;
  EmulatorOptions emulator;
  emulator.findings = false;
  emulator.num_sms = 1;
  emulator.host_threads = 1;
  RunOptions options;
  options.emulator = &emulator;
  options.max_blocks = 1;
  const auto kernel = runtime.load(source);
  auto trace = std::make_unique<emulator::Trace>(true, kEvents);
  {
    const emulator::TraceScope scope(*trace);
    run_workload(runtime, *kernel, random_workload(shape, runs.resolved, 1), options);
  }
  if (!trace->complete())
    throw Error(ErrorCode::bad_input, "the cycle model has no room for this run's events");
  return trace;
}

double visible(const Config& resolved, std::int64_t q, std::int64_t k) {
  if (resolved.mask.value_or(MaskConfig{}).kind == MaskConfig::Kind::none) return static_cast<double>(q * k);
  double sum = 0;
  for (std::int64_t row = 0; row < q; ++row)
    sum += static_cast<double>(std::clamp<std::int64_t>(row + 1 + k - q, 0, k));
  return sum;
}

}  // namespace

double CycleModel::steady_tflops(double ghz) const {
  return machine->multiprocessors * tile_flop / tile * ghz * 1e-3;
}

CycleRuns record_cycles(Runtime& runtime, const Plan& plan, const KernelSource& source) {
  CycleRuns runs;
  runs.resolved = plan.resolved();
  if (runs.resolved.operation != Operation::prefill)
    throw Error(ErrorCode::bad_input, "the cycle model is of prefill: decode is bound by the memory's rate");
  runs.rows = source.manifest.grid.block_rows;
  runs.keys = runs.resolved.BN.value_or(64);
  runs.resident = source.manifest.grid.ctas_per_sm;
  runs.few = run_items(runtime, source, runs, kFewItems, kFewTiles);
  runs.long_items = run_items(runtime, source, runs, kFewItems, kManyTiles);
  runs.many = run_items(runtime, source, runs, kManyItems, kFewTiles);
  return runs;
}

CycleModel model_cycles(const CycleRuns& runs, const CycleMachine& machine) {
  CycleModel m;
  m.machine = &machine;
  m.rows = runs.rows, m.keys = runs.keys;
  const auto replay = [&](const auto& trace) { return replay_cycles(*trace, machine, runs.resident); };
  const CycleReplay few = replay(runs.few), long_items = replay(runs.long_items), many = replay(runs.many);
  const double tiles = kFewItems * (kManyTiles - kFewTiles) * runs.resident;
  m.tile = (long_items.clocks - few.clocks) / tiles;
  m.item = (many.clocks - few.clocks) / ((kManyItems - kFewItems) * runs.resident) - kFewTiles * m.tile;
  m.start = few.clocks - kFewItems * runs.resident * (m.item + kFewTiles * m.tile);
  m.item += machine.item_latency;
  for (std::size_t r = 0; r < m.busy.size(); ++r) m.busy[r] = (long_items.busy[r] - few.busy[r]) / tiles;
  const auto* const most = std::max_element(m.busy.begin(), m.busy.end());
  m.bound = static_cast<CycleResource>(most - m.busy.begin());
  m.exposed = m.tile - *most;
  m.tile_flop =
      2.0 * m.rows * m.keys * (runs.resolved.depth + runs.resolved.ov_depth.value_or(runs.resolved.depth));
  return m;
}

CycleModel model_cycles(Runtime& runtime, const Plan& plan, const KernelSource& source) {
  const CycleMachine& machine = cycle_machine(to_string(plan.resolved().target));
  return model_cycles(record_cycles(runtime, plan, source), machine);
}

double counted_flop(const Config& resolved, const ProblemShape& shape) {
  double pairs = 0;
  for (std::size_t i = 0; i < shape.lengths_q.size(); ++i)
    pairs += visible(resolved, shape.lengths_q[i], shape.lengths_k[i]);
  return 2 * pairs * static_cast<double>(shape.heads_q) * static_cast<double>(shape.depth + shape.ov_depth);
}

double predicted_us(const CycleModel& model, const Config& resolved, const ProblemShape& shape, double ghz) {
  std::vector<double> items;
  const bool causal = resolved.mask.value_or(MaskConfig{}).kind != MaskConfig::Kind::none;
  for (std::size_t i = 0; i < shape.lengths_q.size(); ++i) {
    const std::int64_t q = shape.lengths_q[i], k = shape.lengths_k[i];
    for (std::int64_t row = 0; row < q; row += model.rows) {
      const std::int64_t last = causal ? std::clamp<std::int64_t>(row + model.rows + k - q, 0, k) : k;
      const double clocks = model.item + std::ceil(static_cast<double>(last) / model.keys) * model.tile;
      items.insert(items.end(), static_cast<std::size_t>(shape.heads_q), clocks);
    }
  }
  std::sort(items.begin(), items.end(), std::greater<>());
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (int i = 0; i < model.machine->multiprocessors; ++i) free.push(model.start);
  double end = model.start;
  for (const double clocks : items) {
    const double done = free.top() + clocks;
    free.pop();
    free.push(done);
    end = std::max(end, done);
  }
  return end / ((ghz > 0 ? ghz : model.machine->ghz) * 1e3) + model.machine->launch_us;
}

}  // namespace kiln
