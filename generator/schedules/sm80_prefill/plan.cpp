#include "generator/schedules/sm80_prefill/plan.hpp"

#include "generator/emit/output_elements.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/schedules/sm80_prefill/resolve.hpp"

namespace kiln::sm80 {

std::optional<PrefillPlan> plan_prefill(const Config& user, Violations& out) {
  auto resolved = resolve_prefill(user, out);
  if (!resolved) return std::nullopt;
  const Config& c = resolved->config;

  PrefillPlan p;
  p.depth = c.depth;
  p.ov_depth = *c.ov_depth;
  p.BM = *c.BM, p.BN = *c.BN, p.BK = *c.BK;
  p.num_threads = *c.num_threads;
  p.num_warps = p.num_threads / 32;
  p.num_stages = *c.num_kv_stages;
  p.kind = c.operand->kind;
  p.ragged = operand_form(p.kind).ragged_q;
  p.page_size = page_rows(*c.operand);
  p.results = RowResults(c);
  p.q_in_registers = resolved->q_in_registers;
  p.max_registers = resolved->registers;
  p.smem_k = resolved->smem_q_bytes;
  p.smem_bytes = resolved->smem_bytes;

  p.q.emplace(QTile::Shape{p.BM, p.depth, p.BK, p.num_threads, resolved->swizzle});
  p.o.emplace(QTile::Shape{p.BM, p.ov_depth, p.BK, p.num_threads, resolved->swizzle});
  KVBuffer::Shape kv{true,         c.dtype,           p.BN,        *c.WN,
                     p.BK,         p.depth,           *c.bk_smem,  p.num_threads,
                     p.num_stages, resolved->swizzle, p.page_size, *c.kv_dtype};
  p.k.emplace(kv);
  kv.transpose = false;
  kv.depth = p.ov_depth;
  p.v.emplace(kv);
  p.scales.emplace(c, p.BN, p.num_threads);
  p.smem_v = p.smem_k + (p.narrow() ? 1 : p.num_stages) * p.k->tile_bytes();
  if (p.narrow()) {
    p.smem_scales = p.smem_v + p.v->tile_bytes();
    p.smem_k_bytes = p.smem_scales + p.scales->tile_bytes();
    p.smem_v_bytes = p.smem_k_bytes + p.num_stages * p.k->stage_bytes();
  }
  OnlineSoftmax::Shape softmax;
  softmax.score_regs = p.BN / 2;
  softmax.output_regs = p.ov_depth / 2;
  p.mask.emplace(*c.mask, mma_score_layout(p.BN / 2));
  p.modifier.emplace(*c.score_mod, mma_score_layout(p.BN / 2));
  p.hidden = HiddenValues::of(c, pack_name(*c.out_dtype));
  softmax.scale_log2 = p.modifier->scale_log2();
  softmax.scale = p.modifier->scale();
  if (p.results.sink()) softmax.sink = {"sink[head]", "sink[head]"};
  p.softmax.emplace(softmax);
  p.config = std::move(resolved->config);
  return p;
}

}  // namespace kiln::sm80
