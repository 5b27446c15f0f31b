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

namespace kiln::sm90 {
namespace {

/// swizzle_bits in numbers.
int bits_of(int span, int row) {
  return span == 128 ? row & 7 : span == 64 ? row >> 1 & 3 : row >> 2 & 1;
}

/// Keys `key` to `key` + 31 of V's rows: panel and first byte within a row of it.
int panel_of(const PrefillPlan& p, int key) {
  return key / p.v_span * p.ov_depth * p.v_span;
}

/// The next tile of the raw ring into the next slot of V. `last`: rows past the sequence become zeros.
void emit_tile(Writer& w, const PrefillPlan& p, bool last) {
  const auto& ring = p.v->ring();
  const int chunks = p.span_bytes / 16, panels = p.padded_ov / p.span_bytes;
  p.raw->emit_wait_full(w, 0);
  // The first tile of an item was sent for after Q's rows had come back, so after all V of the item before
  // but its last, which has another slot.
  if (!last) ring.emit_wait_empty(w, 0);
  if (last) w.line("const int rows = work.seqlen_k - (work.num_blocks - 1) * {} - 2 * (lane & 3);", p.BN);
  w.line("#pragma unroll 1");
  w.open("for (int c = warp; c < {}; c += {})", p.ov_depth / 16, PrefillPlan::kConverterWarps);
  const std::string panel =
      panels > 1 ? fmt::format(" + c / {} * {}", chunks, p.BN * p.span_bytes) : std::string();
  const std::string chunk = panels > 1 ? fmt::format("c % {}", chunks) : std::string("c");
  w.line("const u32 from = raw_lane + {} * {}{} + ((({}) << 4) ^ raw_bits);", p.raw->stage(),
         p.raw_slot_bytes(), panel, chunk);
  w.line("const u32 to = v_lane + {} * {} + c * {};", ring.stage(), p.v->full_kv_bytes(), 16 * p.v_span);
  const int ahead = last ? 1 : 4;  // loads before the first of them is stored; what is kept wants registers
  for (int first = 0; first < p.BN; first += 32 * ahead) {
    const int end = std::min(first + 32 * ahead, p.BN);
    w.open("");
    w.line("u32 x[{}][4];", (end - first) / 32);
    for (int key = first; key < end; key += 32)
      w.line("ldmatrix_x4_trans(x[{}], from + {});", (key - first) / 32, key * p.span_bytes);
    for (int key = first; key < end; key += 32) {
      const std::string x = fmt::format("x[{}]", (key - first) / 32);
      const std::string at = fmt::format("to + {} + ({} ^ v_bits)", panel_of(p, key), key % p.v_span);
      const char* call = last ? "store_columns_of(rows - " : "store_columns(";
      w.line("{}{}{}, {}, even, odd);", call, last ? fmt::format("{}, ", key) : std::string(), at, x);
    }
    w.close();
  }
  w.close();
  w.line("fence_proxy_async();");
  w.line("__syncwarp();  // every lane has read and stored its part");
  w.line("if (lane == 0) mbarrier_arrive({});", ring.full(0));
  w.line("if (lane == 0) mbarrier_arrive({});", p.raw->empty(0));
  p.raw->emit_step(w);
  ring.emit_step(w);
}

}  // namespace

layout::Proof transposer_proof(const PrefillPlan& p) {
  const SmemTile raw{p.BN, p.span_bytes, 1}, tile = p.v->tile();
  const auto raw_swizzle = layout::byte_swizzle(raw.mode()), swizzle = layout::byte_swizzle(tile.mode());
  layout::Proof proof{"V: transposers find every element and store it where P has its key", true, 0};
  const auto conflicts = [&](unsigned& seen, int at) {
    const unsigned chunk = 1u << (at >> 4 & 7);
    if ((seen & chunk) != 0) ++proof.bank_conflicts;
    seen |= chunk;
  };
  const int chunks = p.span_bytes / 16;
  for (int c = 0; c < p.ov_depth / 16; ++c) {
    for (int key = 0; key < p.BN; key += 32) {
      // As emitted: each lane's addresses.
      int from[32], to[32], column[32];
      unsigned read = 0, written = 0;
      for (int lane = 0; lane < 32; ++lane) {
        if (lane % 8 == 0) read = written = 0;
        const int r = lane & 7, odd = (lane >> 3 & 1) ^ r >> 2;
        column[lane] = 2 * r + odd;
        from[lane] = key * p.span_bytes + lane * p.span_bytes + c / chunks * p.BN * p.span_bytes +
                     (((c % chunks) << 4) ^ bits_of(p.span_bytes, lane) << 4);
        to[lane] = column[lane] * p.v_span + c * 16 * p.v_span + panel_of(p, key) +
                   ((key % p.v_span) ^ (lane >> 4 ^ bits_of(p.v_span, column[lane])) << 4);
        conflicts(read, from[lane]), conflicts(written, to[lane]);
        for (int e = 0; e < 16; ++e)
          proof.holds &= static_cast<int>(layout::panel_tile_byte(
                             key + lane, 16 * c + e, p.BN, 1, p.span_bytes, raw_swizzle)) == from[lane] + e;
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
            const auto at = layout::panel_tile_byte(col, slot, p.ov_depth, 1, p.v_span, swizzle);
            proof.holds &= static_cast<int>(at) == to[8 * m + g] + 4 * t + byte && wanted < p.BN;
          }
        }
      }
    }
  }
  return proof;
}

void use_transposer(Prelude& prelude, const PrefillPlan& p) {
  prelude.use("ldmatrix_trans"), prelude.use("stmatrix");
  if (p.converts_q()) prelude.use("shared_words");
  Writer w;
  w.comment("Two columns of 32 keys each, as ldmatrix left them, to rows of V.");
  w.open("__device__ __forceinline__ void store_columns(u32 at, const u32 (&x)[4], u32 even, u32 odd)");
  w.line(
      "stmatrix_x4(at, __byte_perm(x[0], x[1], even), __byte_perm(x[0], x[1], odd), __byte_perm(x[2], x[3], "
      "even), __byte_perm(x[2], x[3], odd));");
  w.close();
  prelude.add("store_columns", w.take());
  if (!p.ragged) return;
  Writer masked;
  masked.comment(
      "The same where only the first `rows` keys, counted from this lane's first one, are of the sequence.");
  masked.open("__device__ __forceinline__ u32 bytes_of(int rows)");
  masked.line(
      "return (rows > 0 ? 0xffu : 0u) | (rows > 1 ? 0xff00u : 0u) | (rows > 8 ? 0xff0000u : 0u) | (rows > 9 "
      "? "
      "0xff000000u : 0u);");
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

void emit_transposer(Writer& w, const PrefillPlan& p) {
  w.banner("transposers: three warps turn V round");
  w.line("const int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32;");
  w.comment("reading: a lane gives the row of one key of 32");
  w.line("const u32 raw_lane = smem_raw + lane * {}, raw_bits = (u32){} << 4;", p.span_bytes,
         swizzle_bits(p.span_bytes, "lane"));
  w.comment("storing: row lane % 8 of matrix lane / 8, of columns even and odd in turn and 16 keys each");
  w.line("const int column = 2 * (lane & 7) + (((lane >> 3) ^ (lane >> 2)) & 1);");
  w.line("const u32 v_lane = smem_v + column * {}, v_bits = ((u32)(lane >> 4) ^ {}) << 4;", p.v_span,
         swizzle_bits(p.v_span, "column"));
  w.line("const u32 even = lane < 16 ? 0x6420 : 0x7531, odd = even ^ 0x1111;");
  p.raw->emit_state(w, false);
  p.v->ring().emit_state(w, true);
  emit_open_items(w, p, ItemReader::converter);
  if (p.ragged) {
    w.open("if (work.num_blocks > 0)");
    w.comment("rows past this sequence belong to others: P is 0 there, but 0 * NaN is NaN");
    emit_tile(w, p, true);
    w.close();
  }
  w.line("#pragma unroll 1");
  w.open("for (int n = work.num_blocks - {}; n >= {}; --n)", p.ragged ? 2 : 1, p.first_block());
  emit_tile(w, p, false);
  w.close();
  emit_close_items(w, p, ItemReader::converter);
}

}  // namespace kiln::sm90
