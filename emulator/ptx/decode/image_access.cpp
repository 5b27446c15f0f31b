// What texture and surface instructions share, and txq, suq, istypep.
#include <algorithm>
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/textures.hpp"

namespace kiln::emulator::ptx {

using u64 = std::uint64_t;

Geometry geometry_of(const Decoder& d) {
  static constexpr std::pair<std::string_view, Geometry> kNames[] = {
      {"1d", Geometry::one},          {"2d", Geometry::two},        {"3d", Geometry::three},
      {"a1d", Geometry::array_one},   {"a2d", Geometry::array_two}, {"cube", Geometry::cube},
      {"acube", Geometry::array_cube}};
  for (const auto& [name, g] : kNames)
    if (d.has(name)) return g;
  if (d.has("2dms") || d.has("a2dms")) d.fail("multisampled images come from graphics interfaces only:");
  d.unsupported();
}
int coordinates_of(Geometry g) {
  switch (g) {
    case Geometry::one:
    case Geometry::array_one:
      return 1;
    case Geometry::two:
    case Geometry::array_two:
      return 2;
    default:
      return 3;
  }
}
bool is_array(Geometry g) {
  return g == Geometry::array_one || g == Geometry::array_two || g == Geometry::array_cube;
}
bool fits(Geometry g, ImageShape shape) {
  switch (g) {
    case Geometry::one:
      return shape == ImageShape::one || shape == ImageShape::linear;
    case Geometry::two:
      return shape == ImageShape::two;
    case Geometry::three:
      return shape == ImageShape::three;
    case Geometry::array_one:
      return shape == ImageShape::one_layered;
    case Geometry::array_two:
      return shape == ImageShape::two_layered || shape == ImageShape::cube ||
             shape == ImageShape::cube_layered;
    case Geometry::cube:
      return shape == ImageShape::cube;
    case Geometry::array_cube:
      return shape == ImageShape::cube_layered;
  }
  return false;
}

namespace {

/// A handle: a 64-bit register, a reference of the module (its address), or a parameter that holds one.
Ref handle_of(Decoder& d, const Operand& o, bool& variable) {
  if (o.kind != Operand::Kind::symbol) return d.src(o, 8);
  const Variable& v = d.module.variables[o.id];
  if (v.space == Space::param && d.is_kernel_param(o.id)) return d.param_row(v, o.id, 0, 8, false, 8);
  if (v.opaque == Opaque::none) d.fail("'" + v.name + "' is no reference to an image in");
  variable = true;
  return d.src(o, 8);
}

template <class Map>
auto find(Warp& w, const Op& op, int lane, const Map& map, u64 handle, const char* what) -> const
    typename Map::mapped_type* {
  const auto it = map.find(handle);
  if (it != map.end()) return &it->second;
  report(w, op, lane, "bad-handle",
         (op.flags & 0x40) != 0 ? std::string("the reference is bound to no ") + what
                                : std::to_string(handle) + " is no handle of a " + what);
  abort_cluster(*w.block->cluster);
  return nullptr;
}

}  // namespace

ImageOperand image_operand(Decoder& d, const Operand& o) {
  if (o.kind != Operand::Kind::address || o.items.empty() || o.value != 0) d.fail("expected an image in");
  ImageOperand out;
  out.handle = handle_of(d, o.items[0], out.variable);
  if (o.items.size() > 2) {
    bool sampler = false;
    out.sampler = handle_of(d, o.items[1], sampler);
  }
  if (o.items.size() > 1) {
    const Operand& c = o.items.back();
    const auto one = [&](const Operand& item) { return d.src(item, 4); };
    if (c.kind == Operand::Kind::vector)
      for (const Operand& item : c.items) out.coordinates.push_back(one(item));
    else
      out.coordinates.push_back(one(c));
  }
  return out;
}

const Texture* find_texture(Warp& w, const Op& op, int lane, u64 handle) {
  return find(w, op, lane, w.block->cluster->launch->memory->images.textures, handle, "texture");
}
const Image* find_surface(Warp& w, const Op& op, int lane, u64 handle) {
  return find(w, op, lane, w.block->cluster->launch->memory->images.surfaces, handle, "surface");
}

std::uint8_t* image_memory(Warp& w, const Op& op, int lane, u64 address, std::uint32_t bytes, Access access,
                           const std::uint8_t* fresh) {
  const Place p = locate(w, op, Space::global, address, bytes, lane, access);
  Cluster& c = *w.block->cluster;
  if (p.data != nullptr && c.findings && access != Access::atomic)
    c.launch->globals->access(w, op, lane, address, bytes, access == Access::write, 0, 0,
                              fresh != nullptr && std::memcmp(p.data, fresh, bytes) == 0);
  return p.data;
}

namespace {

enum class Query : std::uint8_t {
  width,
  height,
  depth,
  channel_data_type,
  channel_order,
  normalized_coords,
  array_size,
  num_mipmap_levels,
  num_samples,
  filter_mode,
  addr_mode_0,
  addr_mode_1,
  addr_mode_2,
  force_unnormalized_coords,
  memory_layout
};
constexpr std::string_view kQueries[] = {"width",         "height",
                                         "depth",         "channel_data_type",
                                         "channel_order", "normalized_coords",
                                         "array_size",    "num_mipmap_levels",
                                         "num_samples",   "filter_mode",
                                         "addr_mode_0",   "addr_mode_1",
                                         "addr_mode_2",   "force_unnormalized_coords",
                                         "memory_layout"};

/// As OpenCL numbers them (CL_SNORM_INT8 and so on, CL_R, CL_RG, CL_RGBA).
std::uint32_t data_type(const Image& image, const Sampler* sampler) {
  const bool normalized = sampler != nullptr && sampler->normalized_float;
  switch (image.format) {
    case ChannelFormat::s8:
      return normalized ? 0x10d0 : 0x10d7;
    case ChannelFormat::s16:
      return normalized ? 0x10d1 : 0x10d8;
    case ChannelFormat::u8:
      return normalized ? 0x10d2 : 0x10da;
    case ChannelFormat::u16:
      return normalized ? 0x10d3 : 0x10db;
    case ChannelFormat::s32:
      return 0x10d9;
    case ChannelFormat::u32:
      return 0x10dc;
    case ChannelFormat::f16:
      return 0x10dd;
    default:
      return 0x10de;
  }
}

std::uint32_t answer(Query q, const Image& image, const Sampler* s, std::uint32_t level) {
  const ImageLevel& l = image.levels[std::min<std::size_t>(level, image.levels.size() - 1)];
  const bool layers = image.shape == ImageShape::one_layered || image.shape == ImageShape::two_layered;
  const auto mode = [&](std::size_t i) {
    return s == nullptr ? 0u : static_cast<std::uint32_t>(s->address[i]);
  };
  switch (q) {
    case Query::width:
      return l.width;
    case Query::height:
      return l.height;
    case Query::depth:
      return image.shape == ImageShape::three ? l.depth : 1;
    case Query::array_size:
      return layers ? l.depth : image.shape == ImageShape::cube_layered ? l.depth / 6 : 1;
    case Query::channel_data_type:
      return data_type(image, s);
    case Query::channel_order:
      return image.channels == 1 ? 0x10b0 : image.channels == 2 ? 0x10b2 : 0x10b5;
    case Query::normalized_coords:
      return s != nullptr && s->normalized_coordinates ? 1 : 0;
    case Query::num_mipmap_levels:
      return static_cast<std::uint32_t>(image.levels.size());
    case Query::num_samples:
      return 1;
    case Query::filter_mode:
      return s != nullptr && s->filter == FilterMode::linear ? 1 : 0;
    case Query::addr_mode_0:
      return mode(0);
    case Query::addr_mode_1:
      return mode(1);
    case Query::addr_mode_2:
      return mode(2);
    case Query::force_unnormalized_coords:
      return s != nullptr && !s->normalized_coordinates ? 1 : 0;
    case Query::memory_layout:
      return image.shape == ImageShape::linear ? 1 : 0;
  }
  return 0;
}

void run_query(Warp& w, const Op& op) {
  each_lane(w, [&](int l) {
    const u64 handle = w.value(op.a, 8, l);
    const Image* image = nullptr;
    const Sampler* sampler = nullptr;
    if ((op.flags & 1) != 0) {
      image = find_surface(w, op, l, handle);
    } else if (const Texture* t = find_texture(w, op, l, handle)) {
      image = &t->image;
      sampler = &t->sampler;
    }
    const auto level = op.b == kNoRef ? 0u : static_cast<std::uint32_t>(w.value(op.b, 4, l));
    if (image != nullptr) w.set(op.d, 4, l, answer(static_cast<Query>(op.imm), *image, sampler, level));
  });
}

}  // namespace

void decode_query(Decoder& d, bool surface) {
  const Ref r = d.dst(d.operand(0), 4);
  const ImageOperand image = image_operand(d, d.operand(1));
  const auto known = std::find_if(std::begin(kQueries), std::end(kQueries), [&](auto q) { return d.has(q); });
  if (known == std::end(kQueries)) d.unsupported();
  const Ref level = d.operands() > 2 ? d.src(d.operand(2), 4) : kNoRef;
  Op& op = d.emit(run_query, Kind::other);
  op.d = r, op.a = image.handle, op.b = level;
  op.imm = known - std::begin(kQueries);
  op.flags = static_cast<std::uint16_t>((surface ? 1 : 0) | (image.variable ? 0x40 : 0));
}

}  // namespace kiln::emulator::ptx
