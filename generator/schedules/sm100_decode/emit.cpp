// The text of an sm100_decode kernel: parameters, prelude, the sections of templates/sm100_decode.cuh (holes.cpp).
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/emit/text_template.hpp"
#include "generator/schedules/common/gather4.hpp"
#include "generator/schedules/sm100_decode/rings.hpp"
#include "generator/systems/sm100/plain_build.hpp"

namespace kiln::sm100 {
namespace {

using Kind = KernelParam::Kind;
std::vector<KernelParam> kernel_params(const DecodePlan& p, const KeyScales& scales,
                                       const Elements& elements) {
  const int l2_promotion = gather4_l2_promotion(p.config, 128);
  const auto map = [&](int columns) {
    return p.narrow ? p.operand->map(p.v_in_k ? p.chunk_columns() : p.row_bytes(columns), 0, l2_promotion)
                    : p.operand->map(kSpanColumns, p.span_bytes(), l2_promotion);
  };
  std::vector<KernelParam> params{{Kind::tensor_map, "k", map(p.depth)}};
  if (p.rope > 0)
    params.push_back(
        {Kind::tensor_map, "k_rope", p.operand->map(kSpanColumns, p.span_bytes(), l2_promotion)});
  if (!p.v_in_k) params.push_back({Kind::tensor_map, "v", map(p.ov_depth)});
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  p.results.add_pointers(params);
  scales.add_params(params);
  if (!p.stream->by_rows()) add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  packed_rows(p, scales, elements).add_params(params, *p.mask, *p.modifier);
  return without_fixed_heads(std::move(params), p.config);
}

Prelude prelude_of(const DecodePlan& p, const Rings& rings, const KeyScales& scales,
                   const Elements& elements) {
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
                              "fence_proxy_async",
                              "descriptor",
                              "zero_16_bytes",
                              "exp2_approx",
                              "row_base",
                              "tmem_alloc",
                              "tcgen05_fence",
                              "tmem_wait_store",
                              "tcgen05_commit"})
    prelude.use(section);
  p.operand->use_copies(prelude);
  elements.use(prelude, false);
  rings.use(prelude);
  scales.use(prelude);
  use_output(prelude, *p.config.out_dtype);
  p.results.use(prelude);
  if (p.stream->splits()) prelude.use("atomic_add_acq_rel");
  p.stream->use(prelude);
  p.modifier->use(prelude);
  p.scores_access().add_load(prelude);
  p.output_access().add_load(prelude);
  if (p.rescales_by_halves()) p.rescale_access().add_load(prelude);
  p.rescale_access().add_store(prelude);
  p.hidden.use(prelude);
  return prelude;
}

/// Set-up, the roles of the warps, the end.
void emit_body(Writer& w, const Holes& holes) {
  w.raw(fill_template("sm100_decode.cuh", "setup", holes));
  for (const char* role : {"softmax", "products"}) w.raw(fill_template("sm100_decode.cuh", role, holes));
  w.raw(*holes.lines_of("converters"));
  for (const char* role : {"copies", "end"}) w.raw(fill_template("sm100_decode.cuh", role, holes));
}

Manifest manifest(const DecodePlan& p, const Rings& rings, const Elements& elements,
                  const std::vector<KernelParam>& params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads();
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::stream_k, p.BM, 1, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.partial_floats());
  m.params = params;
  m.expectations = {{fmt::format("tcgen05.mma.cta_group::1.{}", elements.kind()),
                     ceil_div(p.depth, p.step_columns()) + p.out_blocks() * p.v_steps()},
                    {"griddepcontrol.wait", rings.launch_waits()}};
  return m;
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const std::unique_ptr<const KeyScales> scales = scales_of(p);
  const std::unique_ptr<const Rings> rings = rings_of(p, *scales);
  const std::unique_ptr<const Elements> elements = elements_of(p.math);
  const auto params = kernel_params(p, *scales, *elements);
  const Holes holes = holes_of(p, *rings, *scales, *elements);
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude_of(p, *rings, *scales, *elements).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  p.hidden.emit_page_functions(body, p.config);
  body.raw(fill_template("sm100_decode.cuh", "functions", holes));
  if (p.narrow) body.raw(fill_template("sm100_decode.cuh", rings->convert_function(), holes));
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", p.num_threads());
  body.open("{}({})", entry_name(*p.config.name),
            parameter_list(params, {.q_bytes = p.fp8,
                                    .kv_bytes = p.narrow || p.fp8,
                                    .scale_bytes = p.block > 0,
                                    .o_floats = *p.config.out_dtype == DType::f32,
                                    .const_values = true,
                                    .one_per_line = true}));
  emit_plain_build(body, p.config.target);
  emit_body(body, holes);
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, *rings, *elements, params);
  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows by {} keys a tile, {} {} of K{}.\n"
      "Tensor memory: S' of even tiles 0, of odd tiles {}, O' {}, {} columns.\n"
      "Shared memory ({} bytes):{}",
      *p.config.schedule, p.BM, p.BN, p.num_kv_stages, p.latent_bytes() ? "chunks" : "stages",
      p.v_in_k ? ", whose first columns are V" : " and of V", p.BM, p.tmem_o(), p.tmem().columns(),
      p.smem.bytes(), p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm100
