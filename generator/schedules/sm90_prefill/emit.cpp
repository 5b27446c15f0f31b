// The text of an sm90_prefill kernel: head comment, prelude, work-item decoding, and the three parts of the
// kernel body (set-up, producer, consumer). Each function below emits one phase, in the order they stand in
// the kernel.
#include <fmt/ranges.h>

#include "base/plural.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln::sm90 {
namespace {

using prefill::Parts;

/// Those of Q, K, V and, unless its rows leave as floats, O.
std::vector<KernelParam> tensor_maps(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const int l2_promotion = parts.tiles->l2_promotion();
  const auto map = [&](const char* role, int box_rows, int columns, int span) {
    KernelParam param{KernelParam::Kind::tensor_map, role, {}};
    param.map.dims = {{"depth", columns}, {"seq", box_rows}, {"head", 1}, {"batch", 1}};
    param.map.swizzle_bytes = span;
    param.map.l2_promotion_bytes = l2_promotion;
    return param;
  };
  std::vector<KernelParam> params{map("q", 64, p.panel_columns(), p.span_bytes),
                                  map("k", p.k->box_rows(), p.panel_columns(), p.span_bytes),
                                  map("v", p.v->box_rows(), p.panel_columns(), p.span_bytes)};
  parts.output->add_map(params, map("o", prefill::kBoxRows, p.o_panel_columns(), p.o_span));
  parts.copies->set_maps(params[1], params[2], l2_promotion);
  parts.tiles->set_maps(params[1], params[2]);
  if (p.rope == 0) return params;
  params.push_back(map("k_rope", p.k->box_rows(), p.panel_columns(), p.span_bytes));
  parts.copies->set_rope_map(params.back(), l2_promotion);
  return params;
}

/// Tensors that are read or written by address: O's rows one by one, and all of rows that are computed again.
std::vector<std::string> by_address(const Parts& parts) {
  if (parts.plan.hidden.on()) return {"q", "k", "v", "o"};
  return parts.output->by_address() ? std::vector<std::string>{"o"} : std::vector<std::string>{};
}

void add_pointers(std::vector<KernelParam>& params, const Parts& parts) {
  for (const std::string& tensor : by_address(parts))
    params.push_back({KernelParam::Kind::pointer, tensor, {}});
}

void add_strides(std::vector<KernelParam>& params, const Parts& parts) {
  for (const std::string& tensor : by_address(parts)) {
    const bool keys = tensor == "k" || tensor == "v";
    for (const std::string& axis : keys ? parts.copies->key_axes() : parts.items->axes())
      params.push_back({KernelParam::Kind::i64, tensor + axis, {}});
  }
}

std::vector<KernelParam> kernel_params(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  std::vector<KernelParam> params = tensor_maps(parts);
  const auto add = [&](KernelParam::Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  using Kind = KernelParam::Kind;
  p.results.add_pointers(params);
  parts.scales->add_params(params);
  add_pointers(params, parts);
  parts.items->add_lengths(params);
  for (KernelParam& param : p.operand->params(p.k_fold, p.v_fold)) params.push_back(std::move(param));
  parts.items->add_counter(params);
  add(Kind::i32, "heads_q"), add(Kind::i32, "heads_kv");
  parts.items->add_rows(params);
  parts.copies->add_capacity(params);
  parts.items->add_counts(params);
  p.results.add_total(params, p.ragged);
  add_strides(params, parts);
  p.hidden.add_params(params, p.config);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors(p.results.lse())) add(Kind::f32, name);
  return params;
}

void emit_work(Writer& w, const PrefillPlan& p) {
  p.hidden.emit_page_functions(w, p.config);
  p.work_items().emit(w);
}

void emit_prefetch_maps(Writer& w, const Parts& parts) {
  for (const char* name : {"q", "k", "v"}) w.line("prefetch_tensor_map(&{}_map);", name);
  if (parts.plan.rope > 0) w.line("prefetch_tensor_map(&k_rope_map);");
  parts.output->emit_prefetch_map(w);
  parts.scales->emit_prefetch_maps(w);
}

void emit_barriers(Writer& w, const Parts& parts) {
  for (int i = 0; i < parts.plan.num_math_warpgroups; ++i) {
    w.line("mbarrier_init({}, 1); mbarrier_init({}, 4);", plus("mbar_q_full", 8 * i),
           plus("mbar_q_empty", 8 * i));
  }
  parts.tiles->emit_init(w);
  parts.items->emit_init(w);
}

void emit_setup(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem = smem_address(smem_bytes);");
  w.line("const u32 smem_q = {};", plus("smem", p.smem_q));
  w.line("const u32 smem_k = {};", plus("smem", p.smem_k));
  w.line("const u32 smem_v = {};", plus("smem", p.smem_v));
  w.line("const u32 mbar_q_full = smem + {}, mbar_q_empty = smem + {};", p.smem_q_barriers,
         p.smem_q_barriers + 8 * p.num_math_warpgroups);
  p.k->ring().emit_addresses(w, p.smem_k_barriers);
  p.v->ring().emit_addresses(w, p.smem_v_barriers);
  parts.tiles->emit_addresses(w);
  parts.scales->emit_addresses(w);
  parts.items->emit_addresses(w);
  parts.blocks->emit_rank(w);
  w.line("const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);");
  w.blank();
  w.open("if (threadIdx.x == 0)");
  emit_prefetch_maps(w, parts);
  emit_barriers(w, parts);
  w.line("fence_mbarrier_init();");
  w.close();
  parts.blocks->emit_sync(w);
}

void use_sections(Prelude& prelude, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  for (const char* section : {"types", "smem_address", "elect_one", "setmaxnreg", "mbarrier_init",
                              "fence_mbarrier_init", "mbarrier_expect_tx", "mbarrier_arrive", "mbarrier_wait",
                              "named_barrier", "prefetch_tensor_map", "tma_load", "fence_proxy_async"}) {
    prelude.use(section);
  }
  parts.output->use(prelude);
  parts.items->use(prelude);
  parts.blocks->use(prelude);
  parts.copies->use(prelude);
  parts.tiles->use(prelude);
  parts.scales->use(prelude);
  parts.query->use(prelude);
  use_output(prelude, *p.config.out_dtype);
  p.results.use(prelude);
  p.softmax->use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  p.qk->add_to(prelude, true);
  p.qk->add_to(prelude, false);
  if (p.rope_apart()) p.qk_rope->add_to(prelude, false);
  p.pv->add_to(prelude, false);
}

Manifest manifest(const PrefillPlan& p, const std::vector<KernelParam>& params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads();
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::persistent, p.BM * p.cluster, 1};
  m.cluster = {p.cluster, 1, 1};
  m.params = params;
  // Bodies of the main loop: the peeled first tile has QK only, the last P*V stands alone.
  const int bodies =
      (p.whole_tiles() ? 1 : 0) + (p.mask->bounded_above() ? 1 : 0) + (p.mask->bounded_below() ? 1 : 0);
  const std::string k = "k" + std::to_string(p.step_elements());
  m.expectations = {{"wgmma.mma_async.sync.aligned.m64n" + std::to_string(p.BN) + k,
                     p.k_steps() * (1 + bodies) + (p.BN == p.ov_depth ? p.v_steps() * (1 + bodies) : 0)}};
  if (p.BN != p.ov_depth) {
    m.expectations.push_back(
        {"wgmma.mma_async.sync.aligned.m64n" + std::to_string(p.ov_depth) + k, p.v_steps() * (1 + bodies)});
  }
  return m;
}

}  // namespace

KernelSource emit_prefill(const PrefillPlan& p) {
  const Parts parts(p);
  Prelude prelude("sm90.cuh");
  use_sections(prelude, parts);

  const auto params = without_fixed_heads(kernel_params(parts), p.config);
  const std::string name = *p.config.name;
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  emit_work(body, p);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", p.num_threads());
  body.open("{}{}({})", parts.blocks->attribute(), entry_name(name),
            parameter_list(params, {.q_bytes = p.fp8,
                                    .kv_bytes = p.fp8 || p.narrow,
                                    .o_floats = p.o_floats,
                                    .const_values = true,
                                    .one_per_line = true}));
  body.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)");
  body.line("asm volatile(\"trap;\");  // built for plain sm_90, which has neither wgmma nor setmaxnreg");
  body.line("#else");
  emit_setup(body, parts);
  body.blank();
  body.open("if (warpgroup == 0)");
  emit_producer(body, parts);
  body.reopen("else");
  emit_consumer(body, parts);
  body.close();
  parts.blocks->emit_end(body);
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, params);
  const std::string facts = fmt::format(
      "Schedule {}: {} query rows ({} consumer warpgroups of 64) by {} keys a tile, {}, {},\n"
      "swizzle {}B. Registers: {} a producer thread, {} a consumer thread.\nShared memory ({} bytes):{}",
      *p.config.schedule, p.BM, p.num_math_warpgroups, p.BN, number_of(p.num_kv_stages, "KV stage"),
      number_of(p.num_qk_stages, "qk stage"), p.span_bytes, p.producer_registers, p.math_registers,
      p.smem.bytes(), p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm90
