// The split-KV plan of a decode kernel on the device: generator/systems/stream_k.hpp says what it does.
// For NVIDIA and AMD: names of threads and warps are those of the section warp_names of the target's prelude.

//@ section problem
// What the plan of the launch follows from.
struct Problem {
  ${members}
};

// One sequence: its rows, and the KV tiles that some query sees (at least one, so that every row gets written).
struct Sequence {
  int q_start, seqlen_q, k_start, seqlen_k;
//@ if positions
  int aligned_rows;            // row i has key position i + seqlen_k - aligned_rows
//@ end
  int first_tile, num_tiles;
};

// A run of KV tiles of one item (head slot and packed rows of one sequence) for this block.
struct Segment {
  Sequence sequence;
  int batch, kv_head, m_block;
  int tile_begin, tile_end;    // of the sequence's keys
  bool whole;                  // the item is this segment alone
//@ if !by_rows
  int item;                    // number of the item among all
  unsigned item_start;         // position of the item's first tile
//@ if fixed
  int part;                    // which of the item's parts
//@ else
  bool second_slot;            // where this part goes in the block's workspace
//@ end
//@ end
};

//@ section ranges
// How an item is split.
struct Split {
//@ if fixed
  int parts;
//@ else
  int parts, first_cell;  // how many, and the cell of part 0
  bool first_second;      // part 0 is in the second slot of its block; later ones are in the first
//@ end
};

// Position of a team in the tiles of all sequences, end to end.
struct Range {
  unsigned position, end, total;  // in KV tiles of all head slots; 2^32 / teams of them are more than memory holds
//@ if dynamic
  unsigned fixed, chunk, cells;   // positions cut evenly for the teams; length of the cells after; how many in all
//@ end
  unsigned teams, cell;           // the range at hand
  int slots;                      // head slots of a team
  int m_blocks;                   // packed query tiles of a head
  int batch;                      // sequence at `position`
  unsigned batch_start;           // position of its first tile
  bool first;                     // no segment taken yet
};

//@ section sequence_of
__device__ __forceinline__ Sequence sequence_of(const Problem& problem, int b) {
  Sequence s;
//@ if ragged_q
  s.q_start = problem.cu_seqlens_q[b];
  s.seqlen_q = problem.cu_seqlens_q[b + 1] - s.q_start;
//@ else
  s.q_start = 0; s.seqlen_q = problem.seqlen_q;
//@ end
//@ if ragged_k
  s.k_start = problem.cu_seqlens_k[b];
  s.seqlen_k = problem.cu_seqlens_k[b + 1] - s.k_start;
//@ else
  // a length that the operand cannot hold is one it can
//@ if pages
  s.k_start = 0; s.seqlen_k = min(max(problem.seqlens_k[b], 0), problem.key_capacity);
//@ else
  s.k_start = 0;
  s.seqlen_k = problem.seqlens_k != nullptr ? min(max(problem.seqlens_k[b], 0), problem.seqlen_k) : problem.seqlen_k;
//@ end
//@ end
//@ if positions
  s.aligned_rows = s.seqlen_k + s.seqlen_q - problem.query_ends[b];
//@ end
//@ if bounded_below
  // from the first key that the first query sees
  s.first_tile = ${first_of_all} / ${BN};
//@ else
  s.first_tile = 0;
//@ end
  s.num_tiles = max((s.seqlen_k + ${BN-1}) / ${BN} - s.first_tile, 1);
  return s;
}

//@ section first_range
__device__ __forceinline__ int packed_blocks(const Problem& problem) {
  return (problem.heads_q / problem.heads_kv * problem.seqlen_q + ${BM-1}) / ${BM};
}

//@ if dynamic
// Cells: one a team, then shorter ones for whoever is done first. Those of teams start at floor(cell * fixed / teams).
__device__ __forceinline__ int cell_of(const Range& range, unsigned position) {
  if (position >= range.fixed) return range.teams + (int)((position - range.fixed) / range.chunk);
  return (int)(((position + 1) * range.teams - 1) / range.fixed);
}
__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell) {
  return cell >= range.teams ? range.fixed + (cell - range.teams) * range.chunk : cell * range.fixed / range.teams;
}
//@ else
// Cells: one a team; they start at floor(cell * total / teams).
__device__ __forceinline__ int cell_of(const Range& range, unsigned position) {
  return (int)(((position + 1) * range.teams - 1) / range.total);
}
__device__ __forceinline__ unsigned start_of(const Range& range, unsigned cell) {
  return cell * range.total / range.teams;
}
//@ end

//@ if split
// Finds the sequence that holds the position, from the one at hand on: 32 lengths at a time.
__device__ __forceinline__ void seek(const Problem& problem, Range& range) {
  const int lane = thread_id() % 32;
  unsigned start = range.batch_start;
#pragma unroll 1
  for (int base = range.batch;; base += 32) {
    const int mine = base + lane < problem.batch ? sequence_of(problem, base + lane).num_tiles : 0;
    int sum = mine;
    for (int step = 1; step < 32; step *= 2) {
      const int below = shuffle_up(sum, step);
      if (lane >= step) sum += below;
    }
    const unsigned past = warp_ballot(range.position < start + sum * range.slots);
    if (past != 0) {
      const int found = first_set(past);
      range.batch = base + found;
      range.batch_start = start + broadcast(sum - mine, found) * range.slots;
      return;
    }
    start += broadcast(sum, 31) * range.slots;
  }
}

//@ end
__device__ __forceinline__ Range first_range(const Problem& problem) {
  Range range;
  range.m_blocks = packed_blocks(problem);
  range.slots = problem.heads_kv * range.m_blocks / problem.team_heads;
  range.teams = ${blocks} / problem.team_heads;
  range.cell = ${block} / problem.team_heads;
  range.first = true;
  range.batch = 0; range.batch_start = 0;
//@ if split
  ${wait_for_lengths}
  const int lane = thread_id() % 32;
  int tiles = 0;
  UNROLL_4
  for (int b = lane; b < problem.batch; b += 32) tiles += sequence_of(problem, b).num_tiles;
  for (int step = 16; step > 0; step /= 2) tiles += shuffle_xor(tiles, step);
  range.total = (unsigned)${uniform}(tiles * range.slots);
//@ else
  range.total = (unsigned)(problem.batch * range.slots${times_parts});
//@ end
  range.teams = min(range.teams, range.total);
//@ if dynamic
  // Long ranges leave an eighth for the end, in two chunks a team: blocks do not get equal shares of the memory.
  const unsigned each = range.total / range.teams;
  range.fixed = each < ${dynamic_from} ? range.total : range.total - each / 8 * range.teams;
  range.chunk = max(each / 16, 1u);
  range.cells = range.teams + (range.total - range.fixed + range.chunk - 1) / range.chunk;
//@ end
  if (range.cell >= range.teams) { range.position = range.end = 0; return range; }
  range.position = start_of(range, range.cell);
  range.end = start_of(range, range.cell + 1);
//@ if split
  seek(problem, range);
//@ else
  range.batch = (int)(range.position / (unsigned)(range.slots${times_parts}));
  range.batch_start = range.batch * range.slots${times_parts};
//@ end
  return range;
}

//@ section next_segment
__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s) {
  if (range.position >= range.end) return false;
  s.sequence = sequence_of(problem, range.batch);
//@ if split
  const int tiles = s.sequence.num_tiles;
//@ else
  const int tiles = 1;
//@ end
  const int in_batch = (int)(range.position - range.batch_start);
  const int slot = in_batch / tiles;
  const int head = slot * problem.team_heads + (int)${block} % problem.team_heads;
  s.batch = range.batch;
  s.kv_head = head / range.m_blocks;  // packed tiles of one head side by side: they read the same keys
  s.m_block = head % range.m_blocks;
  s.item = range.batch * problem.team_heads * range.slots + head;
//@ if split
  const unsigned item_start = range.batch_start + slot * tiles;
  const int begin = in_batch - slot * tiles;
  const int end = min(tiles, (int)(range.end - item_start));
  s.tile_begin = s.sequence.first_tile + begin;
  s.tile_end = s.sequence.first_tile + end;
  s.whole = begin == 0 && end == tiles;
  s.item_start = item_start;
  s.second_slot = !range.first;
  range.position += end - begin;
//@ else
  s.tile_begin = s.sequence.first_tile;
  s.tile_end = s.sequence.first_tile + s.sequence.num_tiles;
  s.whole = true; s.second_slot = false; s.item_start = range.position;
  range.position += 1;
//@ end
  range.first = false;
  if (range.position >= range.batch_start + (unsigned)${uniform}(tiles * range.slots)) {
    range.batch_start += (unsigned)${uniform}(tiles * range.slots);
    range.batch += 1;
  }
  return true;
}

//@ if split
__device__ __forceinline__ Split split_of(const Range& range, const Segment& s) {
  Split split;
  split.first_cell = cell_of(range, s.item_start);
  split.parts = cell_of(range, s.item_start + s.sequence.num_tiles - 1) - split.first_cell + 1;
  split.first_second = start_of(range, split.first_cell) < s.item_start;
  return split;
}

//@ end
//@ section next_part
// Tiles of a part; the last ones of a short item have none.
__device__ __forceinline__ int tiles_of_part(const Sequence& sequence) {
  return (sequence.num_tiles + ${parts-1}) / ${parts};
}
__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s) {
  while (range.position < range.end) {
    s.sequence = sequence_of(problem, range.batch);
    const int in_batch = (int)(range.position - range.batch_start);
    const int head = in_batch / ${parts} * problem.team_heads + (int)${block} % problem.team_heads;
    s.batch = range.batch;
    s.kv_head = head / range.m_blocks;
    s.m_block = head % range.m_blocks;
    s.item = range.batch * problem.team_heads * range.slots + head;
    s.item_start = range.position;
    s.part = in_batch % ${parts};
    const int tiles = s.sequence.num_tiles, each = tiles_of_part(s.sequence), begin = s.part * each;
    s.tile_begin = s.sequence.first_tile + begin;
    s.tile_end = s.sequence.first_tile + min(begin + each, tiles);
//@ if separate
    s.whole = true;
//@ else
    s.whole = each == tiles;
//@ end
    range.position += 1;
    if (range.position >= range.batch_start + (unsigned)(range.slots${times_parts})) {
      range.batch_start += (unsigned)(range.slots${times_parts});
      range.batch += 1;
    }
//@ if separate
    return true;
//@ else
    if (begin < tiles) return true;
//@ end
  }
  return false;
}

//@ if !separate
__device__ __forceinline__ Split split_of(const Range&, const Segment& s) {
  const int each = tiles_of_part(s.sequence);
  return Split{(s.sequence.num_tiles + each - 1) / each};
}

//@ end
//@ section whole_items
// This block's place among the items of all sequences, end to end.
struct Range {
  int round, total;  // items taken, and how many there are
  int batch;         // sequence of the last one
  int batch_start;   // number of its first item
};

__device__ __forceinline__ int items_of(const Problem& problem, int b) {
//@ if ragged_q
  if (b >= problem.batch) return 0;
  const int seqlen_q = problem.cu_seqlens_q[b + 1] - problem.cu_seqlens_q[b];
//@ else
  const int seqlen_q = problem.seqlen_q;
//@ end
  return (problem.heads_q / problem.heads_kv * seqlen_q + ${BM-1}) / ${BM} * problem.heads_kv;
}

__device__ __forceinline__ Range first_range(const Problem& problem) {
  Range range;
  range.round = 0, range.batch = 0, range.batch_start = 0;
//@ if ragged_q
  ${wait_for_lengths}
  int items = 0;
  UNROLL_4
  for (int b = thread_id() % 32; b < problem.batch; b += 32) items += items_of(problem, b);
  for (int step = 16; step > 0; step /= 2) items += shuffle_xor(items, step);
  range.total = items;
//@ else
  range.total = problem.batch * items_of(problem, 0);
//@ end
  return range;
}

__device__ __forceinline__ bool next_segment(const Problem& problem, Range& range, Segment& s) {
  // every other round backwards: items get shorter, and so no block has the longest of each round
  const int turn = (int)(range.round % 2 == 0 ? ${block} : ${blocks} - 1 - ${block});
  const int number = range.round * (int)${blocks} + turn;
  if (number >= range.total) return false;
  ++range.round;
//@ if ragged_q
  // the sequence that holds it: 32 lengths at a time
  const int lane = thread_id() % 32;
#pragma unroll 1
  for (;;) {
    const int mine = items_of(problem, range.batch + lane);
    int sum = mine;
    for (int step = 1; step < 32; step *= 2) {
      const int below = shuffle_up(sum, step);
      if (lane >= step) sum += below;
    }
    const unsigned past = warp_ballot(number < range.batch_start + sum);
    if (past != 0) {
      const int found = first_set(past);
      range.batch += found;
      range.batch_start += broadcast(sum - mine, found);
      break;
    }
    range.batch += 32;
    range.batch_start += broadcast(sum, 31);
  }
//@ else
  range.batch = number / items_of(problem, 0);
  range.batch_start = range.batch * items_of(problem, 0);
//@ end
  s.sequence = sequence_of(problem, range.batch);
  const int group = problem.heads_q / problem.heads_kv;
  const int m_blocks = (group * s.sequence.seqlen_q + ${BM-1}) / ${BM};
  const int in_batch = number - range.batch_start;
  s.batch = range.batch;
  s.kv_head = in_batch / m_blocks;  // items of one head side by side: they read the same keys
  s.m_block = m_blocks - 1 - in_batch % m_blocks;  // the longest first
  s.whole = true;
//@ if bounded_above
  const int before = s.sequence.seqlen_k - s.sequence.seqlen_q;  // keys before the first query
//@ end
//@ if bounded_below
  s.tile_begin = ${first_key} / ${BN};
//@ else
  s.tile_begin = 0;
//@ end
  // one tile at least, so that every row gets written
//@ if bounded_above
  const int last = min((s.m_block * ${BM} + ${BM-1}) / group, s.sequence.seqlen_q - 1);
  const int end_key = ${end_key};
  s.tile_end = max((max(end_key, 0) + ${BN-1}) / ${BN}, s.tile_begin + 1);
//@ else
  s.tile_end = max((s.sequence.seqlen_k + ${BN-1}) / ${BN}, 1);
//@ end
  return true;
}

