#include "generator/schedules/sm90_decode/key_scales.hpp"

#include "generator/config/quantization.hpp"
#include "generator/schedules/sm90_decode/parts.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm90 {
namespace {

using Kind = KernelParam::Kind;

/// Scores times a scale each: of block `i`, register `r`.
template <class Scale>
void emit_scaled(Writer& w, const DecodePlan& p, const Scale& scale) {
  w.comment("scales of the keys");
  for (int i = 0; i < p.key_blocks(); ++i)
    for (int r = 0; r < p.s_regs(); ++r) w.line("s_acc_{}[{}] *= {};", i, r, scale(i, r));
}

template <class Scale>
void emit_scaled_with_rotary(Writer& w, const DecodePlan& p, const Scale& scale) {
  w.comment("scales of the keys, which rotary columns have not");
  for (int i = 0; i < p.key_blocks(); ++i)
    for (int r = 0; r < p.s_regs(); ++r)
      w.line("s_acc_{0}[{1}] = fmaf({2}, s_acc_{0}[{1}], rope_acc_{0}[{1}]);", i, r, scale(i, r));
}

class HeadScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_query(params);
    add_scale_pointers(params, !p_.v_in_k);
  }
  void emit_query_scale(Writer& w) const override {
    if (p_.fp8_q && !by_sequence()) w.line("const float query_scale = q_scale[0];");
  }
  void emit_item(Writer& w) const override {
    const Quantization& q = *p_.config.operand->quantization;
    const std::string query = by_sequence()
                                  ? fmt::format(" * q_scale[{}]", scale_of_query(q, "s.batch", "s.kv_head"))
                                  : " * query_scale";
    w.line("const float key_scale = k_scale[{0}]{1}, value_scale = {2}[{0}];",
           scale_of_head(q, "s.batch", "s.kv_head"), p_.fp8_q ? query : "", tensors().back());
  }
  void emit_scores(Writer& w) const override {
    emit_scaled(w, p_, [](int, int) { return "key_scale"; });
  }
  void emit_scores_with_rotary(Writer& w) const override {
    emit_scaled_with_rotary(w, p_, [](int, int) { return "key_scale"; });
  }
  std::string output_factor(const std::string& own) const override {
    return own.empty() ? "value_scale" : own + " * value_scale";
  }

 private:
  bool by_sequence() const {
    return p_.config.operand->quantization->granularity == Quantization::Granularity::per_sequence;
  }
};

class FactorScales final : public HeadScales {
 public:
  using HeadScales::HeadScales;
  void emit_item(Writer& w) const override {
    HeadScales::emit_item(w);
    w.comment("the factor stays positive: Q takes the sign of the scale, and a scale of 0");
    w.line("factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
  }
  void emit_sign(Writer& w, const char* bits) const override {
    w.line("const u32 sign = key_scale < 0.0f ? {} : 0u, keep = key_scale == 0.0f ? 0u : ~0u;", bits);
    for (const char* member : {"x", "y", "z", "w"}) w.line("x.{0} = (x.{0} ^ sign) & keep;", member);
  }
  void emit_scores(Writer&) const override {}
};

class TokenScales : public KeyScales {
 public:
  using KeyScales::KeyScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_query(params);
    add_scale_pointers(params, !p_.v_in_k);
    add_scale_strides(params, *p_.config.operand, !p_.v_in_k);
  }
  void use(Prelude& prelude) const override { prelude.use("copy_async_4"); }
  int full_arrivals() const override { return 33; }

  void emit_load(Writer& w, const Tensor& of) const override {
    p_.operand->emit_load_scales(w, "n",
                                 {of.name, of.groups, offset(of.of_k), stage(of.pipeline.ring()),
                                  scales_by_head(p_.config.operand->quantization)});
    w.line("copy_async_arrive({});", of.pipeline.ring().full(0));
  }

  void emit_query_scale(Writer& w) const override {
    if (p_.fp8_q) w.line("const float query_scale = q_scale[0];");
  }
  void emit_of_block(Writer& w, int block) const override {
    w.line(
        "const float k_scale_{0}_0 = load_shared_float({1} + {2}){4}, k_scale_{0}_1 = load_shared_float({1} + "
        "{3}){4};",
        block, address(true, 0), block_bytes() * block, block_bytes() * block + 32, query_);
  }
  void emit_of_tile(Writer& w) const override {
    for (int i = 0; i < p_.key_blocks(); ++i) emit_of_block(w, i);
    w.line("__syncwarp();  // every lane has read its scales");
  }
  void emit_scores(Writer& w) const override { emit_scaled(w, p_, of_key); }
  void emit_scores_with_rotary(Writer& w) const override { emit_scaled_with_rotary(w, p_, of_key); }
  void emit_wait_values(Writer& w) const override { values_.emit_wait(w); }
  void emit_wait_v(Writer&) const override {}
  void emit_probabilities(Writer& w, int block) const override {
    const int bytes = block_bytes() * block;
    w.line(
        "const float v_scale_{0}_0 = {4}load_shared_float({1} + {2}), v_scale_{0}_1 = "
        "{5}load_shared_float({1} + {3});",
        block, address(false, 0), bytes, bytes + 32, there(64 * block), there(64 * block + 8));
    for (int r = 0; r < p_.s_regs(); ++r) w.line("s_acc_{0}[{1}] *= v_scale_{0}_{2};", block, r, r / 2 % 2);
  }
  std::string address(bool k, int group) const override {
    const bool in_k = k || values_.in_k();  // V in K's rows has K's scales
    const StagedPipeline& ring = k ? p_.k->ring() : p_.v->ring();
    return fmt::format("smem + {} + {} * {} + {} * warp + (lane >> 2) * 4", offset(in_k) + 4 * p_.BN * group,
                       stage(ring), p_.scale_bytes(in_k), warp_bytes());
  }

 protected:
  /// Bytes from the scale of this lane's key to those of the keys 64 and 16 keys on.
  virtual int block_bytes() const { return 256; }
  virtual int warp_bytes() const { return 64; }
  /// Before a scale of V: 0 where the lane's key `key` of the tile is past the sequence.
  virtual std::string there(int /*key*/) const { return ""; }
  /// Of slot 0.
  int offset(bool k) const { return p_.smem_scales + (k ? 0 : p_.scale_bytes(true) * p_.num_kv_stages); }
  std::string stage(const StagedPipeline& ring) const { return p_.num_kv_stages > 1 ? ring.stage() : "0"; }

 private:
  static std::string of_key(int block, int r) { return fmt::format("k_scale_{}_{}", block, r / 2 % 2); }

  const char* const query_ = p_.fp8_q ? " * query_scale" : "";
};

class TileScales final : public TokenScales {
 public:
  using TokenScales::TokenScales;
  void add_params(std::vector<KernelParam>& params) const override {
    add_query(params);
    for (const char* tensor : tensors())
      params.push_back({Kind::tensor_map, tensor, p_.operand->scale_map()});
  }
  void use(Prelude& prelude) const override { prelude.use("tma_load_3d"), prelude.use("tma_prefetch_3d"); }
  void emit_prefetch_maps(Writer& w) const override {
    std::string line;
    for (const char* tensor : tensors())
      line += fmt::format("{}prefetch_tensor_map(&{}_map);", line.empty() ? "" : " ", tensor);
    w.line("{}", line);
  }
  int full_arrivals() const override { return 1; }

  void emit_load(Writer&, const Tensor&) const override {}
  void emit_copy(Writer& w, const Tensor& of) const override {
    const StagedPipeline& ring = of.pipeline.ring();
    std::string first = fmt::format("smem + {}", offset(of.of_k));
    if (p_.num_kv_stages > 1) first += fmt::format(" + {} * {}", ring.stage(), p_.scale_bytes(of.of_k));
    p_.operand->emit_copy_scales(w, "n", {of.name, first, ring.full(0), kEvictFirst});
  }
  void emit_prefetch(Writer& w, const Tensor& of, const std::string& n, int round) const override {
    w.line("tma_prefetch(&{}_scale_map, {});", of.name, p_.operand->coordinates(n, round));
  }
  void emit_real_keys(Writer& w) const override {
    // What is copied as a tile has anything there, and 0 * NaN is NaN.
    w.line("const int scaled_keys = s.sequence.seqlen_k - n * {} - 16 * warp - (lane >> 2);", p_.BN);
  }

 protected:
  int block_bytes() const override { return p_.operand->scale_byte(64); }
  int warp_bytes() const override { return p_.operand->scale_byte(16); }
  std::string there(int key) const override { return fmt::format("scaled_keys <= {} ? 0.0f : ", key); }
};

}  // namespace

void KeyScales::add_query(std::vector<KernelParam>& params) const {
  if (p_.fp8_q) params.push_back({Kind::pointer, "q_scale", {}});
}

std::vector<const char*> KeyScales::tensors() const {
  return p_.v_in_k ? std::vector<const char*>{"k_scale"} : std::vector<const char*>{"k_scale", "v_scale"};
}

void KeyScales::emit_scores_with_rotary(Writer& w) const {
  w.comment("with the rotary columns");
  for (int i = 0; i < p_.key_blocks(); ++i)
    for (int r = 0; r < p_.s_regs(); ++r) w.line("s_acc_{0}[{1}] += rope_acc_{0}[{1}];", i, r);
}

void KeyScales::emit_wait_v(Writer& w) const {
  values_.emit_wait(w);
}

std::unique_ptr<const KeyScales> scales_of(const DecodePlan& p, const ValueSlots& values) {
  if (p.scale_tiles()) return std::make_unique<TileScales>(p, values);
  if (p.scales_by_token()) return std::make_unique<TokenScales>(p, values);
  if (p.scale_in_factor()) return std::make_unique<FactorScales>(p, values);
  if (p.head_scale()) return std::make_unique<HeadScales>(p, values);
  return std::make_unique<KeyScales>(p, values);
}

}  // namespace kiln::sm90
