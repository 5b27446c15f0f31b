// Programs of sm_100a from the command line: a product of each group of forms, pairs of CTAs, cluster launch control with a
// number of multiprocessors, rows and pixels through tensor maps, from a launch file and as bytes; and their mutants.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include <kiln/emulator/tensor_map.hpp>

#include "tests/cli/command.hpp"
#include "workbench/files/npy.hpp"

using kiln::test::run_kiln;
using kiln::test::scratch;

namespace {

constexpr const char* kHead = R"(.version 9.0
.target sm_100a
.address_size 64
)";

/// Every CTA of a pair holds its half of A and of B, all ones: M 256, N 64, K 16.
constexpr const char* kPair = R"(
.shared .align 1024 .b8 s[8192];
.shared .align 8 .b64 bar;
.shared .align 4 .b32 base;
.visible .entry pair(.param .u64 y)
{
  .reg .pred %p<9>; .reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [y];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r4, s; mov.u32 %r5, bar; mov.u32 %r6, base; setp.ne.u32 %p1, %r2, 0;
  mad.lo.u32 %r7, %r1, 64, %r4; mov.u32 %r8, 0x3f803f80;
  st.shared.v4.u32 [%r7], {%r8,%r8,%r8,%r8}; st.shared.v4.u32 [%r7+16], {%r8,%r8,%r8,%r8};
  st.shared.v4.u32 [%r7+32], {%r8,%r8,%r8,%r8}; st.shared.v4.u32 [%r7+48], {%r8,%r8,%r8,%r8};
  fence.proxy.async.shared::cta;
  @%p1 bra READY;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], 64;
  tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
  setp.eq.u32 %p2, %r1, 0;
  @%p2 mbarrier.init.shared.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
READY:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared.u32 %r9, [%r6];
  shr.u32 %r10, %r4, 4; and.b32 %r10, %r10, 0x3fff; cvt.u64.u32 %rd2, %r10;
  or.b64 %rd3, %rd2, 0x401000080000; add.u64 %rd4, %rd3, 256;
  setp.ne.u32 %p3, %r3, 0; or.pred %p4, %p1, %p3;
  @%p4 bra ISSUED;
  elect.sync _|%p5, 0xffffffff; mov.u16 %h1, 3;
  @%p5 tcgen05.mma.cta_group::2.kind::f16 [%r9], %rd3, %rd4, 0x10100490, 0;
  @%p5 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;
ISSUED:
  mbarrier.try_wait.parity.shared.b64 %p6, [%r5], 0;
  @!%p6 bra ISSUED;
  shl.b32 %r11, %r2, 21; add.u32 %r11, %r11, %r9;
  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r12, %r13}, [%r11+62];
  tcgen05.wait::ld.sync.aligned;
  mad.lo.u32 %r14, %r3, 128, %r1; mul.wide.u32 %rd5, %r14, 8; add.u64 %rd5, %rd5, %rd1;
  st.global.v2.u32 [%rd5], {%r12, %r13};
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 64;
  ret;
}
)";

/// Counts its block's number, and goes on with the blocks that it cancels.
constexpr const char* kPersistent = R"(
.shared .align 16 .b8 answer[16];
.shared .align 8 .b64 bar;
.visible .entry persistent(.param .u64 y)
{
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .b128 %q<2>;
  ld.param.u64 %rd1, [y];
  mov.u32 %r2, bar; mov.u32 %r3, answer; mov.u32 %r4, %ctaid.x; mov.u32 %r5, 0;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
LOOP:
  mul.wide.u32 %rd2, %r4, 4; add.u64 %rd2, %rd2, %rd1; red.global.add.u32 [%rd2], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r2];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r5;
  @!%p1 bra WAIT;
  xor.b32 %r5, %r5, 1;
  ld.shared.b128 %q1, [%r3];
  fence.proxy.async.shared::cta;
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r4,%r7,%r8,_}, %q1;
  @%p2 bra LOOP;
  ret;
}
)";

/// Rows 7, 2, -1 and 0 of a matrix of 8 x 32 words as one tile.
constexpr const char* kGather = R"(
.shared .align 1024 .b8 s[512];
.shared .align 8 .b64 bar;
.visible .entry gather(.param .align 64 .b8 map[128], .param .u64 y)
{
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  mov.u32 %r1, s; mov.u32 %r2, bar; mov.u64 %rd1, map; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0;
  @%p1 bra W;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;
  mov.u32 %r4, 0; mov.u32 %r5, 7; mov.u32 %r6, 2; mov.u32 %r7, -1; mov.u32 %r8, 0;
  cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r4,%r5,%r6,%r7,%r8}], [%r2];
W:
  bar.sync 0;
T:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra T;
  ld.param.u64 %rd2, [y]; mul.lo.u32 %r9, %r3, 4; add.u32 %r10, %r9, %r1; cvt.u64.u32 %rd3, %r9; add.u64 %rd2, %rd2, %rd3;
  ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd2], %r11;
  ret;
}
)";

/// One warp group of 128 threads around `PRODUCTS`: A at 0 and B at 8192 of shared memory, rows of 32 bytes without
/// swizzle, all bytes those of `x`; what is left in columns 0 to 7 of each lane goes out.
constexpr const char* kProduct = R"(
.shared .align 1024 .b8 s[16384];
.shared .align 8 .b64 bar;
.shared .align 4 .b32 base;
.visible .entry product(.param .u64 x, .param .u64 y)
{
  .reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r4, s; mov.u32 %r5, bar; mov.u32 %r6, base;
  mul.lo.u32 %r7, %r1, 16; setp.ne.u32 %p1, %r2, 0;
COPY:
  cvt.u64.u32 %rd3, %r7; add.u64 %rd3, %rd3, %rd1; add.u32 %r8, %r4, %r7;
  ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd3]; st.shared.v4.u32 [%r8], {%r10,%r11,%r12,%r13};
  add.u32 %r7, %r7, 2048; setp.lt.u32 %p2, %r7, 16384;
  @%p2 bra COPY;
  fence.proxy.async.shared::cta;
  @%p1 bra READY;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 128;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  setp.eq.u32 %p3, %r1, 0;
  @%p3 mbarrier.init.shared.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  ld.shared.u32 %r9, [%r6]; shl.b32 %r20, %r2, 21; add.u32 %r20, %r20, %r9;
  mov.u32 %r21, METADATA;
  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r20+64], {%r21, %r21};
  tcgen05.wait::st.sync.aligned;
  bar.sync 0;
  shr.u32 %r22, %r4, 4; cvt.u64.u32 %rd4, %r22; or.b64 %rd4, %rd4, 0x400800800000; add.u64 %rd5, %rd4, 512;
  add.u32 %r23, %r9, 96; add.u32 %r24, %r9, 104;
  @%p1 bra WAIT;
  elect.sync _|%p5, -1;
  PRODUCTS
  @%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p6, [%r5], 0;
  @!%p6 bra WAIT;
  tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r30,%r31,%r32,%r33,%r34,%r35,%r36,%r37}, [%r20];
  tcgen05.wait::ld.sync.aligned;
  mul.wide.u32 %rd6, %r1, 32; add.u64 %rd6, %rd6, %rd2;
  st.global.v4.u32 [%rd6], {%r30,%r31,%r32,%r33}; st.global.v4.u32 [%rd6+16], {%r34,%r35,%r36,%r37};
  bar.sync 0;
  @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;
  ret;
}
)";

/// 24 pixels along W and a halo of two, each of 16 words, as they come with 64 bytes of swizzle.
constexpr const char* kWide = R"(
.shared .align 1024 .b8 s[2048];
.shared .align 8 .b64 bar;
.visible .entry wide(.param .align 64 .b8 map[128], .param .u64 y)
{
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  mov.u32 %r1, s; mov.u32 %r2, bar; mov.u64 %rd1, map; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0;
  @%p1 bra W;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1664;
  mov.u32 %r4, 0; mov.u32 %r5, 1;
  cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r4,%r4,%r5}], [%r2], {2, 0};
W:
  bar.sync 0;
T:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra T;
  ld.param.u64 %rd2, [y]; shl.b32 %r9, %r3, 2; shr.u32 %r10, %r9, 3; and.b32 %r10, %r10, 48; xor.b32 %r10, %r10, %r9;
  add.u32 %r10, %r10, %r1; cvt.u64.u32 %rd3, %r9; add.u64 %rd2, %rd2, %rd3;
  ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd2], %r11;
  ret;
}
)";

void write(const std::string& name, const std::string& text) {
  std::ofstream(scratch() + name) << text;
}
std::vector<float> result(const std::string& name) {
  return kiln::to_floats(kiln::read_npy(scratch() + name));
}
const char* const kPolicies[] = {"eager", "lazy", "random"};

}  // namespace

TEST_CASE("a launch file: a pair of CTAs, clean under every policy, and its mutants") {
  write("pair.ptx", std::string(kHead) + kPair);
  write("pair.json", R"({"module": "pair.ptx", "launches": [
    {"kernel": "pair", "grid": [2], "cluster": [2], "block": [128], "args": ["out:f32[256,2]:pair.npy"]}]})");
  for (const char* policy : kPolicies) {
    const auto run = run_kiln("emulate pair.json --json --policy " + std::string(policy));
    REQUIRE_MESSAGE(run.status == 0, (run.err + run.out));
    for (const float v : result("pair.npy")) CHECK(v == 16.0F);
  }
  const auto mutants = run_kiln("emulate pair.json --mutate --json --all-mutants");
  const auto json = mutants.json();
  REQUIRE(json["list"].size() >= 10);
  for (const auto& m : json["list"]) {
    const std::string what = m.dump();
    // What is equivalent here: the loaded registers are used before anything overwrites their cells; with all elements
    // alike it matters not which of them are read; nobody else allocates.
    const bool equivalent =
        what.find("wait::ld") != std::string::npos || what.find("operand-address") != std::string::npos;
    if (!equivalent) CHECK_MESSAGE((m.contains("killed_by") && !m["killed_by"].is_null()), what);
  }
}

TEST_CASE("a launch file: cluster launch control with a number of multiprocessors") {
  write("persistent.ptx", std::string(kHead) + kPersistent);
  for (const int sms : {1, 3, 64}) {
    write("persistent.json",
          R"({"module": "persistent.ptx", "sms": )" + std::to_string(sms) + R"(, "launches": [
      {"kernel": "persistent", "grid": [48], "block": [1], "args": ["zeros:u32[48]:persistent.npy"]}]})");
    for (const char* policy : kPolicies) {
      const auto run = run_kiln("emulate persistent.json --policy " + std::string(policy));
      REQUIRE_MESSAGE(run.status == 0, (run.err + run.out));
      for (const float v : result("persistent.npy")) CHECK(v == 1.0F);
    }
  }
}

TEST_CASE("rows gathered through a tensor map of a launch file, and through one given as bytes") {
  write("gather.ptx", std::string(kHead) + kGather);
  std::vector<float> x(8 * 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  kiln::write_npy(scratch() + "rows.npy", kiln::npy_from_floats({8, 32}, x));
  const auto check = [&](bool swizzled) {
    const std::vector<float> y = result("gather.npy");
    const int wanted[] = {7, 2, -1, 0};
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 32; ++c)
        CHECK(y[r * 32 + (swizzled ? c ^ r % 4 * 8 : c)] ==
              (wanted[r] < 0 ? 0.0F : x[static_cast<std::size_t>(wanted[r]) * 32 + c]));
  };
  write("gather.json", R"({"module": "gather.ptx", "buffers": {"x": "in:rows.npy"},
    "tensor_maps": {"m": {"buffer": "x", "type": "f32", "dims": [32, 8], "strides": [128], "box": [32, 1],
                          "swizzle": "128B_atom_32B"}},
    "launches": [{"block": 128, "args": ["map:m", "out:f32[4,32]:gather.npy"]}]})");
  for (const char* policy : kPolicies) {
    const auto run = run_kiln("emulate gather.json --policy " + std::string(policy));
    REQUIRE_MESSAGE(run.status == 0, (run.err + run.out));
    check(true);
  }
  kiln::emulator::TensorMapRequest map;
  map.type = kiln::emulator::TensorType::f32, map.rank = 2;
  map.dims = {32, 8}, map.strides = {128}, map.box = {32, 1};
  const auto bytes = kiln::emulator::encode_tensor_map(map);
  std::ofstream(scratch() + "m.tensormap", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto run = run_kiln(
      "emulate gather.ptx --block 128 --arg bytes:m.tensormap@8=in:rows.npy --arg "
      "out:f32[4,32]:gather.npy");
  REQUIRE_MESSAGE(run.status == 0, (run.err + run.out));
  check(false);
  // Other bytes are no map of this device.
  std::ofstream(scratch() + "m.tensormap", std::ios::binary) << std::string(128, 'x');
  const auto refused = run_kiln("emulate gather.ptx --block 128 --arg bytes:m.tensormap --arg out:f32[4,32]");
  CHECK(refused.status != 0);
  CHECK((refused.out + refused.err).find("bad-tensor-map") != std::string::npos);
}

TEST_CASE("products of each group of forms: dense, sparse, weight-stationary, scaled, shifted") {
  const auto file = [](const std::string& name, float value, std::size_t words) {
    kiln::write_npy(scratch() + name,
                    kiln::npy_from_floats({static_cast<long>(words)}, std::vector<float>(words, value)));
  };
  file("bf16_ones.npy", std::bit_cast<float>(0x3f803f80u), 4096);
  file("e4m3_ones.npy", std::bit_cast<float>(0x38383838u), 4096);
  struct Form {
    const char* name;
    const char* input;
    std::string products;
    float want;  ///< -1: every second column is zero
  };
  const std::string e = "@%p5 tcgen05.mma";
  const std::string scales =
      "add.u64 %rd7, %rd4, 0; and.b64 %rd7, %rd7, 0x3fff; or.b64 %rd7, %rd7, 0x400800000000;\n"
      "  @%p5 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r23], %rd7;\n"
      "  @%p5 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r24], %rd7;\n  ";
  const Form forms[] = {
      {"dense", "bf16_ones.npy", e + ".cta_group::1.kind::f16 [%r9], %rd4, %rd5, 0x8040490, 0;", 16.0F},
      // Of four elements two are there; B has twice as many as A.
      {"sparse", "bf16_ones.npy", e + ".sp.cta_group::1.kind::f16 [%r9], %rd4, %rd5, [%r9+64], 0x8040494, 0;",
       16.0F},
      {"sparse, f8", "e4m3_ones.npy",
       e + ".sp.cta_group::1.kind::f8f6f4 [%r9], %rd4, %rd5, [%r9+64], 0x8040014, 0;", 32.0F},
      {"weight-stationary", "bf16_ones.npy",
       e + ".ws.cta_group::1.kind::f16 [%r9], %rd4, %rd5, 0x8100490, 0;", 16.0F},
      // Two runs of one column each: the first is used.
      {"columns that count as zeros", "bf16_ones.npy",
       e + ".ws.cta_group::1.kind::f16 [%r9], %rd4, %rd5, 0x8100490, 0, 0x8000000000;", -1.0F},
      // 0x38 as ue8m0 is 2^(56 - 127): both factors 2^-142, D is 32 * 2^-142.
      {"scaled", "e4m3_ones.npy",
       scales + e +
           ".cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r9], %rd4, %rd5, 0x8840000, [%r23], [%r24], 0;",
       std::ldexp(32.0F, -142)},
      {"shifted", "bf16_ones.npy",
       "@%p5 tcgen05.cp.cta_group::1.128x256b [%r9+80], %rd4;\n  " + e +
           ".cta_group::1.kind::f16.ashift [%r9], [%r9+80], %rd5, 0x8040490, 0;\n  " + e +
           ".cta_group::1.kind::f16 [%r9], [%r9+80], %rd5, 0x8040490, 1;",
       32.0F}};
  for (const Form& f : forms) {
    std::string text = std::string(kHead) + kProduct;
    text.replace(text.find("METADATA"), 8, "0xeeeeeeee");
    text.replace(text.find("PRODUCTS"), 8, f.products);
    write("product.ptx", text);
    write("product.json", R"({"module": "product.ptx", "launches": [
      {"block": [128], "args": ["in:)" +
                              std::string(f.input) + R"(", "out:f32[128,8]:product.npy"]}]})");
    for (const char* policy : kPolicies) {
      const auto run = run_kiln("emulate product.json --policy " + std::string(policy));
      REQUIRE_MESSAGE(run.status == 0, (f.name + std::string(": ") + run.err + run.out));
      const std::vector<float> y = result("product.npy");
      for (std::size_t i = 0; i < y.size(); ++i)
        CHECK_MESSAGE(y[i] == (f.want >= 0  ? f.want
                               : i % 2 == 0 ? 16.0F
                                            : 0.0F),
                      (f.name + std::string(" ") + std::to_string(i)));
    }
  }
}

TEST_CASE("pixels along W through a tensor map of a launch file") {
  write("wide.ptx", std::string(kHead) + kWide);
  std::vector<float> x(6 * 5 * 16);  // images, W, channels
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  kiln::write_npy(scratch() + "images.npy", kiln::npy_from_floats({6, 5, 16}, x));
  const auto file = [](const std::string& more) {
    write("wide.json", R"({"module": "wide.ptx", "buffers": {"x": "in:images.npy"},
    "tensor_maps": {"m": {"buffer": "x", "type": "f32", "dims": [16, 5, 6], "strides": [64, 320], "box": [16, 24],
                          "swizzle": "64B", "lower_corner": [0], "upper_corner": [0])" +
                           more + R"(}},
    "launches": [{"block": 416, "args": ["map:m", "out:f32[26,16]:wide.npy"]}]})");
  };
  file(R"(, "wide": "w")");
  for (const char* policy : kPolicies) {
    const auto run = run_kiln("emulate wide.json --policy " + std::string(policy));
    REQUIRE_MESSAGE(run.status == 0, (run.err + run.out));
    // From image 1 on: 25 pixels are left, the 26th lies outside.
    const std::vector<float> y = result("wide.npy");
    for (std::size_t i = 0; i < 26 * 16; ++i) CHECK(y[i] == (i < 25 * 16 ? x[80 + i] : 0.0F));
  }
  file("");
  CHECK(run_kiln("emulate wide.json").out.find("an im2col::w copy with an im2col map") != std::string::npos);
  file(R"(, "wide": "w64")");
  const auto refused = run_kiln("emulate wide.json");
  CHECK(refused.status != 0);
  CHECK(refused.err.find("wide 'w64' is none of no, w, w128") != std::string::npos);
}
