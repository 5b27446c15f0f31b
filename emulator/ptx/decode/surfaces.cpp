// suld, sust, sured, suq. The unformatted forms (.b) count x in bytes, the formatted ones (.p) in texels.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/memory.hpp"
#include "emulator/ptx/decode/textures.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;
using s64 = std::int64_t;

enum class Outside : std::uint8_t { trap, clamp, zero };
enum class Reduction : std::uint8_t { add, min, max, and_, or_ };

struct SurfaceCall {
  Geometry geometry = Geometry::two;
  Outside outside = Outside::trap;
  bool formatted = false, is_signed = false;
  int width = 4;  ///< bytes of an element
  std::uint8_t row = 4;
  Reduction reduction = Reduction::add;
  std::vector<Ref> values, coordinates;
};

/// Moves `at` into [0, last] or says that it is outside.
bool inside(s64& at, s64 last, Outside mode) {
  if (at >= 0 && at <= last) return true;
  if (mode != Outside::clamp || last < 0) return false;
  at = std::clamp<s64>(at, 0, last);
  return true;
}

/// The address of `bytes` bytes at a lane's coordinates; 0: outside, which a .trap reports.
u64 surface_address(Warp& w, const Op& op, const SurfaceCall& call, const Image& image, std::uint32_t bytes,
                    int lane) {
  const ImageLevel& l = image.levels[0];
  s64 at[4] = {};
  for (std::size_t i = 0; i < std::min<std::size_t>(4, call.coordinates.size()); ++i)
    at[i] = static_cast<std::int32_t>(w.value(call.coordinates[i], 4, lane));
  const std::size_t first = is_array(call.geometry) ? 1 : 0;
  const auto n = static_cast<std::size_t>(coordinates_of(call.geometry));
  s64 x = at[first], y = n > 1 ? at[first + 1] : 0, z = n > 2 ? at[first + 2] : 0;
  if (first == 1) z = at[0];
  const s64 texel = texel_bytes(image);
  if (call.formatted) x *= texel;
  const bool here = inside(x, static_cast<s64>(l.width) * texel - static_cast<s64>(bytes), call.outside) &&
                    inside(y, static_cast<s64>(l.height) - 1, call.outside) &&
                    inside(z, static_cast<s64>(l.depth) - 1, call.outside);
  if (!here) {
    if (call.outside == Outside::trap)
      report(w, op, lane, "out-of-bounds",
             "surface access of " + std::to_string(bytes) + " bytes at byte " + std::to_string(x) + ", row " +
                 std::to_string(y) + ", layer " + std::to_string(z) + " of " +
                 std::to_string(l.width * static_cast<u64>(texel)) + " x " + std::to_string(l.height) +
                 " x " + std::to_string(l.depth));
    return 0;
  }
  return l.address + static_cast<u64>(z) * l.slice_pitch + static_cast<u64>(y) * l.row_pitch +
         static_cast<u64>(x);
}

const Image* usable_surface(Warp& w, const Op& op, const SurfaceCall& call, int lane) {
  const Image* const image = find_surface(w, op, lane, w.value(op.a, 8, lane));
  if (image == nullptr || fits(call.geometry, image->shape)) return image;
  report(w, op, lane, "bad-handle", "the surface's image has another shape than the instruction's geometry");
  return nullptr;
}

void run_suld(Warp& w, const Op& op) {
  const auto& call = *static_cast<const SurfaceCall*>(op.aux);
  ++w.lanes.issue;
  const auto bytes = static_cast<std::uint32_t>(call.width) * static_cast<std::uint32_t>(call.values.size());
  u64 values[4][32] = {};
  each_lane(w, [&](int l) {
    const Image* const image = usable_surface(w, op, call, l);
    const u64 address = image == nullptr ? 0 : surface_address(w, op, call, *image, bytes, l);
    const std::uint8_t* data = address == 0 ? nullptr : image_memory(w, op, l, address, bytes, Access::read);
    for (std::size_t i = 0; data != nullptr && i < call.values.size(); ++i)
      std::memcpy(&values[i][l], data + i * static_cast<std::size_t>(call.width),
                  static_cast<std::size_t>(call.width));
  });
  for (std::size_t i = 0; i < call.values.size(); ++i)
    each_lane(w, [&](int l) { w.set(call.values[i], call.row, l, values[i][l]); });
}

/// A 32-bit value in the surface's format.
std::uint32_t convert(ChannelFormat format, std::uint32_t v) {
  const auto s = static_cast<std::int32_t>(v);
  switch (format) {
    case ChannelFormat::u8:
      return std::min(v, 255u);
    case ChannelFormat::u16:
      return std::min(v, 65535u);
    case ChannelFormat::s8:
      return static_cast<std::uint32_t>(std::clamp(s, -128, 127));
    case ChannelFormat::s16:
      return static_cast<std::uint32_t>(std::clamp(s, -32768, 32767));
    case ChannelFormat::f16:
      return f32_to_f16(std::bit_cast<float>(v));
    default:
      return v;
  }
}

void store(Warp& w, const SurfaceCall& call, const Image& image, std::uint8_t* data, int lane) {
  const std::size_t each =
      call.formatted ? channel_bytes(image.format) : static_cast<std::size_t>(call.width);
  const std::size_t count = call.formatted ? image.channels : call.values.size();
  for (std::size_t i = 0; i < count; ++i) {
    // Channels that the instruction does not have are zero.
    u64 v = i < call.values.size() ? w.value(call.values[i], call.row, lane) : 0;
    if (call.formatted) v = convert(image.format, static_cast<std::uint32_t>(v));
    std::memcpy(data + i * each, &v, each);
  }
}

void run_sust(Warp& w, const Op& op) {
  const auto& call = *static_cast<const SurfaceCall*>(op.aux);
  ++w.lanes.issue;
  each_lane(w, [&](int l) {
    const Image* const image = usable_surface(w, op, call, l);
    if (image == nullptr) return;
    const std::uint32_t bytes = call.formatted ? texel_bytes(*image)
                                               : static_cast<std::uint32_t>(call.width) *
                                                     static_cast<std::uint32_t>(call.values.size());
    const u64 address = surface_address(w, op, call, *image, bytes, l);
    std::uint8_t fresh[32] = {};
    store(w, call, *image, fresh, l);
    std::uint8_t* data =
        address == 0 ? nullptr : image_memory(w, op, l, address, bytes, Access::write, fresh);
    if (data != nullptr) std::memcpy(data, fresh, bytes);
  });
  ++w.block->cluster->progress;
}

u64 reduce(const SurfaceCall& call, u64 old, u64 v) {
  const s64 a = sign_extend(old, call.width), b = sign_extend(v, call.width);
  switch (call.reduction) {
    case Reduction::add:
      return old + v;
    case Reduction::min:
      return call.is_signed ? (a < b ? old : v) : std::min(old, v);
    case Reduction::max:
      return call.is_signed ? (a > b ? old : v) : std::max(old, v);
    case Reduction::and_:
      return old & v;
    default:
      return old | v;
  }
}

void run_sured(Warp& w, const Op& op) {
  const auto& call = *static_cast<const SurfaceCall*>(op.aux);
  Cluster& c = *w.block->cluster;
  ++w.lanes.issue;
  const auto bytes = static_cast<std::uint32_t>(call.width);
  each_lane(w, [&](int l) {
    const Image* const image = usable_surface(w, op, call, l);
    const u64 address = image == nullptr ? 0 : surface_address(w, op, call, *image, bytes, l);
    if (address == 0) return;
    const std::unique_lock lock(c.launch->atomics);
    std::uint8_t* const data = image_memory(w, op, l, address, bytes, Access::atomic);
    if (data == nullptr) return;
    if (c.races) {
      c.launch->globals->strong_access(w, op, l, address, bytes, true);
      w.global_words.access(w, op, l, address, bytes, {true, true, false});
      publish_global(w, op, l, address, true);
    }
    u64 old = 0;
    std::memcpy(&old, data, bytes);
    const u64 fresh = reduce(call, old, w.value(call.values[0], call.row, l));
    std::memcpy(data, &fresh, bytes);
    if (c.races) observe_global(w, op, 1u << l, address);
  });
  ++c.progress;
}

/// Geometry, edges, types, and for sured the operation.
SurfaceCall modifiers_of(const Decoder& d) {
  SurfaceCall call;
  call.geometry = geometry_of(d);
  const int outside = d.which({"trap", "clamp", "zero"});
  if (outside < 0) d.fail("missing .trap, .clamp or .zero in");
  call.outside = static_cast<Outside>(outside);
  call.formatted = d.has("p");
  const Type t = d.last_type();
  call.width = size_of(t);
  call.is_signed = t == Type::s32 || t == Type::s64;
  if (d.in->opcode != "sured") return call;
  const int which = d.which({"add", "min", "max", "and", "or"});
  if (which < 0) d.unsupported();
  call.reduction = static_cast<Reduction>(which);
  return call;
}

void decode_values(Decoder& d, const Operand& value, bool load, SurfaceCall& call) {
  const std::vector<Operand> items =
      value.kind == Operand::Kind::vector ? value.items : std::vector<Operand>{value};
  if (items.size() != (d.has("v4") ? 4u : d.has("v2") ? 2u : 1u)) d.fail("vector of the wrong length in");
  int row = std::max(call.width, 2);
  for (const Operand& item : items) row = std::max(row, d.size_of_register(item, 0));
  call.row = static_cast<std::uint8_t>(row);
  for (const Operand& item : items)
    call.values.push_back(load ? d.dst(item, item.kind == Operand::Kind::sink ? 0 : row) : d.src(item, row));
}

void decode_surface(Decoder& d) {
  const auto o = d.in->opcode;
  const bool load = o == "suld", reduction = o == "sured";
  SurfaceCall call = modifiers_of(d);
  const ImageOperand image = image_operand(d, d.operand(load ? 1 : 0));
  call.coordinates = image.coordinates;
  const int needed = coordinates_of(call.geometry) + (is_array(call.geometry) ? 1 : 0);
  if (static_cast<int>(call.coordinates.size()) < needed) d.fail("too few coordinates in");
  decode_values(d, d.operand(load ? 0 : 1), load, call);
  Op& op = d.emit(load        ? run_suld
                  : reduction ? run_sured
                              : run_sust,
                  load        ? Kind::load_global
                  : reduction ? Kind::atomic
                              : Kind::store_global);
  op.use = Use::strict;
  op.a = image.handle;
  op.flags = image.variable ? 0x40 : 0;
  op.aux = d.own(std::move(call));
}

}  // namespace

std::vector<DecodeEntry> surface_table() {
  return {{"suld", decode_surface},
          {"sust", decode_surface},
          {"sured", decode_surface},
          {"suq", [](Decoder& d) { decode_query(d, true); }}};
}

}  // namespace kiln::emulator::ptx
