// The text of an sm100_latent_pair kernel: parameters, prelude, what the sections of its template leave open.
#include "base/plural.hpp"
#include "generator/config/quantization.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/common/sm100_packed_rows.hpp"
#include "generator/schedules/sm100_latent_pair/parts.hpp"
#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {
namespace {

using Kind = KernelParam::Kind;
using sm90::MHAOperand;

PackedRows packed_rows(const PairPlan& p) {
  return {.config = p.config,
          .stream = *p.stream,
          .results = p.results,
          .hidden = p.hidden,
          .rows = p.kRows,
          .part_floats = p.kBlocks * p.partial_floats(),
          .own_part = fmt::format(" + rank * {}", p.partial_floats()),
          .value_factor = p.scales ? "value_scale * " : "",
          .value_scale = p.scales ? "value_scale" : "1.0f",
          .q_chunk = 16 / p.element_bytes(),
          .top_shift = elements_of(p.config.dtype)->top_shift()};
}

std::vector<KernelParam> kernel_params(const PairPlan& p) {
  const TensorMapSpec map = p.operand->map(kSpanColumns, p.span_bytes(), gather4_l2_promotion(p.config, 128));
  std::vector<KernelParam> params{{Kind::tensor_map, "k", map}};
  if (p.rope > 0) params.push_back({Kind::tensor_map, "k_rope", map});
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  p.results.add_pointers(params);
  if (p.scales) add(Kind::pointer, "q_scale"), add(Kind::pointer, "k_scale");
  if (!p.stream->by_rows()) add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  packed_rows(p).add_params(params, *p.mask, *p.modifier);
  return without_fixed_heads(std::move(params), p.config);
}

Prelude prelude_of(const PairPlan& p) {
  Prelude prelude("sm100.cuh");
  for (const char* section : {"types",
                              "smem_address",
                              "elect_one",
                              "mbarrier_init",
                              "fence_mbarrier_init",
                              "mbarrier_expect_tx",
                              "mbarrier_wait",
                              "mbarrier_arrive_cluster",
                              "cluster_rank",
                              "cluster_sync",
                              "named_barrier",
                              "prefetch_tensor_map",
                              "dependent_launch",
                              "fence_proxy_async",
                              "descriptor",
                              "copy_async_16",
                              "zero_16_bytes",
                              "shared_words",
                              "store_shared_float",
                              "exp2_approx",
                              "max_of_three",
                              "pairs",
                              "row_base",
                              "tmem_alloc_pair",
                              "tcgen05_fence",
                              "tmem_wait_store",
                              "tcgen05_commit_pair"})
    prelude.use(section);
  p.operand->use_copies(prelude);
  p.operand->use_copies(prelude, MHAOperand::Counted::by_pair);
  elements_of(p.config.dtype)->use(prelude, true);
  use_output(prelude, *p.config.out_dtype);
  p.results.use(prelude);
  if (p.stream->splits()) prelude.use("atomic_add_acq_rel");
  p.stream->use(prelude);
  p.modifier->use(prelude);
  p.scores_access().add_load(prelude);
  p.output_access().add_load(prelude);
  p.output_access().add_store(prelude);
  p.hidden.use(prelude);
  return prelude;
}

std::string word(unsigned x) {
  return fmt::format("{:#x}u", x);
}

std::string kind_name(const PairPlan& p, int block) {
  return p.columns_of(block) == p.columns_of(0) ? "kOutputKind" : "kLastOutputKind";
}

/// The instruction descriptors of O's blocks: the last one may be half as wide.
void emit_output_kinds(Writer& w, const PairPlan& p) {
  const auto line = [&](int block) {
    w.line("constexpr u32 {} = {};  // {} columns", kind_name(p, block),
           word(layout::tcgen05_instruction(p.config.dtype, p.kItemRows, p.columns_of(block), true)),
           p.columns_of(block));
  };
  const int last = p.out_blocks() - 1;
  line(0);
  if (p.columns_of(last) < p.columns_of(0)) line(last);
}

std::string issue_name(const PairPlan& p, int chunk) {
  return p.num_qk_stages > 1 ? fmt::format("issue_scores_{}", chunk) : "issue_scores";
}

/// A function for each chunk of K.
void emit_issue_scores(Writer& w, const PairPlan& p) {
  const int chunks = p.num_qk_stages, steps = p.k->panels_per_chunk() * kSpanColumns / p.step_columns();
  for (int chunk = 0; chunk < chunks; ++chunk) {
    w.open("__device__ __forceinline__ void {}(u32 s, u32 q, u32 k)", issue_name(p, chunk));
    for (int step = steps * chunk; step < std::min(steps * (chunk + 1), p.k_steps()); ++step)
      w.line("mma_smem(s, descriptor(q + {}, kQHigh), descriptor(k + {}, kKHigh), kScoresKind, {});",
             p.q_descriptor().step(step), p.k->descriptor().step(step), step > 0);
    w.close();
  }
}

/// A function for each block of V's columns.
void emit_issue_output(Writer& w, const PairPlan& p) {
  const auto& v = p.v->descriptor();
  int panel = 0;
  for (int block = 0; block < p.out_blocks(); ++block) {
    w.open("__device__ __forceinline__ void issue_output_{}(u32 o, u32 p, u32 v, bool add)", block);
    for (int step = 0; step < p.v_steps(); ++step)
      w.line("mma_smem(o + {}, descriptor(p + {}, kPHigh), descriptor(v + {}, kVHigh), {}, {});",
             block * p.kColumns / 2, p.p_descriptor().step(step),
             (panel * v.tile().panel_bytes() >> 4) + v.step(step), kind_name(p, block),
             step == 0 ? "add" : "true");
    w.close();
    panel += p.columns_of(block) / 128;
  }
}

void emit_products_k(Writer& w, const PairPlan& p) {
  for (int chunk = 0; chunk < p.num_qk_stages; ++chunk) {
    p.k->emit_wait(w, chunk);
    w.open("if (elect_one())");
    w.line("{}(tmem + s_buffer * 64, q_desc, {});", issue_name(p, chunk), p.k->get());
    if (chunk + 1 == p.num_qk_stages) w.line("tcgen05_commit(mbar_s_full + 8 * s_buffer);");
    w.line("tcgen05_commit({});", p.k->ring().empty(chunk));
    w.close();
  }
}

void emit_products_v(Writer& w, const PairPlan& p) {
  for (int block = 0; block < p.out_blocks(); ++block) {
    const int chunk = p.chunk_of(block);
    if (block == 0 || p.rings.v_chunks > 1) p.v->emit_wait(w, chunk);
    w.open("if (elect_one())");
    w.line("issue_output_{}(tmem + {}, p_desc, {}, add);", block, p.tmem_o(), p.v->get());
    if (p.ends_chunk(block)) w.line("tcgen05_commit({});", p.v->ring().empty(chunk));
    if (block + 1 == p.out_blocks()) w.line("tcgen05_commit(mbar_o_full);");
    w.close();
  }
}

void emit_wait_v(Writer& w, const PairPlan& p) {
  for (int chunk = 0; chunk < p.rings.v_chunks; ++chunk) p.v->emit_wait(w, chunk);
}

void emit_tell_v(Writer& w, const PairPlan& p) {
  for (int chunk = 0; chunk < p.rings.v_chunks; ++chunk) {
    p.v->emit_wait(w, chunk);
    w.line("__syncwarp();  // every lane has seen the phase that the arrival lets end");
    w.line("if (lane == 0) mbarrier_arrive_cluster({}, 0);", p.v->ring().full(chunk));
  }
}

/// V's columns have come when they are in both blocks, of which the second's arrive at the first.
void emit_ring_init(Writer& w, const PairPlan& p) {
  p.k->ring().emit_init(w, 1, 1);
  for (int i = 0; i < p.v->ring().num_barriers() / 2; ++i)
    w.line("mbarrier_init({}, rank == 0 ? 2 : 1), mbarrier_init({}, 1);", plus("mbar_v_full", 8 * i),
           plus("mbar_v_empty", 8 * i));
}

/// Keys that no row of this block has hidden, and what masks and modifiers ask of the thread's row.
void emit_limits(Writer& w, const PairPlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first = fmt::format("(s.sequence.seqlen_k - {} + ", p.stream->aligned_rows());
  emit_clean_range(w, *p.mask, context, first + "row_query[0])", first + "row_query[max(rows, 1) - 1])");
  p.modifier->emit_rows(w, context);
  p.mask->emit_rows(w, context);
}

/// Of Q and of the keys of this head.
void emit_head_scale(Writer& w, const PairPlan& p) {
  if (!p.scales) return;
  const Quantization& q = *p.config.operand->quantization;
  const std::string key = fmt::format("k_scale[{}]", scale_of_head(q, "s.batch", "s.kv_head"));
  w.line("const float value_scale = {}, key_scale = q_scale[{}] * value_scale;", key,
         scale_of_query(q, "s.batch", "s.kv_head"));
}

void emit_scale_scores(Writer& w, const PairPlan& p) {
  if (!p.scales) return;
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < {}; i += 2) scale_pair(s_acc[i], s_acc[i + 1], key_scale);", p.kOwnKeys);
}

void emit_scores(Writer& w, const PairPlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first_key = fmt::format("n * {}", p.kKeys);
  p.modifier->emit_apply(w, context, first_key);
  emit_mask_outside(w, *p.mask, context, first_key, fmt::format("(n + 1) * {}", p.kKeys));
}

void emit_repair(Writer& w, const PairPlan& p) {
  const HiddenValues::Packed packed{"first_row", 4, p.kKeys};
  p.hidden.emit_block_repair(w, p.config, HiddenValues::names_of_item(p.stream->aligned_rows()), packed,
                             fmt::format("*(int*)(smem_bytes + {})", p.smem_odd),
                             "named_barrier_sync(3, 128);");
}

using Emit = void (*)(Writer&, const PairPlan&);
/// The holes that are several lines.
constexpr std::pair<const char*, Emit> kBlocks[] = {
    {"output_kinds", emit_output_kinds},
    {"issue_scores", emit_issue_scores},
    {"issue_output", emit_issue_output},
    {"ring_addresses",
     [](Writer& w, const PairPlan& p) {
       const int first = p.smem_barriers + 5 * 8;
       p.k->ring().emit_addresses(w, first);
       p.v->ring().emit_addresses(w, first + p.k->ring().barrier_bytes());
     }},
    {"ring_init", emit_ring_init},
    {"range", [](Writer& w, const PairPlan& p) { p.stream->emit_range(w); }},
    {"v_state", [](Writer& w, const PairPlan& p) { p.v->ring().emit_state(w, false); }},
    {"head_scale", emit_head_scale},
    {"scale_scores", emit_scale_scores},
    {"limits", emit_limits},
    {"mask_load",
     [](Writer& w, const PairPlan& p) {
       p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.kKeys), true);
     }},
    {"scores", emit_scores},
    {"wait_v", emit_wait_v},
    {"zero_v", [](Writer& w, const PairPlan& p) { p.v->emit_zero(w); }},
    {"step_v", [](Writer& w, const PairPlan& p) { p.v->ring().emit_step(w); }},
    {"step_k", [](Writer& w, const PairPlan& p) { p.k->ring().emit_step(w); }},
    {"construct",
     [](Writer& w, const PairPlan& p) {
       p.k->emit_construct(w), p.v->emit_construct(w);
       p.k->ring().emit_state(w, false), p.v->ring().emit_state(w, false);
     }},
    {"products_k", emit_products_k},
    {"products_v", emit_products_v},
    {"tell_v", emit_tell_v},
    {"producer_states",
     [](Writer& w, const PairPlan& p) { p.k->ring().emit_state(w, true), p.v->ring().emit_state(w, true); }},
    {"copy_k", emit_copy_k},
    {"copy_v", emit_copy_v},
    {"repair", emit_repair},
};

void add_numbers(Holes& holes, const PairPlan& p) {
  const std::pair<const char*, int> numbers[] = {{"pieces", p.pieces()},
                                                 {"smem_exchange", p.smem_exchange},
                                                 {"smem_table", p.smem_table},
                                                 {"mbar", p.smem_barriers},
                                                 {"smem_tmem", p.smem_tmem},
                                                 {"tmem_columns", p.tmem().columns()},
                                                 {"panel", p.row_tile().panel_bytes()}};
  for (const auto& [name, value] : numbers) holes.number(name, value);
  const std::pair<const char*, int> addresses[] = {
      {"smem_k", p.smem_k}, {"smem_v", p.smem_v}, {"smem_q", p.smem_q}, {"smem_p", p.smem_p}};
  for (const auto& [name, offset] : addresses) holes.text(name, plus("smem", offset));
}

/// Column of O of a thread's piece: halves of whole blocks, then of the last.
std::string first_column(const PairPlan& p) {
  const int last = p.columns_of(p.out_blocks() - 1) / 2, whole = p.kColumns / 2;
  const std::string width =
      p.out_blocks() == 1 || last == whole
          ? std::to_string(last)
          : fmt::format("(piece < {} ? {} : {})", (p.out_blocks() - 1) * whole / p.kPiece, whole, last);
  if (p.out_blocks() == 1) return fmt::format("half * {} + 32 * piece", width);
  return fmt::format("piece / 4 * 256 + half * {} + 32 * (piece % 4)", width);
}

/// Of `width` columns from `column` + i on, which may lie past the last.
std::string column_real(const PairPlan& p) {
  return p.ov_depth == p.padded_ov() ? "" : fmt::format(" && column + i < {}", p.ov_depth);
}

std::string store_output_row(const PairPlan& p) {
  const DType out = *p.config.out_dtype;
  if (out == DType::f32)
    return "*(float4*)(output_row(row) + column + i) = make_float4(x[i] * inverse, x[i + 1] * inverse, x[i + 2] * inverse, "
           "x[i + 3] * inverse);";
  std::string words;
  for (int i = 0; i < 8; i += 2)
    words += fmt::format("{}{}({} * inverse, x[i + {}] * inverse)", i > 0 ? ", " : "", pack_name(out),
                         i > 0 ? fmt::format("x[i + {}]", i) : "x[i]", i + 1);
  return fmt::format("*(uint4*)(output_row(row) + column + i) = make_uint4({});", words);
}

void add_texts(Holes& holes, const PairPlan& p) {
  const std::pair<const char*, std::string> texts[] = {
      {"scores_kind", word(layout::tcgen05_instruction(p.config.dtype, p.kItemRows, p.kKeys, false))},
      {"q_high", word(p.q_descriptor().high())},
      {"k_high", word(p.k->descriptor().high())},
      {"p_high", word(p.p_descriptor().high())},
      {"v_high", word(p.v->descriptor().high())},
      {"q_low", word(p.q_descriptor().low())},
      {"p_low", word(p.p_descriptor().low())},
      {"load_scores", p.scores_access().load()},
      {"load_output", p.output_access().load()},
      {"store_output", p.output_access().store()},
      {"first_column", first_column(p)},
      {"factor", p.modifier->scale_log2()},
      {"prefetch_rope", p.rope > 0 ? "prefetch_tensor_map(&k_rope_map);" : ""},
      {"odd_flag", p.hidden.on() ? fmt::format("*(int*)(smem_bytes + {}) = 0;", p.smem_odd) : ""},
      {"arrivals", p.stream->splits()
                       ? fmt::format("int* const arrivals_before = (int*)(smem_bytes + {});", p.smem_flag)
                       : ""},
      {"wait_for_lengths",
       p.stream->range_reads_lengths()
           ? ""
           : "if (launch_before != 2) wait_for_launch_before();  // it reads lengths, which the range did not need"},
      {"store_width", *p.config.out_dtype == DType::f32 ? "4" : "8"},
      {"column_real", column_real(p)},
      {"store_output_row", store_output_row(p)}};
  for (const auto& [name, text] : texts) holes.text(name, text);
}

Holes holes_of(const PairPlan& p) {
  Holes holes;
  packed_rows(p).add_holes(holes);
  const std::unique_ptr<const Elements> elements = elements_of(p.config.dtype);
  elements->add_holes(holes, p.kRows, p.depth, p.padded_depth());
  holes.lines("exponentials", fill_section("sm100_prefill.cuh", elements->exponentials(), holes));
  holes.lines("probabilities", fill_section("sm100_latent_pair.cuh", elements->probabilities(), holes));
  add_numbers(holes, p);
  add_texts(holes, p);
  for (const auto& block : kBlocks)
    holes.lines(block.first, lines_of([&](Writer& w) { block.second(w, p); }));
  holes.lines("epilogue", fill_section("sm100_latent_pair.cuh", "epilogue", holes));
  return holes;
}

Manifest manifest(const PairPlan& p, const std::vector<KernelParam>& params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.kThreads;
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::stream_k, p.kItemRows, 1, p.kKeys};
  m.cluster = {p.kBlocks, 1, 1};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.kBlocks * p.partial_floats());
  m.params = params;
  m.expectations = {{fmt::format("tcgen05.mma.cta_group::2.{}", elements_of(p.config.dtype)->kind()),
                     p.k_steps() + p.out_blocks() * p.v_steps()},
                    {"griddepcontrol.wait", p.stream->range_reads_lengths() ? 4 : 5}};
  return m;
}

}  // namespace

KernelSource emit_latent_pair(const PairPlan& p) {
  const auto params = kernel_params(p);
  const Holes holes = holes_of(p);
  const auto section = [&](const char* name) { return fill_template("sm100_latent_pair.cuh", name, holes); };
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude_of(p).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  p.hidden.emit_page_functions(body, p.config);
  body.raw(section("functions"));
  body.line("extern \"C\" __global__ void __cluster_dims__({}, 1, 1) __launch_bounds__({}, 1)", p.kBlocks,
            p.kThreads);
  body.open("{}({})", entry_name(*p.config.name),
            parameter_list(params, {.q_bytes = p.fp8,
                                    .kv_bytes = p.fp8,
                                    .o_floats = *p.config.out_dtype == DType::f32,
                                    .const_values = true,
                                    .one_per_line = true}));
  emit_plain_build(body, p.config.target);
  for (const char* role : {"setup", "softmax", "products", "copies", "end"}) body.raw(section(role));
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, params);
  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows in each of two blocks by {} keys a tile, {} of K and of V.\n"
      "Tensor memory: S of even tiles 0, of odd tiles {}, O {}, {} columns.\n"
      "Shared memory ({} bytes):{}",
      *p.config.schedule, p.kRows, p.kKeys, number_of(p.num_kv_stages, "stage"), p.kScoreColumns, p.tmem_o(),
      p.tmem().columns(), p.smem.bytes(), p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm100
