// Tensor maps: the driver's rules, the walk over a box against a per-element reference, and reductions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "emulator/tensor/numeric.hpp"
#include "emulator/tensor/tma.hpp"
#include "tests/emulator/tensor_support.hpp"

namespace {

using namespace emulator_test;

TensorMapRequest plain_map() {
  TensorMapRequest map;
  map.type = TensorType::bf16;
  map.rank = 3;
  map.address = 0x10000;
  map.dims = {128, 64, 8, 0, 0};
  map.strides = {256, 256 * 64, 0, 0};
  map.box = {64, 32, 1, 1, 1};
  map.swizzle = Swizzle::b128;
  return map;
}

/// Element by element, from the definition.
CopiedBytes reference_tile(const TensorMapRequest& map, const std::vector<std::int32_t>& at,
                           std::uint32_t shared) {
  CopiedBytes image;
  const std::uint32_t size = bytes_of(map.type);
  std::vector<std::uint32_t> count;
  std::uint32_t total = 1;
  for (std::uint32_t i = 0; i < map.rank; ++i) {
    const std::uint32_t stride = i == 0 ? 1 : map.element_strides[i];
    std::uint32_t visits = 0;
    for (std::uint32_t x = 0; x < map.box[i]; x += stride) ++visits;
    count.push_back(visits);
    total *= visits;
  }
  for (std::uint32_t index = 0; index < total; ++index) {
    std::uint32_t rest = index;
    CopiedByte source{false, map.address};
    for (std::uint32_t i = 0; i < map.rank; ++i) {
      const std::int64_t position =
          at[i] + static_cast<std::int64_t>(rest % count[i]) * (i == 0 ? 1 : map.element_strides[i]);
      rest /= count[i];
      source.oob = source.oob || position < 0 || position >= static_cast<std::int64_t>(map.dims[i]);
      source.global += static_cast<std::uint64_t>(position) * (i == 0 ? size : map.strides[i - 1]);
    }
    for (std::uint32_t byte = 0; byte < size; ++byte) {
      // Under a swizzle each row of the box starts a new span.
      const std::uint32_t columns = map.box[0], span = 16u << static_cast<unsigned>(map.swizzle);
      const std::uint32_t pitch = map.swizzle == Swizzle::none ? columns * size : span;
      std::uint32_t address = shared + index / columns * pitch + index % columns * size + byte;
      const std::uint32_t row = (address / 128) % 8;
      if (map.swizzle == Swizzle::b128) address ^= row * 16;
      if (map.swizzle == Swizzle::b64) address ^= (row % 4) * 16;
      if (map.swizzle == Swizzle::b32) address ^= (row % 2) * 16;
      image[address] = source.oob ? CopiedByte{true, 0} : CopiedByte{false, source.global + byte};
    }
  }
  return image;
}

}  // namespace

TEST_CASE("box walk equals the per-element definition, every rank, swizzle and edge") {
  std::mt19937 random(41);
  const auto pick = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random()) % (high - low + 1);
  };
  const TensorType types[] = {TensorType::u8, TensorType::bf16, TensorType::f32, TensorType::f64};
  for (int round = 0; round < 1500; ++round) {
    TensorMapRequest map;
    map.type = types[round % 4];
    map.rank = static_cast<std::uint32_t>(round / 4) % 5 + 1;
    map.swizzle = static_cast<Swizzle>(round / 20 % 4);
    const std::uint32_t size = bytes_of(map.type), span = 16u << static_cast<unsigned>(map.swizzle);
    const std::uint32_t inner_bytes =
        map.swizzle == Swizzle::none ? 16 * pick(1, 9) : 16 * pick(1, span / 16);
    map.box = {inner_bytes / size, 1, 1, 1, 1};
    map.dims = {pick(1, 100), 1, 1, 1, 1};
    map.address = 16 * pick(1, 1000);
    std::uint64_t pitch = (map.dims[0] * size + 15) / 16 * 16;
    for (std::uint32_t i = 1; i < map.rank; ++i) {
      map.box[i] = pick(1, i < 3 ? 9 : 3);
      map.dims[i] = pick(1, 12);
      map.strides[i - 1] = pitch + 16 * pick(0, 2);
      if (random() % 4 == 0) map.element_strides[i] = pick(1, 3);
      pitch = map.strides[i - 1] * map.dims[i];
    }
    REQUIRE(check_tensor_map(map) == "");
    std::vector<std::int32_t> at;
    for (std::uint32_t i = 0; i < map.rank; ++i) {
      at.push_back(static_cast<std::int32_t>(pick(0, static_cast<std::uint32_t>(map.dims[i]) + 8)) - 6);
    }
    const std::uint32_t shared = 128 * pick(0, 16);
    std::vector<BoxRun> runs;
    box_runs(map, at, shared, runs);
    const auto want = reference_tile(map, at, shared);
    const CopiedBytes got = copied_by(runs);
    std::uint32_t bytes = 0;
    for (const BoxRun& run : runs) {
      bytes += run.bytes;
      REQUIRE(run.bytes > 0);
    }
    CAPTURE(round);
    REQUIRE(bytes == box_bytes(map));
    REQUIRE(got.size() == bytes);  // no byte twice
    REQUIRE((got == want));
  }
}

TEST_CASE("box walk merges what is contiguous") {
  TensorMapRequest map = plain_map();
  map.swizzle = Swizzle::none;
  map.box = {128, 16, 1, 1, 1};
  std::vector<BoxRun> runs;
  box_runs(map, std::vector<std::int32_t>{0, 8, 2}, 256, runs);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].bytes == 128 * 2 * 16);
  CHECK(runs[0].global == map.address + 8 * 256 + 2 * 256 * 64);
  CHECK(runs[0].shared == 256);

  // Whole spans of a swizzle are not taken apart.
  map.swizzle = Swizzle::b128;
  map.box = {64, 16, 1, 1, 1};
  runs.clear();
  box_runs(map, std::vector<std::int32_t>{0, 8, 2}, 1024, runs);
  REQUIRE(runs.size() == 16);
  CHECK(runs[1].bytes == 128);
  CHECK(runs[1].shared == 1024 + 128);
  CHECK(runs[1].swizzle == Swizzle::b128);
}

TEST_CASE("a store ends on 16 bytes; a narrow box under a swizzle takes whole spans") {
  TensorMapRequest map = plain_map();
  map.type = TensorType::f32;
  map.rank = 2;
  map.dims = {19, 4, 1, 1, 1};
  map.strides[0] = 96;
  map.box = {16, 1, 1, 1, 1};
  const auto inside = [&](bool store) {
    std::vector<BoxRun> runs;
    box_runs(map, std::vector<std::int32_t>{4, 1}, 0, runs, store);
    std::uint32_t bytes = 0;
    for (const BoxRun& run : runs) bytes += run.oob ? 0 : run.bytes;
    return bytes;
  };
  CHECK(inside(false) == 15 * 4);
  CHECK(inside(true) == 16 * 4);
  map.box = {4, 8, 1, 1, 1};
  map.swizzle = Swizzle::b64;
  CHECK(box_bytes(map) == 16 * 8);
  CHECK(box_footprint(map) == 64 * 8);
}

TEST_CASE("coordinates that the hardware refuses are named") {
  const TensorMapRequest map = plain_map();  // 2-byte elements
  const auto check = [&](std::int32_t x, std::int32_t y, bool store) {
    return check_coordinates(map, std::vector<std::int32_t>{x, y, 0}, store);
  };
  CHECK(check(8, 3, true) == "");
  CHECK(check(-8, -3, false) == "");
  CHECK(check(5, 0, false) ==
        "tensor copy at innermost coordinate 5, byte 10 of the row: must be a multiple of 16 bytes");
  CHECK(check(0, -1, true) == "tensor store at coordinate -1: must not be negative");
}

TEST_CASE("tensor maps round-trip, and stray bytes are no map") {
  const TensorMapRequest map = plain_map();
  TensorMapBytes bytes = encode_tensor_map(map);
  const auto back = decode_tensor_map(bytes);
  REQUIRE(back);
  CHECK(back->dims == map.dims);
  CHECK(back->strides == map.strides);
  CHECK(back->swizzle == map.swizzle);
  CHECK(back->address == map.address);
  CHECK(encode_tensor_map(*back) == bytes);
  bytes[0] = std::byte{0};
  CHECK(!decode_tensor_map(bytes));
  CHECK(!decode_tensor_map(TensorMapBytes{}));
}

TEST_CASE("a tensor map keeps its address when bit 21 of its second word is cleared") {
  // As CUTLASS does to maps of small tensors, for drivers up to 13.1.
  for (const std::uint64_t address : {0xffffffff00ull, 0x200000ull, 0x100000ull}) {
    CAPTURE(address);
    TensorMapRequest map = plain_map();
    map.address = address;
    TensorMapBytes bytes = encode_tensor_map(map);
    bytes[10] &= std::byte{0xdf};
    const auto back = decode_tensor_map(bytes);
    REQUIRE(back);
    CHECK(back->address == address);
    CHECK(encode_tensor_map(*back) == encode_tensor_map(map));
    // A new address replaces the kept bit too.
    REQUIRE(replace_tensor_map_field(bytes, TensorMapField::global_address, 0, 0x10000));
    CHECK(decode_tensor_map(bytes)->address == 0x10000);
  }
}

TEST_CASE("tensor maps: each rule of the driver is enforced with the offending value") {
  struct Case {
    std::function<void(TensorMapRequest&)> spoil;
    const char* message;
  };
  const Case cases[] = {
      {[](auto& m) { m.rank = 0; }, "tensorRank = 0: must be 1 to 5"},
      {[](auto& m) { m.rank = 6; }, "tensorRank = 6: must be 1 to 5"},
      {[](auto& m) { m.address = 0x10008; }, "globalAddress must be aligned to 16 bytes"},
      {[](auto& m) { m.dims[1] = 0; }, "globalDim[1] = 0: must be 1 to 2^32"},
      {[](auto& m) { m.dims[0] = (1ull << 32) + 1; }, "globalDim[0] = 4294967297: must be 1 to 2^32"},
      {[](auto& m) { m.strides[0] = 264; }, "globalStrides[0] = 264: must be a multiple of 16 bytes"},
      {[](auto& m) { m.strides[1] = 1ull << 40; },
       "globalStrides[1] = 1099511627776: must be less than 2^40"},
      {[](auto& m) { m.box[1] = 257; }, "boxDim[1] = 257: must be 1 to 256"},
      {[](auto& m) { m.box[2] = 0; }, "boxDim[2] = 0: must be 1 to 256"},
      {[](auto& m) { m.box[0] = 4; }, "boxDim[0] spans 8 bytes: must be a multiple of 16"},
      {[](auto& m) { m.box[0] = 72; }, "boxDim[0] spans 144 bytes: at most 128 with this swizzle"},
      {[](auto& m) { m.element_strides[1] = 9; }, "elementStrides[1] = 9: must be 1 to 8"},
      {[](auto& m) { m.interleave = TensorInterleave::b32; }, "interleave 32B needs swizzle 32B"},
      {[](auto& m) {
         m.type = TensorType::u16;
         m.oob_fill = OobFill::nan;
       },
       "NaN fill needs a floating-point tensorDataType"},
  };
  for (const Case& c : cases) {
    TensorMapRequest map = plain_map();
    REQUIRE(check_tensor_map(map) == "");
    c.spoil(map);
    const std::string text = check_tensor_map(map);
    CHECK(text == c.message);
    CHECK_THROWS_WITH_AS(encode_tensor_map(map), ("tensor map: " + text).c_str(), std::invalid_argument);
  }
}

TEST_CASE("tensormap.replace edits one field") {
  TensorMapBytes bytes = encode_tensor_map(plain_map());
  CHECK(replace_tensor_map_field(bytes, TensorMapField::global_address, 0, 0x20000));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::global_dim, 1, 99));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::global_stride, 0, 512));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::box_dim, 1, 16));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::rank, 0, 1));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::elemtype, 0, 8));
  CHECK(replace_tensor_map_field(bytes, TensorMapField::swizzle_mode, 0, 2));
  const auto map = decode_tensor_map(bytes);
  REQUIRE(map);
  CHECK(map->address == 0x20000);
  CHECK(map->dims[1] == 99);
  CHECK(map->strides[0] == 512);
  CHECK(map->box[1] == 16);
  CHECK(map->rank == 2);
  CHECK(map->type == TensorType::f32_ftz);
  CHECK(map->swizzle == Swizzle::b64);
  CHECK(!replace_tensor_map_field(bytes, TensorMapField::rank, 0, 5));
  CHECK(!replace_tensor_map_field(bytes, TensorMapField::global_stride, 4, 16));
  CHECK(!replace_tensor_map_field(bytes, TensorMapField::swizzle_mode, 0, 7));
  TensorMapBytes stray{};
  stray[5] = std::byte{1};
  CHECK(!replace_tensor_map_field(stray, TensorMapField::rank, 0, 1));
}

TEST_CASE("a tensor map can be made from zeros, field by field") {
  TensorMapBytes blank{};
  CHECK(replace_tensor_map_field(blank, TensorMapField::rank, 0, 1));
  CHECK(replace_tensor_map_field(blank, TensorMapField::elemtype, 0, 10));
  CHECK(replace_tensor_map_field(blank, TensorMapField::global_address, 0, 0x20000));
  for (std::uint32_t i = 0; i < 2; ++i) {
    CHECK(replace_tensor_map_field(blank, TensorMapField::box_dim, i, 16));
    CHECK(replace_tensor_map_field(blank, TensorMapField::global_dim, i, 100));
    CHECK(replace_tensor_map_field(blank, TensorMapField::element_stride, i, 1));
  }
  CHECK(replace_tensor_map_field(blank, TensorMapField::global_stride, 0, 256));
  const auto map = decode_tensor_map(blank);
  REQUIRE(map);
  CHECK(check_tensor_map(*map) == "");
  CHECK(map->type == TensorType::bf16);
  CHECK(map->rank == 2);
}

TEST_CASE("reductions on every type") {
  const auto run = [](ReduceOp op, TensorType type, auto destination, auto source) {
    reduce_elements(op, type, reinterpret_cast<std::byte*>(&destination),
                    reinterpret_cast<const std::byte*>(&source), sizeof destination);
    return destination;
  };
  using u32 = std::uint32_t;
  CHECK(run(ReduceOp::add, TensorType::u32, u32{0xffffffff}, u32{2}) == 1);
  CHECK(run(ReduceOp::min, TensorType::s32, -5, 3) == -5);
  CHECK(run(ReduceOp::max, TensorType::u32, u32{0xfffffffb}, u32{3}) == 0xfffffffb);
  CHECK(run(ReduceOp::inc, TensorType::u32, u32{4}, u32{4}) == 0);
  CHECK(run(ReduceOp::inc, TensorType::u32, u32{3}, u32{4}) == 4);
  CHECK(run(ReduceOp::dec, TensorType::u32, u32{0}, u32{9}) == 9);
  CHECK(run(ReduceOp::dec, TensorType::u32, u32{10}, u32{9}) == 9);
  CHECK(run(ReduceOp::dec, TensorType::u32, u32{5}, u32{9}) == 4);
  CHECK(run(ReduceOp::and_, TensorType::u64, std::uint64_t{0xff00ff}, std::uint64_t{0x0ff0f0}) == 0x0f00f0);
  CHECK(run(ReduceOp::or_, TensorType::s64, std::int64_t{1}, std::int64_t{6}) == 7);
  CHECK(run(ReduceOp::xor_, TensorType::u32, u32{5}, u32{3}) == 6);
  CHECK(run(ReduceOp::add, TensorType::f32, 1.5F, 2.25F) == 3.75F);
  CHECK(run(ReduceOp::add, TensorType::f64, 1e300, 1e300) == 2e300);
  // Two halves: 1 + 2 and 65504 + 65504.
  CHECK(run(ReduceOp::add, TensorType::f16, u32{0x7bff3c00}, u32{0x7bff4000}) == 0x7c004200);
  CHECK(run(ReduceOp::max, TensorType::bf16, u32{0x3f80bf80}, u32{0x7fff4000}) == 0x3f804000);
  CHECK(reduce_supported(ReduceOp::inc, TensorType::u32));
  CHECK(!reduce_supported(ReduceOp::inc, TensorType::s32));
  CHECK(!reduce_supported(ReduceOp::min, TensorType::f32));
  CHECK(reduce_supported(ReduceOp::min, TensorType::f16));
  CHECK(!reduce_supported(ReduceOp::add, TensorType::u8));
}

TEST_CASE("fill patterns") {
  TensorMapRequest map = plain_map();
  CHECK(oob_pattern(map) == 0);
  map.oob_fill = OobFill::nan;
  CHECK(is_nan(FloatFormat::bf16, oob_pattern(map) & 0xffff));
  map.type = TensorType::f32;
  CHECK(is_nan(FloatFormat::f32, oob_pattern(map) & 0xffffffffu));
  map.type = TensorType::f64;
  CHECK(is_nan(FloatFormat::f64, oob_pattern(map)));
}

namespace {

/// Where each byte of a box lies in shared memory, [shared] = global, of what is inside the tensor.
std::map<std::uint32_t, std::uint64_t> image_of(const TensorMapRequest& map,
                                                const std::vector<std::int32_t>& at) {
  std::vector<BoxRun> runs;
  box_runs(map, at, 0, runs);
  std::map<std::uint32_t, std::uint64_t> image;
  for (const BoxRun& run : runs)
    each_piece(run, [&](std::uint32_t shared, std::uint32_t from, std::uint32_t bytes) {
      for (std::uint32_t i = 0; i < bytes && !run.oob; ++i) image[shared + i] = run.global + from + i;
    });
  return image;
}

}  // namespace

TEST_CASE("swizzles of maps with atoms of 32 and 64 bytes") {
  TensorMapRequest map;
  map.type = TensorType::bf16, map.rank = 2, map.address = 0x10000;
  map.dims = {64, 16}, map.strides = {128}, map.box = {64, 16};
  // Which 32-byte atom of a row of 128 lies where, by row: 0123, 1032, 2301, 3210; of 64 bytes: 01, 10.
  for (const Swizzle swizzle : {Swizzle::b128_atom32, Swizzle::b128_atom32_flip8, Swizzle::b128_atom64}) {
    map.swizzle = swizzle;
    REQUIRE(check_tensor_map(map).empty());
    const auto image = image_of(map, {0, 0});
    CHECK(image.size() == 2048);
    for (std::uint32_t row = 0; row < 16; ++row)
      for (std::uint32_t byte = 0; byte < 128; ++byte) {
        static constexpr std::uint32_t kAtoms[4][4] = {
            {0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}};
        std::uint32_t to = swizzle == Swizzle::b128_atom64 ? (byte / 64 + row) % 2 * 64 + byte % 64
                                                           : kAtoms[row % 4][byte / 32] * 32 + byte % 32;
        if (swizzle == Swizzle::b128_atom32_flip8 && row % 2 == 1) to = to / 16 * 16 + (to + 8) % 16;
        REQUIRE(image.at(row * 128 + to) == 0x10000 + row * 128 + byte);
      }
  }
}

TEST_CASE("packed types: sixteen elements of 4 or 6 bits, with and without gaps in shared memory") {
  struct Packed {
    TensorType type;
    std::uint32_t global, shared;  ///< bytes of sixteen
  };
  for (const auto& [type, global, shared] :
       {Packed{TensorType::u4x16_align8, 8, 8}, Packed{TensorType::u4x16_align16, 8, 16},
        Packed{TensorType::u6x16_align16, 12, 16}}) {
    TensorMapRequest map;
    map.type = type, map.rank = 2, map.address = 0x10000;
    map.dims = {256, 4}, map.strides = {256}, map.box = {128, 4};
    REQUIRE(check_tensor_map(map).empty());
    CHECK(box_bytes(map) == 128 / 16 * shared * 4);  // what complete_tx counts
    const auto image = image_of(map, {128, 1});
    std::size_t bytes = 0;
    for (std::uint32_t row = 0; row < 3; ++row)  // the fourth lies outside
      for (std::uint32_t group = 0; group < 8; ++group)
        for (std::uint32_t i = 0; i < global; ++i, ++bytes)
          REQUIRE(image.at(row * 8 * shared + group * shared + i) ==
                  0x10000 + (row + 1) * 256 + (8 + group) * global + i);
    CHECK(image.size() == bytes);  // gaps belong to nobody
    CHECK(check_coordinates(map, std::vector<std::int32_t>{8, 0}, false) != "");
  }
  TensorMapRequest map;
  map.type = TensorType::u6x16_align16, map.rank = 2, map.address = 0x10000;
  map.dims = {256, 4}, map.strides = {256}, map.box = {128, 4}, map.swizzle = Swizzle::b128_atom32;
  CHECK(check_tensor_map(map).empty());
  map.swizzle = Swizzle::b64;
  CHECK(check_tensor_map(map).find("6 bits") != std::string::npos);
  map.swizzle = Swizzle::none, map.box = {64, 4};
  CHECK(check_tensor_map(map).find("must be 128") != std::string::npos);
  map.box = {128, 4}, map.address = 0x10010;
  CHECK(check_tensor_map(map).find("32 bytes") != std::string::npos);
  map.address = 0x10000, map.dims = {200, 4};
  CHECK(check_tensor_map(map).find("multiple of 128") != std::string::npos);
}
