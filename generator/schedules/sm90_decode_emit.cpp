// The text of an sm90_decode kernel: head comment, prelude, parameters, set-up; producer and consumer stand
// in their own files.
#include <fmt/ranges.h>

#include "generator/emit/head.hpp"
#include "generator/schedules/sm90_decode_parts.hpp"

namespace kiln::sm90 {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> kernel_params(const DecodePlan& p) {
  std::vector<KernelParam> params;
  for (const char* role : {"k", "v"})
    params.push_back({Kind::tensor_map, role, p.operand->map(DecodePlan::kPanelColumns, 128, 128)});
  const auto add = [&](Kind kind, const char* role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  if (p.lse) add(Kind::pointer, "lse");
  if (p.sink) add(Kind::pointer, "sink");
  add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (auto& param : p.operand->params()) params.push_back(std::move(param));
  for (const auto& m : p.stream->members())
    add(std::string_view(m.type) == "int" ? Kind::i32 : Kind::pointer, m.role);
  const bool ragged = p.stream->ragged_q();
  if (p.lse && ragged) add(Kind::i32, "total_q");
  for (const char* tensor : {"q", "o"}) {
    for (const char* axis : {"batch", "seq", "head"}) {
      if (ragged && std::string_view(axis) == "batch") continue;
      params.push_back({Kind::i64, fmt::format("{}_stride_{}", tensor, axis), {}});
    }
  }
  add(Kind::f32, p.softcap > 0 ? "scale" : "scale_log2");
  return params;
}

std::string parameter_text(const KernelParam& param) {
  switch (param.kind) {
    case Kind::tensor_map:
      return fmt::format("const __grid_constant__ TensorMap {}_map", param.role);
    case Kind::pointer:
      if (param.role == "lse" || param.role == "workspace") return "float* " + param.role;
      if (param.role == "sink") return "const float* sink";
      if (param.role == "q") return "const u16* q";
      if (param.role == "o") return "u16* o";
      if (param.role == "item_counters") return "int* item_counters";
      return "const int* " + param.role;
    case Kind::i32:
      return "const int " + param.role;
    case Kind::i64:
      return "const long long " + param.role;
    case Kind::f32:
      return "const float " + param.role;
  }
  return {};
}

void emit_setup(Writer& w, const DecodePlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const u32 smem = smem_address(smem_bytes);");
  w.line(
      "const u32 smem_k = smem + {}, smem_v = smem + {}, smem_q = smem + {}, smem_p = smem + {}, smem_o = "
      "smem + {};",
      p.smem_k, p.smem_v, p.smem_q, p.smem_p, p.smem_o);
  p.k->ring().emit_addresses(w, p.smem_barriers);
  p.v->ring().emit_addresses(w, p.smem_barriers + p.k->ring().barrier_bytes());
  std::vector<std::string> members;
  for (const auto& m : p.stream->members()) members.emplace_back(m.role);
  w.line("const Problem problem = {{{}}};", fmt::join(members, ", "));
  w.line("const int lane = threadIdx.x % 32;");
  w.blank();
  w.open("if (threadIdx.x == {})", DecodePlan::kConsumerThreads);
  w.line("prefetch_tensor_map(&k_map); prefetch_tensor_map(&v_map);");
  p.k->ring().emit_init(w, 1, p.k->empty_arrivals());
  p.v->ring().emit_init(w, 1, p.v->empty_arrivals());
  w.line("fence_mbarrier_init();");
  w.close();
  w.line("__syncthreads();");
}

void emit_load(Writer& w, const DecodePlan& p, const TMAConsumerPipeline& pipeline, const char* name,
               int panels) {
  const auto& ring = pipeline.ring();
  const auto& operand = *p.operand;
  w.comment("{}(n) into the next slot", name[0] == 'k' ? "K" : "V");
  ring.emit_wait_empty(w, 0);
  w.line("if (lane == 0) mbarrier_arrive_expect_tx({}, {});", ring.full(0), pipeline.full_kv_bytes());
  w.line("__syncwarp();");
  for (int round = 0; round < operand.rounds(); ++round) {
    const std::string condition = operand.issues(round);
    if (!condition.empty()) w.open("if ({})", condition);
    for (int panel = 0; panel < panels; ++panel) {
      std::string dst = fmt::format("smem_{} + {} * {} + {}", name, ring.stage(), pipeline.full_kv_bytes(),
                                    panel * p.BN * 128 + round * 32 * operand.eff_page() * 128);
      if (p.num_kv_stages == 1)
        dst = fmt::format("smem_{} + {}", name, panel * p.BN * 128 + round * 32 * operand.eff_page() * 128);
      if (operand.num_pages() > 1) dst += fmt::format(" + lane * {}", operand.eff_page() * 128);
      w.line("tma_load({}, &{}_map, {}, {}, {}, 0x12F0000000000000ull);", dst, name, ring.full(0), panel * 64,
             operand.coordinates("n", round));
    }
    if (!condition.empty()) w.close();
  }
  ring.emit_step(w);
}

}  // namespace

void emit_decode_producer(Writer& w, const DecodePlan& p) {
  w.banner("producer warp: K and V tiles, read once, so first out of L2");
  p.k->ring().emit_state(w, true);
  p.v->ring().emit_state(w, true);
  p.stream->emit_loop_open(w);
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  p.operand->emit_populate(w, "n");
  emit_load(w, p, *p.k, "k", p.depth_panels);
  emit_load(w, p, *p.v, "v", p.ov_panels);
  w.close();
  w.close();
}

KernelSource emit_decode(const DecodePlan& p) {
  Prelude prelude("sm90.cuh");
  for (const char* section :
       {"types", "smem_address", "mbarrier_init", "fence_mbarrier_init", "mbarrier_expect_tx",
        "mbarrier_arrive", "mbarrier_wait", "named_barrier", "prefetch_tensor_map", "tma_load",
        "fence_proxy_async", "stmatrix_trans", "load_16_bytes", "zero_16_bytes", "copy_16_bytes",
        "exp2_approx", "rcp_approx", "atomic_add_acq_rel"})
    prelude.use(section);
  prelude.use(p.config.dtype == DType::bf16 ? "pack_bf16" : "pack_fp16");
  prelude.use(*p.config.out_dtype == DType::bf16 ? "pack_bf16" : "pack_fp16");
  if (p.lse) prelude.use("log2_approx");
  p.qk->add_to(prelude, true);
  p.qk->add_to(prelude, false);
  p.pv->add_to(prelude, false);

  const auto params = kernel_params(p);
  const std::string name = *p.config.name;
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.text());
  p.stream->emit_functions(body);
  std::vector<std::string> texts;
  for (const auto& param : params) texts.push_back(parameter_text(param));
  body.line("extern \"C\" __global__ void __launch_bounds__({}, {})", p.num_threads(), p.ctas_per_sm);
  body.open("{}({})", entry_name(name), fmt::join(texts, ",\n    "));
  body.line("#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)");
  body.line("asm volatile(\"trap;\");  // built for plain sm_90, which has no wgmma");
  body.line("#else");
  emit_setup(body, p);
  body.blank();
  body.open("if (threadIdx.x >= {})", DecodePlan::kConsumerThreads);
  emit_decode_producer(body, p);
  body.reopen("else");
  emit_decode_consumer(body, p);
  body.close();
  body.line("#endif");
  body.close();

  KernelSource source;
  Manifest& m = source.manifest;
  m.name = name;
  m.entry = entry_name(name);
  m.target = std::string(to_string(p.config.target));
  m.config_json = to_json(p.config, -1);
  m.num_threads = p.num_threads();
  m.smem_bytes = p.smem.bytes();
  m.grid = {GridRule::Kind::stream_k, p.BM, p.ctas_per_sm, p.BN};
  m.workspace_bytes_per_block = 2 * 4 * p.partial_floats();
  m.params = params;
  m.operation = p.config.operation;
  m.operand = p.config.operand->kind;
  m.dtype = p.config.dtype;
  m.kv_dtype = *p.config.kv_dtype;
  m.out_dtype = *p.config.out_dtype;
  m.page_size = p.config.operand->page_size.value_or(0);
  m.quantization = p.config.operand->quantization;
  m.depth = p.depth;
  m.ov_depth = p.ov_depth;
  m.writes_lse = p.lse;
  m.scale = *p.config.scale;
  m.expectations = {{fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16", p.BM),
                     p.key_blocks() * (p.depth + 15) / 16 + p.out_blocks() * p.BN / 16}};

  std::string smem_lines;
  for (const auto& r : p.smem.regions())
    smem_lines += fmt::format("\n  {:>7} .. {:>7}  {:<10} {}", r.offset, r.offset + r.bytes, r.name, r.what);
  const std::string facts = fmt::format(
      "Schedule sm90_decode: {} packed query rows by {} keys a tile, {} KV stages, {} blocks a "
      "multiprocessor.\n"
      "Shared memory ({} bytes):{}",
      p.BM, p.BN, p.num_kv_stages, p.ctas_per_sm, p.smem.bytes(), smem_lines);
  const std::string head = kernel_head(name, m.config_json, facts,
                                       "nvcc -gencode=arch=compute_90a,code=sm_90a -cubin " + name + ".cu");
  source.head_bytes = head.size();
  source.text = head + body.take();
  return source;
}

}  // namespace kiln::sm90
