// What sm90_prefill kernels are made of: one interface for each thing that varies. The plan's config chooses the
// objects once (parts.cpp); main loops call them and ask nothing.
//
//   WorkItems    who finds the work items, and where the rows of one are (items.cpp)
//   Issuer       one thread or one warp issues the copies of K and V (issuer.cpp)
//   KeyCopies    tiles as boxes of rows, as boxes that the blocks of a cluster share, or by pages (producer.cpp)
//   KeyTiles     tiles as they were copied, widened to 16 bits, or V transposed (tiles.cpp, convert.cpp, transpose.cpp)
//   KeyScales    none, one of a head, one of each key (scales.cpp)
//   Query        Q as it was copied, or converted in place (convert.cpp)
//   Output       O as floats from the registers, by a staging of its own, or in the place of Q (output.cpp)
//   Blocks       a block alone, or the blocks of a cluster (issuer.cpp)
//   Registers    those that consumers take from the producer's warpgroup (issuer.cpp)
//   SlotWaits    whether the producer waits for the slots of its loop (producer.cpp)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/emit/prelude.hpp"
#include "generator/emit/writer.hpp"
#include "generator/schedules/sm90_prefill/plan.hpp"

namespace kiln::sm90::prefill {

// L2 policies: K and V are read again by the other query tiles of the head, Q is not.
inline constexpr const char* kEvictLast = "0x14F0000000000000ull";
inline constexpr const char* kEvictFirst = "0x12F0000000000000ull";
inline constexpr int kBoxRows = 16;  ///< of O: what a warp has

struct Parts;

class Part {
 public:
  explicit Part(const Parts& parts);
  virtual ~Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 protected:
  const Parts& parts_;
  const PrefillPlan& p_;
};

/// Who goes through the work items.
enum class ItemReader { producer, consumer, converter };

class WorkItems : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  // Kernel parameters: pointers before and behind those of the operand, integers before and behind a table's.
  virtual void add_lengths(std::vector<KernelParam>&) const {}
  virtual void add_counter(std::vector<KernelParam>&) const {}
  virtual void add_rows(std::vector<KernelParam>&) const {}
  virtual void add_counts(std::vector<KernelParam>& params) const = 0;
  /// What follows a tensor's name in those of its strides, but for pages.
  virtual std::vector<std::string> axes() const = 0;
  /// The axes of O's tensor map for boxes of `rows` rows of `columns` columns.
  virtual std::vector<TensorMapDim> store_axes(int columns, int rows) const {
    return {{"depth", columns}, {"seq", rows}, {"head", 1}, {"batch", 1}};
  }

  virtual void emit_addresses(Writer&) const {}
  virtual void emit_init(Writer&) const {}
  /// The loop over work items, `work` being each in turn: its head, and what ends its body. The loop's state is
  /// declared before it.
  virtual void emit_open(Writer& w, ItemReader reader) const = 0;
  virtual void emit_close(Writer& w, ItemReader reader) const = 0;
  /// Of the warp that finds the items, where that is not the producer: its branch.
  virtual void emit_warp(Writer&) const {}

  /// Coordinates of the box of rows from `row` of a sequence that starts at row `start` of its tensor; `panel` of the
  /// box's panels, where it has several, follows the row.
  virtual std::string coordinates(int column, const std::string& row, const std::string& start,
                                  const std::string& head, const std::string& panel = "") const = 0;
  /// V's rows past the sequence, of the last tile, do not reach O.
  virtual void emit_zero_tail(Writer&) const {}
  /// Of O and of log-sum-exps: pointers to rows from `row_0` on.
  virtual std::string output_row() const = 0;
  virtual std::string lse_row() const = 0;
  /// A warp's box of O, of 16 rows or as many as the sequence has: what its place names, and its place.
  virtual void emit_store_rows(Writer&) const {}
  virtual std::string store_place(int column) const = 0;

 protected:
  std::string first_row() const { return p_.late("m_start") + " + " + p_.late_row(); }
};

/// Who issues the copies of K and V.
class Issuer : public Part {
 public:
  using Part::Part;
  virtual const char* title() const = 0;
  /// Condition of its threads.
  virtual const char* condition() const = 0;
  virtual void emit_lane(Writer&) const {}
  /// Around what one thread does alone.
  virtual void open_one(Writer&) const {}
  virtual void close_one(Writer&) const {}
  virtual void emit_wait_empty(Writer& w, const StagedPipeline& ring, int qk) const = 0;
  /// The next number of the counter of work items.
  virtual void emit_fetch(Writer& w) const = 0;
  /// A work item of a ragged batch has been read from its slot, whose barrier is `empty`; leaves the loop behind the
  /// last one.
  virtual void emit_item_read(Writer& w, const std::string& empty) const = 0;
  /// The counter's next number, of `total` in all, for every lane of a warp.
  static void emit_fetch_by_warp(Writer& w, const char* total);
  /// emit_item_read by the lanes of any warp.
  static void emit_item_read_by_warp(Writer& w, const std::string& empty);
};

/// Where tiles of K or V are copied to: their own ring, or the one that converters read.
struct Landing {
  const StagedPipeline& ring;
  std::string base;                       ///< of the slots
  int slot_bytes, row_bytes;              ///< of the ring; of a row of a panel
  int panels, chunk_panels, chunk_bytes;  ///< of a tile; of what one barrier waits for
  int fold = 1;                           ///< panels of one copy
  int first_panel = 0;

  /// Rotary columns of K, which come behind its other panels, have no scales.
  bool has_scales() const { return first_panel == 0; }
  std::string at(const PrefillPlan& p, int panel, int row) const {
    return fmt::format("{} + {} * {} + {}", base, ring.stage(), slot_bytes,
                       panel * p.BN * row_bytes + row * row_bytes);
  }
};

/// K (`k`) or V.
struct Tensor {
  const char* name;
  const TMAConsumerPipeline& pipeline;
  bool k;
  const char* title() const { return k ? "K" : "V"; }
  /// The tensor that panel `panel` of a tile comes from, and its panel there.
  const char* source(const PrefillPlan& p, int panel) const {
    return k && panel >= p.k_panels() ? "k_rope" : name;
  }
  int source_panel(const PrefillPlan& p, int panel) const {
    return k && panel >= p.k_panels() ? panel - p.k_panels() : panel;
  }
};

class SlotWaits : public Part {
 public:
  using Part::Part;
  /// Why there are none.
  virtual void emit_note(Writer&) const {}
  virtual void emit(Writer& w, const StagedPipeline& ring, int qk) const;
};

class KeyCopies : public Part {
 public:
  using Part::Part;
  void use(Prelude& prelude) const;
  /// The tensor maps' special forms.
  virtual void set_maps(KernelParam& k, KernelParam& v, int l2_promotion) const;
  virtual void set_rope_map(KernelParam&, int) const {}
  virtual void add_capacity(std::vector<KernelParam>&) const {}
  virtual std::vector<std::string> key_axes() const;
  /// Where the lengths of the keys come from, of operands whose sequences differ: a parameter, the function that
  /// finds a sequence, the most keys.
  virtual const char* lengths() const { return "cu_seqlens_k"; }
  virtual const char* sequence() const { return "sequence_of_offsets"; }
  virtual const char* capacity() const { return "0"; }
  /// Tile `block` into the next slot, once that is free.
  virtual void emit_tile(Writer& w, const Tensor& of, const std::string& block,
                         const SlotWaits& waits) const = 0;

 protected:
  /// Where a tile of `of` goes: of K beside rotary columns that go elsewhere, two places.
  std::vector<Landing> landings(const Tensor& of) const;
};

class KeyTiles : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude& prelude) const;
  /// Of tensor maps: bytes that the L2 cache fetches at once; what those of K and V say of their bytes.
  virtual int l2_promotion() const { return 256; }
  virtual void set_maps(KernelParam&, KernelParam&) const {}
  virtual void emit_addresses(Writer&) const {}
  virtual void emit_init(Writer& w) const;
  /// The rings that the producer fills.
  virtual void emit_producer_state(Writer& w) const;
  virtual Landing landing(const Tensor& of) const;
  /// Of rotary columns beside K of bytes: their panels of K's slot.
  Landing rope_landing() const;
  /// One turn of the producer's loop: K(n) and V(n + 1).
  virtual void emit_turn(Writer& w) const;
  /// Of the warps that convert: their branch.
  virtual void emit_warps(Writer&) const {}
  /// P of registers `from` as the A operand of P V.
  virtual void emit_pack(Writer& w, const char* from) const;
  /// Rows of V past a ragged sequence become zeros.
  virtual void emit_zero_tail(Writer& w) const;
  /// L1 proofs of what converters store, and of V as wgmma reads it.
  virtual std::vector<layout::Proof> proofs() const;
};

class KeyScales : public Part {
 public:
  using Part::Part;
  virtual void add_params(std::vector<KernelParam>&) const {}
  virtual void use(Prelude&) const {}
  virtual void emit_prefetch_maps(Writer&) const {}
  virtual void emit_addresses(Writer&) const {}
  /// Arrivals that fill a slot: one lane's bytes, and the lanes' own copies of scales.
  virtual int full_arrivals() const { return 1; }

  // The producer, beside a tile of K or V.
  /// Scales of the tile's keys, copied by every lane.
  virtual void emit_load(Writer&, const Tensor&, const std::string& /*block*/) const {}
  /// Bytes of them that come as tiles, and this lane's piece of those.
  virtual int tile_bytes(const Tensor&) const { return 0; }
  virtual void emit_copy(Writer&, const Tensor&, const std::string& /*block*/) const {}
  /// Converters move those of a tile to its slot of the ring.
  virtual void emit_move(Writer&, const Tensor&, const std::string& /*block*/, int /*threads*/) const {}

  // The consumer.
  virtual void emit_item(Writer&) const {}
  /// Signs of scales that Q takes: what an item gives, and 16 bytes `x` with them.
  virtual void emit_sign(Writer&) const {}
  virtual void emit_signed(Writer&) const {}
  /// Until chunk `qk` of K, and V, of a tile after the first are there, where scales have not waited for them.
  virtual void emit_wait_k(Writer& w, int qk) const { p_.k->emit_wait(w, qk); }
  virtual void emit_wait_v(Writer& w) const { p_.v->emit_wait(w, 0); }
  /// K(n)'s fence serves V(n + 1), too.
  virtual bool fences_k() const { return true; }
  /// Before step `step` of S = Q K', where columns have units of their own: S so far becomes one of the next.
  void emit_next_unit(Writer& w, int step) const;
  /// S times the scales of K that the factor does not hold.
  virtual void emit_scores(Writer&) const {}
  /// The last chunk of K's slot is released when S is there, or when P is.
  virtual void emit_release_after_scores(Writer& w) const { p_.k->emit_release(w, p_.num_qk_stages - 1); }
  virtual void emit_release_after_p(Writer&) const {}
  /// Scales of V for softmax to weigh P with: their address; those of the first tile; P times them.
  virtual void emit_weights(Writer&) const {}
  virtual void emit_first_weights(Writer&) const {}
  virtual void emit_weigh(Writer&, bool /*first*/) const {}
  /// P of registers `from` as the A operand of P V.
  virtual void emit_pack(Writer& w, const char* from) const;  // as tiles want it
  /// Scales of the last V have been read.
  virtual void emit_last_read(Writer&) const {}
  /// Of O: the factor beside its sums, and its name.
  virtual void emit_output_scale(Writer&) const {}
  virtual const char* output_scale() const { return "inv_sum"; }

 protected:
  /// Whether the unit changes before step `step`; S so far times what makes it one of the next.
  virtual bool changes_unit(int /*step*/) const { return false; }
  virtual void emit_change(Writer&, int /*step*/) const {}
};

class Query : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  /// A consumer's rows of Q, once they have come.
  virtual void emit_convert(Writer&) const {}
  /// What was stored before is visible to wgmma, unless a conversion sees to that.
  virtual void emit_fence_before(Writer& w) const { w.line("fence_proxy_async();"); }
};

class Output : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  virtual void add_map(std::vector<KernelParam>&, const KernelParam&) const {}
  /// Whether rows are written by address.
  virtual bool by_address() const = 0;
  virtual void emit_prefetch_map(Writer& w) const { w.line("prefetch_tensor_map(&o_map);"); }
  virtual void emit_addresses(Writer& w) const = 0;
  /// Every warp has read Q for the last time.
  virtual void emit_q_read(Writer&) const {}
  /// Scales of the last V have been read, before its slot is released.
  virtual void emit_scales_read(Writer&) const {}
  /// Items without keys: the producer's and the consumers' branches.
  virtual void emit_empty_producer(Writer&) const {}
  virtual void emit_empty_consumer(Writer&) const {}
  /// O times `scale` to global memory.
  virtual void emit_store(Writer& w, const char* scale) const = 0;
  /// What makes that visible.
  virtual const char* written() const { return "bulk_wait();  // the store has been written\n__syncwarp();"; }
  virtual void emit_end(Writer&) const {}
};

class Blocks : public Part {
 public:
  using Part::Part;
  virtual void use(Prelude&) const {}
  virtual std::string attribute() const { return ""; }
  virtual void emit_rank(Writer&) const {}
  /// The barriers can be used.
  virtual void emit_sync(Writer& w) const { w.line("__syncthreads();"); }
  virtual void emit_end(Writer&) const {}
};

class Registers : public Part {
 public:
  using Part::Part;
  virtual void emit_lend(Writer&) const {}
  virtual void emit_borrow(Writer&) const {}
};

struct Parts {
  explicit Parts(const PrefillPlan& plan);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const PrefillPlan& plan;
  std::unique_ptr<const WorkItems> items;
  std::unique_ptr<const Issuer> issuer;
  std::unique_ptr<const KeyCopies> copies;
  std::unique_ptr<const KeyTiles> tiles;
  std::unique_ptr<const KeyScales> scales;
  std::unique_ptr<const Query> query;
  std::unique_ptr<const Output> output;
  std::unique_ptr<const Blocks> blocks;
  std::unique_ptr<const Registers> registers;
  SlotWaits waits;
  std::unique_ptr<const SlotWaits> loop_waits;
  Tensor k() const { return {"k", *plan.k, true}; }
  Tensor v() const { return {"v", *plan.v, false}; }
};

std::unique_ptr<const WorkItems> items_of(const Parts& parts);
std::unique_ptr<const Issuer> issuer_of(const Parts& parts);
std::unique_ptr<const KeyCopies> copies_of(const Parts& parts);
std::unique_ptr<const KeyTiles> tiles_of(const Parts& parts);
std::unique_ptr<const KeyTiles> widened_tiles(const Parts& parts);
/// Scales of n elements on the way (row_scales.cpp): those of a tile of K or V apart, once they have come; where behind
/// those of a row, of the columns of `panel`, lies what the elements of a thread's chunk take; and its arithmetic.
void emit_split_scales(Writer& w, const PrefillPlan& p, bool k);
std::string part_offset(const PrefillPlan& p, int panel);
void use_scaled_converter(Prelude& prelude);
std::unique_ptr<const KeyTiles> transposed_tiles(const Parts& parts);
std::unique_ptr<const KeyScales> scales_of(const Parts& parts);
std::unique_ptr<const Query> query_of(const Parts& parts);
std::unique_ptr<const Output> output_of(const Parts& parts);
std::unique_ptr<const Blocks> blocks_of(const Parts& parts);
std::unique_ptr<const Registers> registers_of(const Parts& parts);
std::unique_ptr<const SlotWaits> loop_waits_of(const Parts& parts);

/// Body of warpgroup 0: one thread issues every copy.
void emit_producer(Writer& w, const Parts& parts);
/// Body of warpgroups 1..n: 64 query rows each.
void emit_consumer(Writer& w, const Parts& parts);
/// Q's rows have come.
void emit_await_q(Writer& w);
/// The end of a consumer's work item (epilogue.cpp).
void emit_epilogue(Writer& w, const Parts& parts);

}  // namespace kiln::sm90::prefill
