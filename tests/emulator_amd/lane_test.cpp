// Instructions that compilers use rarely, one by one: lane movement, selections, packed and narrow formats,
// transposing reads, wide loads to LDS. Each program leaves one 32-bit value per lane.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "emulator/tensor/numeric.hpp"
#include "harness.hpp"

using namespace amd_test;
using u32 = std::uint32_t;

namespace {

/// Runs `body`, which starts with v1 = 4 * lane, v2 = in[lane] and leaves its result in v3.
std::vector<u32> run_lanes(const std::string& target, const std::string& body, const std::vector<u32>& in,
                           bool clean = true) {
  const auto module =
      kernel_from_assembly("v_lshlrev_b32 v1, 2, v0\nglobal_load_dword v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n" +
                               body + "\ns_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dword v1, v3, s[4:5]\n",
                           target, 65536);
  Device d;
  const auto pi = d.upload(in, "in"), po = d.reserve<u32>(64, "out");
  auto l = launch_of({}, {64, 1, 1}, {arg(pi), arg(po)});
  l.policy = emu::Policy::lazy;
  const auto report = amd::launch(d.memory, module, l);
  if (clean) CHECK_MESSAGE(report.findings.empty(), describe(report));
  return d.download<u32>(po, 64);
}

template <class F>
void expect(const std::string& target, const std::string& body, F want) {
  if (!toolchain()) return;
  CAPTURE(target);
  CAPTURE(body);
  std::vector<u32> in(4096);
  Random r(7);
  for (u32& x : in) x = r.next() ^ r.next() << 16;
  const auto got = run_lanes(target, body, in);
  for (u32 l = 0; l < 64; ++l) {
    CAPTURE(l);
    REQUIRE(got[l] == want(in, l));
  }
}
u32 bits(float x) {
  return std::bit_cast<u32>(x);
}

}  // namespace

TEST_CASE("DPP, permutes, swizzles and swaps") {
  using V = const std::vector<u32>&;
  for (const std::string& t : kTargets) {
    expect(t, "v_mov_b32_dpp v3, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return in[l ^ 1]; });
    expect(t, "v_mov_b32_dpp v3, v2 row_ror:4 row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return in[(l & ~15U) | ((l - 4) & 15)]; });
    expect(t, "v_mov_b32 v3, 5\nv_mov_b32_dpp v3, v2 row_shr:3 row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return l % 16 >= 3 ? in[l - 3] : 5; });
    expect(t, "v_mov_b32 v3, 5\nv_mov_b32_dpp v3, v2 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:0",
           [](V in, u32 l) { return l % 16 < 13 ? in[l + 3] : 0; });
    expect(t, "v_mov_b32 v3, 5\nv_mov_b32_dpp v3, v2 row_bcast:15 row_mask:0xa bank_mask:0xf",
           [](V in, u32 l) { return l / 16 % 2 == 1 ? in[l / 16 * 16 - 1] : 5; });
    expect(t, "v_mov_b32 v3, 5\nv_mov_b32_dpp v3, v2 row_bcast:31 row_mask:0xc bank_mask:0xf",
           [](V in, u32 l) { return l >= 32 ? in[31] : 5; });
    expect(t, "v_mov_b32_dpp v3, v2 row_newbcast:6 row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return in[l / 16 * 16 + 6]; });
    expect(t, "v_mov_b32_dpp v3, v2 row_half_mirror row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return in[(l & ~7U) | (7 - l % 8)]; });
    expect(t, "v_add_u32_dpp v3, v2, v0 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf",
           [](V in, u32 l) { return in[l ^ 2] + l; });
    expect(t, "v_xor_b32 v4, 0x80, v1\nds_bpermute_b32 v3, v4, v2", [](V in, u32 l) { return in[l ^ 32]; });
    expect(t, "v_xor_b32 v4, 28, v1\nds_permute_b32 v3, v4, v2", [](V in, u32 l) { return in[l ^ 7]; });
    expect(t, "ds_swizzle_b32 v3, v2 offset:swizzle(SWAP,16)", [](V in, u32 l) { return in[l ^ 16]; });
    expect(t, "ds_swizzle_b32 v3, v2 offset:swizzle(BITMASK_PERM,\"00p1i\")",
           [](V in, u32 l) { return in[(l & 32) | (((l & 5) | 2) ^ 1)]; });
    expect(t, "s_mov_b32 s8, 9\nv_readlane_b32 s9, v2, s8\nv_mov_b32 v3, s9",
           [](V in, u32) { return in[9]; });
    expect(t, "v_mov_b32 v3, v2\nv_writelane_b32 v3, 7, 3", [](V in, u32 l) { return l == 3 ? 7 : in[l]; });
  }
  expect("gfx950", "v_mov_b32 v3, v2\nv_mov_b32 v4, v0\nv_permlane32_swap_b32 v3, v4",
         [](V in, u32 l) { return l < 32 ? in[l] : l - 32; });
  expect("gfx950", "v_mov_b32 v4, v2\nv_mov_b32 v3, v0\nv_permlane32_swap_b32 v4, v3",
         [](V in, u32 l) { return l < 32 ? in[l + 32] : l; });
  expect("gfx950", "v_mov_b32 v3, v2\nv_mov_b32 v4, v0\nv_permlane16_swap_b32 v3, v4",
         [](V in, u32 l) { return l / 16 % 2 == 0 ? in[l] : l - 16; });
}

TEST_CASE("bytes, words and bits") {
  using V = const std::vector<u32>&;
  for (const std::string& t : kTargets) {
    expect(t, "s_mov_b32 s8, 0x05040100\nv_perm_b32 v3, v0, v2, s8",
           [](V in, u32 l) { return l << 16 | (in[l] & 0xffff); });
    expect(t, "s_mov_b32 s8, 0x0c060302\nv_perm_b32 v3, v0, v2, s8",
           [](V in, u32 l) { return in[l] >> 16 | (l >> 16 & 0xff) << 16; });
    expect(t, "v_add_u32_sdwa v3, v2, v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 src1_sel:DWORD",
           [](V in, u32 l) { return (in[l] >> 16 & 0xff) + l; });
    expect(
        t,
        "v_mov_b32 v3, -1\nv_mov_b32_sdwa v3, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
        [](V in, u32 l) { return in[l] << 16 | 0xffff; });
    expect(
        t,
        "v_add_u32_sdwa v3, sext(v2), v0 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD",
        [](V in, u32 l) { return static_cast<u32>(static_cast<std::int8_t>(in[l] >> 8)) + l; });
    expect(t, "v_bfe_i32 v3, v2, 5, 9",
           [](V in, u32 l) { return static_cast<u32>(static_cast<std::int32_t>(in[l] << 18) >> 23); });
    expect(t, "v_alignbit_b32 v3, v2, v0, 12", [](V in, u32 l) { return in[l] << 20 | l >> 12; });
    expect(t, "v_mbcnt_lo_u32_b32 v3, -1, 0\nv_mbcnt_hi_u32_b32 v3, -1, v3", [](V, u32 l) { return l; });
    expect(t, "v_mul_hi_u32 v3, v2, v2",
           [](V in, u32 l) { return static_cast<u32>(std::uint64_t{in[l]} * in[l] >> 32); });
    expect(t, "v_pk_add_u16 v3, v2, v0 op_sel:[1,0] op_sel_hi:[0,0]",
           [](V in, u32 l) { return ((in[l] >> 16) + l) % 65536 | (in[l] + l) << 16; });
    expect(t, "v_cvt_f32_ubyte2 v3, v2",
           [](V in, u32 l) { return bits(static_cast<float>(in[l] >> 16 & 0xff)); });
  }
  expect("gfx950", "v_bitop3_b32 v3, v2, v0, v1 bitop3:0x96", [](V in, u32 l) { return in[l] ^ l ^ 4 * l; });
}

TEST_CASE("modifiers and packed floats") {
  using V = const std::vector<u32>&;
  for (const std::string& t : kTargets) {
    const std::string f = "v_cvt_f32_u32 v4, v0\n";  // v4 = float(lane)
    const auto lane = [](u32 l) { return static_cast<float>(l); };
    expect(t, f + "v_add_f32_e64 v3, -v4, |v4| mul:2", [](V, u32) { return bits(0.0F); });
    expect(t, f + "v_mul_f32_e64 v3, v4, 0.5 clamp",
           [=](V, u32 l) { return bits(std::min(1.0F, lane(l) * 0.5F)); });
    expect(t, f + "v_fma_f32 v3, v4, v4, -v4", [=](V, u32 l) { return bits(lane(l) * lane(l) - lane(l)); });
    expect(t, f + "v_med3_f32 v3, v4, 2.0, 4.0",
           [=](V, u32 l) { return bits(std::clamp(lane(l), 2.0F, 4.0F)); });
    expect(t,
           f + "v_mov_b32 v5, 1.0\nv_pk_mul_f32 v[6:7], v[4:5], v[4:5] op_sel:[0,1] "
               "op_sel_hi:[1,0]\nv_sub_f32 v3, v6, v7",
           [](V, u32) { return bits(0.0F); });
    expect(t,
           f + "v_mov_b32 v5, 3.0\nv_pk_add_f32 v[6:7], v[4:5], v[4:5] neg_lo:[0,1] neg_hi:[0,0]\nv_add_f32 "
               "v3, v6, v7",
           [](V, u32) { return bits(6.0F); });
    expect(t, f + "v_cvt_f16_f32 v5, v4\nv_fma_mix_f32 v3, v5, v4, v4 op_sel_hi:[1,0,0]",
           [=](V, u32 l) { return bits(lane(l) * lane(l) + lane(l)); });
    expect(t, f + "v_cvt_pkrtz_f16_f32 v5, v4, 1.0\nv_pk_fma_f16 v3, v5, v5, v5", [=](V, u32 l) {
      return u32{emu::f32_to_f16(lane(l) * lane(l) + lane(l))} | u32{emu::f32_to_f16(2.0F)} << 16;
    });
    expect(t, "v_mov_b32 v4, -1.0\nv_exp_f32 v3, v4", [](V, u32) { return bits(0.5F); });
  }
  for (const std::string& t : {std::string("gfx942"), std::string("gfx950")}) {
    // 1.0 in the target's FP8: bias 8 (FNUZ) or 7 (OCP).
    const u32 one = t == "gfx942" ? 0x40 : 0x38;
    expect(t,
           "v_mov_b32 v4, 1.0\nv_mov_b32 v3, 0\nv_cvt_pk_fp8_f32 v3, v4, -v4\nv_cvt_pk_fp8_f32 v3, v4, v4 "
           "op_sel:[0,0,1]",
           [=](V, u32) { return one | (one | 0x80) << 8 | one << 16 | one << 24; });
    expect(t,
           "v_mov_b32 v4, 1.0\nv_mov_b32 v5, 0\nv_cvt_pk_fp8_f32 v5, 0, v4\nv_cvt_f32_fp8_sdwa v3, v5 "
           "src0_sel:BYTE_1",
           [](V, u32) { return bits(1.0F); });
  }
  expect("gfx950", "v_mov_b32 v4, 1.0\nv_cvt_pk_bf16_f32 v3, v4, -v4", [](V, u32) { return 0xbf803f80U; });
}

TEST_CASE("an inline constant of a 64-bit operand is a double") {
  using V = const std::vector<u32>&;
  for (const std::string& t : kTargets) {
    // How compilers make the pair of floats (0, 2).
    expect(t, "s_mov_b64 s[8:9], 2.0\nv_mov_b32 v3, s8", [](V, u32) { return 0; });
    expect(t, "s_mov_b64 s[8:9], 2.0\nv_mov_b32 v3, s9", [](V, u32) { return bits(2); });
    expect(t, "s_mov_b32 s8, 2.0\nv_mov_b32 v3, s8", [](V, u32) { return bits(2); });
  }
}

TEST_CASE("transposing LDS reads of gfx950") {
  using V = const std::vector<u32>&;
  // LDS holds in[0..]: lane l writes 16 bytes at 16 l; then every group of 16 lanes turns 128 bytes at 128 *
  // group.
  const std::string fill =
      "v_lshlrev_b32 v4, 4, v0\nglobal_load_dwordx4 v[8:11], v4, s[2:3]\ns_waitcnt vmcnt(0)\nds_write_b128 "
      "v4, v[8:11]\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32 v5, 3, v0\n";
  const auto byte = [](V in, u32 offset) { return in[offset / 4] >> 8 * (offset % 4) & 0xff; };
  const auto word = [](V in, u32 offset) { return in[offset / 4] >> 8 * (offset % 4) & 0xffff; };
  for (u32 half = 0; half < 2; ++half) {
    const std::string take = "\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v3, v" + std::to_string(12 + half);
    // b16: a block of 4 rows x 16 columns, 8 bytes per lane; lane i gets column i.
    expect("gfx950", fill + "ds_read_b64_tr_b16 v[12:13], v5" + take, [=](V in, u32 l) {
      const u32 base = l / 16 * 128 + 2 * (l % 16);
      return word(in, base + 32 * (2 * half)) | word(in, base + 32 * (2 * half + 1)) << 16;
    });
    // b8: 8 rows x 16 columns.
    expect("gfx950", fill + "ds_read_b64_tr_b8 v[12:13], v5" + take, [=](V in, u32 l) {
      u32 v = 0;
      for (u32 r = 0; r < 4; ++r) v |= byte(in, l / 16 * 128 + 16 * (4 * half + r) + l % 16) << 8 * r;
      return v;
    });
  }
}

TEST_CASE("loads to LDS place lanes one after another") {
  using V = const std::vector<u32>&;
  const std::string buffer =
      "s_mov_b64 s[8:9], s[2:3]\ns_and_b32 s9, s9, 0xffff\ns_movk_i32 s10, 0x4000\ns_mov_b32 s11, 0x27000\n";
  // Lane l fetches the word of lane 63 - l; lane l's slot is m0 + imm + 4 l. imm moves both sides.
  for (const std::string& t : kTargets) {
    expect(t,
           buffer +
               "v_sub_u32 v4, 0xfc, v1\ns_movk_i32 m0, 0x400\ns_nop 0\nbuffer_load_dword v4, s[8:11], 0 "
               "offen offset:16 lds\n"
               "s_waitcnt vmcnt(0)\nds_read_b32 v3, v1 offset:1040",
           [](V in, u32 l) { return in[63 - l + 4]; });
    // A lane outside of the buffer brings zeros; a lane that is off leaves its slot alone.
    expect(t,
           buffer +
               "v_mov_b32 v5, 9\nds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)\ns_mov_b32 m0, 0\nv_lshlrev_b32 "
               "v4, 10, v0\ns_mov_b32 exec_hi, 0x0fffffff\n"
               "buffer_load_dword v4, s[8:11], 0 offen lds\ns_mov_b32 exec_hi, -1\ns_waitcnt "
               "vmcnt(0)\nds_read_b32 v3, v1",
           [](V in, u32 l) { return l >= 60  ? 9
                                    : l < 16 ? in[256 * l]
                                             : 0; });
  }
  // 16 bytes per lane: slot m0 + 16 l.
  expect("gfx950",
         buffer +
             "v_lshlrev_b32 v4, 4, v0\ns_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dwordx4 v4, s[8:11], 0 offen "
             "lds\ns_waitcnt vmcnt(0)\nds_read_b32 v3, v4 offset:12",
         [](V in, u32 l) { return in[4 * l + 3]; });
  expect("gfx950",
         "v_lshlrev_b32 v4, 4, v0\ns_mov_b32 m0, 0\ns_nop 0\nglobal_load_lds_dwordx4 v4, s[2:3]\ns_waitcnt "
         "vmcnt(0)\nds_read_b32 v3, v4 offset:4",
         [](V in, u32 l) { return in[4 * l + 1]; });
}

TEST_CASE("d16 loads fill halves and keep the other") {
  using V = const std::vector<u32>&;
  for (const std::string& t : kTargets) {
    expect(t,
           "v_lshlrev_b32 v4, 1, v0\nglobal_load_short_d16 v3, v4, s[2:3]\nglobal_load_short_d16_hi v3, v4, "
           "s[2:3] offset:64",
           [](V in, u32 l) {
             const auto half = [&](u32 i) { return in[i / 2] >> 16 * (i % 2) & 0xffff; };
             return half(l) | half(l + 32) << 16;
           });
    expect(t, "global_load_sbyte v3, v1, s[2:3] offset:1",
           [](V in, u32 l) { return static_cast<u32>(static_cast<std::int8_t>(in[l] >> 8)); });
  }
}
