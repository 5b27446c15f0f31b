#include "generator/plan/operand_report.hpp"

#include "generator/config/quantization.hpp"
#include "generator/operands/operand_form.hpp"
#include "generator/systems/mha_operand_constants.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

Json granularity_of(const Quantization& q, int depth) {
  switch (q.granularity) {
    case Quantization::Granularity::per_tensor:
      return "per_tensor";
    case Quantization::Granularity::per_head:
      return "per_head";
    case Quantization::Granularity::per_sequence:
      return "per_sequence";
    case Quantization::Granularity::per_token:
      return depth;
    case Quantization::Granularity::per_block:
      return q.block;
  }
  return nullptr;
}

Json interface_of(const Config& c, int depth) {
  const OperandConfig operand = c.operand.value_or(OperandConfig{});
  const DType dtype = c.kv_dtype.value_or(c.dtype);
  const int P = page_rows(operand);
  const bool quantized = operand.quantization.has_value();
  Json out{{"kind", to_string(operand.kind)},
           {"dtype", to_string(dtype)},
           {"scale_dtype", quantized ? std::string(to_string(operand.quantization->scale_dtype))
                                     : std::string(to_string(dtype))},
           {"page_size", P},
           {"quantization_enabled", quantized},
           {"quantization_granularity", quantized ? granularity_of(*operand.quantization, depth) : Json(0)}};
  if (scales_by_head(operand.quantization)) out["quantization_layout"] = "head_major";
  if (c.BN) out.update(sub_tile_constants(*c.BN, P, kv_sub_tile_rows(*c.BN, P)));
  return out;
}

}  // namespace

Json with_operand(const Config& resolved, const Json& systems) {
  Json k = interface_of(resolved, resolved.depth),
       v = interface_of(resolved, resolved.ov_depth.value_or(resolved.depth));
  if (const auto own = systems.find("mha_operand"); own != systems.end()) {
    k.update(own->at("k"));
    v.update(own->at("v"));
  }
  Json out{{"mha_operand", {{"k", k}, {"v", v}}}};
  for (const auto& [name, system] : systems.items()) {
    if (name != "mha_operand") out[name] = system;
  }
  return out;
}

}  // namespace kiln
