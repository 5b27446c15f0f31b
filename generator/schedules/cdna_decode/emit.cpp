// The text of a cdna_decode_streaming or cdna_decode kernel. Each function emits one phase, in the
// kernel's order; softmax, main loops and the end of a segment have their own files.
#include <algorithm>

#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_decode/loops.hpp"
#include "generator/schedules/common/cdna_tensors.hpp"
#include "generator/schedules/common/decode_text.hpp"

namespace kiln::cdna {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> kernel_params(const DecodePlan& p) {
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  for (const char* role : p.tensors()) add(Kind::pointer, role);
  p.results.add_pointers(params);
  add_scale_params(params, p.config, p.row_scales, !p.v_in_k);
  add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  if (p.table()) add(Kind::pointer, "page_table");
  add_problem_params(params, *p.stream);
  if (p.table()) add(Kind::i32, "page_table_stride"), add(Kind::i32, "num_pages");
  p.results.add_total(params, p.ragged_q());
  add_stride_params(params, tensors_of(p));
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.factors()) add(Kind::f32, name);
  return params;
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
    w.line("const int tile_row = warp_m * {} + {};", p.mfma.shape.m, p.lane_row());
    rows += fmt::format(" + warp_m * {}", p.mfma.shape.m * p.p_row_bytes());
  }
  emit_p_addresses(w, p, rows);
  if (p.scales) {
    for (const char* name : p.factors()) w.line("const float given_{0} = {0};", name);
  }
  p.hidden.emit_flag(w, p.odd_flag(), "thread == 0");
  w.line("const int group = heads_q / heads_kv;");
  emit_problem(w, *p.stream);
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
  if (p.stream->takes_positions()) w.line("const int aligned_rows = uniform({});", p.stream->aligned_rows());
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
  loop_of(p).emit_buffers(w, p, rows);
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
  emit_clean_range(
      w, *p.mask, p.score_context(),
      fmt::format("(keys - {} + m_block * {} / group)", p.aligned_rows(), p.BM),
      fmt::format("(keys - {} + (m_block * {} + max_of(rows, 1) - 1) / group)", p.aligned_rows(), p.BM));
  p.modifier->emit_rows(w, p.score_context());
  p.mask->emit_rows(w, p.score_context());
  const std::string accumulator = p.mfma.accumulator();
  w.line("float row_max = -kInfinity, row_sum = 0.0f;");
  w.line("{} s_acc[{}], o_acc[{}];", accumulator, p.score_tiles(), p.output_tiles());
  for (int i = 0; i < p.output_tiles(); ++i) w.line("o_acc[{}] = ({})(0.0f);", i, accumulator);
  w.line("u32x{} p[{}];", p.mfma.frag_regs(), p.BN / p.mfma.shape.k);
  for (int v = 0; v < p.q->num_vectors(); ++v) w.line("__asm volatile(\"\" : \"+v\"(q_reg[{}]));", v);
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
  const int tiles = loop_of(p).tiles(p);
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
  loop_of(p).use(prelude, p);
  p.q->use(prelude);
  p.modifier->use(prelude);
  p.row_scales.use(prelude);
  p.hidden.use(prelude);
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
  p.hidden.emit_page_functions(body, p.config);
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
  loop_of(p).emit(body, p);
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
