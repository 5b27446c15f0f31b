#include "generator/schedules/sm90_decode/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include <kiln/cascade_kernels.hpp>
#include <kiln/error.hpp>
#include "generator/config/masks.hpp"
#include "generator/config/report.hpp"
#include "generator/config/rope.hpp"
#include "generator/schedules/sm90_decode/plan.hpp"

namespace kiln {
namespace {

class Sm90Decode final : public Schedule {
 public:
  explicit Sm90Decode(sm90::DecodePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    nlohmann::ordered_json k = p.operand->constants(p.kv_bytes, p.k_span, p.k_depth, p.k_fold);
    if (has_rope_tensor(p.config)) {
      k["rope_row_width"] = p.rope, k["rope_base_offset_bytes"] = 0;
    } else if (p.rope > 0) {
      const int begin = *p.config.rope->padded_depth;
      const RopeMap map = rope_map(begin, (*p.config.cache_depth - begin) / 2);
      k["rope_row_width"] = map.row_width, k["rope_base_offset_bytes"] = map.base_offset_bytes;
    }
    return {
        {"mha_operand", {{"k", k}, {"v", p.operand->constants(p.kv_bytes, p.v_span, p.ov_depth, p.v_fold)}}},
        {"tma_consumer_pipeline", {{"k", p.k->constants()}, {"v", p.v->constants()}}}};
  }
  Resources resources() const override {
    const int fitting = plan_.warpgroups > 1 ? sm90::DecodePlan::kConsumerRegisters
                                             : 65536 / (plan_.num_threads() * plan_.ctas_per_sm) / 8 * 8;
    return {plan_.smem_bytes(), plan_.num_threads(), fitting < 255 ? fitting : 255};
  }
  int dealt_from_tiles() const override { return plan_.stream->dynamic() ? StreamK::kDynamicFrom : 0; }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    const auto& p = plan_;
    std::vector<layout::Proof> proofs;
    const auto add = [&](const char* name, const sm90::SmemTile& tile, int columns, bool mn_major) {
      for (auto& proof : sm90::operand_proofs(name, tile, columns, mn_major))
        proofs.push_back(std::move(proof));
    };
    // Narrow K and V reach the tensor cores through registers, K beside a Q of the same type as it is.
    if (!p.k_in_registers()) add("K", p.k->tile(), p.padded_depth(), false);
    if (!p.narrow) add("V", p.v->tile(), p.padded_ov(), true);
    if (p.rope > 0) add("K's rotary columns", p.rope_tile(), 64 * p.rope_panels(), false);
    add("Q", p.q_tile(), p.padded_depth() + 64 * p.rope_panels(), false);
    if (!p.upright) add("P", p.p_tile(), p.BN, false);
    return proofs;
  }
  KernelSource emit() const override { return sm90::emit_decode(plan_); }
  std::optional<KernelSource> emit_part() const override {
    if (plan_.stream->by_rows()) return std::nullopt;
    return sm90::emit_decode(for_part(plan_));
  }

 private:
  sm90::DecodePlan plan_;
};

}  // namespace

KernelSource make_prefix_kernel(const Config& user) {
  const Plan plan = make_plan(user);
  if (is_bounded(*plan.resolved().mask))
    throw Error(ErrorCode::bad_input,
                "no prefix kernel under a mask: every query sees every shared key; leave out /mask");
  if (user.split_kv.value_or(1) == 1 || user.target != Target::sm_90a) return generate(plan);
  Violations violations;
  auto separate = sm90::plan_decode(plan.resolved(), violations, true);
  throw_if_any(config_name(user), violations);
  return sm90::emit_decode(*separate);
}

std::unique_ptr<Schedule> make_sm90_decode(Config config, Violations& out) {
  auto plan = sm90::plan_decode(std::move(config), out);
  if (!plan) return nullptr;
  return std::make_unique<Sm90Decode>(std::move(*plan));
}
std::unique_ptr<Schedule> make_sm90_wide_prefill(Config config, Violations& out) {
  return make_sm90_decode(std::move(config), out);
}

}  // namespace kiln
