// The text of an sm80_prefill kernel. Each function emits one phase, in the order they stand in the kernel;
// the products have their own file.
#include "base/plural.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/schedules/common/parts.hpp"
#include "generator/schedules/sm80_prefill/plan.hpp"

namespace kiln::sm80 {
namespace {

std::vector<KernelParam> kernel_params(const PrefillPlan& p) {
  using Kind = KernelParam::Kind;
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  for (const char* role : {"q", "k", "v", "o"}) add(Kind::pointer, role);
  p.results.add_pointers(params);
  if (p.ragged) add(Kind::pointer, "cu_seqlens_q");
  if (operand_form(p.kind).ragged_k()) add(Kind::pointer, "cu_seqlens_k");
  if (p.part) add(Kind::pointer, "seqlens_k");
  if (p.table()) {
    add(Kind::pointer, "seqlens_k"), add(Kind::pointer, "page_table");
    add(Kind::i32, "page_table_stride"), add(Kind::i32, "num_pages"), add(Kind::i32, "key_capacity");
    add(Kind::i64, "k_stride_page"), add(Kind::i64, "v_stride_page");
  }
  if (p.config.operand->quantization) add(Kind::pointer, "k_scale"), add(Kind::pointer, "v_scale");
  p.scales->add_params(params);
  add(Kind::i32, "heads_q");
  add(Kind::i32, "heads_kv");
  if (!p.ragged) add(Kind::i32, "seqlen_q"), add(Kind::i32, "seqlen_k");
  p.results.add_total(params, p.ragged);
  for (const char* tensor : {"q", "k", "v", "o"}) {
    for (const char* axis : {"batch", "seq", "head"}) {
      if (p.ragged && std::string(axis) == "batch") continue;
      add(Kind::i64, fmt::format("{}_stride_{}", tensor, axis));
    }
  }
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors(p.results.lse())) add(Kind::f32, name);
  return params;
}

/// Type of the elements that a tensor's pointer names.
const char* element_of(const PrefillPlan& p, char tensor) {
  if (tensor == 'o') return *p.config.out_dtype == DType::f32 ? "float" : "u16";
  return tensor != 'q' && p.narrow() ? "u8" : "u16";
}

// Rows of the sequence `batch`, where it is not the same in all.
void emit_lengths(Writer& w, const PrefillPlan& p) {
  if (p.table()) {
    w.line("const int q_start = cu_seqlens_q[batch], seqlen_q = cu_seqlens_q[batch + 1] - q_start;");
    w.line("const int seqlen_k = min(max(seqlens_k[batch], 0), key_capacity);  // what the pages hold");
  } else if (p.ragged) {
    w.line("const int q_start = cu_seqlens_q[batch], k_start = cu_seqlens_k[batch];");
    w.line(
        "const int seqlen_q = cu_seqlens_q[batch + 1] - q_start, seqlen_k = cu_seqlens_k[batch + 1] - "
        "k_start;");
    if (p.part) w.line("{}", kAlignedRows);
  }
  if (p.ragged) {
    w.line("if (m_start >= seqlen_q) return;");
  }
}

void emit_first_tile(Writer& w, const PrefillPlan& p) {
  const std::string first = p.mask->first_read("block_position", "seqlen_k", "batch");
  if (p.mask->left_padding()) {
    w.line("const int first_tile = min({} / {}, max(num_tiles - 1, 0));", first, p.BN);
  } else {
    w.line("const int first_tile = {} / {};", first, p.BN);
  }
}

void emit_memory(Writer& w, const PrefillPlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem_q = smem_address(smem_bytes), smem_k = smem_q + {}, smem_v = smem_q + {};", p.smem_k,
         p.smem_v);
  if (p.narrow())
    w.line("const u32 smem_k_bytes = smem_q + {}, smem_v_bytes = smem_q + {};", p.smem_k_bytes,
           p.smem_v_bytes);
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
}

void emit_item(Writer& w, const PrefillPlan& p) {
  w.banner("work item: {} query rows of one head of one sequence", p.BM);
  if (p.mask->bounded_above()) {
    w.line("const int m_start = (int)(gridDim.x - 1 - blockIdx.x) * {};  // the longest rows first", p.BM);
  } else {
    w.line("const int m_start = (int)blockIdx.x * {};", p.BM);
  }
  w.line("const int head = blockIdx.y, batch = blockIdx.z, kv_head = head / (heads_q / heads_kv);");
  emit_lengths(w, p);
  if (operand_form(p.kind).block()) {
    w.comment("the sequence's block; one outside the pool has no rows, and reads as zeros");
    w.line("const int block = page_of(page_table, page_table_stride, num_pages, batch, 0);");
  }
}

void emit_first_rows(Writer& w, const PrefillPlan& p) {
  const char* sequence = p.ragged ? "{1}_start * {0}_stride_seq" : "batch * {0}_stride_batch";
  for (const char* tensor : {"q", "k", "v", "o"}) {
    const bool query = *tensor == 'q' || *tensor == 'o';
    std::string start = " + " + fmt::format(fmt::runtime(sequence), tensor, query ? "q" : "k");
    if (p.table() && !query)
      start = operand_form(p.kind).pages() ? "" : fmt::format(" + block * {}_stride_page", tensor);
    const char* fixed = query || !p.mask->bounded_below() ? " const" : "";
    w.line("{0}{6}*{5} {1}_head = {1}{2} + {3} * {1}_stride_head{4};", *tensor == 'o' ? "" : "const ", tensor,
           start, query ? "head" : "kv_head",
           query ? fmt::format(" + m_start * {}_stride_seq", tensor) : first_column(p.config), fixed,
           element_of(p, *tensor));
  }
  if (p.needs_rows())
    w.line("const int row_0 = m_start + 16 * warp + (lane >> 2);  // this lane's rows: row_0, row_0 + 8");
}

void emit_tile_range(Writer& w, const PrefillPlan& p) {
  if (!p.mask->bounded_above()) {
    w.line("const int num_tiles = (seqlen_k + {}) / {};", p.BN - 1, p.BN);
    return;
  }
  w.comment(
      "Keys that some row of the block sees, that some row of this warp sees, and that all rows of it see.");
  w.line(
      "const int block_position = m_start + seqlen_k - {}, warp_position = block_position + 16 * "
      "warp;",
      p.aligned_rows());
  w.line("const int block_end = {};",
         p.mask->end_key(
             fmt::format("(min(m_start + {}, seqlen_q) - 1 + seqlen_k - {})", p.BM, p.aligned_rows()),
             "seqlen_k", "batch"));
  w.line("const int warp_end = {};", p.mask->end_key("warp_position + 15", "seqlen_k", "batch"));
  w.line("const int clean_end = {};", p.mask->end_key("warp_position", "seqlen_k", "batch"));
  w.line("const int num_tiles = (max(block_end, 0) + {}) / {};", p.BN - 1, p.BN);
  if (!p.mask->bounded_below()) return;
  w.line("const int warp_begin = {};", p.mask->first_key("warp_position", "batch"));
  w.line("const int clean_begin = {};", p.mask->first_key("(warp_position + 15)", "batch"));
  emit_first_tile(w, p);
  if (p.page_size > 0) return;
  w.comment("the iterators of K and V start there");
  w.line(
      "k_head += (long long)first_tile * {0} * k_stride_seq; v_head += (long long)first_tile * {0} * "
      "v_stride_seq;",
      p.BN);
}

// Which rows, head and sequence; pointers to the first rows; how many KV tiles.
void emit_work(Writer& w, const PrefillPlan& p) {
  emit_memory(w, p);
  emit_item(w, p);
  emit_first_rows(w, p);
  emit_tile_range(w, p);
}

void emit_setup(Writer& w, const PrefillPlan& p) {
  w.banner("addresses");
  p.q->emit_construct(w, "q_head", "seqlen_q - m_start");
  std::string rows = p.mask->bounded_below() ? fmt::format("seqlen_k - first_tile * {}", p.BN) : "seqlen_k";
  if (operand_form(p.kind).block()) rows = fmt::format("(block < 0 ? 0 : {})", rows);
  p.k->emit_construct(w, "smem_k", "k_head", "k_stride_seq", rows);
  p.v->emit_construct(w, "smem_v", "v_head", "v_stride_seq", rows);
  if (p.page_size > 0) p.k->emit_pages(w, p.first_key());
  p.scales->emit_construct(w, p.smem_scales, p.first_key(),
                           operand_form(p.kind).block() ? "block < 0 ? 0 : seqlen_k" : "seqlen_k");
  if (p.head_scale()) w.line("const float k_factor = k_scale[{}];", p.head_of_scales());
  w.banner("accumulators");
  w.line("float s_acc[{}];  // S: 16 x {} scores of this warp", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 16 x {}", p.ov_depth / 2, p.ov_depth);
  w.line("u32 p[{}];  // P: 16 x {} as the A operand of P V", p.BN / 4, p.BN);
  if (p.q_in_registers)
    w.line("u32 q_reg[{}];  // Q: 16 x {} as the A operand of Q K'", p.q->num_registers(), p.depth);
  p.mask->emit_rows(w, p.score_context());
  p.modifier->emit_rows(w, p.score_context());
  p.softmax->emit_reset(w);
  emit_clear_output(w, p.ov_depth / 2);
}

void emit_softmax(Writer& w, const PrefillPlan& p) {
  p.modifier->emit_apply(w, p.score_context(), fmt::format("n * {}", p.BN));
  p.mask->emit_apply_where_cut(w, p.score_context(), p.BN);
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w, p.may_hide_all(), false);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w, 0, p.BN / 2, true);
  emit_p(w, p);
}

void emit_wait(Writer& w, int pending) {
  w.line("CP_ASYNC_WAIT({});", pending);
  w.line("__syncthreads();");
}

// Starts the copies of the next tile into a stage.
void emit_load(Writer& w, const PrefillPlan& p, int stage) {
  p.k->emit_load_from_dram(w, stage);
  p.v->emit_load_from_dram(w, stage);
}

// Two or more stages: tile n + stages - 1 is copied while tile n is computed.
void emit_tile(Writer& w, const PrefillPlan& p, int stage) {
  const int ahead = p.num_stages - 1, next = (stage + ahead) % p.num_stages;
  w.banner("KV tile n in stage {}", stage);
  w.open("if (n + {} < num_tiles)", ahead);
  emit_load(w, p, next);
  w.close();
  w.line("cp_async_commit();");
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, stage);
  emit_softmax(w, p);
  emit_pv(w, p, stage);
  w.close();
  w.line("if (++n == num_tiles) break;");
  w.comment("the next tile has landed, and every warp has finished this one");
  emit_wait(w, p.num_stages - 2);
}

// One stage: V(n) is copied during S, K(n + 1) during P V.
void emit_single_stage_tile(Writer& w, const PrefillPlan& p) {
  w.banner("KV tile n");
  p.v->emit_load_from_dram(w, 0);
  w.line("cp_async_commit();");
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, 0);
  emit_softmax(w, p);
  w.close();
  w.comment("V(n) has landed, and every warp has finished K(n)");
  emit_wait(w, 0);
  w.open("if (n + 1 < num_tiles)");
  p.k->emit_load_from_dram(w, 0);
  w.line("cp_async_commit();");
  w.close();
  open_if_visible(w, *p.mask, p.BN);
  emit_pv(w, p, 0);
  w.close();
  w.line("if (++n == num_tiles) break;");
  w.comment("K(n + 1) has landed, and every warp has finished V(n)");
  emit_wait(w, 0);
}

// Bytes: tile n is widened where tile n - 1 was, from a stage that then takes the copies of tile n + stages.
void emit_narrow_tile(Writer& w, const PrefillPlan& p, int stage) {
  w.banner("KV tile n, from stage {}", stage);
  w.comment("it has landed: each thread widens the bytes that it copied, and no other");
  w.line("CP_ASYNC_WAIT({});", p.num_stages - 1);
  p.k->emit_widen(w, stage);
  p.v->emit_widen(w, stage);
  p.scales->emit_store(w);
  p.scales->emit_load(w);
  w.open("if (n + {} < num_tiles)", p.num_stages);
  emit_load(w, p, stage);
  w.close();
  w.line("cp_async_commit();");
  w.comment("every thread has widened its part");
  w.line("__syncthreads();");
  open_if_visible(w, *p.mask, p.BN);
  emit_qk(w, p, 0);
  emit_softmax(w, p);
  emit_pv(w, p, 0);
  w.close();
  w.line("if (++n == num_tiles) break;");
  w.comment("every warp has finished this tile");
  w.line("__syncthreads();");
}

// Q and the first tiles on their way.
void emit_prologue(Writer& w, const PrefillPlan& p) {
  w.banner("prologue: Q and the first tiles on their way");
  p.q->emit_load_from_dram(w);
  if (p.num_stages > 1 || p.narrow()) {
    emit_load(w, p, 0);
  } else {
    p.k->emit_load_from_dram(w, 0);
  }
  p.scales->emit_load(w);
  w.line("cp_async_commit();");
  for (int tile = 1; tile < (p.narrow() ? p.num_stages : p.num_stages - 1); ++tile) {
    w.open("if ({} < num_tiles)",
           p.first_tile() == "0" ? std::to_string(tile) : fmt::format("first_tile + {}", tile));
    emit_load(w, p, tile);
    w.close();
    w.line("cp_async_commit();");
  }
  // Bytes are waited for where they are widened, and Q with them unless it is read before.
  if (!p.narrow()) emit_wait(w, std::max(0, p.num_stages - 2));
  if (!p.q_in_registers) return;
  if (p.narrow()) emit_wait(w, p.num_stages - 1);
  for (int step = 0; step < p.q->k_steps(); ++step) p.q->emit_load_from_shared(w, step);
}

void emit_main(Writer& w, const PrefillPlan& p) {
  w.open("if (num_tiles > {})", p.first_tile());
  emit_prologue(w, p);
  w.open("for (int n = {};;)", p.first_tile());
  for (int stage = 0; stage < p.num_stages; ++stage) {
    if (p.narrow()) {
      emit_narrow_tile(w, p, stage);
    } else if (p.num_stages == 1) {
      emit_single_stage_tile(w, p);
    } else {
      emit_tile(w, p, stage);
    }
  }
  w.close();
  w.close();
}

// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const PrefillPlan& p) {
  HiddenValues::Place place = HiddenValues::place_of(p.config, {});
  place.seqlen_q = p.aligned_rows();
  place.first_row = "m_start + 16 * warp", place.end_row = "min(m_start + 16 * warp + 16, seqlen_q)";
  place.visited_begin = p.first_key();
  place.visited_end = fmt::format("min(num_tiles * {}, seqlen_k)", p.BN);
  p.hidden.emit_repair(w, place, "any_lane(odd)", "__syncwarp();  // before rows are written again");
}

void emit_epilogue(Writer& w, const PrefillPlan& p) {
  p.hidden.emit_look(w, HiddenValues::first_rows("o_acc", p.ov_depth / 2));
  w.banner("epilogue: O / row_sum, LSE");
  p.softmax->emit_finish(w);
  if (p.results.lse()) {
    w.open("if ((lane & 3) == 0)");
    w.line(p.ragged ? "float* const lse_row = lse + (long long)head * total_q + q_start + row_0;"
                    : "float* const lse_row = lse + ((long long)batch * heads_q + head) * seqlen_q + row_0;");
    for (int r = 0; r < 2; ++r) {
      w.line("if (row_0 + {0} < seqlen_q) lse_row[{0}] = {1};", 8 * r, p.softmax->lse(r));
    }
    w.close();
  }
  if (p.head_scale()) {
    w.line("const float v_factor = v_scale[{}];", p.head_of_scales());
    w.line("const float out_scale_0 = inv_sum_0 * v_factor, out_scale_1 = inv_sum_1 * v_factor;");
  }
  const DType out = *p.config.out_dtype;
  const char* scale = p.head_scale() ? "out_scale" : "inv_sum";
  const char *first = "o_head + 16 * warp * o_stride_seq", *rows = "seqlen_q - m_start - 16 * warp";
  if (out == DType::f32) {
    p.o->emit_store_floats(w, first, "o_stride_seq", rows, scale);
    return emit_repair(w, p);
  }
  w.comment("This warp's rows of Q's shared memory are its own: O takes their place.");
  // With one stage the block has met since they were read, before V; with bytes, before K, unless Q was read
  // since.
  if (p.narrow() ? !p.q_in_registers : p.num_stages > 1) w.line("__syncwarp();");
  p.o->emit_store(w, pack_name(out), first, "o_stride_seq", rows, scale);
  emit_repair(w, p);
}

std::string head_facts(const PrefillPlan& p) {
  std::string memory;
  const auto region = [&](int begin, int end, const char* what) {
    if (begin < end) memory += fmt::format("\n  {:>7} .. {:>7}  {}", begin, end, what);
  };
  region(0, p.smem_k, "Q, then O on its way out");
  region(p.smem_k, p.smem_v, p.narrow() ? "K" : "K stages");
  region(p.smem_v, p.narrow() ? p.smem_scales : p.smem_bytes, p.narrow() ? "V" : "V stages");
  if (p.narrow()) {
    region(p.smem_scales, p.smem_k_bytes, "scales of the keys");
    region(p.smem_k_bytes, p.smem_v_bytes, "K stages, as bytes");
    region(p.smem_v_bytes, p.smem_bytes, "V stages, as bytes");
  }
  return fmt::format(
      "Schedule sm80_prefill: {} query rows ({} warps of 16) by {} keys a tile, {}, strips of "
      "{}.\n"
      "Registers: at most {} a thread; Q {}.\n"
      "Shared memory ({} bytes):{}",
      p.BM, p.num_warps, p.BN, number_of(p.num_stages, "KV stage"), p.BK, p.max_registers,
      p.q_in_registers ? "stays in registers" : "is read from shared memory for every tile", p.smem_bytes,
      memory);
}

Manifest manifest(const PrefillPlan& p, std::vector<KernelParam> params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads;
  m.smem_bytes = p.smem_bytes;
  m.grid = {GridRule::Kind::tiles, p.BM, 1};
  m.params = std::move(params);
  m.expectations = {{"mma.sync.aligned.m16n8k16", p.num_stages * (p.BN / 8) * (p.depth + p.ov_depth) / 16}};
  return m;
}

}  // namespace

KernelSource emit_prefill(const PrefillPlan& p) {
  Prelude prelude("sm80.cuh");
  prelude.use("smem_address");
  prelude.use("shared_access");
  const std::string mma = p.config.dtype == DType::bf16 ? "mma_bf16" : "mma_fp16";
  prelude.use(mma + "_first");
  prelude.use(pack_name(p.config.dtype));
  use_output(prelude, *p.config.out_dtype);
  p.results.use(prelude);
  p.k->use(prelude);
  p.v->use(prelude);
  p.softmax->use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);

  const auto params = without_fixed_heads(kernel_params(p), p.config);
  KernelSource source;
  source.manifest = manifest(p, params);

  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  MHAOperand(p.kind, p.page_size, 1).emit_functions(body);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", p.num_threads);
  body.open("{}({})", source.manifest.entry,
            parameter_list(params, {.kv_bytes = p.narrow(), .o_floats = *p.config.out_dtype == DType::f32}));
  emit_work(body, p);
  emit_setup(body, p);
  emit_main(body, p);
  emit_epilogue(body, p);
  body.close();

  set_text(source, head_facts(p), body.lines());
  return source;
}

}  // namespace kiln::sm80
