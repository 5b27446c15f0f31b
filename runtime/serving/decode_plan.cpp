// The arithmetic of StreamK (generator/systems/stream_k.hpp) on the host.
#include <kiln/decode_plan.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <kiln/config.hpp>

#include "generator/config/masks.hpp"
#include "runtime/launch/checker.hpp"
#include "runtime/launch/geometry.hpp"
#include "runtime/support/memory.hpp"

namespace kiln {
namespace {

// What the manifest says of the kernel's plan.
struct Rules {
  std::int64_t block_rows, block_keys;
  MaskConfig mask = {};
  bool split = true;
  std::int64_t parts = 1;  // of every item without `split`
};

Rules rules_of(const Manifest& manifest) {
  if (manifest.grid.kind != GridRule::Kind::stream_k || manifest.grid.block_keys < 1 ||
      manifest.grid.block_rows < 1)
    throw Error(ErrorCode::bad_input, manifest.name + ": not a kernel with a decode plan");
  Rules rules{manifest.grid.block_rows, manifest.grid.block_keys};
  const Config config = parse_config(manifest.config_json, manifest.name);
  if (config.mask) rules.mask = *config.mask;
  if (has_launch_sides(rules.mask) || rules.mask.left_padding)
    throw Error(ErrorCode::bad_input, manifest.name + ": where keys begin is known at the launch alone");
  rules.split = !config.split_kv;
  rules.parts = config.split_kv.value_or(1);
  return rules;
}

struct Tiles {
  std::int64_t first, count;
};
Tiles tiles_of(const Rules& rules, std::int64_t q, std::int64_t k) {
  std::int64_t key = 0;
  if (rules.mask.kind == MaskConfig::Kind::sliding_window) key = k - q - (rules.mask.size - 1);
  if (rules.mask.kind == MaskConfig::Kind::chunked) key = (k - q) / rules.mask.size * rules.mask.size;
  if (rules.mask.kind == MaskConfig::Kind::window) {
    if (rules.mask.left >= 0) key = k - q - rules.mask.left;
    if (rules.mask.chunk > 0)
      key = std::max(key, std::max<std::int64_t>(k - q, 0) / rules.mask.chunk * rules.mask.chunk);
  }
  const std::int64_t first = std::max<std::int64_t>(key, 0) / rules.block_keys;
  return {first, std::max<std::int64_t>((k + rules.block_keys - 1) / rules.block_keys - first, 1)};
}

/// Refuses what is below `least` or beyond the 32 bits in which a kernel counts.
void check_counts(const Manifest& manifest, const DecodeShape& shape) {
  Checker check;
  const auto count = [&](const char* what, std::int64_t value, std::int64_t least) {
    check.require(value >= least && value <= kMaxInt, "{} = {}; {} to {} is possible", what, value, least,
                  kMaxInt);
    check.done(manifest.name);
  };
  count("heads_q", shape.heads_q, 1);
  count("heads_kv", shape.heads_kv, 1);
  count("max_seqlen_k", shape.max_seqlen_k, 0);
  for (const std::int64_t length : shape.lengths_q) count("a length of queries", length, 0);
  for (const std::int64_t length : shape.lengths_k) count("a length of keys", length, 0);
}

DecodePlan size_plan(const Manifest& manifest, const Rules& rules, const DecodeShape& shape, int num_sms) {
  const auto longest = [](std::span<const std::int64_t> lengths) {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  };
  check_counts(manifest, shape);
  const bool possible =
      shape.heads_q % shape.heads_kv == 0 && shape.lengths_q.size() == shape.lengths_k.size() && num_sms > 0;
  if (!possible) throw Error(ErrorCode::bad_input, manifest.name + ": heads or lengths do not go together");
  Problem problem;
  problem.batch = static_cast<std::int64_t>(shape.lengths_q.size());
  problem.heads_kv = shape.heads_kv;
  const std::int64_t rows = shape.heads_q / shape.heads_kv * longest(shape.lengths_q);
  problem.num_m_blocks = (rows + rules.block_rows - 1) / rules.block_rows;
  if (__builtin_mul_overflow(problem.num_m_blocks * shape.heads_kv, problem.batch, &problem.num_tiles) ||
      problem.num_tiles > kMaxInt)
    throw Error(ErrorCode::bad_input,
                fmt::format("{}: {} items of work in each of {} sequences; {} are possible in all",
                            manifest.name, problem.num_m_blocks * shape.heads_kv, problem.batch, kMaxInt));
  const std::int64_t keys = shape.max_seqlen_k > 0 ? shape.max_seqlen_k : longest(shape.lengths_k);
  problem.kv_tiles = std::max<std::int64_t>(1, (keys + rules.block_keys - 1) / rules.block_keys);
  problem.max_blocks = shape.max_blocks;
  settle_stages(manifest, num_sms, shape.residency, problem);
  problem.team_heads = choose_team(manifest, problem, num_sms);

  DecodePlan plan;
  plan.team_heads = problem.team_heads;
  plan.items = problem.num_tiles;
  if (plan.items == 0) return plan;
  plan.blocks = make_geometry(manifest, problem, num_sms).grid[0];
  plan.workspace_bytes = std::max(most_blocks(manifest, num_sms) * manifest.workspace_bytes_per_block,
                                  plan.items * manifest.workspace_bytes_per_item);
  for (std::size_t b = 0; b < shape.lengths_q.size(); ++b)
    plan.tiles += rules.split ? tiles_of(rules, shape.lengths_q[b], shape.lengths_k[b]).count : rules.parts;
  const std::int64_t slots = shape.heads_kv * problem.num_m_blocks / plan.team_heads;
  const std::int64_t clusters = plan.blocks / blocks_of_cluster(manifest);
  plan.teams = std::min(clusters / plan.team_heads, plan.tiles * slots);
  return plan;
}

}  // namespace

double DecodePlan::imbalance() const {
  std::int64_t most = 0, all = 0;
  std::vector<std::int64_t> work(static_cast<std::size_t>(std::max<std::int64_t>(teams, 1)), 0);
  for (const DecodeRun& run : runs) {
    std::int64_t& mine = work[static_cast<std::size_t>(run.team)];
    mine += run.tile_end - run.tile_begin;
    most = std::max(most, mine);
    all += run.tile_end - run.tile_begin;
  }
  return all == 0 ? 1
                  : static_cast<double>(most) * static_cast<double>(work.size()) / static_cast<double>(all);
}

DecodePlan size_decode(const Manifest& manifest, const DecodeShape& shape, int num_sms) {
  return size_plan(manifest, rules_of(manifest), shape, num_sms);
}

DecodePlan plan_decode(const Manifest& manifest, const DecodeShape& shape, int num_sms) {
  const Rules rules = rules_of(manifest);
  DecodePlan plan = size_plan(manifest, rules, shape, num_sms);
  if (plan.items == 0) return plan;
  const std::int64_t slots = plan.items / static_cast<std::int64_t>(shape.lengths_q.size()) / plan.team_heads;
  const std::int64_t total = plan.tiles * slots;
  const auto team_of = [&](std::int64_t position) { return ((position + 1) * plan.teams - 1) / total; };
  const auto start_of = [&](std::int64_t team) { return team * total / plan.teams; };
  const auto runs = static_cast<std::size_t>(plan.items / plan.team_heads * rules.parts + plan.teams);
  require_memory(runs * sizeof(DecodeRun), "a decode plan of " + std::to_string(runs) + " runs");
  plan.runs.reserve(runs);
  std::int64_t position = 0, team = 0;
  for (std::size_t b = 0; b < shape.lengths_q.size(); ++b) {
    const Tiles tiles = tiles_of(rules, shape.lengths_q[b], shape.lengths_k[b]);
    const std::int64_t length = rules.split ? tiles.count : rules.parts;
    const std::int64_t each = (tiles.count + rules.parts - 1) / rules.parts;
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const std::int64_t item = position, end = item + length;
      const std::int64_t first_team = team_of(item), parts = team_of(end - 1) - first_team + 1;
      while (position < end) {
        while (start_of(team + 1) <= position) ++team;
        const std::int64_t stop = std::min(end, start_of(team + 1));
        DecodeRun run{team,
                      static_cast<std::int64_t>(b),
                      slot,
                      tiles.first + position - item,
                      tiles.first + stop - item,
                      team - first_team,
                      parts};
        if (rules.split) {
          plan.runs.push_back(run);
          position = stop;
          continue;
        }
        // Positions are parts: a run each, but for those past the end of a short item.
        run.part = position - item;
        run.parts = (tiles.count + each - 1) / each;
        run.tile_begin = tiles.first + run.part * each;
        run.tile_end = tiles.first + std::min((run.part + 1) * each, tiles.count);
        if (run.part < run.parts) plan.runs.push_back(run);
        ++position;
      }
    }
  }
  return plan;
}

}  // namespace kiln
