// Key table rows: how K and V are staged. KVBuffer's knobs, the TMA pipelines' knobs, tensor maps.
#include "generator/config/key_makers.hpp"

namespace kiln::keys {
namespace {

constexpr std::string_view kTmaTypes[] = {"bf16", "fp16", "fp8_e4m3", "int64"};
constexpr std::string_view kTmaSwizzles[] = {"none", "32B", "64B", "128B"};
constexpr std::string_view kPromotions[] = {"none", "64B", "128B", "256B"};
constexpr std::string_view kRopeLayouts[] = {"separate", "tail"};
constexpr std::string_view kRopeTypes[] = {"bf16", "fp16", "fp8_e4m3", "fp8_e4m3fnuz"};
constexpr IntRange kTileHeight{4, 256, 4}, kTileWidth{1, 4096}, kPadded{1, 4096};

void read_optional_int(const Json& object, const char* name, std::optional<int>& target, IntRange range,
                       const ReadContext& context) {
  if (object.contains(name)) target = read_int(object[name], range, context.at(name));
}

void read_optional_name(const Json& object, const char* name, std::string& target,
                        std::span<const std::string_view> names, const ReadContext& context) {
  if (!object.contains(name)) return;
  if (const auto read = read_name(object[name], names, context.at(name))) target = *read;
}

KeySpec gather4_key() {
  const Json schema = object_schema({{"tile_height", int_schema(kTileHeight)},
                                     {"tile_width", int_schema(kTileWidth)},
                                     {"tile_stride", int_schema(kTileWidth)},
                                     {"tma_dtype", enum_schema(kTmaTypes)},
                                     {"swizzle", enum_schema(kTmaSwizzles)},
                                     {"l2_promotion", enum_schema(kPromotions)}});
  return {"gather4",
          "rows of K and V fetched four at a time by row number",
          kBlackwell,
          false,
          schema,
          [](const Json& value, Config& config, const ReadContext& context) {
            static constexpr std::string_view known[] = {"tile_height", "tile_width", "tile_stride",
                                                         "tma_dtype",   "swizzle",    "l2_promotion"};
            if (!check_members(value, known, context)) return;
            Gather4 out;
            std::optional<int> height;
            read_optional_int(value, "tile_height", height, kTileHeight, context);
            out.tile_height = height.value_or(out.tile_height);
            read_optional_int(value, "tile_width", out.tile_width, kTileWidth, context);
            read_optional_int(value, "tile_stride", out.tile_stride, kTileWidth, context);
            read_optional_name(value, "tma_dtype", out.tma_dtype, kTmaTypes, context);
            read_optional_name(value, "swizzle", out.swizzle, kTmaSwizzles, context);
            read_optional_name(value, "l2_promotion", out.l2_promotion, kPromotions, context);
            config.gather4 = out;
          },
          [](const Config& config) -> std::optional<Json> {
            if (!config.gather4) return std::nullopt;
            const Gather4& g = *config.gather4;
            Json out{{"tile_height", g.tile_height}};
            if (g.tile_width) out["tile_width"] = *g.tile_width;
            if (g.tile_stride) out["tile_stride"] = *g.tile_stride;
            if (!g.tma_dtype.empty()) out["tma_dtype"] = g.tma_dtype;
            if (!g.swizzle.empty()) out["swizzle"] = g.swizzle;
            if (!g.l2_promotion.empty()) out["l2_promotion"] = g.l2_promotion;
            return out;
          }};
}

KeySpec rope_key() {
  const Json schema = object_schema({{"layout", enum_schema(kRopeLayouts)},
                                     {"padded_depth", int_schema(kPadded)},
                                     {"dtype", enum_schema(kRopeTypes)}},
                                    {"layout"});
  return {"rope",
          "where the rotary columns of K lie and their type: in a separate tensor, or as a tail that begins "
          "padded_depth bytes behind a row's first",
          kAllTargets,
          false,
          schema,
          [](const Json& value, Config& config, const ReadContext& context) {
            static constexpr std::string_view known[] = {"layout", "padded_depth", "dtype"};
            if (!check_members(value, known, context)) return;
            RopeConfig out;
            if (!value.contains("layout")) {
              context.missing("layout", "rope needs layout", join(kRopeLayouts));
              return;
            }
            read_optional_name(value, "layout", out.layout, kRopeLayouts, context);
            read_optional_int(value, "padded_depth", out.padded_depth, kPadded, context);
            std::string dtype;
            read_optional_name(value, "dtype", dtype, kRopeTypes, context);
            if (!dtype.empty()) out.dtype = dtype_from(dtype);
            if (!out.layout.empty()) config.rope = out;
          },
          [](const Config& config) -> std::optional<Json> {
            if (!config.rope) return std::nullopt;
            Json out{{"layout", config.rope->layout}};
            if (config.rope->padded_depth) out["padded_depth"] = *config.rope->padded_depth;
            if (config.rope->dtype) out["dtype"] = to_string(*config.rope->dtype);
            return out;
          }};
}

/// true, false, or "auto" for the planner's choice.
KeySpec shared_ring_key() {
  KeySpec key =
      bool_key("shared_ring", &Config::shared_ring, kTma, "K and V share one ring of stages; default auto");
  key.schema = {{"anyOf", Json::array({Json{{"const", "auto"}}, Json{{"type", "boolean"}}})}};
  key.read = [read_flag = key.read](const Json& value, Config& config, const ReadContext& context) {
    if (value == "auto") {
      config.shared_ring = std::nullopt;
    } else {
      read_flag(value, config, context);
    }
  };
  return key;
}

}  // namespace

std::vector<KeySpec> memory_keys() {
  constexpr TargetSet buffered = kAmd | only(Target::sm_80);
  constexpr IntRange width{8, 1024, 8};
  return {
      bool_key("full_kv", &Config::full_kv, buffered, "a stage holds all columns of its tile; default true"),
      int_key("bk_smem", &Config::bk_smem, width, buffered, "width of a block in shared memory; default BK"),
      int_key("smem_depth", &Config::smem_depth, width, buffered, "columns of a stage; default depth"),
      int_key("reg_chunk_depth", &Config::reg_chunk_depth, width, buffered,
              "columns of K held in registers at once; default depth"),
      int_key("reg_chunk_keys", &Config::reg_chunk_keys, width, buffered,
              "keys of V held in registers at once; default WN"),
      int_key("num_smem_stages", &Config::num_smem_stages, {1, 4}, buffered,
              "stages of a KVBuffer; default 2"),
      auto_int_key("num_kv_stages", &Config::num_kv_stages, {1, 64}, kNvidia,
                   "stages of the K/V ring; default auto"),
      auto_int_key("num_qk_stages", &Config::num_qk_stages, {1, 16}, kTma,
                   "depth chunks of a K tile, each with its own barrier; default auto"),
      auto_int_key("num_pv_stages", &Config::num_pv_stages, {1, 4}, kBlackwell,
                   "pieces in which P is handed to the PV product; default auto"),
      shared_ring_key(),
      bool_key("double_buffer", &Config::double_buffer, kAmd,
               "two stages of K and of V; default true in prefill"),
      bool_key("double_buffer_k_only", &Config::double_buffer_k_only, kAmd,
               "two stages of K, one of V; default in decode with BN <= 64"),
      bool_key("shared_kv", &Config::shared_kv, kAmd,
               "V overlays K in shared memory; default where both do not fit beside each other"),
      name_key("dma", &Config::dma, {"lds_direct", "reg_staged"}, kAmd,
               "global memory to LDS directly, or through registers"),
      name_key("v_load", &Config::v_load, {"tr16", "tr32", "tr8_32", "tr8_16", "perm4x4", "block"}, kAmd,
               "how V reaches the registers"),
      name_key("v_layout", &Config::v_layout, {"flat", "blocked"}, kAmd,
               "V of streaming decode in LDS; default flat"),
      name_key("wait_policy", &Config::wait_policy, {"counted", "drain"}, kAmd,
               "wait for counted loads or for all of them; default counted"),
      name_key("tma_fold", &Config::tma_fold, {"auto", "none", "chunk_outer", "chunk_inner"}, kTma,
               "depth chunks folded into one tensor copy; default auto"),
      int_key("base_alignment", &Config::base_alignment, {1, 1 << 20}, kTma,
              "multiple of keys at which every tile's first key lies"),
      gather4_key(),
      rope_key(),
  };
}

}  // namespace kiln::keys
