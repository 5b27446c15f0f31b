// StagedPipeline: a ring of `num_kv_stages` slots, each split into `num_qk_stages` chunks with their own
// barrier pair. "Full" barriers come first: full[num_qk*idx + qk]; then
// empty[num_qk*idx + qk]; 8 bytes each.
//
// State of one side is (index, phase): the consumer starts at (0, 0), the producer at (0, 1), since a fresh
// barrier has completed parity 1. step() advances the index and flips the phase on wrap.
#pragma once

#include <string>

#include "generator/emit/writer.hpp"

namespace kiln {

class StagedPipeline {
 public:
  /// `name` prefixes the emitted variables: mbar_NAME_full, NAME_stage, NAME_phase. `in_use`: an expression
  /// of how many of the stages are used, at least 2; empty: all.
  StagedPipeline(std::string name, int num_kv_stages, int num_qk_stages, std::string in_use = "");

  /// The slots of a ring that one of two operands takes in turns with the other: every second one, from `first`
  /// (0 or 1) on. Both name the same barriers.
  void take_turns(int first) { first_ = first, every_ = 2; }

  int num_kv_stages() const { return num_kv_stages_; }
  int num_qk_stages() const { return num_qk_stages_; }
  int num_barriers() const { return 2 * num_kv_stages_ * num_qk_stages_; }
  int barrier_bytes() const { return 8 * num_barriers(); }

  /// Shared-memory addresses of the barriers that code names: `const u32 mbar_NAME_full = smem + offset`, and
  /// _empty behind all of those.
  enum class Named { both, full, empty };
  void emit_addresses(Writer& w, int offset, Named named = Named::both) const;
  /// `empty_arrivals` 0: nobody waits for an empty slot.
  void emit_init(Writer& w, int full_arrivals, int empty_arrivals) const;
  void emit_state(Writer& w, bool producer) const;
  void emit_step(Writer& w) const;
  void emit_wait_full(Writer& w, int qk) const;
  void emit_wait_empty(Writer& w, int qk) const;
  /// The same by all lanes of a warp some of which issue nothing that later phases wait for: without meeting, one of
  /// these could look a turn of the ring later, find the parity of the turn before and wait for ever.
  void emit_wait_empty_by_warp(Writer& w, int qk) const;

  /// Address expressions at the current stage.
  std::string full(int qk) const { return barrier("full", qk); }
  std::string empty(int qk) const { return barrier("empty", qk); }
  std::string stage() const { return name_ + "_stage"; }
  std::string phase() const { return name_ + "_phase"; }

 private:
  std::string barrier(const char* kind, int qk) const;

  std::string name_, in_use_;
  int num_kv_stages_, num_qk_stages_;
  int first_ = 0, every_ = 1;  ///< of its slots
};

}  // namespace kiln
