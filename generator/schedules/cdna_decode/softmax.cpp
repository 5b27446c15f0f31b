// From scores to P in cdna_decode_streaming and cdna_decode. A wave has some keys of all rows and needs all keys, so P
// passes through LDS, and maxima do.
#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/schedules/common/decode_text.hpp"

namespace kiln::cdna {
namespace {

LdsTile p_tile(const DecodePlan& p) {
  const int vectors = p.p_row_bytes() / 16, bits = vectors >= 8 ? 3 : vectors >= 4 ? 2 : 1;
  return {p.BM,
          p.p_row_columns(),
          p.p_row_columns(),
          p.p_bytes(),
          {bits, 0, std::countr_zero(static_cast<unsigned>(vectors))}};
}

/// Where the run of keys from accumulator register `element` of tile `tile` goes in P's row, counted from lane 0: in
/// the 16-byte vector from key `vector` on. The swizzle leaves a vector's bytes in their order.
struct PPlace {
  int vector = 0, bytes = 0;
};
PPlace p_place(const DecodePlan& p, int tile, int element) {
  const int key = p.mfma.shape.m * tile + p.mfma.row(element), in_vector = key % (16 / p.p_bytes());
  return {key - in_vector, in_vector * p.p_bytes()};
}

/// P as the accumulators of S' hold it, runs of four keys a lane. A wave's first key is no literal: where WN is no
/// power of two it shares bits with those of its tiles of keys, and each tile has an address of its own.
std::vector<LaneAddress> p_writes(const DecodePlan& p) {
  std::vector<LaneAddress> out;
  const bool apart = !std::has_single_bit(static_cast<unsigned>(p.WN));
  const int m = p.mfma.shape.m;
  for (int tile = 0; tile < (apart ? p.score_tiles() : 1); ++tile) {
    const int first = m * tile;
    out.emplace_back(
        apart ? fmt::format("p_write_tile{}", tile) : "p_write", p_tile(p),
        LanePattern{[m](int l) { return l % m; },
                    [m, first, wn = p.WN](int l) { return l % 64 / m * 4 + first + l / 64 * wn; },
                    p.lane_row(),
                    fmt::format("(lane / {} * 4{} + {} * {})", m,
                                first == 0 ? "" : fmt::format(" + {}", first), p.warp_n(), p.WN),
                    64 * p.warps_n()});
    for (int i = 0; i < (apart ? 1 : p.score_tiles()); ++i) {
      for (int e = 0; e < p.mfma.accum(); e += 4) out.back().want(0, p_place(p, i, e).vector);
    }
  }
  return out;
}

std::string p_write_at(const DecodePlan& p, const std::vector<LaneAddress>& writes, int tile, int element) {
  const bool apart = writes.size() > 1;
  const PPlace place = p_place(p, apart ? 0 : tile, element);
  return writes[apart ? static_cast<std::size_t>(tile) : 0].at(0, place.vector, place.bytes);
}

/// P as the B operand of V' P' wants it: four keys or bytes of eight from each lane group in turn, or all of a lane's.
LaneAddress p_read(const DecodePlan& p) {
  const int keys = p.keys_per_read(), m = p.mfma.shape.m;
  LaneAddress address("p_read", p_tile(p),
                      {[m](int l) { return l % m; }, [m, keys](int l) { return keys * (l / m); },
                       p.lane_row(), fmt::format("(lane / {} * {})", m, keys)});
  for (int key = 0; key < p.BN; key += p.mfma.groups() * keys) address.want(0, key);
  return address;
}

void emit_scores(Writer& w, const DecodePlan& p) {
  p.row_scales.emit_apply(w, p.scores());
  w.line("const int first_key = n * {} + {} * {};", p.BN, p.warp_n(), p.WN);
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  p.modifier->emit_apply(w, p.score_context(), "first_key");
  emit_mask_outside(w, *p.mask, p.score_context(), "first_key", fmt::format("first_key + {}", p.WN));
  p.row_scales.emit_weigh(w, p.scores(), "to_log2");
}

/// P's elements: 16 bits.
class PElements {
 public:
  explicit PElements(const DecodePlan& plan) : p_(plan) {}
  virtual ~PElements() = default;
  PElements(const PElements&) = delete;
  PElements& operator=(const PElements&) = delete;

  /// What is added to a score in the exponent: its declaration, and its name.
  virtual void emit_offset(Writer&) const {}
  virtual const char* offset() const { return "-base"; }
  /// Four of them to LDS.
  virtual void emit_store(Writer& w, const std::string& at, const std::array<std::string, 4>& x) const {
    w.line("lds_write_8(lds + {0}, u32x2{{{1}({2}, {3}), {1}({4}, {5})}});", at, p_.pack(), x[0], x[1], x[2],
           x[3]);
  }

 protected:
  const DecodePlan& p_;
};

/// FP8.
class ByteElements final : public PElements {
 public:
  using PElements::PElements;
  void emit_offset(Writer& w) const override {
    w.line(
        "const float offset = {:.1f}f - base;  // FP8 has few steps below 1; the factor cancels in O / sum",
        static_cast<double>(p_.p_shift()));
  }
  const char* offset() const override { return "offset"; }
  void emit_store(Writer& w, const std::string& at, const std::array<std::string, 4>& x) const override {
    w.line("lds_write_4(lds + {}, pack_fp8({}, {}, {}, {}));", at, x[0], x[1], x[2], x[3]);
  }
};

std::unique_ptr<const PElements> elements_of(const DecodePlan& p) {
  if (p.q_bytes()) return std::make_unique<ByteElements>(p);
  return std::make_unique<PElements>(p);
}

/// Register `i` of the scores, and how many there are.
std::string score(const DecodePlan& p, int i) {
  return fmt::format("s_acc[{}][{}]", i / p.mfma.accum(), i % p.mfma.accum());
}
int score_count(const DecodePlan& p) {
  return p.score_tiles() * p.mfma.accum();
}

/// The rows' new maxima, from those of all waves.
void emit_max(Writer& w, const DecodePlan& p) {
  w.comment("maximum of each row: over the lane's keys, the lane groups, the waves");
  w.line("float tile_max = s_acc[0][0];");
  for (int i = 1; i < score_count(p); ++i) w.line("tile_max = maximum(tile_max, {});", score(p, i));
  for (int distance = p.mfma.shape.m; distance < 64; distance *= 2)
    w.line("tile_max = maximum(tile_max, from_lane((lane ^ {}) * 4, tile_max));", distance);
  emit_to_waves(w, p, "tile_max");
  w.line("float new_max = row_max;");
  for (int i = 0; i < p.warps_n(); ++i)
    w.line("new_max = maximum(new_max, lds_read_float(exchange + {} + {} * 4));", 4 * p.BM * i, p.tile_row());
}

/// O and the sums follow them; of rows whose base no float rounds well enough the difference comes first.
void emit_rescale(Writer& w, const DecodePlan& p) {
  w.line("float base = new_max == -kInfinity ? 0.0f : row_base(new_max, factor);");
  w.open("if (any(new_max > row_max))");
  w.line("const float alpha = rescale_factor(row_max, new_max, factor);");
  w.line("row_sum *= alpha; row_max = new_max;");
  for (int i = 0; i < p.output_tiles(); ++i) w.line("o_acc[{}] *= alpha;", i);
  w.close();
  w.open("if (any(is_steep(base)))");
  w.line("const float steep = is_steep(base) ? row_max : 0.0f;");
  for (int t = 0; t < p.score_tiles(); ++t) w.line("s_acc[{}] -= steep;", t);
  w.line("if (is_steep(base)) base = 0.0f;");
  w.close();
}

/// P and its sums, then to LDS.
void emit_p(Writer& w, const DecodePlan& p, const PElements& elements) {
  elements.emit_offset(w);
  for (int i = 0; i < score_count(p); ++i)
    w.line("{0} = exp2_approx(__builtin_fmaf({0}, factor, {1})); row_sum += {0}{2};", score(p, i),
           elements.offset(), p.row_scales.times_unweighed(p.scores(), i));
  p.row_scales.emit_signs(w, p.scores());
  p.row_scales.emit_apply_to_p(w, p.scores());
  const std::vector<LaneAddress> writes = p_writes(p);
  for (int i = 0; i < score_count(p); i += 4)
    elements.emit_store(w, p_write_at(p, writes, i / p.mfma.accum(), i % p.mfma.accum()),
                        {score(p, i), score(p, i + 1), score(p, i + 2), score(p, i + 3)});
}

}  // namespace

void emit_to_waves(Writer& w, const DecodePlan& p, const char* value) {
  w.line("if ({}) lds_write_float(exchange + {} * {} + {} * 4, {});", p.first_group(), p.warp_n(), 4 * p.BM,
         p.lane_tile_row(), value);
  w.line("SYNC();");
}

void emit_p_addresses(Writer& w, const DecodePlan& p, const std::string& rows) {
  for (const LaneAddress& write : p_writes(p)) write.emit(w, rows);
  p_read(p).emit(w, rows);
}

std::vector<layout::Proof> p_proofs(const DecodePlan& p) {
  bool written = true;
  for (const LaneAddress& write : p_writes(p)) written = written && write.proves();
  return {{"P: written where the tile has it", written, 0},
          {"P: read where the tile has it", p_read(p).proves(), 0}};
}

void emit_key_scales(Writer& w, const DecodePlan& p) {
  p.row_scales.emit_keys(w, p.scores(), fmt::format("n * {} + {} * {}", p.BN, p.warp_n(), p.WN),
                         operand_form(p.kind).block() ? "block_rows" : "keys");
}

void emit_decode_softmax(Writer& w, const DecodePlan& p) {
  emit_scores(w, p);
  emit_max(w, p);
  emit_rescale(w, p);
  w.comment("P = exp2(S - max), through LDS: a wave has some keys of all rows, and needs all keys");
  emit_p(w, p, *elements_of(p));
}

void emit_read_p(Writer& w, const DecodePlan& p) {
  const LaneAddress read = p_read(p);
  for (int step = 0; step < p.BN / p.mfma.shape.k; ++step) {
    std::string parts;
    const int bytes = p.keys_per_read() * p.p_bytes(), reads = 4 * p.mfma.frag_regs() / bytes;
    for (int i = 0; i < reads; ++i)
      parts += fmt::format("{}lds_read_{}(lds + {})", i == 0 ? "" : ", ", bytes,
                           read.at(0, step * p.mfma.shape.k + i * p.mfma.groups() * p.keys_per_read()));
    w.line("p[{}] = {};", step, reads == 1 ? parts : fmt::format("join({})", parts));
  }
}

}  // namespace kiln::cdna
