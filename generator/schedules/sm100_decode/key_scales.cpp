#include "generator/schedules/sm100_decode/key_scales.hpp"

#include "generator/config/quantization.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm100 {
namespace {

class HeadScales final : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    if (p_.fp8) params.push_back({KernelParam::Kind::pointer, "q_scale", {}});
    add_scale_pointers(params, !p_.v_in_k);
  }
  void emit_item(Writer& w) const override {
    const Quantization& q = *p_.config.operand->quantization;
    const std::string at = scale_of_head(q, "s.batch", "s.kv_head");
    const std::string query =
        p_.fp8 ? fmt::format("q_scale[{}] * ", scale_of_query(q, "s.batch", "s.kv_head")) : "";
    const std::string value =
        p_.v_in_k && !p_.fp8 ? "key_scale" : fmt::format("{}_scale[{}]", p_.v_in_k ? "k" : "v", at);
    w.line("const float key_scale = {}k_scale[{}], value_scale = {};", query, at, value);
  }
  const char* scores() const override { return p_.v_in_k ? "latent_scores" : "head_scores"; }
  const char* value_factor() const override { return "value_scale * "; }
  const char* value_scale() const override { return "value_scale"; }
};

class TokenScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_scale_pointers(params, !p_.v_in_k);
    add_scale_strides(params, *p_.config.operand, !p_.v_in_k);
  }
  void use(Prelude& prelude) const override {
    KeyScales::use(prelude);
    prelude.use("copy_async_4"), prelude.use("store_shared_float");
  }
  void emit_places(Writer& w) const override {
    w.line("const u32 smem_key_scales = smem + {};    // of the keys of four tiles in turns",
           p_.smem_key_scales);
    w.line("const u32 smem_value_scales = smem_key_scales + 4 * {};  // of the tile whose V is converted",
           4 * p_.BN);
  }
  int full_arrivals() const override { return 33; }
  void emit_load(Writer& w, const RawTensor& of) const override {
    p_.operand->emit_load_scales(
        w, "n", {of.name, 1, of.scales_at, of.from.stage(), scales_by_head(p_.config.operand->quantization)});
    emit_load_none(w, of);
  }
  void emit_load_none(Writer& w, const RawTensor& of) const override {
    w.line("copy_async_arrive({});", of.from.full(0));
  }
  void emit_turn(Writer& w) const override { w.line("u32 turn = 0;"); }
  void emit_convert(Writer& w, const RawTensor& of) const override {
    if (p_.halves()) w.line("if (thread < {})", p_.BN);
    w.line("store_shared_float({} + 4 * thread, load_shared_float(smem + {} + {} * {} + 4 * thread));",
           of.converted_scales, of.scales_at, of.from.stage(), 4 * p_.BN);
  }
  void emit_next_turn(Writer& w) const override { w.line("turn = (turn + 1) % 4;"); }
  void emit_state(Writer& w) const override {
    p_.v->ring().emit_state(w, false);
    emit_turn(w);
  }
  const char* scores() const override { return "token_scores"; }
  const char* values() const override { return "token_values"; }
  void emit_step(Writer& w) const override { p_.v->ring().emit_step(w); }
};

/// Of latent rows: one scale for a key and its value.
class LatentTokenScales final : public TokenScales {
 public:
  using TokenScales::TokenScales;
  void emit_places(Writer& w) const override {
    w.line("const u32 smem_key_scales = smem + {};  // of the keys of four tiles in turns",
           p_.smem_key_scales);
  }
  void emit_state(Writer& w) const override { emit_turn(w); }
  const char* scores() const override { return "latent_scores"; }
  const char* values() const override { return "latent_values"; }
  void emit_step(Writer&) const override {}
};

}  // namespace

void KeyScales::use(Prelude& prelude) const {
  if (p_.narrow && p_.block == 0)
    prelude.use(*p_.config.kv_dtype == DType::int8 ? "int8_to_fp16" : "e4m3_to_fp16");
}

std::unique_ptr<const KeyScales> scales_of(const DecodePlan& p) {
  if (p.block > 0) return block_scales(p);
  if (p.token_scale && p.v_in_k) return std::make_unique<LatentTokenScales>(p);
  if (p.token_scale) return std::make_unique<TokenScales>(p);
  if (p.head_scale) return std::make_unique<HeadScales>(p);
  return std::make_unique<KeyScales>(p);
}

}  // namespace kiln::sm100
