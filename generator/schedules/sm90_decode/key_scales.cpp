#include "generator/schedules/sm90_decode/key_scales.hpp"

#include "generator/config/quantization.hpp"
#include "generator/systems/scale_strides.hpp"

namespace kiln::sm90 {

std::vector<const char*> KeyScales::tensors() const {
  if (!p_.scales()) return {};
  return p_.v_in_k ? std::vector<const char*>{"k_scale"} : std::vector<const char*>{"k_scale", "v_scale"};
}

void KeyScales::add_params(std::vector<KernelParam>& params) const {
  using Kind = KernelParam::Kind;
  if (p_.scales() && p_.fp8_q) params.push_back({Kind::pointer, "q_scale", {}});
  for (const char* tensor : tensors()) {
    if (p_.scale_tiles()) {
      params.push_back({Kind::tensor_map, tensor, p_.operand->scale_map()});
    } else {
      params.push_back({Kind::pointer, tensor, {}});
    }
  }
  if (by_lanes()) add_scale_strides(params, *p_.config.operand, !p_.v_in_k);
}

void KeyScales::use(Prelude& prelude) const {
  if (p_.scale_tiles()) prelude.use("tma_load_3d"), prelude.use("tma_prefetch_3d");
  if (by_lanes()) prelude.use("copy_async_4");
}

void KeyScales::emit_prefetch_maps(Writer& w) const {
  if (!p_.scale_tiles()) return;
  std::string line;
  for (const char* tensor : tensors())
    line += fmt::format("{}prefetch_tensor_map(&{}_map);", line.empty() ? "" : " ", tensor);
  w.line("{}", line);
}

void KeyScales::emit_load(Writer& w, const char* name, const StagedPipeline& ring) const {
  if (!by_lanes()) return;
  const bool k = name[0] == 'k';
  p_.operand->emit_load_scales(
      w, "n",
      {name, k ? p_.k_groups : p_.v_groups, at(k), p_.num_kv_stages > 1 ? ring.stage() : "0",
       scales_by_head(p_.config.operand->quantization)});
  w.line("copy_async_arrive({});", ring.full(0));
}

void KeyScales::emit_copy(Writer& w, const char* name, const StagedPipeline& ring) const {
  if (!p_.scale_tiles()) return;
  const bool k = name[0] == 'k';
  std::string first = fmt::format("smem + {}", at(k));
  if (p_.num_kv_stages > 1) first += fmt::format(" + {} * {}", ring.stage(), p_.scale_bytes(k));
  p_.operand->emit_copy_scales(w, "n", {name, first, ring.full(0), "0x12F0000000000000ull"});
}

void KeyScales::emit_prefetch(Writer& w, const char* name, const std::string& n, int round) const {
  if (p_.scale_tiles()) w.line("tma_prefetch(&{}_scale_map, {});", name, p_.operand->coordinates(n, round));
}

void KeyScales::emit_query_scale(Writer& w) const {
  if (p_.fp8_q && p_.scales() &&
      p_.config.operand->quantization->granularity != Quantization::Granularity::per_sequence)
    w.line("const float query_scale = q_scale[0];");
}

void KeyScales::emit_item(Writer& w) const {
  if (!p_.head_scale()) return;
  const Quantization& q = *p_.config.operand->quantization;
  const std::string query = q.granularity == Quantization::Granularity::per_sequence
                                ? fmt::format(" * q_scale[{}]", scale_of_query(q, "s.batch", "s.kv_head"))
                                : " * query_scale";
  w.line("const float key_scale = k_scale[{0}]{1}, value_scale = {2}_scale[{0}];",
         scale_of_head(q, "s.batch", "s.kv_head"), p_.fp8_q ? query : "", p_.v_in_k ? "k" : "v");
  if (!p_.scale_in_factor()) return;
  w.comment("the factor stays positive: Q takes the sign of the scale, and a scale of 0");
  w.line("factor = key_scale == 0.0f ? scale_log2 : scale_log2 * fabsf(key_scale);");
}

void KeyScales::emit_sign(Writer& w, const char* bits) const {
  if (!p_.scale_in_factor()) return;
  w.line("const u32 sign = key_scale < 0.0f ? {} : 0u, keep = key_scale == 0.0f ? 0u : ~0u;", bits);
  for (const char* member : {"x", "y", "z", "w"}) w.line("x.{0} = (x.{0} ^ sign) & keep;", member);
}

std::string KeyScales::address(bool k, int group) const {
  const bool in_k = k || p_.v_in_k;  // V in K's rows has K's scales
  const int warp_bytes = p_.scale_tiles() ? p_.operand->scale_byte(16) : 64;
  const StagedPipeline& ring = k ? p_.k->ring() : p_.v->ring();
  return fmt::format("smem + {} + {} * {} + {} * warp + (lane >> 2) * 4", at(in_k) + 4 * p_.BN * group,
                     p_.num_kv_stages > 1 ? ring.stage() : "0", p_.scale_bytes(in_k), warp_bytes);
}

void KeyScales::emit_of_block(Writer& w, int block) const {
  if (!p_.scales_by_token()) return;
  const char* query = p_.fp8_q ? " * query_scale" : "";
  w.line(
      "const float k_scale_{0}_0 = load_shared_float({1} + {2}){4}, k_scale_{0}_1 = load_shared_float({1} + "
      "{3}){4};",
      block, address(true, 0), block_bytes() * block, block_bytes() * block + 32, query);
}

void KeyScales::emit_of_tile(Writer& w) const {
  if (!p_.scales_by_token()) return;
  for (int i = 0; i < p_.key_blocks(); ++i) emit_of_block(w, i);
  w.line("__syncwarp();  // every lane has read its scales");
}

void KeyScales::emit_scores(Writer& w) const {
  const bool scaled = p_.scales() && !p_.grouped() && !p_.scale_in_factor();
  if (!scaled && !p_.rope_apart()) return;
  w.comment("{}", !p_.rope_apart() ? "scales of the keys"
                  : scaled         ? "scales of the keys, which rotary columns have not"
                                   : "with the rotary columns");
  for (int i = 0; i < p_.key_blocks(); ++i) {
    for (int r = 0; r < p_.s_regs(); ++r) {
      const std::string scale = p_.head_scale() ? "key_scale" : fmt::format("k_scale_{}_{}", i, r / 2 % 2);
      if (!p_.rope_apart()) {
        w.line("s_acc_{}[{}] *= {};", i, r, scale);
      } else if (scaled) {
        w.line("s_acc_{0}[{1}] = fmaf({2}, s_acc_{0}[{1}], rope_acc_{0}[{1}]);", i, r, scale);
      } else {
        w.line("s_acc_{0}[{1}] += rope_acc_{0}[{1}];", i, r);
      }
    }
  }
}

void KeyScales::emit_wait_values(Writer& w) const {
  if (p_.scales_by_token() && !p_.v_in_k) p_.v->emit_wait(w, 0);
}

void KeyScales::emit_wait_v(Writer& w) const {
  // V is there once K is, where it is part of K.
  if (!p_.scales_by_token() && !p_.v_in_k) p_.v->emit_wait(w, 0);
}

void KeyScales::emit_real_keys(Writer& w) const {
  // What is copied as a tile has anything there, and 0 * NaN is NaN.
  if (p_.scale_tiles())
    w.line("const int scaled_keys = s.sequence.seqlen_k - n * {} - 16 * warp - (lane >> 2);", p_.BN);
}

void KeyScales::emit_probabilities(Writer& w, int block) const {
  if (!p_.scales_by_token()) return;
  const int bytes = block_bytes() * block;
  const auto there = [&](int half) {
    return p_.scale_tiles() ? fmt::format("scaled_keys <= {} ? 0.0f : ", 64 * block + 8 * half) : "";
  };
  w.line(
      "const float v_scale_{0}_0 = {4}load_shared_float({1} + {2}), v_scale_{0}_1 = "
      "{5}load_shared_float({1} + {3});",
      block, address(false, 0), bytes, bytes + 32, there(0), there(1));
  for (int r = 0; r < p_.s_regs(); ++r) w.line("s_acc_{0}[{1}] *= v_scale_{0}_{2};", block, r, r / 2 % 2);
}

std::string KeyScales::output_factor(const std::string& own) const {
  if (!p_.head_scale()) return own.empty() ? "1.0f" : own;
  return own.empty() ? "value_scale" : own + " * value_scale";
}

}  // namespace kiln::sm90
