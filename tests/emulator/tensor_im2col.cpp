// im2col copies: the walk over pixels against the definition by index, what the driver and the hardware refuse, and
// kernels that load and store images.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "emulator/tensor/tma.hpp"
#include "tests/emulator/machine_support.hpp"
#include "tests/emulator/tensor_support.hpp"

using namespace emulator_test;

namespace {

TensorMapRequest image_map() {
  TensorMapRequest map;
  map.mode = TensorMapMode::im2col;
  map.type = TensorType::f16;
  map.rank = 4;
  map.address = 0x10000;
  map.dims = {64, 9, 7, 4, 0};
  map.strides = {128, 128 * 9, 128 * 63, 0};
  map.box = {8, 64, 0, 0, 0};
  map.lower_corner = {-1, -1, 0};
  map.upper_corner = {-1, -1, 0};
  return map;
}

/// Pixel `number` of the images' bounding boxes, counted from the first one of image 0, by division; `at` is where the
/// filter's corner is.
void corner_of(const TensorMapRequest& map, std::int64_t number, std::int64_t* at) {
  for (std::uint32_t i = 0; i + 2 < map.rank; ++i) {
    const std::int64_t last = static_cast<std::int64_t>(map.dims[1 + i]) - 1 + map.upper_corner[i];
    const std::int64_t count = (last - map.lower_corner[i]) / map.element_strides[1 + i] + 1;
    at[i] = map.lower_corner[i] + number % count * map.element_strides[1 + i];
    number /= count;
  }
  at[map.rank - 2] = number;
}

CopiedBytes reference_im2col(const TensorMapRequest& map, std::int64_t number, int channel,
                             const std::uint16_t* offsets) {
  CopiedBytes image;
  const std::uint32_t size = bytes_of(map.type), span = 16u << static_cast<unsigned>(map.swizzle);
  const std::uint32_t pitch = map.swizzle == Swizzle::none ? map.box[0] * size : span;
  for (std::uint32_t pixel = 0; pixel < map.box[1]; ++pixel) {
    std::int64_t at[4] = {};
    corner_of(map, number + pixel, at);
    bool inside = true;
    std::uint64_t global = map.address;
    for (std::uint32_t i = 0; i + 1 < map.rank; ++i) {
      if (i + 2 < map.rank) at[i] += offsets[i];
      inside = inside && at[i] >= 0 && at[i] < static_cast<std::int64_t>(map.dims[1 + i]);
      global += static_cast<std::uint64_t>(at[i]) * map.strides[i];
    }
    for (std::uint32_t byte = 0; byte < map.box[0] * size; ++byte) {
      const std::int64_t c = channel + static_cast<std::int64_t>(byte / size);
      const bool there = inside && c >= 0 && c < static_cast<std::int64_t>(map.dims[0]);
      const std::uint32_t to = swizzle_address(map.swizzle, pixel * pitch + byte);
      image[to] = there ? CopiedByte{false, global + static_cast<std::uint64_t>(c) * size + byte % size}
                        : CopiedByte{true, 0};
    }
  }
  return image;
}

}  // namespace

TEST_CASE("the walk over pixels equals the definition by index, every rank, swizzle, stride and edge") {
  std::mt19937 random(43);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const TensorType types[] = {TensorType::u8, TensorType::bf16, TensorType::f32, TensorType::f64};
  for (int round = 0; round < 1200; ++round) {
    TensorMapRequest map;
    map.mode = TensorMapMode::im2col;
    map.type = types[round % 4];
    map.rank = static_cast<std::uint32_t>(round / 4 % 3 + 3);
    map.swizzle = static_cast<Swizzle>(round / 12 % 4);
    const int size = static_cast<int>(bytes_of(map.type)), span = 16 << static_cast<int>(map.swizzle);
    map.box[0] =
        static_cast<std::uint32_t>(16 * pick(1, map.swizzle == Swizzle::none ? 5 : span / 16) / size);
    map.box[1] = static_cast<std::uint32_t>(pick(1, 70));
    map.dims[0] = static_cast<std::uint64_t>(pick(1, 60));
    map.address = 16 * static_cast<std::uint64_t>(pick(1, 1000));
    std::uint64_t pitch = (map.dims[0] * bytes_of(map.type) + 15) / 16 * 16;
    std::uint16_t offsets[3] = {};
    std::int64_t pixels = 1;
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      map.dims[i] = static_cast<std::uint64_t>(pick(1, 7));
      map.strides[i - 1] = pitch + 16 * static_cast<std::uint64_t>(pick(0, 1));
      pitch = map.strides[i - 1] * map.dims[i];
      if (i + 1 == map.rank) break;
      const int extent = static_cast<int>(map.dims[i]);
      map.lower_corner[i - 1] = pick(-3, extent - 1);
      map.upper_corner[i - 1] = pick(map.lower_corner[i - 1] - extent + 1, 3);
      map.element_strides[i] = static_cast<std::uint32_t>(pick(1, 3));
      offsets[i - 1] = static_cast<std::uint16_t>(pick(0, 4));
      const int last = extent - 1 + map.upper_corner[i - 1];
      pixels *= (last - map.lower_corner[i - 1]) / static_cast<int>(map.element_strides[i]) + 1;
    }
    CAPTURE(round);
    REQUIRE(check_tensor_map(map) == "");
    const std::int64_t number =
        pick(0, static_cast<int>(pixels * static_cast<std::int64_t>(map.dims[map.rank - 1])));
    const int channel = pick(-2, 4) * 16 / size;
    std::int64_t corner[4];
    corner_of(map, number, corner);
    std::vector<std::int32_t> at = {channel};
    for (std::uint32_t i = 0; i + 1 < map.rank; ++i) at.push_back(static_cast<std::int32_t>(corner[i]));
    const std::span by(offsets, map.rank - 2);
    REQUIRE(check_im2col(map, at, by) == "");
    std::vector<BoxRun> runs;
    im2col_runs(map, at, by, 0, runs);
    std::uint32_t bytes = 0;
    for (const BoxRun& run : runs) bytes += run.bytes;
    REQUIRE(bytes == box_bytes(map));
    REQUIRE((copied_by(runs) == reference_im2col(map, number, channel, offsets)));
  }
}

TEST_CASE("by hand: 64 pixels of 14 x 9 images from W = 7, H = 7 of image 4") {
  TensorMapRequest map = image_map();
  map.dims = {64, 14, 9, 64, 0};
  const std::vector<std::int32_t> at = {0, 7, 7, 4};
  const std::uint16_t none[2] = {0, 0}, one[2] = {1, 1};
  std::vector<BoxRun> runs;
  im2col_runs(map, at, none, 0, runs);
  CHECK(copied_by(runs).at(0).global == map.address + 7 * 128 + 7 * 128 * 9 + 4 * 128 * 63);
  runs.clear();
  im2col_runs(map, at, one, 0, runs);
  CHECK(copied_by(runs).at(0).global == map.address + 8 * 128 + 8 * 128 * 9 + 4 * 128 * 63);
  // The box ends at W = 12 and H = 7: pixel 6 starts the next image at its corner (-1, -1), offset to (0, 0).
  CHECK(copied_by(runs).at(6 * 16).global == map.address + 5 * 128 * 63);
}

TEST_CASE("im2col maps: each rule with the offending value") {
  const auto broken = [](const std::function<void(TensorMapRequest&)>& spoil) {
    TensorMapRequest map = image_map();
    REQUIRE(check_tensor_map(map) == "");
    spoil(map);
    return check_tensor_map(map);
  };
  CHECK(broken([](auto& m) { m.rank = 2; }) == "im2col maps need tensorRank 3 to 5");
  CHECK(broken([](auto& m) { m.box[0] = 257; }) == "channelsPerPixel = 257: must be 1 to 256");
  CHECK(broken([](auto& m) { m.box[1] = 1025; }) == "pixelsPerColumn = 1025: must be 1 to 1024");
  CHECK(broken([](auto& m) { m.lower_corner[1] = -129; }) ==
        "pixelBoxLowerCorner[1] = -129: must be -128 to 127");
  CHECK(broken([](auto& m) { m.upper_corner[0] = 128; }) ==
        "pixelBoxUpperCorner[0] = 128: must be -128 to 127");
  CHECK(broken([](auto& m) { m.upper_corner[0] = -10; }) ==
        "pixelBoxUpperCorner[0] = -10: the bounding box is empty");
  TensorMapRequest map = image_map();
  map.box[1] = 1024;
  TensorMapBytes bytes = encode_tensor_map(map);
  CHECK(decode_tensor_map(bytes) == map);
  CHECK(!replace_tensor_map_field(bytes, TensorMapField::box_dim, 0, 16));  // of tiled maps only
  const std::uint16_t far[2] = {0, 256}, none[2] = {0, 0};
  CHECK(check_im2col(map, std::vector<std::int32_t>{0, 0, 0, 0}, far) ==
        "im2col offset 256 along H: at most 255 with rank 4");
  CHECK(check_im2col(map, std::vector<std::int32_t>{0, 8, 0, 0}, none) ==
        "im2col copy at W = 8: the bounding box is from -1 to 7");
  CHECK(check_im2col(map, std::vector<std::int32_t>{4, 0, 0, 0}, none) ==
        "im2col copy at channel 4, byte 8 of the pixel: must be a multiple of 16 bytes");
}

namespace {

constexpr std::uint32_t kChannels = 8, kWidth = 5, kHeight = 4, kImages = 3;

/// f32 images of kChannels x kWidth x kHeight, value 1000 n + 100 h + 10 w + c; a 3 x 3 filter with a border of 1.
struct Images {
  GlobalMemory memory;
  std::uint64_t data = memory.allocate(kChannels * kWidth * kHeight * kImages * 4, "images");
  std::uint64_t out = memory.allocate(8192, "out"), map = memory.allocate(128);
  TensorMapRequest request;

  Images() {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < kChannels * kWidth * kHeight * kImages; ++i)
      values.push_back(value(i / (kChannels * kWidth * kHeight), i / (kChannels * kWidth) % kHeight,
                             i / kChannels % kWidth, i % kChannels));
    memory.write(data, std::as_bytes(std::span(values)));
    request.mode = TensorMapMode::im2col;
    request.type = TensorType::f32;
    request.rank = 4;
    request.address = data;
    request.dims = {kChannels, kWidth, kHeight, kImages, 0};
    request.strides = {kChannels * 4, kChannels * kWidth * 4, kChannels * kWidth * kHeight * 4, 0};
    request.box = {8, 32, 0, 0, 0};
    request.lower_corner = {-1, -1, 0};
    request.upper_corner = {-1, -1, 0};
  }
  static float value(std::uint32_t n, std::uint32_t h, std::uint32_t w, std::uint32_t c) {
    return static_cast<float>(1000 * n + 100 * h + 10 * w + c);
  }
  Report run(const std::string& body, Policy policy) {
    memory.write(map, encode_tensor_map(request));
    Launch l;
    l.block = {32, 1, 1};
    l.policy = policy;
    l.args = {bytes_of(map), bytes_of(out)};
    return launch(memory, Module::from_ptx(shared_kernel(body)), l);
  }
  std::vector<float> results(std::size_t count) const {
    std::vector<float> got(count);
    memory.read(out, std::as_writable_bytes(std::span(got)));
    return got;
  }
};

/// Thread 0 loads 32 pixels of 32 bytes from image 1 with the filter's corner at (W, H), and each thread stores one.
std::string load_pixels(const std::string& corner, const std::string& offsets,
                        const std::string& mode = "im2col") {
  return "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n"
         "mov.u32 %r5, 0; mov.u32 %r6, 1; mov.u16 %h1, " +
         offsets.substr(0, 1) + "; mov.u16 %h2, " + offsets.substr(1) +
         ";\n@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;\n"
         "@%p1 cp.async.bulk.tensor.4d.shared::cluster.global." +
         mode + ".mbarrier::complete_tx::bytes [%r3], [%in, {%r5, " + corner + ", %r6}], [%r2]" +
         (mode == "im2col" ? ", {%h1, %h2}" : "") +
         ";\n"
         "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n"
         "mul.lo.u32 %r9, %t, 32; add.u32 %r9, %r9, %r3; mul.wide.u32 %d1, %t, 32; add.u64 %d1, %d1, %out;\n"
         "ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [%r9]; ld.shared.v4.f32 {%f5,%f6,%f7,%f8}, [%r9+16];\n"
         "st.global.v4.f32 [%d1], {%f1,%f2,%f3,%f4}; st.global.v4.f32 [%d1+16], {%f5,%f6,%f7,%f8};\n";
}

}  // namespace

TEST_CASE("a kernel loads the columns of a convolution") {
  for (const Policy policy : kPolicies)
    for (const auto& [r, s] : {std::pair{0, 0}, {1, 2}, {2, 0}}) {
      Images images;
      images.request.oob_fill = r == 2 ? OobFill::nan : OobFill::zeros;
      const Report report = images.run(load_pixels("-1, -1", std::to_string(s) + std::to_string(r)), policy);
      for (const Finding& f : report.findings) FAIL_CHECK(f.kind << ": " << f.message);
      const auto got = images.results(32 * 8);
      for (int p = 0; p < 32; ++p)
        for (int c = 0; c < 8; ++c) {
          // Output pixel p of the same size as the image; 20 of them are an image.
          const int n = 1 + p / 20, h = p % 20 / 5 - 1 + r, w = p % 5 - 1 + s;
          const float have = got[static_cast<std::size_t>(p * 8 + c)];
          CAPTURE(p);
          if (h >= 0 && h < 4 && w >= 0 && w < 5)
            CHECK(have == 1000.F * static_cast<float>(n) + static_cast<float>(100 * h + 10 * w + c));
          else if (r == 2)
            CHECK(std::isnan(have));
          else
            CHECK(have == 0);
        }
    }
}

TEST_CASE("a store without offsets writes the columns back") {
  const std::string body =
      "mul.lo.u32 %r9, %t, 32; add.u32 %r9, %r9, %r3; cvt.rn.f32.u32 %f1, %t;\n"
      "st.shared.v4.f32 [%r9], {%f1,%f1,%f1,%f1}; st.shared.v4.f32 [%r9+16], {%f1,%f1,%f1,%f1};\n"
      "fence.proxy.async; bar.sync 0; mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
      "@%p1 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%in, {%r5, %r5, %r5, %r6}], "
      "[%r3];\n@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;\n";
  for (const Policy policy : kPolicies) {
    Images images;
    images.request.lower_corner = images.request.upper_corner = {0, 0, 0};
    const Report report = images.run(body, policy);
    for (const Finding& f : report.findings) FAIL_CHECK(f.kind << ": " << f.message);
    std::vector<float> got(kChannels * kWidth * kHeight * kImages);
    images.memory.read(images.data, std::as_writable_bytes(std::span(got)));
    for (std::uint32_t i = 0; i < got.size(); ++i) {
      const std::uint32_t pixel = i / 8;
      CHECK(got[i] == (pixel >= 20 && pixel < 52
                           ? static_cast<float>(pixel - 20)
                           : Images::value(pixel / 20, pixel / 5 % 4, pixel % 5, i % 8)));
    }
  }
}

TEST_CASE("mistakes with im2col copies") {
  const auto kind = [](const std::string& body, TensorMapMode mode = TensorMapMode::im2col) {
    Images images;
    images.request.mode = mode;
    if (mode == TensorMapMode::tiled) images.request.box = {8, 4, 4, 2, 0};
    const Report report = images.run(body, Policy::eager);
    REQUIRE(report.findings.size() >= 1);
    return report.findings[0].kind + ": " + report.findings[0].message;
  };
  CHECK(kind(load_pixels("-2, -1", "00")) ==
        "bad-coordinates: im2col copy at W = -2: the bounding box is from -1 to 3");
  CHECK(kind(load_pixels("-1, -1", "00", "tile")) ==
        "bad-tensor-map: a copy in tiled mode with an im2col map");
  CHECK(kind(load_pixels("-1, -1", "00"), TensorMapMode::tiled) ==
        "bad-tensor-map: an im2col copy with a tiled map");
}
