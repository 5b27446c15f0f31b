// K and V of one byte an element in sm90_prefill: three warps of the producer's warpgroup take each tile as
// the copies left it (`raw`), widen it exactly to FP16 and store it where the consumers expect K and V. To
// these the tiles might as well have come by a copy; Q of BF16 they convert themselves, once an item.
//
//   copies -> raw ring (bytes, panels of unswizzled rows) -> converters -> K ring, V ring (16 bits, swizzled)
//
// A panel of a raw tile holds the columns of one panel of the 16-bit tile. A thread widens 16 bytes at a time
// into two neighbouring chunks of a row. Eight threads read 128 bytes in a row, and the swizzle sends what
// they store to eight different chunks of the banks.
#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "generator/layout/tma.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

constexpr int kThreads = PrefillPlan::kConverterThreads;

class WidenedTiles : public KeyTiles {
 public:
  using KeyTiles::KeyTiles;
  void use(Prelude& prelude) const override;
  void set_maps(KernelParam& k, KernelParam& v) const override {
    for (KernelParam* param : {&k, &v}) param->map.swizzle_bytes = 0, param->map.l2_promotion_bytes = 128;
    if (p_.raw_rows) k.map.dims[0].box = p_.plain_columns(), v.map.dims[0].box = p_.ov_depth;
  }
  void emit_addresses(Writer& w) const override {
    w.line("const u32 smem_raw = smem + {};", p_.smem_raw);
    p_.raw->emit_addresses(w, p_.smem_raw_barriers);
  }
  void emit_init(Writer& w) const override {
    p_.k->ring().emit_init(w, PrefillPlan::kConverterWarps + (p_.rope_apart() ? 1 : 0),
                           p_.k->empty_arrivals());
    p_.v->ring().emit_init(w, PrefillPlan::kConverterWarps, p_.v->empty_arrivals());
    p_.raw->emit_init(w, parts_.scales->full_arrivals(), PrefillPlan::kConverterWarps);
  }
  void emit_producer_state(Writer& w) const override {
    p_.raw->emit_state(w, true);
    if (p_.rope_apart()) p_.k->ring().emit_state(w, true);
  }
  Landing landing(const Tensor& of) const override {
    const int panels = of.k ? p_.k_panels() : of.pipeline.num_panels(), columns = columns_of(of);
    if (p_.raw_rows)
      return {*p_.raw, "smem_raw", p_.raw_slot_bytes(), p_.raw_pitch(columns), 1, 1, p_.BN * columns};
    return {*p_.raw, "smem_raw", p_.raw_slot_bytes(), p_.raw_span(), panels, panels, p_.BN * columns};
  }
  void emit_warps(Writer& w) const override;
  std::vector<layout::Proof> proofs() const override {
    auto proofs = KeyTiles::proofs();
    proofs.push_back(proof("K", p_.plain_columns()));
    proofs.push_back(proof("V", p_.ov_depth));
    return proofs;
  }

 protected:
  /// Columns that are widened.
  int columns_of(const Tensor& of) const { return of.k ? p_.plain_columns() : p_.ov_depth; }
  /// Threads that widen one row of a raw panel.
  int threads_of_row() const { return p_.raw_span() / 16; }
  /// What elements are multiplied by: what a tile needs for it, and the last argument of turn `i`.
  virtual void emit_parts(Writer&, const Tensor&) const {}
  virtual void use_store(Prelude& prelude) const;
  virtual std::string part(int /*turn*/) const { return ""; }
  /// Whether the converters know the row of a panel that is theirs.
  virtual bool knows_line() const { return p_.raw_rows; }
  /// Of turn `i` this thread's line, of panels one after the other, is row line + .. of a panel: `pitch` bytes a row,
  /// and what `offset` says of the panel.
  std::string line_offset(int i, int pitch, const std::function<std::string(int)>& offset) const;

 private:
  /// Lines of the threads below `below`, and not of the stretch before: line + `row` is their row of `panel`.
  struct Stretch {
    int below, row, panel;
  };
  /// Those of turn `i`: short tiles have rows of several panels in one.
  std::vector<Stretch> stretches(int i) const;
  std::string raw_chunk(int columns, int i) const;
  void emit_tile(Writer& w, const Tensor& of, const std::string& block, bool fenced = true) const;
  void emit_widen(Writer& w, const Tensor& of) const;
  layout::Proof proof(const char* name, int depth) const;
};

/// The next tile of the raw ring into the next slot of K or V. `fenced`: nothing after it makes it visible to
/// wgmma before it is read. `block`: its number.
void WidenedTiles::emit_tile(Writer& w, const Tensor& of, const std::string& block, bool fenced) const {
  const auto& ring = of.pipeline.ring();
  w.comment("{}: {} bytes to FP16", of.title(), p_.BN * columns_of(of));
  p_.raw->emit_wait_full(w, 0);
  ring.emit_wait_empty(w, 0);
  w.open("");
  emit_widen(w, of);
  parts_.scales->emit_move(w, of, block, kThreads);
  w.close();
  if (fenced) w.line("fence_proxy_async();");
  w.line("__syncwarp();  // every lane has read and stored its part");
  w.line("if (lane == 0) mbarrier_arrive({});", ring.full(0));
  w.line("if (lane == 0) mbarrier_arrive({});", p_.raw->empty(0));
  p_.raw->emit_step(w);
  ring.emit_step(w);
}

void WidenedTiles::emit_widen(Writer& w, const Tensor& of) const {
  const int columns = columns_of(of);
  const std::string first_chunk =
      p_.raw_rows ? fmt::format("(thread % {}) + {} * line", threads_of_row(), p_.raw_pitch(columns))
                  : "thread";
  w.line("const u32 from = smem_raw + {} * {} + 16 * {};", p_.raw->stage(), p_.raw_slot_bytes(), first_chunk);
  w.line("const u32 to = smem_{} + {} * {} + row_at, beside = to ^ 16;", of.name, of.pipeline.ring().stage(),
         of.pipeline.full_kv_bytes());
  emit_parts(w, of);
  const int chunks = p_.BN * columns / 16, step = kThreads / threads_of_row() * p_.span_bytes;
  constexpr int kAhead = 4;  // loads before the first of them is stored
  for (int first = 0; first * kThreads < chunks; first += kAhead) {
    const int turns = std::min(kAhead, chunks / kThreads - first);  // that every thread takes part in
    for (int i = first; i < first + turns; ++i)
      w.line("const uint4 x_{} = load_shared_16({});", i, raw_chunk(columns, i));
    for (int i = first; i < first + turns; ++i)
      w.line("store_widened(to + {0}, beside + {0}, x_{1}{2});", step * i, i, part(i));
  }
  if (const int turns = chunks / kThreads; chunks % kThreads != 0)
    w.line("if (thread < {}) store_widened(to + {}, beside + {}, load_shared_16({}){});", chunks % kThreads,
           step * turns, step * turns, raw_chunk(columns, turns), part(turns));
}

std::vector<WidenedTiles::Stretch> WidenedTiles::stretches(int i) const {
  const int lines = kThreads / threads_of_row(), first = lines * i;
  std::vector<Stretch> out;
  for (int panel = first / p_.BN; panel * p_.BN < first + lines; ++panel)
    out.push_back({(panel + 1) * p_.BN - first, first - panel * p_.BN, panel});
  return out;
}

std::string WidenedTiles::line_offset(int i, int pitch, const std::function<std::string(int)>& offset) const {
  const std::vector<Stretch> all = stretches(i);
  const auto text = [&](const Stretch& s) { return fmt::format("{} + {}", s.row * pitch, offset(s.panel)); };
  std::string out = text(all.back());
  for (auto s = std::next(all.rbegin()); s != all.rend(); ++s)
    out = fmt::format("(line < {} ? {} : {})", s->below, text(*s), out);
  return out;
}

std::string WidenedTiles::raw_chunk(int columns, int i) const {
  if (!p_.raw_rows) return fmt::format("from + {}", 16 * kThreads * i);
  return "from + " + line_offset(i, p_.raw_pitch(columns),
                                 [&](int panel) { return std::to_string(panel * p_.raw_span()); });
}

layout::Proof WidenedTiles::proof(const char* name, int depth) const {
  const SmemTile tile{p_.BN, p_.span_bytes, 2};
  const auto swizzle = layout::byte_swizzle(tile.mode());
  const int row = threads_of_row();
  layout::Proof proof{std::string(name) + ": converters store every element where wgmma reads it", true, 0};
  unsigned banks = 0;
  std::vector<Stretch> from;
  for (int i = 0; i < p_.BN * depth / 16; ++i) {
    // As emitted: thread and turn give the address; the raw tile is read in order, or by rows of panels.
    const int thread = i % kThreads, turn = i / kThreads, line = thread / row;
    const int bits = p_.span_bytes == 128 ? line & 7 : p_.span_bytes == 64 ? line >> 1 & 3 : line >> 2 & 1;
    const int to = (turn * (kThreads / row) + line) * p_.span_bytes + ((2 * (thread % row) ^ bits) << 4);
    const int key = i / row % p_.BN, column = i / row / p_.BN * p_.panel_columns() + i % row * 16;
    if (thread == 0) from = stretches(turn);
    const auto mine = std::ranges::find_if(from, [&](const Stretch& s) { return line < s.below; });
    proof.holds &= mine != from.end() && line + mine->row == key && mine->panel == i / row / p_.BN;
    for (int e = 0; e < 16; ++e) {
      const auto at = layout::panel_tile_byte(key, column + e, p_.BN, 2, p_.span_bytes, swizzle);
      proof.holds &= static_cast<int>(at) == (e < 8 ? to : to ^ 16) + e % 8 * 2;
    }
    // Eight threads store 128 bytes at a time.
    if (i % 8 == 0) banks = 0;
    const unsigned bank = 1u << (to >> 4 & 7);
    if ((banks & bank) != 0) ++proof.bank_conflicts;
    banks |= bank;
  }
  return proof;
}

void WidenedTiles::use(Prelude& prelude) const {
  KeyTiles::use(prelude);
  prelude.use("shared_words");
  prelude.use(*p_.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
  use_store(prelude);
}

void WidenedTiles::use_store(Prelude& prelude) const {
  Writer w;
  w.comment("Sixteen bytes as FP16: the lower eight, the upper eight.");
  w.open("__device__ __forceinline__ void store_widened(u32 low, u32 high, uint4 x)");
  const auto half = [](const char* a, const char* b) {
    return fmt::format(
        "make_uint4(narrow_to_fp16(x.{0}), narrow_to_fp16(x.{0} >> 16), narrow_to_fp16(x.{1}), "
        "narrow_to_fp16(x.{1} >> 16))",
        a, b);
  };
  w.line("store_shared_16(low, {});", half("x", "y"));
  w.line("store_shared_16(high, {});", half("z", "w"));
  w.close();
  prelude.add("store_widened", w.take());
}

void WidenedTiles::emit_warps(Writer& w) const {
  const int row = threads_of_row(), span = p_.span_bytes;
  w.reopen("else if (threadIdx.x >= 32)");
  w.banner("converters: three warps widen what was copied");
  w.line("const int thread = threadIdx.x - 32, lane = threadIdx.x % 32;");
  w.comment(
      "first chunk of this thread: row thread / {0}, chunk 2 * (thread % {0}), swizzled; the other is beside "
      "it",
      row);
  const char* xor_bits = span == 128 ? "& 7" : span == 64 ? ">> 1 & 3" : ">> 2 & 1";
  w.line("const u32 row_at = thread / {0} * {1} + ((2 * (thread % {0}) ^ (thread / {0} {2})) << 4);", row,
         span, xor_bits);
  if (knows_line()) w.line("const u32 line = thread / {};  // of a panel's rows", row);
  p_.raw->emit_state(w, false);
  p_.k->ring().emit_state(w, true);
  p_.v->ring().emit_state(w, true);
  parts_.items->emit_open(w, ItemReader::converter);
  w.open("if (work.num_blocks > 0)");
  emit_tile(w, parts_.k(), "work.num_blocks - 1");
  w.line("#pragma unroll 1");
  w.open("for (int n = work.num_blocks - 2; n >= {}; --n)", p_.first_block());
  // Where P takes V's scales, consumers wait for V(n + 1) before they read K(n): its fence serves both.
  emit_tile(w, parts_.k(), "n", parts_.scales->fences_k());
  emit_tile(w, parts_.v(), "n + 1");
  w.close();
  emit_tile(w, parts_.v(), p_.first_block());
  w.close();
  parts_.items->emit_close(w, ItemReader::converter);
}

/// The same, times what row_scales.cpp leaves of the scales of n elements.
class ScaledTiles final : public WidenedTiles {
 public:
  using WidenedTiles::WidenedTiles;

 protected:
  void emit_parts(Writer& w, const Tensor& of) const override {
    emit_split_scales(w, p_, of.k);
    w.line("const u32 parts = smem_raw_scales + {} * {} + 4 * line;", p_.raw->stage(), p_.raw_scale_bytes());
  }
  void use_store(Prelude& prelude) const override { use_scaled_converter(prelude); }
  std::string part(int turn) const override {
    const auto of_panel = [this](int panel) { return part_offset(p_, panel); };
    return fmt::format(", load_shared(parts + {})", line_offset(turn, 4, of_panel));
  }
  bool knows_line() const override { return true; }
};

/// Q takes the signs of scales.
class SignedQuery : public Query {
 public:
  using Query::Query;
  void use(Prelude& prelude) const override { prelude.use("shared_words"); }
  void emit_convert(Writer& w) const override {
    w.comment("{}", title());
    parts_.scales->emit_sign(w);
    w.line("#pragma unroll 4");
    const int columns = p_.padded_depth - (p_.rope_apart() ? p_.rope : 0);
    w.open("for (int i = 0; i < {}; ++i)", 64 * columns * p_.element_bytes / 16 / 128);
    w.line("const u32 at = smem_q + consumer * {} + 16 * (threadIdx.x % 128) + 2048 * i;", p_.q_stride());
    w.line("uint4 x = load_shared_16(at);");
    emit_widen(w);
    parts_.scales->emit_signed(w);
    w.line("store_shared_16(at, x);");
    w.close();
    w.line("fence_proxy_async();");
    w.line("named_barrier_sync(4 + consumer, 128);  // every warp reads all of Q");
  }
  void emit_fence_before(Writer&) const override {}

 protected:
  virtual const char* title() const { return "Q takes the sign of K's scale"; }
  virtual void emit_widen(Writer&) const {}
};

/// Q of BF16 becomes FP16, as K and V do.
class WidenedQuery final : public SignedQuery {
 public:
  using SignedQuery::SignedQuery;
  void use(Prelude& prelude) const override { prelude.use("bf16_to_fp16"); }

 protected:
  const char* title() const override {
    return p_.rope_apart() ? "Q to FP16, in place, but for rotary columns" : "Q to FP16, in place";
  }
  void emit_widen(Writer& w) const override { w.line("x = bf16_to_fp16(x);"); }
};

}  // namespace

std::unique_ptr<const KeyTiles> widened_tiles(const Parts& parts) {
  if (parts.plan.raw_groups() > 1) return std::make_unique<ScaledTiles>(parts);
  return std::make_unique<WidenedTiles>(parts);
}

std::unique_ptr<const Query> query_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (p.narrow && p.config.dtype != p.math) return std::make_unique<WidenedQuery>(parts);
  if (p.scale_joins_factor()) return std::make_unique<SignedQuery>(parts);
  return std::make_unique<Query>(parts);
}

}  // namespace kiln::sm90::prefill
