#include "generator/schedules/sm100_decode/schedule.hpp"
#include "generator/config/rope.hpp"
#include "generator/schedules/common/parts.hpp"

#include "generator/schedules/sm100_decode/plan.hpp"
#include "generator/systems/mha_operand_constants.hpp"

namespace kiln {
namespace {

class Sm100Decode final : public Schedule {
 public:
  explicit Sm100Decode(sm100::DecodePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  bool guards_hidden_values() const override { return plan_.hidden.on(); }
  nlohmann::ordered_json systems() const override {
    const auto& p = plan_;
    nlohmann::ordered_json out;
    for (const auto* pipeline : {&*p.k, &*p.v}) {
      const bool k = pipeline == &*p.k;
      const char* const name = k ? "k" : "v";
      out["mha_operand"][name] =
          p.operand->constants(p.element_bytes(), p.span_bytes(), k ? p.depth : p.ov_depth, 1);
      if (p.operand->gathers() && (k || !p.v_in_k)) {
        const int columns = k ? p.k_columns : p.ov_depth;
        out["mha_operand"][name]["gather4"] =
            p.narrow ? p.operand->gather_constants(1, 0, columns, p.v_in_k ? p.chunk_columns() : columns)
                     : p.operand->gather_constants(p.element_bytes(), p.span_bytes(), columns, 0);
      }
      out["tma_consumer_pipeline"][name] = pipeline->constants();
    }
    if (p.rope > 0) {
      const bool tail = has_rope_tail(p.config);
      const int begin = tail ? *p.config.rope->padded_depth : 0;
      const RopeMap map = rope_map(begin, tail ? (*p.config.cache_depth - begin) / 2 : p.rope);
      out["mha_operand"]["k"]["rope_row_width"] = map.row_width;
      out["mha_operand"]["k"]["rope_base_offset_bytes"] = map.base_offset_bytes;
    }
    return out;
  }
  Resources resources() const override {
    return {plan_.smem.bytes(), plan_.num_threads(), plan_.narrow ? 168 : 255};
  }
  std::vector<layout::Proof> make_layout_proofs() const override {
    std::vector<layout::Proof> proofs;
    plan_.q_descriptor().add_proofs(proofs, "Q", plan_.depth);
    plan_.p_descriptor().add_proofs(proofs, "P", plan_.BN);
    plan_.k->descriptor().add_proofs(proofs, "K", plan_.rope_apart() ? plan_.k_columns : plan_.depth);
    if (plan_.rope_apart())
      sm100::MMASmemDescriptor{plan_.rope_tile(), true}.add_proofs(proofs, "K's rotary columns", plan_.rope);
    plan_.v->descriptor().add_proofs(proofs, "V", plan_.ov_depth);
    return proofs;
  }
  KernelSource emit() const override { return sm100::emit_decode(plan_); }
  std::optional<KernelSource> emit_part() const override {
    if (plan_.stream->by_rows()) return std::nullopt;
    return sm100::emit_decode(for_part(plan_));
  }

 private:
  sm100::DecodePlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_sm100_decode(Config config, Violations& out) {
  auto plan = sm100::plan_decode(std::move(config), out);
  if (!plan) return nullptr;
  return std::make_unique<Sm100Decode>(std::move(*plan));
}
std::unique_ptr<Schedule> make_sm100_wide_prefill(Config config, Violations& out) {
  return make_sm100_decode(std::move(config), out);
}

}  // namespace kiln
