// Encoding of tensor maps: the checks of cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide,
// and the emulated device's 128-byte format.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "emulator/tensor/tma.hpp"

namespace kiln::emulator {

namespace {

/// What the 128 bytes hold. The first word tells a map from stray memory. CUTLASS 4.4 clears bit 21 of the second word
/// in maps of small tensors (a workaround for drivers up to 13.1, in copy_traits_sm90_tma.hpp), a bit of the address
/// here: the last field keeps it.
struct Encoded {
  std::uint64_t magic;
  std::uint64_t address;
  std::uint64_t dims[5];
  std::uint64_t strides[4];
  std::uint16_t box_minus_one[5];  // boxes reach 256, columns 1024 pixels
  std::uint8_t element_strides[5];
  std::uint8_t type, rank, interleave, swizzle, oob_fill, mode;
  std::int16_t lower_corner[3], upper_corner[3];
  std::uint8_t address_bit;  // 1 where kClearedBit of the address is set
  std::uint8_t atomicity;    // of the swizzle: tensormap.replace sets it apart from the mode
};
static_assert(sizeof(Encoded) <= 128);
/// tensormap.replace.elemtype has its own numbers (PTX ISA, "tensormap.replace"), not those of
/// CUtensorMapDataType.
constexpr TensorType kPtxElementTypes[] = {
    TensorType::u8,       TensorType::u16,          TensorType::u32,           TensorType::s32,
    TensorType::u64,      TensorType::s64,          TensorType::f16,           TensorType::f32,
    TensorType::f32_ftz,  TensorType::f64,          TensorType::bf16,          TensorType::tf32,
    TensorType::tf32_ftz, TensorType::u4x16_align8, TensorType::u4x16_align16, TensorType::u6x16_align16};
/// Swizzles of 128 bytes by atomicity: 16 bytes, 32, 32 with the halves of 16 exchanged, 64.
constexpr Swizzle kAtomicities[] = {Swizzle::b128, Swizzle::b128_atom32, Swizzle::b128_atom32_flip8,
                                    Swizzle::b128_atom64};
/// Atoms beside a mode that has none.
constexpr auto kNoSwizzle = static_cast<Swizzle>(7);
constexpr std::uint64_t kMagic = 0x70616d3172736e74ull;
constexpr std::uint64_t kClearedBit = 1ull << 21;

Encoded pack(const TensorMapRequest& request) {
  Encoded e{};
  e.magic = kMagic;
  e.address = request.address;
  e.address_bit = (request.address & kClearedBit) != 0;
  e.type = static_cast<std::uint8_t>(request.type);
  e.rank = static_cast<std::uint8_t>(request.rank);
  e.interleave = static_cast<std::uint8_t>(request.interleave);
  const bool atoms = request.swizzle > Swizzle::b128;
  e.swizzle = static_cast<std::uint8_t>(atoms ? Swizzle::b128 : request.swizzle);
  e.atomicity = static_cast<std::uint8_t>(
      atoms ? static_cast<unsigned>(request.swizzle) - static_cast<unsigned>(Swizzle::b128) : 0);
  e.oob_fill = static_cast<std::uint8_t>(request.oob_fill);
  e.mode = static_cast<std::uint8_t>(request.mode);
  for (std::size_t i = 0; i < 3; ++i) {
    e.lower_corner[i] = static_cast<std::int16_t>(request.lower_corner[i]);
    e.upper_corner[i] = static_cast<std::int16_t>(request.upper_corner[i]);
  }
  for (std::size_t i = 0; i < 5; ++i) {
    e.dims[i] = request.dims[i];
    e.box_minus_one[i] = static_cast<std::uint16_t>(request.box[i] - 1);
    e.element_strides[i] = static_cast<std::uint8_t>(request.element_strides[i]);
    if (i < 4) e.strides[i] = request.strides[i];
  }
  return e;
}

std::string rule(const char* what, std::size_t dimension, std::uint64_t value, const std::string& expected) {
  return std::string(what) + "[" + std::to_string(dimension) + "] = " + std::to_string(value) + ": " +
         expected;
}

std::string check_dimensions(const TensorMapRequest& r) {
  for (std::size_t i = 0; i < r.rank; ++i) {
    if (r.dims[i] == 0 || r.dims[i] > 1ull << 32) return rule("globalDim", i, r.dims[i], "must be 1 to 2^32");
    if (r.mode == TensorMapMode::tiled && (r.box[i] == 0 || r.box[i] > 256))
      return rule("boxDim", i, r.box[i], "must be 1 to 256");
    if (r.element_strides[i] == 0 || r.element_strides[i] > 8) {
      return rule("elementStrides", i, r.element_strides[i], "must be 1 to 8");
    }
    if (i + 1 < r.rank) {
      const std::uint64_t alignment = r.interleave == TensorInterleave::b32 ? 32 : 16;
      if (r.strides[i] % alignment != 0) {
        return rule("globalStrides", i, r.strides[i],
                    "must be a multiple of " + std::to_string(alignment) + " bytes");
      }
      if (r.strides[i] >= 1ull << 40) return rule("globalStrides", i, r.strides[i], "must be less than 2^40");
    }
  }
  return {};
}

/// What elements of 4 and 6 bits ask for besides (CUDA driver API, cuTensorMapEncodeTiled).
std::string check_packed(const TensorMapRequest& r) {
  if (!is_packed(r.type)) return {};
  const bool gaps = r.type != TensorType::u4x16_align8;
  if (r.interleave != TensorInterleave::none) return "elements of 4 and 6 bits have no interleaved layouts";
  if (gaps && r.address % 32 != 0)
    return "globalAddress must be aligned to 32 bytes with 16-byte units of 4 or 6 bits";
  for (std::size_t i = 0; gaps && i + 1 < r.rank; ++i)
    if (r.strides[i] % 32 != 0)
      return rule("globalStrides", i, r.strides[i],
                  "must be a multiple of 32 bytes with 16-byte units of 4 or 6 bits");
  if (gaps && r.box[0] != 128)
    return rule("boxDim", 0, r.box[0], "must be 128 with 16-byte units of 4 or 6 bits");
  const std::uint64_t step = gaps ? 128 : 2;
  if (r.dims[0] % step != 0)
    return rule("globalDim", 0, r.dims[0],
                "must be a multiple of " + std::to_string(step) + " with this type");
  if (!gaps && r.box[0] % 16 != 0)
    return rule("boxDim", 0, r.box[0], "must be a multiple of 16 with this type");
  const bool swizzled =
      r.swizzle == Swizzle::none || (r.swizzle >= Swizzle::b128 && r.swizzle != Swizzle::b128_atom32_flip8);
  if (r.type == TensorType::u6x16_align16 && !swizzled)
    return "swizzle must be none or 128B (with atoms of 16, 32 or 64 bytes) for elements of 6 bits";
  return {};
}

std::string check_enumerators(const TensorMapRequest& r) {
  if (r.type > TensorType::u6x16_align16) return "tensorDataType is not an enumerator";
  if (r.swizzle > Swizzle::b128_atom64)
    return "swizzle atoms of 32 and 64 bytes are of the 128B swizzle only";
  return {};
}

/// Corners of the bounding box: of W, H, D, or of W alone.
std::string check_corners(const TensorMapRequest& r) {
  const bool wide = is_wide(r.mode);
  const std::int32_t limit = wide || r.rank == 3 ? 32768 : r.rank == 4 ? 128 : 16;
  const std::string range = "must be " + std::to_string(-limit) + " to " + std::to_string(limit - 1);
  const auto corner = [&](const char* what, std::size_t i, std::int32_t value) {
    return std::string(what) + "[" + std::to_string(i) + "] = " + std::to_string(value) + ": ";
  };
  for (std::size_t i = 0; i + 2 < (wide ? 3 : r.rank); ++i) {
    const std::int32_t low = r.lower_corner[i], high = r.upper_corner[i];
    if (low < -limit || low >= limit) return corner("pixelBoxLowerCorner", i, low) + range;
    if (high < -limit || high >= limit) return corner("pixelBoxUpperCorner", i, high) + range;
    if (static_cast<std::int64_t>(r.dims[1 + i]) - 1 + high < low)
      return corner("pixelBoxUpperCorner", i, high) + "the bounding box is empty";
  }
  return {};
}

/// What cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide ask for besides.
std::string check_images(const TensorMapRequest& r) {
  if (r.rank < 3) return "im2col maps need tensorRank 3 to 5";
  if (r.interleave != TensorInterleave::none)
    return "im2col maps of interleaved layouts are not there";  // what they mean is in no public text
  if (r.box[0] == 0 || r.box[0] > 256)
    return "channelsPerPixel = " + std::to_string(r.box[0]) + ": must be 1 to 256";
  if (r.mode != TensorMapMode::im2col_w128 && (r.box[1] == 0 || r.box[1] > 1024))
    return "pixelsPerColumn = " + std::to_string(r.box[1]) + ": must be 1 to 1024";
  if (is_wide(r.mode) && r.swizzle != Swizzle::b64 && r.swizzle != Swizzle::b128 &&
      r.swizzle != Swizzle::b128_atom32)
    return "swizzle must be 64B, 128B or 128B with atoms of 32 bytes in im2col::w maps";
  return check_corners(r);
}

/// What the bytes hold; `swizzle` is the mode without its atomicity.
std::optional<TensorMapRequest> unpack(const Encoded& e) {
  if (e.magic != kMagic || e.rank < 1 || e.rank > 5 || e.mode > 3 || e.swizzle > 3 || e.atomicity > 3)
    return std::nullopt;
  TensorMapRequest r;
  r.type = static_cast<TensorType>(e.type);
  r.rank = e.rank;
  r.address = e.address | (e.address_bit != 0 ? kClearedBit : 0);
  r.interleave = static_cast<TensorInterleave>(e.interleave);
  r.swizzle = static_cast<Swizzle>(e.swizzle);
  r.oob_fill = static_cast<OobFill>(e.oob_fill);
  r.mode = static_cast<TensorMapMode>(e.mode);
  std::copy_n(e.lower_corner, 3, r.lower_corner.begin());
  std::copy_n(e.upper_corner, 3, r.upper_corner.begin());
  for (std::size_t i = 0; i < 5; ++i) {
    r.dims[i] = e.dims[i];
    r.box[i] = static_cast<std::uint16_t>(e.box_minus_one[i] + 1);
    r.element_strides[i] = e.element_strides[i];
    if (i < 4) r.strides[i] = e.strides[i];
  }
  return r;
}
/// What tensormap.replace may set a field to, at most.
std::uint64_t largest_value(TensorMapField field) {
  switch (field) {
    case TensorMapField::rank:
      return 4;
    case TensorMapField::elemtype:
      return std::size(kPtxElementTypes) - 1;
    case TensorMapField::interleave_layout:
      return 2;
    case TensorMapField::swizzle_mode:
    case TensorMapField::swizzle_atomicity:
      return 3;
    case TensorMapField::fill_mode:
      return 1;
    default:
      return ~std::uint64_t{0};
  }
}
Encoded raw(std::span<const std::byte, 128> map) {
  Encoded e;
  std::memcpy(&e, map.data(), sizeof e);
  return e;
}

/// A map can be made from nothing, field by field: zeros are a map of zeros.
bool is_blank(std::span<const std::byte, 128> map) {
  return std::all_of(map.begin(), map.end(), [](std::byte b) { return b == std::byte{0}; });
}
TensorMapRequest blank_map() {
  TensorMapRequest r;
  r.rank = 1;
  r.box.fill(1);
  return r;
}

}  // namespace

std::uint32_t bytes_of(TensorType type) {
  switch (type) {
    case TensorType::u8:
    case TensorType::u4x16_align8:  // of the units that rows count in, see global_bytes
    case TensorType::u4x16_align16:
    case TensorType::u6x16_align16:
      return 1;
    case TensorType::u16:
    case TensorType::f16:
    case TensorType::bf16:
      return 2;
    case TensorType::u64:
    case TensorType::s64:
    case TensorType::f64:
      return 8;
    default:
      return 4;
  }
}

std::string check_tensor_map(const TensorMapRequest& r) {
  if (std::string text = check_enumerators(r); !text.empty()) return text;
  if (r.rank < 1 || r.rank > 5) return "tensorRank = " + std::to_string(r.rank) + ": must be 1 to 5";
  if (r.interleave != TensorInterleave::none && r.rank < 3) return "interleaved layouts need tensorRank >= 3";
  const std::uint64_t alignment = r.interleave == TensorInterleave::b32 ? 32 : 16;
  if (r.address % alignment != 0)
    return "globalAddress must be aligned to " + std::to_string(alignment) + " bytes";
  if (std::string text = check_dimensions(r); !text.empty()) return text;
  if (r.mode != TensorMapMode::tiled)
    if (std::string text = check_images(r); !text.empty()) return text;
  if (std::string text = check_packed(r); !text.empty()) return text;
  const std::uint32_t inner = shared_bytes(r.type, r.box[0]);
  if (r.interleave == TensorInterleave::none) {
    if (inner % 16 != 0)
      return "boxDim[0] spans " + std::to_string(inner) + " bytes: must be a multiple of 16";
    const std::uint32_t span = swizzle_span(r.swizzle);
    if (r.swizzle != Swizzle::none && inner > span) {
      return "boxDim[0] spans " + std::to_string(inner) + " bytes: at most " + std::to_string(span) +
             " with this swizzle";
    }
  } else if (r.interleave == TensorInterleave::b32 && r.swizzle != Swizzle::b32) {
    return "interleave 32B needs swizzle 32B";
  }
  const bool floating = r.type >= TensorType::f16 && !is_packed(r.type);
  if (r.oob_fill == OobFill::nan && !floating) return "NaN fill needs a floating-point tensorDataType";
  return {};
}

TensorMapBytes encode_tensor_map(const TensorMapRequest& request) {
  if (const std::string text = check_tensor_map(request); !text.empty()) {
    throw std::invalid_argument("tensor map: " + text);
  }
  TensorMapBytes bytes{};
  const Encoded encoded = pack(request);
  std::memcpy(bytes.data(), &encoded, sizeof encoded);
  return bytes;
}

std::optional<TensorMapRequest> decode_tensor_map(std::span<const std::byte, 128> map) {
  const Encoded e = raw(map);
  std::optional<TensorMapRequest> r = unpack(e);
  if (r && e.atomicity != 0)
    r->swizzle = r->swizzle == Swizzle::b128 ? kAtomicities[e.atomicity] : kNoSwizzle;
  return r;
}

namespace {

bool takes_ordinal(TensorMapField field, std::uint32_t ordinal) {
  switch (field) {
    case TensorMapField::global_stride:
      return ordinal < 4;
    case TensorMapField::box_dim:
    case TensorMapField::global_dim:
    case TensorMapField::element_stride:
      return ordinal < 5;
    default:
      return true;
  }
}

void set_field(TensorMapRequest& r, std::uint8_t& atomicity, TensorMapField field, std::uint32_t ordinal,
               std::uint64_t value) {
  switch (field) {
    case TensorMapField::global_address:
      r.address = value;
      break;
    case TensorMapField::rank:
      r.rank = static_cast<std::uint32_t>(value) + 1;
      break;
    case TensorMapField::box_dim:
      r.box[ordinal] = static_cast<std::uint32_t>(value);
      break;
    case TensorMapField::global_dim:
      r.dims[ordinal] = value;
      break;
    case TensorMapField::global_stride:
      r.strides[ordinal] = value;
      break;
    case TensorMapField::element_stride:
      r.element_strides[ordinal] = static_cast<std::uint32_t>(value);
      break;
    case TensorMapField::elemtype:
      r.type = kPtxElementTypes[value];
      break;
    case TensorMapField::interleave_layout:
      r.interleave = static_cast<TensorInterleave>(value);
      break;
    case TensorMapField::swizzle_mode:
      r.swizzle = static_cast<Swizzle>(value);
      break;
    case TensorMapField::fill_mode:
      r.oob_fill = static_cast<OobFill>(value);
      break;
    case TensorMapField::swizzle_atomicity:
      atomicity = static_cast<std::uint8_t>(value);
      break;
  }
}

}  // namespace

bool replace_tensor_map_field(std::span<std::byte, 128> map, TensorMapField field, std::uint32_t ordinal,
                              std::uint64_t value) {
  const std::optional<TensorMapRequest> decoded = unpack(raw(map));
  if (decoded ? decoded->mode != TensorMapMode::tiled : !is_blank(map)) return false;
  if (!takes_ordinal(field, ordinal) || value > largest_value(field)) return false;
  TensorMapRequest r = decoded ? *decoded : blank_map();
  std::uint8_t atomicity = decoded ? raw(map).atomicity : std::uint8_t{0};
  set_field(r, atomicity, field, ordinal, value);
  Encoded encoded = pack(r);
  encoded.atomicity = atomicity;
  std::memcpy(map.data(), &encoded, sizeof encoded);
  return true;
}

}  // namespace kiln::emulator
