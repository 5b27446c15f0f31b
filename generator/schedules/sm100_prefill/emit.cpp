// The text of an sm100_prefill kernel: what templates/sm100_prefill.cuh leaves open.
#include "base/plural.hpp"
#include "generator/config/quantization.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/sm100_prefill/plan.hpp"
#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {
namespace {

// L2 policies: K and V are read again by the other query tiles of the head, Q is not.
constexpr const char* kEvictLast = "0x14F0000000000000ull";
constexpr const char* kEvictFirst = "0x12F0000000000000ull";

using Emit = void (*)(Writer&, const PrefillPlan&);

int l2_promotion(const PrefillPlan& p) {
  return p.fp8 ? 128 : 256;
}

std::string text_of(const PrefillPlan& p, Emit emit) {
  Writer w;
  emit(w, p);
  return w.text();
}

KernelParam tensor_map(const PrefillPlan& p, const char* role, int rows, int span_bytes) {
  KernelParam param{KernelParam::Kind::tensor_map, role, {}};
  param.map.dims = {{"depth", p.fa4.gran}, {"seq", rows}, {"head", 1}, {"batch", 1}};
  param.map.swizzle_bytes = span_bytes;
  param.map.l2_promotion_bytes = l2_promotion(p);
  return param;
}

/// Where the lengths of the keys come from, of operands whose sequences differ.
const char* key_lengths(const PrefillPlan& p) {
  return p.operand->table() ? "seqlens_k" : "cu_seqlens_k";
}

std::vector<KernelParam> kernel_params(const PrefillPlan& p) {
  using Kind = KernelParam::Kind;
  const int span = p.fa4.swizzle_bytes;
  std::vector<KernelParam> params{tensor_map(p, "q", PrefillPlan::kRows, span),
                                  tensor_map(p, "k", p.BN, span), tensor_map(p, "v", p.BN, span),
                                  tensor_map(p, "o", 32, 128)};
  for (const std::size_t i : {1u, 2u})
    if (p.operand->table()) params[i].map = p.operand->map(p.fa4.gran, span, l2_promotion(p));
  const auto add = [&](Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  p.results.add_pointers(params);
  if (p.scales)
    for (const char* role : {"q_scale", "k_scale", "v_scale"}) add(Kind::pointer, role);
  if (p.ragged)
    add(Kind::pointer, "o"), add(Kind::pointer, "cu_seqlens_q"), add(Kind::pointer, key_lengths(p));
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  if (p.dynamic()) add(Kind::pointer, "tile_counter");
  add(Kind::i32, "heads_q"), add(Kind::i32, "heads_kv");
  if (p.operand->table()) add(Kind::i32, "key_capacity");
  if (p.ragged) {
    add(Kind::i32, "batch");
    p.results.add_total(params, p.ragged);
    add(Kind::i64, "o_stride_seq"), add(Kind::i64, "o_stride_head");
  } else {
    for (const char* role : {"seqlen_q", "seqlen_k", "num_m_blocks", "num_tiles"}) add(Kind::i32, role);
    if (p.dynamic()) add(Kind::i32, "section_heads");
  }
  p.hidden.add_params(params, p.config);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors(p.results.lse())) add(Kind::f32, name);
  return params;
}

void use_sections(Prelude& prelude, const PrefillPlan& p) {
  for (const char* section :
       {"types", "smem_address", "elect_one", "setmaxnreg", "mbarrier_init", "fence_mbarrier_init",
        "mbarrier_expect_tx", "mbarrier_arrive", "mbarrier_wait", "prefetch_tensor_map", "tma_load",
        "tma_store", "fence_proxy_async", "descriptor", "shared_words", "store_shared_float", "tmem_alloc",
        "tcgen05_fence", "tcgen05_commit"})
    prelude.use(section);
  prelude.use(p.fp8 ? "tcgen05_mma_e4m3" : "tcgen05_mma");
  prelude.use(p.fp8 ? "pack_e4m3" : pack_name(p.config.dtype));
  prelude.use(pack_name(*p.config.out_dtype));
  p.results.use(prelude);
  if (p.ragged) {
    for (const char* section : {"zero_16_bytes", "copy_16_bytes", "ragged_items"}) prelude.use(section);
    prelude.use(p.operand->table() ? "sequence_of_pages" : "sequence_of_offsets");
  }
  p.softmax().use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  if (p.hidden.on()) prelude.use("hide_from");
  if (p.hidden.on() && p.mask->bounded_below()) prelude.use("hide_outside");
  p.max_by_load() ? p.scores_access().add_load_max(prelude) : p.scores_access().add_load(prelude);
  p.output_access().add_load(prelude);
  p.output_access().add_store(prelude);
}

/// S of one chunk of K.
void emit_issue_scores(Writer& w, const PrefillPlan& p) {
  const auto q = p.q_descriptor();
  const auto& k_descriptor = p.k->descriptor();
  const int chunks = p.fa4.num_qk_stages, k = p.fa4.MMA_K, steps = p.fa4.BK0 / k;
  for (int qk = 0; qk < chunks; ++qk) {
    const int begin = qk * steps, end = std::min(begin + steps, p.k_steps());
    w.comment("S {} Q K': columns {} to {} of Q and K, {} a step.", qk == 0 ? "=" : "+=", k * begin,
              k * end - 1, k);
    w.open("__device__ __forceinline__ void issue_scores{}(u32 s, u32 q, u32 k)",
           chunks > 1 ? fmt::format("_{}", qk) : "");
    for (int step = begin; step < end; ++step)
      w.line("mma_smem(s, descriptor(q + {}, kQHigh), descriptor(k + {}, kKHigh), kScoresKind, {});",
             q.step(step), k_descriptor.step(step), step > 0);
    w.close();
  }
}

/// O (+)= P V for keys [begin, end).
void emit_products(Writer& w, const PrefillPlan& p, int begin, int end) {
  const int k = p.fa4.MMA_K;
  for (int key = begin; key < end; key += k)
    w.line("mma_tmem(o, p + {}, descriptor(v + {}, kVHigh), kOutputKind, {});",
           key * p.fa4.element_bytes() / 4, p.v->descriptor().step(key / k), key == 0 ? "add" : "true");
}

/// S of tile `tile` as K comes; the last reader of K releases it.
void emit_scores(Writer& w, const PrefillPlan& p, int tile) {
  const int chunks = p.fa4.num_qk_stages;
  for (int qk = 0; qk < chunks; ++qk) {
    if (tile == 0) p.k->emit_wait(w, qk);
    w.line("issue_scores{}(tmem + {}, q_desc + {}, {});", chunks > 1 ? fmt::format("_{}", qk) : "",
           tile * p.fa4.tmem_s1, tile * (p.q_stride() >> 4), p.k->get());
    if (tile == 1 && qk == chunks - 1) w.line("tcgen05_commit(mbar_s_full + 8);");
    if (tile == 1) p.k->emit_release(w, qk);
  }
}

/// Coordinates of the box of rows of Q or O from `row` of the item's sequence.
std::string query_rows(const PrefillPlan& p, int column, const std::string& row) {
  if (p.ragged) return fmt::format("{}, work.q_start + {}, work.head, 0", column, row);
  return fmt::format("{}, {}, work.head, work.batch", column, row);
}

void emit_load_q(Writer& w, const PrefillPlan& p, int tile) {
  w.line("mbarrier_arrive_expect_tx(mbar_q_full + {}, {});", 8 * tile, p.q_bytes());
  for (int panel = 0; panel < p.q_panels(); ++panel)
    w.line("tma_load(smem_q + {}, &q_map, mbar_q_full + {}, {}, {});",
           tile * p.q_stride() + panel * p.q_tile().panel_bytes(), 8 * tile,
           query_rows(p, panel * p.fa4.gran, fmt::format("work.m_start + {}", tile * PrefillPlan::kRows)),
           kEvictFirst);
}

/// Boxes of round `round` of this lane, which are piece lane + 32 * round of every panel of chunk `qk`.
void emit_boxes(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                int qk, int round) {
  const auto& operand = *p.operand;
  for (int i = 0; i < pipeline.panels_per_chunk(); ++i) {
    const int panel = qk * pipeline.panels_per_chunk() + i;
    const int piece = operand.eff_page() * p.fa4.swizzle_bytes;
    w.line("tma_load(smem_{0} + {1} * {2} + {3}{8}, &{0}_map, {4}, {5}, {6}, {7});", name,
           pipeline.ring().stage(), pipeline.slot_bytes(),
           panel * pipeline.descriptor().tile().panel_bytes() + round * 32 * piece, pipeline.ring().full(qk),
           panel * p.fa4.gran, operand.coordinates("n", round), kEvictLast,
           operand.num_pages() > 1 ? fmt::format(" + lane * {}", piece) : "");
  }
}

/// K or V of tile n into the next slot; of pages by every lane that has one. The others do not look at the ring: a lane
/// that fell behind could miss two of its phases.
void emit_load_kv(Writer& w, const PrefillPlan& p, const TMAConsumerPipeline& pipeline, const char* name) {
  const auto& ring = pipeline.ring();
  const auto& operand = *p.operand;
  const bool table = operand.table();
  if (table) w.open(""), operand.emit_populate(w, "n");
  const std::string lanes = table ? operand.issues(0) : "";
  if (!lanes.empty()) w.open("if ({})", lanes);
  for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) {
    ring.emit_wait_empty(w, qk);
    w.line("{}mbarrier_arrive_expect_tx({}, {});", table && operand.num_pages() > 1 ? "if (lane == 0) " : "",
           ring.full(qk), pipeline.barrier_bytes());
    emit_boxes(w, p, pipeline, name, qk, 0);
    for (int round = 1; round < operand.rounds(); ++round) {
      const std::string condition = operand.issues(round);
      if (!condition.empty()) w.open("if ({})", condition);
      emit_boxes(w, p, pipeline, name, qk, round);
      if (!condition.empty()) w.close();
    }
  }
  if (!lanes.empty()) w.close();
  ring.emit_step(w);
  if (table) w.close();
}

void emit_store(Writer& w, const PrefillPlan& p) {
  for (int panel = 0; panel < p.o_panels(); ++panel)
    w.line("tma_store(&o_map, stage + {} * tile + {}, {});", p.q_stride(), panel * PrefillPlan::kPanelBytes,
           query_rows(p, panel * p.fa4.gran, "work.m_start + 128 * tile + 32 * quarter"));
}

/// Rows that V of keys has reached which the mask hides from them.
void emit_repair(Writer& w, const PrefillPlan& p) {
  if (!p.hidden.on()) return;
  HiddenValues::Place place =
      HiddenValues::place_of(p.config, {"work.batch", "work.head", "work.kv_head", "work.q_start",
                                        "work.k_start", "work.seqlen_q", "work.seqlen_k"});
  place.first_row = "work.m_start + 128 * tile + 32 * quarter";
  place.end_row = fmt::format("min({} + 32, work.seqlen_q)", place.first_row);
  place.visited_begin = fmt::format("{} * {}", p.work().first_block(), p.BN);
  place.visited_end = fmt::format("min(work.num_blocks * {}, work.seqlen_k)", p.BN);
  w.line("const int again = any_lane(odd);");
  w.line("#pragma unroll 1");
  w.open("for (int tile = 0; same(again) && tile < 2; ++tile)");
  p.hidden.emit_repair(w, place, "again", "bulk_wait();  // the store has been written\n__syncwarp();");
  w.close();
}

/// Rows of a warp that holds the end of a ragged sequence.
void emit_store_rows(Writer& w, const PrefillPlan& p) {
  w.line("u16* const out = o + (work.q_start + first_row) * o_stride_seq + work.head * o_stride_head;");
  for (int panel = 0; panel < p.o_panels(); ++panel) {
    const int chunks = std::min(p.fa4.gran, p.ov_depth - panel * p.fa4.gran) / 8;
    w.open("for (int i = lane; i < {} * rows; i += 32)", chunks);
    w.line("const int r = i / {0}, c = i % {0};", chunks);
    w.line(
        "copy_16_bytes(out + r * o_stride_seq + {} + 8 * c, stage + {} * tile + {} + r * 128 + ((c ^ (r & 7)) << 4));",
        panel * p.fa4.gran, p.q_stride(), panel * PrefillPlan::kPanelBytes);
    w.close();
  }
}

/// The loop over work items, of a warp or of one thread: its head.
std::string items_of(const PrefillPlan& p, bool warp) {
  Holes holes;
  holes.when("dynamic", p.dynamic()).when("ragged", p.ragged).when("warp", warp);
  holes.text("number", p.ragged ? "place.x" : "tile_number");
  holes.text("decode", p.ragged ? fmt::format("decode_work(place, rows_of, heads_q, heads_kv{})",
                                              p.mask->function_arguments())
                                : p.work().decode_call("tile_number"));
  Lines lines = fill_template("sm100_prefill.cuh", "items", holes);
  lines.drop_blank_end();
  return lines.text();
}

std::string head_of_scales(const PrefillPlan& p) {
  return scale_of_head(*p.config.operand->quantization, "work.batch", "work.kv_head");
}

/// The one scale of the scores of a head, positive where it is part of the factor.
void emit_head_scale(Writer& w, const PrefillPlan& p) {
  if (!p.scales) return;
  w.line("const float key_scale = q_scale[{}] * k_scale[{}];",
         scale_of_query(*p.config.operand->quantization, "work.batch", "work.kv_head"), head_of_scales(p));
  if (p.scale_joins_factor())
    w.line("const float factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
}

/// The largest score where it came with the scores, which have changed since.
void emit_max_again(Writer& w, const PrefillPlan& p) {
  if (p.max_by_load()) p.softmax().emit_max(w, "tile_max");
}

/// Scores times what of their scale the factor does not hold: its sign, which is almost always positive, or all of it.
void emit_key_scale(Writer& w, const PrefillPlan& p) {
  if (!p.scales) return;
  if (!p.scale_joins_factor()) return p.softmax().emit_scale(w, "key_scale");
  w.open("if (!(key_scale > 0.0f))");
  w.line("const float sign = key_scale == 0.0f ? 0.0f : -1.0f;");
  p.softmax().emit_scale(w, "sign");
  emit_max_again(w, p);
  w.close();
}

/// In natural units, what E4M3's P adds to a row's sum.
std::string top_of(const PrefillPlan& p) {
  return p.fp8 ? fmt::format(" - {:.9g}f", RowSoftmax::kTop * 0.693147180559945) : "";
}

/// Tiles that every row of a warp sees whole: keys [clean_begin, clean_end).
void emit_clean_range(Writer& w, const PrefillPlan& p) {
  if (!p.mask->bounded_above()) return;
  w.comment("keys that all rows of this warp see");
  if (p.mask->by_place())
    w.line("const int position = work.m_start + 32 * warp + work.seqlen_k - work.seqlen_q;");
  w.line("const int clean_end = {};", p.mask->end_key("position", "work.seqlen_k", "work.batch"));
  if (p.mask->bounded_below())
    w.line("const int clean_begin = {};", p.mask->first_key("position + 31", "work.batch"));
}

Holes tile_holes(const PrefillPlan& p) {
  const auto& f = p.fa4;
  Holes holes;
  holes.number("BN", p.BN)
      .number("ov_depth", p.ov_depth)
      .number("v_steps", p.v_steps())
      .number("piece", p.output_access().registers())
      .text("load_scores",
            p.max_by_load() ? "float tile_max = " + p.scores_access().load_max() : p.scores_access().load())
      .text("load_output", p.output_access().load())
      .text("store_output", p.output_access().store());
  const auto word = [](unsigned x) { return fmt::format("{:#x}u", x); };
  holes.text("scores_kind", word(layout::tcgen05_instruction(p.config.dtype, 128, p.BN, false)));
  holes.text("output_kind", word(layout::tcgen05_instruction(p.config.dtype, 128, p.ov_depth, true)));
  holes.text("q_high", word(p.q_descriptor().high())).text("k_high", word(p.k->descriptor().high()));
  holes.text("v_high", word(p.v->descriptor().high())).text("q_low", word(p.q_descriptor().low()));
  holes.when("pieces", f.num_pv_stages > 1);
  holes.number("k_step", f.MMA_K)
      .number("chunks", f.swizzle_bytes / 16)
      .number("threshold", p.softmax().threshold());
  holes.when("offload", p.exp_offload > 0).when("hidden", p.hidden.on());
  holes.when("bytes", p.fp8).number("top", RowSoftmax::kTop);
  holes.text("pack", p.fp8 ? "pack_e4m3" : pack_name(p.config.dtype))
      .text("out_pack", pack_name(*p.config.out_dtype));
  holes.number("panel_bytes", PrefillPlan::kPanelBytes);
  // ptxas 13.0 keeps so much of unrolled loops over O in registers for sm_103a that it spills.
  holes.text("columns", p.config.target == Target::sm_103a ? " 1" : "");
  return holes;
}

void add_memory(Holes& holes, const PrefillPlan& p) {
  const std::pair<const char*, int> numbers[] = {{"mbar", p.smem_barriers},
                                                 {"smem_tmem", p.smem_tmem},
                                                 {"smem_work", p.smem_work},
                                                 {"q_stride", p.q_stride()},
                                                 {"warp_stage", 32 * 128},
                                                 {"s1", p.fa4.tmem_s1},
                                                 {"o0", p.fa4.tmem_o0},
                                                 {"o1", p.fa4.tmem_o1},
                                                 {"tmem_columns", p.tmem().columns()},
                                                 {"softmax_registers", p.registers.softmax},
                                                 {"correction_registers", p.registers.correction},
                                                 {"issue_registers", p.registers.issue}};
  for (const auto& [name, value] : numbers) holes.number(name, value);
  const std::pair<const char*, int> addresses[] = {
      {"smem_q", p.smem_q}, {"smem_k", p.smem_k}, {"smem_v", p.smem_v}, {"smem_factors", p.smem_factors}};
  for (const auto& [name, offset] : addresses) holes.text(name, plus("smem", offset));
}

StagedPipeline work_ring() {
  return StagedPipeline("work", 1, 1);
}

/// The holes that are several lines.
constexpr std::pair<const char*, Emit> kBlocks[] = {
    {"issue_scores", emit_issue_scores},
    {"first_products", [](Writer& w, const PrefillPlan& p) { emit_products(w, p, 0, p.first_keys()); }},
    {"rest_products", [](Writer& w, const PrefillPlan& p) { emit_products(w, p, p.first_keys(), p.BN); }},
    {"ring_addresses",
     [](Writer& w, const PrefillPlan& p) {
       p.k->ring().emit_addresses(w, p.smem_k_barriers);
       p.v->ring().emit_addresses(w, p.smem_v_barriers);
       if (p.dynamic()) work_ring().emit_addresses(w, p.smem_work_barriers);
     }},
    {"ring_init",
     [](Writer& w, const PrefillPlan& p) {
       p.k->ring().emit_init(w, 1, 1);
       if (!p.fa4.shared_ring) p.v->ring().emit_init(w, 1, 1);
       if (p.dynamic()) work_ring().emit_init(w, 1, PrefillPlan::kItemReaders);
     }},
    {"producer_states",
     [](Writer& w, const PrefillPlan& p) {
       p.k->ring().emit_state(w, true), p.v->ring().emit_state(w, true);
     }},
    {"mask_rows", [](Writer& w, const PrefillPlan& p) { p.mask->emit_rows(w, p.score_context()); }},
    {"modifier_rows", [](Writer& w, const PrefillPlan& p) { p.modifier->emit_rows(w, p.score_context()); }},
    {"clean_range", emit_clean_range},
    {"modifier",
     [](Writer& w, const PrefillPlan& p) {
       p.modifier->emit_apply(w, p.score_context(), fmt::format("n * {}", p.BN));
     }},
    {"mask",
     [](Writer& w, const PrefillPlan& p) {
       p.mask->emit_apply_where_cut(w, p.score_context(), p.BN, [&p](Writer& b) { emit_max_again(b, p); });
     }},
    {"key_scale", [](Writer& w, const PrefillPlan& p) { emit_key_scale(w, p); }},
    {"head_scale", emit_head_scale},
    {"tile_max",
     [](Writer& w, const PrefillPlan& p) {
       if (!p.max_by_load()) p.softmax().emit_max(w);
     }},
    {"subtract", [](Writer& w, const PrefillPlan& p) { p.softmax().emit_subtract(w); }},
    {"first_p", [](Writer& w, const PrefillPlan& p) { p.softmax().emit_exp(w, 0, p.first_keys()); }},
    {"rest_p", [](Writer& w, const PrefillPlan& p) { p.softmax().emit_exp(w, p.first_keys(), p.BN); }},
    {"store", emit_store},
    {"store_rows", emit_store_rows},
    {"repair", emit_repair},
    {"v_state", [](Writer& w, const PrefillPlan& p) { p.v->ring().emit_state(w, false); }},
    {"step_v", [](Writer& w, const PrefillPlan& p) { p.v->ring().emit_step(w); }},
    {"zero_v", [](Writer& w, const PrefillPlan& p) { p.v->emit_zero(w); }},
    {"construct",
     [](Writer& w, const PrefillPlan& p) {
       p.k->emit_construct(w), p.v->emit_construct(w);
       p.k->ring().emit_state(w, false), p.v->ring().emit_state(w, false);
     }},
    {"scores_0", [](Writer& w, const PrefillPlan& p) { emit_scores(w, p, 0); }},
    {"scores_1", [](Writer& w, const PrefillPlan& p) { emit_scores(w, p, 1); }},
    {"wait_v", [](Writer& w, const PrefillPlan& p) { p.v->emit_wait(w, 0); }},
    {"release_v", [](Writer& w, const PrefillPlan& p) { p.v->emit_release(w, 0); }},
    {"load_q0", [](Writer& w, const PrefillPlan& p) { emit_load_q(w, p, 0); }},
    {"load_q1", [](Writer& w, const PrefillPlan& p) { emit_load_q(w, p, 1); }},
    {"load_k", [](Writer& w, const PrefillPlan& p) { emit_load_kv(w, p, *p.k, "k"); }},
    {"load_v", [](Writer& w, const PrefillPlan& p) { emit_load_kv(w, p, *p.v, "v"); }},
};

void add_roles(Holes& holes, const PrefillPlan& p) {
  for (const auto& [name, emit] : kBlocks) holes.text(name, text_of(p, emit));
  const std::pair<const char*, std::string> texts[] = {
      {"items_of_warp", items_of(p, true)},
      {"items_of_thread", items_of(p, false)},
      {"end_items", "}"},
      {"first_block", p.work().first_block()},
      {"key_lengths", key_lengths(p)},
      {"key_capacity", p.operand->table() ? "key_capacity" : "0"},
      {"scale_log2", p.scale_log2()},
      {"natural_max", p.results.sink() ? "top" : "row_max * " + p.natural_scale() + top_of(p)},
      {"own_max", fmt::format("row_max * ({} * 0.693147181f)", p.scale_log2()) + top_of(p)},
      {"value_scale", p.scales ? fmt::format(" * v_scale[{}]", head_of_scales(p)) : ""},
      {"v_desc", p.v->get()},
      {"lse_row", p.ragged ? "(long long)work.head * total_q + work.q_start + row"
                           : "((long long)work.batch * heads_q + work.head) * seqlen_q + row"}};
  for (const auto& [name, text] : texts) holes.text(name, text);
  const bool rows = p.results.lse() || p.mask->by_place() || p.mask->has_bits() || p.modifier->names_rows();
  const std::pair<const char*, bool> conditions[] = {{"dynamic", p.dynamic()},
                                                     {"ragged", p.ragged},
                                                     {"table", p.operand->table()},
                                                     {"counter", p.dynamic() && !p.ragged},
                                                     {"sink", p.results.sink()},
                                                     {"lse", p.results.lse()},
                                                     {"rows", rows}};
  for (const auto& [name, value] : conditions) holes.when(name, value);
  holes.number("BM", 2 * PrefillPlan::kRows).number("section_tiles", p.section_tiles());
}

}  // namespace

KernelSource emit_prefill(const PrefillPlan& p) {
  Prelude prelude("sm100.cuh");
  use_sections(prelude, p);
  const auto params = without_fixed_heads(kernel_params(p), p.config);
  const std::string name = *p.config.name;
  Holes holes = tile_holes(p);
  add_memory(holes, p);
  add_roles(holes, p);

  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  p.hidden.emit_page_functions(body, p.config);
  p.work().emit(body);
  body.raw(fill_template("sm100_prefill.cuh", "functions", holes));
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", PrefillPlan::kThreads);
  body.open("{}({})", entry_name(name),
            parameter_list(
                params, {.q_bytes = p.fp8, .kv_bytes = p.fp8, .const_values = true, .one_per_line = true}));
  emit_plain_build(body, p.config.target);
  body.raw(fill_template("sm100_prefill.cuh", "body", holes));
  body.line("#endif");
  body.close();

  KernelSource source;
  Manifest& m = source.manifest = manifest_of(p.config);
  m.num_threads = PrefillPlan::kThreads;
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::persistent, 2 * PrefillPlan::kRows, 1};
  m.params = params;
  // S0 and S1 of the first tile and of the loop; O0 and O1 of the first and the last, and of the loop.
  m.expectations = {{p.fp8 ? "tcgen05.mma.cta_group::1.kind::f8f6f4" : "tcgen05.mma.cta_group::1.kind::f16",
                     4 * (p.k_steps() + p.v_steps())}};
  const std::string facts = fmt::format(
      "Schedule {}: two tiles of 128 query rows by {} keys a tile, {} KV {}, {}, P in {}.\n"
      "Tensor memory: S0 P0 0, S1 P1 {}, O0 {}, O1 {}, {} of 512 columns.\n"
      "Registers: {} a softmax thread, {} a correction thread, {} others.\nShared memory ({} bytes):{}",
      *p.config.schedule, p.BN, p.fa4.num_kv_stages,
      p.fa4.shared_ring ? "slots that K and V share" : "stages of K and of V",
      number_of(p.fa4.num_qk_stages, "qk stage"), number_of(p.fa4.num_pv_stages, "piece"), p.fa4.tmem_s1,
      p.fa4.tmem_o0, p.fa4.tmem_o1, p.fa4.tmem_used, p.registers.softmax, p.registers.correction,
      p.registers.issue, p.smem.bytes(), p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm100
