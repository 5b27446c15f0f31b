// The split-KV plan of a decode launch, on the host: how large grid and workspace get, and which block takes
// which KV tiles. The kernel works the same plan out by itself from the lengths on the device (no host
// synchronisation, no plan to upload); this mirror is for inspection, tests and capacity planning.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <kiln/source.hpp>

namespace kiln {

/// A run of KV tiles of one item (the packed rows of one KV head and sequence). Teams of `team_heads` blocks
/// do the same runs for neighbouring heads: block team * team_heads + i takes packed tile slot * team_heads +
/// i of the sequence, of which the m_blocks of a KV head follow each other.
struct DecodeRun {
  std::int64_t team = 0, batch = 0, slot = 0;
  std::int64_t tile_begin = 0, tile_end = 0;  ///< of the sequence's keys
  std::int64_t part = 0, parts = 1;           ///< which part of the item this is
  bool whole() const { return parts == 1; }
  bool operator==(const DecodeRun&) const = default;
};

struct DecodePlan {
  std::int64_t blocks = 0, team_heads = 1, teams = 0;  ///< teams that have work
  std::int64_t items = 0;                              ///< counters that the launch needs
  std::int64_t workspace_bytes = 0;
  std::int64_t tiles = 0;       ///< of one head slot
  std::vector<DecodeRun> runs;  ///< by team, in the order they are worked on
  /// Most tiles of a team over the fewest that an even share is: 1 is perfect balance.
  double imbalance() const;
};

struct DecodeShape {
  std::int64_t heads_q = 1, heads_kv = 1;
  std::span<const std::int64_t> lengths_q, lengths_k;  ///< one per sequence
  std::int64_t max_seqlen_k = 0;                       ///< bound given to the launch; 0: the longest
  std::int64_t max_blocks = 0;                         ///< LaunchOptions::max_blocks
  Residency residency = Residency::by_work;            ///< LaunchOptions::residency
};

/// Grid, workspace and counters of a launch, in O(batch). Throws Error (bad_input) when the kernel is no
/// stream_k kernel or the shape is impossible.
DecodePlan size_decode(const Manifest& manifest, const DecodeShape& shape, int num_sms);
/// The same with every run: O(batch * heads_kv / team_heads + blocks).
DecodePlan plan_decode(const Manifest& manifest, const DecodeShape& shape, int num_sms);

}  // namespace kiln
