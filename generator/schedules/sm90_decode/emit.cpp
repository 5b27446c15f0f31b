// The text of an sm90_decode kernel: head comment, prelude, parameters, set-up; producer and consumer stand
// in their own files.
#include <fmt/ranges.h>

#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/output_elements.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm90 {
namespace {

using Kind = KernelParam::Kind;

/// K and V as pointers with strides, for rows that are computed again.
void add_hidden_params(std::vector<KernelParam>& params, const DecodePlan& p) {
  if (p.hidden) HiddenValues::add_params(params, p.config);
}

/// Those of Q and O.
void add_strides(std::vector<KernelParam>& params, bool ragged) {
  for (const char* tensor : {"q", "o"}) {
    for (const char* axis : {"batch", "seq", "head"}) {
      if (ragged && std::string_view(axis) == "batch") continue;
      params.push_back({Kind::i64, fmt::format("{}_stride_{}", tensor, axis), {}});
    }
  }
}

/// Scales of Q, and of K and V as tiles or as rows.
void add_scale_params(std::vector<KernelParam>& params, const DecodePlan& p) {
  if (!p.scales()) return;
  if (p.fp8_q) params.push_back({Kind::pointer, "q_scale", {}});
  for (const char* tensor : {"k_scale", "v_scale"}) {
    if (p.v_in_k && *tensor == 'v') continue;
    if (p.scale_tiles()) {
      params.push_back({Kind::tensor_map, tensor, p.operand->scale_map()});
    } else {
      params.push_back({Kind::pointer, tensor, {}});
    }
  }
  if (p.scales_by_token() && !p.scale_tiles()) add_scale_strides(params, *p.config.operand, !p.v_in_k);
}

std::vector<KernelParam> kernel_params(const DecodePlan& p) {
  std::vector<KernelParam> params;
  params.push_back({Kind::tensor_map, "k", p.operand->map(p.k_span / p.kv_bytes, p.k_span, 128, p.k_fold)});
  if (p.rope > 0) params.push_back({Kind::tensor_map, "k_rope", p.operand->map(64, 128, 128)});
  if (!p.v_in_k)
    params.push_back({Kind::tensor_map, "v", p.operand->map(p.v_span / p.kv_bytes, p.v_span, 128, p.v_fold)});
  const auto add = [&](Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  if (p.lse) add(Kind::pointer, "lse");
  if (p.sink) add(Kind::pointer, "sink");
  add_scale_params(params, p);
  if (!p.separate && !p.stream->by_rows())
    add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  if (p.stages_at_launch()) add(Kind::i32, "num_kv_stages");
  for (auto& param : p.operand->params()) params.push_back(std::move(param));
  for (const auto& m : p.stream->members())
    add(std::string_view(m.type) == "int" ? Kind::i32 : Kind::pointer, m.role);
  const bool ragged = p.stream->ragged_q();
  if (p.lse && ragged) add(Kind::i32, "total_q");
  add_strides(params, ragged);
  add_hidden_params(params, p);
  add_score_params(params, *p.mask, *p.modifier);
  for (const char* name : p.modifier->factors()) add(Kind::f32, name);
  return params;
}

void emit_setup(Writer& w, const DecodePlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem = smem_address(smem_bytes);");
  const std::string v_at = p.stages_at_launch() && !p.one_ring()
                               ? fmt::format("{} + num_kv_stages * {}", p.smem_k, p.k->slot_bytes())
                               : std::to_string(p.smem_v);
  w.line("const u32 smem_k = smem + {}, smem_v = smem + {}, smem_q = smem + {}{};", p.smem_k, v_at, p.smem_q,
         p.o_floats() ? "" : fmt::format(", smem_o = smem + {}", p.smem_o));
  if (!p.upright) w.line("const u32 smem_p = smem + {};", p.smem_p);
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
  std::vector<std::string> members;
  for (const auto& m : p.stream->members()) members.emplace_back(m.role);
  w.line("const Problem problem = {{{}}};", fmt::join(members, ", "));
  w.line("const int lane = threadIdx.x % 32;");
  w.blank();
  w.open("if (threadIdx.x == {})", p.consumer_threads());
  w.line("prefetch_tensor_map(&k_map);{}{}", p.v_in_k ? "" : " prefetch_tensor_map(&v_map);",
         p.rope > 0 ? " prefetch_tensor_map(&k_rope_map);" : "");
  if (p.scale_tiles())
    w.line("prefetch_tensor_map(&k_scale_map);{}", p.v_in_k ? "" : " prefetch_tensor_map(&v_scale_map);");
  // One lane's bytes, and the lanes' own copies of scales.
  const int full_arrivals = p.scales_by_token() && !p.scale_tiles() ? 33 : 1;
  p.k->ring().emit_init(w, full_arrivals, p.k->empty_arrivals());
  if (!p.one_ring()) p.v->ring().emit_init(w, full_arrivals, p.v->empty_arrivals());
  if (p.stream->dynamic())
    // empty: all warps but the one that fetches
    p.cells.emit_init(w, 1, p.cell_slots_free() ? 0 : 4 + p.producer_warps - 1);
  w.line("fence_mbarrier_init();");
  if (p.hidden) w.line("*(int*)(smem_bytes + {}) = 0;", p.smem_flag + 4);
  w.close();
  if (!p.range_by_role()) p.stream->emit_range(w);
  w.line("__syncthreads();");
}

/// Of slot 0 of K's or V's scales.
int scales_at(const DecodePlan& p, bool k) {
  return p.smem_scales + (k ? 0 : p.scale_bytes(true) * p.num_kv_stages);
}

/// Scales of the tile's keys, four bytes each: the copies' arrivals count in the slot's full barrier.
void emit_load_scales(Writer& w, const DecodePlan& p, const char* name, const StagedPipeline& ring) {
  const bool k = name[0] == 'k';
  p.operand->emit_load_scales(
      w, "n",
      {name, k ? p.k_groups : p.v_groups, scales_at(p, k), p.num_kv_stages > 1 ? ring.stage() : "0",
       scales_by_head(p.config.operand->quantization)});
  w.line("copy_async_arrive({});", ring.full(0));
}

/// The piece of them that this lane copies.
void emit_copy_scales(Writer& w, const DecodePlan& p, const char* name, const StagedPipeline& ring) {
  const bool k = name[0] == 'k';
  std::string at = fmt::format("smem + {}", scales_at(p, k));
  if (p.num_kv_stages > 1) at += fmt::format(" + {} * {}", ring.stage(), p.scale_bytes(k));
  p.operand->emit_copy_scales(w, "n", {name, at, ring.full(0), "0x12F0000000000000ull"});
}

void emit_load_chunk(Writer& w, const DecodePlan& p, const TMAConsumerPipeline& pipeline, const char* name,
                     int qk) {
  const auto& ring = pipeline.ring();
  const auto& operand = *p.operand;
  const bool keys = name[0] == 'k';
  const int fold = keys ? p.k_fold : p.v_fold, panels = pipeline.panels_per_chunk();
  ring.emit_wait_empty_by_warp(w, qk);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(qk), p.copied_bytes(pipeline, qk));
  // Bytes of other lanes may land before they are expected: the phase waits for lane 0's arrival in any case.
  if (p.scales_by_token() && !p.scale_tiles()) emit_load_scales(w, p, name, ring);
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    // A panel of the tile, `offset` bytes from the slot's start: columns of `map` from `column` on.
    const auto load = [&](const std::string& map, int offset, int span, const std::string& coordinates) {
      const int piece_bytes = operand.eff_page() * span;
      std::string dst = fmt::format("smem_{} + ", name);
      if (p.num_kv_stages > 1) dst += fmt::format("{} * {} + ", ring.stage(), pipeline.slot_bytes());
      dst += fmt::format("{}", offset + round * 32 * piece_bytes);
      if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", piece_bytes);
      w.line("tma_load({}, &{}_map, {}, {}, 0x12F0000000000000ull);", dst, map, ring.full(qk), coordinates);
    };
    const int span = pipeline.tile().span_bytes;
    for (int panel = qk * panels; panel < (qk + 1) * panels; panel += fold)
      load(name, panel * p.BN * span, span,
           operand.box_coordinates("n", round, panel, pipeline.panel_columns(), fold));
    const bool last = qk + 1 == pipeline.num_qk_stages_effective();
    for (int panel = 0; keys && last && panel < p.rope_panels(); ++panel)
      load("k_rope", pipeline.rope_offset() + panel * p.rope_tile().panel_bytes(), 128,
           operand.box_coordinates("n", round, panel, 64, 1));
    if (p.scale_tiles()) emit_copy_scales(w, p, name, ring);
    if (!condition.empty()) w.close();
  }
}

void emit_load(Writer& w, const DecodePlan& p, const TMAConsumerPipeline& pipeline, const char* name) {
  w.comment("{}(n) into the next slot", name[0] == 'k' ? "K" : "V");
  for (int qk = 0; qk < pipeline.num_qk_stages_effective(); ++qk) emit_load_chunk(w, p, pipeline, name, qk);
  pipeline.ring().emit_step(w);
}

/// The block's first tile to L2 while the launch before may still run, where lengths and tables are known by
/// then. A hint, so what that launch yet writes is seen all the same.
void emit_prefetch(Writer& w, const DecodePlan& p, bool k, bool v) {
  const auto& operand = *p.operand;
  const bool no_lengths = operand_form(p.config.operand->kind).batch_keys() && !p.mask->left_padding();
  w.open("if (launch_before == 1{})", no_lengths ? " || seqlens_k == nullptr" : "");
  w.line("Range ahead = range;");
  w.line("Segment s;");
  w.open("if (next_segment(problem, ahead, s))");
  operand.emit_populate_first(w, "s.tile_begin");  // what the loop looks up first is in L1 then
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    for (const auto* pipeline : {&*p.k, &*p.v}) {
      const bool keys = pipeline == &*p.k;
      if (keys ? !k : !v) continue;
      const int fold = keys ? p.k_fold : p.v_fold;
      for (int panel = 0; panel < pipeline->num_panels(); panel += fold)
        w.line("tma_prefetch(&{}_map, {});", keys ? "k" : "v",
               operand.box_coordinates("s.tile_begin", round, panel, pipeline->panel_columns(), fold));
      if (p.scale_tiles())
        w.line("tma_prefetch(&{}_scale_map, {});", keys ? "k" : "v",
               operand.coordinates("s.tile_begin", round));
      for (int panel = 0; keys && panel < p.rope_panels(); ++panel)
        w.line("tma_prefetch(&k_rope_map, {}, {});", 64 * panel, operand.coordinates("s.tile_begin", round));
    }
    if (!condition.empty()) w.close();
  }
  w.close();
  w.close();
}

}  // namespace

void emit_decode_producer(Writer& w, const DecodePlan& p, bool k, bool v) {
  w.banner("producer warp of {}: tiles are read once, so first out of L2", k && v ? "K and V"
                                                                           : k    ? "K"
                                                                                  : "V");
  if (k) p.k->ring().emit_state(w, true);
  if (v) p.v->ring().emit_state(w, true);
  if (p.stream->dynamic()) p.cells.emit_state(w, k);
  w.open("if (launch_before != 2)");
  emit_prefetch(w, p, k, v);
  w.line("wait_for_launch_before();");
  w.close();
  w.comment("not earlier: what the launch after this one is promised counts from here");
  w.line("let_next_launch_begin();");
  p.stream->emit_loop_open(w);
  p.operand->emit_lookup(w, "s.tile_begin");
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p.operand->emit_populate_ahead(w, "n", "s.tile_begin");
  if (k) emit_load(w, p, *p.k, "k");
  if (v) emit_load(w, p, *p.v, "v");
  w.close();
  p.stream->emit_loop_close(w, p.cells, k, p.cell_slots_free());
  if (!(k && p.producer_warps == 2)) {
    w.comment("who waits for this launch has waited for the one before it, too");
    w.line("wait_for_launch_before();");
  }
}

namespace {

void use_two_warpgroups(Prelude& prelude, const DecodePlan& p) {
  prelude.use("setmaxnreg");
  if (p.shares_combine() && p.stream->splits()) prelude.use("load_acquire");
  if (p.seesaw) prelude.use("hidden"), p.pv_shared->add_to(prelude, false);
}

void use_query_copies(Prelude& prelude, const DecodePlan& p) {
  if (!p.narrow) prelude.use("copy_async_16");
  if (p.q_by_rows() || (p.shares_combine() && p.stream->splits())) prelude.use("thread_here");
}

Prelude prelude_of(const DecodePlan& p) {
  Prelude prelude("sm90.cuh");
  for (const char* section :
       {"types", "smem_address", "mbarrier_init", "fence_mbarrier_init", "mbarrier_expect_tx",
        "mbarrier_arrive", "mbarrier_wait", "named_barrier", "prefetch_tensor_map", "tma_load",
        "dependent_launch", "fence_proxy_async",
        p.upright   ? "stmatrix"
        : p.BM == 8 ? "stmatrix_x2_trans"
                    : "stmatrix_trans",
        "zero_16_bytes", "copy_16_bytes", "exp2_approx", "rcp_approx", "row_base", "atomic_add_acq_rel"})
    prelude.use(section);
  prelude.use(p.math == DType::bf16 ? "pack_bf16" : "pack_fp16");
  use_query_copies(prelude, p);
  if (p.narrow) {
    prelude.use("shared_words"), prelude.use("ldmatrix_trans");
    prelude.use(*p.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
  }
  if (p.narrow && p.config.dtype == DType::bf16) prelude.use("bf16_to_fp16");
  if (p.scale_tiles()) {
    prelude.use("tma_load_3d"), prelude.use("tma_prefetch_3d");
  } else if (p.scales_by_token()) {
    prelude.use("copy_async_4");
  }
  prelude.use("tma_prefetch");
  if (p.k_fold > 1 || p.v_fold > 1) prelude.use("tma_load_5d"), prelude.use("tma_prefetch_5d");
  if (p.warpgroups > 1) use_two_warpgroups(prelude, p);
  use_output(prelude, *p.config.out_dtype);
  if (p.lse) prelude.use("log2_approx");
  p.modifier->use(prelude);
  if (p.hidden) p.hidden->use(prelude);
  p.stream->use(prelude);
  if (p.grouped()) {
    prelude.use("ldmatrix"), prelude.use("mma_fp16"), prelude.use("mma_fp16_first");
  } else {
    p.qk->add_to(prelude, true);
    p.qk->add_to(prelude, false);
    p.pv->add_to(prelude, false);
  }
  if (p.rope_apart()) p.qk_rope->add_to(prelude, true), p.qk_rope->add_to(prelude, false);
  if (p.fp8_q) prelude.use("byte_type");
  return prelude;
}

/// The warps' roles: consumers, and one or two warps of producers behind them.
void emit_roles(Writer& w, const DecodePlan& p) {
  const bool together = p.producer_warps == 1;
  w.open("if (threadIdx.x >= {})", p.consumer_threads() + (together ? 0 : 32));
  if (p.warpgroups > 1) {
    w.line("SETMAXNREG_DEC({});", DecodePlan::kProducerRegisters);
    w.line("if (threadIdx.x >= {}) return;", p.consumer_threads() + 32);
    p.stream->emit_range(w);
  }
  emit_decode_producer(w, p, together, !p.v_in_k);
  if (!together) {
    w.reopen("else if (threadIdx.x >= {})", p.consumer_threads());
    emit_decode_producer(w, p, true, false);
  }
  w.reopen("else");
  emit_decode_consumer(w, p);
  w.close();
}

void expect_products(Manifest& m, const DecodePlan& p) {
  const auto expect = [&](int n, int k, int count) {
    m.expectations.push_back({fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}", n, k), count});
  };
  const int qk = (p.k_in_registers() ? p.padded_depth() + p.rope : p.depth) / 16, pv = p.BN / 16;
  if (p.grouped()) {
    const int steps = p.key_blocks() * p.depth / 16 + p.out_blocks() * pv;
    m.expectations.push_back({"mma.sync.aligned.m16n8k16", steps * p.BM / 8});
  } else if (p.fp8_q) {
    expect(p.BM, 32, p.key_blocks() * p.qk_steps()), expect(p.BM, 16, p.out_blocks() * pv);
  } else if (!p.upright) {
    expect(p.BM, 16, p.key_blocks() * qk + p.out_blocks() * pv);
  } else if (p.seesaw) {
    expect(p.BN, 16, 4 * qk), expect(p.ov_columns(), 16, 10 * pv);  // two loops, what comes before and after
  } else if (p.BN == p.ov_columns()) {
    expect(p.BN, 16, qk + pv);
  } else {
    expect(p.BN, 16, qk), expect(p.ov_columns(), 16, pv);
  }
}

Manifest manifest(const DecodePlan& p, const std::vector<KernelParam>& params) {
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
  expect_products(m, p);
  m.expectations.push_back(
      {"griddepcontrol.wait",
       2 + (p.stream->range_reads_lengths() ? 1 + p.range_by_role() : 0) + p.producer_warps});
  return m;
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const auto params = without_fixed_heads(kernel_params(p), p.config);
  const std::string name = *p.config.name;
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude_of(p).lines());
  emit_fixed_heads(body, p.config);
  p.stream->emit_functions(body);
  if (p.hidden)
    kiln::MHAOperand(p.config.operand->kind, p.config.operand->page_size.value_or(1), 1).emit_functions(body);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, {})", p.num_threads(),
            p.room_beside ? 2 : p.ctas_per_sm);
  body.open("{}({})", entry_name(name),
            parameter_list(
                params,
                {.q_bytes = p.fp8_q, .o_floats = p.o_floats(), .const_values = true, .one_per_line = true}));
  body.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)");
  body.line("asm volatile(\"trap;\");  // built for plain sm_90, which has no wgmma");
  body.line("#else");
  emit_setup(body, p);
  body.blank();
  emit_roles(body, p);
  body.line("#endif");
  body.close();

  KernelSource source;
  source.manifest = manifest(p, params);
  const std::string stages =
      p.residency_at_launch
          ? fmt::format("{} KV stages in each of {} blocks a multiprocessor, or {} in one", p.shared_stages,
                        p.ctas_per_sm, p.num_kv_stages)
          : fmt::format("{} KV stages, {} blocks a multiprocessor", p.num_kv_stages, p.ctas_per_sm);
  const std::string facts = fmt::format(
      "Schedule {}: {} packed query rows by {} keys a tile, {}.\n"
      "Shared memory ({} bytes{}):{}",
      *p.config.schedule, p.BM, p.BN, stages, p.smem.bytes(),
      p.stages_at_launch() ? fmt::format(" with {} stages", p.num_kv_stages) : "", p.smem.listing());
  set_text(source, facts, body.lines());
  return source;
}

}  // namespace kiln::sm90
