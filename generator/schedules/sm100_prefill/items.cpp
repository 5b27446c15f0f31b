// Work items of sm100_prefill: every role counts, a thread takes numbers from a counter or takes over those of blocks that
// have not started, or a warp finds those of a ragged batch.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

using Kind = KernelParam::Kind;

void add(std::vector<KernelParam>& params, Kind kind, std::initializer_list<const char*> roles) {
  for (const char* role : roles) params.push_back({kind, role, {}});
}

/// O's boxes of a warp's rows, by one thread.
void emit_boxes_of_o(Writer& w, const PrefillPlan& p, const WorkItems& items) {
  for (int panel = 0; panel < p.o_panels(); ++panel)
    w.line("tma_store(&o_map, stage + {} * tile + {}, {});", p.q_stride(), panel * PrefillPlan::kPanelBytes,
           items.coordinates(panel * p.fa4.gran, "work.m_start + 128 * tile + 32 * quarter"));
}

/// Sequences of one length; every role counts.
class CountedItems : public WorkItems {
 public:
  using WorkItems::WorkItems;
  void add_counts(std::vector<KernelParam>& params) const override {
    add(params, Kind::i32, {"seqlen_q", "seqlen_k", "num_m_blocks", "num_tiles"});
  }
  Lines head(ItemReader) const override {
    Holes holes;
    holes.text("decode", p_.work().decode_call("tile_number"));
    return section("counted_items", holes);
  }
  std::string coordinates(int column, const std::string& row) const override {
    return fmt::format("{}, {}, work.head, work.batch", column, row);
  }
  std::string lse_row() const override {
    return "((long long)work.batch * heads_q + work.head) * seqlen_q + row";
  }
  Lines store() const override {
    Writer w;
    w.open("if (lane == 0)");
    emit_boxes_of_o(w, p_, *this);
    w.close();
    return w.take();
  }
};

/// Items that one warp hands to all roles.
struct FoundItems {
  const PrefillPlan& p;
  static StagedPipeline ring() { return StagedPipeline("work", 1, 1); }

  void emit_addresses(Writer& w) const {
    ring().emit_addresses(w, p.smem_work_barriers);
    w.line(
        "int4* const work_items = (int4*)(smem_bytes + {});  // this item and the next: place, rows of the sequence",
        p.smem_work);
  }
  void emit_init(Writer& w) const {
    ring().emit_init(w, 1, 0);
    w.line("mbarrier_init(mbar_work_empty, {});",
           p.blocks() == 1
               ? std::to_string(p.item_readers())
               : fmt::format("cluster_rank() == 0 ? {} : {}", p.item_readers(), p.item_readers() - 1));
  }
  /// `place` takes what the slot holds; `number` is below 0 behind the last item.
  static Lines head(ItemReader reader, const char* place, const char* number, const std::string& decode) {
    Holes holes;
    holes.text("number", number).text("place", place).text("decode", decode);
    holes.lines("read", section(reader == ItemReader::warp ? "read_by_warp" : "read_by_thread", holes));
    return section("found_items", holes);
  }
};

/// The same by numbers that one thread hands to all roles, longest first.
class NumberedItems : public CountedItems {
 public:
  using CountedItems::CountedItems;
  void add_counts(std::vector<KernelParam>& params) const override {
    CountedItems::add_counts(params);
    add(params, Kind::i32, {"section_heads"});
  }
  void emit_addresses(Writer& w) const override { FoundItems{p_}.emit_addresses(w); }
  void emit_init(Writer& w) const override { FoundItems{p_}.emit_init(w); }
  Lines head(ItemReader reader) const override {
    return FoundItems::head(reader, "const int tile_number = item[0].x;", "tile_number",
                            p_.work().decode_call("tile_number"));
  }
};

/// Numbers from a counter in global memory.
class ItemsByCounter final : public NumberedItems {
 public:
  using NumberedItems::NumberedItems;
  void add_counter(std::vector<KernelParam>& params) const override {
    add(params, Kind::pointer, {"tile_counter"});
  }
  Lines finder() const override {
    Holes holes;
    holes.number("finder_warp", p_.finder_warp());
    return section("items_by_counter", holes);
  }
};

/// Numbers of blocks that have not started, which the hardware cancels (cluster launch control).
class CancelledItems final : public NumberedItems {
 public:
  using NumberedItems::NumberedItems;
  GridRule::Kind grid() const override { return GridRule::Kind::items; }
  void use(Prelude& prelude) const override { prelude.use(pair() ? "cancel_block_pair" : "cancel_block"); }
  void emit_addresses(Writer& w) const override {
    NumberedItems::emit_addresses(w);
    w.line("const u32 answer = smem + {}, mbar_answer = answer + 16{};", p_.smem_answer,
           pair() ? ", mbar_ask = answer + 24" : "");
  }
  void emit_init(Writer& w) const override {
    NumberedItems::emit_init(w);
    w.line("mbarrier_init(mbar_answer, 1);");
    if (pair()) w.line("mbarrier_init(mbar_ask, 2);");
  }
  Lines finder() const override {
    Holes holes;
    holes.number("finder_warp", p_.finder_warp());
    holes.text("item", pair() ? "blockIdx.x / 2" : "blockIdx.x")
        .text("items", pair() ? "gridDim.x / 2" : "gridDim.x");
    holes.lines("ask", section(pair() ? "ask_by_pair" : "ask_by_block", holes));
    return section("cancelled_items", holes);
  }

 private:
  bool pair() const { return p_.blocks() == 2; }
};

/// Sequences that lie one behind the other.
class RaggedItems final : public WorkItems {
 public:
  using WorkItems::WorkItems;
  void use(Prelude& prelude) const override {
    for (const char* section : {"zero_16_bytes", "copy_16_bytes", "ragged_items"}) prelude.use(section);
    prelude.use(parts_.copies->sequence());
  }
  void add_lengths(std::vector<KernelParam>& params) const override {
    add(params, Kind::pointer, {"o", "cu_seqlens_q", parts_.copies->lengths()});
  }
  void add_counter(std::vector<KernelParam>& params) const override {
    add(params, Kind::pointer, {"tile_counter"});
  }
  void add_counts(std::vector<KernelParam>& params) const override {
    add(params, Kind::i32, {"batch"});
    p_.results.add_total(params, true);
    add(params, Kind::i64, {"o_stride_seq", "o_stride_head"});
  }
  void emit_addresses(Writer& w) const override { FoundItems{p_}.emit_addresses(w); }
  void emit_init(Writer& w) const override { FoundItems{p_}.emit_init(w); }
  Lines head(ItemReader reader) const override {
    return FoundItems::head(
        reader, "const int4 place = item[0], rows_of = item[1];", "place.x",
        fmt::format("decode_work(place, rows_of, heads_q, heads_kv{})", p_.mask->function_arguments()));
  }
  Lines finder() const override {
    Holes holes;
    holes.text("key_lengths", parts_.copies->lengths()).text("key_capacity", parts_.copies->capacity());
    holes.number("finder_warp", p_.finder_warp());
    holes.number("BM", p_.block_rows()).number("BN", p_.BN).number("section_tiles", p_.section_tiles());
    return section("ragged_items", holes);
  }
  std::string coordinates(int column, const std::string& row) const override {
    return fmt::format("{}, work.q_start + {}, work.head, 0", column, row);
  }
  std::string lse_row() const override { return "(long long)work.head * total_q + work.q_start + row"; }

  void emit_tail_state(Writer& w) const override { p_.v->ring().emit_state(w, false); }
  Lines zero_tail() const override {
    Holes holes;
    holes.number("BN", p_.BN).number("chunks", p_.fa4.swizzle_bytes / 16);
    holes.number("softmax_threads", p_.softmax_threads());
    holes.lines("wait_v", lines_of([&](Writer& w) { p_.v->emit_wait(w, 0); }));
    holes.lines("zero_v", lines_of([&](Writer& w) { p_.v->emit_zero(w); }));
    return section("zero_tail", holes);
  }
  void emit_tail_step(Writer& w) const override { p_.v->ring().emit_step(w); }
  Lines store() const override {
    Holes holes;
    holes.lines("store_rows", lines_of([&](Writer& w) { emit_rows(w); }));
    holes.lines("store_boxes", lines_of([&](Writer& w) { emit_boxes_of_o(w, p_, *this); }));
    return section("ragged_store", holes);
  }
  void emit_stored(Writer& w) const override { w.line("__syncwarp();"); }

 private:
  /// Rows of a warp that holds the end of a sequence.
  void emit_rows(Writer& w) const {
    w.line("u16* const out = o + (work.q_start + first_row) * o_stride_seq + work.head * o_stride_head;");
    for (int panel = 0; panel < p_.o_panels(); ++panel) {
      const int chunks = std::min(p_.fa4.gran, p_.ov_depth - panel * p_.fa4.gran) / 8;
      w.open("for (int i = lane; i < {} * rows; i += 32)", chunks);
      w.line("const int r = i / {0}, c = i % {0};", chunks);
      w.line(
          "copy_16_bytes(out + r * o_stride_seq + {} + 8 * c, stage + {} * tile + {} + r * 128 + ((c ^ (r & 7)) << 4));",
          panel * p_.fa4.gran, p_.q_stride(), panel * PrefillPlan::kPanelBytes);
      w.close();
    }
  }
};

/// The same of pairs of blocks.
class PairedItems final : public CountedItems {
 public:
  using CountedItems::CountedItems;
  Lines head(ItemReader) const override {
    Holes holes;
    holes.text("decode", p_.work().decode_call("tile_number"));
    return section("paired_items", holes);
  }
};

}  // namespace

std::unique_ptr<const WorkItems> items_of(const Parts& parts) {
  if (parts.plan.ragged) return std::make_unique<RaggedItems>(parts);
  switch (parts.plan.scheduler) {
    case Scheduler::counter:
      return std::make_unique<ItemsByCounter>(parts);
    case Scheduler::launch_control:
      return std::make_unique<CancelledItems>(parts);
    case Scheduler::fixed:
      break;
  }
  if (parts.plan.blocks() == 2) return std::make_unique<PairedItems>(parts);
  return std::make_unique<CountedItems>(parts);
}

}  // namespace kiln::sm100::prefill
