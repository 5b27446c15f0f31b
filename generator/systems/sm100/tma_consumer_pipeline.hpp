// TMAConsumerPipeline on sm_100a: the MMA warp's side of the ring of K or V. It waits for a stage, hands out its
// descriptor, and releases it by a tcgen05.commit: the slot is free when every product issued before has ended, which
// nobody waits for. All of it runs in the one elected thread that issues the products.
//
// K may come in `num_qk_stages` depth chunks with barriers of their own, V in `v_chunks` of its columns. In a shared ring K and V take slots in
// turns: V's state stays at its slot while the next K is consumed, so release_v names the slot that is held. Where V is
// the first columns of K's rows, both have the same slots, and only V's side releases them.
#pragma once

#include <string>

#include "generator/systems/fa4_config.hpp"
#include "generator/systems/sm100/mma_smem_descriptor.hpp"
#include "generator/systems/staged_pipeline.hpp"

namespace kiln::sm100 {

class TMAConsumerPipeline {
 public:
  TMAConsumerPipeline(const FA4Config& config, bool is_k);

  int num_qk_stages_effective() const { return is_k_ ? config_.num_qk_stages : config_.v_chunks; }
  int full_kv_bytes() const { return is_k_ ? config_.full_k_bytes : config_.full_v_bytes; }
  /// From one slot to the next.
  int slot_bytes() const {
    const bool shared = config_.shared_ring || config_.v_in_k;
    return shared ? std::max(config_.full_k_bytes, config_.full_v_bytes) : full_kv_bytes();
  }
  int ring_bytes() const { return slot_bytes() * config_.num_kv_stages; }
  int num_panels() const { return (is_k_ ? config_.padded_qk : config_.v_cols_per_cta) / config_.gran; }
  int panels_per_chunk() const { return num_panels() / num_qk_stages_effective(); }
  /// Transaction bytes of one barrier.
  int barrier_bytes() const { return full_kv_bytes() / num_qk_stages_effective(); }
  const StagedPipeline& ring() const { return ring_; }
  const MMASmemDescriptor& descriptor() const { return descriptor_; }

  /// construct(): `const u32 NAME_desc`, the low descriptor word of slot 0.
  void emit_construct(Writer& w) const;
  /// get(): expression of the low descriptor word of the current slot, and its address.
  std::string get() const;
  std::string address() const;
  /// wait<qk>(): until chunk qk of the current slot is in shared memory.
  void emit_wait(Writer& w, int qk) const { ring_.emit_wait_full(w, qk); }
  /// release<qk>(): a commit; steps the state after the last chunk.
  void emit_release(Writer& w, int qk) const;

  /// Zeros in 16 bytes, number `i`, of every panel of the current slot: of V's rows past a sequence.
  void emit_zero(Writer& w) const;

  nlohmann::ordered_json constants() const;

 private:
  std::string name() const { return is_k_ ? "k" : "v"; }

  FA4Config config_;
  bool is_k_;
  StagedPipeline ring_;
  MMASmemDescriptor descriptor_;
};

}  // namespace kiln::sm100
