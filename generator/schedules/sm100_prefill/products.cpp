// The products of sm100_prefill, which one thread issues: section `products` of templates/sm100_prefill.cuh.
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

/// Name of the function that issues the products with chunk `qk` of K.
std::string issue_name(const PrefillPlan& p, int qk) {
  return p.fa4.num_qk_stages > 1 ? fmt::format("issue_scores_{}", qk) : "issue_scores";
}

/// S of one chunk of K.
void emit_issue_scores(Writer& w, const PrefillPlan& p) {
  const auto q = p.q_descriptor();
  const auto& k_descriptor = p.k->descriptor();
  const int k = p.fa4.MMA_K, steps = p.fa4.BK0 / k;
  for (int qk = 0; qk < p.fa4.num_qk_stages; ++qk) {
    const int begin = qk * steps, end = std::min(begin + steps, p.k_steps());
    w.comment("S {} Q K': columns {} to {} of Q and K, {} a step.", qk == 0 ? "=" : "+=", k * begin,
              k * end - 1, k);
    w.open("__device__ __forceinline__ void {}(u32 s, u32 q, u32 k)", issue_name(p, qk));
    for (int step = begin; step < end; ++step)
      w.line("mma_smem(s, descriptor(q + {}, kQHigh), descriptor(k + {}, kKHigh), kScoresKind, {});",
             q.step(step), k_descriptor.step(step), step > 0);
    w.close();
  }
}

/// S of the first tile of queries, chunk by chunk as K comes.
void emit_first_scores(Writer& w, const PrefillPlan& p) {
  for (int qk = 0; qk < p.fa4.num_qk_stages; ++qk) {
    p.k->emit_wait(w, qk);
    w.line("{}(tmem + 0, q_desc + 0, {});", issue_name(p, qk), p.k->get());
  }
}

/// S of the second, which releases K.
void emit_second_scores(Writer& w, const PrefillPlan& p) {
  const int last = p.fa4.num_qk_stages - 1;
  for (int qk = 0; qk <= last; ++qk) {
    w.line("{}(tmem + {}, q_desc + {}, {});", issue_name(p, qk), p.fa4.tmem_s1, p.q_stride() >> 4,
           p.k->get());
    if (qk == last) w.line("tcgen05_commit(mbar_s_full + 8);");
    p.k->emit_release(w, qk);
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
  holes.text("issue_scores", text_of([&](Writer& w) { emit_issue_scores(w, p); }));
  holes.text("first_products", text_of([&](Writer& w) { emit_pv(w, p, 0, p.first_keys()); }));
  holes.text("rest_products", text_of([&](Writer& w) { parts.pieces->emit_rest_products(w); }));
}

void emit_products(Writer& w, const Parts& parts, Holes holes) {
  const PrefillPlan& p = parts.plan;
  holes.text("items", parts.items->head(ItemReader::thread).text());
  holes.text("construct", text_of([&](Writer& b) {
               p.k->emit_construct(b), p.v->emit_construct(b);
               p.k->ring().emit_state(b, false), p.v->ring().emit_state(b, false);
             }));
  holes.text("scores_0", text_of([&](Writer& b) { emit_first_scores(b, p); }));
  holes.text("scores_1", text_of([&](Writer& b) { emit_second_scores(b, p); }));
  holes.text("wait_v", text_of([&](Writer& b) { p.v->emit_wait(b, 0); }));
  holes.text("release_v", text_of([&](Writer& b) { p.v->emit_release(b, 0); }));
  holes.text("v_desc", p.v->get());
  w.raw(section("products", holes));
}

}  // namespace kiln::sm100::prefill
