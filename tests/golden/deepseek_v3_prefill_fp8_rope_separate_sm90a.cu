// deepseek_v3_prefill_fp8_rope_separate_sm90a: emitted by kiln VERSION. Do not edit: change the config and generate again.
//
// Config: {"name":"deepseek_v3_prefill_fp8_rope_separate_sm90a","target":"sm_90a","operation":"prefill","dtype":"bf16","kv_dtype":"fp8_e4m3","out_dtype":"bf16","depth":192,"ov_depth":128,"rope_depth":64,"nope_depth":128,"q_depth":192,"cache_depth":128,"head_dim_offset":0,"v_from_k":false,"operand":{"kind":"ragged","quantization":{"granularity":"per_head","scale_dtype":"f32"}},"mask":"causal","score_mod":"none","sink":false,"lse":true,"scale":0.07216878364870323,"mma_shape":[64,112,16],"BM":128,"BN":112,"BK":192,"num_threads":384,"swizzle":"none","num_kv_stages":2,"num_qk_stages":1,"shared_ring":false,"tma_fold":"none","rope":{"layout":"separate","dtype":"bf16"},"schedule":"sm90_prefill"}
// Schedule sm90_prefill: 128 query rows (2 consumer warpgroups of 64) by 112 keys a tile, 2 KV stages, 1 qk stage,
// swizzle 128B. Registers: 72 a producer thread, 216 a consumer thread.
// Shared memory (222160 bytes):
//         0 ..   49152  q          Q, 64 rows per consumer warpgroup
//     49152 ..  135168  k          K stages
//    135168 ..  192512  v          V stages
//    192512 ..  221184  raw        K and V in turn, as copied
//    221184 ..  221216  mbar_q     Q full/empty per consumer warpgroup
//    221216 ..  221248  mbar_k     K ring full/empty
//    221248 ..  221280  mbar_v     V ring full/empty
//    221280 ..  221312  mbar_raw   ring of copied tiles full/empty
//    221312 ..  221328  mbar_work  work ring full/empty
//    221328 ..  221392  work       work items, this one and the next: place, rows of the sequence
//    221392 ..  222160  items      where the batch is: the producer's lanes, between items
//
// Regenerate: kiln generate deepseek_v3_prefill_fp8_rope_separate_sm90a.json --out .
// Compile: nvcc -gencode=arch=compute_90a,code=sm_90a -cubin deepseek_v3_prefill_fp8_rope_separate_sm90a.cu

#define kInfinity __int_as_float(0x7f800000)

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

// Threads and warps, as text for NVIDIA and AMD names them. All 32 lanes of a warp take part.
__device__ __forceinline__ u32 thread_id() { return threadIdx.x; }
__device__ __forceinline__ u32 block_id() { return blockIdx.x; }
__device__ __forceinline__ u32 grid_blocks() { return gridDim.x; }
__device__ __forceinline__ int broadcast(int x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ int shuffle_xor(int x, int step) { return __shfl_xor_sync(0xffffffffu, x, step); }
__device__ __forceinline__ int shuffle_up(int x, int step) { return __shfl_up_sync(0xffffffffu, x, step); }
__device__ __forceinline__ u32 warp_ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
__device__ __forceinline__ int first_set(u32 bits) { return __ffs(bits) - 1; }
#define UNROLL_4 _Pragma("unroll 4")

// Floats across a warp, as text for NVIDIA and AMD names them.
__device__ __forceinline__ float lane_float(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ bool any_lane(bool x) { return __any_sync(0xffffffffu, x); }
// A value that is the same in every lane, known to be.
__device__ __forceinline__ int same(int x) { return __shfl_sync(0xffffffffu, x, 0); }
__device__ __forceinline__ bool writes_rows() { return true; }
__device__ __forceinline__ float sum_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float largest_of_lanes(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ __forceinline__ int largest_of_lanes(int x) {
  for (int step = 16; step > 0; step /= 2) x = max(x, shuffle_xor(x, step));
  return x;
}

// The two elements of a register, and whether those of `count` registers are all finite.
__device__ __forceinline__ float low_half(u32 two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high_half(u32 two) { return __uint_as_float(two & 0xffff0000u); }
__device__ __forceinline__ bool finite_halves(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (at[i] & 0x7f80u) != 0x7f80u && (at[i] & 0x7f800000u) != 0x7f800000u;
  return finite;
}

__device__ __forceinline__ bool finite_floats(const float* at, int count) {
  bool finite = true;
  for (int i = 0; i < count; ++i) finite &= at[i] * 0.0f == 0.0f;
  return finite;
}

// Two neighbouring E4M3, and whether those of `count` registers are all finite. Sign, exponent and fraction go where a
// float has them; 2^120 lies between the two biases.
__device__ __forceinline__ float low_byte(u32 two) {
  const float number = __uint_as_float((two & 0x80u) << 24 | (two & 0x7fu) << 20) * 1.329227995784916e36f;
  return (two & 0x7fu) == 0x7fu ? __uint_as_float(0x7fc00000u) : number;
}
__device__ __forceinline__ float high_byte(u32 two) { return low_byte(two >> 8); }
__device__ __forceinline__ bool finite_bytes(const u32* at, int count) {
  bool finite = true;
#pragma unroll 4
  for (int i = 0; i < count; ++i) finite &= (((at[i] & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u) == 0u;
  return finite;
}

__device__ __forceinline__ u32 smem_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// P is 2^(s * factor - base), and a row's base its maximum times `factor`, rounded. From a base of this size on the
// rounding would show: there the maximum is subtracted before the product, and the base is 0.
constexpr float kSteep = 65536.0f;
__device__ __forceinline__ bool is_steep(float base) { return fabsf(base) >= kSteep; }
// The product as everything relative to a row's base has it: rounded by itself, no part of a fused multiply-add.
__device__ __forceinline__ float row_base(float maximum, float factor) { return __fmul_rn(maximum, factor); }
// What a row's sums are multiplied by when its maximum goes from `from` to `to`; 0 while no key was visible. It takes
// the maxima, not their rounded bases: the difference is below the rounding of the scores, and cancels over a row.
__device__ __forceinline__ float rescale_factor(float from, float to, float factor) {
  return exp2_approx((from - fmaxf(to, -3.402823466e38f)) * factor);
}

__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats to one register of two BF16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_bf16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

// Two floats to one register of two FP16 (round to nearest even); `lo` goes to the lower half.
__device__ __forceinline__ u32 pack_fp16(float lo, float hi) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

typedef unsigned char u8;
// The work items of a ragged batch, found on the device: no item stands for rows that no sequence has.

// Lengths in memory: of queries, and of keys (offsets, too, or one for each sequence of pages).
struct RaggedBatch { const int *cu_seqlens_q, *keys; int sequences, key_capacity; };

// Rows of a sequence: the first of Q and of K in their tensors, and how many.
struct Sequence { int q_start, seqlen_q, k_start, seqlen_k; };

__device__ __forceinline__ Sequence sequence_at(const RaggedBatch& batch, int b) {
  const int q_start = batch.cu_seqlens_q[b], k_start = batch.keys[b];
  return {q_start, batch.cu_seqlens_q[b + 1] - q_start, k_start, batch.keys[b + 1] - k_start};
}

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

struct __align__(64) TensorMap { unsigned char bytes[128]; };

// True in one lane of the (converged) warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

#define SETMAXNREG_INC(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))
#define SETMAXNREG_DEC(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))

__device__ __forceinline__ void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives once and tells the barrier how many bytes this phase will receive.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// Returns once the phase of this parity has completed; a fresh barrier has completed parity 1.
__device__ __forceinline__ void mbarrier_wait(u32 bar, u32 parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "  @done bra DONE;\n"
      "  bra WAIT;\n"
      "DONE: }" ::"r"(bar),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// One box of a 4-D tensor into shared memory; its bytes complete on `bar`. `policy` is an L2 cache-policy word.
__device__ __forceinline__ void tma_load(u32 dst, const TensorMap* map, u32 bar, int c0, int c1, int c2, int c3, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
      "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}

// One box of shared memory into a 4-D tensor; rows outside it are clipped. Belongs to the current bulk group.
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 src, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(src),
               "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until every committed store has read its shared memory.
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Makes this thread's ordinary shared-memory writes visible to the tensor cores and the copy engine.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

// 64-bit matrix descriptor from its two words; only the low one (address) changes between steps.
__device__ __forceinline__ u64 descriptor(u32 low, u32 high) { return ((u64)high << 32) | low; }

// Eight BF16 to FP16: exact from 2^-14 to 65504; smaller ones lose bits, larger ones become infinite.
__device__ __forceinline__ u32 bf16x2_to_fp16(u32 x) { return pack_fp16(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u)); }
__device__ __forceinline__ uint4 bf16_to_fp16(uint4 x) {
  return make_uint4(bf16x2_to_fp16(x.x), bf16x2_to_fp16(x.y), bf16x2_to_fp16(x.z), bf16x2_to_fp16(x.w));
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2),
               "r"(r3)
               : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(u32 at) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ float load_shared_float(u32 at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ u32 load_shared(u32 at) {
  u32 x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(u32 at, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ void store_shared(u32 at, u32 x) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory"); }

// The two lower bytes of a word, E4M3 numbers, as two FP16: exact.
__device__ __forceinline__ u32 narrow_to_fp16(u32 word) {
  u32 pair;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(pair) : "r"(word));
  return pair;
}

__device__ __forceinline__ void zero_16_bytes(u32 address) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

// Sixteen bytes as FP16: the lower eight, the upper eight.
__device__ __forceinline__ void store_widened(u32 low, u32 high, uint4 x) {
  store_shared_16(low, make_uint4(narrow_to_fp16(x.x), narrow_to_fp16(x.x >> 16), narrow_to_fp16(x.y), narrow_to_fp16(x.y >> 16)));
  store_shared_16(high, make_uint4(narrow_to_fp16(x.z), narrow_to_fp16(x.z >> 16), narrow_to_fp16(x.w), narrow_to_fp16(x.w >> 16)));
}

// d += A (64 x 16, shared memory) * B (16 x 112, K contiguous) in bf16.
__device__ __forceinline__ void wgmma_m64n112k16_bf16_ss(float (&d)[56], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55"
      "}, %56, %57, 1, 1, 1, 0, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
      : "l"(a), "l"(b));
}

// d += A (64 x 16, shared memory) * B (16 x 112, K contiguous) in f16.
__device__ __forceinline__ void wgmma_m64n112k16_ss(float (&d)[56], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55"
      "}, %56, %57, 1, 1, 1, 0, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
      : "l"(a), "l"(b));
}

// d = A (64 x 16, shared memory) * B (16 x 112, K contiguous) in f16.
__device__ __forceinline__ void wgmma_m64n112k16_ss_first(float (&d)[56], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55"
      "}, %56, %57, 0, 1, 1, 0, 0;\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]),
        "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]), "=f"(d[15]),
        "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]), "=f"(d[21]), "=f"(d[22]), "=f"(d[23]),
        "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]), "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31]),
        "=f"(d[32]), "=f"(d[33]), "=f"(d[34]), "=f"(d[35]), "=f"(d[36]), "=f"(d[37]), "=f"(d[38]), "=f"(d[39]),
        "=f"(d[40]), "=f"(d[41]), "=f"(d[42]), "=f"(d[43]), "=f"(d[44]), "=f"(d[45]), "=f"(d[46]), "=f"(d[47]),
        "=f"(d[48]), "=f"(d[49]), "=f"(d[50]), "=f"(d[51]), "=f"(d[52]), "=f"(d[53]), "=f"(d[54]), "=f"(d[55])
      : "l"(a), "l"(b));
}

// d += A (64 x 16, registers) * B (16 x 128, N contiguous) in f16.
__device__ __forceinline__ void wgmma_m64n128k16_rs(float (&d)[64], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// One work item: 128 query rows of one head of one sequence, and the KV tiles they see.
struct Work {
  int m_start;      // first query row of the tile
  int head, batch;  // query head, sequence
  int kv_head;
  int q_start, seqlen_q, k_start, seqlen_k;  // rows of the sequence: first one in its tensor, and how many
  int num_blocks;   // KV tiles are visited from num_blocks - 1 down to 0; 0: none
};

__device__ __forceinline__ Work decode_work(int4 place, int4 rows, int heads_q, int heads_kv) {
  Work work;
  work.m_start = place.x; work.head = place.y; work.batch = place.z;
  work.q_start = rows.x; work.seqlen_q = rows.y; work.k_start = rows.z; work.seqlen_k = rows.w;
  work.kv_head = work.head / (heads_q / heads_kv);
  // Key positions of the tile's first and last row, m + seqlen_k - seqlen_q, bound the keys it sees.
  const int position = work.m_start + work.seqlen_k - work.seqlen_q;
  const int end_key = min(work.seqlen_k, position + 127 + 1);
  work.num_blocks = (max(end_key, 0) + 111) / 112;
  return work;
}

extern "C" __global__ void __launch_bounds__(384, 1)
kiln_deepseek_v3_prefill_fp8_rope_separate_sm90a(const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap o_map,
    const __grid_constant__ TensorMap k_rope_map,
    float* lse,
    const float* k_scale,
    const float* v_scale,
    const u16* q,
    const u8* k,
    const u8* v,
    u16* o,
    const int* cu_seqlens_q,
    const int* cu_seqlens_k,
    int* tile_counter,
    const int heads_q,
    const int heads_kv,
    const int batch,
    const int total_q,
    const long long q_stride_seq,
    const long long q_stride_head,
    const long long k_stride_seq,
    const long long k_stride_head,
    const long long v_stride_seq,
    const long long v_stride_head,
    const long long o_stride_seq,
    const long long o_stride_head,
    const u16* k_rope,
    const long long k_rope_stride_seq,
    const long long k_rope_stride_head,
    const float scale_log2,
    const float scale) {
  #if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("trap;");  // built for plain sm_90, which has neither wgmma nor setmaxnreg
  #else
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  const u32 smem = smem_address(smem_bytes);
  const u32 smem_q = smem;
  const u32 smem_k = smem + 49152;
  const u32 smem_v = smem + 135168;
  const u32 mbar_q_full = smem + 221184, mbar_q_empty = smem + 221200;
  const u32 mbar_k_full = smem + 221216, mbar_k_empty = smem + 221232;
  const u32 mbar_v_full = smem + 221248, mbar_v_empty = smem + 221264;
  const u32 smem_raw = smem + 192512;
  const u32 mbar_raw_full = smem + 221280, mbar_raw_empty = smem + 221296;
  const u32 mbar_work_full = smem + 221312, mbar_work_empty = smem + 221320;
  int4* const work_items = (int4*)(smem_bytes + 221328);
  const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);

  if (threadIdx.x == 0) {
    prefetch_tensor_map(&q_map);
    prefetch_tensor_map(&k_map);
    prefetch_tensor_map(&v_map);
    prefetch_tensor_map(&k_rope_map);
    prefetch_tensor_map(&o_map);
    mbarrier_init(mbar_q_full, 1); mbarrier_init(mbar_q_empty, 4);
    mbarrier_init(mbar_q_full + 8, 1); mbarrier_init(mbar_q_empty + 8, 4);
    mbarrier_init(mbar_k_full, 4);
    mbarrier_init(mbar_k_full + 8, 4);
    mbarrier_init(mbar_k_empty, 8);
    mbarrier_init(mbar_k_empty + 8, 8);
    mbarrier_init(mbar_v_full, 3);
    mbarrier_init(mbar_v_full + 8, 3);
    mbarrier_init(mbar_v_empty, 8);
    mbarrier_init(mbar_v_empty + 8, 8);
    mbarrier_init(mbar_raw_full, 1);
    mbarrier_init(mbar_raw_full + 8, 1);
    mbarrier_init(mbar_raw_empty, 3);
    mbarrier_init(mbar_raw_empty + 8, 3);
    mbarrier_init(mbar_work_full, 1);
    mbarrier_init(mbar_work_empty, 11);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (warpgroup == 0) {

    // ---- producer: one thread issues every copy of a tile, a lane each that of a scale
    SETMAXNREG_DEC(72);
    if (threadIdx.x < 32) {
      const int lane = threadIdx.x;
      u32 raw_stage = 0;
      u32 raw_phase = 1;
      u32 k_stage = 0;
      u32 k_phase = 1;
      u32 q_phase = 1;
      u32 work_phase = 0;
      const RaggedBatch lengths{cu_seqlens_q, cu_seqlens_k, batch, 0};
      RaggedItems& kept = ((RaggedItems*)(smem_bytes + 221392))[lane];
      kept = first_items(lengths, lane, heads_q, 128, 112);
      for (int number = blockIdx.x;;) {
        {
          // loaded here and not at the end of the loop, where ptxas 13.0 can lose the wait for it
          asm volatile("" ::: "memory");
          RaggedItems items = kept;
          write_item(work_items + 2 * work_phase, items, lengths, number, lane, heads_q, heads_kv, 128, 112, 936);
          kept = items;
        }
        const int4* const item = work_items + 2 * work_phase;
        const int4 place = item[0], rows = item[1];
        __syncwarp();  // every lane has read the item, and will not when the next one is written
        if (lane == 0) mbarrier_arrive(mbar_work_full);
        if (place.x < 0) break;
        const Work work = decode_work(place, rows, heads_q, heads_kv);
        if (work.num_blocks > 0) {
          int n = work.num_blocks - 1;
          // K(n) into the next slot
          mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) {
            mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 14336);
            tma_load(smem_raw + raw_stage * 14336 + 0, &k_map, mbar_raw_full + raw_stage * 8, 0, work.k_start + n * 112, work.kv_head, 0,
                0x14F0000000000000ull);
            tma_load(smem_raw + raw_stage * 14336 + 7168, &k_map, mbar_raw_full + raw_stage * 8, 64, work.k_start + n * 112, work.kv_head,
                0, 0x14F0000000000000ull);
          }
          raw_phase ^= raw_stage; raw_stage ^= 1;
          mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) {
            mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 14336);
            tma_load(smem_k + k_stage * 43008 + 28672, &k_rope_map, mbar_k_full + k_stage * 8, 0, work.k_start + n * 112, work.kv_head, 0,
                0x14F0000000000000ull);
          }
          k_phase ^= k_stage; k_stage ^= 1;
          if (lane == 0) {
            // Q rows of consumer warpgroup 0
            mbarrier_wait(mbar_q_empty, q_phase);
            mbarrier_arrive_expect_tx(mbar_q_full, 24576);
            tma_load(smem_q, &q_map, mbar_q_full, 0, work.q_start + work.m_start, work.head, 0, 0x12F0000000000000ull);
            tma_load(smem_q + 8192, &q_map, mbar_q_full, 64, work.q_start + work.m_start, work.head, 0, 0x12F0000000000000ull);
            tma_load(smem_q + 16384, &q_map, mbar_q_full, 128, work.q_start + work.m_start, work.head, 0, 0x12F0000000000000ull);
            // Q rows of consumer warpgroup 1
            mbarrier_wait(mbar_q_empty + 8, q_phase);
            mbarrier_arrive_expect_tx(mbar_q_full + 8, 24576);
            tma_load(smem_q + 24576, &q_map, mbar_q_full + 8, 0, work.q_start + work.m_start + 64, work.head, 0, 0x12F0000000000000ull);
            tma_load(smem_q + 32768, &q_map, mbar_q_full + 8, 64, work.q_start + work.m_start + 64, work.head, 0, 0x12F0000000000000ull);
            tma_load(smem_q + 40960, &q_map, mbar_q_full + 8, 128, work.q_start + work.m_start + 64, work.head, 0, 0x12F0000000000000ull);
          }
          q_phase ^= 1;
          #pragma unroll 1
          for (--n; n >= 0; --n) {
            // K(n) into the next slot
            mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
            __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
            if (lane == 0) {
              mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 14336);
              tma_load(smem_raw + raw_stage * 14336 + 0, &k_map, mbar_raw_full + raw_stage * 8, 0, work.k_start + n * 112, work.kv_head, 0,
                  0x14F0000000000000ull);
              tma_load(smem_raw + raw_stage * 14336 + 7168, &k_map, mbar_raw_full + raw_stage * 8, 64, work.k_start + n * 112, work.kv_head,
                  0, 0x14F0000000000000ull);
            }
            raw_phase ^= raw_stage; raw_stage ^= 1;
            mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
            __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
            if (lane == 0) {
              mbarrier_arrive_expect_tx(mbar_k_full + k_stage * 8, 14336);
              tma_load(smem_k + k_stage * 43008 + 28672, &k_rope_map, mbar_k_full + k_stage * 8, 0, work.k_start + n * 112, work.kv_head, 0,
                  0x14F0000000000000ull);
            }
            k_phase ^= k_stage; k_stage ^= 1;
            // V(n + 1) into the next slot
            mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
            __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
            if (lane == 0) {
              mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 14336);
              tma_load(smem_raw + raw_stage * 14336 + 0, &v_map, mbar_raw_full + raw_stage * 8, 0, work.k_start + (n + 1) * 112,
                  work.kv_head, 0, 0x14F0000000000000ull);
              tma_load(smem_raw + raw_stage * 14336 + 7168, &v_map, mbar_raw_full + raw_stage * 8, 64, work.k_start + (n + 1) * 112,
                  work.kv_head, 0, 0x14F0000000000000ull);
            }
            raw_phase ^= raw_stage; raw_stage ^= 1;
          }
          // V(0) into the next slot
          mbarrier_wait(mbar_raw_empty + raw_stage * 8, raw_phase);
          __syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before
          if (lane == 0) {
            mbarrier_arrive_expect_tx(mbar_raw_full + raw_stage * 8, 14336);
            tma_load(smem_raw + raw_stage * 14336 + 0, &v_map, mbar_raw_full + raw_stage * 8, 0, work.k_start + 0 * 112, work.kv_head, 0,
                0x14F0000000000000ull);
            tma_load(smem_raw + raw_stage * 14336 + 7168, &v_map, mbar_raw_full + raw_stage * 8, 64, work.k_start + 0 * 112, work.kv_head,
                0, 0x14F0000000000000ull);
          }
          raw_phase ^= raw_stage; raw_stage ^= 1;
        } else if (work.num_blocks == 0) {
          // no keys: Q's rows are handed over empty, for O
          if (lane == 0) {
            mbarrier_wait(mbar_q_empty, q_phase);
            mbarrier_arrive(mbar_q_full);
            mbarrier_wait(mbar_q_empty + 8, q_phase);
            mbarrier_arrive(mbar_q_full + 8);
          }
          q_phase ^= 1;
        }
        mbarrier_wait(mbar_work_empty, work_phase);
        work_phase ^= 1;
        // Next work item; the last fetch of the launch leaves the counter as it was found.
        int fetched = lane == 0 ? atomicAdd(tile_counter, 1) : 0;
        fetched = __shfl_sync(0xffffffffu, fetched, 0);
        if (lane == 0 && fetched == kept.total - 1) atomicExch(tile_counter, 0);
        number = fetched + gridDim.x;
      }
    } else if (threadIdx.x >= 32) {

      // ---- converters: three warps widen what was copied
      const int thread = threadIdx.x - 32, lane = threadIdx.x % 32;
      // first chunk of this thread: row thread / 4, chunk 2 * (thread % 4), swizzled; the other is beside it
      const u32 row_at = thread / 4 * 128 + ((2 * (thread % 4) ^ (thread / 4 & 7)) << 4);
      u32 raw_stage = 0;
      u32 raw_phase = 0;
      u32 k_stage = 0;
      u32 k_phase = 1;
      u32 v_stage = 0;
      u32 v_phase = 1;
      u32 work_phase = 0;
      for (;;) {
        mbarrier_wait(mbar_work_full, work_phase);
        const int4* const item = work_items + 2 * work_phase;
        const int4 place = item[0], rows = item[1];
        work_phase ^= 1;
        __syncwarp();
        if (lane == 0) mbarrier_arrive(mbar_work_empty);
        // of a value that shared memory gave, the compiler does not know that it is the warp's
        if (__shfl_sync(0xffffffffu, place.x, 0) < 0) break;
        const Work work = decode_work(place, rows, heads_q, heads_kv);
        if (work.num_blocks > 0) {
          // K: 14336 bytes to FP16
          mbarrier_wait(mbar_raw_full + raw_stage * 8, raw_phase);
          mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
          {
            const u32 from = smem_raw + raw_stage * 14336 + 16 * thread;
            const u32 to = smem_k + k_stage * 43008 + row_at, beside = to ^ 16;
            const uint4 x_0 = load_shared_16(from + 0);
            const uint4 x_1 = load_shared_16(from + 1536);
            const uint4 x_2 = load_shared_16(from + 3072);
            const uint4 x_3 = load_shared_16(from + 4608);
            store_widened(to + 0, beside + 0, x_0);
            store_widened(to + 3072, beside + 3072, x_1);
            store_widened(to + 6144, beside + 6144, x_2);
            store_widened(to + 9216, beside + 9216, x_3);
            const uint4 x_4 = load_shared_16(from + 6144);
            const uint4 x_5 = load_shared_16(from + 7680);
            const uint4 x_6 = load_shared_16(from + 9216);
            const uint4 x_7 = load_shared_16(from + 10752);
            store_widened(to + 12288, beside + 12288, x_4);
            store_widened(to + 15360, beside + 15360, x_5);
            store_widened(to + 18432, beside + 18432, x_6);
            store_widened(to + 21504, beside + 21504, x_7);
            const uint4 x_8 = load_shared_16(from + 12288);
            store_widened(to + 24576, beside + 24576, x_8);
            if (thread < 32) store_widened(to + 27648, beside + 27648, load_shared_16(from + 13824));
          }
          fence_proxy_async();
          __syncwarp();  // every lane has read and stored its part
          if (lane == 0) mbarrier_arrive(mbar_k_full + k_stage * 8);
          if (lane == 0) mbarrier_arrive(mbar_raw_empty + raw_stage * 8);
          raw_phase ^= raw_stage; raw_stage ^= 1;
          k_phase ^= k_stage; k_stage ^= 1;
          #pragma unroll 1
          for (int n = work.num_blocks - 2; n >= 0; --n) {
            // K: 14336 bytes to FP16
            mbarrier_wait(mbar_raw_full + raw_stage * 8, raw_phase);
            mbarrier_wait(mbar_k_empty + k_stage * 8, k_phase);
            {
              const u32 from = smem_raw + raw_stage * 14336 + 16 * thread;
              const u32 to = smem_k + k_stage * 43008 + row_at, beside = to ^ 16;
              const uint4 x_0 = load_shared_16(from + 0);
              const uint4 x_1 = load_shared_16(from + 1536);
              const uint4 x_2 = load_shared_16(from + 3072);
              const uint4 x_3 = load_shared_16(from + 4608);
              store_widened(to + 0, beside + 0, x_0);
              store_widened(to + 3072, beside + 3072, x_1);
              store_widened(to + 6144, beside + 6144, x_2);
              store_widened(to + 9216, beside + 9216, x_3);
              const uint4 x_4 = load_shared_16(from + 6144);
              const uint4 x_5 = load_shared_16(from + 7680);
              const uint4 x_6 = load_shared_16(from + 9216);
              const uint4 x_7 = load_shared_16(from + 10752);
              store_widened(to + 12288, beside + 12288, x_4);
              store_widened(to + 15360, beside + 15360, x_5);
              store_widened(to + 18432, beside + 18432, x_6);
              store_widened(to + 21504, beside + 21504, x_7);
              const uint4 x_8 = load_shared_16(from + 12288);
              store_widened(to + 24576, beside + 24576, x_8);
              if (thread < 32) store_widened(to + 27648, beside + 27648, load_shared_16(from + 13824));
            }
            fence_proxy_async();
            __syncwarp();  // every lane has read and stored its part
            if (lane == 0) mbarrier_arrive(mbar_k_full + k_stage * 8);
            if (lane == 0) mbarrier_arrive(mbar_raw_empty + raw_stage * 8);
            raw_phase ^= raw_stage; raw_stage ^= 1;
            k_phase ^= k_stage; k_stage ^= 1;
            // V: 14336 bytes to FP16
            mbarrier_wait(mbar_raw_full + raw_stage * 8, raw_phase);
            mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
            {
              const u32 from = smem_raw + raw_stage * 14336 + 16 * thread;
              const u32 to = smem_v + v_stage * 28672 + row_at, beside = to ^ 16;
              const uint4 x_0 = load_shared_16(from + 0);
              const uint4 x_1 = load_shared_16(from + 1536);
              const uint4 x_2 = load_shared_16(from + 3072);
              const uint4 x_3 = load_shared_16(from + 4608);
              store_widened(to + 0, beside + 0, x_0);
              store_widened(to + 3072, beside + 3072, x_1);
              store_widened(to + 6144, beside + 6144, x_2);
              store_widened(to + 9216, beside + 9216, x_3);
              const uint4 x_4 = load_shared_16(from + 6144);
              const uint4 x_5 = load_shared_16(from + 7680);
              const uint4 x_6 = load_shared_16(from + 9216);
              const uint4 x_7 = load_shared_16(from + 10752);
              store_widened(to + 12288, beside + 12288, x_4);
              store_widened(to + 15360, beside + 15360, x_5);
              store_widened(to + 18432, beside + 18432, x_6);
              store_widened(to + 21504, beside + 21504, x_7);
              const uint4 x_8 = load_shared_16(from + 12288);
              store_widened(to + 24576, beside + 24576, x_8);
              if (thread < 32) store_widened(to + 27648, beside + 27648, load_shared_16(from + 13824));
            }
            fence_proxy_async();
            __syncwarp();  // every lane has read and stored its part
            if (lane == 0) mbarrier_arrive(mbar_v_full + v_stage * 8);
            if (lane == 0) mbarrier_arrive(mbar_raw_empty + raw_stage * 8);
            raw_phase ^= raw_stage; raw_stage ^= 1;
            v_phase ^= v_stage; v_stage ^= 1;
          }
          // V: 14336 bytes to FP16
          mbarrier_wait(mbar_raw_full + raw_stage * 8, raw_phase);
          mbarrier_wait(mbar_v_empty + v_stage * 8, v_phase);
          {
            const u32 from = smem_raw + raw_stage * 14336 + 16 * thread;
            const u32 to = smem_v + v_stage * 28672 + row_at, beside = to ^ 16;
            const uint4 x_0 = load_shared_16(from + 0);
            const uint4 x_1 = load_shared_16(from + 1536);
            const uint4 x_2 = load_shared_16(from + 3072);
            const uint4 x_3 = load_shared_16(from + 4608);
            store_widened(to + 0, beside + 0, x_0);
            store_widened(to + 3072, beside + 3072, x_1);
            store_widened(to + 6144, beside + 6144, x_2);
            store_widened(to + 9216, beside + 9216, x_3);
            const uint4 x_4 = load_shared_16(from + 6144);
            const uint4 x_5 = load_shared_16(from + 7680);
            const uint4 x_6 = load_shared_16(from + 9216);
            const uint4 x_7 = load_shared_16(from + 10752);
            store_widened(to + 12288, beside + 12288, x_4);
            store_widened(to + 15360, beside + 15360, x_5);
            store_widened(to + 18432, beside + 18432, x_6);
            store_widened(to + 21504, beside + 21504, x_7);
            const uint4 x_8 = load_shared_16(from + 12288);
            store_widened(to + 24576, beside + 24576, x_8);
            if (thread < 32) store_widened(to + 27648, beside + 27648, load_shared_16(from + 13824));
          }
          fence_proxy_async();
          __syncwarp();  // every lane has read and stored its part
          if (lane == 0) mbarrier_arrive(mbar_v_full + v_stage * 8);
          if (lane == 0) mbarrier_arrive(mbar_raw_empty + raw_stage * 8);
          raw_phase ^= raw_stage; raw_stage ^= 1;
          v_phase ^= v_stage; v_stage ^= 1;
        }
      }
    }
  } else {

    // ---- consumers: 64 query rows each
    SETMAXNREG_INC(216);
    const int consumer = warpgroup - 1;
    const int warp = (threadIdx.x / 32) % 4, lane = threadIdx.x % 32;
    const u32 q_desc = ((smem_q + consumer * 24576) >> 4) | 0x10000u;
    const u32 k_desc = (smem_k >> 4) | 0x10000u;
    const u32 v_desc = (smem_v >> 4) | 0x3800000u;
    // stmatrix addresses: row lane % 16 of this warp's 16 rows, chunk lane / 16, swizzled within the span
    const u32 o_warp = smem + consumer * 24576 + warp * 2048;
    const u32 o_row = o_warp + (lane & 15) * 128;
    const u32 o_swizzle = (((u32)lane >> 4) ^ (lane & 7)) << 4;
    u32 k_stage = 0;
    u32 k_phase = 0;
    u32 v_stage = 0;
    u32 v_phase = 0;
    u32 q_phase = 0;

    float s_acc[56];  // S: 64 x 112 scores
    float o_acc[64];  // O: 64 x 128
    u32 p[28];  // P: 64 x 112 as the A operand of P V

    u32 work_phase = 0;
    for (;;) {
      mbarrier_wait(mbar_work_full, work_phase);
      const int4* const item = work_items + 2 * work_phase;
      const int4 place = item[0], rows = item[1];
      work_phase ^= 1;
      __syncwarp();
      if (lane == 0) mbarrier_arrive(mbar_work_empty);
      // of a value that shared memory gave, the compiler does not know that it is the warp's
      if (__shfl_sync(0xffffffffu, place.x, 0) < 0) break;
      const Work work = decode_work(place, rows, heads_q, heads_kv);
      const int row_0 = work.m_start + 64 * consumer + 16 * warp + (lane >> 2);  // this lane's rows: row_0, row_0 + 8
      const float key_scale = k_scale[work.kv_head];
      float row_max_0 = -kInfinity, row_max_1 = -kInfinity;
      float row_sum_0 = 0.0f, row_sum_1 = 0.0f;
      o_acc[0] = o_acc[1] = o_acc[2] = o_acc[3] = o_acc[4] = o_acc[5] = o_acc[6] = o_acc[7] = 0.0f;
      o_acc[8] = o_acc[9] = o_acc[10] = o_acc[11] = o_acc[12] = o_acc[13] = o_acc[14] = o_acc[15] = 0.0f;
      o_acc[16] = o_acc[17] = o_acc[18] = o_acc[19] = o_acc[20] = o_acc[21] = o_acc[22] = o_acc[23] = 0.0f;
      o_acc[24] = o_acc[25] = o_acc[26] = o_acc[27] = o_acc[28] = o_acc[29] = o_acc[30] = o_acc[31] = 0.0f;
      o_acc[32] = o_acc[33] = o_acc[34] = o_acc[35] = o_acc[36] = o_acc[37] = o_acc[38] = o_acc[39] = 0.0f;
      o_acc[40] = o_acc[41] = o_acc[42] = o_acc[43] = o_acc[44] = o_acc[45] = o_acc[46] = o_acc[47] = 0.0f;
      o_acc[48] = o_acc[49] = o_acc[50] = o_acc[51] = o_acc[52] = o_acc[53] = o_acc[54] = o_acc[55] = 0.0f;
      o_acc[56] = o_acc[57] = o_acc[58] = o_acc[59] = o_acc[60] = o_acc[61] = o_acc[62] = o_acc[63] = 0.0f;
      if (work.num_blocks > 0) {
        int n = work.num_blocks - 1;
        // rows of V past this sequence belong to others: zero them, since 0 * NaN is NaN
        const int v_rows = work.seqlen_k - n * 112;
        if (v_rows < 112) {
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          for (int i = v_rows * 8 + threadIdx.x - 128; i < 896; i += 256) {
            zero_16_bytes(smem_v + v_stage * 28672 + 0 + i * 16);
            zero_16_bytes(smem_v + v_stage * 28672 + 14336 + i * 16);
          }
          named_barrier_sync(7, 256);  // every consumer reads these rows
        }
        mbarrier_wait(mbar_q_full + 8 * consumer, q_phase);
        q_phase ^= 1;
        // Q to FP16, in place, but for rotary columns
        #pragma unroll 4
        for (int i = 0; i < 8; ++i) {
          const u32 at = smem_q + consumer * 24576 + 16 * (threadIdx.x % 128) + 2048 * i;
          uint4 x = load_shared_16(at);
          x = bf16_to_fp16(x);
          store_shared_16(at, x);
        }
        fence_proxy_async();
        named_barrier_sync(4 + consumer, 128);  // every warp reads all of Q
        const int position = work.m_start + 64 * consumer + work.seqlen_k - work.seqlen_q;  // of the first row
        // tiles that only later warpgroups see
        const int own_blocks = (max(min(work.seqlen_k, (position + 63) + 1), 1) + 111) / 112;
        #pragma unroll 1
        for (; n >= own_blocks; --n) {
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          __syncwarp();  // no lane waits for a tile after its slot has gone back
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          k_phase ^= k_stage; k_stage ^= 1;
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          v_phase ^= v_stage; v_stage ^= 1;
        }

        // ---- first KV tile (the last keys)
        {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 2688;
          wgmma_fence();
          wgmma_m64n112k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 896, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 898, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 900, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 902, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          s_acc[0] *= key_scale; s_acc[1] *= key_scale; s_acc[2] *= key_scale; s_acc[3] *= key_scale;
          s_acc[4] *= key_scale; s_acc[5] *= key_scale; s_acc[6] *= key_scale; s_acc[7] *= key_scale;
          s_acc[8] *= key_scale; s_acc[9] *= key_scale; s_acc[10] *= key_scale; s_acc[11] *= key_scale;
          s_acc[12] *= key_scale; s_acc[13] *= key_scale; s_acc[14] *= key_scale; s_acc[15] *= key_scale;
          s_acc[16] *= key_scale; s_acc[17] *= key_scale; s_acc[18] *= key_scale; s_acc[19] *= key_scale;
          s_acc[20] *= key_scale; s_acc[21] *= key_scale; s_acc[22] *= key_scale; s_acc[23] *= key_scale;
          s_acc[24] *= key_scale; s_acc[25] *= key_scale; s_acc[26] *= key_scale; s_acc[27] *= key_scale;
          s_acc[28] *= key_scale; s_acc[29] *= key_scale; s_acc[30] *= key_scale; s_acc[31] *= key_scale;
          s_acc[32] *= key_scale; s_acc[33] *= key_scale; s_acc[34] *= key_scale; s_acc[35] *= key_scale;
          s_acc[36] *= key_scale; s_acc[37] *= key_scale; s_acc[38] *= key_scale; s_acc[39] *= key_scale;
          s_acc[40] *= key_scale; s_acc[41] *= key_scale; s_acc[42] *= key_scale; s_acc[43] *= key_scale;
          s_acc[44] *= key_scale; s_acc[45] *= key_scale; s_acc[46] *= key_scale; s_acc[47] *= key_scale;
          s_acc[48] *= key_scale; s_acc[49] *= key_scale; s_acc[50] *= key_scale; s_acc[51] *= key_scale;
          s_acc[52] *= key_scale; s_acc[53] *= key_scale; s_acc[54] *= key_scale; s_acc[55] *= key_scale;
          wgmma_fence();
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1792, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1794, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1796, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1798, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          k_phase ^= k_stage; k_stage ^= 1;
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(work.seqlen_k, row_0 + work.seqlen_k - work.seqlen_q + 1) - (n * 112) - 2 * (lane & 3);
          const int end_1 = min(work.seqlen_k, row_0 + 8 + work.seqlen_k - work.seqlen_q + 1) - (n * 112) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
          if (64 >= end_0) s_acc[32] = -kInfinity; if (65 >= end_0) s_acc[33] = -kInfinity;
          if (64 >= end_1) s_acc[34] = -kInfinity; if (65 >= end_1) s_acc[35] = -kInfinity;
          if (72 >= end_0) s_acc[36] = -kInfinity; if (73 >= end_0) s_acc[37] = -kInfinity;
          if (72 >= end_1) s_acc[38] = -kInfinity; if (73 >= end_1) s_acc[39] = -kInfinity;
          if (80 >= end_0) s_acc[40] = -kInfinity; if (81 >= end_0) s_acc[41] = -kInfinity;
          if (80 >= end_1) s_acc[42] = -kInfinity; if (81 >= end_1) s_acc[43] = -kInfinity;
          if (88 >= end_0) s_acc[44] = -kInfinity; if (89 >= end_0) s_acc[45] = -kInfinity;
          if (88 >= end_1) s_acc[46] = -kInfinity; if (89 >= end_1) s_acc[47] = -kInfinity;
          if (96 >= end_0) s_acc[48] = -kInfinity; if (97 >= end_0) s_acc[49] = -kInfinity;
          if (96 >= end_1) s_acc[50] = -kInfinity; if (97 >= end_1) s_acc[51] = -kInfinity;
          if (104 >= end_0) s_acc[52] = -kInfinity; if (105 >= end_0) s_acc[53] = -kInfinity;
          if (104 >= end_1) s_acc[54] = -kInfinity; if (105 >= end_1) s_acc[55] = -kInfinity;
          float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
          max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
          max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
          max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
          max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
          max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
          max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
          max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
          max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
          max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
          max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
          max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
          max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
          max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
          max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
          max_0a = fmaxf(max_0a, s_acc[32]); max_0b = fmaxf(max_0b, s_acc[33]);
          max_1a = fmaxf(max_1a, s_acc[34]); max_1b = fmaxf(max_1b, s_acc[35]);
          max_0a = fmaxf(max_0a, s_acc[36]); max_0b = fmaxf(max_0b, s_acc[37]);
          max_1a = fmaxf(max_1a, s_acc[38]); max_1b = fmaxf(max_1b, s_acc[39]);
          max_0a = fmaxf(max_0a, s_acc[40]); max_0b = fmaxf(max_0b, s_acc[41]);
          max_1a = fmaxf(max_1a, s_acc[42]); max_1b = fmaxf(max_1b, s_acc[43]);
          max_0a = fmaxf(max_0a, s_acc[44]); max_0b = fmaxf(max_0b, s_acc[45]);
          max_1a = fmaxf(max_1a, s_acc[46]); max_1b = fmaxf(max_1b, s_acc[47]);
          max_0a = fmaxf(max_0a, s_acc[48]); max_0b = fmaxf(max_0b, s_acc[49]);
          max_1a = fmaxf(max_1a, s_acc[50]); max_1b = fmaxf(max_1b, s_acc[51]);
          max_0a = fmaxf(max_0a, s_acc[52]); max_0b = fmaxf(max_0b, s_acc[53]);
          max_1a = fmaxf(max_1a, s_acc[54]); max_1b = fmaxf(max_1b, s_acc[55]);
          float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
          row_max_0 = max_0; row_max_1 = max_1;
          float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
          float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
          if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
            const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
            if (is_steep(shift_0)) shift_0 = 0.0f;
            const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
            if (is_steep(shift_1)) shift_1 = 0.0f;
            s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
            s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
            s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
            s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
            s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
            s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
            s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
            s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
            s_acc[32] -= steep_0; s_acc[33] -= steep_0; s_acc[34] -= steep_1; s_acc[35] -= steep_1;
            s_acc[36] -= steep_0; s_acc[37] -= steep_0; s_acc[38] -= steep_1; s_acc[39] -= steep_1;
            s_acc[40] -= steep_0; s_acc[41] -= steep_0; s_acc[42] -= steep_1; s_acc[43] -= steep_1;
            s_acc[44] -= steep_0; s_acc[45] -= steep_0; s_acc[46] -= steep_1; s_acc[47] -= steep_1;
            s_acc[48] -= steep_0; s_acc[49] -= steep_0; s_acc[50] -= steep_1; s_acc[51] -= steep_1;
            s_acc[52] -= steep_0; s_acc[53] -= steep_0; s_acc[54] -= steep_1; s_acc[55] -= steep_1;
          }
          s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
          s_acc[32] = exp2_approx(fmaf(s_acc[32], scale_log2, -shift_0)); s_acc[33] = exp2_approx(fmaf(s_acc[33], scale_log2, -shift_0));
          s_acc[34] = exp2_approx(fmaf(s_acc[34], scale_log2, -shift_1)); s_acc[35] = exp2_approx(fmaf(s_acc[35], scale_log2, -shift_1));
          s_acc[36] = exp2_approx(fmaf(s_acc[36], scale_log2, -shift_0)); s_acc[37] = exp2_approx(fmaf(s_acc[37], scale_log2, -shift_0));
          s_acc[38] = exp2_approx(fmaf(s_acc[38], scale_log2, -shift_1)); s_acc[39] = exp2_approx(fmaf(s_acc[39], scale_log2, -shift_1));
          s_acc[40] = exp2_approx(fmaf(s_acc[40], scale_log2, -shift_0)); s_acc[41] = exp2_approx(fmaf(s_acc[41], scale_log2, -shift_0));
          s_acc[42] = exp2_approx(fmaf(s_acc[42], scale_log2, -shift_1)); s_acc[43] = exp2_approx(fmaf(s_acc[43], scale_log2, -shift_1));
          s_acc[44] = exp2_approx(fmaf(s_acc[44], scale_log2, -shift_0)); s_acc[45] = exp2_approx(fmaf(s_acc[45], scale_log2, -shift_0));
          s_acc[46] = exp2_approx(fmaf(s_acc[46], scale_log2, -shift_1)); s_acc[47] = exp2_approx(fmaf(s_acc[47], scale_log2, -shift_1));
          s_acc[48] = exp2_approx(fmaf(s_acc[48], scale_log2, -shift_0)); s_acc[49] = exp2_approx(fmaf(s_acc[49], scale_log2, -shift_0));
          s_acc[50] = exp2_approx(fmaf(s_acc[50], scale_log2, -shift_1)); s_acc[51] = exp2_approx(fmaf(s_acc[51], scale_log2, -shift_1));
          s_acc[52] = exp2_approx(fmaf(s_acc[52], scale_log2, -shift_0)); s_acc[53] = exp2_approx(fmaf(s_acc[53], scale_log2, -shift_0));
          s_acc[54] = exp2_approx(fmaf(s_acc[54], scale_log2, -shift_1)); s_acc[55] = exp2_approx(fmaf(s_acc[55], scale_log2, -shift_1));
          // row sums, two chains each
          float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
          float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
          sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
          sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
          sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
          sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
          sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
          sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
          sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
          sum_0a_0 += s_acc[32]; sum_0b_0 += s_acc[33]; sum_1a_0 += s_acc[34]; sum_1b_0 += s_acc[35];
          sum_0a_0 += s_acc[36]; sum_0b_0 += s_acc[37]; sum_1a_0 += s_acc[38]; sum_1b_0 += s_acc[39];
          sum_0a_0 += s_acc[40]; sum_0b_0 += s_acc[41]; sum_1a_0 += s_acc[42]; sum_1b_0 += s_acc[43];
          sum_0a_0 += s_acc[44]; sum_0b_0 += s_acc[45]; sum_1a_0 += s_acc[46]; sum_1b_0 += s_acc[47];
          sum_0a_0 += s_acc[48]; sum_0b_0 += s_acc[49]; sum_1a_0 += s_acc[50]; sum_1b_0 += s_acc[51];
          sum_0a_0 += s_acc[52]; sum_0b_0 += s_acc[53]; sum_1a_0 += s_acc[54]; sum_1b_0 += s_acc[55];
          row_sum_0 += sum_0a_0 + sum_0b_0;
          row_sum_1 += sum_1a_0 + sum_1b_0;
          p[0] = pack_fp16(s_acc[0], s_acc[1]); p[1] = pack_fp16(s_acc[2], s_acc[3]);
          p[2] = pack_fp16(s_acc[4], s_acc[5]); p[3] = pack_fp16(s_acc[6], s_acc[7]);
          p[4] = pack_fp16(s_acc[8], s_acc[9]); p[5] = pack_fp16(s_acc[10], s_acc[11]);
          p[6] = pack_fp16(s_acc[12], s_acc[13]); p[7] = pack_fp16(s_acc[14], s_acc[15]);
          p[8] = pack_fp16(s_acc[16], s_acc[17]); p[9] = pack_fp16(s_acc[18], s_acc[19]);
          p[10] = pack_fp16(s_acc[20], s_acc[21]); p[11] = pack_fp16(s_acc[22], s_acc[23]);
          p[12] = pack_fp16(s_acc[24], s_acc[25]); p[13] = pack_fp16(s_acc[26], s_acc[27]);
          p[14] = pack_fp16(s_acc[28], s_acc[29]); p[15] = pack_fp16(s_acc[30], s_acc[31]);
          p[16] = pack_fp16(s_acc[32], s_acc[33]); p[17] = pack_fp16(s_acc[34], s_acc[35]);
          p[18] = pack_fp16(s_acc[36], s_acc[37]); p[19] = pack_fp16(s_acc[38], s_acc[39]);
          p[20] = pack_fp16(s_acc[40], s_acc[41]); p[21] = pack_fp16(s_acc[42], s_acc[43]);
          p[22] = pack_fp16(s_acc[44], s_acc[45]); p[23] = pack_fp16(s_acc[46], s_acc[47]);
          p[24] = pack_fp16(s_acc[48], s_acc[49]); p[25] = pack_fp16(s_acc[50], s_acc[51]);
          p[26] = pack_fp16(s_acc[52], s_acc[53]); p[27] = pack_fp16(s_acc[54], s_acc[55]);
        }
        const int clean_end = max(min(work.seqlen_k, position + 1), 0) / 112;  // tiles that the first row sees to their end

        // ---- KV tiles in which the keys of some row of this warpgroup end
        for (--n; n >= clean_end; --n) {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 2688;
          wgmma_fence();
          wgmma_m64n112k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 896, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 898, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 900, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 902, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          s_acc[0] *= key_scale; s_acc[1] *= key_scale; s_acc[2] *= key_scale; s_acc[3] *= key_scale;
          s_acc[4] *= key_scale; s_acc[5] *= key_scale; s_acc[6] *= key_scale; s_acc[7] *= key_scale;
          s_acc[8] *= key_scale; s_acc[9] *= key_scale; s_acc[10] *= key_scale; s_acc[11] *= key_scale;
          s_acc[12] *= key_scale; s_acc[13] *= key_scale; s_acc[14] *= key_scale; s_acc[15] *= key_scale;
          s_acc[16] *= key_scale; s_acc[17] *= key_scale; s_acc[18] *= key_scale; s_acc[19] *= key_scale;
          s_acc[20] *= key_scale; s_acc[21] *= key_scale; s_acc[22] *= key_scale; s_acc[23] *= key_scale;
          s_acc[24] *= key_scale; s_acc[25] *= key_scale; s_acc[26] *= key_scale; s_acc[27] *= key_scale;
          s_acc[28] *= key_scale; s_acc[29] *= key_scale; s_acc[30] *= key_scale; s_acc[31] *= key_scale;
          s_acc[32] *= key_scale; s_acc[33] *= key_scale; s_acc[34] *= key_scale; s_acc[35] *= key_scale;
          s_acc[36] *= key_scale; s_acc[37] *= key_scale; s_acc[38] *= key_scale; s_acc[39] *= key_scale;
          s_acc[40] *= key_scale; s_acc[41] *= key_scale; s_acc[42] *= key_scale; s_acc[43] *= key_scale;
          s_acc[44] *= key_scale; s_acc[45] *= key_scale; s_acc[46] *= key_scale; s_acc[47] *= key_scale;
          s_acc[48] *= key_scale; s_acc[49] *= key_scale; s_acc[50] *= key_scale; s_acc[51] *= key_scale;
          s_acc[52] *= key_scale; s_acc[53] *= key_scale; s_acc[54] *= key_scale; s_acc[55] *= key_scale;
          wgmma_fence();
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1792, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1794, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1796, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1798, 0x40000040u));
          wgmma_commit();
          // O += P(n+1) V(n+1)
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 1792;
          wgmma_fence();
          wgmma_m64n128k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[16], p[17], p[18], p[19], descriptor(v_low + 512, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[20], p[21], p[22], p[23], descriptor(v_low + 640, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[24], p[25], p[26], p[27], descriptor(v_low + 768, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(1);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          k_phase ^= k_stage; k_stage ^= 1;
          // keys past the row's own position or the end of the sequence do not count
          const int end_0 = min(work.seqlen_k, row_0 + work.seqlen_k - work.seqlen_q + 1) - (n * 112) - 2 * (lane & 3);
          const int end_1 = min(work.seqlen_k, row_0 + 8 + work.seqlen_k - work.seqlen_q + 1) - (n * 112) - 2 * (lane & 3);
          if (0 >= end_0) s_acc[0] = -kInfinity; if (1 >= end_0) s_acc[1] = -kInfinity;
          if (0 >= end_1) s_acc[2] = -kInfinity; if (1 >= end_1) s_acc[3] = -kInfinity;
          if (8 >= end_0) s_acc[4] = -kInfinity; if (9 >= end_0) s_acc[5] = -kInfinity;
          if (8 >= end_1) s_acc[6] = -kInfinity; if (9 >= end_1) s_acc[7] = -kInfinity;
          if (16 >= end_0) s_acc[8] = -kInfinity; if (17 >= end_0) s_acc[9] = -kInfinity;
          if (16 >= end_1) s_acc[10] = -kInfinity; if (17 >= end_1) s_acc[11] = -kInfinity;
          if (24 >= end_0) s_acc[12] = -kInfinity; if (25 >= end_0) s_acc[13] = -kInfinity;
          if (24 >= end_1) s_acc[14] = -kInfinity; if (25 >= end_1) s_acc[15] = -kInfinity;
          if (32 >= end_0) s_acc[16] = -kInfinity; if (33 >= end_0) s_acc[17] = -kInfinity;
          if (32 >= end_1) s_acc[18] = -kInfinity; if (33 >= end_1) s_acc[19] = -kInfinity;
          if (40 >= end_0) s_acc[20] = -kInfinity; if (41 >= end_0) s_acc[21] = -kInfinity;
          if (40 >= end_1) s_acc[22] = -kInfinity; if (41 >= end_1) s_acc[23] = -kInfinity;
          if (48 >= end_0) s_acc[24] = -kInfinity; if (49 >= end_0) s_acc[25] = -kInfinity;
          if (48 >= end_1) s_acc[26] = -kInfinity; if (49 >= end_1) s_acc[27] = -kInfinity;
          if (56 >= end_0) s_acc[28] = -kInfinity; if (57 >= end_0) s_acc[29] = -kInfinity;
          if (56 >= end_1) s_acc[30] = -kInfinity; if (57 >= end_1) s_acc[31] = -kInfinity;
          if (64 >= end_0) s_acc[32] = -kInfinity; if (65 >= end_0) s_acc[33] = -kInfinity;
          if (64 >= end_1) s_acc[34] = -kInfinity; if (65 >= end_1) s_acc[35] = -kInfinity;
          if (72 >= end_0) s_acc[36] = -kInfinity; if (73 >= end_0) s_acc[37] = -kInfinity;
          if (72 >= end_1) s_acc[38] = -kInfinity; if (73 >= end_1) s_acc[39] = -kInfinity;
          if (80 >= end_0) s_acc[40] = -kInfinity; if (81 >= end_0) s_acc[41] = -kInfinity;
          if (80 >= end_1) s_acc[42] = -kInfinity; if (81 >= end_1) s_acc[43] = -kInfinity;
          if (88 >= end_0) s_acc[44] = -kInfinity; if (89 >= end_0) s_acc[45] = -kInfinity;
          if (88 >= end_1) s_acc[46] = -kInfinity; if (89 >= end_1) s_acc[47] = -kInfinity;
          if (96 >= end_0) s_acc[48] = -kInfinity; if (97 >= end_0) s_acc[49] = -kInfinity;
          if (96 >= end_1) s_acc[50] = -kInfinity; if (97 >= end_1) s_acc[51] = -kInfinity;
          if (104 >= end_0) s_acc[52] = -kInfinity; if (105 >= end_0) s_acc[53] = -kInfinity;
          if (104 >= end_1) s_acc[54] = -kInfinity; if (105 >= end_1) s_acc[55] = -kInfinity;
          // softmax(n), while P(n+1) V(n+1) runs
          float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
          max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
          max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
          max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
          max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
          max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
          max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
          max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
          max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
          max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
          max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
          max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
          max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
          max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
          max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
          max_0a = fmaxf(max_0a, s_acc[32]); max_0b = fmaxf(max_0b, s_acc[33]);
          max_1a = fmaxf(max_1a, s_acc[34]); max_1b = fmaxf(max_1b, s_acc[35]);
          max_0a = fmaxf(max_0a, s_acc[36]); max_0b = fmaxf(max_0b, s_acc[37]);
          max_1a = fmaxf(max_1a, s_acc[38]); max_1b = fmaxf(max_1b, s_acc[39]);
          max_0a = fmaxf(max_0a, s_acc[40]); max_0b = fmaxf(max_0b, s_acc[41]);
          max_1a = fmaxf(max_1a, s_acc[42]); max_1b = fmaxf(max_1b, s_acc[43]);
          max_0a = fmaxf(max_0a, s_acc[44]); max_0b = fmaxf(max_0b, s_acc[45]);
          max_1a = fmaxf(max_1a, s_acc[46]); max_1b = fmaxf(max_1b, s_acc[47]);
          max_0a = fmaxf(max_0a, s_acc[48]); max_0b = fmaxf(max_0b, s_acc[49]);
          max_1a = fmaxf(max_1a, s_acc[50]); max_1b = fmaxf(max_1b, s_acc[51]);
          max_0a = fmaxf(max_0a, s_acc[52]); max_0b = fmaxf(max_0b, s_acc[53]);
          max_1a = fmaxf(max_1a, s_acc[54]); max_1b = fmaxf(max_1b, s_acc[55]);
          float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
          max_0 = fmaxf(max_0, row_max_0); max_1 = fmaxf(max_1, row_max_1);
          float alpha_0 = 1.0f, alpha_1 = 1.0f;
          // Keep the old maximum while no row of the warp grew by more than 2^8.
          const bool grew = (max_0 - row_max_0) * scale_log2 > 8.0f || (max_1 - row_max_1) * scale_log2 > 8.0f;
          const bool rescale = __any_sync(0xffffffffu, grew);
          if (rescale) {
            alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
            alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
          }
          float shift_0 = row_max_0 == -kInfinity ? 0.0f : row_base(row_max_0, scale_log2);
          float shift_1 = row_max_1 == -kInfinity ? 0.0f : row_base(row_max_1, scale_log2);
          if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
            const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
            if (is_steep(shift_0)) shift_0 = 0.0f;
            const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
            if (is_steep(shift_1)) shift_1 = 0.0f;
            s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
            s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
            s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
            s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
            s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
            s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
            s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
            s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
            s_acc[32] -= steep_0; s_acc[33] -= steep_0; s_acc[34] -= steep_1; s_acc[35] -= steep_1;
            s_acc[36] -= steep_0; s_acc[37] -= steep_0; s_acc[38] -= steep_1; s_acc[39] -= steep_1;
            s_acc[40] -= steep_0; s_acc[41] -= steep_0; s_acc[42] -= steep_1; s_acc[43] -= steep_1;
            s_acc[44] -= steep_0; s_acc[45] -= steep_0; s_acc[46] -= steep_1; s_acc[47] -= steep_1;
            s_acc[48] -= steep_0; s_acc[49] -= steep_0; s_acc[50] -= steep_1; s_acc[51] -= steep_1;
            s_acc[52] -= steep_0; s_acc[53] -= steep_0; s_acc[54] -= steep_1; s_acc[55] -= steep_1;
          }
          s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
          s_acc[32] = exp2_approx(fmaf(s_acc[32], scale_log2, -shift_0)); s_acc[33] = exp2_approx(fmaf(s_acc[33], scale_log2, -shift_0));
          s_acc[34] = exp2_approx(fmaf(s_acc[34], scale_log2, -shift_1)); s_acc[35] = exp2_approx(fmaf(s_acc[35], scale_log2, -shift_1));
          s_acc[36] = exp2_approx(fmaf(s_acc[36], scale_log2, -shift_0)); s_acc[37] = exp2_approx(fmaf(s_acc[37], scale_log2, -shift_0));
          s_acc[38] = exp2_approx(fmaf(s_acc[38], scale_log2, -shift_1)); s_acc[39] = exp2_approx(fmaf(s_acc[39], scale_log2, -shift_1));
          s_acc[40] = exp2_approx(fmaf(s_acc[40], scale_log2, -shift_0)); s_acc[41] = exp2_approx(fmaf(s_acc[41], scale_log2, -shift_0));
          s_acc[42] = exp2_approx(fmaf(s_acc[42], scale_log2, -shift_1)); s_acc[43] = exp2_approx(fmaf(s_acc[43], scale_log2, -shift_1));
          s_acc[44] = exp2_approx(fmaf(s_acc[44], scale_log2, -shift_0)); s_acc[45] = exp2_approx(fmaf(s_acc[45], scale_log2, -shift_0));
          s_acc[46] = exp2_approx(fmaf(s_acc[46], scale_log2, -shift_1)); s_acc[47] = exp2_approx(fmaf(s_acc[47], scale_log2, -shift_1));
          s_acc[48] = exp2_approx(fmaf(s_acc[48], scale_log2, -shift_0)); s_acc[49] = exp2_approx(fmaf(s_acc[49], scale_log2, -shift_0));
          s_acc[50] = exp2_approx(fmaf(s_acc[50], scale_log2, -shift_1)); s_acc[51] = exp2_approx(fmaf(s_acc[51], scale_log2, -shift_1));
          s_acc[52] = exp2_approx(fmaf(s_acc[52], scale_log2, -shift_0)); s_acc[53] = exp2_approx(fmaf(s_acc[53], scale_log2, -shift_0));
          s_acc[54] = exp2_approx(fmaf(s_acc[54], scale_log2, -shift_1)); s_acc[55] = exp2_approx(fmaf(s_acc[55], scale_log2, -shift_1));
          // row sums, two chains each
          float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
          float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
          sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
          sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
          sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
          sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
          sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
          sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
          sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
          sum_0a_0 += s_acc[32]; sum_0b_0 += s_acc[33]; sum_1a_0 += s_acc[34]; sum_1b_0 += s_acc[35];
          sum_0a_0 += s_acc[36]; sum_0b_0 += s_acc[37]; sum_1a_0 += s_acc[38]; sum_1b_0 += s_acc[39];
          sum_0a_0 += s_acc[40]; sum_0b_0 += s_acc[41]; sum_1a_0 += s_acc[42]; sum_1b_0 += s_acc[43];
          sum_0a_0 += s_acc[44]; sum_0b_0 += s_acc[45]; sum_1a_0 += s_acc[46]; sum_1b_0 += s_acc[47];
          sum_0a_0 += s_acc[48]; sum_0b_0 += s_acc[49]; sum_1a_0 += s_acc[50]; sum_1b_0 += s_acc[51];
          sum_0a_0 += s_acc[52]; sum_0b_0 += s_acc[53]; sum_1a_0 += s_acc[54]; sum_1b_0 += s_acc[55];
          row_sum_0 += sum_0a_0 + sum_0b_0;
          row_sum_1 += sum_1a_0 + sum_1b_0;
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          v_phase ^= v_stage; v_stage ^= 1;
          if (rescale) {
            o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
            o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
            o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
            o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
            o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
            o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
            o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
            o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
            o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
            o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
            o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
            o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
            o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
            o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
            o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
            o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
          }
          p[0] = pack_fp16(s_acc[0], s_acc[1]); p[1] = pack_fp16(s_acc[2], s_acc[3]);
          p[2] = pack_fp16(s_acc[4], s_acc[5]); p[3] = pack_fp16(s_acc[6], s_acc[7]);
          p[4] = pack_fp16(s_acc[8], s_acc[9]); p[5] = pack_fp16(s_acc[10], s_acc[11]);
          p[6] = pack_fp16(s_acc[12], s_acc[13]); p[7] = pack_fp16(s_acc[14], s_acc[15]);
          p[8] = pack_fp16(s_acc[16], s_acc[17]); p[9] = pack_fp16(s_acc[18], s_acc[19]);
          p[10] = pack_fp16(s_acc[20], s_acc[21]); p[11] = pack_fp16(s_acc[22], s_acc[23]);
          p[12] = pack_fp16(s_acc[24], s_acc[25]); p[13] = pack_fp16(s_acc[26], s_acc[27]);
          p[14] = pack_fp16(s_acc[28], s_acc[29]); p[15] = pack_fp16(s_acc[30], s_acc[31]);
          p[16] = pack_fp16(s_acc[32], s_acc[33]); p[17] = pack_fp16(s_acc[34], s_acc[35]);
          p[18] = pack_fp16(s_acc[36], s_acc[37]); p[19] = pack_fp16(s_acc[38], s_acc[39]);
          p[20] = pack_fp16(s_acc[40], s_acc[41]); p[21] = pack_fp16(s_acc[42], s_acc[43]);
          p[22] = pack_fp16(s_acc[44], s_acc[45]); p[23] = pack_fp16(s_acc[46], s_acc[47]);
          p[24] = pack_fp16(s_acc[48], s_acc[49]); p[25] = pack_fp16(s_acc[50], s_acc[51]);
          p[26] = pack_fp16(s_acc[52], s_acc[53]); p[27] = pack_fp16(s_acc[54], s_acc[55]);
        }

        // ---- KV tiles that every row sees whole
        for (; n >= 0; --n) {
          // S(n) = Q K(n)'
          mbarrier_wait(mbar_k_full + k_stage * 8, k_phase);
          const u32 k_low = k_desc + k_stage * 2688;
          wgmma_fence();
          wgmma_m64n112k16_ss_first(s_acc, descriptor(q_desc + 0, 0x40000040u), descriptor(k_low + 0, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 2, 0x40000040u), descriptor(k_low + 2, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 4, 0x40000040u), descriptor(k_low + 4, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 6, 0x40000040u), descriptor(k_low + 6, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 512, 0x40000040u), descriptor(k_low + 896, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 514, 0x40000040u), descriptor(k_low + 898, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 516, 0x40000040u), descriptor(k_low + 900, 0x40000040u));
          wgmma_m64n112k16_ss(s_acc, descriptor(q_desc + 518, 0x40000040u), descriptor(k_low + 902, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          s_acc[0] *= key_scale; s_acc[1] *= key_scale; s_acc[2] *= key_scale; s_acc[3] *= key_scale;
          s_acc[4] *= key_scale; s_acc[5] *= key_scale; s_acc[6] *= key_scale; s_acc[7] *= key_scale;
          s_acc[8] *= key_scale; s_acc[9] *= key_scale; s_acc[10] *= key_scale; s_acc[11] *= key_scale;
          s_acc[12] *= key_scale; s_acc[13] *= key_scale; s_acc[14] *= key_scale; s_acc[15] *= key_scale;
          s_acc[16] *= key_scale; s_acc[17] *= key_scale; s_acc[18] *= key_scale; s_acc[19] *= key_scale;
          s_acc[20] *= key_scale; s_acc[21] *= key_scale; s_acc[22] *= key_scale; s_acc[23] *= key_scale;
          s_acc[24] *= key_scale; s_acc[25] *= key_scale; s_acc[26] *= key_scale; s_acc[27] *= key_scale;
          s_acc[28] *= key_scale; s_acc[29] *= key_scale; s_acc[30] *= key_scale; s_acc[31] *= key_scale;
          s_acc[32] *= key_scale; s_acc[33] *= key_scale; s_acc[34] *= key_scale; s_acc[35] *= key_scale;
          s_acc[36] *= key_scale; s_acc[37] *= key_scale; s_acc[38] *= key_scale; s_acc[39] *= key_scale;
          s_acc[40] *= key_scale; s_acc[41] *= key_scale; s_acc[42] *= key_scale; s_acc[43] *= key_scale;
          s_acc[44] *= key_scale; s_acc[45] *= key_scale; s_acc[46] *= key_scale; s_acc[47] *= key_scale;
          s_acc[48] *= key_scale; s_acc[49] *= key_scale; s_acc[50] *= key_scale; s_acc[51] *= key_scale;
          s_acc[52] *= key_scale; s_acc[53] *= key_scale; s_acc[54] *= key_scale; s_acc[55] *= key_scale;
          wgmma_fence();
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1024, 0x40000040u), descriptor(k_low + 1792, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1026, 0x40000040u), descriptor(k_low + 1794, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1028, 0x40000040u), descriptor(k_low + 1796, 0x40000040u));
          wgmma_m64n112k16_bf16_ss(s_acc, descriptor(q_desc + 1030, 0x40000040u), descriptor(k_low + 1798, 0x40000040u));
          wgmma_commit();
          // O += P(n+1) V(n+1)
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 1792;
          wgmma_fence();
          wgmma_m64n128k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[16], p[17], p[18], p[19], descriptor(v_low + 512, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[20], p[21], p[22], p[23], descriptor(v_low + 640, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[24], p[25], p[26], p[27], descriptor(v_low + 768, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(1);
          if (lane == 0) mbarrier_arrive(mbar_k_empty + k_stage * 8);
          k_phase ^= k_stage; k_stage ^= 1;
          // softmax(n), while P(n+1) V(n+1) runs
          float max_0a = s_acc[0], max_0b = s_acc[1], max_1a = s_acc[2], max_1b = s_acc[3];
          max_0a = fmaxf(max_0a, s_acc[4]); max_0b = fmaxf(max_0b, s_acc[5]);
          max_1a = fmaxf(max_1a, s_acc[6]); max_1b = fmaxf(max_1b, s_acc[7]);
          max_0a = fmaxf(max_0a, s_acc[8]); max_0b = fmaxf(max_0b, s_acc[9]);
          max_1a = fmaxf(max_1a, s_acc[10]); max_1b = fmaxf(max_1b, s_acc[11]);
          max_0a = fmaxf(max_0a, s_acc[12]); max_0b = fmaxf(max_0b, s_acc[13]);
          max_1a = fmaxf(max_1a, s_acc[14]); max_1b = fmaxf(max_1b, s_acc[15]);
          max_0a = fmaxf(max_0a, s_acc[16]); max_0b = fmaxf(max_0b, s_acc[17]);
          max_1a = fmaxf(max_1a, s_acc[18]); max_1b = fmaxf(max_1b, s_acc[19]);
          max_0a = fmaxf(max_0a, s_acc[20]); max_0b = fmaxf(max_0b, s_acc[21]);
          max_1a = fmaxf(max_1a, s_acc[22]); max_1b = fmaxf(max_1b, s_acc[23]);
          max_0a = fmaxf(max_0a, s_acc[24]); max_0b = fmaxf(max_0b, s_acc[25]);
          max_1a = fmaxf(max_1a, s_acc[26]); max_1b = fmaxf(max_1b, s_acc[27]);
          max_0a = fmaxf(max_0a, s_acc[28]); max_0b = fmaxf(max_0b, s_acc[29]);
          max_1a = fmaxf(max_1a, s_acc[30]); max_1b = fmaxf(max_1b, s_acc[31]);
          max_0a = fmaxf(max_0a, s_acc[32]); max_0b = fmaxf(max_0b, s_acc[33]);
          max_1a = fmaxf(max_1a, s_acc[34]); max_1b = fmaxf(max_1b, s_acc[35]);
          max_0a = fmaxf(max_0a, s_acc[36]); max_0b = fmaxf(max_0b, s_acc[37]);
          max_1a = fmaxf(max_1a, s_acc[38]); max_1b = fmaxf(max_1b, s_acc[39]);
          max_0a = fmaxf(max_0a, s_acc[40]); max_0b = fmaxf(max_0b, s_acc[41]);
          max_1a = fmaxf(max_1a, s_acc[42]); max_1b = fmaxf(max_1b, s_acc[43]);
          max_0a = fmaxf(max_0a, s_acc[44]); max_0b = fmaxf(max_0b, s_acc[45]);
          max_1a = fmaxf(max_1a, s_acc[46]); max_1b = fmaxf(max_1b, s_acc[47]);
          max_0a = fmaxf(max_0a, s_acc[48]); max_0b = fmaxf(max_0b, s_acc[49]);
          max_1a = fmaxf(max_1a, s_acc[50]); max_1b = fmaxf(max_1b, s_acc[51]);
          max_0a = fmaxf(max_0a, s_acc[52]); max_0b = fmaxf(max_0b, s_acc[53]);
          max_1a = fmaxf(max_1a, s_acc[54]); max_1b = fmaxf(max_1b, s_acc[55]);
          float max_0 = fmaxf(max_0a, max_0b), max_1 = fmaxf(max_1a, max_1b);
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 1)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 1));
          max_0 = fmaxf(max_0, __shfl_xor_sync(0xffffffffu, max_0, 2)); max_1 = fmaxf(max_1, __shfl_xor_sync(0xffffffffu, max_1, 2));
          max_0 = fmaxf(max_0, row_max_0); max_1 = fmaxf(max_1, row_max_1);
          float alpha_0 = 1.0f, alpha_1 = 1.0f;
          // Keep the old maximum while no row of the warp grew by more than 2^8.
          const bool grew = (max_0 - row_max_0) * scale_log2 > 8.0f || (max_1 - row_max_1) * scale_log2 > 8.0f;
          const bool rescale = __any_sync(0xffffffffu, grew);
          if (rescale) {
            alpha_0 = rescale_factor(row_max_0, max_0, scale_log2); row_sum_0 *= alpha_0; row_max_0 = max_0;
            alpha_1 = rescale_factor(row_max_1, max_1, scale_log2); row_sum_1 *= alpha_1; row_max_1 = max_1;
          }
          float shift_0 = row_base(row_max_0, scale_log2);
          float shift_1 = row_base(row_max_1, scale_log2);
          if (__any_sync(0xffffffffu, is_steep(shift_0) || is_steep(shift_1))) {
            const float steep_0 = is_steep(shift_0) && row_max_0 != -kInfinity ? row_max_0 : 0.0f;
            if (is_steep(shift_0)) shift_0 = 0.0f;
            const float steep_1 = is_steep(shift_1) && row_max_1 != -kInfinity ? row_max_1 : 0.0f;
            if (is_steep(shift_1)) shift_1 = 0.0f;
            s_acc[0] -= steep_0; s_acc[1] -= steep_0; s_acc[2] -= steep_1; s_acc[3] -= steep_1;
            s_acc[4] -= steep_0; s_acc[5] -= steep_0; s_acc[6] -= steep_1; s_acc[7] -= steep_1;
            s_acc[8] -= steep_0; s_acc[9] -= steep_0; s_acc[10] -= steep_1; s_acc[11] -= steep_1;
            s_acc[12] -= steep_0; s_acc[13] -= steep_0; s_acc[14] -= steep_1; s_acc[15] -= steep_1;
            s_acc[16] -= steep_0; s_acc[17] -= steep_0; s_acc[18] -= steep_1; s_acc[19] -= steep_1;
            s_acc[20] -= steep_0; s_acc[21] -= steep_0; s_acc[22] -= steep_1; s_acc[23] -= steep_1;
            s_acc[24] -= steep_0; s_acc[25] -= steep_0; s_acc[26] -= steep_1; s_acc[27] -= steep_1;
            s_acc[28] -= steep_0; s_acc[29] -= steep_0; s_acc[30] -= steep_1; s_acc[31] -= steep_1;
            s_acc[32] -= steep_0; s_acc[33] -= steep_0; s_acc[34] -= steep_1; s_acc[35] -= steep_1;
            s_acc[36] -= steep_0; s_acc[37] -= steep_0; s_acc[38] -= steep_1; s_acc[39] -= steep_1;
            s_acc[40] -= steep_0; s_acc[41] -= steep_0; s_acc[42] -= steep_1; s_acc[43] -= steep_1;
            s_acc[44] -= steep_0; s_acc[45] -= steep_0; s_acc[46] -= steep_1; s_acc[47] -= steep_1;
            s_acc[48] -= steep_0; s_acc[49] -= steep_0; s_acc[50] -= steep_1; s_acc[51] -= steep_1;
            s_acc[52] -= steep_0; s_acc[53] -= steep_0; s_acc[54] -= steep_1; s_acc[55] -= steep_1;
          }
          s_acc[0] = exp2_approx(fmaf(s_acc[0], scale_log2, -shift_0)); s_acc[1] = exp2_approx(fmaf(s_acc[1], scale_log2, -shift_0));
          s_acc[2] = exp2_approx(fmaf(s_acc[2], scale_log2, -shift_1)); s_acc[3] = exp2_approx(fmaf(s_acc[3], scale_log2, -shift_1));
          s_acc[4] = exp2_approx(fmaf(s_acc[4], scale_log2, -shift_0)); s_acc[5] = exp2_approx(fmaf(s_acc[5], scale_log2, -shift_0));
          s_acc[6] = exp2_approx(fmaf(s_acc[6], scale_log2, -shift_1)); s_acc[7] = exp2_approx(fmaf(s_acc[7], scale_log2, -shift_1));
          s_acc[8] = exp2_approx(fmaf(s_acc[8], scale_log2, -shift_0)); s_acc[9] = exp2_approx(fmaf(s_acc[9], scale_log2, -shift_0));
          s_acc[10] = exp2_approx(fmaf(s_acc[10], scale_log2, -shift_1)); s_acc[11] = exp2_approx(fmaf(s_acc[11], scale_log2, -shift_1));
          s_acc[12] = exp2_approx(fmaf(s_acc[12], scale_log2, -shift_0)); s_acc[13] = exp2_approx(fmaf(s_acc[13], scale_log2, -shift_0));
          s_acc[14] = exp2_approx(fmaf(s_acc[14], scale_log2, -shift_1)); s_acc[15] = exp2_approx(fmaf(s_acc[15], scale_log2, -shift_1));
          s_acc[16] = exp2_approx(fmaf(s_acc[16], scale_log2, -shift_0)); s_acc[17] = exp2_approx(fmaf(s_acc[17], scale_log2, -shift_0));
          s_acc[18] = exp2_approx(fmaf(s_acc[18], scale_log2, -shift_1)); s_acc[19] = exp2_approx(fmaf(s_acc[19], scale_log2, -shift_1));
          s_acc[20] = exp2_approx(fmaf(s_acc[20], scale_log2, -shift_0)); s_acc[21] = exp2_approx(fmaf(s_acc[21], scale_log2, -shift_0));
          s_acc[22] = exp2_approx(fmaf(s_acc[22], scale_log2, -shift_1)); s_acc[23] = exp2_approx(fmaf(s_acc[23], scale_log2, -shift_1));
          s_acc[24] = exp2_approx(fmaf(s_acc[24], scale_log2, -shift_0)); s_acc[25] = exp2_approx(fmaf(s_acc[25], scale_log2, -shift_0));
          s_acc[26] = exp2_approx(fmaf(s_acc[26], scale_log2, -shift_1)); s_acc[27] = exp2_approx(fmaf(s_acc[27], scale_log2, -shift_1));
          s_acc[28] = exp2_approx(fmaf(s_acc[28], scale_log2, -shift_0)); s_acc[29] = exp2_approx(fmaf(s_acc[29], scale_log2, -shift_0));
          s_acc[30] = exp2_approx(fmaf(s_acc[30], scale_log2, -shift_1)); s_acc[31] = exp2_approx(fmaf(s_acc[31], scale_log2, -shift_1));
          s_acc[32] = exp2_approx(fmaf(s_acc[32], scale_log2, -shift_0)); s_acc[33] = exp2_approx(fmaf(s_acc[33], scale_log2, -shift_0));
          s_acc[34] = exp2_approx(fmaf(s_acc[34], scale_log2, -shift_1)); s_acc[35] = exp2_approx(fmaf(s_acc[35], scale_log2, -shift_1));
          s_acc[36] = exp2_approx(fmaf(s_acc[36], scale_log2, -shift_0)); s_acc[37] = exp2_approx(fmaf(s_acc[37], scale_log2, -shift_0));
          s_acc[38] = exp2_approx(fmaf(s_acc[38], scale_log2, -shift_1)); s_acc[39] = exp2_approx(fmaf(s_acc[39], scale_log2, -shift_1));
          s_acc[40] = exp2_approx(fmaf(s_acc[40], scale_log2, -shift_0)); s_acc[41] = exp2_approx(fmaf(s_acc[41], scale_log2, -shift_0));
          s_acc[42] = exp2_approx(fmaf(s_acc[42], scale_log2, -shift_1)); s_acc[43] = exp2_approx(fmaf(s_acc[43], scale_log2, -shift_1));
          s_acc[44] = exp2_approx(fmaf(s_acc[44], scale_log2, -shift_0)); s_acc[45] = exp2_approx(fmaf(s_acc[45], scale_log2, -shift_0));
          s_acc[46] = exp2_approx(fmaf(s_acc[46], scale_log2, -shift_1)); s_acc[47] = exp2_approx(fmaf(s_acc[47], scale_log2, -shift_1));
          s_acc[48] = exp2_approx(fmaf(s_acc[48], scale_log2, -shift_0)); s_acc[49] = exp2_approx(fmaf(s_acc[49], scale_log2, -shift_0));
          s_acc[50] = exp2_approx(fmaf(s_acc[50], scale_log2, -shift_1)); s_acc[51] = exp2_approx(fmaf(s_acc[51], scale_log2, -shift_1));
          s_acc[52] = exp2_approx(fmaf(s_acc[52], scale_log2, -shift_0)); s_acc[53] = exp2_approx(fmaf(s_acc[53], scale_log2, -shift_0));
          s_acc[54] = exp2_approx(fmaf(s_acc[54], scale_log2, -shift_1)); s_acc[55] = exp2_approx(fmaf(s_acc[55], scale_log2, -shift_1));
          // row sums, two chains each
          float sum_0a_0 = s_acc[0], sum_0b_0 = s_acc[1];
          float sum_1a_0 = s_acc[2], sum_1b_0 = s_acc[3];
          sum_0a_0 += s_acc[4]; sum_0b_0 += s_acc[5]; sum_1a_0 += s_acc[6]; sum_1b_0 += s_acc[7];
          sum_0a_0 += s_acc[8]; sum_0b_0 += s_acc[9]; sum_1a_0 += s_acc[10]; sum_1b_0 += s_acc[11];
          sum_0a_0 += s_acc[12]; sum_0b_0 += s_acc[13]; sum_1a_0 += s_acc[14]; sum_1b_0 += s_acc[15];
          sum_0a_0 += s_acc[16]; sum_0b_0 += s_acc[17]; sum_1a_0 += s_acc[18]; sum_1b_0 += s_acc[19];
          sum_0a_0 += s_acc[20]; sum_0b_0 += s_acc[21]; sum_1a_0 += s_acc[22]; sum_1b_0 += s_acc[23];
          sum_0a_0 += s_acc[24]; sum_0b_0 += s_acc[25]; sum_1a_0 += s_acc[26]; sum_1b_0 += s_acc[27];
          sum_0a_0 += s_acc[28]; sum_0b_0 += s_acc[29]; sum_1a_0 += s_acc[30]; sum_1b_0 += s_acc[31];
          sum_0a_0 += s_acc[32]; sum_0b_0 += s_acc[33]; sum_1a_0 += s_acc[34]; sum_1b_0 += s_acc[35];
          sum_0a_0 += s_acc[36]; sum_0b_0 += s_acc[37]; sum_1a_0 += s_acc[38]; sum_1b_0 += s_acc[39];
          sum_0a_0 += s_acc[40]; sum_0b_0 += s_acc[41]; sum_1a_0 += s_acc[42]; sum_1b_0 += s_acc[43];
          sum_0a_0 += s_acc[44]; sum_0b_0 += s_acc[45]; sum_1a_0 += s_acc[46]; sum_1b_0 += s_acc[47];
          sum_0a_0 += s_acc[48]; sum_0b_0 += s_acc[49]; sum_1a_0 += s_acc[50]; sum_1b_0 += s_acc[51];
          sum_0a_0 += s_acc[52]; sum_0b_0 += s_acc[53]; sum_1a_0 += s_acc[54]; sum_1b_0 += s_acc[55];
          row_sum_0 += sum_0a_0 + sum_0b_0;
          row_sum_1 += sum_1a_0 + sum_1b_0;
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          v_phase ^= v_stage; v_stage ^= 1;
          if (rescale) {
            o_acc[0] *= alpha_0; o_acc[1] *= alpha_0; o_acc[2] *= alpha_1; o_acc[3] *= alpha_1;
            o_acc[4] *= alpha_0; o_acc[5] *= alpha_0; o_acc[6] *= alpha_1; o_acc[7] *= alpha_1;
            o_acc[8] *= alpha_0; o_acc[9] *= alpha_0; o_acc[10] *= alpha_1; o_acc[11] *= alpha_1;
            o_acc[12] *= alpha_0; o_acc[13] *= alpha_0; o_acc[14] *= alpha_1; o_acc[15] *= alpha_1;
            o_acc[16] *= alpha_0; o_acc[17] *= alpha_0; o_acc[18] *= alpha_1; o_acc[19] *= alpha_1;
            o_acc[20] *= alpha_0; o_acc[21] *= alpha_0; o_acc[22] *= alpha_1; o_acc[23] *= alpha_1;
            o_acc[24] *= alpha_0; o_acc[25] *= alpha_0; o_acc[26] *= alpha_1; o_acc[27] *= alpha_1;
            o_acc[28] *= alpha_0; o_acc[29] *= alpha_0; o_acc[30] *= alpha_1; o_acc[31] *= alpha_1;
            o_acc[32] *= alpha_0; o_acc[33] *= alpha_0; o_acc[34] *= alpha_1; o_acc[35] *= alpha_1;
            o_acc[36] *= alpha_0; o_acc[37] *= alpha_0; o_acc[38] *= alpha_1; o_acc[39] *= alpha_1;
            o_acc[40] *= alpha_0; o_acc[41] *= alpha_0; o_acc[42] *= alpha_1; o_acc[43] *= alpha_1;
            o_acc[44] *= alpha_0; o_acc[45] *= alpha_0; o_acc[46] *= alpha_1; o_acc[47] *= alpha_1;
            o_acc[48] *= alpha_0; o_acc[49] *= alpha_0; o_acc[50] *= alpha_1; o_acc[51] *= alpha_1;
            o_acc[52] *= alpha_0; o_acc[53] *= alpha_0; o_acc[54] *= alpha_1; o_acc[55] *= alpha_1;
            o_acc[56] *= alpha_0; o_acc[57] *= alpha_0; o_acc[58] *= alpha_1; o_acc[59] *= alpha_1;
            o_acc[60] *= alpha_0; o_acc[61] *= alpha_0; o_acc[62] *= alpha_1; o_acc[63] *= alpha_1;
          }
          p[0] = pack_fp16(s_acc[0], s_acc[1]); p[1] = pack_fp16(s_acc[2], s_acc[3]);
          p[2] = pack_fp16(s_acc[4], s_acc[5]); p[3] = pack_fp16(s_acc[6], s_acc[7]);
          p[4] = pack_fp16(s_acc[8], s_acc[9]); p[5] = pack_fp16(s_acc[10], s_acc[11]);
          p[6] = pack_fp16(s_acc[12], s_acc[13]); p[7] = pack_fp16(s_acc[14], s_acc[15]);
          p[8] = pack_fp16(s_acc[16], s_acc[17]); p[9] = pack_fp16(s_acc[18], s_acc[19]);
          p[10] = pack_fp16(s_acc[20], s_acc[21]); p[11] = pack_fp16(s_acc[22], s_acc[23]);
          p[12] = pack_fp16(s_acc[24], s_acc[25]); p[13] = pack_fp16(s_acc[26], s_acc[27]);
          p[14] = pack_fp16(s_acc[28], s_acc[29]); p[15] = pack_fp16(s_acc[30], s_acc[31]);
          p[16] = pack_fp16(s_acc[32], s_acc[33]); p[17] = pack_fp16(s_acc[34], s_acc[35]);
          p[18] = pack_fp16(s_acc[36], s_acc[37]); p[19] = pack_fp16(s_acc[38], s_acc[39]);
          p[20] = pack_fp16(s_acc[40], s_acc[41]); p[21] = pack_fp16(s_acc[42], s_acc[43]);
          p[22] = pack_fp16(s_acc[44], s_acc[45]); p[23] = pack_fp16(s_acc[46], s_acc[47]);
          p[24] = pack_fp16(s_acc[48], s_acc[49]); p[25] = pack_fp16(s_acc[50], s_acc[51]);
          p[26] = pack_fp16(s_acc[52], s_acc[53]); p[27] = pack_fp16(s_acc[54], s_acc[55]);
        }

        // ---- O += P V of the last tile
        {
          mbarrier_wait(mbar_v_full + v_stage * 8, v_phase);
          const u32 v_low = v_desc + v_stage * 1792;
          wgmma_fence();
          wgmma_m64n128k16_rs(o_acc, p[0], p[1], p[2], p[3], descriptor(v_low + 0, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[4], p[5], p[6], p[7], descriptor(v_low + 128, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[8], p[9], p[10], p[11], descriptor(v_low + 256, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[12], p[13], p[14], p[15], descriptor(v_low + 384, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[16], p[17], p[18], p[19], descriptor(v_low + 512, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[20], p[21], p[22], p[23], descriptor(v_low + 640, 0x40000040u));
          wgmma_m64n128k16_rs(o_acc, p[24], p[25], p[26], p[27], descriptor(v_low + 768, 0x40000040u));
          wgmma_commit();
          WGMMA_WAIT(0);
          if (lane == 0) mbarrier_arrive(mbar_v_empty + v_stage * 8);
          v_phase ^= v_stage; v_stage ^= 1;
        }
      } else {
        // no keys, but O takes Q's place: it must be free
        mbarrier_wait(mbar_q_full + 8 * consumer, q_phase);
        q_phase ^= 1;
      }
      // NaN or infinity in V has reached O of all rows, seen or not: of two columns their product tells
      float odd_0 = 0.0f, odd_1 = 0.0f;
      odd_0 = fmaf(o_acc[0], o_acc[1], odd_0);
      odd_1 = fmaf(o_acc[4], o_acc[5], odd_1);
      odd_0 = fmaf(o_acc[8], o_acc[9], odd_0);
      odd_1 = fmaf(o_acc[12], o_acc[13], odd_1);
      odd_0 = fmaf(o_acc[16], o_acc[17], odd_0);
      odd_1 = fmaf(o_acc[20], o_acc[21], odd_1);
      odd_0 = fmaf(o_acc[24], o_acc[25], odd_0);
      odd_1 = fmaf(o_acc[28], o_acc[29], odd_1);
      odd_0 = fmaf(o_acc[32], o_acc[33], odd_0);
      odd_1 = fmaf(o_acc[36], o_acc[37], odd_1);
      odd_0 = fmaf(o_acc[40], o_acc[41], odd_0);
      odd_1 = fmaf(o_acc[44], o_acc[45], odd_1);
      odd_0 = fmaf(o_acc[48], o_acc[49], odd_0);
      odd_1 = fmaf(o_acc[52], o_acc[53], odd_1);
      odd_0 = fmaf(o_acc[56], o_acc[57], odd_0);
      odd_1 = fmaf(o_acc[60], o_acc[61], odd_1);
      const bool odd = !((odd_0 + odd_1) * 0.0f == 0.0f);

      // ---- epilogue: O / row_sum, LSE
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 1);
      row_sum_0 += __shfl_xor_sync(0xffffffffu, row_sum_0, 2);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 1);
      row_sum_1 += __shfl_xor_sync(0xffffffffu, row_sum_1, 2);
      const float inv_sum_0 = row_sum_0 == 0.0f ? 0.0f : rcp_approx(row_sum_0);
      const float inv_sum_1 = row_sum_1 == 0.0f ? 0.0f : rcp_approx(row_sum_1);
      const float value_scale = v_scale[work.kv_head];
      const float out_scale_0 = inv_sum_0 * value_scale, out_scale_1 = inv_sum_1 * value_scale;
      if ((lane & 3) == 0) {
        float* const lse_row = lse + (long long)item[0].y * total_q + item[1].x + row_0;
        if (row_0 + 0 < item[1].y) lse_row[0] = row_sum_0 == 0.0f ? -kInfinity : row_max_0 * scale + log2_approx(row_sum_0) * 0.693147181f;
        if (row_0 + 8 < item[1].y) lse_row[8] = row_sum_1 == 0.0f ? -kInfinity : row_max_1 * scale + log2_approx(row_sum_1) * 0.693147181f;
      }
      // This warp's 16 rows: registers to shared memory, swizzled, then one box per panel to global memory.
      named_barrier_sync(4 + consumer, 128);  // O takes Q's place: every warp has finished reading Q
      stmatrix_x4(o_row + 0 + (0 ^ o_swizzle), pack_bf16(o_acc[0] * out_scale_0, o_acc[1] * out_scale_0),
          pack_bf16(o_acc[2] * out_scale_1, o_acc[3] * out_scale_1),
                  pack_bf16(o_acc[4] * out_scale_0, o_acc[5] * out_scale_0), pack_bf16(o_acc[6] * out_scale_1, o_acc[7] * out_scale_1));
      stmatrix_x4(o_row + 0 + (32 ^ o_swizzle), pack_bf16(o_acc[8] * out_scale_0, o_acc[9] * out_scale_0),
          pack_bf16(o_acc[10] * out_scale_1, o_acc[11] * out_scale_1),
                  pack_bf16(o_acc[12] * out_scale_0, o_acc[13] * out_scale_0), pack_bf16(o_acc[14] * out_scale_1, o_acc[15] * out_scale_1));
      stmatrix_x4(o_row + 0 + (64 ^ o_swizzle), pack_bf16(o_acc[16] * out_scale_0, o_acc[17] * out_scale_0),
          pack_bf16(o_acc[18] * out_scale_1, o_acc[19] * out_scale_1),
                  pack_bf16(o_acc[20] * out_scale_0, o_acc[21] * out_scale_0), pack_bf16(o_acc[22] * out_scale_1, o_acc[23] * out_scale_1));
      stmatrix_x4(o_row + 0 + (96 ^ o_swizzle), pack_bf16(o_acc[24] * out_scale_0, o_acc[25] * out_scale_0),
          pack_bf16(o_acc[26] * out_scale_1, o_acc[27] * out_scale_1),
                  pack_bf16(o_acc[28] * out_scale_0, o_acc[29] * out_scale_0), pack_bf16(o_acc[30] * out_scale_1, o_acc[31] * out_scale_1));
      stmatrix_x4(o_row + 8192 + (0 ^ o_swizzle), pack_bf16(o_acc[32] * out_scale_0, o_acc[33] * out_scale_0),
          pack_bf16(o_acc[34] * out_scale_1, o_acc[35] * out_scale_1),
                  pack_bf16(o_acc[36] * out_scale_0, o_acc[37] * out_scale_0), pack_bf16(o_acc[38] * out_scale_1, o_acc[39] * out_scale_1));
      stmatrix_x4(o_row + 8192 + (32 ^ o_swizzle), pack_bf16(o_acc[40] * out_scale_0, o_acc[41] * out_scale_0),
          pack_bf16(o_acc[42] * out_scale_1, o_acc[43] * out_scale_1),
                  pack_bf16(o_acc[44] * out_scale_0, o_acc[45] * out_scale_0), pack_bf16(o_acc[46] * out_scale_1, o_acc[47] * out_scale_1));
      stmatrix_x4(o_row + 8192 + (64 ^ o_swizzle), pack_bf16(o_acc[48] * out_scale_0, o_acc[49] * out_scale_0),
          pack_bf16(o_acc[50] * out_scale_1, o_acc[51] * out_scale_1),
                  pack_bf16(o_acc[52] * out_scale_0, o_acc[53] * out_scale_0), pack_bf16(o_acc[54] * out_scale_1, o_acc[55] * out_scale_1));
      stmatrix_x4(o_row + 8192 + (96 ^ o_swizzle), pack_bf16(o_acc[56] * out_scale_0, o_acc[57] * out_scale_0),
          pack_bf16(o_acc[58] * out_scale_1, o_acc[59] * out_scale_1),
                  pack_bf16(o_acc[60] * out_scale_0, o_acc[61] * out_scale_0), pack_bf16(o_acc[62] * out_scale_1, o_acc[63] * out_scale_1));
      fence_proxy_async();
      __syncwarp();
      if (lane == 0) {
        const int store_row = item[0].x + 64 * consumer + 16 * warp;  // in the sequence
        const int store_rows = min(item[1].y - store_row, 16);
        tma_store(&o_map, o_warp + 0, 0, 16 - store_rows, item[1].x + store_row + store_rows, item[0].y);
        tma_store(&o_map, o_warp + 8192, 64, 16 - store_rows, item[1].x + store_row + store_rows, item[0].y);
        bulk_commit();
        bulk_wait_read();
        mbarrier_arrive(mbar_q_empty + 8 * consumer);
      }
      // V of a key that is hidden from some of these rows and not from others, and is not finite: those rows again.
      if (same(any_lane(odd))) {
        const int its_work_num_blocks = work.num_blocks;
        const int its_work_kv_head = work.kv_head;
        const auto again = [=]() __attribute__((noinline)) {
        const int lane_32 = (int)thread_id() & 31, row_begin = same(item[0].x + 64 * consumer + 16 * warp),
            row_end = same(min(item[0].x + 64 * consumer + 16 * warp + 16, item[1].y));
        bulk_wait();  // the store has been written
        __syncwarp();
        // the last key past some row's end, and the first one before some row's first, with a V that is not finite
        int highest = -1, lowest = 0x7fffffff;
        {
          const int row = row_begin, last = same(min(its_work_num_blocks * 112, item[1].w)) - 1;
      #pragma unroll 1
          for (int first = same(max(min(item[1].w, (row + item[1].w - item[1].y) + 1), 0)); first <= last; first += 32) {
            const int key = min(first + lane_32, last);
            highest = finite_bytes((const u32*)(v + its_work_kv_head * v_stride_head + item[1].z * v_stride_seq + key * v_stride_seq), 32)
                ? highest : key;
          }
          highest = same(largest_of_lanes(highest));
        }
      #pragma unroll 1
        for (int row = row_begin; row < row_end; ++row) {
          const int begin = same(0), end = same(min(item[1].w, (row + item[1].w - item[1].y) + 1));
          if (highest < end && lowest >= begin) continue;
          const u32* const query_words = (const u32*)(q + (item[1].x + row) * q_stride_seq + (item[0].y) * q_stride_head);
          float maximum = -kInfinity, sum = 0.0f, out[4];
      #pragma unroll
          for (int i = 0; i < 4; ++i) out[i] = 0.0f;
          // from the row's last keys to its first: a lane each for the scores, two columns a lane for O
          bool left = end > begin;
      #pragma unroll 1
          for (int first = (max(end, 1) - 1) / 32 * 32; same(left && first > begin - 32); first -= 32) {
            float score[1] = {0.0f};
            {
              const int key = max(min(first + lane_32, end - 1), begin);
              const u16* const key_words = (const u16*)(k + its_work_kv_head * k_stride_head + item[1].z * k_stride_seq
                  + key * k_stride_seq);
              UNROLL_4
              for (int i = 0; i < 64; ++i) {
                score[0] = fmaf(low_half(query_words[i]), low_byte(key_words[i]), score[0]);
                score[0] = fmaf(high_half(query_words[i]), high_byte(key_words[i]), score[0]);
              }
              score[0] *= k_scale[its_work_kv_head];
              const u32* const rope_words = (const u32*)(k_rope + its_work_kv_head * k_rope_stride_head + item[1].z * k_rope_stride_seq
                  + key * k_rope_stride_seq);
              UNROLL_4
              for (int i = 0; i < 32; ++i) {
                score[0] = fmaf(low_half(query_words[64 + i]), low_half(rope_words[i]), score[0]);
                score[0] = fmaf(high_half(query_words[64 + i]), high_half(rope_words[i]), score[0]);
              }
              score[0] = key == first + lane_32 ? score[0] : -kInfinity;
            }
            const float largest = fmaxf(maximum, largest_of_lanes(score[0]));
            const float base = largest == -kInfinity ? 0.0f : largest;
            const float shrink = exp2_approx((maximum - base) * scale_log2);
            const float weight = score[0] == -kInfinity ? 0.0f : exp2_approx((score[0] - base) * scale_log2);
            sum = fmaf(sum, shrink, sum_of_lanes(weight));
            maximum = largest;
      #pragma unroll
            for (int i = 0; i < 4; ++i) out[i] *= shrink;
      #pragma unroll 1
            for (int j = 0; j < 32; ++j) {
              const int key = max(min(first + j, end - 1), begin);
              const float p = lane_float(weight, j);
              const bool seen = lane_float(score[0], j) != -kInfinity;
              const u16* const value_words = (const u16*)(v + its_work_kv_head * v_stride_head + item[1].z * v_stride_seq
                  + key * v_stride_seq);
      #pragma unroll
              for (int i = 0; i < 4; i += 2) {
                u32 two = value_words[min(lane_32 + 16 * i, 63)];
                two = seen ? two : 0u;
                out[i] = fmaf(p, low_byte(two), out[i]);
                out[i + 1] = fmaf(p, high_byte(two), out[i + 1]);
              }
            }
            // what the row itself sees may leave nothing to compute
            bool finite = false;
      #pragma unroll
            for (int i = 0; i < 4; ++i) finite |= out[i] * 0.0f == 0.0f;
            left = any_lane(finite);
          }
          const float inverse = sum == 0.0f ? 0.0f : rcp_approx(sum) * v_scale[its_work_kv_head];
          u16* const to = o + (item[1].x + row) * o_stride_seq + (item[0].y) * o_stride_head;
      #pragma unroll
          for (int i = 0; i < 4; i += 2) {
            const int column = 2 * lane_32 + 32 * i;
            const u32 two = pack_bf16(out[i] * inverse, out[i + 1] * inverse);
            if (column < 128 && writes_rows()) *(u32*)(to + column) = two;
          }
        }
        };
        again();
      }
    }
  }
  #endif
}
