#include "generator/schedules/cdna_decode.hpp"

#include "generator/schedules/cdna_decode_plan.hpp"

namespace kiln {
namespace {

class CdnaDecodeStreaming final : public Schedule {
 public:
  explicit CdnaDecodeStreaming(cdna::DecodePlan plan) : plan_(std::move(plan)) {}

  const Config& resolved() const override { return plan_.config; }
  nlohmann::ordered_json systems() const override {
    return {
        {"decode_streaming_kv_buffer", {{"k", plan_.k->constants()}, {"v", plan_.v->constants()}}},
        {"kv_mma_op", {{"k", plan_.k->kv_mma_op().constants()}, {"v", plan_.v->kv_mma_op().constants()}}}};
  }
  Resources resources() const override { return {plan_.smem_bytes, plan_.num_threads, plan_.max_registers}; }
  KernelSource emit() const override { return cdna::emit_decode(plan_); }
  std::vector<layout::Proof> layout_proofs() const override {
    std::vector<layout::Proof> proofs = plan_.k->proofs();
    for (auto& proof : plan_.v->proofs()) proofs.push_back(std::move(proof));
    return proofs;
  }

 private:
  cdna::DecodePlan plan_;
};

}  // namespace

std::unique_ptr<Schedule> make_cdna_decode_streaming(Config config, Violations& out) {
  auto plan = cdna::plan_decode(config, out);
  return plan ? std::make_unique<CdnaDecodeStreaming>(std::move(*plan)) : nullptr;
}

}  // namespace kiln
