// The text of an sm80_decode kernel, in the order of the kernel; the epilogue has its own file.
#include "base/plural.hpp"
#include "generator/emit/cache_rows.hpp"
#include "generator/schedules/sm80_decode/key_scales.hpp"
#include "generator/schedules/sm80_decode/query.hpp"

namespace kiln::sm80 {
namespace {

std::vector<KernelParam> cache_params(const DecodePlan& p, const KeyScales& scales) {
  std::vector<KernelParam> params = p.operand->params();
  scales.add_params(params);
  return params;
}

void emit_setup(Writer& w, const DecodePlan& p, const KeyScales& scales) {
  w.line("extern __shared__ __align__(1024) unsigned char smem_bytes[];");
  w.line("const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;");
  w.comment("stages of this warp");
  w.line("const u32 smem_k = smem_address(smem_bytes) + warp * {};", p.num_stages * p.k->stage_bytes());
  w.line("const u32 smem_v = smem_address(smem_bytes) + {} + warp * {};", p.smem_v,
         p.num_stages * p.v->stage_bytes());
  scales.emit_setup(w);
  w.line("float* const exchange = (float*)(smem_bytes + {});  // O of every warp, {} columns at a time",
         p.smem_exchange, p.kExchangeColumns);
  w.line(
      "float2* const warp_rows = (float2*)(smem_bytes + {});  // maximum and sum of each row, of each warp",
      p.smem_rows);
  p.hidden.emit_flag(w, p.odd_flag(), "thread == 0");
  emit_problem(w, p);
  query_of(p).emit_setup(w, p);
  p.k->emit_lane(w);
  if (p.modifier->scale_log2() != "scale_log2")
    w.line("const float scale_log2 = {};  // of modified scores", p.modifier->scale_log2());
}

/// Copies of K or V of the tile at hand; behind V's the walk goes on (`next`).
template <class Next>
void emit_load(Writer& w, const KeyScales& scales, const CachedTensor& of, Next next) {
  w.open("const auto load_{} = [&](int stage)", of.name);
  w.open("if (loading)");
  w.line("const u32 slot = smem_{} + stage * {};", of.name, of.buffer.stage_bytes());
  of.buffer.emit_copy(w, "slot", "load_page", "load_row", "load.sequence.seqlen_k");
  scales.emit_copy(w, of);
  w.close();
  w.line("cp_async_commit();");
  next();
  w.close(";");
}

void emit_next_load(Writer& w) {
  w.open("if (loading && ++load_n == load.tile_end)");
  w.line("loading = next_segment(problem, load_range, load);");
  w.line("load_n = load.tile_begin;");
  w.close();
  w.line("populate();");
}

// The copies: their own walk over this block's tiles, `stages` tiles ahead of the products.
void emit_loader(Writer& w, const DecodePlan& p, const KeyScales& scales) {
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
  emit_load(w, scales, {"k", *p.k, 0}, [] {});
  emit_load(w, scales, {"v", *p.v, 4 * p.scale_stage_floats()}, [&w] { emit_next_load(w); });
  w.line("populate();");
  w.line("#pragma unroll 1");
  w.line("for (int stage = 0; stage < {}; ++stage) {{ load_k(stage); load_v(stage); }}", p.num_stages);
}

/// The next of several stages.
void emit_next_stage(Writer& w, int stages) {
  if (stages > 1) w.line("stage = stage == {} ? 0 : stage + 1;", stages - 1);
}

void emit_tile(Writer& w, const DecodePlan& p, const KeyScales& scales) {
  w.line("const int first_key = n * {} + warp * {};", p.BN, p.WN);
  w.line("const bool visible = first_key < s.sequence.seqlen_k;  // else only zeros came");
  scales.emit_tile(w);
  p.mask->emit_load(w, p.score_context(), "first_key", true);
  w.comment("K(n) has landed");
  w.line("CP_ASYNC_WAIT({});", 2 * p.num_stages - 1);
  w.line("__syncwarp();");
  w.open("if (visible)");
  w.line("const u32 k_stage = smem_k + stage * {};", p.k->stage_bytes());
  p.k->emit_qk(w, "k_stage");
  scales.emit_scores(w);
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
  emit_next_stage(w, p.num_stages);
}

void emit_main(Writer& w, const DecodePlan& p, const KeyScales& scales) {
  w.banner("work items");
  w.line("float s_acc[{}];  // S: 16 x {} scores of this warp", p.WN / 2, p.WN);
  w.line("float o_acc[{}];  // O: 16 x {}, of this warp's keys", p.depth / 2, p.depth);
  query_of(p).emit_registers(w, p);
  scales.emit_names(w);
  w.line("{}int stage = 0;", p.num_stages > 1 ? "" : "const ");
  p.stream->emit_range(w);
  p.stream->emit_loop_open(w);
  w.line(
      "const int rows = min({0}, group * s.sequence.seqlen_q - s.m_block * {0});  // packed rows that exist",
      p.BM);
  emit_query_rows(w, p, "", p.k->bytes() ? 4 : 2);
  query_of(p).emit_load(w, p);
  emit_limits(w, p);
  scales.emit_item(w);
  emit_reset(w, p, p.depth / 2);
  w.line("#pragma unroll 1");
  w.open("for (int n = s.tile_begin; n < s.tile_end; ++n)");
  emit_tile(w, p, scales);
  w.close();
  emit_decode_epilogue(w, p);
  w.close();
}

std::string head_facts(const DecodePlan& p) {
  return fmt::format(
      "Schedule sm80_decode: {} packed query rows; tiles of {} keys, {} for each of {} warps, {} stages of "
      "each, {} a multiprocessor.\n"
      "Shared memory ({} bytes):\n"
      "  {:>7} .. {:>7}  K stages\n  {:>7} .. {:>7}  V stages\n  {:>7} .. {:>7}  scales\n  {:>7} .. {:>7}  O "
      "of "
      "the warps\n  {:>7} .. {:>7}  maximum and sum of rows",
      p.BM, p.BN, p.WN, p.num_warps, p.num_stages, number_of(p.ctas_per_sm, "block"), p.smem_bytes, 0,
      p.smem_v, p.smem_v, p.smem_scales, p.smem_scales, p.smem_exchange, p.smem_exchange, p.smem_rows,
      p.smem_rows, p.smem_bytes);
}

}  // namespace

KernelSource emit_decode(const DecodePlan& p) {
  const std::unique_ptr<const KeyScales> scales = scales_of(p);
  Prelude prelude("sm80.cuh");
  use_common(prelude, p);
  if (p.k->bytes()) prelude.use("load_q_interleaved");
  if (!p.q_in_registers) prelude.use("shared_128");
  if (p.scale_group > 0) prelude.use("cp_async_small");
  p.k->use(prelude);
  p.v->use(prelude);
  return decode_source(p, prelude, kernel_params(p, cache_params(p, *scales)),
                       2 * (p.WN / 8) * (p.depth / 16), p.k->bytes(), head_facts(p), [&](Writer& w) {
                         emit_setup(w, p, *scales);
                         emit_loader(w, p, *scales);
                         emit_main(w, p, *scales);
                       });
}

}  // namespace kiln::sm80
