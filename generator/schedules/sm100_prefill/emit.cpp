// The text of an sm100_prefill kernel: parameters, prelude, functions and set-up; the roles of its warps have their own
// files, and what varies in them is chosen once (parts.hpp).
#include "base/plural.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/layout/tcgen05.hpp"
#include "generator/schedules/sm100_prefill/parts.hpp"
#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {
namespace prefill {
namespace {

using Kind = KernelParam::Kind;

KernelParam tensor_map(const Parts& parts, const char* role, int rows, int span_bytes) {
  KernelParam param{Kind::tensor_map, role, {}};
  param.map.dims = {{"depth", parts.plan.fa4.gran}, {"seq", rows}, {"head", 1}, {"batch", 1}};
  param.map.swizzle_bytes = span_bytes;
  param.map.l2_promotion_bytes = parts.elements->l2_promotion();
  return param;
}

std::vector<KernelParam> kernel_params(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const int span = p.fa4.swizzle_bytes;
  std::vector<KernelParam> params{tensor_map(parts, "q", PrefillPlan::kRows, span),
                                  tensor_map(parts, "k", p.BN, span), tensor_map(parts, "v", p.BN, span),
                                  tensor_map(parts, "o", 32, 128)};
  parts.copies->set_maps(params[1], params[2]);
  p.results.add_pointers(params);
  parts.scales->add_params(params);
  parts.items->add_lengths(params);
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  parts.items->add_counter(params);
  params.push_back({Kind::i32, "heads_q", {}}), params.push_back({Kind::i32, "heads_kv", {}});
  parts.copies->add_capacity(params);
  parts.items->add_counts(params);
  p.hidden.add_params(params, p.config);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors(p.results.lse())) params.push_back({Kind::f32, name, {}});
  return params;
}

void use_sections(Prelude& prelude, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  for (const char* section : {"types", "smem_address", "elect_one", "setmaxnreg", "mbarrier_init",
                              "fence_mbarrier_init", "mbarrier_expect_tx", "mbarrier_arrive", "mbarrier_wait",
                              "prefetch_tensor_map", "tma_load", "tma_store", "fence_proxy_async",
                              "descriptor", "shared_words", "store_shared_float", "tcgen05_fence"})
    prelude.use(section);
  if (p.operand->gathers()) p.operand->use_copies(prelude);
  parts.blocks->use(prelude);
  prelude.use(parts.elements->pack());
  prelude.use(pack_name(*p.config.out_dtype));
  p.results.use(prelude);
  parts.items->use(prelude);
  p.softmax().use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  parts.hidden->use(prelude);
  parts.scores->use(prelude);
  p.output_access().add_load(prelude);
  p.output_access().add_store(prelude);
}

/// The functions that make P of scores: with the special-function unit, and without where that has a share.
Lines exponentials(const Parts& parts) {
  Holes holes;
  holes.text("pack", parts.elements->pack());
  const std::string name = parts.elements->exponentials();
  Lines lines = section(name.c_str(), holes);
  if (parts.plan.exp_offload > 0) lines.add(section((name + "_fma").c_str(), holes));
  return lines;
}

/// Numbers and names that functions and roles share.
Holes tile_holes(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const auto word = [](unsigned x) { return fmt::format("{:#x}u", x); };
  Holes holes;
  holes.number("BN", p.BN)
      .number("ov_depth", p.ov_depth)
      .number("v_steps", p.v_steps())
      .number("k_step", p.fa4.MMA_K)
      .number("piece", p.output_access().registers())
      .number("panel_bytes", PrefillPlan::kPanelBytes);
  holes.text("load_output", p.output_access().load()).text("store_output", p.output_access().store());
  holes.text("scores_kind", word(layout::tcgen05_instruction(p.config.dtype, p.product_rows(), p.BN, false)));
  holes.text("output_kind",
             word(layout::tcgen05_instruction(p.config.dtype, p.product_rows(), p.product_columns(), true)));
  holes.text("q_high", word(p.q_descriptor().high())).text("k_high", word(p.k->descriptor().high()));
  holes.text("v_high", word(p.v->descriptor().high())).text("q_low", word(p.q_descriptor().low()));
  holes.text("sync", parts.blocks->sync()).number("p_arrivals", 8 * p.blocks());
  holes.text("out_pack", pack_name(*p.config.out_dtype)).text("first_block", p.work().first_block());
  // ptxas 13.0 keeps so much of unrolled loops over O in registers for sm_103a that it spills.
  holes.text("columns", p.config.target == Target::sm_103a ? " 1" : "");
  return holes;
}

void add_memory(Holes& holes, const PrefillPlan& p) {
  const std::pair<const char*, int> numbers[] = {{"mbar", p.smem_barriers},
                                                 {"smem_tmem", p.smem_tmem},
                                                 {"q_stride", p.q_stride()},
                                                 {"warp_stage", 32 * 128},
                                                 {"s1", p.fa4.tmem_s1},
                                                 {"o0", p.fa4.tmem_o0},
                                                 {"o1", p.fa4.tmem_o1},
                                                 {"tmem_columns", p.tmem().columns()},
                                                 {"tiles", p.tiles()},
                                                 {"softmax_warps", p.softmax_threads() / 32},
                                                 {"softmax_threads", p.softmax_threads()},
                                                 {"products_warp", p.products_warp()},
                                                 {"softmax_registers", p.registers.softmax},
                                                 {"correction_registers", p.registers.correction},
                                                 {"issue_registers", p.registers.issue}};
  for (const auto& [name, value] : numbers) holes.number(name, value);
  const std::pair<const char*, int> addresses[] = {
      {"smem_q", p.smem_q}, {"smem_k", p.smem_k}, {"smem_v", p.smem_v}, {"smem_factors", p.smem_factors}};
  for (const auto& [name, offset] : addresses) holes.text(name, plus("smem", offset));
}

void emit_functions(Writer& w, const Parts& parts, Holes holes) {
  holes.lines("exponentials", exponentials(parts));
  add_product_functions(holes, parts);
  add_output_functions(holes, parts);
  w.raw(fill_template("sm100_prefill.cuh", "functions", holes));
}

void emit_setup(Writer& w, const Parts& parts, Holes holes) {
  const PrefillPlan& p = parts.plan;
  holes.lines("ring_addresses", lines_of([&](Writer& b) {
                p.k->ring().emit_addresses(b, p.smem_k_barriers);
                p.v->ring().emit_addresses(b, p.smem_v_barriers);
                parts.items->emit_addresses(b);
              }));
  holes.lines("ring_init", lines_of([&](Writer& b) {
                p.k->ring().emit_init(b, 1, 1);
                if (!p.fa4.shared_ring) p.v->ring().emit_init(b, 1, 1);
                parts.items->emit_init(b);
              }));
  holes.lines("barrier_note", parts.tiles->barriers(holes));
  holes.text("columns_note", parts.tiles->columns());
  holes.lines("rest_init", lines_of([&](Writer& b) { parts.pieces->emit_init(b); }));
  holes.lines("barrier_init", parts.tiles->init(holes));
  w.raw(fill_template("sm100_prefill.cuh", "setup", holes));
}

void emit_body(Writer& w, const Parts& parts, const Holes& holes) {
  emit_setup(w, parts, holes);
  emit_softmax(w, parts, holes);
  emit_correction(w, parts, holes);
  emit_products(w, parts, holes);
  emit_copies(w, parts, holes);
  w.raw(section("end", holes));
}

std::string facts_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  return fmt::format(
      "Schedule {}: {} by {} keys a tile, {} KV {}, {}, P in {}.\n"
      "Tensor memory: {}, {} of 512 columns.\n"
      "Registers: {} a softmax thread, {} a correction thread, {} others.\nShared memory ({} bytes):{}",
      *p.config.schedule, parts.tiles->title(), p.BN, p.fa4.num_kv_stages,
      p.fa4.shared_ring ? "slots that K and V share" : "stages of K and of V",
      number_of(p.fa4.num_qk_stages, "qk stage"), number_of(p.fa4.num_pv_stages, "piece"),
      parts.tiles->columns(), p.fa4.tmem_used, p.registers.softmax, p.registers.correction, p.registers.issue,
      p.smem.bytes(), p.smem.listing());
}

}  // namespace
}  // namespace prefill

KernelSource emit_prefill(const PrefillPlan& p) {
  using namespace prefill;
  const Parts parts(p);
  Prelude prelude("sm100.cuh");
  use_sections(prelude, parts);
  const auto params = without_fixed_heads(kernel_params(parts), p.config);
  Holes holes = tile_holes(parts);
  add_memory(holes, p);

  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  p.hidden.emit_page_functions(body, p.config);
  p.work().emit(body);
  emit_functions(body, parts, holes);
  body.line("extern \"C\" __global__ void {}__launch_bounds__({}, 1)", parts.blocks->attribute(),
            p.threads());
  body.open("{}({})", entry_name(*p.config.name),
            parameter_list(
                params, {.q_bytes = p.fp8, .kv_bytes = p.fp8, .const_values = true, .one_per_line = true}));
  emit_plain_build(body, p.config.target);
  emit_body(body, parts, holes);
  body.line("#endif");
  body.close();

  KernelSource source;
  Manifest& m = source.manifest = manifest_of(p.config);
  m.num_threads = p.threads();
  m.smem_bytes = p.smem.bytes();
  m.grid = {parts.items->grid(), p.block_rows() * p.blocks(), 1};
  m.cluster = {p.blocks(), 1, 1};
  m.params = params;
  // S of the first tile and of the loop; O of the first or the last, and of the loop: of each tile of queries.
  m.expectations = {{parts.blocks->instruction(), parts.tiles->issues() * (p.k_steps() + p.v_steps())}};
  set_text(source, facts_of(parts), body.lines());
  return source;
}

}  // namespace kiln::sm100
