#include "generator/emit/parameters.hpp"

#include <fmt/ranges.h>

#include <array>
#include <string_view>

namespace kiln {
namespace {

/// Element types of pointers; roles that are not here are tables and lengths: `const int*`.
struct PointerType {
  std::string_view role, type;
};
constexpr std::array kPointerTypes{
    PointerType{"q", "const u16*"},
    PointerType{"k", "const u16*"},
    PointerType{"v", "const u16*"},
    PointerType{"o", "u16*"},
    PointerType{"lse", "float*"},
    PointerType{"workspace", "float*"},
    PointerType{"sink", "const float*"},
    PointerType{"q_scale", "const float*"},
    PointerType{"kv_factors", "const float*"},
    PointerType{"k_scale", "const float*"},
    PointerType{"v_scale", "const float*"},
    PointerType{"mask_bits", "const u32*"},
    PointerType{"item_counters", "int*"},
    PointerType{"tile_counter", "int*"},
    PointerType{"k_rope", "const u16*"},
};

std::string pointer_type(const std::string& role, const ParameterStyle& style) {
  if (style.q_bytes && role == "q") return "const u8*";
  if (style.o_floats && role == "o") return "float*";
  if (style.kv_bytes && (role == "k" || role == "v")) return "const u8*";
  if (style.scale_bytes && (role == "k_scale" || role == "v_scale")) return "const u8*";
  for (const PointerType& known : kPointerTypes) {
    if (known.role == role) return std::string(known.type);
  }
  return "const int*";
}

}  // namespace

std::vector<KernelParam> without_fixed_heads(std::vector<KernelParam> params, const Config& config) {
  std::erase_if(params, [&config](const KernelParam& param) {
    return (param.role == "heads_q" && config.num_q_heads) ||
           (param.role == "heads_kv" && config.kv_num_heads);
  });
  return params;
}

void emit_fixed_heads(Writer& w, const Config& config) {
  if (config.num_q_heads) w.line("constexpr int heads_q = {};", *config.num_q_heads);
  if (config.kv_num_heads) w.line("constexpr int heads_kv = {};", *config.kv_num_heads);
}

std::string parameter_text(const KernelParam& param, const ParameterStyle& style) {
  const std::string constant = style.const_values ? "const " : "";
  switch (param.kind) {
    case KernelParam::Kind::tensor_map:
      return "const __grid_constant__ TensorMap " + param.role + "_map";
    case KernelParam::Kind::pointer:
      return pointer_type(param.role, style) + " " + param.role;
    case KernelParam::Kind::i32:
      return constant + "int " + param.role;
    case KernelParam::Kind::i64:
      return constant + "long long " + param.role;
    case KernelParam::Kind::f32:
      return constant + "float " + param.role;
    case KernelParam::Kind::captured:
      return "const Captured " + param.role;
  }
  return {};
}

std::string wrapped_list(const std::vector<std::string>& texts) {
  std::string out, line;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i] + (i + 1 < texts.size() ? "," : "");
    if (line.size() + text.size() > 96) out += line + "\n    ", line.clear();
    line += (line.empty() ? "" : " ") + text;
  }
  return out + line;
}

void emit_argument_struct(Writer& w, const std::vector<KernelParam>& params, const ParameterStyle& style) {
  w.open("struct Arguments");
  for (const KernelParam& param : params) w.line("{};", parameter_text(param, style));
  w.close(";");
}

std::string arguments_read_again(const std::vector<KernelParam>& params, const std::string& again,
                                 const ParameterStyle& style) {
  std::string out;
  for (const KernelParam& param : params) {
    if (param.kind == KernelParam::Kind::captured) continue;
    out += fmt::format("{}{} = {}->{};", out.empty() ? "" : "\n", parameter_text(param, style), again,
                       param.role);
  }
  return out;
}

std::string parameter_list(const std::vector<KernelParam>& params, const ParameterStyle& style) {
  std::vector<std::string> texts;
  texts.reserve(params.size());
  for (const KernelParam& param : params) texts.push_back(parameter_text(param, style));
  return style.one_per_line ? fmt::format("{}", fmt::join(texts, ",\n    ")) : wrapped_list(texts);
}

}  // namespace kiln
