// Who finds the work items of sm90_prefill, and how they reach the warps that work on them.
//
//   rows of one length, full attention   every warp counts: item = blockIdx.x, + gridDim.x, ...
//   rows of one length, bounded masks    the producer takes numbers from a counter, longest items first
//   ragged batches                       a warp finds the item of a number (templates/ragged_items.cuh) and
//                                        writes its place and its sequence's rows to shared memory
//
// The item after this one is looked for as soon as every warp has read this one: finding it takes some
// microseconds, which the tiles of this one hide.
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

void add(std::vector<KernelParam>& params, KernelParam::Kind kind, const char* role) {
  params.push_back({kind, role, {}});
}

/// Rows of one length.
class EvenItems : public WorkItems {
 public:
  using WorkItems::WorkItems;
  void add_rows(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::i32, "seqlen_q"), add(params, KernelParam::Kind::i32, "seqlen_k");
  }
  void add_counts(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::i32, "num_m_blocks"), add(params, KernelParam::Kind::i32, "num_tiles");
  }
  std::vector<std::string> axes() const override { return {"_stride_batch", "_stride_seq", "_stride_head"}; }
  void emit_open(Writer& w, ItemReader) const override {
    w.open("for (int tile = {}; tile < num_tiles;)", p_.first_tile());
    w.line("const Work work = {};", p_.work_items().decode_call());
  }
  std::string coordinates(int column, const std::string& row, const std::string&, const std::string& head,
                          const std::string& panel) const override {
    return fmt::format("{}, {}{}, {}, work.batch", column, row, panel, head);
  }
  std::string output_row() const override {
    return "work.batch * o_stride_batch + row_0 * o_stride_seq + work.head * o_stride_head";
  }
  std::string lse_row() const override {
    return "((long long)work.batch * heads_q + work.head) * seqlen_q + row_0";
  }
  std::string store_place(int column) const override {
    return fmt::format("{}, {}, work.head, work.batch", column, first_row());
  }
};

/// Every warp counts.
class CountedItems final : public EvenItems {
 public:
  using EvenItems::EvenItems;
  void emit_close(Writer& w, ItemReader) const override {
    w.line("tile += {};", p_.tile_step());
    w.close();
  }
};

/// The producer takes numbers from a counter and hands them on in a ring.
class FetchedItems : public EvenItems {
 public:
  using EvenItems::EvenItems;
  void add_counter(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::pointer, "tile_counter");
  }
  void add_counts(std::vector<KernelParam>& params) const override {
    EvenItems::add_counts(params);
    add(params, KernelParam::Kind::i32, "section_heads");
  }
  void emit_addresses(Writer& w) const override {
    p_.work->emit_addresses(w, p_.smem_work_barriers, named());
    w.line("int* const work_slots = (int*)(smem_bytes + {});", p_.smem_work);
  }
  void emit_init(Writer& w) const override { p_.work->emit_init(w, 1, readers()); }
  void emit_open(Writer& w, ItemReader reader) const override {
    p_.work->emit_state(w, reader == ItemReader::producer);
    EvenItems::emit_open(w, reader);
  }
  void emit_close(Writer& w, ItemReader reader) const override {
    reader == ItemReader::producer ? emit_next(w) : emit_take(w, reader);
    w.close();
  }

 protected:
  virtual StagedPipeline::Named named() const { return StagedPipeline::Named::both; }
  virtual int readers() const { return p_.work_readers(); }
  virtual void emit_wait_slot(Writer& w) const { parts_.issuer->emit_wait_empty(w, *p_.work, 0); }
  /// A reader's warp has read the slot.
  virtual void emit_release(Writer& w, ItemReader) const {
    w.line("__syncwarp();");
    w.line("if (lane == 0) mbarrier_arrive({});", p_.work->empty(0));
  }

 private:
  void emit_next(Writer& w) const {
    w.comment("Next work item; the last fetch of the launch leaves the counter as it was found.");
    parts_.issuer->emit_fetch(w);
    w.line("tile = fetched + gridDim.x;");
    emit_wait_slot(w);
    parts_.issuer->open_one(w);
    w.line("work_slots[{}] = tile;", p_.work->stage());
    w.line("mbarrier_arrive({});", p_.work->full(0));
    parts_.issuer->close_one(w);
    p_.work->emit_step(w);
  }
  void emit_take(Writer& w, ItemReader reader) const {
    w.comment("next work item");
    p_.work->emit_wait_full(w, 0);
    w.line("tile = work_slots[{}];", p_.work->stage());
    emit_release(w, reader);
    p_.work->emit_step(w);
  }
};

/// The producer has Q's rows back from the consumers before it writes the next number: they have read the slot.
class ItemsFreedByQ : public FetchedItems {
 public:
  using FetchedItems::FetchedItems;

 protected:
  void emit_release(Writer& w, ItemReader reader) const override {
    if (reader != ItemReader::consumer) FetchedItems::emit_release(w, reader);
  }
};

/// And there are no other readers: slots are free without a barrier.
class FreeItems final : public ItemsFreedByQ {
 public:
  using ItemsFreedByQ::ItemsFreedByQ;

 protected:
  StagedPipeline::Named named() const override { return StagedPipeline::Named::full; }
  int readers() const override { return 0; }
  void emit_wait_slot(Writer&) const override {}
};

class RaggedItems : public WorkItems {
 public:
  using WorkItems::WorkItems;
  void use(Prelude& prelude) const override {
    prelude.use("zero_16_bytes"), prelude.use("ragged_items");
    prelude.use(parts_.copies->sequence());
  }
  void add_lengths(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::pointer, "cu_seqlens_q");
    add(params, KernelParam::Kind::pointer, parts_.copies->lengths());
    if (p_.part) add(params, KernelParam::Kind::pointer, "seqlens_k");
  }
  void add_counter(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::pointer, "tile_counter");
  }
  void add_counts(std::vector<KernelParam>& params) const override {
    add(params, KernelParam::Kind::i32, "batch");
  }
  std::vector<std::string> axes() const override { return {"_stride_seq", "_stride_head"}; }
  // create_ragged_tma_tile: rows after a sequence belong to the next one, so a box ends where its sequence does. Rows
  // are two axes, of as many as a box has and of all and one more, from `rows` rows before the tensor's first on: row
  // `rows` - n of the one and place r + n of the other are row r, and of the box that begins there the copy engine
  // stores n rows, since the first axis ends.
  std::vector<TensorMapDim> store_axes(int columns, int rows) const override {
    return {{"depth", columns}, {"tail", rows}, {"end", 1}, {"head", 1}};
  }
  void emit_addresses(Writer& w) const override {
    p_.work->emit_addresses(w, p_.smem_work_barriers);
    w.line("int4* const work_items = (int4*)(smem_bytes + {});", p_.smem_work);
  }
  void emit_init(Writer& w) const override { p_.work->emit_init(w, 1, p_.work_readers()); }
  void emit_open(Writer& w, ItemReader reader) const override {
    p_.work->emit_state(w, false);
    w.open("for (;;)");
    p_.work->emit_wait_full(w, 0);
    emit_read(w);
    p_.work->emit_step(w);
    if (reader == ItemReader::producer) {
      parts_.issuer->emit_item_read(w, p_.work->empty(0));
    } else {
      Issuer::emit_item_read_by_warp(w, p_.work->empty(0));
    }
    emit_decode(w);
  }
  void emit_close(Writer& w, ItemReader) const override { w.close(); }

  std::string coordinates(int column, const std::string& row, const std::string& start,
                          const std::string& head, const std::string& panel) const override {
    return fmt::format("{}, {} + {}{}, {}, 0", column, start, row, panel, head);
  }
  void emit_zero_tail(Writer& w) const override { parts_.tiles->emit_zero_tail(w); }
  std::string output_row() const override {
    return fmt::format("({} + row_0) * o_stride_seq + {} * o_stride_head", p_.late("q_start"),
                       p_.late("head"));
  }
  std::string lse_row() const override {
    return fmt::format("(long long){} * total_q + {} + row_0", p_.late("head"), p_.late("q_start"));
  }
  void emit_store_rows(Writer& w) const override {
    // None, below 1: the box lies behind the first axis.
    w.line("const int store_row = {};  // in the sequence", first_row());
    w.line("const int store_rows = min({} - store_row, {});", p_.late("seqlen_q"), kBoxRows);
  }
  std::string store_place(int column) const override {
    return fmt::format("{}, {} - store_rows, {} + store_row + store_rows, {}", column, kBoxRows,
                       p_.late("q_start"), p_.late("head"));
  }

 protected:
  // The item at hand; the one after it is written beside it, so this one can be read until its end.
  void emit_read(Writer& w) const {
    w.line("const int4* const item = work_items + 2 * work_phase;");
    w.line("const int4 place = item[0], rows = item[1];");
  }
  void emit_decode(Writer& w) const { w.line("const Work work = {};", p_.work_items().decode_call()); }
  void emit_lengths(Writer& w) const {
    w.line("const RaggedBatch lengths{{cu_seqlens_q, {}, batch, {}}};", parts_.copies->lengths(),
           parts_.copies->capacity());
  }
  std::string first_items() const {
    return fmt::format("first_items(lengths, lane, heads_q, {}, {})", p_.BM, p_.BN);
  }
  void emit_write(Writer& w) const {
    w.line(
        "write_item(work_items + 2 * work_phase, items, lengths, number, lane, heads_q, heads_kv, {}, {}, "
        "{});",
        p_.BM, p_.BN, p_.section_tiles());
  }
  // The slot has been read by all: the next number, below `total`.
  void emit_next_number(Writer& w, const char* total) const {
    p_.work->emit_wait_empty(w, 0);
    p_.work->emit_step(w);
    w.comment("Next work item; the last fetch of the launch leaves the counter as it was found.");
    Issuer::emit_fetch_by_warp(w, total);
    w.line("number = fetched + gridDim.x;");
  }
};

/// A warp that does nothing else finds them.
class ItemsOfWarp final : public RaggedItems {
 public:
  using RaggedItems::RaggedItems;
  void emit_warp(Writer& w) const override {
    w.reopen("else if (threadIdx.x / 32 == 1)");
    w.banner("work items: one warp finds them for the block");
    w.line("const int lane = threadIdx.x % 32;");
    p_.work->emit_state(w, false);
    emit_lengths(w);
    w.line("RaggedItems items = {};", first_items());
    w.open("for (int number = blockIdx.x;;)");
    emit_write(w);
    w.line("if (lane == 0) mbarrier_arrive({});", p_.work->full(0));
    w.line("if (number >= items.total) break;");
    emit_next_number(w, "items.total");
    w.close();
  }
};

/// The producer finds them, whose registers are short and which keeps in memory where it is.
class ItemsOfProducer final : public RaggedItems {
 public:
  using RaggedItems::RaggedItems;
  void emit_open(Writer& w, ItemReader reader) const override {
    if (reader != ItemReader::producer) return RaggedItems::emit_open(w, reader);
    p_.work->emit_state(w, false);
    emit_lengths(w);
    w.line("RaggedItems& kept = ((RaggedItems*)(smem_bytes + {}))[lane];", p_.smem_items);
    w.line("kept = {};", first_items());
    w.open("for (int number = blockIdx.x;;)");
    w.open("");
    // The compiler would load it at the loop's end. ptxas 13.0 may then not wait for the load where the loop
    // begins again: lanes go on with numbers of other items (`kiln verify` finds such places).
    w.comment("loaded here and not at the end of the loop, where ptxas 13.0 can lose the wait for it");
    w.line("asm volatile(\"\" ::: \"memory\");");
    w.line("RaggedItems items = kept;");
    emit_write(w);
    w.line("kept = items;");
    w.close();
    emit_read(w);
    w.line("__syncwarp();  // every lane has read the item, and will not when the next one is written");
    w.line("if (lane == 0) mbarrier_arrive({});", p_.work->full(0));
    w.line("if (place.x < 0) break;");
    emit_decode(w);
  }
  void emit_close(Writer& w, ItemReader reader) const override {
    if (reader == ItemReader::producer) emit_next_number(w, "kept.total");
    w.close();
  }
};

}  // namespace

std::unique_ptr<const WorkItems> items_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.dynamic) return std::make_unique<CountedItems>(parts);
  if (p.ragged && p.own_item_warp()) return std::make_unique<ItemsOfWarp>(parts);
  if (p.ragged) return std::make_unique<ItemsOfProducer>(parts);
  if (p.work_slots_free()) return std::make_unique<FreeItems>(parts);
  if (p.q_frees_work_slots()) return std::make_unique<ItemsFreedByQ>(parts);
  return std::make_unique<FetchedItems>(parts);
}

}  // namespace kiln::sm90::prefill
