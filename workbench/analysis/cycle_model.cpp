#include "workbench/analysis/cycle_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include <kiln/error.hpp>

#include "base/integers.hpp"
#include "generator/config/quantization.hpp"
#include "generator/operands/operand_form.hpp"
#include "workbench/verify/runner.hpp"

namespace kiln {
namespace {

constexpr std::size_t kEvents = 4'000'000;
constexpr int kFewTiles = 6, kManyTiles = 18, kFewItems = 2, kManyItems = 4;

/// Heads of a decode run: query heads, KV heads.
std::pair<int, int> heads_of(const CycleRuns& runs) {
  const int kv = runs.resolved.kv_num_heads.value_or(1);
  const int q = runs.resolved.num_q_heads.value_or(runs.resolved.group.value_or(std::min(runs.rows, 8)));
  return {q, kv};
}
/// Items of one block with the same number of tiles: prefill's are heads, decode's are sequences.
ProblemShape shape_of(const CycleRuns& runs, const Manifest& manifest, int items, int tiles) {
  ProblemShape shape;
  shape.depth = runs.resolved.depth;
  shape.ov_depth = runs.resolved.ov_depth.value_or(shape.depth);
  shape.ragged = operand_form(manifest.operand).ragged_q;
  const std::int64_t keys = static_cast<std::int64_t>(tiles) * runs.keys;
  if (runs.resolved.operation == Operation::prefill) {
    shape.heads_q = shape.heads_kv = items;
    shape.lengths_q = {runs.rows};
    shape.lengths_k = {keys};
    return shape;
  }
  std::tie(shape.heads_q, shape.heads_kv) = heads_of(runs);
  shape.lengths_q.assign(static_cast<std::size_t>(items), 1);
  shape.lengths_k.assign(static_cast<std::size_t>(items), keys);
  return shape;
}

std::unique_ptr<emulator::Trace> run_items(Runtime& runtime, const KernelSource& source,
                                           const CycleRuns& runs, int items, int tiles) {
  const ProblemShape shape = shape_of(runs, source.manifest, items, tiles);
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

/// Bytes of a key and its value, of one KV head, with their scales where these are bytes within a row.
double row_bytes(const Config& resolved) {
  const DType type = resolved.kv_dtype.value_or(resolved.dtype);
  const int columns =
      resolved.depth + (resolved.v_from_k.value_or(false) ? 0 : resolved.ov_depth.value_or(resolved.depth));
  const auto& scales = resolved.operand ? resolved.operand->quantization : std::nullopt;
  const double scale = has_block_scales(scales) ? 1.0 / scales->block : 0.0;
  return columns * (static_cast<double>(size_of(type)) / numbers_of(type) + scale);
}

/// Each multiprocessor has its share of the memory's rate, where that is less than what L2 gives.
CycleMachine reading_memory(CycleMachine machine) {
  machine.again_bytes = machine.copy_bytes;
  machine.copy_bytes =
      std::min(machine.copy_bytes, machine.memory_gbps / (machine.multiprocessors * machine.ghz));
  return machine;
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
  runs.rows = source.manifest.grid.block_rows, runs.cluster = source.manifest.cluster[0];
  runs.keys = runs.resolved.BN.value_or(64);
  runs.resident = source.manifest.grid.ctas_per_sm;
  runs.few = run_items(runtime, source, runs, kFewItems, kFewTiles);
  runs.long_items = run_items(runtime, source, runs, kFewItems, kManyTiles);
  runs.many = run_items(runtime, source, runs, kManyItems, kFewTiles);
  return runs;
}

double CycleModel::read_share() const {
  return tile_bytes / reading_memory(*machine).copy_bytes / tile;
}

CycleModel model_cycles(const CycleRuns& runs, const CycleMachine& given) {
  CycleModel m;
  m.machine = &given;
  m.rows = runs.rows / runs.cluster, m.keys = runs.keys;
  const bool decode = runs.resolved.operation == Operation::decode;
  const CycleMachine machine = decode ? reading_memory(given) : given;
  const auto replay = [&](const auto& trace) { return replay_cycles(*trace, machine, runs.resident); };
  const CycleReplay few = replay(runs.few), long_items = replay(runs.long_items), many = replay(runs.many);
  m.cluster = runs.cluster;
  // Of decode each item of the runs is a sequence, with as many tiles of rows as its heads need; those of a KV head read
  // the same bytes.
  const auto [heads_q, heads_kv] = heads_of(runs);
  const double of_head = ceil_div(heads_q / heads_kv, runs.rows);
  const double row_tiles = decode ? heads_kv * of_head : 1;
  if (decode) m.tile_bytes = runs.keys * row_bytes(runs.resolved) / (runs.cluster * of_head);
  const double tiles = kFewItems * (kManyTiles - kFewTiles) * row_tiles * runs.resident;
  const double more_items = (kManyItems - kFewItems) * row_tiles * runs.resident;
  constexpr auto kCopy = static_cast<std::size_t>(CycleResource::copy);
  const double grown = (long_items.busy[kCopy] - few.busy[kCopy]) * machine.copy_bytes;
  if (decode && grown < tiles / 2 * m.tile_bytes)
    throw Error(
        ErrorCode::bad_input,
        "the cycle model needs tiles that grow with the keys: a window or a chunk reads no more of them");
  m.tile = (long_items.clocks - few.clocks) / tiles;
  m.item = (many.clocks - few.clocks) / more_items - kFewTiles * m.tile;
  m.start = few.clocks - kFewItems * row_tiles * runs.resident * (m.item + kFewTiles * m.tile);
  if (!decode) m.item += machine.item_latency;
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

double counted_bytes(const Config& resolved, const ProblemShape& shape) {
  double keys = 0;
  for (const std::int64_t length : shape.lengths_k) keys += static_cast<double>(length);
  return keys * static_cast<double>(shape.heads_kv) * row_bytes(resolved);
}

namespace {

/// Clocks of the multiprocessor with the most work: all tiles end to end in equal ranges.
double decode_clocks(const CycleModel& model, const ProblemShape& shape) {
  const double group = static_cast<double>(shape.heads_q) / static_cast<double>(shape.heads_kv);
  double tiles = 0, items = 0;
  for (std::size_t i = 0; i < shape.lengths_q.size(); ++i) {
    const double rows = model.rows * model.cluster;
    const double row_tiles =
        std::ceil(group * static_cast<double>(shape.lengths_q[i]) / rows) * model.cluster;
    const double heads = static_cast<double>(shape.heads_kv) * row_tiles;
    tiles += heads * std::ceil(static_cast<double>(shape.lengths_k[i]) / model.keys);
    items += heads;
  }
  const double share = model.machine->multiprocessors;
  return model.start + std::ceil(tiles / share) * model.tile + std::max(1.0, items / share) * model.item;
}

}  // namespace

double predicted_us(const CycleModel& model, const Config& resolved, const ProblemShape& shape, double ghz) {
  const double rate = (ghz > 0 ? ghz : model.machine->ghz) * 1e3;
  if (model.tile_bytes > 0) return decode_clocks(model, shape) / rate + model.machine->launch_us;
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
  return end / rate + model.machine->launch_us;
}

}  // namespace kiln
