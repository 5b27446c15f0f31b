// Textures and surfaces: values against the formulas of the CUDA C++ Programming Guide, computed here anew, and the
// findings that belong to them.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include <kiln/emulator/textures.hpp>
#include "tests/emulator/machine_support.hpp"

using namespace emulator_test;

namespace {

/// A kernel of (handle, in, out), 32 lanes; %x and %y are floats read from the input, %o four floats a lane.
std::string image_kernel(const std::string& body, const std::string& declarations = {}) {
  return std::string(kPrelude) + declarations +
         ".visible .entry k(.param .u64 p_handle, .param .u64 p_in, .param .u64 p_out)\n{\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %d<16>;\n"
         ".reg .b64 %handle, %in, %o; .reg .b32 %t; .reg .f32 %x, %y, %z;\n"
         "ld.param.u64 %handle, [p_handle]; ld.param.u64 %in, [p_in]; ld.param.u64 %o, [p_out];\n"
         "mov.u32 %t, %tid.x; mul.wide.u32 %d0, %t, 16; add.u64 %in, %in, %d0; add.u64 %o, %o, %d0;\n"
         "ld.global.f32 %x, [%in]; ld.global.f32 %y, [%in+4]; ld.global.f32 %z, [%in+8];\n" +
         body + "\nret;\n}\n";
}
const char* const kStoreTexel = "st.global.v4.b32 [%o], {%r1,%r2,%r3,%r4};";

struct ImageRun {
  Report report;
  std::vector<std::uint32_t> out;
  std::string text() const {
    std::string s;
    for (const Finding& f : report.findings) s += f.kind + ": " + f.message + "\n";
    return s;
  }
  float value(std::size_t lane, std::size_t channel = 0) const {
    return std::bit_cast<float>(out[4 * lane + channel]);
  }
};

/// A device with one image; tests fill it and make handles.
struct Device {
  GlobalMemory memory;
  std::uint64_t data = 0;
  Image image;

  void fill(
      ImageShape shape, ChannelFormat format, std::uint32_t channels, Dim3 size,
      const std::function<float(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t c)>& value) {
    image = {shape, format, channels, {{}}};
    ImageLevel& l = image.levels[0];
    const std::uint64_t texel = std::uint64_t{channel_bytes(format)} * channels;
    l = {0, size.x, size.y, size.z, (size.x * texel + 31) / 32 * 32, 0};
    l.slice_pitch = l.row_pitch * size.y;
    data = l.address = memory.allocate(l.slice_pitch * size.z, "image", 512);
    for (std::uint32_t z = 0; z < size.z; ++z)
      for (std::uint32_t y = 0; y < size.y; ++y)
        for (std::uint32_t x = 0; x < size.x; ++x)
          for (std::uint32_t c = 0; c < channels; ++c) {
            const float v = value(x, y, z, c);
            const std::uint32_t bits = format == ChannelFormat::f32
                                           ? std::bit_cast<std::uint32_t>(v)
                                           : static_cast<std::uint32_t>(static_cast<std::int32_t>(v));
            memory.write(
                l.address + z * l.slice_pitch + y * l.row_pitch + x * texel + c * channel_bytes(format),
                std::as_bytes(std::span(&bits, 1)).first(channel_bytes(format)));
          }
  }
  ImageRun run(const std::string& ptx, std::uint64_t handle, const std::vector<float>& input,
               std::uint32_t lanes = 32, std::uint32_t blocks = 1) {
    const Module module = Module::from_ptx(ptx);
    return run(module, handle, input, lanes, blocks);
  }
  ImageRun run(const Module& module, std::uint64_t handle, std::vector<float> input, std::uint32_t lanes = 32,
               std::uint32_t blocks = 1) {
    input.resize(std::size_t{4} * lanes * blocks);
    const std::uint64_t in = memory.allocate(input.size() * 4), out = memory.allocate(input.size() * 4);
    memory.write(in, std::as_bytes(std::span(input)));
    Launch l;
    l.grid = {blocks, 1, 1};
    l.block = {lanes, 1, 1};
    l.args = {bytes_of(handle), bytes_of(in), bytes_of(out)};
    ImageRun r;
    r.report = launch(memory, module, l);
    r.out.resize(input.size());
    memory.read(out, std::as_writable_bytes(std::span(r.out)));
    return r;
  }
};

float ramp(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t c) {
  return static_cast<float>(x + 10 * y + 100 * z + 1000 * c);
}
std::vector<float> coordinates(const std::function<std::array<float, 3>(int)>& f) {
  std::vector<float> v;
  for (int i = 0; i < 32; ++i)
    for (const float c : {f(i)[0], f(i)[1], f(i)[2], 0.f}) v.push_back(c);
  return v;
}
/// An index under an address mode, or -1 for the border.
int addressed(int i, int n, AddressMode mode) {
  if (mode == AddressMode::clamp) return std::min(std::max(i, 0), n - 1);
  if (mode == AddressMode::border) return i < 0 || i >= n ? -1 : i;
  while (i < 0) i += 2 * n;
  if (mode == AddressMode::wrap) return i % n;
  return i % (2 * n) < n ? i % (2 * n) : 2 * n - 1 - i % (2 * n);
}

const char* const k2d = "tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y}];";

}  // namespace

TEST_CASE("points of a 2D texture under every address mode") {
  for (const AddressMode mode :
       {AddressMode::wrap, AddressMode::clamp, AddressMode::mirror, AddressMode::border})
    for (const bool normalized : {false, true}) {
      Device d;
      d.fill(ImageShape::two, ChannelFormat::f32, 1, {8, 4, 1}, ramp);
      Sampler s;
      s.address = {mode, mode, mode};
      s.normalized_coordinates = normalized;
      s.border = {-7, 0, 0, 0};
      const auto at = coordinates([&](int i) {
        const float x = static_cast<float>(i) * 0.75f - 8.f, y = static_cast<float>(i % 7) * 1.25f - 3.f;
        return normalized ? std::array{x / 8, y / 4, 0.f} : std::array{x, y, 0.f};
      });
      const ImageRun r =
          d.run(image_kernel(std::string(k2d) + kStoreTexel), create_texture(d.memory, {d.image, s}), at);
      CHECK(r.text() == "");
      const bool folds = mode == AddressMode::wrap || mode == AddressMode::mirror;
      const AddressMode used = folds && !normalized ? AddressMode::clamp : mode;
      for (int i = 0; i < 32; ++i) {
        const int x = addressed(static_cast<int>(std::floor(static_cast<float>(i) * 0.75f - 8.f)), 8, used),
                  y = addressed(static_cast<int>(std::floor(static_cast<float>(i % 7) * 1.25f - 3.f)), 4,
                                used);
        INFO("mode " << static_cast<int>(mode) << " lane " << i);
        CHECK(r.value(static_cast<std::size_t>(i)) ==
              (x < 0 || y < 0 ? -7.f : static_cast<float>(x + 10 * y)));
        CHECK(r.value(static_cast<std::size_t>(i), 3) == (x < 0 || y < 0 ? 0.f : 1.f));
      }
    }
}

TEST_CASE("linear filtering in one, two and three dimensions") {
  // Of a ramp linear interpolation gives the ramp, away from the edges.
  Device d;
  d.fill(ImageShape::three, ChannelFormat::f32, 2, {8, 8, 4}, ramp);
  Sampler s;
  s.filter = FilterMode::linear;
  const auto at = coordinates([](int i) {
    return std::array{1.f + static_cast<float>(i) * 0.1875f, 6.5f - static_cast<float>(i) * 0.125f,
                      1.f + static_cast<float>(i % 16) * 0.125f};
  });
  ImageRun r =
      d.run(image_kernel(std::string("tex.3d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y,%z,%z}];") +
                         kStoreTexel),
            create_texture(d.memory, {d.image, s}), at);
  CHECK(r.text() == "");
  for (std::size_t i = 0; i < 32; ++i) {
    const float v = at[4 * i] - 0.5f + 10 * (at[4 * i + 1] - 0.5f) + 100 * (at[4 * i + 2] - 0.5f);
    CHECK(r.value(i) == doctest::Approx(v));
    CHECK(r.value(i, 1) == doctest::Approx(v + 1000));
  }
  // Half way over the edge: clamped.
  d.fill(ImageShape::one, ChannelFormat::f32, 1, {4, 1, 1}, ramp);
  r = d.run(image_kernel(std::string("tex.1d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x}];") + kStoreTexel),
            create_texture(d.memory, {d.image, s}), coordinates([](int i) {
              return std::array{static_cast<float>(i) / 4, 0.f, 0.f};
            }));
  CHECK(r.text() == "");
  for (int i = 0; i < 32; ++i) {
    const float u = static_cast<float>(i) / 4 - 0.5f;
    CHECK(r.value(static_cast<std::size_t>(i)) == std::min(std::max(u, 0.f), 3.f));
  }
}

TEST_CASE("integers, normalized floats and fetches of linear memory") {
  Device d;
  d.fill(ImageShape::two, ChannelFormat::s8, 4, {8, 4, 1},
         [](auto x, auto y, auto, auto c) { return static_cast<float>(x + y * 8 + c * 30) - 64.f; });
  const auto at = coordinates([](int i) {
    return std::array{static_cast<float>(i % 8), static_cast<float>(i / 8), 0.f};
  });
  ImageRun r = d.run(
      image_kernel(std::string("tex.2d.v4.s32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y}];") + kStoreTexel),
      create_texture(d.memory, {d.image, {}}), at);
  CHECK(r.text() == "");
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t c = 0; c < 4; ++c)
      CHECK(static_cast<int>(r.out[4 * i + c]) == static_cast<int>(i + 30 * c) - 64);
  Sampler s;
  s.normalized_float = true;
  r = d.run(image_kernel(std::string(k2d) + kStoreTexel), create_texture(d.memory, {d.image, s}), at);
  for (std::size_t i = 0; i < 32; ++i)
    CHECK(r.value(i, 1) == static_cast<float>(static_cast<int>(i) - 34) / 127.f);

  d.fill(ImageShape::linear, ChannelFormat::u16, 1, {24, 1, 1},
         [](auto x, auto, auto, auto) { return static_cast<float>(x * 5); });
  r = d.run(
      image_kernel(std::string("mov.b32 %r9, %t; tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4}, [%handle, {%r9}];") +
                   kStoreTexel),
      create_texture(d.memory, {d.image, {}}), {});
  CHECK(r.text() == "");
  for (std::size_t i = 0; i < 32; ++i) CHECK(r.out[4 * i] == (i < 24 ? 5 * i : 0));  // outside: zero
}

TEST_CASE("layers, cubes, gathers, offsets and levels") {
  Device d;
  d.fill(ImageShape::two_layered, ChannelFormat::f32, 1, {4, 4, 5}, ramp);
  auto at = coordinates([](int i) {
    return std::array{static_cast<float>(i % 4), static_cast<float>(i / 4 % 4), 0.f};
  });
  ImageRun r =
      d.run(image_kernel(std::string("tex.a2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%t,%x,%y,%y}];") +
                         kStoreTexel),
            create_texture(d.memory, {d.image, {}}), at);
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(r.value(i) == ramp(i % 4, i / 4 % 4, std::min(i, 4u), 0));

  d.fill(ImageShape::two, ChannelFormat::f32, 2, {4, 4, 1}, ramp);
  r = d.run(
      image_kernel(
          "mov.b32 %r8, 1; mov.b32 %r9, -1; tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}|%p1, [%handle, {%x,%y}], "
          "{%r8,%r9}; @!%p1 trap; " +
          std::string(kStoreTexel)),
      create_texture(d.memory, {d.image, {}}), at);
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i)
    CHECK(r.value(i) == ramp(std::min(i % 4 + 1, 3u), i / 4 % 4 == 0 ? 0 : i / 4 % 4 - 1, 0, 0));

  at = coordinates([](int i) {
    return std::array{1.f + static_cast<float>(i % 2), 1.f + static_cast<float>(i / 16), 0.f};
  });
  r = d.run(
      image_kernel(std::string("tld4.g.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y}];") + kStoreTexel),
      create_texture(d.memory, {d.image, {}}), at);
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t x = i % 2, y = i / 16;
    CHECK(r.value(i, 0) == ramp(x, y + 1, 0, 1));
    CHECK(r.value(i, 1) == ramp(x + 1, y + 1, 0, 1));
    CHECK(r.value(i, 2) == ramp(x + 1, y, 0, 1));
    CHECK(r.value(i, 3) == ramp(x, y, 0, 1));
  }

  d.fill(ImageShape::cube, ChannelFormat::f32, 1, {2, 2, 6},
         [](auto, auto, auto z, auto) { return static_cast<float>(z); });
  at = coordinates([](int i) {
    std::array<float, 3> v{0.25f, -0.125f, 0.5f};
    v[static_cast<std::size_t>(i % 3)] = i / 3 % 2 == 0 ? 2.f : -2.f;
    return v;
  });
  r = d.run(image_kernel(std::string("tex.cube.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y,%z,%z}];") +
                         kStoreTexel),
            create_texture(d.memory, {d.image, {}}), at);
  CHECK(r.text() == "");
  for (int i = 0; i < 32; ++i)
    CHECK(r.value(static_cast<std::size_t>(i)) == static_cast<float>(2 * (i % 3) + i / 3 % 2));

  Device m;
  m.fill(ImageShape::two, ChannelFormat::f32, 1, {4, 4, 1}, [](auto...) { return 1.f; });
  const Image base = m.image;
  m.fill(ImageShape::two, ChannelFormat::f32, 1, {2, 2, 1}, [](auto...) { return 3.f; });
  Image mipmapped = base;
  mipmapped.levels.push_back(m.image.levels[0]);
  Sampler s;
  s.normalized_coordinates = true;
  s.mipmap_filter = FilterMode::linear;
  s.max_mipmap_level = 9;
  r = m.run(image_kernel(std::string("tex.level.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%x}], %y;") +
                         kStoreTexel),
            create_texture(m.memory, {mipmapped, s}), coordinates([](int i) {
              return std::array{0.5f, static_cast<float>(i) / 16, 0.f};
            }));
  CHECK(r.text() == "");
  for (int i = 0; i < 32; ++i)
    CHECK(r.value(static_cast<std::size_t>(i)) == 1.f + 2 * std::min(1.f, static_cast<float>(i) / 16));
}

TEST_CASE("surfaces: bytes, formats, edges and reductions") {
  Device d;
  d.fill(ImageShape::two, ChannelFormat::s16, 2, {8, 4, 1},
         [](auto x, auto y, auto, auto c) { return static_cast<float>(x + 8 * y + 100 * c); });
  const std::uint64_t surface = create_surface(d.memory, d.image);
  // Every texel is doubled, then read again: x counts bytes.
  const std::string place = "and.b32 %r20, %t, 7; shl.b32 %r21, %r20, 2; shr.u32 %r22, %t, 3;\n";
  ImageRun r = d.run(
      image_kernel(place + "suld.b.2d.v2.b16.trap {%h1,%h2}, [%handle, {%r21,%r22}]; add.u16 %h1, %h1, %h1;\n"
                           "sust.b.2d.v2.b16.trap [%handle, {%r21,%r22}], {%h1,%h2};\n"
                           "suld.b.2d.b32.trap %r1, [%handle, {%r21,%r22}]; st.global.u32 [%o], %r1;"),
      surface, {});
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(r.out[4 * i] == (2 * i | (i + 100) << 16));
  // Formatted: texels, converted.
  r = d.run(
      image_kernel(place +
                   "mov.b32 %r5, -70000; sust.p.2d.v4.b32.zero [%handle, {%r20,%r22}], {%t,%r5,%r5,%r5};\n"
                   "suld.b.2d.b32.trap %r1, [%handle, {%r21,%r22}]; st.global.u32 [%o], %r1;"),
      surface, {});
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(r.out[4 * i] == (i | 0x8000u << 16));
  // Outside: zero, the nearest, or a trap.
  r = d.run(image_kernel(
                place + "add.s32 %r21, %r21, 4; suld.b.2d.b32.zero %r1, [%handle, {%r21,%r22}];\n"
                        "suld.b.2d.b32.clamp %r2, [%handle, {%r21,%r22}]; st.global.v2.u32 [%o], {%r1,%r2};"),
            surface, {});
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(r.out[4 * i] == (i % 8 == 7 ? 0 : (i + 1) | 0x80000000u));
    CHECK(r.out[4 * i + 1] == ((i % 8 == 7 ? i : i + 1) | 0x80000000u));
  }
  r = d.run(
      image_kernel(
          place +
          "add.s32 %r21, %r21, 4; suld.b.2d.b32.trap %r1, [%handle, {%r21,%r22}]; st.global.u32 [%o], %r1;"),
      surface, {});
  CHECK(r.text().find("out-of-bounds") != std::string::npos);

  d.fill(ImageShape::one, ChannelFormat::u32, 1, {8, 1, 1}, [](auto...) { return 5.f; });
  const std::uint64_t counters = create_surface(d.memory, d.image);
  r = d.run(image_kernel(
                "and.b32 %r20, %t, 7; shl.b32 %r21, %r20, 2; sured.b.add.1d.u32.trap [%handle, {%r21}], %t;\n"
                "sured.p.max.1d.b32.clamp [%handle, {%t}], %t; bar.sync 0;\n"
                "suld.b.1d.b32.trap %r1, [%handle, {%r21}]; st.global.u32 [%o], %r1;"),
            counters, {});
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(r.out[4 * i] == 5 + 4 * (i % 8) + 48);
}

TEST_CASE("references of the module, samplers of their own, queries") {
  Device d;
  d.fill(ImageShape::two, ChannelFormat::f32, 1, {8, 4, 1}, ramp);
  const auto at = coordinates([](int i) {
    return std::array{static_cast<float>(i % 8), static_cast<float>(i / 8), 0.f};
  });
  const Module module = Module::from_ptx(image_kernel(
      "tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [image, {%x,%y}]; mov.u64 %d1, image;\n"
      "tex.2d.v4.f32.f32 {%r2,%r5,%r6,%r7}, [%d1, {%x,%y}]; txq.width.b32 %r3, [image]; suq.height.b32 %r4, [%handle];" +
          std::string(kStoreTexel),
      ".global .texref image;\n"));
  bind_texture(d.memory, module, "image", {d.image, {}});
  ImageRun r = d.run(module, create_surface(d.memory, d.image), at);
  CHECK(r.text() == "");
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(r.value(i) == ramp(i % 8, i / 8, 0, 0));
    CHECK(r.value(i, 1) == ramp(i % 8, i / 8, 0, 0));
    CHECK(r.out[4 * i + 2] == 8);
    CHECK(r.out[4 * i + 3] == 4);
  }
  std::string text = image_kernel(
      "tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [image, s, {%x,%y}];" + std::string(kStoreTexel),
      ".global .texref image;\n.global .samplerref s = { addr_mode_0 = wrap, addr_mode_1 = mirror, "
      "filter_mode = nearest, force_unnormalized_coords = 0 };\n");
  text.replace(text.find("sm_90a"), 6, "sm_90a, texmode_independent");
  const Module separate = Module::from_ptx(text);
  bind_texture(d.memory, separate, "image", {d.image, {}});
  r = d.run(separate, 0, coordinates([](int i) {
              return std::array{static_cast<float>(i) / 8, static_cast<float>(i) / 4, 0.f};
            }));
  CHECK(r.text() == "");
  for (int i = 0; i < 32; ++i)
    CHECK(r.value(static_cast<std::size_t>(i)) ==
          static_cast<float>(i % 8 + 10 * addressed(i, 4, AddressMode::mirror)));
}

TEST_CASE("what a texture or surface finds") {
  Device d;
  d.fill(ImageShape::two, ChannelFormat::f32, 1, {8, 4, 1}, ramp);
  const std::string fetch = image_kernel(std::string(k2d) + kStoreTexel);
  const std::uint64_t surface = create_surface(d.memory, d.image);
  const auto finds = [](const ImageRun& r, const char* kind) {
    INFO(std::string(kind) << " expected, got " << r.text());
    CHECK(r.text().find(kind) != std::string::npos);
  };
  finds(d.run(fetch, 12345, {}), "bad-handle");
  finds(d.run(fetch, surface, {}), "bad-handle");  // a surface is no texture
  finds(
      d.run(image_kernel(std::string("tex.1d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x}];") + kStoreTexel),
            create_texture(d.memory, {d.image, {}}), {}),
      "bad-handle");
  finds(d.run(image_kernel(std::string("tex.2d.v4.u32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%y}];") +
                           kStoreTexel),
              create_texture(d.memory, {d.image, {}}), {}),
        "bad-handle");
  // Texels nobody wrote; one beside them that the filter does not weigh is no matter.
  d.memory.poison(d.data + d.image.levels[0].row_pitch, 32);
  const auto at = [](float x, float y) { return coordinates([=](int) { return std::array{x, y, 0.f}; }); };
  Sampler s;
  s.filter = FilterMode::linear;
  const std::uint64_t texture = create_texture(d.memory, {d.image, s});
  CHECK(d.run(fetch, texture, at(2.5f, 0.5f)).text() == "");
  finds(d.run(fetch, texture, at(2.5f, 0.75f)), "uninitialized-read");
  // Blocks that write and read one texel; each its own is fine.
  const std::string write =
      "mov.u32 %r9, %ctaid.x; shl.b32 %r8, %r9, 4; mov.b32 %r7, 0; mul.wide.u32 %d1, %r9, 16; add.u64 %o, %o, %d1;\n";
  CHECK(
      d.run(
           image_kernel(
               write +
               "sust.b.2d.b32.trap [%handle, {%r8,%r7}], %r9; suld.b.2d.b32.trap %r1, [%handle, {%r8,%r7}]; st.global.u32 [%o], %r1;"),
           surface, {}, 1, 2)
          .text() == "");
  finds(
      d.run(
          image_kernel(
              write +
              "sust.b.2d.b32.trap [%handle, {%r8,%r7}], %r9; suld.b.2d.b32.trap %r1, [%handle, {%r7,%r7}]; st.global.u32 [%o], %r1;"),
          surface, {}, 1, 2),
      "global-race");
  // Coordinates nobody wrote; freed memory.
  finds(d.run(image_kernel(std::string("tex.2d.v4.f32.f32 {%r1,%r2,%r3,%r4}, [%handle, {%x,%f9}];") +
                           kStoreTexel),
              texture, {}),
        "uninitialized-register");
  d.memory.free(d.data);
  finds(d.run(fetch, texture, {}), "out-of-bounds");
}

TEST_CASE("images that no device has") {
  Device d;
  d.fill(ImageShape::two, ChannelFormat::f32, 1, {8, 4, 1}, ramp);
  const auto refused = [&](auto change) {
    Image image = d.image;
    change(image);
    try {
      create_surface(d.memory, image);
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  CHECK(refused([](Image&) {}) == "");
  CHECK(refused([](Image& i) { i.channels = 3; }).find("channels") != std::string::npos);
  CHECK(refused([](Image& i) { i.levels[0].row_pitch = 8; }).find("pitch") != std::string::npos);
  CHECK(refused([](Image& i) { i.levels[0].height = 99; }).find("leaves device memory") != std::string::npos);
  CHECK(refused([](Image& i) { i.levels.clear(); }).find("level") != std::string::npos);
}
