#include "generator/schedules/sm100_latent_pair/schedule.hpp"

#include "generator/config/rope.hpp"
#include "generator/schedules/common/parts.hpp"
#include "generator/schedules/sm100_latent_pair/plan.hpp"

namespace kiln {
namespace {

class Sm100LatentPair final : public Schedule {
 public:
  explicit Sm100LatentPair(sm100::PairPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    nlohmann::ordered_json out;
    for (const auto* pipeline : {&*p.k, &*p.v}) {
      const bool k = pipeline == &*p.k;
      const char* const name = k ? "k" : "v";
      const auto& operand = k ? *p.operand : *p.v_operand;
      out["mha_operand"][name] =
          operand.constants(p.element_bytes(), p.span_bytes(), k ? p.depth : p.ov_depth, 1);
      if (operand.gathers())
        out["mha_operand"][name]["gather4"] = operand.gather_constants(
            p.element_bytes(), p.span_bytes(), k ? p.k_columns : p.padded_ov() / 2, 0);
      out["tma_consumer_pipeline"][name] = pipeline->constants();
    }
    if (p.rope > 0) {
      const RopeMap map = rope_map(0, p.rope);
      out["mha_operand"]["k"]["rope_row_width"] = map.row_width;
      out["mha_operand"]["k"]["rope_base_offset_bytes"] = map.base_offset_bytes;
    }
    return out;
  }
  Resources resources() const override { return {plan_.smem.bytes(), sm100::PairPlan::kThreads, 255}; }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs;
    plan_.q_descriptor().add_proofs(proofs, "Q", plan_.depth);
    plan_.p_descriptor().add_proofs(proofs, "P", sm100::PairPlan::kKeys);
    plan_.k->descriptor().add_proofs(proofs, "K", plan_.depth);
    plan_.v->descriptor().add_proofs(proofs, "V", plan_.padded_ov() / 2);
    return proofs;
  }
  KernelSource emit() const override { return sm100::emit_latent_pair(plan_); }
  std::optional<KernelSource> emit_part() const override {
    if (plan_.stream->by_rows()) return std::nullopt;
    return sm100::emit_latent_pair(for_part(plan_));
  }

 private:
  sm100::PairPlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_sm100_latent_pair(Config config, Violations& out) {
  auto plan = sm100::plan_latent_pair(std::move(config), out);
  if (!plan) return nullptr;
  return std::make_unique<Sm100LatentPair>(std::move(*plan));
}

}  // namespace kiln
