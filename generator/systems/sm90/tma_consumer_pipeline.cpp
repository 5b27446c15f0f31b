#include "generator/systems/sm90/tma_consumer_pipeline.hpp"

namespace kiln::sm90 {

TMAConsumerPipeline::TMAConsumerPipeline(const Shape& shape)
    : shape_(shape),
      ring_(shape.is_k ? "k" : "v", shape.num_kv_stages,
            shape.is_k || shape.in_k_slots ? shape.num_qk_stages : 1,
            shape.stages_at_launch ? "num_kv_stages" : "") {
  if (shape.shared_ring) ring_.take_turns(shape.is_k ? 0 : 1);
}

void TMAConsumerPipeline::emit_construct(Writer& w) const {
  const auto fields = is_k_major() ? k_major_descriptor(tile()) : mn_major_descriptor(tile());
  w.line("const u32 {0}_desc = {1} | {2:#x}u;", name(), descriptor_base("smem_" + name(), shape_.cluster),
         fields.low);
}

std::string TMAConsumerPipeline::get() const {
  if (shape_.num_kv_stages == 1) return name() + "_desc";
  return fmt::format("{}_desc + {} * {}", name(), ring_.stage(), slot_bytes() >> 4);
}

std::string TMAConsumerPipeline::slot() const {
  if (shape_.num_kv_stages == 1) return "smem_" + name();
  return fmt::format("smem_{} + {} * {}", name(), ring_.stage(), slot_bytes());
}

std::string TMAConsumerPipeline::descriptor_high() const {
  const auto fields = is_k_major() ? k_major_descriptor(tile()) : mn_major_descriptor(tile());
  return fmt::format("{:#x}u", fields.high);
}

void TMAConsumerPipeline::emit_zero_rows(Writer& w, const std::string& first, int threads) const {
  const int chunks = shape_.span_bytes / 16;
  w.open("for (int i = v_rows * {} + {}; i < {}; i += {})", chunks, first, shape_.BN * chunks, threads);
  // A panel's chunks lie one after the other, or its eights of rows do.
  const std::string chunk = shape_.fold > 1 ? fmt::format("(i >> {}) * {} + (i & {}) * 16", 6,
                                                          layout::eight_rows_bytes(128, shape_.fold), 63)
                                            : "i * 16";
  for (int panel = 0; panel < num_panels(); ++panel)
    w.line("zero_16_bytes({} + {} + {});", slot(), tile().panel_offset(panel), chunk);
  w.close();
}

void TMAConsumerPipeline::emit_release(Writer& w, int qk) const {
  if (shape_.cluster == 1) {
    w.line("if (lane == 0) mbarrier_arrive({});", ring_.empty(qk));
  } else {
    w.line("if (lane < {}) mbarrier_arrive_cluster({}, lane);", shape_.cluster, ring_.empty(qk));
  }
  if (qk == num_qk_stages_effective() - 1) ring_.emit_step(w);
}

void TMAConsumerPipeline::emit_release_all(Writer& w) const {
  for (int qk = 0; qk < num_qk_stages_effective(); ++qk) emit_release(w, qk);
}

void TMAConsumerPipeline::emit_arrivals(Writer& w, const std::string& comment) const {
  for (int qk = 0; qk < ring_.num_qk_stages(); ++qk)
    w.line("if (lane == 0) mbarrier_arrive({});{}", ring_.empty(qk), comment);
}

nlohmann::ordered_json TMAConsumerPipeline::constants() const {
  return {{"num_kv_stages", shape_.num_kv_stages},
          {"shared_ring", shape_.shared_ring || shape_.in_k_slots},
          {"num_qk_stages", shape_.is_k ? shape_.num_qk_stages : 1},
          {"num_qk_stages_effective", num_qk_stages_effective()},
          {"BMN", BMN()},
          {"BK", BK()},
          {"is_k", shape_.is_k},
          {"is_k_major", is_k_major()},
          {"staged_k_bytes", shape_.is_k ? nlohmann::ordered_json(staged_k_bytes()) : nullptr},
          {"full_kv_bytes", full_kv_bytes()},
          {"slot_bytes", slot_bytes()},
          {"num_panels", num_panels()},
          {"page_dense", shape_.fold > 1},
          {"swizzle_bytes", shape_.span_bytes},
          {"num_barriers", ring_.num_barriers()}};
}

}  // namespace kiln::sm90
