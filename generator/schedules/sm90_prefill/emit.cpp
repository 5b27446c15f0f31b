// The text of an sm90_prefill kernel: head comment, prelude, work-item decoding, and the three parts of the
// kernel body (set-up, producer, consumer). Each function below emits one phase, in the order they stand in
// the kernel.
#include <fmt/ranges.h>

#include "base/plural.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm90 {
namespace {

/// Where the lengths of the keys come from, of operands whose sequences differ.
const char* key_lengths(const PrefillPlan& p) {
  return p.operand->table() ? "seqlens_k" : "cu_seqlens_k";
}

/// Those of Q, K, V and, unless its rows leave as floats, O.
std::vector<KernelParam> tensor_maps(const PrefillPlan& p) {
  const int l2_promotion = p.fp8 ? 128 : 256;
  const auto map = [&](const char* role, int box_rows) {
    KernelParam param{KernelParam::Kind::tensor_map, role, {}};
    const bool out = std::string_view(role) == "o";
    param.map.dims = {{"depth", out ? p.o_panel_columns() : p.panel_columns()},
                      {"seq", box_rows},
                      {"head", 1},
                      {"batch", 1}};
    param.map.swizzle_bytes = out ? p.o_span : p.span_bytes;
    param.map.l2_promotion_bytes = l2_promotion;
    return param;
  };
  std::vector<KernelParam> params{map("q", 64), map("k", p.k->box_rows()), map("v", p.v->box_rows())};
  if (!p.o_floats) params.push_back(map("o", 16));
  const auto fold = [&p](std::size_t i) { return i == 1 ? p.k_fold : p.v_fold; };
  for (const std::size_t i : {1u, 2u})
    if (p.operand->table() || fold(i) > 1)
      params[i].map = p.operand->map(p.panel_columns(), p.span_bytes, l2_promotion, fold(i));
  for (const std::size_t i : {1u, 2u})
    if (p.narrow) params[i].map.swizzle_bytes = 0, params[i].map.l2_promotion_bytes = 128;
  if (p.raw_rows) params[1].map.dims[0].box = p.depth, params[2].map.dims[0].box = p.ov_depth;
  return params;
}

/// What follows a tensor's name in those of its strides.
std::vector<std::string> stride_axes(const PrefillPlan& p, std::string_view tensor) {
  const bool query = tensor == "q" || tensor == "o";
  std::vector<std::string> axes{"_stride_seq", "_stride_head"};
  if (!p.ragged) axes.insert(axes.begin(), "_stride_batch");
  if (!query && p.operand->table()) axes.insert(axes.begin(), "_stride_page");
  return axes;
}

/// Tensors that are read or written by address: O's rows one by one, and all of rows that are computed again.
std::vector<std::string> by_address(const PrefillPlan& p) {
  if (p.hidden.on()) return {"q", "k", "v", "o"};
  return p.ragged || p.o_floats ? std::vector<std::string>{"o"} : std::vector<std::string>{};
}

void add_pointers(std::vector<KernelParam>& params, const PrefillPlan& p) {
  for (const std::string& tensor : by_address(p)) params.push_back({KernelParam::Kind::pointer, tensor, {}});
}

void add_strides(std::vector<KernelParam>& params, const PrefillPlan& p) {
  for (const std::string& tensor : by_address(p))
    for (const std::string& axis : stride_axes(p, tensor))
      params.push_back({KernelParam::Kind::i64, tensor + axis, {}});
}

void add_scales(std::vector<KernelParam>& params, const PrefillPlan& p) {
  if (!p.scales()) return;
  using Kind = KernelParam::Kind;
  if (p.fp8) params.push_back({Kind::pointer, "q_scale", {}});
  for (const char* role : {"k_scale", "v_scale"}) {
    if (p.scale_tiles()) {
      params.push_back({Kind::tensor_map, role, p.operand->scale_map()});
    } else {
      params.push_back({Kind::pointer, role, {}});
    }
  }
  if (p.scales_by_token() && !p.scale_tiles()) add_scale_strides(params, *p.config.operand, true);
}

std::vector<KernelParam> kernel_params(const PrefillPlan& p) {
  std::vector<KernelParam> params = tensor_maps(p);
  const auto add = [&](KernelParam::Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  using Kind = KernelParam::Kind;
  p.results.add_pointers(params);
  add_scales(params, p);
  add_pointers(params, p);
  if (p.ragged) add(Kind::pointer, "cu_seqlens_q"), add(Kind::pointer, key_lengths(p));
  if (p.part) add(Kind::pointer, "seqlens_k");
  for (KernelParam& param : p.operand->params()) params.push_back(std::move(param));
  if (p.dynamic) add(Kind::pointer, "tile_counter");
  add(Kind::i32, "heads_q"), add(Kind::i32, "heads_kv");
  if (!p.ragged) add(Kind::i32, "seqlen_q"), add(Kind::i32, "seqlen_k");
  if (p.operand->table()) add(Kind::i32, "key_capacity");
  if (p.ragged) {
    add(Kind::i32, "batch");
  } else {
    add(Kind::i32, "num_m_blocks"), add(Kind::i32, "num_tiles");
    if (p.dynamic) add(Kind::i32, "section_heads");
  }
  p.results.add_total(params, p.ragged);
  add_strides(params, p);
  p.hidden.add_params(params, p.config);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors(p.results.lse())) add(Kind::f32, name);
  return params;
}

void emit_work(Writer& w, const PrefillPlan& p) {
  p.hidden.emit_page_functions(w, p.config);
  p.work_items().emit(w);
}

void emit_prefetch_maps(Writer& w, const PrefillPlan& p) {
  for (const char* name : {"q", "k", "v", "o"})
    if (*name != 'o' || !p.o_floats) w.line("prefetch_tensor_map(&{}_map);", name);
  if (p.scale_tiles()) w.line("prefetch_tensor_map(&k_scale_map); prefetch_tensor_map(&v_scale_map);");
}

void emit_barriers(Writer& w, const PrefillPlan& p) {
  for (int i = 0; i < p.num_math_warpgroups; ++i) {
    w.line("mbarrier_init(mbar_q_full + {}, 1); mbarrier_init(mbar_q_empty + {}, 4);", 8 * i, 8 * i);
  }
  constexpr int kConverters = PrefillPlan::kConverterWarps;
  const bool lanes_copy = p.scales_by_token() && !p.scale_tiles();
  p.k->ring().emit_init(w, p.narrow ? kConverters : lanes_copy ? 33 : 1, p.k->empty_arrivals());
  if (!p.shared_ring) p.v->ring().emit_init(w, p.converts() ? kConverters : 1, p.v->empty_arrivals());
  // One lane's bytes, and the lanes' own copies of scales.
  if (p.converts()) p.raw->emit_init(w, p.narrow && lanes_copy ? 33 : 1, kConverters);
  if (p.dynamic) p.work->emit_init(w, 1, p.work_slots_free() ? 0 : p.work_readers());
}

void emit_setup(Writer& w, const PrefillPlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem = smem_address(smem_bytes);");
  for (const char* name : {"q", "k", "v"}) {
    const int offset = name[0] == 'q' ? p.smem_q : name[0] == 'k' ? p.smem_k : p.smem_v;
    w.line("const u32 smem_{} = smem + {};", name, offset);
  }
  w.line("const u32 mbar_q_full = smem + {}, mbar_q_empty = smem + {};", p.smem_q_barriers,
         p.smem_q_barriers + 8 * p.num_math_warpgroups);
  p.k->ring().emit_addresses(w, p.smem_k_barriers);
  p.v->ring().emit_addresses(w, p.smem_v_barriers);
  if (p.converts()) {
    w.line("const u32 smem_raw = smem + {};", p.smem_raw);
    p.raw->emit_addresses(w, p.smem_raw_barriers);
  }
  if (p.scales_by_token()) {
    w.line("const u32 smem_k_scales = smem + {}, smem_v_scales = smem + {};", p.smem_scales,
           p.smem_scales + p.num_kv_stages * p.k_scale_bytes());
    if (p.narrow) w.line("const u32 smem_raw_scales = smem + {};", p.smem_raw_scales);
  }
  if (p.dynamic) {
    p.work->emit_addresses(w, p.smem_work_barriers,
                           p.work_slots_free() ? StagedPipeline::Named::full : StagedPipeline::Named::both);
    if (p.ragged) {
      w.line("int4* const work_items = (int4*)(smem_bytes + {});", p.smem_work);
    } else {
      w.line("int* const work_slots = (int*)(smem_bytes + {});", p.smem_work);
    }
  }
  if (p.cluster > 1) w.line("const u32 rank = cluster_rank();");
  w.line("const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);");
  w.blank();
  w.open("if (threadIdx.x == 0)");
  emit_prefetch_maps(w, p);
  emit_barriers(w, p);
  w.line("fence_mbarrier_init();");
  w.close();
  if (p.cluster > 1) {
    w.comment("every block of the cluster must see the others' barriers before it fills their slots");
    w.line("cluster_arrive(); cluster_wait();");
  } else {
    w.line("__syncthreads();");
  }
}

void use_copies(Prelude& prelude, const PrefillPlan& p) {
  if (p.fp8_tokens()) {
    if (!p.scale_tiles()) prelude.use("copy_async_4");
    prelude.use("load_shared_float2");
    prelude.add("times",
                "__device__ __forceinline__ float2 times(float2 x, float y) { return make_float2(x.x * y, "
                "x.y * y); }\n");
  }
  if (p.scale_tiles()) prelude.use("tma_load_3d");
  if (p.k_fold > 1 || p.v_fold > 1) prelude.use("tma_load_5d");
}

void use_sections(Prelude& prelude, const PrefillPlan& p) {
  for (const char* section : {"types", "smem_address", "elect_one", "setmaxnreg", "mbarrier_init",
                              "fence_mbarrier_init", "mbarrier_expect_tx", "mbarrier_arrive", "mbarrier_wait",
                              "named_barrier", "prefetch_tensor_map", "tma_load", "fence_proxy_async"}) {
    prelude.use(section);
  }
  if (!p.o_floats) prelude.use("tma_store"), prelude.use("stmatrix");
  if (p.ragged) {
    for (const char* section : {"zero_16_bytes", "ragged_items"}) prelude.use(section);
    if (!p.o_floats) prelude.use("copy_16_bytes");
    prelude.use(p.operand->table() ? "sequence_of_pages" : "sequence_of_offsets");
  }
  if (p.cluster > 1) {
    for (const char* section :
         {"cluster_rank", "cluster_sync", "mbarrier_arrive_cluster", "tma_load_multicast"})
      prelude.use(section);
  }
  if (!p.fp8) prelude.use(p.math == DType::bf16 ? "pack_bf16" : "pack_fp16");
  use_output(prelude, *p.config.out_dtype);
  if (p.narrow) use_converter(prelude, p);
  if (p.fp8) use_transposer(prelude, p);
  if (p.results.lse() || p.fp8_tokens()) prelude.use("log2_approx");
  use_copies(prelude, p);
  p.softmax->use(prelude);
  p.modifier->use(prelude);
  p.hidden.use(prelude);
  p.qk->add_to(prelude, true);
  p.qk->add_to(prelude, false);
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
  Prelude prelude("sm90.cuh");
  use_sections(prelude, p);

  const auto params = without_fixed_heads(kernel_params(p), p.config);
  const std::string name = *p.config.name;
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.lines());
  emit_fixed_heads(body, p.config);
  emit_work(body, p);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, 1)", p.num_threads());
  body.open("{}{}({})", p.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", p.cluster) : "",
            entry_name(name),
            parameter_list(params, {.q_bytes = p.fp8,
                                    .kv_bytes = p.fp8 || p.narrow,
                                    .o_floats = p.o_floats,
                                    .const_values = true,
                                    .one_per_line = true}));
  body.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)");
  body.line("asm volatile(\"trap;\");  // built for plain sm_90, which has neither wgmma nor setmaxnreg");
  body.line("#else");
  emit_setup(body, p);
  body.blank();
  body.open("if (warpgroup == 0)");
  emit_producer(body, p);
  body.reopen("else");
  emit_consumer(body, p);
  body.close();
  if (p.cluster > 1) {
    body.comment("no block leaves while another may still arrive on its barriers");
    body.line("__syncwarp();");
    body.line("cluster_arrive(); cluster_wait();");
  }
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
