// What templates/sm100_decode.cuh leaves open: numbers, names, and what the objects of the plan emit.
#include "generator/emit/output_elements.hpp"
#include "generator/emit/terms.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/sm100_decode/rings.hpp"

namespace kiln::sm100 {
namespace {

using Emit = void (*)(Writer&, const DecodePlan&);

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
    {"step_k", [](Writer& w, const DecodePlan& p) { p.k->ring().emit_step(w); }},
    {"zero_v", [](Writer& w, const DecodePlan& p) { p.v->emit_zero(w); }},
    {"lookup", [](Writer& w, const DecodePlan& p) { p.operand->emit_lookup(w, "s.tile_begin"); }},
    {"populate",
     [](Writer& w, const DecodePlan& p) { p.operand->emit_populate_ahead(w, "n", "s.tile_begin"); }},
    {"whole", emit_whole},
    {"store_part", emit_store_part},
    {"repair", emit_repair},
};

using RingEmit = void (*)(Writer&, const Rings&);
constexpr std::pair<const char*, RingEmit> kRingBlocks[] = {
    {"issue_tile_scores", [](Writer& w, const Rings& r) { r.emit_scores(w); }},
    {"issue_rotary", [](Writer& w, const Rings& r) { r.emit_functions(w); }},
    {"ring_addresses", [](Writer& w, const Rings& r) { r.emit_addresses(w); }},
    {"ring_init", [](Writer& w, const Rings& r) { r.emit_init(w); }},
    {"v_state", [](Writer& w, const Rings& r) { r.emit_v_state(w); }},
    {"producer_states", [](Writer& w, const Rings& r) { r.emit_producer_states(w); }},
    {"converter_states", [](Writer& w, const Rings& r) { r.emit_converter_states(w); }},
    {"convert_k", [](Writer& w, const Rings& r) { r.emit_convert_k(w); }},
    {"convert_v", [](Writer& w, const Rings& r) { r.emit_convert_v(w); }},
    {"p_place", [](Writer& w, const Rings& r) { r.emit_p_place(w); }},
    {"wait_v", [](Writer& w, const Rings& r) { r.emit_wait_v(w); }},
    {"step_v", [](Writer& w, const Rings& r) { r.emit_step_v(w); }},
    {"load_k", [](Writer& w, const Rings& r) { r.emit_load_k(w); }},
    {"load_v", [](Writer& w, const Rings& r) { r.emit_load_v(w); }},
};

void add_ring_blocks(Holes& holes, const DecodePlan& p, const Rings& rings) {
  for (const auto& block : kRingBlocks)
    holes.lines(block.first, lines_of([&](Writer& w) { block.second(w, rings); }));
  holes.lines("issue_output", lines_of([&](Writer& w) { emit_issue_output(w, p, rings); }));
  holes.lines("consumer_states", lines_of([&](Writer& w) {
                p.k->ring().emit_state(w, false);
                rings.emit_v_state(w);
              }));
}

void add_numbers(Holes& holes, const DecodePlan& p) {
  const std::pair<const char*, int> numbers[] = {{"BM", p.BM},
                                                 {"BN", p.BN},
                                                 {"k_slot", p.k->slot_bytes()},
                                                 {"score_rows", p.score_rows()},
                                                 {"MV", p.MV()},
                                                 {"own", p.own_rows()},
                                                 {"fold", p.fold_rows()},
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
                                                 {"q_ahead", 4},
                                                 {"key_panel", p.k->descriptor().tile().panel_bytes()},
                                                 {"tile_scales", 4 * p.BN},
                                                 {"rotary", 2 * p.BM},
                                                 {"v_words", p.v->ring_bytes() / 16}};
  for (const auto& [name, value] : numbers) holes.number(name, value);
  const std::pair<const char*, int> addresses[] = {
      {"smem_k", p.smem_k}, {"smem_v", p.smem_v}, {"smem_q", p.smem_q}, {"smem_p", p.smem_p}};
  for (const auto& [name, offset] : addresses) holes.text(name, plus("smem", offset));
}

/// 16 bytes of Q, `x`, as the products read them: rotary columns that lie apart in their own type.
std::string query_value(const DecodePlan& p) {
  if (p.config.dtype == p.math) return "x";
  return p.rope_apart() ? fmt::format("c < {} ? bf16_to_fp16(x) : x", p.k_columns / 8) : "bf16_to_fp16(x)";
}

void add_texts(Holes& holes, const DecodePlan& p, const Rings& rings) {
  const auto word = [](unsigned x) { return fmt::format("{:#x}u", x); };
  const DType type = p.math;
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
      {"v_get", p.v->get()},
      {"v_empty", p.v->ring().empty(0)},
      {"output_arguments", rings.output_arguments()},
      {"factor", p.modifier->scale_log2()},
      {"own_row", p.own_row()},
      {"own_key", p.own_key()},
      {"pitch_parameter", p.v_in_k ? "" : ", u32 kPitch"},
      {"chunk_pitch", p.v_in_k ? std::to_string(p.chunk_columns()) : "kPitch"},
      {"row", p.score_row("r")},
      {"p_of_tile", rings.p_address()},
      {"p_get", rings.p_get()},
      {"one_copy", p.one_copy()},
      {"load_scores", p.scores_access().load()},
      {"q_value", query_value(p)},
      {"prefetch_v", rings.prefetch_v()},
      {"converters_note", rings.converters_note()},
      {"q_copied", rings.query_copied()},
      {"output_note", rings.output_note()},
      {"output_more", rings.output_more()}};
  for (const auto& [name, text] : texts) holes.text(name, text);
}

/// How the lanes of a warp share the keys and packed rows of a tile, in words and in addresses of P.
struct LaneTexts {
  std::string of_row, of_key, score_row, p_at, p_chunk;
};
LaneTexts lane_texts(const DecodePlan& p) {
  const std::string span = fmt::format("(warp / 2) * {} + ", p.p_tile().panel_bytes());
  if (p.halves())
    return {
        "its half of the warp.", "in two lanes, with its scores of half of the packed rows each",
        fmt::format("const int score_row = lane / 16 * {};  // the first packed row of this lane's scores\n",
                    p.score_rows()),
        p.fp8 ? "score_row * 64 + lane % 16" : "score_row * 128 + (lane % 8) * 2",
        p.fp8 ? "warp" : "warp * 2 + lane % 16 / 8"};
  return {fmt::format("the warp: of row {} in each lane.", p.own_row()),
          "a thread, with its scores of all packed rows", "", span + (p.fp8 ? "lane % 16" : "(lane % 8) * 2"),
          p.fp8 ? "(warp % 2) * 2 + lane / 16" : "(warp % 2) * 4 + lane / 8"};
}

void add_lanes(Holes& holes, const DecodePlan& p) {
  const LaneTexts texts = lane_texts(p);
  holes.text("lanes_of_row", texts.of_row)
      .text("lanes_of_key", texts.of_key)
      .text("score_row", texts.score_row);
  holes.text("p_at", texts.p_at).text("p_chunk", texts.p_chunk);
}

/// A section of the template without the blank lines at its end; none without a name.
Lines section(std::string_view name, const Holes& holes) {
  if (name.empty()) return {};
  return fill_section("sm100_decode.cuh", name, holes);
}

/// Of set-up: what stands there or does not.
void add_conditional_lines(Holes& holes, const DecodePlan& p, bool converters_wait) {
  holes.text("arrivals",
             p.stream->splits()
                 ? fmt::format("int* const arrivals_before = (int*)(smem_bytes + {});\n", p.smem_flag)
                 : "");
  holes.text("odd_flag", p.hidden.on() ? fmt::format("*(int*)(smem_bytes + {}) = 0;\n", p.smem_odd) : "");
  const bool late = !p.stream->range_reads_lengths();
  const bool unwritten = p.latent_bytes() ? p.k_columns != p.rings.padded_qk : p.ov_depth != p.padded_ov();
  holes.lines("zero_columns", section(unwritten ? "zero_columns" : "", holes));
  // The role reads lengths, which the range did not need, or scales.
  holes.text("wait_for_lengths",
             converters_wait ? "if (launch_before != 2) wait_for_launch_before();\n" : "");
  holes.text(
      "wait_for_lengths_of_products",
      late
          ? "if (launch_before != 2) wait_for_launch_before();  // it reads lengths, which the range did not "
            "need\n"
          : "");
}

/// What scales do in each role, beside what the rings do there.
void add_scale_blocks(Holes& holes, const Rings& rings, const KeyScales& scales) {
  holes.lines("places", lines_of([&](Writer& w) { rings.emit_places(w), scales.emit_places(w); }));
  holes.lines("v_state", lines_of([&](Writer& w) { rings.emit_softmax_state(w), scales.emit_state(w); }));
  holes.lines("head_scale", lines_of([&](Writer& w) { scales.emit_item(w); }));
  holes.lines("softmax_step", lines_of([&](Writer& w) { rings.emit_softmax_step(w), scales.emit_step(w); }));
  holes.lines("turn", lines_of([&](Writer& w) { scales.emit_turn(w); }));
  holes.lines("scales_of_item", lines_of([&](Writer& w) { scales.emit_load_first(w); }));
  holes.lines("scales_of_tile", lines_of([&](Writer& w) { scales.emit_load_ahead(w); }));
  holes.lines("next_turn", lines_of([&](Writer& w) { scales.emit_next_turn(w); }));
}

}  // namespace

PackedRows packed_rows(const DecodePlan& p, const KeyScales& scales, const Elements& elements) {
  return {.config = p.config,
          .stream = *p.stream,
          .results = p.results,
          .hidden = p.hidden,
          .rows = p.BM,
          .part_floats = p.partial_floats(),
          .value_factor = scales.value_factor(),
          .value_scale = scales.value_scale(),
          .q_chunk = 16 / static_cast<int>(size_of(p.config.dtype)),
          .top_shift = elements.top_shift()};
}

Holes holes_of(const DecodePlan& p, const Rings& rings, const KeyScales& scales, const Elements& elements) {
  Holes holes;
  packed_rows(p, scales, elements).add_holes(holes);
  elements.add_holes(holes, p.BM, p.depth, p.padded_depth());
  holes.lines("store_two_rows", section(elements.store(), holes));
  add_numbers(holes, p);
  add_texts(holes, p, rings);
  add_lanes(holes, p);
  add_ring_blocks(holes, p, rings);
  add_scale_blocks(holes, rings, scales);
  scales.add_texts(holes);
  for (const auto& block : kBlocks)
    holes.lines(block.first, lines_of([&](Writer& w) { block.second(w, p); }));
  add_conditional_lines(holes, p, rings.converters_wait());
  holes.when("token", p.token_scale).when("rotary", p.rope_sums());
  holes.lines("copy_q", section(rings.query(), holes))
      .lines("await_output", section(rings.await_output(), holes));
  holes.lines("zero_tail", section(rings.zero_tail(), holes));
  holes.lines("tile_scale", section(scales.scores(), holes)).lines("weigh", section(scales.values(), holes));
  holes.lines("tile_products", section(rings.products(), holes));
  holes.lines("converters", section(rings.converters(), holes));
  holes.lines("epilogue", section("epilogue", holes));
  return holes;
}

}  // namespace kiln::sm100
