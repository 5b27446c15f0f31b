// The text of a cdna_decode_streaming or cdna_decode kernel. Each function emits one phase, in the order they
// stand in the kernel; the end of a segment stands in cdna_decode_epilogue.cpp.
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_decode/plan.hpp"
#include "generator/schedules/common/cdna_tensors.hpp"

namespace kiln::cdna {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> kernel_params(const DecodePlan& p) {
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  for (const char* role : p.tensors()) add(Kind::pointer, role);
  if (p.lse) add(Kind::pointer, "lse");
  if (p.sink) add(Kind::pointer, "sink");
  add_scale_params(params, p.config, p.row_scales, !p.v_in_k);
  add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  if (p.table()) add(Kind::pointer, "page_table");
  for (const auto& m : p.stream->members())
    add(std::string_view(m.type) == "int" ? Kind::i32 : Kind::pointer, m.role);
  if (p.table()) add(Kind::i32, "page_table_stride"), add(Kind::i32, "num_pages");
  if (p.lse && p.ragged_q()) add(Kind::i32, "total_q");
  add_stride_params(params, tensors_of(p));
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.factors()) add(Kind::f32, name);
  return params;
}

LdsTile p_tile(const DecodePlan& p) {
  const int vectors = p.p_row_bytes() / 16, bits = vectors >= 8 ? 3 : vectors >= 4 ? 2 : 1;
  return {p.BM,
          p.p_row_columns(),
          p.p_row_columns(),
          p.p_bytes(),
          {bits, 0, std::countr_zero(static_cast<unsigned>(vectors))}};
}

/// P as the accumulators of S' hold it, four keys a lane. A wave's first key is no literal: where WN is no power
/// of two it shares bits with those of its 16-key tiles, and each tile has an address of its own.
std::vector<LaneAddress> p_writes(const DecodePlan& p) {
  std::vector<LaneAddress> out;
  const bool apart = !std::has_single_bit(static_cast<unsigned>(p.WN));
  for (int tile = 0; tile < (apart ? p.score_tiles() : 1); ++tile) {
    const int first = 16 * tile;
    out.emplace_back(apart ? fmt::format("p_write_tile{}", tile) : "p_write", p_tile(p),
                     LanePattern{[](int l) { return l % 16; },
                                 [first, wn = p.WN](int l) { return l % 64 / 16 * 4 + first + l / 64 * wn; },
                                 "(lane & 15)",
                                 fmt::format("(lane / 16 * 4{} + {} * {})",
                                             first == 0 ? "" : fmt::format(" + {}", first), p.warp_n(), p.WN),
                                 64 * p.warps_n()});
    for (int key = 0; key < (apart ? 1 : p.WN); key += 16) out.back().want(0, key);
  }
  return out;
}

std::string p_write_at(const std::vector<LaneAddress>& writes, int tile) {
  return writes.size() == 1 ? writes[0].at(0, 16 * tile) : writes[static_cast<std::size_t>(tile)].at(0, 0);
}

/// P as the B operand of V' P' wants it: four keys of 16, or bytes of eight of 32, or all of a lane's.
LaneAddress p_read(const DecodePlan& p) {
  const int keys = p.keys_per_read();
  LaneAddress address("p_read", p_tile(p),
                      {[](int l) { return l % 16; }, [keys](int l) { return keys * (l / 16); }, "(lane & 15)",
                       fmt::format("(lane / 16 * {})", keys)});
  for (int key = 0; key < p.BN; key += 4 * keys) address.want(0, key);
  return address;
}

void emit_setup(Writer& w, const DecodePlan& p) {
  w.line("extern __shared__ __attribute__((aligned(1024))) u8 smem_bytes[];");
  w.line("LDS u8* const lds = (LDS u8*)smem_bytes;");
  w.line("const u32 lds_start = (u32)(u64)lds;");
  w.line("LDS u8* const exchange = lds + {};  // a float of each wave and row", p.smem_exchange);
  w.line("const int thread = thread_id(), lane = thread & 63;");
  w.line("const int warp = uniform(thread >> 6);");
  std::string rows = std::to_string(p.smem_p);
  if (p.warps_m() > 1) {
    w.line("const int warp_n = warp % {0}, warp_m = warp / {0};  // along the keys, along the rows",
           p.warps_n());
    w.line("const int tile_row = warp_m * 16 + (lane & 15);");
    rows += fmt::format(" + warp_m * {}", 16 * p.p_row_bytes());
  }
  for (const LaneAddress& write : p_writes(p)) write.emit(w, rows);
  p_read(p).emit(w, rows);
  if (p.scales) {
    for (const char* name : p.factors()) w.line("const float given_{0} = {0};", name);
  }
  if (p.hidden) w.line("if (thread == 0) *(LDS int*)(lds + {}) = 0;", p.smem_flag + 4);
  w.line("const int group = heads_q / heads_kv;");
  std::vector<std::string> members;
  for (const auto& m : p.stream->members()) members.emplace_back(m.role);
  w.line("const Problem problem = {{{}}};", fmt::join(members, ", "));
}

/// What one unit of Q K' and of V stands for, where a head has one scale.
void emit_units(Writer& w, const DecodePlan& p) {
  const Quantization& q = *p.config.operand->quantization;
  const std::string head = scale_of_head(q, "batch_index", "kv_head");
  const std::string query = fmt::format("q_scale[{}] * ", scale_of_query(q, "batch_index", "kv_head"));
  w.line("const float qk_unit = {1}k_scale[{0}], v_unit = {2}_scale[{0}];", head,
         is_fp8(p.config.dtype) ? query : "", p.v_in_k ? "k" : "v");
  for (const char* name : p.factors()) w.line("const float {0} = given_{0} * qk_unit;", name);
}

// The segment's numbers in scalar registers, and pointers to its rows.
void emit_segment_range(Writer& w, const DecodePlan& p) {
  w.banner("segment: KV tiles [tile_begin, tile_end) of {} packed query rows of one sequence", p.BM);
  w.line(
      "const int batch_index = uniform(s.batch), kv_head = uniform(s.kv_head), m_block = "
      "uniform(s.m_block);");
  w.line("const int tile_begin = uniform(s.tile_begin), tile_end = uniform(s.tile_end);");
  w.line("const int keys = uniform(s.sequence.seqlen_k), queries = uniform(s.sequence.seqlen_q);");
  w.line("const int rows = min_of({0}, group * queries - m_block * {0});", p.BM);
  if (p.ragged_q()) w.line("const int q_start = uniform(s.sequence.q_start);");
  if (operand_form(p.kind).ragged_k()) w.line("const int k_start = uniform(s.sequence.k_start);");
  if (p.table())
    w.line(
        "const CONSTANT int* const pages = (const CONSTANT int*)(page_table + (long long)batch_index * "
        "page_table_stride);");
  if (operand_form(p.kind).block()) {
    w.line("const int block = keys > 0 ? pages[0] : -1;");
    w.line("const int block_rows = (u32)block < (u32)num_pages ? keys : 0;  // no block: zeros");
  }
}

/// This lane's query row, on its way to registers.
void emit_query(Writer& w, const DecodePlan& p) {
  w.comment("this lane's row: query position packed / group, query head packed % group of the KV head's");
  w.line("const int packed = m_block * {} + {}, position = packed / group;", p.BM, p.tile_row());
  w.line("const bool in_rows = {} < rows;", p.tile_row());
  const int size = static_cast<int>(size_of(p.config.dtype));
  p.q->emit_construct(
      w, "q_head",
      fmt::format(
          "queries > 0 ? (int)(((queries - 1) * q_stride_seq + (group - 1) * q_stride_head + {}) * {}) : 0",
          p.depth, size),
      fmt::format("(in_rows ? (u32)((position * q_stride_seq + packed % group * q_stride_head) * {}) : "
                  "0x80000000u)",
                  size));
  p.q->emit_load(w);
}

void emit_buffers(Writer& w, const DecodePlan& p) {
  w.line("const int first_key = tile_begin * {};", p.BN);
  const char* rows = operand_form(p.kind).block() ? "block_rows" : "keys";
  const int kv_size = p.kv_bytes() ? 1 : 2;
  if (p.streaming) {
    p.k->emit_construct(w, 0, "k_head", fmt::format("k_stride_seq * {}", kv_size), rows, "first_key");
    p.v->emit_construct(w, p.smem_v, "v_head", fmt::format("v_stride_seq * {}", kv_size), rows, "first_key");
  } else {
    emit_tile_buffers(w, p, rows);
  }
}

/// Tiles that every row sees whole.
void emit_clean_range(Writer& w, const DecodePlan& p) {
  if (!p.mask->has_bits()) {
    w.line("const int clean_end = {};  // keys before it are hidden from no row by their end",
           p.mask->end_key(fmt::format("(keys - queries + m_block * {} / group)", p.BM), "keys",
                           p.score_context().batch));
  }
  if (p.mask->bounded_below()) {
    w.line("const int clean_first = {};",
           p.mask->first_key(
               fmt::format("(keys - queries + (m_block * {} + max_of(rows, 1) - 1) / group)", p.BM),
               p.score_context().batch));
  }
}

void emit_segment(Writer& w, const DecodePlan& p) {
  emit_segment_range(w, p);
  emit_head_pointers(w, tensors_of(p), {"batch_index", "kv_head * group", ""}, first_column(p.config));
  p.row_scales.emit_heads(w, p.scores(), "batch_index");
  if (p.scales) emit_units(w, p);
  if (p.row_scales.weighs()) {
    w.line("const float to_log2 = {}, factor = 1.0f;  // from modified scores to log2 units, and of logits",
           p.modifier->scale_log2());
  } else {
    w.line("const float factor = {};  // from modified scores to log2 units", p.modifier->scale_log2());
  }
  emit_query(w, p);
  emit_buffers(w, p);
  emit_clean_range(w, p);
  p.modifier->emit_rows(w, p.score_context());
  p.mask->emit_rows(w, p.score_context());
  const std::string accumulator = p.mfma.accumulator();
  w.line("float row_max = -kInfinity, row_sum = 0.0f;");
  w.line("{} s_acc[{}], o_acc[{}];", accumulator, p.score_tiles(), p.output_tiles());
  for (int i = 0; i < p.output_tiles(); ++i) w.line("o_acc[{}] = ({})(0.0f);", i, accumulator);
  w.line("u32x{} p[{}];", p.mfma.frag_regs(), p.BN / p.mfma.shape.k);
  for (int v = 0; v < p.q->num_vectors(); ++v) w.line("__asm volatile(\"\" : \"+v\"(q_reg[{}]));", v);
}

/// One strip: it has landed; its fragments go to registers; `next` starts the next copy; the products.
template <class Next>
void emit_strip(Writer& w, const DecodeStreamingKVBuffer& buffer, int strip, const std::string& b,
                const std::string& c, bool first, Next next) {
  buffer.emit_load_from_shared(w, strip);
  buffer.emit_taken(w, strip);
  next();
  buffer.emit_mma(w, b, c, strip, first);
}

void emit_scores(Writer& w, const DecodePlan& p) {
  p.row_scales.emit_apply(w, p.scores());
  w.line("const int first_key = n * {} + {} * {};", p.BN, p.warp_n(), p.WN);
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  p.modifier->emit_apply(w, p.score_context(), "first_key");
  if (p.mask->has_bits()) {
    p.mask->emit_apply(w, p.score_context(), "first_key", {});
    return p.row_scales.emit_weigh(w, p.scores(), "to_log2");
  }
  w.open("if (first_key + {} > clean_end{})", p.WN,
         p.mask->bounded_below() ? " || first_key < clean_first" : "");
  p.mask->emit_apply(w, p.score_context(), "first_key", {});
  w.close();
  p.row_scales.emit_weigh(w, p.scores(), "to_log2");
}

}  // namespace

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
  w.comment("maximum of each row: over the lane's keys, the lane groups, the waves");
  std::string top = "s_acc[0][0]";
  const auto score = [&](int i) {
    return fmt::format("s_acc[{}][{}]", i / p.mfma.accum(), i % p.mfma.accum());
  };
  const int count = p.score_tiles() * p.mfma.accum();
  w.line("float tile_max = {};", top);
  for (int i = 1; i < count; ++i) w.line("tile_max = maximum(tile_max, {});", score(i));
  for (int distance : {16, 32})
    w.line("tile_max = maximum(tile_max, from_lane((lane ^ {}) * 4, tile_max));", distance);
  w.line("if (lane < 16) lds_write_float(exchange + {} * {} + {} * 4, tile_max);", p.warp_n(), 4 * p.BM,
         p.warps_m() == 1 ? "lane" : "tile_row");
  w.line("SYNC();");
  w.line("float new_max = row_max;");
  for (int i = 0; i < p.warps_n(); ++i)
    w.line("new_max = maximum(new_max, lds_read_float(exchange + {} + {} * 4));", 4 * p.BM * i, p.tile_row());
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
  w.comment("P = exp2(S - max), through LDS: a wave has some keys of all rows, and needs all keys");
  if (p.p_shift() > 0)
    w.line(
        "const float offset = {:.1f}f - base;  // FP8 has few steps below 1; the factor cancels in O / sum",
        static_cast<double>(p.p_shift()));
  for (int i = 0; i < count; ++i)
    w.line("{0} = exp2_approx(__builtin_fmaf({0}, factor, {1})); row_sum += {0}{2};", score(i),
           p.p_shift() > 0 ? "offset" : "-base",
           p.row_scales.weighs() ? " * " + p.row_scales.unweighed(p.scores(), i) : "");
  p.row_scales.emit_signs(w, p.scores());
  if (p.row_scales.in_p()) p.row_scales.emit_apply(w, p.scores(), "P");
  const std::vector<LaneAddress> writes = p_writes(p);
  for (int t = 0; t < p.score_tiles(); ++t) {
    if (p.q_bytes()) {
      w.line("lds_write_4(lds + {0}, pack_fp8(s_acc[{1}][0], s_acc[{1}][1], s_acc[{1}][2], s_acc[{1}][3]));",
             p_write_at(writes, t), t);
      continue;
    }
    w.line(
        "lds_write_8(lds + {0}, u32x2{{{2}(s_acc[{1}][0], s_acc[{1}][1]), {2}(s_acc[{1}][2], "
        "s_acc[{1}][3])}});",
        p_write_at(writes, t), t, p.pack());
  }
}

void emit_read_p(Writer& w, const DecodePlan& p) {
  const LaneAddress read = p_read(p);
  for (int step = 0; step < p.BN / p.mfma.shape.k; ++step) {
    std::string parts;
    const int bytes = p.keys_per_read() * p.p_bytes(), reads = 4 * p.mfma.frag_regs() / bytes;
    for (int i = 0; i < reads; ++i)
      parts += fmt::format("{}lds_read_{}(lds + {})", i == 0 ? "" : ", ", bytes,
                           read.at(0, step * p.mfma.shape.k + i * 4 * p.keys_per_read()));
    w.line("p[{}] = {};", step, reads == 1 ? parts : fmt::format("join({})", parts));
  }
}

namespace {

void emit_tiles(Writer& w, const DecodePlan& p) {
  w.banner("KV tiles: at least one");
  p.k->emit_load_from_dram(w, 0);
  p.k->emit_segment_start(w);
  w.line("#pragma unroll 1");
  w.open("for (int n = tile_begin;;)");
  w.comment("S' = K(n) Q', strips of depth");
  // Columns under one scale are whole strips, whose part of the scores is summed apart.
  const bool groups = p.row_scales.key_groups() > 1;
  const int covered = groups ? p.row_scales.columns() : p.depth;
  for (int strip = 0; strip < p.k->num_strips(); ++strip) {
    w.open("");
    p.k->emit_landed(w, strip);
    if (strip == 0) emit_key_scales(w, p);
    emit_strip(w, *p.k, strip, "q_reg", groups ? "part" : "s_acc", strip * p.BK % covered == 0, [&] {
      strip + 1 < p.k->num_strips() ? p.k->emit_load_from_dram(w, strip + 1) : p.v->emit_load_from_dram(w, 0);
    });
    const int end = (strip + 1) * p.BK;
    if (groups && (end % covered == 0 || strip + 1 == p.k->num_strips()))
      p.row_scales.emit_group_end(w, p.scores(), strip * p.BK / covered);
    w.close();
  }
  emit_decode_softmax(w, p);
  w.comment("O' += V(n)' P', strips of keys");
  for (int strip = 0; strip < p.v->num_strips(); ++strip) {
    w.open("");
    p.v->emit_landed(w, strip);
    // P before V's fragments, which are what the next barrier is about.
    if (strip == 0) emit_read_p(w, p), w.line("SCHEDULE_FENCE();");
    emit_strip(w, *p.v, strip, "p", "o_acc", false, [&] {
      if (strip + 1 < p.v->num_strips()) {
        p.v->emit_load_from_dram(w, strip + 1);
      } else {
        w.open("if (n + 1 < tile_end)");
        p.k->emit_load_from_dram(w, 0);
        w.close();
      }
    });
    w.close();
  }
  w.line("if (++n == tile_end) break;");
  w.close();
}

Manifest manifest(const DecodePlan& p, std::vector<KernelParam> params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads;
  m.smem_bytes = p.smem_bytes;
  m.grid = {GridRule::Kind::stream_k, p.BM, p.ctas_per_cu, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.partial_floats());
  m.params = std::move(params);
  // What one read of K covers is multiplied whole: steps past the depth are left out by the read.
  const int read = std::max(p.mfma.vector_k(), p.mfma.shape.k);
  const int k_steps = ceil_div(p.depth, read) * (read / p.mfma.shape.k);
  const int tile = k_steps * p.score_tiles() + p.BN / p.mfma.shape.k * p.output_tiles();
  const int tiles = p.streaming ? 1 : p.loop_tiles();
  m.expectations = {{p.mfma.mnemonic(), tiles * tile}};
  const int elements = p.BN / p.mfma.shape.k * p.output_tiles() * p.mfma.frag();
  if (p.v_block) m.expectations.push_back({"ds_read_u16", tiles * elements});
  return m;
}

Prelude prelude_of(const DecodePlan& p) {
  Prelude prelude("cdna.hip");
  for (const char* section :
       {"types", "uniform", "waits", "row_base", "rcp_approx", "log2_approx", "maximum", "any", "from_lane",
        "lds_write_8", "lds_read_8", "lds_float", "arrive", "global_16", "schedule_fence"})
    prelude.use(section);
  Writer blocks;
  blocks.line("DEVICE u32 grid_blocks() {{ return __builtin_amdgcn_grid_size_x() / {}u; }}", p.num_threads);
  prelude.add("grid_blocks", blocks.take());
  for (const DType type : {p.config.dtype, p.o_floats() ? p.config.dtype : *p.config.out_dtype})
    prelude.use(is_fp8(type)                        ? "pack_fp8"
                : type == DType::fp16               ? "pack_fp16"
                : p.config.target == Target::gfx950 ? "pack_bf16"
                                                    : "pack_bf16_by_hand");
  if (p.streaming) {
    p.k->use(prelude);
    p.v->use(prelude);
  } else {
    p.k_tile->use(prelude);
    p.v_tile->use(prelude);
    if (p.k_rope) p.k_rope->use(prelude);
    if (p.blocks) prelude.use("wait_loads");
  }
  p.q->use(prelude);
  p.modifier->use(prelude);
  if (p.row_scales.weighs()) prelude.use("exp2_approx");
  if (p.hidden) p.hidden->use(prelude);
  p.stream->use(prelude);
  prelude.use("buffer_store_8");
  if (p.q_bytes()) prelude.use("lds_write_4");
  return prelude;
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const auto params = without_fixed_heads(kernel_params(p), p.config);
  KernelSource source;
  source.manifest = manifest(p, params);
  Writer body;
  body.line("#define kInfinity __builtin_inff()");
  body.blank();
  body.raw(prelude_of(p).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  if (p.hidden) MHAOperand(p.kind, p.config.operand->page_size.value_or(1), 1).emit_functions(body);
  body.line("extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size({0}, {0})))", p.num_threads);
  body.open("void {}({})", source.manifest.entry,
            parameter_list(params, {.q_bytes = p.q_bytes(),
                                    .kv_bytes = p.kv_bytes(),
                                    .o_floats = p.o_floats(),
                                    .one_per_line = true}));
  emit_setup(body, p);
  p.stream->emit_range(body);
  body.line("if (range.position >= range.end) return;  // before anything is computed for segments");
  p.stream->emit_loop_open(body);
  emit_segment(body, p);
  p.row_scales.emit_part(body, p.scores(), p.mfma.accumulator());
  p.streaming ? emit_tiles(body, p) : p.blocks ? emit_decode_blocks(body, p) : emit_decode_tiles(body, p);
  emit_decode_epilogue(body, p);
  body.close();
  body.close();

  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows by {} keys a tile, {} waves of {} keys; strips of {}.\n"
      "LDS ({} bytes): K{} 0, V{} {}, P {}, exchange {}.",
      *p.config.schedule, p.BM, p.BN, p.num_warps, p.WN, p.BK, p.smem_bytes, p.streaming ? " strip" : "",
      p.streaming ? " strip"
      : p.v_in_k  ? " in K"
                  : "",
      p.smem_v, p.smem_p, p.smem_exchange);
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::cdna
