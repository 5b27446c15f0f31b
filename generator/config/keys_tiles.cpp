// Key table rows: tiles, threads and swizzles.
#include "generator/config/key_makers.hpp"

namespace kiln::keys {
namespace {

KeySpec mma_shape_key() {
  constexpr IntRange range{8, 256, 8};
  return {"mma_shape",
          "[M, N, K] of the matrix instruction",
          kAllTargets,
          false,
          {{"type", "array"}, {"items", int_schema(range)}, {"minItems", 3}, {"maxItems", 3}},
          [=](const Json& value, Config& config, const ReadContext& context) {
            if (!value.is_array() || value.size() != 3) {
              context.fail(value, "wants three integers [M, N, K]");
              return;
            }
            std::array<int, 3> shape{};
            bool good = true;
            for (std::size_t i = 0; i < 3; ++i) {
              const auto read = read_int(value[i], range, context.at(std::to_string(i)));
              shape[i] = read.value_or(0);
              good = good && read.has_value();
            }
            if (good) config.mma_shape = shape;
          },
          [](const Config& config) -> std::optional<Json> {
            if (config.mma_shape) return Json(*config.mma_shape);
            return std::nullopt;
          }};
}

}  // namespace

std::vector<KeySpec> tile_keys() {
  constexpr TargetSet warp_tiled = kAmd | only(Target::sm_80);
  return {
      mma_shape_key(),
      int_key("BM", &Config::BM, {8, 512, 8}, kAllTargets, "rows of Q in a block tile"),
      int_key("BN", &Config::BN, {16, 512, 16}, kAllTargets, "rows of K and V in a block tile"),
      int_key("BK", &Config::BK, {8, 1024, 8}, kAllTargets, "width of a strip along the contraction"),
      int_key("WM", &Config::WM, {16, 512, 16}, warp_tiled, "rows of Q in a warp tile"),
      int_key("WN", &Config::WN, {8, 512, 8}, warp_tiled, "rows of K in a warp tile"),
      int_key("num_threads", &Config::num_threads, {32, 1024, 32}, kAllTargets, "threads of a block"),
      swizzle_key("swizzle", &Config::swizzle, kAllTargets,
                  "swizzle of K and V in shared memory; default auto"),
      swizzle_key("swizzle_k", &Config::swizzle_k, warp_tiled, "swizzle of K alone; default swizzle"),
      swizzle_key("swizzle_v", &Config::swizzle_v, warp_tiled, "swizzle of V alone; default swizzle"),
      swizzle_key("swizzle_p", &Config::swizzle_p, kAmd, "swizzle of P when it goes through shared memory"),
  };
}

}  // namespace kiln::keys
