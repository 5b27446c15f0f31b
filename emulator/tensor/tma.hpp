// The box copies of cp.async.bulk.tensor: fields of encoded tensor maps, and the walk over a box.
//
// The 128 bytes of an encoded map are the emulated device's own format (the driver's is not documented); a
// kernel only ever passes their address on, or edits fields through tensormap.replace, which replace_field
// serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/emulator/tensor_map.hpp>

#include "emulator/tensor/wgmma.hpp"

namespace kiln::emulator {

/// Bytes of an element.
std::uint32_t bytes_of(TensorType type);
/// Sixteen elements of 4 or 6 bits are the unit of a packed type.
inline bool is_packed(TensorType type) {
  return type >= TensorType::u4x16_align8;
}
/// Bytes of `count` elements in global and in shared memory; of packed types a multiple of 16.
std::int64_t global_bytes(TensorType type, std::int64_t count);
std::uint32_t shared_bytes(TensorType type, std::uint32_t count);

/// Fields of tensormap.replace.tile.
enum class TensorMapField : std::uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
  swizzle_atomicity
};
/// Sets one field (ordinal: the dimension, where the field has one; rank: the value is rank - 1, as in PTX).
/// No checks but the ordinal's and the enumerators' ranges: returns false when they are broken or the bytes
/// are no map in tiled mode. 128 zero bytes are a map to be filled in.
bool replace_tensor_map_field(std::span<std::byte, 128> map, TensorMapField field, std::uint32_t ordinal,
                              std::uint64_t value);

/// Bytes a box moves, out-of-bounds elements included: what complete_tx counts and shared memory must hold.
std::uint32_t box_bytes(const TensorMapRequest& map);
/// Alignment that shared memory of this map's boxes must have: 128 (PTX).
inline constexpr std::uint32_t kTensorSharedAlignment = 128;

/// A contiguous piece of a box: `bytes` bytes at shared address `shared` belong to global address `global`, or lie
/// outside the tensor (`oob`: loads fill, stores and reductions skip). `swizzle` is still to be applied, to each 16
/// bytes: the piece consists of whole spans, so its bytes are the same ones with and without.
struct BoxRun {
  std::uint64_t global = 0;
  std::uint32_t shared = 0;
  std::uint32_t bytes = 0;
  bool oob = false;
  Swizzle swizzle = Swizzle::none;
  bool operator==(const BoxRun&) const = default;
};
/// Calls f(shared address, bytes before it in the run, bytes) for the pieces of a run.
template <class F>
void each_piece(const BoxRun& run, F f) {
  if (run.swizzle == Swizzle::none) return f(run.shared, std::uint32_t{0}, run.bytes);
  const std::uint32_t piece = swizzle_piece(run.swizzle);
  for (std::uint32_t at = 0; at < run.bytes; at += piece)
    f(swizzle_address(run.swizzle, run.shared + at), at, piece);
}
/// Bytes of shared memory from a box's first to its last: under a swizzle rows lie a whole span apart,
/// however narrow.
std::uint32_t box_footprint(const TensorMapRequest& map);
/// Empty if the hardware takes a copy at these coordinates, else why it raises an illegal instruction (an
/// H200 does): without interleave the innermost coordinate must lie on a multiple of 16 bytes, and
/// coordinates of a `store` must not be negative.
std::string check_coordinates(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                              bool store);
/// Walks the box at `coordinates` (signed, element units, fastest first) whose shared image starts at
/// `shared_address`, in order of the logical box; appends maximal runs to `out`.
/// A `store` writes whole 16-byte units: where dimension 0 ends inside one, the elements after the end are
/// written too (an H200 does; the row pitch, a multiple of 16, leaves room for them).
void box_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
              std::uint32_t shared_address, std::vector<BoxRun>& out, bool store = false);
/// The pixels that an im2col copy visits, as box_runs does for a box: `coordinates` as of the map's dimensions, of which
/// those of W, H and D name where the filter's corner is, and `offsets` along W, H, D within the filter. A copy that
/// reaches the end of the bounding box goes on in the next row, plane and image.
void im2col_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                 std::span<const std::uint16_t> offsets, std::uint32_t shared_address,
                 std::vector<BoxRun>& out, bool store = false);
/// As check_coordinates: the filter's corner has to be in the bounding box, and offsets fit 16, 8 or 5 bits by rank.
std::string check_im2col(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                         std::span<const std::uint16_t> offsets);
/// The same of im2col::w and im2col::w::128. `info` is {wHalo, wOffset}: `add_halo` says what is wrong with it, or counts
/// the halo's pixels to those of a column, box[1], as the two others want it.
std::string add_halo(TensorMapRequest& map, std::span<const std::uint16_t> info);
std::string check_im2col_wide(const TensorMapRequest& map, std::span<const std::int32_t> coordinates);
void im2col_wide_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                      std::span<const std::uint16_t> info, std::uint32_t shared_address,
                      std::vector<BoxRun>& out);
/// The rows of a copy's image in shared memory, one below the other: box[0] elements from coordinate `begin` of
/// dimension 0 on, each row cut where the tensor and the swizzle cut it.
class ImageRows {
 public:
  ImageRows(const TensorMapRequest& map, std::int32_t begin, std::uint32_t shared, bool store,
            std::vector<BoxRun>& out);
  /// `global`: address of the row's element 0 of dimension 0; `inside`: the other coordinates are in the tensor.
  void add(bool inside, std::uint64_t global);

 private:
  void add_groups(bool inside, std::uint64_t global);

  std::vector<BoxRun>& out_;
  std::size_t first_;
  Swizzle swizzle_;
  TensorType type_;
  std::uint32_t row_, pitch_, inside_begin_, inside_end_, shared_;
  std::uint64_t begin_;  ///< bytes from element 0 of dimension 0, as a signed number
};
/// The byte pattern that fills out-of-bounds elements, repeated to 8 bytes.
std::uint64_t oob_pattern(const TensorMapRequest& map);

/// What a load does to elements on their way: tf32 types round to tf32 (on an H200 _ftz types
/// keep subnormals).
void convert_loaded(TensorType type, std::byte* data, std::size_t bytes);

/// Operations of cp.reduce.async.bulk[.tensor] and of red/atom on the same types.
enum class ReduceOp : std::uint8_t { add, min, max, inc, dec, and_, or_, xor_ };
/// Whether cp.reduce.async.bulk.tensor has this operation on this type.
bool reduce_supported(ReduceOp op, TensorType type);
/// destination[i] = op(destination[i], source[i]) for `bytes` bytes of elements of `type`.
void reduce_elements(ReduceOp op, TensorType type, std::byte* destination, const std::byte* source,
                     std::size_t bytes);

}  // namespace kiln::emulator
