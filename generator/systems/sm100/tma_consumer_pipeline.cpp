#include "generator/systems/sm100/tma_consumer_pipeline.hpp"

namespace kiln::sm100 {

TMAConsumerPipeline::TMAConsumerPipeline(const FA4Config& config, bool is_k)
    : config_(config),
      is_k_(is_k),
      ring_(is_k ? "k" : "v", config.num_kv_stages,
            is_k || config.v_in_k ? config.num_qk_stages : config.v_chunks),
      descriptor_({is_k ? config.k_rows_per_cta : config.BN, config.swizzle_bytes, config.element_bytes()},
                  is_k) {
  if (config.shared_ring) ring_.take_turns(is_k ? 0 : 1);
}

void TMAConsumerPipeline::emit_construct(Writer& w) const {
  w.line("const u32 {0}_desc = (smem_{0} >> 4) | {1:#x}u;", name(), descriptor_.low());
}

std::string TMAConsumerPipeline::get() const {
  const std::string first = name() + "_desc";
  return config_.num_kv_stages == 1 ? first
                                    : fmt::format("{} + {} * {}", first, ring_.stage(), slot_bytes() >> 4);
}

std::string TMAConsumerPipeline::address() const {
  const std::string first = "smem_" + name();
  return config_.num_kv_stages == 1 ? first : fmt::format("{} + {} * {}", first, ring_.stage(), slot_bytes());
}

void TMAConsumerPipeline::emit_release(Writer& w, int qk) const {
  w.line("tcgen05_commit({});", ring_.empty(qk));
  if (qk == num_qk_stages_effective() - 1) ring_.emit_step(w);
}

void TMAConsumerPipeline::emit_zero(Writer& w) const {
  for (int panel = 0; panel < num_panels(); ++panel)
    w.line("zero_16_bytes({} + {} + i * 16);", address(), panel * descriptor_.tile().panel_bytes());
}

nlohmann::ordered_json TMAConsumerPipeline::constants() const {
  nlohmann::ordered_json out = tma_consumer_json(config_, is_k_);
  out["is_k"] = is_k_;
  out["page_dense"] = false;
  // tmem: first columns of tensor memory of S or O of both tiles of queries; P takes the place of S.
  const std::pair<const char*, int> numbers[] = {{"slot_bytes", slot_bytes()},
                                                 {"num_panels", num_panels()},
                                                 {"swizzle_bytes", config_.swizzle_bytes},
                                                 {"num_barriers", ring_.num_barriers()},
                                                 {"tmem_0", is_k_ ? 0 : config_.tmem_o0},
                                                 {"tmem_1", is_k_ ? config_.tmem_s1 : config_.tmem_o1}};
  for (const auto& [name, value] : numbers) out[name] = value;
  return out;
}

}  // namespace kiln::sm100
