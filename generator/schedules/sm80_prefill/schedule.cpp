#include "generator/schedules/sm80_prefill/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/config/defaults.hpp"
#include "generator/layout/mma_sync.hpp"
#include "generator/schedules/common/prefill_timeline.hpp"
#include "generator/schedules/sm80_decode/schedule.hpp"
#include "generator/schedules/sm80_prefill/plan.hpp"

namespace kiln {
namespace {

class Sm80Prefill final : public Schedule {
 public:
  explicit Sm80Prefill(sm80::PrefillPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    return {
        {"kv_buffer", {{"k", plan_.k->constants()}, {"v", plan_.v->constants()}}},
        {"kv_mma_op", {{"k", plan_.k->kv_mma_op().constants()}, {"v", plan_.v->kv_mma_op().constants()}}}};
  }
  Resources resources() const override { return {plan_.smem_bytes, plan_.num_threads, plan_.max_registers}; }
  Timeline timeline() const override {
    LoopModel model;
    model.rows = plan_.BM, model.BN = plan_.BN, model.depth = plan_.depth, model.ov_depth = plan_.ov_depth;
    model.stages = plan_.num_stages;
    model.mma = 1024;  // mma.sync of an A100
    if (plan_.narrow()) model.element_bytes = 1, model.instructions_per_byte = 3.5;
    return sequential_timeline(model);
  }
  KernelSource emit() const override { return sm80::emit_prefill(plan_); }
  std::optional<KernelSource> emit_part() const override { return sm80::emit_prefill(for_part(plan_)); }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs = plan_.q->proofs();
    for (const auto* buffer : {&*plan_.k, &*plan_.v}) {
      for (auto& proof : buffer->proofs()) proofs.push_back(std::move(proof));
    }
    proofs.push_back(plan_.o->output_proof());
    proofs.push_back({"P: accumulators of S as A fragments", layout::accumulators_are_a_fragments(), 0});
    return proofs;
  }

 private:
  sm80::PrefillPlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_sm80_prefill(Config config, Violations& out) {
  const bool wide = has_wide_rows(config) || config.v_from_k.value_or(false);
  if (!config.schedule && wide) return make_sm80_wide_prefill(std::move(config), out);
  auto plan = sm80::plan_prefill(config, out);
  return plan ? std::make_unique<Sm80Prefill>(std::move(*plan)) : nullptr;
}

}  // namespace kiln
