// The text of sm80_decode over a latent cache, in the order it stands in the kernel.
#include <fmt/ranges.h>

#include "generator/emit/cache_rows.hpp"
#include "generator/emit/head.hpp"
#include "generator/emit/manifest_of.hpp"
#include "generator/emit/parameters.hpp"
#include "generator/schedules/sm80_decode_latent.hpp"

namespace kiln::sm80 {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> kernel_params(const LatentPlan& p) {
  std::vector<KernelParam> params;
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  add(Kind::pointer, "q"), add(Kind::pointer, "o");
  if (p.lse) add(Kind::pointer, "lse");
  if (p.sink) add(Kind::pointer, "sink");
  add(Kind::pointer, "workspace"), add(Kind::pointer, "item_counters");
  for (KernelParam& param : p.operand->params()) {
    if (param.role != "v" && !param.role.starts_with("v_")) params.push_back(std::move(param));
  }
  for (const auto& m : p.stream->members())
    add(std::string_view(m.type) == "int" ? Kind::i32 : Kind::pointer, m.role);
  if (p.lse && p.ragged()) add(Kind::i32, "total_q");
  for (const char* tensor : {"q", "o"}) {
    for (const char* axis : {"batch", "seq", "head"}) {
      if (p.ragged() && std::string_view(axis) == "batch") continue;
      add(Kind::i64, fmt::format("{}_stride_{}", tensor, axis));
    }
  }
  for (KernelParam& param : p.mask->params()) params.push_back(std::move(param));
  for (const char* name : p.modifier->factors()) add(Kind::f32, name);
  return params;
}

void emit_setup(Writer& w, const LatentPlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
  w.comment("two warps share 16 packed rows, and have half of O's columns each");
  w.line("const int warp_row = warp / 2 * 16, half = warp % 2;");
  w.line("const u32 smem_k = smem_address(smem_bytes) + {};", p.smem_k);
  w.line(
      "const u32 smem_q = smem_address(smem_bytes) + warp_row * {} + lane * 16;  // as this lane's fragments",
      p.depth * 2);
  std::vector<std::string> members;
  for (const auto& m : p.stream->members()) members.emplace_back(m.role);
  w.line("const Problem problem = {{{}}};", fmt::join(members, ", "));
  w.line("const int group = heads_q / heads_kv;  // query heads of a KV head");
  if (p.modifier->scale_log2() != "scale_log2")
    w.line("const float scale_log2 = {};  // of modified scores", p.modifier->scale_log2());
}

// The copies of a segment's tiles, from its first on.
void emit_loader(Writer& w, const LatentPlan& p) {
  const int passes = p.copy->passes(), apart = p.copy->rows_per_pass();
  const auto row = [&](int pass) {
    return pass == 0 ? std::string("load_row") : fmt::format("load_row + {}", pass * apart);
  };
  w.comment("loads: tiles of this segment in order, {} ahead of the products", p.num_stages - 1);
  w.line("const u16* const k_base = {};", p.operand->base("k", "s.batch", "s.sequence.k_start", "s.kv_head",
                                                          "8 * k_chunk" + first_column(p.config)));
  w.line("int load_n = s.tile_begin, load_row = load_n * {} + k_row;", p.BN);
  if (p.operand->table()) {
    for (int pass = 0; pass < passes; ++pass) w.line("int load_page_{} = -1;", pass);
    w.comment("pages of this thread's rows: asked for a tile early");
    w.open("const auto populate = [&]");
    for (int pass = 0; pass < passes; ++pass) {
      w.line("load_page_{} = {};", pass,
             p.operand->populate("s.batch", row(pass), "0", "s.sequence.seqlen_k"));
    }
    w.close(";");
    w.line("populate();");
  }
  w.open("const auto load_tile = [&](int stage)");
  w.open("if (load_n < s.tile_end)");
  w.line("const u32 slot = stage * {};", p.tile.bytes());
  p.copy->emit_from(
      w, "slot",
      [&](int pass) {
        return fmt::format("k_base + {}",
                           p.operand->row_offset("k", fmt::format("load_page_{}", pass), row(pass)));
      },
      [&](int pass) {
        return p.operand->table() ? fmt::format("load_page_{} >= 0", pass)
                                  : fmt::format("{} < s.sequence.seqlen_k", row(pass));
      });
  w.line("++load_n, load_row += {};", p.BN);
  if (p.operand->table()) w.line("populate();");
  w.close();
  w.line("cp_async_commit();");
  w.close(";");
  for (int stage = 0; stage < p.num_stages - 1; ++stage) w.line("load_tile({});", stage);
}

void emit_load_q(Writer& w, const LatentPlan& p) {
  w.comment(
      "Q: packed row r is query position r / group and query head r % group; rows past the last are zeros");
  for (int r = 0; r < 2; ++r) {
    w.line("const int row_{0} = warp_row + (lane >> 2) + {1}, packed_{0} = s.m_block * {2} + row_{0};", r,
           8 * r, p.BM);
    w.line("const int position_{0} = packed_{0} / group;", r);
    w.line("const bool real_{0} = row_{0} < rows;", r);
    w.line(
        "const u16* const q_row_{0} = q + {1}(s.sequence.q_start + position_{0}) * q_stride_seq + (s.kv_head "
        "* "
        "group + packed_{0} % group) * q_stride_head + 2 * (lane & 3);",
        r, p.ragged() ? "" : "s.batch * q_stride_batch + ");
  }
  w.comment("each warp of a pair brings every other step");
  w.line("#pragma unroll 2");
  w.open("for (int step = half; step < {}; step += 2)", p.steps());
  for (int r = 0; r < 2; ++r) {
    w.line("q_reg[{0}] = real_{0} ? load_global_32(q_row_{0} + 16 * step) : 0u;", r);
    w.line("q_reg[{1}] = real_{0} ? load_global_32(q_row_{0} + 16 * step + 8) : 0u;", r, 2 + r);
  }
  w.line("store_shared_128(smem_q + 512 * step, q_reg);");
  w.close();
}

// Where the tiles lie that some row sees in part.
void emit_limits(Writer& w, const LatentPlan& p) {
  const std::string first = "(s.sequence.seqlen_k - s.sequence.seqlen_q + ";
  if (!p.mask->has_bits()) {
    w.line("const int clean_end = {};  // keys before it are hidden from no row by their end",
           p.mask->end_key(fmt::format("{}s.m_block * {} / group)", first, p.BM), "s.sequence.seqlen_k"));
  }
  if (p.mask->bounded_below()) {
    w.line("const int clean_first = {};",
           p.mask->first_key(fmt::format("{}(s.m_block * {} + max(rows, 1) - 1) / group)", first, p.BM)));
  }
  p.modifier->emit_rows(w, p.score_context());
  p.mask->emit_rows(w, p.score_context());
}

void emit_mask(Writer& w, const LatentPlan& p) {
  p.modifier->emit_apply(w, p.score_context(), "first_key");
  if (p.mask->has_bits()) return p.mask->emit_apply(w, p.score_context(), "first_key", {});
  w.open("if (first_key + {} > clean_end{})", p.BN,
         p.mask->bounded_below() ? " || first_key < clean_first" : "");
  p.mask->emit_apply(w, p.score_context(), "first_key", {});
  w.close();
}

void emit_products(Writer& w, const LatentPlan& p) {
  w.comment("S = Q K(n)'");
  w.line("const u32 k_stage = smem_k + stage * {};", p.tile.bytes());
  p.k->emit_construct(w, "k_stage");
  p.k->emit_registers(w);
  for (int step = 0; step < p.steps(); ++step) {
    w.line("load_shared_128(q_reg, smem_q + {});", 512 * step);
    p.k->emit_load(w, step, 0, 0);
    p.k->emit_mma(w, "q_reg", "s_acc", step, 0, step == 0);
  }
  emit_mask(w, p);
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w, true, false);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w, 0, p.BN / 2, true);
  const char* pack = p.config.dtype == DType::bf16 ? "pack_bf16" : "pack_fp16";
  w.line("u32 p[{}];  // P: 16 x {} as the A operand", p.BN / 4, p.BN);
  for (int i = 0; i < p.BN / 4; ++i) w.line("p[{}] = {}(s_acc[{}], s_acc[{}]);", i, pack, 2 * i, 2 * i + 1);

  w.comment("O += P V(n), this warp's half of the columns");
  w.line("const u32 v_stage = k_stage + half * {};", p.half() / p.kBlockColumns * p.tile.block_bytes());
  p.v->emit_construct(w, "v_stage");
  p.v->emit_registers(w);
  for (int step = 0; step < p.BN / KVMmaOp::MMA_K; ++step) {
    for (int column = 0; column < p.half(); column += p.kBlockColumns) {
      w.comment("keys {} .. {}, columns {} .. {}", 16 * step, 16 * step + 15, column,
                column + p.kBlockColumns - 1);
      for (int first = 0; first < p.kBlockColumns / KVMmaOp::MMA_N; first += p.kChunk) {
        const KVMmaOp::Range chunk{first, p.kChunk};
        p.v->emit_load(w, step, 0, column / p.kBlockColumns * p.tile.block_bytes(), chunk);
        p.v->emit_mma(w, fmt::format("p + {}", 4 * step), fmt::format("o_acc + {}", column / 2), step, 0,
                      false, chunk);
      }
    }
  }
}

void emit_tile(Writer& w, const LatentPlan& p) {
  w.line("const int first_key = n * {};", p.BN);
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  w.comment("K(n) has landed, and every warp has finished the tile before: its stage takes the next copies");
  w.line("CP_ASYNC_WAIT({});", p.num_stages - 2);
  w.line("__syncthreads();");
  w.line("load_tile(stage == 0 ? {} : stage - 1);", p.num_stages - 1);
  w.open("if (warp_row < rows)");
  emit_products(w, p);
  w.close();
  w.line("stage = stage == {} ? 0 : stage + 1;", p.num_stages - 1);
}

void emit_epilogue(Writer& w, const LatentPlan& p) {
  const DecodeOutput out = p.output();
  w.banner("the end of a segment");
  emit_finish(w, out);
  for (int r = 0; r < 2; ++r) {
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 1);", r);
    w.line("row_sum_{0} += __shfl_xor_sync(0xffffffffu, row_sum_{0}, 2);", r);
  }
  w.line("const bool first_lane = half == 0 && (lane & 3) == 0;");
  w.line("const int column = half * {} + 2 * (lane & 3);", p.half());
  const bool splits = p.stream->splits();
  if (splits) w.line("float* const part = {};", p.stream->part(out.partial_floats()));
  for (int r = 0; r < 2; ++r) {
    w.open("if (real_{})", r);
    if (splits) w.open("if (s.whole)");
    w.line("const float factor = finish(row_{0}, row_max_{0}, row_sum_{0}, first_lane);", r);
    w.line("u16* const dst = output_row(row_{}) + column;", r);
    for (int tile = 0; tile < p.half() / 8; ++tile) {
      w.line("*(u32*)(dst + {}) = {}(o_acc[{}] * factor, o_acc[{}] * factor);", 8 * tile, out.pack,
             4 * tile + 2 * r, 4 * tile + 2 * r + 1);
    }
    if (splits) {
      w.reopen("else");
      w.line("float* const dst = part + row_{} * {} + column;", r, p.ov_depth);
      for (int tile = 0; tile < p.half() / 8; ++tile) {
        w.line("*(float2*)(dst + {}) = make_float2(o_acc[{}], o_acc[{}]);", 8 * tile, 4 * tile + 2 * r,
               4 * tile + 2 * r + 1);
      }
      w.line("if (first_lane) *((float2*)(part + {}) + row_{}) = make_float2(row_max_{}, row_sum_{});",
             p.BM * p.ov_depth, r, r, r);
      w.close();
    }
    w.close();
  }
  if (!splits) return;
  w.banner("a part of an item: the last to arrive combines");
  w.open("if (!s.whole)");
  emit_arrival(w, out);
  w.close();
}

void emit_main(Writer& w, const LatentPlan& p) {
  w.banner("work items");
  w.line("float s_acc[{}];  // S: 16 x {} scores", p.BN / 2, p.BN);
  w.line("float o_acc[{}];  // O: 16 x {}, this warp's half of the columns", p.half() / 2, p.half());
  w.line("u32 q_reg[4];  // Q: a step of 16 x 16 as the A operand");
  p.copy->emit_construct(w, "smem_k");
  p.stream->emit_range(w);
  p.stream->emit_loop_open(w);
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p.BM);
  w.comment("every warp has finished with Q and K of the segment before");
  w.line("__syncthreads();");
  emit_loader(w, p);
  emit_load_q(w, p);
  emit_limits(w, p);
  p.softmax->emit_reset(w);
  for (int i = 0; i < p.half() / 2; i += 8) {
    std::string text;
    for (int j = i; j < i + 8; ++j) text += fmt::format("o_acc[{}] = ", j);
    w.line("{}0.0f;", text);
  }
  w.line("int stage = 0;");
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  emit_tile(w, p);
  w.close();
  emit_epilogue(w, p);
  w.close();
}

Manifest manifest(const LatentPlan& p, std::vector<KernelParam> params) {
  Manifest m = manifest_of(p.config);
  m.num_threads = p.num_threads;
  m.smem_bytes = p.smem_bytes;
  m.grid = {GridRule::Kind::stream_k, p.BM, p.ctas_per_sm, p.BN};
  m.workspace_bytes_per_block = p.stream->workspace_per_block(p.output().partial_floats());
  m.workspace_bytes_per_item = p.stream->workspace_per_item(p.output().partial_floats());
  m.params = std::move(params);
  m.expectations = {{"mma.sync.aligned.m16n8k16", p.BN / 8 * p.steps() + p.BN / 16 * p.half() / 8}};
  return m;
}

std::string head_facts(const LatentPlan& p) {
  return fmt::format(
      "Schedule sm80_decode, V in K's rows: {} packed query rows, 16 for two warps; tiles of {} keys, {} "
      "stages, "
      "{} block{} a multiprocessor.\n"
      "Shared memory ({} bytes):\n"
      "  {:>7} .. {:>7}  Q, as fragments\n  {:>7} .. {:>7}  K stages",
      p.BM, p.BN, p.num_stages, p.ctas_per_sm, p.ctas_per_sm == 1 ? "" : "s", p.smem_bytes, 0, p.smem_k,
      p.smem_k, p.smem_bytes - 16);
}

}  // namespace

KernelSource emit_decode_latent(const LatentPlan& p) {
  Prelude prelude("sm80.cuh");
  for (const char* section : {"smem_address", "load_global_32", "rcp_approx", "cp_async", "shared_128"})
    prelude.use(section);
  prelude.use(p.config.dtype == DType::bf16 ? "pack_bf16" : "pack_fp16");
  prelude.use(*p.config.out_dtype == DType::bf16 ? "pack_bf16" : "pack_fp16");
  prelude.use(p.config.dtype == DType::bf16 ? "mma_bf16_first" : "mma_fp16_first");
  if (p.lse) prelude.use("log2_approx");
  p.k->use(prelude);
  p.v->use(prelude);
  p.softmax->use(prelude);
  p.modifier->use(prelude);

  const auto params = kernel_params(p);
  KernelSource source;
  source.manifest = manifest(p, params);
  Writer body;
  body.line("#define kInfinity __int_as_float(0x7f800000)");
  body.blank();
  body.raw(prelude.text());
  p.stream->emit_functions(body);
  p.operand->emit_functions(body);
  body.line("extern \"C\" __global__ void __launch_bounds__({}, {})", p.num_threads, p.ctas_per_sm);
  body.open("{}({})", source.manifest.entry, parameter_list(params));
  emit_setup(body, p);
  emit_main(body, p);
  body.close();

  const std::string head = kernel_head(source.manifest.name, source.manifest.config_json, head_facts(p),
                                       fmt::format("nvcc -arch=sm_80 -cubin {}.cu", source.manifest.name));
  source.head_bytes = head.size();
  source.text = head + body.take();
  return source;
}

}  // namespace kiln::sm80
