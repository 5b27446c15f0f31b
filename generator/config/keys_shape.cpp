// Key table rows: what is computed. Target, operation, element types and head dimensions.
#include "generator/config/key_makers.hpp"

namespace kiln::keys {
namespace {

constexpr std::string_view kTargetNames[] = {"sm_80",  "sm_90a", "sm_100a", "sm_103a",
                                             "gfx90a", "gfx942", "gfx950"};
constexpr std::string_view kOperationNames[] = {"prefill", "decode"};
constexpr std::string_view kDTypeNames[] = {"bf16", "fp16", "fp8_e4m3", "fp8_e4m3fnuz"};
constexpr std::size_t kMaxName = 120;

/// A required key: plain member instead of an optional one, always written.
template <class E>
KeySpec required_name_key(std::string_view name, E Config::*member, std::span<const std::string_view> names,
                          std::optional<E> (*from)(std::string_view), std::string_view doc) {
  return {name,
          doc,
          kAllTargets,
          true,
          enum_schema(names),
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_name(value, names, context)) config.*member = *from(*read);
          },
          [=](const Config& config) -> std::optional<Json> { return Json(to_string(config.*member)); }};
}

KeySpec depth_key() {
  constexpr IntRange range{1, 1024};
  return {"depth",
          "head dimension of Q and K",
          kAllTargets,
          true,
          int_schema(range),
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (const auto read = read_int(value, range, context)) config.depth = *read;
          },
          [](const Config& config) -> std::optional<Json> { return Json(config.depth); }};
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || text.size() > kMaxName || !letter(text[0])) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

KeySpec name_key_row() {
  return {"name",
          "identifier of the kernel; default is derived from the other keys",
          kAllTargets,
          false,
          {{"type", "string"}, {"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}, {"maxLength", kMaxName}},
          [](const Json& value, Config& config, const ReadContext& context) {
            if (value.is_string() && is_identifier(value.get_ref<const std::string&>())) {
              config.name = value.get<std::string>();
            } else {
              context.fail(value, "wants an identifier: letters, digits and _, no digit first, at most " +
                                      std::to_string(kMaxName) + " characters");
            }
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.name) return Json(*config.name);
            return std::nullopt;
          }};
}

}  // namespace

std::vector<KeySpec> shape_keys() {
  constexpr IntRange depth{1, 1024}, extra{0, 1024};
  return {
      name_key_row(),
      required_name_key<Target>("target", &Config::target, kTargetNames, target_from,
                                "GPU architecture to emit for"),
      required_name_key<Operation>("operation", &Config::operation, kOperationNames, operation_from,
                                   "prefill (long q) or decode (short q)"),
      required_name_key<DType>("dtype", &Config::dtype, kDTypeNames, dtype_from,
                               "element type of Q, K and V"),
      dtype_key(
          "kv_dtype", &Config::kv_dtype,
          {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e4m3fnuz, DType::int8, DType::fp4_e2m1},
          kAllTargets, "element type of K and V in memory; default dtype"),
      dtype_key("out_dtype", &Config::out_dtype, {DType::bf16, DType::fp16, DType::f32}, kAllTargets,
                "element type of O; default dtype, bf16 for FP8 inputs"),
      depth_key(),
      int_key("ov_depth", &Config::ov_depth, depth, kAllTargets, "head dimension of V and O; default depth"),
      int_key("rope_depth", &Config::rope_depth, extra, kAllTargets,
              "rotary columns at the end of a K row; default 0"),
      int_key("nope_depth", &Config::nope_depth, depth, kAllTargets,
              "columns of a K row before the rotary ones; default depth - rope_depth"),
      int_key("q_depth", &Config::q_depth, depth, kAllTargets, "columns of a Q row in memory; default depth"),
      int_key("cache_depth", &Config::cache_depth, {1, 4096}, kAllTargets,
              "elements of one head row of K in the cache; default head_dim_offset + depth"),
      int_key("head_dim_offset", &Config::head_dim_offset, {0, 4095}, kAllTargets,
              "first column read of a cache row; default 0"),
      bool_key("v_from_k", &Config::v_from_k, kAllTargets,
               "V is the first ov_depth columns of the K row (MLA); default false"),
      int_key("num_q_heads", &Config::num_q_heads, {1, 1024}, kAllTargets,
              "query heads baked into the kernel; default from the problem"),
      int_key("kv_num_heads", &Config::kv_num_heads, {1, 1024}, kAllTargets,
              "KV heads baked into the kernel; default from the problem"),
  };
}

}  // namespace kiln::keys
