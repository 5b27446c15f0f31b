#include "generator/schedules/cdna_prefill/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/config/masks.hpp"
#include "generator/config/rules.hpp"
#include "generator/schedules/cdna_prefill/plan.hpp"
#include "generator/schedules/common/cdna_timeline.hpp"

namespace kiln {
namespace {

/// P leaves the accumulators of S in the key order that V's fragments have: slot by slot.
bool p_has_order_of_v(const cdna::PrefillPlan& p) {
  const layout::MfmaShape shape = p.mfma.shape;
  const cdna::KVMmaOp& v = p.v->kv_mma_op();
  for (int group = 0; group < p.mfma.groups(); ++group) {
    for (int e = 0; e < p.mfma.frag(); ++e) {
      if (v.slot_key(group * shape.m, e) != layout::p_slot_key(shape, shape, group, e)) return false;
    }
  }
  return true;
}

class CdnaPrefill final : public Schedule {
 public:
  explicit CdnaPrefill(cdna::PrefillPlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    nlohmann::ordered_json buffers{{"k", plan_.k->constants()}, {"v", plan_.v->constants()}};
    if (plan_.k_rope) buffers["k_rope"] = plan_.k_rope->constants();
    return {
        {"kv_buffer", std::move(buffers)},
        {"kv_mma_op", {{"k", plan_.k->kv_mma_op().constants()}, {"v", plan_.v->kv_mma_op().constants()}}}};
  }
  Resources resources() const override { return {plan_.smem_bytes, plan_.num_threads, plan_.max_registers}; }
  Timeline timeline() const override { return cdna::prefill_timeline(plan_); }
  KernelSource emit() const override { return cdna::emit_prefill(plan_); }
  std::optional<KernelSource> emit_part() const override { return cdna::emit_prefill(for_part(plan_)); }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs = plan_.k->proofs();
    if (plan_.k_rope)
      for (auto& proof : plan_.k_rope->proofs()) proofs.push_back(std::move(proof));
    for (auto& proof : plan_.v->proofs()) proofs.push_back(std::move(proof));
    proofs.push_back({"P: accumulators of S in the key order of V", p_has_order_of_v(plan_), 0});
    return proofs;
  }

 private:
  cdna::PrefillPlan plan_;
};

/// Where no schedule is named: ping-pong, if every key that was set fits it, where the cycle model has it
/// ahead (docs/schedules.md): the matrix unit of a SIMD works through the other wave's softmax. Narrow tiles
/// of a bounded mask leave room for two blocks of cdna_prefill a compute unit, which do that for each other.
bool prefers_pingpong(const Config& c) {
  const bool bounded = c.mask && is_bounded(*c.mask);
  return !c.schedule && c.target != Target::gfx90a && c.depth <= 128 && !(c.depth <= 64 && bounded);
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the registry's signature
std::unique_ptr<Schedule> make_cdna_prefill(Config config, Violations& out) {
  if (prefers_pingpong(config)) {
    Config pingpong = config;
    pingpong.schedule = "cdna_prefill_pingpong";
    Violations unfit;
    auto plan = cdna::plan_prefill(pingpong, unfit);
    if (plan) check_rules(plan->config, unfit);
    if (plan && unfit.empty()) return std::make_unique<CdnaPrefill>(std::move(*plan));
  }
  auto plan = cdna::plan_prefill(config, out);
  return plan ? std::make_unique<CdnaPrefill>(std::move(*plan)) : nullptr;
}

}  // namespace kiln
