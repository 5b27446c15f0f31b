// Turns of the consumer warpgroups of sm90_prefill_pingpong.
#include "generator/schedules/sm90_prefill/consumer.hpp"

namespace kiln::sm90::prefill {
namespace {

/// The next warpgroup multiplies when this one's products have started.
class EarlyTurns : public Turns {
 public:
  using Turns::Turns;
  void emit_first(Writer& w) const override {
    w.line("if (consumer == 0) named_barrier_arrive(1, 256);  // the first turn is free");
  }
  void emit_take(Writer& w) const override { w.line("named_barrier_sync(1 + consumer, 256);"); }
  void emit_pass(Writer& w) const override {
    w.line("named_barrier_arrive(1 + (consumer + 1) % {}, 256);", p_.num_math_warpgroups);
  }
  void emit_pass_early(Writer& w) const override { emit_pass(w); }
};

/// When S is there. Products of both warpgroups share the tensor pipe: where softmax is the longer part and tiles
/// differ, S comes sooner when the other one waits for it, too (2 to 4 %; full attention loses as much).
class LateTurns final : public EarlyTurns {
 public:
  using EarlyTurns::EarlyTurns;
  void emit_pass_early(Writer&) const override {}
  void emit_pass_late(Writer& w) const override { emit_pass(w); }
};

}  // namespace

std::unique_ptr<const Turns> turns_of(const Parts& parts) {
  const PrefillPlan& p = parts.plan;
  if (!p.ping_pong) return std::make_unique<Turns>(parts);
  if (p.mask->bounded_above() && !p.modifier->none()) return std::make_unique<LateTurns>(parts);
  return std::make_unique<EarlyTurns>(parts);
}

}  // namespace kiln::sm90::prefill
