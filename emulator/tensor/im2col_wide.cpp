// The walk of im2col::w and im2col::w::128 copies (PTX ISA, "im2col::w and im2col::w::128 modes"): pixels along W at one H
// and D, of one image after the other. The ISA shows where halo pixels lie and what they are in figures only. Here they
// are the pixels that the walk would come to next: of im2col::w below the column; of im2col::w::128 the next ones after
// each 32, below the 128 pixels in rows of four, one for each group, as tcgen05.cp.4x256b takes them.
#include "emulator/tensor/tma.hpp"

namespace kiln::emulator {
namespace {

constexpr std::uint32_t kGroups = 4, kGroup = 32;

/// The walk, one pixel after another.
class Walk {
 public:
  Walk(const TensorMapRequest& map, std::span<const std::int32_t> coordinates, std::int32_t offset)
      : map_(map), first_(map.lower_corner[0] + offset), w_(std::int64_t{coordinates[1]} + offset) {
    last_ = static_cast<std::int64_t>(map.dims[1]) - 1 + map.upper_corner[0] + offset;
    image_ = coordinates[map.rank - 1];
    base_ = map.address;
    for (std::uint32_t i = 2; i + 1 < map.rank; ++i) {
      inside_ = inside_ && coordinates[i] >= 0 && coordinates[i] < static_cast<std::int64_t>(map.dims[i]);
      base_ += static_cast<std::uint64_t>(std::int64_t{coordinates[i]}) * map.strides[i - 1];
    }
  }
  void skip(std::uint32_t pixels) {
    for (std::uint32_t i = 0; i < pixels; ++i) step();
  }
  void add(ImageRows& rows, std::uint32_t pixels) {
    for (std::uint32_t i = 0; i < pixels; ++i, step()) {
      const bool there = inside_ && w_ >= 0 && w_ < static_cast<std::int64_t>(map_.dims[1]) && image_ >= 0 &&
                         image_ < static_cast<std::int64_t>(map_.dims[map_.rank - 1]);
      rows.add(there, base_ + static_cast<std::uint64_t>(w_) * map_.strides[0] +
                          static_cast<std::uint64_t>(image_) * map_.strides[map_.rank - 2]);
    }
  }

 private:
  void step() {
    w_ += map_.element_strides[1];
    if (w_ <= last_) return;
    w_ = first_;
    ++image_;
  }

  const TensorMapRequest& map_;
  std::int64_t first_, w_, last_ = 0, image_ = 0;
  std::uint64_t base_ = 0;
  bool inside_ = true;  ///< H and D are
};

}  // namespace

std::string add_halo(TensorMapRequest& map, std::span<const std::uint16_t> info) {
  const bool fixed = map.mode == TensorMapMode::im2col_w128;
  const std::uint32_t most = fixed ? 32 : 512;
  if (info[0] >= most)
    return "wHalo = " + std::to_string(info[0]) + ": must be less than " + std::to_string(most);
  if (info[1] >= 32) return "wOffset = " + std::to_string(info[1]) + ": must be less than 32";
  map.box[1] = fixed ? kGroups * (kGroup + info[0]) : map.box[1] + info[0];
  return {};
}

std::string check_im2col_wide(const TensorMapRequest& map, std::span<const std::int32_t> coordinates) {
  const std::int64_t last = static_cast<std::int64_t>(map.dims[1]) - 1 + map.upper_corner[0];
  if (coordinates[1] > last)
    return "im2col copy at W = " + std::to_string(coordinates[1]) + ": the bounding box ends at " +
           std::to_string(last);
  const std::int64_t begin = global_bytes(map.type, coordinates[0]);
  if (begin % 16 == 0) return {};
  return "im2col copy at channel " + std::to_string(coordinates[0]) + ", byte " + std::to_string(begin) +
         " of the pixel: must be a multiple of 16 bytes";
}

void im2col_wide_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                      std::span<const std::uint16_t> info, std::uint32_t shared_address,
                      std::vector<BoxRun>& out) {
  ImageRows rows(map, coordinates[0], shared_address, false, out);
  Walk walk(map, coordinates, info[1]);
  if (map.mode == TensorMapMode::im2col_w) return walk.add(rows, map.box[1]);
  walk.add(rows, kGroups * kGroup);
  for (std::uint32_t i = 0; i < info[0]; ++i)
    for (std::uint32_t group = 1; group <= kGroups; ++group) {
      Walk halo(map, coordinates, info[1]);
      halo.skip(kGroup * group + i);
      halo.add(rows, 1);
    }
}

}  // namespace kiln::emulator
