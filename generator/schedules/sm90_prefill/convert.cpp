// K and V of one byte an element in sm90_prefill: three warps of the producer's warpgroup take each tile as
// the copies left it (`raw`), widen it exactly to FP16 and store it where the consumers expect K and V. To
// these the tiles might as well have come by a copy; Q of BF16 they convert themselves, once an item.
//
//   copies -> raw ring (bytes, panels of unswizzled rows) -> converters -> K ring, V ring (16 bits, swizzled)
//
// A panel of a raw tile holds the columns of one panel of the 16-bit tile. A thread widens 16 bytes at a time
// into two neighbouring chunks of a row. Eight threads read 128 bytes in a row, and the swizzle sends what
// they store to eight different chunks of the banks.
#include <functional>

#include "generator/layout/tma.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

/// Threads that widen one row of a raw panel.
int threads_of_row(const PrefillPlan& p) {
  return p.raw_span() / 16;
}

/// Of turn `i` this thread's line, of panels one after the other, is row line + .. of a panel: `pitch` bytes a row,
/// and what `offset` says of the panel.
std::string line_offset(const PrefillPlan& p, int i, int pitch,
                        const std::function<std::string(int)>& offset) {
  const int lines = PrefillPlan::kConverterThreads / threads_of_row(p);
  const int panel = lines * i / p.BN, row = lines * i % p.BN;
  const std::string here = fmt::format("{} + {}", row * pitch, offset(panel));
  if (row + lines <= p.BN) return here;
  return fmt::format("(line < {} ? {} : {} + {})", p.BN - row, here, (row - p.BN) * pitch, offset(panel + 1));
}

/// Where the chunk of turn `i` lies.
std::string raw_chunk(const PrefillPlan& p, int columns, int i) {
  if (!p.raw_rows) return fmt::format("from + {}", 16 * PrefillPlan::kConverterThreads * i);
  return "from + " + line_offset(p, i, p.raw_pitch(columns),
                                 [&](int panel) { return std::to_string(panel * p.raw_span()); });
}

/// The next tile of the raw ring into the next slot of K or V. `fenced`: nothing after it makes it visible to
/// wgmma before it is read. `block`: its number.
void emit_tile(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& to, const std::string& block,
               bool k, bool fenced = true) {
  const auto& ring = to.ring();
  const char* name = k ? "k" : "v";
  const int depth = k ? p.depth : p.ov_depth, threads = PrefillPlan::kConverterThreads;
  w.comment("{}: {} bytes to FP16", k ? "K" : "V", p.BN * depth);
  p.raw->emit_wait_full(w, 0);
  ring.emit_wait_empty(w, 0);
  w.open("");
  w.line("const u32 from = smem_raw + {} * {} + 16 * {};", p.raw->stage(), p.raw_slot_bytes(),
         p.raw_rows ? fmt::format("(thread % {}) + {} * line", threads_of_row(p), p.raw_pitch(depth))
                    : "thread");
  w.line("const u32 to = smem_{} + {} * {} + row_at, beside = to ^ 16;", name, ring.stage(),
         to.full_kv_bytes());
  const bool split = p.raw_groups() > 1;
  if (split) {
    emit_split_scales(w, p, k);
    w.line("const u32 parts = smem_raw_scales + {} * {} + 4 * line;", p.raw->stage(), p.raw_scale_bytes());
  }
  const auto part = [&](int i) {
    if (!split) return std::string();
    const auto of_panel = [&](int panel) { return part_offset(p, panel); };
    return fmt::format(", load_shared(parts + {})", line_offset(p, i, 4, of_panel));
  };
  const int chunks = p.BN * depth / 16, step = threads / threads_of_row(p) * p.span_bytes;
  const int ahead = split ? 2 : 4;  // loads before the first of them is stored
  for (int first = 0; first * threads < chunks; first += ahead) {
    const int turns = std::min(ahead, chunks / threads - first);  // that every thread takes part in
    for (int i = first; i < first + turns; ++i)
      w.line("const uint4 x_{} = load_shared_16({});", i, raw_chunk(p, depth, i));
    for (int i = first; i < first + turns; ++i)
      w.line("store_widened(to + {0}, beside + {0}, x_{1}{2});", step * i, i, part(i));
  }
  if (const int turns = chunks / threads; chunks % threads != 0)
    w.line("if (thread < {}) store_widened(to + {}, beside + {}, load_shared_16({}){});", chunks % threads,
           step * turns, step * turns, raw_chunk(p, depth, turns), part(turns));
  if (p.scales_by_token() && !split) {
    w.line("for (int i = thread; i < {}; i += {})", p.BN, threads);
    // What is copied as a tile has anything past the sequence, and 0 * NaN is NaN.
    const std::string there =
        p.scale_tiles() && !k ? fmt::format("({}) * {} + i >= work.seqlen_k ? 0u : ", block, p.BN) : "";
    w.line(
        "  store_shared(smem_{0}_scales + {1} * {2} + 4 * i, {4}load_shared(smem_raw_scales + {3} * {2} + 4 "
        "* "
        "i));",
        name, ring.stage(), 4 * p.BN, p.raw->stage(), there);
  }
  w.close();
  if (fenced) w.line("fence_proxy_async();");
  w.line("__syncwarp();  // every lane has read and stored its part");
  w.line("if (lane == 0) mbarrier_arrive({});", ring.full(0));
  w.line("if (lane == 0) mbarrier_arrive({});", p.raw->empty(0));
  p.raw->emit_step(w);
  ring.emit_step(w);
}

}  // namespace

layout::Proof converter_proof(const PrefillPlan& p, const char* name, int depth) {
  const SmemTile tile{p.BN, p.span_bytes, 2};
  const auto swizzle = layout::byte_swizzle(tile.mode());
  const int row = threads_of_row(p), threads = PrefillPlan::kConverterThreads;
  layout::Proof proof{std::string(name) + ": converters store every element where wgmma reads it", true, 0};
  unsigned banks = 0;
  for (int i = 0; i < p.BN * depth / 16; ++i) {
    // As emitted: thread and turn give the address; the raw tile is read in order.
    const int thread = i % threads, turn = i / threads, line = thread / row;
    const int bits = p.span_bytes == 128 ? line & 7 : p.span_bytes == 64 ? line >> 1 & 3 : line >> 2 & 1;
    const int to = (turn * (threads / row) + line) * p.span_bytes + ((2 * (thread % row) ^ bits) << 4);
    const int key = i / row % p.BN, column = i / row / p.BN * p.panel_columns() + i % row * 16;
    for (int e = 0; e < 16; ++e) {
      const auto at = layout::panel_tile_byte(key, column + e, p.BN, 2, p.span_bytes, swizzle);
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

void use_converter(Prelude& prelude, const PrefillPlan& p) {
  prelude.use("shared_words");
  prelude.use(*p.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
  if (p.config.dtype == DType::bf16) prelude.use("bf16_to_fp16");
  if (p.scales_by_token() && !p.scale_tiles()) prelude.use("copy_async_4");
  if (p.scales_by_token()) prelude.use("load_shared_float2");
  if (p.raw_groups() > 1) return use_scaled_converter(prelude);
  Writer w;
  w.comment("Sixteen bytes as FP16: the lower eight, the upper eight.");
  w.open("__device__ __forceinline__ void store_widened(u32 low, u32 high, uint4 x)");
  const auto half = [](const char* a, const char* b) {
    return fmt::format(
        "make_uint4(narrow_to_fp16(x.{0}), narrow_to_fp16(x.{0} >> 16), narrow_to_fp16(x.{1}), "
        "narrow_to_fp16(x.{1} "
        ">> 16))",
        a, b);
  };
  w.line("store_shared_16(low, {});", half("x", "y"));
  w.line("store_shared_16(high, {});", half("z", "w"));
  w.close();
  prelude.add("store_widened", w.take());
}

void emit_widen_q(Writer& w, const PrefillPlan& p) {
  const bool bf16 = p.narrow && p.config.dtype == DType::bf16;
  if (!p.converts_q()) return;
  w.comment("{}", bf16 ? "Q to FP16, in place" : "Q takes the sign of K's scale");
  if (p.scale_joins_factor()) {
    w.comment("the factor stays positive: Q takes the sign of the scale, and a scale of 0");
    w.line("const u32 sign = key_scale < 0.0f ? {} : 0u, keep = key_scale == 0.0f ? 0u : ~0u;",
           p.fp8 ? "0x80808080u" : "0x80008000u");
  }
  w.line("#pragma unroll 4");
  w.open("for (int i = 0; i < {}; ++i)", p.q_bytes() / 16 / 128);
  w.line("const u32 at = smem_q + consumer * {} + 16 * (threadIdx.x % 128) + 2048 * i;", p.q_stride());
  w.line("uint4 x = load_shared_16(at);");
  if (bf16) w.line("x = bf16_to_fp16(x);");
  for (const char* member : {"x", "y", "z", "w"})
    if (p.scale_joins_factor()) w.line("x.{0} = (x.{0} ^ sign) & keep;", member);
  w.line("store_shared_16(at, x);");
  w.close();
  w.line("fence_proxy_async();");
  w.line("named_barrier_sync(4 + consumer, 128);  // every warp reads all of Q");
}

void emit_converter(Writer& w, const PrefillPlan& p) {
  const int row = threads_of_row(p), span = p.span_bytes;
  w.banner("converters: three warps widen what was copied");
  w.line("const int thread = threadIdx.x - 32, lane = threadIdx.x % 32;");
  w.comment(
      "first chunk of this thread: row thread / {0}, chunk 2 * (thread % {0}), swizzled; the other is beside "
      "it",
      row);
  const char* xor_bits = span == 128 ? "& 7" : span == 64 ? ">> 1 & 3" : ">> 2 & 1";
  w.line("const u32 row_at = thread / {0} * {1} + ((2 * (thread % {0}) ^ (thread / {0} {2})) << 4);", row,
         span, xor_bits);
  if (p.raw_rows || p.raw_groups() > 1) w.line("const u32 line = thread / {};  // of a panel's rows", row);
  p.raw->emit_state(w, false);
  p.k->ring().emit_state(w, true);
  p.v->ring().emit_state(w, true);
  emit_open_items(w, p, ItemReader::converter);
  w.open("if (work.num_blocks > 0)");
  emit_tile(w, p, *p.k, "work.num_blocks - 1", true);
  w.line("#pragma unroll 1");
  w.open("for (int n = work.num_blocks - 2; n >= {}; --n)", p.first_block());
  // Where P takes V's scales, consumers wait for V(n + 1) before they read K(n): its fence serves both.
  emit_tile(w, p, *p.k, "n", true, !p.scales_by_token());
  emit_tile(w, p, *p.v, "n + 1", false);
  w.close();
  emit_tile(w, p, *p.v, p.first_block(), false);
  w.close();
  emit_close_items(w, p, ItemReader::converter);
}

}  // namespace kiln::sm90
