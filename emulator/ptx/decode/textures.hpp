// What texture and surface instructions share: geometries, handles, texels in memory.
#pragma once

#include <optional>

#include "emulator/machine/machine.hpp"
#include "emulator/ptx/decode/decoder.hpp"
#include "emulator/texture/sample.hpp"

namespace kiln::emulator::ptx {

enum class Geometry : std::uint8_t { one, two, three, array_one, array_two, cube, array_cube };
/// The geometry modifier (.1d, .a2d, ...); multisampled ones are refused.
Geometry geometry_of(const Decoder& d);
int coordinates_of(Geometry g);  ///< without the layer
bool is_array(Geometry g);
/// Whether an image of that shape may be read with the geometry.
bool fits(Geometry g, ImageShape shape);

/// The operand [handle, {coordinates}], or [texture, sampler, {coordinates}].
struct ImageOperand {
  Ref handle = kNoRef, sampler = kNoRef;
  bool variable = false;  ///< the handle is a .texref or .surfref
  std::vector<Ref> coordinates;
};
ImageOperand image_operand(Decoder& d, const Operand& o);

/// The texture or surface of a lane's handle; null: reported, and the cluster stops.
const Texture* find_texture(Warp& w, const Op& op, int lane, std::uint64_t handle);
const Image* find_surface(Warp& w, const Op& op, int lane, std::uint64_t handle);
/// Memory of an image, checked and made known to the race tracker. `fresh`: what a write will leave there. Null: reported.
std::uint8_t* image_memory(Warp& w, const Op& op, int lane, std::uint64_t address, std::uint32_t bytes,
                           Access access, const std::uint8_t* fresh = nullptr);

/// txq and suq.
void decode_query(Decoder& d, bool surface);

}  // namespace kiln::emulator::ptx
