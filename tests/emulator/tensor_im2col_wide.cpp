// im2col::w and im2col::w::128: the walk along W against the definition by index, what is refused, and kernels that load
// with halos. That halo pixels are those the walk comes to next, and where they lie, is read out of the ISA's text and of
// what tcgen05.cp.4x256b takes; its figures cannot be read here.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>

#include "emulator/tensor/tma.hpp"
#include "tests/emulator/machine_support.hpp"
#include "tests/emulator/tensor_support.hpp"

using namespace emulator_test;

namespace {

/// W and the image of pixel `number` of the walk.
std::pair<std::int64_t, std::int64_t> pixel(const TensorMapRequest& map, const std::vector<std::int32_t>& at,
                                            int offset, std::int64_t number) {
  const std::int64_t step = map.element_strides[1], low = map.lower_corner[0] + offset,
                     last = static_cast<std::int64_t>(map.dims[1]) - 1 + map.upper_corner[0] + offset,
                     start = at[1] + offset, image = at[map.rank - 1];
  const std::int64_t in_first = (last - start) / step + 1, in_others = (last - low) / step + 1;
  if (number < in_first) return {start + number * step, image};
  number -= in_first;
  return {low + number % in_others * step, image + 1 + number / in_others};
}

/// Pixels of the walk in the order of shared memory.
std::vector<std::int64_t> order(const TensorMapRequest& map, int halo) {
  std::vector<std::int64_t> pixels;
  const int main = map.mode == TensorMapMode::im2col_w ? static_cast<int>(map.box[1]) : 128;
  for (int i = 0; i < main; ++i) pixels.push_back(i);
  for (int i = 0; i < halo; ++i) {
    if (map.mode == TensorMapMode::im2col_w)
      pixels.push_back(main + i);
    else
      for (const int group : {0, 1, 2, 3}) pixels.push_back(32 * group + 32 + i);
  }
  return pixels;
}

CopiedBytes reference_im2col_w(const TensorMapRequest& map, const std::vector<std::int32_t>& at, int halo,
                               int offset) {
  CopiedBytes image;
  const std::uint32_t size = bytes_of(map.type), pitch = swizzle_span(map.swizzle);
  std::uint32_t row = 0;
  for (const std::int64_t number : order(map, halo)) {
    const auto [w, n] = pixel(map, at, offset, number);
    std::int64_t where[5] = {0, w, at[2], at[3], 0};
    where[map.rank - 1] = n;
    bool inside = true;
    std::uint64_t global = map.address;
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      inside = inside && where[i] >= 0 && where[i] < static_cast<std::int64_t>(map.dims[i]);
      global += static_cast<std::uint64_t>(where[i]) * map.strides[i - 1];
    }
    for (std::uint32_t byte = 0; byte < map.box[0] * size; ++byte) {
      const std::int64_t c = at[0] + static_cast<std::int64_t>(byte / size);
      const bool there = inside && c >= 0 && c < static_cast<std::int64_t>(map.dims[0]);
      image[swizzle_address(map.swizzle, row * pitch + byte)] =
          there ? CopiedByte{false, global + static_cast<std::uint64_t>(c) * size + byte % size}
                : CopiedByte{true, 0};
    }
    ++row;
  }
  return image;
}

TensorMapRequest wide_map(TensorMapMode mode) {
  TensorMapRequest map;
  map.mode = mode;
  map.type = TensorType::f16;
  map.rank = 4;
  map.address = 0x10000;
  map.dims = {64, 9, 7, 40, 0};
  map.strides = {128, 128 * 9, 128 * 63, 0};
  map.box = {32, 20, 0, 0, 0};
  map.swizzle = Swizzle::b64;
  return map;
}

}  // namespace

TEST_CASE("the walk along W equals the definition by index, every rank, swizzle, stride, halo and edge") {
  std::mt19937 random(47);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const TensorType types[] = {TensorType::u8, TensorType::bf16, TensorType::f32};
  const Swizzle swizzles[] = {Swizzle::b64, Swizzle::b128, Swizzle::b128_atom32};
  for (int round = 0; round < 600; ++round) {
    TensorMapRequest map = wide_map(round % 2 == 0 ? TensorMapMode::im2col_w : TensorMapMode::im2col_w128);
    map.type = types[round / 2 % 3];
    map.rank = static_cast<std::uint32_t>(round / 6 % 3 + 3);
    map.swizzle = swizzles[round / 18 % 3];
    const auto size = static_cast<int>(bytes_of(map.type));
    map.box[0] =
        static_cast<std::uint32_t>(16 * pick(1, static_cast<int>(swizzle_span(map.swizzle)) / 16) / size);
    map.box[1] = static_cast<std::uint32_t>(pick(1, 70));
    map.dims[0] = static_cast<std::uint64_t>(pick(1, 60));
    std::uint64_t pitch = (map.dims[0] * bytes_of(map.type) + 15) / 16 * 16;
    std::vector<std::int32_t> at(5);
    at[0] = 16 / size * pick(-1, 2);
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      map.dims[i] = static_cast<std::uint64_t>(pick(1, 7));
      map.strides[i - 1] = pitch + 16 * static_cast<std::uint64_t>(pick(0, 1));
      pitch = map.strides[i - 1] * map.dims[i];
      at[i] = pick(-1, static_cast<int>(map.dims[i]));
    }
    const int extent = static_cast<int>(map.dims[1]);
    map.lower_corner[0] = pick(-3, extent - 1);
    map.upper_corner[0] = pick(map.lower_corner[0] - extent + 1, 3);
    map.element_strides[1] = static_cast<std::uint32_t>(pick(1, 3));
    at[1] = pick(map.lower_corner[0] - 2, extent - 1 + map.upper_corner[0]);
    const std::uint16_t info[2] = {static_cast<std::uint16_t>(pick(0, 5)),
                                   static_cast<std::uint16_t>(pick(0, 3))};
    CAPTURE(round);
    REQUIRE(check_tensor_map(map) == "");
    REQUIRE(decode_tensor_map(encode_tensor_map(map)) == map);
    const CopiedBytes want = reference_im2col_w(map, at, info[0], info[1]);
    const std::size_t rows = order(map, info[0]).size();
    REQUIRE(add_halo(map, info) == "");
    const std::span coordinates(at.data(), map.rank);
    REQUIRE(check_im2col_wide(map, coordinates) == "");
    std::vector<BoxRun> runs;
    im2col_wide_runs(map, coordinates, info, 0, runs);
    REQUIRE(copied_by(runs) == want);
    CHECK(box_bytes(map) == rows * map.box[0] * bytes_of(map.type));
    CHECK(box_footprint(map) == rows * swizzle_span(map.swizzle));
  }
}

TEST_CASE("im2col::w maps and copies: each rule with the offending value") {
  const auto broken = [](TensorMapMode mode, const std::function<void(TensorMapRequest&)>& spoil) {
    TensorMapRequest map = wide_map(mode);
    REQUIRE(check_tensor_map(map) == "");
    spoil(map);
    return check_tensor_map(map);
  };
  const auto w = TensorMapMode::im2col_w, w128 = TensorMapMode::im2col_w128;
  for (const Swizzle s : {Swizzle::none, Swizzle::b32, Swizzle::b128_atom32_flip8, Swizzle::b128_atom64})
    CHECK(broken(w, [s](auto& m) { m.swizzle = s, m.box[0] = 16; }) ==
          "swizzle must be 64B, 128B or 128B with atoms of 32 bytes in im2col::w maps");
  CHECK(broken(w, [](auto& m) { m.box[1] = 1025; }) == "pixelsPerColumn = 1025: must be 1 to 1024");
  CHECK(broken(w128, [](auto& m) { m.box[1] = 1025; }) == "");  // not looked at
  CHECK(broken(w, [](auto& m) { m.lower_corner[0] = -32769; }) ==
        "pixelBoxLowerCorner[0] = -32769: must be -32768 to 32767");
  CHECK(broken(w128, [](auto& m) { m.upper_corner[0] = -9; }) ==
        "pixelBoxUpperCorner[0] = -9: the bounding box is empty");
  CHECK(broken(w, [](auto& m) { m.rank = 2; }) == "im2col maps need tensorRank 3 to 5");
  const auto halo = [](TensorMapMode mode, std::uint16_t a, std::uint16_t b) {
    TensorMapRequest map = wide_map(mode);
    const std::uint16_t info[2] = {a, b};
    return add_halo(map, info);
  };
  CHECK(halo(w, 511, 31) == "");
  CHECK(halo(w, 512, 0) == "wHalo = 512: must be less than 512");
  CHECK(halo(w128, 31, 0) == "");
  CHECK(halo(w128, 32, 0) == "wHalo = 32: must be less than 32");
  CHECK(halo(w, 0, 32) == "wOffset = 32: must be less than 32");
  const TensorMapRequest map = wide_map(w);
  CHECK(check_im2col_wide(map, std::vector<std::int32_t>{0, 9, 0, 0}) ==
        "im2col copy at W = 9: the bounding box ends at 8");
  CHECK(check_im2col_wide(map, std::vector<std::int32_t>{4, 0, 0, 0}) ==
        "im2col copy at channel 4, byte 8 of the pixel: must be a multiple of 16 bytes");
}

namespace {

/// f32 images of 16 channels, 5 x 3 pixels, `kImages` of them; the value is the element's number.
constexpr std::uint32_t kWalkChannels = 16, kWalkWidth = 5, kWalkHeight = 3, kWalkImages = 40;

struct Loaded {
  Report report;
  std::vector<float> rows;  ///< [row][channel]
};
/// One thread loads from (W 3, H 1, image 2) on; `bytes` are expected. Rows go out as they lie, unswizzled.
Loaded load_walk(TensorMapMode map_mode, const std::string& mode, const std::string& info, std::uint32_t rows,
                 Policy policy, const std::string& target = "sm_100a", std::uint32_t bytes = 0) {
  GlobalMemory memory;
  std::vector<float> values(kWalkChannels * kWalkWidth * kWalkHeight * kWalkImages);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::uint64_t in = memory.allocate(values.size() * 4, "images"), map = memory.allocate(128),
                      out = memory.allocate(rows * 64, "out");
  memory.write(in, std::as_bytes(std::span(values)));
  TensorMapRequest request;
  request.mode = map_mode;
  request.type = TensorType::f32;
  request.rank = 4;
  request.address = in;
  request.dims = {kWalkChannels, kWalkWidth, kWalkHeight, kWalkImages, 0};
  request.strides = {64, 64 * kWalkWidth, 64 * kWalkWidth * kWalkHeight, 0};
  request.box = {16, 24, 0, 0, 0};
  request.swizzle = Swizzle::b64;
  memory.write(map, encode_tensor_map(request));
  const std::string ptx =
      ".version 9.0\n.target " + target +
      "\n.address_size 64\n.visible .entry k(.param .u64 p_map, .param .u64 p_out)\n{\n"
      ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
      ".shared .align 1024 .b8 s[12288]; .shared .align 8 .b64 bar;\n"
      "ld.param.u64 %d1, [p_map]; ld.param.u64 %d2, [p_out]; mov.u32 %r1, s; mov.u32 %r2, bar; mov.u32 %r3, %tid.x;\n"
      "setp.ne.u32 %p1, %r3, 0; @%p1 bra W; mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], " +
      std::to_string(bytes != 0 ? bytes : rows * 64) +
      ";\nmov.u32 %r4, 0; mov.u32 %r5, 3; mov.u32 %r6, 1; mov.u32 %r7, 2; mov.u16 %h1, 1;\n"
      "cp.async.bulk.tensor.4d.shared::cta.global." +
      mode + ".mbarrier::complete_tx::bytes [%r1], [%d1, {%r4,%r5,%r6,%r7}], [%r2], " + info +
      ";\nW: bar.sync 0;\nT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra T;\n"
      "mov.u32 %r8, %r3;\nL: setp.ge.u32 %p3, %r8, " +
      std::to_string(rows * 16) +
      "; @%p3 bra E; shl.b32 %r9, %r8, 2; shr.u32 %r10, %r9, 3; and.b32 %r10, %r10, 48; xor.b32 %r11, %r9, %r10;\n"
      "add.u32 %r11, %r11, %r1; ld.shared.u32 %r12, [%r11]; cvt.u64.u32 %d3, %r9; add.u64 %d3, %d3, %d2;\n"
      "st.global.u32 [%d3], %r12; add.u32 %r8, %r8, 32; bra L;\nE: ret;\n}\n";
  Launch l;
  l.block = {32, 1, 1};
  l.policy = policy;
  l.args = {bytes_of(map), bytes_of(out)};
  Loaded loaded;
  loaded.report = launch(memory, Module::from_ptx(ptx), l);
  loaded.rows.resize(rows * 16);
  memory.read(out, std::as_writable_bytes(std::span(loaded.rows)));
  return loaded;
}

}  // namespace

TEST_CASE("a kernel loads pixels along W with their halo") {
  for (const Policy policy : kPolicies)
    for (const bool fixed : {false, true}) {
      const std::uint32_t rows = fixed ? 128 + 4 * 2 : 24 + 2;
      const Loaded o = load_walk(fixed ? TensorMapMode::im2col_w128 : TensorMapMode::im2col_w,
                                 fixed ? "im2col::w::128" : "im2col::w", "{2, %h1}", rows, policy);
      for (const Finding& f : o.report.findings) FAIL_CHECK(f.kind << ": " << f.message);
      for (std::uint32_t r = 0; r < rows; ++r) {
        // The first pixel is at W = 3, two of image 2 are left in the box; the offset of 1 moves all to the right.
        const std::uint32_t main = fixed ? 128 : rows, halo = r - main;
        const std::uint32_t number = r < main ? r : 32 * (halo % 4) + 32 + halo / 4;
        const std::uint32_t w = (number + 3) % kWalkWidth + 1, image = 2 + (number + 3) / kWalkWidth;
        for (std::uint32_t c = 0; c < kWalkChannels; ++c)
          REQUIRE(o.rows[r * 16 + c] ==
                  (w < kWalkWidth
                       ? static_cast<float>(((image * kWalkHeight + 1) * kWalkWidth + w) * kWalkChannels + c)
                       : 0.0F));
      }
    }
}

TEST_CASE("mistakes with im2col::w copies") {
  const auto kind = [](TensorMapMode map, const std::string& mode, const std::string& info,
                       std::uint32_t bytes = 0) {
    const Loaded o = load_walk(map, mode, info, 26, Policy::lazy, "sm_100a", bytes);
    REQUIRE(o.report.findings.size() >= 1);
    return o.report.findings[0].kind + ": " + o.report.findings[0].message;
  };
  const auto w = TensorMapMode::im2col_w, w128 = TensorMapMode::im2col_w128;
  CHECK(kind(w128, "im2col::w", "{2, %h1}") ==
        "bad-tensor-map: an im2col::w copy with an im2col::w::128 map");
  CHECK(kind(w, "im2col", "{2, %h1}") == "bad-tensor-map: an im2col copy with an im2col::w map");
  CHECK(kind(w, "im2col::w", "{512, 0}") == "bad-coordinates: wHalo = 512: must be less than 512");
  CHECK(kind(w, "im2col::w", "{0, 32}") == "bad-coordinates: wOffset = 32: must be less than 32");
  // The halo counts on the mbarrier.
  CHECK(kind(w, "im2col::w", "{2, %h1}", 24 * 64) ==
        "transaction-count: mbarrier at shared address 13312 has all arrivals, but 128 more bytes came than "
        "expected");
  CHECK_THROWS_AS(load_walk(w, "im2col::w", "{2, %h1}", 26, Policy::eager, "sm_90a"), Error);
}
