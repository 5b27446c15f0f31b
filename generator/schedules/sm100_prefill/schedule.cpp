#include "generator/schedules/sm100_prefill/schedule.hpp"

#include "generator/schedules/common/prefill_timeline.hpp"
#include "generator/schedules/sm100_prefill/plan.hpp"

namespace kiln {
namespace {

class Sm100Prefill final : public Schedule {
 public:
  explicit Sm100Prefill(sm100::PrefillPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    const auto operand = [&](int depth) { return p.operand->constants(2, p.fa4.swizzle_bytes, depth, 1); };
    auto k = p.k->constants(), v = p.v->constants();
    // First columns of tensor memory, of both tiles of queries; P takes the place of S.
    k["tmem_s"] = {0, p.fa4.tmem_s1};
    v["tmem_o"] = {p.fa4.tmem_o0, p.fa4.tmem_o1};
    return {{"mha_operand", {{"k", operand(p.depth)}, {"v", operand(p.ov_depth)}}},
            {"tma_consumer_pipeline", {{"k", k}, {"v", v}}}};
  }
  Resources resources() const override {
    return {plan_.smem.bytes(), sm100::PrefillPlan::kThreads, sm100::PrefillPlan::kSoftmaxRegisters};
  }
  std::vector<layout::Proof> layout_proofs() const override {
    auto proofs = plan_.q_descriptor().proofs("Q", plan_.depth);
    for (auto& proof : plan_.k->descriptor().proofs("K", plan_.depth)) proofs.push_back(std::move(proof));
    for (auto& proof : plan_.v->descriptor().proofs("V", plan_.ov_depth)) proofs.push_back(std::move(proof));
    return proofs;
  }
  Timeline timeline() const override {
    LoopModel model;
    model.consumers = 2, model.rows = sm100::PrefillPlan::kRows;
    model.BN = plan_.BN, model.depth = plan_.depth, model.ov_depth = plan_.ov_depth;
    model.stages = std::max(2, plan_.fa4.num_kv_stages / (plan_.fa4.shared_ring ? 2 : 1));
    model.mma = 4096;
    model.instructions_per_score = 3;  // two scores an instruction
    return overlapped_timeline(model);
  }
  KernelSource emit() const override { return sm100::emit_prefill(plan_); }

 private:
  sm100::PrefillPlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_sm100_prefill(Config config, Violations& out) {
  auto plan = sm100::plan_prefill(std::move(config), out);
  if (!plan) return nullptr;
  return std::make_unique<Sm100Prefill>(std::move(*plan));
}

}  // namespace kiln
