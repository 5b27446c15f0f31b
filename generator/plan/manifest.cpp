// The manifest as JSON and back: the only thing the runtime reads besides the source itself.
#include <cmath>
#include <nlohmann/json.hpp>

#include <kiln/error.hpp>
#include <kiln/source.hpp>

#include "generator/config/json_text.hpp"
#include "generator/expression/expression.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<KernelParam::Kind, std::string_view> kParamKinds[] = {
    {KernelParam::Kind::tensor_map, "tensor_map"},
    {KernelParam::Kind::pointer, "pointer"},
    {KernelParam::Kind::i32, "i32"},
    {KernelParam::Kind::i64, "i64"},
    {KernelParam::Kind::f32, "f32"},
    {KernelParam::Kind::captured, "captured"},
};

[[noreturn]] void malformed(const std::string& why) {
  throw Error(ErrorCode::bad_input, "manifest: " + why + "; generate it again");
}

std::string_view name_of(KernelParam::Kind kind) {
  for (const auto& [value, name] : kParamKinds) {
    if (value == kind) return name;
  }
  return "?";
}

Json param_json(const KernelParam& param) {
  Json out{{"kind", name_of(param.kind)}, {"role", param.role}};
  if (param.kind != KernelParam::Kind::tensor_map) return out;
  Json dims = Json::array();
  for (const TensorMapDim& dim : param.map.dims) dims.push_back({{"axis", dim.axis}, {"box", dim.box}});
  out["map"] = {{"dims", dims},
                {"swizzle_bytes", param.map.swizzle_bytes},
                {"l2_promotion_bytes", param.map.l2_promotion_bytes}};
  return out;
}

/// Member `key` of an object with its type checked: nlohmann's own conversions would accept 1.5 for an int.
const Json& member(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) malformed(std::string("'") + key + "' is missing");
  return object[key];
}

int int_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  const bool fits =
      value.is_number_integer() && (value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT32_MAX
                                                               : value.get<std::int64_t>() >= INT32_MIN);
  if (!fits) malformed(std::string("'") + key + "' is not a 32-bit integer");
  return value.get<int>();
}

std::string string_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) malformed(std::string("'") + key + "' is not a string");
  return value.get<std::string>();
}

const Json& array_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) malformed(std::string("'") + key + "' is not an array");
  return value;
}

template <class E>
E enum_of(const Json& object, const char* key, std::optional<E> (*from)(std::string_view)) {
  const std::string text = string_of(object, key);
  const std::optional<E> value = from(text);
  if (!value) malformed(std::string("'") + key + "' has no value '" + text + "'");
  return *value;
}

KernelParam param_of(const Json& json) {
  KernelParam param;
  const std::string kind = string_of(json, "kind");
  bool known = false;
  for (const auto& [value, name] : kParamKinds) {
    if (name == kind) param.kind = value, known = true;
  }
  if (!known) malformed("'kind' has no value '" + kind + "'");
  param.role = string_of(json, "role");
  if (param.kind != KernelParam::Kind::tensor_map) return param;
  const Json& map = member(json, "map");
  for (const Json& dim : array_of(map, "dims")) {
    param.map.dims.push_back({string_of(dim, "axis"), int_of(dim, "box")});
  }
  param.map.swizzle_bytes = int_of(map, "swizzle_bytes");
  param.map.l2_promotion_bytes = int_of(map, "l2_promotion_bytes");
  return param;
}

constexpr std::pair<GridRule::Kind, std::string_view> kGridKinds[] = {
    {GridRule::Kind::tiles, "tiles"},
    {GridRule::Kind::persistent, "persistent"},
    {GridRule::Kind::items, "items"},
    {GridRule::Kind::stream_k, "stream_k"},
};

Json grid_json(const GridRule& grid) {
  Json out;
  for (const auto& [value, name] : kGridKinds) {
    if (value == grid.kind) out["kind"] = name;
  }
  out["block_rows"] = grid.block_rows;
  out["ctas_per_sm"] = grid.ctas_per_sm;
  if (grid.kind == GridRule::Kind::stream_k) out["block_keys"] = grid.block_keys;
  return out;
}

GridRule grid_of(const Json& json) {
  GridRule grid;
  const std::string kind = string_of(json, "kind");
  bool known = false;
  for (const auto& [value, name] : kGridKinds) {
    if (name == kind) grid.kind = value, known = true;
  }
  if (!known) malformed("'kind' has no value '" + kind + "'");
  grid.block_rows = int_of(json, "block_rows");
  grid.ctas_per_sm = int_of(json, "ctas_per_sm");
  if (grid.kind == GridRule::Kind::stream_k) {
    grid.block_keys = int_of(json, "block_keys");
    if (grid.block_keys < 1 || grid.block_rows < 1)
      malformed("a stream_k grid needs block_rows and block_keys of 1 or more");
  }
  return grid;
}

// Members that most kernels have not are left out rather than written as 0.
void add_serving(const Manifest& m, Json& out) {
  if (m.num_q_heads > 0) out["num_q_heads"] = m.num_q_heads;
  if (m.kv_num_heads > 0) out["kv_num_heads"] = m.kv_num_heads;
  if (m.cache_depth > 0) out["cache_depth"] = m.cache_depth, out["head_dim_offset"] = m.head_dim_offset;
  if (m.own_rope()) {
    out["rope"] = {{"layout", "separate"}, {"depth", m.rope->depth}, {"dtype", to_string(m.rope->dtype)}};
  } else if (m.rope) {
    out["rope"] = {{"depth", m.rope->depth},
                   {"padded_depth", m.rope->padded_depth},
                   {"dtype", to_string(m.rope->dtype)}};
  }
  if (m.stages) {
    out["stages"] = {{"alone", m.stages->alone},
                     {"shared", m.stages->shared},
                     {"shared_smem_bytes", m.stages->shared_smem_bytes},
                     {"alone_megabytes", m.stages->alone_megabytes}};
  }
  if (!m.captured.empty()) {
    out["captured"] = Json::array();
    for (const Manifest::Captured& tensor : m.captured)
      out["captured"].push_back(
          {{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"indices", tensor.indices}});
  }
  if (m.page_size > 0) out["page_size"] = m.page_size;
  if (m.workspace_bytes_per_block > 0) out["workspace_bytes_per_block"] = m.workspace_bytes_per_block;
  if (m.workspace_bytes_per_item > 0) out["workspace_bytes_per_item"] = m.workspace_bytes_per_item;
  if (m.quantization) {
    using Granularity = Quantization::Granularity;
    const Quantization& q = *m.quantization;
    Json granularity = q.block;
    if (q.granularity == Granularity::per_tensor) granularity = "per_tensor";
    if (q.granularity == Granularity::per_head) granularity = "per_head";
    if (q.granularity == Granularity::per_sequence) granularity = "per_sequence";
    if (q.granularity == Granularity::per_token) granularity = "per_token";
    out["quantization"] = {{"granularity", granularity}, {"scale_dtype", to_string(q.scale_dtype)}};
    if (q.layout == Quantization::Layout::head_major) out["quantization"]["layout"] = "head_major";
  }
}

void read_rope(const Json& from, Manifest& m) {
  Manifest::Rope rope{int_of(from, "depth"), 0, enum_of<DType>(from, "dtype", dtype_from)};
  if (from.contains("layout")) {
    if (string_of(from, "layout") != "separate" || rope.depth < 1 || rope.depth >= m.depth ||
        m.cache_depth == 0)
      malformed("'rope' is no tensor of the last columns of 'depth'");
    rope.separate = true;
    m.rope = rope;
    return;
  }
  rope.padded_depth = int_of(from, "padded_depth");
  const auto bytes = [](int count, DType type) {
    return static_cast<std::int64_t>(count) * static_cast<std::int64_t>(size_of(type));
  };
  const bool after =
      rope.depth > 0 && rope.depth < m.depth && rope.padded_depth >= bytes(m.depth - rope.depth, m.kv_dtype);
  const std::int64_t end =
      bytes(m.head_dim_offset, m.kv_dtype) + rope.padded_depth + bytes(rope.depth, rope.dtype);
  if (!after || end > bytes(m.cache_depth, m.kv_dtype))
    malformed("'rope' does not lie behind the other columns of a row");
  m.rope = rope;
}

void read_captured(const Json& json, Manifest& m) {
  for (const Json& from : array_of(json, "captured")) {
    Manifest::Captured tensor{string_of(from, "name"), enum_of<DType>(from, "dtype", dtype_from), {}};
    for (const Json& index : array_of(from, "indices")) {
      if (!index.is_string()) malformed("'indices' holds something else than strings");
      tensor.indices.push_back(index.get<std::string>());
    }
    if (tensor.indices.empty() || tensor.indices.size() > expression::kMaxRank)
      malformed("'indices' is not one to four");
    m.captured.push_back(std::move(tensor));
  }
  if (m.captured.size() > expression::kMaxTensors) malformed("'captured' has more than four tensors");
}

Quantization::Granularity granularity_named(const std::string& name) {
  using Granularity = Quantization::Granularity;
  for (const auto& [known, granularity] :
       {std::pair{"per_tensor", Granularity::per_tensor}, std::pair{"per_head", Granularity::per_head},
        std::pair{"per_sequence", Granularity::per_sequence}, std::pair{"per_token", Granularity::per_token}})
    if (name == known) return granularity;
  malformed("'granularity' has no value '" + name + "'");
}

void read_stages(const Json& from, Manifest& m) {
  if (!from.is_object()) malformed("'stages' is not an object");
  m.stages = Manifest::Stages{int_of(from, "alone"), int_of(from, "shared"),
                              int_of(from, "shared_smem_bytes"), int_of(from, "alone_megabytes")};
  if (m.stages->shared < 2 || m.stages->alone < m.stages->shared || m.stages->alone > 64 ||
      m.stages->shared_smem_bytes < 0 || m.stages->shared_smem_bytes > m.smem_bytes ||
      m.stages->alone_megabytes < 0)
    malformed("'stages' is out of range");
}

Quantization quantization_of(const Json& from) {
  using Granularity = Quantization::Granularity;
  Quantization q;
  q.scale_dtype = enum_of<DType>(from, "scale_dtype", dtype_from);
  const Json& granularity = member(from, "granularity");
  if (granularity.is_string()) {
    q.granularity = granularity_named(granularity.get<std::string>());
  } else {
    q.granularity = Granularity::per_block;
    q.block = int_of(from, "granularity");
    if (q.block < 1) malformed("'granularity' is less than one element");
  }
  if (from.contains("layout")) {
    if (string_of(from, "layout") != "head_major" || q.granularity != Granularity::per_token)
      malformed("'layout' is not head_major of scales per token");
    q.layout = Quantization::Layout::head_major;
  }
  return q;
}

/// Columns of K's rows: the cache's width, where K begins in it, and rotary columns.
void read_columns(const Json& json, Manifest& m) {
  if (json.contains("cache_depth")) {
    m.cache_depth = int_of(json, "cache_depth");
    m.head_dim_offset = int_of(json, "head_dim_offset");
  }
  if (json.contains("rope")) read_rope(member(json, "rope"), m);
  if (json.contains("cache_depth") &&
      (m.head_dim_offset < 0 || m.head_dim_offset > m.cache_depth - m.k_columns()))
    malformed("'cache_depth' and 'head_dim_offset' leave no room for 'depth'");
}

void read_serving(const Json& json, Manifest& m) {
  const auto read = [&json](const char* key, int& value) {
    if (json.contains(key)) value = int_of(json, key);
  };
  if (json.contains("stages")) read_stages(member(json, "stages"), m);
  read("page_size", m.page_size);
  read("num_q_heads", m.num_q_heads);
  read("kv_num_heads", m.kv_num_heads);
  if (m.num_q_heads < 0 || m.kv_num_heads < 0) malformed("head counts are below 0");
  read_columns(json, m);
  read("workspace_bytes_per_block", m.workspace_bytes_per_block);
  read("workspace_bytes_per_item", m.workspace_bytes_per_item);
  const auto fits = [](int bytes) { return bytes >= 0 && bytes <= (1 << 28); };
  if (m.page_size < 0 || !fits(m.workspace_bytes_per_block) || !fits(m.workspace_bytes_per_item))
    malformed("'page_size', 'workspace_bytes_per_block' or 'workspace_bytes_per_item' is out of range");
  if (json.contains("quantization")) m.quantization = quantization_of(member(json, "quantization"));
}

}  // namespace

std::string to_json(const Manifest& m, int indent) {
  Json params = Json::array(), expectations = Json::array();
  for (const KernelParam& param : m.params) params.push_back(param_json(param));
  for (const auto& e : m.expectations)
    expectations.push_back({{"instruction", e.instruction}, {"count", e.count}});
  Json config = nested_too_deep(m.config_json) ? Json(m.config_json) : json_of(m.config_json);
  if (config.is_discarded()) config = m.config_json;
  Json out{
      {"name", m.name},
      {"entry", m.entry},
      {"target", m.target},
      {"operation", to_string(m.operation)},
      {"operand", to_string(m.operand)},
      {"dtype", to_string(m.dtype)},
      {"kv_dtype", to_string(m.kv_dtype)},
      {"out_dtype", to_string(m.out_dtype)},
      {"depth", m.depth},
      {"ov_depth", m.ov_depth},
      {"writes_lse", m.writes_lse},
      {"scale", m.scale},
      {"num_threads", m.num_threads},
      {"smem_bytes", m.smem_bytes},
      {"cluster", m.cluster},
      {"grid", grid_json(m.grid)},
      {"params", params},
      {"expectations", expectations},
  };
  add_serving(m, out);
  out["config"] = config;
  return write_json(out, indent);
}

Manifest manifest_from_json(std::string_view text) {
  if (nested_too_deep(text)) malformed("nested too deep");
  // The keys of an object are a list, which is searched for each one that comes.
  constexpr int kMaxKeys = 4096;
  int keys = 0;
  const auto counted = [&](int, Json::parse_event_t event, const Json&) {
    return event != Json::parse_event_t::key || ++keys <= kMaxKeys;
  };
  const Json json = Json::parse(text.begin(), text.end(), counted, false);
  if (keys > kMaxKeys)
    malformed(std::to_string(keys) + " keys, and a manifest has at most " + std::to_string(kMaxKeys));
  if (!json.is_object()) malformed("not a JSON object");
  Manifest m;
  m.name = string_of(json, "name");
  m.entry = string_of(json, "entry");
  m.target = string_of(json, "target");
  if (!target_from(m.target)) malformed("'target' has no value '" + m.target + "'");
  m.operation = enum_of<Operation>(json, "operation", operation_from);
  m.operand = enum_of<OperandKind>(json, "operand", operand_kind_from);
  m.dtype = enum_of<DType>(json, "dtype", dtype_from);
  m.kv_dtype = enum_of<DType>(json, "kv_dtype", dtype_from);
  m.out_dtype = enum_of<DType>(json, "out_dtype", dtype_from);
  m.depth = int_of(json, "depth");
  m.ov_depth = int_of(json, "ov_depth");
  const Json& lse = member(json, "writes_lse");
  if (!lse.is_boolean()) malformed("'writes_lse' is not true or false");
  m.writes_lse = lse.get<bool>();
  const Json& scale = member(json, "scale");
  if (!scale.is_number()) malformed("'scale' is not a number");
  m.scale = scale.get<double>();
  m.num_threads = int_of(json, "num_threads");
  m.smem_bytes = int_of(json, "smem_bytes");
  const Json& cluster = array_of(json, "cluster");
  if (cluster.size() != 3) malformed("'cluster' has not three entries");
  for (std::size_t i = 0; i < 3; ++i) {
    if (!cluster[i].is_number_unsigned() || cluster[i].get<std::uint64_t>() > 16)
      malformed("'cluster' is out of range");
    m.cluster[i] = cluster[i].get<int>();
  }
  m.grid = grid_of(member(json, "grid"));
  read_serving(json, m);
  if (json.contains("captured")) read_captured(json, m);
  for (const Json& param : array_of(json, "params")) m.params.push_back(param_of(param));
  for (const Json& e : array_of(json, "expectations")) {
    m.expectations.push_back({string_of(e, "instruction"), int_of(e, "count")});
  }
  const Json& config = member(json, "config");
  m.config_json = config.is_string() ? config.get<std::string>() : write_json(config);
  return m;
}

}  // namespace kiln
