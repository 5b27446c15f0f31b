// The walk of im2col copies (PTX ISA, "Im2col mode"): columns of pixels, each a row of channels.
#include <array>

#include "emulator/tensor/tma.hpp"

namespace kiln::emulator {
namespace {

/// Dimensions of an image: W; W and H; W, H and D. They follow the channels, and the number of the image follows them.
std::uint32_t image_dimensions(const TensorMapRequest& map) {
  return map.rank - 2;
}
std::int64_t last_pixel(const TensorMapRequest& map, std::uint32_t dimension) {
  return static_cast<std::int64_t>(map.dims[1 + dimension]) - 1 + map.upper_corner[dimension];
}

}  // namespace

std::string check_im2col(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                         std::span<const std::uint16_t> offsets) {
  static constexpr std::string_view kNames[] = {"W", "H", "D"};
  const std::uint32_t images = image_dimensions(map);
  for (std::uint32_t i = 0; i < images; ++i) {
    const std::int64_t at = coordinates[1 + i];
    if (at < map.lower_corner[i] || at > last_pixel(map, i))
      return "im2col copy at " + std::string(kNames[i]) + " = " + std::to_string(at) +
             ": the bounding box is from " + std::to_string(map.lower_corner[i]) + " to " +
             std::to_string(last_pixel(map, i));
    const std::uint32_t limit = images == 1 ? 65535 : images == 2 ? 255 : 31;
    if (i < offsets.size() && offsets[i] > limit)
      return "im2col offset " + std::to_string(offsets[i]) + " along " + std::string(kNames[i]) +
             ": at most " + std::to_string(limit) + " with rank " + std::to_string(map.rank);
  }
  const std::int64_t begin = global_bytes(map.type, coordinates[0]);
  if (begin % 16 == 0) return {};
  return "im2col copy at channel " + std::to_string(coordinates[0]) + ", byte " + std::to_string(begin) +
         " of the pixel: must be a multiple of 16 bytes";
}

void im2col_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                 std::span<const std::uint16_t> offsets, std::uint32_t shared_address,
                 std::vector<BoxRun>& out, bool store) {
  const std::uint32_t images = image_dimensions(map), n = map.rank - 1;
  std::array<std::int64_t, 5> at{};
  for (std::uint32_t i = 0; i < map.rank; ++i) at[i] = coordinates[i];
  ImageRows rows(map, coordinates[0], shared_address, store, out);
  for (std::uint32_t pixel = 0; pixel < map.box[1]; ++pixel) {
    bool inside = true;
    std::uint64_t global = map.address;
    for (std::uint32_t i = 1; i <= n; ++i) {
      const std::int64_t where = at[i] + (i <= offsets.size() ? offsets[i - 1] : 0);
      inside = inside && where >= 0 && where < static_cast<std::int64_t>(map.dims[i]);
      global += static_cast<std::uint64_t>(where) * map.strides[i - 1];
    }
    rows.add(inside, global);
    std::uint32_t i = 0;
    for (; i < images; ++i) {
      at[1 + i] += map.element_strides[1 + i];
      if (at[1 + i] <= last_pixel(map, i)) break;
      at[1 + i] = map.lower_corner[i];
    }
    if (i == images) ++at[n];
  }
}

}  // namespace kiln::emulator
