#include "generator/systems/staged_pipeline.hpp"

#include "generator/emit/terms.hpp"

namespace kiln {

StagedPipeline::StagedPipeline(std::string name, int num_kv_stages, int num_qk_stages, std::string in_use)
    : name_(std::move(name)),
      in_use_(std::move(in_use)),
      num_kv_stages_(num_kv_stages),
      num_qk_stages_(num_qk_stages) {}

std::string StagedPipeline::barrier(const char* kind, int qk) const {
  std::string text = fmt::format("mbar_{}_{}", name_, kind);
  if (num_kv_stages_ > 1) text += fmt::format(" + {} * {}", stage(), 8 * num_qk_stages_);
  if (qk > 0) text += fmt::format(" + {}", 8 * qk);
  return text;
}

void StagedPipeline::emit_addresses(Writer& w, int offset, Named named) const {
  const std::string full = fmt::format("mbar_{}_full = smem + {}", name_, offset),
                    empty = fmt::format("mbar_{}_empty = smem + {}", name_, offset + barrier_bytes() / 2);
  w.line("const u32 {};", named == Named::full ? full : named == Named::empty ? empty : full + ", " + empty);
}

void StagedPipeline::emit_init(Writer& w, int full_arrivals, int empty_arrivals) const {
  for (int i = 0; i < num_kv_stages_ * num_qk_stages_; ++i) {
    w.line("mbarrier_init({}, {});", plus(fmt::format("mbar_{}_full", name_), 8 * i), full_arrivals);
  }
  for (int i = 0; empty_arrivals > 0 && i < num_kv_stages_ * num_qk_stages_; ++i) {
    w.line("mbarrier_init({}, {});", plus(fmt::format("mbar_{}_empty", name_), 8 * i), empty_arrivals);
  }
}

void StagedPipeline::emit_state(Writer& w, bool producer) const {
  if (num_kv_stages_ > 1) w.line("u32 {} = {};", stage(), first_);
  w.line("u32 {} = {};", phase(), producer ? 1 : 0);
}

void StagedPipeline::emit_step(Writer& w) const {
  if (num_kv_stages_ == 1) {
    w.line("{} ^= 1;", phase());
  } else if (every_ == 2) {
    w.line("if (({0} += 2) >= {1}) {{ {0} -= {1}; {2} ^= 1; }}", stage(), num_kv_stages_, phase());
  } else if (!in_use_.empty()) {
    w.line("if (++{0} == {1}) {{ {0} = 0; {2} ^= 1; }}", stage(), in_use_, phase());
  } else if (num_kv_stages_ == 2) {
    w.line("{0} ^= {1}; {1} ^= 1;", phase(), stage());
  } else {
    w.line("if (++{0} == {1}) {{ {0} = 0; {2} ^= 1; }}", stage(), num_kv_stages_, phase());
  }
}

void StagedPipeline::emit_wait_full(Writer& w, int qk) const {
  w.line("mbarrier_wait({}, {});", full(qk), phase());
}
void StagedPipeline::emit_wait_empty(Writer& w, int qk) const {
  w.line("mbarrier_wait({}, {});", empty(qk), phase());
}
void StagedPipeline::emit_wait_empty_by_warp(Writer& w, int qk) const {
  emit_wait_empty(w, qk);
  w.line("__syncwarp();  // no lane looks a turn of the ring later, at the parity of the turn before");
}

}  // namespace kiln
