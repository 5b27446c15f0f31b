// The text of an sm80_prefill kernel. Each function emits one phase, in the order of the kernel; what varies
// is an object (parts.hpp), and the products have their own file.
#include "base/plural.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/schedules/common/kv_loop_text.hpp"
#include "generator/schedules/sm80_prefill/parts.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm80 {
namespace {

std::vector<KernelParam> kernel_params(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  using Kind = KernelParam::Kind;
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  for (const char* role : {"q", "k", "v", "o"}) add(Kind::pointer, role);
  p.results.add_pointers(params);
  parts.sequences->add_offsets(params);
  if (p.config.operand->quantization) add_scale_pointers(params);
  p.scales->add_params(params);
  add(Kind::i32, "heads_q");
  add(Kind::i32, "heads_kv");
  parts.sequences->add_lengths(params);
  p.results.add_total(params, parts.sequences->ragged());
  for (const char* tensor : {"q", "k", "v", "o"}) {
    for (const char* axis : parts.sequences->axes())
      add(Kind::i64, fmt::format("{}_stride_{}", tensor, axis));
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

void emit_first_tile(Writer& w, const PrefillPlan& p) {
  const std::string first = p.mask->first_read("block_position", "seqlen_k", "batch");
  if (p.mask->left_padding()) {
    w.line("const int first_tile = min({} / {}, max(num_tiles - 1, 0));", first, p.BN);
  } else {
    w.line("const int first_tile = {} / {};", first, p.BN);
  }
}

void emit_memory(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem_q = smem_address(smem_bytes), smem_k = smem_q + {}, smem_v = smem_q + {};", p.smem_k,
         p.smem_v);
  parts.pipeline->emit_addresses(w);
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
}

void emit_item(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.banner("work item: {} query rows of one head of one sequence", p.BM);
  if (p.mask->bounded_above()) {
    w.line("const int m_start = (int)(gridDim.x - 1 - blockIdx.x) * {};  // the longest rows first", p.BM);
  } else {
    w.line("const int m_start = (int)blockIdx.x * {};", p.BM);
  }
  w.line("const int head = blockIdx.y, batch = blockIdx.z, kv_head = head / (heads_q / heads_kv);");
  parts.sequences->emit_lengths(w);
}

void emit_first_rows(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  for (const char* tensor : {"q", "k", "v", "o"}) {
    const bool query = *tensor == 'q' || *tensor == 'o';
    const std::string start =
        query ? parts.sequences->query_start(tensor) : parts.sequences->key_start(tensor);
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
  if (p.mask->by_place()) {
    w.line(
        "const int block_position = m_start + seqlen_k - {}, warp_position = block_position + 16 * "
        "warp;",
        p.aligned_rows());
  }
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
void emit_work(Writer& w, const Parts& parts) {
  emit_memory(w, parts);
  emit_item(w, parts);
  emit_first_rows(w, parts);
  emit_tile_range(w, parts.plan);
}

void emit_setup(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.banner("addresses");
  p.q->emit_construct(w, "q_head", "seqlen_q - m_start");
  const std::string rows = parts.sequences->readable(
      p.mask->bounded_below() ? fmt::format("seqlen_k - first_tile * {}", p.BN) : "seqlen_k");
  p.k->emit_construct(w, "smem_k", "k_head", "k_stride_seq", rows);
  p.v->emit_construct(w, "smem_v", "v_head", "v_stride_seq", rows);
  if (p.page_size > 0) p.k->emit_pages(w, p.first_key());
  p.scales->emit_construct(w, p.smem_scales, p.first_key(), parts.sequences->readable("seqlen_k"));
  parts.scales->emit_construct(w);
  w.banner("accumulators");
  w.line("float s_acc[{}];  // S: 16 x {} scores of this warp", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 16 x {}", p.ov_depth / 2, p.ov_depth);
  w.line("u32 p[{}];  // P: 16 x {} as the A operand of P V", p.BN / 4, p.BN);
  parts.queries->emit_declare(w);
  p.mask->emit_rows(w, p.score_context());
  p.modifier->emit_rows(w, p.score_context());
  p.softmax->emit_reset(w);
  emit_clear_output(w, p.ov_depth / 2);
}

// Q and the first tiles on their way.
void emit_prologue(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.banner("prologue: Q and the first tiles on their way");
  p.q->emit_load_from_dram(w);
  parts.pipeline->emit_first_load(w);
  p.scales->emit_load(w);
  w.line("cp_async_commit();");
  for (int tile = 1; tile < parts.pipeline->tiles_before(); ++tile) {
    w.open("if ({} < num_tiles)",
           p.first_tile() == "0" ? std::to_string(tile) : fmt::format("first_tile + {}", tile));
    parts.pipeline->emit_load(w, tile);
    w.close();
    w.line("cp_async_commit();");
  }
  parts.pipeline->emit_wait_first(w);
  parts.queries->emit_read(w, *parts.pipeline);
}

void emit_main(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.open("if (num_tiles > {})", p.first_tile());
  emit_prologue(w, parts);
  w.open("for (int n = {};;)", p.first_tile());
  for (int stage = 0; stage < p.num_stages; ++stage) parts.pipeline->emit_tile(w, parts, stage);
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

void emit_epilogue(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  p.hidden.emit_look(w, HiddenValues::first_rows("o_acc", p.ov_depth / 2));
  w.banner("epilogue: O / row_sum, LSE");
  p.softmax->emit_finish(w);
  if (p.results.lse()) {
    w.open("if ((lane & 3) == 0)");
    w.line("float* const lse_row = lse + {};", parts.sequences->lse_row());
    for (int r = 0; r < 2; ++r) {
      w.line("if (row_0 + {0} < seqlen_q) lse_row[{0}] = {1};", 8 * r, p.softmax->lse(r));
    }
    w.close();
  }
  const char* scale = parts.scales->emit_output(w);
  const DType out = *p.config.out_dtype;
  const char *first = "o_head + 16 * warp * o_stride_seq", *rows = "seqlen_q - m_start - 16 * warp";
  if (out == DType::f32) {
    p.o->emit_store_floats(w, first, "o_stride_seq", rows, scale);
    return emit_repair(w, p);
  }
  w.comment("This warp's rows of Q's shared memory are its own: O takes their place.");
  if (parts.pipeline->may_read_late(*parts.queries)) w.line("__syncwarp();");
  p.o->emit_store(w, pack_name(out), first, "o_stride_seq", rows, scale);
  emit_repair(w, p);
}

std::string head_facts(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const std::string memory = region(0, p.smem_k, "Q, then O on its way out") + parts.pipeline->regions();
  return fmt::format(
      "Schedule sm80_prefill: {} query rows ({} warps of 16) by {} keys a tile, {}, strips of "
      "{}.\n"
      "Registers: at most {} a thread; Q {}.\n"
      "Shared memory ({} bytes):{}",
      p.BM, p.num_warps, p.BN, number_of(p.num_stages, "KV stage"), p.BK, p.max_registers,
      parts.queries->read_in_loop() ? "is read from shared memory for every tile" : "stays in registers",
      p.smem_bytes, memory);
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

void emit_softmax(Writer& w, const PrefillPlan& p) {
  p.modifier->emit_apply(w, p.score_context(), fmt::format("n * {}", p.BN));
  p.mask->emit_apply_where_cut(w, p.score_context(), p.BN);
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w, p.may_hide_all(), false);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w, 0, p.BN / 2, true);
  emit_p(w, p);
}

KernelSource emit_prefill(const PrefillPlan& p) {
  const Parts parts = make_parts(p);
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

  const auto params = without_fixed_heads(kernel_params(parts), p.config);
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
  emit_work(body, parts);
  emit_setup(body, parts);
  emit_main(body, parts);
  emit_epilogue(body, parts);
  body.close();

  set_text(source, head_facts(parts), body.lines());
  return source;
}

}  // namespace kiln::sm80
