// The text of an sm100_decode kernel: what templates/sm100_decode.cuh leaves open.
#include <fmt/ranges.h>

#include "generator/config/quantization.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/sm100_decode/rings.hpp"
#include "generator/systems/scale_strides.hpp"
#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {
namespace {

using Kind = KernelParam::Kind;
using Emit = void (*)(Writer&, const DecodePlan&);

std::string text_of(const DecodePlan& p, Emit emit) {
  Writer w;
  emit(w, p);
  return w.text();
}

std::vector<KernelParam> kernel_params(const DecodePlan& p) {
  const auto map = [&p](int columns) {
    return p.narrow ? p.operand->map(columns, 0, 128) : p.operand->map(64, p.kRowBytes, 128);
  };
  std::vector<KernelParam> params{{Kind::tensor_map, "k", map(p.depth)}};
  if (!p.v_in_k) params.push_back({Kind::tensor_map, "v", map(p.ov_depth)});
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  p.results.add_pointers(params);
  if (p.scaled()) add(Kind::pointer, "k_scale"), add(Kind::pointer, "v_scale");
  if (p.token_scale) add_scale_strides(params, *p.config.operand, true);
  add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  add_problem_params(params, *p.stream);
  const bool ragged = p.stream->ragged_q();
  p.results.add_total(params, ragged);
  add_query_strides(params, ragged);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors()) add(Kind::f32, name);
  p.hidden.add_params(params, p.config);
  return without_fixed_heads(std::move(params), p.config);
}

Prelude prelude_of(const DecodePlan& p, const Rings& rings) {
  Prelude prelude("sm100.cuh");
  for (const char* section : {"types",
                              "smem_address",
                              "elect_one",
                              "mbarrier_init",
                              "fence_mbarrier_init",
                              "mbarrier_expect_tx",
                              "mbarrier_arrive",
                              "mbarrier_wait",
                              "named_barrier",
                              "prefetch_tensor_map",
                              "dependent_launch",
                              "tma_load",
                              "fence_proxy_async",
                              "descriptor",
                              "zero_16_bytes",
                              "exp2_approx",
                              "row_base",
                              "tmem_alloc",
                              "tcgen05_fence",
                              "tmem_wait_store",
                              "tcgen05_mma",
                              "tcgen05_commit"})
    prelude.use(section);
  prelude.use(pack_name(p.math));
  rings.use(prelude);
  if (p.token_scale) prelude.use("copy_async_4"), prelude.use("store_shared_float");
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

/// A function for each chunk of K.
void emit_issue_scores(Writer& w, const DecodePlan& p) {
  const int chunks = p.k->num_qk_stages_effective(), steps = p.padded_depth() / 16 / chunks;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    w.open("__device__ __forceinline__ void issue_scores{}(u32 s, u32 k, u32 q)",
           chunks > 1 ? fmt::format("_{}", chunk) : "");
    for (int step = steps * chunk; step < std::min(steps * (chunk + 1), p.k_steps()); ++step)
      w.line("mma_smem(s, descriptor(k + {}, kKHigh), descriptor(q + {}, kQHigh), kScoresKind, {});",
             p.k->descriptor().step(step), p.q_descriptor().step(step), step > 0);
    w.close();
  }
}

/// O' (+)= V' P', a block of columns of V after the other.
void emit_issue_output(Writer& w, const DecodePlan& p, const Rings& rings) {
  const auto& v = p.v->descriptor();
  for (int j = 0; j < p.out_blocks(); ++j) {
    const int panels = p.MV() / 64 * j;
    for (int step = 0; step < p.v_steps(); ++step)
      w.line("mma_smem(o + {}, descriptor(v + {}, kVHigh), descriptor(p + {}, kPHigh), kOutputKind, {});",
             j * p.BM, (panels * v.tile().panel_bytes() >> 4) + v.step(step), p.p_descriptor().step(step),
             step == 0 ? "add" : "true");
    rings.emit_release_chunks(w, j);
  }
}

/// Half of the rows goes to the lanes beyond in exchange for half of theirs, until one is left.
void emit_over_lanes(Writer& w, const DecodePlan& p) {
  int rows = p.fold_rows();
  for (int step = p.key_lanes() / 2; step > 0; step /= 2) {
    if (rows == 1) {
      w.line("x[0] = op(x[0], __shfl_xor_sync(0xffffffffu, x[0], {}));", step);
      continue;
    }
    rows /= 2;
    w.line("#pragma unroll");
    w.open("for (int i = 0; i < {}; ++i)", rows);
    w.line(
        "const float keep = (lane & {0}) != 0 ? x[i + {1}] : x[i], send = (lane & {0}) != 0 ? x[i] : x[i + {1}];",
        step, rows);
    w.line("x[i] = op(keep, __shfl_xor_sync(0xffffffffu, send, {}));", step);
    w.close();
  }
}

/// Keys that no row of the tile has hidden, and what masks and modifiers ask of the rows.
void emit_limits(Writer& w, const DecodePlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first = fmt::format("(s.sequence.seqlen_k - {} + ", p.stream->aligned_rows());
  emit_clean_range(w, *p.mask, context, first + "row_query[0])", first + "row_query[max(rows, 1) - 1])");
  p.modifier->emit_rows(w, context);
  p.mask->emit_rows(w, context);
}

void emit_scores(Writer& w, const DecodePlan& p) {
  const ScoreContext context = p.score_context();
  const std::string first_key = fmt::format("n * {}", p.BN);
  p.modifier->emit_apply(w, context, first_key);
  emit_mask_outside(w, *p.mask, context, first_key, fmt::format("(n + 1) * {}", p.BN));
}

/// The holes that are several lines.
constexpr std::pair<const char*, Emit> kBlocks[] = {
    {"issue_scores", emit_issue_scores},
    {"over_lanes", emit_over_lanes},
    {"range", [](Writer& w, const DecodePlan& p) { p.stream->emit_range(w); }},
    {"limits", emit_limits},
    {"mask_load",
     [](Writer& w, const DecodePlan& p) {
       p.mask->emit_load(w, p.score_context(), fmt::format("n * {}", p.BN), true);
     }},
    {"scores", emit_scores},
    {"rescale", emit_rescale},
    {"wait_k", [](Writer& w, const DecodePlan& p) { p.k->emit_wait(w, 0); }},
    {"step_k", [](Writer& w, const DecodePlan& p) { p.k->ring().emit_step(w); }},
    {"zero_v", [](Writer& w, const DecodePlan& p) { p.v->emit_zero(w); }},
    {"lookup", [](Writer& w, const DecodePlan& p) { p.operand->emit_lookup(w, "s.tile_begin"); }},
    {"populate",
     [](Writer& w, const DecodePlan& p) { p.operand->emit_populate_ahead(w, "n", "s.tile_begin"); }},
    {"whole", emit_whole},
    {"store_part", emit_store_part},
    {"look_at_sum", [](Writer& w, const DecodePlan& p) { p.hidden.emit_look_at(w, "out"); }},
    {"repair", emit_repair},
    {"parts", [](Writer& w, const DecodePlan& p) { p.stream->emit_parts(w, p.partial_floats()); }},
};

using RingEmit = void (*)(Writer&, const Rings&);
constexpr std::pair<const char*, RingEmit> kRingBlocks[] = {
    {"scores_by_chunk", [](Writer& w, const Rings& r) { r.emit_scores_by_chunk(w); }},
    {"ring_addresses", [](Writer& w, const Rings& r) { r.emit_addresses(w); }},
    {"ring_init", [](Writer& w, const Rings& r) { r.emit_init(w); }},
    {"v_state", [](Writer& w, const Rings& r) { r.emit_v_state(w); }},
    {"producer_states", [](Writer& w, const Rings& r) { r.emit_producer_states(w); }},
    {"converter_states", [](Writer& w, const Rings& r) { r.emit_converter_states(w); }},
    {"convert_k", [](Writer& w, const Rings& r) { r.emit_convert(w, true); }},
    {"convert_v", [](Writer& w, const Rings& r) { r.emit_convert(w, false); }},
    {"wait_v", [](Writer& w, const Rings& r) { r.emit_wait_v(w); }},
    {"step_v", [](Writer& w, const Rings& r) { r.emit_step_v(w); }},
    {"load_k", [](Writer& w, const Rings& r) { r.emit_load_k(w); }},
    {"load_v", [](Writer& w, const Rings& r) { r.emit_load_v(w); }},
};

void add_ring_blocks(Holes& holes, const DecodePlan& p, const Rings& rings) {
  for (const auto& [name, emit] : kRingBlocks) {
    Writer w;
    emit(w, rings);
    holes.text(name, w.text());
  }
  Writer output, states;
  emit_issue_output(output, p, rings);
  holes.text("issue_output", output.text());
  p.k->ring().emit_state(states, false);
  rings.emit_v_state(states);
  holes.text("consumer_states", states.text());
}

void add_numbers(Holes& holes, const DecodePlan& p) {
  const std::pair<const char*, int> numbers[] = {{"BM", p.BM},
                                                 {"BN", p.BN},
                                                 {"k_slot", p.k->slot_bytes()},
                                                 {"score_rows", p.score_rows()},
                                                 {"MV", p.MV()},
                                                 {"own", p.own_rows()},
                                                 {"fold", p.fold_rows()},
                                                 {"ov_depth", p.ov_depth},
                                                 {"quads", p.ov_depth / 4},
                                                 {"part_rows", p.BM * p.ov_depth},
                                                 {"smem_rows", p.smem_rows},
                                                 {"rows_floats", 3 * p.BM},
                                                 {"smem_exchange", p.smem_exchange},
                                                 {"exchange_floats", 4 * p.BM},
                                                 {"smem_table", p.smem_table},
                                                 {"mbar", p.smem_barriers},
                                                 {"smem_flag", p.smem_flag},
                                                 {"smem_tmem", p.smem_tmem},
                                                 {"tmem_columns", p.tmem().columns()},
                                                 {"o", p.tmem_o()},
                                                 {"p_panel", p.p_tile().panel_bytes()},
                                                 {"q_panel", p.q_tile().panel_bytes()},
                                                 {"q_chunks", p.padded_depth() / 8},
                                                 {"q_rounds", p.BM * p.padded_depth() / 8 / 128},
                                                 {"q_ahead", 4},
                                                 {"smem_raw_k", p.smem_raw_k},
                                                 {"smem_raw_v", p.smem_raw_v},
                                                 {"smem_key_scales", p.smem_key_scales},
                                                 {"v_words", p.v->ring_bytes() / 16}};
  for (const auto& [name, value] : numbers) holes.number(name, value);
  const std::pair<const char*, int> addresses[] = {
      {"smem_k", p.smem_k}, {"smem_v", p.smem_v}, {"smem_q", p.smem_q}, {"smem_p", p.smem_p}};
  for (const auto& [name, offset] : addresses) holes.text(name, plus("smem", offset));
}

void add_texts(Holes& holes, const DecodePlan& p, const Rings& rings) {
  const auto word = [](unsigned x) { return fmt::format("{:#x}u", x); };
  const DType type = p.math;
  const auto& scales = p.config.operand->quantization;
  const bool ragged = p.stream->ragged_q();
  std::vector<std::string> members;
  for (const auto& m : p.stream->members()) members.emplace_back(m.role);
  const std::pair<const char*, std::string> texts[] = {
      {"scores_kind", word(layout::tcgen05_instruction(type, p.BN, p.BM, false))},
      {"output_kind", word(layout::tcgen05_instruction(type, p.MV(), p.BM, false, true))},
      {"k_high", word(p.k->descriptor().high())},
      {"q_high", word(p.q_descriptor().high())},
      {"v_high", word(p.v->descriptor().high())},
      {"p_high", word(p.p_descriptor().high())},
      {"k_low", word(p.k->descriptor().low())},
      {"q_low", word(p.q_descriptor().low())},
      {"v_low", word(p.v->descriptor().low())},
      {"p_low", word(p.p_descriptor().low())},
      {"k_get", rings.k_get()},
      {"v_get", rings.v_get()},
      {"k_empty", p.k->ring().empty(0)},
      {"v_empty", p.v->ring().empty(0)},
      {"members", fmt::format("{}", fmt::join(members, ", "))},
      {"factor", p.modifier->scale_log2()},
      {"own_row", p.own_row()},
      {"row", p.score_row("r")},
      {"p_of_tile", rings.p_address()},
      {"p_get", rings.p_get()},
      {"one_copy", p.one_copy()},
      {"load_scores", p.scores_access().load()},
      {"pack", pack_name(type)},
      {"q_real", p.padded_depth() == p.depth ? "" : fmt::format(" && c < {}", p.depth / 8)},
      {"q_at",
       fmt::format(
           "q + {}(s.sequence.q_start + row_query[r]) * q_stride_seq + row_head[r] * q_stride_head + 8 * c",
           ragged ? "" : "s.batch * q_stride_batch + ")},
      {"q_value", p.config.dtype == p.math ? "x" : "bf16_to_fp16(x)"},
      {"scale_at", p.head_scale ? scale_of_head(*scales, "s.batch", "s.kv_head") : ""},
      {"value_factor", p.head_scale ? "value_scale * " : ""},
      {"value_scale", p.head_scale ? "value_scale" : "1.0f"},
      {"o_batch", ragged ? "" : "s.batch * o_stride_batch + "},
      {"lse_row",
       ragged ? "(long long)row_head[row] * total_q + s.sequence.q_start + row_query[row]"
              : "((long long)s.batch * heads_q + row_head[row]) * s.sequence.seqlen_q + row_query[row]"},
      {"part", p.stream->part(p.partial_floats())},
      {"store_four", store_four(*p.config.out_dtype, "output_row(row) + 4 * c", "out.x * inverse",
                                "out.y * inverse", "out.z * inverse", "out.w * inverse")}};
  for (const auto& [name, text] : texts) holes.text(name, text);
}

Holes holes_of(const DecodePlan& p, const Rings& rings) {
  Holes holes;
  add_numbers(holes, p);
  add_texts(holes, p, rings);
  add_ring_blocks(holes, p, rings);
  for (const auto& [name, emit] : kBlocks) holes.text(name, text_of(p, emit));
  holes.when("late_lengths", !p.stream->range_reads_lengths());
  holes.when("narrow", p.narrow).when("head_scale", p.head_scale).when("token_scale", p.token_scale);
  holes.when("scaled", p.scaled()).when("softmax_v", !p.narrow || p.token_scale);
  holes.when("zero_columns", p.ov_depth != p.padded_ov());
  holes.when("v_in_k", p.v_in_k).when("halves", p.halves());
  holes.when("splits", p.stream->splits()).when("sink", p.results.sink()).when("lse", p.results.lse());
  holes.when("hidden", p.hidden.on()).number("smem_odd", p.smem_odd);
  holes.text("epilogue", fill_template("sm100_decode.cuh", "epilogue", holes).text());
  return holes;
}

Manifest manifest(const DecodePlan& p, const Rings& rings, const std::vector<KernelParam>& params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads();
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::stream_k, p.BM, 1, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.partial_floats());
  m.params = params;
  m.expectations = {{"tcgen05.mma.cta_group::1.kind::f16", p.k_steps() + p.out_blocks() * p.v_steps()},
                    {"griddepcontrol.wait", rings.launch_waits()}};
  return m;
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const auto params = kernel_params(p);
  const std::unique_ptr<const Rings> rings = rings_of(p);
  const Holes holes = holes_of(p, *rings);
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude_of(p, *rings).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  p.hidden.emit_page_functions(body, p.config);
  body.raw(fill_template("sm100_decode.cuh", "functions", holes));
  if (p.narrow) body.raw(fill_template("sm100_decode.cuh", "convert", holes));
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", p.num_threads());
  body.open("{}({})", entry_name(*p.config.name),
            parameter_list(params, {.kv_bytes = p.narrow,
                                    .o_floats = *p.config.out_dtype == DType::f32,
                                    .const_values = true,
                                    .one_per_line = true}));
  emit_plain_build(body, p.config.target);
  body.raw(fill_template("sm100_decode.cuh", "body", holes));
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, *rings, params);
  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows by {} keys a tile, {} stages of K{}.\n"
      "Tensor memory: S' of even tiles 0, of odd tiles {}, O' {}, {} columns.\n"
      "Shared memory ({} bytes):{}",
      *p.config.schedule, p.BM, p.BN, p.num_kv_stages, p.v_in_k ? ", whose first columns are V" : " and of V",
      p.BM, p.tmem_o(), p.tmem().columns(), p.smem.bytes(), p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm100
