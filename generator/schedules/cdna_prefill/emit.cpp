// The text of a cdna_prefill kernel. Each function emits one phase, in the order they stand in the kernel.
#include "base/plural.hpp"
#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/cdna_prefill/loops.hpp"
#include "generator/schedules/common/cdna_tensors.hpp"
#include "generator/schedules/common/parts.hpp"

namespace kiln::cdna {
namespace {

std::vector<KernelParam> kernel_params(const PrefillPlan& p) {
  using Kind = KernelParam::Kind;
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  for (const char* role : p.tensors()) add(Kind::pointer, role);
  p.results.add_pointers(params);
  add_scale_params(params, p.config, p.row_scales, !p.v_in_k());
  if (p.ragged_q()) add(Kind::pointer, "cu_seqlens_q");
  if (operand_form(p.kind).ragged_k()) add(Kind::pointer, "cu_seqlens_k");
  if (p.part) add(Kind::pointer, "seqlens_k");
  if (p.table()) add(Kind::pointer, "seqlens_k"), add(Kind::pointer, "page_table");
  add(Kind::i32, "heads_q");
  add(Kind::i32, "heads_kv");
  if (!p.ragged_q()) add(Kind::i32, "seqlen_q"), add(Kind::i32, "seqlen_k");
  p.results.add_total(params, p.ragged_q());
  if (p.table()) add(Kind::i32, "page_table_stride"), add(Kind::i32, "num_pages");
  if (p.mask->bounded_above()) add(Kind::i32, "num_m_blocks");
  add_stride_params(params, tensors_of(p));
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.factors()) add(Kind::f32, name);
  return params;
}

/// Of the tensors those that the main loop reads, and what is left for the end of a kernel.
Tensors inputs_of(const PrefillPlan& p) {
  Tensors tensors = tensors_of(p);
  std::erase_if(tensors.names, [](const char* name) { return *name == 'o'; });
  return tensors;
}
Tensors output_of(const PrefillPlan& p) {
  Tensors tensors = tensors_of(p);
  tensors.names = {"o"};
  return tensors;
}

// Lengths of the sequence; a block without rows may return between the two.
void emit_query_lengths(Writer& w, const PrefillPlan& p) {
  if (p.ragged_q())
    w.line("const int q_start = cu_seqlens_q[batch], seqlen_q = cu_seqlens_q[batch + 1] - q_start;");
}
void emit_key_lengths(Writer& w, const PrefillPlan& p) {
  if (operand_form(p.kind).ragged_k())
    w.line("const int k_start = cu_seqlens_k[batch], seqlen_k = cu_seqlens_k[batch + 1] - k_start;");
  if (p.table()) w.line("const int seqlen_k = seqlens_k[batch];");
  if (p.part) w.line("{}", kAlignedRows);
}

// Lengths of the sequence, and pointers to its first rows.
void emit_sequence(Writer& w, const PrefillPlan& p) {
  emit_query_lengths(w, p);
  if (p.ragged_q()) w.line("if (m_start >= seqlen_q) return;");
  emit_key_lengths(w, p);
  if (p.table()) {
    w.line(
        "const CONSTANT int* const pages = (const CONSTANT int*)(page_table + (long long)batch * "
        "page_table_stride);");
  }
  if (operand_form(p.kind).block()) {
    w.line("const int block = pages[0];");
    w.line("const int block_rows = (u32)block < (u32)num_pages ? seqlen_k : 0;  // no block: zeros");
  }
  emit_head_pointers(w, p.hidden.on() ? inputs_of(p) : tensors_of(p), {"batch", "head", "m_start"},
                     first_column(p.config));
  p.row_scales.emit_heads(w, p.scores(), "batch");
}

// The end of the keys that the block's last row sees.
std::string block_end(const PrefillPlan& p) {
  return p.mask->end_key(
      fmt::format("(min(m_start + {}, seqlen_q) - 1 + seqlen_k - {})", p.BM, p.aligned_rows()), "seqlen_k",
      "batch");
}

// The first tile that a block reads, whose first row is at key position `position`.
void emit_first_tile(Writer& w, const PrefillPlan& p, const std::string& position) {
  const std::string first = p.mask->first_read(position, "seqlen_k", "batch");
  if (p.mask->left_padding()) {
    w.line("const int first_tile = min({} / {}, max(num_tiles - 1, 0));", first, p.BN);
  } else {
    w.line("const int first_tile = {} / {};", first, p.BN);
  }
}

// The tiles of a block under a bounded mask, without the names that emit_work gives to what they are made of.
void emit_tiles_of_block(Writer& w, const PrefillPlan& p) {
  w.line("const int num_tiles = (max({}, 0) + {}) / {};", block_end(p), p.BN - 1, p.BN);
  if (p.mask->bounded_below())
    emit_first_tile(w, p, fmt::format("(m_start + seqlen_k - {})", p.aligned_rows()));
}

// Which rows, head and sequence; pointers to the first rows; how many KV tiles.
void emit_work(Writer& w, const PrefillPlan& p) {
  w.line("extern __shared__ __attribute__((aligned(1024))) u8 smem_bytes[];");
  w.line("LDS u8* const lds = (LDS u8*)smem_bytes;");
  w.line("const u32 lds_start = (u32)(u64)lds;");
  w.line("const int thread = (int)__builtin_amdgcn_workitem_id_x(), lane = thread & 63;");
  w.line("const int warp = uniform(thread >> 6);");
  w.banner("work item: {} query rows of one head of one sequence", p.BM);
  if (p.mask->bounded_above()) {
    w.line(
        "const int m_start = (num_m_blocks - 1 - (int)__builtin_amdgcn_workgroup_id_x()) * {};  // the "
        "longest rows first",
        p.BM);
  } else {
    w.line("const int m_start = (int)__builtin_amdgcn_workgroup_id_x() * {};", p.BM);
  }
  w.line(
      "const int head = (int)__builtin_amdgcn_workgroup_id_y(), batch = "
      "(int)__builtin_amdgcn_workgroup_id_z();");
  w.line("const int kv_head = head / (heads_q / heads_kv);");
  emit_sequence(w, p);
  if (p.scales) {
    const Quantization& q = *p.config.operand->quantization;
    const std::string head = scale_of_head(q, "batch", "kv_head");
    const std::string query = fmt::format("q_scale[{}] * ", scale_of_query(q, "batch", "kv_head"));
    w.comment("what one unit of Q K' stands for is a factor of the softmax scale");
    w.line("const float qk_unit = {2}k_scale[{0}], v_unit = {1}_scale[{0}];", head, p.v_in_k() ? "k" : "v",
           p.q_bytes() ? query : "");
    for (const char* name : p.factors()) w.line("{} *= qk_unit;", name);
  }
  w.line("const int block_row = warp * {} + (lane & {});  // this lane's row of the block's", p.WM(),
         p.WM() - 1);
  w.line("const int row = m_start + block_row;");
  if (!p.mask->bounded_above()) {
    w.line("const int num_tiles = (seqlen_k + {}) / {};", p.BN - 1, p.BN);
    return;
  }
  w.comment(
      "Keys that some row of the block sees, that some row of this wave sees, and that all of them see.");
  w.line("const int block_position = m_start + seqlen_k - {};", p.aligned_rows());
  w.line("const int warp_position = block_position + {} * warp;", p.WM());
  const std::string warp_last = fmt::format("(warp_position + {})", p.WM() - 1);
  w.line("const int block_end = {};", block_end(p));
  w.line("const int warp_end = {};", p.mask->end_key(warp_last, "seqlen_k", "batch"));
  w.line("const int clean_end = {};", p.mask->end_key("warp_position", "seqlen_k", "batch"));
  w.line("const int num_tiles = (max(block_end, 0) + {}) / {};", p.BN - 1, p.BN);
  if (!p.mask->bounded_below()) return;
  w.line("const int warp_begin = {};", p.mask->first_key("warp_position", "batch"));
  w.line("const int clean_begin = {};", p.mask->first_key(warp_last, "batch"));
  emit_first_tile(w, p, "block_position");
}

void emit_setup(Writer& w, const PrefillPlan& p, const KvLoop& loop) {
  w.banner("addresses");
  const char* rows = operand_form(p.kind).block() ? "block_rows" : "seqlen_k";
  const std::string first = p.mask->bounded_below() ? fmt::format("first_tile * {}", p.BN) : "0";
  loop.emit_buffers(w, rows, first);
  w.banner("accumulators");
  const std::string accumulator = p.mfma.accumulator();
  w.line("{} s_acc[{}];  // S': {} keys x {} queries of this wave", accumulator, p.BN / p.mfma.shape.m, p.BN,
         p.WM());
  p.row_scales.emit_part(w, p.scores(), accumulator);
  w.line("{} o_acc[{}];  // O': {} columns x {}", accumulator, p.ov_columns / p.mfma.shape.m, p.ov_columns,
         p.WM());
  w.line("u32x{} p[{}];  // P' as the B operand of V' P'", p.mfma.frag_regs(), p.BN / p.mfma.shape.k);
  p.mask->emit_rows(w, p.score_context());
  p.modifier->emit_rows(w, p.score_context());
  p.softmax->emit_reset(w);
  for (int i = 0; i < p.ov_columns / p.mfma.shape.m; ++i) w.line("o_acc[{}] = ({})(0.0f);", i, accumulator);
}

void emit_main(Writer& w, const PrefillPlan& p, const KvLoop& loop) {
  w.banner("Q, and the first tiles on their way");
  const int size = static_cast<int>(size_of(p.config.dtype));
  w.line("const int q_row_bytes = (int){}, rows_left = seqlen_q - m_start;",
         factor(times("q_stride_seq", size)));
  p.q->emit_construct(w, "q_head", fmt::format("(rows_left - 1) * q_row_bytes + {}", p.depth * size),
                      "block_row * q_row_bytes");
  w.open("if (num_tiles > {})", p.first_tile());
  loop.emit_first_loads(w);
  w.comment(
      "Q last: the compiler waits for it without knowing of the copies, and so for everything before it.");
  p.q->emit_load(w);
  w.comment(
      "Q arrives here: inside the loop the compiler would wait for it, and so for all loads, in every tile.");
  for (int v = 0; v < p.q->num_vectors(); ++v) w.line("__asm volatile(\"\" : \"+v\"(q_reg[{}]));", v);
  loop.emit(w);
  w.close();
}

/// Whether V of some key has made a column of O NaN or infinite: that of all rows.
void emit_look(Writer& w, const PrefillPlan& p) {
  std::vector<std::string> elements;
  for (int i = 0; i < p.ov_columns / p.mfma.shape.m; ++i)
    for (int e = 0; e < p.mfma.accum(); ++e) elements.push_back(fmt::format("o_acc[{}][{}]", i, e));
  HiddenValues::emit_look(w, elements);
}

ParameterStyle style_of(const PrefillPlan& p) {
  return {.q_bytes = p.q_bytes(), .kv_bytes = p.kv_bytes(), .o_floats = *p.config.out_dtype == DType::f32};
}

// Arguments, and what follows from them, under the names that they have: kept for the end of a kernel, pointers and
// strides would take scalar registers through the main loop.
void emit_arguments_again(Writer& w, const PrefillPlan& p, std::vector<KernelParam> params) {
  w.line("const CONSTANT Arguments* const again = arguments_again<Arguments>();");
  // Factors are no longer what came where a scale is part of them.
  if (p.scales)
    for (const char* factor : p.factors())
      std::erase_if(params, [&](const KernelParam& param) { return param.role == factor; });
  w.raw(arguments_read_again(params, "again", style_of(p)));
  w.line("const int kv_head = head / (heads_q / heads_kv);");
  emit_query_lengths(w, p);
  emit_key_lengths(w, p);
  emit_tiles_of_block(w, p);
  w.line("const int rows_left = seqlen_q - m_start;");
  emit_head_pointers(w, output_of(p), {"batch", "head", "m_start"}, "");
}

// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const PrefillPlan& p) {
  HiddenValues::Place place = HiddenValues::place_of(p.config, {});
  place.first_row = fmt::format("m_start + {} * warp", p.WM());
  place.end_row = fmt::format("min(m_start + {0} * warp + {0}, seqlen_q)", p.WM());
  place.seqlen_q = p.aligned_rows();
  place.visited_begin = fmt::format("{} * {}", p.first_tile(), p.BN);
  place.visited_end = fmt::format("min(num_tiles * {}, seqlen_k)", p.BN);
  p.hidden.emit_repair(w, place, "any_lane(odd)", "WAIT_LOADS(0);  // the store has been written");
}

void emit_epilogue(Writer& w, const PrefillPlan& p, const std::vector<KernelParam>& params) {
  if (p.hidden.on()) {
    emit_look(w, p);
    w.open("");
    emit_arguments_again(w, p, params);
  }
  w.banner("epilogue: O / row_sum, LSE");
  p.softmax->emit_finish(w);
  if (p.scales) w.line("const float out_factor = inv_sum * v_unit;");
  if (p.results.lse()) {
    w.open("if (lane < {} && row < seqlen_q)", p.WM());
    w.line(p.ragged_q()
               ? "float* const lse_row = lse + (long long)head * total_q + q_start + row;"
               : "float* const lse_row = lse + ((long long)batch * heads_q + head) * seqlen_q + row;");
    w.line("*lse_row = {};", p.softmax->lse());
    w.close();
  }
  w.comment("Rows past the end are sent where the descriptor drops them.");
  const int size = static_cast<int>(size_of(*p.config.out_dtype));
  w.line("const int o_row_bytes = (int){};", factor(times("o_stride_seq", size)));
  p.q->emit_store(w, "o_head", fmt::format("(rows_left - 1) * o_row_bytes + {}", p.ov_depth * size),
                  "block_row < rows_left ? (u32)(block_row * o_row_bytes) : 0x80000000u");
  if (!p.hidden.on()) return;
  emit_repair(w, p);
  w.close();
}

std::string head_facts(const PrefillPlan& p, const KvLoop& loop) {
  std::string out =
      fmt::format("Schedule {}: {} query rows ({} waves of {}) by {} keys a tile, strips of {}.\n",
                  *p.config.schedule, p.BM, p.num_warps, p.WM(), p.BN, p.BK);
  out += loop.fact();
  out += fmt::format("LDS ({} bytes):", p.smem_bytes);
  for (const KvLoop::Region& r : loop.regions())
    out += fmt::format("\n  {:>7} .. {:>7}  {}, {}", r.begin, r.end, r.what, number_of(r.stages, "stage"));
  return out;
}

Manifest manifest(const PrefillPlan& p, const KvLoop& loop, std::vector<KernelParam> params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads;
  m.smem_bytes = p.smem_bytes;
  m.grid = {GridRule::Kind::tiles, p.BM, 1};
  m.params = std::move(params);
  const int rope = p.k_rope ? p.k_rope->products() : 0;
  const int tile = p.k->blocks() * p.k->products() + rope + p.v->blocks() * p.v_slices * p.v->products();
  m.expectations.push_back({p.mfma.mnemonic(), loop.products_before() + p.loop_tiles() * tile});
  return m;
}

}  // namespace

KernelSource emit_prefill(const PrefillPlan& p) {
  Prelude prelude("cdna.hip");
  for (const char* section : {"types", "uniform", "waits", "schedule_fence"}) prelude.use(section);
  const auto use_pack = [&](DType type) {
    // Before CDNA4 there is no conversion to BF16.
    prelude.use(is_fp8(type)                        ? "pack_fp8"
                : type == DType::fp16               ? "pack_fp16"
                : p.config.target == Target::gfx950 ? "pack_bf16"
                                                    : "pack_bf16_by_hand");
  };
  use_pack(p.config.dtype);
  if (*p.config.out_dtype != DType::f32) use_pack(*p.config.out_dtype);
  const std::unique_ptr<const KvLoop> loop = loop_of(p);
  loop->use(prelude);
  p.hidden.use(prelude);
  if (p.hidden.on()) prelude.use("wait_loads"), prelude.use("arguments_again");
  p.row_scales.use(prelude);
  p.results.use(prelude);
  p.k->use(prelude);
  if (p.k_rope) p.k_rope->use(prelude);
  p.v->use(prelude);
  p.q->use(prelude);
  p.softmax->use(prelude);
  p.modifier->use(prelude);

  const auto params = without_fixed_heads(kernel_params(p), p.config);
  KernelSource source;
  source.manifest = manifest(p, *loop, params);

  Writer body;
  body.line("#define kInfinity __builtin_inff()");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  // Tiles find their pages by lanes; the rows that come over again, one at a time.
  if (p.hidden.on()) {
    MHAOperand(p.kind, p.config.operand->page_size.value_or(1), 1).emit_functions(body);
    emit_argument_struct(body, params, style_of(p));
  }
  body.line("extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size({0}, {0})))", p.num_threads);
  body.open("void {}({})", source.manifest.entry, parameter_list(params, style_of(p)));
  emit_work(body, p);
  emit_setup(body, p, *loop);
  emit_main(body, p, *loop);
  emit_epilogue(body, p, params);
  body.close();

  set_text(source, head_facts(p, *loop), body.lines());
  return source;
}

}  // namespace kiln::cdna
