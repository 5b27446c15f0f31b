// How many blocks a launch has, and how stream_k grids are cut.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/device/device.hpp"
#include "runtime/launch/problem.hpp"

namespace kiln {

/// Blocks that take a work item together.
std::int64_t blocks_of_cluster(const Manifest& manifest);

/// Most blocks that a persistent or stream_k grid has on `num_sms` multiprocessors; at least a cluster.
std::int64_t most_blocks(const Manifest& manifest, int num_sms);

/// Problem::alone and num_kv_stages of a kernel with Manifest::stages; before the number of blocks is asked
/// for.
void settle_stages(const Manifest& manifest, int num_sms, Residency residency, Problem& problem);

/// Most blocks that a stream_k launch of this problem has: most_blocks(), but one a multiprocessor with all
/// stages, and on sm_90a for 16-bit caches where more would get fewer than 4 KV tiles each, since every block
/// leaves a part to combine; and no more than the caller allows.
std::int64_t stream_blocks(const Manifest& manifest, const Problem& problem, int num_sms);

/// The same in clusters, which take items together: whole ones, at least one.
std::int64_t stream_clusters(const Manifest& manifest, const Problem& problem, int num_sms);

/// Problem::team_heads of a stream_k grid: how many clusters take the same KV tiles at the same time, each for packed
/// rows of its own. The largest divisor of heads_kv times the query tiles of a head by which whole teams fill the
/// device but for a 25th, so that query tiles that read the same keys find them in L2.
std::int64_t choose_team(const Manifest& manifest, const Problem& problem, int num_sms);

/// Clusters of a stream_k grid whose Problem::team_heads is settled: stream_clusters(), or for short launches up
/// to a twentieth fewer where items of one length are then cut evenly: a team has whole items, or an item
/// whole teams, no more than the 32 parts that lanes hold. Cuts elsewhere leave more parts to combine. Parts that
/// all blocks add up are as many as leave the longest item's as short as all blocks could.
std::int64_t even_clusters(const Manifest& manifest, const Problem& problem, int num_sms);

/// True for a program that itself waits (griddepcontrol.wait, one of the manifest's expectations) for the
/// launch before it on the stream before it touches memory: its set-up may overlap with the end of that one.
bool waits_for_launch_before(const Manifest& manifest);

/// The lengths and page tables of a launch, of which LaunchBefore::keeps_tables speaks.
std::array<MemoryRange, kLaunchTables> tables_of(const AttentionArgs& args);

LaunchGeometry make_geometry(const Manifest& manifest, const Problem& problem, int num_sms);

}  // namespace kiln
