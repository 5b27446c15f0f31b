#include "runtime/launch/geometry.hpp"

#include <algorithm>

namespace kiln {

std::int64_t blocks_of_cluster(const Manifest& manifest) {
  return std::max(manifest.cluster[0], 1);
}

std::int64_t most_blocks(const Manifest& manifest, int num_sms) {
  const std::int64_t blocks = std::int64_t{std::max(num_sms, 1)} * std::max(manifest.grid.ctas_per_sm, 1);
  return std::max(blocks, blocks_of_cluster(manifest));
}

namespace {

/// Keys and values that a stream_k launch reads, at most `megabytes` for each multiprocessor.
bool reads_at_most(int megabytes, const Manifest& manifest, const Problem& problem, int num_sms) {
  const bool v_in_k = std::none_of(manifest.params.begin(), manifest.params.end(),
                                   [](const KernelParam& param) { return param.role == "v"; });
  const std::int64_t tile_bytes = std::int64_t{manifest.grid.block_keys} *
                                  (manifest.depth + (v_in_k ? 0 : manifest.ov_depth)) *
                                  static_cast<std::int64_t>(size_of(manifest.kv_dtype));
  return problem.num_tiles * problem.kv_tiles * tile_bytes <=
         (std::int64_t{megabytes} << 20) * std::max(num_sms, 1);
}

/// Parts of 64 rows of a latent cache's output, sm_90a's two warpgroups, which all blocks add up together.
bool has_large_parts(const Manifest& manifest) {
  return manifest.target == "sm_90a" && manifest.grid.block_rows >= 64 && manifest.ov_depth > 256;
}

}  // namespace

void settle_stages(const Manifest& manifest, int num_sms, Residency residency, Problem& problem) {
  if (!manifest.stages) return;
  const Manifest::Stages& stages = *manifest.stages;
  problem.alone =
      residency == Residency::alone || (residency == Residency::by_work && problem.max_blocks == 0 &&
                                        reads_at_most(stages.alone_megabytes, manifest, problem, num_sms));
  problem.num_kv_stages = problem.alone ? stages.alone : stages.shared;
}

std::int64_t stream_blocks(const Manifest& manifest, const Problem& problem, int num_sms) {
  constexpr std::int64_t kFewTiles = 4;
  const std::int64_t most = most_blocks(manifest, num_sms);
  const bool few =
      problem.alone || (manifest.target == "sm_90a" && !manifest.stages && size_of(manifest.kv_dtype) > 1 &&
                        problem.num_tiles * problem.kv_tiles < kFewTiles * most);
  const std::int64_t blocks = few ? std::max(num_sms, 1) : most;
  return problem.max_blocks > 0 ? std::min(blocks, problem.max_blocks) : blocks;
}

std::int64_t stream_clusters(const Manifest& manifest, const Problem& problem, int num_sms) {
  return std::max<std::int64_t>(stream_blocks(manifest, problem, num_sms) / blocks_of_cluster(manifest), 1);
}

std::int64_t choose_team(const Manifest& manifest, const Problem& problem, int num_sms) {
  if (manifest.grid.kind != GridRule::Kind::stream_k || !manifest.takes("team_heads")) return 1;
  const std::int64_t blocks = stream_clusters(manifest, problem, num_sms);
  const std::int64_t tiles = problem.heads_kv * std::max<std::int64_t>(problem.num_m_blocks, 1);
  for (std::int64_t team = std::min(tiles, blocks); team > 1; --team) {
    if (tiles % team == 0 && 25 * (blocks % team) <= blocks) return team;
  }
  return 1;
}

std::int64_t even_clusters(const Manifest& manifest, const Problem& problem, int num_sms) {
  const int most_megabytes = has_large_parts(manifest) ? 16 : 4;  // bench/NOTES.md 107, 118
  constexpr std::int64_t kMostParts = 32;
  constexpr int kMostMegabytesWhole = 16;
  const std::int64_t blocks = stream_clusters(manifest, problem, num_sms);
  const std::int64_t team = std::max<std::int64_t>(problem.team_heads, 1);
  const std::int64_t teams = blocks / team, items = problem.num_tiles / team;
  constexpr std::int64_t kFewTiles = 4;
  if (has_large_parts(manifest) && items > 0 && problem.max_blocks == 0 && items <= teams) {
    // As few parts as leave the longest as short: of few tiles, one more is a large share.
    const std::int64_t each = (problem.kv_tiles + teams / items - 1) / (teams / items);
    const std::int64_t parts = (problem.kv_tiles + each - 1) / each;
    if (each <= kFewTiles || 20 * items * parts >= 19 * teams) return items * parts * team;
  }
  if (items == 0 || problem.max_blocks > 0) return blocks;
  // Whole items leave no parts, which pays in longer launches, too (bench/NOTES.md 180).
  const bool short_launch = reads_at_most(most_megabytes, manifest, problem, num_sms);
  const bool whole_pays = manifest.target == "sm_90a" && size_of(manifest.kv_dtype) > 1 &&
                          reads_at_most(kMostMegabytesWhole, manifest, problem, num_sms);
  if (!short_launch && !whole_pays) return blocks;
  for (std::int64_t t = teams; 20 * t >= 19 * teams && t > 0; --t) {
    const bool whole = items % t == 0, divided = short_launch && t % items == 0 && t / items <= kMostParts;
    if (whole || divided) return t * team;
  }
  return blocks;
}

bool waits_for_launch_before(const Manifest& manifest) {
  return std::any_of(
      manifest.expectations.begin(), manifest.expectations.end(),
      [](const Manifest::Expectation& e) { return e.instruction == "griddepcontrol.wait" && e.count > 0; });
}

std::array<MemoryRange, kLaunchTables> tables_of(const AttentionArgs& args) {
  std::array<MemoryRange, kLaunchTables> ranges{};
  std::size_t count = 0;
  for (const auto* tensor : {&args.cu_seqlens_q, &args.cu_seqlens_k, &args.seqlens_k, &args.page_table,
                             &args.first_keys, &args.query_ends}) {
    if (!*tensor) continue;
    const Tensor& t = **tensor;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < t.shape.size(); ++i) elements += (t.shape[i] - 1) * t.strides[i];
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(elements, 0)) * size_of(t.dtype);
    ranges[count++] = {t.address, bytes};
  }
  return ranges;
}

LaunchGeometry make_geometry(const Manifest& manifest, const Problem& problem, int num_sms) {
  LaunchGeometry geometry;
  const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const std::array<int, 3>& cluster = manifest.cluster;
  if (manifest.grid.kind == GridRule::Kind::tiles) {
    geometry.grid = {narrow(problem.num_m_blocks), narrow(problem.heads_q), narrow(problem.batch)};
  } else if (manifest.grid.kind == GridRule::Kind::stream_k) {
    const std::int64_t tiles = problem.num_tiles * problem.kv_tiles;
    const std::int64_t clusters = std::min(tiles, even_clusters(manifest, problem, num_sms));
    geometry.grid = {narrow(clusters * blocks_of_cluster(manifest)), 1, 1};
  } else {
    // A work item belongs to a whole cluster; at least one cluster even where the device claims fewer SMs.
    const std::int64_t size = blocks_of_cluster(manifest);
    const std::int64_t all = manifest.grid.kind == GridRule::Kind::items ? problem.num_tiles * size
                                                                         : most_blocks(manifest, num_sms);
    const std::int64_t slots =
        (problem.max_blocks > 0 ? std::min(all, problem.max_blocks) : all) / size * size;
    geometry.grid = {narrow(std::min(problem.num_tiles * size, std::max(slots, size))), 1, 1};
  }
  for (std::size_t i = 0; i < 3; ++i) {
    // Whole clusters only: blocks past the last tile find nothing to do.
    const auto size = static_cast<std::uint32_t>(std::max(cluster[i], 1));
    geometry.cluster[i] = size;
    geometry.grid[i] = (geometry.grid[i] + size - 1) / size * size;
  }
  geometry.block = {static_cast<std::uint32_t>(manifest.num_threads), 1, 1};
  const bool shared = manifest.stages && !problem.alone;
  geometry.smem_bytes =
      static_cast<std::uint32_t>(shared ? manifest.stages->shared_smem_bytes : manifest.smem_bytes);
  geometry.programmatic = waits_for_launch_before(manifest);
  geometry.before = problem.before;
  return geometry;
}

}  // namespace kiln
