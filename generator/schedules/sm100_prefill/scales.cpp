// Scales of Q, K and V of sm100_prefill: none; one of a head that joins the exponent's factor; or one that the scores are
// multiplied by, before they are modified.
#include "generator/config/quantization.hpp"
#include "generator/schedules/sm100_prefill/parts.hpp"

namespace kiln::sm100::prefill {
namespace {

class HeadScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    for (const char* role : {"q_scale", "k_scale", "v_scale"})
      params.push_back({KernelParam::Kind::pointer, role, {}});
  }
  void emit_head(Writer& w) const override {
    w.line("const float key_scale = q_scale[{}] * k_scale[{}];",
           scale_of_query(*p_.config.operand->quantization, "work.batch", "work.kv_head"), of_head());
  }
  void emit_tile(Writer& w) const override { p_.softmax().emit_scale(w, "key_scale"); }
  std::string value_scale() const override { return fmt::format(" * v_scale[{}]", of_head()); }

 private:
  std::string of_head() const {
    return scale_of_head(*p_.config.operand->quantization, "work.batch", "work.kv_head");
  }
};

/// The factor holds it but for its sign, which is almost always positive.
class FactorScales final : public HeadScales {
 public:
  using HeadScales::HeadScales;
  void emit_head(Writer& w) const override {
    HeadScales::emit_head(w);
    w.line("const float factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
  }
  void emit_tile(Writer& w) const override {
    w.open("if (!(key_scale > 0.0f))");
    w.line("const float sign = key_scale == 0.0f ? 0.0f : -1.0f;");
    p_.softmax().emit_scale(w, "sign");
    parts_.scores->emit_max_again(w);
    w.close();
  }
};

}  // namespace

std::unique_ptr<const KeyScales> scales_of(const Parts& parts) {
  if (parts.plan.scale_joins_factor()) return std::make_unique<FactorScales>(parts);
  if (parts.plan.scales) return std::make_unique<HeadScales>(parts);
  return std::make_unique<KeyScales>(parts);
}

}  // namespace kiln::sm100::prefill
