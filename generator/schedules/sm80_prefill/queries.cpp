// Where Q's fragments are in sm80_prefill, and the scales of a head.
#include "generator/schedules/sm80_prefill/parts.hpp"

namespace kiln::sm80 {
namespace {

class InRegisters final : public Queries {
 public:
  using Queries::Queries;
  void emit_declare(Writer& w) const override {
    w.line("u32 q_reg[{}];  // Q: 16 x {} as the A operand of Q K'", p_.q->num_registers(), p_.depth);
  }
  void emit_read(Writer& w, const KeyPipeline& pipeline) const override {
    pipeline.emit_wait_for_queries(w);
    for (int step = 0; step < p_.q->k_steps(); ++step) p_.q->emit_load_from_shared(w, step);
  }
  bool read_in_loop() const override { return false; }
};

class InSharedMemory final : public Queries {
 public:
  using Queries::Queries;
  void emit_tile(Writer& w) const override { w.line("u32 q_reg[{}];", p_.q->num_registers()); }
  void emit_step(Writer& w, int step) const override { p_.q->emit_load_from_shared(w, step); }
  bool read_in_loop() const override { return true; }
};

class OneScale final : public HeadScales {
 public:
  using HeadScales::HeadScales;
  void emit_construct(Writer& w) const override {
    w.line("const float k_factor = k_scale[{}];", p_.head_of_scales());
  }
  void emit_scores(Writer& w) const override {
    for (int i = 0; i < p_.BN / 2; i += 4)
      w.line("s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor; s_acc[{}] *= k_factor;", i,
             i + 1, i + 2, i + 3);
  }
  const char* emit_output(Writer& w) const override {
    w.line("const float v_factor = v_scale[{}];", p_.head_of_scales());
    w.line("const float out_scale_0 = inv_sum_0 * v_factor, out_scale_1 = inv_sum_1 * v_factor;");
    return "out_scale";
  }
};

std::unique_ptr<Queries> make_queries(const PrefillPlan& p) {
  if (p.q_in_registers) return std::make_unique<InRegisters>(p);
  return std::make_unique<InSharedMemory>(p);
}

std::unique_ptr<HeadScales> make_head_scales(const PrefillPlan& p) {
  if (p.head_scale()) return std::make_unique<OneScale>(p);
  return std::make_unique<HeadScales>(p);
}

}  // namespace

Parts make_parts(const PrefillPlan& p) {
  return {p, make_sequences(p), make_queries(p), make_pipeline(p), make_head_scales(p)};
}

}  // namespace kiln::sm80
