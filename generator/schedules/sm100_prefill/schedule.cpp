#include "generator/schedules/sm100_prefill/schedule.hpp"

#include "generator/config/defaults.hpp"
#include "generator/schedules/common/prefill_timeline.hpp"
#include "generator/schedules/sm100_decode/schedule.hpp"
#include "generator/schedules/sm100_prefill/plan.hpp"

namespace kiln {
namespace {

class Sm100Prefill final : public Schedule {
 public:
  explicit Sm100Prefill(sm100::PrefillPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    nlohmann::ordered_json out;
    for (const auto* pipeline : {&*p.k, &*p.v}) {
      const bool k = pipeline == &*p.k;
      const char* const name = k ? "k" : "v";
      out["mha_operand"][name] =
          p.operand->constants(p.fa4.element_bytes(), p.fa4.swizzle_bytes, k ? p.depth : p.ov_depth, 1);
      if (p.operand->gathers())
        out["mha_operand"][name]["gather4"] = p.operand->gather_constants(
            p.fa4.element_bytes(), p.fa4.swizzle_bytes, k ? p.depth : p.ov_depth, 0);
      out["tma_consumer_pipeline"][name] = pipeline->constants();
    }
    return out;
  }
  Resources resources() const override {
    return {plan_.smem.bytes(), plan_.threads(), plan_.registers.softmax};
  }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs;
    plan_.q_descriptor().add_proofs(proofs, "Q", plan_.depth);
    plan_.k->descriptor().add_proofs(proofs, "K", plan_.depth);
    plan_.v->descriptor().add_proofs(proofs, "V", plan_.ov_depth);
    return proofs;
  }
  Timeline timeline() const override {
    LoopModel model;
    model.consumers = plan_.tiles(), model.rows = sm100::PrefillPlan::kRows;
    model.BN = plan_.BN, model.depth = plan_.depth, model.ov_depth = plan_.ov_depth;
    model.stages = std::max(2, plan_.fa4.num_kv_stages / (plan_.fa4.shared_ring ? 2 : 1));
    model.mma = plan_.fp8 ? 8192 : 4096;
    model.element_bytes = plan_.fa4.element_bytes();
    model.exponentials = target_info(plan_.config.target).ex2_per_clock;
    model.exp_offload = plan_.exp_offload;
    model.instructions_per_score = plan_.softmax().instructions_per_score();
    return overlapped_timeline(model);
  }
  KernelSource emit() const override { return sm100::emit_prefill(plan_); }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }

 private:
  sm100::PrefillPlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_sm100_prefill(Config config, Violations& out) {
  if (!config.schedule && has_wide_rows(config)) return make_sm100_wide_prefill(std::move(config), out);
  auto plan = sm100::plan_prefill(std::move(config), out);
  if (!plan) return nullptr;
  return std::make_unique<Sm100Prefill>(std::move(*plan));
}

}  // namespace kiln
