#include "generator/schedules/sm80_decode/schedule.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/schedules/sm80_decode/plan.hpp"
#include "generator/schedules/sm80_decode/wide.hpp"

namespace kiln {
namespace {

class Sm80Decode final : public Schedule {
 public:
  explicit Sm80Decode(sm80::DecodePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto operand = plan_.operand_constants();
    nlohmann::ordered_json out{
        {"mha_operand", {{"k", operand}, {"v", operand}}},
        {"decode_streaming_kv_buffer", {{"k", plan_.k->constants()}, {"v", plan_.v->constants()}}}};
    const auto &k = plan_.k->kv_mma_op(), &v = plan_.v->kv_mma_op();
    if (k && v) out["kv_mma_op"] = {{"k", k->constants()}, {"v", v->constants()}};
    return out;
  }
  Resources resources() const override { return plan_.resources(); }
  KernelSource emit() const override { return sm80::emit_decode(plan_); }
  std::optional<KernelSource> emit_part() const override { return sm80::emit_decode(for_part(plan_)); }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs = plan_.k->proofs();
    for (auto& proof : plan_.v->proofs()) proofs.push_back(std::move(proof));
    return proofs;
  }

 private:
  sm80::DecodePlan plan_;
};

class Sm80Wide final : public Schedule {
 public:
  explicit Sm80Wide(sm80::WidePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    const auto operand = plan_.operand_constants();
    return {{"mha_operand", {{"k", operand}, {"v", operand}}},
            {"kv_mma_op", {{"k", plan_.k->constants()}, {"v", plan_.v->constants()}}}};
  }
  Resources resources() const override { return plan_.resources(); }
  KernelSource emit() const override { return sm80::emit_wide(plan_); }
  std::optional<KernelSource> emit_part() const override {
    if (plan_.stream->by_rows()) return std::nullopt;
    return sm80::emit_wide(for_part(plan_));
  }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  std::vector<layout::Proof> make_layout_proofs() const override {
    return {{plan_.v_in_k ? "K stage: bijection" : "K and V stage: bijection",
             plan_.tile.layout().is_bijection(), 0},
            {"K copies: cp.async", plan_.copy->proves(), plan_.copy->bank_conflicts()},
            {"K fragments: ldmatrix", plan_.k->reader().proves(), plan_.k->reader().bank_conflicts()},
            {"V fragments: ldmatrix", plan_.v->reader().proves(), plan_.v->reader().bank_conflicts()}};
  }

 private:
  sm80::WidePlan plan_;
};

std::unique_ptr<Schedule> make_wide(Config config, Violations& out) {
  auto plan = sm80::plan_wide(std::move(config), out);
  return plan ? std::make_unique<Sm80Wide>(std::move(*plan)) : nullptr;
}

/// Rows of more columns than a warp has registers for: past 256, and 256 where slopes or captured tensors want some
/// (tried with ptxas 13.0).
bool is_wide(const Config& c) {
  if (c.v_from_k.value_or(false) || c.depth > 256) return true;
  if (c.depth < 256 || c.kv_dtype.value_or(c.dtype) != c.dtype || !c.score_mod) return false;
  return modifier_kind(*c.score_mod).row_values || !c.score_mod->tensors.empty();
}

}  // namespace

std::unique_ptr<Schedule> make_sm80_wide_prefill(Config config, Violations& out) {
  return make_wide(std::move(config), out);
}

std::unique_ptr<Schedule> make_sm80_decode(Config config, Violations& out) {
  if (is_wide(config)) return make_wide(std::move(config), out);
  auto plan = sm80::plan_decode(std::move(config), out);
  return plan ? std::make_unique<Sm80Decode>(std::move(*plan)) : nullptr;
}

}  // namespace kiln
