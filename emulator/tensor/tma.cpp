// The walk over the box of a tensor copy, and element-wise reductions.
#include "emulator/tensor/tma.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator {

namespace {

/// Elements a box visits along a dimension: with a traversal stride s it takes every s-th, ceil(box / s) of
/// them. The stride of dimension 0 is ignored without interleave.
std::uint32_t visited(const TensorMapRequest& map, std::uint32_t dimension) {
  if (dimension == 0) return map.box[0];
  const std::uint32_t stride = std::max(map.element_strides[dimension], 1u);
  return (map.box[dimension] + stride - 1) / stride;
}

/// Shared bytes from one box row to the next.
std::uint32_t row_pitch(const TensorMapRequest& map) {
  const std::uint32_t row = shared_bytes(map.type, map.box[0]);
  if (map.swizzle == Swizzle::none || map.interleave != TensorInterleave::none) return row;
  return std::max(row, swizzle_span(map.swizzle));
}

/// Appends a run, or extends the last one when both sides continue.
void append(std::vector<BoxRun>& out, std::size_t first, const BoxRun& run) {
  if (run.bytes == 0) return;
  if (out.size() > first) {
    BoxRun& last = out.back();
    const bool global_continues = run.oob || last.global + last.bytes == run.global;
    const bool alike = last.oob == run.oob && last.swizzle == run.swizzle;
    if (alike && last.shared + last.bytes == run.shared && global_continues) {
      last.bytes += run.bytes;
      return;
    }
  }
  out.push_back(run);
}

/// Appends one piece of a box row, cut where the swizzle breaks contiguity unless it has whole spans.
void append_swizzled(std::vector<BoxRun>& out, std::size_t first, Swizzle swizzle, BoxRun run) {
  if (swizzle == Swizzle::none) return append(out, first, run);
  if (const std::uint32_t span = swizzle_span(swizzle); (run.shared | run.bytes) % span == 0) {
    run.swizzle = swizzle;
    return append(out, first, run);
  }
  while (run.bytes > 0) {
    const std::uint32_t most = swizzle_piece(swizzle), piece = std::min(run.bytes, most - run.shared % most);
    append(out, first, {run.global, swizzle_address(swizzle, run.shared), piece, run.oob});
    run.global += run.oob ? 0 : piece;
    run.shared += piece;
    run.bytes -= piece;
  }
}

template <typename T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    default:
      break;
  }
  if constexpr (std::is_unsigned_v<T>) {
    switch (op) {
      case ReduceOp::add:
        return static_cast<T>(a + b);
      case ReduceOp::inc:
        return a >= b ? T{0} : static_cast<T>(a + 1);
      case ReduceOp::dec:
        return a == 0 || a > b ? b : static_cast<T>(a - 1);
      case ReduceOp::and_:
        return a & b;
      case ReduceOp::or_:
        return a | b;
      case ReduceOp::xor_:
        return a ^ b;
      default:
        return a;
    }
  } else {
    using Unsigned = std::make_unsigned_t<T>;  // wraps, and bit operations are the same
    return static_cast<T>(combine(op, static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  }
}

template <typename T>
void reduce_integers(ReduceOp op, std::byte* destination, const std::byte* source, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, destination + at, sizeof a);
    std::memcpy(&b, source + at, sizeof b);
    a = combine(op, a, b);
    std::memcpy(destination + at, &a, sizeof a);
  }
}

void reduce_floats(ReduceOp op, FloatFormat format, bool ftz, std::byte* destination, const std::byte* source,
                   std::size_t bytes) {
  const std::size_t size = static_cast<std::size_t>(bit_width(format)) / 8;
  for (std::size_t at = 0; at + size <= bytes; at += size) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, destination + at, size);
    std::memcpy(&b, source + at, size);
    if (op == ReduceOp::add) {
      a = float_add(format, a, b, {.ftz = ftz});
    } else {
      a = op == ReduceOp::min ? float_min(format, a, b) : float_max(format, a, b);
    }
    std::memcpy(destination + at, &a, size);
  }
}

}  // namespace

std::int64_t global_bytes(TensorType type, std::int64_t count) {
  if (!is_packed(type)) return count * bytes_of(type);
  return count / 16 * (type == TensorType::u6x16_align16 ? 12 : 8);
}

std::uint32_t shared_bytes(TensorType type, std::uint32_t count) {
  if (!is_packed(type)) return count * bytes_of(type);
  return count / 16 * (type == TensorType::u4x16_align8 ? 8 : 16);
}

std::uint32_t box_bytes(const TensorMapRequest& map) {
  std::uint32_t bytes = shared_bytes(map.type, map.box[0]);
  if (map.mode != TensorMapMode::tiled) return bytes * map.box[1];
  for (std::uint32_t i = 1; i < map.rank; ++i) bytes *= visited(map, i);
  return bytes;
}

std::uint32_t box_footprint(const TensorMapRequest& map) {
  const std::uint32_t row = shared_bytes(map.type, map.box[0]);
  return box_bytes(map) / row * row_pitch(map);
}

std::string check_coordinates(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
                              bool store) {
  for (const std::int32_t at : coordinates) {
    if (store && at < 0) return "tensor store at coordinate " + std::to_string(at) + ": must not be negative";
  }
  if (is_packed(map.type) && coordinates[0] % 16 != 0)
    return "tensor copy at innermost coordinate " + std::to_string(coordinates[0]) +
           ": must be a multiple of 16 elements of a packed type";
  const std::int64_t begin = map.type > TensorType::u4x16_align8 ? 0 : global_bytes(map.type, coordinates[0]);
  if (map.interleave != TensorInterleave::none || begin % 16 == 0) return {};
  return "tensor copy at innermost coordinate " + std::to_string(coordinates[0]) + ", byte " +
         std::to_string(begin) + " of the row: must be a multiple of 16 bytes";
}

ImageRows::ImageRows(const TensorMapRequest& map, std::int32_t begin, std::uint32_t shared, bool store,
                     std::vector<BoxRun>& out)
    : out_(out),
      first_(out.size()),
      swizzle_(map.swizzle),
      type_(map.type),
      pitch_(row_pitch(map)),
      shared_(shared) {
  const auto extent = static_cast<std::int64_t>(map.dims[0]);
  // The part of a row that lies inside dimension 0, in elements from the row's start.
  const std::int64_t low = std::clamp<std::int64_t>(-std::int64_t{begin}, 0, map.box[0]);
  const std::int64_t high = std::clamp<std::int64_t>(extent - begin, low, map.box[0]);
  row_ = shared_bytes(map.type, map.box[0]);
  inside_begin_ = shared_bytes(map.type, static_cast<std::uint32_t>(low));
  inside_end_ = shared_bytes(map.type, static_cast<std::uint32_t>(high));
  if (store) inside_end_ = std::min(row_, (inside_end_ + 15) / 16 * 16);
  begin_ = static_cast<std::uint64_t>(global_bytes(map.type, begin));
}

/// A packed type with gaps: sixteen elements at the start of every 16 bytes.
void ImageRows::add_groups(bool inside, std::uint64_t global) {
  const auto data = static_cast<std::uint32_t>(global_bytes(type_, 16));
  for (std::uint32_t at = 0; at < row_; at += 16) {
    const bool there = inside && at >= inside_begin_ && at < inside_end_;
    append_swizzled(out_, first_, swizzle_,
                    {there ? global + begin_ + at / 16 * data : 0, shared_ + at, data, !there});
  }
  shared_ += pitch_;
}

void ImageRows::add(bool inside, std::uint64_t global) {
  if (type_ > TensorType::u4x16_align8) return add_groups(inside, global);
  if (inside && inside_end_ > inside_begin_) {
    append_swizzled(out_, first_, swizzle_, {0, shared_, inside_begin_, true});
    append_swizzled(
        out_, first_, swizzle_,
        {global + begin_ + inside_begin_, shared_ + inside_begin_, inside_end_ - inside_begin_, false});
    append_swizzled(out_, first_, swizzle_, {0, shared_ + inside_end_, row_ - inside_end_, true});
  } else {
    append_swizzled(out_, first_, swizzle_, {0, shared_, row_, true});
  }
  shared_ += pitch_;
}

void box_runs(const TensorMapRequest& map, std::span<const std::int32_t> coordinates,
              std::uint32_t shared_address, std::vector<BoxRun>& out, bool store) {
  ImageRows rows(map, coordinates[0], shared_address, store, out);
  std::array<std::uint32_t, 5> step{};
  for (;;) {
    bool inside = true;
    std::uint64_t global = map.address;
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      const std::int64_t at = coordinates[i] + static_cast<std::int64_t>(step[i]) * map.element_strides[i];
      inside = inside && at >= 0 && at < static_cast<std::int64_t>(map.dims[i]);
      global += static_cast<std::uint64_t>(at) * map.strides[i - 1];
    }
    rows.add(inside, global);
    std::uint32_t dimension = 1;
    while (dimension < map.rank && ++step[dimension] == visited(map, dimension)) step[dimension++] = 0;
    if (dimension >= map.rank) return;
  }
}

std::uint64_t oob_pattern(const TensorMapRequest& map) {
  if (map.oob_fill == OobFill::zeros) return 0;
  return 0x7ff7'7ff7'7ff7'7ff7ull;  // a NaN of every type
}

void convert_loaded(TensorType type, std::byte* data, std::size_t bytes) {
  if (type != TensorType::tf32 && type != TensorType::tf32_ftz) return;
  for (std::size_t at = 0; at + 4 <= bytes; at += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, data + at, 4);
    bits = static_cast<std::uint32_t>(convert_float(FloatFormat::tf32, FloatFormat::f32, bits));
    std::memcpy(data + at, &bits, 4);
  }
}

bool reduce_supported(ReduceOp op, TensorType type) {
  const bool bitwise = op == ReduceOp::and_ || op == ReduceOp::or_ || op == ReduceOp::xor_;
  switch (type) {
    case TensorType::u8:
    case TensorType::u16:
      return false;
    case TensorType::u32:
      return true;
    case TensorType::s32:
    case TensorType::s64:
      return bitwise || op == ReduceOp::add || op == ReduceOp::min || op == ReduceOp::max;
    case TensorType::u64:
      return op != ReduceOp::inc && op != ReduceOp::dec;
    case TensorType::f16:
    case TensorType::bf16:
      return op == ReduceOp::add || op == ReduceOp::min || op == ReduceOp::max;
    case TensorType::f32:
    case TensorType::f32_ftz:
    case TensorType::f64:
      return op == ReduceOp::add;
    default:
      return false;
  }
}

void reduce_elements(ReduceOp op, TensorType type, std::byte* destination, const std::byte* source,
                     std::size_t bytes) {
  switch (type) {
    case TensorType::u8:
      return reduce_integers<std::uint8_t>(op, destination, source, bytes);
    case TensorType::u16:
      return reduce_integers<std::uint16_t>(op, destination, source, bytes);
    case TensorType::u32:
      return reduce_integers<std::uint32_t>(op, destination, source, bytes);
    case TensorType::s32:
      return reduce_integers<std::int32_t>(op, destination, source, bytes);
    case TensorType::u64:
      return reduce_integers<std::uint64_t>(op, destination, source, bytes);
    case TensorType::s64:
      return reduce_integers<std::int64_t>(op, destination, source, bytes);
    case TensorType::f16:
      return reduce_floats(op, FloatFormat::f16, false, destination, source, bytes);
    case TensorType::bf16:
      return reduce_floats(op, FloatFormat::bf16, false, destination, source, bytes);
    case TensorType::f64:
      return reduce_floats(op, FloatFormat::f64, false, destination, source, bytes);
    // Floating atomics on f32 in global memory flush subnormals (PTX ISA, "red").
    default:
      return reduce_floats(op, FloatFormat::f32, true, destination, source, bytes);
  }
}

}  // namespace kiln::emulator
