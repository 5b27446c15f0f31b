#include "generator/schedules/sm90_prefill/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/config/defaults.hpp"
#include "generator/schedules/common/prefill_timeline.hpp"
#include "generator/schedules/sm90_decode/schedule.hpp"
#include "generator/schedules/sm90_prefill/parts.hpp"

namespace kiln {
namespace {

class Sm90Prefill final : public Schedule {
 public:
  explicit Sm90Prefill(sm90::PrefillPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    const int bytes = p.narrow ? 1 : p.element_bytes, span = p.narrow ? p.raw_span() : p.span_bytes;
    const auto operand = [&](int depth, int fold) { return p.operand->constants(bytes, span, depth, fold); };
    nlohmann::ordered_json k = operand(p.depth - p.rope, p.k_fold);
    if (p.rope > 0) k["rope_row_width"] = p.rope, k["rope_base_offset_bytes"] = 0;
    return {{"mha_operand", {{"k", std::move(k)}, {"v", operand(p.ov_depth, p.v_fold)}}},
            {"tma_consumer_pipeline", {{"k", p.k->constants()}, {"v", p.v->constants()}}}};
  }
  Resources resources() const override {
    return {plan_.smem.bytes(), plan_.num_threads(), plan_.math_registers};
  }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    auto proofs = sm90::operand_proofs("Q", plan_.q_tile(), plan_.padded_depth, false);
    for (auto& proof : sm90::operand_proofs("K", plan_.k->tile(), plan_.padded_depth, false))
      proofs.push_back(std::move(proof));
    for (auto& proof : sm90::prefill::Parts(plan_).tiles->proofs()) proofs.push_back(std::move(proof));
    return proofs;
  }
  Timeline timeline() const override {
    LoopModel model;
    model.consumers = plan_.num_math_warpgroups;
    model.BN = plan_.BN, model.depth = plan_.depth, model.ov_depth = plan_.ov_depth;
    model.stages = plan_.num_kv_stages;
    if (plan_.fp8) model.mma = 4096, model.element_bytes = 1;
    return overlapped_timeline(model);
  }
  KernelSource emit() const override { return sm90::emit_prefill(plan_); }
  std::optional<KernelSource> emit_part() const override { return sm90::emit_prefill(for_part(plan_)); }

 private:
  sm90::PrefillPlan plan_;
};

std::unique_ptr<Schedule> make(Config config, bool ping_pong, Violations& out) {
  auto plan = sm90::plan_prefill(std::move(config), ping_pong, out);
  if (!plan) return nullptr;
  return std::make_unique<Sm90Prefill>(std::move(*plan));
}

}  // namespace

std::unique_ptr<Schedule> make_sm90_prefill(Config config, Violations& out) {
  if (!config.schedule && has_wide_rows(config)) return make_sm90_wide_prefill(std::move(config), out);
  return make(std::move(config), false, out);
}
std::unique_ptr<Schedule> make_sm90_prefill_pingpong(Config config, Violations& out) {
  return make(std::move(config), true, out);
}

}  // namespace kiln
