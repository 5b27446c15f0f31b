// Tensor copies (cp.async.bulk.tensor) over ranks, swizzles, edges and element types; reductions; plain bulk
// copies and cp.async.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/emulator/conformance/inputs.hpp"
#include "tests/emulator/conformance/suite.hpp"

namespace conformance {

namespace {

using kiln::emulator::OobFill;
using kiln::emulator::Swizzle;
using kiln::emulator::TensorMapRequest;
using kiln::emulator::TensorType;

std::string text_of(long value) {
  return std::to_string(value);
}

/// Registers, parameters and a 1024-aligned image of `bytes` bytes that all 128 threads fill: from the input
/// at `from`, or with 0xa5.
std::string prologue(unsigned bytes, bool map, long from) {
  std::string text =
      ".extern .shared .align 1024 .b8 image[];\n.visible .entry ENTRY(.param .u64 p_in, .param .u64 p_out";
  text += map ? ", .param .align 64 .b8 p_map[128]) {\n" : ") {\n";
  text +=
      "  .reg .b64 %in, %out, %map, %a, %w;\n  .reg .b32 %tx, %s, %x, %i, %v, %bar;\n  .reg .pred %p, "
      "%first;\n  .shared .align 8 .b64 bar;\n"
      "  ld.param.u64 %in, [p_in];\n  ld.param.u64 %out, [p_out];\n  mov.u32 %tx, %tid.x;\n  mov.u32 %s, "
      "image;\n  mov.u32 %bar, bar;\n";
  if (map) text += "  mov.b64 %map, p_map;\n  cvta.param.u64 %map, %map;\n";
  text +=
      "  setp.eq.u32 %first, %tx, 0;\n  mad.lo.u32 %x, %tx, 4, %s;\n  mul.lo.u32 %i, %tx, 4;\n  "
      "mad.wide.u32 %a, %tx, 4, %in;\n"
      "fill:\n  setp.ge.u32 %p, %i, " +
      text_of(bytes) + ";\n  @%p bra filled;\n";
  text += from < 0 ? "  mov.b32 %v, 0xa5a5a5a5;\n" : "  ld.global.b32 %v, [%a+" + text_of(from) + "];\n";
  text +=
      "  st.shared.b32 [%x], %v;\n  add.u32 %x, %x, 512;\n  add.u32 %i, %i, 512;\n  add.u64 %a, %a, 512;\n  "
      "bra fill;\nfilled:\n"
      "  @%first mbarrier.init.shared::cta.b64 [%bar], 1;\n  fence.proxy.async;\n  bar.sync 0;\n";
  return text;
}

/// Waits for the copy, but not for ever: a wrong byte count shall show in the output, not hang the recording.
std::string wait_for_barrier() {
  return "  mov.u32 %i, 0;\nwait:\n  mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;\n  @%p bra "
         "done;\n"
         "  add.u32 %i, %i, 1;\n  setp.lt.u32 %p, %i, 20000;\n  @%p bra wait;\n  bar.sync 0;\n  mov.b32 %v, "
         "0x0badc0de;\n  st.shared.b32 [%s], %v;\ndone:\n  "
         "bar.sync 0;\n";
}

/// Copies the image to the output.
std::string dump(unsigned bytes) {
  return "  mad.lo.u32 %x, %tx, 4, %s;\n  mul.lo.u32 %i, %tx, 4;\n  mad.wide.u32 %a, %tx, 4, %out;\n"
         "dump:\n  setp.ge.u32 %p, %i, " +
         text_of(bytes) +
         ";\n  @%p bra dumped;\n  ld.shared.b32 %v, [%x];\n  st.global.b32 [%a], %v;\n"
         "  add.u32 %x, %x, 512;\n  add.u32 %i, %i, 512;\n  add.u64 %a, %a, 512;\n  bra dump;\ndumped:\n  "
         "ret;\n}\n";
}

std::vector<std::uint8_t> random_bytes(const std::string& name, std::size_t bytes) {
  Random random(seed_of(name));
  std::vector<std::uint8_t> out(bytes);
  for (auto& byte : out) byte = static_cast<std::uint8_t>(random.next() >> 11);
  return out;
}

std::string coordinates(const std::vector<int>& at) {
  std::string text = "{";
  for (std::size_t i = 0; i < at.size(); ++i) text += std::string(i ? ", " : "") + std::to_string(at[i]);
  return text + "}";
}

/// A dense tensor with a little padding after each row.
TensorMapRequest dense(TensorType type, std::uint32_t rank, std::array<std::uint64_t, 5> dims,
                       std::array<std::uint32_t, 5> box, Swizzle swizzle) {
  TensorMapRequest map;
  map.type = type;
  map.rank = rank;
  map.dims = dims;
  map.box = box;
  map.swizzle = swizzle;
  std::uint64_t pitch = (dims[0] * kiln::emulator::bytes_of(type) + 31) / 16 * 16;
  for (std::uint32_t i = 1; i < rank; ++i) {
    map.strides[i - 1] = pitch;
    pitch *= dims[i];
  }
  return map;
}

std::size_t tensor_bytes(const TensorMapRequest& map) {
  return static_cast<std::size_t>(map.rank == 1 ? map.dims[0] * kiln::emulator::bytes_of(map.type)
                                                : map.strides[map.rank - 2] * map.dims[map.rank - 1]);
}

unsigned image_bytes(const TensorMapRequest& map, unsigned offset) {
  return (kiln::emulator::box_footprint(map) + offset + 255) / 128 * 128;
}

void add_load(std::vector<Case>& cases, const std::string& note, const TensorMapRequest& map,
              const std::vector<int>& at, unsigned offset = 0) {
  Case c;
  const std::string rank = std::to_string(map.rank);
  c.name = "tensor load/" + rank + "d " + note + " at " + coordinates(at) + " to " + text_of(offset);
  c.threads = 128;
  c.map = map;
  const unsigned bytes = image_bytes(map, offset);
  c.dynamic_shared_bytes = bytes;
  std::string text = prologue(bytes, true, -1);
  text += "  @!%first bra issued;\n  mbarrier.arrive.expect_tx.shared::cta.b64 %w, [%bar], " +
          text_of(kiln::emulator::box_bytes(map)) + ";\n";
  text += "  add.u32 %x, %s, " + text_of(offset) + ";\n  cp.async.bulk.tensor." + rank +
          "d.shared::cluster.global.mbarrier::complete_tx::bytes [%x], [%map, " + coordinates(at) +
          "], [%bar];\nissued:\n";
  c.kernel = text + wait_for_barrier() + dump(bytes);
  c.input = random_bytes(c.name, tensor_bytes(map));
  if (map.type >= TensorType::f32_ftz || map.type == TensorType::f32) {
    // What loads may change: NaN, infinities, subnormals, and values half-way between two of tf32.
    Random random(seed_of(c.name + " values"));
    for (std::size_t byte = 0; byte + 4 <= c.input.size(); byte += 4) {
      std::uint32_t bits = static_cast<std::uint32_t>(sample("f32", random));
      if (random.below(4) == 0) bits = (bits & 0xffffe000u) | 0x1000u;
      std::memcpy(c.input.data() + byte, &bits, 4);
    }
  }
  c.output.resize(bytes);
  cases.push_back(std::move(c));
}

/// A store, or with `reduction` (".add" and so on) a reduction, of a box into the output.
void add_store(std::vector<Case>& cases, const std::string& note, const TensorMapRequest& map,
               const std::vector<int>& at, const std::string& reduction, unsigned offset = 0) {
  Case c;
  const std::string rank = std::to_string(map.rank);
  c.name = "tensor store/" + rank + "d " + note + reduction + " at " + coordinates(at) + " from " +
           text_of(offset);
  c.threads = 128;
  c.map = map;
  c.map_on_output = true;
  const unsigned bytes = image_bytes(map, offset);
  c.dynamic_shared_bytes = bytes;
  std::string text = prologue(bytes, true, 0);
  text += "  @!%first bra issued;\n  add.u32 %x, %s, " + text_of(offset) + ";\n";
  text += reduction.empty() ? "  cp.async.bulk.tensor." : "  cp.reduce.async.bulk.tensor.";
  text += rank + "d.global.shared::cta" + reduction + ".bulk_group [%map, " + coordinates(at) + "], [%x];\n";
  text += "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nissued:\n  ret;\n}\n";
  c.kernel = text;
  // Floating sums of random patterns would mostly be NaN; moderate values say more.
  const auto fill = [&](const std::string& seed, std::size_t count) {
    Random random(seed_of(seed));
    std::vector<std::uint8_t> out;
    while (out.size() < count) {
      std::uint64_t bits = random.next();
      if (map.type == TensorType::f32) bits = sample("unit32", random);
      if (map.type == TensorType::f16)
        bits = (sample("f16", random) & 0xbfff) | (sample("f16", random) & 0xbfff) << 16;
      if (map.type == TensorType::bf16) bits = sample("bf16x2", random);
      if (map.type == TensorType::f64) bits = (bits & 0x800fffffffffffffull) | 0x3ff0000000000000ull;
      const auto* p = reinterpret_cast<const std::uint8_t*>(&bits);
      out.insert(
          out.end(), p,
          p + (map.type == TensorType::f64 || map.type == TensorType::u64 || map.type == TensorType::s64
                   ? 8
                   : 4));
    }
    out.resize(count);
    return out;
  };
  c.input = fill(c.name, bytes);
  c.output = fill(c.name + " output", tensor_bytes(map));
  cases.push_back(std::move(c));
}

void tensor_loads(std::vector<Case>& cases) {
  const Swizzle swizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
  const char* const names[] = {"none", "32B", "64B", "128B"};
  for (int s = 0; s < 4; ++s) {
    const std::uint32_t span = s == 0 ? 32 : 16u << s;  // bytes of the inner box
    const std::uint32_t columns = span / 2;
    const std::string swizzle = std::string("swizzle ") + names[s];
    const auto map2 = dense(TensorType::bf16, 2, {columns * 2 + 5, 40}, {columns, 16}, swizzles[s]);
    const int wide = static_cast<int>(columns);
    // Innermost coordinates are multiples of 8: the hardware refuses those off 16 bytes.
    for (const std::vector<int>& at : std::vector<std::vector<int>>{{0, 0},
                                                                    {wide, 8},
                                                                    {-8, -2},
                                                                    {wide + 8, 30},
                                                                    {wide * 2, 39},
                                                                    {wide * 3, 0},
                                                                    {0, 45},
                                                                    {-wide, 0}}) {
      add_load(cases, swizzle, map2, at);
    }
    for (const unsigned offset : {128u, 256u, 384u, 640u, 896u})
      add_load(cases, swizzle, map2, {8, 2}, offset);
    add_load(cases, swizzle, dense(TensorType::bf16, 1, {200}, {columns}, swizzles[s]), {152});
    add_load(cases, swizzle, dense(TensorType::bf16, 1, {200}, {columns}, swizzles[s]), {200 - wide / 2});
    add_load(cases, swizzle, dense(TensorType::bf16, 3, {columns, 12, 5}, {columns, 8, 2}, swizzles[s]),
             {0, 8, 4});
    add_load(cases, swizzle, dense(TensorType::bf16, 4, {columns, 6, 3, 4}, {columns, 4, 2, 2}, swizzles[s]),
             {-8, 4, 2, -1});
    add_load(cases, swizzle,
             dense(TensorType::bf16, 5, {columns, 3, 3, 3, 3}, {columns, 2, 2, 2, 2}, swizzles[s]),
             {0, 2, -1, 1, 2});
    add_load(cases, swizzle,
             dense(TensorType::bf16, 5, {columns, 3, 3, 3, 3}, {columns, 3, 1, 2, 1}, swizzles[s]),
             {0, 0, 1, 1, 2});
    // An inner box narrower than the span of the swizzle.
    for (std::uint32_t inner = 16; inner < span; inner *= 2) {
      add_load(cases, swizzle + " inner " + text_of(inner),
               dense(TensorType::u8, 2, {200, 20}, {inner, 8}, swizzles[s]), {16, 4});
    }
    if (span == 128)
      add_load(cases, swizzle + " inner 48", dense(TensorType::u8, 2, {200, 20}, {48, 8}, swizzles[s]),
               {16, 4});
  }
  add_load(cases, "256 rows", dense(TensorType::u8, 2, {64, 300}, {16, 256}, Swizzle::none), {0, 100});
  add_load(cases, "256 columns", dense(TensorType::u8, 2, {400, 4}, {256, 4}, Swizzle::none), {192, 1});
  for (const std::uint32_t stride : {2u, 3u}) {
    TensorMapRequest map = dense(TensorType::bf16, 3, {64, 20, 6}, {32, 8, 4}, Swizzle::b64);
    map.element_strides = {1, stride, 2, 1, 1};
    add_load(cases, "element strides " + text_of(stride), map, {0, 0, 0});
    add_load(cases, "element strides " + text_of(stride), map, {8, 15, 3});
  }
}

void tensor_types(std::vector<Case>& cases) {
  const TensorType types[] = {TensorType::u8,      TensorType::u16,  TensorType::u32,     TensorType::s32,
                              TensorType::u64,     TensorType::s64,  TensorType::f16,     TensorType::f32,
                              TensorType::f64,     TensorType::bf16, TensorType::f32_ftz, TensorType::tf32,
                              TensorType::tf32_ftz};
  for (const TensorType type : types) {
    const std::uint32_t columns = 64 / kiln::emulator::bytes_of(type);
    const std::string note = "type " + text_of(static_cast<long>(type));
    TensorMapRequest map = dense(type, 2, {columns + 3, 12}, {columns, 8}, Swizzle::b64);
    const int inner = static_cast<int>(16 / kiln::emulator::bytes_of(type));
    add_load(cases, note, map, {inner, 6});
    if (type >= TensorType::f16) {
      map.oob_fill = OobFill::nan;
      add_load(cases, note + " NaN fill", map, {inner, 6});
    }
    map.oob_fill = OobFill::zeros;
    add_store(cases, note, map, {inner, 6}, "");
  }
}

void tensor_stores(std::vector<Case>& cases) {
  const Swizzle swizzles[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
  for (int s = 0; s < 4; ++s) {
    const std::uint32_t columns = (s == 0 ? 32 : 16u << s) / 2;
    const std::string note = "swizzle " + text_of(s);
    // The hardware refuses stores, but not loads, at negative coordinates.
    const auto map2 = dense(TensorType::bf16, 2, {columns + 5, 24}, {columns, 16}, swizzles[s]);
    for (const std::vector<int>& at : std::vector<std::vector<int>>{{0, 0}, {8, 5}, {8, 20}, {504, 3}})
      add_store(cases, note, map2, at, "");
    add_store(cases, note, map2, {8, 3}, "", 384);
    add_store(cases, note, dense(TensorType::bf16, 1, {104}, {columns}, swizzles[s]), {96}, "");
  }
  struct Reduction {
    const char* op;
    std::vector<TensorType> types;
  };
  const Reduction reductions[] = {
      {".add",
       {TensorType::u32, TensorType::s32, TensorType::u64, TensorType::f16, TensorType::bf16,
        TensorType::f32}},
      {".min",
       {TensorType::u32, TensorType::s32, TensorType::u64, TensorType::s64, TensorType::f16,
        TensorType::bf16}},
      {".max",
       {TensorType::u32, TensorType::s32, TensorType::u64, TensorType::s64, TensorType::f16,
        TensorType::bf16}},
      {".inc", {TensorType::u32}},
      {".dec", {TensorType::u32}},
      {".and", {TensorType::u32, TensorType::u64}},
      {".or", {TensorType::u32, TensorType::u64}},
      {".xor", {TensorType::u32, TensorType::u64}},
  };
  for (const Reduction& r : reductions) {
    for (const TensorType type : r.types) {
      const std::uint32_t columns = 64 / kiln::emulator::bytes_of(type);
      add_store(cases, "type " + text_of(static_cast<long>(type)),
                dense(type, 2, {columns + 3, 12}, {columns, 8}, Swizzle::b64),
                {static_cast<int>(16 / kiln::emulator::bytes_of(type)), 6}, r.op);
    }
  }
}

void bulk_copies(std::vector<Case>& cases) {
  const auto finish = [&](Case& c, unsigned bytes, const std::string& text) {
    c.threads = 128;
    c.dynamic_shared_bytes = bytes;
    c.kernel = text;
    c.input = random_bytes(c.name, 4096);
    cases.push_back(std::move(c));
  };
  for (const int size : {16, 48, 1024}) {
    Case load;
    load.name = "bulk/cp.async.bulk load " + text_of(size);
    load.output.resize(2048);
    finish(load, 2048,
           prologue(2048, false, -1) +
               "  @!%first bra issued;\n  mbarrier.arrive.expect_tx.shared::cta.b64 %w, [%bar], " +
               text_of(size) +
               ";\n  add.u32 %x, %s, 32;\n  add.u64 %a, %in, 16;\n  "
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%x], [%a], " +
               text_of(size) + ", [%bar];\nissued:\n" + wait_for_barrier() + dump(2048));
    Case store;
    store.name = "bulk/cp.async.bulk store " + text_of(size);
    store.output.resize(2048);
    finish(store, 2048,
           prologue(2048, false, 0) +
               "  @!%first bra issued;\n  add.u32 %x, %s, 32;\n  add.u64 %a, %out, 16;\n  "
               "cp.async.bulk.global.shared::cta.bulk_group [%a], [%x], " +
               text_of(size) +
               ";\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nissued:\n  ret;\n}\n");
  }
  const char* const reductions[] = {".add.u32", ".add.s32", ".add.u64", ".add.noftz.f16", ".add.noftz.bf16",
                                    ".min.s32", ".max.u64", ".min.f16", ".max.bf16",      ".inc.u32",
                                    ".dec.u32", ".and.b32", ".or.b64",  ".xor.b32"};
  for (const std::string op : reductions) {
    Case c;
    c.name = "bulk/cp.reduce.async.bulk" + op;
    c.output = random_bytes(c.name + " output", 1024);
    finish(c, 1024,
           prologue(1024, false, 0) +
               "  @!%first bra issued;\n  cp.reduce.async.bulk.global.shared::cta.bulk_group" + op +
               " [%out], [%s], 1024;\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group "
               "0;\nissued:\n  ret;\n}\n");
  }
  for (const int size : {4, 8, 16}) {
    for (const int taken : {0, size / 4 * 3, size}) {
      Case c;
      c.name = "bulk/cp.async " + text_of(size) + " of which " + text_of(taken);
      c.output.resize(2048);
      const std::string n = text_of(size);
      finish(c, 2048,
             prologue(2048, false, -1) + "  mad.lo.u32 %x, %tx, " + n + ", %s;\n  mad.wide.u32 %a, %tx, " +
                 n + ", %in;\n  cp.async.ca.shared.global [%x], [%a], " + n + ", " + text_of(taken) +
                 ";\n  cp.async.commit_group;\n  cp.async.wait_group 0;\n  bar.sync 0;\n" + dump(2048));
    }
  }
}

}  // namespace

void add_tensor_copies(std::vector<Case>& cases) {
  tensor_loads(cases);
  tensor_types(cases);
  tensor_stores(cases);
  bulk_copies(cases);
}

}  // namespace conformance
