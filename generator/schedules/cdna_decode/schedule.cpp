#include "generator/schedules/cdna_decode/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/schedules/cdna_decode/plan.hpp"

namespace kiln {
namespace {

/// P comes from LDS in the key order that V's fragments have: slot by slot.
bool p_has_order_of_v(const cdna::DecodePlan& p) {
  const int keys = p.keys_per_read(), groups = p.mfma.groups();
  for (int group = 0; group < groups; ++group) {
    for (int e = 0; e < p.mfma.frag(); ++e) {
      const int key = e / keys * keys * groups + group * keys + e % keys;
      if (p.v_op().slot_key(group * p.mfma.shape.m, e) != key) return false;
    }
  }
  return true;
}

class CdnaDecode final : public Schedule {
 public:
  explicit CdnaDecode(cdna::DecodePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const nlohmann::ordered_json ops{{"k", plan_.k_op().constants()}, {"v", plan_.v_op().constants()}};
    if (plan_.streaming)
      return {{"decode_streaming_kv_buffer", {{"k", plan_.k->constants()}, {"v", plan_.v->constants()}}},
              {"kv_mma_op", ops}};
    nlohmann::ordered_json v = plan_.v_tile->constants();
    v["reader"] = to_json(v_reader(plan_.ov_columns, plan_.BN, *plan_.config.bk_smem, plan_.warps_n()));
    nlohmann::ordered_json buffers{{"k", plan_.k_tile->constants()}, {"v", std::move(v)}};
    if (plan_.k_rope) buffers["k_rope"] = plan_.k_rope->constants();
    return {{"kv_buffer", std::move(buffers)}, {"kv_mma_op", ops}};
  }
  Resources resources() const override { return {plan_.smem_bytes, plan_.num_threads, plan_.max_registers}; }
  KernelSource emit() const override { return cdna::emit_decode(plan_); }
  std::optional<KernelSource> emit_part() const override { return cdna::emit_decode(for_part(plan_)); }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs = plan_.streaming ? plan_.k->proofs() : plan_.k_tile->proofs();
    if (plan_.k_rope)
      for (auto& proof : plan_.k_rope->proofs()) proofs.push_back(std::move(proof));
    for (auto& proof : plan_.streaming ? plan_.v->proofs() : plan_.v_tile->proofs())
      proofs.push_back(std::move(proof));
    for (auto& proof : cdna::p_proofs(plan_)) proofs.push_back(std::move(proof));
    proofs.push_back({"P: read in the key order of V", p_has_order_of_v(plan_), 0});
    return proofs;
  }

 private:
  cdna::DecodePlan plan_;
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the registry's signature
std::unique_ptr<Schedule> make_cdna_decode_streaming(Config config, Violations& out) {
  auto plan = cdna::plan_decode(config, out);
  return plan ? std::make_unique<CdnaDecode>(std::move(*plan)) : nullptr;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the registry's signature
std::unique_ptr<Schedule> make_cdna_decode(Config config, Violations& out) {
  auto plan = cdna::plan_tile_decode(config, out);
  return plan ? std::make_unique<CdnaDecode>(std::move(*plan)) : nullptr;
}

}  // namespace kiln
