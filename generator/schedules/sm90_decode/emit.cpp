// The text of an sm90_decode kernel: head comment, prelude, parameters, set-up; producer and consumer have their own
// files.
#include "base/plural.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/terms.hpp"
#include "generator/schedules/common/decode_text.hpp"
#include "generator/schedules/sm90_decode/consumer.hpp"

namespace kiln::sm90 {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> kernel_params(const Parts& parts) {
  const DecodePlan& p = parts.plan;
  std::vector<KernelParam> params;
  params.push_back({Kind::tensor_map, "k", p.operand->map(p.k_span / p.kv_bytes, p.k_span, 128, p.k_fold)});
  if (p.rope > 0) params.push_back({Kind::tensor_map, "k_rope", p.operand->map(64, 128, 128)});
  if (!p.v_in_k)
    params.push_back({Kind::tensor_map, "v", p.operand->map(p.v_span / p.kv_bytes, p.v_span, 128, p.v_fold)});
  const auto add = [&](Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  p.results.add_pointers(params);
  parts.scales->add_params(params);
  if (!p.separate && !p.stream->by_rows())
    add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  if (p.stages_at_launch()) add(Kind::i32, "num_kv_stages");
  for (auto& param : p.operand->params(p.k_fold, p.v_fold)) params.push_back(std::move(param));
  add_problem_params(params, *p.stream);
  const bool ragged = p.stream->ragged_q();
  p.results.add_total(params, ragged);
  add_query_strides(params, ragged);
  p.hidden.add_params(params, p.config);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors()) add(Kind::f32, name);
  return params;
}

void emit_setup(Writer& w, const Parts& parts, const Consumer& consumer) {
  const DecodePlan& p = parts.plan;
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem = smem_address(smem_bytes);");
  const std::string v = p.stages_at_launch() && !p.one_ring()
                            ? fmt::format("smem_k + num_kv_stages * {}", p.k->slot_bytes())
                            : plus("smem", p.smem_v);
  w.line("const u32 smem_k = {}, smem_v = {}, smem_q = {}{};", plus("smem", p.smem_k), v,
         plus("smem", p.smem_q), p.o_floats() ? "" : ", smem_o = " + plus("smem", p.smem_o));
  consumer.emit_addresses(w);
  p.k->ring().emit_addresses(w, p.smem_barriers);
  // V in K's slots or ring has K's barriers, too.
  const int after_k = p.smem_barriers + (p.one_ring() ? 0 : p.k->ring().barrier_bytes());
  using Named = StagedPipeline::Named;
  p.v->ring().emit_addresses(w, after_k, p.v_in_k ? Named::empty : Named::both);
  if (p.stream->dynamic()) {
    p.cells.emit_addresses(w, after_k + p.v->ring().barrier_bytes(),
                           p.cell_slots_free() ? Named::full : Named::both);
    w.line("int* const cell_slots = (int*)(smem_bytes + {});", p.smem_cells);
  }
  emit_problem(w, *p.stream);
  w.line("const int lane = threadIdx.x % 32;");
  w.blank();
  w.open("if (threadIdx.x == {})", p.consumer_threads());
  w.line("prefetch_tensor_map(&k_map);{}{}", p.v_in_k ? "" : " prefetch_tensor_map(&v_map);",
         p.rope > 0 ? " prefetch_tensor_map(&k_rope_map);" : "");
  parts.scales->emit_prefetch_maps(w);
  const int full_arrivals = parts.scales->full_arrivals();
  p.k->ring().emit_init(w, full_arrivals, p.k->empty_arrivals());
  if (!p.one_ring()) p.v->ring().emit_init(w, full_arrivals, p.v->empty_arrivals());
  if (p.stream->dynamic())
    // empty: all warps but the one that fetches
    p.cells.emit_init(w, 1, p.cell_slots_free() ? 0 : 4 + p.producer_warps - 1);
  w.line("fence_mbarrier_init();");
  p.hidden.emit_flag(w, p.odd_flag());
  w.close();
  consumer.emit_range(w);
  w.line("__syncthreads();");
}

Prelude prelude_of(const Parts& parts, const Consumer& consumer) {
  const DecodePlan& p = parts.plan;
  Prelude prelude("sm90.cuh");
  for (const char* section :
       {"types", "smem_address", "mbarrier_init", "fence_mbarrier_init", "mbarrier_expect_tx",
        "mbarrier_arrive", "mbarrier_wait", "named_barrier", "prefetch_tensor_map", "tma_load",
        "tma_prefetch", "dependent_launch", "fence_proxy_async", "zero_16_bytes", "copy_16_bytes",
        "exp2_approx", "rcp_approx", "row_base"})
    prelude.use(section);
  prelude.use(pack_name(p.math));
  if (consumer.stores_by_chunks()) prelude.use("thread_here");
  if (p.k_fold > 1 || p.v_fold > 1) prelude.use("tma_load_5d"), prelude.use("tma_prefetch_5d");
  use_output(prelude, *p.config.out_dtype);
  parts.scales->use(prelude);
  p.results.use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  p.stream->use(prelude);
  if (p.stream->splits()) prelude.use("share_parts");
  consumer.use(prelude);
  return prelude;
}

/// The warps' roles: consumers, and the producers behind them, the last warp first.
void emit_roles(Writer& w, const Parts& parts, const Consumer& consumer) {
  const int threads = parts.plan.consumer_threads();
  const std::size_t last = parts.producers.size() - 1;
  w.open("if (threadIdx.x >= {})", threads + 32 * last);
  consumer.emit_producer_head(w);
  emit_decode_producer(w, parts, last);
  for (std::size_t number = last; number-- > 0;) {
    w.reopen("else if (threadIdx.x >= {})", threads + 32 * number);
    emit_decode_producer(w, parts, number);
  }
  w.reopen("else");
  consumer.emit(w);
  w.close();
}

Manifest manifest(const DecodePlan& p, const Consumer& consumer, const std::vector<KernelParam>& params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads();
  m.smem_bytes = p.smem_bytes();
  if (p.residency_at_launch) {
    m.stages = Manifest::Stages{p.num_kv_stages, p.shared_stages, p.shared_smem_bytes(), p.alone_megabytes};
  }
  m.grid = {GridRule::Kind::stream_k, p.BM, p.ctas_per_sm, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.partial_floats());
  m.params = params;
  consumer.expect(m);
  m.expectations.push_back(
      {"griddepcontrol.wait",
       2 + (p.stream->range_reads_lengths() ? 1 + p.range_by_role() : 0) + p.producer_warps});
  return m;
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const Parts parts(p);
  const std::unique_ptr<const Consumer> consumer = consumer_of(parts);
  const auto params = without_fixed_heads(kernel_params(parts), p.config);
  const std::string name = *p.config.name;
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude_of(parts, *consumer).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  p.hidden.emit_page_functions(body, p.config);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, {})", p.num_threads(),
            p.room_beside ? 2 : p.ctas_per_sm);
  body.open("{}({})", entry_name(name),
            parameter_list(params, {.q_bytes = p.fp8_q,
                                    .kv_bytes = p.narrow,
                                    .o_floats = p.o_floats(),
                                    .const_values = true,
                                    .one_per_line = true}));
  body.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)");
  body.line("asm volatile(\"trap;\");  // built for plain sm_90, which has no wgmma");
  body.line("#else");
  emit_setup(body, parts, *consumer);
  body.blank();
  emit_roles(body, parts, *consumer);
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, *consumer, params);
  const std::string stages =
      p.residency_at_launch ? fmt::format("{} KV stages in each of {} blocks a multiprocessor, or {} in one",
                                          p.shared_stages, p.ctas_per_sm, p.num_kv_stages)
                            : fmt::format("{}, {} a multiprocessor", number_of(p.num_kv_stages, "KV stage"),
                                          number_of(p.ctas_per_sm, "block"));
  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows by {} keys a tile, {}.\n"
      "Shared memory ({} bytes{}):{}",
      *p.config.schedule, p.BM, p.BN, stages, p.smem.bytes(),
      p.stages_at_launch() ? fmt::format(" with {} stages", p.num_kv_stages) : "", p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm90
