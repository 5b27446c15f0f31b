// The work items of a ragged batch, found on the device: no item stands for rows that no sequence has.

//@ section ragged_batch
// Lengths in memory: of queries, and of keys (offsets, too, or one for each sequence of pages).
struct RaggedBatch { const int *cu_seqlens_q, *keys; int sequences, key_capacity; };

// Rows of a sequence: the first of Q and of K in their tensors, and how many.
struct Sequence { int q_start, seqlen_q, k_start, seqlen_k; };

//@ section sequence_of_offsets needs ragged_batch
__device__ __forceinline__ Sequence sequence_at(const RaggedBatch& batch, int b) {
  const int q_start = batch.cu_seqlens_q[b], k_start = batch.keys[b];
  return {q_start, batch.cu_seqlens_q[b + 1] - q_start, k_start, batch.keys[b + 1] - k_start};
}

//@ section sequence_of_pages needs ragged_batch
// The page table finds the keys; there are at most as many as the pages hold.
__device__ __forceinline__ Sequence sequence_at(const RaggedBatch& batch, int b) {
  const int q_start = batch.cu_seqlens_q[b];
  return {q_start, batch.cu_seqlens_q[b + 1] - q_start, 0, min(max(batch.keys[b], 0), batch.key_capacity)};
}

//@ section ragged_items needs types ragged_batch
// Work items in the order they are taken. Sequences come by length class (powers of two of KV tiles), longest first. Those
// of a class whose K and V fit the L2 cache together are a section (or some heads of one sequence, where it is longer); in a
// section the last query tiles come first, and the heads of a tile side by side; the first tiles of all sequences of a class
// come last. A warp walks over the batch, a sequence a lane, and asks for items in ascending order.
struct RaggedItems {
  int total;      // items of the launch
  u32 classes;    // length classes that are left, a bit each
  int first;      // first of the 32 sequences that the lanes hold
  int before;     // items before those of these sequences
  int tiles;      // query tiles of this lane's sequence if it is of the class that is taken, else 0
  int count;      // items of these
};

__device__ __forceinline__ int length_class(const Sequence& sequence, int BN) {
  return 32 - __clz(max((sequence.seqlen_k + BN - 1) / BN - 1, 0));
}

// The lanes take the sequences from items.first on.
__device__ __forceinline__ void take_sequences(RaggedItems& items, const RaggedBatch& batch, int lane, int heads, int BM,
                                               int BN) {
  items.tiles = 0;
  if (items.first + lane < batch.sequences) {
    const Sequence own = sequence_at(batch, items.first + lane);
    if (own.seqlen_q > 0 && items.classes >> length_class(own, BN) == 1) items.tiles = (own.seqlen_q + BM - 1) / BM;
  }
  items.count = (int)__reduce_add_sync(0xffffffffu, (u32)items.tiles) * heads;
}

__device__ __forceinline__ RaggedItems first_items(const RaggedBatch& batch, int lane, int heads, int BM, int BN) {
  int tiles = 0;
  u32 classes = 0;
#pragma unroll 4
  for (int b = lane; b < batch.sequences; b += 32) {
    const Sequence sequence = sequence_at(batch, b);
    if (sequence.seqlen_q > 0) tiles += (sequence.seqlen_q + BM - 1) / BM, classes |= 1u << length_class(sequence, BN);
  }
  RaggedItems items;
  items.total = (int)__reduce_add_sync(0xffffffffu, (u32)tiles) * heads;
  items.classes = __reduce_or_sync(0xffffffffu, classes);
  items.first = items.before = 0;
  take_sequences(items, batch, lane, heads, BM, BN);
  return items;
}

// Goes on to the sequences that have the item; false: none has, since lengths changed under the launch.
__device__ __forceinline__ bool find_sequences(RaggedItems& items, const RaggedBatch& batch, int item, int lane, int heads,
                                               int BM, int BN) {
  for (;;) {
    const int next = items.before + items.count;
    if (item < next) return true;
    items.before = next;
    items.first += 32;
    if (items.first >= batch.sequences) items.first = 0, items.classes ^= 0x80000000u >> __clz(items.classes);
    if (items.classes == 0) return false;
    take_sequences(items, batch, lane, heads, BM, BN);
  }
}

// Of the item: the lane that holds its sequence, the query tile, the head.
struct RaggedPlace { int lane, tile, head; };

// Query tiles of every sequence that come after all others of the 32, so that a launch ends with short ones: the first
// ones, as many as KV tiles fit together. 0 where the longest sequence's first tiles see most of its keys, too.
__device__ __forceinline__ int tail_tiles(const RaggedItems& items, int heads_kv, int BM, int BN, int section_tiles) {
  const int longest = 1 << (31 - __clz(items.classes));
  if ((int)(__reduce_max_sync(0xffffffffu, (u32)items.tiles) * BM / BN) < longest / 2) return 0;
  const int sequences = __popc(__ballot_sync(0xffffffffu, items.tiles > 0));
  return min(3 * longest / 8, section_tiles / (sequences * heads_kv)) * BN / BM;
}

__device__ __forceinline__ RaggedPlace place_of(const RaggedItems& items, int item, int lane, int heads, int heads_kv,
                                                int BM, int BN, int section_tiles) {
  // How many KV heads of the class's longest sequence fit together: a section is some lanes, or some heads of one.
  const int fit = section_tiles >> (31 - __clz(items.classes)), group = heads / heads_kv;
  int lanes = 1, section_heads = heads;
  while (lanes < 32 && 2 * lanes * heads_kv <= fit) lanes *= 2;
  while (section_heads > fit * group && section_heads % (2 * group) == 0) section_heads /= 2;
  item -= items.before;
  const int tail = tail_tiles(items, heads_kv, BM, BN, section_tiles);
  const int others = (int)__reduce_add_sync(0xffffffffu, (u32)max(items.tiles - tail, 0)) * heads;
  const bool last = item >= others;
  if (last) item -= others, lanes = 32, section_heads = heads;
  int tiles = last ? min(items.tiles, tail) : max(items.tiles - tail, 0), end = tiles * heads;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, end, step);
    if (lane >= step) end += other;
  }
  const int first = __popc(__ballot_sync(0xffffffffu, end <= item)) & -lanes;
  const int before = __shfl_sync(0xffffffffu, end, first - 1);
  if (first > 0) item -= before;
  if ((lane & -lanes) != first) tiles = 0;
  const int section_items = (int)__reduce_add_sync(0xffffffffu, (u32)tiles) * section_heads;
  const int section = item / section_items;
  item -= section * section_items;
  // The least tile number with so few items above it that this one is not among them.
  int low = 0, high = (int)__reduce_max_sync(0xffffffffu, (u32)tiles) - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int above = (int)__reduce_add_sync(0xffffffffu, (u32)max(tiles - 1 - middle, 0)) * section_heads;
    if (above <= item) high = middle; else low = middle + 1;
  }
  item -= (int)__reduce_add_sync(0xffffffffu, (u32)max(tiles - 1 - low, 0)) * section_heads;
  const int rank = item / section_heads;
  const u32 having = __ballot_sync(0xffffffffu, tiles > low);
  const bool here = tiles > low && __popc(having & ((1u << lane) - 1)) == rank;
  return {__ffs(__ballot_sync(0xffffffffu, here)) - 1, low + (last ? 0 : tail),
          section * section_heads + item - rank * section_heads};
}

// Writes the item where all read it: first row, head, sequence; rows of the sequence. None is left: first row -1.
__device__ __forceinline__ void write_item(int4* out, RaggedItems& items, const RaggedBatch& batch, int item, int lane,
                                           int heads, int heads_kv, int BM, int BN, int section_tiles) {
  if (item >= items.total || !find_sequences(items, batch, item, lane, heads, BM, BN)) {
    items.total = min(items.total, item);
    if (lane == 0) out[0] = make_int4(-1, 0, 0, 0);
    __syncwarp();
    return;
  }
  const RaggedPlace place = place_of(items, item, lane, heads, heads_kv, BM, BN, section_tiles);
  if (lane == place.lane) {
    const Sequence own = sequence_at(batch, items.first + lane);
    out[0] = make_int4(place.tile * BM, place.head, items.first + lane, 0);
    out[1] = make_int4(own.q_start, own.seqlen_q, own.k_start, own.seqlen_k);
  }
  __syncwarp();
}
