// The products of sm100_prefill, which one thread issues: section `products` of templates/sm100_prefill.cuh.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

/// S of one chunk of K.
void emit_issue_scores(Writer& w, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  const auto q = p.q_descriptor();
  const auto& k_descriptor = p.k->descriptor();
  const int k = p.fa4.MMA_K, steps = p.fa4.BK0 / k;
  for (int qk = 0; qk < p.fa4.num_qk_stages; ++qk) {
    const int begin = qk * steps, end = std::min(begin + steps, p.k_steps());
    w.comment("S {} Q K': columns {} to {} of Q and K, {} a step.", qk == 0 ? "=" : "+=", k * begin,
              k * end - 1, k);
    w.open("__device__ __forceinline__ void {}(u32 s, u32 q, u32 k)", parts.tiles->issue_name(qk));
    for (int step = begin; step < end; ++step)
      w.line("mma_smem(s, descriptor(q + {}, kQHigh), descriptor(k + {}, kKHigh), kScoresKind, {});",
             q.step(step), k_descriptor.step(step), step > 0);
    w.close();
  }
}

}  // namespace

void emit_pv(Writer& w, const PrefillPlan& p, int begin, int end) {
  const int k = p.fa4.MMA_K;
  for (int key = begin; key < end; key += k)
    w.line("mma_tmem(o, p + {}, descriptor(v + {}, kVHigh), kOutputKind, {});",
           key * p.fa4.element_bytes() / 4, p.v->descriptor().step(key / k), key == 0 ? "add" : "true");
}

void add_product_functions(Holes& holes, const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  holes.lines("issue_scores", lines_of([&](Writer& w) { emit_issue_scores(w, parts); }));
  holes.lines("first_products", lines_of([&](Writer& w) { emit_pv(w, p, 0, p.first_keys()); }));
  holes.lines("rest_products", lines_of([&](Writer& w) { parts.pieces->emit_rest_products(w); }));
}

void emit_products(Writer& w, const Parts& parts, Holes holes) {
  const PrefillPlan& p = parts.plan;
  holes.lines("items", parts.items->head(ItemReader::thread));
  holes.lines("construct", lines_of([&](Writer& b) {
                p.k->emit_construct(b), p.v->emit_construct(b);
                p.k->ring().emit_state(b, false), p.v->ring().emit_state(b, false);
              }));
  holes.text("issuer", parts.blocks->issuer());
  holes.text("turn", parts.tiles->turn()).lines("tiles_of_item", parts.tiles->products(holes));
  w.raw(section("products", holes));
}

}  // namespace kiln::sm100::prefill
