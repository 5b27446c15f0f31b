// tex, tld4, txq, istypep.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/ptx/alu/each_lane.hpp"
#include "emulator/ptx/decode/textures.hpp"
#include "emulator/tensor/numeric.hpp"

namespace kiln::emulator::ptx {
namespace {

using u64 = std::uint64_t;

enum class Mode : std::uint8_t { plain, base, level, gradients, gather };
enum class Result : std::uint8_t { f32, integer, f16x2 };

struct Fetch {
  Geometry geometry = Geometry::two;
  Mode mode = Mode::plain;
  Result result = Result::f32;
  bool integer = false;       ///< coordinates
  std::uint32_t channel = 0;  ///< of tld4
  bool variable = false;
  std::vector<Ref> out, coordinates, offset, level;  ///< level: one, or dx and dy
  Ref resident = kNoRef, sampler = kNoRef;
};

std::uint32_t bits(const Warp& w, Ref r, int lane) {
  return static_cast<std::uint32_t>(w.value(r, 4, lane));
}

/// A .samplerref's fields, as the parser has put them into the variable's bytes.
Sampler separate_sampler(Warp& w, const Op& op, int lane, u64 address, const Sampler& own) {
  const Place p = locate(w, op, Space::constant, address, 8, lane, Access::read);
  Sampler s = own;
  if (p.data == nullptr) return s;
  for (std::size_t i = 0; i < 3; ++i) s.address[i] = static_cast<AddressMode>(p.data[i] & 3);
  s.filter = p.data[3] != 0 ? FilterMode::linear : FilterMode::point;
  s.normalized_coordinates = p.data[4] == 0;
  return s;
}

TextureCoordinates coordinates(const Warp& w, const Fetch& f, const Image& image, const Sampler& sampler,
                               int lane) {
  TextureCoordinates c;
  c.integer = f.integer;
  std::size_t at = 0;
  if (is_array(f.geometry)) c.layer = bits(w, f.coordinates[at++], lane);
  const auto n = static_cast<std::size_t>(coordinates_of(f.geometry));
  for (std::size_t i = 0; i < n; ++i, ++at) {
    const std::uint32_t v = bits(w, f.coordinates[at], lane);
    c.at[i] = std::bit_cast<float>(v);
    c.texel[i] = static_cast<std::int32_t>(v);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(3, f.offset.size()); ++i)
    c.offset[i] = static_cast<std::int32_t>(bits(w, f.offset[i], lane));
  if (f.mode == Mode::level) c.level = std::bit_cast<float>(bits(w, f.level[0], lane));
  if (f.mode == Mode::gradients) {
    std::array<float, 3> d[2] = {};
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < n; ++i) d[k][i] = std::bit_cast<float>(bits(w, f.level[k * n + i], lane));
    c.level = level_of_gradients(image, sampler, d[0], d[1], static_cast<int>(n));
  }
  return c;
}

/// The bits of four channels. Texels of weight 0 are not read.
std::array<std::uint32_t, 4> fetch(Warp& w, const Op& op, const Fetch& f, const Image& image,
                                   const Sampler& sampler, int lane) {
  const TextureCoordinates c = coordinates(w, f, image, sampler, lane);
  const bool gather = f.mode == Mode::gather, floats = reads_floats(image, sampler);
  const Footprint foot = gather ? gather_footprint(image, sampler, c) : texture_footprint(image, sampler, c);
  std::array<std::uint32_t, 4> out{};
  std::array<float, 4> sums{};
  for (std::uint32_t i = 0; i < foot.count; ++i) {
    const Footprint::Texel& t = foot.texels[i];
    std::array<std::uint32_t, 4> texel = border_texel(image, sampler);
    if (!t.border) {
      const std::uint8_t* data =
          image_memory(w, op, lane, texel_address(image, t), texel_bytes(image), Access::read);
      if (data != nullptr) texel = decode_texel(image, sampler, data);
    }
    if (gather)
      out[i] = texel[f.channel];
    else if (foot.count == 1)
      out = texel;
    else
      for (std::size_t k = 0; k < 4; ++k) sums[k] += t.weight * std::bit_cast<float>(texel[k]);
  }
  for (std::size_t k = 0; floats && !gather && foot.count > 1 && k < 4; ++k)
    out[k] = std::bit_cast<std::uint32_t>(sums[k]);
  return out;
}

bool usable(Warp& w, const Op& op, const Fetch& f, const Texture& t, const Sampler& s, int lane) {
  const bool floats = reads_floats(t.image, s);
  std::string problem;
  if (!fits(f.geometry, t.image.shape))
    problem = "the texture's image has another shape than the instruction's geometry";
  else if (s.filter == FilterMode::linear && !floats && f.mode != Mode::gather &&
           t.image.shape != ImageShape::linear)
    problem = "linear filtering of integers";
  else if ((f.result == Result::integer) == floats)
    problem = floats ? "the texture reads as floats, the instruction wants integers"
                     : "the texture reads as integers, the instruction wants floats";
  if (problem.empty()) return true;
  report(w, op, lane, "bad-handle", problem);
  return false;
}

void write_result(Warp& w, const Fetch& f, int lane, const std::array<std::uint32_t, 4>& texel) {
  if (f.result != Result::f16x2) {
    for (std::size_t k = 0; k < f.out.size(); ++k) w.set(f.out[k], 4, lane, texel[k]);
    return;
  }
  for (std::size_t k = 0; k < f.out.size(); ++k)
    w.set(f.out[k], 4, lane,
          f32_to_f16(std::bit_cast<float>(texel[2 * k])) |
              static_cast<u64>(f32_to_f16(std::bit_cast<float>(texel[2 * k + 1]))) << 16);
}

void run_fetch(Warp& w, const Op& op) {
  const auto& f = *static_cast<const Fetch*>(op.aux);
  ++w.lanes.issue;
  std::array<std::uint32_t, 4> results[32] = {};
  std::uint32_t done = 0;
  each_lane(w, [&](int l) {
    const Texture* const t = find_texture(w, op, l, w.value(op.a, 8, l));
    if (t == nullptr) return;
    const Sampler sampler =
        f.sampler == kNoRef ? t->sampler : separate_sampler(w, op, l, w.value(f.sampler, 8, l), t->sampler);
    if (!usable(w, op, f, *t, sampler, l)) return;
    results[l] = fetch(w, op, f, t->image, sampler, l);
    done |= 1u << l;
  });
  // Results may be where coordinates were.
  for (std::uint32_t m = done; m != 0; m &= m - 1) {
    write_result(w, f, std::countr_zero(m), results[std::countr_zero(m)]);
    if (f.resident != kNoRef) w.set(f.resident, 3, std::countr_zero(m), 1);
  }
}

std::vector<Ref> sources(Decoder& d, const Operand& o) {
  std::vector<Ref> refs;
  if (o.kind == Operand::Kind::vector)
    for (const Operand& item : o.items) refs.push_back(d.src(item, 4));
  else
    refs.push_back(d.src(o, 4));
  return refs;
}

void decode_result(Decoder& d, Fetch& f) {
  const Operand& o = d.operand(0);
  if (o.kind != Operand::Kind::vector) d.unsupported();
  std::vector<Operand> items = o.items;
  if (o.value == 1) {
    const Operand& p = items.back();
    if (p.kind != Operand::Kind::sink) f.resident = d.dst(p, 3);
    items.pop_back();
  }
  if (items.size() != (f.result == Result::f16x2 ? 2u : 4u)) d.fail("wrong number of registers in");
  for (const Operand& item : items) f.out.push_back(d.dst(item, item.kind == Operand::Kind::sink ? 0 : 4));
}

/// What follows the image: level or gradients, offset, depth.
void decode_rest(Decoder& d, Fetch& f) {
  std::size_t i = 2;
  const auto n = static_cast<std::size_t>(coordinates_of(f.geometry));
  if (f.mode == Mode::level) f.level = {d.src(d.operand(i++), 4)};
  if (f.mode == Mode::gradients)
    for (int k = 0; k < 2; ++k) {
      const auto part = sources(d, d.operand(i++));
      if (part.size() < n) d.fail("vector of the wrong length in");
      f.level.insert(f.level.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
    }
  if (i < d.operands()) f.offset = sources(d, d.operand(i++));
  if (i < d.operands()) d.fail("depth comparison is of graphics interfaces only:");
}

void decode_fetch(Decoder& d) {
  Fetch f;
  f.geometry = geometry_of(d);
  const bool gather = d.in->opcode == "tld4";
  f.mode = gather           ? Mode::gather
           : d.has("base")  ? Mode::base
           : d.has("level") ? Mode::level
           : d.has("grad")  ? Mode::gradients
                            : Mode::plain;
  const auto t = d.types();
  if (t.size() != 2) d.unsupported();
  f.result = t[0] == Type::f32 ? Result::f32 : t[0] == Type::f16x2 ? Result::f16x2 : Result::integer;
  f.integer = t[1] != Type::f32;
  if (gather) f.channel = static_cast<std::uint32_t>(std::max(0, d.which({"r", "g", "b", "a"})));
  decode_result(d, f);
  const ImageOperand image = image_operand(d, d.operand(1));
  f.coordinates = image.coordinates, f.sampler = image.sampler;
  if (static_cast<int>(f.coordinates.size()) < coordinates_of(f.geometry) + (is_array(f.geometry) ? 1 : 0))
    d.fail("too few coordinates in");
  decode_rest(d, f);
  Op& op = d.emit(run_fetch, Kind::load_global);
  op.use = Use::strict;
  op.a = image.handle;
  op.flags = image.variable ? 0x40 : 0;
  op.aux = d.own(std::move(f));
}

void run_istypep(Warp& w, const Op& op) {
  const TextureTable& t = w.block->cluster->launch->memory->images;
  each_lane(w, [&](int l) {
    const u64 handle = w.value(op.a, 8, l);
    w.set(op.d, 3, l, op.imm == 0 ? t.textures.contains(handle) : op.imm == 2 && t.surfaces.contains(handle));
  });
}
void decode_istypep(Decoder& d) {
  const int what = d.which({"texref", "samplerref", "surfref"});
  if (what < 0) d.unsupported();
  const Ref r = d.dst(d.operand(0), 3), a = d.src(d.operand(1), 8);
  Op& op = d.emit(run_istypep, Kind::predicate);
  op.d = r, op.a = a, op.imm = what;
}

}  // namespace

std::vector<DecodeEntry> texture_table() {
  return {{"tex", decode_fetch},
          {"tld4", decode_fetch},
          {"txq", [](Decoder& d) { decode_query(d, false); }},
          {"istypep", decode_istypep}};
}

}  // namespace kiln::emulator::ptx
