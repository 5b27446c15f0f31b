// V of FP8 in sm90_prefill: three warps of the producer's warpgroup turn each tile round, since 8-bit wgmma
// takes B with the contraction (keys) contiguous only, and copies leave rows of keys.
//
//   copies -> raw ring (rows are keys) -> transposers -> V ring (rows are columns of V) -> consumers
//
// ldmatrix.trans moves pairs of bytes: a lane gets columns 2 (lane >> 2) + {0, 1} of keys 2 t + {0, 1} of
// each eight, t = lane & 3. One byte permutation takes a column of two such registers: keys 2 t + {0, 1, 8,
// 9} of 16, which stand in this order in V's rows. They are the keys whose scores a consumer's lane has, so
// that P is the A operand as it is. Lanes 0 to 15 take the even column first, the others the odd one: a
// matrix that stmatrix stores has columns 0, 2, 4, 6, 9, 11, 13, 15 of 16 then, whose chunks the swizzle
// sends to eight different places of the banks.
#include "generator/layout/tma.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90::prefill {
namespace {

/// swizzle_bits in numbers.
int bits_of(int span, int row) {
  return span == 128 ? row & 7 : span == 64 ? row >> 1 & 3 : row >> 2 & 1;
}

/// Keys `key` to `key` + 31 of V's rows: panel and first byte within a row of it.
int panel_of(const PrefillPlan& p, int key) {
  return key / p.v_span * p.ov_depth * p.v_span;
}

/// Names the emitted function that stores the columns of keys from `key` on, and what it takes first.
using StoreCall = std::string (*)(int key);

class TransposedValues : public KeyTiles {
 public:
  using KeyTiles::KeyTiles;
  void use(Prelude& prelude) const override;
  int l2_promotion() const override { return 128; }
  void emit_addresses(Writer& w) const override {
    w.line("const u32 smem_raw = smem + {};", p_.smem_raw);
    p_.raw->emit_addresses(w, p_.smem_raw_barriers);
  }
  void emit_init(Writer& w) const override {
    p_.k->ring().emit_init(w, parts_.scales->full_arrivals(), p_.k->empty_arrivals());
    p_.v->ring().emit_init(w, PrefillPlan::kConverterWarps, p_.v->empty_arrivals());
    p_.raw->emit_init(w, 1, PrefillPlan::kConverterWarps);
  }
  void emit_producer_state(Writer& w) const override {
    p_.raw->emit_state(w, true);
    p_.k->ring().emit_state(w, true);
  }
  Landing landing(const Tensor& of) const override {
    if (of.k) return KeyTiles::landing(of);
    const int panels = p_.padded_ov / p_.panel_columns();
    return {*p_.raw, "smem_raw", p_.raw_slot_bytes(), p_.span_bytes,
            panels,  panels,     p_.raw_slot_bytes(), p_.v_fold};
  }
  // V is on its way for longer.
  void emit_turn(Writer& w) const override {
    parts_.copies->emit_tile(w, parts_.v(), "n + 1", *parts_.loop_waits);
    parts_.copies->emit_tile(w, parts_.k(), "n", *parts_.loop_waits);
  }
  void emit_warps(Writer& w) const override;
  void emit_pack(Writer& w, const char* from) const override {
    OnlineSoftmax::emit_pack_e4m3(w, "p", from, 0, p_.BN / 2);
  }
  void emit_zero_tail(Writer&) const override {}
  std::vector<layout::Proof> proofs() const override {
    auto proofs = operand_proofs("V", p_.v->tile(), p_.BN, false);
    proofs.push_back(proof());
    return proofs;
  }

 protected:
  /// The tiles of an item before the loop, and how many.
  virtual void emit_first(Writer&) const {}
  virtual int first_tiles() const { return 0; }
  /// The next tile of the raw ring into the slot of V: `ahead` loads before the first of them is stored.
  void emit_columns(Writer& w, int ahead, StoreCall call) const;
  void emit_stored(Writer& w) const;

 private:
  void emit_some(Writer& w, int first, int end, StoreCall call) const;
  layout::Proof proof() const;
};

/// The sequences end within tiles: rows of the last one past its sequence become zeros.
class RaggedTransposedValues final : public TransposedValues {
 public:
  using TransposedValues::TransposedValues;
  void use(Prelude& prelude) const override;

 protected:
  void emit_first(Writer& w) const override {
    w.open("if (work.num_blocks > 0)");
    w.comment("rows past this sequence belong to others: P is 0 there, but 0 * NaN is NaN");
    // The first tile of an item was sent for after Q's rows had come back, so after all V of the item before
    // but its last, which has another slot.
    p_.raw->emit_wait_full(w, 0);
    w.line("const int rows = work.seqlen_k - (work.num_blocks - 1) * {} - 2 * (lane & 3);", p_.BN);
    // What is kept wants registers.
    emit_columns(w, 1, [](int key) { return fmt::format("store_columns_of(rows - {}, ", key); });
    emit_stored(w);
    w.close();
  }
  int first_tiles() const override { return 1; }
};

void TransposedValues::emit_columns(Writer& w, int ahead, StoreCall call) const {
  const int chunks = p_.span_bytes / 16, panels = p_.padded_ov / p_.span_bytes;
  w.line("#pragma unroll 1");
  w.open("for (int c = warp; c < {}; c += {})", p_.ov_depth / 16, PrefillPlan::kConverterWarps);
  const std::string panel =
      panels > 1 ? fmt::format(" + c / {} * {}", chunks, p_.BN * p_.span_bytes) : std::string();
  const std::string chunk = panels > 1 ? fmt::format("c % {}", chunks) : std::string("c");
  w.line("const u32 from = raw_lane + {} * {}{} + ((({}) << 4) ^ raw_bits);", p_.raw->stage(),
         p_.raw_slot_bytes(), panel, chunk);
  w.line("const u32 to = v_lane + {} * {} + c * {};", p_.v->ring().stage(), p_.v->full_kv_bytes(),
         16 * p_.v_span);
  for (int first = 0; first < p_.BN; first += 32 * ahead)
    emit_some(w, first, std::min(first + 32 * ahead, p_.BN), call);
  w.close();
}

void TransposedValues::emit_some(Writer& w, int first, int end, StoreCall call) const {
  w.open("");
  w.line("u32 x[{}][4];", (end - first) / 32);
  for (int key = first; key < end; key += 32)
    w.line("ldmatrix_x4_trans(x[{}], from + {});", (key - first) / 32, key * p_.span_bytes);
  for (int key = first; key < end; key += 32) {
    const std::string at = fmt::format("to + {} + ({} ^ v_bits)", panel_of(p_, key), key % p_.v_span);
    w.line("{}{}, x[{}], even, odd);", call(key), at, (key - first) / 32);
  }
  w.close();
}

void TransposedValues::emit_stored(Writer& w) const {
  const auto& ring = p_.v->ring();
  w.line("fence_proxy_async();");
  w.line("__syncwarp();  // every lane has read and stored its part");
  w.line("if (lane == 0) mbarrier_arrive({});", ring.full(0));
  w.line("if (lane == 0) mbarrier_arrive({});", p_.raw->empty(0));
  p_.raw->emit_step(w);
  ring.emit_step(w);
}

layout::Proof TransposedValues::proof() const {
  const SmemTile raw{p_.BN, p_.span_bytes, 1}, tile = p_.v->tile();
  const auto raw_swizzle = layout::byte_swizzle(raw.mode()), swizzle = layout::byte_swizzle(tile.mode());
  layout::Proof proof{"V: transposers find every element and store it where P has its key", true, 0};
  const auto conflicts = [&](unsigned& seen, int at) {
    const unsigned chunk = 1u << (at >> 4 & 7);
    if ((seen & chunk) != 0) ++proof.bank_conflicts;
    seen |= chunk;
  };
  const int chunks = p_.span_bytes / 16;
  for (int c = 0; c < p_.ov_depth / 16; ++c) {
    for (int key = 0; key < p_.BN; key += 32) {
      // As emitted: each lane's addresses.
      int from[32], to[32], column[32];
      unsigned read = 0, written = 0;
      for (int lane = 0; lane < 32; ++lane) {
        if (lane % 8 == 0) read = written = 0;
        const int r = lane & 7, odd = (lane >> 3 & 1) ^ r >> 2;
        column[lane] = 2 * r + odd;
        from[lane] = key * p_.span_bytes + lane * p_.span_bytes + c / chunks * p_.BN * p_.span_bytes +
                     (((c % chunks) << 4) ^ bits_of(p_.span_bytes, lane) << 4);
        to[lane] = column[lane] * p_.v_span + c * 16 * p_.v_span + panel_of(p_, key) +
                   ((key % p_.v_span) ^ (lane >> 4 ^ bits_of(p_.v_span, column[lane])) << 4);
        conflicts(read, from[lane]), conflicts(written, to[lane]);
        for (int e = 0; e < 16; ++e)
          proof.holds &= static_cast<int>(layout::panel_tile_byte(
                             key + lane, 16 * c + e, p_.BN, 1, p_.span_bytes, raw_swizzle)) == from[lane] + e;
      }
      // What a lane stores of matrix m: of its two registers, the bytes of one column.
      for (int m = 0; m < 4; ++m) {
        for (int lane = 0; lane < 32; ++lane) {
          const int g = lane >> 2, t = lane & 3;
          for (int byte = 0; byte < 4; ++byte) {
            const int of_16 = 2 * t + (byte & 1) + (byte >> 1) * 8;
            const int wanted = key + 16 * (m >> 1) + of_16;
            // The slot of P's bytes: lane t of a quad holds these four keys.
            const int slot = key + 16 * (m >> 1) + 4 * t + byte;
            const int col = 16 * c + 2 * g + ((m & 1) ^ (lane >= 16 ? 1 : 0));
            const auto at = layout::panel_tile_byte(col, slot, p_.ov_depth, 1, p_.v_span, swizzle);
            proof.holds &= static_cast<int>(at) == to[8 * m + g] + 4 * t + byte && wanted < p_.BN;
          }
        }
      }
    }
  }
  return proof;
}

void TransposedValues::use(Prelude& prelude) const {
  prelude.use("ldmatrix_trans"), prelude.use("stmatrix");
  Writer w;
  w.comment("Two columns of 32 keys each, as ldmatrix left them, to rows of V.");
  w.open("__device__ __forceinline__ void store_columns(u32 at, const u32 (&x)[4], u32 even, u32 odd)");
  w.line(
      "stmatrix_x4(at, __byte_perm(x[0], x[1], even), __byte_perm(x[0], x[1], odd), __byte_perm(x[2], x[3], "
      "even), __byte_perm(x[2], x[3], odd));");
  w.close();
  prelude.add("store_columns", w.take());
}

void RaggedTransposedValues::use(Prelude& prelude) const {
  TransposedValues::use(prelude);
  Writer masked;
  masked.comment(
      "The same where only the first `rows` keys, counted from this lane's first one, are of the sequence.");
  masked.open("__device__ __forceinline__ u32 bytes_of(int rows)");
  masked.line(
      "return (rows > 0 ? 0xffu : 0u) | (rows > 1 ? 0xff00u : 0u) | (rows > 8 ? 0xff0000u : 0u) | (rows > 9 "
      "? 0xff000000u : 0u);");
  masked.close();
  masked.open(
      "__device__ __forceinline__ void store_columns_of(int rows, u32 at, const u32 (&x)[4], u32 even, u32 "
      "odd)");
  masked.line("const u32 low = bytes_of(rows), high = bytes_of(rows - 16);");
  masked.line(
      "stmatrix_x4(at, __byte_perm(x[0], x[1], even) & low, __byte_perm(x[0], x[1], odd) & low, "
      "__byte_perm(x[2], x[3], even) & high, __byte_perm(x[2], x[3], odd) & high);");
  masked.close();
  prelude.add("store_columns_of", masked.take());
}

void TransposedValues::emit_warps(Writer& w) const {
  w.reopen("else if (threadIdx.x >= 32)");
  w.banner("transposers: three warps turn V round");
  w.line("const int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32;");
  w.comment("reading: a lane gives the row of one key of 32");
  w.line("const u32 raw_lane = smem_raw + lane * {}, raw_bits = (u32){} << 4;", p_.span_bytes,
         swizzle_bits(p_.span_bytes, "lane"));
  w.comment("storing: row lane % 8 of matrix lane / 8, of columns even and odd in turn and 16 keys each");
  w.line("const int column = 2 * (lane & 7) + (((lane >> 3) ^ (lane >> 2)) & 1);");
  w.line("const u32 v_lane = smem_v + column * {}, v_bits = ((u32)(lane >> 4) ^ {}) << 4;", p_.v_span,
         swizzle_bits(p_.v_span, "column"));
  w.line("const u32 even = lane < 16 ? 0x6420 : 0x7531, odd = even ^ 0x1111;");
  p_.raw->emit_state(w, false);
  p_.v->ring().emit_state(w, true);
  parts_.items->emit_open(w, ItemReader::converter);
  emit_first(w);
  w.line("#pragma unroll 1");
  w.open("for (int n = work.num_blocks - {}; n >= {}; --n)", 1 + first_tiles(), p_.first_block());
  p_.raw->emit_wait_full(w, 0);
  p_.v->ring().emit_wait_empty(w, 0);
  emit_columns(w, 4, [](int) { return std::string("store_columns("); });
  emit_stored(w);
  w.close();
  parts_.items->emit_close(w, ItemReader::converter);
}

}  // namespace

std::unique_ptr<const KeyTiles> transposed_tiles(const Parts& parts) {
  if (parts.plan.ragged) return std::make_unique<RaggedTransposedValues>(parts);
  return std::make_unique<TransposedValues>(parts);
}

}  // namespace kiln::sm90::prefill
