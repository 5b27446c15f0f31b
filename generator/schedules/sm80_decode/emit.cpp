// The text of an sm80_decode kernel, in the order of the kernel; the epilogue has its own file.
#include "generator/config/quantization.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm80_decode/plan.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm80 {
namespace {

using Kind = KernelParam::Kind;

std::vector<KernelParam> cache_params(const DecodePlan& p) {
  std::vector<KernelParam> params = p.operand->params();
  const auto add = [&](Kind kind, const std::string& role) { params.push_back({kind, role, {}}); };
  if (!p.quantization) return params;
  add(Kind::pointer, "k_scale"), add(Kind::pointer, "v_scale");
  if (p.scale_group > 0) add_scale_strides(params, *p.config.operand, true);
  return params;
}

void emit_setup(Writer& w, const DecodePlan& p) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
  w.comment("stages of this warp");
  w.line("const u32 smem_k = smem_address(smem_bytes) + warp * {};", p.num_stages * p.k->stage_bytes());
  w.line("const u32 smem_v = smem_address(smem_bytes) + {} + warp * {};", p.smem_v,
         p.num_stages * p.v->stage_bytes());
  if (p.scale_group > 0) {
    w.line("const u32 smem_scales = smem_address(smem_bytes) + {} + warp * {};", p.smem_scales,
           p.num_stages * 8 * p.scale_stage_floats());
  }
  w.line("float* const exchange = (float*)(smem_bytes + {});  // O of every warp, {} columns at a time",
         p.smem_exchange, p.kExchangeColumns);
  w.line(
      "float2* const warp_rows = (float2*)(smem_bytes + {});  // maximum and sum of each row, of each warp",
      p.smem_rows);
  if (p.hidden) w.line("if (thread == 0) *(int*)(smem_bytes + {}) = 0;", p.smem_flag() + 8);
  emit_problem(w, p);
  if (!p.q_in_registers)
    w.line("const u32 smem_q = smem_address(smem_bytes) + {} + lane * 16;  // Q as this lane's fragments",
           p.smem_q);
  p.k->emit_lane(w);
  if (p.modifier->scale_log2() != "scale_log2")
    w.line("const float scale_log2 = {};  // of modified scores", p.modifier->scale_log2());
}

/// Scales of the tile's keys, one row a lane, beside the copies of K or V.
void emit_copy_scales(Writer& w, const DecodePlan& p, const char* name) {
  if (p.scale_group == 0) return;
  const int groups = p.k->groups(), bytes = groups % 4 == 0 ? 16 : groups % 2 == 0 ? 8 : 4;
  const int each = bytes / 4;
  w.open("");
  std::string page = "load_page";
  if (p.operand->chunks() > 1) {
    w.line("const int row_page = __shfl_sync(0xffffffffu, load_page, lane / {} % {});",
           p.operand->chunk_rows(), p.operand->chunks());
    page = "row_page";
  }
  const std::string row = "load_row + lane", in_page = p.operand->row_in_page(row);
  std::string first;
  if (p.operand->table()) first = fmt::format("{} * {}_scale_stride_page + ", page, name);
  if (operand_form(p.config.operand->kind).batch_keys())
    first = fmt::format("load.batch * {}_scale_stride_batch + ", name);
  std::string token = in_page;
  if (operand_form(p.config.operand->kind).ragged_k()) token = "load.sequence.k_start + " + in_page;
  w.line("const float* const {0}_scale_src = {0}_scale + {1}{2};", name, first,
         scale_of_row(*p.config.operand, name, token, "load.kv_head", groups));
  const std::string valid =
      fmt::format("{}{} < load.sequence.seqlen_k", p.operand->table() ? page + " >= 0 && " : "", row);
  w.open("if (lane < {})", p.WN);
  for (int i = 0; i < groups; i += each) {
    w.line("cp_async_small<{}>(smem_scales + stage * {} + {} + lane * {}, {}_scale_src + {}, {});", bytes,
           8 * p.scale_stage_floats(), (*name == 'v' ? 4 * p.scale_stage_floats() : 0) + 4 * i, 4 * groups,
           name, i, valid);
  }
  w.close();
  w.close();
}

// The copies: their own walk over this block's tiles, `stages` tiles ahead of the products.
void emit_loader(Writer& w, const DecodePlan& p) {
  const bool bytes = p.k->bytes();
  const std::string column = fmt::format("{} * copy_chunk", bytes ? 16 : 8);
  w.banner("loads: this block's tiles in order, {} ahead of the products", p.num_stages);
  w.line("Range load_range = first_range(problem);");
  w.line("Segment load;");
  w.line("bool loading = next_segment(problem, load_range, load);");
  w.line("int load_n = load.tile_begin, load_row = 0, load_page = -1;");
  w.line("const {0}* k_base = k; const {0}* v_base = v;", bytes ? "u8" : "u16");
  w.comment("where the rows of tile load_n lie: asked for a tile early");
  w.open("const auto populate = [&]");
  w.line("if (!loading) return;");
  for (const char* name : {"k", "v"}) {
    w.line("{}_base = {};", name,
           p.operand->base(name, "load.batch", "load.sequence.k_start", "load.kv_head",
                           column + first_column(p.config)));
  }
  w.line("load_row = load_n * {} + warp * {};", p.BN, p.WN);
  w.line("load_page = {};", p.operand->populate("load.batch", "load_row", "lane", "load.sequence.seqlen_k"));
  w.close(";");
  for (const char* name : {"k", "v"}) {
    const auto& buffer = *name == 'k' ? *p.k : *p.v;
    w.open("const auto load_{} = [&](int stage)", name);
    w.open("if (loading)");
    w.line("const u32 slot = smem_{} + stage * {};", name, buffer.stage_bytes());
    buffer.emit_copy(w, "slot", "load_page", "load_row", "load.sequence.seqlen_k");
    emit_copy_scales(w, p, name);
    w.close();
    w.line("cp_async_commit();");
    if (*name == 'v') {
      w.open("if (loading && ++load_n == load.tile_end)");
      w.line("loading = next_segment(problem, load_range, load);");
      w.line("load_n = load.tile_begin;");
      w.close();
      w.line("populate();");
    }
    w.close(";");
  }
  w.line("populate();");
  w.line("#pragma unroll 1");
  w.line("for (int stage = 0; stage < {}; ++stage) {{ load_k(stage); load_v(stage); }}", p.num_stages);
}

// Q as A fragments.
void emit_load_q(Writer& w, const DecodePlan& p) {
  emit_query_rows(w, p, "", p.k->bytes() ? 4 : 2);
  if (!p.q_in_registers) {
    w.comment("every warp reads some of the steps, shared memory gathers them");
    w.open("for (int step = warp; step < {}; step += {})", p.k->steps(), p.num_warps);
    for (int r = 0; r < 2; ++r) {
      if (p.k->bytes()) {
        w.line("load_q_interleaved(q_reg + {0}, q_row_{0} + 16 * step, real_{0});", r);
      } else {
        w.line("q_reg[{0}] = real_{0} ? load_global_32(q_row_{0} + 16 * step) : 0u;", r);
        w.line("q_reg[{1}] = real_{0} ? load_global_32(q_row_{0} + 16 * step + 8) : 0u;", r, 2 + r);
      }
    }
    w.line("store_shared_128(smem_q + 512 * step, q_reg);");
    w.close();
    w.line("__syncthreads();");
    return;
  }
  for (int step = 0; step < p.k->steps(); ++step) {
    for (int r = 0; r < 2; ++r) {
      if (p.k->bytes()) {
        w.line("load_q_interleaved(q_reg + {}, q_row_{} + {}, real_{});", 4 * step + r, r, 16 * step, r);
      } else {
        w.line(
            "q_reg[{0}] = real_{1} ? load_global_32(q_row_{1} + {2}) : 0u; q_reg[{3}] = real_{1} ? "
            "load_global_32(q_row_{1} + {4}) : 0u;",
            4 * step + r, r, 16 * step, 4 * step + 2 + r, 16 * step + 8);
      }
    }
  }
}

void emit_tile(Writer& w, const DecodePlan& p) {
  w.line("const int first_key = n * {} + warp * {};", p.BN, p.WN);
  w.line("const bool visible = first_key < s.sequence.seqlen_k;  // else only zeros came");
  if (p.scale_group > 0) {
    w.line("const float* const k_scales = (const float*)(smem_bytes + {} + warp * {}) + stage * {};",
           p.smem_scales, p.num_stages * 8 * p.scale_stage_floats(), 2 * p.scale_stage_floats());
    w.line("const float* const v_scales = k_scales + {};", p.scale_stage_floats());
  }
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  w.comment("K(n) has landed");
  w.line("CP_ASYNC_WAIT({});", 2 * p.num_stages - 1);
  w.line("__syncwarp();");
  w.open("if (visible)");
  w.line("const u32 k_stage = smem_k + stage * {};", p.k->stage_bytes());
  p.k->emit_qk(w, "k_stage");
  if (p.head_scale()) {
    for (int i = 0; i < p.WN / 2; i += 4)
      w.line("s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor;", i,
             i + 1, i + 2, i + 3);
  }
  w.close();
  w.comment("every lane has read K(n): its stage takes K(n + {})", p.num_stages);
  w.line("__syncwarp();");
  w.line("load_k(stage);");
  w.open("if (visible)");
  emit_mask(w, p, p.WN);
  w.comment("P = exp2(S - max), O follows the maximum");
  p.softmax->emit_max(w, true, false);
  p.softmax->emit_rescale(w);
  p.softmax->emit_exp(w, 0, p.WN / 2, true);
  w.close();
  w.comment("V(n) has landed");
  w.line("CP_ASYNC_WAIT({});", 2 * p.num_stages - 1);
  w.line("__syncwarp();");
  w.open("if (visible)");
  w.line("const u32 v_stage = smem_v + stage * {};", p.v->stage_bytes());
  p.v->emit_pv(w, "v_stage");
  w.close();
  w.line("__syncwarp();");
  w.line("load_v(stage);");
  if (p.num_stages > 1) w.line("stage = stage == {} ? 0 : stage + 1;", p.num_stages - 1);
}

void emit_main(Writer& w, const DecodePlan& p) {
  w.banner("work items");
  w.line("float s_acc[{}];  // S: 16 x {} scores of this warp", p.WN / 2, p.WN);
  w.line("float o_acc[{}];  // O: 16 x {}, of this warp's keys", p.depth / 2, p.depth);
  w.line("u32 q_reg[{}];  // Q: 16 x {} as the A operand", p.q_in_registers ? p.depth / 4 : 8,
         p.q_in_registers ? p.depth : 32);
  if (p.scale_group > 0)
    w.line("const int column = 2 * (lane & 3);  // of this lane's scores in groups of 8");
  w.line("{}int stage = 0;", p.num_stages > 1 ? "" : "const ");
  p.stream->emit_range(w);
  p.stream->emit_loop_open(w);
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p.BM);
  emit_load_q(w, p);
  emit_limits(w, p);
  if (p.head_scale()) {
    w.line("const float k_factor = k_scale[{0}], v_factor = v_scale[{0}];",
           scale_of_head(*p.quantization, "s.batch", "s.kv_head"));
  }
  emit_reset(w, p, p.depth / 2);
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  emit_tile(w, p);
  w.close();
  emit_decode_epilogue(w, p);
  w.close();
}

std::string head_facts(const DecodePlan& p) {
  return fmt::format(
      "Schedule sm80_decode: {} packed query rows; tiles of {} keys, {} for each of {} warps, {} stages of "
      "each, {} "
      "block{} a multiprocessor.\n"
      "Shared memory ({} bytes):\n"
      "  {:>7} .. {:>7}  K stages\n  {:>7} .. {:>7}  V stages\n  {:>7} .. {:>7}  scales\n  {:>7} .. {:>7}  O "
      "of "
      "the warps\n  {:>7} .. {:>7}  maximum and sum of rows",
      p.BM, p.BN, p.WN, p.num_warps, p.num_stages, p.ctas_per_sm, p.ctas_per_sm == 1 ? "" : "s", p.smem_bytes,
      0, p.smem_v, p.smem_v, p.smem_scales, p.smem_scales, p.smem_exchange, p.smem_exchange, p.smem_rows,
      p.smem_rows, p.smem_bytes);
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  Prelude prelude("sm80.cuh");
  use_common(prelude, p);
  if (p.k->bytes()) prelude.use("load_q_interleaved");
  if (!p.q_in_registers) prelude.use("shared_128");
  if (p.scale_group > 0) prelude.use("cp_async_small");
  p.k->use(prelude);
  p.v->use(prelude);
  return decode_source(p, prelude, kernel_params(p, cache_params(p)), 2 * (p.WN / 8) * (p.depth / 16),
                       p.k->bytes(), head_facts(p), [&](Writer& w) {
                         emit_setup(w, p);
                         emit_loader(w, p);
                         emit_main(w, p);
                       });
}

}  // namespace kiln::sm80
