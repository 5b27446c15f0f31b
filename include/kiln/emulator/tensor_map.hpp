// Tensor maps of the emulated device: encoding with the driver's checks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace kiln::emulator {

/// Shared-memory swizzle of descriptors and tensor maps: byte address bits [4, 4+n) ^= bits [7, 7+n), n = 0,
/// 1, 2, 3. Of sm_100a's maps besides, with spans of 128 bytes: atoms of 32 bytes (bits [5, 7) ^= [7, 9)), the same with
/// the halves of 16 bytes exchanged in odd lines of 128, atoms of 64 (bit 6 ^= bit 7). Numbered as CUtensorMapSwizzle.
enum class Swizzle : std::uint8_t {
  none = 0,
  b32 = 1,
  b64 = 2,
  b128 = 3,
  b128_atom32 = 4,
  b128_atom32_flip8 = 5,
  b128_atom64 = 6
};
/// Bytes after which a swizzle repeats within a row; 16: none.
inline std::uint32_t swizzle_span(Swizzle swizzle) {
  return swizzle > Swizzle::b128 ? 128 : 16u << static_cast<unsigned>(swizzle);
}
/// Bytes that stay together.
inline std::uint32_t swizzle_piece(Swizzle swizzle) {
  return swizzle == Swizzle::b128_atom32_flip8 ? 8 : 16;
}

/// Element types, numbered as CUtensorMapDataType.
enum class TensorType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4x16_align8,   ///< 16 elements of 4 bits in 8 bytes
  u4x16_align16,  ///< the same; in shared memory a gap of 8 bytes follows
  u6x16_align16   ///< 16 elements of 6 bits in 12 bytes; in shared memory a gap of 4 bytes follows
};

enum class TensorInterleave : std::uint8_t { none, b16, b32 };
enum class OobFill : std::uint8_t { zeros, nan };

/// How a copy walks the tensor: over a box, over the pixels of images (cuTensorMapEncodeIm2col), or over those of one row
/// of each image (cuTensorMapEncodeIm2colWide: as many as the map says, or 128).
enum class TensorMapMode : std::uint8_t { tiled, im2col, im2col_w, im2col_w128 };
inline bool is_wide(TensorMapMode mode) {
  return mode >= TensorMapMode::im2col_w;
}

/// Arguments of cuTensorMapEncodeTiled, fastest dimension first. strides[i] is the byte stride of dimension i
/// + 1. Of an im2col map dimensions are C, W, H, D, N (rank 3 has W, rank 4 W and H), `box` holds the channels of a
/// pixel and the pixels of a column, and the corners bound W, H, D: from `lower_corner` to the last pixel plus
/// `upper_corner`; wide maps have corners along W only.
struct TensorMapRequest {
  TensorMapMode mode = TensorMapMode::tiled;
  TensorType type = TensorType::bf16;
  std::uint32_t rank = 0;
  std::uint64_t address = 0;
  std::array<std::uint64_t, 5> dims{};
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  TensorInterleave interleave = TensorInterleave::none;
  Swizzle swizzle = Swizzle::none;
  OobFill oob_fill = OobFill::zeros;
  std::array<std::int32_t, 3> lower_corner{}, upper_corner{};
  bool operator==(const TensorMapRequest&) const = default;
};
using TensorMapBytes = std::array<std::byte, 128>;

/// Empty if the driver would accept the request; else the first rule it breaks, one line with the offending
/// value.
std::string check_tensor_map(const TensorMapRequest& request);
/// Encodes a map; throws std::invalid_argument with check_tensor_map's text.
TensorMapBytes encode_tensor_map(const TensorMapRequest& request);
/// The request a map was made from; nullopt if the bytes are no map (uninitialised, overwritten, wrong
/// pointer).
std::optional<TensorMapRequest> decode_tensor_map(std::span<const std::byte, 128> map);

}  // namespace kiln::emulator
